//! Regular expressions as nginx has them: PCRE2 on bytes.

use std::fmt;
use std::sync::Arc;

/// A compiled regular expression. Cloning shares it.
#[derive(Clone)]
pub struct Regex {
    inner: Arc<Inner>,
}

struct Inner {
    pattern: Box<str>,
    caseless: bool,
    /// Named groups: number of the group in the expression, index of its
    /// name in [`crate::model::Http::variables`].
    named: Box<[(u16, u16)]>,
    compiled: pcre2::bytes::Regex,
}

/// Why an expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegexError {
    /// PCRE2's own words.
    pub message: String,
    /// Byte offset into the pattern, where PCRE2 gives one.
    pub offset: Option<usize>,
}

/// Matching gave up, most often at PCRE2's backtracking limit. nginx answers
/// such a request with 500 and logs an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchError {
    /// PCRE2's own words.
    pub message: String,
}

/// Where the groups of an expression matched, as byte ranges of the subject.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Captures {
    spans: Box<[Option<(usize, usize)>]>,
}

impl Regex {
    /// Compiles `pattern`; `name_index` gives every named group its index in
    /// [`crate::model::Http::variables`].
    ///
    /// # Errors
    ///
    /// When PCRE2 refuses the pattern.
    pub fn new(
        pattern: &str,
        caseless: bool,
        mut name_index: impl FnMut(&str) -> u16,
    ) -> Result<Regex, RegexError> {
        let compiled = pcre2::bytes::RegexBuilder::new()
            .caseless(caseless)
            .jit_if_available(true)
            .build(pattern)
            .map_err(RegexError::new)?;
        let named = compiled
            .capture_names()
            .iter()
            .enumerate()
            .filter_map(|(group, name)| {
                Some((u16::try_from(group).ok()?, name_index(name.as_deref()?)))
            })
            .collect();
        Ok(Regex {
            inner: Arc::new(Inner {
                pattern: pattern.into(),
                caseless,
                named,
                compiled,
            }),
        })
    }

    /// The expression as written.
    pub fn pattern(&self) -> &str {
        &self.inner.pattern
    }

    /// Whether letters match in both cases.
    pub fn caseless(&self) -> bool {
        self.inner.caseless
    }

    /// Named groups: number of the group (for [`Captures::get`]), index of
    /// the name in [`crate::model::Http::variables`].
    pub fn named_groups(&self) -> &[(u16, u16)] {
        &self.inner.named
    }

    /// Number of groups, the whole match (group 0) included.
    pub fn group_count(&self) -> usize {
        self.inner.compiled.captures_len()
    }

    /// Whether the expression matches somewhere in `subject`.
    ///
    /// # Errors
    ///
    /// See [`MatchError`].
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, MatchError> {
        self.inner
            .compiled
            .is_match(subject)
            .map_err(MatchError::new)
    }

    /// The leftmost match with its groups.
    ///
    /// # Errors
    ///
    /// See [`MatchError`].
    pub fn captures(&self, subject: &[u8]) -> Result<Option<Captures>, MatchError> {
        let mut locations = self.inner.compiled.capture_locations();
        let found = self
            .inner
            .compiled
            .captures_read(&mut locations, subject)
            .map_err(MatchError::new)?;
        Ok(found.map(|_| Captures {
            spans: (0..locations.len()).map(|i| locations.get(i)).collect(),
        }))
    }
}

impl RegexError {
    fn new(error: pcre2::Error) -> RegexError {
        let text = error.to_string();
        let offset = error.offset();
        // The crate puts its own words in front of the library's.
        let prefix = offset.map(|at| format!("PCRE2: error compiling pattern at offset {at}: "));
        let message = prefix
            .and_then(|prefix| text.strip_prefix(&prefix))
            .unwrap_or(&text);
        RegexError {
            message: message.to_owned(),
            offset,
        }
    }
}

impl MatchError {
    fn new(error: pcre2::Error) -> MatchError {
        MatchError {
            message: error.to_string(),
        }
    }
}

impl Captures {
    /// Number of groups, the whole match included.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no match at all (only for the default value).
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Byte range of a group; `None` when it did not take part in the match.
    pub fn span(&self, group: usize) -> Option<(usize, usize)> {
        *self.spans.get(group)?
    }

    /// The bytes of a group in `subject`, which must be what was matched.
    pub fn get<'s>(&self, subject: &'s [u8], group: usize) -> Option<&'s [u8]> {
        let (start, end) = self.span(group)?;
        subject.get(start..end)
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Regex({}{:?})",
            if self.inner.caseless { "~*" } else { "~" },
            self.inner.pattern
        )
    }
}

impl PartialEq for Regex {
    fn eq(&self, other: &Regex) -> bool {
        self.inner.pattern == other.inner.pattern
            && self.inner.caseless == other.inner.caseless
            && self.inner.named == other.inner.named
    }
}

impl Eq for Regex {}

impl fmt::Display for RegexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RegexError {}

impl fmt::Display for MatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for MatchError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_by_number_and_name() {
        let mut names = Vec::new();
        let regex = Regex::new(r"^/(?<user>\w+)/(\d+)?", false, |name| {
            names.push(name.to_owned());
            7
        })
        .expect("the pattern is valid");
        assert_eq!(names, ["user"]);
        assert_eq!(regex.named_groups(), [(1, 7)]);
        assert_eq!(regex.group_count(), 3);
        let subject = b"/anna/";
        let captures = regex
            .captures(subject)
            .expect("no limit reached")
            .expect("matches");
        assert_eq!(captures.get(subject, 1), Some(&b"anna"[..]));
        assert_eq!(captures.get(subject, 2), None);
        assert_eq!(captures.get(subject, 9), None);
        assert_eq!(regex.captures(b"nothing").expect("no limit reached"), None);
    }

    #[test]
    fn caseless_and_bytes() {
        let regex = Regex::new(r"\.PHP$", true, |_| 0).expect("the pattern is valid");
        assert!(regex.is_match(b"/\xff\xfe.php").expect("no limit reached"));
        let regex = Regex::new(r"\.PHP$", false, |_| 0).expect("the pattern is valid");
        assert!(!regex.is_match(b"/x.php").expect("no limit reached"));
    }

    #[test]
    fn a_bad_pattern_says_where() {
        let error = Regex::new("a(b", false, |_| 0).expect_err("the parenthesis stays open");
        assert_eq!(error.offset, Some(3));
        assert_eq!(error.message, "missing closing parenthesis");
    }

    #[test]
    fn backtracking_ends() {
        let regex = Regex::new(r"^(a+)+$", false, |_| 0).expect("the pattern is valid");
        let mut subject = vec![b'a'; 64];
        subject.push(b'b');
        // Either PCRE2 proves that there is no match or it gives up; it must
        // not run forever.
        assert_ne!(regex.is_match(&subject), Ok(true));
    }
}
