//! memcached's text protocol, on the side of the client: one `get`, whose value becomes the body of
//! a response.
//!
//! ```text
//! > get KEY            < VALUE KEY FLAGS LENGTH     or    < END
//!                      < (the value)
//!                      < END
//! ```

use super::{ResponseEnd, UpstreamHead, WireError, WireEvent};
use bytes::Bytes;
use sealane_http::h1::{self, ParsedResponse, ResponseLimits, ResponseState};
use sealane_io::buffers;
use std::sync::Arc;

/// What follows a value.
const TRAILER: &[u8] = b"\r\nEND\r\n";

/// One `get`.
pub(crate) struct Memcached {
    /// As it was sent.
    key: Vec<u8>,
    /// Bits of the flags that mean gzip.
    gzip_flag: u64,
    max_line_bytes: usize,
    state: ValueState,
}

enum ValueState {
    Line,
    /// Bytes of the value that are still to come.
    Value(u64),
    /// Bytes of the trailer that have come.
    Trailer(usize),
    /// What came was wrong, and so is what follows.
    Broken,
    /// The response is complete.
    Done,
}

impl Memcached {
    /// A `get` of this key. The line before the value has to fit into so many bytes.
    pub(crate) fn new(key: Vec<u8>, gzip_flag: u64, max_line_bytes: usize) -> Memcached {
        Memcached {
            key,
            gzip_flag,
            max_line_bytes,
            state: ValueState::Line,
        }
    }

    pub(super) fn known_left(&self) -> u64 {
        match self.state {
            ValueState::Value(left) => left.saturating_add(TRAILER.len() as u64),
            _ => 0,
        }
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
        match self.state {
            ValueState::Line => self.next_line(input, closed),
            ValueState::Value(left) if left > 0 => self.next_piece(left, input, closed),
            ValueState::Value(_) => {
                self.state = ValueState::Trailer(0);
                self.next_event(input, closed)
            }
            ValueState::Trailer(seen) => Ok(self.next_end(seen, input, closed)),
            ValueState::Done => Ok(Some(WireEvent::End(ResponseEnd {
                reusable: !closed && input.is_empty(),
                ..ResponseEnd::default()
            }))),
            ValueState::Broken => Err(WireError::ClosedEarly),
        }
    }

    fn next_line(
        &mut self,
        input: &mut Vec<u8>,
        closed: bool,
    ) -> Result<Option<WireEvent>, WireError> {
        let Some(end) = memchr::memchr(b'\n', input) else {
            if input.len() >= self.max_line_bytes {
                self.state = ValueState::Broken;
                return Err(WireError::Invalid("upstream sent too big header".into()));
            }
            return match closed {
                true => Err(WireError::ClosedEarly),
                false => Ok(None),
            };
        };
        let line: Vec<u8> = input.drain(..=end).collect();
        self.understand(&line).map(Some).inspect_err(|_| {
            self.state = ValueState::Broken;
        })
    }

    fn understand(&mut self, line: &[u8]) -> Result<WireEvent, WireError> {
        let Some(line) = line.strip_suffix(b"\r\n").filter(|line| !line.is_empty()) else {
            return Err(refuse("response", line.trim_ascii_end(), None));
        };
        if line == b"END" {
            self.state = ValueState::Done;
            return head("404 Not Found", 0, false);
        }
        let invalid = |what| refuse(what, line, Some(&self.key));
        let Some(rest) = line.strip_prefix(b"VALUE ") else {
            return Err(refuse("response", line, None));
        };
        let Some(rest) = rest.strip_prefix(&self.key[..]) else {
            return Err(invalid("key in response"));
        };
        let Some(rest) = rest.strip_prefix(b" ") else {
            return Err(refuse("response", line, None));
        };
        let Some(space) = memchr::memchr(b' ', rest) else {
            return Err(refuse("response", line, None));
        };
        let (flags, length) = (&rest[..space], &rest[space + 1..]);
        let mut is_gzip = false;
        if self.gzip_flag != 0 {
            let flags = sealane_conf::values::number(flags);
            let flags = flags.ok_or_else(|| invalid("flags in response"))?;
            is_gzip = flags & self.gzip_flag != 0;
        }
        let length = sealane_conf::values::number(length);
        let length = length.ok_or_else(|| invalid("length in response"))?;
        self.state = ValueState::Value(length);
        head("200 OK", length, is_gzip)
    }

