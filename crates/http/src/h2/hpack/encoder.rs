//! Header blocks out (RFC 7541 section 6), and which fields are worth an entry of the table.

use super::dynamic_table::{DynamicTable, size_of_field};
use super::field_hash::hash;
use super::{DEFAULT_TABLE_BYTES, STATIC_ENTRIES, huffman, integer, static_table};
use crate::headers::KnownHeader;

/// The largest table an encoder keeps: lengths and ages in it are 16 bits. A peer that offers more gains nothing,
/// as what repeats in the headers of one server fits into a quarter of it.
const MAX_ENCODER_TABLE_BYTES: u32 = 16 * 1024;

/// What the caller says about a field's place in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Indexing {
    /// The encoder decides: cookies and credentials are never indexed, what most responses of a server repeat is at
    /// once, and any other field when it comes for the second time.
    #[default]
    Auto,
    /// When it first comes: the caller knows that this connection will see it again.
    AtOnce,
    /// Never, on this hop or any other (RFC 7541 section 7.1.3): secrets, and fields that came like that.
    Never,
}

/// Encodes the header blocks of one connection.
pub struct Encoder {
    table: DynamicTable<Link>,
    finder: Option<Box<Finder>>,
    /// The largest table this end wants.
    own_limit: u32,
    /// The smallest table size that was due since the last block, if the size changed at all; the table has not
    /// been told.
    smallest_due: Option<u32>,
    /// The size the table is to have.
    size_due: u32,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder::new(DEFAULT_TABLE_BYTES)
    }
}

impl Encoder {
    /// An encoder that uses at most `own_limit` bytes of table (counted as RFC 7541 section 4.1 does) of what the
    /// peer allows, which is 4096 until it says otherwise; allocates nothing.
    pub fn new(own_limit: u32) -> Encoder {
        let own_limit = own_limit.min(MAX_ENCODER_TABLE_BYTES);
        let mut encoder = Encoder {
            table: DynamicTable::new(DEFAULT_TABLE_BYTES),
            finder: None,
            own_limit,
            smallest_due: None,
            size_due: DEFAULT_TABLE_BYTES,
        };
        encoder.set_peer_limit(DEFAULT_TABLE_BYTES);
        encoder
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE. The next block tells it the size chosen, if that changed.
    pub fn set_peer_limit(&mut self, bytes: u32) {
        let size = bytes.min(self.own_limit);
        if size == self.size_due {
            return;
        }
        let smallest = self.smallest_due.unwrap_or(u32::MAX);
        self.smallest_due = Some(smallest.min(size));
        self.size_due = size;
    }

    /// Size of the table as RFC 7541 section 4.1 counts it.
    #[cfg(test)]
    pub(super) fn table_bytes(&self) -> u32 {
        self.table.size()
    }

    #[cfg(test)]
    pub(super) fn table_lines(&self) -> Vec<Vec<u8>> {
        self.table.lines()
    }

    /// Heap memory that the connection holds, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let finder = self.finder.as_ref().map_or(0, |_| size_of::<Finder>());
        self.table.heap_bytes() + finder
    }

    /// Begins a header block at the end of `out`. It must be sent, and in order with the others.
    pub fn block<'a>(&'a mut self, out: &'a mut Vec<u8>) -> BlockEncoder<'a> {
        if let Some(smallest) = self.smallest_due.take() {
            // Section 4.2: the smallest size in between, as it evicts, then the final one.
            if smallest < self.size_due && smallest < self.table.max_size() {
                self.table.set_max_size(smallest);
                integer::encode(out, 0x20, 5, smallest);
            }
            if self.size_due != self.table.max_size() {
                self.table.set_max_size(self.size_due);
                integer::encode(out, 0x20, 5, self.size_due);
            }
            if self.table.len() == 0 {
                self.finder = None;
            }
        }
        BlockEncoder { encoder: self, out }
    }
}

/// A header block under way.
pub struct BlockEncoder<'a> {
    encoder: &'a mut Encoder,
    out: &'a mut Vec<u8>,
}

