//! Keeping responses of other servers: `*_store*`; `*_cache*` is accepted with a warning until it
//! works.

use super::dav::files_access;
use super::proxying::{family, upstream};
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::draft::StoreDraft;
use crate::model::Family;
use crate::template;
use crate::values;

pub(super) const CACHE: &str = "responses are not cached; every request is passed to a server";

/// The rows of a family.
macro_rules! cache_rows {
    ($family:literal) => {
        &[
            Row::later(
                concat!($family, "_cache"),
                HSL,
                ONE,
                Check::By($crate::directives::SetterOf(cache)),
                CACHE,
            )
            .inert(&["off"]),
            Row::later(
                concat!($family, "_cache_background_update"),
                HSL,
                ONE,
                Check::Flag,
                CACHE,
            )
            .tunes(concat!($family, "_cache")),
            Row::later(
                concat!($family, "_cache_bypass"),
                HSL,
                Arity::AtLeast(1),
                Check::By($crate::directives::SetterOf(predicates)),
                CACHE,
            )
            .tunes(concat!($family, "_cache")),
            Row::later(
                concat!($family, "_cache_key"),
                HSL,
                ONE,
                Check::By($crate::directives::SetterOf(key)),
                CACHE,
            )
            .tunes(concat!($family, "_cache")),
            Row::later(
                concat!($family, "_cache_lock"),
                HSL,
                ONE,
                Check::Flag,
                CACHE,
            )
            .tunes(concat!($family, "_cache")),
            Row::later(
                concat!($family, "_cache_lock_age"),
                HSL,
                ONE,
                Check::Time,
                CACHE,
            )
            .tunes(concat!($family, "_cache")),
            Row::later(
                concat!($family, "_cache_lock_timeout"),
                HSL,
                ONE,
                Check::Time,
                CACHE,
            )
            .tunes(concat!($family, "_cache")),
            Row::later(
                concat!($family, "_cache_max_range_offset"),
                HSL,
                ONE,
                Check::Offset,
                CACHE,
            )
            .tunes(concat!($family, "_cache")),
            Row::later(
                concat!($family, "_cache_methods"),
                HSL,
                Arity::AtLeast(1),
                Check::By($crate::directives::SetterOf(methods)),
                CACHE,
            )
            .tunes(concat!($family, "_cache")),
            Row::later(
                concat!($family, "_cache_min_uses"),
                HSL,
                ONE,
                Check::Number,
                CACHE,
            )
            .tunes(concat!($family, "_cache")),
            Row::later(
                concat!($family, "_cache_path"),
                HTTP,
                Arity::AtLeast(2),
                Check::By($crate::directives::SetterOf(cache_path)),
                CACHE,
            ),
            Row::later(
                concat!($family, "_cache_revalidate"),
                HSL,
                ONE,
                Check::Flag,
                CACHE,
            )
            .tunes(concat!($family, "_cache")),
            Row::later(
                concat!($family, "_cache_use_stale"),
                HSL,
                Arity::AtLeast(1),
                Check::By($crate::directives::SetterOf(use_stale)),
                CACHE,
            )
            .tunes(concat!($family, "_cache")),
            Row::later(
                concat!($family, "_cache_valid"),
                HSL,
                Arity::AtLeast(1),
                Check::By($crate::directives::SetterOf(valid)),
                CACHE,
            )
            .tunes(concat!($family, "_cache")),
            Row::later(
                concat!($family, "_no_cache"),
                HSL,
                Arity::AtLeast(1),
                Check::By($crate::directives::SetterOf(predicates)),
                CACHE,
            )
            .tunes(concat!($family, "_cache")),
            Row::new(
                concat!($family, "_store"),
                HSL,
                ONE,
                "off",
                concat!(
                    "Whether complete responses with status 200 are stored as files: `on` by \
                     `root` or `alias`, or at a path, usually with variables, such as \
                     `/data$uri`. A file is written in `",
                    $family,
                    "_temp_path`, gets its name when it is complete, and the time of the \
                     Last-Modified field; keep both on the same file system. Nothing is stored \
                     without `",
                    $family,
                    "_buffering`, or once a client has gone."
                ),
                $crate::directives::proxying_cache::store,
            ),
            Row::new(
                concat!($family, "_store_access"),
                HSL,
                Arity::Between(1, 3),
                "user:rw",
                "Permissions of stored files and of directories made for them: `user:`, `group:` \
                 or `all:` with `r` or `rw`.",
                $crate::directives::proxying_cache::store_access,
            ),
        ]
    };
}
pub(super) use cache_rows;

/// A zone of keys must have room for something.
const MIN_ZONE_BYTES: u64 = 8 << 10;

/// `*_cache`: a zone, or variables that make one.
pub(super) fn cache(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    if !b.first_here(c.row.name) {
        return Err(c.refuse("is duplicate"));
    }
    let zone = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    if zone.as_literal().is_some() {
        b.http.cache_zones_used.push((c.row.name, c.shown(1)));
    }
    Ok(())
}

/// `*_store`.
pub(super) fn store(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&upstream(b, c).store)?;
    let store = match c.arg(1) {
        b"off" => StoreDraft::Off,
        b"on" => StoreDraft::ByUri,
        b"" => return Err(c.refuse_arg(1, "empty path")),
        path => StoreDraft::At(template::compile(&mut b.names, path, 1, &c.origin)?),
    };
    upstream(b, c).store = Some(store);
    Ok(())
}

/// `*_store_access`.
pub(super) fn store_access(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&upstream(b, c).store_access)?;
    upstream(b, c).store_access = Some(files_access(c)?);
    Ok(())
}

