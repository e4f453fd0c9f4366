//! Data from origins and front proxies: responses, FastCGI records, PROXY headers, cookies.

use crate::cgi::{StatusLine, parse_cgi_response};
use crate::fastcgi::{Event, FastCgiError, ProtocolStatus, RecordDecoder};
use crate::h1::{
    ParsedResponse, ReceivedResponse, ResponseBodyDecoder, ResponseBodyError, ResponseError,
    ResponseFraming, ResponseKind, ResponseLimits, ResponseState, parse_response, parse_trailers,
};
use crate::headers::KnownHeader;
use crate::proxy_protocol::{self, Header, Parsed, Tlv, TlvName, Tlvs};
use crate::rewrite::{self, CookieFlags, SameSite, SetCookie};
use crate::{Method, Span};

use super::refused;

/// Responses of HTTP/1 origins and gateways, including interim ones, with their bodies. The first
/// byte chooses dialect, limits and method; the rest is what the origin sends before it closes.
///
/// However the bytes are split, heads, data, end and errors are the same. Accepted heads contain no
/// line breaks or NUL and have exactly one possible end.
pub fn fuzz_response(data: &[u8]) {
    let Some((&choice, input)) = data.split_first() else {
        return;
    };
    let at_once = Stream::read(input, choice, input.len().max(1));
    assert_eq!(at_once, Stream::read(input, choice, 1), "byte by byte");
    let piece = usize::from(choice) % 7 + 2;
    assert_eq!(at_once, Stream::read(input, choice, piece), "in pieces");
    let mut start = 0;
    for head in &at_once.heads {
        check_response(&input[start..], head, &limits_of(choice));
        start += head.head_bytes;
    }
    let (last, interim) = at_once.heads.split_last().unzip();
    assert!(interim.unwrap_or_default().iter().all(is_interim));
    if let (Some(last), Some(Ok(()))) = (last, at_once.end) {
        let framing = last.framing(method_of(choice));
        if let ResponseFraming::Length(length) = framing {
            assert_eq!(at_once.data.len() as u64, length);
        }
        assert!(framing != ResponseFraming::UntilClose || at_once.left == 0);
    }
    if let Ok(trailers) = parse_trailers(&at_once.trailers) {
        let lines = &at_once.trailers;
        assert!(
            trailers
                .iter()
                .all(|t| is_clean(t.value.of(lines)) && !t.name.is_empty())
        );
    }
}

fn limits_of(choice: u8) -> ResponseLimits {
    ResponseLimits {
        max_head_bytes: if choice & 0x80 != 0 { 48 } else { 4096 },
        max_interim: 2,
    }
}

fn method_of(choice: u8) -> Method {
    [Method::Get, Method::Head, Method::Connect, Method::Post][usize::from(choice >> 2 & 3)]
}

fn is_interim(head: &ReceivedResponse) -> bool {
    head.kind() == ResponseKind::Interim
}

fn is_clean(text: &[u8]) -> bool {
    !text.iter().any(|byte| b"\r\n\0".contains(byte))
}

/// A response, as far as it was received.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stream {
    heads: Vec<ReceivedResponse>,
    error: Option<ResponseError>,
    data: Vec<u8>,
    trailers: Vec<u8>,
    left: usize,
    end: Option<Result<(), ResponseBodyError>>,
}

impl Stream {
    fn read(input: &[u8], choice: u8, piece: usize) -> Stream {
        let mut stream = Stream::default();
        let mut state = ResponseState::default();
        let (mut start, mut available) = (0, 0);
        while stream.heads.last().is_none_or(is_interim) {
            let buf = &input[start..available];
            match parse_dialect(buf, &mut state, choice) {
                Ok(ParsedResponse::Complete(head)) => {
                    start += head.head_bytes;
                    stream.heads.push(head);
                }
                Ok(ParsedResponse::Incomplete) if available < input.len() => {
                    available = (available + piece).min(input.len());
                }
                Ok(ParsedResponse::Incomplete) => return stream,
                Err(error) => {
                    refused::response(
                        &mut state,
                        &input[start..],
                        available - start,
                        |buf, state| parse_dialect(buf, state, choice),
                    );
                    stream.error = Some(error);
                    return stream;
                }
            }
        }
        let framing = stream
            .heads
            .last()
            .map(|head| head.framing(method_of(choice)));
        stream.read_body(&input[start..], framing.unwrap_or_default(), piece);
        stream
    }

    fn read_body(&mut self, input: &[u8], framing: ResponseFraming, piece: usize) {
        let mut decoder = ResponseBodyDecoder::new(framing).keep_trailers();
        let mut at = 0;
        while at < input.len() && !decoder.is_done() {
            let rest = &input[at..(at + piece).min(input.len())];
            match decoder.decode(rest) {
                Ok(decoded) => {
                    assert!(decoded.consumed > 0 || decoded.done, "no progress");
                    self.data.extend_from_slice(&rest[decoded.data]);
                    at += decoded.consumed;
                }
                Err(error) => {
                    refused::response_body(&mut decoder, &input[at..]);
                    self.end = Some(Err(error));
                    return;
                }
            }
        }
        self.left = input.len() - at;
        self.end = Some(decoder.close());
        self.trailers = decoder.take_trailers();
    }
}

