//! `slice`: requests a large file from another server in pieces of equal size, whatever range
//! the client asks for (ngx_http_slice_filter_module).
//!
//! It is switched on by `$slice_range`: a request that contains it gets one piece as its
//! response. The head of that response is turned into the head of the whole, and the following
//! pieces are requested one by one as the client reads. Pieces that do not belong to the same
//! file end the response.

use crate::body_source::{BodySource, Filled, PendingBody, SourceError};
use crate::exchange::Exchange;
use crate::handlers::{self, Outcome};
use crate::pipeline;
use crate::request_log::log_request;
use crate::subrequest;
use sealane_http::StatusCode;
use sealane_http::decimal::parse_offset;
use sealane_http::headers::KnownHeader;
use sealane_io::chain::OutputChain;
use std::ops::Range;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};

/// What a request keeps for `slice`.
#[derive(Default)]
pub(crate) struct SliceState {
    /// The piece that `$slice_range` has asked for.
    current: OnceLock<Box<Slice>>,
}

impl SliceState {
    /// Whether the request asks for a piece.
    pub(crate) fn asks(&self) -> bool {
        self.current.get().is_some_and(|slice| slice.bytes > 0)
    }
}

/// The piece that a request asks for.
#[derive(Debug, Clone)]
pub(crate) struct Slice {
    start: u64,
    /// `slice`; 0 if the other server has answered with something other than a piece.
    bytes: u64,
    /// The part of the whole that the client gets, once that is known.
    wanted: Option<Range<u64>>,
}

/// The `Content-Range` of a piece.
struct Piece {
    range: Range<u64>,
    complete_bytes: u64,
}

/// Appends `$slice_range`; false when there is none.
pub(crate) fn append_range(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    let slot = &exchange.features.slice.current;
    if slot.get().is_none() {
        let bytes = exchange.conf().slice_bytes;
        let is_passed = exchange.snapshot.location(exchange.location).pass.is_some();
        if bytes == 0 || !is_passed || exchange.request.is_subrequest {
            return false;
        }
        let start = asked_start(exchange) / bytes * bytes;
        let slice = Slice {
            start,
            bytes,
            wanted: None,
        };
        let _ = slot.set(Box::new(slice));
    }
    let Some(slice) = slot.get().filter(|slice| slice.bytes > 0) else {
        return false;
    };
    let end = slice.start.saturating_add(slice.bytes) - 1;
    out.extend_from_slice(format!("bytes={}-{end}", slice.start).as_bytes());
    true
}

/// Where the client's range begins, if it asks for exactly one.
fn asked_start(exchange: &Exchange) -> u64 {
    let head = &exchange.request.head;
    let Some(range) = head.get(KnownHeader::Range) else {
        return 0;
    };
    let range = range.of(&exchange.request.buffer);
    let Some((unit, ranges)) = range.split_at_checked(6) else {
        return 0;
    };
    if head.has(KnownHeader::IfRange)
        || !unit.eq_ignore_ascii_case(b"bytes=")
        || ranges.contains(&b',')
    {
        return 0;
    }
    let digits = ranges.trim_ascii_start();
    let len = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    parse_offset(&digits[..len]).unwrap_or(0)
}

/// Turns the response with a piece into the response for the whole.
///
/// # Errors
/// When it is not the piece that was asked for: the connection ends, as in nginx.
pub(super) fn apply(exchange: &mut Exchange) -> Result<(), StatusCode> {
    let Some(slice) = exchange.features.slice.current.get_mut() else {
        return Ok(());
    };
    if exchange.response.status != StatusCode::PARTIAL_CONTENT || slice.bytes == 0 {
        slice.bytes = 0;
        return Ok(());
    }
    let (start, bytes) = (slice.start, slice.bytes);
    let Some(piece) = check(exchange, exchange, start, bytes) else {
        exchange.response.drop_connection = true;
        return Err(StatusCode::INTERNAL_SERVER_ERROR);
    };
    if let Some(slice) = exchange.features.slice.current.get_mut() {
        slice.wanted = Some(0..piece.complete_bytes);
    }
    let response = &mut exchange.response;
    let etag = response
        .headers
        .get_known(KnownHeader::Etag)
        .map(Into::into);
    response.status = StatusCode::OK;
    response.content_length = Some(piece.complete_bytes);
    response.headers.remove(b"Content-Range");
    response.headers.remove(b"Accept-Ranges");
    response.allow_ranges = true;
    response.single_range = true;
    if let Some(passed) = &mut response.passed {
        passed.reason = None;
    }
    let source = response.source.take().map(PendingBody::into_source);
    let is_prompt = source.as_ref().is_some_and(|source| source.is_prompt());
    let part = ArrivingPiece {
        owner: None,
        source,
        pending: std::mem::take(&mut response.body),
        range: piece.range,
    };
    response.source = Some(PendingBody::new(SliceSource {
        bytes,
        complete_bytes: piece.complete_bytes,
        etag,
        position: None,
        is_prompt,
        state: SliceSourceState::Reading(part),
    }));
    Ok(())
}

