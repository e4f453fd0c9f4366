//! OpenSSL's cipher-string language.
//!
//! A string is a list of items that change an ordered list of suites, some of them active. `NAME`
//! activates and appends, `-NAME` deactivates (and moves to the front for a later activation),
//! `!NAME` removes for good, `+NAME` moves the active ones to the end, `A+B` selects what is in
//! both, `@STRENGTH` sorts, and `@SECLEVEL=n` sets the security level. Unknown names select
//! nothing. The list starts sorted by preference with nothing active.
//!
//! Reference: `man openssl-ciphers` and the observable behaviour of OpenSSL 3. `tests.rs` compares
//! every alias, and strings from the wild, with it.

use super::aliases::{ALIASES, ANY, Selector};
use super::suite::{MinVersion, Suite, auth::*, encryption::*, exchange::*, mac::*, strength};
use super::table::SUITES;

/// The starting point of a string that begins with DEFAULT.
const DEFAULT_LIST: &str = "ALL:!COMPLEMENTOFDEFAULT:!eNULL";

/// A string with one of these prefixes selects these suites, whatever follows (RFC 6460). The
/// curves that Suite B requires are left to `ssl_ecdh_curve` and the certificate.
const SUITE_B: [(&str, &str); 4] = [
    ("SUITEB128ONLY", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("SUITEB128C2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (
        "SUITEB128",
        "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384",
    ),
    ("SUITEB192", "ECDHE-ECDSA-AES256-GCM-SHA384"),
];

/// A string that OpenSSL would refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidCommand;

/// The suites that `text` selects, in order, and the security level it sets.
pub(super) fn evaluate(text: &str) -> Result<(Vec<&'static Suite>, Option<u8>), InvalidCommand> {
    let mut list = List::sorted_by_preference();
    let mut level = None;
    let text = SUITE_B
        .iter()
        .find(|(name, _)| text.starts_with(name))
        .map_or(text, |(_, list)| list);
    let mut rest = text;
    // Matched only at the start of the whole string, but there also as the prefix of a longer word.
    if let Some(after) = text.strip_prefix("DEFAULT") {
        list.process(DEFAULT_LIST, &mut level)?;
        rest = after.strip_prefix(':').unwrap_or(after);
    }
    list.process(rest, &mut level)?;
    Ok((list.into_active(), level))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Add,
    Kill,
    Delete,
    Order,
    /// Moves the active ones to the front; used for the initial order only.
    Bump,
    Special,
}

#[derive(Clone, Copy)]
struct Entry {
    suite: &'static Suite,
    active: bool,
}

struct List(Vec<Entry>);

impl List {
    /// All suites in OpenSSL's order of preference, none active.
    fn sorted_by_preference() -> Self {
        let mut list = Self(
            SUITES
                .iter()
                .rev()
                .map(|suite| Entry {
                    suite,
                    active: false,
                })
                .collect(),
        );
        let select = |exchange, auth, encryption, mac| Selector {
            exchange,
            auth,
            encryption,
            mac,
            ..ANY
        };
        let add = [
            // ECDHE before the rest, ECDSA first: adding and then removing them leaves them at the
            // head.
            select(K_ECDHE, A_ECDSA, 0, 0),
            select(K_ECDHE, 0, 0, 0),
        ];
        add.iter()
            .for_each(|selector| list.apply(selector, Rule::Add));
        list.apply(&select(K_ECDHE, 0, 0, 0), Rule::Delete);
        // Within a strength, AES-GCM, then ChaCha20, then the rest of AES.
        list.apply(&select(0, 0, E_AESGCM, 0), Rule::Add);
        list.apply(&select(0, 0, E_CHACHA20, 0), Rule::Add);
        list.apply(&select(0, 0, E_AES & !E_AESGCM, 0), Rule::Add);
        list.apply(&ANY, Rule::Add);
        // Moved to the end: MD5, no authentication, no forward secrecy.
        list.apply(&select(0, 0, 0, M_MD5), Rule::Order);
        list.apply(&select(0, A_NULL, 0, 0), Rule::Order);
        list.apply(&select(K_RSA | K_PSK, 0, 0, 0), Rule::Order);
        list.apply(&select(K_PSK, 0, 0, 0), Rule::Order);
        list.sort_by_strength();
        // Ranked above strength: TLS 1.2, AEAD, ephemeral keys, and both.
        list.apply(
            &Selector {
                min_version: Some(MinVersion::Tls12),
                ..ANY
            },
            Rule::Bump,
        );
        list.apply(&select(0, 0, 0, M_AEAD), Rule::Bump);
        list.apply(&select(K_DHE | K_ECDHE, 0, 0, 0), Rule::Bump);
        list.apply(&select(K_DHE | K_ECDHE, 0, 0, M_AEAD), Rule::Bump);
        list.apply(&ANY, Rule::Delete);
        list
    }

    fn process(&mut self, text: &str, level: &mut Option<u8>) -> Result<(), InvalidCommand> {
        let mut scanner = Scanner {
            rest: text.as_bytes(),
        };
        let mut valid = true;
        while let Some(rule) = scanner.next_rule() {
            if rule == Rule::Special {
                valid &= self.special(scanner.word(), level);
                scanner.skip_item();
                continue;
            }
            match scanner.selector() {
                Term::Selects(selector) => self.apply(&selector, rule),
                Term::Nothing => scanner.skip_item(),
                Term::Invalid => {
                    valid = false;
                    scanner.skip_byte();
                    scanner.skip_item();
                }
            }
        }
        if valid { Ok(()) } else { Err(InvalidCommand) }
    }

    fn special(&mut self, command: &[u8], level: &mut Option<u8>) -> bool {
        if command == b"STRENGTH" {
            self.sort_by_strength();
            return true;
        }
        match command.strip_prefix(b"SECLEVEL=") {
            Some(&[digit @ b'0'..=b'5']) => {
                *level = Some(digit - b'0');
                true
            }
            _ => false,
        }
    }

    fn apply(&mut self, selector: &Selector, rule: Rule) {
        self.apply_where(|suite| selector.matches(suite), rule);
    }

    fn apply_where(&mut self, matches: impl Fn(&Suite) -> bool, rule: Rule) {
        let affected = |entry: &Entry| {
            matches(entry.suite)
                && match rule {
                    Rule::Add => !entry.active,
                    Rule::Kill => true,
                    Rule::Delete | Rule::Order | Rule::Bump => entry.active,
                    Rule::Special => false,
                }
        };
        let (mut moved, mut others): (Vec<Entry>, Vec<Entry>) =
            self.0.iter().copied().partition(affected);
        for entry in &mut moved {
            entry.active = rule != Rule::Delete;
        }
        self.0 = match rule {
            Rule::Kill | Rule::Special => others,
            Rule::Add | Rule::Order => {
                others.append(&mut moved);
                others
            }
            Rule::Delete | Rule::Bump => {
                moved.append(&mut others);
                moved
            }
        };
    }

    /// Moves the active suites to the end, strongest first, keeping their order
    /// within one strength.
    fn sort_by_strength(&mut self) {
        for bits in [256, 128, 0] {
            self.apply_where(|suite| suite.strength_bits() == bits, Rule::Order);
        }
    }

    fn into_active(self) -> Vec<&'static Suite> {
        self.0
            .into_iter()
            .filter(|entry| entry.active)
            .map(|entry| entry.suite)
            .collect()
    }
}

