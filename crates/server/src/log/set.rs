//! All logs of a configuration, opened once.

use super::destination::{Destination, Hold, Sink};
use super::queue::{QUEUE_BYTES_PER_FILE, Queue};
use super::{AccessLogger, Logger, OsError, writer};
use sealane_conf::Config;
use sealane_conf::model::{AccessLog, ErrorLog, LocationConf, Locations, LogTarget};
use std::collections::HashMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Every destination that a configuration logs to. Lines for the same path
/// share one descriptor.
///
/// The master opens the set and a forked worker inherits it: positions
/// ([`LogFile::index`]) mean the same in both.
#[derive(Debug)]
pub struct LogSet {
    destinations: Vec<Arc<Destination>>,
    by_target: HashMap<LogTarget, usize>,
    queue: Arc<Queue>,
}

/// A log file of a set.
#[derive(Debug, Clone, Copy)]
pub struct LogFile<'a> {
    /// Its position, equal in master and worker.
    pub index: usize,
    /// Its path.
    pub path: &'a Path,
    /// Its descriptor.
    pub fd: BorrowedFd<'a>,
}

/// A log that could not be opened. Shown in nginx's words:
/// `open() "/var/log/x" failed (13: Permission denied)`.
#[derive(Debug)]
pub struct LogOpenError {
    /// Its path.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl fmt::Display for LogOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "open() \"{}\" failed ({})",
            self.path.display(),
            OsError(&self.error)
        )
    }
}

impl std::error::Error for LogOpenError {}

impl LogSet {
    /// Opens every error log and access log that `config` names, creating files
    /// that are missing with mode 0644.
    ///
    /// # Errors
    /// The first file that cannot be opened.
    pub fn open(config: &Config) -> Result<LogSet, LogOpenError> {
        let mut wanted = Wanted::default();
        wanted.error_logs(&config.main.error_logs);
        for server in config.http.iter().flat_map(|http| &http.servers) {
            wanted.location(&server.conf);
            wanted.locations(&server.locations);
        }
        wanted.open()
    }

    /// Opens error logs alone, for the time before there is a configuration.
    ///
    /// # Errors
    /// The first file that cannot be opened.
    pub fn of_error_logs(logs: &[ErrorLog]) -> Result<LogSet, LogOpenError> {
        LogSet::of_logs(logs, &[])
    }

    /// Opens these logs and no others.
    pub(super) fn of_logs(
        error_logs: &[ErrorLog],
        access_logs: &[AccessLog],
    ) -> Result<LogSet, LogOpenError> {
        let mut wanted = Wanted::default();
        wanted.error_logs(error_logs);
        wanted.access_logs(access_logs);
        wanted.open()
    }

    /// A set with nothing but stderr, for the time before there is a configuration.
    pub fn stderr() -> LogSet {
        let mut wanted = Wanted::default();
        wanted.add(&LogTarget::Stderr, None);
        wanted
            .open()
            .expect("stderr is open already, so nothing can fail")
    }

    /// A handle for `error_log` lines. A target that is not in the set is left out.
    pub fn logger(&self, logs: &[ErrorLog]) -> Logger {
        let sinks = logs
            .iter()
            .filter_map(|log| Some((log.level, self.find(&log.target)?)));
        Logger::new(sinks.collect())
    }

    /// A handle for an `access_log` line. A target that is not in the set keeps nothing.
    pub fn access(&self, log: &AccessLog) -> AccessLogger {
        AccessLogger::new(self.find(&log.target))
    }

    fn find(&self, target: &LogTarget) -> Option<Arc<Destination>> {
        let found = self
            .by_target
            .get(target)
            .map(|&index| Arc::clone(&self.destinations[index]));
        debug_assert!(
            found.is_some() || *target == LogTarget::Discard,
            "{target:?} is not open"
        );
        found
    }

    /// Starts the thread that writes for this process; from then on nobody who
    /// logs waits for a disk. `notices` is the main error log.
    ///
    /// # Errors
    /// When the thread cannot be started; lines are then written directly.
    pub fn start_writer(&self, notices: Logger) -> io::Result<()> {
        let queue = Arc::clone(&self.queue);
        let destinations = self.destinations.clone();
        queue.set_running(true);
        let started = std::thread::Builder::new()
            .name("log-writer".into())
            .spawn(move || writer::run(&queue, destinations, notices));
        if started.is_err() {
            self.queue.set_running(false);
        }
        started.map(drop)
    }

