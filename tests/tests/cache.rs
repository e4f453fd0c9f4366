//! Caches of proxied responses, beside nginx: the same locations, origins that answer the same,
//! the same requests. Compared is what clients get, `$upstream_cache_status`, and what the origins
//! are asked.
//!
//! The scenarios are in `cache/*.txt`, one paragraph each; `cache/scenario.rs` explains the form.
//! No expectation is written down: what nginx does counts. Where we differ on purpose, a scenario
//! says why, and what our answers are instead.

#[path = "cache/generated.rs"]
mod generated;
#[path = "cache/origins.rs"]
mod origins;
#[path = "cache/run.rs"]
mod run;
#[path = "cache/scenario.rs"]
mod scenario;

use scenario::Scenario;
use sealane_tests::comparison::nginx_version;

/// The least number of scenarios: none gets lost unnoticed.
const SCENARIOS: usize = 300;

const TABLES: &[(&str, &str)] = &[
    ("freshness", include_str!("cache/freshness.txt")),
    ("requests", include_str!("cache/requests.txt")),
    ("stale", include_str!("cache/stale.txt")),
    ("surroundings", include_str!("cache/surroundings.txt")),
];

#[test]
fn cached_responses_are_served_as_nginx_serves_them() {
    let only = std::env::var("SEALANE_TEST_SCENARIO").ok();
    let mut scenarios = Vec::new();
    for (name, text) in TABLES {
        scenarios.extend(scenario::read(name, text));
    }
    let count = scenarios.len();
    assert!(count >= SCENARIOS, "{count} scenarios");
    scenarios.retain(|scenario: &Scenario| {
        let is_wanted = only
            .as_ref()
            .is_none_or(|only| scenario.title.contains(only));
        is_wanted && nginx_version() >= scenario.needs
    });
    println!("{} of {count} scenarios", scenarios.len());
    let failures: Vec<String> = run::run(&scenarios)
        .into_iter()
        .filter_map(|outcome| outcome.failure())
        .collect();
    let shown = failures.join("\n");
    assert!(failures.is_empty(), "{} failures\n{shown}", failures.len());
}
