//! Request headers as meta-variables (RFC 3875 section 4.1.18).

/// Appends the name of a header's meta-variable: `HTTP_`, then the name in upper case with
/// underscores for hyphens.
pub fn push_name(out: &mut Vec<u8>, header: &[u8]) {
    out.extend_from_slice(b"HTTP_");
    out.extend(header.iter().map(|&byte| match byte {
        b'-' => b'_',
        _ => byte.to_ascii_uppercase(),
    }));
}

/// Whether two headers become the same meta-variable (`X-A` and `X_A`), which lets a client
/// override what a proxy set, unless their values are joined.
pub fn is_same_variable(one: &[u8], other: &[u8]) -> bool {
    let fold = |&byte: &u8| match byte {
        b'-' => b'_',
        _ => byte.to_ascii_lowercase(),
    };
    one.iter().map(fold).eq(other.iter().map(fold))
}

/// The separator between the values of a header that was sent more than once, when they are joined
/// into one meta-variable; the same as nginx's.
pub fn separator(header: &[u8]) -> &'static [u8] {
    if header.eq_ignore_ascii_case(b"Cookie") {
        b"; "
    } else {
        b", "
    }
}
