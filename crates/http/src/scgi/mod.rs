//! SCGI requests: a netstring of names and values, each ended by NUL, then the body.
//!
//! The response is that of a gateway: [`parse_cgi_response`](crate::cgi::parse_cgi_response).

use std::fmt;

use memchr::memchr;

use crate::decimal;

/// A parameter that would be read as several: NUL ends names and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NulInParam {
    /// The parameter's name.
    pub name: Vec<u8>,
}

impl fmt::Display for NulInParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.escape_ascii();
        write!(f, "scgi parameter \"{name}\" holds a NUL byte")
    }
}

impl std::error::Error for NulInParam {}

const CONTENT_LENGTH: &[u8] = b"CONTENT_LENGTH\0";

/// Appends the head of a request: `CONTENT_LENGTH`, which comes first by the protocol, then the
/// parameters. A body of `content_bytes` follows it.
///
/// `SCGI` with the value 1, which the protocol wants too, is among the parameters in nginx's
/// `scgi_params`.
///
/// # Errors
/// [`NulInParam`]; `out` is as it was.
pub fn encode_request<'a, I>(
    out: &mut Vec<u8>,
    content_bytes: u64,
    params: I,
) -> Result<(), NulInParam>
where
    I: IntoIterator<Item = (&'a [u8], &'a [u8])>,
    I::IntoIter: Clone,
{
    let params = params.into_iter();
    let mut digits = itoa::Buffer::new();
    let content_bytes = digits.format(content_bytes).as_bytes();
    let mut total = CONTENT_LENGTH.len() + content_bytes.len() + 1;
    for (name, value) in params.clone() {
        if memchr(0, name).is_some() || memchr(0, value).is_some() {
            let name = name.to_vec();
            return Err(NulInParam { name });
        }
        total += name.len() + value.len() + 2;
    }
    decimal::push(out, total as u64);
    out.push(b':');
    out.reserve(total + 1);
    out.extend_from_slice(CONTENT_LENGTH);
    out.extend_from_slice(content_bytes);
    out.push(0);
    for (name, value) in params {
        out.extend_from_slice(name);
        out.push(0);
        out.extend_from_slice(value);
        out.push(0);
    }
    out.push(b',');
    Ok(())
}

#[cfg(test)]
mod tests;
