//! `Cache-Control` (RFC 9111 section 5.2) of requests and responses, with the extensions of RFC
//! 5861, and `CDN-Cache-Control` (RFC 9213), which says the same in another form.

mod dictionary;

use dictionary::Value;
use std::borrow::Cow;

/// The longest time that is told apart, in seconds: longer ones are this one (RFC 9111 section
/// 1.2.2).
pub const MAX_SECONDS: i64 = 1 << 31;

/// What a response says about keeping it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// `no-store`.
    pub no_store: bool,
    /// `no-cache`: what must not be used again before the origin has confirmed it.
    pub no_cache: Scope,
    /// `private`: what is for one client only.
    pub private: Scope,
    /// `public`.
    pub public: bool,
    /// `must-revalidate`.
    pub must_revalidate: bool,
    /// `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// `must-understand`.
    pub must_understand: bool,
    /// `max-age`.
    pub max_age: Option<Seconds>,
    /// `s-maxage`.
    pub s_maxage: Option<Seconds>,
    /// `stale-while-revalidate`; 0 if it makes no sense.
    pub stale_while_revalidate: i64,
    /// `stale-if-error`; 0 if it makes no sense.
    pub stale_if_error: i64,
}

/// What a directive is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scope {
    /// The directive is not there.
    #[default]
    Nothing,
    /// These fields, in lower case.
    Fields(Vec<Box<[u8]>>),
    /// The whole response.
    Everything,
}

/// A number of seconds, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seconds {
    /// A number, at most [`MAX_SECONDS`].
    Number(i64),
    /// Something else.
    Invalid,
}

/// What a request says about the response that it wants. What makes no sense is as if it were not
/// there: these are wishes (RFC 9111 section 5.2.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// `no-cache`.
    pub no_cache: bool,
    /// `no-store`.
    pub no_store: bool,
    /// `only-if-cached`.
    pub only_if_cached: bool,
    /// `max-age`.
    pub max_age: Option<i64>,
    /// `min-fresh`.
    pub min_fresh: Option<i64>,
    /// `max-stale`; without a number, any time.
    pub max_stale: Option<i64>,
}

impl Scope {
    fn add(&mut self, argument: &Argument<'_>) {
        let list = match argument {
            Argument::Text(list) if !list.is_empty() => list,
            _ => return *self = Scope::Everything,
        };
        let names = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let names = names.filter(|name| !name.is_empty());
        let names = names.map(|name| name.to_ascii_lowercase().into_boxed_slice());
        match self {
            Scope::Everything => {}
            Scope::Fields(known) => known.extend(names),
            Scope::Nothing => *self = Scope::Fields(names.collect()),
        }
    }

    /// Whether it is about a field, by its name in any case.
    pub fn names(&self, field: &[u8]) -> bool {
        match self {
            Scope::Fields(names) => names.iter().any(|name| name.eq_ignore_ascii_case(field)),
            Scope::Nothing | Scope::Everything => false,
        }
    }
}

impl Seconds {
    /// The number; an invalid one is none at all, so that what depends on it is stale (RFC 9111
    /// section 4.2.1).
    pub fn or_zero(self) -> i64 {
        match self {
            Seconds::Number(seconds) => seconds,
            Seconds::Invalid => 0,
        }
    }

    fn of(argument: &Argument<'_>) -> Seconds {
        match argument {
            Argument::Text(text) => seconds(text).map_or(Seconds::Invalid, Seconds::Number),
            Argument::Missing | Argument::Malformed => Seconds::Invalid,
        }
    }

    fn valid(self) -> Option<i64> {
        match self {
            Seconds::Number(seconds) => Some(seconds),
            Seconds::Invalid => None,
        }
    }
}

/// A number of seconds (RFC 9111 section 1.2.2), at most [`MAX_SECONDS`]. `None` for everything
/// that has anything but digits.
pub fn seconds(text: &[u8]) -> Option<i64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0i64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        Some((number * 10 + digit).min(MAX_SECONDS))
    })
}

