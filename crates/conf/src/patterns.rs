//! Strings to search for in bodies, ignoring ASCII case.

use aho_corasick::{AhoCorasick, MatchKind};

/// Strings to search for. If several match at the same position, the first of the list is found.
#[derive(Debug, Clone)]
pub struct Patterns {
    /// In lower case.
    texts: Box<[Box<[u8]>]>,
    shortest: usize,
    longest: usize,
    automaton: AhoCorasick,
}

/// A match in a text of which more may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing of the list.
    Nothing,
    /// This one.
    Pattern(usize),
    /// What follows decides.
    Undecided,
}

impl Patterns {
    /// Nothing if there is no text, an empty one, or more than can be searched for.
    pub fn new(texts: Vec<Box<[u8]>>) -> Option<Patterns> {
        let shortest = texts.iter().map(|text| text.len()).min()?;
        let longest = texts.iter().map(|text| text.len()).max()?;
        if shortest == 0 {
            return None;
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .ascii_case_insensitive(true)
            .build(&texts)
            .ok()?;
        let lower = |text: Box<[u8]>| text.to_ascii_lowercase().into_boxed_slice();
        Some(Patterns {
            texts: texts.into_iter().map(lower).collect(),
            shortest,
            longest,
            automaton,
        })
    }

    /// The texts in lower case.
    pub fn texts(&self) -> &[Box<[u8]>] {
        &self.texts
    }

    /// Length of the shortest text.
    pub fn shortest(&self) -> usize {
        self.shortest
    }

    /// Length of the longest text.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The first match in `text`, among positions from which every pattern could be seen whole:
    /// its position, and the number of the pattern.
    pub fn find(&self, text: &[u8]) -> Option<(usize, usize)> {
        let found = self.automaton.find(text)?;
        let is_whole = found.start() + self.longest <= text.len();
        is_whole.then(|| (found.start(), found.pattern().as_usize()))
    }

    /// The pattern that `text` begins with. As in nginx, an earlier pattern of the list
    /// that is there only in part wins over a later one that is there completely.
    pub fn at(&self, text: &[u8]) -> Found {
        if text.len() < self.shortest {
            return Found::Undecided;
        }
        self.at_short(text)
    }

    /// The same for a text that may be shorter than every pattern.
    pub fn at_short(&self, text: &[u8]) -> Found {
        for (number, pattern) in self.texts.iter().enumerate() {
            let there = text.len().min(pattern.len());
            if !text[..there].eq_ignore_ascii_case(&pattern[..there]) {
                continue;
            }
            return match there == pattern.len() {
                true => Found::Pattern(number),
                false => Found::Undecided,
            };
        }
        Found::Nothing
    }
}

impl PartialEq for Patterns {
    fn eq(&self, other: &Patterns) -> bool {
        self.texts == other.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Patterns {
        let texts = texts.iter().map(|text| text.as_bytes().into()).collect();
        Patterns::new(texts).expect("there are some")
    }

    #[test]
    fn the_first_of_the_list_at_the_first_place() {
        let some = patterns(&["bc", "abcd", "b"]);
        assert_eq!(some.find(b"xxABCDyyyy"), Some((2, 1)));
        assert_eq!(some.find(b"xxBxyyyy"), Some((2, 2)));
        assert_eq!(some.find(b"xxbcx"), None, "abcd could not be seen whole");
        assert_eq!(some.at(b"bc"), Found::Pattern(0));
        assert_eq!(some.at(b"b"), Found::Undecided);
        assert_eq!(some.at(b"ab"), Found::Undecided);
        assert_eq!(some.at(b"x"), Found::Nothing);
        assert!(Patterns::new(vec![]).is_none());
        assert!(Patterns::new(vec![b"a"[..].into(), b""[..].into()]).is_none());
    }
}
