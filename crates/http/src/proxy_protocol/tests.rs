//! Decoding and encoding headers of both versions.

use std::net::SocketAddr;

use proptest::prelude::*;

use super::encode::crc32c;
use super::*;

fn read(buf: &[u8]) -> Result<Header, ProxyProtocolError> {
    match parse(buf)? {
        Parsed::Complete(header) => Ok(header),
        Parsed::Incomplete => panic!("incomplete: {:?}", buf.escape_ascii().to_string()),
    }
}

fn addresses(source: &str, destination: &str) -> Addresses {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    Addresses {
        source: address(source),
        destination: address(destination),
    }
}

/// A header of version 2.
fn binary(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = (block.len() as u16).to_be_bytes();
    [
        b"\r\n\r\n\0\r\nQUIT\n",
        &[command, family][..],
        &length,
        block,
    ]
    .concat()
}

const BLOCK_V4: [u8; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 0x04, 0xd2, 0x01, 0xbb];

#[test]
fn lines_of_version_1() {
    for (line, expected) in [
        (
            "PROXY TCP4 1.2.3.4 5.6.7.8 1234 443",
            Some(addresses("1.2.3.4:1234", "5.6.7.8:443")),
        ),
        (
            "PROXY TCP6 2001:DB8::1 ::1 65535 0",
            Some(addresses("[2001:db8::1]:65535", "[::1]:0")),
        ),
        // As in nginx the word does not bind the addresses.
        (
            "PROXY TCP4 ::1 1.2.3.4 1 2",
            Some(addresses("[::1]:1", "1.2.3.4:2")),
        ),
        ("PROXY UNKNOWN", None),
        ("PROXY UNKNOWN ffff::1 ::2 1 2", None),
    ] {
        let wire = format!("{line}\r\nGET /");
        let header = read(wire.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(header.addresses, expected, "{line}");
        assert_eq!(header.header_bytes, line.len() + 2);
        assert!(header.tlvs.is_empty());
    }
}

#[test]
fn broken_lines_of_version_1() {
    for line in [
        "GET / HTTP/1.1\r\n",
        "proxy TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY\r\n",
        "PROXY \r\n",
        "PROXY  TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 -1 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n",
        "PROXY TCP4 1.2.3.4  5.6.7.8 1 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r ",
        "PROXY TCP4 1.2.3.4 \u{e4} 1 2\r\n",
        "PROXY UNKNOWN\n",
        "PROXY INVALID",
        "PROXY TCP5",
    ] {
        let error = read(line.as_bytes()).expect_err(line);
        assert!(
            matches!(error, ProxyProtocolError::Broken { .. }),
            "{line:?}"
        );
        assert_eq!(error.to_string(), "broken header");
        let quoted = error
            .excerpt()
            .expect("quotes the line")
            .of(line.as_bytes());
        assert!(!quoted.is_empty() && !quoted.contains(&b'\n'), "{line:?}");
    }
}

#[test]
fn version_1_ends_within_107_bytes() {
    let longest = "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff \
        ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n";
    assert!(longest.len() <= MAX_V1_BYTES);
    read(longest.as_bytes()).expect("valid");
    let line = |bytes: usize| {
        let mut line = b"PROXY UNKNOWN ".to_vec();
        line.resize(bytes - 2, b'x');
        line.extend_from_slice(b"\r\n");
        line
    };
    assert_eq!(
        read(&line(MAX_V1_BYTES)).expect("fits").header_bytes,
        MAX_V1_BYTES
    );
    let long = line(MAX_V1_BYTES + 1);
    for available in [MAX_V1_BYTES, long.len()] {
        assert!(parse(&long[..available]).is_err(), "{available}");
    }
    assert_eq!(parse(&long[..MAX_V1_BYTES - 1]), Ok(Parsed::Incomplete));
}

#[test]
fn headers_of_version_2() {
    let mut block_v6 = vec![0; 36];
    (block_v6[15], block_v6[31], block_v6[33], block_v6[35]) = (1, 2, 80, 81);
    for (wire, expected, tlv_bytes) in [
        (
            binary(0x21, 0x11, &BLOCK_V4),
            Some(addresses("1.2.3.4:1234", "5.6.7.8:443")),
            0,
        ),
        (
            binary(0x21, 0x11, &[&BLOCK_V4[..], b"tlvs"].concat()),
            Some(addresses("1.2.3.4:1234", "5.6.7.8:443")),
            4,
        ),
        (
            binary(0x21, 0x21, &block_v6),
            Some(addresses("[::1]:80", "[::2]:81")),
            0,
        ),
        // LOCAL, datagrams, unix sockets, unspecified: the connection's own addresses.
        (binary(0x20, 0x11, &BLOCK_V4), None, 0),
        (binary(0x20, 0x00, b""), None, 0),
        (binary(0x21, 0x12, &BLOCK_V4), None, 0),
        (binary(0x21, 0x31, &[0; 216]), None, 0),
        (binary(0x21, 0x00, b"what"), None, 0),
    ] {
        let with_more = [&wire[..], b"GET /"].concat();
        let header = read(&with_more).expect("valid");
        assert_eq!(header.addresses, expected);
        assert_eq!(header.header_bytes, wire.len());
        assert_eq!(header.tlvs.len(), tlv_bytes);
        for end in 0..wire.len() {
            assert_eq!(parse(&wire[..end]), Ok(Parsed::Incomplete), "{end}");
        }
    }
}

#[test]
fn broken_headers_of_version_2() {
    let large = binary(0x21, 0x11, &[0; MAX_V2_BYTES - 15]);
    for (wire, expected) in [
        (
            binary(0x11, 0x11, &BLOCK_V4),
            ProxyProtocolError::UnknownVersion(1),
        ),
        (
            binary(0x22, 0x11, &BLOCK_V4),
            ProxyProtocolError::UnknownCommand(2),
        ),
        (
            binary(0x21, 0x11, &BLOCK_V4[1..]),
            ProxyProtocolError::ShortAddresses,
        ),
        (
            binary(0x21, 0x21, &BLOCK_V4),
            ProxyProtocolError::ShortAddresses,
        ),
        (large, ProxyProtocolError::TooLarge { bytes: 4097 }),
    ] {
        assert_eq!(read(&wire), Err(expected));
        // And before the rest of it has come.
        assert_eq!(parse(&wire[..16]), Err(expected));
    }
    let largest = binary(0x21, 0x11, &[0; MAX_V2_BYTES - 16]);
    assert_eq!(read(&largest).expect("fits").header_bytes, MAX_V2_BYTES);
    let error = read(b"\r\n\r\n\0\r\nQUIX\n").expect_err("no signature");
    assert!(matches!(error, ProxyProtocolError::Broken { .. }));
}

#[test]
fn extensions_by_nginx_name() {
    let mut inner = vec![0x07, 0, 0, 0, 9];
    inner.extend_from_slice(b"\x21\0\x07TLSv1.3\x22\0\x03cn!\x22\0\x01x\x23\0\0");
    let mut block = b"\x01\0\x02h2\x02\0\x01a".to_vec();
    block.extend_from_slice(&[0x20, 0, inner.len() as u8]);
    block.extend_from_slice(&inner);
    block.extend_from_slice(b"\x05\0\x02id\xe0\0\x01?");
    for (name, expected) in [
        ("alpn", Some(&b"h2"[..])),
        ("authority", Some(b"a")),
        ("unique_id", Some(b"id")),
        ("netns", None),
        ("0xe0", Some(b"?")),
        ("0xE0", Some(b"?")),
        ("0x1", Some(b"h2")),
        ("0xe1", None),
        ("ssl", Some(&inner[..])),
        ("ssl_verify", Some(b"9")),
        ("ssl_version", Some(b"TLSv1.3")),
        ("ssl_cn", Some(b"cn!")),
        ("ssl_0x22", Some(b"cn!")),
        ("ssl_cipher", Some(b"")),
        ("ssl_sig_alg", None),
        ("ssl_key_alg", None),
    ] {
        let name = TlvName::parse(name).expect(name);
        let value = Tlvs::new(&block).value(name).expect("not broken");
        assert_eq!(value.as_deref(), expected, "{name:?}");
    }
    for name in [
        "",
        "x",
        "ALPN",
        "ssl_",
        "ssl_x",
        "0x",
        "0xg",
        "0x+1",
        "0x100",
        "ssl_verify2",
    ] {
        let error = TlvName::parse(name).expect_err(name);
        let expected = format!("unknown PROXY protocol TLV \"{name}\"");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn broken_extensions() {
    let name = TlvName::Plain(5);
    for block in [
        &b"\x01"[..],
        b"\x01\0",
        b"\x01\0\x02h",
        b"\x05\xff\xff",
        b"\x01\0\0\x05",
    ] {
        assert_eq!(Tlvs::new(block).value(name), Err(BrokenTlv));
        let errors = Tlvs::new(block).filter(Result::is_err).count();
        assert_eq!(errors, 1, "and no more after it");
    }
    // What comes after the wanted one is not looked at, as in nginx.
    let found = Tlvs::new(b"\x05\0\x01a\xff")
        .value(name)
        .expect("found before");
    assert_eq!(found.as_deref(), Some(&b"a"[..]));
    let short = b"\x20\0\x04\x01\0\0\0";
    assert_eq!(Tlvs::new(short).value(TlvName::SslVerify), Err(BrokenTlv));
    assert_eq!(Tlvs::new(b"").value(TlvName::SslVerify), Ok(None));
}

#[test]
fn what_is_written() {
    let mut out = Vec::new();
    encode_v1(&mut out, Some(&addresses("1.2.3.4:1234", "5.6.7.8:443")));
    encode_v1(&mut out, Some(&addresses("[2001:db8::1]:1", "[::1]:2")));
    encode_v1(&mut out, Some(&addresses("1.2.3.4:1", "[::1]:2")));
    encode_v1(&mut out, None);
    let expected = "PROXY TCP4 1.2.3.4 5.6.7.8 1234 443\r\nPROXY TCP6 2001:db8::1 ::1 1 2\r\n\
        PROXY TCP6 ::ffff:1.2.3.4 ::1 1 2\r\nPROXY UNKNOWN\r\n";
    assert_eq!(std::str::from_utf8(&out), Ok(expected));

    let mut out = b"before".to_vec();
    let tlvs = [Tlv {
        kind: 1,
        value: b"h2",
    }];
    let both = addresses("1.2.3.4:1234", "5.6.7.8:443");
    encode_v2(&mut out, Some(&both), tlvs).expect("fits");
    let expected = binary(0x21, 0x11, &[&BLOCK_V4[..], b"\x01\0\x02h2"].concat());
    assert_eq!(out[6..], expected);
    let mut out = b"before".to_vec();
    encode_v2(&mut out, None, []).expect("fits");
    assert_eq!(out[6..], binary(0x20, 0, b""));

    let value = vec![0; 65536 - 12 - 3];
    let tlvs = [Tlv {
        kind: 1,
        value: &value,
    }];
    let error = encode_v2(&mut out, Some(&both), tlvs).expect_err("too long");
    assert_eq!(error, TlvTooLong { bytes: 65536 });
    assert_eq!(out.len(), 6 + 16, "as it was");
}

/// A header with all that is said about TLS, and the checksum over it: CRC-32C of the header with
/// zeros in its place, by the table of RFC 3720 appendix B.4 (32 bytes of zeros: aa 36 91 8a).
#[test]
fn what_is_said_about_tls() {
    let mut ssl = SslTlvBuilder::new(ssl_client::SSL | ssl_client::CERT_SESS, 20);
    ssl.push(tlv_type::SSL_VERSION, b"TLSv1.3");
    ssl.push(tlv_type::SSL_CN, &vec![b'x'; 65_536]);
    ssl.push(tlv_type::SSL_KEY_ALG, b"EC256");
    let value = b"\x05\0\0\0\x14\x21\0\x07TLSv1.3\x25\0\x05EC256";
    assert_eq!(ssl.value(), value, "one that is too long is left out");

    let tlvs = [
        Tlv {
            kind: tlv_type::AUTHORITY,
            value: b"a.test",
        },
        Tlv {
            kind: tlv_type::SSL,
            value: ssl.value(),
        },
    ];
    let both = addresses("1.2.3.4:1234", "5.6.7.8:443");
    let mut out = b"before".to_vec();
    encode_v2_with_checksum(&mut out, ClientTransport::Tcp, Some(&both), tlvs).expect("fits");
    let header = read(&out[6..]).expect("valid");
    assert_eq!(header.header_bytes, out.len() - 6);
    let said = Tlvs::new(header.tlvs.of(&out[6..]));
    assert_eq!(said.find(tlv_type::AUTHORITY), Ok(Some(&b"a.test"[..])));
    assert_eq!(said.find(tlv_type::SSL), Ok(Some(&value[..])));
    let verify = said.value(TlvName::SslVerify).expect("valid");
    assert_eq!(verify.as_deref(), Some(&b"20"[..]));
    let sum = said.find(tlv_type::CRC32C).expect("valid").expect("there");
    let mut zeroed = out[6..].to_vec();
    let at = zeroed.len() - 4;
    assert_eq!(&zeroed[at..], sum, "it is the last one");
    zeroed[at..].fill(0);
    assert_eq!(sum, crc32c(&zeroed).to_be_bytes());
    assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);

    let long = Tlv {
        kind: tlv_type::ALPN,
        value: &vec![0; 65_530],
    };
    encode_v2_with_checksum(&mut out, ClientTransport::Tcp, Some(&both), [long])
        .expect_err("too long");
    assert_eq!(out.len(), 6 + header.header_bytes, "as it was");
}

fn any_address() -> impl Strategy<Value = SocketAddr> {
    any::<(std::net::IpAddr, u16)>().prop_map(SocketAddr::from)
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        source in any_address(),
        destination in any_address(),
        known in any::<bool>(),
        value in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let both = Addresses { source, destination };
        let both = known.then_some(both);
        let canonical = |address: SocketAddr| (address.ip().to_canonical(), address.port());
        let expected = both.map(|both| (canonical(both.source), canonical(both.destination)));
        let mut v1 = Vec::new();
        encode_v1(&mut v1, both.as_ref());
        let mut v2 = Vec::new();
        let tlvs = [Tlv { kind: 0xe0, value: &value }];
        encode_v2(&mut v2, both.as_ref(), tlvs).expect("fits");
        for wire in [v1, v2] {
            let header = read(&wire).expect("valid");
            let read = header.addresses.map(|both| (canonical(both.source), canonical(both.destination)));
            prop_assert_eq!(read, expected);
            prop_assert_eq!(header.header_bytes, wire.len());
            if !header.tlvs.is_empty() {
                let found = Tlvs::new(header.tlvs.of(&wire)).find(0xe0);
                prop_assert_eq!(found, Ok(Some(&value[..])));
            }
        }
    }
}

#[test]
fn datagrams_are_announced_as_such() {
    let families = [
        ("1.2.3.4:1", "5.6.7.8:2", 0x11, 0x12),
        ("[::1]:1", "[::2]:2", 0x21, 0x22),
        ("1.2.3.4:1", "[::2]:2", 0x21, 0x22),
    ];
    for (source, destination, tcp, udp) in families {
        let both = addresses(source, destination);
        for (transport, family) in [(ClientTransport::Tcp, tcp), (ClientTransport::Udp, udp)] {
            let mut out = Vec::new();
            encode_v2_with_checksum(&mut out, transport, Some(&both), []).expect("fits");
            assert_eq!(out[13], family, "{source} {transport:?}");
        }
    }
    let mut out = Vec::new();
    encode_v2_with_checksum(&mut out, ClientTransport::Udp, None, []).expect("fits");
    assert_eq!(out[12..14], [0x20, 0], "nothing is known of the client");
}
