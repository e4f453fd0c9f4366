//! `limit_req`: nginx's leaky bucket. The excess of a key, in thousandths of a request, grows
//! by a request and shrinks at the rate of the zone.

use super::zone::{KeyPosition, Locked, NodeId, Zone};
use super::{LimitStatus, LimitZoneRuntime, ZoneState, ZoneVerdict};
use crate::exchange::Exchange;
use crate::handlers::Outcome;
use crate::metrics::ZoneFill;
use crate::request_log::{Text, log, log_request};
use crate::template;
use sealane_conf::model::{LimitKind, LimitRequests, LogLevel, RequestLimit, RequestRate};
use sealane_conf::values;
use sealane_http::StatusCode;
use sealane_sys::time::monotonic_coarse_ms;
use smallvec::SmallVec;
use std::time::Duration;

/// Memory of a node in nginx besides its key: tree, list and state.
const NODE_BYTES: usize = 80;
/// nginx's limit.
const MAX_KEY_BYTES: usize = 65535;
/// A request.
const ONE: i64 = 1000;
/// How long a bucket has to be unused before it is forgotten once it is empty.
const FORGET_MS: u64 = 60_000;

/// The state of a zone.
pub(crate) struct RequestZone(Zone<Bucket>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    excess: i64,
    /// When it was last filled, on the machine's clock.
    last_ms: u64,
    /// How many requests are still to be added, as further zones are being checked; until then the
    /// bucket must stay.
    pins: u32,
}

/// What happens to a request.
pub(super) enum LimitVerdict {
    Passed,
    Delayed(Duration),
    Refused(StatusCode),
    /// It is redirected (`forbid_action=`).
    Elsewhere(Outcome),
}

/// The answer of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZoneLookup {
    /// There is room; the request was added, with this excess.
    Added(i64),
    /// There is room; the request is added by [`RequestZone::add`].
    Pinned(NodeId),
    /// There is no room, with this excess.
    Busy(i64),
    /// The zone is full.
    NoNode,
}

impl Bucket {
    /// The excess with another request, and whether time has passed since the last one.
    fn with_another(&self, rate: i64, now_ms: u64) -> (i64, bool) {
        let passed_ms = now_ms.saturating_sub(self.last_ms);
        let leaked = rate.saturating_mul(i64::try_from(passed_ms).unwrap_or(i64::MAX)) / 1000;
        let excess = self.excess.saturating_sub(leaked).saturating_add(ONE);
        (excess.max(0), passed_ms > 0)
    }

    fn fill(&mut self, excess: i64, time_went_on: bool, now_ms: u64) {
        self.excess = excess;
        if time_went_on {
            self.last_ms = now_ms;
        }
    }
}

impl RequestZone {
    /// An empty zone.
    pub(crate) fn new(bytes: u64) -> RequestZone {
        RequestZone(Zone::new(bytes, NODE_BYTES))
    }

    /// Checks a request with this key; adds it if `adds` and there is room for it.
    pub(super) fn ask(
        &self,
        key: &[u8],
        rate: i64,
        burst: i64,
        adds: bool,
        now_ms: u64,
    ) -> (KeyPosition, ZoneLookup) {
        let position = self.0.position_of(key);
        let mut shard = self.0.lock(position);
        let Some(id) = shard.find(key) else {
            return (position, begin(&mut shard, key, rate, adds, now_ms));
        };
        let bucket = shard.state(id);
        let (excess, time_went_on) = bucket.with_another(rate, now_ms);
        if excess > burst {
            return (position, ZoneLookup::Busy(excess));
        }
        if !adds {
            bucket.pins += 1;
            return (position, ZoneLookup::Pinned(id));
        }
        bucket.fill(excess, time_went_on, now_ms);
        (position, ZoneLookup::Added(excess))
    }

