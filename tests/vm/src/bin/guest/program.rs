//! Programs of the guest, run to their end within a limit.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What any program gets: far more than it needs, even in emulation.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// What a program did.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Its exit status; -1 when a signal ended it.
    pub(crate) status: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Outcome {
    /// Standard output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The same, if the program reported success.
    #[track_caller]
    pub(crate) fn success(self) -> Outcome {
        assert_eq!(self.status, 0, "exit status; stderr: {}", self.stderr);
        self
    }
}

/// Runs a program with arguments and standard input.
#[track_caller]
pub(crate) fn run(program: &str, arguments: &[&str], input: &[u8]) -> Outcome {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // A program may end without reading its input.
        let _ = stdin.write_all(&input);
    });
    let stdout = read_all(child.stdout.take().expect("standard output is a pipe"));
    let stderr = read_all(child.stderr.take().expect("standard error is a pipe"));
    let status = wait(&mut child, LIMIT);
    if status.is_none() {
        let _ = child.kill();
    }
    let joined = "reading and writing do not panic";
    writer.join().expect(joined);
    let stderr = String::from_utf8_lossy(&stderr.join().expect(joined)).into_owned();
    let stdout = stdout.join().expect(joined);
    let Some(status) = status else {
        panic!("{program} {arguments:?} did not end within {LIMIT:?}: {stderr}");
    };
    Outcome {
        status,
        stdout,
        stderr,
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// Waits for a child's end; its exit status, -1 for a signal, `None` when it still runs.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Option<i32> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return Some(status.code().unwrap_or(-1));
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a process.
#[track_caller]
pub(crate) fn signal(name: &str, pid: u32) {
    run(
        "busybox",
        &["kill", &format!("-{name}"), &pid.to_string()],
        b"",
    )
    .success();
}

/// Whether a process that is nobody's child here runs, and is not only waiting to be reaped.
pub(crate) fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, fields)| fields);
    state.is_some_and(|fields| !fields.starts_with('Z'))
}

/// Calls `probe` until it gives a value; panics with `what` in the end.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < deadline, "gave up waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
