//! A server process under test.

use crate::upgrade::{DEVICE_PROCESSES, KEY_PROCESS, all_children, children, name_of};
use crate::{PATIENCE, Site, command, wait_for};
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Which server to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The binary of this workspace.
    Sealane,
    /// Debian's nginx, the reference that behaviour is compared with.
    Nginx,
}

/// A running server. Dropping it stops the process and checks how it went.
#[derive(Debug)]
pub struct Server<'a> {
    site: &'a Site,
    child: Option<Child>,
    expected_alerts: Mutex<Vec<String>>,
    label: &'static str,
}

impl<'a> Server<'a> {
    /// Writes the configuration, starts the program in the foreground and
    /// waits until it listens.
    #[track_caller]
    pub fn start(site: &'a Site, program: Program, configuration: &str) -> Server<'a> {
        Server::start_under(site, program, configuration, &[])
    }

    /// The same under a wrapper such as `prlimit --nofile=64`.
    #[track_caller]
    pub fn start_under(
        site: &'a Site,
        program: Program,
        configuration: &str,
        wrapper: &[&str],
    ) -> Server<'a> {
        Server::start_with(site, program, configuration, wrapper, Stdio::null())
    }

    /// The same with something else than nothing for standard input, for the wrapper to use.
    #[track_caller]
    pub fn start_with(
        site: &'a Site,
        program: Program,
        configuration: &str,
        wrapper: &[&str],
        input: Stdio,
    ) -> Server<'a> {
        let configuration = site.fill_in(configuration);
        let mut server = Server::spawn(site, program, &configuration, wrapper, input);
        server.wait_until_it_listens(&configuration);
        server
    }

    /// Starts the program and waits for nothing.
    #[track_caller]
    pub fn start_unready(site: &'a Site, program: Program, configuration: &str) -> Server<'a> {
        let configuration = site.fill_in(configuration);
        Server::spawn(site, program, &configuration, &[], Stdio::null())
    }

    #[track_caller]
    fn spawn(
        site: &'a Site,
        program: Program,
        configuration: &str,
        wrapper: &[&str],
        input: Stdio,
    ) -> Server<'a> {
        let (binary, label) = match program {
            Program::Sealane => (sealane_binary(), "sealane"),
            Program::Nginx => (nginx_binary(), "nginx"),
        };
        let file = site.write(format!("{label}.conf"), configuration);
        let mut words: Vec<&std::ffi::OsStr> = wrapper.iter().map(std::ffi::OsStr::new).collect();
        words.push(binary.as_os_str());
        let stderr = std::fs::File::create(site.path(format!("logs/{label}.stderr")))
            .expect("the site is writable");
        let child = Command::new(words[0])
            .args(&words[1..])
            .arg("-p")
            .arg(site.path(""))
            .arg("-c")
            .arg(&file)
            .args(["-e", "logs/error.log", "-g", "daemon off;"])
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(stderr)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", binary.display()));
        Server {
            site,
            child: Some(child),
            expected_alerts: Mutex::default(),
            label,
        }
    }

    /// Announces text that an `[alert]`, `[crit]` or `[emerg]` line may contain.
    pub fn expect_alert(&self, text: &str) {
        self.expected_alerts
            .lock()
            .expect("no test panics in here")
            .push(text.to_owned());
    }

    /// The port behind `%name%` of the configuration.
    pub fn port(&self, name: &str) -> u16 {
        self.site.port(name)
    }

    /// The process id of the master.
    pub fn pid(&self) -> u32 {
        self.child
            .as_ref()
            .expect("the server was not stopped yet")
            .id()
    }

    /// The process ids of the master's workers: its children but for the key process, and those
    /// that have just been forked and could be anything.
    pub fn worker_pids(&self) -> Vec<u32> {
        let is_worker = |pid: &u32| !matches!(&*name_of(*pid), "sealane: master" | "sealane");
        children(self.pid()).into_iter().filter(is_worker).collect()
    }

    /// The process id of the key process.
    #[track_caller]
    pub fn key_process_pid(&self) -> u32 {
        wait_for("the key process", || {
            let all = all_children(self.pid());
            all.into_iter().find(|pid| name_of(*pid) == KEY_PROCESS)
        })
    }

    /// The processes of devices with keys, in the order in which they were started.
    pub fn device_pids(&self) -> Vec<u32> {
        let mut all = all_children(self.pid());
        all.retain(|pid| DEVICE_PROCESSES.contains(&name_of(*pid).as_str()));
        all
    }

    /// Kills the key process, and waits for the next one.
    #[track_caller]
    pub fn kill_key_process(&self) {
        let before = self.key_process_pid();
        command("kill", &["-KILL", &before.to_string()], b"").success();
        wait_for("another key process", || {
            (self.key_process_pid() != before).then_some(())
        });
    }

    /// The process id of the worker, which starts after the master listens.
    #[track_caller]
    pub fn worker_pid(&self) -> u32 {
        wait_for("the worker to start", || {
            self.worker_pids().first().copied()
        })
    }

    /// Kills the only worker and waits for the next one.
    #[track_caller]
    pub fn kill_worker(&self) {
        let worker = wait_for("one worker", || {
            let workers = self.worker_pids();
            (workers.len() == 1).then(|| workers[0])
        });
        command("kill", &["-KILL", &worker.to_string()], b"").success();
        wait_for("another worker", || {
            let workers = self.worker_pids();
            workers.first().filter(|pid| **pid != worker).copied()
        });
    }

    /// Resident memory of the worker, in KiB.
    #[track_caller]
    pub fn resident_kib(&self) -> u64 {
        self.kib_of_worker("VmRSS:")
    }

    /// The most that it was, in KiB, since it was last forgotten.
    #[track_caller]
    pub fn most_resident_kib(&self) -> u64 {
        self.kib_of_worker("VmHWM:")
    }

    /// Makes the most what it is now. Without the permission it stays the most since the start.
    #[track_caller]
    pub fn forget_most_resident(&self) {
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.worker_pid()), "5");
    }

    #[track_caller]
    fn kib_of_worker(&self, name: &str) -> u64 {
        let path = format!("/proc/{}/status", self.worker_pid());
        let status = std::fs::read_to_string(path).expect("the worker runs");
        let line = status.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_whitespace().nth(1));
        value
            .and_then(|kib| kib.parse().ok())
            .expect("the kernel writes a number")
    }

    /// What has been written to `logs/error.log` and to standard error.
    pub fn error_log(&self) -> String {
        let read = |name: &Path| std::fs::read_to_string(self.site.path(name)).unwrap_or_default();
        let stderr = format!("logs/{}.stderr", self.label);
        format!(
            "{}{}",
            read(Path::new("logs/error.log")),
            read(Path::new(&stderr))
        )
    }

    /// Waits until the error log contains `text`, and returns that line.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) -> String {
        wait_for(
            &format!(
                "a log line with {text:?}; the log is:\n{}",
                self.error_log()
            ),
            || {
                self.error_log()
                    .lines()
                    .find(|line| line.contains(text))
                    .map(str::to_owned)
            },
        )
    }

    /// Sends a signal, such as `"TERM"`, to the master.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        send_signal(name, &self.pid().to_string());
    }

    /// Waits until the server has ended, as it was asked to.
    #[track_caller]
    pub fn wait_for_exit(mut self) -> ExitStatus {
        let status = self.wait(PATIENCE).expect("the server ends");
        self.child = None;
        self.check_log();
        status
    }

    /// Asks the server to quit (`QUIT` or `TERM`) and returns how it ended.
    #[track_caller]
    pub fn stop(self, signal: &str) -> ExitStatus {
        self.signal(signal);
        self.wait_for_exit()
    }

    /// Panics unless the server is still the process that was started.
    #[track_caller]
    pub fn assert_running(&mut self) {
        let child = self.child.as_mut().expect("the server was not stopped yet");
        let status = child.try_wait().expect("the child is ours");
        assert!(
            status.is_none(),
            "{} ended by itself: {status:?}\n{}",
            self.label,
            self.error_log()
        );
    }

    #[track_caller]
    fn wait_until_it_listens(&mut self, configuration: &str) {
        for address in listening_addresses(configuration) {
            wait_for(&format!("{} to listen on {address}", self.label), || {
                self.assert_running();
                TcpStream::connect(&address).ok()
            });
        }
    }

    fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        let mut pause = Duration::from_millis(1);
        let child = self.child.as_mut()?;
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait().expect("the child is ours") {
                return Some(status);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
        None
    }

    /// An `[alert]` means that the server itself is at fault; `[crit]` and
    /// `[emerg]` that it could not do its work. None may go unnoticed.
    #[track_caller]
    fn check_log(&self) {
        let expected = self.expected_alerts.lock().expect("no test panics in here");
        for line in self.error_log().lines() {
            let serious = ["[alert]", "[crit]", "[emerg]"]
                .iter()
                .any(|level| line.contains(level));
            let announced = expected.iter().any(|text| line.contains(text.as_str()));
            assert!(!serious || announced, "{} logged: {line}", self.label);
        }
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let Some(child) = self.child.as_mut() else {
            return;
        };
        let pid = child.id().to_string();
        let crashed = child.try_wait().expect("the child is ours");
        if crashed.is_none() {
            send_signal("TERM", &pid);
        }
        let ended = self.wait(PATIENCE);
        if ended.is_none() {
            // The whole group: a master that hangs may leave its worker behind.
            send_signal("KILL", &format!("-{pid}"));
            self.wait(PATIENCE);
        }
        if std::thread::panicking() {
            eprintln!(
                "---- error log of {} ----\n{}---- end ----",
                self.label,
                tail(&self.error_log())
            );
            return;
        }
        assert!(
            crashed.is_none(),
            "{} ended during the test: {crashed:?}\n{}",
            self.label,
            self.error_log()
        );
        let status =
            ended.unwrap_or_else(|| panic!("{} did not stop\n{}", self.label, self.error_log()));
        assert!(
            status.success(),
            "{} stopped with {status}\n{}",
            self.label,
            self.error_log()
        );
        self.check_log();
    }
}

