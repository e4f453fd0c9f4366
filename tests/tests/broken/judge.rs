//! One server that is given configuration after configuration, and what has to hold for each.

use sealane_sys::signal::{self, Signal};
use sealane_tests::{Outcome, Program, Server, Site, command, sealane_binary, wait_for, wire};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A configuration, and what is known about it beforehand.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Which kind of mistake.
    pub class: &'static str,
    /// The text, in which `%name%` has been filled in already.
    pub text: Vec<u8>,
    pub expected: Expected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Nobody may take it.
    Refused,
    /// The same, but only a process that binds addresses can see why, and `-s reload` does not.
    RefusedWhenBound,
    /// Somebody may have meant it: `-t` and the server have to agree, whatever they say.
    Alike,
    /// There is nothing wrong.
    Taken,
}

/// What became of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Refused,
    Taken,
}

/// How an error begins that is about no single line, in nginx and here alike.
const WITHOUT_PLACE: &[&str] = &[
    "bind() to ",
    "cannot load ",
    "cannot read ",
    "chdir(",
    "chown(",
    "getgrnam(",
    "getpwnam(",
    "mkdir() ",
    "no \"events\" section in configuration",
    "no \"ssl_certificate_key\" is defined for certificate ",
    "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client",
    "open() ",
    "SSL_CONF_cmd(",
    "SSL_CTX",
    "invalid server name or wildcard ",
    "still could not bind()",
    "unknown \"no_such_variable\" variable",
    "zero size shared memory zone ",
];

/// The same by what they say behind a name or a number.
const WITHOUT_PLACE_ENDS: &[&str] = &[
    " contains no PEM block ",
    " is for cached responses but is not a directory",
    " is for temporary files but is not a directory",
    " worker_connections are not enough for ",
];

/// What the log says at the end of a reload.
const MARKS: [(&str, Verdict); 3] = [
    ("reconfigured, worker process ", Verdict::Taken),
    ("the new configuration is refused, ", Verdict::Refused),
    ("the new configuration is not used, ", Verdict::Refused),
];

/// So many bytes of a message are in the log, with the time in front of them.
const MOST_OF_A_LINE: usize = 1900;

/// How long a reload may take: far more than any needs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that goes on, whatever it is told.
pub(crate) struct Bench<'a> {
    site: &'a Site,
    server: Server<'a>,
    /// A program that the binary runs under, with its arguments.
    wrapper: Vec<&'static str>,
    good: Vec<u8>,
    workers: Vec<u32>,
    log: File,
    /// Signals that were sent.
    orders: usize,
    descriptors: Vec<BTreeMap<String, usize>>,
    /// Verdicts that were not the expected ones.
    surprises: Vec<String>,
}

