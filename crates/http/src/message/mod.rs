//! Messages as HTTP/2 and HTTP/3 have them: pseudo-headers and fields in, heads out, and the
//! reverse.
//!
//! Both protocols have the same rules for heads (RFC 9113 section 8, RFC 9114 section 4) and for
//! priorities (RFC 9218); comments cite the first of them.

mod class;
mod encode;
mod field;
mod priority;
mod request;
mod response;
mod static_line;
mod target;
mod trailers;

use smallvec::SmallVec;

use crate::Span;
use crate::h1::{RawHeader, ReceivedResponse, RequestHead};

pub(crate) use class::note_of_static;
pub(crate) use encode::{FieldWriter, push_fields, push_request, push_response_fields};
pub(crate) use field::{Budget, LINE_END, SEPARATOR};
pub use field::{Decoded, Field, FieldLimits, FieldSink, Note, Origin};
pub use priority::Priority;
pub(crate) use priority::URGENCIES;
pub(crate) use request::RequestSink;
pub(crate) use response::ResponseSink;
pub(crate) use static_line::{StaticLine, static_line};
pub use target::{RequestTarget, Scheme};
pub(crate) use trailers::{NoSink, TrailerSink};

/// A request head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The text that the head's positions refer to, written like an HTTP/1 head. From
    /// `head.request_line.start` on it reads `GET /path HTTP/2.0` (or 3.0), `host: authority` and
    /// the other fields as sent, names in lower case. Anything before that has no meaning.
    pub text: Vec<u8>,
    /// The head. Its `framing` is [`Framing::Chunked`](crate::h1::Framing::Chunked) if a body of
    /// unknown length follows.
    pub head: RequestHead,
}

/// A response head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The text that the head's positions refer to: `HTTP/2.0 200` (or 3.0) and the fields.
    pub text: Vec<u8>,
    /// The head. Bodies end with their stream.
    pub head: ReceivedResponse,
}

/// Trailers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trailers {
    /// The text that the positions refer to: one line for each field.
    pub text: Vec<u8>,
    /// The fields in the order sent.
    pub fields: SmallVec<[RawHeader; 4]>,
}

impl Trailers {
    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let of = |span: Span| span.of(&self.text);
        self.fields
            .iter()
            .map(move |field| (of(field.name), of(field.value)))
    }
}
