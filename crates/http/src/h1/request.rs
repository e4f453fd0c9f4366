//! Parses a request head line by line, as far as its bytes have arrived.

use memchr::memchr3;
use smallvec::SmallVec;

use super::error::RequestError;
use super::header_buffers::{Full, HeaderBuffers};
use super::{connection, header_line, request_line};
use crate::headers::{KnownHeader, KnownSet};
use crate::uri::{TargetForm, parse_authority};
use crate::{Method, Span, decimal};

/// Default of the directive `max_headers` (nginx 1.29.8).
pub const DEFAULT_MAX_HEADERS: usize = 1000;

/// Limits and leniency for request heads, each named after its directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `client_header_buffer_size`: bytes that a head may take before it uses large buffers.
    pub header_buffer_bytes: usize,
    /// `large_client_header_buffers`, size: the longest line, including the line end.
    pub large_buffer_bytes: usize,
    /// `large_client_header_buffers`, number. As in nginx, a line never spans two buffers, so a new
    /// one is counted whenever a line does not fit into the rest of the last one.
    pub large_buffer_count: usize,
    /// `max_headers`: header lines, not counting ignored ones.
    pub max_headers: usize,
    /// `ignore_invalid_headers`: skip headers whose names contain anything but letters, digits and
    /// hyphens, instead of accepting them unchanged.
    pub ignore_invalid_headers: bool,
    /// `underscores_in_headers`: count the underscore among the valid characters.
    pub underscores_in_headers: bool,
}

impl Default for Limits {
    /// nginx's defaults.
    fn default() -> Limits {
        Limits {
            header_buffer_bytes: 1024,
            large_buffer_bytes: 8 * 1024,
            large_buffer_count: 4,
            max_headers: DEFAULT_MAX_HEADERS,
            ignore_invalid_headers: true,
            underscores_in_headers: false,
        }
    }
}

impl Limits {
    /// The largest possible head, to which a read buffer must be able to grow.
    pub fn max_head_bytes(&self) -> usize {
        self.large_buffer_bytes
            .saturating_mul(self.large_buffer_count)
            .saturating_add(self.header_buffer_bytes)
    }
}

/// The result of [`parse_request`].
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // moved once, into its owner; a box would cost more
pub enum Parsed {
    /// The head has not ended; call again, with the same state, when more bytes follow.
    Incomplete,
    /// A whole head. The state is ready for the next request.
    Complete(RequestHead),
}

/// The protocol version of a request. Minor versions above 1 are HTTP/1.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// `GET /path` and nothing more; the response is the body alone.
    Http09,
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
    /// HTTP/2.
    Http2,
    /// HTTP/3.
    Http3,
}

impl Version {
    /// Whether requests have streams of their own: HTTP/2 and HTTP/3.
    pub fn has_streams(self) -> bool {
        matches!(self, Version::Http2 | Version::Http3)
    }

    /// `$server_protocol`, empty for HTTP/0.9 as in nginx.
    pub fn name(self) -> &'static str {
        match self {
            Version::Http09 => "",
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
            Version::Http3 => "HTTP/3.0",
        }
    }
}

/// How the end of the request body is found (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    #[default]
    None,
    /// `Content-Length` bytes.
    Length(u64),
    /// Chunks. In HTTP/2 and HTTP/3, a body of unknown length that its stream ends.
    Chunked,
}

/// One header line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawHeader {
    /// The name as sent.
    pub name: Span,
    /// The value without white space around it; it may hold any byte but NUL, CR and LF.
    pub value: Span,
    /// Which header it is.
    pub known: Option<KnownHeader>,
}

/// Headers stored in the head itself; more move to the heap. This is enough for command-line tools.
/// A browser's fifteen cost one allocation, which is negligible next to parsing them, while every
/// idle connection would pay for the room.
const INLINE_HEADERS: usize = 8;

