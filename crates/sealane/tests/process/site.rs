//! A directory with a configuration, and the server started from it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Patience for what another process does; a test fails after it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A prefix with `conf/nginx.conf`, `html/index.html` and `logs/`, removed with
/// its server at the end of the test.
pub(crate) struct Site {
    pub(crate) root: PathBuf,
    pub(crate) port: u16,
    server: Option<Child>,
}

impl Site {
    /// A site whose configuration is `conf`, with `PORT` standing for a free
    /// port. `daemon off` comes from the command line of [`Site::start`].
    pub(crate) fn new(conf: &str) -> Site {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sealane-process-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        for directory in ["conf", "html", "logs"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join("html/index.html"), "it works\n").unwrap();
        let site = Site {
            root,
            port: free_port(),
            server: None,
        };
        site.configure(conf);
        site
    }

    /// A site that serves `html/` with the given lines in the main context.
    pub(crate) fn serving(main: &str) -> Site {
        Site::new(&format!("{main}\n{}", SERVE_HTML))
    }

    pub(crate) fn configure(&self, conf: &str) {
        let text = conf.replace("PORT", &self.port.to_string());
        fs::write(self.root.join("conf/nginx.conf"), text).unwrap();
    }

    /// The command line up to the prefix.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sealane"));
        command.arg("-p").arg(&self.root).stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    /// Starts the server in the foreground and waits until it answers.
    pub(crate) fn start(&mut self) {
        self.spawn();
        self.wait_until_it_answers();
    }

    /// Starts the server in the foreground; its stderr goes to `stderr.txt`.
    pub(crate) fn spawn(&mut self) {
        let stderr = fs::File::create(self.path("stderr.txt")).unwrap();
        let child = self
            .command()
            .args(["-g", "daemon off;"])
            .stderr(stderr)
            .spawn()
            .unwrap();
        self.server = Some(child);
    }

    pub(crate) fn wait_until_it_answers(&self) {
        wait_until("an answer", || {
            self.get().is_some_and(|answer| answer.contains("it works"))
        });
    }

    /// Waits for the server started by [`Site::spawn`] to end; its exit code.
    pub(crate) fn wait_for_end(&mut self) -> Option<i32> {
        let mut child = self.server.take().unwrap();
        wait_until("the end of the server", || {
            child.try_wait().unwrap().is_some()
        });
        child.wait().unwrap().code()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn wait_for_text(&self, name: &str, wanted: &str) {
        let start = Instant::now();
        while !self.text(name).contains(wanted) {
            let text = self.text(name);
            assert!(
                start.elapsed() < PATIENCE,
                "{name} has no \"{wanted}\":\n{text}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The answer to `GET /`, or `None` when nobody answers.
    pub(crate) fn get(&self) -> Option<String> {
        get(TcpStream::connect_timeout(&self.address(), PATIENCE).ok()?)
    }

    /// Process id of the master.
    pub(crate) fn master(&self) -> i32 {
        self.text("logs/sealane.pid").trim().parse().unwrap()
    }

    /// Process ids of the master's children.
    pub(crate) fn workers(&self) -> Vec<i32> {
        children(self.master())
    }

    /// The worker process, once there is exactly one.
    pub(crate) fn worker(&self) -> i32 {
        wait_until("one worker process", || self.workers().len() == 1);
        self.workers()[0]
    }

    pub(crate) fn signal_master(&self, signal: &str) {
        kill(self.master(), signal);
    }
}

const SERVE_HTML: &str = "
    error_log logs/error.log notice;
    pid logs/sealane.pid;
    events { worker_connections 64; }
    http {
        access_log logs/access.log;
        server { listen 127.0.0.1:PORT; location / { root html; } }
    }";

impl Drop for Site {
    fn drop(&mut self) {
        // The master ends its worker; a worker without master ends by itself.
        let _ = self.command().args(["-e", "stderr", "-s", "stop"]).output();
        if let Some(mut child) = self.server.take() {
            let start = Instant::now();
            while child.try_wait().is_ok_and(|status| status.is_none()) {
                if start.elapsed() > PATIENCE {
                    let _ = child.kill();
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        if std::thread::panicking() {
            eprintln!(
                "--- {}\n{}",
                self.path("logs/error.log").display(),
                self.text("logs/error.log")
            );
            eprintln!("--- stderr\n{}", self.text("stderr.txt"));
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// The answer to `GET /` on a connection.
pub(crate) fn get(mut connection: impl Read + Write) -> Option<String> {
    connection
        .write_all(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    Some(answer)
}

pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn kill(pid: i32, signal: &str) {
    assert!(pid > 1);
    let status = Command::new("kill")
        .args(["-s", signal, &pid.to_string()])
        .status();
    assert!(status.unwrap().success(), "kill -s {signal} {pid}");
}

pub(crate) fn alive(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    // After the name in parentheses comes the state; Z is dead, if not buried.
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.trim_start().starts_with('Z'))
}

fn children(parent: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .filter(|&pid| alive(pid))
        .collect()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A port on which nothing listened a moment ago, below the range that the
/// kernel gives to outgoing connections: nobody else gets it by chance.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id() % 2_000 * 8;
    loop {
        let offset = (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 16_000;
        let port = 16_000 + offset as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub(crate) fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

/// Whether `path` is owned by this user id.
pub(crate) fn owner(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).unwrap().uid()
}
