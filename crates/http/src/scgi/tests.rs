//! The netstring, byte by byte.

use super::encode_request;
use crate::cgi::Param;

fn param<'a>(name: &'a [u8], value: &'a [u8]) -> Param<'a> {
    Param::new(name, value).expect("valid")
}

#[test]
fn the_example_of_the_specification_with_the_length_once() {
    let params = [
        param(b"SCGI", b"1"),
        param(b"CONTENT_LENGTH", b"28"),
        param(b"REQUEST_METHOD", b"POST"),
        param(b"REQUEST_URI", b"/deepthought"),
    ];
    let mut out = Vec::new();
    encode_request(&mut out, 27, params);
    let expected = b"70:CONTENT_LENGTH\x0027\0SCGI\x001\0REQUEST_METHOD\0POST\0\
        REQUEST_URI\0/deepthought\0,";
    assert_eq!(
        out.escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
}

#[test]
fn the_length_counts_the_bytes() {
    for value_bytes in [0, 1, 8, 9, 90, 1000, 70000] {
        let value = vec![b'v'; value_bytes];
        let mut out = b"before".to_vec();
        encode_request(&mut out, 0, [param(b"N", &value)]);
        let netstring = &out[6..];
        let colon = netstring
            .iter()
            .position(|&byte| byte == b':')
            .expect("a netstring");
        let length: usize = std::str::from_utf8(&netstring[..colon])
            .expect("digits")
            .parse()
            .expect("digits");
        assert_eq!(netstring.len(), colon + 1 + length + 1);
        assert_eq!(netstring.last(), Some(&b','));
    }
}