/// The last part of a long log.
fn tail(text: &str) -> &str {
    const SHOWN_BYTES: usize = 20_000;
    let from =
        (text.len().saturating_sub(SHOWN_BYTES)..text.len()).find(|&at| text.is_char_boundary(at));
    &text[from.unwrap_or(0)..]
}

#[track_caller]
fn send_signal(name: &str, process: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), "--", process])
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "kill -{name} {process}"
    );
}

/// The TCP addresses of the `listen` directives, wildcards through loopback.
fn listening_addresses(configuration: &str) -> Vec<String> {
    let mut addresses = Vec::new();
    for statement in configuration.split([';', '{', '}']) {
        let mut words = statement.split_whitespace();
        let (Some("listen"), Some(address)) = (words.next(), words.next()) else {
            continue;
        };
        if address.starts_with("unix:") || words.any(|word| ["udp", "quic"].contains(&word)) {
            continue;
        }
        let address = match address.rsplit_once(':') {
            Some((host, port)) => format!(
                "{}:{port}",
                host.replace('*', "127.0.0.1").replace("[::]", "[::1]")
            ),
            None => format!("127.0.0.1:{address}"),
        };
        addresses.push(address.replace("0.0.0.0", "127.0.0.1"));
    }
    addresses
}

/// The nginx of comparisons: the one that `SEALANE_TEST_NGINX` names, else what
/// `scripts/peers/build-nginx.sh` has built if it is as new as the documentation, else Debian's.
pub fn nginx_binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY
        .get_or_init(|| match std::env::var_os("SEALANE_TEST_NGINX") {
            Some(path) => path.into(),
            None => built_nginx().unwrap_or_else(|| "/usr/sbin/nginx".into()),
        })
        .clone()
}

