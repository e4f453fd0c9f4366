//! ngx_http_referer_module.

use super::{Arity, Check, LOCATION, Module, ONE, Row, SERVER};
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::model::{Hosts, ValidReferers};
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    title: "HTTP: referrers",
    doc: "Checks the `Referer` header field: `$invalid_referer`.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "valid_referers",
        SERVER | LOCATION,
        Arity::AtLeast(1),
        "",
        "`$invalid_referer` is empty for the given values and `1` for others: `none` (no field), \
         `blocked` (not a URL), `server_names`, host names with wildcards and an optional URI \
         prefix (`*.example.org/images/`), `~regex`.",
        valid_referers,
    ),
    Row::meaningless(
        "referer_hash_bucket_size",
        SERVER | LOCATION,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
    Row::meaningless(
        "referer_hash_max_size",
        SERVER | LOCATION,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
];

fn valid_referers(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let earlier = b.location().restricting.valid_referers.take();
    let mut referers = earlier.as_deref().cloned().unwrap_or_default();
    for (index, word) in c.args() {
        add(b, c, &mut referers, index, word)?;
    }
    b.location().restricting.valid_referers = Some(Arc::new(referers));
    Ok(())
}

fn add(
    b: &mut Build<'_>,
    c: &Call<'_>,
    referers: &mut ValidReferers,
    index: usize,
    word: &[u8],
) -> Result<(), Fault> {
    match word {
        b"" => return Err(Fault::at(index, "invalid referer \"\"")),
        b"none" => referers.none = true,
        b"blocked" => referers.blocked = true,
        b"server_names" => referers.server_names = true,
        [b'~', pattern @ ..] => {
            if pattern.is_empty() {
                let message = format!("empty regex in \"{}\"", shown(word));
                return Err(Fault::at(index, message));
            }
            let pattern = std::str::from_utf8(pattern).map_err(|_| c.invalid(index))?;
            let regex = b.regex(pattern, true, index)?;
            referers.expressions.push(regex);
        }
        _ => {
            let slash = memchr::memchr(b'/', word).unwrap_or(word.len());
            let (host, path) = word.split_at(slash);
            let path = (!path.is_empty()).then(|| path.into());
            add_host(&mut referers.hosts, host, path)
                .map_err(|message| Fault::at(index, message))?;
        }
    }
    Ok(())
}

fn add_host<V: Clone>(hosts: &mut Hosts<V>, written: &[u8], value: V) -> Result<(), String> {
    let name = written.to_ascii_lowercase();
    let invalid = || format!("invalid hostname or wildcard \"{}\"", shown(written));
    let stars = name.iter().filter(|byte| **byte == b'*').count();
    let dots = name.windows(2).any(|pair| pair == b"..");
    if stars > 1 || dots || name.contains(&0) {
        return Err(invalid());
    }
    let conflict = || format!("conflicting parameter \"{}\"", shown(&name));
    let taken = match &name[..] {
        [b'.', rest @ ..] if !rest.is_empty() => {
            let exact = hosts.exact.insert(rest.into(), value.clone());
            let suffix = hosts.suffixes.insert(rest.into(), value);
            exact.or(suffix)
        }
        [b'*', b'.', rest @ ..] if !rest.is_empty() => hosts.suffixes.insert(rest.into(), value),
        [rest @ .., b'.', b'*'] if !rest.is_empty() => hosts.prefixes.insert(rest.into(), value),
        _ if stars > 0 => return Err(invalid()),
        _ => hosts.exact.insert(name.clone().into(), value),
    };
    match taken {
        Some(_) => Err(conflict()),
        None => Ok(()),
    }
}
