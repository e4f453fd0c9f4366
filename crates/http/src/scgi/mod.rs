//! SCGI requests: a netstring of names and values, each terminated by NUL, then the body.
//!
//! The response is that of a gateway: [`parse_cgi_response`](crate::cgi::parse_cgi_response).

use crate::cgi::Param;
use crate::decimal;

const CONTENT_LENGTH: &[u8] = b"CONTENT_LENGTH";

/// Appends the head of a request: `CONTENT_LENGTH`, which the protocol requires to come first, then
/// the parameters. A body of `content_bytes` follows it.
///
/// Names must be unique, so a `CONTENT_LENGTH` among the parameters, which might contradict the
/// actual body, is left out. The protocol also requires `SCGI` with the value 1, which is among the
/// parameters in nginx's `scgi_params`.
pub fn encode_request<'a, I>(out: &mut Vec<u8>, content_bytes: u64, params: I)
where
    I: IntoIterator<Item = Param<'a>>,
    I::IntoIter: Clone,
{
    let params = params
        .into_iter()
        .filter(|param| param.name() != CONTENT_LENGTH);
    let mut digits = itoa::Buffer::new();
    let content_bytes = digits.format(content_bytes).as_bytes();
    let string_bytes = |text: &[u8]| text.len() + 1;
    let total = params.clone().fold(
        string_bytes(CONTENT_LENGTH) + string_bytes(content_bytes),
        |total, param| total + string_bytes(param.name()) + string_bytes(param.value()),
    );
    decimal::push(out, total as u64);
    out.push(b':');
    out.reserve(total + 1);
    push_pair(out, CONTENT_LENGTH, content_bytes);
    for param in params {
        push_pair(out, param.name(), param.value());
    }
    out.push(b',');
}

fn push_pair(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for text in [name, value] {
        out.extend_from_slice(text);
        out.push(0);
    }
}

#[cfg(test)]
mod tests;
