//! AWS-LC opens the records: under the same key and number, and as a client whose server switched
//! to the writer in mid-connection.

use sealane_awslc::{
    Aead, CertificateChain, ClientConnection, ClientContext, Connection, ContextBuilder,
    HandshakeStatus, PrivateKey, ProtocolVersion, ReadStatus, RecordCipher,
};
use sealane_vector::{Exhausted, MAX_RECORD_BYTES, RecordWriter, TAG_BYTES, Version};

const KEY: [u8; 32] = [0x5c; 32];
const IV: [u8; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

fn writer(version: Version, sequence: u64) -> Option<RecordWriter> {
    let writer = RecordWriter::new(version, &KEY, &IV, sequence);
    if writer.is_none() {
        sealane_needs::leave_out("this processor has no AVX-512 IFMA");
    }
    writer
}

/// A record at the front of the bytes, opened as RFC 8446 section 5.2 or RFC 7905 say.
fn open(version: Version, sequence: u64, bytes: &mut &[u8]) -> (u8, Vec<u8>) {
    let (header, rest) = bytes.split_at(5);
    let sealed_bytes = usize::from(u16::from_be_bytes([header[3], header[4]]));
    let (sealed, rest) = rest.split_at(sealed_bytes);
    *bytes = rest;
    assert_eq!(header[1..3], [3, 3]);
    let mut nonce = IV;
    for (byte, number) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
        *byte ^= number;
    }
    let text_bytes = (sealed_bytes - TAG_BYTES) as u16;
    let associated = match version {
        Version::Tls13 => header.to_vec(),
        Version::Tls12 => [
            &sequence.to_be_bytes(),
            &header[..3],
            &text_bytes.to_be_bytes(),
        ]
        .concat(),
    };
    let mut plain = vec![0; sealed_bytes];
    let length = Aead::for_records(RecordCipher::ChaCha20Poly1305, &KEY)
        .expect("the key has 32 bytes")
        .open(&nonce, &associated, sealed, &mut plain)
        .expect("the record is authentic");
    plain.truncate(length);
    let record_type = match version {
        Version::Tls13 => {
            assert_eq!(header[0], APPLICATION_DATA);
            plain.pop().expect("there is a type")
        }
        Version::Tls12 => header[0],
    };
    (record_type, plain)
}

#[test]
fn records_are_numbered_typed_and_as_long_as_asked_for() {
    let text: Vec<u8> = (0..40_000_u32).map(|i| (i * 7 % 251) as u8).collect();
    for version in [Version::Tls12, Version::Tls13] {
        // Across the carry of a byte of the sequence number.
        let first = 0x1ff;
        let Some(mut writer) = writer(version, first) else {
            return;
        };
        let mut output = b"before".to_vec();
        writer
            .write(APPLICATION_DATA, &text, MAX_RECORD_BYTES, &mut output)
            .unwrap();
        writer
            .write(HANDSHAKE, &text[..3000], 1369, &mut output)
            .unwrap();
        writer
            .write(APPLICATION_DATA, &[], 100, &mut output)
            .unwrap();
        assert_eq!(writer.sequence(), Some(first + 6));
        let mut rest = output.strip_prefix(b"before").unwrap();
        let records: Vec<_> = (first..first + 6)
            .map(|sequence| open(version, sequence, &mut rest))
            .collect();
        assert!(rest.is_empty());
        let shape: Vec<_> = records
            .iter()
            .map(|(record_type, plain)| (*record_type, plain.len()))
            .collect();
        let expected = [
            (APPLICATION_DATA, 16_384),
            (APPLICATION_DATA, 16_384),
            (APPLICATION_DATA, 7232),
            (HANDSHAKE, 1369),
            (HANDSHAKE, 1369),
            (HANDSHAKE, 262),
        ];
        assert_eq!(shape, expected);
        let plain: Vec<u8> = records.into_iter().flat_map(|(_, plain)| plain).collect();
        assert_eq!(plain, [text.as_slice(), &text[..3000]].concat());
    }
}

