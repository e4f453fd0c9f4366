//! `*_cache_path`: directories of cached responses, and their zones of keys.

use super::proxying::family;
use super::zones;
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::draft::{CacheZone, NamedPath, ZoneUse};
use crate::model::{CachePace, CachePath, Family, LocationConf};
use crate::parser::path_of;
use crate::values;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// As in nginx: two pages of memory.
const MIN_ZONE_BYTES: u64 = 8 << 10;

/// How files are read at the start, and removed later on, if nothing else is written.
const PACE: CachePace = CachePace {
    files: 100,
    threshold: Duration::from_millis(200),
    sleep: Duration::from_millis(50),
};

/// Memory for the responses of one zone that are asked for most, and the longest of them.
const MEMORY_BYTES: u64 = 32 << 20;
const MEMORY_MAX_OBJECT_BYTES: u64 = 128 << 10;
/// How purged files are looked for, likewise.
const PURGER_PACE: CachePace = CachePace {
    files: 10,
    threshold: Duration::from_millis(50),
    sleep: Duration::from_millis(50),
};

/// Purges of prefixes and tags that a zone remembers.
const PURGER_RULES: u32 = 10_000;

const INACTIVE: Duration = Duration::from_secs(10 * 60);

/// `*_cache_path`.
pub(super) fn cache_path(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let written = c.arg(1);
    let directory = written.strip_suffix(b"/").unwrap_or(written);
    if directory.is_empty() {
        let help = "name a directory that is for this cache alone";
        return Err(c.refuse_arg(1, "invalid value").help(help));
    }
    let mut cache = CachePath {
        zone: Box::default(),
        keys_bytes: 0,
        path: b.options.under_prefix(path_of(directory)),
        levels: [0; 3],
        use_temp_path: true,
        inactive: INACTIVE,
        max_bytes: None,
        min_free_bytes: 0,
        memory_bytes: MEMORY_BYTES,
        memory_max_object_bytes: MEMORY_MAX_OBJECT_BYTES,
        loader: PACE,
        manager: PACE,
        purges_files: false,
        purger: PURGER_PACE,
        purger_rules: PURGER_RULES,
        location: b.place.clone().expect("a directive has a place"),
    };
    for (index, word) in c.args().skip(1) {
        parameter(&mut cache, c, index, word)?;
    }
    if cache.zone.is_empty() {
        return Err(Fault::new(format!(
            "\"{}\" must have \"keys_zone\" parameter",
            c.row.name
        )));
    }
    claim_path(b, c, &cache.path, true)?;
    let index = refer(b, &cache.zone, family(c))?;
    let zone = &mut b.http.cache_zones[index];
    if let Some(earlier) = &zone.path {
        if earlier.keys_bytes != cache.keys_bytes {
            let declared = earlier.keys_bytes;
            return Err(zones::size_conflict(&zone.name, cache.keys_bytes, declared));
        }
        return Err(Fault::new(format!("duplicate zone \"{}\"", zone.name)));
    }
    zone.path = Some(Arc::new(cache));
    Ok(())
}

/// One parameter after the directory.
fn parameter(cache: &mut CachePath, c: &Call<'_>, index: usize, word: &[u8]) -> Result<(), Fault> {
    let end = memchr::memchr(b'=', word).map_or(word.len(), |at| at + 1);
    let (name, value) = word.split_at(end);
    let fault = |message: String| Fault::at(index, message);
    let invalid = || {
        let name = shown(name.strip_suffix(b"=").unwrap_or(name));
        fault(format!("invalid {name} value \"{}\"", shown(word)))
    };
    let count = || {
        let number = values::number(value).ok_or_else(invalid)?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    };
    let time = || values::time(value).ok_or_else(invalid);
    let bytes = || values::offset(value).ok_or_else(invalid);
    let on_off = || match value {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => {
            let message = invalid().message;
            Err(fault(format!("{message}, it must be \"on\" or \"off\"")))
        }
    };
    match name {
        b"levels=" => {
            let invalid = || fault(format!("invalid \"levels\" \"{}\"", shown(word)));
            cache.levels = levels(value).ok_or_else(invalid)?;
        }
        b"use_temp_path=" => cache.use_temp_path = on_off()?,
        b"keys_zone=" => (cache.zone, cache.keys_bytes) = keys_zone(c, index, value)?,
        b"inactive=" => cache.inactive = values::seconds(value).ok_or_else(invalid)?,
        b"max_size=" => cache.max_bytes = Some(bytes()?),
        b"min_free=" => cache.min_free_bytes = bytes()?,
        b"memory=" => cache.memory_bytes = bytes()?,
        b"memory_max_object=" => cache.memory_max_object_bytes = bytes()?,
        b"loader_files=" => cache.loader.files = count()?,
        b"loader_threshold=" => cache.loader.threshold = time()?,
        b"loader_sleep=" => cache.loader.sleep = time()?,
        b"manager_files=" => cache.manager.files = count()?,
        b"manager_threshold=" => cache.manager.threshold = time()?,
        b"manager_sleep=" => cache.manager.sleep = time()?,
        b"purger=" => cache.purges_files = on_off()?,
        b"purger_files=" => cache.purger.files = count()?,
        b"purger_threshold=" => cache.purger.threshold = time()?,
        b"purger_sleep=" => cache.purger.sleep = time()?,
        b"purger_rules=" => cache.purger_rules = count()?,
        _ => return Err(c.invalid_parameter(index)),
    }
    Ok(())
}

