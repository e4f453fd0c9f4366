//! What is counted for each value, and the memory for it.

use crate::exchange::Exchange;
use crate::limits::zone::Zone;
use crate::metrics::ZoneFill;
use crate::snapshot::Snapshot;
use crate::template;
use sealane_conf::model::{REQ_STATUS_FIELDS, ReqStatusZone};
use smallvec::SmallVec;
use std::sync::Arc;

/// Memory of an entry in Tengine besides its value.
const NODE_BYTES: usize = 488;
/// A request, for the rate at which a value is met.
const ONE: i64 = 1000;
/// What many requests amount to: a value that was met often, and is not any more, gives way when as
/// much has leaked (a minute at the default rate). It would keep all others out until then.
const MAX_EXCESS: i64 = 10 * ONE;

/// A zone at run time.
pub(crate) struct ReqStatusZoneRuntime {
    /// Its configuration.
    pub(crate) conf: ReqStatusZone,
    /// Its entries; snapshots with the same zone share them.
    entries: Arc<Zone<Entry>>,
}

/// Numbers, in the order of [`REQ_STATUS_FIELDS`].
pub(super) type Sums = [u64; REQ_STATUS_FIELDS.len()];

/// What is known of a value.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) sums: Sums,
    /// Of indicators.
    pub(super) extra: Box<[u64]>,
    /// A leaky bucket of requests, in thousandths: below zero the value is met too rarely to stay.
    excess: i64,
    last_ms: u64,
}

impl ReqStatusZoneRuntime {
    /// A zone of the configuration. It takes over the entries of the previous snapshot's zone if
    /// name, size and value are the same.
    pub(crate) fn build(conf: &ReqStatusZone, before: Option<&Snapshot>) -> ReqStatusZoneRuntime {
        let is_same = |known: &&ReqStatusZoneRuntime| {
            let (known, new) = (&known.conf, conf);
            known.name == new.name && known.bytes == new.bytes && known.key_text == new.key_text
        };
        let known = before.and_then(|before| before.req_status_zones.iter().find(is_same));
        let entries = known.map(|known| Arc::clone(&known.entries));
        ReqStatusZoneRuntime {
            conf: conf.clone(),
            entries: entries.unwrap_or_else(|| Arc::new(Zone::new(conf.bytes, NODE_BYTES))),
        }
    }

    /// Adds a request. Returns false if there is no room for its value.
    pub(super) fn count(&self, key: &[u8], tally: &Counted, extra: &[u64], now_ms: u64) -> bool {
        let position = self.entries.position_of(key);
        let mut shard = self.entries.lock(position);
        let rate = i64::try_from(self.conf.recycle_rate).unwrap_or(i64::MAX);
        let id = match shard.find(key) {
            Some(id) => id,
            None => {
                if !shard.may_ever_have_room(key) {
                    return false;
                }
                while !shard.has_room(key) {
                    match shard.oldest() {
                        Some(oldest) if shard.state(oldest).excess_at(rate, now_ms) < 0 => {
                            shard.remove(oldest);
                        }
                        _ => return false,
                    }
                }
                shard.insert(key, Entry::new(now_ms))
            }
        };
        let entry = shard.state(id);
        entry.excess = (entry.excess_at(rate, now_ms) + ONE).min(MAX_EXCESS);
        entry.last_ms = entry.last_ms.max(now_ms);
        tally.add_to(&mut entry.sums);
        if entry.extra.len() < extra.len() {
            let mut grown = std::mem::take(&mut entry.extra).into_vec();
            grown.resize(extra.len(), 0);
            entry.extra = grown.into();
        }
        for (sum, more) in entry.extra.iter_mut().zip(extra) {
            *sum = sum.wrapping_add(*more);
        }
        true
    }

    /// The numbers that the request adds to indicators.
    pub(super) fn indications(&self, exchange: &Exchange) -> SmallVec<[u64; 4]> {
        let indicators = self.conf.indicators.iter();
        let value = |value| number_at_end(&template::evaluate(value, exchange)).unwrap_or(0);
        indicators.map(|one| value(&one.value)).collect()
    }

    /// What it holds.
    pub(crate) fn fill(&self) -> ZoneFill {
        self.entries.fill()
    }

    /// Every value and what is known of it. Copies, as worker threads wait meanwhile.
    pub(super) fn copied(&self) -> Vec<(Box<[u8]>, Entry)> {
        let mut all = Vec::new();
        self.entries
            .each(|key, entry| all.push((key.into(), entry.clone())));
        all
    }
}

impl Entry {
    fn new(now_ms: u64) -> Entry {
        Entry {
            sums: Sums::default(),
            extra: Box::default(),
            excess: 0,
            last_ms: now_ms,
        }
    }

    fn excess_at(&self, rate: i64, now_ms: u64) -> i64 {
        let passed_ms = i64::try_from(now_ms.saturating_sub(self.last_ms)).unwrap_or(i64::MAX);
        let leaked = passed_ms.saturating_mul(rate) / 1000;
        self.excess.saturating_sub(leaked).max(-ONE)
    }
}

/// What a request adds to its entries.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Counted(SmallVec<[(usize, u64); 16]>);

