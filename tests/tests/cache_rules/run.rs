//! Runs scenarios with one set of rules, and compares with what is written down.
//!
//! ```text
//! STATUS-OF-CACHE [STATUS] | Name: value | Name: beginning* | Name: 5..9 | no Name | = body
//! ```
//!
//! A status of the cache is `-` if there is none. A body is compared without its line break.

use crate::origins::Origins;
use crate::scenario::{EXPIRY, FAMILIES, FRESH, Request, Scenario, Step, answers, prefix};
use sealane_tests::wire::{self, Connection, Response};
use sealane_tests::{PATIENCE, Server, Site};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Runs of a scenario in which the machine may have paused, or a response was asked for again
/// before it was kept.
const RUNS: usize = 8;
/// Scenarios that are run at the same time; most of them wait.
const AT_ONCE: usize = 32;
/// Those of them that ask something. More would make each other slow.
const BUSY: usize = 6;
/// How long origins are given for what is asked in the background.
const SETTLING: Duration = Duration::from_secs(5);

/// `cache_rules`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    Nginx,
    Rfc9111,
}

/// What is wrong with each scenario that is not as it is written down.
pub(crate) fn run(scenarios: &[Scenario], rules: Rules) -> Vec<String> {
    let mut left: Vec<&Scenario> = scenarios.iter().collect();
    for run in 0..RUNS {
        let failures = run_once(&left, rules);
        let (doubtful, certain): (Vec<_>, Vec<_>) = failures
            .into_iter()
            .partition(|(_, failure)| failure.is_doubtful && run + 1 < RUNS);
        if doubtful.is_empty() || !certain.is_empty() {
            let all = certain.into_iter().chain(doubtful);
            return all.map(|(_, failure)| failure.text).collect();
        }
        for (_, failure) in &doubtful {
            println!("tried again:\n{}", failure.text);
        }
        left = doubtful.into_iter().map(|(at, _)| left[at]).collect();
    }
    Vec::new()
}

struct Failure {
    text: String,
    /// Something may have been stale that was to be fresh, or not kept yet.
    is_doubtful: bool,
}

fn run_once(scenarios: &[&Scenario], rules: Rules) -> Vec<(usize, Failure)> {
    let answers = answers(scenarios.iter().copied());
    let site = Site::new();
    let origins = Origins::new(answers);
    let server = site.serve_with(
        "",
        "worker_connections 4096;",
        &configuration(scenarios, &origins, rules),
    );
    let failures = Mutex::new(Vec::new());
    let next = Mutex::new(0..scenarios.len());
    let places: [Mutex<()>; BUSY] = Default::default();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(scenarios.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.lock().expect("nobody panics with it").next();
                    let Some(number) = number else { return };
                    let place = &places[number % BUSY];
                    let tried =
                        try_out((&server, &origins), place, number, scenarios[number], rules);
                    if let Err(failure) = tried {
                        let mut failures = failures.lock().expect("nobody panics with it");
                        failures.push((number, failure));
                    }
                }
            });
        }
    });
    failures.into_inner().expect("nobody panics with it")
}

fn configuration(scenarios: &[&Scenario], origins: &Origins, rules: Rules) -> String {
    let mut out = String::from("default_type text/x; error_log logs/error.log crit;\n");
    for family in FAMILIES {
        out.push_str(&format!(
            "{family}_cache_path {family} levels=1:2 keys_zone={family}:10m;\n"
        ));
        if rules == Rules::Rfc9111 {
            out.push_str(&format!("{family}_cache_rules rfc9111;\n"));
        }
    }
    out.push_str(
        "server { listen 127.0.0.1:%plain%; server_name cache.test; absolute_redirect off;
             proxy_http_version 1.1; proxy_set_header Connection '';\n",
    );
    for (number, scenario) in scenarios.iter().enumerate() {
        let port = origins.port(&scenario.family);
        out.push_str(&scenario.configuration(&prefix(number), port));
    }
    out.push_str("}\n");
    out
}

