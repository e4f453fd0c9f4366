//! nginx-module-vts: traffic by server and by values of requests.

use super::{Arity, Check, HSL, HTTP, Module, ONE, Row, zones};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::draft::ZoneUse;
use crate::model::{ContentHandler, StatusView, TrafficFilter, TrafficFormat};
use crate::{template, values};
use std::time::Duration;

/// The module's name and size of the zone.
const ZONE: &str = "ngx_http_vhost_traffic_status";
const ZONE_BYTES: u64 = 1 << 20;
/// Eight pages, nginx's least.
const MIN_ZONE_BYTES: u64 = 8 * 4096;
/// The module's limit of buckets.
const MAX_BUCKETS: usize = 32;

pub(super) const MODULE: Module = Module {
    title: "HTTP: traffic as nginx-module-vts shows it",
    doc: "Counts requests by server, and by values of theirs, and shows the numbers under the names \
          of nginx-module-vts, so that what reads them goes on working; see `docs/modules.md`. \
          `metrics`, `api` and `console` need no such directives.",
    rows: ROWS,
};

const NO_LIMITS: &str = "`limit_req`, `limit_conn` and `limit_rate` limit requests; clients are not \
                         refused for the traffic there was so far";
const NO_DUMP: &str = "numbers are not kept in a file: they begin anew with a new process, as \
                       Prometheus expects of counters";
const NO_CODES: &str = "`metrics` has `sealane_server_responses_total` by status";
const ONE_OF_THEM: &str = "of filters that are alike, one is processed";
const NO_LIMIT_TO_BYPASS: &str = "there is no such limit";

