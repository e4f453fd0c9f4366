//! One finished span.

use sealane_http::traceparent::{SpanId, TraceId};
use std::borrow::Cow;

/// The longest value of an attribute, and the longest name of a span, in bytes; the rest is cut
/// off. Clients choose many of them, and collectors refuse batches that are too long.
pub const MAX_VALUE_BYTES: usize = 4096;

/// A request as it is exported.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// `otel_span_name`, or the name of the location.
    pub name: String,
    /// The trace that it belongs to.
    pub trace: TraceId,
    /// Its own identifier.
    pub id: SpanId,
    /// The client's span.
    pub parent: Option<SpanId>,
    /// `tracestate` of the client.
    pub state: String,
    /// When the request began, in nanoseconds since 1970.
    pub start_ns: u64,
    /// When its response had been sent.
    pub end_ns: u64,
    /// The response was an error of the server.
    pub failed: bool,
    /// Its attributes, in order.
    pub attributes: Vec<Attribute>,
}

/// An attribute of a [`Span`].
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its value.
    pub value: AttributeValue,
}

/// The value of an [`Attribute`].
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// A string.
    Text(String),
    /// A list of one string.
    List(String),
    /// A number.
    Number(i64),
}

impl Span {
    /// About how many bytes it takes, here and when it is exported.
    pub fn bytes(&self) -> usize {
        const FIXED: usize = 128;
        let attributes = self.attributes.iter().map(|attribute| {
            let value = match &attribute.value {
                AttributeValue::Text(text) | AttributeValue::List(text) => text.len(),
                AttributeValue::Number(_) => size_of::<i64>(),
            };
            attribute.name.len() + value + 16
        });
        FIXED + self.name.len() + self.state.len() + attributes.sum::<usize>()
    }
}

/// Bytes as text, cut to [`MAX_VALUE_BYTES`]. What is not UTF-8 becomes a replacement character.
pub(super) fn text_of(bytes: &[u8]) -> String {
    // No more is looked at than could be left, however long it is.
    let bytes = &bytes[..bytes.len().min(MAX_VALUE_BYTES)];
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    text.truncate(text.floor_char_boundary(MAX_VALUE_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_text_and_not_too_long() {
        assert_eq!(text_of(b"plain"), "plain");
        assert_eq!(text_of(b"a\xffb"), "a\u{fffd}b");
        assert_eq!(text_of(&[b'a'; 5000]).len(), MAX_VALUE_BYTES);
        // Each byte becomes three.
        let replaced = text_of(&[0xff; 5000]);
        assert!(replaced.len() <= MAX_VALUE_BYTES && replaced.len() > MAX_VALUE_BYTES - 3);
    }
}
