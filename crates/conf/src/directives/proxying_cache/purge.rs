//! `*_cache_purge` in its three forms, and what belongs to ngx_cache_purge besides.
//!
//! nginx's commercial edition and the module have a directive of the same name. What the first
//! argument is decides: a value with a variable is the commercial one's. A value without one would
//! purge with every request there, so it is never meant so, except `0`, `1` and nothing, which are
//! no methods and no names of zones.

use super::super::access::add_rule;
use super::super::cache_paths::refer;
use super::super::proxying::{family, upstream};
use super::super::{Check, HSL, HTTP, Module, ONE, Row};
use super::compiled;
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::draft::{PurgeDraft, PurgeLocationDraft};
use crate::model::{AddressRules, ContentHandler, PurgeFormat, PurgeMethod};
use crate::template;
use std::sync::Arc;

/// What `on` stands for.
const METHOD: &str = "PURGE";

const AT_ONCE: &str = "a purge does not look at files, so there is nothing to put off; the directory of \
                       `proxy_cache_path` decides with `purger` how they are removed";
const VARIANTS: &str = "the variants of a key are always purged with it";

pub(in crate::directives) const MODULE: Module = Module {
    title: "HTTP: answers to purges",
    doc: "ngx_cache_purge, beside `proxy_cache_purge` and its relatives.",
    rows: &[
        Row::new(
            "cache_purge_response_type",
            HSL,
            ONE,
            "html",
            "What a successful purge is answered with, if `proxy_cache_purge` and its relatives \
             are used as in ngx_cache_purge: the key and `purged` as `html`, `json`, `xml` or \
             `text`.",
            |b, c| {
                let choices = [
                    ("html", PurgeFormat::Html),
                    ("json", PurgeFormat::Json),
                    ("xml", PurgeFormat::Xml),
                    ("text", PurgeFormat::Text),
                ];
                c.choice(&mut b.location().purge_format, &choices)
            },
        )
        .own(),
        Row::new(
            "cache_purge_legacy_status",
            HTTP,
            ONE,
            "off",
            "Whether a purge of a key that is not in the cache is answered with 412 in the place \
             of 404, if `proxy_cache_purge` and its relatives are used as in ngx_cache_purge. The \
             default is that of its first edition; its successor's is `on`.",
            |b, c| c.flag(&mut b.location().purge_legacy_status),
        )
        .own(),
        Row::meaningless(
            "cache_purge_background_queue",
            HTTP,
            ONE,
            Check::Flag,
            AT_ONCE,
        )
        .own(),
        Row::meaningless("cache_purge_queue_size", HTTP, ONE, Check::Number, AT_ONCE).own(),
        Row::meaningless("cache_purge_batch_size", HTTP, ONE, Check::Number, AT_ONCE).own(),
        Row::meaningless("cache_purge_throttle_ms", HTTP, ONE, Check::Time, AT_ONCE).own(),
        Row::meaningless("cache_purge_vary_aware", HTTP, ONE, Check::Flag, VARIANTS).own(),
    ],
};

/// `*_cache_purge`.
pub(in crate::directives) fn purge(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let is_value = |word: &[u8]| word.contains(&b'$') || matches!(word, b"" | b"0" | b"1");
    match c.count() {
        _ if is_value(c.arg(1)) => {
            if let Some((index, _)) = c.args().find(|(_, word)| !is_value(word)) {
                let help = "a value without variables would purge with every request";
                return Err(c.invalid_parameter(index).help(help));
            }
            values(b, c)
        }
        2 => location(b, c),
        _ => method(b, c),
    }
}

/// Values with variables; lines of a level add up.
fn values(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let found = compiled(b, c)?;
    let slot = &mut upstream(b, c).cache.purge;
    let earlier = match slot.take() {
        None => Default::default(),
        Some(PurgeDraft::Values(earlier)) => earlier,
        Some(_) => return Err(c.refuse("is duplicate")),
    };
    *slot = Some(PurgeDraft::Values(
        earlier.iter().cloned().chain(found).collect(),
    ));
    Ok(())
}

/// `on`, `off`, or a method, and who may.
fn method(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&upstream(b, c).cache.purge)?;
    if c.arg(1) == b"off" {
        if c.count() > 1 {
            return Err(c.invalid_parameter(2));
        }
        upstream(b, c).cache.purge = Some(PurgeDraft::Off);
        return Ok(());
    }
    let name = match c.text(1)? {
        "on" => METHOD,
        name => name,
    };
    // As in nginx, methods of requests have no other characters.
    let is_method = |byte: u8| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'-');
    if !name.bytes().all(is_method) {
        let help = "it is neither a value with variables nor \"on\", \"off\" or a method (upper \
                    case); a zone stands before a key";
        return Err(c.invalid_parameter(1).help(help));
    }
    let everything = c.arg(2) == b"purge_all";
    let first = if everything { 4 } else { 3 };
    let from = match c.count() {
        1 => None,
        _ if c.arg(first - 1) != b"from" => {
            let message = format!(
                "invalid parameter \"{}\", expected \"from\" keyword",
                c.shown(first - 1)
            );
            return Err(Fault::at((first - 1).min(c.count()), message));
        }
        count if count < first => {
            let help = "addresses come after it, or \"all\"";
            return Err(c.invalid_parameter(first - 1).help(help));
        }
        _ => {
            let mut rules = AddressRules::default();
            for index in first..=c.count() {
                add_rule(b, c, index, true, &mut rules)?;
            }
            Some(rules)
        }
    };
    let method = PurgeMethod {
        name: name.into(),
        everything,
        from,
    };
    upstream(b, c).cache.purge = Some(PurgeDraft::Method(Arc::new(method)));
    Ok(())
}

/// `ZONE KEY`: the location answers.
fn location(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    if b.open_location().is_none() {
        let help = "a zone and a key need a location of their own";
        return Err(c
            .refuse("(separate location syntax) is not allowed here")
            .help(help));
    }
    c.once(&upstream(b, c).cache.purge)?;
    c.once(&b.location().purge)?;
    let (zone, family) = (c.text(1)?, family(c));
    refer(b, zone, family).map_err(|fault| fault.at_word(1))?;
    let key = template::compile(&mut b.names, c.arg(2), 2, &c.origin)?;
    upstream(b, c).cache.purge = Some(PurgeDraft::Off);
    let location = b.location();
    location.purge = Some(Arc::new(PurgeLocationDraft {
        origin: c.origin.clone(),
        family,
        zone: zone.into(),
        key,
    }));
    location.answer_by(ContentHandler::CachePurge);
    Ok(())
}
