//! The payload of a response: a number that says what follows, and then a map, nothing, or an
//! exception. Attachments, which may follow that, are not read.

use super::hessian::{HessianError, Reader, Value};
use std::fmt;
use std::ops::Range;

const EXCEPTION: i32 = 0;
const VALUE: i32 = 1;
const NULL: i32 = 2;
const EXCEPTION_WITH_ATTACHMENTS: i32 = 3;
const VALUE_WITH_ATTACHMENTS: i32 = 4;
const NULL_WITH_ATTACHMENTS: i32 = 5;

/// The field of a Java exception that says why it was thrown.
const MESSAGE: &str = "detailMessage";
/// Bytes of an exception's name, and of a message, that are read for the log.
const MAX_MESSAGE_BYTES: usize = 1024;
/// A name in the map may be this long; longer ones are too big for any header.
const MAX_NAME_BYTES: usize = 1024;

/// What may come in an answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerLimits {
    /// Bytes of all names and values together, without the body.
    pub head_bytes: usize,
}

/// What a method returned: the entries of its map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// `status`, as it was written.
    pub status: Option<String>,
    /// `body`.
    pub body: Body,
    /// The others, in order.
    pub fields: Vec<(String, String)>,
}

/// The body of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Body {
    /// There is none.
    #[default]
    None,
    /// The encoded bytes are at this position of the payload; see [`join_binary`].
    Binary(Range<usize>),
    /// A string.
    Text(String),
}

/// An exception.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thrown {
    /// Its class.
    pub class: String,
    /// Why it was thrown.
    pub message: String,
}

/// Why there is no answer in a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// It is no valid Hessian.
    Hessian(HessianError),
    /// What follows is of a kind that does not exist.
    Kind(i32),
    /// The method returned null.
    Null,
    /// The method threw an exception.
    Thrown(Thrown),
    /// The method did not return a map of strings.
    NotAMap,
    /// The entry of this name is neither text nor a number.
    Entry(String),
    /// Names and values are longer than allowed.
    TooBig,
}

impl From<HessianError> for AnswerError {
    fn from(error: HessianError) -> AnswerError {
        match error {
            HessianError::TooLong => AnswerError::TooBig,
            error => AnswerError::Hessian(error),
        }
    }
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerError::Hessian(error) => {
                write!(f, "upstream sent invalid hessian2 response: {error}")
            }
            AnswerError::Kind(kind) => {
                write!(f, "upstream sent dubbo response of unknown kind {kind}")
            }
            AnswerError::Null => f.write_str("upstream returned null instead of a map"),
            AnswerError::Thrown(Thrown { class, message }) => write!(
                f,
                "upstream threw \"{}\": \"{}\"",
                class.escape_debug(),
                message.escape_debug()
            ),
            AnswerError::NotAMap => f.write_str("upstream did not return a map of strings"),
            AnswerError::Entry(name) => write!(
                f,
                "upstream returned a value that is neither text nor a number for \"{}\"",
                name.escape_debug()
            ),
            AnswerError::TooBig => f.write_str("upstream sent too big header"),
        }
    }
}

/// Reads the payload of a response whose status is [`OK`](super::OK).
///
/// # Errors
/// See [`AnswerError`].
pub fn decode_answer(payload: &[u8], limits: &AnswerLimits) -> Result<Answer, AnswerError> {
    let mut reader = Reader::new(payload);
    match reader.int()? {
        VALUE | VALUE_WITH_ATTACHMENTS => map(&mut reader, limits),
        NULL | NULL_WITH_ATTACHMENTS => Err(AnswerError::Null),
        EXCEPTION | EXCEPTION_WITH_ATTACHMENTS => {
            Err(AnswerError::Thrown(thrown(payload, reader)?))
        }
        kind => Err(AnswerError::Kind(kind)),
    }
}

