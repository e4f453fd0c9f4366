//! Load of many kinds while the configuration changes and workers die: no request fails but those
//! that were in a worker that was killed.
//!
//! `make test-long` has the full counts. What counts as a failure: a connection that is refused,
//! one that ends (or is reset) where an answer was due, an answer with another status or another
//! body. A client may be told beforehand that a connection ends: by `Connection: close` with the
//! last answer, by GOAWAY for streams behind the last that it names. wrk counts the same, without
//! looking at bodies.

use sealane_tests::load::{Load, Tally};
use sealane_tests::reload::{Reload, reload};
use sealane_tests::upgrade::{Daemon, children, signal};
use sealane_tests::{
    Application, Certificate, CertificateKey, Program, Server, Site, command, go_client_path,
    scale, wait_for,
};
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// What the configuration says; each change is one reload.
#[derive(Clone, Copy, Debug)]
struct State {
    number: usize,
    processes: usize,
    more: bool,
    name: usize,
    certificate: usize,
}

impl State {
    /// Another one: one of listeners, names, certificates and processes differs, and a body.
    fn next(mut self) -> State {
        self.number += 1;
        match self.number % 4 {
            0 => self.processes = 1 + self.processes % 3,
            1 => self.more = !self.more,
            2 => self.name += 1,
            _ => self.certificate = 1 - self.certificate,
        }
        self
    }

    fn configuration(&self) -> String {
        let State {
            number,
            processes,
            more,
            name,
            certificate,
        } = self;
        let more = ["", "listen 127.0.0.1:%more%;"][usize::from(*more)];
        let certificate = CERTIFICATES[*certificate];
        format!(
            "worker_processes {processes}; pid logs/pid; error_log logs/error.log notice;
             events {{ worker_connections 4000; }}
             http {{
                 access_log off; root html; keepalive_requests 1000000000; keepalive_time 10h;
                 server {{
                     listen 127.0.0.1:%plain%; {more} server_name n{name};
                     location = /number {{ return 200 {number}; }}
                 }}
                 server {{
                     listen 127.0.0.1:%tls% ssl; http2 on; server_name localhost n{name}.test;
                     ssl_certificate certificates/{certificate}.pem;
                     ssl_certificate_key certificates/{certificate}.key;
                     location = /socket {{
                         proxy_pass http://127.0.0.1:%origin%; proxy_http_version 1.1;
                         proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;
                     }}
                 }}
             }}\n"
        )
    }
}

const CERTIFICATES: [&str; 2] = ["first", "second"];
const FIRST: State = State {
    number: 0,
    processes: 2,
    more: false,
    name: 0,
    certificate: 0,
};

/// A site with all that is asked for.
fn site() -> Site {
    let site = Site::new();
    for name in CERTIFICATES {
        let names = format!("DNS:localhost, DNS:{name}.test, IP:127.0.0.1");
        site.certificate(&Certificate {
            name,
            key: CertificateKey::P256,
            names: &names,
        });
    }
    site.write("html/page", vec![b'x'; 30_000]);
    site
}

/// Changes the configuration and checks that new connections have the new one.
#[track_caller]
fn change(site: &Site, server: &Server<'_>, state: &State) {
    let changed = reload(site, server, &state.configuration());
    assert_eq!(changed, Reload::Applied, "{state:?}");
    let plain = format!("http://127.0.0.1:{}/number", server.port("plain"));
    let curl = |words: &[&str]| command("curl", &[&["-sS"], words].concat(), b"");
    // A process that is to end accepts until it has heard of that.
    wait_for("an answer of the new configuration", || {
        (curl(&[&plain]).text() == state.number.to_string()).then_some(())
    });
    let (port, name) = (server.port("tls"), CERTIFICATES[state.certificate]);
    let authority = site.authority().display().to_string();
    let (url, place) = (
        format!("https://{name}.test:{port}/page"),
        format!("{name}.test:{port}:127.0.0.1"),
    );
    let words = [
        "--cacert",
        &authority,
        "--resolve",
        &place,
        "-o",
        "/dev/null",
        &url,
    ];
    wait_for("the new certificate", || {
        (curl(&words).status == 0).then_some(())
    });
}