/// Restricts the response to this range. True if the response consists of pieces.
pub(super) fn set_range(exchange: &mut Exchange, range: Range<u64>) -> bool {
    match exchange.features.slice.current.get_mut() {
        Some(slice) if slice.wanted.is_some() => {
            slice.wanted = Some(range);
            true
        }
        _ => false,
    }
}

/// The range of a response, if it is the piece at `start`; otherwise the reason is logged for
/// `exchange`.
fn check(exchange: &Exchange, response_of: &Exchange, start: u64, bytes: u64) -> Option<Piece> {
    let headers = &response_of.response.headers;
    let content_range = headers.get_known(KnownHeader::ContentRange);
    let Some((range, complete)) = content_range.and_then(parse_content_range) else {
        log_request!(exchange, Error, "invalid range in slice response");
        return None;
    };
    let Some(complete_bytes) = complete else {
        log_request!(exchange, Error, "no complete length in slice response");
        return None;
    };
    let end = range.start.saturating_add(bytes).min(complete_bytes);
    if range.start != start || range.end != end {
        log_request!(
            exchange,
            Error,
            "unexpected range in slice response: {}-{}, expected: {start}-{end}",
            range.start,
            range.end
        );
        return None;
    }
    Some(Piece {
        range,
        complete_bytes,
    })
}

/// `bytes 0-9/100`, with spaces where nginx accepts them; the length may be `*`.
fn parse_content_range(value: &[u8]) -> Option<(Range<u64>, Option<u64>)> {
    let rest = value.strip_prefix(b"bytes ")?;
    let dash = memchr::memchr(b'-', rest)?;
    let slash = memchr::memchr(b'/', rest).filter(|slash| *slash > dash)?;
    let number = |text: &[u8]| parse_offset(text.trim_ascii());
    let start = number(&rest[..dash])?;
    let end = number(&rest[dash + 1..slash])?;
    let complete = match rest[slash + 1..].trim_ascii() {
        b"*" => None,
        text => Some(number(text)?),
    };
    // Both are below 2^63.
    Some((start..end + 1, complete))
}

/// The pieces one after another.
struct SliceSource {
    bytes: u64,
    complete_bytes: u64,
    etag: Option<Box<[u8]>>,
    /// Position of the client's next byte; `None` before the first piece is requested.
    position: Option<u64>,
    /// See [`BodySource::is_prompt`].
    is_prompt: bool,
    state: SliceSourceState,
}

enum SliceSourceState {
    Reading(ArrivingPiece),
    Asking(Pin<Box<dyn Future<Output = (Box<Exchange>, Outcome)> + Send>>),
    Over,
}

/// A piece that is arriving.
struct ArrivingPiece {
    /// The subrequest that it responds to; `None` for the request itself.
    owner: Option<Box<Exchange>>,
    source: Option<Box<dyn BodySource>>,
    pending: OutputChain,
    /// The range that is still to come of it.
    range: Range<u64>,
}

impl ArrivingPiece {
    /// Ends the piece.
    fn conclude(mut self, exchange: &mut Exchange, completed: bool) {
        let owner = self.owner.as_deref_mut().unwrap_or(exchange);
        if let Some(source) = self.source.take() {
            source.conclude(owner, completed);
        }
        if let Some(owner) = &self.owner {
            pipeline::conclude_subrequest(owner);
        }
    }

    /// Discards what precedes a position.
    fn skip_to(&mut self, position: u64) {
        let skipped = position
            .saturating_sub(self.range.start)
            .min(self.pending.len());
        self.pending.advance(skipped);
        self.range.start += skipped;
    }

    fn poll_more(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        max_bytes: u64,
    ) -> Poll<Result<(), SourceError>> {
        let owner = self.owner.as_deref_mut().unwrap_or(exchange);
        let Some(source) = &mut self.source else {
            // It has ended too early.
            return Poll::Ready(Err(SourceError));
        };
        let filled = ready!(source.poll_fill(cx, owner, &mut self.pending, max_bytes));
        if matches!(filled, Ok(Filled::End) | Err(_))
            && let Some(source) = self.source.take()
        {
            source.conclude(owner, filled.is_ok());
        }
        match filled {
            // What there was before is passed on.
            Err(_) if !self.pending.is_empty() => Poll::Ready(Ok(())),
            filled => Poll::Ready(filled.map(|_| ())),
        }
    }
}

impl SliceSource {
    fn wanted(exchange: &Exchange) -> Range<u64> {
        let slice = exchange.features.slice.current.get();
        slice
            .and_then(|slice| slice.wanted.clone())
            .unwrap_or_default()
    }

