//! A running server, as commands see it: they ask it at its control socket.
//!
//! | file | what |
//! |---|---|
//! | `answer.rs` | what it says about itself |
//! | `gains.rs` | two answers: rates and recent durations |
//! | `problems.rs` | what is wrong |
//! | `figures.rs` | numbers as text |
//! | `status.rs` | `sealane status` |
//! | `certificates.rs` | `sealane certificates` |

pub(crate) mod answer;
pub(crate) mod certificates;
pub(crate) mod figures;
pub(crate) mod gains;
pub(crate) mod problems;
pub(crate) mod status;

use crate::arguments::{Arguments, arguments_of_subcommand};
use crate::certificates::fetch::{FetchError, exchange};
use crate::journal::Journal;
use crate::paths::Places;
use crate::startup;
use crate::terminal::say;
use answer::Answer;
use clap::ValueHint;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::HOST;
use sealane_log::OsError;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

/// Exit status: no server could be asked, or the arguments are wrong.
const NOT_ASKED: u8 = 1;
/// Where everything that is counted is, as JSON.
const METRICS: &str = "/metrics?format=json";
/// Longest answer; that of a thousand servers has 0.7 MB.
const MAX_ANSWER_BYTES: usize = 256 << 20;
/// How long the server may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which server is asked.
#[derive(clap::Args)]
pub(crate) struct Target {
    /// Configuration file that the server was started with
    #[arg(short = 'c', value_name = "filename", value_hint = ValueHint::FilePath)]
    conf_file: Option<PathBuf>,
    /// Prefix path, as the server has it
    #[arg(short = 'p', value_name = "prefix", value_hint = ValueHint::DirPath)]
    prefix: Option<PathBuf>,
    /// Global directives out of the configuration file, as the server has them
    #[arg(short = 'g', value_name = "directives")]
    globals: Option<OsString>,
    /// Control socket of the server; without it, the configuration says where it is
    #[arg(long, value_name = "path", value_hint = ValueHint::FilePath, conflicts_with_all = ["conf_file", "prefix", "globals"])]
    socket: Option<PathBuf>,
}

/// Runs a command that prints what it has found out for its request. `arguments` begin with the
/// command's name.
pub(crate) fn answer_with<T: clap::Parser>(
    arguments: &[OsString],
    found: impl FnOnce(&T) -> Result<(Vec<u8>, ExitCode), String>,
) -> ExitCode {
    let request: T = match arguments_of_subcommand(arguments, NOT_ASKED) {
        Ok(request) => request,
        Err(code) => return code,
    };
    match found(&request) {
        Ok((text, code)) => {
            // A reader that went away (`| head`) has what it wanted.
            let _ = io::stdout().write_all(&text);
            code
        }
        Err(message) => {
            say(&format!("{}: {message}\n", T::command().get_name()));
            ExitCode::from(NOT_ASKED)
        }
    }
}

/// A server that can be asked.
pub(crate) struct Running {
    socket: PathBuf,
    runtime: Runtime,
    max_bytes: usize,
    patience: Duration,
}

impl Target {
    /// The server, which need not run.
    ///
    /// # Errors
    /// Why it is not known where to ask.
    pub(crate) fn find(&self) -> Result<Running, String> {
        let socket = match &self.socket {
            Some(given) => given.clone(),
            None => self.configured_socket()?,
        };
        Running::at(socket)
    }

    fn configured_socket(&self) -> Result<PathBuf, String> {
        let arguments = Arguments {
            prefix: self.prefix.clone(),
            conf_file: self.conf_file.clone(),
            globals: self.globals.clone(),
            ..Arguments::default()
        };
        let places = Places::new(&arguments);
        let journal = Journal::of_errors();
        let config = startup::read_configuration(&arguments, &places, &journal);
        let config = config.map_err(|_reported| {
            "the configuration, which says where the control socket is, cannot be read; if it \
             differs from that of the running server, name the socket with --socket"
                .to_owned()
        })?;
        let conf_file = places.conf_file.display();
        config.main.control_socket.ok_or_else(|| {
            format!(
                "a server with {conf_file} has no control socket: \"control_socket\" is off, or the \
                 path of \"pid\" is too long for a socket or in /dev; set \"control_socket\" to a \
                 path and reload"
            )
        })
    }
}

