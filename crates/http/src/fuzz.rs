//! Entry points for the fuzzers.
//!
//! Each takes arbitrary bytes, runs one parser and asserts the invariants of its result; a finding
//! is a panic. They live here, beside the code they exercise, so that the property tests run them
//! too.

use crate::Span;
use crate::conditional::{self, IfModifiedSince, Preconditions, Validators, Verdict};
use crate::h1::{
    BodyDecoder, BodyError, Framing, Limits, ParseState, Parsed, RequestError, RequestHead,
    Version, parse_request,
};
use crate::headers::KnownHeader;
use crate::range::{self, ByteRange, Multipart, RangeOutcome};
use crate::uri::{self, EscapeKind, TargetForm};
use crate::{Method, date};

mod cache;
mod dubbo;
mod h2;
mod h2_frames;
mod h3;
mod hpack;
mod media;
mod model;
mod origin;
mod qpack;
mod refused;
mod stream;
mod trim;

pub use cache::fuzz_cache_control;
pub use dubbo::fuzz_dubbo;
pub use h2::{fuzz_h2_client, fuzz_h2_server};
pub use h2_frames::fuzz_h2_frames;
pub use h3::fuzz_h3_server;
pub use hpack::fuzz_hpack;
pub use media::fuzz_mp4;
pub use model::request_starts;
pub use origin::{fuzz_fastcgi, fuzz_proxy_protocol, fuzz_response, fuzz_set_cookie};
pub use qpack::fuzz_qpack;
pub use stream::{fuzz_stream, stream_of};
pub use trim::fuzz_trim;

/// HTTP/1 request heads: the first byte chooses limits and leniency, the rest is the input.
///
/// However the bytes are split, the outcome is the same. Positions stay inside the head. Accepted
/// heads contain no line breaks or NUL and have exactly one possible end.
pub fn fuzz_request(data: &[u8]) {
    let Some((&choice, input)) = data.split_first() else {
        return;
    };
    let limits = limits_from(choice);
    let at_once = parse_in_pieces(input, &limits, input.len().max(1));
    assert_eq!(at_once, parse_in_pieces(input, &limits, 1), "byte by byte");
    let piece = usize::from(choice) % 7 + 2;
    assert_eq!(at_once, parse_in_pieces(input, &limits, piece), "in pieces");
    match at_once {
        Ok(Some(head)) => check_head(input, &head, &limits),
        Ok(None) => assert!(input.len() < limits.max_head_bytes() + 2),
        Err(error) => {
            assert!((400..=505).contains(&error.status().0));
            if let Some(excerpt) = error.excerpt() {
                assert!(excerpt.end as usize <= input.len() && excerpt.start <= excerpt.end);
            }
        }
    }
}

fn limits_from(choice: u8) -> Limits {
    // The smallest are shorter than the longest method, and a large buffer may be smaller than the
    // small one.
    let (header_buffer_bytes, large_buffer_bytes) = match (choice & 1, choice >> 5 & 3) {
        (0, _) => (1024, 8192),
        (_, 0) => (96, 160),
        (_, 1) => (16, 40),
        (_, 2) => (160, 96),
        (_, _) => (1, 24),
    };
    Limits {
        header_buffer_bytes,
        large_buffer_bytes,
        large_buffer_count: if choice & 2 != 0 { 1 } else { 4 },
        max_headers: if choice & 4 != 0 { 5 } else { 1000 },
        ignore_invalid_headers: choice & 8 != 0,
        underscores_in_headers: choice & 16 != 0,
    }
}

/// Parses growing prefixes of `input`, as a connection does.
fn parse_in_pieces(
    input: &[u8],
    limits: &Limits,
    piece: usize,
) -> Result<Option<RequestHead>, RequestError> {
    let mut state = ParseState::default();
    let mut end = 0;
    loop {
        end = (end + piece).min(input.len());
        match parse_request(&input[..end], &mut state, limits) {
            Ok(Parsed::Complete(head)) => return Ok(Some(head)),
            Ok(Parsed::Incomplete) => {}
            Err(error) => {
                refused::request(&mut state, input, end, limits, &error);
                return Err(error);
            }
        }
        if end == input.len() {
            return Ok(None);
        }
    }
}

