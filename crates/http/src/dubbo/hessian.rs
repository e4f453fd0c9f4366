//! Values of Hessian 2.
//!
//! Strings are the only values that are written one by one. Everything may be read, but only what a
//! proxy needs becomes a value in memory; the rest is checked and passed over. Each value takes at
//! least one byte of the input, and what is remembered (classes, and how many types and containers
//! there were) is bounded, so that no payload costs much more than its bytes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

pub(super) const BINARY_CHUNK: u8 = b'A';
pub(super) const END: u8 = b'Z';
pub(super) const MAP: u8 = b'H';
pub(super) const NULL: u8 = b'N';
const STRING_CHUNK: u8 = b'R';
const STRING: u8 = b'S';

/// UTF-16 units in one chunk of a string that is written.
const CHUNK_UNITS: usize = 0x8000;
/// How deeply values may be nested.
const MAX_DEPTH: u32 = 64;
/// Fields of all classes together. They are remembered, since objects refer to them.
const MAX_FIELDS: usize = 4096;
/// Classes, for the same reason.
const MAX_CLASSES: usize = 256;

/// Why a value cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HessianError {
    /// It ends too early.
    Truncated,
    /// No value begins with this byte here.
    Tag(u8),
    /// A string is not UTF-8 as Hessian writes it.
    Text,
    /// A string is longer than allowed.
    TooLong,
    /// It refers to something that does not exist.
    Reference,
    /// A list has a negative length.
    Length,
    /// Values are nested too deeply.
    Depth,
    /// There are too many classes, or fields in them.
    Classes,
}

impl fmt::Display for HessianError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HessianError::Truncated => f.write_str("a value ends too early"),
            HessianError::Tag(tag) => write!(f, "unexpected tag {tag:#04x}"),
            HessianError::Text => f.write_str("a string is not UTF-8"),
            HessianError::TooLong => f.write_str("a string is too long"),
            HessianError::Reference => f.write_str("a reference leads nowhere"),
            HessianError::Length => f.write_str("a list has a negative length"),
            HessianError::Depth => write!(f, "values are nested more than {MAX_DEPTH} deep"),
            HessianError::Classes => f.write_str("too many classes or fields"),
        }
    }
}

/// A text that is UTF-8, or else ISO 8859-1.
pub(super) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().map(|&byte| char::from(byte)).collect()),
    }
}

/// Appends a string: its length in UTF-16 units, and each unit in UTF-8. So characters beyond the
/// basic plane are two units of three bytes, as in Java.
pub(super) fn write_string(out: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    loop {
        let (mut units, mut end) = (0, rest.len());
        for (at, char) in rest.char_indices() {
            if units + char.len_utf16() > CHUNK_UNITS {
                end = at;
                break;
            }
            units += char.len_utf16();
        }
        let (piece, more) = rest.split_at(end);
        // At most `CHUNK_UNITS`, which has 16 bits.
        let [high, low] = (units as u16).to_be_bytes();
        match units {
            _ if !more.is_empty() => out.extend_from_slice(&[STRING_CHUNK, high, low]),
            0..=0x1f => out.push(low),
            0x20..=0x3ff => out.extend_from_slice(&[0x30 + high, low]),
            _ => out.extend_from_slice(&[STRING, high, low]),
        }
        write_units(out, piece);
        if more.is_empty() {
            return;
        }
        rest = more;
    }
}

fn write_units(out: &mut Vec<u8>, piece: &str) {
    if piece.chars().all(|char| char.len_utf16() == 1) {
        return out.extend_from_slice(piece.as_bytes());
    }
    for unit in piece.encode_utf16() {
        match unit {
            // The low bits of what was shifted.
            0..=0x7f => out.push(unit as u8),
            0x80..=0x7ff => {
                out.extend_from_slice(&[0xc0 | (unit >> 6) as u8, 0x80 | (unit & 0x3f) as u8])
            }
            _ => out.extend_from_slice(&[
                0xe0 | (unit >> 12) as u8,
                0x80 | (unit >> 6 & 0x3f) as u8,
                0x80 | (unit & 0x3f) as u8,
            ]),
        }
    }
}

/// A value that was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    /// Bytes in chunks, all of which are at this position of the input.
    Binary(Range<usize>),
    /// A date, list, map or object, which was passed over.
    Other,
}

/// A class of objects.
#[derive(Clone, Debug)]
struct Class {
    name: Range<usize>,
    fields: Vec<Range<usize>>,
}

