//! Attacks on HTTP/1 and HTTP/2, written from the RFCs and from what is published: each
//! stream of bytes meets every kind of handler, the proxying ones in front of origins that
//! write down what they understood. What is asserted needs no other server; beside that, the
//! statuses and the fate of the connection are nginx's, but for what `attacks/explained.rs` lists.
//!
//! The cases are in `attacks/http1/` and `attacks/http2/`, one line each; `attacks/reading.rs`
//! says how they are written. `SEALANE_TEST_CASE=text` runs those whose name contains it.

use explained::Rule;
use origins::Origins;
use reading::{Case, Fate};
use sealane_tests::{Server, Site, wire};
use servers::Handler;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[path = "attacks/explained.rs"]
mod explained;
#[path = "attacks/http1.rs"]
mod http1;
#[path = "attacks/http2.rs"]
mod http2;
#[path = "attacks/origins.rs"]
mod origins;
#[path = "attacks/reading.rs"]
mod reading;
#[path = "attacks/servers.rs"]
mod servers;

/// So long nothing may come: far more than any time-out of the servers.
const SILENCE: Duration = Duration::from_secs(40);

/// The status of the request behind each case.
const FOLLOWER: &str = "299";

/// Connections at a time. Most of their time they wait.
const THREADS: usize = 96;

/// How often two answers are asked for again before they count as different: a connection
/// that is closed with bytes unread may lose an answer that was sent.
const REPEATS: usize = 3;

/// What came of a case.
#[derive(Debug, Clone)]
struct Outcome {
    /// The connection, as origins know it.
    id: String,
    /// The final status of each answer; `refused` for a stream of HTTP/2 that was reset or
    /// answered 400. The last one is the follower's, if it was answered.
    statuses: Vec<String>,
    /// Whether something came that no client may see.
    leaks: bool,
    hangs: bool,
    /// HTTP/1: the connection was not closed in order, which may cost the client the answer.
    reset: bool,
}

impl Outcome {
    fn lives(&self) -> bool {
        self.statuses
            .last()
            .is_some_and(|status| status == FOLLOWER)
    }

    fn answers(&self) -> &[String] {
        &self.statuses[..self.statuses.len() - usize::from(self.lives())]
    }

    /// What is compared with nginx.
    fn shown(&self, protocol: Protocol) -> String {
        let mut text = self.statuses.join(" ");
        if !self.lives() {
            // Which answers were sent before an error of the whole connection is chance.
            if protocol == Protocol::Http2 {
                return "closed".to_owned();
            }
            text.push_str(if self.reset { " reset" } else { " closed" });
        }
        text.trim_start().to_owned()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// A server under test with what is behind it.
struct Side<'s> {
    server: Server<'s>,
    origins: Origins,
}

impl Side<'_> {
    fn run(&self, protocol: Protocol, case: &Case, handler: &Handler, cut: http1::Cut) -> Outcome {
        match protocol {
            Protocol::Http1 => http1::run(self.server.port(handler.name), case, handler, cut),
            Protocol::Http2 => {
                let port = self.server.port(&format!("{}_h", handler.name));
                http2::run(port, case, handler)
            }
        }
    }
}

/// What is wrong with an outcome, whatever nginx does.
fn faults(
    protocol: Protocol,
    case: &Case,
    outcome: &Outcome,
    seen: &[(&str, String)],
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |text: String| faults.push(text);
    if outcome.hangs {
        fault("the connection hangs".to_owned());
    }
    if outcome.leaks {
        fault("a file that is denied was sent".to_owned());
    }
    let answers = outcome.answers();
    let allowed = case.requests + usize::from(case.fate == Fate::Bad);
    let count = match protocol {
        Protocol::Http1 => answers.len(),
        // To refuse a stream is no answer.
        Protocol::Http2 => answers.iter().filter(|status| *status != "refused").count(),
    };
    if count > allowed {
        fault(format!("{count} answers to {allowed} requests"));
    }
    let goes_on = matches!(case.fate, Fate::Open | Fate::Stream);
    if !goes_on && outcome.lives() {
        fault("the connection goes on".to_owned());
    }
    let refused = outcome.statuses.iter().position(|status| status == "400");
    if refused.is_some_and(|at| at + 1 < outcome.statuses.len()) {
        fault("something is answered behind a 400".to_owned());
    }
    let mut by_origin: BTreeMap<&str, usize> = BTreeMap::new();
    for (origin, text) in seen {
        *by_origin.entry(origin).or_default() += 1;
        let target = text.split(' ').nth(1).unwrap_or_default();
        if target.contains("/smuggled") || text.contains(" +smuggled") {
            fault(format!("{origin} understood {text:?}"));
        }
        if text.starts_with("REFUSED") {
            fault(format!("{origin} had to refuse: {text}"));
        }
    }
    for (origin, count) in by_origin {
        // Who may is asked before the body is read.
        let most = match origin {
            "asked" => allowed,
            _ => case.requests,
        };
        if count > most {
            fault(format!(
                "{origin} understood {count} requests, not {most}: {seen:?}"
            ));
        }
    }
    faults
}

