//! FastCGI, on the side of the client.

use super::{ResponseEnd, UpstreamHead, WireError, WireEvent};
use crate::request_log::Text;
use bytes::{Buf, Bytes};
use sealane_http::Method;
use sealane_http::cgi::{StatusLine, parse_cgi_response};
use sealane_http::fastcgi::{
    Event as Record, RecordDecoder, StderrText, StdinRecord, encode_stdin_end,
};
use sealane_http::h1::{
    ParsedResponse, ResponseBodyDecoder, ResponseFraming, ResponseKind, ResponseLimits,
    ResponseState,
};
use sealane_io::chain::{OutputChain, Segment};
use std::ops::Range;
use std::sync::Arc;

/// Limit of error text that waits to be logged; what a program writes beyond it is counted and left
/// out.
const MAX_REMARK_BYTES: usize = 64 << 10;

/// One request by FastCGI.
pub(crate) struct FastCgi {
    pub(super) method: Method,
    limits: ResponseLimits,
    keep_conn: bool,
    records: RecordDecoder,
    /// Received and not parsed yet. Pieces of the body are slices of it.
    pending: Bytes,
    /// The part of the head that has arrived.
    head: Vec<u8>,
    state: ResponseState,
    body: Option<FastCgiBody>,
    /// What followed the head in its record.
    behind: Bytes,
    stderr: Stderr,
}

/// The state of the response after its head.
struct FastCgiBody {
    decoder: ResponseBodyDecoder,
    /// HEAD, 204, 304: the response is complete with its head.
    is_empty: bool,
    /// There was more than `Content-Length` announced.
    has_surplus: bool,
}

impl FastCgi {
    /// A request with this method. `keep_conn` and `catches` are `fastcgi_keep_conn` and
    /// `fastcgi_catch_stderr`.
    pub(crate) fn new(
        method: Method,
        max_head_bytes: usize,
        keep_conn: bool,
        catches: Vec<Box<[u8]>>,
    ) -> FastCgi {
        FastCgi {
            method,
            limits: ResponseLimits::of_head(max_head_bytes),
            keep_conn,
            records: RecordDecoder::new(),
            pending: Bytes::new(),
            head: Vec::new(),
            state: ResponseState::default(),
            body: None,
            behind: Bytes::new(),
            stderr: Stderr {
                catches,
                ..Stderr::default()
            },
        }
    }

    /// Puts a piece of the body into records.
    pub(super) fn frame_body(&mut self, piece: Segment, out: &mut OutputChain) {
        let mut rest = OutputChain::new();
        rest.push(piece);
        while let Some(record) = StdinRecord::next(rest.len()) {
            let mut header = Vec::with_capacity(8);
            record.push_header(&mut header);
            out.push_bytes(header);
            out.append(rest.split_to(record.data_bytes as u64));
            out.push_bytes(Bytes::from_static(record.padding()));
        }
    }

    pub(super) fn end_body(&mut self, out: &mut OutputChain) {
        let mut end = Vec::with_capacity(8);
        encode_stdin_end(&mut end);
        out.push_bytes(end);
    }

    pub(super) fn known_left(&self) -> u64 {
        self.body
            .as_ref()
            .map_or(0, |body| body.decoder.known_left())
    }

    /// The lines that the application wrote to its error stream, one for each record.
    pub(super) fn take_remarks(&mut self) -> Vec<String> {
        self.stderr.take()
    }