fn check_head(input: &[u8], head: &RequestHead, limits: &Limits) {
    assert!(head.head_bytes <= input.len() && head.head_bytes <= limits.max_head_bytes());
    let inside = |span: Span| {
        assert!(span.start <= span.end && span.end as usize <= head.head_bytes);
        span.of(input)
    };
    let is_clean = |text: &[u8]| !text.iter().any(|byte| b"\r\n\0".contains(byte));
    assert!(is_clean(inside(head.request_line)));
    assert!(is_clean(inside(head.target)) && is_clean(inside(head.path)));
    assert!(!head.target.is_empty());
    assert!(head.headers.len() <= limits.max_headers);
    let mut seen = Vec::new();
    for header in &head.headers {
        let (name, value) = (inside(header.name), inside(header.value));
        // `ignore_invalid_headers off` accepts non-ASCII bytes, but no line separators.
        let is_odd = |byte: &u8| !limits.ignore_invalid_headers && !byte.is_ascii();
        let is_name = |byte: &u8| (byte.is_ascii_graphic() && *byte != b':') || is_odd(byte);
        assert!(!name.is_empty() && name.iter().all(is_name));
        let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        assert!(is_clean(value) && !is_blank(value.first()) && !is_blank(value.last()));
        assert_eq!(header.known, KnownHeader::from_name(name));
        seen.extend(header.known);
    }
    for known in KnownHeader::ALL {
        assert_eq!(head.has(known), seen.contains(&known), "{known:?}");
    }
    let count = |known| seen.iter().filter(|&&other| other == known).count();
    let has_length = count(KnownHeader::ContentLength) == 1;
    let has_coding = count(KnownHeader::TransferEncoding) == 1;
    assert!(count(KnownHeader::Host) <= 1 && count(KnownHeader::ContentLength) <= 1);
    assert!(!(has_length && has_coding), "two framings");
    assert_eq!(matches!(head.framing, Framing::Length(_)), has_length);
    assert_eq!(head.framing == Framing::Chunked, has_coding);
    if head.version == Version::Http11 {
        assert!(count(KnownHeader::Host) == 1 && head.host.is_some());
    } else {
        assert_ne!(head.framing, Framing::Chunked);
    }
    if let Some(host) = head.host {
        assert!(!inside(host).is_empty());
    }
    if matches!(head.form, TargetForm::Origin | TargetForm::Absolute { .. }) {
        // It may be refused, but it must not panic.
        let _ = uri::normalise(head.path.of(input), true);
    }
}

/// Request targets, hosts and percent-encoding.
///
/// A normalised path starts at the root and stays below it. Escaping it and normalising it again
/// changes nothing.
pub fn fuzz_uri(data: &[u8]) {
    for method in [Method::Get, Method::Options, Method::Connect] {
        if let Ok(TargetForm::Absolute { host, path, .. }) = uri::split_target(data, method) {
            assert!(!host.of(data).is_empty());
            assert!(host.end <= path.start && path.end as usize == data.len());
        }
    }
    if let Ok(authority) = uri::parse_authority(data) {
        let host = authority.host.of(data);
        assert!(!host.is_empty() && !host.iter().any(|byte| b"/@ \0\r\n".contains(byte)));
    }
    for merge_slashes in [true, false] {
        if let Ok(normal) = uri::normalise(data, merge_slashes) {
            check_normal_path(&normal.path, merge_slashes);
            let escaped = uri::escape(&normal.path, EscapeKind::Uri);
            let again = uri::normalise(&escaped, merge_slashes).expect("a normal path");
            assert_eq!(again.path, normal.path);
            assert_eq!(again.args, None);
        }
    }
    for kind in [EscapeKind::Uri, EscapeKind::Args, EscapeKind::UriComponent] {
        assert_eq!(&*uri::unescape(&uri::escape(data, kind)), data);
    }
}

fn check_normal_path(path: &[u8], merge_slashes: bool) {
    assert_eq!(path.first(), Some(&b'/'));
    assert!(!path.contains(&0));
    let mut segments = path[1..].split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        assert!(segment != b"." && segment != b"..");
        let is_last = segments.peek().is_none();
        assert!(!merge_slashes || is_last || !segment.is_empty());
    }
}

