//! `cache_rules rfc9111`: a shared cache by RFC 9111, 5861, 9211 and 9213, against scripted origins
//! of all protocols. The scenarios are in `cache_rules/*.txt`, in the form that
//! `cache/scenario.rs` explains, with what is expected beside each request. Where nginx's rules
//! lead to something else, the scenario says so, and that is checked too.

#[path = "cache_rules/files.rs"]
mod files;
#[path = "cache/origins.rs"]
mod origins;
#[path = "cache_rules/run.rs"]
mod run;
#[path = "cache/scenario.rs"]
mod scenario;

use run::Rules;
use scenario::Scenario;

const TABLES: &[(&str, &str)] = &[
    ("freshness", include_str!("cache_rules/freshness.txt")),
    ("keeping", include_str!("cache_rules/keeping.txt")),
    ("requests", include_str!("cache_rules/requests.txt")),
    ("stale", include_str!("cache_rules/stale.txt")),
    ("updates", include_str!("cache_rules/updates.txt")),
    ("variants", include_str!("cache_rules/variants.txt")),
];

fn scenarios() -> Vec<Scenario> {
    let only = std::env::var("SEALANE_TEST_SCENARIO").ok();
    let tables = TABLES.iter();
    let mut scenarios: Vec<Scenario> = tables
        .flat_map(|(name, text)| scenario::read(name, text))
        .collect();
    scenarios.retain(|scenario| {
        let only = only.as_ref();
        only.is_none_or(|only| scenario.title.contains(only))
    });
    scenarios
}

#[test]
fn a_shared_cache_follows_rfc_9111() {
    let scenarios = scenarios();
    println!("{} scenarios", scenarios.len());
    let failures = run::run(&scenarios, Rules::Rfc9111);
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn the_default_rules_are_nginxs() {
    let mut scenarios = scenarios();
    scenarios.retain(|scenario| scenario.differs.is_some());
    println!("{} scenarios", scenarios.len());
    let failures = run::run(&scenarios, Rules::Nginx);
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
}
