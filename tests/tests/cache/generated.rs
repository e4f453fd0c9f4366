//! Scenarios that are made up: locations, responses of origins and requests in any combination.
//!
//! Each follows from a seed. A failure prints it; `SEALANE_TEST_SEED=N` repeats that one alone.

use crate::run::{self, Outcome};
use crate::scenario::{FAMILIES, Request, Scenario, Step};
use sealane_tests::comparison::nginx_version;
use sealane_tests::random::Random;
use sealane_tests::scale;
use std::collections::BTreeMap;

/// The first scenario of every run.
const SEED: u64 = 0x5ea1;
/// How many there are in a round, which has servers of its own.
const IN_A_ROUND: usize = 100;
/// How many failures are shown.
const SHOWN: usize = 5;

/// Lines of a location; of those with the same directive there is one.
const LINES: &[&str] = &[
    "X_cache_valid any 1m;",
    "X_cache_valid any 1s;",
    "X_cache_valid 200 1s;",
    "X_cache_valid 200 404 1s;",
    "X_cache_valid 200 0;",
    "X_cache_methods POST;",
    "X_cache_min_uses 2;",
    "X_cache_bypass $arg_b;",
    "X_cache_bypass $http_x_b $arg_b;",
    "X_no_cache $arg_n;",
    "X_no_cache $upstream_http_x_n;",
    "X_cache_key PRE$uri;",
    "X_cache_key PRE$uri$http_x_k;",
    "X_cache_key $request_method$request_uri;",
    "X_cache_revalidate on;",
    "X_cache_revalidate on;",
    "X_cache_use_stale error http_500;",
    "X_cache_use_stale http_404 http_503;",
    "X_cache_use_stale error invalid_header http_500 http_404;",
    "X_cache_use_stale updating;",
    "X_cache_max_range_offset 5;",
    "X_cache_max_range_offset 0;",
    "X_cache_lock on;",
    "X_ignore_headers Cache-Control;",
    "X_ignore_headers Set-Cookie Vary;",
    "X_ignore_headers Expires X-Accel-Expires;",
    "X_hide_header ETag;",
    "X_hide_header X-N;",
    "X_intercept_errors on; error_page 404 500 502 /file.txt;",
    "X_intercept_errors on; error_page 404 =200 /file.txt;",
    "X_force_ranges on;",
    "X_buffering off;",
    "X_cache FAMILY_flat;",
    "X_buffer_size 1k; X_buffers 4 1k; X_busy_buffers_size 2k;",
    "X_max_temp_file_size 0;",
    "expires 1h;",
    "expires epoch;",
    "add_header X-Own $upstream_status;",
    "if_modified_since before;",
    "if_modified_since off;",
    "max_ranges 1;",
    "max_ranges 0;",
    "gzip on; gzip_types *; gzip_min_length 0; gzip_proxied any;",
    "sub_filter_types *; sub_filter body soul;",
    "etag off;",
];

/// Fields that say how long a response may be kept.
const FRESHNESS: &[&str] = &[
    "Cache-Control: max-age=60",
    "Cache-Control: max-age=1",
    "Cache-Control: max-age=0",
    "Cache-Control: no-store",
    "Cache-Control: private, max-age=60",
    "Cache-Control: s-maxage=60, max-age=0",
    "Cache-Control: max-age=1, stale-if-error=100",
    "Cache-Control: max-age=1, stale-while-revalidate=100",
    "Cache-Control: public",
    "Cache-Control: max-age=x",
    "Expires: {+60}",
    "Expires: {-60}",
    "Expires: 0",
    "X-Accel-Expires: 60",
    "X-Accel-Expires: 1",
    "X-Accel-Expires: 0",
    "X-Accel-Expires: @{s+60}",
    "X-Accel-Expires: x",
];

/// Other fields of a response.
const FIELDS: &[&str] = &[
    "ETag: \"a\"",
    "ETag: \"a\"",
    "ETag: \"%n\"",
    "ETag: W/\"a\"",
    "Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT",
    "Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT",
    "Vary: X-A",
    "Vary: X-A, X-K",
    "Vary: Accept-Encoding",
    "Vary: *",
    "Set-Cookie: a=b",
    "X-N: 1",
    "X-N: 0",
    "Content-Type: text/y",
    "Accept-Ranges: none",
    "X-Accel-Buffering: no",
    "X-Accel-Buffering: yes",
    "Age: 7",
];

