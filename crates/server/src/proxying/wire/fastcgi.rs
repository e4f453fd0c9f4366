//! FastCGI towards a peer.

use super::{Ending, Event, Head, WireError, split_head};
use crate::chain::{OutputChain, Segment};
use bytes::Bytes;
use sealane_http::Method;
use sealane_http::cgi::{StatusLine, parse_cgi_response};
use sealane_http::fastcgi::{
    Event as Record, RecordDecoder, StderrText, StdinRecord, encode_stdin_end,
};
use sealane_http::h1::{ParsedResponse, ResponseBodyDecoder, ResponseLimits, ResponseState};

/// One request by FastCGI.
pub(crate) struct FastCgi {
    pub(super) method: Method,
    limits: ResponseLimits,
    keep_conn: bool,
    /// `fastcgi_catch_stderr`: texts that make a response an invalid one.
    catches: Vec<Box<[u8]>>,
    records: RecordDecoder,
    /// The head as far as it has come.
    head: Vec<u8>,
    state: ResponseState,
    body: Option<ResponseBodyDecoder>,
    stderr: StderrText,
    ended: bool,
}

impl FastCgi {
    pub(crate) fn new(
        method: Method,
        max_head_bytes: usize,
        keep_conn: bool,
        catches: Vec<Box<[u8]>>,
    ) -> FastCgi {
        FastCgi {
            method,
            limits: ResponseLimits {
                max_head_bytes,
                ..ResponseLimits::default()
            },
            keep_conn,
            catches,
            records: RecordDecoder::new(),
            head: Vec::new(),
            state: ResponseState::default(),
            body: None,
            stderr: StderrText::default(),
            ended: false,
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
            .map_or(0, ResponseBodyDecoder::known_left)
    }

    pub(super) fn next_event(
        &mut self,
        input: &mut Vec<u8>,
        closed: bool,
    ) -> Result<Option<Event>, WireError> {
        loop {
            // What came behind the head in its record is body.
            if self.body.is_some() && !self.head.is_empty() {
                let piece = std::mem::take(&mut self.head);
                if let Some(event) = self.data(Bytes::from(piece))? {
                    return Ok(Some(event));
                }
            }
            if self.ended {
                return self.end(input, closed);
            }
            let decoded = self
                .records
                .decode(input)
                .map_err(|error| WireError::Invalid(error.to_string()))?;
            let event = match decoded.event {
                Record::NeedMore => {
                    input.drain(..decoded.consumed);
                    return match closed {
                        true => self.cut().map(Some),
                        false => Ok(None),
                    };
                }
                Record::Stdout(range) if self.body.is_none() => {
                    self.head.extend_from_slice(&input[range]);
                    self.parse_head()?
                }
                Record::Stdout(range) => {
                    let piece = Bytes::copy_from_slice(&input[range]);
                    self.data(piece)?
                }
                Record::Stderr(range) => {
                    self.stderr.push(&input[range]);
                    None
                }
                Record::StdoutEnd => None,
                Record::End { .. } => {
                    self.ended = true;
                    None
                }
            };
            input.drain(..decoded.consumed);
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// What the application wrote to its error stream, once.
    pub(super) fn take_stderr(&mut self) -> Option<String> {
        if self.stderr.is_empty() {
            return None;
        }
        let text = self.stderr.text().escape_ascii().to_string();
        self.stderr.clear();
        Some(format!("FastCGI sent in stderr: \"{text}\""))
    }

    fn parse_head(&mut self) -> Result<Option<Event>, WireError> {
        let parsed = parse_cgi_response(
            &self.head,
            &mut self.state,
            &self.limits,
            StatusLine::Skipped,
        );
        match parsed {
            Ok(ParsedResponse::Complete(parsed)) => {
                self.check_stderr()?;
                self.body = Some(ResponseBodyDecoder::new(parsed.framing(self.method)));
                let buffer = split_head(&mut self.head, parsed.head_bytes);
                Ok(Some(Event::Head(Box::new(Head { buffer, parsed }))))
            }
            Ok(ParsedResponse::Incomplete) => Ok(None),
            Err(error) => Err(WireError::head(&error, &self.head)),
        }
    }

    /// `fastcgi_catch_stderr`.
    fn check_stderr(&self) -> Result<(), WireError> {
        let text = self.stderr.text();
        let caught = |word: &[u8]| memchr::memmem::find(text, word).is_some();
        if self.catches.iter().any(|word| caught(word)) {
            return Err(WireError::Invalid(
                "upstream sent in stderr what \"fastcgi_catch_stderr\" looks for".to_owned(),
            ));
        }
        Ok(())
    }

    /// Body bytes, as far as the response has room for them.
    fn data(&mut self, piece: Bytes) -> Result<Option<Event>, WireError> {
        let Some(body) = &mut self.body else {
            return Ok(None);
        };
        let decoded = body
            .decode(&piece)
            .map_err(|error| WireError::Invalid(error.to_string()))?;
        let data = piece.slice(decoded.data);
        Ok((!data.is_empty()).then_some(Event::Data(data)))
    }

    /// The application has ended the request.
    fn end(&mut self, input: &[u8], closed: bool) -> Result<Option<Event>, WireError> {
        let Some(body) = &mut self.body else {
            return Err(WireError::Invalid(
                "upstream closed FastCGI request before its response header".to_owned(),
            ));
        };
        if !body.is_done() {
            body.close().map_err(|_| {
                WireError::Invalid("upstream prematurely closed FastCGI request".to_owned())
            })?;
        }
        let reusable = self.keep_conn && self.records.is_done() && input.is_empty() && !closed;
        Ok(Some(Event::End(Ending {
            reusable,
            ..Ending::default()
        })))
    }

    /// The connection has closed before the request was ended. A response that knows its
    /// length, or whose output was ended, is complete all the same.
    fn cut(&mut self) -> Result<Event, WireError> {
        let ended = self.records.stdout_ended();
        let Some(body) = &mut self.body else {
            return Err(WireError::ClosedEarly);
        };
        let complete = body.is_done() || (ended && body.close().is_ok());
        if complete {
            return Ok(Event::End(Ending::default()));
        }
        Err(WireError::Invalid(
            "upstream prematurely closed FastCGI stdout".to_owned(),
        ))
    }
}