impl Running {
    fn at(socket: PathBuf) -> Result<Running, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        Ok(Running {
            socket,
            runtime: runtime.map_err(|error| format!("cannot start ({})", OsError(&error)))?,
            max_bytes: MAX_ANSWER_BYTES,
            patience: PATIENCE,
        })
    }

    /// Everything that it counts, as it answers: JSON.
    ///
    /// # Errors
    /// Why there is no answer, and what to do.
    pub(crate) fn ask_for_json(&self) -> Result<Vec<u8>, String> {
        let socket = self.socket.display();
        let failed = |error: FetchError| format!("the server at {socket} does not answer: {error}");
        self.runtime.block_on(async {
            let stream = UnixStream::connect(&self.socket).await;
            let stream = stream.map_err(|error| self.not_reached(&error))?;
            let request = Request::get(METRICS).header(HOST, "localhost");
            let request = request.body(Full::new(Bytes::new()));
            let request = request.map_err(|error| error.to_string())?;
            let asked =
                tokio::time::timeout(self.patience, exchange(stream, request, self.max_bytes));
            let (head, body) = asked
                .await
                .map_err(|_elapsed| failed(FetchError::TimedOut(self.patience.as_secs())))?
                .map_err(failed)?;
            if !head.status.is_success() {
                return Err(failed(FetchError::Status(head.status)));
            }
            Ok(body)
        })
    }

    /// The same, read.
    ///
    /// # Errors
    /// Why there is no answer, and what to do.
    pub(crate) fn ask(&self) -> Result<Answer, String> {
        Answer::read(&self.ask_for_json()?).map_err(|error| {
            format!(
                "the answer at {} is not understood ({error}): is the server of another version?",
                self.socket.display()
            )
        })
    }

    fn not_reached(&self, error: &io::Error) -> String {
        let help = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "only root and the user that the server was started by may ask it"
            }
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                "does Sealane run, with this configuration (-c)?"
            }
            _ => "is it a control socket?",
        };
        let socket = self.socket.display();
        format!(
            "no server can be asked at {socket} ({}): {help}",
            OsError(error)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// What a command says when the server answers this, and then nothing more.
    fn told(name: &str, answer: &'static [u8]) -> String {
        told_within(name, answer, PATIENCE)
    }

    fn told_within(name: &str, answer: &'static [u8], patience: Duration) -> String {
        let socket = std::env::temp_dir().join(format!("sealane-{name}-{}", std::process::id()));
        let listener = UnixListener::bind(&socket).expect("a free path");
        let (told, heard) = std::sync::mpsc::channel::<()>();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            // It may have gone before the end.
            let _ = stream.write_all(answer);
            let _ = heard.recv();
        });
        let mut running = Running::at(socket.clone()).expect("there are descriptors");
        (running.max_bytes, running.patience) = (1000, patience);
        let error = running.ask().err().expect("it is no answer");
        drop(told);
        server.join().expect("no panic");
        std::fs::remove_file(socket).expect("clean up");
        error
    }

    #[test]
    fn a_server_has_so_long_for_so_much() {
        let long: &'static [u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n";
        let long = [long, &[b'x'; 2000]].concat().leak();
        assert!(told("long", long).contains("more than 1000 bytes"));
        let begun = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{";
        let slow = told_within("slow", begun, Duration::from_secs(1));
        assert!(slow.contains("no response within 1 s"));
        let other = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert!(told("other", other).contains("is the server of another version?"));
        let refused = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        assert!(told("refused", refused).contains("the server answered 404"));
    }
}
