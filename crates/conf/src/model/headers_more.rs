//! Changes of header fields, as the headers-more module makes them.

use super::Template;

/// A `more_set_headers` or `more_clear_headers`.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseChange {
    /// `-s`: the statuses it is for; none is all.
    pub statuses: Vec<u16>,
    /// `-t`: the media types it is for, without parameters; none is all.
    pub types: Vec<Box<[u8]>>,
    /// `-a`: fields of the same name stay.
    pub appends: bool,
    /// What changes, in order.
    pub fields: Vec<FieldChange>,
}

/// A `more_set_input_headers` or `more_clear_input_headers`.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestChange {
    /// `-t`: the values of `Content-Type` it is for; none is all.
    pub types: Vec<Box<[u8]>>,
    /// `-r`: a field that the request does not have is not added.
    pub only_existing: bool,
    /// What changes, in order.
    pub fields: Vec<FieldChange>,
}

/// What becomes of a header field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldChange {
    /// Its name, a token, or the beginning of its name.
    pub name: Box<str>,
    /// All fields whose names begin like this are removed.
    pub is_prefix: bool,
    /// The new value; the field is removed if it is empty.
    pub value: Template,
}

impl FieldChange {
    /// Whether it is about the field of this name.
    pub fn is_about(&self, name: &[u8]) -> bool {
        let own = self.name.as_bytes();
        match self.is_prefix {
            true => name
                .get(..own.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(own)),
            false => name.eq_ignore_ascii_case(own),
        }
    }
}
