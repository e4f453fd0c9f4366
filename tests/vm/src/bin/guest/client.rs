//! curl and `openssl s_client`.

use crate::program::{self, Outcome, run, wait_for};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Where every client appends its secrets; emptied for each case that reads them.
pub(crate) const KEY_LOG: &str = "/tmp/keys.log";

/// Runs curl, quiet and without looking at the certificate.
#[track_caller]
pub(crate) fn curl(arguments: &[&str]) -> Outcome {
    let fixed = ["-k", "-sS", "--http1.1", "--max-time", "100"];
    run("curl", &[&fixed, arguments].concat(), b"")
}

/// `openssl s_client` with its commands at hand: a line that is `K`, `k`, `R` or `Q` is for
/// the client itself, everything else goes to the server.
pub(crate) struct SClient {
    child: Child,
    stdin: Option<ChildStdin>,
    received: Arc<Mutex<Vec<u8>>>,
    said: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl SClient {
    /// Connects, and waits until the handshake is done.
    #[track_caller]
    pub(crate) fn connect(port: u16, options: &[&str]) -> SClient {
        let mut child = Command::new("openssl")
            .args(["s_client", "-brief", "-keylogfile", KEY_LOG, "-connect"])
            .arg(format!("127.0.0.1:{port}"))
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the image has openssl");
        let (received, said) = (Arc::default(), Arc::default());
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let stderr = child.stderr.take().expect("standard error is a pipe");
        let readers = vec![collect(stdout, &received), collect(stderr, &said)];
        let client = SClient {
            stdin: child.stdin.take(),
            child,
            received,
            said,
            readers,
        };
        // The last line of the brief description; after it commands are read.
        wait_for("s_client to connect", || {
            let said = client.said();
            let ended = said.contains("error") && said.contains("connect");
            assert!(!ended, "s_client: {said}");
            said.contains("Server Temp Key")
                .then_some(())
                .or_else(|| said.contains("Verification").then_some(()))
        });
        client
    }

    /// Sends bytes to the server, or one command to the client.
    #[track_caller]
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let stdin = self
            .stdin
            .as_mut()
            .expect("the input is open until `finish`");
        stdin.write_all(bytes).expect("s_client reads its input");
        stdin.flush().expect("a pipe has no buffer");
    }

    /// Gives the client one of its commands, in a read of its own.
    #[track_caller]
    pub(crate) fn command(&mut self, command: char) {
        // The client takes a command only from the beginning of what it reads.
        std::thread::sleep(std::time::Duration::from_millis(300));
        self.send(format!("{command}\n").as_bytes());
        std::thread::sleep(std::time::Duration::from_millis(300));
    }

    /// What the server has sent so far.
    pub(crate) fn received(&self) -> Vec<u8> {
        self.received.lock().expect("readers do not panic").clone()
    }

    /// What the client itself says.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().expect("readers do not panic")).into_owned()
    }

    /// Waits for a response behind the first `from` bytes; returns its body.
    #[track_caller]
    pub(crate) fn response(&self, from: usize) -> Response {
        wait_for("a response to s_client", || {
            Response::parse(self.received().get(from..)?)
        })
    }

    /// Whether it has ended: the server has closed the connection, or something is wrong with it.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits until the client ends because the server closed the connection.
    #[track_caller]
    pub(crate) fn ended_by_server(mut self) -> (Vec<u8>, String) {
        let status = program::wait(&mut self.child, program::LIMIT);
        assert!(
            status.is_some(),
            "the server did not close the connection; s_client says: {}",
            self.said()
        );
        self.collected()
    }

    /// Closes the connection as the client (close_notify).
    #[track_caller]
    pub(crate) fn finish(mut self) -> (Vec<u8>, String) {
        // Ends of input make s_client close.
        self.stdin = None;
        let status = program::wait(&mut self.child, program::LIMIT);
        assert!(
            status.is_some(),
            "s_client does not end; it says: {}",
            self.said()
        );
        self.collected()
    }

    fn collected(&mut self) -> (Vec<u8>, String) {
        for reader in self.readers.drain(..) {
            reader.join().expect("readers do not panic");
        }
        (self.received(), self.said())
    }
}

impl Drop for SClient {
    fn drop(&mut self) {
        // Both fail only for a process that is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(mut from: impl Read + Send + 'static, to: &Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    let to = Arc::clone(to);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 65536];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            to.lock()
                .expect("readers do not panic")
                .extend_from_slice(&buffer[..count]);
        }
    })
}

/// One response of HTTP/1.1 with a Content-Length.
#[derive(Debug)]
pub(crate) struct Response {
    /// The status line and headers.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// How long both are together.
    pub(crate) bytes: usize,
}

impl Response {
    /// The first response in these bytes, once it is whole.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Response> {
        let head_bytes = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&bytes[..head_bytes]).into_owned();
        let length: usize = head.lines().find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("content-length:")?
                .trim()
                .parse()
                .ok()
        })?;
        let body = bytes.get(head_bytes..head_bytes + length)?.to_vec();
        Some(Response {
            head,
            body,
            bytes: head_bytes + length,
        })
    }
}

/// A request for a file, with the connection kept open.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}
