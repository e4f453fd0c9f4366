//! ngx_http_limit_req_module and ngx_http_limit_conn_module.

use super::{Arity, HSL, HSL_STREAM, HTTP, Module, ONE, Row, STREAM, zones};
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::draft::{LimitUse, LimitZoneDraft, ZoneUse};
use crate::model::{
    ConnectionLimit, LimitKind, LimitZone, List, LogLevel, RequestLimit, RequestRate, Whitelist,
};
use crate::{template, values};
use std::sync::Arc;

/// Eight pages; nginx's least.
const MIN_ZONE_BYTES: u64 = 8 * 4096;
/// Arguments that a key of `limit_req_zone` may be made of.
const MAX_KEYS: u8 = 6;
/// nginx's limit of `limit_conn`.
const MAX_CONNECTIONS: u64 = 65535;

pub(super) const MODULE: Module = Module {
    title: "HTTP: limits of requests and connections",
    doc: "Limits on the request rate and on the number of concurrent requests per key. All threads \
          of a worker process share the zones. A zone survives a reload if its key and size are \
          unchanged; a reload that requires a new process starts with empty zones.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "limit_req_zone",
        HTTP,
        Arity::Between(3, 2 + MAX_KEYS),
        "",
        "Zone for `limit_req`: key, `zone=name:size` and `rate=` (`10r/s`, `30r/m`). A key of 4 \
         bytes, such as `$binary_remote_addr`, takes 128 bytes of it. When the zone is full, the \
         least recently used key is removed. Requests with an empty key are not counted. As in \
         Tengine, the key may be up to six arguments, `$binary_remote_addr $uri`, which are joined, \
         and the rate a variable (`rate=$limit`); requests for which it is no rate are answered \
         with 500.",
        |b, c| zone(b, c, LimitUse::Requests),
    ),
    Row::new(
        "limit_req",
        HSL,
        Arity::Between(1, 4),
        "",
        "Limits requests to the rate of `zone=`. Up to `burst=` excess requests are delayed; with \
         `nodelay` none are, with `delay=` only those beyond that number. If there are several \
         directives, all limits apply. As in Tengine, requests beyond a limit with \
         `forbid_action=` are redirected to this URI or named location, where they are not limited \
         again; `limit_req off` cancels what is inherited.",
        limit_req,
    ),
    Row::new(
        "limit_req_whitelist",
        HSL,
        Arity::Between(2, 2),
        "",
        "Requests for which the variable `geo_var_name=` (written without `$`) has the value \
         `geo_var_value=` are not limited by `limit_req`, as in Tengine.",
        whitelist,
    )
    .own(),
    Row::new(
        "limit_req_status",
        HSL,
        ONE,
        "503",
        "Status code for rejected requests, from 400 to 599.",
        |b, c| status(c, &mut b.location().restricting.limit_req_status),
    ),
    Row::new(
        "limit_req_log_level",
        HSL,
        ONE,
        "error",
        "Log level for rejected requests: `info`, `notice`, `warn` or `error`. Delays are logged \
         one level lower.",
        |b, c| log_level(c, &mut b.location().restricting.limit_req_log_level),
    ),
    Row::new(
        "limit_req_dry_run",
        HSL,
        ONE,
        "off",
        "Whether excess requests are only counted and logged, but not limited.",
        |b, c| c.flag(&mut b.location().restricting.limit_req_dry_run),
    ),
    Row::new(
        "limit_conn_zone",
        HTTP | STREAM,
        Arity::Between(2, 2),
        "",
        "Zone for `limit_conn`: key and `zone=name:size`. A key takes 64 bytes of it while a \
         request with this key is being processed. If the zone is full, the request is rejected.",
        |b, c| zone(b, c, LimitUse::Connections),
    ),
    Row::new(
        "limit_conn",
        HSL_STREAM,
        Arity::Between(2, 2),
        "",
        "Maximum number of concurrent requests (second argument) with the same key in the zone. \
         Each concurrent request of an HTTP/2 connection counts.",
        limit_conn,
    ),
    Row::new(
        "limit_conn_status",
        HSL,
        ONE,
        "503",
        "Status code for rejected requests, from 400 to 599.",
        |b, c| status(c, &mut b.location().restricting.limit_conn_status),
    ),
    Row::new(
        "limit_conn_log_level",
        HSL_STREAM,
        ONE,
        "error",
        "Log level for rejected requests: `info`, `notice`, `warn` or `error`.",
        |b, c| log_level(c, &mut b.location().restricting.limit_conn_log_level),
    ),
    Row::new(
        "limit_conn_dry_run",
        HSL_STREAM,
        ONE,
        "off",
        "Whether excess requests are only counted and logged, but not limited.",
        |b, c| c.flag(&mut b.location().restricting.limit_conn_dry_run),
    ),
];

