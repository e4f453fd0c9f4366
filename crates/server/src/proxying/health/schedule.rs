//! When each peer is asked, and what follows from the result. Without I/O and clock.

use super::KeptProbe;
use super::tasks::{HealthTask, Rules};
use sealane_upstream::{Peer, Verdict};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Peers that are new are asked one after the other with this pause at most, so that thousands of
/// them are not asked at once, neither now nor an interval later.
const LARGEST_STEP: Duration = Duration::from_millis(10);

/// Identifies a peer of a check in the schedule. Never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct EntryId(u64);

/// Every peer of every check.
#[derive(Default)]
pub(super) struct Schedule {
    next_id: u64,
    entries: HashMap<EntryId, Entry>,
    /// When each is due; those that are being asked are not in it, those that are gone may be.
    due: BinaryHeap<Reverse<(Instant, EntryId)>>,
}

/// A peer of a check.
pub(super) struct Entry {
    /// Its check, in the newest list of tasks.
    pub(super) task: usize,
    /// The group and the check by their names: what it is recognised by in another configuration.
    label: (Box<str>, Box<str>),
    pub(super) peer: Arc<Peer>,
    /// The check's number in its group.
    number: usize,
    pub(super) rules: Rules,
    /// Results in a row that contradict the verdict,
    streak: u32,
    /// and what they were.
    last_passed: bool,
    /// A connection that the next check may use.
    pub(super) kept: Option<KeptProbe>,
}

/// What follows from a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conclusion {
    /// Nothing yet.
    Stays,
    /// The check passed so often that the peer is healthy.
    Healthy,
    /// The check failed so often that the peer is not.
    Unhealthy,
}

impl Schedule {
    /// Follows the lists of peers of these tasks. Peers that remain keep their turn.
    pub(super) fn renew(&mut self, tasks: &[HealthTask], now: Instant) {
        let mut known: HashMap<_, EntryId> = HashMap::new();
        for (id, entry) in &self.entries {
            let (group, check) = entry.label.clone();
            known.insert((group, check, Arc::clone(entry.peer.name())), *id);
        }
        let mut kept: HashMap<EntryId, Entry> = HashMap::new();
        let mut added: Vec<Entry> = Vec::new();
        for (number, task) in tasks.iter().enumerate() {
            let label: (Box<str>, Box<str>) = (task.group.group.name().into(), task.name().into());
            let peers = task.group.group.peers();
            for peer in peers.into_iter().filter(|peer| !peer.is_down()) {
                let key = (label.0.clone(), label.1.clone(), Arc::clone(peer.name()));
                // Of several peers with one address each is asked.
                let before = known
                    .remove(&key)
                    .and_then(|id| Some((id, self.entries.remove(&id)?)));
                let entry = Entry {
                    task: number,
                    label: label.clone(),
                    peer,
                    number: task.number,
                    rules: task.rules,
                    streak: 0,
                    last_passed: false,
                    kept: None,
                };
                match before {
                    None => added.push(entry),
                    Some((id, before)) => {
                        let entry = Entry {
                            streak: before.streak,
                            last_passed: before.last_passed,
                            kept: before.kept,
                            ..entry
                        };
                        kept.insert(id, entry);
                    }
                }
            }
        }
        // Those that were due stay due; the ids of those that are gone are skipped.
        self.entries = kept;
        self.add(added, now);
    }

    /// New peers are asked soon, but not all at once.
    fn add(&mut self, added: Vec<Entry>, now: Instant) {
        let count = u32::try_from(added.len()).unwrap_or(u32::MAX).max(1);
        let shortest = added.iter().map(|entry| entry.rules.interval).min();
        let step = shortest.unwrap_or_default() / count;
        let step = step.min(LARGEST_STEP);
        let mut at = now;
        for entry in added {
            let id = EntryId(self.next_id);
            self.next_id += 1;
            self.entries.insert(id, entry);
            self.due.push(Reverse((at, id)));
            at += step;
        }
    }

    /// When the next one is due.
    pub(super) fn next_due(&mut self) -> Option<Instant> {
        loop {
            let Reverse((at, id)) = self.due.peek()?;
            if self.entries.contains_key(id) {
                return Some(*at);
            }
            self.due.pop();
        }
    }

    /// One that is due; it is in progress until it has ended.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(EntryId, &mut Entry)> {
        if self.next_due()? > now {
            return None;
        }
        let Reverse((_, id)) = self.due.pop()?;
        Some((id, self.entries.get_mut(&id)?))
    }

    /// One that is due is not asked now: others ask, or it is not known yet who does. What this
    /// node has counted before means nothing later.
    pub(super) fn put_off(&mut self, id: EntryId, until: Instant) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.streak = 0;
            entry.kept = None;
            self.due.push(Reverse((until, id)));
        }
    }

    /// A check that began at `begun` has passed or failed. `jitter` is from 0 to 1. Nothing follows
    /// if the peer is no longer checked.
    pub(super) fn ended(
        &mut self,
        id: EntryId,
        begun: Instant,
        passed: bool,
        kept: Option<KeptProbe>,
        jitter: f64,
    ) -> Option<(Conclusion, &Entry)> {
        let entry = self.entries.get_mut(&id)?;
        entry.kept = kept;
        let wait = entry.rules.interval + entry.rules.jitter.mul_f64(jitter.clamp(0.0, 1.0));
        self.due.push(Reverse((begun + wait, id)));
        Some((entry.conclude(passed), entry))
    }
}

impl Entry {
    /// Counts a result.
    fn conclude(&mut self, passed: bool) -> Conclusion {
        let verdict = self.peer.verdict(self.number);
        let agrees = match verdict {
            Verdict::Healthy => passed,
            Verdict::Unhealthy => !passed,
            Verdict::Unknown => false,
        };
        if agrees {
            self.streak = 0;
            return Conclusion::Stays;
        }
        self.streak = match (verdict, passed) {
            // Before the first verdict a series may change its direction.
            (Verdict::Unknown, passed) if passed != self.last_passed => 1,
            _ => self.streak.saturating_add(1),
        };
        self.last_passed = passed;
        let enough = match passed {
            true => self.rules.passes,
            false => self.rules.fails,
        };
        if self.streak < enough {
            return Conclusion::Stays;
        }
        self.streak = 0;
        match passed {
            true => Conclusion::Healthy,
            false => Conclusion::Unhealthy,
        }
    }
}

#[cfg(test)]
mod tests;
