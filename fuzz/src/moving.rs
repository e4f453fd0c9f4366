//! What one process packs of a connection and another unpacks.

use sealane_tls::{Connection, Packed, UnpackError, library_version};

use crate::sessions;

/// Number of the format whose seeds these are.
const FORMAT: [u8; 2] = [0, 4];

/// `data` behind a head that fits: it is refused, or makes a connection that can be used in
/// every way, whatever comes of that.
pub(crate) fn packed(data: &[u8]) {
    let version = library_version().as_bytes();
    let mut bytes = FORMAT.to_vec();
    bytes.push(u8::try_from(version.len()).expect("a short text"));
    bytes.extend_from_slice(version);
    bytes.extend_from_slice(&u32::try_from(data.len()).expect("limited").to_be_bytes());
    bytes.extend_from_slice(data);
    let packed = match Packed::from_bytes(&bytes) {
        Ok(packed) => packed,
        Err(error) => {
            assert_ne!(error, UnpackError::OtherVersion, "the seeds are of another");
            return;
        }
    };
    let Ok(mut connection) = Connection::unpack(sessions::acceptor(), packed) else {
        return;
    };
    let (mut output, mut plain) = (Vec::new(), [0; 100]);
    if let Some(info) = connection.info() {
        let _ = (
            info.ciphers(),
            info.curves(),
            info.curve(),
            info.sigalg(),
            info.sigalgs(),
            info.ja4().len(),
        );
        let _ = (info.session_id(), info.server_name(), info.alpn());
    }
    let _ = connection.settle_ktls(true);
    let _ = connection.write(&[7; 20_000], 0, &mut output);
    let _ = connection.read(&mut &[23; 50][..], &mut output, &mut plain);
    if let Ok(packed) = connection.pack() {
        let again = packed.into_bytes();
        assert!(Packed::from_bytes(again.expose()).is_ok());
    }
}
