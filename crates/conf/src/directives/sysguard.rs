//! Tengine's ngx_http_sysguard_module.

use super::{Arity, HSL, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{CpuLimit, GuardRule, LoadLimit, LogLevel, ResponseTimeLimit};
use crate::values;
use std::sync::Arc;
use std::time::Duration;

/// The longest `period=`, so that what is remembered for it stays small.
const MAX_PERIOD: Duration = Duration::from_secs(3600);

pub(super) const MODULE: Module = Module {
    title: "HTTP: overload",
    doc: "Turns requests away while the machine, or the cgroup that the server runs in, is \
          overloaded, as in Tengine. A thread of the worker process reads the figures every \
          `sysguard_interval`; requests only compare. In a cgroup with limits of its own (version \
          2), `free=` and `swapratio=` are also about what is left of `memory.max` and \
          `memory.swap.max`, and `usage=` about the share of `cpu.max`; the load average is \
          always that of the machine. A request is judged once, before `limit_req`.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "sysguard",
        HSL,
        ONE,
        "off",
        "Whether requests are turned away as the other directives say.",
        |b, c| c.flag(&mut b.location().sysguard.enabled),
    )
    .own(),
    Row::new(
        "sysguard_load",
        HSL,
        Arity::Between(1, 2),
        "",
        "Limit of the load average of the last minute: `load=10.5`, or for each processor \
         `load=ncpu*1.5`. Beyond it requests are redirected to the URI or named location of \
         `action=`, without one answered with 503.",
        load,
    )
    .own(),
    Row::new(
        "sysguard_cpu",
        HSL,
        Arity::Between(1, 3),
        "",
        "Limit of the time that processors are busy, in percent: `usage=90`, averaged over \
         `period=` (default 3s, at most 1h). `action=` is that of `sysguard_load`.",
        cpu,
    )
    .own(),
    Row::new(
        "sysguard_mem",
        HSL,
        Arity::Between(1, 3),
        "",
        "Limits of memory: `swapratio=20%` is how much of the swap space may be used, \
         `free=100M` how much memory, buffers and page cache included, must be free. May be given \
         once for each, or once for both. `action=` is that of `sysguard_load`.",
        memory,
    )
    .own(),
    Row::new(
        "sysguard_rt",
        HSL,
        Arity::Between(1, 3),
        "",
        "Limit of the average time that the location's requests take, in seconds: `rt=0.5`, over \
         `period=` (default 1s, at most 1h). Requests that were turned away do not count, so \
         requests are let in again after this time. `action=` is that of `sysguard_load`.",
        response_time,
    )
    .own(),
    Row::new(
        "sysguard_mode",
        HSL,
        ONE,
        "or",
        "Whether requests are turned away beyond any of the limits (`or`) or beyond all of them \
         (`and`).",
        |b, c| {
            let choices = [("or", false), ("and", true)];
            c.choice(&mut b.location().sysguard.all, &choices)
        },
    )
    .own(),
    Row::new(
        "sysguard_interval",
        HSL,
        ONE,
        "1s",
        "How often the figures are read. There is one thread for all: the shortest time holds.",
        |b, c| {
            c.seconds(&mut b.location().sysguard.interval)?;
            match b.location_ref().sysguard.interval {
                Some(Duration::ZERO) => Err(c.invalid(1).help("it is at least 1s")),
                _ => Ok(()),
            }
        },
    )
    .own(),
    Row::new(
        "sysguard_log_level",
        HSL,
        ONE,
        "error",
        "Log level for requests that are turned away: `info`, `notice`, `warn` or `error`.",
        |b, c| {
            let choices = [
                ("info", LogLevel::Info),
                ("notice", LogLevel::Notice),
                ("warn", LogLevel::Warn),
                ("error", LogLevel::Error),
            ];
            c.choice(&mut b.location().sysguard.log_level, &choices)
        },
    )
    .own(),
];

/// `action=`, if this is one.
fn action(c: &Call<'_>, index: usize, word: &[u8]) -> Result<Option<Arc<str>>, Fault> {
    let Some(target) = word.strip_prefix(b"action=") else {
        return Ok(None);
    };
    let is_place = matches!(target, [b'/', ..] | [b'@', _, ..]);
    let target = std::str::from_utf8(target).ok().filter(|_| is_place);
    let target = target.ok_or_else(|| {
        c.invalid_parameter(index)
            .help("it is a URI such as \"/busy\" or a named location such as \"@busy\"")
    })?;
    Ok(Some(target.into()))
}