/// A parsed request head: positions in the buffer it was parsed from, and what was derived from
/// them. All positions count from the start of that buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// Its name, for [`Method::Other`].
    pub method_name: Span,
    /// `$request`: the first line without its end.
    pub request_line: Span,
    /// The request target as sent.
    pub target: Span,
    /// Path and query (`$request_uri` of the origin form), to be passed to
    /// [`normalise`](crate::uri::normalise). Empty in authority and asterisk form.
    pub path: Span,
    /// The form of the target. Positions in it are relative to the target.
    pub form: TargetForm,
    /// The version.
    pub version: Version,
    /// Header lines in the order sent, without the ignored ones.
    pub headers: SmallVec<[RawHeader; INLINE_HEADERS]>,
    /// Bytes of the buffer that the head takes, including empty lines before it; the body starts
    /// there. In HTTP/2, bytes of the header block as sent.
    pub head_bytes: usize,
    /// Whether the client wants the connection kept open.
    pub keep_alive: bool,
    /// How the body is framed.
    pub framing: Framing,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// `Connection` lists `upgrade`.
    pub connection_upgrade: bool,
    /// It is an extended CONNECT (RFC 8441) for a WebSocket, in the form of the request that opens
    /// one over HTTP/1.1: GET with `Upgrade`. Only in HTTP/2.
    pub extended_connect: bool,
    /// The host that the request is for: from the target if that has one, otherwise from `Host`;
    /// without port and trailing dot, in the case sent. `None` only before HTTP/1.1.
    pub host: Option<Span>,
    /// The port written beside that host.
    pub port: Option<u16>,
    /// The first header line ignored because of its name, for the log.
    pub ignored_header: Option<Span>,
    /// `Connection` lists `close`.
    connection_close: bool,
    /// The well-known headers that were sent, as a set.
    known: KnownSet,
}

impl Default for RequestHead {
    fn default() -> RequestHead {
        RequestHead {
            method: Method::Get,
            method_name: Span::default(),
            request_line: Span::default(),
            target: Span::default(),
            path: Span::default(),
            form: TargetForm::Origin,
            version: Version::Http11,
            headers: SmallVec::new(),
            head_bytes: 0,
            keep_alive: false,
            framing: Framing::None,
            expect_continue: false,
            connection_upgrade: false,
            extended_connect: false,
            host: None,
            port: None,
            ignored_header: None,
            connection_close: false,
            known: KnownSet::default(),
        }
    }
}

impl RequestHead {
    /// The first value of a well-known header; a single bit test if it was not sent.
    pub fn get(&self, name: KnownHeader) -> Option<Span> {
        self.get_all(name).next()
    }

    /// Whether a well-known header was sent.
    pub fn has(&self, name: KnownHeader) -> bool {
        self.known.contains(name)
    }

    /// Adds a header parsed by another codec; returns whether one of its name existed.
    pub fn push_header(&mut self, header: RawHeader) -> bool {
        self.headers.push(header);
        let Some(known) = header.known else {
            return false;
        };
        let seen = self.known.contains(known);
        self.known.insert(known);
        seen
    }

    /// Gives a header this value, as if the client had sent it: where the first of its name is, in
    /// place of all of them. Name and value are appended to `buf`, which is the parsed buffer.
    /// What was derived from the headers, such as framing and host, stays as it is.
    pub fn set_header(&mut self, buf: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        let start = buf.len();
        buf.extend_from_slice(value);
        let value = Span::new(start, buf.len());
        let mut is_written = false;
        self.headers.retain(|header| {
            if !header.name.of(buf).eq_ignore_ascii_case(name) {
                return true;
            }
            header.value = value;
            !std::mem::replace(&mut is_written, true)
        });
        if !is_written {
            let start = buf.len();
            buf.extend_from_slice(name);
            self.push_header(RawHeader {
                name: Span::new(start, buf.len()),
                value,
                known: KnownHeader::from_name(name),
            });
        }
    }

    /// Removes the headers whose names are chosen. `buf` is the parsed buffer. What was derived
    /// from them, such as framing and host, stays as it is.
    pub fn remove_headers(&mut self, buf: &[u8], chosen: impl Fn(&[u8]) -> bool) {
        let RequestHead { headers, known, .. } = self;
        headers.retain(|header| {
            let is_chosen = chosen(header.name.of(buf));
            if is_chosen && let Some(name) = header.known {
                // All of one name have the same fate.
                known.remove(name);
            }
            !is_chosen
        });
    }

