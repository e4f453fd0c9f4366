//! Responses of gateway programs (RFC 3875 section 6), as FastCGI, SCGI and uwsgi carry them.
//!
//! A head is a list of header lines up to an empty line. `Status` gives the status; without it, the
//! response is a redirect if there is a `Location`, and a success otherwise. Lines end with CR LF
//! or LF.

use crate::h1::response::{FirstLine, parse_head};
use crate::h1::{ParsedResponse, ResponseError, ResponseLimits, ResponseState};

mod param;
pub mod variables;

pub use param::Param;

#[cfg(test)]
mod tests;

/// How an HTTP status line at the start of a gateway's response is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusLine {
    /// It gives the status; `Status` is then ignored (SCGI and uwsgi, as in nginx).
    Taken,
    /// It is skipped, like all lines that begin with `HTTP/` (FastCGI, as in nginx).
    Skipped,
}

/// Parses a gateway's response head from the start of `buf`, which must be contiguous: join the
/// contents of FastCGI records until the head is complete.
///
/// The result's [`framing`](crate::h1::ReceivedResponse::framing) takes into account that the
/// gateway protocol ends the body. `keep_alive` is never set, since the gateway protocol decides
/// that too.
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
