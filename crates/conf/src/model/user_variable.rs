//! Variables that the configuration itself defines.

use super::{Geo, GeoIp2Variable, ServerKind, SplitClients, Template, UserAgents, Variable};
use crate::regex::Regex;
use std::collections::HashMap;
use std::sync::Arc;

/// A variable that the configuration defines; [`Variable::User`] is an index into
/// [`super::Http::variables`].
#[derive(Debug, Clone)]
pub struct UserVariable {
    /// The block that defines it.
    pub kind: ServerKind,
    /// Its name in lower case, without the `$`.
    pub name: Box<str>,
    /// Where its value comes from while nothing has assigned one to it (`set`, a named
    /// group of an expression, `auth_request_set`).
    pub getter: Getter,
}

/// Where the value of a variable comes from.
#[derive(Debug, Clone)]
pub enum Getter {
    /// There is none.
    Absent,
    /// It is empty, which `uninitialized_variable_warn` warns about: only `set` defines it.
    Uninitialized,
    /// It is another variable's: that of the same name that exists without being defined.
    Same(Variable),
    /// `map`.
    Map(Arc<Map>),
    /// `geo`.
    Geo(Arc<Geo>),
    /// `geoip2`.
    GeoIp2(Arc<GeoIp2Variable>),
    /// `split_clients`.
    Split(Arc<SplitClients>),
    /// `user_agent`.
    UserAgent(Arc<UserAgents>),
}

/// A `map` block.
#[derive(Debug, Clone, Default)]
pub struct Map {
    /// What is looked up.
    pub source: Template,
    /// `volatile`: the value is not kept for the rest of the request.
    pub volatile: bool,
    /// `hostnames`: a dot at the end of the source does not count.
    pub hostnames: bool,
    /// Values by their whole text, in lower case.
    pub exact: HashMap<Box<[u8]>, Template>,
    /// `*.example.org`: values by what follows the star and its dot.
    pub suffixes: HashMap<Box<[u8]>, Template>,
    /// `www.example.*`: values by what precedes the dot and the star.
    pub prefixes: HashMap<Box<[u8]>, Template>,
    /// Expressions in the order of the configuration.
    pub expressions: Vec<(Regex, Template)>,
    /// `default`; empty when it is not given.
    pub default: Template,
}

impl Map {
    /// The value for a source in lower case, expressions aside.
    pub fn value(&self, source: &[u8]) -> Option<&Template> {
        if let Some(value) = self.exact.get(source) {
            return Some(value);
        }
        let dots = || memchr::memchr_iter(b'.', source);
        if !self.suffixes.is_empty() {
            let longest = dots().find_map(|at| self.suffixes.get(&source[at + 1..]));
            if longest.is_some() {
                return longest;
            }
        }
        if self.prefixes.is_empty() {
            return None;
        }
        dots().rev().find_map(|at| self.prefixes.get(&source[..at]))
    }
}