    /// All values of a well-known header.
    pub fn get_all(&self, name: KnownHeader) -> impl Iterator<Item = Span> {
        all_known(&self.headers, self.known, name)
    }

    /// The first value of any header, by name in any case. `buf` is the parsed buffer.
    pub fn get_by_name(&self, buf: &[u8], name: &[u8]) -> Option<Span> {
        find_by_name(&self.headers, buf, name)
    }
}

/// The values of a well-known header among the headers of a head. `known` says which were sent, so
/// this is a single bit test if it was not sent.
pub(super) fn all_known(
    headers: &[RawHeader],
    known: KnownSet,
    name: KnownHeader,
) -> impl Iterator<Item = Span> {
    let headers = if known.contains(name) { headers } else { &[] };
    headers
        .iter()
        .filter(move |header| header.known == Some(name))
        .map(|header| header.value)
}

/// The first value of any header, by name in any case.
pub(super) fn find_by_name(headers: &[RawHeader], buf: &[u8], name: &[u8]) -> Option<Span> {
    let header = headers
        .iter()
        .find(|header| header.name.of(buf).eq_ignore_ascii_case(name))?;
    Some(header.value)
}

/// The progress of parsing, so that no byte is examined twice.
///
/// Belongs to one buffer position: the buffer may grow at its end between calls, but bytes already
/// seen must stay where they are relative to its start. Ready for the next request after
/// [`Parsed::Complete`]. After an error the connection is over, and every later call returns that
/// error.
#[derive(Debug, Default)]
pub struct ParseState {
    stage: Stage,
    /// Start of the current line.
    line_start: usize,
    /// Everything before this has been searched for a line end.
    scanned: usize,
    /// Everything before this has been checked to be part of a method.
    method_scanned: usize,
    buffers: HeaderBuffers,
    head: RequestHead,
    failed: Option<RequestError>,
}

impl ParseState {
    /// Whether a request line was understood that is followed by header lines: not that of
    /// HTTP/0.9.
    pub(crate) fn is_in_headers(&self) -> bool {
        self.stage == Stage::Headers
    }

