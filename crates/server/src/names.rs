//! Selects the server for a name on a listener.
//!
//! The order is nginx's: an exact name, the longest wildcard that begins with an asterisk, the
//! longest that ends with one, the first regular expression in the order of the configuration,
//! the default server.

use crate::snapshot::ServerId;
use crate::values::Values;
use sealane_conf::model::ServerName;
use sealane_conf::regex::Regex;
use std::collections::HashMap;

/// The names of all servers on one address.
#[derive(Debug, Default, Clone)]
pub struct ServerNames {
    exact: HashMap<Box<[u8]>, ServerId>,
    /// `.example.org` (with its dot): matches what ends in it.
    suffixes: HashMap<Box<[u8]>, ServerId>,
    /// `www.example.` (with its dot): matches what begins with it.
    prefixes: HashMap<Box<[u8]>, ServerId>,
    regexes: Vec<(Regex, ServerId)>,
    default: Option<ServerId>,
    /// Some name selects another server than the default.
    is_needed: bool,
}

impl ServerNames {
    /// No names: `default` serves all.
    pub fn new(default: ServerId) -> ServerNames {
        ServerNames {
            default: Some(default),
            ..ServerNames::default()
        }
    }

    /// Adds a server's name. The first server to claim a name keeps it, as in
    /// nginx, which has warned about the conflict already.
    pub fn add(&mut self, name: &ServerName, server: ServerId) {
        let mut claim = |names: &mut HashMap<Box<[u8]>, ServerId>, text: &str| {
            let kept = *names.entry(text.as_bytes().into()).or_insert(server);
            self.is_needed |= Some(kept) != self.default;
        };
        match name {
            ServerName::Exact(text) => claim(&mut self.exact, text),
            ServerName::WildcardPrefix(suffix) => claim(&mut self.suffixes, suffix),
            ServerName::Dot(suffix) => {
                claim(&mut self.suffixes, suffix);
                claim(&mut self.exact, &suffix[1..]);
            }
            ServerName::WildcardSuffix(prefix) => claim(&mut self.prefixes, prefix),
            ServerName::Regex(regex) => {
                self.regexes.push((regex.clone(), server));
                // Its groups are variables, whichever server defines it.
                self.is_needed = true;
            }
        }
    }

    /// The server for names that match nothing.
    pub fn default_server(&self) -> ServerId {
        self.default.unwrap_or(ServerId(0))
    }

    /// Whether every name selects the same server, so that no search is needed.
    pub fn is_single(&self) -> bool {
        !self.is_needed
    }

    /// The server for a host name in lower case without a port. Captures of a
    /// regular expression are stored into `values`.
    pub fn find(&self, host: &[u8], values: Option<&Values>) -> ServerId {
        self.find_named(host, values)
            .unwrap_or_else(|| self.default_server())
    }

    /// Whether a host name matches one of these names, rather than being served by default.
    pub fn has(&self, host: &[u8]) -> bool {
        self.find_named(host, None).is_some()
    }

    fn find_named(&self, host: &[u8], values: Option<&Values>) -> Option<ServerId> {
        if let Some(server) = self.exact.get(host) {
            return Some(*server);
        }
        if host.is_empty() {
            return None;
        }
        if !self.suffixes.is_empty() {
            // From the left, so that the longest suffix is found first. A name must not begin with
            // the suffix's dot: the `*` has to match something.
            let longest = dots(host)
                .filter(|at| *at > 0)
                .find_map(|at| self.suffixes.get(&host[at..]));
            if longest.is_some() {
                return longest.copied();
            }
        }
        if !self.prefixes.is_empty() {
            let longest = dots(host)
                .filter(|at| at + 1 < host.len())
                .filter_map(|at| self.prefixes.get(&host[..=at]))
                .last();
            if longest.is_some() {
                return longest.copied();
            }
        }
        self.find_regex(host, values)
    }

    fn find_regex(&self, host: &[u8], values: Option<&Values>) -> Option<ServerId> {
        for (regex, server) in &self.regexes {
            // A match that exceeded the backtracking limit counts as none; the default server
            // refuses whatever this one would.
            if let Ok(Some(found)) = regex.captures(host) {
                if let Some(values) = values {
                    values.store(regex, found, host);
                }
                return Some(*server);
            }
        }
        None
    }
}

fn dots(host: &[u8]) -> impl Iterator<Item = usize> {
    memchr::memchr_iter(b'.', host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> ServerNames {
        let mut names = ServerNames::new(ServerId(0));
        let exact = |s: &str| ServerName::Exact(s.into());
        names.add(&exact("example.org"), ServerId(1));
        names.add(&exact("example.org"), ServerId(9));
        names.add(
            &ServerName::WildcardPrefix(".example.org".into()),
            ServerId(2),
        );
        names.add(
            &ServerName::WildcardPrefix(".sub.example.org".into()),
            ServerId(3),
        );
        names.add(
            &ServerName::WildcardSuffix("www.example.".into()),
            ServerId(4),
        );
        names.add(&ServerName::WildcardSuffix("www.".into()), ServerId(5));
        names.add(&ServerName::Dot(".example.net".into()), ServerId(6));
        let regex = Regex::new(r"^(?<user>\w+)\.users\.test$", false, |_| 3).expect("valid");
        names.add(&ServerName::Regex(regex), ServerId(7));
        names
    }

    #[test]
    fn order_of_preference() {
        let names = names();
        for (host, want) in [
            ("example.org", 1),
            ("a.example.org", 2),
            ("b.a.example.org", 2),
            ("a.sub.example.org", 3),
            ("sub.example.org", 2),
            ("www.example.org", 2),
            ("www.example.com", 4),
            ("www.example.co.uk", 4),
            ("www.other.com", 5),
            ("example.net", 6),
            ("x.example.net", 6),
            (".example.net", 0),
            ("notexample.net", 0),
            ("anna.users.test", 7),
            ("an-na.users.test", 0),
            ("www.", 0),
            ("", 0),
        ] {
            assert_eq!(names.find(host.as_bytes(), None), ServerId(want), "{host}");
        }
    }

    #[test]
    fn captures_of_a_name() {
        let values = Values::default();
        names().find(b"anna.users.test", Some(&values));
        let mut out = Vec::new();
        assert!(values.append_group(1, &mut out));
        assert_eq!(values.append(3, &mut out), Some(true));
        assert_eq!(out, b"annaanna");
    }

    #[test]
    fn a_single_server_needs_no_look() {
        let mut names = ServerNames::new(ServerId(4));
        assert!(names.is_single());
        names.add(&ServerName::Exact("a".into()), ServerId(4));
        assert!(names.is_single());
        names.add(&ServerName::Exact("b".into()), ServerId(5));
        assert!(!names.is_single());
    }
}