/// `*_cache_key`.
pub(super) fn key(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    if !b.first_here(c.row.name) {
        return Err(c.refuse("is duplicate"));
    }
    template::compile(&mut b.names, c.arg(1), 1, &c.origin).map(drop)
}

/// `*_cache_bypass` and `*_no_cache`.
pub(super) fn predicates(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.args().try_for_each(|(index, word)| {
        template::compile(&mut b.names, word, index, &c.origin).map(drop)
    })
}

/// `*_cache_methods`.
pub(super) fn methods(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    words(b, c, &["GET", "HEAD", "POST"])
}

/// `*_cache_use_stale`.
pub(super) fn use_stale(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    const EVERY: &[&str] = &[
        "error",
        "timeout",
        "invalid_header",
        "non_idempotent",
        "http_500",
        "http_503",
        "http_403",
        "http_404",
        "http_429",
        "updating",
        "off",
    ];
    match family(c) {
        Family::Proxy => words(b, c, &[EVERY, &["http_502", "http_504"]].concat()),
        _ => words(b, c, EVERY),
    }
}

/// Words of a list, each of which is needed once.
fn words(b: &mut Build<'_>, c: &Call<'_>, list: &[&str]) -> Result<(), Fault> {
    let mut met: Vec<&[u8]> = Vec::new();
    for (index, word) in c.args() {
        if !list
            .iter()
            .any(|known| known.as_bytes().eq_ignore_ascii_case(word))
        {
            return Err(c.invalid(index));
        }
        if met.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            b.warn(format!("duplicate value \"{}\"", c.shown(index)));
        }
        met.push(word);
    }
    Ok(())
}

/// `*_cache_valid`: statuses and a time.
pub(super) fn valid(_: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let last = c.count();
    if values::seconds(c.arg(last)).is_none() {
        let message = format!("invalid time value \"{}\"", c.shown(last));
        return Err(Fault::at(last, message));
    }
    for (index, word) in c.args().take(last - 1) {
        let status = values::number(word).filter(|status| (100..=599).contains(status));
        if word != b"any" && status.is_none() {
            return Err(Fault::at(
                index,
                format!("invalid status \"{}\"", shown(word)),
            ));
        }
    }
    Ok(())
}

/// `*_cache_path`.
pub(super) fn cache_path(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let mut zone = None;
    for (index, word) in c.args().skip(1) {
        let equals = memchr::memchr(b'=', word).map_or(word.len(), |at| at + 1);
        let (name, value) = word.split_at(equals);
        let fault = |what: &str| Fault::at(index, format!("{what} \"{}\"", shown(word)));
        match name {
            b"keys_zone=" => zone = Some(keys_zone(value).map_err(fault)?),
            b"levels=" if !are_levels(value) => return Err(fault("invalid \"levels\"")),
            b"levels=" => {}
            b"use_temp_path=" if !matches!(value, b"on" | b"off") => {
                let message = format!(
                    "invalid use_temp_path value \"{}\", it must be \"on\" or \"off\"",
                    shown(word)
                );
                return Err(Fault::at(index, message));
            }
            b"use_temp_path=" => {}
            _ => {
                let known = match name {
                    b"inactive=" => values::seconds(value).is_some(),
                    b"max_size=" | b"min_free=" => values::offset(value).is_some(),
                    b"loader_files=" | b"manager_files=" => values::number(value).is_some(),
                    b"loader_sleep="
                    | b"loader_threshold="
                    | b"manager_sleep="
                    | b"manager_threshold=" => values::time(value).is_some(),
                    _ => return Err(c.invalid_parameter(index)),
                };
                if !known {
                    let name = shown(&name[..name.len() - 1]);
                    return Err(fault(&format!("invalid {name} value")));
                }
            }
        }
    }
    let Some(zone) = zone else {
        return Err(Fault::new(format!(
            "\"{}\" must have \"keys_zone\" parameter",
            c.row.name
        )));
    };
    let directive = c.row.name.trim_end_matches("_path");
    let zone = (directive, shown(zone));
    if b.http.cache_zones.contains(&zone) {
        return Err(Fault::new(format!("duplicate zone \"{}\"", zone.1)));
    }
    b.http.cache_zones.push(zone);
    Ok(())
}

/// The name in `NAME:SIZE`.
fn keys_zone(value: &[u8]) -> Result<&[u8], &'static str> {
    let colon = memchr::memchr(b':', value).ok_or("invalid keys zone size")?;
    match values::size(&value[colon + 1..]) {
        None => Err("invalid keys zone size"),
        Some(..MIN_ZONE_BYTES) => Err("keys zone is too small in"),
        Some(_) => Ok(&value[..colon]),
    }
}

/// Up to three levels of one or two digits, as in `1:2`.
fn are_levels(value: &[u8]) -> bool {
    let mut levels = value.split(|byte| *byte == b':');
    levels.clone().count() <= 3 && levels.all(|level| matches!(level, b"1" | b"2"))
}

/// Every zone that is used must be one of the same family.
pub(crate) fn check_cache_zones(b: &Build<'_>) -> Vec<Fault> {
    let mut used = b.http.cache_zones_used.clone();
    used.sort();
    used.dedup();
    used.retain(|zone| !b.http.cache_zones.contains(zone));
    let unknown = used.into_iter();
    let fault = |(name, zone)| Fault::whole(format!("\"{name}\" zone \"{zone}\" is unknown"));
    unknown.map(fault).collect()
}