/// `period=`, if this is one.
fn period(c: &Call<'_>, index: usize, word: &[u8]) -> Result<Option<Duration>, Fault> {
    let Some(period) = word.strip_prefix(b"period=") else {
        return Ok(None);
    };
    let period = values::seconds(period);
    let period = period.filter(|period| (Duration::from_secs(1)..=MAX_PERIOD).contains(period));
    let fault = || c.invalid_parameter(index).help("it is between 1s and 1h");
    period.ok_or_else(fault).map(Some)
}

fn must_have(c: &Call<'_>, parameter: &str) -> Fault {
    let name = c.row.name;
    Fault::new(format!("\"{name}\" must have \"{parameter}\" parameter"))
}

fn load(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let (mut limit, mut target) = (None, None);
    for (index, word) in c.args() {
        if let Some(number) = word.strip_prefix(b"load=") {
            let (per_cpu, number) = match number.strip_prefix(b"ncpu*") {
                Some(number) => (true, number),
                None => (false, number),
            };
            let thousandths = values::decimal(number, 3);
            limit = Some(LoadLimit {
                thousandths: thousandths.ok_or_else(|| c.invalid_parameter(index))?,
                per_cpu,
            });
        } else if let Some(action) = action(c, index, word)? {
            target = Some(action);
        } else {
            return Err(c.invalid_parameter(index));
        }
    }
    let limit = limit.ok_or_else(|| must_have(c, "load"))?;
    store(c, &mut b.location().sysguard.load, limit, target)
}

/// A limit on an average, of this many decimal places, with its `period=` and `action=`.
fn average(
    c: &Call<'_>,
    parameter: &str,
    places: u32,
    default_period: Duration,
) -> Result<(u64, Duration, Option<Arc<str>>), Fault> {
    let (mut limit, mut over, mut target) = (None, default_period, None);
    for (index, word) in c.args() {
        let own = word.strip_prefix(parameter.as_bytes());
        if let Some(number) = own.and_then(|rest| rest.strip_prefix(b"=")) {
            let number = values::decimal(number, places);
            limit = Some(number.ok_or_else(|| c.invalid_parameter(index))?);
        } else if let Some(period) = period(c, index, word)? {
            over = period;
        } else if let Some(action) = action(c, index, word)? {
            target = Some(action);
        } else {
            return Err(c.invalid_parameter(index));
        }
    }
    Ok((limit.ok_or_else(|| must_have(c, parameter))?, over, target))
}

fn cpu(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let (usage, period, target) = average(c, "usage", 2, Duration::from_secs(3))?;
    let limit = CpuLimit { usage, period };
    store(c, &mut b.location().sysguard.cpu, limit, target)
}

fn memory(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let (mut swap, mut free, mut target) = (None, None, None);
    for (index, word) in c.args() {
        if let Some(ratio) = word.strip_prefix(b"swapratio=") {
            let percent = ratio.strip_suffix(b"%");
            let percent = percent.and_then(|number| values::decimal(number, 2));
            swap = Some(percent.ok_or_else(|| c.invalid_parameter(index))?);
        } else if let Some(size) = word.strip_prefix(b"free=") {
            free = Some(values::offset(size).ok_or_else(|| c.invalid_parameter(index))?);
        } else if let Some(action) = action(c, index, word)? {
            target = Some(action);
        } else {
            return Err(c.invalid_parameter(index));
        }
    }
    if swap.is_none() && free.is_none() {
        return Err(must_have(c, "swapratio"));
    }
    let draft = &mut b.location().sysguard;
    if let Some(swap) = swap {
        store(c, &mut draft.swap, swap, target.clone())?;
    }
    match free {
        Some(free) => store(c, &mut draft.free, free, target),
        None => Ok(()),
    }
}

fn response_time(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let (average_ms, period, target) = average(c, "rt", 3, Duration::from_secs(1))?;
    let limit = ResponseTimeLimit { average_ms, period };
    let slot = &mut b.location().sysguard.response_time;
    store(c, slot, limit, target)
}

fn store<L>(
    c: &Call<'_>,
    slot: &mut Option<GuardRule<L>>,
    limit: L,
    action: Option<Arc<str>>,
) -> Result<(), Fault> {
    c.once(slot)?;
    *slot = Some(GuardRule { limit, action });
    Ok(())
}
