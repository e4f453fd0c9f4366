//! Statistics of a configuration: how many directives work, and which have no effect.

use crate::directives::Row;
use crate::model::Origin;
use std::collections::{HashMap, HashSet};

/// Places of one directive that are remembered; further ones are counted.
const PLACES: usize = 256;

/// What the directives of a configuration do here.
#[derive(Debug, Clone, Default)]
pub struct Met {
    /// Directives that were carried out. Lines of lists (`map`, `types`) are not counted.
    pub working: usize,
    /// Directives that were accepted and change nothing, in the order they were met first.
    pub idle: Vec<Idle>,
    /// Some `listen` line has `quic`.
    pub listens_quic: bool,
    index: HashMap<&'static str, usize>,
    names: HashSet<&'static str>,
}

/// A directive that was accepted and changes nothing.
#[derive(Debug, Clone)]
pub struct Idle {
    /// Its name.
    pub name: &'static str,
    /// Why it changes nothing.
    pub reason: IdleReason,
    /// Why, in a sentence, and what to use instead.
    pub why: String,
    /// Its position.
    pub places: Vec<Origin>,
    /// How often it was met, beyond `places`.
    pub more: usize,
}

/// Why a directive changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleReason {
    /// What it sets does not exist here.
    Meaningless,
    /// It only tunes, and has no effect yet.
    Later,
    /// nginx itself has dropped it.
    Obsolete,
}

impl Met {
    /// A directive that was carried out.
    pub(crate) fn works(&mut self, row: &'static Row) {
        self.working += 1;
        self.names.insert(row.name);
    }

    /// A directive that changes nothing.
    pub(crate) fn is_idle(
        &mut self,
        row: &'static Row,
        reason: IdleReason,
        why: impl FnOnce() -> String,
        origin: &Origin,
    ) {
        let index = *self.index.entry(row.name).or_insert_with(|| {
            self.idle.push(Idle {
                name: row.name,
                reason,
                why: why(),
                places: Vec::new(),
                more: 0,
            });
            self.idle.len() - 1
        });
        let idle = &mut self.idle[index];
        match idle.places.len() < PLACES {
            true => idle.places.push(origin.clone()),
            false => idle.more += 1,
        }
    }

    /// Whether a directive that works was met anywhere.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// How many directives were accepted and change nothing.
    pub fn idle_count(&self) -> usize {
        self.idle.iter().map(Idle::count).sum()
    }
}

impl Idle {
    /// How often it was met.
    pub fn count(&self) -> usize {
        self.places.len() + self.more
    }
}
