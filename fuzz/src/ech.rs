//! Hellos with another one inside, for a server that has the key.
//!
//! An input is a program: what is changed in a client's flight, or what stands in the extension of
//! a hello of our own. A server that opens a hello other than the client's has not checked its
//! seal.

use crate::sessions::{extension, hello, identity, prefixed16};
use sealane_awslc::{ClientConnection, ClientContext, ECH_TAG_BYTES, EchSealer};
use sealane_tls::{
    Acceptor, Connection, EchKeyFile, EchKeys, Load, NewEchKey, Secret, ServerSettings, ServerTls,
    new_ech_key,
};
use std::sync::{Arc, LazyLock};

/// The number of the extension (RFC 9849).
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// The first byte says what the rest is.
pub(crate) fn ech_hello(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    match kind % 3 {
        // A first flight.
        0 => _ = status_of(rest),
        // Changes of a client's flight: where, and which bits.
        1 => {
            let genuine = &*FLIGHT;
            let mut flight = genuine.clone();
            for step in rest.chunks_exact(3) {
                let at = usize::from(u16::from_be_bytes([step[0], step[1]])) % flight.len();
                flight[at] ^= step[2];
            }
            // The header of a record is not part of the message.
            let is_genuine = flight[5..] == genuine[5..];
            let opened = status_of(&flight) == "SUCCESS";
            assert!(is_genuine || !opened, "the seal covers the whole hello");
        }
        // The extension itself, with the id of the key.
        _ => {
            let id = SERVER.key.config_list[6];
            let mut offer = rest.to_vec();
            if let Some(place) = offer.get_mut(5) {
                *place = id;
            }
            let mut extensions = usual_extensions();
            extensions.push(extension(ENCRYPTED_CLIENT_HELLO, &offer));
            let status = status_of(&hello(&[], &[0x13, 1], &extensions.concat()));
            assert_ne!(status, "SUCCESS", "nobody has sealed it");
        }
    }
}

/// The input is what a client seals: an inner hello in its encoded form (RFC 9849 section 5.1),
/// which may refer to extensions of the outer one. The seal is good, so that what is inside is
/// read, and refused where it is wrong; it is never taken for made up.
pub(crate) fn ech_inner(data: &[u8]) {
    let status = status_of(&sealed(data));
    assert!(
        ["SUCCESS", ""].contains(&status),
        "a good seal is no {status}"
    );
}

/// A hello with this one inside.
fn sealed(inner: &[u8]) -> Vec<u8> {
    let mut sealer = EchSealer::new(&SERVER.key.config_list).expect("just made");
    let payload_bytes = inner.len() + ECH_TAG_BYTES;
    let offer = [
        // The outer hello, HKDF-SHA256, AES-128-GCM, and the id of the key.
        &[0, 0, 1, 0, 1, SERVER.key.config_list[6]][..],
        &prefixed16(sealer.enc()),
        &prefixed16(&vec![0; payload_bytes]),
    ]
    .concat();
    let mut extensions = usual_extensions();
    // Last, so that the hello ends with the seal.
    extensions.push(extension(ENCRYPTED_CLIENT_HELLO, &offer));
    let mut flight = hello(&[7; 32], &[0x13, 1, 0x13, 3], &extensions.concat());
    // Behind the headers of record and message.
    let seal = sealer.seal(&flight[9..], inner).expect("memory");
    let at = flight.len() - seal.len();
    flight[at..].copy_from_slice(&seal);
    flight
}

/// Enough for a handshake of TLS 1.3.
fn usual_extensions() -> Vec<Vec<u8>> {
    let share = [&[0, 29][..], &prefixed16(&[9; 32])].concat();
    vec![
        extension(43, &[2, 3, 4]),
        extension(10, &prefixed16(&[0, 29])),
        extension(13, &prefixed16(&[4, 3])),
        extension(51, &prefixed16(&share)),
    ]
}

