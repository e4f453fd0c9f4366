//! Parsing on after an error, to report every fault of a configuration.

use crate::diagnostic::{Diagnostic, Failure};
use crate::directives::{self, Contexts, Row, Support};
use crate::input::{Loader, Options};
use crate::met::Met;
use crate::model::Config;
use crate::parser;

/// What a configuration is made of, and everything that is wrong with it.
#[derive(Debug)]
pub struct Survey {
    /// The configuration without what was refused, for advice. It may hang together no more.
    pub config: Option<Config>,
    /// What would keep the server from starting, in the order it was met.
    pub refusals: Vec<Refusal>,
    /// Includes that could not be read.
    pub unread: Vec<Diagnostic>,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
    /// What the directives do.
    pub met: Met,
    /// What ended parsing early: the text is not a configuration, or has
    /// too many faults.
    pub end: Option<Box<Diagnostic>>,
}

/// Something that would keep the server from starting.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// What kind of thing.
    pub kind: RefusalKind,
    /// The directive; empty when the whole configuration is meant.
    pub name: String,
    /// The message with its place and advice.
    pub diagnostic: Diagnostic,
    /// The directive opens a block, which was not checked.
    pub skipped_block: bool,
}

/// What is wrong with something that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// Sealane has no such thing.
    Unsupported,
    /// Sealane has the directive, but not these arguments of it, which nginx takes.
    NotYet,
    /// Nobody knows the name.
    Unknown,
    /// It is in the wrong context; nginx would report that too.
    Misplaced,
    /// nginx would refuse it too: its arguments, or what it has to do with others.
    Wrong,
}

impl RefusalKind {
    /// The kind for a directive that has this row.
    pub(crate) fn of(row: &Row) -> RefusalKind {
        match row.support {
            Support::Unsupported(_) => RefusalKind::Unsupported,
            _ => RefusalKind::Wrong,
        }
    }

    /// The kind for a directive that has no row in this place, or cannot be written so.
    pub(crate) fn unfound(name: &[u8], context: Contexts) -> RefusalKind {
        let rows = directives::named(name);
        match rows.iter().any(|row| row.contexts & context != 0) {
            true => RefusalKind::Wrong,
            false if !rows.is_empty() => RefusalKind::Misplaced,
            false if directives::owner(name).is_some() => RefusalKind::Unsupported,
            false => RefusalKind::Unknown,
        }
    }
}

/// Parses a whole configuration. Where [`crate::parse`] would stop, the directive is recorded
/// and skipped, with its block if it has one; only text that is not a configuration ends
/// parsing.
pub fn survey(options: &Options, loader: &mut dyn Loader) -> Survey {
    parser::survey(options, loader)
}

/// What was noted while reading.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) unread: Vec<Diagnostic>,
}

impl Notes {
    /// Most faults reported. A text with more is not a configuration.
    pub(crate) const MOST: usize = 1000;

    pub(crate) fn is_full(&self) -> bool {
        self.refusals.len() + self.unread.len() >= Notes::MOST
    }
}

impl Survey {
    pub(crate) fn of(result: Result<Config, Failure>, notes: Notes, met: Met) -> Survey {
        let (config, warnings, end) = match result {
            Ok(config) => (Some(config), Vec::new(), None),
            Err(failure) => (None, failure.warnings, Some(failure.error)),
        };
        let warnings = match &config {
            Some(config) => config.warnings.clone(),
            None => warnings,
        };
        Survey {
            config,
            refusals: notes.refusals,
            unread: notes.unread,
            warnings,
            met,
            end,
        }
    }
}

#[cfg(test)]
mod tests;
