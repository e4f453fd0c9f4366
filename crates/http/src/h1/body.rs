//! Message bodies: finds the data in the bytes after a head.

use std::fmt;
use std::ops::Range;

use super::request::Framing;

/// The most bytes that chunk extensions of a body may take beyond the data received so far. A body
/// of one-byte chunks with long extensions would cost far more work than its length suggests; a
/// signature for each chunk of some size does no harm.
pub const MAX_EXTENSION_BYTES: usize = 16 * 1024;

/// The most bytes that the trailer section of a chunked body may take.
pub const MAX_TRAILER_BYTES: usize = 8 * 1024;

/// The most digits in a chunk size: what 64 bits need.
const MAX_SIZE_DIGITS: u8 = 16;

/// Finds the body's data in the bytes after a head.
///
/// It copies nothing: each call says which part of its input is data and how much of the input has
/// been processed. Chunked framing is parsed strictly (RFC 9112 section 7.1): every line ends with
/// CR LF, sizes fit into a file offset, and extensions and trailers are bounded. Trailers are
/// dropped unless they are requested.
///
/// An error is final: the end of the body is unknown from then on, so everything that follows is
/// refused for the same reason.
#[derive(Clone, Debug)]
pub struct BodyDecoder {
    state: BodyState,
    /// Extension bytes so far, over all chunks.
    extension_bytes: usize,
    trailer_bytes: usize,
    /// The trailer lines so far, each with CR LF, if they are kept.
    trailers: Option<Vec<u8>>,
}

/// ```text
/// Length(n) -----------------------------------------------> Done
///
/// Size -> (Extension) -> SizeLf -> Data(n) -> DataCr -> DataLf --+
///   ^  \                                                         |
///   |   \ size 0                                                 |
///   +----+-------------------------------------------------------+
///        v
///   TrailerStart <-> TrailerLine/TrailerLf
///        v
///   EndLf -------------------------------------------------> Done
///
/// any of them, at a byte that is not allowed there --------> Failed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyState {
    Length {
        left: u64,
    },
    Size {
        value: u64,
        digits: u8,
    },
    /// White space after the size: only `;` or the line's end may follow.
    SizeBlank {
        value: u64,
    },
    Extension {
        value: u64,
    },
    SizeLf {
        value: u64,
    },
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    TrailerStart,
    TrailerLine,
    TrailerLf,
    EndLf,
    Done,
    Failed(BodyError),
}

/// The result of one call of [`BodyDecoder::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the input that have been processed; the next call starts after them. Zero only if
    /// the input was empty or the body had ended.
    pub consumed: usize,
    /// Where in the input the data is; possibly empty. It ends at `consumed`.
    pub data: Range<usize>,
    /// The body has ended; what follows `consumed` is the next request.
    pub done: bool,
}

/// Malformed chunked framing. The connection must be closed: where the next request starts is
/// unknown. nginx answers 400 and logs `client sent invalid chunked body`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The chunk size is not hexadecimal, missing or too long.
    InvalidSize,
    /// A chunk exceeds the largest file offset.
    SizeOverflow,
    /// LF without CR, CR without LF, or a control character in a line of the framing.
    InvalidLine,
    /// No CR LF after a chunk's data.
    MissingCrlf,
    /// Extensions exceed the data by more than [`MAX_EXTENSION_BYTES`].
    ExtensionsTooLong,
    /// More than [`MAX_TRAILER_BYTES`].
    TrailersTooLong,
}

impl BodyError {
    /// A description of the error that does not say who sent it.
    pub fn detail(self) -> &'static str {
        match self {
            BodyError::InvalidSize => "malformed chunk size",
            BodyError::SizeOverflow => "chunk size too large",
            BodyError::InvalidLine => "malformed line end or control character",
            BodyError::MissingCrlf => "chunk longer than its size",
            BodyError::ExtensionsTooLong => "chunk extensions too long",
            BodyError::TrailersTooLong => "trailers too long",
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = self.detail();
        write!(f, "client sent invalid chunked body ({detail})")
    }
}

impl std::error::Error for BodyError {}

impl BodyDecoder {
    /// A decoder for the body that follows a head with this framing.
    pub fn new(framing: Framing) -> BodyDecoder {
        let state = match framing {
            Framing::None | Framing::Length(0) => BodyState::Done,
            Framing::Length(left) => BodyState::Length { left },
            Framing::Chunked => BodyState::Size {
                value: 0,
                digits: 0,
            },
        };
        BodyDecoder {
            state,
            extension_bytes: 0,
            trailer_bytes: 0,
            trailers: None,
        }
    }

    /// Keeps the trailer section, for [`take_trailers`](Self::take_trailers).
    pub fn keep_trailers(mut self) -> BodyDecoder {
        self.trailers = Some(Vec::new());
        self
    }

    /// The lines of the trailer section, each with CR LF; empty without trailers, or if they were
    /// not kept. Meaningful once the body has ended.
    pub fn take_trailers(&mut self) -> Vec<u8> {
        self.trailers.take().unwrap_or_default()
    }

    /// Whether the body has ended. Never after an error.
    pub fn is_done(&self) -> bool {
        self.state == BodyState::Done
    }

