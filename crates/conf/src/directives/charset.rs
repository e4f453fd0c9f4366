//! ngx_http_charset_module.

use super::{Arity, HSL, HTTP, LOCATION_IF, Module, ONE, Row, media_types};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault, shown};
use crate::lexer::Word;
use crate::lists::ListBlock;
use crate::model::{CharsetMap, CharsetName, CharsetTable, Origin};
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    title: "HTTP: character sets",
    doc: "Declares the character set of responses, and converts it.",
    rows: &[
        Row::new(
            "charset",
            HSL | LOCATION_IF,
            ONE,
            "off",
            "Character set in the `Content-Type` field, or a variable with its name; `off` adds \
             none. If `source_charset` differs, the response is converted.",
            |b, c| {
                c.once(&b.location().body_filters.texts.charset)?;
                let named = match c.arg(1) {
                    b"off" => None,
                    _ => Some(name(b, c)?),
                };
                b.location().body_filters.texts.charset = Some(named);
                Ok(())
            },
        ),
        Row::block(
            "charset_map",
            HTTP,
            Arity::Between(2, 2),
            "Conversion table between two character sets, in both directions. Lines have two bytes \
             in hexadecimal. If the second set is `utf-8`, they have a byte and one to three \
             bytes of UTF-8. Bytes from 80 that are missing in the table become `?`; missing \
             UTF-8 characters become `&#NUMBER;`.",
            charset_map,
        ),
        Row::new(
            "charset_types",
            HSL,
            Arity::AtLeast(1),
            "text/html text/xml text/plain text/vnd.wap.wml application/javascript application/rss+xml",
            "Media types of responses whose character set is declared or converted. A list \
             replaces the default one, except for `text/html`; `*` matches any type.",
            |b, c| {
                media_types::add(b, c, |location| {
                    &mut location.body_filters.texts.charset_types
                });
                Ok(())
            },
        ),
        Row::new(
            "override_charset",
            HSL | LOCATION_IF,
            ONE,
            "off",
            "Whether responses from upstream servers that already declare a character set are \
             converted.",
            |b, c| c.flag(&mut b.location().body_filters.texts.override_charset),
        ),
        Row::new(
            "source_charset",
            HSL | LOCATION_IF,
            ONE,
            "",
            "Original character set of responses, or a variable with its name. Conversion to that \
             of `charset` requires a `charset_map` for both.",
            |b, c| {
                c.once(&b.location().body_filters.texts.source_charset)?;
                let name = name(b, c)?;
                b.location().body_filters.texts.source_charset = Some(name);
                Ok(())
            },
        ),
    ],
};

fn name(b: &mut Build<'_>, c: &Call<'_>) -> Result<CharsetName, Fault> {
    if c.arg(1).starts_with(b"$") {
        // Only a variable, and nothing else.
        let variable = b.names.variable(c.variable_name(1)?, &c.origin)?;
        let part = crate::model::Part::Variable(variable);
        return Ok(CharsetName::Variable(crate::model::Template::new(vec![
            part,
        ])));
    }
    Ok(CharsetName::Known(known(b, c.arg(1))))
}

/// The index of a set; one that was not named before is named now.
fn known(b: &mut Build<'_>, name: &[u8]) -> usize {
    let charsets = &mut b.http.charsets;
    charsets.find(name).unwrap_or_else(|| {
        charsets.names.push(name.into());
        charsets.names.len() - 1
    })
}

fn charset_map(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let (first, second) = (known(b, c.arg(1)), known(b, c.arg(2)));
    let (first_name, second_name) = (c.shown(1), c.shown(2));
    if first == second {
        return Err(Fault::new(format!(
            "\"charset_map\" between the same charsets \"{first_name}\" and \"{second_name}\""
        )));
    }
    if b.http.charsets.conversion(first, second).is_some() {
        return Err(Fault::new(format!(
            "duplicate \"charset_map\" between \"{first_name}\" and \"{second_name}\""
        )));
    }
    if c.arg(1).eq_ignore_ascii_case(UTF8) {
        return Err(Fault::at(1, "\"utf-8\" must be the second charset")
            .help("a table works in both directions; swap the columns"));
    }
    let table = match c.arg(2).eq_ignore_ascii_case(UTF8) {
        true => to_utf8(),
        false => CharsetTable::Bytes {
            forth: Box::new(std::array::from_fn(ascii_or_question_mark)),
            back: Box::new(std::array::from_fn(ascii_or_question_mark)),
        },
    };
    b.opening = Some(Opening::List(Box::new(Open(CharsetMap {
        first,
        second,
        table,
    }))));
    Ok(())
}

