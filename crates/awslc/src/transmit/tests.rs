//! The records are sealed here, as the kernel would, and opened by libssl's
//! client.

use super::*;
use crate::tests::{handshake, make, server_builder};
use crate::{
    Aead, ClientConnection, ClientContext, ClientContextBuilder, ProtocolVersion, ReadStatus,
};

/// Seals like the kernel: from keys and position alone.
pub(crate) struct Sealer {
    keys: TransmitKeys,
    sequence: u64,
}

impl Sealer {
    pub(crate) fn new(keys: TransmitKeys) -> Sealer {
        Sealer {
            sequence: keys.sequence,
            keys,
        }
    }

    pub(crate) fn seal(&mut self, record_type: u8, plain: &[u8], wire: &mut Vec<u8>) {
        let aead = Aead::for_records(self.keys.cipher, self.keys.key()).expect("the right length");
        let number = self.sequence.to_be_bytes();
        self.sequence += 1;
        let mut nonce = [0; 12];
        let explicit = self.keys.iv().len() == GCM_TLS12_IV_BYTES;
        if explicit {
            nonce[..4].copy_from_slice(self.keys.iv());
            nonce[4..].copy_from_slice(&number);
        } else {
            nonce.copy_from_slice(self.keys.iv());
            for (byte, digit) in nonce[4..].iter_mut().zip(number) {
                *byte ^= digit;
            }
        }
        let mut inner = plain.to_vec();
        let mut associated = Vec::new();
        let outer_type = if self.keys.tls13 {
            inner.push(record_type);
            23
        } else {
            associated.extend_from_slice(&number);
            record_type
        };
        let body_bytes = inner.len() + 16 + if explicit { 8 } else { 0 };
        let header = [
            outer_type,
            3,
            3,
            (body_bytes >> 8) as u8,
            (body_bytes & 0xff) as u8,
        ];
        if self.keys.tls13 {
            associated.extend_from_slice(&header);
        } else {
            associated.extend_from_slice(&header[..3]);
            associated.extend_from_slice(&(plain.len() as u16).to_be_bytes());
        }
        let mut sealed = vec![0; inner.len() + 16];
        aead.seal(&nonce, &associated, &inner, &mut sealed)
            .expect("room for the tag");
        wire.extend_from_slice(&header);
        if explicit {
            wire.extend_from_slice(&number);
        }
        wire.extend_from_slice(&sealed);
    }
}

struct Taken {
    server: Connection,
    client: ClientConnection,
    sealer: Sealer,
}

/// A connection with `suite`, some data sent by libssl, and then taken over.
fn taken(suite: &str, version: ProtocolVersion) -> Taken {
    let made = make(&rcgen::PKCS_RSA_SHA256);
    let context = server_builder(&made).build().expect("memory");
    let mut server = Connection::server(&context).expect("memory");
    let mut client = ClientConnection::new(&client(suite, version), None).expect("memory");
    assert!(
        server.transmit_keys().is_err(),
        "no keys before a handshake"
    );
    handshake(&mut client, &mut server).expect("a suite of both");
    let mut wire = Vec::new();
    server.write(&[7; 40_000], &mut wire).expect("established");
    assert_eq!(read(&mut client, &wire).len(), 40_000);
    let keys = server.transmit_keys().expect("an AEAD suite");
    assert!(keys.sequence > 2, "{keys:?}");
    server.release_transmit();
    Taken {
        server,
        client,
        sealer: Sealer::new(keys),
    }
}

fn client(suite: &str, version: ProtocolVersion) -> ClientContext {
    let build = || -> Result<ClientContext, Error> {
        let mut builder: ClientContextBuilder = ClientContext::builder()?;
        builder.set_protocol_range(version, version)?;
        if version == ProtocolVersion::Tls13 {
            builder.set_ciphersuites(suite)?;
        } else {
            builder.set_cipher_list(suite)?;
        }
        builder.build()
    };
    build().expect("a suite of the library")
}

/// Everything that the client reads from the wire.
fn read(client: &mut ClientConnection, wire: &[u8]) -> Vec<u8> {
    let (mut input, mut received, mut plain) = (wire, Vec::new(), vec![0; 70_000]);
    while let ReadStatus::Data(count) = client
        .read(&mut input, &mut Vec::new(), &mut plain)
        .expect("in sequence")
    {
        received.extend_from_slice(&plain[..count]);
    }
    received
}

const SUITES: [(&str, ProtocolVersion); 8] = [
    ("TLS_AES_128_GCM_SHA256", ProtocolVersion::Tls13),
    ("TLS_AES_256_GCM_SHA384", ProtocolVersion::Tls13),
    ("TLS_CHACHA20_POLY1305_SHA256", ProtocolVersion::Tls13),
    ("ECDHE-RSA-AES128-GCM-SHA256", ProtocolVersion::Tls12),
    ("ECDHE-RSA-AES256-GCM-SHA384", ProtocolVersion::Tls12),
    ("ECDHE-RSA-CHACHA20-POLY1305", ProtocolVersion::Tls12),
    ("AES128-GCM-SHA256", ProtocolVersion::Tls12),
    ("AES256-GCM-SHA384", ProtocolVersion::Tls12),
];

