//! Listening sockets: bound by the master, kept for its whole life.
//!
//! A worker that dies leaves the accept queues intact, because the sockets it
//! accepted from are the master's.

use crate::activation::{self, Claimed};
use crate::journal::{Journal, note};
use sealane_conf::Config;
use sealane_conf::model::{Http, ListenAddress, ListenOptions, LogLevel, StandAlone};
use sealane_log::OsError;
use sealane_sys::guard::{FileId, Guard};
use sealane_sys::process;
use sealane_sys::socket::{self, BindAddress, BindOptions, Keepalive};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Attempts to bind an address that is in use, and the time between two, as in
/// nginx: the old server may be on its way out.
const BIND_ATTEMPTS: u32 = 5;
const BIND_PAUSE: Duration = Duration::from_millis(500);

/// Options of the sockets of `dns_listen`.
const NAME_OPTIONS: BindOptions = BindOptions {
    backlog: 128,
    rcvbuf_bytes: None,
    sndbuf_bytes: None,
    deferred: false,
    ipv6only: true,
    keepalive: None,
    fastopen: None,
    multipath: false,
};

/// Options of the sockets of `process`.
const PROCESS_OPTIONS: BindOptions = BindOptions {
    backlog: 511,
    ..NAME_OPTIONS
};

/// Mode of a Unix socket: everyone may connect, as in nginx.
const UNIX_SOCKET_MODE: u32 = 0o666;

/// Mode of the control socket, which tells secrets.
const CONTROL_SOCKET_MODE: u32 = 0o600;

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
    /// The binary that this one upgrades has handed sockets over.
    pub(crate) from_old_binary: bool,
}

/// One address of a configuration, bound.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    /// Position in [`Http::listeners`], or behind them that of [`name_sockets`].
    pub(crate) listener: usize,
    /// The name of the `process` that inherits them; they are not for workers.
    process: Option<Box<str>>,
    address: BindAddress,
    options: BindOptions,
    /// Packets of QUIC come there.
    quic: bool,
    pub(crate) group: Arc<Group>,
}

/// The sockets of one address. Two configurations that have the address share them.
#[derive(Debug)]
pub(crate) struct Group {
    /// One, or one per thread with `reuseport`.
    sockets: Vec<OwnedFd>,
    /// The file of a Unix socket.
    file: Option<SocketFile>,
    /// The service manager has made them.
    foreign: bool,
}

/// The file of a Unix socket, and proof that it is ours. The file that was created is removed,
/// whatever its path leads to by then.
#[derive(Debug, Clone)]
struct SocketFile {
    path: PathBuf,
    id: FileId,
    guard: Guard,
}

impl Group {
    /// Descriptors of its sockets.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }

    /// Whether another process has made them, which also removes the file of a Unix socket.
    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign
    }

    /// Duplicates of the descriptors.
    ///
    /// # Errors
    /// When there are too many already.
    pub(crate) fn duplicate(&self) -> io::Result<Vec<OwnedFd>> {
        self.sockets.iter().map(OwnedFd::try_clone).collect()
    }
}

/// The files of Unix sockets, to be removed at the end.
#[derive(Debug)]
pub(crate) struct SocketFiles(Vec<SocketFile>);

impl SocketFiles {
    /// Keeps those on which no process listens: another binary may serve the others.
    pub(crate) fn without_served(mut self) -> SocketFiles {
        self.0.retain(|file| {
            let stale = stale_socket(&file.path, &file.guard);
            stale.is_ok_and(|stale| stale.is_some())
        });
        self
    }

