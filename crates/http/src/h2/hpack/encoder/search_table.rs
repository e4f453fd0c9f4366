//! The encoder's table, with look-up of fields.

use super::names::{Name, Policy};
use crate::h2::hpack::dynamic_table::{DynamicTable, size_of_field};
use crate::h2::hpack::field_hash::hash;
use crate::h2::hpack::{DEFAULT_TABLE_BYTES, STATIC_ENTRIES};
use crate::headers::KnownHeader;

/// A dynamic table with an index of its fields.
pub(super) struct SearchTable {
    table: DynamicTable<Link>,
    finder: Option<Box<Finder>>,
}

/// The data that the table keeps with an entry.
#[derive(Clone, Copy)]
struct Link {
    /// The next older entry of the chain, counted as in [`Finder::newest`].
    older: u16,
    /// See [`Name::number`].
    number: u16,
    hash: u32,
}

/// Which part of a field is in the table, and whether the field should be added.
pub(super) enum Found {
    /// The whole field.
    Field { index: u32 },
    /// The name, or nothing if `index` is 0. The field is not added.
    Name { index: u32 },
    /// The same, but the field is worth an entry; insert it with `hashed`.
    Worthy { index: u32, hashed: u64 },
}

impl SearchTable {
    /// An empty table with the initial size of every connection; allocates nothing.
    pub(super) fn new() -> SearchTable {
        SearchTable {
            table: DynamicTable::new(DEFAULT_TABLE_BYTES),
            finder: None,
        }
    }

    pub(super) fn max_size(&self) -> u32 {
        self.table.max_size()
    }

    pub(super) fn set_max_size(&mut self, size: u32) {
        self.table.set_max_size(size);
        if self.table.len() == 0 {
            self.finder = None;
        }
    }

    /// Heap memory in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let finder = self.finder.as_ref().map_or(0, |_| size_of::<Finder>());
        self.table.heap_bytes() + finder
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> u32 {
        self.table.size()
    }

    #[cfg(test)]
    pub(super) fn lines(&self) -> Vec<Vec<u8>> {
        self.table.lines()
    }

    pub(super) fn find(&mut self, name: &Name<'_>, value: &[u8]) -> Found {
        let size = size_of_field(name.text.len(), value.len());
        // One field must not push out most of the others.
        if size * 2 > u64::from(self.table.max_size()) {
            return Found::Name {
                index: u32::from(name.index),
            };
        }
        let finder = self.finder.get_or_insert_default();
        if let Some(index) = finder.find_last(&self.table, name, value) {
            return Found::Field { index };
        }
        let hashed = hash(name.seed, value);
        let index = match finder.find_in_chain(&self.table, name, value, hashed) {
            Ok(index) => return Found::Field { index },
            Err(name_index) => name_index,
        };
        let is_second = finder.is_second_time(hashed);
        // A name that comes again is worth an entry too, whatever its values.
        let is_second_name = index == 0 && finder.is_second_time(name.seed);
        match is_second || is_second_name || name.policy == Policy::AtOnce {
            true => Found::Worthy { index, hashed },
            false => Found::Name { index },
        }
    }

    /// Adds a field that [`find`](Self::find) called worthy.
    pub(super) fn insert(&mut self, name: &Name<'_>, value: &[u8], hashed: u64) {
        let finder = self.finder.get_or_insert_default();
        let bucket = &mut finder.newest[name.bucket(hashed)];
        let link = Link {
            older: *bucket,
            number: name.number,
            hash: hashed as u32,
        };
        if self.table.insert(name.text, value, link) {
            *bucket = finder.inserted;
            finder.set_last(name, finder.inserted);
            finder.inserted = finder.inserted.wrapping_add(1);
        }
    }
}

const BUCKETS: usize = 64;
const SEEN_FIELDS: usize = 32;
const NUMBERS: usize = KnownHeader::ALL.len() + 1;

/// Finds entries of the table. Eviction needs no update here: anything beyond the table counts as
/// absent. Entries are identified by how many came before them, modulo 2^16. A number may refer to
/// a later entry by the time it is looked up, which does no harm, as names and values are compared.
struct Finder {
    /// The newest entry of each chain of entries with the same hash.
    newest: [u16; BUCKETS],
    /// The entry last found or added for each [`Name::number`]: usually the server sends the same
    /// again.
    last: [u16; NUMBERS],
    /// Hashes of the last fields without an entry.
    seen: [u16; SEEN_FIELDS],
    /// Entries so far.
    inserted: u16,
}

