//! ngx_http_proxy_module: changes to Location, Refresh and Set-Cookie of
//! responses.

use super::{Arity, HSL, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::draft::{RulesDraft, TargetDraft};
use crate::model::{
    CookieFlagsRule, CookieRewrite, Family, List, RedirectRewrite, RewritePattern, Template,
};
use crate::template;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "proxy_redirect",
        HSL,
        Arity::Between(1, 2),
        "default",
        "Prefix of the Location and Refresh fields of a response, and its replacement. With `~` or \
         `~*`, a regular expression and the replacement of the whole value. `default` replaces \
         the URL of `proxy_pass` with the location's prefix; `off` cancels all rules. May contain \
         variables.",
        redirect,
    ),
    Row::new(
        "proxy_cookie_domain",
        HSL,
        Arity::Between(1, 2),
        "off",
        "Domain in Set-Cookie, or a regular expression after `~`, and its replacement; `off` \
         cancels inherited directives. May contain variables.",
        |b, c| {
            let Some(pattern) = rule_pattern(b, c, |b| cookie_domains(b), domain_pattern)? else {
                return Ok(());
            };
            let text = matches!(pattern, RewritePattern::Text(_));
            let replacement = match c.arg(2) {
                [b'.', rest @ ..] if text => rest,
                whole => whole,
            };
            let replacement = template::compile(&mut b.names, replacement, 2, &c.origin)?;
            cookie_domains(b).push(CookieRewrite {
                pattern,
                replacement,
            });
            Ok(())
        },
    ),
    Row::new(
        "proxy_cookie_path",
        HSL,
        Arity::Between(1, 2),
        "off",
        "Path prefix in Set-Cookie, or a regular expression after `~` or `~*`, and its \
         replacement; `off` cancels inherited directives. May contain variables.",
        |b, c| {
            let pattern = rule_pattern(b, c, |b| cookie_paths(b), text_or_regex)?;
            let Some(pattern) = pattern else {
                return Ok(());
            };
            let replacement = template::compile(&mut b.names, c.arg(2), 2, &c.origin)?;
            cookie_paths(b).push(CookieRewrite {
                pattern,
                replacement,
            });
            Ok(())
        },
    ),
    Row::new(
        "proxy_cookie_flags",
        HSL,
        Arity::Between(1, 4),
        "off",
        "Name of a cookie, or a regular expression after `~`, and flags that are added to or \
         removed from its Set-Cookie: `secure`, `httponly`, `samesite=strict`, `samesite=lax`, \
         `samesite=none`, `nosecure`, `nohttponly`, `nosamesite`; `off` cancels inherited \
         directives. May contain variables.",
        |b, c| {
            let pattern = rule_pattern(b, c, |b| cookie_flags(b), caseless_regex)?;
            let Some(cookie) = pattern else {
                return Ok(());
            };
            let mut flags = Vec::with_capacity(c.count() - 1);
            for index in 2..=c.count() {
                flags.push(template::compile(
                    &mut b.names,
                    c.arg(index),
                    index,
                    &c.origin,
                )?);
            }
            cookie_flags(b).push(CookieFlagsRule { cookie, flags });
            Ok(())
        },
    ),
];

fn cookie_domains<'b>(b: &'b mut Build<'_>) -> &'b mut RulesDraft<CookieRewrite> {
    &mut b.location().passing.proxy.cookie_domains
}

fn cookie_paths<'b>(b: &'b mut Build<'_>) -> &'b mut RulesDraft<CookieRewrite> {
    &mut b.location().passing.proxy.cookie_paths
}

fn cookie_flags<'b>(b: &'b mut Build<'_>) -> &'b mut RulesDraft<CookieFlagsRule> {
    &mut b.location().passing.proxy.cookie_flags
}

impl<T: Clone> RulesDraft<T> {
    fn push(&mut self, rule: T) {
        match self {
            RulesDraft::Rules(rules) => rules.push(rule),
            RulesDraft::Unset | RulesDraft::Off => {
                *self = RulesDraft::Rules(List::from(vec![rule]));
            }
        }
    }
}

type ReadPattern = fn(&mut Build<'_>, &Call<'_>) -> Result<RewritePattern, Fault>;

