//! `proxy_cookie_domain`, `proxy_cookie_path`, `proxy_cookie_flags`: finds, replaces, adds and
//! removes attributes of a `Set-Cookie` value.

use std::ops::Range;

use smallvec::SmallVec;

/// One attribute of a cookie. All positions count from the start of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// From its semicolon to the next one.
    part: Range<usize>,
    name: Range<usize>,
    value: Option<Range<usize>>,
}

/// A parsed `Set-Cookie` value, and the changes to it.
///
/// Unchanged parts keep every byte, including white space. (nginx rewrites a cookie that it
/// changed, with `; ` between all attributes.)
#[derive(Clone, Debug)]
pub struct SetCookie<'a> {
    text: &'a [u8],
    name: Range<usize>,
    attributes: SmallVec<[Attribute; 8]>,
    /// Parts of the text and their replacements.
    edits: Vec<(Range<usize>, Vec<u8>)>,
}

/// What `proxy_cookie_flags` does to each flag; `None` leaves it alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CookieFlags {
    /// `secure` or `nosecure`.
    pub secure: Option<bool>,
    /// `httponly` or `nohttponly`.
    pub http_only: Option<bool>,
    /// `samesite=...` or `nosamesite`.
    pub same_site: Option<SameSite>,
}

/// A value of `SameSite`, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameSite {
    /// `samesite=strict`.
    Strict,
    /// `samesite=lax`.
    Lax,
    /// `samesite=none`.
    None,
    /// `nosamesite`: the attribute is removed.
    Absent,
}

impl SameSite {
    fn value(self) -> Option<&'static str> {
        match self {
            SameSite::Strict => Some("Strict"),
            SameSite::Lax => Some("Lax"),
            SameSite::None => Some("None"),
            SameSite::Absent => None,
        }
    }
}

impl CookieFlags {
    /// Applies one flag of the directive; `false` if it is invalid (nginx ignores invalid flags
    /// from variables). A later flag overrides an earlier one of its kind.
    pub fn add(&mut self, flag: &[u8]) -> bool {
        let lower = flag.to_ascii_lowercase();
        match &lower[..] {
            b"secure" => self.secure = Some(true),
            b"nosecure" => self.secure = Some(false),
            b"httponly" => self.http_only = Some(true),
            b"nohttponly" => self.http_only = Some(false),
            b"samesite=strict" => self.same_site = Some(SameSite::Strict),
            b"samesite=lax" => self.same_site = Some(SameSite::Lax),
            b"samesite=none" => self.same_site = Some(SameSite::None),
            b"nosamesite" => self.same_site = Some(SameSite::Absent),
            _ => return false,
        }
        true
    }
}

impl<'a> SetCookie<'a> {
    /// Parses a value; `None` if its first part is not `name=value`, in which case there is nothing
    /// to change.
    pub fn parse(text: &'a [u8]) -> Option<SetCookie<'a>> {
        let mut parts = parts(text);
        let cookie = attribute(text, parts.next()?);
        cookie.value?;
        Some(SetCookie {
            text,
            name: cookie.name,
            attributes: parts.map(|part| attribute(text, part)).collect(),
            edits: Vec::new(),
        })
    }

    /// The cookie's name.
    pub fn name(&self) -> &'a [u8] {
        &self.text[self.name.clone()]
    }

    /// Positions and values of the attributes with this name (in any case) that have a value.
    pub fn values(&self, name: &[u8]) -> impl Iterator<Item = (usize, &'a [u8])> {
        let text = self.text;
        let named = self
            .attributes
            .iter()
            .enumerate()
            .filter(move |(_, attribute)| text[attribute.name.clone()].eq_ignore_ascii_case(name));
        named.filter_map(move |(index, attribute)| Some((index, &text[attribute.value.clone()?])))
    }

    /// Where `domain` is in the value of a `Domain` attribute. It must be the whole value, in any
    /// case, except for a leading dot, which stays. `None` if it is another domain.
    pub fn match_domain(value: &[u8], domain: &[u8]) -> Option<Range<usize>> {
        let start = usize::from(value.first() == Some(&b'.'));
        let is_same = value[start..].eq_ignore_ascii_case(domain);
        is_same.then_some(start..value.len())
    }

