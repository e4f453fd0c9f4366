//! Hundreds of configurations that cannot be used, made by class: `-t`, `-s reload` and HUP say the
//! same about each, in nginx's form, and the server goes on as it was, with the process and the
//! descriptors that it had.
//!
//! | file | mistakes |
//! |---|---|
//! | `texts.rs` | braces, quotes, semicolons, bytes, includes; changes at random |
//! | `directives.rs` | in every directive of the table |
//! | `materials.rs` | certificates, keys, ticket keys, session stores, TLS |
//! | `surroundings.rs` | listeners, upstreams, resolvers, logs, users, directories |
//! | `judge.rs` | what has to hold for each |
//! | `reference.rs` | what nginx says of the same |

mod directives;
mod judge;
mod materials;
mod reference;
mod surroundings;
mod texts;

use directives::Amount;
use judge::{Bench, Case, Expected, Verdict};
use reference::Compared;
use sealane_conf::directives::{HTTP, LOCATION, MAIN, SERVER};
use sealane_tests::random::Random;
use sealane_tests::reload::{self, Reload};
use sealane_tests::{Site, scale, wire};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use texts::{BASE, LARGE, Place, with};

/// Servers that are told at the same time.
const BENCHES: usize = 4;

type Counts = BTreeMap<(&'static str, Verdict), usize>;

/// A site with what `good` names.
fn site() -> Site {
    let site = Site::new();
    materials::certificates(&site);
    site.write("parts/types.conf", "types { text/html html; }");
    site
}

/// Tells one of several servers the share of it of what `cases` makes; each is checked.
fn share(number: usize, good: &str, cases: impl Fn(&Site) -> Vec<Case>) -> Counts {
    let site = site();
    let mut bench = Bench::start(&site, good, &[]);
    let mut counts = Counts::new();
    for case in distinct(cases(&site)).iter().skip(number).step_by(BENCHES) {
        let verdict = bench.judge(case);
        *counts.entry((case.class, verdict)).or_default() += 1;
    }
    bench.finish();
    counts
}

/// All shares, side by side.
fn judge_all(good: &str, cases: impl Fn(&Site) -> Vec<Case> + Sync) -> Counts {
    let counts: Vec<Counts> = std::thread::scope(|scope| {
        let (good, cases) = (&good, &cases);
        let shares = (0..BENCHES).map(|number| scope.spawn(move || share(number, good, cases)));
        let shares: Vec<_> = shares.collect();
        let done = shares.into_iter().map(|share| share.join());
        done.map(|counts| counts.expect("no check of a share has failed"))
            .collect()
    });
    let mut sum = Counts::new();
    for (key, count) in counts.into_iter().flatten() {
        *sum.entry(key).or_default() += count;
    }
    for ((class, verdict), count) in &sum {
        println!("{class}: {count} {verdict:?}");
    }
    sum
}

fn number_of(counts: &Counts, wanted: Verdict) -> usize {
    let counts = counts.iter().filter(|((_, verdict), _)| *verdict == wanted);
    counts.map(|(_, count)| count).sum()
}

fn distinct(cases: Vec<Case>) -> Vec<Case> {
    let mut seen = BTreeSet::new();
    cases
        .into_iter()
        .filter(|case| seen.insert(case.text.clone()))
        .collect()
}

/// The mistakes of all classes.
fn mistakes(site: &Site, amount: Amount) -> Vec<Case> {
    let base = site.fill_in(BASE);
    let mut cases = texts::syntax(&base);
    cases.extend(texts::unknown(&base));
    cases.extend(texts::includes(&base, site));
    cases.extend(materials::cases(&base, site));
    cases.extend(surroundings::cases(&base, site));
    cases.extend(directives::cases(&base, amount, &mut Random::new(11)));
    cases
}

#[test]
fn mistakes_of_every_class_leave_the_server_as_it_was() {
    let amount = match scale(0, 1) {
        0 => Amount::Sample,
        _ => Amount::All,
    };
    let counts = judge_all(BASE, |site| mistakes(site, amount));
    let refused = number_of(&counts, Verdict::Refused);
    assert!(refused >= 500, "{refused} were refused");
}

#[test]
fn changes_at_random_are_judged_alike() {
    let counts = judge_all(LARGE, |site| {
        let (large, mut random) = (site.fill_in(LARGE), Random::new(13));
        (0..scale(120, 2000))
            .map(|_| texts::changed(&large, &mut random))
            .collect()
    });
    let (taken, refused) = (
        number_of(&counts, Verdict::Taken),
        number_of(&counts, Verdict::Refused),
    );
    assert!(
        taken > 0 && refused > taken,
        "{taken} taken, {refused} refused"
    );
}

/// An address in use is not seen by `-t`, as in nginx: next to a running server all are. The
/// server tries for two seconds, and then goes on as it was.
#[test]
fn an_address_of_another_process_is_refused() {
    let site = site();
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = other.local_addr().expect("it is bound");
    let server = site.serve_whole(BASE);
    server.expect_alert("");
    let worker = server.worker_pid();
    let line = format!("listen {address};");
    reload::configure(&site, &with(BASE, Place::In(SERVER), &line));
    reload::ask(&site, &["-t"]).success();
    assert_eq!(reload::reload_as_it_is(&server), Reload::Refused);
    let error = format!("bind() to {address} failed (98: Address already in use)");
    assert!(
        server.error_log().contains(&error),
        "{}",
        server.error_log()
    );
    assert_eq!(wire::get(server.port("plain"), "/").text(), "first");
    assert_eq!(server.worker_pids(), [worker]);
    drop(other);
}

/// A master without privileges can be refused more: files, directories, ports.
#[test]
fn what_a_master_without_privileges_may_not_do_is_refused() {
    let site = site();
    for (directory, mode) in [("logs", 0o777), ("certificates", 0o755), ("closed", 0o700)] {
        std::fs::create_dir_all(site.path(directory)).expect("the site is writable");
        set_mode(&site.path(directory), mode);
    }
    for (file, mode) in [
        ("certificates/server.key", 0o644),
        ("certificates/rsa.key", 0o000),
    ] {
        set_mode(&site.path(file), mode);
    }
    set_mode(&site.write("parts/closed.conf", ""), 0o000);
    let lines = vec![
        (Place::In(HTTP), "include parts/closed.conf;"),
        (Place::In(HTTP), "include closed/any.conf;"),
        (
            Place::Tls,
            "ssl_certificate certificates/rsa.pem; ssl_certificate_key certificates/rsa.key;",
        ),
        (Place::Tls, "ssl_session_ticket_key certificates/rsa.key;"),
        (Place::In(SERVER), "access_log closed/log;"),
        (Place::In(LOCATION), "error_log closed/log;"),
        (
            Place::In(LOCATION),
            "proxy_temp_path closed/temp; proxy_pass http://127.0.0.1:1;",
        ),
    ];
    // Whose user is not root keeps its own, and says so.
    let taken = vec![(Place::In(MAIN), "user root;")];
    let first_port = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first_port: u16 = first_port
        .ok()
        .and_then(|port| port.trim().parse().ok())
        .unwrap_or(0);
    let mut when_bound = vec![(Place::In(SERVER), "listen unix:closed/socket;")];
    if first_port > 1 {
        when_bound.push((Place::In(SERVER), "listen 127.0.0.1:1;"));
    }
    let groups = [
        (Expected::Refused, lines),
        (Expected::RefusedWhenBound, when_bound),
        (Expected::Taken, taken),
    ];
    let wrapper: &[&str] = match sealane_sys::process::effective_uid() {
        0 => &[
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ],
        _ => &[],
    };
    let base = site.fill_in(BASE);
    let mut bench = Bench::start(&site, BASE, wrapper);
    for (expected, lines) in groups {
        for (place, line) in lines {
            bench.judge(&Case {
                class: "without privileges",
                text: with(&base, place, line).into_bytes(),
                expected,
            });
        }
    }
    bench.finish();
}

/// What nginx refuses is refused here, and the reverse, except for what `reference.rs` lists. Only
/// in long runs, before which the nginx to compare with is built.
#[test]
#[ignore = "starts thousands of processes; part of make test-long"]
fn nginx_refuses_the_same() {
    let found: Vec<Compared> = std::thread::scope(|scope| {
        let share = |number| {
            let site = site();
            let (large, mut random) = (site.fill_in(LARGE), Random::new(13));
            let mut cases = mistakes(&site, Amount::All);
            cases.extend((0..2000).map(|_| texts::changed(&large, &mut random)));
            let cases = distinct(cases);
            reference::compare(&site, cases.iter().skip(number).step_by(BENCHES))
        };
        let shares = (0..BENCHES).map(|number| scope.spawn(move || share(number)));
        let shares: Vec<_> = shares.collect();
        let done = shares.into_iter().map(|share| share.join());
        done.map(|found| found.expect("both programs run"))
            .collect()
    });
    let refused: usize = found.iter().map(|share| share.refused_by_both).sum();
    let differences: Vec<String> = found
        .into_iter()
        .flat_map(|share| share.differences)
        .collect();
    println!("{refused} refused by both");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(refused >= 500, "{refused} were refused by both");
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("the site is ours");
}