const BODIES: &[&str] = &["= 0123456789", "= body %n", "= *0", "= *3000", "= *150000"];

const TARGETS: &[&str] = &[
    "/a",
    "/a",
    "/a",
    "/a",
    "/a",
    "/b",
    "/a?b=1",
    "/a?n=1",
    "/a?b=0&n=",
];

/// Fields of requests.
const ASKED: &[&str] = &[
    "Range: bytes=2-4",
    "Range: bytes=7-",
    "Range: bytes=-2",
    "Range: bytes=0-1,4-5",
    "Range: bytes=200000-",
    "Range: x",
    "If-Range: \"a\"",
    "If-Range: Sun, 09 Sep 2001 01:46:40 GMT",
    "If-None-Match: \"a\"",
    "If-None-Match: \"1\"",
    "If-None-Match: *",
    "If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
    "If-Modified-Since: Mon, 10 Sep 2001 01:46:40 GMT",
    "If-Match: \"a\"",
    "If-Match: \"b\"",
    "If-Unmodified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
    "If-Unmodified-Since: Sat, 08 Sep 2001 01:46:40 GMT",
    "X-A: 1",
    "X-A: 2",
    "X-K: 1",
    "X-B: 1",
    "Accept-Encoding: gzip",
    "Cookie: a=b",
];

#[test]
fn what_nobody_thought_of_is_cached_as_nginx_does_it() {
    let (first, rounds, count) = match std::env::var("SEALANE_TEST_SEED") {
        Ok(seed) => (seed.parse().expect("SEALANE_TEST_SEED is a number"), 1, 1),
        Err(_) => (SEED, scale(3, 60), IN_A_ROUND),
    };
    let mut failures = Vec::new();
    let mut explained: BTreeMap<&str, usize> = BTreeMap::new();
    let mut statuses: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..rounds {
        let first = first + (round * count) as u64;
        let scenarios: Vec<Scenario> = (first..).take(count).map(scenario).collect();
        for outcome in run::run(&scenarios) {
            for answer in &outcome.seen[1].answers {
                *statuses.entry(answer.cache.clone()).or_default() += 1;
            }
            let Some(failure) = outcome.failure() else {
                continue;
            };
            match reason(&outcome) {
                Some(reason) => *explained.entry(reason).or_default() += 1,
                None => failures.push(failure),
            }
        }
    }
    println!("{statuses:?}\nexplained: {explained:?}");
    let shown = failures[..failures.len().min(SHOWN)].join("\n");
    assert!(failures.is_empty(), "{} failures\n{shown}", failures.len());
    if count > 1 {
        // The generator reaches what it is meant to reach.
        for status in [
            "",
            "MISS",
            "HIT",
            "BYPASS",
            "EXPIRED",
            "STALE",
            "REVALIDATED",
        ] {
            assert!(statuses.contains_key(status), "{status}: {statuses:?}");
        }
    }
}

/// Why a difference is meant to be.
fn reason(outcome: &Outcome) -> Option<&'static str> {
    let [ours, theirs] = &outcome.seen;
    let is_refused = theirs.answers.iter().any(|answer| {
        answer.head.starts_with("HTTP/1.1 412") || answer.head.starts_with("HTTP/2 412")
    });
    if is_refused {
        return Some("a response is kept though the client that it was asked for gets 412");
    }
    let is_head = |step: &Step| matches!(step, Step::Ask(request) if request.method == "HEAD");
    if outcome.scenario.family != "proxy" && outcome.scenario.steps.iter().any(is_head) {
        return Some("what a HEAD brought without its body is not kept; nginx answers GET with it");
    }
    let is_refused = |head: &str| [" 304", " 412"].iter().any(|status| head.contains(status));
    let is_stale = ours
        .answers
        .iter()
        .zip(&theirs.answers)
        .all(|(own, other)| {
            own == other || own.cache == "STALE" && other.cache == "STALE" && is_refused(&own.head)
        });
    if is_stale && ours.asked == theirs.asked {
        return Some("conditions count for a stale response, whatever the failed one said");
    }
    None
}