/// Libssl writes first, the writer goes on, and libssl's client reads both.
#[test]
fn a_client_reads_on() {
    let text: Vec<u8> = (0..100_000_u32).map(|i| (i * 11 % 241) as u8).collect();
    for (version, protocol) in [
        (Version::Tls12, ProtocolVersion::Tls12),
        (Version::Tls13, ProtocolVersion::Tls13),
    ] {
        let (mut client, mut server) = connected(protocol);
        let mut wire = Vec::new();
        let (first, second) = text.split_at(30_000);
        server.write(first, &mut wire).expect("it is connected");
        let keys = server.transmit_keys().expect("the suite can be taken over");
        assert_eq!(keys.cipher, RecordCipher::ChaCha20Poly1305);
        server.release_transmit();
        let key = keys.key().try_into().expect("32 bytes");
        let iv = keys.iv().try_into().expect("12 bytes");
        let Some(mut writer) = RecordWriter::new(version, key, iv, keys.sequence) else {
            return sealane_needs::leave_out("this processor has no AVX-512 IFMA");
        };
        for part in second.chunks(35_001) {
            writer
                .write(APPLICATION_DATA, part, MAX_RECORD_BYTES, &mut wire)
                .expect("numbers are left");
        }
        assert!(read(&mut client, &wire) == text, "{version:?}");
    }
}

/// Both ends of a connection with ChaCha20-Poly1305.
fn connected(protocol: ProtocolVersion) -> (ClientConnection, Connection) {
    let key = rcgen::KeyPair::generate().expect("supported");
    let params = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("the key signs");
    let chain = CertificateChain::from_pem(certificate.pem().as_bytes()).expect("just made");
    let key = PrivateKey::from_pem(key.serialize_pem().as_bytes(), &[]).expect("just made");
    let mut builder = ContextBuilder::new().expect("memory");
    builder.set_identity(&chain, &key).expect("they match");
    let mut server = Connection::server(&builder.build().expect("memory")).expect("memory");

    let mut builder = ClientContext::builder().expect("memory");
    builder
        .set_protocol_range(protocol, protocol)
        .and_then(|()| match protocol {
            ProtocolVersion::Tls13 => builder.set_ciphersuites("TLS_CHACHA20_POLY1305_SHA256"),
            _ => builder.set_cipher_list("ECDHE-ECDSA-CHACHA20-POLY1305"),
        })
        .expect("the library has it");
    let context = builder.build().expect("memory");
    let mut client = ClientConnection::new(&context, None).expect("memory");

    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let mut is_done = [false; 2];
    while is_done != [true; 2] {
        let status = client.handshake(&mut &to_client[..], &mut to_server);
        is_done[0] = status.expect("a handshake") == HandshakeStatus::Done;
        to_client.clear();
        let status = server.do_handshake(&mut &to_server[..], &mut to_client);
        is_done[1] = status.expect("a handshake") == HandshakeStatus::Done;
        to_server.clear();
    }
    (client, server)
}

/// Everything that the client finds in `wire`.
fn read(client: &mut ClientConnection, wire: &[u8]) -> Vec<u8> {
    let (mut input, mut answers, mut text) = (wire, Vec::new(), Vec::new());
    let mut part = vec![0; MAX_RECORD_BYTES];
    while let ReadStatus::Data(count) = client
        .read(&mut input, &mut answers, &mut part)
        .expect("every record is authentic")
    {
        assert_ne!(count, 0, "data has bytes");
        text.extend_from_slice(&part[..count]);
    }
    text
}

/// A length that no record can have is brought into range, in both directions.
#[test]
fn record_lengths_are_kept_in_range() {
    let Some(mut writer) = writer(Version::Tls13, 0) else {
        return;
    };
    let mut output = Vec::new();
    writer
        .write(APPLICATION_DATA, b"abc", 0, &mut output)
        .unwrap();
    let text = vec![1; MAX_RECORD_BYTES + 1];
    writer
        .write(APPLICATION_DATA, &text, usize::MAX, &mut output)
        .unwrap();
    let mut rest = output.as_slice();
    for (sequence, length) in [1, 1, 1, MAX_RECORD_BYTES, 1].into_iter().enumerate() {
        let (_, plain) = open(Version::Tls13, sequence as u64, &mut rest);
        assert_eq!(plain.len(), length);
    }
}

/// Numbers never start over, and the last one is used.
#[test]
fn the_last_number_is_the_last() {
    let Some(mut writer) = writer(Version::Tls13, u64::MAX) else {
        return;
    };
    let mut output = Vec::new();
    let written = writer.write(APPLICATION_DATA, b"ab", 1, &mut output);
    assert_eq!(written, Err(Exhausted));
    let mut rest = output.as_slice();
    let record = open(Version::Tls13, u64::MAX, &mut rest);
    assert_eq!(record, (APPLICATION_DATA, b"a".to_vec()));
    assert!(
        rest.is_empty(),
        "nothing was written behind the last record"
    );
    assert_eq!(writer.sequence(), None);
}

#[test]
fn debug_output_shows_no_key() {
    let Some(writer) = writer(Version::Tls12, 7) else {
        return;
    };
    let shown = format!("{writer:?}");
    assert_eq!(shown, "RecordWriter(Tls12, next record Some(7), redacted)");
}