impl Selector {
    fn matches(&self, suite: &Suite) -> bool {
        const CLASSES: u8 = strength::LOW | strength::MEDIUM | strength::HIGH | strength::FIPS;
        self.id.is_none_or(|id| id == suite.id)
            && (self.exchange == 0 || self.exchange & suite.exchange != 0)
            && (self.auth == 0 || self.auth & suite.auth != 0)
            && (self.encryption == 0 || self.encryption & suite.encryption != 0)
            && (self.mac == 0 || self.mac & suite.mac != 0)
            && self
                .min_version
                .is_none_or(|version| version == suite.min_version)
            && (self.strength == 0 || self.strength & suite.strength & CLASSES != 0)
            && (!self.not_default || suite.strength & strength::NOT_DEFAULT != 0)
    }

    /// Narrows `self` by another word of the same term; `false` if nothing can match both.
    fn narrow(&mut self, other: &Self) -> bool {
        // A zero mask does not restrict; two masks must overlap.
        fn mask<T: Copy + PartialEq + Default + std::ops::BitAnd<Output = T>>(
            ours: &mut T,
            theirs: T,
        ) -> bool {
            if theirs == T::default() {
                return true;
            }
            *ours = if *ours == T::default() {
                theirs
            } else {
                *ours & theirs
            };
            *ours != T::default()
        }
        if !mask(&mut self.exchange, other.exchange)
            || !mask(&mut self.auth, other.auth)
            || !mask(&mut self.encryption, other.encryption)
            || !mask(&mut self.mac, other.mac)
            || !mask(&mut self.strength, other.strength)
        {
            return false;
        }
        self.not_default |= other.not_default;
        if other.id.is_some() {
            // An exact name replaces an earlier one and does not restrict the version.
            self.id = other.id;
            return true;
        }
        match (self.min_version, other.min_version) {
            (Some(ours), Some(theirs)) => ours == theirs,
            (None, Some(theirs)) => {
                self.min_version = Some(theirs);
                true
            }
            (_, None) => true,
        }
    }
}

