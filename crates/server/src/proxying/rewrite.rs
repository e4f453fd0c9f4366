//! `proxy_redirect`, `proxy_cookie_domain`, `proxy_cookie_path`, `proxy_cookie_flags`:
//! translate what a peer says about itself into addresses that clients can use.

use crate::exchange::Exchange;
use crate::request_log::log_request;
use crate::template;
use sealane_conf::model::{
    CookieFlagsRule, CookieRewrite, ProxyPass, RedirectRewrite, RewritePattern, Template,
};
use sealane_conf::regex::Regex;
use sealane_http::headers::KnownHeader;
use sealane_http::rewrite::{CookieFlags, SetCookie, refresh_url, replace, replace_prefix};

/// The value of a header with the rules applied; `None` when none of them changes it.
pub(super) fn rewrite(
    exchange: &mut Exchange,
    pass: &ProxyPass,
    name: KnownHeader,
    value: &[u8],
) -> Option<Vec<u8>> {
    match name {
        KnownHeader::Location => redirect(exchange, &pass.redirects, value, 0),
        // Only the URL is considered; without one there is nothing to rewrite.
        KnownHeader::Refresh => {
            let url = refresh_url(value)?;
            redirect(exchange, &pass.redirects, value, url.start)
        }
        KnownHeader::SetCookie => set_cookie(exchange, pass, value),
        _ => None,
    }
}

/// The first rule that matches the URL at `start`.
fn redirect(
    exchange: &mut Exchange,
    rules: &[RedirectRewrite],
    value: &[u8],
    start: usize,
) -> Option<Vec<u8>> {
    rules.iter().find_map(|rule| {
        let url = start..value.len();
        match &rule.pattern {
            RewritePattern::Text(pattern) => {
                let pattern = template::evaluate(pattern, exchange);
                if !value[url.clone()].starts_with(&pattern) {
                    return None;
                }
                let replacement = template::evaluate(&rule.replacement, exchange);
                replace_prefix(value, url, &pattern, &replacement)
            }
            RewritePattern::Regex(regex) => {
                let replacement = matched(exchange, regex, &value[url.clone()], &rule.replacement)?;
                Some(replace(value, url, &replacement))
            }
        }
    })
}

/// Domains, paths and flags of one `Set-Cookie`.
fn set_cookie(exchange: &mut Exchange, pass: &ProxyPass, value: &[u8]) -> Option<Vec<u8>> {
    let has_rules = !pass.cookie_domains.is_empty()
        || !pass.cookie_paths.is_empty()
        || !pass.cookie_flags.is_empty();
    if !has_rules {
        return None;
    }
    let mut cookie = SetCookie::parse(value)?;
    let mut changes = Vec::new();
    for (index, domain) in cookie.values(b"domain") {
        if let Some(changed) = first_rule(exchange, &pass.cookie_domains, domain, domain_text) {
            changes.push((index, changed));
        }
    }
    for (index, path) in cookie.values(b"path") {
        if let Some(changed) = first_rule(exchange, &pass.cookie_paths, path, path_text) {
            changes.push((index, changed));
        }
    }
    for (index, changed) in changes {
        cookie.set_value(index, changed);
    }
    if let Some(flags) = flags_for(exchange, &pass.cookie_flags, cookie.name()) {
        cookie.apply(flags);
    }
    cookie.finish()
}

/// How a rule without an expression changes a value.
type ReplaceText = fn(value: &[u8], pattern: &[u8], replacement: &[u8]) -> Option<Vec<u8>>;

fn domain_text(value: &[u8], pattern: &[u8], replacement: &[u8]) -> Option<Vec<u8>> {
    let part = SetCookie::match_domain(value, pattern)?;
    Some(replace(value, part, replacement))
}

fn path_text(value: &[u8], pattern: &[u8], replacement: &[u8]) -> Option<Vec<u8>> {
    replace_prefix(value, 0..value.len(), pattern, replacement)
}

fn first_rule(
    exchange: &mut Exchange,
    rules: &[CookieRewrite],
    value: &[u8],
    replace_text: ReplaceText,
) -> Option<Vec<u8>> {
    rules.iter().find_map(|rule| match &rule.pattern {
        RewritePattern::Text(pattern) => {
            let pattern = template::evaluate(pattern, exchange);
            let replacement = template::evaluate(&rule.replacement, exchange);
            replace_text(value, &pattern, &replacement)
        }
        RewritePattern::Regex(regex) => matched(exchange, regex, value, &rule.replacement),
    })
}

/// The flags of the first rule for a cookie of this name.
fn flags_for(
    exchange: &mut Exchange,
    rules: &[CookieFlagsRule],
    name: &[u8],
) -> Option<CookieFlags> {
    let rule = rules.iter().find(|rule| match &rule.cookie {
        RewritePattern::Text(pattern) => {
            template::evaluate(pattern, exchange).eq_ignore_ascii_case(name)
        }
        RewritePattern::Regex(regex) => remember_match(exchange, regex, name),
    })?;
    let mut flags = CookieFlags::default();
    for flag in &rule.flags {
        // As in nginx, a flag with variables may turn out to be none.
        let _ = flags.add(&template::evaluate(flag, exchange));
    }
    Some(flags)
}

/// The replacement for a text that an expression matches.
fn matched(
    exchange: &mut Exchange,
    regex: &Regex,
    text: &[u8],
    replacement: &Template,
) -> Option<Vec<u8>> {
    remember_match(exchange, regex, text)
        .then(|| template::evaluate(replacement, exchange).into_owned())
}

/// Whether an expression matches. As after any other match, its groups are `$1` and so on from then
/// on.
fn remember_match(exchange: &mut Exchange, regex: &Regex, text: &[u8]) -> bool {
    match regex.captures(text) {
        Ok(Some(captures)) => {
            exchange.request.values.store(regex, captures, text);
            true
        }
        Ok(None) => false,
        Err(reason) => {
            let pattern = regex.pattern();
            let text = text.escape_ascii();
            log_request!(
                exchange,
                Alert,
                "\"{pattern}\" could not be matched against \"{text}\" of the upstream: {reason}; \
                 use an expression that backtracks less"
            );
            false
        }
    }
}