    fn next_piece(
        &mut self,
        left: u64,
        input: &mut Vec<u8>,
        closed: bool,
    ) -> Result<Option<WireEvent>, WireError> {
        if input.is_empty() {
            return match closed {
                true => Err(WireError::ClosedEarly),
                false => Ok(None),
            };
        }
        if left >= input.len() as u64 {
            self.state = ValueState::Value(left - input.len() as u64);
            let piece = buffers::shared(std::mem::take(input));
            return Ok(Some(WireEvent::Data(piece)));
        }
        self.state = ValueState::Trailer(0);
        // Less than the input.
        let piece = Bytes::from_iter(input.drain(..left as usize));
        Ok(Some(WireEvent::Data(piece)))
    }

    /// The value is there whatever follows it; but only after its trailer can the connection be
    /// used again.
    fn next_end(&mut self, seen: usize, input: &mut Vec<u8>, closed: bool) -> Option<WireEvent> {
        let expected = &TRAILER[seen..];
        let arrived = input.len().min(expected.len());
        if input[..arrived] != expected[..arrived] || input.len() > expected.len() {
            self.state = ValueState::Broken;
            return Some(WireEvent::End(ResponseEnd {
                complaint: Some("memcached sent invalid trailer"),
                ..ResponseEnd::default()
            }));
        }
        input.drain(..arrived);
        if arrived < expected.len() {
            self.state = ValueState::Trailer(seen + arrived);
            return closed.then(|| {
                WireEvent::End(ResponseEnd {
                    complaint: Some("memcached closed the connection before the trailer"),
                    ..ResponseEnd::default()
                })
            });
        }
        self.state = ValueState::Done;
        Some(WireEvent::End(ResponseEnd {
            reusable: !closed,
            ..ResponseEnd::default()
        }))
    }
}

/// An error in nginx's words.
fn refuse(what: &str, line: &[u8], key: Option<&[u8]>) -> WireError {
    let line = line.escape_ascii();
    WireError::Invalid(match key {
        Some(key) => {
            let key = key.escape_ascii();
            format!("memcached sent invalid {what} \"{line}\" for key \"{key}\"")
        }
        None => format!("memcached sent invalid {what}: \"{line}\""),
    })
}

