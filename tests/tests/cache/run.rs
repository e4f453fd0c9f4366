//! Runs scenarios on both servers.

use crate::origins::Origins;
use crate::scenario::{EXPIRY, FAMILIES, FRESH, Request, Scenario, Step, answers, prefix};
use sealane_tests::comparison::normalise;
use sealane_tests::http2;
use sealane_tests::wire::{self, Connection, Response};
use sealane_tests::{PATIENCE, Server, Site};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Scenarios that ask something at the same time. More would make each other slow.
const BUSY: usize = 6;
/// Runs of a scenario in which the machine may have paused, so that something was stale that was to
/// be fresh, or a time-out came early.
const RUNS: usize = 8;
/// How long origins are given for what is asked in the background.
const SETTLING: Duration = Duration::from_secs(5);
/// The length up to which bodies are compared as text.
const TEXT_BYTES: usize = 300;

/// What came of a scenario: ours, and nginx's.
pub(crate) struct Outcome {
    pub scenario: Scenario,
    pub seen: [Seen; 2],
    /// The machine may have paused.
    was_slow: bool,
}

/// What came of it with one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Of each request.
    pub answers: Vec<Answer>,
    /// What the origin was asked.
    pub asked: Vec<String>,
}

/// What is compared of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// `$upstream_cache_status`.
    pub cache: String,
    pub head: String,
    pub body: String,
}

impl Outcome {
    fn is_same(&self) -> bool {
        self.seen[0] == self.seen[1]
    }

    /// What is to be said about it, unless all is well.
    pub(crate) fn failure(&self) -> Option<String> {
        let [ours, theirs] = &self.seen;
        let Some((wanted, _)) = &self.scenario.differs else {
            return (!self.is_same()).then(|| self.show());
        };
        let statuses = |seen: &Seen| -> String {
            let statuses = seen.answers.iter().map(|answer| match &*answer.cache {
                "" => "-",
                status => status,
            });
            statuses.collect::<Vec<_>>().join(" ")
        };
        if statuses(ours) != *wanted {
            return Some(format!("ours are not as listed:\n{}", self.show()));
        }
        let is_same = ours == theirs;
        is_same.then(|| format!("no difference any more:\n{}", self.show()))
    }

    fn show(&self) -> String {
        let mut out = self.scenario.show();
        for (name, seen) in ["sealane", "nginx"].iter().zip(&self.seen) {
            out.push_str(&format!("--- {name}\n"));
            for answer in &seen.answers {
                let head = answer.head.replace('\n', " | ");
                out.push_str(&format!("    {head} || {}\n", answer.body.escape_debug()));
            }
            out.push_str(&format!("    asked: {:?}\n", seen.asked));
        }
        out
    }
}

/// Runs all of them, each in a location of its own.
pub(crate) fn run(scenarios: &[Scenario]) -> Vec<Outcome> {
    let mut done = run_once(scenarios);
    for _ in 1..RUNS {
        let is_doubtful = |outcome: &Outcome| outcome.was_slow && !outcome.is_same();
        let again: Vec<usize> = (0..done.len())
            .filter(|&at| is_doubtful(&done[at]))
            .collect();
        if again.is_empty() {
            break;
        }
        let scenarios: Vec<Scenario> = again.iter().map(|&at| scenarios[at].clone()).collect();
        for (at, outcome) in again.into_iter().zip(run_once(&scenarios)) {
            done[at] = outcome;
        }
    }
    done
}