/// All cases of the files of a directory.
fn cases(directory: &str, least: usize) -> Vec<Case> {
    let directory = sealane_tests::repository()
        .join("tests/tests/attacks")
        .join(directory);
    let entries = std::fs::read_dir(directory).expect("the cases are in the repository");
    let mut files: Vec<_> = entries
        .map_while(Result::ok)
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let content = std::fs::read_to_string(&file).expect("cases are text");
        cases.extend(reading::read(&file.display().to_string(), &content));
    }
    assert!(cases.len() >= least, "{} cases", cases.len());
    let mut names = BTreeSet::new();
    for case in &cases {
        assert!(names.insert(&case.name), "{:?} is there twice", case.name);
        assert!(
            !case.source.is_empty(),
            "{:?} comes from nowhere",
            case.name
        );
    }
    if let Ok(wanted) = std::env::var("SEALANE_TEST_CASE") {
        cases.retain(|case| case.name.contains(&wanted));
    }
    cases
}

/// A connection from a port that none to this one came from before, which is how origins
/// know it.
fn connect(port: u16) -> TcpStream {
    static USED: Mutex<BTreeSet<(u16, u16)>> = Mutex::new(BTreeSet::new());
    let mut others = Vec::new();
    loop {
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
        let own = socket.local_addr().expect("it is connected").port();
        let mut used = USED.lock().expect("no thread panics with it");
        if used.insert((own, port)) {
            return socket;
        }
        // Kept until then, so that the port is not taken again.
        others.push(socket);
    }
}

/// Calls `work` for each job, on many threads.
fn in_parallel<T: Sync>(jobs: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(job);
                }
            });
        }
    });
}

struct Job<'c> {
    case: &'c Case,
    handler: &'static Handler,
    cut: http1::Cut,
    /// Whether nginx is asked too.
    compared: bool,
}

/// The cases behind each handler.
fn jobs(protocol: Protocol, cases: &[Case]) -> Vec<Job<'_>> {
    let known = servers::known_to_nginx();
    let mut jobs = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        for handler in servers::HANDLERS {
            let compared = known.iter().any(|other| other.name == handler.name);
            let job = |cut, compared| Job {
                case,
                handler,
                cut,
                compared,
            };
            jobs.push(job(http1::Cut::Whole, compared));
            let in_sample = matches!(handler.name, "static" | "buffered" | "streamed_lax")
                && number % 3 == 0
                && case.text.len() < 400
                && protocol == Protocol::Http1;
            if in_sample {
                // What has arrived when an answer is given is up to the kernel.
                jobs.push(job(http1::Cut::Bytes, false));
            }
        }
    }
    jobs
}

fn check(protocol: Protocol, cases: &[Case]) {
    let (our_site, their_site) = (Site::new(), Site::new());
    let (ours, theirs) = (Origins::start(), Origins::start());
    let ours = Side {
        server: servers::sealane(&our_site, &ours),
        origins: ours,
    };
    let theirs = Side {
        server: servers::nginx(&their_site, &theirs),
        origins: theirs,
    };
    let worker = ours.server.worker_pid();
    let found = Mutex::new(Found::default());
    let jobs = jobs(protocol, cases);
    in_parallel(&jobs, |job| {
        let (case, handler) = (job.case, job.handler);
        let run = |side: &Side<'_>| side.run(protocol, case, handler, job.cut);
        let mut outcome = run(&ours);
        let seen = ours.origins.take(&outcome.id);
        let faults = faults(protocol, case, &outcome, &seen);
        for fault in faults {
            let mut found = found.lock().expect("no thread panics with it");
            found.add(case, handler, fault);
        }
        if !job.compared {
            return;
        }
        let mut other = run(&theirs);
        let mut repeats = 0..REPEATS;
        let (one, other) = loop {
            let (one, two) = (outcome.shown(protocol), other.shown(protocol));
            let explains =
                |rule: &Rule| rule.explains(protocol, &case.name, handler.name, &one, &two);
            if one == two || explained::RULES.iter().any(explains) {
                return;
            }
            if repeats.next().is_none() {
                break (one, two);
            }
            (outcome, other) = (run(&ours), run(&theirs));
        };
        let mut found = found.lock().expect("no thread panics with it");
        found.add(case, handler, format!("{one:?}, nginx: {other:?}"));
    });
    let after = wire::get(ours.server.port("return"), "/after");
    assert_eq!(after.status, 200, "the server answers behind all of that");
    assert_eq!(
        ours.server.worker_pid(),
        worker,
        "the worker is still the same"
    );
    let mut found = found.into_inner().expect("no thread panics with it");
    for (origin, text) in ours.origins.strays() {
        let text = format!("{origin} understood what nobody sent: {text:?}");
        found.wrong.entry(text).or_default().insert(origin);
    }
    println!(
        "{} cases, {} connections to Sealane",
        cases.len(),
        jobs.len()
    );
    assert!(
        found.wrong.is_empty(),
        "{} outcomes are wrong:\n{}",
        found.wrong.len(),
        listed(&found.wrong)
    );
}

/// What is wrong, and behind which handlers.
type Faults = BTreeMap<String, BTreeSet<&'static str>>;

#[derive(Default)]
struct Found {
    wrong: Faults,
}

impl Found {
    fn add(&mut self, case: &Case, handler: &Handler, fault: String) {
        let text = format!("{} [{}]: {fault}", case.name, case.source);
        self.wrong.entry(text).or_default().insert(handler.name);
    }
}

fn listed(faults: &Faults) -> String {
    let lines = faults.iter().map(|(text, handlers)| {
        let handlers: Vec<&str> = handlers.iter().copied().collect();
        format!("{text} ({})", handlers.join(", "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn streams_by_http1_are_read_as_the_rfc_says() {
    check(Protocol::Http1, &cases("http1", 400));
}

#[test]
fn streams_by_http2_are_read_as_the_rfc_says() {
    check(Protocol::Http2, &cases("http2", 200));
}