    /// Removes the files, unless another process has put its own in their place.
    pub(crate) fn remove(self, journal: &Journal) {
        for file in self.0 {
            if let Err(error) = file.remove()
                && error.kind() != io::ErrorKind::NotFound
            {
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
    /// Binds and listens on every address of which `known` has no sockets yet.
    ///
    /// # Errors
    /// After nginx's messages and attempts, when one address cannot be bound.
    pub(crate) fn open(
        config: &Config,
        threads: u32,
        purpose: Purpose,
        known: &[&Bound],
        guard: &Guard,
        journal: &Journal,
    ) -> Result<Sockets, NotBound> {
        let mut sockets = Sockets::default();
        let http = config.http.iter();
        let mut missing: Vec<Wanted> = http.flat_map(|http| wanted(http, threads)).collect();
        missing.extend(wanted_by_processes(&config.main.processes));
        if let Some(address) = twice(&missing) {
            note!(
                journal,
                Emerg,
                "two of \"listen\" and \"dns_listen\" have the same address {}",
                name(address)
            );
            return Err(NotBound);
        }
        for attempt in 1..=BIND_ATTEMPTS {
            let mut in_use = Vec::new();
            for wanted in missing {
                let attempt = Attempt {
                    address: wanted.address.clone(),
                    options: wanted.options.clone(),
                    count: wanted.count,
                    is_control: wanted.is_control,
                    purpose,
                    guard,
                    journal,
                };
                match attempt.take_or_bind(known) {
                    Ok(group) => sockets.bound.push(attempt.bound(&wanted, group)),
                    Err(Refusal::InUse) => in_use.push(wanted),
                    Err(Refusal::Final) if wanted.is_control => note_no_control_socket(journal),
                    Err(Refusal::Final) => {
                        sockets.remove_files_except(known, journal);
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
        if missing.iter().all(|wanted| wanted.is_control) {
            note_no_control_socket(journal);
            return Ok(sockets);
        }
        note!(journal, Emerg, "still could not bind()");
        sockets.remove_files_except(known, journal);
        Err(NotBound)
    }

    /// The sockets that a `process` inherits, in the order of its lines.
    pub(crate) fn of_process(&self, name: &str) -> Vec<Arc<Group>> {
        let bound = self.bound.iter();
        let own = bound.filter(|bound| bound.process.as_deref() == Some(name));
        own.map(|bound| Arc::clone(&bound.group)).collect()
    }

    /// Removes the files of Unix sockets, except of those that `known` has, too.
    pub(crate) fn remove_files_except(&self, known: &[&Bound], journal: &Journal) {
        let ours = self.bound.iter().filter(|bound| !bound.is_among(known));
        SocketFiles(ours.filter_map(|bound| bound.group.file.clone()).collect()).remove(journal);
    }

    /// The files of Unix sockets, to be removed later.
    pub(crate) fn files(&self) -> SocketFiles {
        let files = self.bound.iter().map(|bound| bound.group.file.clone());
        SocketFiles(files.flatten().collect())
    }

    /// Removes the files of Unix sockets.
    pub(crate) fn remove_files(&self, journal: &Journal) {
        self.files().remove(journal);
    }

    /// Closes the sockets: connections are refused once the worker has closed
    /// its own copies.
    pub(crate) fn close(&mut self) {
        self.bound.clear();
    }

    /// Has the kernel deliver packets of QUIC to the thread that their connection ids name, where
    /// there are several. Without that, threads hand them to each other.
    pub(crate) fn steer(&self, secret: &[u8; 32], journal: &Journal) {
        let format = sealane_server::thread_of_quic_ids(secret);
        for bound in self.bound.iter().filter(|bound| bound.quic) {
            let mut sockets = bound.group.fds();
            let (Some(first), Some(_)) = (sockets.next(), sockets.next()) else {
                continue;
            };
            if let Err(error) = socket::steer_by_position(first, &format) {
                let (name, error) = (name(&bound.address), OsError(&error));
                note!(
                    journal,
                    Warn,
                    "setsockopt(SO_ATTACH_REUSEPORT_CBPF) {name} failed ({error}), ignored: \
                     threads hand packets to each other"
                );
            }
        }
    }

    /// Gives the sockets that `before` has had, too, the options that they have now.
    pub(crate) fn change_options(&self, before: &Sockets, journal: &Journal) {
        for bound in &self.bound {
            let was = before
                .bound
                .iter()
                .find(|was| was.address == bound.address && was.options != bound.options);
            if let Some(was) = was {
                bound.change_options(&was.options, journal);
            }
        }
    }
}

impl Bound {
    /// Whether one of `others` has the same address with the same sockets.
    pub(crate) fn is_among(&self, others: &[&Bound]) -> bool {
        let same = |other: &&Bound| {
            other.address == self.address && Arc::ptr_eq(&other.group, &self.group)
        };
        others.iter().any(same)
    }

    /// Whether one of `others` has this address.
    pub(crate) fn has_address_of(&self, others: &[Bound]) -> bool {
        others.iter().any(|other| other.address == self.address)
    }

    /// Whether workers accept connections of clients from them.
    pub(crate) fn is_for_clients(&self, http: Option<&Http>) -> bool {
        self.process.is_none() && !self.is_for_names(http)
    }

    /// Whether sessions of datagrams may go on there when no configuration has it any more.
    pub(crate) fn is_for_datagrams(&self) -> bool {
        matches!(self.address, BindAddress::Datagram(_))
    }

    /// Whether it is one of [`name_sockets`] of this configuration: no connection waits there that
    /// could be lost.
    pub(crate) fn is_for_names(&self, http: Option<&Http>) -> bool {
        let is_behind = http.is_some_and(|http| self.listener >= http.listeners.len());
        is_behind && self.process.is_none()
    }

    /// Removes the file of a Unix socket on which no process listens any more.
    pub(crate) fn remove_file(&self, journal: &Journal) {
        SocketFiles(self.group.file.clone().into_iter().collect()).remove(journal);
    }

    /// As nginx, what cannot be set is logged and the socket stays in use.
    fn change_options(&self, was: &BindOptions, journal: &Journal) {
        for socket in self.group.fds() {
            let mut failed = socket::take_back(socket, was, &self.options);
            match socket::start_listening(socket, &self.address, &self.options) {
                Ok(more) => failed.extend(more),
                Err(error) => {
                    let (name, backlog) = (name(&self.address), self.options.backlog);
                    let error = OsError(&error);
                    note!(
                        journal,
                        Alert,
                        "listen() to {name}, backlog {backlog} failed ({error}), ignored"
                    );
                }
            }
            report_options(&failed, &self.address, journal);
        }
    }
}

/// A socket, or one for each thread, that a configuration wants.
struct Wanted {
    listener: usize,
    process: Option<Box<str>>,
    address: BindAddress,
    options: BindOptions,
    count: usize,
    /// It is the control socket.
    is_control: bool,
    quic: bool,
}

/// All that a configuration wants.
fn wanted(http: &Http, threads: u32) -> Vec<Wanted> {
    // The others are served by the wildcard of their port.
    let listeners = http.listeners.iter().enumerate();
    let listeners = listeners.filter(|(_, listener)| listener.bind);
    let listeners = listeners.map(|(index, listener)| Wanted {
        listener: index,
        process: None,
        address: bind_address(&listener.address),
        options: bind_options(&listener.options),
        count: match listener.options.reuseport || listener.options.quic {
            true => threads as usize,
            false => 1,
        },
        is_control: listener.is_control,
        quic: listener.options.quic,
    });
    let names = name_sockets(http)
        .enumerate()
        .map(|(index, address)| Wanted {
            listener: http.listeners.len() + index,
            process: None,
            address,
            options: NAME_OPTIONS,
            count: 1,
            is_control: false,
            quic: false,
        });
    listeners.chain(names).collect()
}

/// The sockets that programs inherit.
fn wanted_by_processes(processes: &[StandAlone]) -> impl Iterator<Item = Wanted> {
    let addresses = processes
        .iter()
        .flat_map(|process| process.listen.iter().map(move |address| (process, address)));
    addresses.map(|(process, address)| Wanted {
        listener: usize::MAX,
        process: Some(process.name.as_str().into()),
        address: bind_address(address),
        options: PROCESS_OPTIONS,
        count: 1,
        is_control: false,
        quic: false,
    })
}

/// The sockets of `dns_listen`.
pub(crate) fn name_sockets(http: &Http) -> impl Iterator<Item = BindAddress> {
    let addresses = http.name_listeners().into_iter();
    addresses.flat_map(|address| [BindAddress::Datagram(address), BindAddress::Inet(address)])
}

fn twice(wanted: &[Wanted]) -> Option<&BindAddress> {
    let addresses = || wanted.iter().map(|wanted| &wanted.address);
    let mut others = addresses().enumerate();
    let found =
        others.find(|(index, address)| addresses().skip(index + 1).any(|it| it == *address));
    found.map(|(_, address)| address)
}

/// One attempt to bind one address.
struct Attempt<'a> {
    address: BindAddress,
    options: BindOptions,
    /// How many sockets.
    count: usize,
    /// It is the control socket.
    is_control: bool,
    purpose: Purpose,
    guard: &'a Guard,
    journal: &'a Journal,
}

impl Attempt<'_> {
    fn bound(&self, wanted: &Wanted, group: Arc<Group>) -> Bound {
        Bound {
            listener: wanted.listener,
            process: wanted.process.clone(),
            address: self.address.clone(),
            options: self.options.clone(),
            quic: wanted.quic,
            group,
        }
    }

    /// The existing sockets, with more added if there are too few, or new ones. There are
    /// never fewer than before: connections may wait in each of them.
    fn take_or_bind(&self, known: &[&Bound]) -> Result<Arc<Group>, Refusal> {
        let Some(known) = known.iter().find(|known| known.address == self.address) else {
            return self.bind().map(Arc::new);
        };
        let group = &known.group;
        let (have, first) = (group.sockets.len(), group.sockets.first());
        if known.options.multipath != self.options.multipath
            && let (BindAddress::Inet(_), Some(first)) = (&self.address, first)
        {
            // The protocol of a socket stays: others take its place.
            let sockets =
                socket::bind_beside(first.as_fd(), &self.address, &self.options, self.count)
                    .map_err(|error| self.report_bind(&error))?;
            self.listen(&sockets)?;
            return Ok(Arc::new(Group {
                sockets,
                file: None,
                foreign: false,
            }));
        }
        let (true, Some(first)) = (have < self.count, first) else {
            return Ok(Arc::clone(group));
        };
        let mut sockets = group
            .duplicate()
            .map_err(|error| self.report(&error, format_args!("dup()")))?;
        let missing = self.count - have;
        let more = socket::bind_beside(first.as_fd(), &self.address, &self.options, missing)
            .map_err(|error| self.report_bind(&error))?;
        self.listen(&more)?;
        sockets.extend(more);
        Ok(Arc::new(Group {
            sockets,
            file: group.file.clone(),
            foreign: group.foreign,
        }))
    }

    fn bind(&self) -> Result<Group, Refusal> {
        let claimed = match self.purpose {
            Purpose::Serve => activation::claim(&self.address, self.count),
            Purpose::Test => Claimed::default(),
        };
        // The service manager's socket files are not ours.
        let ours = claimed.sockets.is_empty() || claimed.ours;
        let mut sockets = claimed.sockets;
        let is_new = sockets.is_empty();
        if is_new {
            sockets = self.bind_replacing_stale(&self.options, self.count)?;
        } else if claimed.ours
            && sockets.len() < self.count
            && let Some(first) = sockets.first()
        {
            let missing = self.count - sockets.len();
            let more = socket::bind_beside(first.as_fd(), &self.address, &self.options, missing)
                .map_err(|error| self.report_bind(&error))?;
            sockets.extend(more);
        }
        let file = match &self.address {
            BindAddress::Unix(path) if is_new => Some(self.prepare_file(path)?),
            BindAddress::Unix(path) if ours => SocketFile::at(path, self.guard).ok(),
            _ => None,
        };
        self.listen(&sockets)?;
        Ok(Group {
            sockets,
            file,
            foreign: !ours,
        })
    }

    fn listen(&self, sockets: &[OwnedFd]) -> Result<(), Refusal> {
        for socket in sockets {
            let listening = socket::start_listening(socket.as_fd(), &self.address, &self.options);
            let failed = listening.map_err(|error| {
                let backlog = self.options.backlog;
                self.report(
                    &error,
                    format_args!("listen() to {}, backlog {backlog}", name(&self.address)),
                )
            })?;
            report_options(&failed, &self.address, self.journal);
        }
        Ok(())
    }

    fn bind_replacing_stale(
        &self,
        options: &BindOptions,
        count: usize,
    ) -> Result<Vec<OwnedFd>, Refusal> {
        let error = match self.bind_group(options, count) {
            Ok(sockets) => return Ok(sockets),
            Err(error) => error,
        };
        if let BindAddress::Unix(path) = &self.address {
            let may_be_stale =
                error.kind() == io::ErrorKind::AddrInUse && self.purpose == Purpose::Serve;
            let stale = match may_be_stale {
                true => stale_socket(path, self.guard).unwrap_or_default(),
                false => None,
            };
            if stale.is_some_and(|file| file.remove().is_ok()) {
                let path = path.display();
                note!(
                    self.journal,
                    Notice,
                    "removed unix socket \"{path}\", which a killed process had left behind"
                );
                return self
                    .bind_group(options, count)
                    .map_err(|error| self.report_bind(&error));
            }
        }
        Err(self.report_bind(&error))
    }

    /// The file of a Unix socket has its mode from the start: a later chmod(2) might hit
    /// a file put in its place. This is the only thread, so the mask affects nothing else.
    fn bind_group(&self, options: &BindOptions, count: usize) -> io::Result<Vec<OwnedFd>> {
        let bind = || socket::bind_group(&self.address, options, count);
        let BindAddress::Unix(path) = &self.address else {
            return bind();
        };
        let mode = match self.is_control {
            true => CONTROL_SOCKET_MODE,
            false => UNIX_SOCKET_MODE,
        };
        let mask = process::set_umask(!mode & 0o777);
        let bound = self.guard.act(path, false, bind);
        process::set_umask(mask);
        bound
    }

    fn prepare_file(&self, path: &Path) -> Result<SocketFile, Refusal> {
        SocketFile::at(path, self.guard)
            .map_err(|error| self.report(&error, format_args!("lstat() \"{}\"", path.display())))
    }

    fn report_bind(&self, error: &io::Error) -> Refusal {
        self.report(error, format_args!("bind() to {}", name(&self.address)))
    }

    /// Reports the failure in nginx's words. Beside a running server (`-t`), an
    /// address in use is expected.
    fn report(&self, error: &io::Error, what: fmt::Arguments<'_>) -> Refusal {
        let in_use = error.kind() == io::ErrorKind::AddrInUse;
        if !in_use || self.purpose == Purpose::Serve {
            let level = match self.is_control {
                true => LogLevel::Warn,
                false => LogLevel::Emerg,
            };
            self.journal
                .write(level, format_args!("{what} failed ({})", OsError(error)));
        }
        if in_use {
            Refusal::InUse
        } else {
            Refusal::Final
        }
    }
}

fn name(address: &BindAddress) -> String {
    match address {
        BindAddress::Inet(address) => address.to_string(),
        BindAddress::Datagram(address) => format!("{address} (UDP)"),
        BindAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// The server does without: it is for the operator, not for clients.
fn note_no_control_socket(journal: &Journal) {
    note!(
        journal,
        Warn,
        "there is no control socket: \"sealane top\", \"sealane status\" and \"sealane certificates\" \
         cannot ask this server; name another path with \"control_socket\", or \"off\""
    );
}

fn report_options(failed: &[(&'static str, io::Error)], address: &BindAddress, journal: &Journal) {
    for (option, error) in failed {
        let (name, error) = (name(address), OsError(error));
        note!(
            journal,
            Alert,
            "setsockopt({option}) {name} failed ({error}), ignored"
        );
    }
}

impl SocketFile {
    fn at(path: &Path, guard: &Guard) -> io::Result<SocketFile> {
        let id = guard.find_name(path)?.entry()?;
        Ok(SocketFile {
            path: path.to_owned(),
            id: id.ok_or(io::ErrorKind::NotFound)?,
            guard: guard.clone(),
        })
    }

    /// `NotFound` if another process has put its own in the same place.
    fn remove(&self) -> io::Result<()> {
        self.guard.find_name(&self.path)?.remove(self.id)
    }
}

/// The file of a socket on which no process listens any more, left behind by a killed process.
fn stale_socket(path: &Path, guard: &Guard) -> io::Result<Option<SocketFile>> {
    let held = File::from(guard.find_name(path)?.hold()?);
    let is_stale = socket::is_stale_unix_socket(held.as_fd())?;
    Ok(is_stale.then_some(SocketFile {
        path: path.to_owned(),
        id: FileId::of(&held)?,
        guard: guard.clone(),
    }))
}

fn bind_address(address: &ListenAddress) -> BindAddress {
    match address {
        ListenAddress::Inet(inet) => BindAddress::Inet(*inet),
        ListenAddress::Udp(inet) => BindAddress::Datagram(*inet),
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
        multipath: options.multipath,
    }
}