fn map(reader: &mut Reader<'_>, limits: &AnswerLimits) -> Result<Answer, AnswerError> {
    reader.begin_map().map_err(|error| match error {
        HessianError::Tag(b'N') => AnswerError::Null,
        HessianError::Tag(_) => AnswerError::NotAMap,
        error => error.into(),
    })?;
    let mut answer = Answer::default();
    let mut left = limits.head_bytes;
    while !reader.ends()? {
        let Value::Text(name) = reader.value(MAX_NAME_BYTES)? else {
            return Err(AnswerError::NotAMap);
        };
        if name.eq_ignore_ascii_case("body") {
            // A text is in memory twice, as a payload of the allowed size.
            answer.body = match reader.value(usize::MAX)? {
                Value::Null => Body::None,
                Value::Binary(at) => Body::Binary(at),
                value => Body::Text(text_of(value).ok_or(AnswerError::Entry(name))?),
            };
            continue;
        }
        let value = match reader.value(left)? {
            Value::Null => continue,
            value => text_of(value).ok_or_else(|| AnswerError::Entry(name.clone()))?,
        };
        left = left
            .checked_sub(name.len() + value.len())
            .ok_or(AnswerError::TooBig)?;
        match name.eq_ignore_ascii_case("status") {
            true => answer.status = Some(value),
            false => answer.fields.push((name, value)),
        }
    }
    Ok(answer)
}

fn text_of(value: Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text),
        Value::Int(number) => Some(number.to_string()),
        Value::Double(number) => Some(number.to_string()),
        Value::Bool(is_true) => Some(is_true.to_string()),
        Value::Null | Value::Binary(_) | Value::Other => None,
    }
}

/// An exception: an object that has its message in a field. Some send only a string.
fn thrown(payload: &[u8], mut reader: Reader<'_>) -> Result<Thrown, HessianError> {
    let Some(shape) = reader.begin_object()? else {
        return Ok(Thrown {
            class: String::new(),
            message: first_line(reader.beginning(MAX_MESSAGE_BYTES)),
        });
    };
    let text = |at: &Range<usize>| Reader::new(&payload[at.clone()]).beginning(MAX_MESSAGE_BYTES);
    let class = text(&shape.name);
    for field in &shape.fields {
        if text(field) == MESSAGE {
            let message = first_line(reader.beginning(MAX_MESSAGE_BYTES));
            return Ok(Thrown { class, message });
        }
        // An exception that cannot be read is one all the same.
        if reader.skip().is_err() {
            break;
        }
    }
    let message = String::new();
    Ok(Thrown { class, message })
}

/// Java appends traces of its stack.
fn first_line(mut text: String) -> String {
    text.truncate(text.find(['\r', '\n']).unwrap_or(text.len()));
    text
}

/// What a provider says in a response whose status is not [`OK`](super::OK), as far as it fits into
/// a log line.
pub fn decode_message(payload: &[u8]) -> String {
    first_line(Reader::new(payload).beginning(MAX_MESSAGE_BYTES))
}

/// Joins the chunks of a body, which are at this position of the payload, in place. Returns the
/// position of the bytes.
///
/// # Errors
/// When there is no such body, which does not happen with the position in an [`Answer`].
pub fn join_binary(
    payload: &mut [u8],
    encoded: Range<usize>,
) -> Result<Range<usize>, HessianError> {
    let (mut from, mut end) = (encoded.start, None);
    let mut start = encoded.start;
    loop {
        let input = payload.get(from..encoded.end);
        let mut reader = Reader::new(input.ok_or(HessianError::Truncated)?);
        let (chunk, is_last) = reader.binary_chunk()?;
        let chunk = from + chunk.start..from + chunk.end;
        from = chunk.end;
        let to = match end {
            // The first one stays where it is.
            None => {
                start = chunk.start;
                chunk.start
            }
            Some(end) => {
                payload.copy_within(chunk.clone(), end);
                end
            }
        };
        end = Some(to + chunk.len());
        if is_last {
            return Ok(start..to + chunk.len());
        }
    }
}