fn status(c: &Call<'_>, slot: &mut Option<u64>) -> Result<(), Fault> {
    c.number(slot)?;
    match slot {
        Some(400..=599) => Ok(()),
        _ => Err(Fault::at(1, "value must be between 400 and 599")),
    }
}

fn log_level(c: &Call<'_>, slot: &mut Option<LogLevel>) -> Result<(), Fault> {
    let choices = [
        ("info", LogLevel::Info),
        ("notice", LogLevel::Notice),
        ("warn", LogLevel::Warn),
        ("error", LogLevel::Error),
    ];
    c.choice(slot, &choices)
}

fn must_have_zone(c: &Call<'_>) -> Fault {
    Fault::new(format!("\"{}\" must have \"zone\" parameter", c.row.name))
}

/// `limit_req_zone` and `limit_conn_zone`.
fn zone(b: &mut Build<'_>, c: &Call<'_>, kind: LimitUse) -> Result<(), Fault> {
    let mut key_text = c.arg(1).to_vec();
    let mut found = None;
    let mut rate = RequestRate::Fixed(1000);
    for (index, word) in c.args().skip(1) {
        if let Some(zone) = word.strip_prefix(b"zone=") {
            let invalid = || Fault::at(index, format!("invalid zone size \"{}\"", c.shown(index)));
            let colon = memchr::memchr(b':', zone).ok_or_else(invalid)?;
            let bytes = values::size(&zone[colon + 1..]).ok_or_else(invalid)?;
            if bytes < MIN_ZONE_BYTES {
                let message = format!("zone \"{}\" is too small", c.shown(index));
                return Err(Fault::at(index, message));
            }
            found = Some((c.utf8(index, &zone[..colon])?, bytes));
        } else if let Some(written) = word.strip_prefix(b"rate=")
            && kind == LimitUse::Requests
        {
            rate = if written.starts_with(b"$") {
                let rate = template::compile(&mut b.names, written, index, &c.origin)?;
                RequestRate::Variable(rate)
            } else {
                let invalid = || format!("invalid rate \"{}\"", c.shown(index));
                let rate = values::request_rate(written);
                RequestRate::Fixed(rate.ok_or_else(|| Fault::at(index, invalid()))?)
            };
        } else if word.starts_with(b"$") && kind == LimitUse::Requests {
            key_text.extend_from_slice(word);
        } else {
            return Err(c.invalid_parameter(index));
        }
    }
    let (name, bytes) = found
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| must_have_zone(c))?;
    let key = template::compile(&mut b.names, &key_text, 1, &c.origin)?;
    let index = refer(b, name, kind)?;
    let slot = &mut b.http.limit_zones[index].zone;
    if let Some(earlier) = slot {
        if earlier.bytes != bytes {
            let declared = earlier.bytes;
            return Err(zones::size_conflict(name, bytes, declared));
        }
        let key = shown(&earlier.key_text);
        let row = c.row.name;
        return Err(Fault::new(format!(
            "{row} \"{name}\" is already bound to key \"{key}\""
        )));
    }
    *slot = Some(LimitZone {
        name: name.into(),
        bytes,
        key,
        key_text: key_text.into(),
        kind: match kind {
            LimitUse::Requests => LimitKind::Requests { rate },
            LimitUse::Connections => LimitKind::Connections,
        },
    });
    Ok(())
}

