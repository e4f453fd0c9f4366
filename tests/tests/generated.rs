//! Configurations and requests that are made up, in thousands, for Sealane and for nginx: both
//! take and refuse the same configurations, and answer and log the same requests alike, up to the
//! differences that `generated/explained.rs` names.
//!
//! Everything follows from a seed. A failure prints the one of its round, with the smallest
//! configuration and request that still fail; `SEALANE_TEST_SEED=N` repeats that round alone.

#[path = "generated/configuration.rs"]
mod configuration;
#[path = "generated/explained.rs"]
mod explained;
#[path = "generated/requests.rs"]
mod requests;
#[path = "generated/servers.rs"]
mod servers;
#[path = "generated/shrink.rs"]
mod shrink;
#[path = "generated/words.rs"]
mod words;

use configuration::Node;
use requests::Request;
use sealane_tests::random::Random;
use sealane_tests::scale;
use servers::{Difference, Seen, Surroundings};
use std::collections::{BTreeMap, BTreeSet};

/// The first round of every run.
const SEED: u64 = 0x5ea1;

/// Server blocks of a round, and requests to each.
const SERVERS: usize = 60;
const REQUESTS: usize = 14;

/// How many failures are made small and shown.
const SHOWN: usize = 5;

#[test]
fn what_nobody_thought_of_is_done_as_nginx_does_it() {
    let (first, rounds) = match std::env::var("SEALANE_TEST_SEED") {
        Ok(seed) => (seed.parse().expect("SEALANE_TEST_SEED is a number"), 1),
        Err(_) => (SEED, scale(1, 200)),
    };
    let surroundings = Surroundings::new();
    let mut sums = Sums::default();
    let mut failures = Vec::new();
    for seed in (first..).take(rounds) {
        round(&surroundings, seed, &mut sums, &mut failures);
    }
    println!("{sums:?}");
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        sums.failures,
        failures.join("\n")
    );
    if rounds > 1 {
        sums.assert_broad(rounds);
    }
}

#[derive(Debug, Default)]
struct Sums {
    servers: usize,
    refused: usize,
    requests: usize,
    statuses: BTreeMap<u16, usize>,
    explained: BTreeMap<&'static str, usize>,
    failures: usize,
    /// What those that are shown are like.
    kinds: BTreeSet<String>,
}

impl Sums {
    /// The generator reaches what it is meant to reach.
    fn assert_broad(&self, rounds: usize) {
        for status in [
            0, 200, 204, 206, 301, 302, 304, 400, 403, 404, 405, 413, 416, 500,
        ] {
            assert!(
                self.statuses.contains_key(&status),
                "nothing was answered with {status}: {self:?}"
            );
        }
        assert!(
            self.refused >= rounds && self.servers - self.refused > rounds * SERVERS / 2,
            "{self:?}"
        );
    }
}

fn round(surroundings: &Surroundings, seed: u64, sums: &mut Sums, failures: &mut Vec<String>) {
    let mut random = Random::new(seed);
    let escape = *random.choose(&["default", "json", "none"]);
    let servers: Vec<Vec<Node>> = (0..SERVERS)
        .map(|_| configuration::server(&mut random))
        .collect();
    let mut requests: Vec<(usize, Request)> = Vec::new();
    for (number, server) in servers.iter().enumerate() {
        let mut paths = Vec::new();
        configuration::paths(server, &mut paths);
        for _ in 0..REQUESTS {
            requests.push((number, requests::request(&mut random, number, &paths)));
        }
    }
    let report = surroundings.run(&servers, &requests, escape);
    sums.servers += servers.len();
    sums.refused += report.refused.len();
    for (status, count) in report.statuses {
        *sums.statuses.entry(status).or_default() += count;
        sums.requests += count;
    }
    for (server, what) in report.disagreements {
        sums.failures += 1;
        if failures.len() < SHOWN {
            let server = surroundings.show(&servers[server]);
            failures.push(format!("SEALANE_TEST_SEED={seed}: {what}\n{server}"));
        }
    }
    for difference in &report.differences {
        let reasons = explained::explained(difference);
        match reasons.is_empty() {
            false => {
                for reason in reasons {
                    *sums.explained.entry(reason).or_default() += 1;
                }
            }
            true => {
                sums.failures += 1;
                // Most failures are the same one again.
                if failures.len() < SHOWN && sums.kinds.insert(kind(difference)) {
                    let server = &servers[difference.server];
                    let (server, smallest) =
                        shrink::shrink(surroundings, server, difference, escape);
                    failures.push(shown(surroundings, seed, &server, &smallest));
                }
            }
        }
    }
}

/// What differs, in short: difference in the same parts have mostly one reason.
fn kind(difference: &Difference) -> String {
    let [ours, theirs] = &difference.seen;
    let status = |seen: &Seen| seen.response.as_ref().map_or(0, |response| response.status);
    let names = |lines: &[String]| {
        let names = lines.iter().map(|line| line.split(['=', ':']).next());
        names.flatten().collect::<Vec<_>>().join(",")
    };
    let (head, log) = (
        differing(ours, theirs, false),
        differing(ours, theirs, true),
    );
    format!(
        "{} {} {} {}",
        status(ours),
        status(theirs),
        names(&head[0]),
        names(&log[0])
    )
}

/// The lines of the head, or the parts of the log, that only one of the two has.
fn differing(ours: &Seen, theirs: &Seen, log: bool) -> [Vec<String>; 2] {
    let parts = |seen: &Seen| -> Vec<String> {
        let parts = match (log, &seen.response) {
            (true, _) => seen.log.join("|"),
            (false, Some(response)) => response.head.replace('\n', "|"),
            (false, None) => "closed".to_owned(),
        };
        parts.split('|').map(str::to_owned).collect()
    };
    let (ours, theirs) = (parts(ours), parts(theirs));
    let without = |some: &[String], others: &[String]| {
        let own = some.iter().filter(|part| !others.contains(part));
        own.cloned().collect()
    };
    [without(&ours, &theirs), without(&theirs, &ours)]
}

/// What is needed to see a difference again.
fn shown(
    surroundings: &Surroundings,
    seed: u64,
    server: &[Node],
    difference: &Difference,
) -> String {
    let request = difference.request.bytes("id");
    let [ours, theirs] = &difference.seen;
    let log = differing(ours, theirs, true);
    let show = |seen: &Seen, log: &[String]| {
        let response = seen.response.as_ref();
        let response = response.map_or("closed".to_owned(), |response| {
            let body: String = response.text().chars().take(400).collect();
            let bytes = response.body.len();
            format!("{}\n{bytes} bytes: {}", response.head, body.escape_debug())
        });
        let lines = seen.log.len();
        format!("{response}\nlog, {lines} lines: {}", log.join("|"))
    };
    format!(
        "SEALANE_TEST_SEED={seed}, server:\n{}request: {}\n--- sealane:\n{}\n--- nginx:\n{}\n",
        surroundings.show(server),
        request.escape_ascii(),
        show(ours, &log[0]),
        show(theirs, &log[1]),
    )
}