/// What a term of one or more words selects.
enum Term {
    Selects(Selector),
    /// An unknown word, or words that exclude each other.
    Nothing,
    /// A byte that cannot begin a word.
    Invalid,
}

struct Scanner<'a> {
    rest: &'a [u8],
}

impl<'a> Scanner<'a> {
    /// The operator of the next item, separators skipped; `None` at the end.
    fn next_rule(&mut self) -> Option<Rule> {
        loop {
            let (rule, length) = match *self.rest.first()? {
                b'-' => (Rule::Delete, 1),
                b'+' => (Rule::Order, 1),
                b'!' => (Rule::Kill, 1),
                b'@' => (Rule::Special, 1),
                byte if is_separator(byte) => {
                    self.skip_byte();
                    continue;
                }
                _ => (Rule::Add, 0),
            };
            self.rest = &self.rest[length..];
            return Some(rule);
        }
    }

    /// Reads `A` or `A+B+...`. Reading stops at the first word that is unknown or leaves nothing to
    /// select.
    fn selector(&mut self) -> Term {
        let mut selector = ANY;
        loop {
            let word = self.word();
            if word.is_empty() {
                return Term::Invalid;
            }
            let more = self.rest.first() == Some(&b'+');
            if more {
                self.skip_byte();
            }
            match lookup(word) {
                Some(other) if selector.narrow(&other) => {}
                _ => return Term::Nothing,
            }
            if !more {
                return Term::Selects(selector);
            }
        }
    }

    fn word(&mut self) -> &'a [u8] {
        let is_word =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'=' | b'_');
        let length = self.rest.iter().take_while(|byte| is_word(byte)).count();
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        word
    }

    fn skip_byte(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or(&[]);
    }

    fn skip_item(&mut self) {
        let length = self
            .rest
            .iter()
            .take_while(|byte| !is_separator(**byte))
            .count();
        self.rest = &self.rest[length..];
    }
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b':' | b' ' | b';' | b',')
}

fn lookup(word: &[u8]) -> Option<Selector> {
    if let Some((_, selector)) = ALIASES.iter().find(|(name, _)| name.as_bytes() == word) {
        return Some(*selector);
    }
    let suite = SUITES
        .iter()
        .find(|suite| suite.name.as_bytes() == word || suite.standard_name.as_bytes() == word)?;
    Some(Selector {
        id: Some(suite.id),
        exchange: suite.exchange,
        auth: suite.auth,
        encryption: suite.encryption,
        mac: suite.mac,
        strength: suite.strength & !strength::NOT_DEFAULT,
        ..ANY
    })
}