/// `NAME:SIZE`.
fn keys_zone(c: &Call<'_>, index: usize, value: &[u8]) -> Result<(Box<str>, u64), Fault> {
    let fault = |message: &str| Fault::at(index, message.replace("{}", &c.shown(index)));
    let invalid = || fault("invalid keys zone size \"{}\"");
    let colon = memchr::memchr(b':', value).ok_or_else(invalid)?;
    let bytes = values::size(&value[colon + 1..]).ok_or_else(invalid)?;
    if bytes < MIN_ZONE_BYTES {
        return Err(fault("keys zone \"{}\" is too small"));
    }
    let name = std::str::from_utf8(&value[..colon]).map_err(|_| c.invalid(index))?;
    Ok((name.into(), bytes))
}

/// Up to three levels of one or two digits, as in `1:2`.
fn levels(value: &[u8]) -> Option<[u8; 3]> {
    let mut levels = [0; 3];
    if value.is_empty() {
        return Some(levels);
    }
    let mut slots = levels.iter_mut();
    for level in value.split(|byte| *byte == b':') {
        *slots.next()? = match level {
            b"1" => 1,
            b"2" => 2,
            _ => return None,
        };
    }
    Some(levels)
}

/// The zone of a name, which may be defined later on.
pub(super) fn refer(b: &mut Build<'_>, name: &str, family: Family) -> Result<usize, Fault> {
    zones::claim(b, name, ZoneUse::Cache(family))?;
    let zones = &mut b.http.cache_zones;
    let known = zones.iter().position(|zone| *zone.name == *name);
    Ok(known.unwrap_or_else(|| {
        zones.push(CacheZone {
            name: name.into(),
            family,
            path: None,
        });
        zones.len() - 1
    }))
}

/// Notes a directory that a line names. Files of other kinds must not lie where responses are
/// cached: those that are no responses are removed there.
pub(super) fn claim_path(
    b: &mut Build<'_>,
    c: &Call<'_>,
    path: &Path,
    is_cache: bool,
) -> Result<(), Fault> {
    match b.http.paths.get(path) {
        Some(named) if is_cache || named.is_cache => Err(same_path(path, named)),
        Some(_) => Ok(()),
        None => {
            let origin = c.origin.clone();
            let named = NamedPath { origin, is_cache };
            b.http.paths.insert(path.to_owned(), named);
            Ok(())
        }
    }
}

fn same_path(path: &Path, named: &NamedPath) -> Fault {
    let (path, file) = (path.display(), named.origin.file.display());
    let line = named.origin.line;
    Fault::new(format!(
        "the same path name \"{path}\" used in {file}:{line} and"
    ))
}

/// Every zone that is used must be one of the same family.
pub(crate) fn check_cache_zones(b: &Build<'_>) -> Vec<Fault> {
    let zones = b.http.cache_zones.iter();
    let unknown = zones.filter(|zone| zone.path.is_none());
    let fault = |zone: &CacheZone| {
        let CacheZone { name, family, .. } = zone;
        let help = format!("no \"{family}_cache_path\" defines it with \"keys_zone={name}:SIZE\"");
        Fault::new(format!("\"{family}_cache\" zone \"{name}\" is unknown")).help(help)
    };
    unknown.map(fault).collect()
}

/// A location must not put temporary files where responses are cached, which happens if a cache has
/// the name of a default directory.
pub(crate) fn check_temporary_paths(b: &Build<'_>, location: &LocationConf) -> Result<(), Fault> {
    let passed = location.pass.iter().map(|pass| &pass.upstream().temp_path);
    for temporary in passed.chain([&location.client_body_temp_path]) {
        let named = b.http.paths.get(&temporary.path);
        if let Some(named) = named.filter(|named| named.is_cache) {
            return Err(same_path(&temporary.path, named));
        }
    }
    Ok(())
}
