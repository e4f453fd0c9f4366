//! Servers under test, with their logs.

use crate::program::{self, wait_for};
use std::cell::{Cell, RefCell};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sealane,
    Nginx,
}

impl Kind {
    fn binary(self) -> &'static str {
        match self {
            Kind::Sealane => "/bin/sealane",
            Kind::Nginx => "/bin/nginx",
        }
    }
}

/// A running server. Dropping it asks it to end, and checks that it does so in order.
#[derive(Debug)]
pub(crate) struct Server {
    child: RefCell<Child>,
    /// The master that has taken the place of the child (an upgrade of the binary).
    successor: Cell<Option<u32>>,
    directory: PathBuf,
    /// Where the present case's part of the error log begins.
    mark: Cell<usize>,
    expected: RefCell<Vec<String>>,
}

impl Server {
    /// Starts a server with a configuration, in a directory of its own, and
    /// waits until it listens on `ports`.
    #[track_caller]
    pub(crate) fn start(kind: Kind, name: &str, configuration: &str, ports: &[u16]) -> Server {
        let directory = PathBuf::from("/tmp/servers").join(name);
        std::fs::create_dir_all(directory.join("logs")).expect("/tmp is writable");
        let file = directory.join("nginx.conf");
        std::fs::write(&file, configuration).expect("/tmp is writable");
        let stderr =
            std::fs::File::create(directory.join("logs/stderr")).expect("/tmp is writable");
        let child = Command::new(kind.binary())
            .arg("-p")
            .arg(&directory)
            .arg("-c")
            .arg(&file)
            .args(["-e", "logs/error.log", "-g", "daemon off;"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", kind.binary()));
        let server = Server {
            child: RefCell::new(child),
            successor: Cell::new(None),
            directory,
            mark: Cell::new(0),
            expected: RefCell::default(),
        };
        for port in ports {
            wait_for(&format!("{kind:?} to listen on {port}"), || {
                assert!(
                    server.is_running(),
                    "{kind:?} ended: {}",
                    server.whole_log()
                );
                TcpStream::connect(("127.0.0.1", *port)).ok()
            });
        }
        server
    }

    /// The process id of the master.
    pub(crate) fn master(&self) -> u32 {
        let child = || self.child.borrow().id();
        self.successor.get().unwrap_or_else(child)
    }

    pub(crate) fn is_running(&self) -> bool {
        match self.successor.get() {
            None => matches!(self.child.borrow_mut().try_wait(), Ok(None)),
            Some(master) => program::is_running(master),
        }
    }

    /// The process ids of the workers: the master's children, but for the key process, and those
    /// that have just been forked and could be anything.
    pub(crate) fn workers(&self) -> Vec<u32> {
        const OTHERS: [&str; 3] = ["sealane: keys", "sealane: master", "sealane"];
        let is_worker = |pid: &u32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            !OTHERS.contains(&name.trim_end())
        };
        let pid = self.master();
        let path = format!("/proc/{pid}/task/{pid}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .filter(is_worker)
            .collect()
    }

    /// Gives the server another configuration (HUP), and does not wait for what comes of it.
    #[track_caller]
    pub(crate) fn reconfigure(&self, configuration: &str) {
        let file = self.directory.join("nginx.conf");
        std::fs::write(&file, configuration).expect("/tmp is writable");
        program::signal("HUP", self.master());
    }

    /// Has the binary executed anew (USR2), waits until the new master is there, and asks the old
    /// one to end (QUIT), for which nobody waits here. Returns the old one.
    #[track_caller]
    pub(crate) fn upgrade(&self) -> u32 {
        let old = self.master();
        program::signal("USR2", old);
        let new = wait_for("the pid file of the new master", || {
            let text = std::fs::read_to_string(self.directory.join("logs/server.pid")).ok()?;
            let pid: u32 = text.trim().parse().ok()?;
            (pid != old).then_some(pid)
        });
        program::signal("QUIT", old);
        self.successor.set(Some(new));
        old
    }

    /// Whether a process that [`Server::upgrade`] has asked to end still runs.
    pub(crate) fn still_runs(&self, old: u32) -> bool {
        let mut child = self.child.borrow_mut();
        match child.id() == old {
            true => matches!(child.try_wait(), Ok(None)),
            false => program::is_running(old),
        }
    }

    /// Everything in the error log, and what went to standard error.
    pub(crate) fn whole_log(&self) -> String {
        let read = |name: &str| {
            let bytes = std::fs::read(self.directory.join("logs").join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        read("stderr") + &read("error.log")
    }

    /// What the error log got since the last mark.
    pub(crate) fn log(&self) -> String {
        let log = self.whole_log();
        log.get(self.mark.get()..).unwrap_or_default().to_owned()
    }

    /// Makes what has been logged a matter of the past.
    pub(crate) fn mark(&self) {
        self.mark.set(self.whole_log().len());
        self.expected.borrow_mut().clear();
    }

    /// Waits for a line of the error log since the last mark.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, text: &str) -> String {
        wait_for(&format!("a log line with {text:?}"), || {
            self.log()
                .lines()
                .find(|line| line.contains(text))
                .map(str::to_owned)
        })
    }

    /// The lines of the access log.
    pub(crate) fn access_log(&self) -> Vec<String> {
        let text =
            std::fs::read_to_string(self.directory.join("logs/access.log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Announces text of a line at `alert` or worse.
    pub(crate) fn expect_alert(&self, text: &str) {
        self.expected.borrow_mut().push(text.to_owned());
    }

    /// Panics if the server crashed, or logged something serious that nobody announced.
    #[track_caller]
    pub(crate) fn check(&self) {
        assert!(self.is_running(), "the server ended by itself");
        let expected = self.expected.borrow();
        for line in self.log().lines() {
            let serious = ["[alert]", "[crit]", "[emerg]", "panicked"]
                .iter()
                .any(|level| line.contains(level));
            let announced = expected.iter().any(|text| line.contains(text.as_str()));
            assert!(!serious || announced, "the server logged: {line}");
        }
    }

    /// Ends the server; panics when it does not end in order.
    #[track_caller]
    pub(crate) fn stop(self) {
        self.check();
        assert_eq!(
            self.end(),
            Some(0),
            "exit status after TERM: {}",
            self.log()
        );
    }

    fn end(&self) -> Option<i32> {
        if let Some(master) = self.successor.get()
            && program::is_running(master)
        {
            program::signal("TERM", master);
            wait_for("the new master to end", || {
                (!program::is_running(master)).then_some(())
            });
        }
        let mut child = self.child.borrow_mut();
        if let Ok(Some(status)) = child.try_wait() {
            return status.code();
        }
        program::signal("TERM", child.id());
        let status = program::wait(&mut child, Duration::from_secs(30));
        if status.is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
        status
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // To the guest's console: the report has the standard server's log only.
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(40);
            eprintln!("{}", lines[last..].join("\n"));
        }
        self.end();
    }
}
