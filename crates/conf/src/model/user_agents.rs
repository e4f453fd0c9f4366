//! Values by what `User-Agent` names, and in which version.

use std::collections::HashMap;

/// A `user_agent` block.
#[derive(Debug, Clone, Default)]
pub struct UserAgents {
    /// For what is not named.
    pub(crate) default: Box<[u8]>,
    /// By their first byte; of those that begin alike, longer ones come first.
    pub(crate) keywords: HashMap<u8, Vec<Keyword>>,
}

/// A text that is looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keyword {
    pub(crate) text: Box<[u8]>,
    /// `greedy`: others before it in the header are better.
    pub(crate) is_greedy: bool,
    /// Versions from one to another, and the value.
    pub(crate) versions: Vec<(AgentVersion, AgentVersion, Box<[u8]>)>,
}

/// Four numbers, each of which is meant to be below 10,000.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AgentVersion(pub(crate) u64);

/// Weight of a version's first number.
const FIRST_WEIGHT: u64 = 1_000_000_000_000;

/// How far behind a keyword its version may begin.
const MAX_GAP: usize = 8;

impl AgentVersion {
    pub(crate) const MAX: AgentVersion = AgentVersion(u64::MAX);

    /// The version that a text begins with, and what follows it.
    pub(crate) fn parse(text: &[u8]) -> (AgentVersion, &[u8]) {
        let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let end = text.iter().position(|byte| !is_part(byte));
        let (version, rest) = text.split_at(end.unwrap_or(text.len()));
        let (mut sum, mut weight) = (0u64, FIRST_WEIGHT);
        for part in version.split(|byte| *byte == b'.') {
            let digits = part.iter().map(|digit| u64::from(digit - b'0'));
            let number = digits.fold(0u64, |number, digit| {
                number.saturating_mul(10).saturating_add(digit)
            });
            sum = sum.saturating_add(number.saturating_mul(weight));
            weight /= 10_000; // the fifth number counts for nothing
        }
        (AgentVersion(sum), rest)
    }
}

impl UserAgents {
    /// The value for a header; `None` is one that is absent.
    pub fn value(&self, user_agent: Option<&[u8]>) -> &[u8] {
        let named = user_agent.and_then(|text| {
            let (keyword, behind) = self.find(text)?;
            let version = version_behind(&text[behind..]);
            let mut versions = keyword.versions.iter();
            let found = versions.find(|(from, to, _)| (*from..=*to).contains(&version));
            found.map(|(_, _, value)| &**value)
        });
        named.unwrap_or(&self.default)
    }

    /// The keyword that begins last, and where its end is. From a greedy one the search goes on
    /// before it.
    fn find(&self, text: &[u8]) -> Option<(&Keyword, usize)> {
        let mut found = None;
        let mut end = text.len();
        for begin in (0..text.len()).rev() {
            let Some(keywords) = self.keywords.get(&text[begin]) else {
                continue;
            };
            let rest = &text[begin..end.max(begin)];
            let mut keywords = keywords.iter();
            let Some(keyword) = keywords.find(|keyword| rest.starts_with(&keyword.text)) else {
                continue;
            };
            found = Some((keyword, begin + keyword.text.len()));
            if !keyword.is_greedy {
                break;
            }
            end = begin;
        }
        found
    }
}

/// The version behind a keyword; zero if there is none nearby.
fn version_behind(text: &[u8]) -> AgentVersion {
    let stops = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b';' | b'(' | b')');
    let gap = text.iter().take(MAX_GAP).position(stops);
    let gap = gap.unwrap_or(MAX_GAP).min(text.len());
    AgentVersion::parse(&text[gap..]).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_number_by_number() {
        let of = |text: &str| AgentVersion::parse(text.as_bytes()).0;
        assert!(of("9.0") < of("12.00"));
        assert!(of("12.0.742.112") < of("12.0.742.113"));
        assert!(of("12.0.742.112") < of("12.0.743"));
        assert_eq!(of("5"), of("5.0.0.0.7"));
        assert!(of("99999999999999999999") <= AgentVersion::MAX);
        assert_eq!(AgentVersion::parse(b"5.0~6").1, b"~6");
    }

    #[test]
    fn a_version_is_looked_for_near_its_name() {
        let of = |text: &str| version_behind(text.as_bytes());
        let five = AgentVersion::parse(b"5").0;
        assert_eq!(of("/5.0 (X11)"), five);
        assert_eq!(of("       5"), five);
        assert_eq!(of("        5"), five);
        assert_eq!(of("         5"), AgentVersion::default());
        assert_eq!(of(" (5"), AgentVersion::default());
        assert_eq!(of(""), AgentVersion::default());
    }
}
