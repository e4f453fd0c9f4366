//! A server under comparison: its description, start and stop.

use std::{
    fmt, fs,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    str::FromStr,
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use crate::{
    Error, ProcessTree,
    load::pin_this_thread,
    testbed::{
        site::{Ports, Site, Variant},
        wait_until,
    },
};

/// How long a server may take to listen, and to end after TERM.
const START_LIMIT: Duration = Duration::from_secs(15);
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Lines of the error log shown with a failure.
const LOG_LINES: usize = 5;

/// A server that accepts nginx's command line and configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name in the report.
    pub name: String,
    /// Its binary.
    pub path: PathBuf,
    /// Directives for the `http` block of this server only, shown in the report.
    pub directives: String,
    /// Directives for those of its `server` blocks that have an RSA key, shown in the report.
    pub rsa_directives: String,
    /// Directives for its `events` block, shown in the report.
    pub events: String,
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("\"{text}\" is not of the form name=path");
        let (name, path) = text.split_once('=').ok_or_else(malformed)?;
        // The name becomes a directory.
        let is_word = !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        if !is_word || path.is_empty() {
            return Err(malformed());
        }
        Ok(Self {
            name: name.into(),
            path: path.into(),
            directives: String::new(),
            rsa_directives: String::new(),
            events: String::new(),
        })
    }
}

impl Server {
    /// Product and TLS library with their versions, from `-V`: "nginx 1.30.0, OpenSSL 4.0.1".
    pub(crate) fn version(&self) -> Result<String, Error> {
        let output = Command::new(&self.path)
            .arg("-V")
            .stdin(Stdio::null())
            .output()
            .map_err(|source| Error::io(format!("run {} -V", self.path.display()), source))?;
        let text = [output.stderr, output.stdout].concat();
        parse_version(&String::from_utf8_lossy(&text))
            .ok_or_else(|| self.failed("`-V` prints no version"))
    }

    fn failed(&self, reason: impl Into<String>) -> Error {
        Error::Server {
            name: self.name.clone(),
            reason: reason.into(),
        }
    }
}

/// The description of a server in reports.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServerLabel {
    pub(crate) name: String,
    /// Product and TLS library with their versions.
    pub(crate) version: String,
    pub(crate) directives: String,
    pub(crate) rsa_directives: String,
    pub(crate) events: String,
}

/// The peer to which the ratios of targets refer. Variants of it have a name that continues after a
/// dash.
const REFERENCE: &str = "reference";

impl ServerLabel {
    pub(crate) fn of(server: &Server) -> Result<Self, Error> {
        Ok(Self {
            name: server.name.clone(),
            version: server.version()?,
            directives: server.directives.clone(),
            rsa_directives: server.rsa_directives.clone(),
            events: server.events.clone(),
        })
    }

    /// Whether it is one of the servers that are compared with the others.
    pub(crate) fn is_sealane(&self) -> bool {
        self.version.starts_with("sealane ")
    }

    /// Whether it was given exactly `directives`.
    pub(crate) fn was_given(&self, directives: &str) -> bool {
        self.directives.contains(directives) || self.rsa_directives.contains(directives)
    }

    /// Whether it is measured with only the common configuration.
    pub(crate) fn is_as_it_comes(&self) -> bool {
        [&self.directives, &self.rsa_directives, &self.events]
            .iter()
            .all(|directives| directives.is_empty())
    }

    /// Whether targets refer to the ratios to this server.
    pub(crate) fn is_reference(&self) -> bool {
        let rest = self.name.strip_prefix(REFERENCE);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }
}

impl fmt::Display for ServerLabel {
    /// Shows name, version, and the additions to the common configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.version)?;
        if !self.directives.is_empty() {
            write!(f, ", with {}", self.directives)?;
        }
        if !self.rsa_directives.is_empty() {
            write!(f, ", with {} for RSA", self.rsa_directives)?;
        }
        if !self.events.is_empty() {
            write!(f, ", with events {{ {} }}", self.events)?;
        }
        Ok(())
    }
}

/// Parses nginx's output for `-V`. A library that was updated after the build is shown with its
/// running version.
pub(crate) fn parse_version(text: &str) -> Option<String> {
    let product = text
        .lines()
        .find_map(|line| line.split_once(" version: "))?
        .1
        .trim();
    let product = product.split_ascii_whitespace().next()?.replace('/', " ");
    let library = text.lines().find_map(|line| {
        let built = line.strip_prefix("built with ")?;
        let running = built
            .split_once("(running with ")
            .map_or(built, |(_, running)| running);
        let words: Vec<_> = running.split_ascii_whitespace().take(2).collect();
        Some(words.join(" "))
    });
    Some(match library {
        Some(library) => format!("{product}, {library}"),
        None => product,
    })
}