/// wrk on a port until `stop`, and how many requests it made; the text of a run in which any
/// failed.
fn wrk(url: &str, options: &[&str], seconds: usize, stop: &AtomicBool) -> Result<u64, String> {
    let duration = format!("-d{seconds}s");
    let mut arguments = vec!["-t1", "-c4", "--timeout", "60s", &duration];
    arguments.extend(options);
    arguments.push(url);
    let mut requests = 0;
    while !stop.load(Ordering::Relaxed) {
        let text = command("wrk", &arguments, b"").success().text();
        if text.contains("Socket errors") || text.contains("Non-2xx") {
            return Err(text);
        }
        let count = text.split(" requests in").next().unwrap_or_default();
        let count = count.split_whitespace().next_back();
        requests += count.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(requests)
}

/// Downloads a file again and again at a limited rate, and compares what arrives. How often.
fn downloads(url: &str, rate: &str, digest: &str, stop: &AtomicBool) -> u64 {
    let script = format!("set -o pipefail; curl -sS -k --limit-rate {rate} {url} | sha256sum");
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let output = Command::new("bash").args(["-c", &script]).output();
        let output = output.expect("bash is installed");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "a download broke: {said}");
        assert_eq!(text.split_whitespace().next(), Some(digest), "{said}");
        count += 1;
    }
    count
}