/// Whether that nginx has `stream` built in.
pub fn nginx_has_stream() -> bool {
    nginx_was_built("--with-stream")
}

/// Whether that nginx has HTTP/3 built in.
pub fn nginx_has_http3() -> bool {
    nginx_was_built("--with-http_v3_module")
}

/// Whether that nginx has `mail` built in.
pub fn nginx_has_mail() -> bool {
    nginx_was_built("--with-mail")
}

fn nginx_was_built(with: &str) -> bool {
    let said = crate::command(&nginx_binary().display().to_string(), &["-V"], b"").stderr;
    said.split(' ').any(|option| option == with)
}

/// The result of `scripts/peers/build-nginx.sh`, from 1.31 on.
fn built_nginx() -> Option<PathBuf> {
    let cache = std::env::var_os("SEALANE_CACHE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache"),
        PathBuf::from,
    );
    let path = cache.join("peers/nginx-reference/sbin/nginx");
    let shown = Command::new(&path).arg("-v").output().ok()?;
    let shown = String::from_utf8_lossy(&shown.stderr);
    let version = shown.split_once("nginx/")?.1.trim();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
    ((numbers.next()??, numbers.next()??) >= (1, 31)).then_some(path)
}

/// The binary under test: `SEALANE_BINARY`, or the one of this build profile,
/// which cargo brings up to date first.
pub fn sealane_binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY
        .get_or_init(|| {
            if let Some(path) = std::env::var_os("SEALANE_BINARY") {
                return PathBuf::from(path);
            }
            build_binary()
        })
        .clone()
}

fn build_binary() -> PathBuf {
    // A test runs as TARGET/PROFILE/deps/NAME-HASH.
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("a test lies in TARGET/PROFILE/deps");
    let target = profile
        .parent()
        .expect("a profile lies in the target directory");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args([
            "build",
            "--quiet",
            "-p",
            "sealane",
            "-p",
            "sealane-bench",
            "--bins",
            "--target-dir",
        ])
        .arg(target);
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let mut output = String::new();
    let mut child = build
        .current_dir(crate::repository())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cargo runs");
    let _ = child
        .stderr
        .take()
        .expect("standard error is a pipe")
        .read_to_string(&mut output);
    assert!(
        child.wait().is_ok_and(|status| status.success()),
        "cargo build -p sealane -p sealane-bench failed:\n{output}"
    );
    profile.join("sealane")
}