    /// Replaces the value of an attribute that [`values`](Self::values) returned.
    pub fn set_value(&mut self, index: usize, replacement: Vec<u8>) {
        let value = self.attributes.get(index).and_then(|a| a.value.clone());
        if let Some(value) = value {
            self.edits.push((value, replacement));
        }
    }

    /// Adds, replaces and removes flags. As in nginx, an existing flag stays unchanged, the first
    /// `SameSite` gets the value, and a flag that should be absent is removed wherever it occurs.
    pub fn apply(&mut self, flags: CookieFlags) {
        self.apply_switch("Secure", flags.secure);
        self.apply_switch("HttpOnly", flags.http_only);
        if let Some(same_site) = flags.same_site {
            self.apply_same_site(same_site);
        }
    }

    /// The value with all changes; `None` when there were none.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        if self.edits.is_empty() {
            return None;
        }
        // The sort is stable, so that additions at the end stay in order.
        self.edits.sort_by_key(|(part, _)| part.start);
        let mut out = Vec::with_capacity(self.text.len() + 32);
        let mut at = 0;
        for (part, replacement) in &self.edits {
            // A part inside a removed one is already gone.
            if part.start >= at {
                out.extend_from_slice(&self.text[at..part.start]);
                out.extend_from_slice(replacement);
                at = part.end;
            }
        }
        out.extend_from_slice(&self.text[at..]);
        Some(out)
    }

    fn apply_switch(&mut self, name: &str, wanted: Option<bool>) {
        match wanted {
            Some(true) if self.named(name).next().is_none() => self.append(name.as_bytes()),
            Some(false) => self.remove_all(name),
            _ => {}
        }
    }

    fn apply_same_site(&mut self, same_site: SameSite) {
        const NAME: &str = "SameSite";
        let Some(value) = same_site.value() else {
            self.remove_all(NAME);
            return;
        };
        let wanted = format!("{NAME}={value}").into_bytes();
        let Some(first) = self.named(NAME).next().cloned() else {
            self.append(&wanted);
            return;
        };
        let present = first
            .value
            .clone()
            .unwrap_or(first.name.end..first.name.end);
        let is_same = self.text[present.clone()].eq_ignore_ascii_case(value.as_bytes());
        if !is_same {
            self.edits.push((first.name.start..present.end, wanted));
        }
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &Attribute> {
        self.attributes.iter().filter(move |attribute| {
            self.text[attribute.name.clone()].eq_ignore_ascii_case(name.as_bytes())
        })
    }

    fn remove_all(&mut self, name: &str) {
        let removed: SmallVec<[Range<usize>; 4]> = self
            .named(name)
            .map(|attribute| attribute.part.clone())
            .collect();
        self.edits
            .extend(removed.into_iter().map(|part| (part, Vec::new())));
    }

    fn append(&mut self, attribute: &[u8]) {
        let end = self.text.len();
        self.edits.push((end..end, [b"; ", attribute].concat()));
    }
}

/// The text between semicolons, part by part.
fn parts(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = Some(0);
    std::iter::from_fn(move || {
        let from = start?;
        let end = memchr::memchr(b';', &text[from..]).map(|at| from + at);
        start = end.map(|semicolon| semicolon + 1);
        Some(from..end.unwrap_or(text.len()))
    })
}

/// Name and value of a part, without surrounding spaces.
fn attribute(text: &[u8], part: Range<usize>) -> Attribute {
    let equals = memchr::memchr(b'=', &text[part.clone()]).map(|at| part.start + at);
    Attribute {
        name: trimmed(text, part.start..equals.unwrap_or(part.end)),
        value: equals.map(|at| trimmed(text, at + 1..part.end)),
        // The first part, which is not an attribute, has no semicolon before it.
        part: part.start.saturating_sub(1)..part.end,
    }
}

fn trimmed(text: &[u8], range: Range<usize>) -> Range<usize> {
    let Range { mut start, mut end } = range;
    while start < end && text[start] == b' ' {
        start += 1;
    }
    while start < end && text[end - 1] == b' ' {
        end -= 1;
    }
    start..end
}