    /// Adds the request for which a bucket was pinned. Returns the excess.
    pub(super) fn add(&self, position: KeyPosition, id: NodeId, rate: i64, now_ms: u64) -> i64 {
        let mut shard = self.0.lock(position);
        let bucket = shard.state(id);
        let (excess, time_went_on) = bucket.with_another(rate, now_ms);
        bucket.fill(excess, time_went_on, now_ms);
        bucket.pins -= 1;
        excess
    }

    /// Gives up a bucket that was pinned.
    pub(super) fn unpin(&self, position: KeyPosition, id: NodeId) {
        self.0.lock(position).state(id).pins -= 1;
    }

    /// What it holds.
    pub(crate) fn fill(&self) -> ZoneFill {
        self.0.fill()
    }

    #[cfg(test)]
    pub(super) fn zone_len(&self) -> (usize, usize) {
        (self.0.fill().keys as usize, self.0.shard_count())
    }
}

/// A new key.
fn begin(
    shard: &mut Locked<'_, Bucket>,
    key: &[u8],
    rate: i64,
    adds: bool,
    now_ms: u64,
) -> ZoneLookup {
    forget_empty(shard, rate, now_ms);
    if !shard.may_ever_have_room(key) {
        return ZoneLookup::NoNode; // all the others would go for nothing
    }
    while !shard.has_room(key) {
        // The oldest one makes room, unless a request is about to be added to it.
        match shard.oldest() {
            Some(oldest) if shard.state(oldest).pins == 0 => shard.remove(oldest),
            _ => return ZoneLookup::NoNode,
        }
    }
    let bucket = Bucket {
        excess: 0,
        // A request that is not added yet finds the bucket empty.
        last_ms: if adds { now_ms } else { 0 },
        pins: u32::from(!adds),
    };
    let id = shard.insert(key, bucket);
    match adds {
        true => ZoneLookup::Added(0),
        false => ZoneLookup::Pinned(id),
    }
}

/// Forgets one or two of the oldest buckets if they are empty and long unused.
fn forget_empty(shard: &mut Locked<'_, Bucket>, rate: i64, now_ms: u64) {
    for _ in 0..2 {
        let Some(oldest) = shard.oldest() else { return };
        let bucket = *shard.state(oldest);
        let unused_ms = now_ms.saturating_sub(bucket.last_ms);
        let is_empty = bucket.with_another(rate, now_ms).0 <= ONE;
        if bucket.pins > 0 || unused_ms < FORGET_MS || !is_empty {
            return;
        }
        shard.remove(oldest);
    }
}

/// A bucket to which a request is still to be added.
struct Pinned<'z> {
    zone: &'z RequestZone,
    limit: &'z RequestLimit,
    rate: i64,
    position: KeyPosition,
    id: NodeId,
}