fn try_out(
    (server, origins): (&Server<'_>, &Origins),
    place: &Mutex<()>,
    number: usize,
    scenario: &Scenario,
    rules: Rules,
) -> Result<(), Failure> {
    let enter = || place.lock().unwrap_or_else(PoisonError::into_inner);
    let mut entered = Some(enter());
    let prefix = prefix(number);
    let mut is_doubtful = false;
    let mut seen = String::new();
    let mut complaints = Vec::new();
    let mut statuses = Vec::new();
    let mut begun = Instant::now();
    for step in &scenario.steps {
        let request = match step {
            Step::Wait => {
                drop(entered.take());
                thread::sleep(EXPIRY);
                entered = Some(enter());
                begun = Instant::now();
                continue;
            }
            Step::Ask(request) => request,
        };
        let response = ask_until(server, &prefix, request);
        let cache = response
            .header("X-Cache")
            .filter(|status| !status.is_empty());
        let expects_hit = (request.expected.as_ref()).is_some_and(|text| text.starts_with("HIT"));
        is_doubtful |= begun.elapsed() > FRESH || expects_hit && cache != Some("HIT");
        statuses.push(cache.unwrap_or("-").to_owned());
        seen.push_str(&format!(
            "    {} || {}\n",
            response.head.replace("\r\n", " | "),
            String::from_utf8_lossy(&response.body).escape_debug()
        ));
        if let Some(expected) = request
            .expected
            .as_ref()
            .filter(|_| rules == Rules::Rfc9111)
        {
            let expected = expected.replace("PRE", &format!("/{prefix}"));
            complaints.extend(compare(&expected, &response));
        }
    }
    drop(entered);
    match &scenario.differs {
        Some((wanted, _)) if rules == Rules::Nginx => {
            let found = statuses.join(" ");
            if found != *wanted {
                complaints.push(format!("{found} instead of {wanted}"));
            }
        }
        _ => {
            let asked = asked(origins, &prefix, &scenario.asked);
            complaints.extend(asked.err());
        }
    }
    if complaints.is_empty() {
        return Ok(());
    }
    let complaints = complaints.join("\n    ");
    let text = format!("{}{seen}    {complaints}\n", scenario.show());
    Err(Failure { text, is_doubtful })
}

/// What the origin was asked, once it is what is expected.
fn asked(origins: &Origins, prefix: &str, expected: &[String]) -> Result<(), String> {
    if expected.is_empty() {
        return Ok(());
    }
    let end = Instant::now() + SETTLING;
    loop {
        let asked = origins.asked(prefix).into_iter();
        let asked: Vec<String> = asked
            .map(|line| line.replacen(&format!("/{prefix}"), "", 1))
            .collect();
        if asked == expected {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("asked: {asked:?}"));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// What is not as expected.
fn compare(expected: &str, response: &Response) -> Vec<String> {
    let mut complaints = Vec::new();
    let cache = response
        .header("X-Cache")
        .filter(|status| !status.is_empty());
    for (number, item) in expected.split(" | ").enumerate() {
        let is_so = if number == 0 {
            let (wanted, status) = item.split_once(' ').unwrap_or((item, "200"));
            cache.unwrap_or("-") == wanted && response.status.to_string() == status
        } else if let Some(name) = item.strip_prefix("no ") {
            response.header(name).is_none()
        } else if let Some(body) = item.strip_prefix("= ") {
            String::from_utf8_lossy(&response.body).trim_end() == body
        } else {
            let (name, value) = item.split_once(": ").expect("a field");
            let found = response.headers(name).join(", ");
            match value.split_once("..") {
                Some((least, most)) => {
                    let number = |text: &str| text.parse::<i64>().ok();
                    let limits = number(least).zip(number(most)).expect("two numbers");
                    number(&found).is_some_and(|found| limits.0 <= found && found <= limits.1)
                }
                None => match value.strip_suffix('*') {
                    Some(beginning) => found.starts_with(beginning),
                    None => found == value,
                },
            }
        };
        if !is_so {
            complaints.push(format!("not as expected: {item}"));
        }
    }
    complaints
}

fn ask_until(server: &Server<'_>, prefix: &str, request: &Request) -> Response {
    let end = Instant::now() + PATIENCE;
    loop {
        let response = ask(server.port("plain"), prefix, request);
        let until = request.until.as_deref();
        if until.is_none_or(|until| response.header("X-Cache") == Some(until)) {
            return response;
        }
        assert!(Instant::now() < end, "{prefix}: never {until:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn ask(port: u16, prefix: &str, request: &Request) -> Response {
    let mut text = format!(
        "{} /{prefix}{} HTTP/1.1\r\nHost: cache.test\r\nConnection: close\r\n",
        request.method, request.target
    );
    for (name, value) in &request.fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !request.body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", request.body.len()));
    }
    let mut connection = Connection::open(port);
    connection.send(format!("{text}\r\n{}", request.body));
    let mut response = wire::whole(&connection.rest()).expect("a response");
    if response.header("Transfer-Encoding").is_some() && request.method != "HEAD" {
        response.body = wire::without_chunks(&response.body).0;
    }
    response
}