fn run_once(scenarios: &[Scenario]) -> Vec<Outcome> {
    let answers = answers(scenarios.iter());
    let sites = [Site::new(), Site::new()];
    let origins = [Origins::new(answers.clone()), Origins::new(answers)];
    for site in &sites {
        site.write("html/file.txt", "a file, and no more than that\n");
    }
    let configurations = origins.each_ref().map(|own| configuration(scenarios, own));
    let events = "worker_connections 4096;";
    let servers = [
        sites[0].serve_with("", events, &configurations[0]),
        sites[1].serve_by_nginx(&configurations[1]),
    ];
    let outcomes: Vec<Mutex<Option<Outcome>>> =
        scenarios.iter().map(|_| Mutex::new(None)).collect();
    let sides = [0, 1].map(|at| Side {
        server: &servers[at],
        origins: &origins[at],
    });
    let places = Places::default();
    let work = |number: usize| {
        let outcome = try_out(&sides, &places, number, &scenarios[number]);
        *outcomes[number].lock().expect("nobody else writes it") = Some(outcome);
    };
    // Those that wait come first, and the others are done meanwhile.
    let (waiting, at_once): (Vec<usize>, Vec<usize>) = (0..scenarios.len()).partition(|&number| {
        let mut steps = scenarios[number].steps.iter();
        steps.any(|step| matches!(step, Step::Wait))
    });
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in waiting {
            let work = &work;
            scope.spawn(move || work(number));
        }
        for _ in 0..BUSY {
            scope.spawn(|| {
                while let Some(&number) = at_once.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(number);
                }
            });
        }
    });
    let outcomes = outcomes.into_iter().map(Mutex::into_inner);
    outcomes
        .map(|outcome| outcome.expect("no thread panics").expect("all were run"))
        .collect()
}

/// How many scenarios ask something now.
#[derive(Default)]
struct Places {
    taken: Mutex<usize>,
    changed: Condvar,
}

impl Places {
    /// Does something when there is a place for it.
    fn with(&self, work: impl FnOnce()) {
        let taken = self.taken.lock().expect("nothing panics with the lock");
        let mut taken = self
            .changed
            .wait_while(taken, |taken| *taken >= BUSY)
            .expect("nothing panics with the lock");
        *taken += 1;
        drop(taken);
        work();
        *self.taken.lock().expect("nothing panics with the lock") -= 1;
        self.changed.notify_one();
    }
}

/// A server and what is behind it.
#[derive(Clone, Copy)]
struct Side<'a> {
    server: &'a Server<'a>,
    origins: &'a Origins,
}

fn configuration(scenarios: &[Scenario], origins: &Origins) -> String {
    let mut out = String::from(
        "types { text/plain txt; text/html html; } default_type text/x; error_log logs/error.log crit;\n",
    );
    for family in FAMILIES {
        out.push_str(&format!(
            "{family}_cache_path {family} levels=1:2 keys_zone={family}:10m;
             {family}_cache_path {family}_flat keys_zone={family}_flat:1m use_temp_path=off;
             {family}_cache_path {family}_deep levels=2:1:2 keys_zone={family}_deep:1m;\n"
        ));
    }
    out.push_str(
        "server { listen 127.0.0.1:%plain%; listen 127.0.0.1:%two% http2;
             server_name cache.test; absolute_redirect off; root html;
             proxy_http_version 1.1; proxy_set_header Connection '';
             location /file.txt { }\n",
    );
    for (number, scenario) in scenarios.iter().enumerate() {
        let port = origins.port(&scenario.family);
        out.push_str(&scenario.configuration(&prefix(number), port));
    }
    out.push_str("}\n");
    out
}

