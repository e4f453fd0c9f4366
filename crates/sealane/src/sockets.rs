//! Listening sockets: bound by the master, kept for its whole life.
//!
//! A worker that dies leaves the accept queues intact, because the sockets it
//! accepted from are the master's.

use crate::activation;
use crate::journal::{Journal, note};
use sealane_conf::model::{Http, ListenAddress, ListenOptions, LogLevel};
use sealane_server::log::OsError;
use sealane_sys::socket::{self, BindAddress, BindOptions, Keepalive};
use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Attempts to bind an address that is in use, and the time between two, as in
/// nginx: the old server may be on its way out.
const BIND_ATTEMPTS: u32 = 5;
const BIND_PAUSE: Duration = Duration::from_millis(500);

/// Who may connect to a Unix socket: everybody, as in nginx.
const UNIX_SOCKET_MODE: u32 = 0o666;

/// What the sockets are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To serve.
    Serve,
    /// To see whether it would work (`-t`), possibly beside a running server.
    Test,
}

/// The sockets of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    /// One entry per bound address.
    pub(crate) bound: Vec<Bound>,
}

/// The sockets of one address.
#[derive(Debug)]
pub(crate) struct Bound {
    /// Position in [`Http::listeners`].
    pub(crate) listener: usize,
    /// One, or one per thread with `reuseport`.
    pub(crate) sockets: Vec<OwnedFd>,
    /// The file of a Unix socket.
    file: Option<SocketFile>,
}

/// The file of a Unix socket, and proof that it is ours.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// The files of Unix sockets, to be removed at the end.
#[derive(Debug)]
pub(crate) struct SocketFiles(Vec<SocketFile>);

impl SocketFiles {
    /// Removes the files, unless somebody else has put theirs in the same place.
    pub(crate) fn remove(self, journal: &Journal) {
        for file in self.0.into_iter().filter(SocketFile::is_ours) {
            if let Err(error) = fs::remove_file(&file.path) {
                let path = file.path.display();
                note!(
                    journal,
                    Emerg,
                    "unlink() \"{path}\" failed ({})",
                    OsError(&error)
                );
            }
        }
    }
}

/// The sockets could not be opened; why is in the journal.
#[derive(Debug)]
pub(crate) struct NotBound;

/// Why one attempt failed.
enum Refusal {
    /// Somebody else has the address: worth another attempt.
    InUse,
    /// Anything else.
    Final,
}

impl Sockets {
    /// Binds and listens on every address.
    ///
    /// # Errors
    /// After nginx's messages and attempts, when one address cannot be had.
    pub(crate) fn open(
        http: Option<&Http>,
        threads: u32,
        purpose: Purpose,
        journal: &Journal,
    ) -> Result<Sockets, NotBound> {
        let mut sockets = Sockets::default();
        let Some(http) = http else { return Ok(sockets) };
        // The others are served by the wildcard of their port.
        let wanted = |&index: &usize| http.listeners[index].bind;
        let mut missing: Vec<usize> = (0..http.listeners.len()).filter(wanted).collect();
        for attempt in 1..=BIND_ATTEMPTS {
            let mut in_use = Vec::new();
            for index in missing {
                let listener = &http.listeners[index];
                let attempt = Attempt {
                    address: bind_address(&listener.address),
                    options: &listener.options,
                    threads,
                    purpose,
                    journal,
                };
                match attempt.bind(index) {
                    Ok(bound) => sockets.bound.push(bound),
                    Err(Refusal::InUse) => in_use.push(index),
                    Err(Refusal::Final) => {
                        sockets.remove_files(journal);
                        return Err(NotBound);
                    }
                }
            }
            missing = in_use;
            if missing.is_empty() || purpose == Purpose::Test {
                return Ok(sockets);
            }
            if attempt < BIND_ATTEMPTS {
                let pause_ms = BIND_PAUSE.as_millis();
                note!(journal, Notice, "try again to bind() after {pause_ms}ms");
                std::thread::sleep(BIND_PAUSE);
            }
        }
        note!(journal, Emerg, "still could not bind()");
        sockets.remove_files(journal);
        Err(NotBound)
    }

    /// Removes the files of Unix sockets.
    pub(crate) fn remove_files(&mut self, journal: &Journal) {
        self.take_files().remove(journal);
    }

    /// Leaves the removal of the files to the caller.
    pub(crate) fn take_files(&mut self) -> SocketFiles {
        SocketFiles(
            self.bound
                .iter_mut()
                .filter_map(|bound| bound.file.take())
                .collect(),
        )
    }

    /// Closes the sockets: connections are refused once the worker has closed
    /// its own copies.
    pub(crate) fn close(&mut self) {
        for bound in &mut self.bound {
            bound.sockets.clear();
        }
    }
}