impl BlockEncoder<'_> {
    /// Adds `:status`, three digits.
    #[inline]
    pub fn status(&mut self, code: u16) {
        let index = match code {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => return self.other_status(code),
        };
        self.out.push(0x80 | index);
    }

    fn other_status(&mut self, code: u16) {
        let digit = |power: u16| b'0' + (code / power % 10) as u8;
        let value = [digit(100), digit(10), digit(1)];
        let name = Name {
            text: b":status",
            index: 8,
            seed: STATUS_SEED,
            policy: Policy::AtOnce,
        };
        self.add(&name, &value);
    }

    /// Adds a well-known field; cheaper than [`field`](Self::field).
    #[inline]
    pub fn known(&mut self, name: KnownHeader, value: &[u8], indexing: Indexing) {
        let known = &KNOWN_NAMES[name as usize];
        let name = Name {
            text: known.text(),
            index: known.index,
            seed: known.seed,
            policy: known.policy.or(indexing),
        };
        self.add(&name, value);
    }

    /// Adds a field; upper-case letters of the name, which HTTP/2 forbids, become lower case.
    pub fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing) {
        if let Some(known) = KnownHeader::from_name(name) {
            return self.known(known, value, indexing);
        }
        // Names longer than this are rare enough to be copied to the heap.
        let mut lower = smallvec::SmallVec::<[u8; 64]>::from_slice(name);
        lower.make_ascii_lowercase();
        let name = Name {
            text: &lower,
            index: static_table::name_index(&lower),
            seed: hash(OTHER_NAMES_SEED, &lower),
            policy: Policy::SecondTime.or(indexing),
        };
        self.add(&name, value);
    }

    fn add(&mut self, name: &Name<'_>, value: &[u8]) {
        if name.policy == Policy::Never {
            return self.literal(Literal::NEVER, name, u32::from(name.index), value);
        }
        if let Some(index) = static_table::index_with_value(name.index, value) {
            self.out.push(0x80 | index);
            return;
        }
        match self.encoder.find(name, value) {
            Found::Field { index } => integer::encode(self.out, 0x80, 7, index),
            Found::Name { index } => self.literal(Literal::WITHOUT, name, index, value),
            Found::Worthy { index, hashed } => {
                self.literal(Literal::INDEXING, name, index, value);
                self.encoder.insert(name, value, hashed);
            }
        }
    }

    /// Section 6.2; `index` 0 stands for a name as text.
    fn literal(&mut self, literal: Literal, name: &Name<'_>, index: u32, value: &[u8]) {
        integer::encode(self.out, literal.flags, literal.prefix_bits, index);
        if index == 0 {
            self.string(name.text);
        }
        self.string(value);
    }

    /// Section 5.2.
    fn string(&mut self, text: &[u8]) {
        let huffman_bytes = huffman::encoded_bytes(text);
        // A string of 4 GiB is no header; its length would not fit into a frame either.
        if huffman_bytes < text.len() {
            integer::encode(self.out, 0x80, 7, huffman_bytes as u32);
            huffman::encode(text, huffman_bytes, self.out);
        } else {
            integer::encode(self.out, 0, 7, text.len() as u32);
            self.out.extend_from_slice(text);
        }
    }
}

/// The first byte of a literal representation.
#[derive(Clone, Copy)]
struct Literal {
    flags: u8,
    prefix_bits: u32,
}

impl Literal {
    const INDEXING: Literal = Literal {
        flags: 0x40,
        prefix_bits: 6,
    };
    const WITHOUT: Literal = Literal {
        flags: 0,
        prefix_bits: 4,
    };
    const NEVER: Literal = Literal {
        flags: 0x10,
        prefix_bits: 4,
    };
}

/// A name on its way out.
struct Name<'a> {
    /// In lower case.
    text: &'a [u8],
    /// The first static entry with that name, or 0.
    index: u8,
    /// The same for every spelling of a name.
    seed: u64,
    policy: Policy,
}

/// When a field gets an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// What a server says in most of its responses, or for a second, as the date.
    AtOnce,
    /// What may differ in every response: only what has come before is likely to come again.
    SecondTime,
    /// What somebody might want to guess.
    Never,
}

impl Policy {
    fn or(self, indexing: Indexing) -> Policy {
        match indexing {
            Indexing::Auto => self,
            Indexing::AtOnce => Policy::AtOnce,
            Indexing::Never => Policy::Never,
        }
    }

    const fn of(name: KnownHeader) -> Policy {
        use KnownHeader as Known;
        match name {
            Known::SetCookie | Known::Cookie | Known::Authorization | Known::ProxyAuthorization => {
                Policy::Never
            }
            Known::Server
            | Known::Date
            | Known::ContentType
            | Known::ContentEncoding
            | Known::CacheControl
            | Known::AcceptRanges
            | Known::Vary
            | Known::AltSvc
            | Known::StrictTransportSecurity => Policy::AtOnce,
            _ => Policy::SecondTime,
        }
    }
}

/// Finds entries of the table. Chains need no mending when an entry is evicted: an age beyond the table ends them.
struct Finder {
    /// The newest entry of each chain, as the number of entries that came before it, modulo 2^16.
    newest: [u16; BUCKETS],
    /// What the last fields without an entry hashed to.
    seen: [u16; SEEN_FIELDS],
    /// Insertions so far, modulo 2^16.
    inserted: u16,
}

const BUCKETS: usize = 64;
const SEEN_FIELDS: usize = 32;

/// What the encoder keeps beside an entry.
#[derive(Clone, Copy)]
struct Link {
    /// The next older entry of the chain, counted as in [`Finder::newest`].
    older: u16,
    hash: u32,
}

