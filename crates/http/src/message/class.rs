//! What a field of a header block is, and whether it is allowed there (RFC 9113 section 8.2).
//!
//! The findings about a field are kept with its entry in the peer's table ([`Note`]), so a field
//! that comes again is neither looked up nor checked again.

use memchr::memchr3;

use super::field::{Field, Note, Origin};
use crate::Span;
use crate::h1::RawHeader;
use crate::h2::hpack::{STATIC_ENTRIES, static_field};
use crate::headers::KnownHeader;

/// The meaning of a name in a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A field like any other.
    Plain = 1,
    /// `:method`.
    Method,
    /// `:scheme`.
    Scheme,
    /// `:authority`.
    Authority,
    /// `:path`.
    Path,
    /// `:status`.
    Status,
    /// `:protocol` (RFC 8441).
    Protocol,
    /// A pseudo-header that does not exist.
    UnknownPseudo,
    /// `cookie`, which may be split into several fields (section 8.2.3).
    Cookie,
    /// `host`.
    Host,
    /// `content-length`.
    ContentLength,
    /// `te`, whose value may only be `trailers` (section 8.2.2).
    Te,
    /// A connection-specific field, which HTTP/2 does not allow (section 8.2.2).
    Connection,
    /// A name with underscores.
    Underscore,
    /// A name with other characters that RFC 9110 section 5.6.2 allows, or that only section 8.2.1
    /// allows.
    Unusual,
    /// A name that is malformed (section 8.2.1).
    Invalid,
}

impl Kind {
    const ALL: [Kind; 16] = [
        Kind::Plain,
        Kind::Method,
        Kind::Scheme,
        Kind::Authority,
        Kind::Path,
        Kind::Status,
        Kind::Protocol,
        Kind::UnknownPseudo,
        Kind::Cookie,
        Kind::Host,
        Kind::ContentLength,
        Kind::Te,
        Kind::Connection,
        Kind::Underscore,
        Kind::Unusual,
        Kind::Invalid,
    ];

    pub(crate) fn is_pseudo(self) -> bool {
        matches!(
            self,
            Kind::Method
                | Kind::Scheme
                | Kind::Authority
                | Kind::Path
                | Kind::Status
                | Kind::Protocol
                | Kind::UnknownPseudo
        )
    }
}

/// What is known of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) kind: Kind,
    pub(crate) known: Option<KnownHeader>,
    /// The value has no NUL, CR or LF and no white space around it (section 8.2.1).
    pub(crate) value_is_valid: bool,
}

const VALUE_IS_VALID: Note = 1 << 15;
const KIND_SHIFT: u32 = 8;

impl Class {
    /// The class of a decoded field; computes whatever is not noted.
    pub(crate) fn of(head: &[u8], field: &Field) -> Class {
        match field.origin {
            Origin::Static(index) => STATIC[usize::from(index)],
            Origin::Dynamic(note) => Class::from_note(note).unwrap_or_else(|| {
                let class = Class::of_name(field.name(head));
                class.with_value(field.value(head))
            }),
            Origin::StaticName(index) => STATIC[usize::from(index)].with_value(field.value(head)),
            Origin::DynamicName(note) => Class::from_note(note)
                .unwrap_or_else(|| Class::of_name(field.name(head)))
                .with_value(field.value(head)),
            Origin::Literal => Class::of_name(field.name(head)).with_value(field.value(head)),
        }
    }

    /// The class of a name, without its value.
    fn of_name(name: &[u8]) -> Class {
        let known = KnownHeader::from_name(name);
        let kind = match known {
            Some(known) if name.iter().any(u8::is_ascii_uppercase) => {
                // The look-up ignores case, but only lower case is allowed.
                let _ = known;
                Kind::Invalid
            }
            Some(known) => kind_of_known(known),
            None => kind_of_unknown(name),
        };
        Class {
            kind,
            known,
            value_is_valid: false,
        }
    }

    fn with_value(self, value: &[u8]) -> Class {
        Class {
            value_is_valid: value_is_valid(value),
            ..self
        }
    }

    /// The note to keep with the entry; never zero, which means nothing is known.
    pub(crate) const fn note(self) -> Note {
        let known = match self.known {
            Some(known) => known as u16 + 1,
            None => 0,
        };
        let valid = if self.value_is_valid {
            VALUE_IS_VALID
        } else {
            0
        };
        known | (self.kind as u16) << KIND_SHIFT | valid
    }

    fn from_note(note: Note) -> Option<Class> {
        let kind = usize::from(note >> KIND_SHIFT & 0x1f).checked_sub(1)?;
        let known = usize::from(note & 0xff).checked_sub(1);
        Some(Class {
            kind: *Kind::ALL.get(kind)?,
            known: known.and_then(|index| KnownHeader::ALL.get(index).copied()),
            value_is_valid: note & VALUE_IS_VALID != 0,
        })
    }
}

/// The positions of a field, for a list of headers.
pub(crate) fn raw_header(field: &Field, known: Option<KnownHeader>) -> RawHeader {
    let value_start = field.value_start();
    RawHeader {
        name: Span::new(field.line_start, field.line_start + field.name_bytes),
        value: Span::new(value_start, value_start + field.value_bytes),
        known,
    }
}