const UTF8: &[u8] = b"utf-8";

/// The first byte that is not ASCII.
const FIRST_OTHER: usize = 0x80;

fn ascii_or_question_mark(byte: usize) -> u8 {
    match byte < FIRST_OTHER {
        true => byte as u8,
        false => b'?',
    }
}

fn to_utf8() -> CharsetTable {
    let forth = std::array::from_fn(|byte| [1, ascii_or_question_mark(byte), 0, 0]);
    let mut back: Vec<Option<Box<[u8; 256]>>> = vec![None; 256];
    let ascii = |byte| match byte < FIRST_OTHER {
        true => byte as u8,
        false => 0,
    };
    back[0] = Some(Box::new(std::array::from_fn(ascii)));
    CharsetTable::Utf8 {
        forth: Box::new(forth),
        back,
    }
}

/// A `charset_map` block that is open.
struct Open(CharsetMap);

impl ListBlock for Open {
    fn line(&mut self, _: &mut Build<'_>, words: &[Word], _: &Origin) -> Result<(), Fault> {
        let [left, right] = words else {
            return Err(Fault::new("invalid parameters number"));
        };
        let invalid = |word: &Word| {
            let text = shown(&word.bytes);
            Fault::new(format!("invalid value \"{text}\""))
        };
        let byte = hexadecimal(&left.bytes).ok_or_else(|| invalid(left))?;
        match &mut self.0.table {
            CharsetTable::Bytes { forth, back } => {
                let other = hexadecimal(&right.bytes).ok_or_else(|| invalid(right))?;
                forth[usize::from(byte)] = other;
                back[usize::from(other)] = byte;
            }
            CharsetTable::Utf8 { forth, back } => {
                let bytes: Option<Vec<u8>> = right.bytes.chunks(2).map(hexadecimal).collect();
                let bytes = bytes.filter(|bytes| (1..=3).contains(&bytes.len()));
                let bytes = bytes.ok_or_else(|| invalid(right))?;
                let number = character(&bytes).ok_or_else(|| invalid(right))?;
                let entry = &mut forth[usize::from(byte)];
                entry[0] = bytes.len() as u8; // at most three
                entry[1..=bytes.len()].copy_from_slice(&bytes);
                let [upper, lower] = number.to_be_bytes();
                let part = back[usize::from(upper)].get_or_insert_with(|| Box::new([0; 256]));
                part[usize::from(lower)] = byte;
            }
        }
        Ok(())
    }

    fn includes(&self) -> bool {
        true
    }

    fn end(self: Box<Self>, b: &mut Build<'_>) -> Result<(), Fault> {
        b.http.charsets.maps.push(Arc::new(self.0));
        Ok(())
    }
}

/// A byte in hexadecimal, with leading zeros or without.
fn hexadecimal(text: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = u32::from_str_radix(text, 16).ok().filter(|_| digits)?;
    u8::try_from(value).ok()
}

/// The number of the character that these bytes are.
fn character(bytes: &[u8]) -> Option<u16> {
    let mut characters = std::str::from_utf8(bytes).ok()?.chars();
    let number = u32::from(characters.next()?);
    u16::try_from(number)
        .ok()
        .filter(|_| characters.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(hexadecimal(b"80"), Some(0x80));
        assert_eq!(hexadecimal(b"0a"), Some(10));
        assert_eq!(hexadecimal(b"100"), None);
        assert_eq!(hexadecimal(b"+1"), None);
        assert_eq!(hexadecimal(b""), None);
        assert_eq!(character(b"\xE2\x82\xAC"), Some(0x20AC));
        assert_eq!(character(b"\xC3"), None);
        assert_eq!(character(b"ab"), None);
    }
}