    /// Writes everything that waits and ends the writer thread. Lines that come
    /// later are written directly. False when it took too long.
    pub fn finish(&self, timeout: Duration) -> bool {
        self.queue.finish(timeout)
    }

    /// The files of the set.
    pub fn files(&self) -> impl Iterator<Item = LogFile<'_>> {
        self.destinations
            .iter()
            .filter_map(|destination| match &destination.sink {
                Sink::File { path, fd } => Some(LogFile {
                    index: destination.index,
                    path,
                    fd: fd.as_fd(),
                }),
                Sink::Stderr => None,
            })
    }

    /// Opens every file again by its name, after a log rotation, and goes on
    /// with the new one. A file that cannot be opened is kept as it is and
    /// reported.
    pub fn reopen(&self) -> Vec<LogOpenError> {
        let mut failed = Vec::new();
        for file in self.files() {
            match open_file(file.path) {
                Ok(new) => self.replace(file.index, new),
                Err(error) => failed.push(LogOpenError {
                    path: file.path.to_owned(),
                    error,
                }),
            }
        }
        failed
    }

    /// Goes on with `file`, which the master has opened again, in the log at
    /// this position. Lines logged before still go to the old file. An unknown
    /// position is ignored.
    pub fn replace(&self, index: usize, file: OwnedFd) {
        let Some(destination) = self.destinations.get(index) else {
            return;
        };
        if self.queue.is_running() {
            self.queue.replace(index, file);
        } else {
            // Failing here means that the kernel is out of everything; the old
            // file stays in use.
            let _ = destination.replace(file.as_fd());
        }
    }
}

fn open_file(path: &Path) -> io::Result<OwnedFd> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o644)
        .open(path)?;
    Ok(file.into())
}

/// What a configuration wants to log to.
#[derive(Default)]
struct Wanted {
    targets: Vec<(LogTarget, Option<Hold>)>,
    by_target: HashMap<LogTarget, usize>,
}

impl Wanted {
    fn location(&mut self, conf: &LocationConf) {
        self.error_logs(&conf.error_logs);
        self.access_logs(&conf.access_logs);
    }

    fn locations(&mut self, level: &Locations) {
        for location in level.all() {
            self.location(&location.conf);
            self.locations(&location.children);
        }
    }

    fn access_logs(&mut self, logs: &[AccessLog]) {
        for log in logs {
            let hold = log.buffer_bytes.map(|bytes| Hold {
                // Half the queue at most, or the buffer would never come together.
                bytes: usize::try_from(bytes)
                    .unwrap_or(usize::MAX)
                    .min(QUEUE_BYTES_PER_FILE / 2),
                time: log.flush,
            });
            self.add(&log.target, hold);
        }
    }

    fn error_logs(&mut self, logs: &[ErrorLog]) {
        for log in logs {
            self.add(&log.target, None);
        }
    }

    /// A target that two lines name is held back only if both say so.
    fn add(&mut self, target: &LogTarget, hold: Option<Hold>) {
        if *target == LogTarget::Discard {
            return;
        }
        match self.by_target.get(target) {
            Some(&index) => {
                let known = &mut self.targets[index].1;
                *known = known.and_then(|known| {
                    let hold = hold?;
                    let time = [known.time, hold.time].into_iter().flatten().min();
                    Some(Hold {
                        bytes: known.bytes.min(hold.bytes),
                        time,
                    })
                });
            }
            None => {
                self.by_target.insert(target.clone(), self.targets.len());
                self.targets.push((target.clone(), hold));
            }
        }
    }

    fn open(self) -> Result<LogSet, LogOpenError> {
        let queue = Arc::new(Queue::new(self.targets.len()));
        let mut destinations = Vec::with_capacity(self.targets.len());
        for (index, (target, hold)) in self.targets.into_iter().enumerate() {
            let sink = match target {
                LogTarget::File(path) => match open_file(&path) {
                    Ok(fd) => Sink::File { path, fd },
                    Err(error) => return Err(LogOpenError { path, error }),
                },
                LogTarget::Stderr | LogTarget::Discard => Sink::Stderr, // Discard is never added
            };
            destinations.push(Arc::new(Destination::new(
                index,
                sink,
                hold,
                Arc::clone(&queue),
            )));
        }
        Ok(LogSet {
            destinations,
            by_target: self.by_target,
            queue,
        })
    }
}
