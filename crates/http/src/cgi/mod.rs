//! Responses of gateway programs (RFC 3875 section 6), as FastCGI, SCGI and uwsgi carry them.
//!
//! A head is header lines up to an empty line; `Status` says the status. Without it there is a
//! redirect where `Location` is, and success otherwise. Lines end with CR LF or LF.

use crate::h1::response::{FirstLine, parse_head};
use crate::h1::{ParsedResponse, ResponseError, ResponseLimits, ResponseState};

mod param;
pub mod variables;

pub use param::Param;

#[cfg(test)]
mod tests;

/// What a status line of HTTP at the start of a gateway's response means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusLine {
    /// It is the status; `Status` then means nothing (SCGI and uwsgi, as in nginx).
    Taken,
    /// It is skipped, as are all lines that begin with `HTTP/` (FastCGI, as in nginx).
    Skipped,
}

/// Parses a gateway's response head from the start of `buf`, whose bytes must lie together: what
/// FastCGI cuts into records is to be joined until the head is complete.
///
/// The result's [`framing`](crate::h1::ReceivedResponse::framing) knows that the gateway protocol
/// ends the body. Its `keep_alive` is never set: that too is the gateway protocol's.
///
/// # Errors
/// [`ResponseError`]; the connection must be closed.
pub fn parse_cgi_response(
    buf: &[u8],
    state: &mut ResponseState,
    limits: &ResponseLimits,
    status_line: StatusLine,
) -> Result<ParsedResponse, ResponseError> {
    let first_line = match status_line {
        StatusLine::Taken => FirstLine::StatusOrHeader,
        StatusLine::Skipped => FirstLine::Header,
    };
    parse_head(buf, state, limits, first_line)
}
