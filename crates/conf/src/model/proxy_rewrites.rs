//! Changes of `proxy_*` to header fields of a response: `proxy_redirect` and
//! `proxy_cookie_*`.

use super::Template;
use crate::regex::Regex;

/// One `proxy_redirect`, for Location and Refresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectRewrite {
    /// What the URL must begin with, or match.
    pub pattern: RewritePattern,
    /// What replaces the part that the pattern covers (the whole
    /// URL, for an expression).
    pub replacement: Template,
}

/// One `proxy_cookie_domain` or `proxy_cookie_path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieRewrite {
    /// For a domain the whole value, without its leading dot and ignoring case; for
    /// a path a prefix; or an expression.
    pub pattern: RewritePattern,
    /// The replacement.
    pub replacement: Template,
}

/// What a rewriting rule looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewritePattern {
    /// Text, maybe with variables.
    Text(Template),
    /// `~` or `~*` and an expression; its groups may be in the replacement.
    Regex(Regex),
}

/// One `proxy_cookie_flags`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieFlagsRule {
    /// The cookie's name, or an expression (without regard to case).
    pub cookie: RewritePattern,
    /// Words for [`CookieFlag::parse`]; an empty one does nothing.
    pub flags: Vec<Template>,
}

/// A word of `proxy_cookie_flags`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CookieFlag {
    /// `secure` (true) or `nosecure`.
    Secure(bool),
    /// `httponly` (true) or `nohttponly`.
    HttpOnly(bool),
    /// `samesite=`.
    SameSite(SameSite),
    /// `nosamesite`.
    NoSameSite,
}

/// Values of the SameSite attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SameSite {
    /// `strict`.
    Strict,
    /// `lax`.
    Lax,
    /// `none`.
    None,
}

impl CookieFlag {
    /// Reads a word, in any case.
    pub fn parse(word: &[u8]) -> Option<CookieFlag> {
        Some(match word.to_ascii_lowercase().as_slice() {
            b"secure" => CookieFlag::Secure(true),
            b"nosecure" => CookieFlag::Secure(false),
            b"httponly" => CookieFlag::HttpOnly(true),
            b"nohttponly" => CookieFlag::HttpOnly(false),
            b"samesite=strict" => CookieFlag::SameSite(SameSite::Strict),
            b"samesite=lax" => CookieFlag::SameSite(SameSite::Lax),
            b"samesite=none" => CookieFlag::SameSite(SameSite::None),
            b"nosamesite" => CookieFlag::NoSameSite,
            _ => return None,
        })
    }
}
