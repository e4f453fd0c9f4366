//! Hellos with another one inside, for a server that has the key.
//!
//! An input is a program: what is changed in a client's flight, or what stands in the extension of
//! a hello of our own. A server that opens a hello other than the client's has not checked its
//! seal.

use crate::sessions::{extension, hello, identity, prefixed16};
use sealane_awslc::{ClientConnection, ClientContext};
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
            let extensions = [
                extension(43, &[2, 3, 4]),
                extension(10, &prefixed16(&[0, 29])),
                extension(13, &prefixed16(&[4, 3])),
                extension(
                    51,
                    &prefixed16(&[&[0, 29][..], &prefixed16(&[9; 32])].concat()),
                ),
                extension(ENCRYPTED_CLIENT_HELLO, &offer),
            ];
            let status = status_of(&hello(&[], &[0x13, 1], &extensions.concat()));
            assert_ne!(status, "SUCCESS", "nobody has sealed it");
        }
    }
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