    /// The error, if there was one: nothing after the body can be found any more.
    pub fn error(&self) -> Option<BodyError> {
        match self.state {
            BodyState::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// A lower bound on the bytes still to come, for sizing the next read.
    pub fn known_left(&self) -> u64 {
        match self.state {
            BodyState::Length { left } | BodyState::Data { left } => left,
            BodyState::Done | BodyState::Failed(_) => 0,
            _ => 1,
        }
    }

    /// Parses framing up to the next run of data, and that run as far as it has arrived. Call it
    /// again with what follows `consumed` until `done`, or until the input is used up.
    ///
    /// # Errors
    /// [`BodyError`]; data returned before it stands. Every later call returns it again.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, BodyError> {
        let mut at = 0;
        loop {
            match self.state {
                BodyState::Length { left } => return Ok(self.take_data(input, at, left, true)),
                BodyState::Data { left } => return Ok(self.take_data(input, at, left, false)),
                BodyState::Done => return Ok(self.no_data(at)),
                BodyState::Failed(error) => return Err(error),
                _ => {}
            }
            let Some(&byte) = input.get(at) else {
                return Ok(self.no_data(at));
            };
            // The next iteration returns the failure above.
            self.state = self.framing_byte(byte).unwrap_or_else(BodyState::Failed);
            at += 1;
        }
    }

    fn no_data(&self, consumed: usize) -> Decoded {
        Decoded {
            consumed,
            data: consumed..consumed,
            done: self.is_done(),
        }
    }

    fn take_data(&mut self, input: &[u8], at: usize, left: u64, is_length: bool) -> Decoded {
        let here = (input.len() - at) as u64;
        let taken = left.min(here);
        let left = left - taken;
        self.state = match (left, is_length) {
            (0, true) => BodyState::Done,
            (0, false) => BodyState::DataCr,
            (_, true) => BodyState::Length { left },
            (_, false) => BodyState::Data { left },
        };
        let end = at + taken as usize;
        self.extension_bytes = self.extension_bytes.saturating_sub(taken as usize);
        Decoded {
            consumed: end,
            data: at..end,
            done: self.is_done(),
        }
    }

    /// One byte of chunked framing.
    fn framing_byte(&mut self, byte: u8) -> Result<BodyState, BodyError> {
        Ok(match self.state {
            BodyState::Size { value, digits } => return size_byte(value, digits, byte),
            BodyState::SizeBlank { value } => {
                self.count_extension()?;
                match byte {
                    b' ' | b'\t' => BodyState::SizeBlank { value },
                    b';' => BodyState::Extension { value },
                    b'\r' => BodyState::SizeLf { value },
                    _ => return Err(BodyError::InvalidSize),
                }
            }
            BodyState::Extension { value } => {
                self.count_extension()?;
                match byte {
                    b'\r' => BodyState::SizeLf { value },
                    _ if is_line_byte(byte) => BodyState::Extension { value },
                    _ => return Err(BodyError::InvalidLine),
                }
            }
            BodyState::SizeLf { value } => match (byte, value) {
                (b'\n', 0) => BodyState::TrailerStart,
                (b'\n', left) => BodyState::Data { left },
                _ => return Err(BodyError::InvalidLine),
            },
            BodyState::DataCr if byte == b'\r' => BodyState::DataLf,
            BodyState::DataLf if byte == b'\n' => BodyState::Size {
                value: 0,
                digits: 0,
            },
            BodyState::DataCr | BodyState::DataLf => return Err(BodyError::MissingCrlf),
            BodyState::TrailerStart if byte == b'\r' => BodyState::EndLf,
            BodyState::TrailerStart | BodyState::TrailerLine => {
                self.trailer_bytes += 1;
                if self.trailer_bytes > MAX_TRAILER_BYTES {
                    return Err(BodyError::TrailersTooLong);
                }
                self.keep_trailer(byte);
                match byte {
                    b'\r' => BodyState::TrailerLf,
                    _ if is_line_byte(byte) => BodyState::TrailerLine,
                    _ => return Err(BodyError::InvalidLine),
                }
            }
            BodyState::TrailerLf if byte == b'\n' => {
                self.keep_trailer(byte);
                BodyState::TrailerStart
            }
            BodyState::EndLf if byte == b'\n' => BodyState::Done,
            BodyState::TrailerLf | BodyState::EndLf => return Err(BodyError::InvalidLine),
            // `decode` handles these before it looks at a byte.
            state @ (BodyState::Length { .. }
            | BodyState::Data { .. }
            | BodyState::Done
            | BodyState::Failed(_)) => state,
        })
    }

    fn keep_trailer(&mut self, byte: u8) {
        if let Some(trailers) = &mut self.trailers {
            trailers.push(byte);
        }
    }

    fn count_extension(&mut self) -> Result<(), BodyError> {
        self.extension_bytes += 1;
        if self.extension_bytes > MAX_EXTENSION_BYTES {
            return Err(BodyError::ExtensionsTooLong);
        }
        Ok(())
    }
}

fn size_byte(value: u64, digits: u8, byte: u8) -> Result<BodyState, BodyError> {
    if let Some(digit) = (byte as char).to_digit(16) {
        if digits == MAX_SIZE_DIGITS {
            return Err(BodyError::InvalidSize);
        }
        // Sixteen digits fit into 64 bits; file offsets have 63.
        let value = value << 4 | u64::from(digit);
        if value > i64::MAX as u64 {
            return Err(BodyError::SizeOverflow);
        }
        let digits = digits + 1;
        return Ok(BodyState::Size { value, digits });
    }
    match byte {
        _ if digits == 0 => Err(BodyError::InvalidSize),
        b'\r' => Ok(BodyState::SizeLf { value }),
        b';' => Ok(BodyState::Extension { value }),
        b' ' | b'\t' => Ok(BodyState::SizeBlank { value }),
        _ => Err(BodyError::InvalidSize),
    }
}

/// Bytes allowed in an extension or a trailer line: no control characters except the tab.
fn is_line_byte(byte: u8) -> bool {
    byte >= 0x20 && byte != 0x7f || byte == b'\t'
}
