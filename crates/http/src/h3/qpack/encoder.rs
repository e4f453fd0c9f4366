//! Encodes field sections (RFC 9204 sections 2.1 and 4.5), and decides which fields are worth an
//! entry of the peer's table.

use smallvec::SmallVec;

use super::instructions::ToEncoder;
use super::integer::{self, Overflow};
use super::prefix::Prefix;
use super::static_table::{self, StaticMatch};
use super::string;
use crate::h2::hpack::Policy;
use crate::h2::hpack::dynamic_table::{DynamicTable, size_of_field};
use crate::h2::hpack::field_hash::hash;
use crate::h3::error::{Code, ConnectionError};
use crate::headers::KnownHeader;
use crate::message::FieldWriter;

/// The largest table that an encoder keeps: it is searched from end to end. A larger offer from the
/// peer brings nothing, as the repeated headers of one server fit into a part of it.
const MAX_TABLE_BYTES: u32 = 4096;

/// Sections that the peer has not acknowledged. With more of them, none refers to the table until
/// it has, so that a silent peer takes no memory.
const MAX_OUTSTANDING: usize = 256;

/// Bytes of instructions that have not been sent. With more of them, no entries are added.
const MAX_UNSENT_BYTES: usize = 8 * 1024;

/// Hashes of fields without an entry that are remembered, to see which of them come again.
const SEEN_FIELDS: usize = 32;

/// Encodes the field sections of one connection.
pub(crate) struct Encoder {
    /// The largest table that this side wants.
    own_limit: u32,
    /// Only if the peer has a table.
    state: Option<Box<PeerTable>>,
    /// The front of an instruction from the peer's decoder: a byte and nine more at most.
    partial: SmallVec<[u8; 16]>,
}

/// What is known of the peer's table.
struct PeerTable {
    /// The entries, with the hashes of their fields.
    table: DynamicTable<u32>,
    /// Entries so far.
    inserted: u64,
    /// Entries that the peer has for certain (the Known Received Count).
    received: u64,
    /// SETTINGS_QPACK_BLOCKED_STREAMS of the peer.
    max_blocked: u64,
    /// How many entries the peer's table can have (section 4.5.1.1).
    max_entries: u64,
    outstanding: Vec<Outstanding>,
    seen: [u16; SEEN_FIELDS],
    /// Instructions for the peer's decoder.
    out: Vec<u8>,
}

/// A section that refers to the table and that the peer has not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    stream: u64,
    /// The highest and the lowest entry that it refers to; above the highest by one.
    required: u64,
    lowest: u64,
}

impl Encoder {
    /// An encoder that uses at most `own_limit` bytes of table out of what the peer allows, which
    /// is none until [`peer_allows`](Self::peer_allows); allocates nothing.
    pub(crate) fn new(own_limit: u32) -> Encoder {
        Encoder {
            own_limit: own_limit.min(MAX_TABLE_BYTES),
            state: None,
            partial: SmallVec::new(),
        }
    }

    /// The peer's SETTINGS_QPACK_MAX_TABLE_CAPACITY and SETTINGS_QPACK_BLOCKED_STREAMS, once.
    pub(crate) fn peer_allows(&mut self, max_capacity: u64, max_blocked: u64) {
        let max_capacity = u32::try_from(max_capacity).unwrap_or(u32::MAX);
        let capacity = max_capacity.min(self.own_limit);
        let max_entries = super::max_entries(max_capacity);
        if super::max_entries(capacity) == 0 || self.state.is_some() {
            return;
        }
        let mut out = vec![super::ENCODER_STREAM as u8];
        integer::encode(&mut out, 0x20, 5, u64::from(capacity));
        self.state = Some(Box::new(PeerTable {
            table: DynamicTable::new(capacity),
            inserted: 0,
            received: 0,
            max_blocked,
            max_entries,
            outstanding: Vec::new(),
            seen: [0; SEEN_FIELDS],
            out,
        }));
    }

