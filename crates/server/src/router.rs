//! Selects the location for a URI: nginx's rules, compiled for fast look-up.
//!
//! Within a level, an exact location wins. Otherwise the longest prefix is remembered and its
//! nested locations are searched in the same way. Then, unless that prefix has `^~`, the regular
//! expressions of the level are tried in order, and the first match wins, or a location nested in
//! it. An expression of a nested level is therefore tried before those of the levels around it.
//! Reference: the `location` directive, and `ngx_http_core_find_location()` where the manual is
//! not specific.

use crate::snapshot::LocationId;
use sealane_conf::model::{Location, Locations, Matcher};
use sealane_conf::regex::{Captures, MatchError, Regex};
use std::collections::HashMap;
use std::sync::Arc;

/// The locations of one server.
#[derive(Debug, Default)]
pub struct LocationTree {
    root: LocationLevel,
    named: HashMap<Box<str>, LocationId>,
}

/// The location for a URI.
#[derive(Debug, Default)]
pub struct LocationMatch<'t> {
    /// The location; `None` when the server's own settings hold.
    pub location: Option<LocationId>,
    /// The expression that chose it, and where its groups matched in the URI.
    pub captures: Option<(&'t Regex, Captures)>,
    /// Expressions of the enclosing levels that matched before and have named groups, which keep
    /// their values.
    pub around: Vec<(&'t Regex, Captures)>,
    /// The location ends with a slash that the URI lacks: redirect there (`proxy_pass` and the
    /// like).
    pub lacks_slash: bool,
}

/// An expression could not be evaluated; the request is answered with 500.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteError {
    /// The expression as written.
    pub pattern: String,
    /// Why PCRE2 gave up.
    pub reason: MatchError,
}

/// The locations of one level.
#[derive(Debug, Default)]
struct LocationLevel {
    /// Sorted by URI.
    exact: Vec<(Box<[u8]>, LocationId)>,
    /// Sorted by prefix.
    prefixes: Vec<Prefix>,
    /// In the order of the configuration.
    regexes: Vec<Expression>,
    /// URIs that lack only the slash of a location that redirects, and have no location of their
    /// own; sorted.
    slashless: Vec<(Box<[u8]>, LocationId)>,
}

#[derive(Debug)]
struct Prefix {
    bytes: Box<[u8]>,
    /// The longest other prefix of the level that this one begins with.
    shorter: Option<usize>,
    /// `^~`.
    stop: bool,
    id: LocationId,
    nested: Option<Box<LocationLevel>>,
}

#[derive(Debug)]
struct Expression {
    regex: Regex,
    id: LocationId,
    nested: Option<Box<LocationLevel>>,
}

/// The result of a search within one level.
enum SearchEnd {
    /// An exact location or an expression: no other level is searched.
    Final,
    /// At most a prefix: the expressions of the enclosing level may still win.
    Open,
}

impl LocationTree {
    /// Compiles the locations of a server. `register` is called once for every
    /// location, outer ones first, and gives it its index.
    pub fn build(
        locations: &Locations,
        register: &mut impl FnMut(Arc<Location>) -> LocationId,
    ) -> LocationTree {
        let mut builder = Builder {
            register,
            named: HashMap::new(),
        };
        let root = builder.level(locations);
        LocationTree {
            root,
            named: builder.named,
        }
    }

    /// The location for a normalised URI.
    ///
    /// # Errors
    /// When an expression exceeds PCRE2's limits on this URI.
    pub fn find(&self, uri: &[u8]) -> Result<LocationMatch<'_>, RouteError> {
        let mut found = LocationMatch::default();
        self.root.search(uri, &mut found)?;
        Ok(found)
    }

    /// The location `@name` (without the `@`).
    pub fn named(&self, name: &str) -> Option<LocationId> {
        self.named.get(name).copied()
    }
}

impl LocationLevel {
    fn search<'t>(
        &'t self,
        uri: &[u8],
        found: &mut LocationMatch<'t>,
    ) -> Result<SearchEnd, RouteError> {
        if let Ok(at) = self.exact.binary_search_by(|(exact, _)| (**exact).cmp(uri)) {
            found.location = Some(self.exact[at].1);
            return Ok(SearchEnd::Final);
        }
        if let Ok(at) = self
            .slashless
            .binary_search_by(|(missing, _)| (**missing).cmp(uri))
        {
            found.location = Some(self.slashless[at].1);
            found.lacks_slash = true;
            return Ok(SearchEnd::Final);
        }
        let mut stop = false;
        if let Some(prefix) = self.longest_prefix(uri) {
            found.location = Some(prefix.id);
            stop = prefix.stop;
            if let Some(nested) = &prefix.nested
                && let SearchEnd::Final = nested.search(uri, found)?
            {
                return Ok(SearchEnd::Final);
            }
        }
        if !stop {
            for expression in &self.regexes {
                if expression.matches(uri, found)? {
                    found.location = Some(expression.id);
                    if let Some(nested) = &expression.nested {
                        nested.search(uri, found)?;
                    }
                    return Ok(SearchEnd::Final);
                }
            }
        }
        Ok(SearchEnd::Open)
    }

    /// The greatest prefix that is not greater than the URI begins with every listed prefix of the
    /// URI, so the result is in its chain.
    fn longest_prefix(&self, uri: &[u8]) -> Option<&Prefix> {
        let after = self
            .prefixes
            .partition_point(|prefix| *prefix.bytes <= *uri);
        let mut candidate = after.checked_sub(1);
        while let Some(index) = candidate {
            let prefix = &self.prefixes[index];
            if uri.starts_with(&prefix.bytes) {
                return Some(prefix);
            }
            candidate = prefix.shorter;
        }
        None
    }
}