/// Range, `If-Range`, date and entity-tag headers. The first nine bytes choose the size of the
/// representation and `max_ranges`; the rest is the value of every such header.
pub fn fuzz_range(data: &[u8]) {
    let Some((head, value)) = data.split_at_checked(9) else {
        return;
    };
    let size: [u8; 8] = head[..8].try_into().expect("eight bytes");
    // Shifted so that small sizes, where ranges reach the end, are as likely as large ones.
    let total_bytes = u64::from_be_bytes(size) >> (head[8] % 64);
    let max_ranges = match head[8] % 5 {
        4 => range::MAX_RANGES_UNSET,
        set => usize::from(set),
    };
    match range::evaluate(value, total_bytes, max_ranges) {
        RangeOutcome::Whole | RangeOutcome::NotSatisfiable => {}
        RangeOutcome::Single(range) => check_ranges(&[range], total_bytes, max_ranges),
        RangeOutcome::Multiple(ranges) => {
            assert!(ranges.len() > 1);
            check_ranges(&ranges, total_bytes, max_ranges);
        }
    }
    if let Some(time) = date::parse(value) {
        assert_eq!(date::parse(&date::imf(time)), Some(time));
    }
    let etag = Some(&b"\"a,b\""[..]);
    assert!(range::if_range_applies(b"\"a,b\"", etag, None));
    range::if_range_applies(value, etag, Some(0));
    check_preconditions(value, etag);
}

/// One value as each of the four preconditions.
fn check_preconditions(value: &[u8], etag: Option<&[u8]>) {
    let verdict = |conditions: Preconditions<'_>| {
        let validators = Validators {
            etag,
            last_modified: Some(0),
        };
        conditional::evaluate(&conditions, &validators, IfModifiedSince::Exact)
    };
    let none = Preconditions::default();
    let if_match = verdict(Preconditions {
        if_match: Some(value),
        ..none
    });
    let if_none_match = verdict(Preconditions {
        if_none_match: Some(value),
        ..none
    });
    let if_modified_since = verdict(Preconditions {
        if_modified_since: Some(value),
        ..none
    });
    let if_unmodified_since = verdict(Preconditions {
        if_unmodified_since: Some(value),
        ..none
    });
    // The tag is strong, but the header may hold its weak form, which only the weak comparison of
    // If-None-Match accepts.
    let matches = if_match == Verdict::Proceed;
    assert!(!matches || if_none_match == Verdict::NotModified);
    let time = date::parse(value);
    assert_eq!(if_modified_since == Verdict::NotModified, time == Some(0));
    let in_time = time.is_some_and(|time| time >= 0);
    assert_eq!(if_unmodified_since == Verdict::Proceed, in_time);
}

fn check_ranges(ranges: &[ByteRange], total_bytes: u64, max_ranges: usize) {
    assert!(ranges.len() <= max_ranges);
    assert!(
        ranges
            .iter()
            .all(|r| r.start < r.end && r.end <= total_bytes)
    );
    let sum: u64 = ranges.iter().map(|range| range.bytes()).sum();
    assert!(sum <= total_bytes);
    let multipart = Multipart::new(total_bytes, None, total_bytes);
    assert!(multipart.body_bytes(ranges) > sum);
}

/// Chunked bodies. The first byte chooses how the rest is split.
///
/// However the bytes are split, the data, the end and the errors are the same. After an error
/// nothing more is read.
pub fn fuzz_chunked(data: &[u8]) {
    let Some((&choice, input)) = data.split_first() else {
        return;
    };
    let at_once = decode_in_pieces(input, input.len().max(1));
    assert_eq!(at_once, decode_in_pieces(input, 1), "byte by byte");
    let piece = usize::from(choice) % 11 + 2;
    assert_eq!(at_once, decode_in_pieces(input, piece), "in pieces");
    assert!(at_once.data.len() <= input.len());
    assert!(at_once.consumed <= input.len());
}

#[derive(Debug, PartialEq, Eq)]
struct DecodedBody {
    data: Vec<u8>,
    consumed: usize,
    end: Result<bool, BodyError>,
}

fn decode_in_pieces(input: &[u8], piece: usize) -> DecodedBody {
    let mut decoder = BodyDecoder::new(Framing::Chunked);
    let mut body = DecodedBody {
        data: Vec::new(),
        consumed: 0,
        end: Ok(false),
    };
    let mut available = 0;
    while available < input.len() && body.end == Ok(false) {
        available = (available + piece).min(input.len());
        while body.consumed < available {
            let rest = &input[body.consumed..available];
            match decoder.decode(rest) {
                Ok(decoded) => {
                    assert!(decoded.consumed > 0 || decoded.done, "no progress");
                    assert_eq!(decoded.data.end, decoded.consumed);
                    body.data.extend_from_slice(&rest[decoded.data]);
                    body.consumed += decoded.consumed;
                    body.end = Ok(decoded.done);
                }
                Err(error) => {
                    refused::body(&mut decoder, &input[body.consumed..]);
                    body.end = Err(error);
                    // The position of an error within a piece is not reported, and does not matter.
                    body.consumed = 0;
                }
            }
            if body.end != Ok(false) {
                return body;
            }
        }
    }
    body
}