/// Writes a file with holes, of which little lies on the disk, and returns its digest.
fn large_file(site: &Site, bytes: u64) -> String {
    let path = site.write("html/large", b"");
    let mut file = fs::File::create(&path).expect("the site is writable");
    for at in (0..bytes).step_by(MIB as usize) {
        std::os::unix::fs::FileExt::write_all_at(&file, &at.to_le_bytes(), at).expect("room");
    }
    file.set_len(bytes).expect("room");
    file.flush().expect("room");
    let digest = command("sha256sum", &[path.display().to_string()], b"").success();
    let text = digest.text();
    text.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Descriptors, resident and proportional memory of a process, in KiB.
#[derive(Clone, Copy, Debug)]
struct Size {
    descriptors: usize,
    resident_kib: u64,
    own_kib: u64,
}

fn size(pid: u32) -> Option<Size> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let number = |name: &str| {
        let line = rollup.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some(Size {
        descriptors,
        resident_kib: number("Rss:")?,
        own_kib: number("Private_Dirty:")?,
    })
}

impl Size {
    /// Whether a process with this size has kept to what it had then: nothing left open, and no
    /// more memory than caches and allocators take that were empty before.
    fn is_about(&self, then: &Size) -> bool {
        const DESCRIPTORS: usize = 4;
        const KIB: u64 = 16 << 10;
        self.descriptors <= then.descriptors + DESCRIPTORS
            && self.resident_kib <= then.resident_kib + KIB
            && self.own_kib <= then.own_kib + KIB
    }
}

/// How large the load is.
struct Scale {
    parallel: usize,
    /// A download, and its bytes per second.
    large: u64,
    rate: &'static str,
    /// Of one WebSocket, 50 in a second.
    numbers: usize,
    /// Of one run of wrk.
    seconds: usize,
}

impl Scale {
    /// For reloads: what takes long stays with its process for long.
    fn of_reloads() -> Scale {
        match scale(0, 1) {
            0 => Scale::SMALL,
            _ => Scale {
                parallel: 16,
                large: 1024 * MIB,
                rate: "20M",
                numbers: 500,
                seconds: 10,
            },
        }
    }

    /// For upgrades: one cannot begin before the process before has finished.
    fn of_upgrades() -> Scale {
        Scale {
            parallel: scale(4, 16),
            ..Scale::SMALL
        }
    }

    const SMALL: Scale = Scale {
        parallel: 4,
        large: 8 * MIB,
        rate: "8M",
        numbers: 50,
        seconds: 1,
    };
}

/// What all clients did.
#[derive(Debug)]
struct Outcome {
    tallies: Vec<(String, Tally)>,
    wrk: Vec<(&'static str, Result<u64, String>)>,
    downloads: u64,
}

/// Clients of all kinds that count what fails.
fn loads(site: &Site, scale: &Scale) -> [Load; 6] {
    let authority = site.authority().display().to_string();
    let address = |name: &str| format!("127.0.0.1:{}", site.port(name));
    let (plain, tls) = (address("plain"), address("tls"));
    let count = scale.parallel;
    [
        Load::go("close", &plain, None, count),
        Load::go("keep", &plain, None, 4 * count),
        Load::go("close", &tls, Some(&authority), 2),
        Load::go("keep", &tls, Some(&authority), 4 * count),
        Load::go("http2", &tls, Some(&authority), count),
        Load::web_sockets(&format!("wss://{tls}/socket"), count, scale.numbers),
    ]
}

/// Has all kinds of clients at work while `work` is done.
fn under_load(site: &Site, scale: &Scale, work: impl FnOnce()) -> Outcome {
    let digest = large_file(site, scale.large);
    let mut loads = loads(site, scale);
    // Some take a second to start, which is all that the work may take.
    loads.iter_mut().for_each(Load::wait_until_begun);
    let plain = format!("http://127.0.0.1:{}/page", site.port("plain"));
    let tls = format!("https://127.0.0.1:{}/page", site.port("tls"));
    let large = tls.replace("/page", "/large");
    let close = ["-H", "Connection: close"];
    let stop = AtomicBool::new(false);
    let stopping = Stopping(&stop);
    thread::scope(|scope| {
        let kinds: [(&str, &str, &[&str]); 4] = [
            ("wrk, close", &plain, &close),
            ("wrk, keep", &plain, &[]),
            ("wrk, close, TLS", &tls, &close),
            ("wrk, keep, TLS", &tls, &[]),
        ];
        let wrk = kinds.map(|(name, url, options)| {
            let (stop, seconds) = (&stop, scale.seconds);
            (name, scope.spawn(move || wrk(url, options, seconds, stop)))
        });
        let downloads = scope.spawn(|| downloads(&large, scale.rate, &digest, &stop));
        work();
        drop(stopping);
        let tallies = loads.into_iter().map(|load| {
            let name = load.name().to_owned();
            (name, load.stop())
        });
        Outcome {
            tallies: tallies.collect(),
            wrk: wrk
                .into_iter()
                .map(|(name, thread)| (name, thread.join().expect("no panic")))
                .collect(),
            downloads: downloads.join().expect("a download broke"),
        }
    })
}

/// Stops clients when the work is done, or has panicked.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Outcome {
    #[track_caller]
    fn assert_nothing_failed(&self) {
        eprintln!("{self:#?}");
        for (name, tally) in &self.tallies {
            assert_eq!(tally.failures(), 0, "{name}: {tally:?}");
            assert!(tally.requests > 0, "{name}: {tally:?}");
        }
        for (name, outcome) in &self.wrk {
            assert!(outcome.is_ok(), "{name}: {outcome:?}");
        }
        assert!(self.downloads > 0);
    }
}

#[track_caller]
fn one_worker_is_left(server: &Server<'_>) {
    wait_for("one worker process", || {
        (server.worker_pids().len() == 1).then_some(())
    });
}

#[test]
fn no_request_fails_over_reloads() {
    let site = site();
    let server = site.serve_whole(&FIRST.configuration());
    let _origin = Application::web_socket(&site, "127.0.0.1:%origin%");
    let (mut state, mut masters) = (FIRST, Vec::new());
    let outcome = under_load(&site, &Scale::of_reloads(), || {
        for number in 1..=scale(8, 200) {
            state = state.next();
            change(&site, &server, &state);
            if number % 20 == 0 {
                masters.push(sizes(&server, number));
            }
        }
    });
    outcome.assert_nothing_failed();
    one_worker_is_left(&server);
    if let [first, .., last] = &masters[..] {
        assert!(last.is_about(first), "the master grows: {masters:?}");
    }
}

/// The master's size. That of all processes is for whoever reads the output of a long run.
fn sizes(server: &Server<'_>, number: usize) -> Size {
    let workers: Vec<_> = server.worker_pids().into_iter().map(size).collect();
    let master = size(server.pid()).expect("it runs");
    eprintln!("{number}: master {master:?}, workers {workers:?}");
    master
}

#[test]
fn no_request_fails_over_upgrades() {
    let site = site();
    let server = Daemon::start(&site, Program::Sealane, &FIRST.configuration());
    let _origin = Application::web_socket(&site, "127.0.0.1:%origin%");
    let mut masters = Vec::new();
    let outcome = under_load(&site, &Scale::of_upgrades(), || {
        for number in 1..=scale(2, 20) {
            server.upgrade();
            let master = server.pid();
            let workers: Vec<_> = children(master).into_iter().map(size).collect();
            eprintln!("{number}: master {:?}, workers {workers:?}", size(master));
            masters.extend(size(master));
        }
    });
    outcome.assert_nothing_failed();
    assert_eq!(children(server.pid()).len(), 1);
    if let [first, .., last] = &masters[..] {
        assert!(last.is_about(first), "each is larger: {masters:?}");
    }
}

/// A Go client that answers lines with lines.
struct Dialogue {
    client: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Dialogue {
    #[track_caller]
    fn start(words: &[&str]) -> Dialogue {
        let mut client = Command::new(go_client_path())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was built");
        let stdout = client.stdout.take().expect("it is a pipe");
        Dialogue {
            stdin: client.stdin.take(),
            lines: BufReader::new(stdout).lines(),
            client,
        }
    }

    /// Its next line.
    #[track_caller]
    fn line(&mut self) -> String {
        let line = self.lines.next().expect("a line");
        line.expect("it is text")
    }

    /// Its answer to a line.
    #[track_caller]
    fn ask(&mut self) -> String {
        let stdin = self.stdin.as_mut().expect("it is open");
        stdin.write_all(b"\n").expect("it reads");
        self.line()
    }

    #[track_caller]
    fn end(mut self) {
        drop(self.stdin.take());
        assert!(self.client.wait().expect("it is our child").success());
    }
}

/// Waits until another process than this has taken over, and the last connection has left this.
#[track_caller]
fn has_ended(server: &Server<'_>, worker: u32) {
    wait_for("the end of the worker before", || {
        let now = server.worker_pids();
        (now.len() == 1 && now[0] != worker).then_some(())
    });
}

/// So many connections over TLS, each of which has had an answer.
#[track_caller]
fn idle_connections(site: &Site, server: &Server<'_>, count: usize) -> Dialogue {
    let authority = site.authority().display().to_string();
    let address = format!("127.0.0.1:{}", server.port("tls"));
    let count = count.to_string();
    let words = ["idle", "-address", &address, "-ca", &authority];
    let mut client = Dialogue::start(&[&words[..], &["-count", &count, "/page"]].concat());
    assert_eq!(client.line(), "ready");
    client
}

#[test]
fn connections_that_are_idle_move_to_another_process_and_are_used_there() {
    let site = site();
    let server = site.serve_whole(&FIRST.configuration());
    let before = server.worker_pid();
    let count = scale(300, 5000);
    let mut client = idle_connections(&site, &server, count);
    let state = State {
        processes: 3,
        ..FIRST
    };
    change(&site, &server, &state);
    has_ended(&server, before);
    assert_eq!(client.ask(), format!("alive {count}"));
    client.end();
}

#[test]
fn connections_move_on_from_a_process_that_is_to_end_while_they_come() {
    let site = site();
    let server = site.serve_whole(&FIRST.configuration());
    let count = scale(300, 5000);
    let mut client = idle_connections(&site, &server, count);
    let mut before = server.worker_pid();
    for processes in [3, 4, 2, 4, 3] {
        before = server.worker_pids().last().copied().unwrap_or(before);
        let state = State { processes, ..FIRST };
        let changed = reload(&site, &server, &state.configuration());
        assert_eq!(changed, Reload::Applied, "{state:?}");
    }
    has_ended(&server, before);
    assert_eq!(client.ask(), format!("alive {count}"));
    client.end();
}

#[test]
fn connections_whose_next_process_dies_go_on_in_the_one_after_it() {
    let site = site();
    let server = site.serve_whole(&FIRST.configuration());
    server.expect_alert("exited on signal 9");
    let count = scale(300, 5000);
    let mut client = idle_connections(&site, &server, count);
    // Stopped, it hears of its successor, and of how many may come, only when that is dead.
    let before = server.worker_pid();
    signal(before, "STOP");
    let state = State {
        processes: 3,
        ..FIRST
    };
    let changed = reload(&site, &server, &state.configuration());
    assert_eq!(changed, Reload::Applied);
    let successor = wait_for("the successor", || {
        server.worker_pids().into_iter().find(|pid| *pid != before)
    });
    signal(successor, "KILL");
    wait_for("the end of the successor", || {
        (!server.worker_pids().contains(&successor)).then_some(())
    });
    signal(before, "CONT");
    has_ended(&server, before);
    assert_eq!(client.ask(), format!("alive {count}"));
    client.end();
}

#[test]
fn connections_stay_where_they_are_while_there_is_no_room_elsewhere() {
    const ROOM: usize = 100;
    let site = site();
    let server = site.serve_whole(&FIRST.configuration());
    let count = 2 * ROOM;
    let mut client = idle_connections(&site, &server, count);
    let state = State {
        processes: 1,
        ..FIRST
    };
    let small = format!("worker_connections {ROOM};");
    let less = state
        .configuration()
        .replace("worker_connections 4000;", &small);
    assert_eq!(reload(&site, &server, &less), Reload::Applied);
    wait_for("the first to move", || {
        let worker = *server.worker_pids().last()?;
        (fs::read_dir(format!("/proc/{worker}/fd")).ok()?.count() > ROOM / 2).then_some(())
    });
    assert_eq!(server.worker_pids().len(), 2, "the others wait");
    assert_eq!(client.ask(), format!("alive {count}"));
    // As they go, there is room for those that waited.
    client.end();
    one_worker_is_left(&server);
}

#[test]
fn requests_that_have_begun_are_finished_and_their_connections_move_then() {
    let site = site();
    let server = site.serve_whole(&FIRST.configuration());
    let authority = site.authority().display().to_string();
    let mut clients: Vec<Dialogue> = ["plain", "tls"]
        .map(|name| {
            let address = format!("127.0.0.1:{}", server.port(name));
            let mut words = vec!["halves", "-address", &address, "-count", "5"];
            if name == "tls" {
                words.extend(["-ca", &authority]);
            }
            words.push("/page");
            Dialogue::start(&words)
        })
        .into();
    for client in &mut clients {
        assert_eq!(client.line(), "begun");
    }
    let mut state = FIRST;
    for processes in [3, 1] {
        let before = server.worker_pid();
        state = State {
            processes,
            number: processes,
            ..state
        };
        change(&site, &server, &state);
        // What had begun is answered by the process that it began in.
        for client in &mut clients {
            assert_eq!(client.ask(), "kept 20");
        }
        has_ended(&server, before);
        for client in &mut clients {
            assert_eq!(client.ask(), "kept 20");
        }
    }
    clients.into_iter().for_each(Dialogue::end);
}

#[test]
fn only_what_was_in_a_worker_fails_when_it_is_killed() {
    let site = site();
    let server = site.serve_whole(&FIRST.configuration());
    let _origin = Application::web_socket(&site, "127.0.0.1:%origin%");
    server.expect_alert("exited on signal 9");
    server.expect_alert("keep dying");
    let scale_of_load = Scale::of_upgrades();
    let mut loads = loads(&site, &scale_of_load);
    // On a busy machine a client could otherwise see nothing but workers that are killed.
    loads.iter_mut().for_each(Load::wait_until_begun);
    let kills = scale(2, 50);
    for _ in 0..kills {
        // One that has lived for long is replaced at once.
        thread::sleep(Duration::from_millis(scale(500, 10_500) as u64));
        let worker = server.worker_pid();
        command("kill", &["-KILL", &worker.to_string()], b"").success();
        wait_for("another worker", || {
            let now = server.worker_pids();
            (now.len() == 1 && now[0] != worker).then_some(())
        });
        // Who comes meanwhile waits in the sockets, which do not close.
        let url = format!("http://127.0.0.1:{}/number", server.port("plain"));
        command("curl", &["-sS", &url], b"").success();
    }
    for load in loads {
        let name = load.name().to_owned();
        let tally = load.stop();
        eprintln!("{name}: {tally:?}");
        assert_eq!((tally.refused, tally.wrong), (0, 0), "{name}: {tally:?}");
        // Each client has one request under way at a time.
        let most = (kills * 4 * scale_of_load.parallel) as u64;
        assert!(tally.broken <= most, "{name}: {tally:?}");
        assert!(tally.requests > 0, "{name}: {tally:?}");
    }
    one_worker_is_left(&server);
}