    /// Heap memory in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.state.as_ref().map_or(0, |state| {
            size_of::<PeerTable>()
                + state.table.heap_bytes()
                + state.outstanding.capacity() * size_of::<Outstanding>()
                + state.out.capacity()
        })
    }

    /// What is to be sent on the encoder's stream.
    pub(crate) fn outgoing(&self) -> &[u8] {
        self.state.as_ref().map_or(&[], |state| &state.out)
    }

    /// The first bytes of that have been sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        if let Some(state) = &mut self.state {
            super::drop_front(&mut state.out, bytes);
        }
    }

    /// Takes bytes of the peer's decoder stream.
    pub(crate) fn decoder_stream(&mut self, input: &[u8]) -> Result<(), ConnectionError> {
        if self.partial.is_empty() {
            let rest = self.instructions(input)?;
            self.partial = SmallVec::from_slice(rest);
            return Ok(());
        }
        let mut joined = std::mem::take(&mut self.partial);
        joined.extend_from_slice(input);
        let rest = self.instructions(&joined)?;
        self.partial = SmallVec::from_slice(rest);
        Ok(())
    }

    /// Executes all instructions that are complete, and returns the rest.
    fn instructions<'i>(&mut self, mut input: &'i [u8]) -> Result<&'i [u8], ConnectionError> {
        loop {
            let taken = ToEncoder::take(&mut input).map_err(|Overflow| {
                decoder_error("QPACK acknowledgement with too large an integer")
            })?;
            match (taken, &mut self.state) {
                (None, _) => return Ok(input),
                (Some(instruction), Some(state)) => state.execute(instruction)?,
                // Section 2.2.2.2: a stream is cancelled whether or not it refers to a table.
                (Some(ToEncoder::Cancelled(_)), None) => {}
                (Some(_), None) => return Err(decoder_error("QPACK acknowledgement of nothing")),
            }
        }
    }

    /// Begins the field section that is next on `stream`, at the end of `out`. It must be finished
    /// and sent.
    pub(crate) fn section<'a>(
        &'a mut self,
        stream: u64,
        out: &'a mut Vec<u8>,
    ) -> SectionEncoder<'a> {
        let start = out.len();
        out.extend_from_slice(&[0; PREFIX_BYTES]);
        let state = self.state.as_deref_mut();
        let base = state.as_ref().map_or(0, |state| state.inserted);
        SectionEncoder {
            stream,
            start,
            base,
            required: 0,
            lowest: u64::MAX,
            usable: None,
            state,
            out,
        }
    }
}

/// Bytes of most prefixes.
const PREFIX_BYTES: usize = 2;

impl PeerTable {
    fn execute(&mut self, instruction: ToEncoder) -> Result<(), ConnectionError> {
        match instruction {
            ToEncoder::Acknowledged(stream) => {
                let of_stream = |section: &Outstanding| section.stream == stream;
                let at = self.outstanding.iter().position(of_stream);
                let at = at.ok_or(decoder_error("QPACK acknowledgement of nothing"))?;
                let section = self.outstanding.remove(at);
                self.received = self.received.max(section.required);
            }
            ToEncoder::Cancelled(stream) => {
                self.outstanding.retain(|section| section.stream != stream);
            }
            // Section 4.4.3.
            ToEncoder::Increment(count) => {
                let received = self.received.checked_add(count);
                let received = received.filter(|&received| count > 0 && received <= self.inserted);
                let wrong = decoder_error("QPACK Insert Count Increment is wrong");
                self.received = received.ok_or(wrong)?;
            }
        }
        Ok(())
    }

    /// The absolute index of the oldest entry.
    fn oldest(&self) -> u64 {
        self.inserted - self.table.len() as u64
    }

    /// The newest entry below `usable` with this field, otherwise one with its name.
    fn find(&self, name: &[u8], value: &[u8], hashed: u32, usable: u64) -> Found {
        let mut named = None;
        let unusable = self.inserted.saturating_sub(usable) as u32;
        for age in unusable..self.table.len() as u32 {
            let Some((entry, line)) = self.table.get(age) else {
                break;
            };
            let absolute = self.inserted - 1 - u64::from(age);
            if entry.note == hashed && entry.name(line) == name && entry.value(line) == value {
                return Found::Field(absolute);
            }
            if named.is_none()
                && entry.name_bytes as usize == name.len()
                && entry.name(line) == name
            {
                named = Some(absolute);
            }
        }
        Found::Name(named)
    }

    /// Whether a field with this hash was seen recently; remembers it for the next time.
    fn is_second_time(&mut self, hashed: u64) -> bool {
        let mark = (hashed >> 48) as u16;
        let seen = &mut self.seen[(hashed >> 40) as usize % SEEN_FIELDS];
        let is_second = *seen == mark;
        *seen = mark;
        is_second
    }

