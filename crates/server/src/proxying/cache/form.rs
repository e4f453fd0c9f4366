//! How heads are kept in cache files: as the origin has sent them, so that nginx can read them.

use super::super::wire::UpstreamHead;
use sealane_conf::model::Pass;
use sealane_http::cgi::{StatusLine, parse_cgi_response};
use sealane_http::h1::{ParsedResponse, ResponseLimits, ResponseState, parse_response};
use std::borrow::Cow;
use std::sync::Arc;

/// The length of a FastCGI record's own header.
const RECORD_HEADER_BYTES: usize = 8;
/// The version of FastCGI, and the type of records with a part of the response.
const FASTCGI_VERSION: u8 = 1;
const FASTCGI_STDOUT: u8 = 6;

/// The head as it is kept.
pub(super) fn encode(pass: &Pass, speaks_http2: bool, head: &UpstreamHead) -> Vec<u8> {
    wrap(pass, text(speaks_http2, head).into_owned())
}

/// The head without what the protocol puts around it.
pub(super) fn text(speaks_http2: bool, head: &UpstreamHead) -> Cow<'_, [u8]> {
    match speaks_http2 {
        true => as_http1(head).into(),
        false => head.buffer[..head.parsed.head_bytes.min(head.buffer.len())].into(),
    }
}

/// A head in the form of the protocol.
pub(super) fn wrap(pass: &Pass, text: Vec<u8>) -> Vec<u8> {
    let Pass::FastCgi(_) = pass else {
        return text;
    };
    let bytes = u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut out = Vec::with_capacity(RECORD_HEADER_BYTES + text.len());
    out.extend_from_slice(&[FASTCGI_VERSION, FASTCGI_STDOUT, 0, 1]);
    out.extend_from_slice(&bytes);
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&text);
    out
}

/// A head that came by HTTP/2, in the form of HTTP/1.1.
fn as_http1(head: &UpstreamHead) -> Vec<u8> {
    let status = head.parsed.status;
    let mut out = format!("HTTP/1.1 {} {}\r\n", status.0, status.reason()).into_bytes();
    for header in &head.parsed.headers {
        out.extend_from_slice(header.name.of(&head.buffer));
        out.extend_from_slice(b": ");
        out.extend_from_slice(header.value.of(&head.buffer));
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// Reads a head that was kept; `None` if it makes no sense.
pub(super) fn decode(pass: &Pass, kept: &[u8]) -> Option<Arc<UpstreamHead>> {
    let limits = ResponseLimits::of_head(usize::from(u16::MAX));
    let mut state = ResponseState::default();
    let (buffer, parsed) = match pass {
        Pass::FastCgi(_) => {
            let text = without_records(kept)?;
            let parsed = parse_cgi_response(&text, &mut state, &limits, StatusLine::Skipped);
            (text, parsed)
        }
        Pass::Scgi(_) | Pass::Uwsgi(_) => {
            let parsed = parse_cgi_response(kept, &mut state, &limits, StatusLine::Taken);
            (kept.to_vec(), parsed)
        }
        _ => (kept.to_vec(), parse_response(kept, &mut state, &limits)),
    };
    match parsed {
        Ok(ParsedResponse::Complete(parsed)) => Some(Arc::new(UpstreamHead { buffer, parsed })),
        _ => None,
    }
}

/// The contents of FastCGI records; the last one may be cut, as its rest is the body.
pub(super) fn without_records(mut kept: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(kept.len());
    while let Some((header, rest)) = kept.split_first_chunk::<RECORD_HEADER_BYTES>() {
        if header[0] != FASTCGI_VERSION {
            return None;
        }
        let content = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let (content, padding) = (content.min(rest.len()), usize::from(header[6]));
        if header[1] == FASTCGI_STDOUT {
            text.extend_from_slice(&rest[..content]);
        }
        kept = rest.get(content + padding..).unwrap_or_default();
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::without_records;

    #[test]
    fn records_are_taken_apart() {
        let record = |kind: u8, content: &[u8], padding: u8| {
            let mut record = vec![1, kind, 0, 1, 0, content.len() as u8, padding, 0];
            record.extend_from_slice(content);
            record.resize(record.len() + usize::from(padding), 0);
            record
        };
        let kept = [
            record(6, b"Status: 200\r\n", 3),
            record(7, b"complaint", 0),
            record(6, b"\r\n", 0),
        ];
        let text = without_records(&kept.concat());
        assert_eq!(text.as_deref(), Some(&b"Status: 200\r\n\r\n"[..]));
        // Of the last record there is only what belongs to the head.
        let cut = [1, 6, 0, 1, 15, 255, 1, 0, b'\r', b'\n', b'\r', b'\n'];
        assert_eq!(without_records(&cut).as_deref(), Some(&b"\r\n\r\n"[..]));
        assert_eq!(without_records(b"HTTP/1.1 200 OK\r\n\r\n"), None);
    }
}
