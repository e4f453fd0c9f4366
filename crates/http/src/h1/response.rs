//! Parses response heads of origins line by line, as far as their bytes have arrived.
//!
//! The documentation of the [parent module](super) says what is refused, and what is accepted as in
//! nginx.

use super::request::{LineEnd, Version, find_line_end};
use super::response_error::ResponseError;
use super::response_head::{ReceivedResponse, ResponseKind, Wire, status_code};
use crate::{Span, StatusCode};

/// Default of [`ResponseLimits::max_interim`].
pub const DEFAULT_MAX_INTERIM: usize = 32;

/// Limits of a response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseLimits {
    /// `proxy_buffer_size`, `fastcgi_buffer_size` and so on: the most bytes of one head.
    pub max_head_bytes: usize,
    /// Interim responses (100, 103) before the final one. There is no directive: no origin sends
    /// more than a few, and each costs a head.
    pub max_interim: usize,
}

impl ResponseLimits {
    /// Limits for heads of at most `max_head_bytes` bytes; the others have their defaults.
    pub fn of_head(max_head_bytes: usize) -> ResponseLimits {
        ResponseLimits {
            max_head_bytes,
            ..ResponseLimits::default()
        }
    }
}

impl Default for ResponseLimits {
    /// nginx's default, a page.
    fn default() -> ResponseLimits {
        ResponseLimits {
            max_head_bytes: 4096,
            max_interim: DEFAULT_MAX_INTERIM,
        }
    }
}

/// The result of [`parse_response`].
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // moved once, into its owner; a box would cost more
pub enum ParsedResponse {
    /// The head has not ended; call again, with the same state, when more bytes follow.
    Incomplete,
    /// A whole head; its [`kind`](ReceivedResponse::kind) says whether another one follows. The
    /// state is ready for that one.
    Complete(ReceivedResponse),
}

/// The progress of parsing, so that no byte is examined twice.
///
/// Belongs to one buffer position: the buffer may grow at its end between calls, but bytes already
/// seen must stay where they are relative to its start. After [`ParsedResponse::Complete`] the next
/// call starts at the next head's first byte. After an error the connection is over, and every
/// later call returns that error.
#[derive(Debug, Default)]
pub struct ResponseState {
    stage: Stage,
    /// Start of the current line.
    line_start: usize,
    /// Everything before this has been searched for a line end.
    scanned: usize,
    /// Interim responses since the last final one.
    interim: usize,
    head: ReceivedResponse,
    failed: Option<ResponseError>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    FirstLine,
    Headers,
}

/// What the first line of a head can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstLine {
    /// A status line, or the head is refused.
    Status,
    /// A status line or a header (SCGI, uwsgi).
    StatusOrHeader,
    /// A header (FastCGI).
    Header,
}

/// Parses a response head from the start of `buf`.
///
/// The result does not depend on fragmentation, errors included.
///
/// # Errors
/// [`ResponseError`]; the connection must be closed. Every later call with this state returns it
/// again.
pub fn parse_response(
    buf: &[u8],
    state: &mut ResponseState,
    limits: &ResponseLimits,
) -> Result<ParsedResponse, ResponseError> {
    parse_head(buf, state, limits, FirstLine::Status)
}

pub(crate) fn parse_head(
    buf: &[u8],
    state: &mut ResponseState,
    limits: &ResponseLimits,
    first_line: FirstLine,
) -> Result<ParsedResponse, ResponseError> {
    if let Some(error) = state.failed {
        return Err(error);
    }
    let parsed = read_on(buf, state, limits, first_line);
    state.failed = parsed.as_ref().err().copied();
    parsed
}

fn read_on(
    buf: &[u8],
    state: &mut ResponseState,
    limits: &ResponseLimits,
    first_line: FirstLine,
) -> Result<ParsedResponse, ResponseError> {
    // Bytes beyond a buffer of that size are not examined: neither the result nor the error may
    // depend on how much arrived at once.
    let limit = limits.max_head_bytes.min(u32::MAX as usize);
    let is_full = buf.len() >= limit;
    let held = &buf[..buf.len().min(limit)];
    if state.stage == Stage::FirstLine {
        if first_line != FirstLine::Status {
            state.head.wire = Wire::Gateway;
        }
        if first_line == FirstLine::Status {
            check_beginning(held)?;
        }
        if first_line != FirstLine::Header {
            let Some(line) = next_line(held, is_full, state)? else {
                return Ok(ParsedResponse::Incomplete);
            };
            take_first_line(held, line, first_line, &mut state.head)?;
            if line.is_empty() {
                return complete(held, state, limits);
            }
        }
        state.stage = Stage::Headers;
    }
    while let Some(line) = next_line(held, is_full, state)? {
        if line.is_empty() {
            return complete(held, state, limits);
        }
        state.head.add_line(held, line)?;
    }
    Ok(ParsedResponse::Incomplete)
}