/// The zone of a name, which may be defined later on.
fn refer(b: &mut Build<'_>, name: &str, kind: LimitUse) -> Result<usize, Fault> {
    zones::claim(b, name, ZoneUse::Limit(kind))?;
    let zones = &mut b.http.limit_zones;
    let known = zones.iter().position(|zone| *zone.name == *name);
    Ok(known.unwrap_or_else(|| {
        zones.push(LimitZoneDraft {
            name: name.into(),
            zone: None,
        });
        zones.len() - 1
    }))
}

fn limit_req(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    const NO_DELAY: u64 = i64::MAX as u64 / 1000;
    let draft = &mut b.location().restricting;
    if c.count() == 1 && c.arg(1) == b"off" {
        c.once(&draft.limit_req)?;
        draft.limit_req = Some(List::default());
        return Ok(());
    }
    if draft
        .limit_req
        .as_ref()
        .is_some_and(|limits| limits.is_empty())
    {
        return Err(c.refuse("is duplicate")); // "off" comes before
    }
    let (mut zone, mut burst, mut delay, mut action) = (None, 0, 0, None);
    for (index, word) in c.args() {
        let positive = |what: &str, number: &[u8]| {
            let number = values::number(number).filter(|number| (1..=NO_DELAY).contains(number));
            let message = || format!("invalid {what} value \"{}\"", c.shown(index));
            number.ok_or_else(|| Fault::at(index, message()))
        };
        if let Some(name) = word.strip_prefix(b"zone=") {
            zone = Some(refer(b, c.utf8(index, name)?, LimitUse::Requests)?);
        } else if let Some(number) = word.strip_prefix(b"burst=") {
            burst = positive("burst", number)?;
        } else if let Some(number) = word.strip_prefix(b"delay=") {
            delay = positive("delay", number)?;
        } else if word == b"nodelay" {
            delay = NO_DELAY;
        } else if let Some(target) = word.strip_prefix(b"forbid_action=") {
            let is_place = matches!(target, [b'/' | b'@', _, ..]);
            let target = std::str::from_utf8(target).ok().filter(|_| is_place);
            let invalid = || format!("invalid forbid_action \"{}\"", c.shown(index));
            action = Some(target.ok_or_else(|| Fault::at(index, invalid()))?.into());
        } else {
            return Err(c.invalid_parameter(index));
        }
    }
    let zone = zone.ok_or_else(|| must_have_zone(c))?;
    let limits = b.location().restricting.limit_req.get_or_insert_default();
    if limits.iter().any(|limit| limit.zone == zone) {
        return Err(c.refuse("is duplicate"));
    }
    limits.push(RequestLimit {
        zone,
        burst: burst * 1000,
        delay: delay * 1000,
        action,
    });
    Ok(())
}

fn whitelist(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let (mut variable, mut value) = (None, None);
    for (index, word) in c.args() {
        if let Some(name) = word.strip_prefix(b"geo_var_name=") {
            let text = [b"${", name, b"}"].concat();
            variable = Some(template::compile(&mut b.names, &text, index, &c.origin)?);
        } else if let Some(text) = word.strip_prefix(b"geo_var_value=") {
            value = Some(Box::from(text));
        } else {
            return Err(c.invalid_parameter(index));
        }
    }
    let (Some(variable), Some(value)) = (variable, value) else {
        let message = "must have \"geo_var_name\" and \"geo_var_value\" parameters";
        return Err(Fault::new(format!("\"{}\" {message}", c.row.name)));
    };
    let slot = &mut b.location().restricting.limit_req_whitelist;
    c.once(slot)?;
    *slot = Some(Arc::new(Whitelist { variable, value }));
    Ok(())
}

fn limit_conn(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let zone = refer(b, c.text(1)?, LimitUse::Connections)?;
    let limits = b.location().restricting.limit_conn.get_or_insert_default();
    if limits.iter().any(|limit| limit.zone == zone) {
        return Err(c.refuse("is duplicate"));
    }
    let number = values::number(c.arg(2)).filter(|number| *number > 0);
    let number = number.ok_or_else(|| {
        let message = format!("invalid number of connections \"{}\"", c.shown(2));
        Fault::at(2, message)
    })?;
    if number > MAX_CONNECTIONS {
        return Err(Fault::at(2, "connection limit must be less 65536"));
    }
    limits.push(ConnectionLimit {
        zone,
        connections: number as u32, // at most 65535
    });
    Ok(())
}
