//! The netstring, byte by byte.

use super::encode_request;

type Params<'a> = &'a [(&'a [u8], &'a [u8])];

#[test]
fn the_example_of_the_specification() {
    let params: Params<'_> = &[
        (b"SCGI", b"1"),
        (b"REQUEST_METHOD", b"POST"),
        (b"REQUEST_URI", b"/deepthought"),
    ];
    let mut out = Vec::new();
    encode_request(&mut out, 27, params.iter().copied()).expect("valid");
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
        encode_request(&mut out, 0, [(&b"N"[..], &value[..])]).expect("valid");
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

#[test]
fn a_parameter_cannot_become_two() {
    for (name, value) in [(&b"A\0B"[..], &b"x"[..]), (b"A", b"x\0HTTPS\0on")] {
        let mut out = b"before".to_vec();
        let error = encode_request(&mut out, 0, [(&b"ok"[..], &b""[..]), (name, value)]);
        assert_eq!(error.expect_err("holds NUL").name, name);
        assert_eq!(out, b"before");
    }
}