/// Where a field is; the name must be one.
const fn field(name: &str) -> usize {
    let mut at = 0;
    while !same(REQ_STATUS_FIELDS[at], name) {
        at += 1;
    }
    at
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

impl Counted {
    pub(super) fn of(exchange: &Exchange) -> Counted {
        let transfer = &exchange.transfer;
        let mut tally = Counted(SmallVec::new());
        tally.push(const { field("bytes_in") }, transfer.request_bytes);
        tally.push(const { field("bytes_out") }, transfer.sent_bytes);
        let is_first = exchange.connection.requests() == 1;
        tally.push(const { field("conn_total") }, u64::from(is_first));
        tally.push(const { field("req_total") }, 1);
        let ms = transfer.started.elapsed().as_millis();
        let ms = u64::try_from(ms).unwrap_or(u64::MAX);
        tally.push(const { field("rt") }, ms);
        tally.push_status(exchange.response.status.0);
        if let Some(states) = exchange.upstream.as_deref()
            && let Some(last) = states.attempts.last()
        {
            tally.push(const { field("ups_req") }, 1);
            tally.push(const { field("ups_tries") }, states.attempts.len() as u64);
            let times = states.attempts.iter();
            let times = times.filter_map(|attempt| attempt.response_time);
            let ms = times.map(|time| time.as_millis()).sum::<u128>();
            let ms = u64::try_from(ms).unwrap_or(u64::MAX);
            tally.push(const { field("ups_rt") }, ms);
            match last.status {
                400..500 => tally.push(const { field("http_ups_4xx") }, 1),
                500..600 => tally.push(const { field("http_ups_5xx") }, 1),
                _ => {}
            }
        }
        tally
    }

    fn push(&mut self, field: usize, number: u64) {
        self.0.push((field, number));
    }

    fn push_status(&mut self, status: u16) {
        let class = match status {
            200..300 => const { field("http_2xx") },
            300..400 => const { field("http_3xx") },
            400..500 => const { field("http_4xx") },
            500..600 => const { field("http_5xx") },
            _ => const { field("http_other_status") },
        };
        let detail = match status {
            200 => const { field("http_200") },
            206 => const { field("http_206") },
            302 => const { field("http_302") },
            304 => const { field("http_304") },
            403 => const { field("http_403") },
            404 => const { field("http_404") },
            416 => const { field("http_416") },
            499 => const { field("http_499") },
            500 => const { field("http_500") },
            502 => const { field("http_502") },
            503 => const { field("http_503") },
            504 => const { field("http_504") },
            508 => const { field("http_508") },
            _ => const { field("http_other_detail_status") },
        };
        self.push(class, 1);
        self.push(detail, 1);
    }

    fn add_to(&self, sums: &mut Sums) {
        for (field, number) in &self.0 {
            sums[*field] = sums[*field].wrapping_add(*number);
        }
    }
}

/// The number that a value ends with, as Tengine reads it: digits, without the point before
/// decimals. `$request_time` counts milliseconds.
fn number_at_end(value: &[u8]) -> Option<u64> {
    let begin = value
        .iter()
        .rposition(|byte| !byte.is_ascii_digit() && *byte != b'.')
        .map_or(0, |at| at + 1);
    let number = &value[begin..];
    let points = number.iter().filter(|byte| **byte == b'.').count();
    let mut digits = number.iter().filter(|byte| **byte != b'.');
    if points > 1 || number.len() == points {
        return None;
    }
    digits.try_fold(0u64, |sum, digit| {
        sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_at_the_end() {
        let of = |value: &str| number_at_end(value.as_bytes());
        assert_eq!(of("17"), Some(17));
        assert_eq!(of("0.005"), Some(5));
        assert_eq!(of("1.25"), Some(125));
        assert_eq!(of("0.001, 0.020"), Some(20));
        assert_eq!(of("127.0.0.1:8080"), Some(8080));
        for none in ["", "-", "1-", ".", "1.2.3", "99999999999999999999999"] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn new_values_do_not_displace_those_that_are_met_often() {
        let config = crate::testing::parse(
            "events {} http { req_status_zone z $uri 32k; req_status_zone_recycle z 10 60; }",
        );
        let http = config.http.expect("there is one");
        let zone = ReqStatusZoneRuntime::build(&http.req_status_zones[0], None);
        let tally = Counted(SmallVec::from_slice(&[(field("req_total"), 1)]));
        let count = |key: &str, now_ms| zone.count(key.as_bytes(), &tally, &[], now_ms);
        for _ in 0..20 {
            assert!(count("often", 0));
        }
        // 28 KiB for entries of 512 bytes.
        let accepted = (0..1000).filter(|number| count(&format!("a{number}"), 1));
        assert!((20..60).contains(&accepted.count()));
        // Ten in a minute is one in six seconds: after seven, one that was met once gives way.
        assert!(count("often", 5000));
        assert!(!count("b", 5000));
        assert!(count("b", 7001));
        let accepted = (0..1000).filter(|number| count(&format!("c{number}"), 20_000));
        assert!((20..60).contains(&accepted.count()));
        let all = zone.copied();
        let often = all.iter().find(|(key, _)| **key == b"often"[..]);
        let (_, entry) = often.expect("it was met often");
        assert_eq!(entry.sums[field("req_total")], 21);
        // A minute later it is one of many.
        let accepted = (0..1000).filter(|number| count(&format!("d{number}"), 90_000));
        assert!((20..60).contains(&accepted.count()));
        assert!(!zone.copied().iter().any(|(key, _)| **key == b"often"[..]));
    }
}
