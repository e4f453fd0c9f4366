//! A server under comparison: its description, start and stop.

use std::{
    borrow::Cow,
    fmt, fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    str::FromStr,
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::{
    Error, ProcessTree,
    load::pin_this_thread,
    testbed::{
        kind::Kind,
        site::{Additions, File, Listener, Ports, Site, Variant},
        wait_until,
    },
};

/// How long a server may take to respond, then to come to rest, and to end after TERM.
const START_LIMIT: Duration = Duration::from_secs(15);
const REST_LIMIT: Duration = Duration::from_secs(1);
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Lines of the error log shown with a failure.
const LOG_LINES: usize = 5;

/// A server to start and measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name in the report.
    pub name: String,
    /// Its binary.
    pub path: PathBuf,
    /// What the binary is, and so which configuration it gets.
    pub kind: Kind,
    /// Directives for the `http` block of this server only, shown in the report.
    pub directives: String,
    /// Directives for those of its `server` blocks that have an RSA key, shown in the report.
    pub rsa_directives: String,
    /// Directives for the `upstream` block of the origin, shown in the report.
    pub upstream_directives: String,
    /// Directives for its `events` block, shown in the report.
    pub events: String,
    /// Directives outside of all blocks, shown in the report.
    pub main: String,
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
            path: path.into(),
            ..Self::named(name)
        })
    }
}

impl Server {
    /// One without a path or anything of its own.
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            path: PathBuf::new(),
            kind: Kind::default(),
            directives: String::new(),
            rsa_directives: String::new(),
            upstream_directives: String::new(),
            events: String::new(),
            main: String::new(),
        }
    }

    /// Product and TLS library with their versions: "nginx 1.30.0, OpenSSL 4.0.1".
    pub(crate) fn version(&self) -> Result<String, Error> {
        let argument = self.kind.version_argument();
        let output = Command::new(&self.path)
            .arg(argument)
            .stdin(Stdio::null())
            .output()
            .map_err(|source| {
                Error::io(format!("run {} {argument}", self.path.display()), source)
            })?;
        let text = [output.stderr, output.stdout].concat();
        let version = self.kind.parse_version(&String::from_utf8_lossy(&text));
        version.ok_or_else(|| {
            self.failed(format!(
                "`{argument}` does not print a version as {} does (is --kind right?)",
                self.kind.product()
            ))
        })
    }

    /// Why it cannot be measured with HTTP/3, if its version does not have it.
    pub(crate) fn http3_obstacle(&self) -> Option<Cow<'static, str>> {
        let version = self.version().ok()?;
        (self.kind == Kind::H2o && version.starts_with("H2O 2.2."))
            .then(|| "H2O has HTTP/3 from version 2.3 on".into())
    }

    /// Whether it has directives in addition to its kind's configuration.
    pub(crate) fn has_directives(&self) -> bool {
        let all = [
            &self.directives,
            &self.rsa_directives,
            &self.upstream_directives,
            &self.events,
            &self.main,
        ];
        all.iter().any(|directives| !directives.is_empty())
    }

    fn failed(&self, reason: impl Into<String>) -> Error {
        Error::Server {
            name: self.name.clone(),
            reason: reason.into(),
        }
    }
}

/// The description of a server in reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServerLabel {
    pub(crate) name: String,
    /// Product and TLS library with their versions.
    pub(crate) version: String,
    pub(crate) kind: Kind,
    pub(crate) directives: String,
    pub(crate) rsa_directives: String,
    #[serde(default)]
    pub(crate) upstream_directives: String,
    pub(crate) events: String,
    pub(crate) main: String,
}

/// The peer to which the ratios of targets refer. Variants of it have a name that continues after a
/// dash.
const REFERENCE: &str = "reference";