fn parse_dialect(
    buf: &[u8],
    state: &mut ResponseState,
    choice: u8,
) -> Result<ParsedResponse, ResponseError> {
    let limits = limits_of(choice);
    match choice & 3 {
        0 => parse_cgi_response(buf, state, &limits, StatusLine::Taken),
        1 => parse_cgi_response(buf, state, &limits, StatusLine::Skipped),
        _ => parse_response(buf, state, &limits),
    }
}

fn check_response(buf: &[u8], head: &ReceivedResponse, limits: &ResponseLimits) {
    assert!(head.head_bytes <= buf.len() && head.head_bytes <= limits.max_head_bytes);
    let inside = |span: Span| {
        assert!(span.start <= span.end && span.end as usize <= head.head_bytes);
        span.of(buf)
    };
    assert!((100..=999).contains(&head.status.0));
    assert!(is_clean(inside(head.status_line)));
    for header in &head.headers {
        let (name, value) = (inside(header.name), inside(header.value));
        let is_name_byte = |&byte: &u8| byte > b' ' && byte != 0x7f && byte != b':';
        assert!(!name.is_empty() && name.iter().all(is_name_byte));
        let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        assert!(is_clean(value) && !is_blank(value.first()) && !is_blank(value.last()));
        assert_eq!(header.known, KnownHeader::from_name(name));
    }
    for &line in &head.repeated {
        assert!(is_clean(inside(line)));
    }
    let count = |name| head.get_all(name).count();
    assert_eq!(
        count(KnownHeader::ContentLength),
        usize::from(head.content_length.is_some())
    );
    assert_eq!(
        count(KnownHeader::TransferEncoding),
        usize::from(head.chunked)
    );
    assert!(
        !(head.chunked && head.content_length.is_some()),
        "two framings"
    );
}

/// FastCGI records. The first byte chooses how the rest is split.
///
/// However the bytes are split, output, error text, end and errors are the same.
pub fn fuzz_fastcgi(data: &[u8]) {
    let Some((&choice, input)) = data.split_first() else {
        return;
    };
    let at_once = Records::read(input, input.len().max(1));
    assert_eq!(at_once, Records::read(input, 1), "byte by byte");
    let piece = usize::from(choice) % 13 + 2;
    assert_eq!(at_once, Records::read(input, piece), "in pieces");
    assert!(at_once.stdout.len() + at_once.stderr.len() <= input.len());
    assert!(!at_once.is_done || at_once.end.is_some());
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Records {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    stdout_ended: bool,
    end: Option<(u32, ProtocolStatus)>,
    is_done: bool,
    left: usize,
    error: Option<FastCgiError>,
}

impl Records {
    fn read(input: &[u8], piece: usize) -> Records {
        let mut decoder = RecordDecoder::new();
        let mut records = Records::default();
        let (mut at, mut available) = (0, 0);
        while available < input.len() && !decoder.is_done() {
            available = (available + piece).min(input.len());
            loop {
                let rest = &input[at..available];
                let decoded = match decoder.decode(rest) {
                    Ok(decoded) => decoded,
                    Err(error) => {
                        refused::records(&mut decoder, &input[at..]);
                        records.error = Some(error);
                        return records;
                    }
                };
                at += decoded.consumed;
                match decoded.event {
                    Event::NeedMore => break,
                    Event::Stdout(range) => records.stdout.extend_from_slice(&rest[range]),
                    Event::Stderr(range) => records.stderr.extend_from_slice(&rest[range]),
                    Event::StdoutEnd => records.stdout_ended = true,
                    Event::End {
                        app_status,
                        protocol_status,
                    } => records.end = Some((app_status, protocol_status)),
                }
            }
        }
        records.is_done = decoder.is_done();
        records.left = input.len() - at;
        records
    }
}

/// PROXY headers of both versions and their extensions.
///
/// A header is complete with its last byte and not before. An error stays the same error. A header
/// written from a parsed one parses to the same.
pub fn fuzz_proxy_protocol(data: &[u8]) {
    let whole = proxy_protocol::parse(data);
    let first = (0..=data.len()).find_map(|end| match proxy_protocol::parse(&data[..end]) {
        Ok(Parsed::Incomplete) => None,
        outcome => Some((end, outcome)),
    });
    let Some((end, outcome)) = first else {
        assert_eq!(whole, Ok(Parsed::Incomplete));
        assert!(data.len() < proxy_protocol::MAX_V2_BYTES);
        return;
    };
    assert_eq!(whole, outcome);
    match outcome {
        Ok(Parsed::Complete(header)) => {
            assert_eq!(header.header_bytes, end);
            check_proxy_header(data, &header);
        }
        Err(error) => {
            let line = error.excerpt().unwrap_or_default();
            assert!(line.end as usize <= end, "quotes what has come");
        }
        Ok(Parsed::Incomplete) => unreachable!("filtered above"),
    }
}

fn check_proxy_header(data: &[u8], header: &Header) {
    assert!(header.tlvs.end as usize <= header.header_bytes);
    let Some(addresses) = header.addresses else {
        assert!(header.tlvs.is_empty());
        return;
    };
    for name in ["alpn", "0x05", "ssl_verify", "ssl_cn"] {
        let name = TlvName::parse(name).expect("a name of nginx's");
        // A TLV found before a broken one counts.
        let _ = Tlvs::new(header.tlvs.of(data)).value(name);
    }
    let Ok(tlvs) = Tlvs::new(header.tlvs.of(data)).collect::<Result<Vec<Tlv<'_>>, _>>() else {
        return;
    };
    let total: usize = tlvs.iter().map(|tlv| tlv.value.len() + 3).sum();
    assert_eq!(total, header.tlvs.len());
    let mut out = Vec::new();
    proxy_protocol::encode_v2(&mut out, Some(&addresses), tlvs).expect("they fitted before");
    let Ok(Parsed::Complete(again)) = proxy_protocol::parse(&out) else {
        // An IPv4 address takes more bytes when it has to be written beside an IPv6 one.
        assert!(out.len() > proxy_protocol::MAX_V2_BYTES);
        return;
    };
    assert_eq!(again.tlvs.of(&out), header.tlvs.of(data));
    let again = again.addresses.expect("written with addresses");
    assert_eq!(
        again.source.ip().to_canonical(),
        addresses.source.ip().to_canonical()
    );
    assert_eq!(again.source.port(), addresses.source.port());
}

