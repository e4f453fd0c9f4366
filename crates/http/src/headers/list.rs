//! The header fields of a response, built once per request and reused.

use std::fmt;

use memchr::memchr3;

use super::{Field, KnownHeader};

/// Response header fields in the order they were added, names as written.
///
/// One byte arena and one entry vector. [`clear`](HeaderList::clear) keeps both allocations, so a
/// connection that reuses its list allocates nothing per request. Values must be free of CR, LF and
/// NUL, so that a variable that expands to a line break cannot split the response.
#[derive(Clone, Default)]
pub struct HeaderList {
    arena: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    known: Option<KnownHeader>,
    /// Length of the name stored before the value; 0 when the known name's spelling is used.
    name_bytes: u32,
    start: u32,
    value_bytes: u32,
}

/// A header that must not be sent: an empty or malformed name, or a line break or NUL in the
/// value. The header was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidHeader {
    /// The name is empty or holds a byte that RFC 9110 section 5.6.2 does not allow in a token.
    Name,
    /// The value holds CR, LF or NUL (RFC 9110 section 5.5).
    Value,
    /// More than 4 GiB of header fields.
    TooLarge,
}

impl fmt::Display for InvalidHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidHeader::Name => "invalid character in response header name",
            InvalidHeader::Value => "line break or NUL in response header value",
            InvalidHeader::TooLarge => "response header fields exceed 4 GiB",
        })
    }
}

impl std::error::Error for InvalidHeader {}

impl HeaderList {
    /// An empty list; allocates nothing.
    pub fn new() -> HeaderList {
        HeaderList::default()
    }

    /// Removes all fields and keeps the memory.
    pub fn clear(&mut self) {
        self.arena.clear();
        self.entries.clear();
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a field after the others, even if the name is there already.
    ///
    /// # Errors
    /// [`InvalidHeader`] when the field could not be sent safely; the list is unchanged.
    pub fn push(&mut self, name: &[u8], value: &[u8]) -> Result<(), InvalidHeader> {
        if !is_token(name) {
            return Err(InvalidHeader::Name);
        }
        self.append(KnownHeader::from_name(name), name, value)
    }

    /// Adds a well-known field with its customary spelling; cheaper than [`push`](Self::push).
    ///
    /// # Errors
    /// [`InvalidHeader::Value`] as for [`push`](Self::push).
    pub fn push_known(&mut self, name: KnownHeader, value: &[u8]) -> Result<(), InvalidHeader> {
        self.append(Some(name), b"", value)
    }

    /// Adds a field whose name a parser has looked up already.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn push_parsed(
        &mut self,
        known: Option<KnownHeader>,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), InvalidHeader> {
        // The known names are tokens.
        if known.is_none() && !is_token(name) {
            return Err(InvalidHeader::Name);
        }
        self.append(known, name, value)
    }

    /// Adds all fields of another list after the others.
    ///
    /// # Errors
    /// [`InvalidHeader::TooLarge`]; the list is unchanged.
    pub fn extend(&mut self, other: &HeaderList) -> Result<(), InvalidHeader> {
        let moved = self.arena.len();
        if u32::try_from(moved + other.arena.len()).is_err() {
            return Err(InvalidHeader::TooLarge);
        }
        self.arena.extend_from_slice(&other.arena);
        self.entries.extend(other.entries.iter().map(|entry| Entry {
            start: entry.start + moved as u32,
            ..*entry
        }));
        Ok(())
    }

    /// Makes room for that many fields and bytes of names and values.
    pub fn reserve(&mut self, fields: usize, bytes: usize) {
        self.entries.reserve(fields);
        self.arena.reserve(bytes);
    }

    /// Replaces all fields of this name by one, at the position of the first.
    ///
    /// # Errors
    /// As for [`push`](Self::push); the list is unchanged.
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), InvalidHeader> {
        let first = self.position(name);
        self.push(name, value)?;
        let Some(first) = first else { return Ok(()) };
        let added = self.entries.pop().expect("push added an entry just now");
        self.entries[first] = added;
        let mut index = first + 1;
        while index < self.entries.len() {
            if self.matches(&self.entries[index], name) {
                self.entries.remove(index);
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    /// The first value of that name, whatever its case.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let entry = self.entries.get(self.position(name)?)?;
        Some(self.value(entry))
    }

    /// The first value of a well-known name.
    pub fn get_known(&self, name: KnownHeader) -> Option<&[u8]> {
        let entry = self.entries.iter().find(|e| e.known == Some(name))?;
        Some(self.value(entry))
    }

    /// Removes all fields of this name and returns whether there were any.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let before = self.entries.len();
        let mut entries = std::mem::take(&mut self.entries);
        entries.retain(|entry| !self.matches(entry, name));
        self.entries = entries;
        self.entries.len() != before
    }

    /// Removes all fields whose names are chosen.
    pub fn remove_chosen(&mut self, chosen: impl Fn(&[u8]) -> bool) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.retain(|entry| !chosen(self.name(entry)));
        self.entries = entries;
    }

    /// All fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries
            .iter()
            .map(|entry| (self.name(entry), self.value(entry)))
    }

    /// All fields in order, for an encoder.
    pub fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        self.iter().map(|(name, value)| Field::of_list(name, value))
    }

    /// Bytes that the fields take on the wire in HTTP/1: names, values and `": "`, CRLF.
    pub fn wire_bytes(&self) -> usize {
        self.iter()
            .map(|(name, value)| name.len() + value.len() + 4)
            .sum()
    }

    fn append(
        &mut self,
        known: Option<KnownHeader>,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), InvalidHeader> {
        if memchr3(b'\r', b'\n', 0, value).is_some() {
            return Err(InvalidHeader::Value);
        }
        let start = self.arena.len();
        // Checked as a sum, so that every later position fits as well.
        if u32::try_from(start + name.len() + value.len()).is_err() {
            return Err(InvalidHeader::TooLarge);
        }
        self.arena.extend_from_slice(name);
        self.arena.extend_from_slice(value);
        self.entries.push(Entry {
            known,
            name_bytes: name.len() as u32,
            start: start as u32,
            value_bytes: value.len() as u32,
        });
        Ok(())
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        self.entries
            .iter()
            .position(|entry| self.matches(entry, name))
    }

    fn matches(&self, entry: &Entry, name: &[u8]) -> bool {
        self.name(entry).eq_ignore_ascii_case(name)
    }

    fn name<'a>(&'a self, entry: &Entry) -> &'a [u8] {
        match entry.known {
            Some(known) if entry.name_bytes == 0 => known.name().as_bytes(),
            _ => {
                let start = entry.start as usize;
                &self.arena[start..start + entry.name_bytes as usize]
            }
        }
    }

    fn value<'a>(&'a self, entry: &Entry) -> &'a [u8] {
        let start = entry.start as usize + entry.name_bytes as usize;
        &self.arena[start..start + entry.value_bytes as usize]
    }
}

impl fmt::Debug for HeaderList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (text(name), text(value))))
            .finish()
    }
}

/// Whether these bytes make a token (RFC 9110 section 5.6.2), such as a header name or a method.
pub fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| is_token_byte(byte))
}

/// `tchar` of RFC 9110 section 5.6.2.
pub(super) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

#[cfg(test)]
mod tests;
