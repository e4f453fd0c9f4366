//! Servers in the background whose binary is replaced while they run.

use crate::{PATIENCE, Program, Site, sealane_binary, server, wait_for};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A server that has left the terminal, whatever process it is by now. Dropping it ends all of
/// them and checks the log.
#[derive(Debug)]
pub struct Daemon<'a> {
    site: &'a Site,
    /// Masters that were seen.
    masters: RefCell<Vec<u32>>,
    expected: RefCell<Vec<String>>,
}

impl<'a> Daemon<'a> {
    /// Starts the program as `bin/server` of the site with this configuration, which has `pid
    /// logs/pid`, as an operator would.
    #[track_caller]
    pub fn start(site: &'a Site, program: Program, configuration: &str) -> Daemon<'a> {
        Daemon::start_under(site, program, configuration, &[])
    }

    /// The same under a wrapper such as `env NAME=value`.
    #[track_caller]
    pub fn start_under(
        site: &'a Site,
        program: Program,
        configuration: &str,
        wrapper: &[&str],
    ) -> Daemon<'a> {
        let daemon = Daemon {
            site,
            masters: RefCell::default(),
            expected: RefCell::default(),
        };
        daemon.configure(configuration);
        daemon.install(program);
        let server = site.path("bin/server");
        let mut words: Vec<&std::ffi::OsStr> = wrapper.iter().map(std::ffi::OsStr::new).collect();
        words.push(server.as_os_str());
        let stderr = std::fs::File::create(site.path("logs/start.stderr")).expect("writable");
        let status = Command::new(words[0])
            .args(&words[1..])
            .arg("-p")
            .arg(site.path(""))
            .args(["-c", "server.conf", "-e", "logs/error.log"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .status()
            .expect("the program runs");
        assert!(status.success(), "{status}: {}", daemon.log());
        wait_for("the pid file", || daemon.read_pid("logs/pid"));
        daemon
    }

    /// Writes another configuration, which nobody reads yet.
    pub fn configure(&self, configuration: &str) {
        self.site
            .write("server.conf", self.site.fill_in(configuration));
    }

    /// Puts another program in the place of the one that runs.
    pub fn install(&self, program: Program) {
        let file = match program {
            Program::Sealane => sealane_binary(),
            Program::Nginx => server::nginx_binary(),
        };
        self.install_file(&file);
    }

    /// The same with any file.
    pub fn install_file(&self, file: &Path) {
        let new = self.site.path("bin/new");
        std::fs::create_dir_all(self.site.path("bin")).expect("writable");
        std::os::unix::fs::symlink(file, &new).expect("writable");
        std::fs::rename(new, self.site.path("bin/server")).expect("writable");
    }

    /// The master of `logs/pid`.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        wait_for("the pid file", || self.read_pid("logs/pid"))
    }

    /// The master of `logs/pid.oldbin`, if there is such a file.
    pub fn old_pid(&self) -> Option<u32> {
        self.read_pid("logs/pid.oldbin")
    }

    fn read_pid(&self, file: &str) -> Option<u32> {
        let text = std::fs::read_to_string(self.site.path(file)).ok()?;
        let pid = text.trim().parse().ok()?;
        let mut masters = self.masters.borrow_mut();
        if !masters.contains(&pid) {
            masters.push(pid);
        }
        Some(pid)
    }

    /// Sends USR2 and waits until the new binary has a worker beside the old one's. Returns the
    /// new master.
    #[track_caller]
    pub fn begin_upgrade(&self) -> u32 {
        let old = self.pid();
        signal(old, "USR2");
        let new = wait_for(
            &format!("the new binary; the log is\n{}", self.log()),
            || self.read_pid("logs/pid").filter(|pid| *pid != old),
        );
        wait_for("its worker", || (!children(new).is_empty()).then_some(()));
        new
    }

    /// The whole way: USR2, and QUIT to the old binary, which ends.
    #[track_caller]
    pub fn upgrade(&self) {
        let old = self.pid();
        self.begin_upgrade();
        signal(old, "QUIT");
        self.wait_for_end(old);
    }

    /// Waits until a process has ended.
    #[track_caller]
    pub fn wait_for_end(&self, pid: u32) {
        wait_for(
            &format!("the end of {pid}; the log is\n{}", self.log()),
            || (!runs(pid)).then_some(()),
        );
    }

    /// The error log.
    pub fn log(&self) -> String {
        let read = |name| std::fs::read_to_string(self.site.path(name)).unwrap_or_default();
        format!("{}{}", read("logs/error.log"), read("logs/start.stderr"))
    }

    /// Waits for text in the error log.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        wait_for(&format!("{text:?} in\n{}", self.log()), || {
            self.log().contains(text).then_some(())
        });
    }

    /// Announces text that an `[alert]`, `[crit]` or `[emerg]` line may contain.
    pub fn expect_alert(&self, text: &str) {
        self.expected.borrow_mut().push(text.to_owned());
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = (self.read_pid("logs/pid"), self.old_pid());
        let masters = self.masters.borrow().clone();
        for &pid in masters.iter().filter(|pid| runs(**pid)) {
            signal(pid, "TERM");
        }
        let deadline = std::time::Instant::now() + PATIENCE;
        for pid in masters {
            while runs(pid) && std::time::Instant::now() < deadline {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            if runs(pid) {
                signal(pid, "KILL");
            }
        }
        if std::thread::panicking() {
            eprintln!("---- error log ----\n{}---- end ----", self.log());
            return;
        }
        let expected = self.expected.borrow();
        for line in self.log().lines() {
            let serious = ["[alert]", "[crit]", "[emerg]"]
                .iter()
                .any(|level| line.contains(level));
            let announced = expected.iter().any(|text| line.contains(text.as_str()));
            assert!(!serious || announced, "logged: {line}");
        }
    }
}