impl<'a> Bench<'a> {
    /// Starts a server with a configuration in which nothing is wrong; it answers `first` on port
    /// `plain`.
    #[track_caller]
    pub(crate) fn start(site: &'a Site, good: &str, wrapper: &[&'static str]) -> Bench<'a> {
        let server = Server::start_under(site, Program::Sealane, good, wrapper);
        server.expect_alert(""); // mistakes are what this is about
        let log = File::open(site.path("logs/error.log")).expect("the server has a log");
        let mut bench = Bench {
            site,
            workers: vec![server.worker_pid()],
            server,
            wrapper: wrapper.to_vec(),
            good: site.fill_in(good).into_bytes(),
            log,
            orders: 0,
            descriptors: Vec::new(),
            surprises: Vec::new(),
        };
        // What is opened once, the first time: the resolver's thread stays.
        let resolver = "access_log off; resolver 127.0.0.1;";
        let with_resolver = site.fill_in(good).replace("access_log off;", resolver);
        bench.configure(with_resolver.as_bytes());
        assert_eq!(bench.reload().0, Verdict::Taken);
        bench.put_back();
        bench.configure(b"nonsense;");
        assert_eq!(bench.reload().0, Verdict::Refused);
        bench.goes_on("nonsense");
        bench.descriptors = bench.now_open();
        bench
    }

    /// Gives the configuration to `-t`, to the server and to `-s reload`, and checks everything
    /// that the module promises.
    #[track_caller]
    pub(crate) fn judge(&mut self, case: &Case) -> Verdict {
        let shown = self.shown(case);
        let shown = || shown.clone();
        self.configure(&case.text);
        let tested = self.ask(&["-t"]);
        let (verdict, log) = self.reload();
        let (status, end) = match verdict {
            Verdict::Refused => (1, "test failed\n"),
            Verdict::Taken => (0, "test is successful\n"),
        };
        let agree = tested.status == status && tested.stderr.contains(end);
        assert!(agree, "{verdict:?}, but -t: {tested:?}\n{log}\n{}", shown());
        let right = match case.expected {
            Expected::Refused | Expected::RefusedWhenBound => verdict == Verdict::Refused,
            Expected::Taken => verdict == Verdict::Taken,
            Expected::Alike => true,
        };
        if !right {
            let surprise = format!("{verdict:?}: {}\n{}", tested.stderr, shown());
            self.surprises.push(surprise);
        }
        match verdict {
            Verdict::Refused => {
                let said = self.check_words(&tested, &log, &shown());
                self.check_order(case, &said, &shown());
                self.goes_on(&shown());
            }
            Verdict::Taken => {
                let answer = self.raw_answer();
                assert!(answer.starts_with("HTTP/1.1 "), "{answer:?}\n{}", shown());
                self.put_back();
            }
        }
        verdict
    }

    /// The class, and the lines that the good configuration does not have.
    fn shown(&self, case: &Case) -> String {
        let (text, good) = (
            String::from_utf8_lossy(&case.text),
            String::from_utf8_lossy(&self.good),
        );
        let own: BTreeSet<&str> = good.lines().collect();
        let other: Vec<&str> = text.lines().filter(|line| !own.contains(line)).collect();
        let fewer = own.len() > text.lines().collect::<BTreeSet<_>>().len() + other.len();
        let gone = if fewer { ", lines are missing" } else { "" };
        format!("[{}{gone}]\n{}\n", case.class, other.join("\n"))
    }

    /// The terminal and the log have the same error, in nginx's form.
    #[track_caller]
    fn check_words(&mut self, tested: &Outcome, log: &str, shown: &str) -> String {
        let said = first_error(&tested.stderr);
        let said = said.unwrap_or_else(|| panic!("no error: {tested:?}\n{shown}"));
        let is_known = WITHOUT_PLACE.iter().any(|known| said.starts_with(known));
        let is_whole = WITHOUT_PLACE_ENDS.iter().any(|known| said.contains(known));
        if !is_known && !is_whole && !has_place(said) {
            self.surprises.push(format!("{said:?} says no line"));
        }
        let master = format!("[emerg] {0}#{0}: {said}", self.server.pid());
        // A line of the log has an end, however long a word is.
        let master = &master[..master.floor_char_boundary(MOST_OF_A_LINE)];
        assert!(log.contains(master), "no {master:?} in {log}\n{shown}");
        said.to_owned()
    }

    /// `-s reload` says the same, and the server hears nothing of it.
    #[track_caller]
    fn check_order(&mut self, case: &Case, said: &str, shown: &str) {
        let ordered = self.ask(&["-s", "reload"]);
        if case.expected == Expected::RefusedWhenBound {
            assert_eq!(ordered.status, 0, "{ordered:?}\n{shown}");
            self.orders += 1;
            assert_eq!(self.outcome().0, Verdict::Refused);
            return;
        }
        if !String::from_utf8_lossy(&case.text).contains("pid logs/pid;") {
            // Whom to tell stands in the file of the new configuration, as in nginx.
            assert_eq!(ordered.status, 1, "{ordered:?}\n{shown}");
            return;
        }
        let told = first_error(&ordered.stderr);
        assert_eq!(
            (ordered.status, told),
            (1, Some(said)),
            "{ordered:?}\n{shown}"
        );
    }

    /// The answer to the oldest kind of request, whose body has no form that a directive could
    /// change.
    fn raw_answer(&self) -> String {
        let mut answer = Vec::new();
        let address = ("127.0.0.1", self.server.port("plain"));
        let mut socket = TcpStream::connect(address).expect("the server listens");
        let _ = socket.write_all(b"GET / HTTP/1.0\r\n\r\n");
        let _ = socket.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// It answers as before, with the process of before.
    #[track_caller]
    fn goes_on(&self, shown: &str) {
        let answer = wire::get(self.server.port("plain"), "/");
        assert_eq!(answer.text(), "first", "{shown}");
        assert_eq!(self.server.worker_pids(), self.workers, "{shown}");
    }

    /// Gives it back what it had. A process that was needed for the other configuration is
    /// followed by another one.
    #[track_caller]
    fn put_back(&mut self) {
        let good = self.good.clone();
        self.configure(&good);
        let (verdict, log) = self.reload();
        assert_eq!(verdict, Verdict::Taken, "the good configuration: {log}");
        let workers = wait_for("one worker process", || {
            Some(self.server.worker_pids()).filter(|pids| pids.len() == 1)
        });
        let is_another = std::mem::replace(&mut self.workers, workers) != self.workers;
        self.goes_on("the good configuration");
        if is_another {
            // It keeps what connections of the process before it came through.
            self.descriptors[1] = self.now_open().swap_remove(1);
        }
    }

    /// Checks what has to hold at the end, and stops the server.
    #[track_caller]
    pub(crate) fn finish(self) {
        let has_more = |now: &BTreeMap<String, usize>, before: &BTreeMap<String, usize>| {
            let mut kinds = now.iter();
            kinds.any(|(kind, count)| *count > before.get(kind).copied().unwrap_or(0))
        };
        let until = Instant::now() + PATIENCE;
        loop {
            let now = self.now_open();
            if !now
                .iter()
                .zip(&self.descriptors)
                .any(|(now, before)| has_more(now, before))
            {
                break;
            }
            let before = &self.descriptors;
            assert!(Instant::now() < until, "open: {now:?}, before: {before:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let log = std::fs::read(self.site.path("logs/error.log")).expect("the server has a log");
        let log = String::from_utf8_lossy(&log);
        let heard = log.matches(": reconfiguring\n").count();
        assert_eq!(heard, self.orders, "reloads, and orders to do one");
        assert!(self.server.stop("QUIT").success());
        let surprises = self.surprises;
        assert!(
            surprises.is_empty(),
            "judged wrongly:\n{}",
            surprises.join("\n")
        );
    }

    fn configure(&self, text: &[u8]) {
        let new = self.site.write("sealane.conf.new", text);
        std::fs::rename(new, self.site.path("sealane.conf")).expect("the site is writable");
    }

    /// HUP, and what comes of it: with the part of the log that is about it.
    #[track_caller]
    fn reload(&mut self) -> (Verdict, String) {
        self.log.seek(SeekFrom::End(0)).expect("it is a file");
        let master = i32::try_from(self.server.pid()).expect("a process id");
        signal::send(master, Signal::Hup).expect("the master runs");
        self.orders += 1;
        self.outcome()
    }

    #[track_caller]
    fn outcome(&mut self) -> (Verdict, String) {
        let until = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            self.log.read_to_end(&mut seen).expect("it is a file");
            let text = String::from_utf8_lossy(&seen);
            if let Some((_, verdict)) = MARKS.iter().find(|(mark, _)| text.contains(mark)) {
                return (*verdict, text.into_owned());
            }
            assert!(Instant::now() < until, "a reload does not end: {text}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Runs the binary on the configuration file, as an operator would beside the server.
    #[track_caller]
    fn ask(&self, arguments: &[&str]) -> Outcome {
        let (prefix, file) = (self.site.path(""), self.site.path("sealane.conf"));
        let (prefix, file) = (prefix.display().to_string(), file.display().to_string());
        let binary = sealane_binary().display().to_string();
        let mut words = self.wrapper.clone();
        words.extend([&binary, "-p", &prefix, "-c", &file, "-e", "logs/error.log"]);
        words.extend(["-g", "daemon off;"]); // as the server was started
        words.extend(arguments);
        command(words[0], &words[1..], b"")
    }

    /// What the master and the worker have open, by kind.
    fn now_open(&self) -> Vec<BTreeMap<String, usize>> {
        let pids = std::iter::once(self.server.pid()).chain(self.server.worker_pids());
        pids.map(open_files).collect()
    }
}

fn open_files(pid: u32) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return kinds;
    };
    for entry in entries.flatten() {
        if let Ok(target) = std::fs::read_link(entry.path()) {
            let target = target.display().to_string();
            // The numbers of sockets and pipes differ.
            let kind = target.split(":[").next().unwrap_or_default().to_owned();
            *kinds.entry(kind).or_default() += 1;
        }
    }
    kinds
}

/// What the first error of a run of the binary says, without level and process.
pub(crate) fn first_error(stderr: &str) -> Option<&str> {
    let line = stderr.lines().find(|line| line.contains("[emerg] "))?;
    line.split_once("[emerg] ").map(|(_, text)| text)
}

/// ` in FILE:LINE` at the end, as nginx has it.
fn has_place(said: &str) -> bool {
    let place = said
        .rsplit_once(" in /")
        .and_then(|(_, place)| place.rsplit_once(':'));
    place.is_some_and(|(_, line)| line.bytes().all(|byte| byte.is_ascii_digit()))
}
