//! Tengine's ngx_http_reqstat_module.

use super::{Arity, HSL, HTTP, LOCATION, Module, ONE, Row, zones};
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::draft::{ReqStatusZoneDraft, ZoneUse};
use crate::model::{ContentHandler, Indicator, REQ_STATUS_FIELDS, ReqStatusField, ReqStatusZone};
use crate::{template, values};

/// Eight pages; Tengine's least.
const MIN_ZONE_BYTES: u64 = 8 * 4096;
/// Tengine's default of `req_status_zone_key_length`.
const KEY_LENGTH: usize = 152;
/// The longest key.
const MAX_KEY_LENGTH: u64 = 4096;
/// Ten requests in a minute; Tengine's default of `req_status_zone_recycle`.
const RECYCLE_RATE: u64 = 167;
/// Tengine's limit of indicators.
const MAX_INDICATORS: usize = 21;

pub(super) const MODULE: Module = Module {
    title: "HTTP: requests counted by a value",
    doc: "Counts requests by a value of theirs, such as `\"$host,$server_addr:$server_port\"`, and \
          shows the numbers as Tengine does: one line for each value, with fields between commas. \
          A request is counted at its end, in the zones of the location that it comes to first. A \
          zone survives a reload if its key and size are unchanged; a reload that requires a new \
          process starts with empty zones. For what is known in advance, `status_zone` costs \
          less.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "req_status_zone",
        HTTP,
        Arity::Between(3, 3),
        "",
        "Zone for `req_status`: name, value with variables, and size. An entry takes 1 KiB of it \
         (512 bytes if the value has at most 24), and a request is not counted while there is \
         neither room nor an entry that `req_status_zone_recycle` gives up.",
        zone,
    )
    .own(),
    Row::new(
        "req_status_zone_key_length",
        HTTP,
        Arity::Between(2, 2),
        "",
        "Zone, and the bytes of values that are kept, at most 4096; by default 152. What is longer \
         is cut off.",
        |b, c| {
            let length = values::number(c.arg(2));
            let length = length.filter(|length| (1..=MAX_KEY_LENGTH).contains(length));
            let length = length.ok_or_else(|| Fault::at(2, "invalid key length"))?;
            defined(b, c)?.key_length = length as usize; // at most MAX_KEY_LENGTH
            Ok(())
        },
    )
    .own(),
    Row::new(
        "req_status_zone_recycle",
        HTTP,
        Arity::Between(3, 3),
        "",
        "Zone, a number of requests, and seconds: when the zone is full, a value that is met less \
         often makes room for another. By default 10 requests in 60 seconds.",
        |b, c| {
            let times = values::number(c.arg(2)).and_then(|times| times.checked_mul(1000));
            let times = times.ok_or_else(|| Fault::at(2, "invalid threshold"))?;
            let seconds = values::number(c.arg(3)).filter(|seconds| *seconds > 0);
            let seconds = seconds.ok_or_else(|| Fault::at(3, "invalid scale"))?;
            defined(b, c)?.recycle_rate = times / seconds;
            Ok(())
        },
    )
    .own(),
    Row::new(
        "req_status_zone_add_indicator",
        HTTP,
        Arity::AtLeast(2),
        "",
        "Zone, and up to 21 variables whose values are added up, at the end of each line. Of a \
         value, the number at its end counts; decimals count as if there were no point.",
        indicators,
    )
    .own(),
    Row::new(
        "req_status",
        HSL,
        Arity::AtLeast(1),
        "",
        "Zones in which requests are counted.",
        |b, c| {
            c.once(&b.location_ref().req_status.zones)?;
            let zones = named(b, c)?;
            b.location().req_status.zones = Some(zones.into());
            Ok(())
        },
    )
    .own(),
    Row::new(
        "req_status_bypass",
        HSL,
        Arity::AtLeast(1),
        "",
        "Requests for which one of the values is neither empty nor `0` when they come to their \
         first location are not counted.",
        |b, c| {
            c.once(&b.location_ref().req_status.bypass)?;
            let mut values = Vec::new();
            for (index, word) in c.args() {
                values.push(template::compile(&mut b.names, word, index, &c.origin)?);
            }
            b.location().req_status.bypass = Some(values.into());
            Ok(())
        },
    )
    .own(),
    Row::new(
        "req_status_lazy",
        HSL,
        ONE,
        "off",
        "Whether the values of zones are those at the end of a request, for example of \
         `$upstream_addr`, not those when it comes to its first location.",
        |b, c| c.flag(&mut b.location().req_status.lazy),
    )
    .own(),
    Row::new(
        "req_status_show",
        LOCATION,
        Arity::AtLeast(0),
        "",
        "Answers with the numbers of these zones, or of all. Values are sorted; their control \
         characters are written as `\\\\xNN`. Say who may see them with `allow` and `deny`.",
        |b, c| {
            c.once(&b.location_ref().req_status.shown)?;
            let zones = named(b, c)?;
            let location = b.location();
            location.req_status.shown = Some((!zones.is_empty()).then(|| zones.into()));
            location.answer_by(ContentHandler::ReqStatus);
            Ok(())
        },
    )
    .own(),
    Row::new(
        "req_status_show_field",
        LOCATION,
        Arity::AtLeast(1),
        "",
        "Fields of lines behind the value, in this order: names of what is counted (`bytes_in`, \
         `bytes_out`, `conn_total`, `req_total`, `http_2xx` to `http_5xx`, `http_other_status`, \
         `rt`, `ups_req`, `ups_rt`, `ups_tries`, `http_200`, `http_206`, `http_302`, `http_304`, \
         `http_403`, `http_404`, `http_416`, `http_499`, `http_500`, `http_502`, `http_503`, \
         `http_504`, `http_508`, `http_other_detail_status`, `http_ups_4xx`, `http_ups_5xx`), or \
         variables of `req_status_zone_add_indicator`. By default all of them, in this order. \
         Times are milliseconds.",
        fields,
    )
    .own(),
];