    /// Whether a field of this size can be added: what it pushes out must have been received, and
    /// nothing that is not acknowledged may refer to it (section 2.1.1). `lowest` is what the
    /// section being encoded refers to.
    fn has_room(&self, size: u64, lowest: u64) -> bool {
        // One field must not push out most of the others.
        let is_large = size * 2 > u64::from(self.table.max_size());
        let is_stuck =
            self.out.len() > MAX_UNSENT_BYTES || self.outstanding.len() >= MAX_OUTSTANDING;
        if is_large || is_stuck {
            return false;
        }
        let Some(evicted) = self.table.evicted_by(size) else {
            return false;
        };
        if evicted == 0 {
            return true;
        }
        let end = self.oldest() + evicted as u64;
        let is_needed = |section: &Outstanding| section.lowest < end;
        end <= self.received && end <= lowest && !self.outstanding.iter().any(is_needed)
    }

    /// Adds a field that there is [room](Self::has_room) for.
    fn insert(&mut self, name: &Name<'_>, named: Option<u64>, value: &[u8], hashed: u32) {
        match (name.matched, named) {
            (Some(matched), _) => {
                integer::encode(&mut self.out, 0xc0, 6, u64::from(matched.name));
            }
            (None, Some(absolute)) => {
                integer::encode(&mut self.out, 0x80, 6, self.inserted - 1 - absolute);
            }
            (None, None) => string::push(&mut self.out, 0x40, 5, name.text),
        }
        string::push(&mut self.out, 0, 7, value);
        let inserted = self.table.insert(name.text, value, hashed);
        debug_assert!(inserted, "there is room");
        self.inserted += 1;
    }

    /// Below which absolute index a section of `stream` may refer to entries: it may make one more
    /// stream wait only if the peer allows that (section 2.1.2).
    fn usable(&self, stream: u64) -> u64 {
        if self.outstanding.len() >= MAX_OUTSTANDING {
            return 0;
        }
        // Nearly always there are so few that none needs to be counted.
        if (self.outstanding.len() as u64) < self.max_blocked {
            return u64::MAX;
        }
        let mut waiting: SmallVec<[u64; 32]> = SmallVec::new();
        for section in &self.outstanding {
            let is_new = !waiting.contains(&section.stream);
            if section.required > self.received && section.stream != stream && is_new {
                waiting.push(section.stream);
            }
        }
        match (waiting.len() as u64) < self.max_blocked {
            true => u64::MAX,
            false => self.received,
        }
    }
}

/// Where a field is in the dynamic table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Field(u64),
    Name(Option<u64>),
}

/// A name to be encoded.
struct Name<'a> {
    /// In lower case.
    text: &'a [u8],
    matched: Option<StaticMatch>,
    policy: Policy,
}

/// A field section being encoded.
pub(crate) struct SectionEncoder<'a> {
    stream: u64,
    /// Where in `out` it begins.
    start: usize,
    base: u64,
    required: u64,
    lowest: u64,
    /// See [`PeerTable::usable`]; unknown until it is needed.
    usable: Option<u64>,
    state: Option<&'a mut PeerTable>,
    out: &'a mut Vec<u8>,
}

impl FieldWriter for SectionEncoder<'_> {
    fn known(&mut self, name: KnownHeader, value: &[u8]) {
        self.add(
            &Name {
                text: name.lower_name(),
                matched: static_table::find_known(name, value),
                policy: policy(name),
            },
            value,
        );
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        if let Some(known) = KnownHeader::from_name(name) {
            return self.known(known, value);
        }
        // Longer names are rare enough to be copied to the heap.
        let mut lower = SmallVec::<[u8; 64]>::from_slice(name);
        lower.make_ascii_lowercase();
        self.add(
            &Name {
                text: &lower,
                matched: static_table::find(&lower, value),
                policy: Policy::SecondTime,
            },
            value,
        );
    }
}

/// Which fields get an entry. Unlike in HPACK, an entry costs an instruction on another stream, so
/// that what changes every second is only added when it comes again, and what is different for
/// every resource is not added at all.
const fn policy(name: KnownHeader) -> Policy {
    use KnownHeader as Known;
    match name {
        Known::Date => Policy::SecondTime,
        Known::Etag
        | Known::LastModified
        | Known::ContentLength
        | Known::ContentRange
        | Known::Age
        | Known::WwwAuthenticate
        | Known::Location => Policy::Never,
        _ => Policy::of(name),
    }
}

/// Whether a field must not get an entry on any other hop either (section 7.1).
const fn is_secret(name: &[u8]) -> bool {
    matches!(
        name,
        b"set-cookie" | b"cookie" | b"authorization" | b"proxy-authorization"
    )
}