/// What `$ssl_ech_status` is after this flight; empty when the connection has ended.
fn status_of(flight: &[u8]) -> &'static str {
    let mut connection = Connection::accept(&SERVER.acceptor);
    let (mut input, mut output) = (flight, Vec::new());
    match connection.handshake(&mut input, &mut output, Load::default()) {
        Ok(_) => connection.info().map_or("", |info| info.ech_status()),
        Err(_) => "",
    }
}

struct Server {
    acceptor: Acceptor,
    key: NewEchKey,
}

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let key = new_ech_key("public.test").expect("a valid name");
    let block = |label: &str, der: &[u8]| {
        let digits = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, der);
        let mut text = format!("-----BEGIN {label}-----\n");
        for line in digits.as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text + &format!("-----END {label}-----\n")
    };
    let pem = block("PRIVATE KEY", key.pkcs8.expose()) + &block("ECHCONFIG", &key.config_list);
    let files = [EchKeyFile {
        pem: Secret::new(pem.into_bytes()),
        label: "generated".to_owned(),
    }];
    let keys = EchKeys::build(&files).expect("just made");
    let settings = ServerSettings {
        identities: vec![identity()],
        ech: keys.clone().map(|keys| (keys, None)),
        ..ServerSettings::default()
    };
    let (server, _) = ServerTls::build(&settings).expect("valid settings");
    Server {
        acceptor: Acceptor::single(Arc::new(server)).with_ech(keys),
        key,
    }
});

/// What a client sends first: one record.
static FLIGHT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let context = ClientContext::builder().and_then(|builder| builder.build());
    let mut client = ClientConnection::new(&context.expect("memory"), Some("inner.test"));
    let client = client.as_mut().expect("memory");
    client
        .set_ech_configs(&SERVER.key.config_list)
        .expect("just made");
    let mut flight = Vec::new();
    let begun = client.handshake(&mut &[][..], &mut flight);
    begun.expect("it begins");
    assert_eq!(status_of(&flight), "SUCCESS", "the key is known");
    flight
});

#[cfg(test)]
mod tests {
    use super::*;

    /// An encoded inner hello with these extensions.
    fn inner(extensions: &[u8]) -> Vec<u8> {
        [
            &[3, 3][..],
            &[6; 32],
            // No session id, two suites, no compression.
            &[0, 0, 4, 0x13, 1, 0x13, 3, 1, 0],
            &prefixed16(extensions),
        ]
        .concat()
    }

    #[test]
    fn what_is_well_sealed_is_opened_or_refused() {
        let name = extension(
            0,
            &prefixed16(&[&[0][..], &prefixed16(b"inner.test")].concat()),
        );
        let is_inner = extension(ENCRYPTED_CLIENT_HELLO, &[1]);
        let usual = usual_extensions().concat();
        let own = inner(&[&name[..], &is_inner, &usual].concat());
        // The same, by reference to the outer hello.
        let referred = extension(0xfd00, &[8, 0, 43, 0, 10, 0, 13, 0, 51]);
        let referred = inner(&[&name[..], &is_inner, &referred].concat());
        assert_eq!(status_of(&sealed(&own)), "SUCCESS");
        assert_eq!(status_of(&sealed(&referred)), "SUCCESS");
        let padded = [&own[..], &[0; 40]].concat();
        assert_eq!(status_of(&sealed(&padded)), "SUCCESS");
        // Padding is of zeros; references are to what there is, in its order, and once; who seals
        // something says that it is the inner hello.
        let dirty = [&own[..], &[0, 1]].concat();
        let missing = inner(&[&name[..], &is_inner, &extension(0xfd00, &[2, 0, 99])].concat());
        let twice = extension(0xfd00, &[4, 0, 43, 0, 43]);
        let twice = inner(&[&name[..], &is_inner, &twice].concat());
        let order = extension(0xfd00, &[4, 0, 51, 0, 43]);
        let order = inner(&[&name[..], &is_inner, &order].concat());
        let no_mark = inner(&[&name[..], &usual].concat());
        for wrong in [
            &dirty,
            &missing,
            &twice,
            &order,
            &no_mark,
            &own[..30].to_vec(),
        ] {
            assert_eq!(status_of(&sealed(wrong)), "", "{wrong:?}");
        }
    }
}
