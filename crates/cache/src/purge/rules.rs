//! What has been purged by prefix and tag, as look-ups need it. Pure: no file, no clock.

use super::prefixes::PrefixTree;
use crate::key::{CacheKey, Hash};
use std::collections::HashMap;

/// One thing that was purged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// A key with all of its variants, by the hash of the key.
    Key(Hash),
    /// Every key that begins so.
    Prefix(Box<[u8]>),
    /// Every response with this tag.
    Tag(Box<[u8]>),
}

/// When something was purged: by the zone's own count, and in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) generation: u64,
    pub(crate) time_s: i64,
}

impl Mark {
    /// The newer of both, in either respect.
    pub(super) fn max(self, other: Mark) -> Mark {
        Mark {
            generation: self.generation.max(other.generation),
            time_s: self.time_s.max(other.time_s),
        }
    }
}

/// How old a response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// Its request began at this generation of purges, or it was judged then.
    Since(u64),
    /// An earlier process received it in this second.
    Dated(i64),
}

impl Age {
    fn is_before(self, mark: Mark) -> bool {
        match self {
            Age::Since(generation) => generation < mark.generation,
            // Within a second nobody knows what was first.
            Age::Dated(date_s) => date_s <= mark.time_s,
        }
    }
}

/// What a purge can name of a response.
#[derive(Debug)]
pub struct Subject {
    /// Its key.
    pub key: CacheKey,
    /// Its tags.
    pub tags: Tags,
}

/// The tags of a response.
#[derive(Debug)]
pub enum Tags {
    /// These.
    Known(Vec<Box<[u8]>>),
    /// Nobody knows: every tag counts.
    Unknown,
}

/// Everything that has been purged and may still be in the cache.
#[derive(Debug, Default)]
pub(super) struct PurgeRules {
    keys: HashMap<Hash, Mark>,
    prefixes: PrefixTree,
    tags: HashMap<Box<[u8]>, Mark>,
    /// The newest of `tags` that was ever there.
    newest_tag: Option<Mark>,
}

impl PurgeRules {
    /// Adds a rule, or marks it once more.
    pub(super) fn insert(&mut self, rule: Rule, mark: Mark) {
        let note = |own: &mut Mark| *own = own.max(mark);
        match rule {
            Rule::Key(hash) => {
                self.keys.entry(hash).and_modify(note).or_insert(mark);
            }
            Rule::Prefix(prefix) => self.prefixes.insert(&prefix, mark),
            Rule::Tag(tag) => {
                self.tags.entry(tag).and_modify(note).or_insert(mark);
                let newest = &mut self.newest_tag;
                *newest = Some(newest.map_or(mark, |own| own.max(mark)));
            }
        }
    }

    /// Takes out a rule that was not marked since this generation.
    pub(super) fn remove(&mut self, rule: &Rule, generation: u64) {
        let is_older = |mark: &Mark| mark.generation <= generation;
        match rule {
            Rule::Key(hash) => {
                if self.keys.get(hash).is_some_and(is_older) {
                    self.keys.remove(hash);
                }
            }
            Rule::Prefix(prefix) => self.prefixes.remove(prefix, generation),
            Rule::Tag(tag) => {
                if self.tags.get(tag).is_some_and(is_older) {
                    self.tags.remove(tag);
                }
            }
        }
    }

    /// Whether a response was purged. That takes a time bounded by the length of its key and the
    /// number of its tags, however many rules there are.
    pub(super) fn concern(&self, subject: &Subject, age: Age) -> bool {
        let counts = |mark: &Mark| age.is_before(*mark);
        let by_key = self.keys.get(&subject.key.hash()).is_some_and(counts);
        by_key
            || self.prefixes.any(subject.key.text(), |mark| counts(&mark))
            || match &subject.tags {
                Tags::Known(tags) => tags
                    .iter()
                    .any(|tag| self.tags.get(tag).is_some_and(counts)),
                Tags::Unknown => self.newest_tag.as_ref().is_some_and(counts),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(key: &str, tags: &[&str]) -> Subject {
        let tags = tags.iter().map(|tag| tag.as_bytes().into());
        Subject {
            key: CacheKey::new(key.into()),
            tags: Tags::Known(tags.collect()),
        }
    }

    fn rules(rules: &[(Rule, u64, i64)]) -> PurgeRules {
        let mut all = PurgeRules::default();
        for (rule, generation, time_s) in rules.iter().cloned() {
            all.insert(rule, Mark { generation, time_s });
        }
        all
    }

    fn prefix(text: &str) -> Rule {
        Rule::Prefix(text.as_bytes().into())
    }

    fn tag(text: &str) -> Rule {
        Rule::Tag(text.as_bytes().into())
    }

    #[test]
    fn keys_prefixes_and_tags_are_found() {
        let all = rules(&[
            (Rule::Key(CacheKey::new(b"/one".to_vec()).hash()), 1, 10),
            (prefix("/a/"), 2, 20),
            (prefix("/a/b/"), 3, 30),
            (tag("news"), 4, 40),
        ]);
        let concern = |key: &str, tags: &[&str], age| all.concern(&subject(key, tags), age);
        assert!(concern("/one", &[], Age::Since(0)));
        assert!(!concern("/one/more", &[], Age::Since(0)));
        assert!(concern("/a/", &[], Age::Since(0)));
        assert!(!concern("/a", &[], Age::Since(0)));
        assert!(!concern("/a/x", &[], Age::Since(2)));
        assert!(concern("/a/b/x", &[], Age::Since(2)));
        assert!(!concern("/a/b/x", &[], Age::Since(3)));
        assert!(concern("/z", &["old", "news"], Age::Since(3)));
        assert!(!concern("/z", &["New", "new"], Age::Since(0)));
        // By the second, the same one counts as before.
        assert!(concern("/a/x", &[], Age::Dated(20)));
        assert!(!concern("/a/x", &[], Age::Dated(21)));
        // A longer prefix that was purged earlier hides no shorter one.
        assert!(concern("/a/b/x", &[], Age::Dated(30)));
    }

    #[test]
    fn without_known_tags_every_tag_counts() {
        let all = rules(&[(tag("news"), 4, 40)]);
        let unknown = Subject {
            key: CacheKey::new(b"/z".to_vec()),
            tags: Tags::Unknown,
        };
        assert!(all.concern(&unknown, Age::Since(3)));
        assert!(!all.concern(&unknown, Age::Since(4)));
    }

    #[test]
    fn what_was_marked_again_stays() {
        let mut all = rules(&[(tag("a"), 1, 1), (prefix("/p"), 2, 2), (tag("a"), 3, 3)]);
        for rule in [tag("a"), prefix("/p"), Rule::Key([0; 16])] {
            all.remove(&rule, 2);
        }
        assert!(all.concern(&subject("/", &["a"]), Age::Since(2)));
        assert!(!all.concern(&subject("/p", &[]), Age::Since(0)));
        all.remove(&tag("a"), 3);
        assert!(!all.concern(&subject("/", &["a"]), Age::Since(0)));
    }
}
