//! Names to be encoded: what is known of them at compile time.

use super::Indexing;
use crate::h2::hpack::field_hash::hash;
use crate::h2::hpack::static_table;
use crate::headers::KnownHeader;

/// A name to be encoded.
pub(super) struct Name<'a> {
    /// In lower case.
    pub(super) text: &'a [u8],
    /// The first static entry with that name, or 0.
    pub(super) index: u8,
    /// Unique to a well-known name or `:status`; 0 for all others.
    pub(super) number: u16,
    /// The same for every spelling of a name.
    pub(super) seed: u64,
    pub(super) policy: Policy,
}

/// When a field gets a table entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Fields that a server repeats in most of its responses, or for a second, like the date.
    AtOnce,
    /// Fields that may differ in every response: only one that was seen before is likely to come
    /// again.
    SecondTime,
    /// Fields that an attacker might want to guess.
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

    pub(crate) const fn of(name: KnownHeader) -> Policy {
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

impl<'a> Name<'a> {
    /// `:status`.
    pub(super) const STATUS: Name<'static> = Name {
        text: b":status",
        index: 8,
        number: u16::MAX,
        // Unlike that of any other name; every number would do.
        seed: 1 << 32,
        policy: Policy::AtOnce,
    };

    /// A well-known name.
    #[inline]
    pub(super) fn known(name: KnownHeader, indexing: Indexing) -> Name<'static> {
        let known = &KNOWN_NAMES[name as usize];
        Name {
            text: &known.lower[..usize::from(known.bytes)],
            index: known.index,
            number: name as u16 + 1,
            seed: known.seed,
            policy: known.policy.or(indexing),
        }
    }

    /// Any other name, in lower case.
    pub(super) fn other(text: &'a [u8], indexing: Indexing) -> Name<'a> {
        Name {
            text,
            index: static_table::name_index(text),
            number: 0,
            seed: hash(2 << 32, text),
            policy: Policy::SecondTime.or(indexing),
        }
    }
}

/// Compile-time data of a well-known name.
#[derive(Clone, Copy)]
struct KnownName {
    lower: [u8; MAX_KNOWN_NAME_BYTES],
    bytes: u8,
    index: u8,
    policy: Policy,
    seed: u64,
}

const MAX_KNOWN_NAME_BYTES: usize = 32;

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