/// The pattern of a rule; `None` when the one argument is `off`, which is noted.
fn rule_pattern<T>(
    b: &mut Build<'_>,
    c: &Call<'_>,
    rules: for<'b> fn(&'b mut Build<'_>) -> &'b mut RulesDraft<T>,
    read: ReadPattern,
) -> Result<Option<RewritePattern>, Fault> {
    if matches!(rules(b), RulesDraft::Off) {
        return Err(c.refuse("is duplicate"));
    }
    if c.count() > 1 {
        return read(b, c).map(Some);
    }
    if c.arg(1) != b"off" {
        return Err(c.invalid_parameter(1));
    }
    if matches!(rules(b), RulesDraft::Rules(_)) {
        return Err(c.refuse("is duplicate"));
    }
    *rules(b) = RulesDraft::Off;
    Ok(None)
}

/// `~expression`, `~*expression` or text.
fn text_or_regex(b: &mut Build<'_>, c: &Call<'_>) -> Result<RewritePattern, Fault> {
    match c.arg(1) {
        [b'~', b'*', expression @ ..] => regex(b, c, expression, true),
        [b'~', expression @ ..] => regex(b, c, expression, false),
        text => compiled(b, c, text),
    }
}

/// `~expression` without regard to case, or text.
fn caseless_regex(b: &mut Build<'_>, c: &Call<'_>) -> Result<RewritePattern, Fault> {
    match c.arg(1) {
        [b'~', expression @ ..] => regex(b, c, expression, true),
        text => compiled(b, c, text),
    }
}

/// The same, or a domain without its leading dot.
fn domain_pattern(b: &mut Build<'_>, c: &Call<'_>) -> Result<RewritePattern, Fault> {
    match c.arg(1) {
        [b'.', domain @ ..] => compiled(b, c, domain),
        _ => caseless_regex(b, c),
    }
}

fn compiled(b: &mut Build<'_>, c: &Call<'_>, text: &[u8]) -> Result<RewritePattern, Fault> {
    template::compile(&mut b.names, text, 1, &c.origin).map(RewritePattern::Text)
}

fn regex<'c>(
    b: &mut Build<'_>,
    c: &Call<'c>,
    expression: &'c [u8],
    caseless: bool,
) -> Result<RewritePattern, Fault> {
    let expression = c.utf8(1, expression)?;
    b.regex(expression, caseless, 1).map(RewritePattern::Regex)
}

fn redirect(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let redirects = &mut b.location().passing.proxy.redirects;
    if matches!(redirects, RulesDraft::Off) {
        return Err(c.refuse("is duplicate"));
    }
    if c.count() == 2 {
        let pattern = text_or_regex(b, c)?;
        let replacement = template::compile(&mut b.names, c.arg(2), 2, &c.origin)?;
        let redirects = &mut b.location().passing.proxy.redirects;
        redirects.push(RedirectRewrite {
            pattern,
            replacement,
        });
        return Ok(());
    }
    match c.arg(1) {
        b"off" => match redirects {
            RulesDraft::Rules(_) => return Err(c.refuse("is duplicate")),
            _ => *redirects = RulesDraft::Off,
        },
        b"default" => {
            let rule = match &b.location().passing.of(Family::Proxy).target {
                Some(target) => default_redirect(target).ok_or(
                    "\"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with \
                     variables",
                ),
                None => Err(
                    "\"proxy_redirect default\" should be placed after the \"proxy_pass\" directive",
                ),
            };
            let rule = rule.map_err(Fault::new)?;
            b.location().passing.proxy.redirects.push(rule);
        }
        _ => return Err(c.invalid_parameter(1)),
    }
    Ok(())
}

/// The rule of `proxy_redirect default`; none for a target with variables.
pub(crate) fn default_redirect(target: &TargetDraft) -> Option<RedirectRewrite> {
    let TargetDraft::Fixed(target) = target else {
        return None;
    };
    let mut url = target.url.to_vec();
    let mut prefix: &[u8] = &target.prefix;
    if target.uri.is_empty() {
        url.push(b'/');
        prefix = b"/";
    }
    Some(RedirectRewrite {
        pattern: RewritePattern::Text(Template::literal(url)),
        replacement: Template::literal(prefix),
    })
}