/// What an object is said to be: the position of its class's name, and those of its fields.
pub(super) struct Shape {
    /// The encoded name of the class.
    pub(super) name: Range<usize>,
    /// The encoded names of the fields, in the order of their values.
    pub(super) fields: Vec<Range<usize>>,
}

/// Reads values one after the other.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    input: &'a [u8],
    at: usize,
    depth: u32,
    /// Maps, lists and objects so far, which references count.
    containers: u32,
    /// Types so far, likewise.
    types: u32,
    classes: Vec<Class>,
    fields: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: &'a [u8]) -> Reader<'a> {
        Reader {
            input,
            at: 0,
            depth: 0,
            containers: 0,
            types: 0,
            classes: Vec::new(),
            fields: 0,
        }
    }

    /// The byte that the next value begins with.
    pub(super) fn peek(&self) -> Result<u8, HessianError> {
        let next = self.input.get(self.at);
        next.copied().ok_or(HessianError::Truncated)
    }

    fn byte(&mut self) -> Result<u8, HessianError> {
        let byte = self.peek()?;
        self.at += 1;
        Ok(byte)
    }

    fn bytes<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], HessianError> {
        let bytes = self.input[self.at..].first_chunk();
        let bytes = *bytes.ok_or(HessianError::Truncated)?;
        self.at += COUNT;
        Ok(bytes)
    }

    fn pass(&mut self, bytes: usize) -> Result<(), HessianError> {
        if self.input.len() - self.at < bytes {
            return Err(HessianError::Truncated);
        }
        self.at += bytes;
        Ok(())
    }

    /// An integer, where only one may stand.
    pub(super) fn int(&mut self) -> Result<i32, HessianError> {
        let tag = self.byte()?;
        self.int_of(tag)
    }

    fn int_of(&mut self, tag: u8) -> Result<i32, HessianError> {
        let high = i32::from(tag);
        Ok(match tag {
            0x80..=0xbf => high - 0x90,
            0xc0..=0xcf => ((high - 0xc8) << 8) + i32::from(self.byte()?),
            0xd0..=0xd7 => {
                let low = u16::from_be_bytes(self.bytes()?);
                ((high - 0xd4) << 16) + i32::from(low)
            }
            b'I' => i32::from_be_bytes(self.bytes()?),
            _ => return Err(HessianError::Tag(tag)),
        })
    }

    /// The next value. A string may have at most `max_text_bytes`.
    pub(super) fn value(&mut self, max_text_bytes: usize) -> Result<Value, HessianError> {
        self.class_definitions()?;
        let (start, tag) = (self.at, self.byte()?);
        Ok(match tag {
            NULL => Value::Null,
            b'T' => Value::Bool(true),
            b'F' => Value::Bool(false),
            0x80..=0xd7 | b'I' => Value::Int(self.int_of(tag)?.into()),
            0xd8..=0xef => Value::Int(i64::from(tag) - 0xe0),
            0xf0..=0xff => Value::Int(((i64::from(tag) - 0xf8) << 8) + i64::from(self.byte()?)),
            0x38..=0x3f => {
                let low = u16::from_be_bytes(self.bytes()?);
                Value::Int(((i64::from(tag) - 0x3c) << 16) + i64::from(low))
            }
            b'L' => Value::Int(i64::from_be_bytes(self.bytes()?)),
            0x59 => Value::Int(i32::from_be_bytes(self.bytes()?).into()),
            b'D' => Value::Double(f64::from_be_bytes(self.bytes()?)),
            0x5b => Value::Double(0.0),
            0x5c => Value::Double(1.0),
            0x5d => Value::Double(i8::from_be_bytes(self.bytes()?).into()),
            0x5e => Value::Double(i16::from_be_bytes(self.bytes()?).into()),
            0x5f => Value::Double(f64::from(i32::from_be_bytes(self.bytes()?)) * 0.001),
            0x00..=0x1f | 0x30..=0x33 | STRING_CHUNK | STRING => {
                self.at = start;
                Value::Text(self.text(max_text_bytes)?)
            }
            0x20..=0x2f | 0x34..=0x37 | BINARY_CHUNK | b'B' => {
                self.at = start;
                self.pass_binary()?;
                Value::Binary(start..self.at)
            }
            _ => {
                self.at = start;
                self.pass_container()?;
                Value::Other
            }
        })
    }

    /// Passes over the next value, whatever it is.
    pub(super) fn skip(&mut self) -> Result<(), HessianError> {
        self.class_definitions()?;
        match self.peek()? {
            0x00..=0x1f | 0x30..=0x33 | STRING_CHUNK | STRING => self.pass_text(),
            0x20..=0x2f | 0x34..=0x37 | BINARY_CHUNK | b'B' => self.pass_binary(),
            // What is no text is as small as it is in the input.
            _ => self.value(0).map(drop),
        }
    }

    /// Begins a map, which is next or an error. Its entries follow up to [`END`].
    pub(super) fn begin_map(&mut self) -> Result<(), HessianError> {
        self.class_definitions()?;
        match self.byte()? {
            MAP => {}
            b'M' => self.pass_type()?,
            tag => return Err(HessianError::Tag(tag)),
        }
        self.containers += 1;
        Ok(())
    }

    /// Whether the entries of a map are over; its end is passed over.
    pub(super) fn ends(&mut self) -> Result<bool, HessianError> {
        let ends = self.peek()? == END;
        self.at += usize::from(ends);
        Ok(ends)
    }

    /// Begins an object if one is next: the values of its fields follow.
    pub(super) fn begin_object(&mut self) -> Result<Option<Shape>, HessianError> {
        self.class_definitions()?;
        if !matches!(self.peek()?, b'O' | 0x60..=0x6f) {
            return Ok(None);
        }
        let class = self.begin_instance()?;
        let class = self.classes[class].clone();
        Ok(Some(Shape {
            name: class.name,
            fields: class.fields,
        }))
    }

    /// The class of an object that begins here.
    fn begin_instance(&mut self) -> Result<usize, HessianError> {
        let number = match self.byte()? {
            b'O' => usize::try_from(self.int()?).map_err(|_| HessianError::Reference)?,
            tag @ 0x60..=0x6f => usize::from(tag - 0x60),
            tag => return Err(HessianError::Tag(tag)),
        };
        if number >= self.classes.len() {
            return Err(HessianError::Reference);
        }
        self.containers += 1;
        Ok(number)
    }

    /// Definitions of classes, which may stand before any value.
    fn class_definitions(&mut self) -> Result<(), HessianError> {
        while self.input.get(self.at) == Some(&b'C') {
            self.at += 1;
            let name = self.text_range()?;
            let count = usize::try_from(self.int()?).map_err(|_| HessianError::Length)?;
            if self.classes.len() >= MAX_CLASSES || count > MAX_FIELDS - self.fields {
                return Err(HessianError::Classes);
            }
            self.fields += count;
            let mut fields = Vec::with_capacity(count);
            for _ in 0..count {
                fields.push(self.text_range()?);
            }
            self.classes.push(Class { name, fields });
        }
        Ok(())
    }

    fn text_range(&mut self) -> Result<Range<usize>, HessianError> {
        let start = self.at;
        self.pass_text()?;
        Ok(start..self.at)
    }

    /// A string or the number of an earlier one.
    fn pass_type(&mut self) -> Result<(), HessianError> {
        match self.peek()? {
            0x00..=0x1f | 0x30..=0x33 | STRING_CHUNK | STRING => {
                self.types += 1;
                self.pass_text()
            }
            _ => {
                let number = u32::try_from(self.int()?).map_err(|_| HessianError::Reference)?;
                match number < self.types {
                    true => Ok(()),
                    false => Err(HessianError::Reference),
                }
            }
        }
    }

    /// A date, reference, list, map or object.
    fn pass_container(&mut self) -> Result<(), HessianError> {
        if self.depth == MAX_DEPTH {
            return Err(HessianError::Depth);
        }
        self.depth += 1;
        self.pass_members()?;
        self.depth -= 1;
        Ok(())
    }

    fn pass_members(&mut self) -> Result<(), HessianError> {
        let tag = self.peek()?;
        match tag {
            MAP | b'M' => {
                self.begin_map()?;
                while !self.ends()? {
                    self.skip()?;
                    self.skip()?;
                }
                return Ok(());
            }
            b'O' | 0x60..=0x6f => {
                let class = self.begin_instance()?;
                for _ in 0..self.classes[class].fields.len() {
                    self.skip()?;
                }
                return Ok(());
            }
            _ => self.at += 1,
        }
        match tag {
            0x4a => self.pass(8),
            0x4b => self.pass(4),
            b'Q' => {
                let number = u32::try_from(self.int()?).map_err(|_| HessianError::Reference)?;
                match number < self.containers {
                    true => Ok(()),
                    false => Err(HessianError::Reference),
                }
            }
            b'U' | b'W' => {
                if tag == b'U' {
                    self.pass_type()?;
                }
                self.containers += 1;
                while !self.ends()? {
                    self.skip()?;
                }
                Ok(())
            }
            b'V' | b'X' | 0x70..=0x7f => {
                if matches!(tag, b'V' | 0x70..=0x77) {
                    self.pass_type()?;
                }
                let count = match tag {
                    b'V' | b'X' => self.int()?,
                    _ => i32::from(tag & 7),
                };
                let count = u32::try_from(count).map_err(|_| HessianError::Length)?;
                self.containers += 1;
                for _ in 0..count {
                    self.skip()?;
                }
                Ok(())
            }
            _ => Err(HessianError::Tag(tag)),
        }
    }

    /// The length of a chunk that has this tag, and whether it is the last; `None` if it is no
    /// chunk of this kind of value. `short` and `medium` are the tags of short last chunks.
    fn chunk(
        &mut self,
        (chunk, last): (u8, u8),
        short: Range<u8>,
        medium: Range<u8>,
    ) -> Result<(usize, bool), HessianError> {
        let tag = self.byte()?;
        let length = match tag {
            _ if tag == chunk || tag == last => u16::from_be_bytes(self.bytes()?),
            _ if short.contains(&tag) => u16::from(tag - short.start),
            _ if medium.contains(&tag) => u16::from_be_bytes([tag - medium.start, self.byte()?]),
            _ => return Err(HessianError::Tag(tag)),
        };
        Ok((usize::from(length), tag != chunk))
    }

    /// The next chunk of bytes, and whether it is the last.
    pub(super) fn binary_chunk(&mut self) -> Result<(Range<usize>, bool), HessianError> {
        let (length, is_last) = self.chunk((BINARY_CHUNK, b'B'), 0x20..0x30, 0x34..0x38)?;
        let start = self.at;
        self.pass(length)?;
        Ok((start..self.at, is_last))
    }

    fn pass_binary(&mut self) -> Result<(), HessianError> {
        while !self.binary_chunk()?.1 {}
        Ok(())
    }

    fn pass_text(&mut self) -> Result<(), HessianError> {
        self.each_unit(|_| Ok(()))
    }

    /// The string that is next, of at most so many bytes.
    pub(super) fn text(&mut self, max_bytes: usize) -> Result<String, HessianError> {
        let mut text = String::new();
        self.append_text(&mut text, max_bytes)?;
        Ok(text)
    }

    /// The beginning of the string that is next, up to so many bytes or to what is wrong in it.
    /// Nothing can be read after it.
    pub(super) fn beginning(mut self, max_bytes: usize) -> String {
        let mut text = String::new();
        // What has been read is what is wanted.
        let _ = self.append_text(&mut text, max_bytes);
        text
    }

    fn append_text(&mut self, text: &mut String, max_bytes: usize) -> Result<(), HessianError> {
        let mut high = None;
        self.each_unit(|unit| {
            let char = match (high.take(), unit) {
                (None, 0xd800..=0xdbff) => {
                    high = Some(unit);
                    return Ok(());
                }
                (Some(high), 0xdc00..=0xdfff) => {
                    char::from_u32(0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00))
                }
                (Some(_), _) => None,
                (None, unit) => char::from_u32(unit),
            };
            let char = char.ok_or(HessianError::Text)?;
            if text.len() + char.len_utf8() > max_bytes {
                return Err(HessianError::TooLong);
            }
            text.push(char);
            Ok(())
        })?;
        match high {
            Some(_) => Err(HessianError::Text),
            None => Ok(()),
        }
    }

    /// Calls `each` with every unit of the string that is next: of UTF-16, or a whole character
    /// where one was written in four bytes, as some do.
    fn each_unit(
        &mut self,
        mut each: impl FnMut(u32) -> Result<(), HessianError>,
    ) -> Result<(), HessianError> {
        loop {
            let (mut left, is_last) = self.chunk((STRING_CHUNK, STRING), 0..0x20, 0x30..0x34)?;
            while left > 0 {
                let first = self.byte()?;
                let (more, mut unit) = match first {
                    0x00..=0x7f => (0, u32::from(first)),
                    0xc0..=0xdf => (1, u32::from(first & 0x1f)),
                    0xe0..=0xef => (2, u32::from(first & 0x0f)),
                    // Two units.
                    0xf0..=0xf7 if left > 1 => (3, u32::from(first & 0x07)),
                    _ => return Err(HessianError::Text),
                };
                for _ in 0..more {
                    let next = self.byte()?;
                    if next & 0xc0 != 0x80 {
                        return Err(HessianError::Text);
                    }
                    unit = unit << 6 | u32::from(next & 0x3f);
                }
                left -= if more == 3 { 2 } else { 1 };
                each(unit)?;
            }
            if is_last {
                return Ok(());
            }
        }
    }
}
