//! `disable_symlinks`: which symbolic links may be followed.

use super::path::FilePath;
use crate::exchange::Exchange;
use crate::template;
use sealane_conf::model::FollowedSymlinks;
use sealane_sys::links::Links;

/// The rule for one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SymlinkRule {
    /// Links within this many bytes from the beginning of the path are followed.
    pub(crate) trusted_bytes: usize,
    /// Which are followed behind.
    pub(crate) links: Links,
}

/// The rule of `disable_symlinks` for a path; `None` if every link is followed.
///
/// `from=` applies if the path begins with it and a name ends there. As in nginx there is no rule
/// at all for a path that is equal to it.
pub(crate) fn rule(exchange: &Exchange, path: &FilePath) -> Option<SymlinkRule> {
    let settings = exchange.conf().disable_symlinks.as_deref()?;
    let mut rule = SymlinkRule {
        trusted_bytes: 0,
        links: match settings.except {
            FollowedSymlinks::None => Links::Never,
            FollowedSymlinks::OfTheOwner => Links::OfTheOwner,
        },
    };
    let Some(from) = &settings.from else {
        return Some(rule);
    };
    let from = template::evaluate(from, exchange);
    match path.as_bytes().strip_prefix(&from[..]) {
        Some([]) => return None,
        Some([b'/', ..]) if !from.is_empty() => rule.trusted_bytes = from.len(),
        Some(_) if from.ends_with(b"/") => rule.trusted_bytes = from.len() - 1,
        _ => {}
    }
    Some(rule)
}

/// The system call that failed, for messages; as in nginx, another one if the rules apply.
pub(crate) fn call(exchange: &Exchange, otherwise: &'static str) -> &'static str {
    match exchange.conf().disable_symlinks {
        None => otherwise,
        Some(_) => "openat()",
    }
}

impl SymlinkRule {
    /// The cache key of a path under this rule: the path, a NUL, which no path contains, and the
    /// rule.
    pub(super) fn cache_key(&self, path: &FilePath) -> Vec<u8> {
        let links = match self.links {
            Links::Never => 0,
            Links::OfTheOwner => 1,
        };
        let rule = self.trusted_bytes.to_ne_bytes();
        [path.nul_terminated(), &[links], &rule].concat()
    }
}