/// What there is of a field already, and whether there should be more.
enum Found {
    /// All of it.
    Field { index: u32 },
    /// The name, or nothing if `index` is 0. It stays like that.
    Name { index: u32 },
    /// The same, but the field is worth an entry.
    Worthy { index: u32, hashed: u64 },
}

impl Encoder {
    fn find(&mut self, name: &Name<'_>, value: &[u8]) -> Found {
        let mut index = u32::from(name.index);
        let size = size_of_field(name.text.len(), value.len());
        // One field must not push out most of the others.
        if size * 2 > u64::from(self.table.max_size()) {
            return Found::Name { index };
        }
        let finder = self.finder.get_or_insert_default();
        let hashed = hash(name.seed, value);
        let mut next = finder.newest[name.bucket(hashed)];
        let mut younger = 0;
        // Ages grow along a chain; where one does not, or is beyond the table, what followed was evicted.
        while let Some(age) = finder.age(next).filter(|&age| age >= younger)
            && let Some((entry, line)) = self.table.get(age)
        {
            let is_same_name = || entry.name(line) == name.text;
            let entry_index = STATIC_ENTRIES + 1 + age;
            if entry.note.hash == hashed as u32 && entry.value(line) == value && is_same_name() {
                return Found::Field { index: entry_index };
            }
            if index == 0 && is_same_name() {
                index = entry_index;
            }
            younger = age + 1;
            next = entry.note.older;
        }
        let is_second = finder.is_second_time(hashed);
        // A name that comes again is worth an entry too, whatever its values.
        let is_second_name = index == 0 && finder.is_second_time(name.seed);
        match is_second || is_second_name || name.policy == Policy::AtOnce {
            true => Found::Worthy { index, hashed },
            false => Found::Name { index },
        }
    }

    fn insert(&mut self, name: &Name<'_>, value: &[u8], hashed: u64) {
        let finder = self.finder.get_or_insert_default();
        let bucket = &mut finder.newest[name.bucket(hashed)];
        let link = Link {
            older: *bucket,
            hash: hashed as u32,
        };
        if self.table.insert(name.text, value, link) {
            *bucket = finder.inserted;
            finder.inserted = finder.inserted.wrapping_add(1);
        }
    }
}

impl Default for Finder {
    fn default() -> Finder {
        Finder {
            newest: [0; BUCKETS],
            seen: [0; SEEN_FIELDS],
            inserted: 0,
        }
    }
}

impl Finder {
    /// The age of the entry that came after `inserted` others, the newest being 0.
    fn age(&self, inserted: u16) -> Option<u32> {
        u32::from(self.inserted.wrapping_sub(inserted)).checked_sub(1)
    }

    /// Whether a field that hashed to this was here lately; the next time it was.
    fn is_second_time(&mut self, hashed: u64) -> bool {
        let mark = (hashed >> 48) as u16;
        let seen = &mut self.seen[(hashed >> 40) as usize % SEEN_FIELDS];
        let is_second = *seen == mark;
        *seen = mark;
        is_second
    }
}

impl Name<'_> {
    /// Where the chain begins. Names without a static entry have one for all their values, so that the name can be
    /// found when the value cannot.
    fn bucket(&self, hashed: u64) -> usize {
        let hashed = if self.index == 0 { self.seed } else { hashed };
        (hashed >> 32) as usize % BUCKETS
    }
}

const STATUS_SEED: u64 = 1 << 32;
const OTHER_NAMES_SEED: u64 = 2 << 32;

/// What is known of a well-known name.
#[derive(Clone, Copy)]
struct KnownName {
    lower: [u8; MAX_KNOWN_NAME_BYTES],
    bytes: u8,
    index: u8,
    policy: Policy,
    seed: u64,
}

const MAX_KNOWN_NAME_BYTES: usize = 32;

impl KnownName {
    fn text(&self) -> &[u8] {
        &self.lower[..usize::from(self.bytes)]
    }
}

static KNOWN_NAMES: [KnownName; KnownHeader::ALL.len()] = {
    let none = KnownName {
        lower: [0; MAX_KNOWN_NAME_BYTES],
        bytes: 0,
        index: 0,
        policy: Policy::Never,
        seed: 0,
    };
    let mut names = [none; KnownHeader::ALL.len()];
    let mut known = 0;
    while known < names.len() {
        let header = KnownHeader::ALL[known];
        let text = header.name().as_bytes();
        let entry = &mut names[known];
        let mut at = 0;
        while at < text.len() {
            entry.lower[at] = text[at].to_ascii_lowercase();
            at += 1;
        }
        entry.bytes = text.len() as u8;
        entry.index = static_table::known_name_index(header);
        entry.policy = Policy::of(header);
        // Any odd number spreads them; the hash does the rest.
        entry.seed = (known as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        known += 1;
    }
    names
};