/// The number of a zone, which may be defined later on.
fn refer(b: &mut Build<'_>, name: &str) -> Result<usize, Fault> {
    zones::claim(b, name, ZoneUse::ReqStatus)?;
    let zones = &mut b.http.req_status_zones;
    let known = zones.iter().position(|zone| *zone.name == *name);
    Ok(known.unwrap_or_else(|| {
        zones.push(ReqStatusZoneDraft {
            name: name.into(),
            zone: None,
        });
        zones.len() - 1
    }))
}

/// The numbers of the zones that are the arguments.
fn named(b: &mut Build<'_>, c: &Call<'_>) -> Result<Vec<usize>, Fault> {
    let mut zones = Vec::new();
    for (index, word) in c.args() {
        let zone = refer(b, c.utf8(index, word)?).map_err(|fault| fault.at_word(index))?;
        if zones.contains(&zone) {
            let name = c.shown(index);
            return Err(Fault::at(index, format!("duplicate zone \"{name}\"")));
        }
        zones.push(zone);
    }
    Ok(zones)
}

/// The zone of the first argument.
fn defined<'b>(b: &'b mut Build<'_>, c: &Call<'_>) -> Result<&'b mut ReqStatusZone, Fault> {
    let index = refer(b, c.text(1)?)?;
    let zone = b.http.req_status_zones[index].zone.as_mut();
    zone.ok_or_else(|| {
        let name = c.shown(1);
        Fault::at(1, format!("zone \"{name}\" should be defined first"))
    })
}

fn zone(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let name = c.text(1)?;
    let key = template::compile(&mut b.names, c.arg(2), 2, &c.origin)?;
    if key.as_literal().is_some() {
        let message = format!("the value \"{}\" is a constant", c.shown(2));
        return Err(Fault::at(2, message));
    }
    let invalid = || Fault::at(3, format!("invalid zone size \"{}\"", c.shown(3)));
    let bytes = values::size(c.arg(3)).ok_or_else(invalid)?;
    if bytes < MIN_ZONE_BYTES {
        return Err(Fault::at(3, format!("zone \"{name}\" is too small")));
    }
    let index = refer(b, name)?;
    let slot = &mut b.http.req_status_zones[index].zone;
    if let Some(earlier) = slot {
        let (row, value) = (c.row.name, shown(&earlier.key_text));
        return Err(Fault::new(format!(
            "{row} \"{name}\" is already bound to value \"{value}\""
        )));
    }
    *slot = Some(ReqStatusZone {
        name: name.into(),
        bytes,
        key,
        key_text: c.arg(2).into(),
        key_length: KEY_LENGTH,
        recycle_rate: RECYCLE_RATE,
        indicators: Vec::new(),
    });
    Ok(())
}

fn indicators(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    if !defined(b, c)?.indicators.is_empty() {
        return Err(c.refuse("is duplicate"));
    }
    if c.count() > 1 + MAX_INDICATORS {
        return Err(Fault::new("too many user defined variables"));
    }
    let mut found = Vec::new();
    for (index, word) in c.args().skip(1) {
        let name = word.strip_prefix(b"$").unwrap_or(word);
        let text = [b"${", name, b"}"].concat();
        found.push(Indicator {
            name: c.utf8(index, name)?.into(),
            value: template::compile(&mut b.names, &text, index, &c.origin)?,
        });
    }
    defined(b, c)?.indicators = found;
    Ok(())
}

fn fields(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location_ref().req_status.fields)?;
    let mut fields = Vec::new();
    for (index, word) in c.args() {
        let field = c.utf8(index, word)?;
        let unknown = || Fault::at(index, format!("field \"{field}\" does not exist"));
        fields.push(match field.strip_prefix('$') {
            Some(name) => {
                let zones = b.http.req_status_zones.iter();
                let mut zones = zones.filter_map(|zone| zone.zone.as_ref());
                let has_it =
                    |zone: &ReqStatusZone| zone.indicators.iter().any(|known| *known.name == *name);
                if !zones.any(has_it) {
                    let help = "\"req_status_zone_add_indicator\" adds variables";
                    return Err(unknown().help(help));
                }
                ReqStatusField::Indicator(name.into())
            }
            None => {
                let known = REQ_STATUS_FIELDS.iter().position(|known| *known == field);
                ReqStatusField::Counted(known.ok_or_else(unknown)?)
            }
        });
    }
    b.location().req_status.fields = Some(fields.into());
    Ok(())
}
