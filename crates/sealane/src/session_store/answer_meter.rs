//! Limits the length of a store's replies.
//!
//! The client library buffers a reply until it is complete, whatever its declared length. A broken
//! store, or an attacker on the path to it, must not fill the worker's memory that way: a
//! stream of [`Metered`] ends in an error at the first reply that is longer than any that is ever
//! requested.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Longest reply, in bytes. A ring of ticket keys takes 128 KiB, and so does the slot table of a
/// cluster of a few hundred servers; this is enough for slots that are spread one by one.
pub(super) const MAX_ANSWER_BYTES: usize = 4 << 20;
/// Longest line of it: an error, a number, the length of what follows.
pub(super) const MAX_LINE_BYTES: usize = 64 << 10;

/// An answer exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "an answer of more than {} MiB, or a line in it of more than {} KiB",
            MAX_ANSWER_BYTES >> 20,
            MAX_LINE_BYTES >> 10
        )
    }
}

impl std::error::Error for TooLong {}

/// Follows replies (RESP2 and RESP3) as they arrive, but only their lengths.
///
/// The client library detects malformed replies at the same byte or before: whatever this
/// takes for the end of a reply is one for the library, too.
#[derive(Debug)]
pub(super) struct AnswerMeter {
    at: At,
    /// Bytes of the answer so far.
    answer_bytes: usize,
    /// Values of the answer that are not complete.
    open_values: usize,
}

/// Where in a value.
#[derive(Debug, Clone, Copy)]
enum At {
    Start,
    Line {
        /// The value's first byte.
        kind: u8,
        /// The value of the digits so far.
        number: usize,
        is_negative: bool,
        /// The byte before was a CR.
        after_cr: bool,
        bytes: usize,
    },
    /// So many bytes of a string, with the end of its line.
    Text {
        left: usize,
    },
}

impl Default for AnswerMeter {
    fn default() -> AnswerMeter {
        AnswerMeter {
            at: At::Start,
            answer_bytes: 0,
            open_values: 1,
        }
    }
}