impl SectionEncoder<'_> {
    /// Adds `:status`, three digits.
    pub(crate) fn status(&mut self, code: u16) {
        if code == 200 {
            return self.out.push(0xc0 | 25);
        }
        let digit = |power: u16| b'0' + (code / power % 10) as u8;
        self.field(b":status", &[digit(100), digit(10), digit(1)]);
    }

    fn add(&mut self, name: &Name<'_>, value: &[u8]) {
        if name.policy == Policy::Never {
            let secret = is_secret(name.text);
            if let Some(StaticMatch {
                field: Some(index), ..
            }) = name.matched
                && !secret
            {
                return integer::encode(self.out, 0xc0, 6, u64::from(index));
            }
            return self.literal(name, None, value, secret);
        }
        if let Some(StaticMatch {
            field: Some(index), ..
        }) = name.matched
        {
            return integer::encode(self.out, 0xc0, 6, u64::from(index));
        }
        match self.entry_of(name, value) {
            Found::Field(absolute) => {
                self.refer_to(absolute);
                match self.base.checked_sub(absolute + 1) {
                    Some(index) => integer::encode(self.out, 0x80, 6, index),
                    None => integer::encode(self.out, 0x10, 4, absolute - self.base),
                }
            }
            Found::Name(named) => self.literal(name, named, value, false),
        }
    }

    /// The entry to refer to, which may be a new one.
    fn entry_of(&mut self, name: &Name<'_>, value: &[u8]) -> Found {
        let Some(state) = self.state.as_deref_mut() else {
            return Found::Name(None);
        };
        let usable = *self.usable.get_or_insert_with(|| state.usable(self.stream));
        let wide = hash(hash(0, name.text), value);
        let hashed = wide as u32;
        // An entry that must not be referred to yet is not added again.
        let found = state.find(name.text, value, hashed, u64::MAX);
        let named = match found {
            Found::Field(absolute) if absolute < usable => return found,
            Found::Field(absolute) => return Found::Name((absolute < usable).then_some(absolute)),
            Found::Name(named) => named,
        };
        let is_worthy = state.is_second_time(wide) || name.policy == Policy::AtOnce;
        let size = size_of_field(name.text.len(), value.len());
        if is_worthy && state.has_room(size, self.lowest) {
            state.insert(name, named, value, hashed);
            if state.inserted <= usable {
                return Found::Field(state.inserted - 1);
            }
        }
        // What was found may have been pushed out.
        let oldest = state.oldest();
        Found::Name(named.filter(|&named| named < usable && named >= oldest))
    }

    fn refer_to(&mut self, absolute: u64) {
        self.required = self.required.max(absolute + 1);
        self.lowest = self.lowest.min(absolute);
    }

    /// A literal field, with a reference to its name if there is one (sections 4.5.4 to 4.5.6).
    fn literal(&mut self, name: &Name<'_>, named: Option<u64>, value: &[u8], secret: bool) {
        match (name.matched, named) {
            (Some(matched), _) => {
                let flags = 0x50 | u8::from(secret) << 5;
                integer::encode(self.out, flags, 4, u64::from(matched.name));
            }
            (None, Some(absolute)) => {
                self.refer_to(absolute);
                match self.base.checked_sub(absolute + 1) {
                    Some(index) => {
                        integer::encode(self.out, 0x40 | u8::from(secret) << 5, 4, index);
                    }
                    None => {
                        let index = absolute - self.base;
                        integer::encode(self.out, u8::from(secret) << 3, 3, index);
                    }
                }
            }
            (None, None) => {
                string::push(self.out, 0x20 | u8::from(secret) << 4, 3, name.text);
            }
        }
        string::push(self.out, 0, 7, value);
    }

    /// Ends the section, by writing its prefix.
    pub(crate) fn finish(self) {
        let Some(state) = self.state.filter(|_| self.required > 0) else {
            // The room for it is two zeros.
            return;
        };
        state.outstanding.push(Outstanding {
            stream: self.stream,
            required: self.required,
            lowest: self.lowest,
        });
        let prefix = Prefix {
            required: self.required,
            base: self.base,
        };
        let end = self.out.len();
        prefix.push(state.max_entries, self.out);
        let bytes = self.out.len() - end;
        if bytes == PREFIX_BYTES {
            self.out.copy_within(end.., self.start);
            self.out.truncate(end);
        } else {
            self.out[self.start..].rotate_right(bytes);
            let room = self.start + bytes;
            self.out.drain(room..room + PREFIX_BYTES);
        }
    }
}

const fn decoder_error(reason: &'static str) -> ConnectionError {
    ConnectionError::new(Code::QPACK_DECODER_STREAM_ERROR, reason)
}
