//! WebSockets on streams of HTTP/2 (RFC 8441), for origins that know them over HTTP/1.1 only.
//!
//! The client's extended CONNECT has become the GET of RFC 6455 section 4 (`http::h2`). What is
//! missing there is the key, by which a client finds out that the other side understands; here that
//! is us.

use super::wire::UpstreamHead;
use crate::exchange::Exchange;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::Digest;
use sealane_http::h1::{RawHeader, RequestHead, ResponseKind};
use sealane_http::{Span, StatusCode};
use sha1::Sha1;

const KEY: &[u8] = b"sec-websocket-key";

/// What the accepting side appends to the key (RFC 6455 section 1.3).
const ACCEPT_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Adds a key to a request whose client has sent none, as HTTP/2 needs none.
pub(crate) fn add_key(text: &mut Vec<u8>, head: &mut RequestHead) {
    if head.get_by_name(text, KEY).is_some() {
        return;
    }
    let mut nonce = [0; 16];
    // Without randomness the key would still be valid: it protects from caches that confuse
    // connections, and is no secret.
    let _ = getrandom::fill(&mut nonce);
    let name_start = text.len();
    text.extend_from_slice(KEY);
    text.extend_from_slice(b": ");
    let value_start = text.len();
    text.extend_from_slice(STANDARD.encode(nonce).as_bytes());
    let value = Span::new(value_start, text.len());
    text.extend_from_slice(b"\r\n");
    head.push_header(RawHeader {
        name: Span::new(name_start, name_start + KEY.len()),
        value,
        known: None,
    });
}

/// Checks the response of an origin: it switches protocols and has understood the key, or it is no
/// success. To the client every 2xx would be an open WebSocket.
pub(super) fn check(exchange: &Exchange, head: &UpstreamHead) -> Result<(), String> {
    let status = head.parsed.status;
    if head.parsed.kind() != ResponseKind::SwitchingProtocols {
        return match status.0 {
            200..=299 => Err(format!(
                "upstream sent status {} instead of 101 to a WebSocket handshake",
                status.0
            )),
            _ => Ok(()),
        };
    }
    let request = &exchange.request;
    let key = request.head.get_by_name(&request.buffer, KEY);
    let key = key.map_or(&b""[..], |key| key.of(&request.buffer));
    let accepted = head
        .parsed
        .get_by_name(&head.buffer, b"Sec-WebSocket-Accept");
    let accepted = accepted.map_or(&b""[..], |value| value.of(&head.buffer));
    match accepted == accept_of(key).as_bytes() {
        true => Ok(()),
        false => Err("upstream sent invalid \"Sec-WebSocket-Accept\"".to_owned()),
    }
}

/// The origin has switched protocols, which in HTTP/2 is status 200.
pub(super) fn accept(exchange: &mut Exchange) {
    let response = &mut exchange.response;
    response.status = StatusCode::OK;
    for name in [&b"Upgrade"[..], b"Connection", b"Sec-WebSocket-Accept"] {
        while response.headers.remove(name) {}
    }
}

fn accept_of(key: &[u8]) -> String {
    let digest = Sha1::new().chain_update(key).chain_update(ACCEPT_SUFFIX);
    STANDARD.encode(digest.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_6455() {
        let accept = accept_of(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
