//! Files: ngx_http_index_module, ngx_http_random_index_module, ngx_http_stub_status_module and the
//! open-file cache.

use super::{Arity, Check, HSL, LOCATION, Module, ONE, Row, SERVER};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{DisableSymlinks, FollowedSymlinks};
use crate::template;
use crate::values;
use std::sync::Arc;
use std::time::Duration;

pub(super) const MODULE: Module = Module {
    title: "HTTP: files",
    doc: "Index files and the cache of open files.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "index",
        HSL,
        Arity::AtLeast(1),
        "index.html",
        "Index files of a directory, checked in the given order. The last one may be an absolute \
         URI, which causes an internal redirect. May contain variables.",
        index,
    ),
    Row::new(
        "random_index",
        LOCATION,
        ONE,
        "",
        "With `on`, a request for a directory gets a random file from it.",
        |b, c| c.flag(&mut b.location().random_index),
    ),
    Row::new(
        "stub_status",
        SERVER | LOCATION,
        Arity::Between(0, 1),
        "",
        "Responds with the numbers of connections and requests.",
        |b, _| {
            b.location().stub_status = true;
            Ok(())
        },
    ),
    Row::new(
        "open_file_cache",
        HSL,
        Arity::Between(1, 2),
        "off",
        "Caches descriptors, sizes and modification times of up to `max=` files, per worker \
         thread. A file that is not used for `inactive=` (60s by default) is removed.",
        open_file_cache,
    ),
    Row::new(
        "open_file_cache_valid",
        HSL,
        ONE,
        "60s",
        "Time after which a cached file is checked again.",
        |b, c| c.seconds(&mut b.location().open_file_cache_valid),
    ),
    Row::new(
        "open_file_cache_min_uses",
        HSL,
        ONE,
        "1",
        "Minimum number of uses within `inactive=` for a descriptor to stay open.",
        |b, c| c.number(&mut b.location().open_file_cache_min_uses),
    ),
    Row::new(
        "open_file_cache_errors",
        HSL,
        ONE,
        "off",
        "Whether file lookup errors are cached too.",
        |b, c| c.flag(&mut b.location().open_file_cache_errors),
    ),
    Row::new(
        "open_file_cache_content",
        HSL,
        Arity::Between(1, 2),
        "16m 64k",
        "Memory, per worker thread, for the contents of small files in `open_file_cache`, and the \
         maximum size of such a file; 0 or `off` caches no contents. Contents are kept exactly as \
         long as their entry.",
        open_file_cache_content,
    )
    .own(),
    Row::meaningless(
        "open_file_cache_events",
        HSL,
        ONE,
        Check::Flag,
        "In nginx it has no effect on Linux either.",
    ),
    Row::new(
        "disable_symlinks",
        HSL,
        Arity::Between(1, 2),
        "off",
        "Restricts symbolic links in paths. `on` denies access if any component of the path is a \
         symbolic link; `if_not_owner` denies access if a link and its target have different \
         owners. Links are always followed in the initial part of the path given by `from=`, \
         which may contain variables. Directory listings still show entries that are denied.",
        disable_symlinks,
    ),
];

fn index(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    for (position, written) in c.args() {
        if written.first() == Some(&b'/') && position != c.count() {
            b.warn("only the last index in \"index\" directive should be absolute");
        }
        if written.is_empty() {
            return Err(Fault::at(
                position,
                "index \"\" in \"index\" directive is invalid",
            ));
        }
        let name = template::compile(&mut b.names, written, position, &c.origin)?;
        b.location().index.get_or_insert_default().push(name);
    }
    Ok(())
}

fn disable_symlinks(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location().disable_symlinks)?;
    let (mut except, mut from) = (None, None);
    for (index, written) in c.args() {
        match (written, written.strip_prefix(b"from=")) {
            (b"off", _) => except = Some(None),
            (b"on", _) => except = Some(Some(FollowedSymlinks::None)),
            (b"if_not_owner", _) => except = Some(Some(FollowedSymlinks::OfTheOwner)),
            (_, Some(part)) => {
                from = Some(template::compile(&mut b.names, part, index, &c.origin)?);
            }
            _ => return Err(c.invalid_parameter(index)),
        }
    }
    let name = c.row.name;
    let Some(except) = except else {
        let what = "must have \"off\", \"on\" or \"if_not_owner\" parameter";
        return Err(Fault::new(format!("\"{name}\" {what}")));
    };
    if c.count() == 2 && from.is_none() {
        let (one, other) = (c.shown(1), c.shown(2));
        return Err(Fault::at(
            2,
            format!("duplicate parameters \"{one} {other}\""),
        ));
    }
    if except.is_none() && from.is_some() {
        let what = "\"from=\" cannot be used with \"off\" parameter";
        return Err(Fault::new(what));
    }
    let rule = except.map(|except| Arc::new(DisableSymlinks { except, from }));
    b.location().disable_symlinks = Some(rule);
    Ok(())
}

fn open_file_cache(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location().open_file_cache)?;
    let mut inactive = Duration::from_secs(60);
    let max = cache_size(c, &mut [("inactive=", &mut inactive)], |word| {
        format!("invalid \"open_file_cache\" parameter \"{word}\"")
    })?;
    b.location().open_file_cache = Some(max.map(|max| (max, inactive)));
    Ok(())
}

/// `max=number` and named times, or `off`: how much a cache may hold; `None` if there is no
/// cache.
pub(super) fn cache_size(
    c: &Call<'_>,
    times: &mut [(&str, &mut Duration)],
    invalid: impl Fn(String) -> String,
) -> Result<Option<u32>, Fault> {
    let (mut max, mut off) = (None, false);
    for (index, written) in c.args() {
        let parsed = if let Some(number) = written.strip_prefix(b"max=") {
            max = values::number(number)
                .and_then(|max| u32::try_from(max).ok())
                .filter(|max| *max > 0);
            max.is_some()
        } else if let Some((time, slot)) = times
            .iter_mut()
            .find_map(|(name, slot)| Some((written.strip_prefix(name.as_bytes())?, slot)))
        {
            values::seconds(time).map(|time| **slot = time).is_some()
        } else {
            off |= written == b"off";
            written == b"off"
        };
        if !parsed {
            return Err(Fault::at(index, invalid(c.shown(index))));
        }
    }
    if off {
        return Ok(None);
    }
    let missing = || format!("\"{}\" must have the \"max\" parameter", c.row.name);
    max.map(Some).ok_or_else(|| Fault::new(missing()))
}

/// Largest file kept when the second argument is not given.
pub(crate) const CONTENT_MAX_FILE_BYTES: u64 = 64 << 10;

fn open_file_cache_content(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location().open_file_cache_content)?;
    let size = |index: usize| {
        values::size(c.arg(index)).ok_or_else(|| c.refuse_arg(index, "invalid value"))
    };
    let total = if c.arg(1) == b"off" { 0 } else { size(1)? };
    let largest = if c.count() == 2 {
        size(2)?
    } else {
        CONTENT_MAX_FILE_BYTES
    };
    b.location().open_file_cache_content = Some((total, largest));
    Ok(())
}
