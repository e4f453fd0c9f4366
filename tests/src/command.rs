//! Running client programs, with a limit on their time.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Seconds after which a client program is killed: far beyond what any needs.
const LIMIT_S: &str = "180";

/// What a program did.
#[derive(Debug)]
pub struct Outcome {
    /// The exit status; 124 when it ran into the time limit.
    pub status: i32,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
}

impl Outcome {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The same outcome, after a check that the program reported success.
    #[track_caller]
    pub fn success(self) -> Outcome {
        assert_eq!(
            self.status,
            0,
            "exit status; output: {}\nstderr: {}",
            excerpt(&self.text()),
            self.stderr
        );
        self
    }
}

fn excerpt(text: &str) -> String {
    text.chars().take(2000).collect()
}

/// Runs `program` with `arguments`; `input` is its standard input.
///
/// # Panics
///
/// When the program is not installed.
#[track_caller]
pub fn command<S: AsRef<std::ffi::OsStr>>(program: &str, arguments: &[S], input: &[u8]) -> Outcome {
    let mut child = Command::new("timeout")
        .args(["--kill-after=5", LIMIT_S, program])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("coreutils' timeout is installed");
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    let input = input.to_vec();
    // A program may end without reading its input: a broken pipe is its right.
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("the program was started");
    writer.join().expect("writing does not panic");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let status = output.status.code().unwrap_or(-1);
    assert_ne!(
        status, 127,
        "{program} is not installed (scripts/install-test-deps.sh): {stderr}"
    );
    Outcome {
        status,
        stdout: output.stdout,
        stderr,
    }
}

/// The SHA-256 of some bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    first_word(&command("sha256sum", &["-"], bytes).success().text())
}

/// The SHA-256 of a file, in hexadecimal.
pub fn sha256_of_file(path: &Path) -> String {
    first_word(&command("sha256sum", &[path], b"").success().text())
}

/// Runs `program`, and gives the SHA-256 of its standard output, in hexadecimal.
/// The bytes go from one program to the other: however many they are, they
/// take neither memory nor room on the disk.
#[track_caller]
pub fn sha256_of_output<S: AsRef<std::ffi::OsStr>>(program: &str, arguments: &[S]) -> String {
    let mut child = Command::new("timeout")
        .args(["--kill-after=5", LIMIT_S, program])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("coreutils' timeout is installed");
    let bytes = child.stdout.take().expect("standard output is a pipe");
    let digest = Command::new("sha256sum")
        .stdin(bytes)
        .output()
        .expect("coreutils' sha256sum is installed");
    let output = child.wait_with_output().expect("the program was started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {stderr}");
    first_word(&String::from_utf8_lossy(&digest.stdout))
}

fn first_word(line: &str) -> String {
    line.split_whitespace()
        .next()
        .expect("sha256sum prints the digest first")
        .to_owned()
}