const ROWS: &[Row] = &[
    Row::new(
        "vhost_traffic_status_zone",
        HTTP,
        Arity::Between(0, 1),
        "",
        "Counts requests, in a zone of memory, `shared:NAME:SIZE`; without an argument it has 1 MiB \
         and the module's name. A server, and each value of a filter, takes 2 KiB of it, or more if \
         its name is long. Names of servers always have room. A value for which there is none is \
         not counted, and the error log tells so once in a minute.",
        zone,
    )
    .own(),
    Row::new(
        "vhost_traffic_status",
        HSL,
        ONE,
        "on",
        "Whether requests are counted, if there is `vhost_traffic_status_zone`.",
        |b, c| c.flag(&mut b.location().traffic.enabled),
    )
    .own(),
    Row::new(
        "vhost_traffic_status_bypass_stats",
        HSL,
        ONE,
        "off",
        "Whether requests are left out, for example those for the numbers.",
        |b, c| c.flag(&mut b.location().traffic.bypass),
    )
    .own(),
    Row::new(
        "vhost_traffic_status_display",
        HSL,
        Arity::Between(0, 0),
        "",
        "Answers with the numbers. `/format/json`, `/format/jsonp`, `/format/html` or \
         `/format/prometheus` at the end of the URI chooses a format. Access must be restricted, \
         for example with `allow` and `deny`, or the address be one that only this machine \
         reaches: otherwise it is an error.",
        |b, _| {
            b.location().answer_by(ContentHandler::Status(StatusView::Traffic));
            Ok(())
        },
    )
    .own(),
    Row::new(
        "vhost_traffic_status_display_format",
        HSL,
        ONE,
        "json",
        "The format, unless the URI names one: `json`, `jsonp`, `html` (the page of `console`), \
         `prometheus`.",
        |b, c| {
            let choices = [
                ("json", TrafficFormat::Json),
                ("jsonp", TrafficFormat::Jsonp),
                ("html", TrafficFormat::Html),
                ("prometheus", TrafficFormat::Prometheus),
            ];
            c.choice(&mut b.location().traffic.format, &choices)
        },
    )
    .own(),
    Row::new(
        "vhost_traffic_status_display_jsonp",
        HSL,
        ONE,
        "ngx_http_vhost_traffic_status_jsonp_callback",
        "The function that `jsonp` calls: letters, digits, `_`, `$` and `.`.",
        callback,
    )
    .own(),
    Row::new(
        "vhost_traffic_status_display_sum_key",
        HSL,
        ONE,
        "*",
        "The name of the sum of all servers.",
        |b, c| {
            c.once(&b.location_ref().traffic.sum_key)?;
            let name = c.text(1)?;
            b.location().traffic.sum_key = Some(name.into());
            Ok(())
        },
    )
    .own(),
    Row::new(
        "vhost_traffic_status_filter",
        HSL,
        ONE,
        "on",
        "Whether `vhost_traffic_status_filter_by_host` and \
         `vhost_traffic_status_filter_by_set_key` have an effect.",
        |b, c| c.flag(&mut b.location().traffic.filter),
    )
    .own(),
    Row::new(
        "vhost_traffic_status_filter_by_host",
        HSL,
        ONE,
        "off",
        "Whether requests are counted by the host that the client has named, not by the first \
         name of the server. Clients can fill the zone with names.",
        |b, c| c.flag(&mut b.location().traffic.by_host),
    )
    .own(),
    Row::new(
        "vhost_traffic_status_filter_by_set_key",
        HSL,
        Arity::Between(1, 2),
        "",
        "Counts requests by a value, with variables, in the group that the second one names, or \
         beside the servers if there is none. Those of `http` count for all requests; inner levels \
         replace each other's. Of a value, 1024 bytes are kept.",
        filter,
    )
    .own(),
    Row::new(
        "vhost_traffic_status_filter_max_node",
        HTTP,
        Arity::AtLeast(1),
        "0",
        "How many values filters may have in total, or, if there are more arguments, those whose \
         groups begin with one of these. The value that was met longest ago makes room for another. \
         0 leaves it to the size of the zone.",
        |b, c| {
            c.once(&b.http.traffic.max_filters)?;
            let number = values::number(c.arg(1)).ok_or_else(|| c.refuse_arg(1, "invalid number"))?;
            let groups = c.args().skip(1).map(|(_, group)| group.into()).collect();
            b.http.traffic.max_filters = Some((number, groups));
            Ok(())
        },
    )
    .own(),
    Row::new(
        "vhost_traffic_status_stats_by_upstream",
        HTTP,
        ONE,
        "on",
        "Whether upstream servers are shown.",
        |b, c| c.flag(&mut b.http.traffic.shows_upstreams),
    )
    .own(),
    Row::new(
        "vhost_traffic_status_histogram_buckets",
        HSL,
        Arity::AtLeast(1),
        "",
        "Bounds of a histogram of request times in seconds, ascending, at most 32.",
        buckets,
    )
    .own(),
    Row::new(
        "vhost_traffic_status_average_method",
        HSL,
        Arity::Between(1, 2),
        "AMM 60s",
        "How the average of request times is computed of the last 64 that were in this time: `AMM` \
         is the mean, with `WMA` newer ones weigh more. 0 is any time.",
        average,
    )
    .own(),
    Row::new(
        "vhost_traffic_status_ignore_status",
        HSL,
        Arity::AtLeast(1),
        "",
        "Classes of responses (`1xx` to `5xx`) that are not counted; `off` for none.",
        ignored,
    )
    .own(),
    Row::meaningless(
        "vhost_traffic_status_filter_check_duplicate",
        HSL,
        ONE,
        Check::Flag,
        ONE_OF_THEM,
    )
    .own(),
    Row::meaningless(
        "vhost_traffic_status_bypass_limit",
        HSL,
        ONE,
        Check::Flag,
        NO_LIMIT_TO_BYPASS,
    )
    .own(),
    Row::meaningless(
        "vhost_traffic_status_limit_check_duplicate",
        HSL,
        ONE,
        Check::Flag,
        NO_LIMIT_TO_BYPASS,
    )
    .own(),
    Row::meaningless("vhost_traffic_status_limit", HSL, ONE, Check::Flag, NO_LIMIT_TO_BYPASS).own(),
    Row::unsupported(
        "vhost_traffic_status_limit_traffic",
        HSL,
        Arity::Between(1, 2),
        NO_LIMITS,
    )
    .own(),
    Row::unsupported(
        "vhost_traffic_status_limit_traffic_by_set_key",
        HSL,
        Arity::Between(2, 3),
        NO_LIMITS,
    )
    .own(),
    Row::unsupported(
        "vhost_traffic_status_set_by_filter",
        HSL,
        Arity::Between(2, 2),
        "requests cannot use the numbers; `vhost_traffic_status_display` shows them",
    )
    .own(),
    Row::later(
        "vhost_traffic_status_dump",
        HTTP,
        Arity::Between(1, 2),
        Check::Any,
        NO_DUMP,
    )
    .own(),
    Row::later(
        "vhost_traffic_status_measure_status_codes",
        HTTP,
        Arity::AtLeast(1),
        Check::Any,
        NO_CODES,
    )
    .own(),
];

