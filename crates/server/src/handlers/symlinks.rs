//! `disable_symlinks`: which symbolic links may be followed.

use super::path::FilePath;
use crate::exchange::Exchange;
use crate::template;
use sealane_conf::model::FollowedSymlinks;
use sealane_io::open_file::LinkRule;
use sealane_sys::links::Links;

/// The rule of `disable_symlinks` for a path; `None` if every link is followed.
///
/// `from=` applies if the path begins with it and a name ends there. As in nginx there is no rule
/// at all for a path that is equal to it.
pub(crate) fn rule(exchange: &Exchange, path: &FilePath) -> Option<LinkRule> {
    let settings = exchange.conf().disable_symlinks.as_deref()?;
    let mut rule = LinkRule {
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

/// The cache key of a path under a rule: the path, a NUL, which no path contains, and the rule.
pub(super) fn cache_key(rule: LinkRule, path: &FilePath) -> Vec<u8> {
    let links = match rule.links {
        Links::Never => 0,
        Links::OfTheOwner => 1,
    };
    let trusted = rule.trusted_bytes.to_ne_bytes();
    [path.nul_terminated(), &[links], &trusted].concat()
}