    /// What is known of a refused request: its request line, and the header lines before the
    /// invalid one. `None` if its request line was not understood.
    pub fn into_refused(self) -> Option<RequestHead> {
        let head_bytes = self.line_start;
        (self.stage == Stage::Headers).then_some(RequestHead {
            head_bytes,
            ..self.head
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    EmptyLines,
    RequestLine,
    Headers,
}

/// Where a line ends, or why that is not known.
pub(super) enum LineEnd {
    Incomplete,
    /// The line's text ends here, and the next line starts there.
    Found {
        text_end: usize,
        next: usize,
    },
    /// NUL, or CR without LF, detected at this byte.
    Forbidden {
        at: usize,
    },
}

/// Parses a request head from the start of `buf`.
///
/// Empty lines before the request are skipped (RFC 9112 section 2.2). Lines may end with LF
/// alone, as nginx accepts.
///
/// The result does not depend on fragmentation: a head that arrives byte by byte gives exactly the
/// same result as one that arrives at once, errors included.
///
/// # Errors
/// [`RequestError`]; the request must be answered with its status and the connection closed. Every
/// later call with this state returns it again.
pub fn parse_request(
    buf: &[u8],
    state: &mut ParseState,
    limits: &Limits,
) -> Result<Parsed, RequestError> {
    if let Some(error) = state.failed {
        return Err(error);
    }
    let parsed = read_on(buf, state, limits);
    state.failed = parsed.as_ref().err().copied();
    parsed
}

fn read_on(buf: &[u8], state: &mut ParseState, limits: &Limits) -> Result<Parsed, RequestError> {
    if state.stage == Stage::EmptyLines && !skip_empty_lines(buf, state, limits)? {
        return Ok(Parsed::Incomplete);
    }
    if state.stage == Stage::RequestLine {
        // Bytes beyond the buffers are not examined, or the error would depend on how many arrive
        // at once.
        let reach = state.buffers.reach(state.line_start, limits);
        let held = &buf[..buf.len().min(reach)];
        request_line::check_method_bytes(held, state.line_start, &mut state.method_scanned)?;
        let Some(text_end) = next_line(buf, state, limits)? else {
            return Ok(Parsed::Incomplete);
        };
        request_line::parse(buf, text_end, &mut state.head)?;
        if state.head.version == Version::Http09 {
            return Ok(Parsed::Complete(take_head(state)));
        }
        state.stage = Stage::Headers;
    }
    loop {
        let line_start = state.line_start;
        let Some(text_end) = next_line(buf, state, limits)? else {
            return Ok(Parsed::Incomplete);
        };
        let line = Span::new(line_start, text_end);
        if line.is_empty() {
            finish(buf, &mut state.head)?;
            return Ok(Parsed::Complete(take_head(state)));
        }
        add_header(buf, line, &mut state.head, limits)?;
    }
}

/// Skips CR and LF; `false` if nothing else has arrived yet.
fn skip_empty_lines(
    buf: &[u8],
    state: &mut ParseState,
    limits: &Limits,
) -> Result<bool, RequestError> {
    let skipped = &buf[state.line_start..];
    let is_end = |&byte: &u8| byte == b'\r' || byte == b'\n';
    state.line_start += skipped.iter().take_while(|byte| is_end(byte)).count();
    if state.line_start > limits.header_buffer_bytes {
        return Err(RequestError::TooManyEmptyLines);
    }
    if state.line_start == buf.len() {
        return Ok(false);
    }
    state.stage = Stage::RequestLine;
    state.scanned = state.line_start;
    state.method_scanned = state.line_start;
    state.head.request_line = Span::new(state.line_start, state.line_start);
    state.buffers = HeaderBuffers::new(limits);
    Ok(true)
}

/// Moves to the next line and returns where the text of this one ends; `None` if it has not ended.
/// Checks the limits first, so that they do not depend on how the bytes arrive.
fn next_line(
    buf: &[u8],
    state: &mut ParseState,
    limits: &Limits,
) -> Result<Option<usize>, RequestError> {
    let found = find_line_end(buf, state.scanned);
    let needed_end = match found {
        LineEnd::Incomplete => buf.len() + 1,
        LineEnd::Found { next, .. } => next,
        LineEnd::Forbidden { at } => at + 1,
    };
    state
        .buffers
        .make_room(state.line_start, needed_end, limits)
        .map_err(|full| does_not_fit(state, full))?;
    match found {
        LineEnd::Incomplete => {
            // A CR at the end is examined again, together with its LF.
            state.scanned = buf.len() - usize::from(buf.last() == Some(&b'\r'));
            state.scanned = state.scanned.max(state.line_start);
            Ok(None)
        }
        LineEnd::Found { text_end, next } => {
            state.line_start = next;
            state.scanned = next;
            Ok(Some(text_end))
        }
        LineEnd::Forbidden { at } => {
            let line = Span::new(state.line_start, at + 1);
            Err(match state.stage {
                Stage::Headers => RequestError::InvalidHeaderLine { line },
                _ => RequestError::InvalidRequestLine { line },
            })
        }
    }
}

pub(super) fn find_line_end(buf: &[u8], from: usize) -> LineEnd {
    let Some(offset) = memchr3(b'\n', b'\r', 0, &buf[from..]) else {
        return LineEnd::Incomplete;
    };
    let at = from + offset;
    match (buf[at], buf.get(at + 1)) {
        (b'\n', _) => LineEnd::Found {
            text_end: at,
            next: at + 1,
        },
        (b'\r', None) => LineEnd::Incomplete,
        (b'\r', Some(b'\n')) => LineEnd::Found {
            text_end: at,
            next: at + 2,
        },
        (b'\r', Some(_)) => LineEnd::Forbidden { at: at + 1 },
        _ => LineEnd::Forbidden { at },
    }
}

/// The error for a line that does not fit into a buffer, in nginx's words. A header line that has
/// begun is quoted, whether it was too long by itself or no buffer was left for it.
fn does_not_fit(state: &ParseState, full: Full) -> RequestError {
    if state.stage == Stage::RequestLine {
        return RequestError::UriTooLong;
    }
    let line = Span::new(state.line_start, full.end);
    if line.is_empty() {
        RequestError::HeadTooLarge
    } else {
        RequestError::HeaderLineTooLong { line }
    }
}

/// Processes one header line.
fn add_header(
    buf: &[u8],
    line: Span,
    head: &mut RequestHead,
    limits: &Limits,
) -> Result<(), RequestError> {
    let invalid = RequestError::InvalidHeaderLine { line };
    let parsed = header_line::parse(buf, line, limits.underscores_in_headers).ok_or(invalid)?;
    if !parsed.usual_name && limits.ignore_invalid_headers {
        head.ignored_header.get_or_insert(line);
        return Ok(());
    }
    if head.headers.len() >= limits.max_headers {
        return Err(RequestError::TooManyHeaders);
    }
    let header = RawHeader {
        name: parsed.name,
        value: parsed.value,
        known: parsed.known,
    };
    head.headers.push(header);
    if let Some(known) = header.known {
        let seen = head.has(known);
        head.known.insert(known);
        if seen && is_sent_once(known) {
            return Err(RequestError::DuplicateHeader { name: known, line });
        }
        note_header(buf, known, header.value, head)?;
    }
    Ok(())
}

/// Headers that nginx refuses if they are sent twice.
pub(crate) fn is_sent_once(known: KnownHeader) -> bool {
    matches!(
        known,
        KnownHeader::Host
            | KnownHeader::ContentLength
            | KnownHeader::TransferEncoding
            | KnownHeader::ContentRange
            | KnownHeader::Expect
            | KnownHeader::Authorization
            | KnownHeader::IfRange
            | KnownHeader::IfMatch
            | KnownHeader::IfNoneMatch
            | KnownHeader::IfModifiedSince
            | KnownHeader::IfUnmodifiedSince
    )
}

/// Records what the connection needs to know about a header.
fn note_header(
    buf: &[u8],
    known: KnownHeader,
    value: Span,
    head: &mut RequestHead,
) -> Result<(), RequestError> {
    match known {
        KnownHeader::Host => {
            let authority =
                parse_authority(value.of(buf)).map_err(|_| RequestError::InvalidHost { value })?;
            // A host in the target takes precedence over the header (RFC 9112 section 3.2.2).
            if head.host.is_none() {
                let start = value.start as usize;
                head.host = Some(Span::new(start, start + authority.host.len()));
                head.port = authority.port;
            }
        }
        KnownHeader::Connection => {
            let options = connection::options(value.of(buf));
            head.connection_upgrade |= options.upgrade;
            // Decided in `finish`, when all lines have been seen.
            head.keep_alive |= options.keep_alive;
            head.connection_close |= options.close;
        }
        KnownHeader::Expect => {
            head.expect_continue = head.version >= Version::Http11
                && value.of(buf).eq_ignore_ascii_case(b"100-continue");
        }
        _ => {}
    }
    Ok(())
}

/// Makes the checks that need the whole head, in nginx's order.
fn finish(buf: &[u8], head: &mut RequestHead) -> Result<(), RequestError> {
    if head.version >= Version::Http11 && !head.has(KnownHeader::Host) {
        return Err(RequestError::MissingHost);
    }
    if let Some(value) = head.get(KnownHeader::ContentLength) {
        let length = decimal::parse_offset(value.of(buf))
            .ok_or(RequestError::InvalidContentLength { value })?;
        head.framing = Framing::Length(length);
    }
    if let Some(value) = head.get(KnownHeader::TransferEncoding) {
        if head.version < Version::Http11 {
            return Err(RequestError::TransferEncodingInHttp10);
        }
        if !value.of(buf).eq_ignore_ascii_case(b"chunked") {
            return Err(RequestError::UnknownTransferEncoding { value });
        }
        if head.has(KnownHeader::ContentLength) {
            return Err(RequestError::LengthWithTransferEncoding);
        }
        head.framing = Framing::Chunked;
    }
    // HTTP/1.1 connections stay open unless closed; earlier ones close unless kept alive.
    head.keep_alive |= head.version >= Version::Http11;
    head.keep_alive &= !head.connection_close;
    Ok(())
}

fn take_head(state: &mut ParseState) -> RequestHead {
    let done = std::mem::take(state);
    let mut head = done.head;
    head.head_bytes = done.line_start;
    head
}