fn zone(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.http.traffic.zone)?;
    let (name, bytes) = match c.count() {
        0 => (ZONE, ZONE_BYTES),
        _ => {
            let zone = c.text(1)?.strip_prefix("shared:");
            let (name, size) = zone
                .and_then(|zone| zone.split_once(':'))
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| c.invalid_parameter(1).help("it is \"shared:NAME:SIZE\""))?;
            let bytes = values::size(size.as_bytes())
                .ok_or_else(|| Fault::at(1, format!("invalid shared size \"{}\"", c.shown(1))))?;
            if bytes < MIN_ZONE_BYTES {
                return Err(Fault::at(
                    1,
                    format!("shared \"{}\" is too small", c.shown(1)),
                ));
            }
            (name, bytes)
        }
    };
    zones::claim(b, name, ZoneUse::Traffic)?;
    b.http.traffic.zone = Some((name.into(), bytes));
    Ok(())
}

fn filter(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    if c.arg(1).is_empty() {
        return Err(Fault::at(1, "empty key pattern"));
    }
    let key = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    let group = template::compile(&mut b.names, c.arg(2), 2, &c.origin)?;
    let filter = TrafficFilter { key, group };
    let is_inside = b.in_server() || b.open_location().is_some();
    match is_inside {
        true => b
            .location()
            .traffic
            .filters
            .get_or_insert_default()
            .push(filter),
        false => b.http.traffic.filters.push(filter),
    }
    Ok(())
}

fn callback(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location_ref().traffic.callback)?;
    let name = c.text(1)?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.');
    if name.is_empty() || !name.bytes().all(fits) {
        return Err(c.invalid(1).help("it is the name of a function"));
    }
    b.location().traffic.callback = Some(name.into());
    Ok(())
}

fn buckets(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location_ref().traffic.bucket_bounds_ms)?;
    if c.count() > MAX_BUCKETS {
        return Err(c.refuse("takes at most 32 bounds"));
    }
    let mut bounds: Vec<u32> = Vec::new();
    for (index, word) in c.args() {
        let ms = values::decimal(word, 3).and_then(|ms| u32::try_from(ms).ok());
        let ms = ms.filter(|ms| *ms > 0 && bounds.last().is_none_or(|last| last < ms));
        bounds.push(ms.ok_or_else(|| c.invalid_parameter(index).help("seconds, ascending"))?);
    }
    b.location().traffic.bucket_bounds_ms = Some(bounds.into());
    Ok(())
}

fn average(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location_ref().traffic.average)?;
    let weighs = match c.arg(1) {
        b"AMM" => false,
        b"WMA" => true,
        _ => return Err(c.invalid_parameter(1).help("AMM or WMA")),
    };
    let over = match c.count() {
        1 => Duration::from_secs(60),
        _ => values::time(c.arg(2)).ok_or_else(|| c.invalid_parameter(2))?,
    };
    b.location().traffic.average = Some((weighs, over));
    Ok(())
}

fn ignored(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location_ref().traffic.ignored_classes)?;
    let mut classes = [false; 6];
    for (index, word) in c.args() {
        match word {
            b"off" if c.count() == 1 => {}
            [class @ b'1'..=b'5', b'x', b'x'] => classes[usize::from(class - b'0')] = true,
            _ => return Err(c.invalid(index).help("1xx to 5xx, or off")),
        }
    }
    b.location().traffic.ignored_classes = Some(classes);
    Ok(())
}