fn scenario(seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let mut scenario = Scenario {
        title: format!("SEALANE_TEST_SEED={seed}"),
        family: match random.below(3) {
            0 => (*random.choose(&FAMILIES)).to_owned(),
            _ => "proxy".to_owned(),
        },
        ..Scenario::default()
    };
    scenario.location = location(&mut random);
    let expires = random.below(2) == 0;
    if expires {
        // Something is kept, and becomes stale.
        let date = "Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT | ";
        let tag = ["", "ETag: \"a\" | ", "ETag: \"a\" | ", date];
        let tag = *random.choose(&tag);
        for line in [
            "X_cache_revalidate on;",
            "X_cache_use_stale error http_500 http_404;",
        ] {
            let name = line.split(' ').next().unwrap_or_default();
            let is_there = scenario
                .location
                .iter()
                .any(|known| known.starts_with(name));
            if !is_there && random.below(2) == 0 {
                scenario.location.push(line.to_owned());
            }
        }
        scenario
            .answers
            .push(format!("200 Cache-Control: max-age=1 | {tag}= first"));
        if random.below(2) == 0 {
            scenario.answers.push(format!("ranges 200 {tag}= second"));
        }
        scenario.steps.push(Step::Ask(Request::read("GET /a ")));
        scenario.steps.push(Step::Wait);
    }
    for _ in 0..1 + random.below(4) {
        let answer = answer(&mut random);
        scenario.answers.push(answer);
    }
    let wait_behind = match random.below(4) {
        0 if !expires => Some(1 + random.below(3)),
        _ => None,
    };
    for number in 0..3 + random.below(5) {
        if Some(number) == wait_behind {
            scenario.steps.push(Step::Wait);
        }
        scenario.steps.push(Step::Ask(request(&mut random)));
    }
    scenario
}

fn location(random: &mut Random) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    if random.below(8) > 0 {
        let line = random.choose(&[
            "X_cache_valid 1m;",
            "X_cache_valid any 1m;",
            "X_cache_valid 1s;",
        ]);
        lines.push((*line).to_owned());
    }
    for _ in 0..random.below(6) {
        let line = *random.choose(LINES);
        let name = |line: &str| line.split(' ').next().map(str::to_owned);
        if !lines.iter().any(|known| name(known) == name(line)) {
            lines.push(line.to_owned());
        }
    }
    lines
}

fn answer(random: &mut Random) -> String {
    if random.below(12) == 0 {
        return (*random.choose(&["closed", "garbage"])).to_owned();
    }
    let framings = [
        "", "", "", "ranges ", "ranges ", "chunked ", "close ", "cut ", "1.0 ",
    ];
    let framing = *random.choose(&framings);
    let statuses = [
        "200", "200", "200", "200", "200", "404", "500", "503", "301", "206",
    ];
    let status = *random.choose(&statuses);
    let mut fields: Vec<&str> = Vec::new();
    // Before 1.23.0 the order of these did not matter.
    let most = if nginx_version() >= (1, 23, 0) { 3 } else { 2 };
    if random.below(2) == 0 {
        for _ in 0..random.below(most) {
            push(&mut fields, random.choose::<&str>(FRESHNESS));
        }
    }
    for _ in 0..random.below(3) {
        push(&mut fields, random.choose::<&str>(FIELDS));
    }
    let body = *random.choose(BODIES);
    fields.push(body);
    format!("{framing}{status} {}", fields.join(" | "))
}

/// Adds a field, unless one of this name is there.
fn push<'a>(fields: &mut Vec<&'a str>, field: &'a str) {
    let name = |field: &'a str| field.split(':').next();
    if !fields.iter().any(|known| name(known) == name(field)) {
        fields.push(field);
    }
}

fn request(random: &mut Random) -> Request {
    let methods = ["GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST"];
    let method = *random.choose(&methods);
    let target = *random.choose(TARGETS);
    let mut fields: Vec<&str> = Vec::new();
    for _ in 0..[0, 0, 1, 1, 2][random.below(5)] {
        push(&mut fields, random.choose::<&str>(ASKED));
    }
    let version = if random.below(8) == 0 { "2 " } else { "" };
    Request::read(&format!(
        "{version}{method} {target} {}",
        fields.join(" | ")
    ))
}
