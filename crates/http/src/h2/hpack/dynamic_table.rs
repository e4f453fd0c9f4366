//! The dynamic table of one direction (RFC 7541 sections 2.3.2 and 4).

use std::collections::VecDeque;

use super::{ENTRY_OVERHEAD_BYTES, MAX_TABLE_BYTES};
use crate::message::{LINE_END, SEPARATOR};

/// Entries as lines `name: value\r\n`, consecutive in one buffer, so that each is one slice to
/// copy.
///
/// Evicted lines stay at the buffer's front until room is needed; then the live lines move down.
/// The buffer is at most twice as large as its live lines, so a line moves once for every time it
/// is written. `N` is what the table's owner keeps with each entry.
#[derive(Clone)]
pub(crate) struct DynamicTable<N> {
    lines: Vec<u8>,
    /// Position of the first byte of `lines` among all bytes ever appended, modulo 2^32.
    base: u32,
    /// Newest entry first, in the order of indexes.
    entries: VecDeque<Entry<N>>,
    /// Sum of the entries' sizes as RFC 7541 section 4.1 counts them.
    size: u32,
    max_size: u32,
}

#[derive(Clone, Copy)]
pub(crate) struct Entry<N> {
    /// Position of the line, counted as `base` is.
    start: u32,
    pub(crate) name_bytes: u32,
    pub(crate) value_bytes: u32,
    pub(crate) note: N,
}

/// Of `: ` and the line end.
const PUNCTUATION_BYTES: u32 = 4;

/// Below this the buffer is not worth shrinking.
const SMALL_BYTES: usize = 256;

/// The table space that a field takes (RFC 7541 section 4.1).
pub(crate) const fn size_of_field(name_bytes: usize, value_bytes: usize) -> u64 {
    name_bytes as u64 + value_bytes as u64 + ENTRY_OVERHEAD_BYTES as u64
}

impl<N: Copy> DynamicTable<N> {
    /// An empty table; allocates nothing.
    pub(crate) fn new(max_size: u32) -> DynamicTable<N> {
        DynamicTable {
            lines: Vec::new(),
            base: 0,
            entries: VecDeque::new(),
            size: 0,
            max_size: max_size.min(MAX_TABLE_BYTES),
        }
    }

    pub(crate) fn max_size(&self) -> u32 {
        self.max_size
    }

    #[cfg(test)]
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All lines, the newest first.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> Vec<Vec<u8>> {
        let line = |age| Some(self.get(age)?.1.to_vec());
        (0..).map_while(line).collect()
    }

    /// Heap memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.lines.capacity() + self.entries.capacity() * size_of::<Entry<N>>()
    }

    /// The entry of this age, with 0 for the newest, and its line.
    #[inline]
    pub(crate) fn get(&self, age: u32) -> Option<(&Entry<N>, &[u8])> {
        let entry = self.entries.get(age as usize)?;
        let start = entry.start.wrapping_sub(self.base) as usize;
        let line = self.lines.get(start..start + entry.line_bytes())?;
        Some((entry, line))
    }

    /// Sets what is kept beside the newest entry.
    pub(crate) fn set_newest_note(&mut self, note: N) {
        if let Some(newest) = self.entries.front_mut() {
            newest.note = note;
        }
    }

    /// Sets what is kept beside the entry of this age.
    pub(crate) fn set_note(&mut self, age: u32, note: N) {
        if let Some(entry) = self.entries.get_mut(age as usize) {
            entry.note = note;
        }
    }

    /// How many entries must go before a field of this size fits; `None` if it never does.
    pub(crate) fn evicted_by(&self, size: u64) -> Option<usize> {
        let free = u64::from(self.max_size).checked_sub(size)?;
        let mut rest = u64::from(self.size);
        let mut count = 0;
        for entry in self.entries.iter().rev() {
            if rest <= free {
                break;
            }
            rest -= u64::from(entry.size());
            count += 1;
        }
        Some(count)
    }

    /// Makes room and adds a field in front of the others. A field larger than the table empties it
    /// and is not added, which is not an error (RFC 7541 section 4.4); the result is then false.
    pub(crate) fn insert(&mut self, name: &[u8], value: &[u8], note: N) -> bool {
        let size = size_of_field(name.len(), value.len());
        if size > u64::from(self.max_size) {
            self.evict_to(0);
            return false;
        }
        // Not larger than `max_size`, which is a u32.
        let size = size as u32;
        self.evict_to(self.max_size - size);
        let line_bytes = name.len() + value.len() + PUNCTUATION_BYTES as usize;
        self.make_room(line_bytes);
        let start = self.base.wrapping_add(self.lines.len() as u32);
        self.lines.extend_from_slice(name);
        self.lines.extend_from_slice(SEPARATOR);
        self.lines.extend_from_slice(value);
        self.lines.extend_from_slice(LINE_END);
        self.size += size;
        self.entries.push_front(Entry {
            start,
            name_bytes: name.len() as u32,
            value_bytes: value.len() as u32,
            note,
        });
        true
    }

    /// Changes the maximum size (RFC 7541 section 4.3). Memory beyond the new size is freed.
    pub(crate) fn set_max_size(&mut self, max_size: u32) {
        self.max_size = max_size.min(MAX_TABLE_BYTES);
        self.evict_to(self.max_size);
        if self.entries.is_empty() {
            self.lines = Vec::new();
            self.entries = VecDeque::new();
        } else if self.lines.capacity() > self.max_size as usize * 2 + SMALL_BYTES {
            self.drop_dead_lines();
            self.lines.shrink_to(self.max_size as usize);
            self.entries.shrink_to_fit();
        }
    }

    /// Drops the oldest entries until the size of the rest is at most `size`.
    fn evict_to(&mut self, size: u32) {
        while self.size > size {
            let oldest = self.entries.pop_back().expect("a size is that of entries");
            self.size -= oldest.size();
        }
    }

    /// Bytes of `lines` before the oldest live entry.
    fn dead_bytes(&self) -> usize {
        match self.entries.back() {
            Some(oldest) => oldest.start.wrapping_sub(self.base) as usize,
            None => self.lines.len(),
        }
    }

    fn make_room(&mut self, line_bytes: usize) {
        if self.lines.capacity() - self.lines.len() >= line_bytes {
            return;
        }
        let live_bytes = self.lines.len() - self.dead_bytes();
        self.drop_dead_lines();
        // Moving live lines must pay off: for each byte moved, one can be written before the next
        // move.
        let wanted = live_bytes * 2 + line_bytes;
        if self.lines.capacity() < wanted {
            self.lines.reserve_exact(wanted - live_bytes);
        }
    }

    fn drop_dead_lines(&mut self) {
        let dead_bytes = self.dead_bytes();
        self.lines.drain(..dead_bytes);
        self.base = self.base.wrapping_add(dead_bytes as u32);
    }
}

impl<N> Entry<N> {
    fn size(&self) -> u32 {
        self.name_bytes + self.value_bytes + ENTRY_OVERHEAD_BYTES
    }

    fn line_bytes(&self) -> usize {
        (self.name_bytes + self.value_bytes + PUNCTUATION_BYTES) as usize
    }

    /// The name within the entry's line.
    pub(crate) fn name<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        &line[..self.name_bytes as usize]
    }

    /// The value within the entry's line.
    pub(crate) fn value<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        let start = self.name_bytes as usize + SEPARATOR.len();
        &line[start..start + self.value_bytes as usize]
    }
}
