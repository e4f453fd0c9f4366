//! The packet, byte by byte.

use super::{MAX_PACKET_BYTES, encode_request};
use crate::cgi::Param;

fn param<'a>(name: &'a [u8], value: &'a [u8]) -> Param<'a> {
    Param::new(name, value).expect("valid")
}

#[test]
fn a_packet() {
    let params = [param(b"A", b"bcd"), param(b"EMPTY", b"")];
    let mut out = b"before".to_vec();
    encode_request(&mut out, 5, 7, params, b"").expect("fits");
    let expected = b"before\x05\x11\x00\x07\x01\x00A\x03\x00bcd\x05\x00EMPTY\x00\x00";
    assert_eq!(out, expected);
    out.clear();
    encode_request(&mut out, 0, 0, [], b"").expect("fits");
    assert_eq!(out, [0; 4]);
    out.clear();
    encode_request(&mut out, 22, 0, [param(b"A", b"b")], b"text").expect("fits");
    assert_eq!(out, b"\x16\x0a\x00\x00\x01\x00A\x01\x00btext");
}

#[test]
fn the_length_has_16_bits() {
    let name = b"N";
    let most = vec![b'v'; MAX_PACKET_BYTES - 5];
    let mut out = Vec::new();
    encode_request(&mut out, 0, 0, [param(name, &most)], b"").expect("fits");
    assert_eq!(out.len(), 4 + MAX_PACKET_BYTES);
    assert_eq!(out[..4], [0, 0xff, 0xff, 0]);

    let more = [&most[..], b"v"].concat();
    let mut out = b"before".to_vec();
    let error = encode_request(&mut out, 0, 0, [param(name, &more)], b"").expect_err("too big");
    let expected = "uwsgi request is too big: 65536 bytes of parameters, 65535 at most";
    assert_eq!(error.to_string(), expected);
    assert_eq!(out, b"before");
    encode_request(&mut out, 0, 0, [param(name, &most), param(b"E", b"")], b"")
        .expect_err("too big");
    encode_request(&mut out, 0, 0, [param(name, &most)], b"s").expect_err("too big");
    assert_eq!(out, b"before");
}