/// Sends a signal. After `"STOP"` no thread of the process runs.
#[track_caller]
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status();
    assert!(status.is_ok_and(|status| status.success()), "kill {pid}");
    if name == "STOP" {
        // One thread takes the signal, when it next gets a turn, and stops the others.
        wait_for("all threads to stop", || is_stopped(pid).then_some(()));
    }
}

fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it was signalled");
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat"));
        stat.is_ok_and(|stat| state(&stat) == Some('T'))
    })
}

/// The state in a line of `/proc/[pid]/stat`.
fn state(stat: &str) -> Option<char> {
    stat.rsplit(") ").next()?.chars().next()
}

/// Whether a process runs; one that nobody has collected yet does not.
pub fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state(&stat).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// What a key process calls itself.
pub(crate) const KEY_PROCESS: &str = "sealane: keys";

/// The name of a process; empty when it is gone.
pub(crate) fn name_of(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// What those of devices call themselves.
pub(crate) const DEVICE_PROCESSES: [&str; 2] = ["sealane: pkcs11", "sealane: engine"];

/// The children of a process, but for key processes.
pub fn children(pid: u32) -> Vec<u32> {
    let mut children = all_children(pid);
    children.retain(|pid| {
        let name = name_of(*pid);
        name != KEY_PROCESS && !DEVICE_PROCESSES.contains(&name.as_str())
    });
    children
}

/// The children of a process.
pub(crate) fn all_children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// A TLS connection of `openssl s_client` that is kept.
#[derive(Debug)]
pub struct KeptTls {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl KeptTls {
    /// Connects with these options.
    #[track_caller]
    pub fn open(port: u16, options: &str) -> KeptTls {
        let mut child = Command::new("openssl")
            .args([
                "s_client",
                "-quiet",
                "-connect",
                &format!("127.0.0.1:{port}"),
            ])
            .args(options.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl runs");
        KeptTls {
            input: child.stdin.take().expect("a pipe"),
            output: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
        }
    }

    /// Sends a line and returns the one that comes back.
    #[track_caller]
    pub fn says_back(&mut self, line: &str) -> String {
        self.input.write_all(line.as_bytes()).expect("it runs");
        self.line()
    }

    /// The next line; empty at the end of the connection.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it runs");
        line
    }

    /// The body of the answer to a GET request.
    #[track_caller]
    pub fn get(&mut self, target: &str) -> String {
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.input.write_all(request.as_bytes()).expect("it runs");
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).expect("it runs");
            assert!(!line.is_empty(), "the connection has ended");
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().expect("a number");
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).expect("the body");
        String::from_utf8(body).expect("text")
    }
}

impl Drop for KeptTls {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