fn try_out(sides: &[Side<'_>; 2], places: &Places, number: usize, scenario: &Scenario) -> Outcome {
    let prefix = prefix(number);
    let mut outcome = Outcome {
        scenario: scenario.clone(),
        seen: Default::default(),
        was_slow: false,
    };
    let phases = scenario.steps.split(|step| matches!(step, Step::Wait));
    for (phase, steps) in phases.enumerate() {
        if phase > 0 {
            thread::sleep(EXPIRY);
        }
        places.with(|| {
            for (side, seen) in sides.iter().zip(&mut outcome.seen) {
                let start = Instant::now();
                seen.answers.extend(side.ask_all(&prefix, scenario, steps));
                outcome.was_slow |= start.elapsed() > FRESH;
            }
        });
    }
    let end = Instant::now() + SETTLING;
    loop {
        for (side, seen) in sides.iter().zip(&mut outcome.seen) {
            seen.asked = side.origins.asked(&prefix);
            // Requests at the same time have no order.
            seen.asked.sort();
        }
        let [ours, theirs] = &outcome.seen;
        if ours.asked == theirs.asked || Instant::now() > end {
            return outcome;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

impl Side<'_> {
    /// Sends the requests of a phase.
    fn ask_all(&self, prefix: &str, scenario: &Scenario, steps: &[Step]) -> Vec<Answer> {
        let port = self.origins.port(&scenario.family).to_string();
        thread::scope(|scope| {
            let mut pending: Vec<ScopedJoinHandle<'_, Answer>> = Vec::new();
            for step in steps {
                let Step::Ask(request) = step else { continue };
                let mut request = request.clone();
                for (_, value) in &mut request.fields {
                    *value = value
                        .replace("ORIGIN", &port)
                        .replace("FAMILY", &scenario.family);
                }
                let before = self.origins.asked(prefix).len();
                let is_begun = request.is_begun;
                let handle = scope.spawn(move || self.ask_until(prefix, &request));
                // In this order: those that wait for others do so behind the first.
                let end = Instant::now() + PATIENCE;
                let may_go_on = || {
                    let is_asked = || self.origins.asked(prefix).len() > before;
                    let waits_for_others = || pending.iter().any(|other| !other.is_finished());
                    handle.is_finished() || is_begun && (is_asked() || waits_for_others())
                };
                while !may_go_on() && Instant::now() < end {
                    thread::sleep(Duration::from_micros(200));
                }
                pending.push(handle);
            }
            let answers = pending.into_iter().map(ScopedJoinHandle::join);
            answers
                .map(|answer| answer.expect("a request ends"))
                .collect()
        })
    }

    fn ask_until(&self, prefix: &str, request: &Request) -> Answer {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask(prefix, request);
            let is_wanted = request
                .until
                .as_ref()
                .is_none_or(|until| *until == answer.cache);
            if is_wanted || Instant::now() > end {
                return answer;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn ask(&self, prefix: &str, request: &Request) -> Answer {
        let target = format!("/{prefix}{}", request.target);
        let (port, answered) = match request.is_http2 {
            true => {
                let port = self.server.port("two");
                (port, ask_by_http2(port, &target, request))
            }
            false => {
                let port = self.server.port("plain");
                (port, ask_by_http1(port, &target, request))
            }
        };
        let Some((response, is_complete)) = answered else {
            return Answer {
                head: "closed".to_owned(),
                ..Answer::default()
            };
        };
        let cache = response.header("X-Cache").unwrap_or_default().to_owned();
        let response = normalise(&[port], response, request.method == "HEAD");
        let mut lines: Vec<&str> = response.head.split('\n').collect();
        if response.status == 416 {
            // nginx may add fields twice, to the response and to the page in its place.
            lines.dedup();
        }
        let head = lines.join("\n");
        let body = match is_complete {
            true => shown(&response.body),
            false => "cut".to_owned(),
        };
        Answer { cache, head, body }
    }
}

/// A short body as it is, of a long one its length and hash.
fn shown(body: &[u8]) -> String {
    if body.len() <= TEXT_BYTES {
        return String::from_utf8_lossy(body).into_owned();
    }
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    format!("{} bytes, {:x}", body.len(), hasher.finish())
}

/// A response, and whether all of it has come.
fn ask_by_http1(port: u16, target: &str, request: &Request) -> Option<(Response, bool)> {
    let mut text = format!(
        "{} {target} HTTP/1.1\r\nHost: cache.test\r\nConnection: close\r\n",
        request.method
    );
    for (name, value) in &request.fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !request.body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", request.body.len()));
    }
    let mut connection = Connection::open(port);
    connection.send(format!("{text}\r\n{}", request.body));
    let mut response = wire::whole(&connection.rest())?;
    let has_body = request.method != "HEAD" && !matches!(response.status, 204 | 304);
    let mut is_complete = true;
    if response.header("Transfer-Encoding").is_some() && has_body {
        let (body, end) = wire::without_chunks(&response.body);
        is_complete = end.is_some();
        response.body = body;
    } else if let Some(length) = response.header("Content-Length")
        && has_body
    {
        is_complete = length == response.body.len().to_string();
    }
    Some((response, is_complete))
}

fn ask_by_http2(port: u16, target: &str, request: &Request) -> Option<(Response, bool)> {
    let fields: Vec<(String, &str)> = request
        .fields
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
        .collect();
    let fields: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (&**name, *value))
        .collect();
    let mut client = http2::Client::open(port, &[]);
    let stream = client.request(&request.method, target, &fields, true);
    let answer = client.try_response(stream)?;
    let mut head = format!("HTTP/2 {}", answer.status);
    for (name, value) in &answer.fields {
        head.push_str(&format!("\r\n{name}: {value}"));
    }
    let response = Response {
        status: answer.status,
        head,
        body: answer.body,
    };
    Some((response, answer.reset.is_none()))
}