impl AnswerMeter {
    /// Takes what has come.
    pub(super) fn take(&mut self, mut input: &[u8]) -> Result<(), TooLong> {
        while let Some((&first, rest)) = input.split_first() {
            match &mut self.at {
                At::Start => {
                    self.at = At::Line {
                        kind: first,
                        number: 0,
                        is_negative: false,
                        after_cr: false,
                        bytes: 0,
                    };
                    self.count(1)?;
                    input = rest;
                }
                At::Line { .. } => input = self.take_line(input)?,
                At::Text { left } => {
                    let taken = input.len().min(*left);
                    *left -= taken;
                    let is_whole = *left == 0;
                    self.count(taken)?;
                    input = &input[taken..];
                    if is_whole {
                        self.end_value(0)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes what of the input belongs to the line at hand; returns the rest.
    fn take_line<'i>(&mut self, input: &'i [u8]) -> Result<&'i [u8], TooLong> {
        let At::Line {
            kind,
            number,
            is_negative,
            after_cr,
            bytes,
        } = &mut self.at
        else {
            return Ok(input);
        };
        for (at, &byte) in input.iter().enumerate() {
            *bytes += 1;
            if *bytes > MAX_LINE_BYTES {
                return Err(TooLong);
            }
            if byte == b'\n' && *after_cr {
                let (kind, number, is_negative) = (*kind, *number, *is_negative);
                self.count(at + 1)?;
                self.end_line(kind, number, is_negative)?;
                return Ok(&input[at + 1..]);
            }
            *after_cr = byte == b'\r';
            match byte {
                b'0'..=b'9' => {
                    let digit = usize::from(byte - b'0');
                    *number = number.saturating_mul(10).saturating_add(digit);
                }
                b'-' => *is_negative = true,
                _ => {}
            }
        }
        self.count(input.len())?;
        Ok(&[])
    }

    fn end_line(&mut self, kind: u8, number: usize, is_negative: bool) -> Result<(), TooLong> {
        match kind {
            // Nothing at all, instead of a string or a list.
            b'$' | b'*' | b'~' | b'>' if is_negative => self.end_value(0),
            // The library takes these for numbers without a sign.
            b'!' | b'=' | b'%' | b'|' if is_negative => Err(TooLong),
            b'$' | b'!' | b'=' => {
                if number > MAX_ANSWER_BYTES {
                    return Err(TooLong);
                }
                self.at = At::Text { left: number + 2 };
                Ok(())
            }
            b'*' | b'~' | b'>' => self.end_value(number),
            b'%' => self.end_value(number.saturating_mul(2)),
            // The attributes are followed by the value they describe.
            b'|' => self.end_value(number.saturating_mul(2).saturating_add(1)),
            _ => self.end_value(0),
        }
    }

    /// A value is complete except for this many that it contains.
    fn end_value(&mut self, inner: usize) -> Result<(), TooLong> {
        // Each of them takes more than a byte.
        if inner > MAX_ANSWER_BYTES {
            return Err(TooLong);
        }
        self.at = At::Start;
        self.open_values = self.open_values - 1 + inner;
        if self.open_values == 0 {
            *self = AnswerMeter::default();
        }
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), TooLong> {
        self.answer_bytes += bytes;
        match self.answer_bytes <= MAX_ANSWER_BYTES {
            true => Ok(()),
            false => Err(TooLong),
        }
    }
}

/// A stream whose answers have a limit.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    meter: AnswerMeter,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S) -> Metered<S> {
        Metered {
            stream,
            meter: AnswerMeter::default(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = read
            && let Err(too_long) = self.meter.take(&buf.filled()[before..])
        {
            buf.set_filled(before);
            return Poll::Ready(Err(io::Error::other(too_long)));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A meter that has taken this, at once and byte by byte.
    fn metered(input: &[u8]) -> Result<AnswerMeter, TooLong> {
        let mut at_once = AnswerMeter::default();
        let whole = at_once.take(input);
        let mut in_pieces = AnswerMeter::default();
        let pieces = input.iter().try_for_each(|byte| in_pieces.take(&[*byte]));
        assert_eq!(whole, pieces, "{}", input.escape_ascii());
        whole.map(|()| at_once)
    }

    #[test]
    fn answers_end_where_they_do() {
        for answers in [
            "+OK\r\n",
            "-ERR no\r\n:12\r\n_\r\n#t\r\n,1.5\r\n(123\r\n",
            "$0\r\n\r\n",
            "$-1\r\n*-1\r\n",
            "$5\r\na\r\nbc\r\n",
            "*2\r\n$1\r\na\r\n*2\r\n:1\r\n*0\r\n",
            "%1\r\n+a\r\n~2\r\n:1\r\n:2\r\n",
            "|1\r\n+ttl\r\n:3600\r\n$2\r\nab\r\n",
            ">2\r\n+message\r\n=8\r\ntxt:text\r\n",
            "+a\nb\rc\r\n",
        ] {
            let meter = metered(answers.as_bytes()).expect("short");
            assert_eq!(meter.answer_bytes, 0, "{answers}");
            assert_eq!(meter.open_values, 1, "{answers}");
        }
    }

    #[test]
    fn what_is_announced_is_not_waited_for() {
        for head in [
            "$4194305\r\n",
            "$99999999999999999999999999\r\n",
            "=4194305\r\n",
            "!-1\r\n",
            "*4194305\r\n",
            "%2097153\r\n",
            "|18446744073709551615\r\n",
            "*1\r\n*1\r\n$4194305\r\n",
        ] {
            assert_eq!(metered(head.as_bytes()).err(), Some(TooLong), "{head}");
        }
        assert!(metered(b"$4194000\r\n").is_ok());
    }

    #[test]
    fn what_has_no_end_ends() {
        let line = [b"+", &vec![b'a'; MAX_LINE_BYTES + 1][..]].concat();
        assert_eq!(metered(&line).err(), Some(TooLong));
        // Neither ends the line.
        let line = [b"+", &b"a\na\r".repeat(MAX_LINE_BYTES / 4 + 1)[..]].concat();
        assert_eq!(metered(&line).err(), Some(TooLong));
        let list = [b"*4000000\r\n", &b":1\r\n".repeat(MAX_ANSWER_BYTES / 4)[..]].concat();
        assert_eq!(metered(&list).err(), Some(TooLong));
        let nested = b"*1\r\n".repeat(MAX_ANSWER_BYTES / 4 + 1);
        assert_eq!(metered(&nested).err(), Some(TooLong));
    }

    #[test]
    fn answers_do_not_add_up() {
        let answer = [b"$100000\r\n", &[b'x'; 100_000][..], b"\r\n"].concat();
        let mut meter = AnswerMeter::default();
        for _ in 0..100 {
            meter.take(&answer).expect("each is short");
        }
    }

    /// Where the meter sees the first answer end.
    fn end_of_first(input: &[u8]) -> Option<usize> {
        let mut meter = AnswerMeter::default();
        let ends = |byte: &u8| meter.take(&[*byte]).is_err() || meter.answer_bytes == 0;
        let end = input.iter().position(ends)? + 1;
        (meter.answer_bytes == 0).then_some(end)
    }

    /// Whether the client library would wait for more of this.
    fn is_waited_for(input: &[u8]) -> bool {
        let parsed = redis::parse_redis_value(input);
        parsed.is_err_and(|error| error.to_string().contains("unexpected end of file"))
    }

    /// Lines as answers have them, and some that are not quite so.
    fn lines() -> impl Strategy<Value = String> {
        const KINDS: [&str; 17] = [
            "+", "-", ":", "$", "*", "%", "~", "|", ">", "=", "!", "_", "#", ",", "(", "x", "",
        ];
        const TEXTS: [&str; 10] = ["0", "1", "2", "3", "-1", "+1", " 2", "ab", "t", "txt:"];
        const ENDS: [&str; 6] = ["\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r"];
        let line = (
            prop::sample::select(&KINDS[..]),
            prop::sample::select(&TEXTS[..]),
            prop::sample::select(&ENDS[..]),
        );
        let line = line.prop_map(|(kind, text, end)| format!("{kind}{text}{end}"));
        prop::collection::vec(line, 1..12).prop_map(|lines| lines.concat())
    }

    #[test]
    fn the_library_says_what_it_waits_for() {
        for begun in ["+OK\r", "$5\r\nab", "*2\r\n:1\r\n", "%1\r\n+a\r\n"] {
            assert!(is_waited_for(begun.as_bytes()), "{begun}");
        }
        assert!(!is_waited_for(b"$2\r\nab\r\n"));
        assert!(!is_waited_for(b"$2\r\nabcd"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        /// A reply that the library still waits for, while the meter has started on the next, would
        /// have no limit.
        #[test]
        fn the_library_waits_for_nothing_beyond_an_answer(input in lines()) {
            if let Some(end) = end_of_first(input.as_bytes()) {
                let answer = &input[..end];
                prop_assert!(!is_waited_for(answer.as_bytes()), "{:?}", answer);
            }
        }
    }
}