/// Checks all zones of a location, and adds the request to all of them if none refuses.
pub(super) fn check(exchange: &mut Exchange, limits: &LimitRequests) -> LimitVerdict {
    if exchange
        .features
        .limits
        .lock()
        .is_some_and(|limited| limited.requests.is_some())
    {
        return LimitVerdict::Passed;
    }
    if is_whitelisted(exchange, limits) {
        return LimitVerdict::Passed;
    }
    let snapshot = exchange.snapshot.clone();
    let zone_of = |limit: &RequestLimit| {
        let zone = &snapshot.limit_zones[limit.zone];
        match (&zone.state, &zone.conf.kind) {
            (ZoneState::Requests(state), LimitKind::Requests { rate }) => (zone, &**state, rate),
            // A zone has the purpose of its first line, which has been checked.
            _ => unreachable!("limit_req uses zones of limit_req_zone only"),
        }
    };
    let mut pinned: SmallVec<[Pinned<'_>; 4]> = SmallVec::new();
    // The last zone adds the request with its answer.
    let mut added: Option<(&RequestLimit, i64, i64)> = None;
    let last = limits.limits.len() - 1;
    for (at, limit) in limits.limits.iter().enumerate() {
        let (runtime, zone, rate) = zone_of(limit);
        let Some(rate) = evaluated_rate(exchange, rate) else {
            unpin(&pinned);
            return LimitVerdict::Refused(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let key = template::evaluate(&runtime.conf.key, exchange);
        if key.is_empty() {
            runtime.counts.add(ZoneVerdict::Skipped);
            continue;
        }
        if key.len() > MAX_KEY_BYTES {
            let written = Text(&runtime.conf.key_text);
            let bytes = key.len();
            log_request!(
                exchange,
                Error,
                "the value of the \"{written}\" key is more than 65535 bytes: {bytes}"
            );
            runtime.counts.add(ZoneVerdict::Skipped);
            continue;
        }
        let burst = i64::try_from(limit.burst).unwrap_or(i64::MAX);
        let now_ms = monotonic_coarse_ms();
        let (position, answer) = zone.ask(&key, rate, burst, at == last, now_ms);
        let name = &runtime.conf.name;
        match answer {
            ZoneLookup::Added(excess) => added = Some((limit, rate, excess)),
            ZoneLookup::Pinned(id) => pinned.push(Pinned {
                zone,
                limit,
                rate,
                position,
                id,
            }),
            ZoneLookup::Busy(excess) => {
                unpin(&pinned);
                return busy(exchange, limits, limit, runtime, excess);
            }
            ZoneLookup::NoNode => {
                unpin(&pinned);
                runtime.counts.add(ZoneVerdict::Exhausted);
                log_request!(
                    exchange,
                    Alert,
                    "could not allocate node in limit_req zone \"{name}\"; make the zone larger"
                );
                return refuse(exchange, limits);
            }
        }
    }
    if pinned.is_empty() && added.is_none() {
        return LimitVerdict::Passed;
    }
    let (delay, excess, limit) = add_to_all(&pinned, added);
    let others = pinned.iter().map(|pinned| pinned.limit);
    for other in others.chain(added.map(|(limit, ..)| limit)) {
        zone_of(other).0.counts.add(match (delay, limits.dry_run) {
            (1.., true) if std::ptr::eq(other, limit) => ZoneVerdict::DelayedDryRun,
            (1.., false) if std::ptr::eq(other, limit) => ZoneVerdict::Delayed,
            _ => ZoneVerdict::Passed,
        });
    }
    if delay == 0 {
        exchange.features.limits.lock_or_begin().requests = Some(LimitStatus::Passed);
        return LimitVerdict::Passed;
    }
    let name = &zone_of(limit).0.conf.name;
    let dry_run = dry_run_text(limits);
    let excess = Requests(excess);
    log(
        exchange,
        delay_level(limits.log_level),
        format_args!("delaying request{dry_run}, excess: {excess}, by zone \"{name}\""),
    );
    if limits.dry_run {
        exchange.features.limits.lock_or_begin().requests = Some(LimitStatus::DelayedDryRun);
        return LimitVerdict::Passed;
    }
    exchange.features.limits.lock_or_begin().requests = Some(LimitStatus::Delayed);
    LimitVerdict::Delayed(Duration::from_millis(delay))
}

/// Whether `limit_req_whitelist` lets the request pass.
fn is_whitelisted(exchange: &Exchange, limits: &LimitRequests) -> bool {
    limits.whitelist.as_ref().is_some_and(|list| {
        let value = template::evaluate(&list.variable, exchange);
        value[..] == list.value[..]
    })
}

/// Thousandths of a request in a second; `None` when a variable has no rate.
fn evaluated_rate(exchange: &Exchange, rate: &RequestRate) -> Option<i64> {
    let rate = match rate {
        RequestRate::Fixed(rate) => *rate,
        RequestRate::Variable(variable) => {
            let written = template::evaluate(variable, exchange);
            let rate = values::request_rate(&written);
            if rate.is_none() {
                let written = Text(&written);
                log_request!(
                    exchange,
                    Error,
                    "invalid rate \"{written}\" for \"limit_req\""
                );
            }
            rate?
        }
    };
    Some(i64::try_from(rate).unwrap_or(i64::MAX))
}

/// A zone has no room for the request.
fn busy(
    exchange: &mut Exchange,
    limits: &LimitRequests,
    limit: &RequestLimit,
    zone: &LimitZoneRuntime,
    excess: i64,
) -> LimitVerdict {
    zone.counts.add(match limits.dry_run {
        true => ZoneVerdict::RejectedDryRun,
        false => ZoneVerdict::Rejected,
    });
    let (excess, name) = (Requests(excess), &zone.conf.name);
    let dry_run = dry_run_text(limits);
    log(
        exchange,
        limits.log_level,
        format_args!("limiting requests{dry_run}, excess: {excess} by zone \"{name}\""),
    );
    let refused = refuse(exchange, limits);
    match (&refused, &limit.action) {
        (LimitVerdict::Refused(_), Some(action)) => {
            let message = format_args!("limiting requests, forbid_action is {action}");
            log(exchange, limits.log_level, message);
            LimitVerdict::Elsewhere(Outcome::elsewhere(exchange, action))
        }
        _ => refused,
    }
}

fn unpin(pinned: &[Pinned<'_>]) {
    for bucket in pinned {
        bucket.zone.unpin(bucket.position, bucket.id);
    }
}

/// Adds the request to the buckets that were pinned. Returns the longest delay of all in
/// milliseconds, with the excess and the limit that cause it.
fn add_to_all<'z>(
    pinned: &[Pinned<'z>],
    added: Option<(&'z RequestLimit, i64, i64)>,
) -> (u64, i64, &'z RequestLimit) {
    let mut longest: Option<(u64, i64, &'z RequestLimit)> = None;
    let mut consider = |limit: &'z RequestLimit, rate: i64, excess: i64| {
        let delay = delay_ms(excess, limit.delay, rate);
        if longest.is_none_or(|(longest, ..)| delay > longest) {
            longest = Some((delay, excess, limit));
        }
    };
    if let Some((limit, rate, excess)) = added {
        consider(limit, rate, excess);
    }
    for bucket in pinned.iter().rev() {
        let now_ms = monotonic_coarse_ms();
        let Pinned {
            zone,
            limit,
            rate,
            position,
            id,
        } = *bucket;
        consider(limit, rate, zone.add(position, id, rate, now_ms));
    }
    longest.expect("some zone has answered")
}

/// How long a request waits with this excess.
pub(super) fn delay_ms(excess: i64, undelayed: u64, rate: i64) -> u64 {
    let undelayed = i64::try_from(undelayed).unwrap_or(i64::MAX);
    let beyond = excess.saturating_sub(undelayed).max(0);
    // A rate below a thousandth of a request per second cannot be configured.
    (beyond.saturating_mul(1000) / rate.max(1)) as u64
}

fn refuse(exchange: &mut Exchange, limits: &LimitRequests) -> LimitVerdict {
    if limits.dry_run {
        exchange.features.limits.lock_or_begin().requests = Some(LimitStatus::RejectedDryRun);
        return LimitVerdict::Passed;
    }
    exchange.features.limits.lock_or_begin().requests = Some(LimitStatus::Rejected);
    LimitVerdict::Refused(StatusCode(limits.status))
}

fn dry_run_text(limits: &LimitRequests) -> &'static str {
    if limits.dry_run { ", dry run" } else { "" }
}

/// Delays are logged one level below refusals.
fn delay_level(level: LogLevel) -> LogLevel {
    match level {
        LogLevel::Error => LogLevel::Warn,
        LogLevel::Warn => LogLevel::Notice,
        _ => LogLevel::Info,
    }
}

/// Thousandths of a request as nginx writes them.
struct Requests(i64);

impl std::fmt::Display for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / ONE, self.0 % ONE)
    }
}
