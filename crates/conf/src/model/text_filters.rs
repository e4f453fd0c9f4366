//! `sub_filter`, additions, character sets and their settings.

use super::{EchoAround, MediaTypes, Template};
use crate::patterns::Patterns;
use std::sync::{Arc, OnceLock};

/// Filters of texts; each is there where it has something to do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TextFilters {
    /// `sub_filter`.
    pub sub: Option<Arc<SubFilter>>,
    /// `add_before_body` and `add_after_body`.
    pub addition: Option<Arc<Addition>>,
    /// `echo_before_body` and `echo_after_body`.
    pub echo: Option<Arc<EchoAround>>,
    /// `footer`.
    pub footer: Option<Arc<Footer>>,
    /// `trim`.
    pub trim: Option<Arc<Trim>>,
    /// `charset` and `source_charset`.
    pub charset: Option<Arc<Charset>>,
    /// `ssi`.
    pub ssi: Option<Arc<Ssi>>,
}

/// `sub_filter` lines and what belongs to them.
#[derive(Debug, Clone, PartialEq)]
pub struct SubFilter {
    /// What is replaced by what.
    pub replacements: Arc<Replacements>,
    /// `sub_filter_once`; default on.
    pub once: bool,
    /// `sub_filter_last_modified`; default off.
    pub last_modified: bool,
    /// `sub_filter_types`; default `text/html`.
    pub types: MediaTypes,
}

/// The `sub_filter` lines of a level.
#[derive(Debug, Default)]
pub struct Replacements {
    /// In their order.
    pub lines: Vec<Replacement>,
    patterns: OnceLock<Option<Arc<Patterns>>>,
}

/// One `sub_filter` line.
#[derive(Debug, Clone, PartialEq)]
pub struct Replacement {
    /// What is looked for.
    pub text: Template,
    /// What takes its place.
    pub by: Template,
}

impl Replacements {
    /// What is looked for, unless it contains variables.
    pub fn patterns(&self) -> Option<&Arc<Patterns>> {
        let compile = || {
            let texts = self.lines.iter().map(|line| line.text.as_literal());
            let texts: Option<Vec<Box<[u8]>>> = texts.map(|text| text.map(Into::into)).collect();
            Patterns::new(texts?).map(Arc::new)
        };
        self.patterns.get_or_init(compile).as_ref()
    }
}

impl Clone for Replacements {
    fn clone(&self) -> Replacements {
        Replacements {
            lines: self.lines.clone(),
            patterns: OnceLock::new(),
        }
    }
}

impl PartialEq for Replacements {
    fn eq(&self, other: &Replacements) -> bool {
        self.lines == other.lines
    }
}

/// URIs of the responses that are put around a body. They have no arguments: a question
/// mark is part of the path, as in nginx.
#[derive(Debug, Clone, PartialEq)]
pub struct Addition {
    /// `add_before_body`; empty: nothing.
    pub before: Arc<[u8]>,
    /// `add_after_body`; empty: nothing.
    pub after: Arc<[u8]>,
    /// `addition_types`; default `text/html`.
    pub types: MediaTypes,
}

/// Text behind a body.
#[derive(Debug, Clone, PartialEq)]
pub struct Footer {
    /// `footer`; never empty.
    pub text: Template,
    /// `footer_types`; default `text/html`.
    pub types: MediaTypes,
}

/// Pages without what nobody sees. Each switch is on if its value is `on`.
#[derive(Debug, Clone, PartialEq)]
pub struct Trim {
    /// `trim`.
    pub enabled: Template,
    /// `trim_js`; `None` is off.
    pub scripts: Option<Template>,
    /// `trim_css`; `None` is off.
    pub styles: Option<Template>,
    /// `trim_types`; default `text/html`.
    pub types: MediaTypes,
}

/// Server-side includes.
#[derive(Debug, Clone, PartialEq)]
pub struct Ssi {
    /// `ssi_last_modified`; default off.
    pub last_modified: bool,
    /// `ssi_silent_errors`; default off.
    pub silent_errors: bool,
    /// `ssi_value_length`; default 255.
    pub value_bytes: u64,
    /// `ssi_types`; default `text/html`.
    pub types: MediaTypes,
}

/// What character set texts are in, and are to be in.
#[derive(Debug, Clone, PartialEq)]
pub struct Charset {
    /// `charset`; `None`: off.
    pub named: Option<CharsetName>,
    /// `source_charset`; `None`: whatever it is, nothing is converted.
    pub source: Option<CharsetName>,
    /// `override_charset`: replaces the charset that an upstream server sent; default off.
    pub override_charset: bool,
    /// `charset_types`.
    pub types: MediaTypes,
}

/// A character set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CharsetName {
    /// By index into [`Charsets::names`].
    Known(usize),
    /// The value of the variable.
    Variable(Template),
}

/// All character sets that the configuration names, and the tables between them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Charsets {
    /// As first written.
    pub names: Vec<Box<[u8]>>,
    /// `charset_map` blocks.
    pub maps: Vec<Arc<CharsetMap>>,
}

impl Charsets {
    /// The set of a name, whatever its case.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let mut names = self.names.iter();
        names.position(|known| known.eq_ignore_ascii_case(name))
    }

    /// The table from one set to another.
    pub fn conversion(&self, from: usize, to: usize) -> Option<Conversion> {
        self.maps.iter().find_map(|map| {
            let forth = map.first == from && map.second == to;
            let back = map.first == to && map.second == from;
            (forth || back).then(|| Conversion {
                map: Arc::clone(map),
                back,
            })
        })
    }
}

/// A table, and in which direction it is read.
#[derive(Debug, Clone)]
pub struct Conversion {
    /// The table.
    pub map: Arc<CharsetMap>,
    /// From its second set to its first.
    pub back: bool,
}

/// A `charset_map` block.
#[derive(Debug, Clone, PartialEq)]
pub struct CharsetMap {
    /// Index of the set whose bytes are on the left.
    pub first: usize,
    /// Index of the other set.
    pub second: usize,
    /// Its lines.
    pub table: CharsetTable,
}

/// The lines of a `charset_map` block.
#[derive(Debug, Clone, PartialEq)]
pub enum CharsetTable {
    /// Between two sets of one byte for each character.
    Bytes {
        /// From the first to the second.
        forth: Box<[u8; 256]>,
        /// From the second to the first.
        back: Box<[u8; 256]>,
    },
    /// To UTF-8, which is the second.
    Utf8 {
        /// The bytes of each character: how many, then those.
        forth: Box<[[u8; 4]; 256]>,
        /// The byte of each character below U+10000 by the upper half of its number; 0: none.
        back: Vec<Option<Box<[u8; 256]>>>,
    },
}
