//! `sticky`: clients that belong to a server of an upstream.

use super::{Template, Variable};
use std::time::Duration;

/// How a request names the server that its client belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sticky {
    /// `sticky cookie`: a cookie with the id of the server, set in every response.
    Cookie(Box<StickyCookie>),
    /// `sticky route`: the first of these variables with a value is the id of the server.
    Route(Vec<Variable>),
    /// `session_sticky`: a cookie as in Tengine.
    Session(Box<SessionSticky>),
    /// `sticky learn`: servers make sessions, and a zone knows where each one was made.
    Learn(Box<StickyLearn>),
}

/// The cookie of `sticky cookie`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StickyCookie {
    /// Its name.
    pub name: Box<str>,
    /// Its value in the request.
    pub received: Variable,
    /// `expires=`; without it, the cookie lives as long as the browser.
    pub expires: Option<StickyExpires>,
    /// `domain=`.
    pub domain: Option<Template>,
    /// `httponly`.
    pub http_only: bool,
    /// `secure`.
    pub secure: bool,
    /// `samesite=`; a value that is none of them at run time means `strict`.
    pub same_site: Option<Template>,
    /// `path=`.
    pub path: Option<Box<[u8]>>,
}

/// `expires=` of the cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StickyExpires {
    /// `max`: on 31 December 2037.
    Max,
    /// After so long.
    After(Duration),
}

/// `sticky learn`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StickyLearn {
    /// `create=`: the first one with a value names a session that a response makes.
    pub create: Vec<Variable>,
    /// `lookup=`: the first one with a value names the session of a request.
    pub lookup: Vec<Variable>,
    /// `zone=`.
    pub zone: Box<str>,
    /// Its size in bytes.
    pub zone_bytes: u64,
    /// `timeout=`: a session unused for this long is forgotten.
    pub timeout: Duration,
    /// `header`: sessions are learnt from the response head, not once the response is complete.
    pub after_header: bool,
    /// `sync`: nodes share the sessions.
    pub sync: bool,
}

/// Tengine's `session_sticky`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSticky {
    /// `cookie=`: its name; default `route`.
    pub cookie: Box<[u8]>,
    /// `domain=`.
    pub domain: Option<Box<[u8]>>,
    /// `path=`; default `/`.
    pub path: Box<[u8]>,
    /// `maxage=`, in seconds.
    pub max_age_s: Option<i64>,
    /// `mode=`.
    pub mode: SessionMode,
    /// `option=indirect`: servers do not get the cookie.
    pub indirect: bool,
    /// `maxidle=` and `maxlife=`: the cookie has times.
    pub limits: Option<SessionLimits>,
    /// `fallback=`: another server is asked if a client's own cannot be.
    pub fallback: bool,
    /// `hash=plain`: ids are written as they are.
    pub plain: bool,
}

/// `mode=` of `session_sticky`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionMode {
    /// A cookie is set.
    Insert,
    /// The id is put before the value of the server's cookie.
    Prefix,
    /// The id replaces the value of the server's cookie.
    Rewrite,
}

/// How long the cookie of `session_sticky` counts, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// `maxidle=`: since the last request.
    pub max_idle_s: i64,
    /// `maxlife=`: since the first one.
    pub max_life_s: i64,
}

/// Whether this is a value of the cookie attribute `SameSite`, in any case.
pub fn is_same_site(value: &[u8]) -> bool {
    let known = [b"strict".as_slice(), b"lax", b"none"];
    known.iter().any(|known| value.eq_ignore_ascii_case(known))
}