/// The response that a line stands for.
fn head(status: &str, length: u64, is_gzip: bool) -> Result<WireEvent, WireError> {
    let encoding = match is_gzip {
        true => "Content-Encoding: gzip\r\n",
        false => "",
    };
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{encoding}\r\n");
    let mut buffer = buffers::small();
    buffer.extend_from_slice(text.as_bytes());
    let limits = ResponseLimits::of_head(buffer.len());
    let parsed = h1::parse_response(&buffer, &mut ResponseState::default(), &limits);
    match parsed {
        Ok(ParsedResponse::Complete(parsed)) => {
            Ok(WireEvent::Head(Arc::new(UpstreamHead { buffer, parsed })))
        }
        Ok(ParsedResponse::Incomplete) => Err(WireError::ClosedEarly),
        Err(error) => Err(WireError::head(&error, &buffer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What came out: the status, the body, and whether the connection can be used again.
    fn answer(
        input: &[u8],
        closed: bool,
        piece_bytes: usize,
    ) -> Result<(u16, Vec<u8>, bool), String> {
        let mut wire = Memcached::new(b"k%20".to_vec(), 2, 100);
        let (mut status, mut body) = (0, Vec::new());
        let mut buffer = Vec::new();
        let mut pieces = input.chunks(piece_bytes).peekable();
        loop {
            let no_more = closed && pieces.peek().is_none();
            match wire.next_event(&mut buffer, no_more) {
                Ok(Some(WireEvent::Head(head))) => {
                    status = head.parsed.status.0;
                    let gzip = head.buffer.windows(4).any(|bytes| bytes == b"gzip");
                    status += if gzip { 1000 } else { 0 };
                }
                Ok(Some(WireEvent::Data(piece))) => body.extend_from_slice(&piece),
                Ok(Some(WireEvent::End(end))) => {
                    assert!(!(end.reusable && end.complaint.is_some()));
                    return Ok((status, body, end.reusable));
                }
                Ok(None) => match pieces.next() {
                    Some(piece) => buffer.extend_from_slice(piece),
                    None if no_more => return Err("it waits for ever".into()),
                    None => return Err("more".into()),
                },
                Err(WireError::Invalid(text)) => {
                    // After an error it stays in error.
                    assert!(wire.next_event(&mut buffer, no_more).is_err());
                    return Err(text);
                }
                Err(_) => return Err("closed early".into()),
            }
        }
    }

    #[test]
    fn values_arrive_in_pieces_of_any_size() {
        let input = b"VALUE k%20 0 8\r\nSEE\r\nTHI\r\nEND\r\n";
        for size in 1..=input.len() {
            let found = answer(input, false, size);
            assert_eq!(found, Ok((200, b"SEE\r\nTHI".to_vec(), true)), "{size}");
            let found = answer(input, true, size).map(|(status, body, _)| (status, body));
            assert_eq!(found, Ok((200, b"SEE\r\nTHI".to_vec())), "{size}");
        }
    }

    #[test]
    fn nothing_found_empty_values_and_flags() {
        assert_eq!(answer(b"END\r\n", false, 9), Ok((404, vec![], true)));
        let empty = answer(b"VALUE k%20 0 0\r\n\r\nEND\r\n", false, 99);
        assert_eq!(empty, Ok((200, vec![], true)));
        let gzip = answer(b"VALUE k%20 3 1\r\nx\r\nEND\r\n", false, 99);
        assert_eq!(gzip, Ok((1200, b"x".to_vec(), true)));
        let other = answer(b"VALUE k%20 4 1\r\nx\r\nEND\r\n", false, 99);
        assert_eq!(other, Ok((200, b"x".to_vec(), true)));
    }

    #[test]
    fn a_wrong_trailer_ends_the_connection_and_not_the_value() {
        for rest in [
            "\r\nEND\r\n\0EXTRA",
            "\r\nENX\r\n",
            "junk, and more of it",
            "\r\nEN",
        ] {
            let input = format!("VALUE k%20 0 4\r\nbody{rest}");
            for size in [1, 7, 100] {
                let found = answer(input.as_bytes(), true, size);
                let (status, body, _) = found.expect("the value was there");
                assert_eq!((status, &body[..]), (200, &b"body"[..]), "{rest}");
            }
            let (_, _, reusable) = answer(input.as_bytes(), true, 100).expect("the value");
            assert!(!reusable, "{rest}");
        }
    }

    #[test]
    fn wrong_lines_are_refused() {
        for (line, words) in [
            ("\r\n", "invalid response: \"\""),
            ("END\n", "invalid response: \"END\""),
            ("ERROR\r\n", "invalid response: \"ERROR\""),
            (
                "VALUE other 0 1\r\n",
                "invalid key in response \"VALUE other 0 1\" for key \"k%20\"",
            ),
            ("VALUE k%201 0 1\r\n", "invalid response: "),
            ("VALUE k%20 0\r\n", "invalid response: "),
            ("VALUE k%20 x 1\r\n", "invalid flags in response"),
            ("VALUE k%20 0 x\r\n", "invalid length in response"),
            ("VALUE k%20 0 -1\r\n", "invalid length in response"),
            ("VALUE k%20 0 1 7\r\n", "invalid length in response"),
            (
                "VALUE k%20 0 99999999999999999999\r\n",
                "invalid length in response",
            ),
        ] {
            let said = answer(line.as_bytes(), false, 99).expect_err(line);
            assert!(said.contains(words), "{line}: {said}");
        }
        let long = answer(&[b'V'; 200], false, 50).expect_err("too long");
        assert_eq!(long, "upstream sent too big header");
        for cut in ["", "VALUE", "VALUE k%20 0 9\r\n", "VALUE k%20 0 9\r\nhalf"] {
            assert_eq!(answer(cut.as_bytes(), true, 99), Err("closed early".into()));
        }
    }
}