#[test]
fn every_suite_goes_on_under_its_keys_in_other_hands() {
    for (suite, version) in SUITES {
        let mut taken = taken(suite, version);
        let mut wire = Vec::new();
        taken.sealer.seal(23, b"from the kernel", &mut wire);
        taken.sealer.seal(23, &[5; 16_384], &mut wire);
        let received = read(&mut taken.client, &wire);
        assert_eq!(&received[..15], b"from the kernel", "{suite}");
        assert_eq!(received.len(), 15 + 16_384, "{suite}");

        // libssl says goodbye: nothing on the wire, the alert in plain.
        let mut wire = Vec::new();
        taken.server.shutdown(&mut wire);
        assert_eq!((wire.len(), taken.server.take_alert()), (0, Some([1, 0])));
        assert_eq!(taken.server.take_alert(), None);
        taken.sealer.seal(21, &[1, 0], &mut wire);
        let end = taken
            .client
            .read(&mut &wire[..], &mut Vec::new(), &mut [0; 10])
            .expect("in order");
        assert_eq!(end, ReadStatus::CloseNotify, "{suite}");
    }
}

#[test]
fn nothing_of_libssl_passes_the_guard() {
    let Taken {
        mut server,
        mut client,
        ..
    } = taken("TLS_AES_128_GCM_SHA256", ProtocolVersion::Tls13);
    let mut wire = Vec::new();
    assert!(server.write(b"data", &mut wire).is_err());
    assert!(server.write(b"", &mut wire).is_err());
    server.send_alert(80, &mut wire);
    assert_eq!((wire.len(), server.take_alert()), (0, Some([2, 80])));

    // A damaged record is answered with a fatal alert.
    let mut up = Vec::new();
    client.write(b"request", &mut up).expect("established");
    *up.last_mut().expect("a record") ^= 1;
    let mut plain = [0; 100];
    assert!(server.read(&mut &up[..], &mut wire, &mut plain).is_err());
    assert!(wire.is_empty());
}

#[test]
fn a_damaged_record_becomes_an_alert_in_plain() {
    for (suite, version) in [SUITES[0], SUITES[3]] {
        let mut taken = taken(suite, version);
        let mut up = Vec::new();
        taken
            .client
            .write(b"request", &mut up)
            .expect("established");
        *up.last_mut().expect("a record") ^= 1;
        let mut wire = Vec::new();
        let result = taken.server.read(&mut &up[..], &mut wire, &mut [0; 100]);
        assert!(result.is_err() && wire.is_empty(), "{suite}");
        assert_eq!(taken.server.take_alert(), Some([2, 20]), "bad_record_mac");
    }
}

/// The client turns its key and asks for ours.
fn ask_for_key_update(client: &mut ClientConnection, wire: &mut Vec<u8>) {
    client.update_keys().expect("TLS 1.3");
    client.write(b"x", wire).expect("established");
}

#[test]
fn a_key_update_is_told_once_and_turns_the_key() {
    for (suite, version) in &SUITES[..3] {
        let mut taken = taken(suite, *version);
        let mut up = Vec::new();
        for _ in 0..3 {
            ask_for_key_update(&mut taken.client, &mut up);
        }
        let mut wire = Vec::new();
        let status = taken.server.read(&mut &up[..], &mut wire, &mut [0; 100]);
        assert_eq!(status, Ok(ReadStatus::Data(3)));
        assert!(taken.server.is_key_update_due() && wire.is_empty());

        taken.sealer.seal(22, &[24, 0, 0, 1, 0], &mut wire);
        let keys = taken.server.next_transmit_keys().expect("TLS 1.3");
        assert!(!taken.server.is_key_update_due());
        taken.sealer = Sealer::new(keys);
        taken.sealer.seal(23, b"under the new key", &mut wire);

        // Once more, of our own accord.
        taken.sealer.seal(22, &[24, 0, 0, 1, 0], &mut wire);
        let keys = taken.server.next_transmit_keys().expect("TLS 1.3");
        taken.sealer = Sealer::new(keys);
        taken.sealer.seal(23, b", and the next", &mut wire);
        assert_eq!(
            read(&mut taken.client, &wire),
            b"under the new key, and the next",
            "{suite}"
        );
    }
}

#[test]
fn no_new_key_without_guard_or_before_tls13() {
    let mut taken = taken(SUITES[3].0, SUITES[3].1);
    assert!(taken.server.next_transmit_keys().is_err());
    let made = make(&rcgen::PKCS_RSA_SHA256);
    let context = server_builder(&made).build().expect("memory");
    let mut server = Connection::server(&context).expect("memory");
    assert!(server.next_transmit_keys().is_err());
}

#[test]
fn cbc_suites_cannot_be_taken() {
    let made = make(&rcgen::PKCS_RSA_SHA256);
    let mut builder = server_builder(&made);
    builder.set_cipher_list("ALL").expect("known");
    let context = builder.build().expect("memory");
    let mut server = Connection::server(&context).expect("memory");
    let context = client("ECDHE-RSA-AES128-SHA", ProtocolVersion::Tls12);
    let mut client = ClientConnection::new(&context, None).expect("memory");
    handshake(&mut client, &mut server).expect("a suite of both");
    assert_eq!(server.record_cipher(), None);
    assert!(server.transmit_keys().is_err());
}

#[test]
fn debug_output_shows_no_key() {
    let taken = taken(SUITES[1].0, SUITES[1].1);
    let shown = format!("{:?}", taken.sealer.keys);
    assert!(
        shown.contains("redacted") && shown.contains("TLSv1.3"),
        "{shown}"
    );
    assert!(shown.len() < 80, "{shown}");
}
