//! Trailer sections, and field sections that nobody wants.

use smallvec::SmallVec;

use super::Trailers;
use super::class::{Class, Kind, raw_header};
use super::field::{Field, FieldSink, Note};
use crate::h1::RawHeader;

/// Takes trailers: no pseudo-headers, no connection-specific fields (section 8.1).
pub(crate) struct TrailerSink {
    fields: SmallVec<[RawHeader; 4]>,
    malformed: Option<&'static str>,
}

impl TrailerSink {
    pub(crate) fn new() -> TrailerSink {
        TrailerSink {
            fields: SmallVec::new(),
            malformed: None,
        }
    }

    /// The trailers, or the error in them.
    pub(crate) fn finish(self, text: Vec<u8>) -> Result<Trailers, &'static str> {
        match self.malformed {
            Some(why) => Err(why),
            None => Ok(Trailers {
                text,
                fields: self.fields,
            }),
        }
    }
}

impl FieldSink for TrailerSink {
    fn field(&mut self, text: &mut Vec<u8>, field: &Field) -> Note {
        let class = Class::of(text, field);
        let wrong = match class.kind {
            _ if !class.value_is_valid => Some("trailer with invalid value"),
            Kind::Invalid => Some("trailer with invalid name"),
            Kind::Connection | Kind::Te => Some("connection-specific trailer"),
            kind if kind.is_pseudo() => Some("pseudo header in trailers"),
            _ => None,
        };
        match wrong {
            Some(why) => {
                self.malformed.get_or_insert(why);
            }
            // Framing and routing are settled; such fields are not passed on (RFC 9110 section
            // 6.5.1).
            None if matches!(class.kind, Kind::ContentLength | Kind::Host) => {}
            None => self.fields.push(raw_header(field, class.known)),
        }
        class.note()
    }
}

/// Takes fields that are not needed, so that the table stays in sync.
pub(crate) struct NoSink;

impl FieldSink for NoSink {
    fn field(&mut self, text: &mut Vec<u8>, field: &Field) -> Note {
        text.truncate(field.line_start);
        // No note, since nothing was examined.
        0
    }
}
