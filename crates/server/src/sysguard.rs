//! `sysguard`: requests are turned away while the machine is overloaded.
//!
//! In nginx's NGX_HTTP_PREACCESS_PHASE, before `limit_req`. A request is judged once, whatever
//! redirects and subrequests follow. Requests only compare: another thread of the process
//! publishes the figures ([`LoadWatch`]), except for response times, which come from here.

mod figures;
mod response_times;

pub use figures::LoadWatch;
pub(crate) use response_times::ResponseTimes;

use self::figures::{CpuMeter, SystemLoad};
use crate::exchange::Exchange;
use crate::handlers::Outcome;
use crate::request_log;
use crate::snapshot::LocationId;
use sealane_conf::model::{GuardRule, Sysguard};
use sealane_http::StatusCode;
use sealane_sys::time::monotonic_coarse_ms;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// `sysguard` of a location at run time.
pub(crate) struct Guard {
    conf: Arc<Sysguard>,
    system: Arc<SystemLoad>,
    cpu: Option<Arc<CpuMeter>>,
    times: Option<ResponseTimes>,
}

impl Guard {
    /// For a location.
    pub(crate) fn new(conf: Arc<Sysguard>, watch: &mut LoadWatch) -> Guard {
        watch.add(conf.interval);
        let cpu = conf.cpu.as_ref();
        let times = conf.response_time.as_ref();
        Guard {
            cpu: cpu.map(|rule| watch.meter(rule.limit.period)),
            times: times.map(|rule| ResponseTimes::new(rule.limit.period)),
            system: Arc::clone(watch.system()),
            conf,
        }
    }
}

/// What a request keeps of it.
#[derive(Default, Clone, Copy)]
pub(crate) struct SysguardState {
    is_judged: bool,
    /// Where it was let in, if response times are measured there.
    timed: Option<LocationId>,
}

impl SysguardState {
    /// For a subrequest.
    pub(crate) fn of_subrequest(main: &Exchange) -> SysguardState {
        SysguardState {
            is_judged: main.features.sysguard.is_judged,
            timed: None,
        }
    }
}

/// A limit that is exceeded: what the log says, and what follows.
struct Excess {
    message: Message,
    action: Option<Arc<str>>,
}

/// Tengine's words.
enum Message {
    Load(u64, u64),
    Cpu(u64, u64),
    Swap(u64, u64),
    Free(u64, u64),
    ResponseTime(u64, u64),
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = |number: &u64| format!("{}.{:03}", number / 1000, number % 1000);
        let hundredths = |number: &u64| format!("{}.{:02}", number / 100, number % 100);
        let mib = |bytes: &u64| format!("{}M", bytes >> 20);
        let (what, current, limit) = match self {
            Message::Load(current, limit) => ("load", thousandths(current), thousandths(limit)),
            Message::Cpu(current, limit) => ("cpu", hundredths(current), hundredths(limit)),
            Message::Swap(current, limit) => ("swap", hundredths(current), hundredths(limit)),
            Message::Free(current, limit) => ("free", mib(current), mib(limit)),
            Message::ResponseTime(current, limit) => {
                ("rt", thousandths(current), thousandths(limit))
            }
        };
        write!(f, "sysguard {what} limited, current:{current} conf:{limit}")
    }
}

/// Whether the request may go on: [`Outcome::Declined`] if so.
pub(crate) fn check(exchange: &mut Exchange) -> Outcome {
    if exchange.features.sysguard.is_judged {
        return Outcome::Declined;
    }
    let snapshot = exchange.snapshot.clone();
    let Some(guard) = &snapshot.location(exchange.location).guard else {
        return Outcome::Declined;
    };
    exchange.features.sysguard.is_judged = true;
    let excesses = guard.excesses();
    let Some(action) = guard.consequence(&excesses) else {
        exchange.features.sysguard.timed = guard.times.is_some().then_some(exchange.location);
        return Outcome::Declined;
    };
    let count = if guard.conf.all { excesses.len() } else { 1 };
    for excess in &excesses[..count] {
        let message = format_args!("{}", excess.message);
        request_log::log(exchange, guard.conf.log_level, message);
    }
    match action.as_deref() {
        None => Outcome::Status(StatusCode::SERVICE_UNAVAILABLE),
        Some(action) => Outcome::elsewhere(exchange, action),
    }
}

/// Takes the time of a request that has ended into account.
pub(crate) fn conclude(exchange: &Exchange) {
    let Some(location) = exchange.features.sysguard.timed else {
        return;
    };
    let guard = exchange.snapshot.location(location).guard.as_ref();
    if let Some(times) = guard.and_then(|guard| guard.times.as_ref()) {
        times.add(exchange.transfer.started.elapsed(), monotonic_coarse_ms());
    }
}

impl Guard {
    /// The limits that are exceeded, in Tengine's order.
    fn excesses(&self) -> SmallVec<[Excess; 2]> {
        let mut found = SmallVec::new();
        let conf = &*self.conf;
        if let Some(rule) = &conf.load {
            let cpus = if rule.limit.per_cpu {
                self.system.cpus()
            } else {
                1
            };
            let limit = rule.limit.thousandths.saturating_mul(cpus);
            let load = self.system.load_thousandths();
            found.extend(beyond(rule, load, limit, Message::Load));
        }
        if let (Some(rule), Some(meter)) = (&conf.cpu, &self.cpu) {
            found.extend(beyond(rule, meter.usage(), rule.limit.usage, Message::Cpu));
        }
        if let Some(rule) = &conf.swap {
            let used = self.system.swap_used();
            found.extend(beyond(rule, used, rule.limit, Message::Swap));
        }
        if let Some(rule) = &conf.free {
            let free = self.system.free_bytes();
            let is_short = free.filter(|free| *free < rule.limit);
            found.extend(is_short.map(|free| Excess {
                message: Message::Free(free, rule.limit),
                action: rule.action.clone(),
            }));
        }
        if let (Some(rule), Some(times)) = (&conf.response_time, &self.times) {
            let average_ms = times.average_ms(monotonic_coarse_ms());
            let limit = rule.limit.average_ms;
            found.extend(beyond(rule, average_ms, limit, Message::ResponseTime));
        }
        found
    }

    /// What follows, if anything: with `or` from the first limit that is exceeded, with `and` from
    /// the last one if all are.
    fn consequence<'e>(&self, excesses: &'e [Excess]) -> Option<&'e Option<Arc<str>>> {
        let conf = &*self.conf;
        if !conf.all {
            return excesses.first().map(|excess| &excess.action);
        }
        let rules = [
            conf.load.is_some(),
            conf.cpu.is_some(),
            conf.swap.is_some(),
            conf.free.is_some(),
            conf.response_time.is_some(),
        ];
        let rules = rules.into_iter().filter(|is_given| *is_given).count();
        let last = excesses.last().filter(|_| excesses.len() == rules);
        last.map(|excess| &excess.action)
    }
}

fn beyond<L>(
    rule: &GuardRule<L>,
    current: Option<u64>,
    limit: u64,
    message: fn(u64, u64) -> Message,
) -> Option<Excess> {
    let current = current.filter(|current| *current > limit)?;
    Some(Excess {
        message: message(current, limit),
        action: rule.action.clone(),
    })
}

#[cfg(test)]
mod tests;
