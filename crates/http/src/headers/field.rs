//! Names and values of fields as every encoder takes them. A value of these types is safe to write,
//! whatever variables it was made from.

use memchr::memchr3;

use super::list::is_token_byte;
use super::{InvalidHeader, is_token};

/// The name of a field: a token (RFC 9110 section 5.6.2), so that it ends where it should and is
/// not a pseudo-header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldName<'a>(&'a [u8]);

/// The value of a field: anything without CR, LF and NUL (RFC 9110 section 5.5), so that it cannot
/// become a second field or the end of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldValue<'a>(&'a [u8]);

/// A field of a head or a trailer section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name, in any case.
    pub name: FieldName<'a>,
    /// Its value.
    pub value: FieldValue<'a>,
}

impl<'a> FieldName<'a> {
    /// # Errors
    /// [`InvalidHeader::Name`].
    pub fn new(name: &'a [u8]) -> Result<FieldName<'a>, InvalidHeader> {
        match is_token(name) {
            true => Ok(FieldName(name)),
            false => Err(InvalidHeader::Name),
        }
    }

    /// A name that is part of the program.
    ///
    /// # Panics
    /// When it is no token; in a constant that does not compile.
    pub const fn from_static(name: &'static str) -> FieldName<'static> {
        let bytes = name.as_bytes();
        assert!(!bytes.is_empty());
        let mut at = 0;
        while at < bytes.len() {
            assert!(is_token_byte(bytes[at]));
            at += 1;
        }
        FieldName(bytes)
    }

    /// The name as written.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> FieldValue<'a> {
    /// # Errors
    /// [`InvalidHeader::Value`].
    pub fn new(value: &'a [u8]) -> Result<FieldValue<'a>, InvalidHeader> {
        match memchr3(b'\r', b'\n', 0, value) {
            None => Ok(FieldValue(value)),
            Some(_) => Err(InvalidHeader::Value),
        }
    }

    /// A value that is part of the program.
    ///
    /// # Panics
    /// When it holds CR, LF or NUL; in a constant that does not compile.
    pub const fn from_static(value: &'static str) -> FieldValue<'static> {
        let bytes = value.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            assert!(!matches!(bytes[at], b'\r' | b'\n' | 0));
            at += 1;
        }
        FieldValue(bytes)
    }

    /// A value that this crate has made from bytes without CR, LF and NUL.
    pub(crate) fn trusted(value: &'a [u8]) -> FieldValue<'a> {
        debug_assert_eq!(FieldValue::new(value).err(), None);
        FieldValue(value)
    }

    /// The value as written.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The value without surrounding white space, which is not part of it and which HTTP/2 forbids
    /// (RFC 9113 section 8.2.1).
    pub fn trimmed(self) -> FieldValue<'a> {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let start = self.0.iter().position(|byte| !is_blank(byte));
        let end = self.0.iter().rposition(|byte| !is_blank(byte));
        match (start, end) {
            (Some(start), Some(end)) => FieldValue(&self.0[start..=end]),
            _ => FieldValue(b""),
        }
    }
}

impl<'a> Field<'a> {
    /// # Errors
    /// [`InvalidHeader`] when the field must not be written.
    pub fn new(name: &'a [u8], value: &'a [u8]) -> Result<Field<'a>, InvalidHeader> {
        Ok(Field {
            name: FieldName::new(name)?,
            value: FieldValue::new(value)?,
        })
    }

    /// A field that is part of the program.
    ///
    /// # Panics
    /// When it must not be written; in a constant that does not compile.
    pub const fn from_static(name: &'static str, value: &'static str) -> Field<'static> {
        Field {
            name: FieldName::from_static(name),
            value: FieldValue::from_static(value),
        }
    }

    /// A field that was checked when it was added to a list.
    pub(super) fn of_list(name: &'a [u8], value: &'a [u8]) -> Field<'a> {
        debug_assert_eq!(FieldName::new(name).err(), None);
        Field {
            name: FieldName(name),
            value: FieldValue::trusted(value),
        }
    }
}
