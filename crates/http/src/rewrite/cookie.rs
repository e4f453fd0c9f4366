//! `proxy_cookie_domain`, `proxy_cookie_path`, `proxy_cookie_flags`: finds, replaces, adds and
//! removes attributes of a `Set-Cookie` value.

use std::borrow::Cow;
use std::ops::Range;

use smallvec::SmallVec;

/// The cookie itself, or one of its attributes: a name, and the value if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair<'a> {
    name: Cow<'a, [u8]>,
    value: Option<Cow<'a, [u8]>>,
}

/// A parsed `Set-Cookie` value, and the changes to it. As in nginx, a value that is changed is
/// written anew, with `; ` between all attributes; otherwise every byte stays.
#[derive(Clone, Debug)]
pub struct SetCookie<'a> {
    name: &'a [u8],
    /// The cookie first. Attributes that were removed leave their place, so that positions stay
    /// the same.
    pairs: SmallVec<[Option<Pair<'a>>; 8]>,
    is_changed: bool,
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
        let mut parts = text.split(|byte| *byte == b';').map(split_pair);
        let (name, value) = parts.next()?;
        value?;
        let all = std::iter::once((name, value)).chain(parts);
        Some(SetCookie {
            name,
            pairs: all
                .map(|(name, value)| {
                    Some(Pair {
                        name: name.into(),
                        value: value.map(Cow::from),
                    })
                })
                .collect(),
            is_changed: false,
        })
    }

    /// The cookie's name.
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// Positions and values of the attributes with this name (in any case) that have a value.
    pub fn values(&self, name: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
        self.named(name).filter_map(|index| {
            let value = self.pairs[index].as_ref()?.value.as_deref()?;
            Some((index, value))
        })
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
        if let Some(Some(pair)) = self.pairs.get_mut(index)
            && pair.value.is_some()
        {
            pair.value = Some(replacement.into());
            self.is_changed = true;
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
    pub fn finish(self) -> Option<Vec<u8>> {
        if !self.is_changed {
            return None;
        }
        let mut out = Vec::with_capacity(64);
        for pair in self.pairs.iter().flatten() {
            if !out.is_empty() {
                out.extend_from_slice(b"; ");
            }
            out.extend_from_slice(&pair.name);
            if let Some(value) = &pair.value {
                out.push(b'=');
                out.extend_from_slice(value);
            }
        }
        Some(out)
    }

    fn apply_switch(&mut self, name: &'static str, wanted: Option<bool>) {
        match wanted {
            Some(true) if self.named(name.as_bytes()).next().is_none() => self.append(name, None),
            Some(false) => self.remove_all(name),
            _ => {}
        }
    }

    fn apply_same_site(&mut self, same_site: SameSite) {
        const NAME: &str = "SameSite";
        let Some(wanted) = same_site.value() else {
            self.remove_all(NAME);
            return;
        };
        let Some(first) = self.named(NAME.as_bytes()).next() else {
            self.append(NAME, Some(wanted));
            return;
        };
        let pair = Pair::of(NAME, Some(wanted));
        let is_same = self.pairs[first].as_ref().is_some_and(|present| {
            let value = present.value.as_deref().unwrap_or_default();
            value.eq_ignore_ascii_case(wanted.as_bytes())
        });
        if !is_same {
            self.pairs[first] = Some(pair);
            self.is_changed = true;
        }
    }

    /// Positions of the attributes with this name, in any case.
    fn named(&self, name: &[u8]) -> impl Iterator<Item = usize> {
        (1..self.pairs.len()).filter(move |&index| {
            let pair = self.pairs[index].as_ref();
            pair.is_some_and(|pair| pair.name.eq_ignore_ascii_case(name))
        })
    }

    fn remove_all(&mut self, name: &str) {
        let removed: SmallVec<[usize; 4]> = self.named(name.as_bytes()).collect();
        for index in removed {
            self.pairs[index] = None;
            self.is_changed = true;
        }
    }

    fn append(&mut self, name: &'static str, value: Option<&'static str>) {
        self.pairs.push(Some(Pair::of(name, value)));
        self.is_changed = true;
    }
}

impl Pair<'_> {
    fn of(name: &'static str, value: Option<&'static str>) -> Pair<'static> {
        Pair {
            name: name.as_bytes().into(),
            value: value.map(|value| value.as_bytes().into()),
        }
    }
}

/// Name and value of a part, without surrounding spaces.
fn split_pair(part: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'=', part) {
        None => (trimmed(part), None),
        Some(equals) => (trimmed(&part[..equals]), Some(trimmed(&part[equals + 1..]))),
    }
}

fn trimmed(text: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| *byte != b' ';
    let start = text.iter().position(is_text).unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(is_text)
        .map_or(start, |last| last + 1);
    &text[start..end]
}
