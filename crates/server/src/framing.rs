//! How the end of a response body is marked (RFC 9112 section 6), and whether
//! the connection can live on after it.

use crate::exchange::Exchange;
use bytes::Bytes;
use sealane_http::h1::{self, Version};
use sealane_http::headers::KnownHeader;
use sealane_http::{Method, StatusCode};
use sealane_io::chain::OutputChain;

/// Whether a response of unknown length is sent in chunks.
pub(crate) fn is_chunked(exchange: &Exchange) -> bool {
    exchange.response.content_length.is_none()
        && exchange.request.head.version == Version::Http11
        // As in nginx: there is nothing to divide.
        && exchange.request.head.method != Method::Head
        && !exchange.response.is_tunnel
        && exchange.conf().chunked_transfer_encoding
        && !exchange.response.status.is_bodiless()
}

/// Whether the client can tell where the response ends without the connection
/// being closed.
pub(crate) fn has_end(exchange: &Exchange, chunked: bool) -> bool {
    chunked
        || exchange.response.content_length.is_some()
        || exchange.response.status.is_bodiless()
        || exchange.request.head.method == Method::Head
}

/// Puts the body into one chunk and appends the last chunk with `trailers`
/// (complete lines, each with CRLF).
pub(crate) fn frame_as_chunks(exchange: &mut Exchange, trailers: &[u8]) {
    if exchange.request.head.method == Method::Head {
        return;
    }
    let mut body = chunk_of(std::mem::take(&mut exchange.response.body));
    body.append(last_chunk(trailers));
    exchange.response.body = body;
}

/// A piece of a body as one chunk; nothing for an empty one, which would end the body.
pub(crate) fn chunk_of(piece: OutputChain) -> OutputChain {
    if piece.is_empty() {
        return piece;
    }
    let mut chunk = OutputChain::new();
    let mut start = Vec::with_capacity(18);
    h1::encode_chunk_header(&mut start, piece.len());
    chunk.push_bytes(Bytes::from(start));
    chunk.append(piece);
    chunk.push_bytes(Bytes::from_static(b"\r\n"));
    chunk
}

/// The end of a chunked body, with complete trailer lines.
pub(crate) fn last_chunk(trailers: &[u8]) -> OutputChain {
    let mut end = Vec::with_capacity(trailers.len() + 5);
    end.extend_from_slice(b"0\r\n");
    end.extend_from_slice(trailers);
    end.extend_from_slice(b"\r\n");
    let mut chain = OutputChain::new();
    chain.push_bytes(Bytes::from(end));
    chain
}

/// HEAD, and statuses without a body: whatever would come is not waited for.
pub(crate) fn leave_out_unwanted_source(exchange: &mut Exchange) {
    let bodiless = exchange.request.head.method == Method::Head
        || (exchange.response.status.is_bodiless()
            && exchange.response.status != StatusCode::SWITCHING_PROTOCOLS);
    if bodiless && let Some(source) = exchange.response.source.take() {
        source.into_source().conclude(exchange, true);
    }
}

/// Whether the client calls itself MSIE, and not Opera.
pub(crate) fn is_msie(exchange: &Exchange) -> bool {
    let Some(agent) = exchange.request.head.get(KnownHeader::UserAgent) else {
        return false;
    };
    let agent = agent.of(&exchange.request.buffer);
    let at = |word: &[u8]| memchr::memmem::find(agent, word);
    at(b"MSIE ").is_some_and(|at| at + 7 < agent.len()) && at(b"Opera").is_none()
}

/// Whether the client is what nginx takes for MSIE 6: versions 4 to 6 without the second
/// service pack of Windows XP.
pub(crate) fn is_msie6(exchange: &Exchange) -> bool {
    let Some(agent) = exchange.request.head.get(KnownHeader::UserAgent) else {
        return false;
    };
    let agent = agent.of(&exchange.request.buffer);
    let find = |text: &[u8]| memchr::memmem::find(agent, text);
    let version = find(b"MSIE ").and_then(|at| agent.get(at + 5..));
    let is_it = match version {
        Some([b'4' | b'5', b'.', _, ..]) => true,
        Some([b'6', b'.', _, rest @ ..]) => memchr::memmem::find(rest, b"SV1").is_none(),
        _ => false,
    };
    is_it && find(b"Opera").is_none()
}

/// `keepalive_disable`: old browsers that mishandle kept-alive connections. MSIE 6
/// only after POST requests, as in nginx.
pub(crate) fn keepalive_disabled(exchange: &Exchange) -> bool {
    let disable = exchange.conf().keepalive_disable;
    if !disable.msie6 && !disable.safari {
        return false;
    }
    let Some(agent) = exchange.request.head.get(KnownHeader::UserAgent) else {
        return false;
    };
    let agent = agent.of(&exchange.request.buffer);
    let has = |text: &[u8]| memchr::memmem::find(agent, text).is_some();
    if disable.msie6 && exchange.request.head.method == Method::Post && is_msie6(exchange) {
        return true;
    }
    disable.safari && has(b"Mac OS X") && has(b"Safari/") && !has(b"Chrome/")
}
