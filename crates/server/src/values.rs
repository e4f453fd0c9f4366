//! Captures of expressions and values of the configuration's own variables, for one request.
//!
//! Nothing is allocated until something is captured, assigned or cached. Evaluating a `map`
//! changes them while the exchange is borrowed immutably, so they are behind a lock, which is
//! never contended.

use sealane_conf::regex::{Captures, Regex};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Captures, and values of the configuration's own variables.
#[derive(Debug, Default)]
pub struct Values {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default, Clone)]
struct Inner {
    /// The last match; the text is copied, since the URI may change.
    subject: Vec<u8>,
    /// Where its groups are.
    groups: Captures,
    /// By index in the configuration's variables; shorter if the rest is unset.
    slots: Vec<Slot>,
}

#[derive(Debug, Default, Clone)]
enum Slot {
    /// Neither set nor cached.
    #[default]
    Unset,
    /// There is no value.
    Absent,
    Found(Box<[u8]>),
}

impl Values {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code that can panic runs while it is held.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the groups of a match; `subject` is what was matched.
    pub fn store(&self, regex: &Regex, found: Captures, subject: &[u8]) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        for (group, index) in regex.named_groups() {
            // As in nginx, a group that did not participate in the match is empty.
            let text = found.get(subject, usize::from(*group)).unwrap_or_default();
            *inner.slot(*index) = Slot::Found(text.into());
        }
        inner.subject.clear();
        if found.len() > 1 {
            inner.subject.extend_from_slice(subject);
        }
        inner.groups = found;
    }

    /// Clears `$1` and so on: an expression did not match.
    pub fn forget_groups(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.groups = Captures::default();
    }

    /// Appends the text of a group of the last match. Returns whether there is one.
    pub fn append_group(&self, number: u8, out: &mut Vec<u8>) -> bool {
        let inner = self.lock();
        let text = inner.groups.get(&inner.subject, usize::from(number));
        out.extend_from_slice(text.unwrap_or_default());
        text.is_some()
    }

    /// Sets the value of a variable; `None`: it has none.
    pub fn set(&self, index: u16, value: Option<Box<[u8]>>) {
        *self.lock().slot(index) = value.map_or(Slot::Absent, Slot::Found);
    }

    /// Appends the value that a variable was set to, and returns whether it has one; `None` if it
    /// was not set.
    pub fn append(&self, index: u16, out: &mut Vec<u8>) -> Option<bool> {
        match self.lock().slots.get(usize::from(index)) {
            None | Some(Slot::Unset) => None,
            Some(Slot::Absent) => Some(false),
            Some(Slot::Found(text)) => {
                out.extend_from_slice(text);
                Some(true)
            }
        }
    }

    /// The variables, without the groups: what a subrequest shares with its main request.
    pub fn variables_only(&self) -> Values {
        let inner = Inner {
            slots: self.lock().slots.clone(),
            ..Inner::default()
        };
        Values {
            inner: Mutex::new(inner),
        }
    }

    /// Variables and groups, for the same request again.
    pub fn all(&self) -> Values {
        Values {
            inner: Mutex::new(self.lock().clone()),
        }
    }

    /// Takes over the variables of a subrequest.
    pub fn take_variables(&mut self, of: &mut Values) {
        std::mem::swap(&mut self.lock().slots, &mut of.lock().slots);
    }
}

impl Inner {
    fn slot(&mut self, index: u16) -> &mut Slot {
        let at = usize::from(index);
        if at >= self.slots.len() {
            self.slots.resize(at + 1, Slot::Unset);
        }
        &mut self.slots[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(pattern: &str) -> Regex {
        Regex::new(pattern, false, |_| 2).expect("the pattern is valid")
    }

    fn matched(values: &Values, pattern: &str, subject: &[u8]) {
        let regex = regex(pattern);
        let found = regex.captures(subject).expect("no limit is reached");
        values.store(&regex, found.expect("it matches"), subject);
    }

    fn group(values: &Values, number: u8) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        values.append_group(number, &mut out).then_some(out)
    }

    #[test]
    fn groups_are_those_of_the_last_match() {
        let mut values = Values::default();
        assert_eq!(group(&values, 1), None);
        matched(&values, "^(.)(x)?(.)", b"abc");
        assert_eq!(group(&values, 1), Some(b"a".to_vec()));
        assert_eq!(group(&values, 2), None);
        assert_eq!(group(&values, 3), Some(b"b".to_vec()));
        matched(&values, "c", b"abc");
        assert_eq!(group(&values, 1), None, "no groups in it");
        matched(&values, "(c)", b"abc");
        values.forget_groups();
        assert_eq!(group(&values, 1), None);
    }

    #[test]
    fn variables_keep_what_they_are_given() {
        let mut values = Values::default();
        let mut out = Vec::new();
        assert_eq!(values.append(2, &mut out), None);
        matched(&values, "(?<name>b)", b"abc");
        assert_eq!(values.append(2, &mut out), Some(true));
        matched(&values, "(?<name>x)?", b"abc");
        assert_eq!(values.append(2, &mut out), Some(true));
        assert_eq!(out, b"b");
        values.set(0, None);
        assert_eq!(values.append(0, &mut out), Some(false));
        assert_eq!(values.append(1, &mut out), None);
        let mut other = values.variables_only();
        assert_eq!(other.append(2, &mut out), Some(true));
        other.set(1, Some(b"one"[..].into()));
        values.take_variables(&mut other);
        assert_eq!(values.append(1, &mut out), Some(true));
        assert_eq!(out, b"bone");
    }
}
