//! The integrity tag of Retry packets (RFC 9001 section 5.8).

use std::sync::OnceLock;

use sealane_awslc::{Aead, RecordCipher};

use super::version::Version;

/// Bytes of the tag at the end of a Retry packet.
pub const RETRY_TAG_BYTES: usize = Aead::TAG_BYTES;

/// The tag of a Retry packet, given without its tag, for a client that has sent its first Initial
/// packet to `original_id`. It proves nothing but that the server has seen that packet: the key is
/// in the RFC.
///
/// # Panics
///
/// When the id is longer than 255 bytes.
pub fn retry_tag(version: Version, original_id: &[u8], packet: &[u8]) -> [u8; RETRY_TAG_BYTES] {
    static AEADS: [OnceLock<Aead>; 2] = [OnceLock::new(), OnceLock::new()];
    let retry = version.retry_key();
    let aead = AEADS[version as usize].get_or_init(|| {
        Aead::for_records(RecordCipher::Aes128Gcm, &retry.key).expect("a key of 16 bytes")
    });
    let id_bytes = u8::try_from(original_id.len()).expect("ids have at most 20 bytes");
    let mut pseudo_packet = Vec::with_capacity(1 + original_id.len() + packet.len());
    pseudo_packet.push(id_bytes);
    pseudo_packet.extend_from_slice(original_id);
    pseudo_packet.extend_from_slice(packet);
    let mut tag = [0; RETRY_TAG_BYTES];
    let sealed = aead.seal(&retry.nonce, &pseudo_packet, &[], &mut tag);
    assert_eq!(sealed, Some(tag.len()), "there is room for the tag");
    tag
}
