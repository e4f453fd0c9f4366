//! Clients that make requests until they are told to stop, and count failures.

use crate::{PATIENCE, go_client_path, repository};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Instant;

/// What came of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers, or messages that came back.
    pub requests: u64,
    /// Nobody accepted.
    pub refused: u64,
    /// A connection ended where something was due.
    pub broken: u64,
    /// Another answer than the first one.
    pub wrong: u64,
}

impl Tally {
    /// All that went wrong.
    pub fn failures(&self) -> u64 {
        self.refused + self.broken + self.wrong
    }
}

/// A client that runs until [`Load::stop`].
#[derive(Debug)]
pub struct Load {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
}

impl Load {
    /// Go's client: `kind` is `close`, `keep` or `http2`; with an authority, over TLS.
    #[track_caller]
    pub fn go(kind: &str, address: &str, authority: Option<&str>, parallel: usize) -> Load {
        let parallel = parallel.to_string();
        let mut words = vec!["load", "-address", address, "-kind", kind];
        words.extend(["-parallel", &parallel]);
        words.extend(authority.iter().flat_map(|file| ["-ca", file]));
        words.push("/page");
        let program = go_client_path().display().to_string();
        let tls = if authority.is_some() { " over TLS" } else { "" };
        Load::start(&format!("{kind}{tls}"), &program, &words)
    }

    /// Numbers that a WebSocket server sends back, so many on each connection.
    #[track_caller]
    pub fn web_sockets(url: &str, parallel: usize, numbers: usize) -> Load {
        let script = repository().join("tests/applications/websocket.py");
        let (script, parallel) = (script.display().to_string(), parallel.to_string());
        let numbers = numbers.to_string();
        let words = ["-B", &script, "numbered", url, &parallel, &numbers];
        Load::start("WebSockets", "/usr/bin/python3", &words)
    }

    #[track_caller]
    fn start(name: &str, program: &str, words: &[&str]) -> Load {
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        Load {
            name: name.to_owned(),
            stdin: child.stdin.take(),
            stdout: child.stdout.take().map(BufReader::new),
            child,
        }
    }

    /// Waits for its first good answer.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[track_caller]
    pub fn wait_until_begun(&mut self) {
        let mut stdout = self.stdout.take().expect("it is a pipe");
        let (sender, first) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = stdout.read_line(&mut line);
            let _ = sender.send((read.is_ok() && line == "begun\n", stdout));
        });
        match first.recv_timeout(PATIENCE) {
            Ok((true, stdout)) => self.stdout = Some(stdout),
            _ => panic!("{}: not one good answer", self.name),
        }
    }

    /// Which one it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Has it finish what it has begun, and returns what came of all.
    #[track_caller]
    pub fn stop(mut self) -> Tally {
        drop(self.stdin.take());
        let mut text = String::new();
        let stdout = self.stdout.take();
        stdout
            .expect("it is a pipe")
            .read_to_string(&mut text)
            .expect("it is text");
        let status = self.child.wait().expect("it is our child");
        assert!(status.success(), "{}: {status}, {text}", self.name);
        let number = |name: &str| {
            let mut words = text.split_whitespace();
            words.find(|word| *word == name);
            let number = words.next().and_then(|word| word.parse().ok());
            number.unwrap_or_else(|| panic!("{}: no {name} in {text:?}", self.name))
        };
        Tally {
            requests: number("requests"),
            refused: number("refused"),
            broken: number("broken"),
            wrong: number("wrong"),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(std::time::Duration::from_millis(5)),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