impl Default for Finder {
    fn default() -> Finder {
        Finder {
            newest: [0; BUCKETS],
            last: [0; NUMBERS],
            seen: [0; SEEN_FIELDS],
            inserted: 0,
        }
    }
}

impl Finder {
    /// The age of the entry that came after `inserted` others, with 0 for the newest.
    #[inline]
    fn age(&self, inserted: u16) -> Option<u32> {
        u32::from(self.inserted.wrapping_sub(inserted)).checked_sub(1)
    }

    /// The index of the field, if it is the last one that was sent with this well-known name.
    #[inline]
    fn find_last(&self, table: &DynamicTable<Link>, name: &Name<'_>, value: &[u8]) -> Option<u32> {
        let age = self.age(*self.last.get(usize::from(name.number))?)?;
        let (entry, line) = table.get(age)?;
        let is_same = name.number != 0 && entry.note.number == name.number;
        (is_same && entry.value(line) == value).then_some(STATIC_ENTRIES + 1 + age)
    }

    fn set_last(&mut self, name: &Name<'_>, inserted: u16) {
        if let Some(last) = self.last.get_mut(usize::from(name.number)) {
            *last = inserted;
        }
    }

    /// The index of the field, otherwise of its name, otherwise 0.
    fn find_in_chain(
        &mut self,
        table: &DynamicTable<Link>,
        name: &Name<'_>,
        value: &[u8],
        hashed: u64,
    ) -> Result<u32, u32> {
        let mut name_index = u32::from(name.index);
        let mut next = self.newest[name.bucket(hashed)];
        let mut younger = 0;
        // Ages grow along a chain. An age that does not grow, or is beyond the table, means that
        // the rest of the chain was evicted.
        while let Some(age) = self.age(next).filter(|&age| age >= younger)
            && let Some((entry, line)) = table.get(age)
        {
            let index = STATIC_ENTRIES + 1 + age;
            let is_same_name = || match name.number {
                0 => entry.name(line) == name.text,
                number => entry.note.number == number,
            };
            if entry.note.hash == hashed as u32 && entry.value(line) == value && is_same_name() {
                self.set_last(name, next);
                return Ok(index);
            }
            if name_index == 0 && is_same_name() {
                name_index = index;
            }
            younger = age + 1;
            next = entry.note.older;
        }
        Err(name_index)
    }

    /// Whether a field with this hash was seen recently; remembers it for the next time.
    fn is_second_time(&mut self, hashed: u64) -> bool {
        let mark = (hashed >> 48) as u16;
        let seen = &mut self.seen[(hashed >> 40) as usize % SEEN_FIELDS];
        let is_second = *seen == mark;
        *seen = mark;
        is_second
    }
}

impl Name<'_> {
    /// The start of the chain. A name without a static entry has a single chain for all its values,
    /// so that the name can be found if the value cannot.
    #[inline]
    fn bucket(&self, hashed: u64) -> usize {
        let hashed = if self.index == 0 { self.seed } else { hashed };
        (hashed >> 32) as usize % BUCKETS
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::h2::hpack::Indexing;

    /// Two values with the same chain and stored hash, as an attacker who chooses values could
    /// construct them.
    #[test]
    fn values_with_one_hash_are_told_apart() {
        let name = Name::known(KnownHeader::Etag, Indexing::AtOnce);
        let value = |number: u32| number.to_string().into_bytes();
        let mut seen = HashMap::new();
        let (first, second) = (0..)
            .find_map(|number| {
                let hashed = hash(name.seed, &value(number));
                let key = (hashed as u32, name.bucket(hashed));
                Some((seen.insert(key, number)?, number))
            })
            .expect("there are more numbers than hashes");
        let mut table = SearchTable::new();
        for number in [first, second] {
            let Found::Worthy { hashed, .. } = table.find(&name, &value(number)) else {
                panic!("{number} is not in the table");
            };
            table.insert(&name, &value(number), hashed);
        }
        for (number, expected) in [(second, 62), (first, 63), (second, 62)] {
            let found = table.find(&name, &value(number));
            assert!(matches!(found, Found::Field { index } if index == expected));
        }
    }
}
