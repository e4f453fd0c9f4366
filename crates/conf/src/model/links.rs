//! Where a request comes from: `secure_link` and `valid_referers`.

use super::Template;
use crate::regex::Regex;
use std::collections::HashMap;
use std::fmt;

/// `secure_link` and the like: links cannot be guessed.
#[derive(Clone, PartialEq, Eq)]
pub enum SecureLink {
    /// `secure_link` and `secure_link_md5`.
    Hash {
        /// The hash that the request has, in base64url, and after a comma until when it holds.
        value: Template,
        /// What it is the MD5 of.
        of: Template,
    },
    /// `secure_link_secret`: the hash is in the URI, before the link.
    Secret(Box<[u8]>),
}

impl fmt::Debug for SecureLink {
    /// Secrets are not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecureLink(..)")
    }
}

/// `valid_referers`.
#[derive(Debug, Clone, Default)]
pub struct ValidReferers {
    /// `none`: a request without the header is valid.
    pub none: bool,
    /// `blocked`: so is a header that is no URL of HTTP.
    pub blocked: bool,
    /// `server_names`: so are the names of the server.
    pub server_names: bool,
    /// Hosts, with the required prefix of the path, if any.
    pub hosts: Hosts<Option<Box<[u8]>>>,
    /// Expressions, matched against what follows the scheme.
    pub expressions: Vec<Regex>,
}

impl ValidReferers {
    /// Whether no names are configured: nginx then considers every request valid.
    pub fn is_empty(&self) -> bool {
        !self.server_names && self.hosts.is_empty() && self.expressions.is_empty()
    }
}

/// Values by host names in lower case, with wildcards at either end.
#[derive(Debug, Clone)]
pub struct Hosts<V> {
    /// By the whole name.
    pub exact: HashMap<Box<[u8]>, V>,
    /// `*.example.org`: by what follows the star and its dot.
    pub suffixes: HashMap<Box<[u8]>, V>,
    /// `www.example.*`: by what precedes the dot and the star.
    pub prefixes: HashMap<Box<[u8]>, V>,
}

impl<V> Default for Hosts<V> {
    fn default() -> Hosts<V> {
        Hosts {
            exact: HashMap::new(),
            suffixes: HashMap::new(),
            prefixes: HashMap::new(),
        }
    }
}

impl<V> Hosts<V> {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.suffixes.is_empty() && self.prefixes.is_empty()
    }

    /// The value for a name: the whole one, then the longest wildcard, the star in front first.
    pub fn value(&self, name: &[u8]) -> Option<&V> {
        let dots = || memchr::memchr_iter(b'.', name);
        self.exact
            .get(name)
            .or_else(|| dots().find_map(|at| self.suffixes.get(&name[at + 1..])))
            .or_else(|| dots().rev().find_map(|at| self.prefixes.get(&name[..at])))
    }
}