/// One attempt to bind one address.
struct Attempt<'a> {
    address: BindAddress,
    options: &'a ListenOptions,
    threads: u32,
    purpose: Purpose,
    journal: &'a Journal,
}

impl Attempt<'_> {
    fn bind(&self, listener: usize) -> Result<Bound, Refusal> {
        let count = if self.options.reuseport {
            self.threads as usize
        } else {
            1
        };
        let options = bind_options(self.options);
        let claimed = match self.purpose {
            Purpose::Serve => activation::claim(&self.address, count),
            Purpose::Test => Vec::new(),
        };
        let ours = claimed.is_empty(); // the service manager's socket files are not
        let sockets = if ours {
            self.bind_replacing_stale(&options, count)?
        } else {
            claimed
        };
        let file = match &self.address {
            BindAddress::Unix(path) if ours => Some(self.prepare_file(path)?),
            _ => None,
        };
        for socket in &sockets {
            let listening = socket::start_listening(socket.as_fd(), &self.address, &options);
            let failed = listening.map_err(|error| {
                let backlog = options.backlog;
                self.report(
                    &error,
                    format_args!("listen() to {}, backlog {backlog}", self.name()),
                )
            })?;
            for (option, error) in failed {
                let (name, error) = (self.name(), OsError(&error));
                note!(
                    self.journal,
                    Alert,
                    "setsockopt({option}) {name} failed ({error}), ignored"
                );
            }
        }
        Ok(Bound {
            listener,
            sockets,
            file,
        })
    }

    fn bind_replacing_stale(
        &self,
        options: &BindOptions,
        count: usize,
    ) -> Result<Vec<OwnedFd>, Refusal> {
        let error = match socket::bind_group(&self.address, options, count) {
            Ok(sockets) => return Ok(sockets),
            Err(error) => error,
        };
        if let BindAddress::Unix(path) = &self.address {
            let stale = error.kind() == io::ErrorKind::AddrInUse
                && self.purpose == Purpose::Serve
                && socket::is_stale_unix_socket(path).unwrap_or(false);
            if stale && fs::remove_file(path).is_ok() {
                let path = path.display();
                note!(
                    self.journal,
                    Notice,
                    "removed unix socket \"{path}\", which a killed process had left behind"
                );
                return socket::bind_group(&self.address, options, count)
                    .map_err(|error| self.report_bind(&error));
            }
        }
        Err(self.report_bind(&error))
    }

    fn prepare_file(&self, path: &Path) -> Result<SocketFile, Refusal> {
        fs::set_permissions(path, Permissions::from_mode(UNIX_SOCKET_MODE))
            .map_err(|error| self.report(&error, format_args!("chmod() \"{}\"", path.display())))?;
        let facts = fs::symlink_metadata(path)
            .map_err(|error| self.report(&error, format_args!("lstat() \"{}\"", path.display())))?;
        Ok(SocketFile {
            path: path.to_owned(),
            device: facts.dev(),
            inode: facts.ino(),
        })
    }

    fn report_bind(&self, error: &io::Error) -> Refusal {
        self.report(error, format_args!("bind() to {}", self.name()))
    }

    /// Says in nginx's words what failed. Beside a running server (`-t`), an
    /// address in use is as it should be.
    fn report(&self, error: &io::Error, what: fmt::Arguments<'_>) -> Refusal {
        let in_use = error.kind() == io::ErrorKind::AddrInUse;
        if !in_use || self.purpose == Purpose::Serve {
            self.journal.write(
                LogLevel::Emerg,
                format_args!("{what} failed ({})", OsError(error)),
            );
        }
        if in_use {
            Refusal::InUse
        } else {
            Refusal::Final
        }
    }

    fn name(&self) -> String {
        match &self.address {
            BindAddress::Inet(address) => address.to_string(),
            BindAddress::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

impl SocketFile {
    fn is_ours(&self) -> bool {
        fs::symlink_metadata(&self.path)
            .is_ok_and(|now| (now.dev(), now.ino()) == (self.device, self.inode))
    }
}

fn bind_address(address: &ListenAddress) -> BindAddress {
    match address {
        ListenAddress::Inet(inet) => BindAddress::Inet(*inet),
        ListenAddress::Unix(path) => BindAddress::Unix(path.clone()),
    }
}

fn bind_options(options: &ListenOptions) -> BindOptions {
    BindOptions {
        backlog: options.backlog,
        rcvbuf_bytes: options.rcvbuf_bytes,
        sndbuf_bytes: options.sndbuf_bytes,
        deferred: options.deferred,
        ipv6only: options.ipv6only,
        keepalive: options.so_keepalive.map(|keepalive| Keepalive {
            on: keepalive.on,
            idle: keepalive.idle,
            interval: keepalive.interval,
            count: keepalive.count,
        }),
        fastopen: options.fastopen,
    }
}