impl ResponseDirectives {
    /// Reads the lines of `Cache-Control`. Of repeated numbers the first counts.
    pub fn read<'v>(lines: impl Iterator<Item = &'v [u8]>) -> ResponseDirectives {
        let mut found = ResponseDirectives::default();
        for (name, argument) in lines.flat_map(Directives) {
            found.add(&name.to_ascii_lowercase(), &argument);
        }
        found
    }

    /// Reads the lines of `CDN-Cache-Control`: `None` if it is empty or not a dictionary (RFC 9213
    /// section 2.1), as if it were not there.
    pub fn read_targeted<'v>(lines: impl Iterator<Item = &'v [u8]>) -> Option<ResponseDirectives> {
        let lines: Vec<&[u8]> = lines.collect();
        let members = dictionary::read(&lines.join(&b", "[..]))?;
        let mut found = ResponseDirectives::default();
        for (name, value) in &members {
            let argument = match value {
                Value::Boolean(true) => Argument::Missing,
                Value::Boolean(false) => continue,
                Value::Integer(number) if takes_seconds(name) => {
                    Argument::Text(number.to_string().into_bytes().into())
                }
                Value::String(text) if !takes_seconds(name) => Argument::Text(text.into()),
                // Of another type than the directive has.
                _ => continue,
            };
            found.add(name, &argument);
        }
        (!members.is_empty()).then_some(found)
    }

    fn add(&mut self, name: &[u8], argument: &Argument<'_>) {
        match name {
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache.add(argument),
            b"private" => self.private.add(argument),
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"max-age" => drop(self.max_age.get_or_insert(Seconds::of(argument))),
            b"s-maxage" => drop(self.s_maxage.get_or_insert(Seconds::of(argument))),
            b"stale-while-revalidate" => {
                self.stale_while_revalidate = Seconds::of(argument).or_zero();
            }
            b"stale-if-error" => self.stale_if_error = Seconds::of(argument).or_zero(),
            _ => {}
        }
    }

    /// Whether a response that is not fresh any more must not be used without the origin, even if
    /// that cannot be reached (RFC 9111 section 4.2.4).
    pub fn forbids_stale(&self) -> bool {
        self.must_revalidate
            || self.proxy_revalidate
            || self.s_maxage.is_some()
            || self.no_cache == Scope::Everything
    }
}

fn takes_seconds(name: &[u8]) -> bool {
    matches!(
        name,
        b"max-age" | b"s-maxage" | b"stale-while-revalidate" | b"stale-if-error"
    )
}

impl RequestDirectives {
    /// Reads the lines of `Cache-Control`.
    pub fn read<'v>(lines: impl Iterator<Item = &'v [u8]>) -> RequestDirectives {
        let mut found = RequestDirectives::default();
        for (name, argument) in lines.flat_map(Directives) {
            match &name.to_ascii_lowercase()[..] {
                b"no-cache" => found.no_cache = true,
                b"no-store" => found.no_store = true,
                b"only-if-cached" => found.only_if_cached = true,
                b"max-age" => found.max_age = found.max_age.or(Seconds::of(&argument).valid()),
                b"min-fresh" => {
                    found.min_fresh = found.min_fresh.or(Seconds::of(&argument).valid());
                }
                b"max-stale" => {
                    let seconds = match argument {
                        Argument::Missing => Some(MAX_SECONDS),
                        _ => Seconds::of(&argument).valid(),
                    };
                    found.max_stale = found.max_stale.or(seconds);
                }
                _ => {}
            }
        }
        found
    }
}

/// What stands behind the name of a directive.
#[derive(Debug, PartialEq, Eq)]
enum Argument<'v> {
    /// Nothing.
    Missing,
    /// A token, or a string without its quotes.
    Text(Cow<'v, [u8]>),
    /// Something that is neither.
    Malformed,
}

/// The directives of one line.
struct Directives<'v>(&'v [u8]);

impl<'v> Iterator for Directives<'v> {
    type Item = (&'v [u8], Argument<'v>);

    fn next(&mut self) -> Option<(&'v [u8], Argument<'v>)> {
        loop {
            if self.0.is_empty() {
                return None;
            }
            let end = member_end(self.0);
            let member = self.0[..end].trim_ascii();
            self.0 = self.0.get(end + 1..).unwrap_or_default();
            if member.is_empty() {
                continue;
            }
            let Some(equals) = memchr::memchr(b'=', member) else {
                return Some((member, Argument::Missing));
            };
            let (name, text) = (&member[..equals], &member[equals + 1..]);
            let trimmed = name.trim_ascii_end();
            let argument = match trimmed.len() == name.len() {
                true => argument(text),
                false => Argument::Malformed,
            };
            return Some((trimmed, argument));
        }
    }
}

/// Where the first member of a list ends: at a comma that is not within quotes. Quotes that do not
/// end are no quotes, so that they hide nothing.
fn member_end(list: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = list.get(at) {
        match byte {
            b',' => return at,
            b'"' => at = string_end(list, at).unwrap_or(at),
            _ => {}
        }
        at += 1;
    }
    list.len()
}

/// The position of the quote that ends the string which begins here.
fn string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return Some(at),
            b'\\' => at += 1,
            _ => {}
        }
        at += 1;
    }
    None
}

fn argument(text: &[u8]) -> Argument<'_> {
    let Some(inside) = text.strip_prefix(b"\"") else {
        let is_token = !text.is_empty() && text.iter().all(|byte| is_token_byte(*byte));
        return match is_token {
            true => Argument::Text(text.into()),
            false => Argument::Malformed,
        };
    };
    if string_end(text, 0) != Some(text.len() - 1) {
        return Argument::Malformed;
    }
    let inside = &inside[..inside.len() - 1];
    if memchr::memchr(b'\\', inside).is_none() {
        return Argument::Text(inside.into());
    }
    let mut bytes = inside.iter().copied();
    let mut out = Vec::with_capacity(inside.len());
    while let Some(byte) = bytes.next() {
        out.extend(match byte {
            b'\\' => bytes.next(),
            byte => Some(byte),
        });
    }
    Argument::Text(out.into())
}

fn is_token_byte(byte: u8) -> bool {
    crate::headers::is_token(&[byte])
}

#[cfg(test)]
mod tests;