impl ServerLabel {
    pub(crate) fn of(server: &Server) -> Result<Self, Error> {
        Ok(Self {
            name: server.name.clone(),
            version: server.version()?,
            kind: server.kind,
            directives: server.directives.clone(),
            rsa_directives: server.rsa_directives.clone(),
            upstream_directives: server.upstream_directives.clone(),
            events: server.events.clone(),
            main: server.main.clone(),
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
        [
            &self.directives,
            &self.rsa_directives,
            &self.upstream_directives,
            &self.events,
            &self.main,
        ]
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
        if self.kind != Kind::Nginx {
            write!(f, ", configured by bench/{}", self.kind.file_name())?;
        }
        if !self.directives.is_empty() {
            write!(f, ", with {}", self.directives)?;
        }
        if !self.rsa_directives.is_empty() {
            write!(f, ", with {} for RSA", self.rsa_directives)?;
        }
        if !self.upstream_directives.is_empty() {
            write!(f, ", with {} in upstream", self.upstream_directives)?;
        }
        if !self.events.is_empty() {
            write!(f, ", with events {{ {} }}", self.events)?;
        }
        if !self.main.is_empty() {
            write!(f, ", with {} outside of all blocks", self.main)?;
        }
        Ok(())
    }
}

/// A started server; stops when dropped.
pub(crate) struct Running {
    server: Server,
    child: Child,
    log: PathBuf,
    pub(crate) ports: Ports,
}

impl Running {
    /// Starts `server` on the cores `cpus`, with a worker for each, and waits until it is ready.
    pub(crate) fn start(
        server: &Server,
        site: &Site,
        cpus: &[usize],
        additions: Additions,
    ) -> Result<Self, Error> {
        let prefix = site.prefix(&server.name)?;
        site.clear_caches(&server.name)?;
        let ports = Ports::free()?;
        let configuration = prefix.join(server.kind.file_name());
        fs::write(
            &configuration,
            site.configuration(
                server.kind,
                &ports,
                Variant {
                    workers: cpus.len(),
                    additions,
                    main: &server.main,
                    events: &server.events,
                    directives: &server.directives,
                    rsa_directives: &server.rsa_directives,
                    upstream_directives: &server.upstream_directives,
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
        let mut command = command(server.kind, &binary, &prefix, &configuration, &output)?;
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
        running.wait_until_ready(&output, additions)?;
        Ok(running)
    }

    /// Waits until the server listens everywhere, responds, and has nothing left to do.
    ///
    /// The last matters for servers with threads. H2O handshakes before its thread for ticket keys
    /// has run for the first time, and cannot read those tickets later.
    fn wait_until_ready(&mut self, output: &Path, additions: Additions) -> Result<(), Error> {
        let ports = self.ports;
        let mut ended = None;
        let child = &mut self.child;
        let responding = wait_until(START_LIMIT, || {
            ended = child.try_wait().ok().flatten();
            ended.is_some()
                || ports.accepting(additions).all(|port| connect(port).is_ok())
                    && responds(ports.of(Listener::Plain)).unwrap_or(false)
        });
        match ended {
            Some(status) => Err(self.server.failed(format!(
                "ended with {status} at start: {}",
                self.last_words(output)
            ))),
            None if !responding => Err(self.server.failed(format!(
                "did not listen and respond within {START_LIMIT:?}: {}",
                self.last_words(output)
            ))),
            None => {
                // One that never rests is measured all the same.
                wait_until(REST_LIMIT, || self.processes().is_at_rest().unwrap_or(true));
                Ok(())
            }
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

fn connect(port: u16) -> io::Result<TcpStream> {
    TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port)))
}

/// Whether a request over plain HTTP succeeds.
fn responds(port: u16) -> io::Result<bool> {
    let mut stream = connect(port)?;
    stream.set_read_timeout(Some(START_LIMIT))?;
    let path = File::Tiny.name();
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    Ok(response.starts_with(b"HTTP/1.1 200"))
}

fn command(
    kind: Kind,
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
    kind.add_arguments(&mut command, prefix, configuration);
    command
        .current_dir(prefix)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr);
    Ok(command)
}