    /// See [`Wire::next_event`](super::Wire::next_event).
    ///
    /// # Errors
    /// See [`WireError`].
    pub(super) fn next_event(
        &mut self,
        input: &mut Vec<u8>,
        closed: bool,
    ) -> Result<Option<WireEvent>, WireError> {
        loop {
            if self.has_surplus() {
                return Ok(Some(self.end(false)));
            }
            if !self.behind.is_empty() {
                let piece = std::mem::take(&mut self.behind);
                if let Some(event) = self.data(piece)? {
                    return Ok(Some(event));
                }
                continue;
            }
            if self.pending.is_empty() && !input.is_empty() {
                self.pending = Bytes::from(std::mem::take(input));
            }
            let decoded = self
                .records
                .decode(&self.pending)
                .map_err(|error| WireError::Invalid(error.to_string()))?;
            let record = self.pending.split_to(decoded.consumed);
            let event = match decoded.event {
                Record::NeedMore if self.records.is_done() => {
                    let unasked = !self.pending.is_empty() || !input.is_empty();
                    Some(self.end(self.keep_conn && !unasked && !closed))
                }
                Record::NeedMore if !input.is_empty() => None,
                Record::NeedMore => return self.wait(closed),
                Record::Stdout(range) => self.stdout(record, range)?,
                Record::Stderr(range) => {
                    self.take_stderr(&record[range])?;
                    None
                }
                Record::StdoutEnd => self.stdout_end()?,
                Record::End { .. } => self.request_end()?,
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    fn has_surplus(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.has_surplus)
    }

    /// Everything received is understood.
    fn wait(&mut self, closed: bool) -> Result<Option<WireEvent>, WireError> {
        match &self.body {
            // As in nginx, what the program still does does not matter. The end of the request may
            // have arrived with the head, which leaves the connection usable.
            Some(body) if body.is_empty => Ok(Some(self.end(false))),
            _ if closed => self.cut().map(Some),
            _ => Ok(None),
        }
    }

    /// Output: the head, then the body.
    fn stdout(
        &mut self,
        record: Bytes,
        range: Range<usize>,
    ) -> Result<Option<WireEvent>, WireError> {
        let mut piece = record;
        piece.truncate(range.end);
        piece.advance(range.start);
        if self.body.is_some() {
            return self.data(piece);
        }
        // The rest of a long record need not be copied.
        let room = self.limits.max_head_bytes.saturating_sub(self.head.len());
        let taken = piece.len().min(room);
        self.head.extend_from_slice(&piece[..taken]);
        let parsed = parse_cgi_response(
            &self.head,
            &mut self.state,
            &self.limits,
            StatusLine::Skipped,
        );
        let parsed = match parsed {
            Ok(ParsedResponse::Complete(parsed)) => parsed,
            Ok(ParsedResponse::Incomplete) => return Ok(None),
            Err(error) => return Err(WireError::head(&error, &self.head)),
        };
        if parsed.kind() != ResponseKind::Final {
            return Err(WireError::interim(parsed.status));
        }
        let framing = parsed.framing(self.method);
        self.body = Some(FastCgiBody {
            decoder: ResponseBodyDecoder::new(framing),
            is_empty: framing == ResponseFraming::None,
            has_surplus: false,
        });
        piece.advance(taken - (self.head.len() - parsed.head_bytes));
        self.behind = piece;
        self.head.truncate(parsed.head_bytes);
        let buffer = std::mem::take(&mut self.head);
        Ok(Some(WireEvent::Head(Arc::new(UpstreamHead {
            buffer,
            parsed,
        }))))
    }

    /// Takes bytes of the body, as far as its length allows.
    fn data(&mut self, mut piece: Bytes) -> Result<Option<WireEvent>, WireError> {
        let Some(body) = self.body.as_mut().filter(|body| !body.is_empty) else {
            return Ok(None);
        };
        let decoded = body
            .decoder
            .decode(&piece)
            .map_err(|error| WireError::Invalid(error.to_string()))?;
        body.has_surplus = decoded.consumed < piece.len();
        piece.truncate(decoded.data.end);
        piece.advance(decoded.data.start);
        Ok((!piece.is_empty()).then_some(WireEvent::Data(piece)))
    }

    fn take_stderr(&mut self, piece: &[u8]) -> Result<(), WireError> {
        let is_caught = self.stderr.push(piece, self.records.is_within_record());
        if self.body.is_none() && is_caught {
            self.stderr.end_line();
            return Err(WireError::Invalid(
                "upstream sent in stderr a text of \"fastcgi_catch_stderr\"".to_owned(),
            ));
        }
        Ok(())
    }

    /// The output has ended. The request has not: messages may follow, and a program that is cut
    /// off while it ends its request is killed by the signal for a broken pipe.
    fn stdout_end(&mut self) -> Result<Option<WireEvent>, WireError> {
        self.check_complete("upstream prematurely closed FastCGI stdout")?;
        Ok(None)
    }

    /// Whether the response is complete even if nothing follows.
    pub(super) fn has_all_output(&self) -> bool {
        self.records.stdout_ended() && self.body.is_some()
    }

    /// The application has ended the request. Padding may follow, which matters only to
    /// a connection that is kept.
    fn request_end(&mut self) -> Result<Option<WireEvent>, WireError> {
        if self.body.is_none() {
            return Err(WireError::Invalid(
                "upstream sent unexpected FastCGI record: 3".to_owned(),
            ));
        }
        self.check_complete("upstream prematurely closed FastCGI request")?;
        Ok((!self.keep_conn).then(|| self.end(false)))
    }

    /// Checks that a response of known length is complete.
    fn check_complete(&mut self, otherwise: &str) -> Result<(), WireError> {
        let body = self.body.as_mut();
        let is_complete = body.is_some_and(|body| body.decoder.close().is_ok());
        match is_complete {
            true => Ok(()),
            false => Err(WireError::Invalid(otherwise.to_owned())),
        }
    }

    /// The connection has closed before the request was ended. A response that knows its
    /// length, or whose output was ended, is complete all the same.
    fn cut(&mut self) -> Result<WireEvent, WireError> {
        let ended = self.records.stdout_ended();
        let Some(body) = &mut self.body else {
            return Err(WireError::ClosedEarly);
        };
        let is_complete = body.decoder.is_done() || (ended && body.decoder.close().is_ok());
        match is_complete {
            true => Ok(self.end(false)),
            false => Err(WireError::ClosedEarly),
        }
    }

    fn end(&self, reusable: bool) -> WireEvent {
        let surplus = self.body.as_ref().filter(|body| body.has_surplus);
        WireEvent::End(ResponseEnd {
            reusable,
            complaint: surplus.map(|body| body.decoder.surplus()),
            ..ResponseEnd::default()
        })
    }
}

/// What a program writes to its error stream.
#[derive(Default)]
struct Stderr {
    /// `fastcgi_catch_stderr`: texts that make a response invalid.
    catches: Vec<Box<[u8]>>,
    /// The text of the record that is arriving.
    text: StderrText,
    /// Lines to be logged.
    remarks: Vec<String>,
    remark_bytes: usize,
    left_out_bytes: usize,
}

impl Stderr {
    /// A piece of a record, and whether more of the record follows. Returns whether it contains a
    /// text to be caught.
    fn push(&mut self, piece: &[u8], more: bool) -> bool {
        self.text.push(piece);
        let is_caught = self.is_caught(piece);
        if !more {
            self.end_line();
        }
        is_caught
    }

    /// Whether a piece contains a text to be caught, alone or together with what preceded it.
    fn is_caught(&self, piece: &[u8]) -> bool {
        let caught = |word: &[u8], text| memchr::memmem::find(text, word).is_some();
        let mut catches = self.catches.iter();
        catches.any(|word| caught(word, piece) || caught(word, self.text.text()))
    }

    fn end_line(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let text = self.text.text();
        if self.remark_bytes + text.len() <= MAX_REMARK_BYTES {
            self.remark_bytes += text.len();
            let text = Text(text);
            self.remarks
                .push(format!("FastCGI sent in stderr: \"{text}\""));
        } else {
            self.left_out_bytes += text.len();
        }
        self.text.clear();
    }

    fn take(&mut self) -> Vec<String> {
        let mut remarks = std::mem::take(&mut self.remarks);
        if self.left_out_bytes > 0 {
            let left_out = self.left_out_bytes;
            remarks.push(format!(
                "FastCGI sent {left_out} more bytes in stderr than are logged at once"
            ));
        }
        self.remark_bytes = 0;
        self.left_out_bytes = 0;
        remarks
    }
}

#[cfg(test)]
mod tests;