/// `Set-Cookie` values and their changes. The first byte chooses the flags.
///
/// After a change the cookie has the requested flags and domain, the same change again has no
/// effect, and the cookie itself is untouched.
pub fn fuzz_set_cookie(data: &[u8]) {
    let Some((&choice, text)) = data.split_first() else {
        return;
    };
    if let Some(url) = rewrite::refresh_url(text) {
        assert!(text[..url.start].to_ascii_lowercase().ends_with(b"url="));
    }
    let flags = flags_of(choice);
    let Some(changed) = rewrite_cookie(text, flags) else {
        return;
    };
    assert_eq!(rewrite_cookie(&changed, flags), None, "once is enough");
    let (before, after) = (SetCookie::parse(text), SetCookie::parse(&changed));
    let (before, after) = (before.expect("changed"), after.expect("still a cookie"));
    assert_eq!(before.name(), after.name());
    let body = |text: &[u8]| -> Vec<u8> {
        let parts = text.split(|&byte| byte == b';').next().into_iter();
        parts
            .flatten()
            .copied()
            .filter(|&byte| byte != b' ')
            .collect()
    };
    assert_eq!(body(text), body(&changed), "white space apart");
    let has = |name: &str| {
        let mut parts = changed.split(|&byte| byte == b';').skip(1);
        parts.any(|part| {
            let key = part.split(|&byte| byte == b'=').next().unwrap_or_default();
            let key = String::from_utf8_lossy(key);
            key.trim_matches(' ').eq_ignore_ascii_case(name)
        })
    };
    assert!(flags.secure.is_none_or(|wanted| has("secure") == wanted));
    assert!(
        flags
            .http_only
            .is_none_or(|wanted| has("httponly") == wanted)
    );
    let same_site = flags
        .same_site
        .map(|same_site| same_site != SameSite::Absent);
    assert!(same_site.is_none_or(|wanted| has("samesite") == wanted));
}

fn flags_of(choice: u8) -> CookieFlags {
    let switch = |bits: u8| [None, Some(true), Some(false), None][usize::from(bits & 3)];
    let same_site = [
        None,
        Some(SameSite::Strict),
        Some(SameSite::None),
        Some(SameSite::Absent),
    ];
    CookieFlags {
        secure: switch(choice),
        http_only: switch(choice >> 2),
        same_site: same_site[usize::from(choice >> 4 & 3)],
    }
}

fn rewrite_cookie(text: &[u8], flags: CookieFlags) -> Option<Vec<u8>> {
    let mut cookie = SetCookie::parse(text)?;
    let domains: Vec<_> = cookie
        .values(b"domain")
        .filter_map(|(index, value)| {
            let part = SetCookie::match_domain(value, b"origin")?;
            Some((index, rewrite::replace(value, part, b"example.org")))
        })
        .collect();
    for (index, value) in domains {
        cookie.set_value(index, value);
    }
    cookie.apply(flags);
    cookie.finish()
}