/// Refuses anything that cannot become a status line at its first wrong byte: a peer that speaks
/// another protocol may never send a line end.
fn check_beginning(buf: &[u8]) -> Result<(), ResponseError> {
    let differs = b"HTTP/"
        .iter()
        .zip(buf)
        .position(|(one, other)| one != other);
    differs.map_or(Ok(()), |at| {
        let line = Span::new(0, at + 1);
        Err(ResponseError::NoStatusLine { line })
    })
}

/// Moves to the next line and returns the text of this one; `None` if it has not ended.
fn next_line(
    held: &[u8],
    is_full: bool,
    state: &mut ResponseState,
) -> Result<Option<Span>, ResponseError> {
    match find_line_end(held, state.scanned) {
        LineEnd::Incomplete if is_full => Err(ResponseError::HeadTooLarge),
        LineEnd::Incomplete => {
            // A CR at the end is examined again, together with its LF.
            let scanned = held.len() - usize::from(held.last() == Some(&b'\r'));
            state.scanned = scanned.max(state.line_start);
            Ok(None)
        }
        LineEnd::Found { text_end, next } => {
            let line = Span::new(state.line_start, text_end);
            state.line_start = next;
            state.scanned = next;
            Ok(Some(line))
        }
        LineEnd::Forbidden { at } => {
            let line = Span::new(state.line_start, at + 1);
            Err(match state.stage {
                Stage::FirstLine if state.head.wire == Wire::Http => {
                    ResponseError::NoStatusLine { line }
                }
                _ => ResponseError::InvalidHeader { line },
            })
        }
    }
}

fn take_first_line(
    buf: &[u8],
    line: Span,
    first_line: FirstLine,
    head: &mut ReceivedResponse,
) -> Result<(), ResponseError> {
    if let Some((version, status_line, status)) = parse_status_line(buf, line) {
        head.version = version;
        head.status_line = status_line;
        head.status = status;
        return Ok(());
    }
    match first_line {
        FirstLine::Status => Err(ResponseError::NoStatusLine { line }),
        _ if line.is_empty() => Ok(()),
        _ => head.add_line(buf, line),
    }
}

/// Parses the version, and the status with its reason. As in nginx, any version number is accepted,
/// several spaces may precede the status, and a dot may follow it (IIS's 403.1).
fn parse_status_line(buf: &[u8], line: Span) -> Option<(Version, Span, StatusCode)> {
    let text = line.of(buf).strip_prefix(b"HTTP/")?;
    let dot = text.iter().position(|&byte| byte == b'.')?;
    let space = text.iter().position(|&byte| byte == b' ')?;
    let (major, minor) = (text.get(..dot)?, text.get(dot + 1..space)?);
    let is_number = |digits: &[u8]| {
        matches!(digits.len(), 1..=3) && digits.iter().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(major) || !is_number(minor) || major[0] == b'0' {
        return None;
    }
    let version = match (major, minor) {
        (b"1", minor) if minor.iter().all(|&digit| digit == b'0') => Version::Http10,
        _ => Version::Http11,
    };
    let rest = &text[space..];
    let status = &rest[rest.iter().take_while(|&&byte| byte == b' ').count()..];
    let code = status_code(status)?;
    if !matches!(status.get(3), None | Some(b' ' | b'.')) {
        return None;
    }
    let end = line.end as usize;
    Some((version, Span::new(end - status.len(), end), code))
}

/// Takes the head out of the state, which is then ready for the next one.
fn complete(
    buf: &[u8],
    state: &mut ResponseState,
    limits: &ResponseLimits,
) -> Result<ParsedResponse, ResponseError> {
    state.head.finish(buf)?;
    let done = std::mem::take(state);
    let mut head = done.head;
    head.head_bytes = done.line_start;
    if head.kind() == ResponseKind::Interim {
        state.interim = done.interim + 1;
        if state.interim > limits.max_interim {
            return Err(ResponseError::TooManyInterim);
        }
    }
    Ok(ParsedResponse::Complete(head))
}