    /// Requests the piece with this position. The response ends if no more subrequests are allowed.
    fn ask(&self, exchange: &Exchange, position: u64) -> SliceSourceState {
        let slice = Slice {
            start: position / self.bytes * self.bytes,
            bytes: self.bytes,
            wanted: None,
        };
        let Some(asked) = subrequest::again(exchange) else {
            return SliceSourceState::Over;
        };
        let mut asked = Box::new(asked);
        asked.features.slice.current = Box::new(slice).into();
        SliceSourceState::Asking(Box::pin(async move {
            let outcome = handlers::content(&mut asked).await;
            (asked, outcome)
        }))
    }

    /// The response to [`SliceSource::ask`], if it belongs to the same file.
    fn accept(
        &self,
        exchange: &Exchange,
        mut asked: Box<Exchange>,
        outcome: Outcome,
    ) -> Option<ArrivingPiece> {
        let status = match outcome {
            Outcome::Answered => asked.response.status,
            Outcome::Status(status) => status,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status == StatusCode::CLIENT_CLOSED_REQUEST {
            return None; // the log says so already
        }
        if status != StatusCode::PARTIAL_CONTENT {
            let status = status.0;
            log_request!(
                exchange,
                Error,
                "unexpected status code {status} in slice response"
            );
            return None;
        }
        let etag = asked.response.headers.get_known(KnownHeader::Etag);
        if self.etag.is_some() && etag != self.etag.as_deref() {
            log_request!(exchange, Error, "etag mismatch in slice response");
            return None;
        }
        let start = asked.features.slice.current.get()?.start;
        let piece = check(exchange, &asked, start, self.bytes)?;
        if piece.complete_bytes != self.complete_bytes {
            log_request!(
                exchange,
                Error,
                "unexpected complete length in slice response: {}, expected: {}",
                piece.complete_bytes,
                self.complete_bytes
            );
            return None;
        }
        let response = &mut asked.response;
        Some(ArrivingPiece {
            source: response.source.take().map(PendingBody::into_source),
            pending: std::mem::take(&mut response.body),
            range: piece.range,
            owner: Some(asked),
        })
    }
}

impl BodySource for SliceSource {
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        let wanted = SliceSource::wanted(exchange);
        let mut position = self.position.unwrap_or(wanted.start);
        loop {
            if position >= wanted.end {
                return Poll::Ready(Ok(Filled::End));
            }
            self.position = Some(position);
            let part = match &mut self.state {
                SliceSourceState::Over => return Poll::Ready(Err(SourceError)),
                SliceSourceState::Asking(asking) => {
                    let (asked, outcome) = ready!(asking.as_mut().poll(cx));
                    self.state = match self.accept(exchange, asked, outcome) {
                        Some(part) => SliceSourceState::Reading(part),
                        None => SliceSourceState::Over,
                    };
                    continue;
                }
                SliceSourceState::Reading(part) => part,
            };
            if position < part.range.start || position >= part.range.end {
                if let SliceSourceState::Reading(part) =
                    std::mem::replace(&mut self.state, SliceSourceState::Over)
                {
                    let completed = part.range.is_empty();
                    part.conclude(exchange, completed);
                }
                self.state = self.ask(exchange, position);
                continue;
            }
            part.skip_to(position);
            if part.range.start < position || part.pending.is_empty() {
                // What is discarded needs no room at the client.
                let skipped = position - part.range.start;
                let max_bytes = if skipped > 0 { skipped } else { max_bytes };
                ready!(part.poll_more(cx, exchange, max_bytes))?;
                continue;
            }
            let left = part.range.end.min(wanted.end) - position;
            let taken = part.pending.len().min(max_bytes).min(left);
            if taken == 0 {
                return Poll::Pending; // the client takes nothing now
            }
            out.append(part.pending.split_to(taken));
            part.range.start += taken;
            position += taken;
            self.position = Some(position);
            return Poll::Ready(Ok(match position >= wanted.end {
                true => Filled::End,
                false => Filled::More,
            }));
        }
    }

    /// All pieces come from the same location.
    fn is_prompt(&self) -> bool {
        self.is_prompt
    }

    fn conclude(self: Box<Self>, exchange: &mut Exchange, completed: bool) {
        if let SliceSourceState::Reading(part) = self.state {
            part.conclude(exchange, completed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges() {
        for (text, wanted) in [
            ("bytes 0-9/100", Some((0..10, Some(100)))),
            ("bytes  5 - 9 / 100 ", Some((5..10, Some(100)))),
            ("bytes 0-9/*", Some((0..10, None))),
            ("bytes */100", None),
            ("bytes 0-9", None),
            ("bytes=0-9/100", None),
            ("items 0-9/100", None),
            ("bytes 0-99999999999999999999/100", None),
            ("bytes 0-9/1x", None),
            ("bytes -9/100", None),
            ("", None),
        ] {
            assert_eq!(parse_content_range(text.as_bytes()), wanted, "{text}");
        }
    }
}