/// RFC 9113 section 8.2.1: no NUL, CR, LF; no space or tab at either end.
fn value_is_valid(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !is_blank(value.first()) && !is_blank(value.last()) && memchr3(0, b'\r', b'\n', value).is_none()
}

const fn kind_of_known(known: KnownHeader) -> Kind {
    match known {
        KnownHeader::Cookie => Kind::Cookie,
        KnownHeader::Host => Kind::Host,
        KnownHeader::ContentLength => Kind::ContentLength,
        KnownHeader::Te => Kind::Te,
        KnownHeader::Connection
        | KnownHeader::KeepAlive
        | KnownHeader::ProxyConnection
        | KnownHeader::TransferEncoding
        | KnownHeader::Upgrade => Kind::Connection,
        _ => Kind::Plain,
    }
}

/// Whether a field of this name is specific to an HTTP/1 connection and must not be sent in HTTP/2
/// (RFC 9113 section 8.2.2).
pub(crate) const fn is_about_connection(known: KnownHeader) -> bool {
    matches!(kind_of_known(known), Kind::Connection) || matches!(known, KnownHeader::Http2Settings)
}

/// The kind of a name that is not a known header.
fn kind_of_unknown(name: &[u8]) -> Kind {
    match name {
        b":method" => return Kind::Method,
        b":scheme" => return Kind::Scheme,
        b":authority" => return Kind::Authority,
        b":path" => return Kind::Path,
        b":status" => return Kind::Status,
        b":protocol" => return Kind::Protocol,
        [] => return Kind::Invalid,
        [b':', rest @ ..] if is_lower_token(rest) => return Kind::UnknownPseudo,
        _ => {}
    }
    let mut kind = Kind::Plain;
    for &byte in name {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => {}
            b'_' if kind == Kind::Plain => kind = Kind::Underscore,
            // Section 8.2.1: these make the message malformed.
            0..=b' ' | b'A'..=b'Z' | b':' | 0x7f.. => return Kind::Invalid,
            b'_' => {}
            _ => kind = Kind::Unusual,
        }
    }
    kind
}

fn is_lower_token(name: &[u8]) -> bool {
    !name.is_empty()
        && name
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || *byte == b'-')
}

/// The classes of the static table's entries, by index.
static STATIC: [Class; STATIC_ENTRIES as usize + 1] = static_classes();

const fn static_classes() -> [Class; STATIC_ENTRIES as usize + 1] {
    let mut classes = [class_of_static(b"x"); STATIC_ENTRIES as usize + 1];
    let mut index = 1;
    while index <= STATIC_ENTRIES {
        let Some((name, _)) = static_field(index) else {
            panic!("the static table has an entry for every index");
        };
        classes[index as usize] = class_of_static(name);
        index += 1;
    }
    classes
}

/// The note about an entry of a static table with this name.
pub(crate) const fn note_of_static(name: &[u8]) -> Note {
    class_of_static(name).note()
}

/// The class of an entry of a static table. All of them have valid names and values.
const fn class_of_static(name: &[u8]) -> Class {
    const PSEUDO: [(&[u8], Kind); 5] = [
        (b":authority", Kind::Authority),
        (b":method", Kind::Method),
        (b":path", Kind::Path),
        (b":scheme", Kind::Scheme),
        (b":status", Kind::Status),
    ];
    let mut class = Class {
        kind: Kind::Plain,
        known: None,
        value_is_valid: true,
    };
    let mut at = 0;
    while at < PSEUDO.len() {
        if PSEUDO[at].0.eq_ignore_ascii_case(name) {
            class.kind = PSEUDO[at].1;
        }
        at += 1;
    }
    let mut known = 0;
    while known < KnownHeader::ALL.len() {
        let candidate = KnownHeader::ALL[known];
        if candidate.name().as_bytes().eq_ignore_ascii_case(name) {
            class.known = Some(candidate);
            class.kind = kind_of_known(candidate);
        }
        known += 1;
    }
    class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_names_are_classed_as_if_they_came_as_text() {
        for index in 1..=STATIC_ENTRIES {
            let (name, value) = static_field(index).expect("an entry");
            let expected = Class::of_name(name).with_value(value);
            assert_eq!(STATIC[index as usize], expected, "{index}");
        }
    }

    #[test]
    fn notes_keep_everything() {
        let mut names: Vec<Vec<u8>> = KnownHeader::ALL
            .iter()
            .map(|known| known.name().to_ascii_lowercase().into_bytes())
            .collect();
        for name in [
            ":path",
            ":protocol",
            ":x",
            "x-y",
            "x_y",
            "x y",
            "X",
            "",
            "x!",
            "a:b",
            ":",
            ":A",
        ] {
            names.push(name.as_bytes().to_vec());
        }
        for name in names {
            for value in [&b"v"[..], b"v\n"] {
                let class = Class::of_name(&name).with_value(value);
                assert_ne!(class.note(), 0);
                assert_eq!(Class::from_note(class.note()), Some(class));
                assert_eq!(class.value_is_valid, value == b"v");
            }
        }
        assert_eq!(Class::from_note(0), None);
    }
}