impl<'t> LocationMatch<'t> {
    fn keep(&mut self, regex: &'t Regex, captures: Captures) {
        let before = self.captures.replace((regex, captures));
        let named = before.filter(|(regex, _)| !regex.named_groups().is_empty());
        self.around.extend(named);
    }
}

impl Expression {
    fn matches<'t>(
        &'t self,
        uri: &[u8],
        found: &mut LocationMatch<'t>,
    ) -> Result<bool, RouteError> {
        let fail = |reason| RouteError {
            pattern: self.regex.pattern().to_owned(),
            reason,
        };
        // Without groups to keep, the cheaper test is enough.
        if self.regex.group_count() <= 1 {
            let matched = self.regex.is_match(uri).map_err(fail)?;
            if matched {
                found.keep(&self.regex, Captures::default());
            }
            return Ok(matched);
        }
        let Some(captures) = self.regex.captures(uri).map_err(fail)? else {
            return Ok(false);
        };
        found.keep(&self.regex, captures);
        Ok(true)
    }
}

struct Builder<'r, R> {
    register: &'r mut R,
    named: HashMap<Box<str>, LocationId>,
}

impl<R: FnMut(Arc<Location>) -> LocationId> Builder<'_, R> {
    fn level(&mut self, locations: &Locations) -> LocationLevel {
        let mut level = LocationLevel::default();
        for location in locations.all() {
            let id = (self.register)(location.clone());
            let nested = self.nested(&location.children);
            if location.conf.auto_redirect
                && let Matcher::Exact(uri) | Matcher::Prefix { prefix: uri, .. } = &location.matcher
                && let Some(missing) = uri.strip_suffix(b"/")
            {
                level.slashless.push((missing.into(), id));
            }
            match &location.matcher {
                Matcher::Exact(uri) => level.exact.push((uri.clone(), id)),
                Matcher::Prefix { prefix, stop } => {
                    let bytes = prefix.clone();
                    level.prefixes.push(Prefix {
                        bytes,
                        shorter: None,
                        stop: *stop,
                        id,
                        nested,
                    });
                }
                Matcher::Regex(regex) => {
                    level.regexes.push(Expression {
                        regex: regex.clone(),
                        id,
                        nested,
                    });
                }
                Matcher::Named(name) => {
                    self.named.insert(name.clone(), id);
                }
            }
        }
        level.exact.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        link_prefixes(&mut level.prefixes);
        let has_own = |uri: &[u8]| {
            let prefix = |prefix: &Prefix| (*prefix.bytes).cmp(uri);
            level.prefixes.binary_search_by(prefix).is_ok()
        };
        level.slashless.retain(|(uri, _)| !has_own(uri));
        for (uri, id) in &mut level.slashless {
            // Of two locations with the same URI, the exact one is the target of the redirect.
            let whole = [&**uri, b"/"].concat();
            let exact = level
                .exact
                .binary_search_by(|(exact, _)| (**exact).cmp(&whole));
            if let Ok(at) = exact {
                *id = level.exact[at].1;
            }
        }
        level.slashless.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        level
    }

    fn nested(&mut self, children: &Locations) -> Option<Box<LocationLevel>> {
        let childless =
            children.exact.is_empty() && children.prefix.is_empty() && children.regex.is_empty();
        (!childless).then(|| Box::new(self.level(children)))
    }
}

/// Sorts the prefixes, and finds the longest other prefix of each.
fn link_prefixes(prefixes: &mut [Prefix]) {
    prefixes.sort_by(|a, b| a.bytes.cmp(&b.bytes));
    // In sorted order the prefixes of an entry are on the chain of its predecessor.
    for index in 1..prefixes.len() {
        let (before, rest) = prefixes.split_at_mut(index);
        let mut candidate = Some(index - 1);
        while let Some(at) = candidate
            && !rest[0].bytes.starts_with(&before[at].bytes)
        {
            candidate = before[at].shorter;
        }
        rest[0].shorter = candidate;
    }
}

#[cfg(test)]
mod tests;