/// A started server; stops when dropped.
pub(crate) struct Running {
    server: Server,
    child: Child,
    log: PathBuf,
    pub(crate) ports: Ports,
}

impl Running {
    /// Starts `server` on the cores `cpus`, with a worker for each, and waits until it listens.
    pub(crate) fn start(server: &Server, site: &Site, cpus: &[usize]) -> Result<Self, Error> {
        let prefix = site.prefix(&server.name)?;
        let ports = Ports::free()?;
        let configuration = prefix.join("nginx.conf");
        fs::write(
            &configuration,
            site.configuration(
                &ports,
                Variant {
                    workers: cpus.len(),
                    events: &server.events,
                    directives: &server.directives,
                    rsa_directives: &server.rsa_directives,
                },
            ),
        )
        .map_err(|source| Error::io(format!("write {}", configuration.display()), source))?;
        let log = prefix.join("error.log");
        let output = prefix.join("output.log");
        let _ = fs::remove_file(&log);
        // The server runs in its prefix, where a relative path has another meaning.
        let binary = fs::canonicalize(&server.path)
            .map_err(|source| Error::io(format!("find {}", server.path.display()), source))?;
        let mut command = command(&binary, &prefix, &configuration, &output)?;
        // Affinity is inherited, so a thread that pins itself first starts a process that has never
        // run anywhere else.
        let child = thread::scope(|scope| {
            scope
                .spawn(|| {
                    pin_this_thread(cpus)?;
                    command.spawn().map_err(|source| {
                        Error::io(format!("start {}", server.path.display()), source)
                    })
                })
                .join()
                .map_err(|_| server.failed("the starting thread panicked"))?
        })?;
        let mut running = Self {
            server: server.clone(),
            child,
            log,
            ports,
        };
        running.wait_for_listeners(&output)?;
        Ok(running)
    }

    fn wait_for_listeners(&mut self, output: &Path) -> Result<(), Error> {
        let ports = self.ports;
        let mut ended = None;
        let child = &mut self.child;
        let listening = wait_until(START_LIMIT, || {
            ended = child.try_wait().ok().flatten();
            ended.is_some()
                || ports.all().iter().all(|&port| {
                    TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).is_ok()
                })
        });
        match ended {
            Some(status) => Err(self.server.failed(format!(
                "ended with {status} at start: {}",
                self.last_words(output)
            ))),
            None if !listening => Err(self.server.failed(format!(
                "did not listen within {START_LIMIT:?}: {}",
                self.last_words(output)
            ))),
            None => Ok(()),
        }
    }

    /// The end of the server's output, for a message about its failure.
    fn last_words(&self, output: &Path) -> String {
        let lines = |path: &Path| {
            fs::read_to_string(path)
                .unwrap_or_default()
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let all = [lines(output), lines(&self.log)].concat();
        all[all.len().saturating_sub(LOG_LINES)..].join(" | ")
    }

    pub(crate) fn processes(&self) -> ProcessTree {
        ProcessTree::of(self.child.id())
    }

    /// Stops the server; an error if it had died or does not end.
    pub(crate) fn stop(mut self) -> Result<(), Error> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(self.server.failed(format!(
                "ended with {status} during the measurement; see {}",
                self.log.display()
            )));
        }
        self.terminate();
        if !wait_until(STOP_LIMIT, || matches!(self.child.try_wait(), Ok(Some(_)))) {
            return Err(self
                .server
                .failed(format!("did not end within {STOP_LIMIT:?} after TERM")));
        }
        Ok(())
    }

    fn terminate(&self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself, which `try_wait` shows.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.terminate();
            if !wait_until(STOP_LIMIT, || matches!(self.child.try_wait(), Ok(Some(_)))) {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
        }
    }
}

fn command(
    binary: &Path,
    prefix: &Path,
    configuration: &Path,
    output: &Path,
) -> Result<Command, Error> {
    let file = || {
        fs::File::create(output)
            .map_err(|source| Error::io(format!("create {}", output.display()), source))
    };
    let stdout = file()?;
    let stderr = stdout
        .try_clone()
        .map_err(|source| Error::io("duplicate a descriptor", source))?;
    let mut command = Command::new(binary);
    command
        .arg("-p")
        .arg(prefix)
        .arg("-c")
        .arg(configuration)
        .arg("-e")
        .arg(prefix.join("error.log"));
    command
        .args(["-g", "daemon off;"])
        .current_dir(prefix)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr);
    Ok(command)
}
