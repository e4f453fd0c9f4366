//! All logs of a configuration, opened once.

use super::destination::{Destination, Hold};
use super::queue::Queue;
use super::sink::{Sink, open_file};
use super::syslog::Syslog;
use super::wanted::Wanted;
use super::{AccessLogger, Logger, OsError, last_words, writer};
use sealane_conf::Config;
use sealane_conf::model::{AccessLog, ErrorLog, LogTarget};
use sealane_sys::guard::Guard;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Every destination that a configuration logs to. Lines for the same path
/// share one descriptor, also with the set of the configuration before.
///
/// The master opens the set and a forked worker inherits it: positions
/// ([`LogFile::index`]) mean the same in both.
#[derive(Debug)]
pub struct LogSet {
    entries: Vec<Entry>,
    by_target: HashMap<LogTarget, usize>,
    queue: Arc<Queue>,
    /// `log_queue_size`.
    queue_bytes: usize,
    /// Whose rights count where files are opened by name.
    guard: Guard,
}

/// One position of a set.
#[derive(Debug)]
struct Entry {
    destination: Arc<Destination>,
    /// The set before has it open too: what it is to go on with when this set
    /// takes effect.
    next: Mutex<Option<Next>>,
}

/// What changes for a destination that two sets share.
#[derive(Debug)]
struct Next {
    file: Option<OwnedFd>,
    hold: Option<Hold>,
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

/// Lines that a process has lost: dropped because a log was full, slow or away, or because it
/// could not be written to.
#[derive(Debug, Clone)]
pub struct LostLines(Arc<Queue>);

impl LostLines {
    /// How many, of all logs together.
    pub fn count(&self) -> u64 {
        self.0.lost_lines()
    }
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

/// The descriptors handed over are not those of the configuration.
#[derive(Debug)]
pub enum LogAdoptError {
    /// A file without one.
    Missing {
        /// Its path.
        path: PathBuf,
    },
    /// A descriptor for a position that the configuration does not have.
    Unknown {
        /// The position.
        index: u16,
    },
}

impl fmt::Display for LogAdoptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogAdoptError::Missing { path } => {
                write!(
                    f,
                    "no descriptor was handed over for log file \"{}\"",
                    path.display()
                )
            }
            LogAdoptError::Unknown { index } => {
                write!(
                    f,
                    "a descriptor was handed over for log {index}, which there is not"
                )
            }
        }
    }
}

impl std::error::Error for LogAdoptError {}

impl LogSet {
    /// Opens every error log and access log that `config` names, creating files
    /// that are missing with mode 0644. `guard` is asked now, and whenever they are opened
    /// again.
    ///
    /// # Errors
    /// The first file that cannot be opened.
    pub fn open(config: &Config, guard: &Guard) -> Result<LogSet, LogOpenError> {
        let queue = Arc::new(Queue::new());
        let open = |_, target: &LogTarget| open_target(target, guard);
        let set = LogSet::build(Wanted::of(config), &queue, guard, None, open)?;
        queue.set_limit_bytes(set.queue_bytes);
        Ok(set)
    }

    /// In the master: opens every log of the configuration that comes after the one
    /// of this set. Logs of this set go on as they are until the new one
    /// [takes effect](LogSet::take_effect).
    ///
    /// # Errors
    /// The first file that cannot be opened.
    pub fn open_next(&self, config: &Config, guard: &Guard) -> Result<LogSet, LogOpenError> {
        let open = |_, target: &LogTarget| open_target(target, guard);
        LogSet::build(Wanted::of(config), &self.queue, guard, Some(self), open)
    }

    /// In the worker: the set of the next configuration, with the
    /// [descriptors](LogSet::descriptors) that the master has opened for the same
    /// configuration. Otherwise as [`LogSet::open_next`].
    ///
    /// # Errors
    /// When a file has no descriptor, or a descriptor no file.
    pub fn adopt_next(
        &self,
        config: &Config,
        descriptors: Vec<(u16, OwnedFd)>,
    ) -> Result<LogSet, LogAdoptError> {
        let wanted = Wanted::of(config);
        let mut files: Vec<Option<OwnedFd>> = wanted.targets.iter().map(|_| None).collect();
        for (index, file) in descriptors {
            let place = files.get_mut(usize::from(index));
            *place.ok_or(LogAdoptError::Unknown { index })? = Some(file);
        }
        let take = |index: usize, target: &LogTarget| match (target, files[index].take()) {
            (LogTarget::File(path), None) => Err(LogAdoptError::Missing { path: path.clone() }),
            (_, file) => Ok(file),
        };
        LogSet::build(wanted, &self.queue, &self.guard, Some(self), take)
    }

    /// A set of all that is wanted; `open` gives the descriptor of a target.
    fn build<E>(
        wanted: Wanted,
        queue: &Arc<Queue>,
        guard: &Guard,
        before: Option<&LogSet>,
        mut open: impl FnMut(usize, &LogTarget) -> Result<Option<OwnedFd>, E>,
    ) -> Result<LogSet, E> {
        let mut entries = Vec::with_capacity(wanted.targets.len());
        for (index, (target, hold)) in wanted.targets.into_iter().enumerate() {
            let file = open(index, &target)?;
            let known = before.and_then(|set| set.find(&target));
            let (destination, next) = match known {
                Some(destination) => (destination, Some(Next { file, hold })),
                None => {
                    let sink = Sink::new(target, file, guard);
                    (Arc::new(Destination::new(sink, hold, queue)), None)
                }
            };
            entries.push(Entry {
                destination,
                next: Mutex::new(next),
            });
        }
        Ok(LogSet {
            entries,
            by_target: wanted.by_target,
            queue_bytes: wanted.queue_bytes,
            queue: Arc::clone(queue),
            guard: guard.clone(),
        })
    }

    /// From now on this is the set in use: logs that the set before has open too go
    /// on in the newly opened files, with this set's buffers, and what the
    /// writer has to say goes to `notices`, the main error log.
    pub fn take_effect(&self, notices: Logger) {
        for entry in &self.entries {
            let next = entry.lock_next().take();
            if let Some(Next { file, hold }) = next {
                if let Some(file) = file {
                    entry.destination.replace(file);
                }
                self.queue.set_hold(entry.destination.lane, hold);
            }
        }
        self.queue.set_limit_bytes(self.queue_bytes);
        if self.queue.is_running() {
            self.queue.set_notices(notices);
        }
    }

    /// Who counts the lines that this process loses, also for the sets after this one.
    pub fn lost_lines(&self) -> LostLines {
        LostLines(Arc::clone(&self.queue))
    }

    /// Copies of all descriptors with their positions, to be handed to a worker:
    /// for [`LogSet::adopt_next`] before the set takes effect, for
    /// [`LogSet::replace`] after [`LogSet::reopen`].
    ///
    /// # Errors
    /// When there are too many descriptors.
    pub fn descriptors(&self) -> io::Result<Vec<(u16, OwnedFd)>> {
        let mut all = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let next = entry.lock_next();
            let file = match next.as_ref() {
                Some(next) => next.file.as_ref().map(OwnedFd::try_clone).transpose()?,
                None => entry.destination.sink.descriptor()?,
            };
            if let Some(file) = file {
                let index = u16::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?;
                all.push((index, file));
            }
        }
        Ok(all)
    }

    /// Opens error logs alone, for the time before there is a configuration.
    ///
    /// # Errors
    /// The first file that cannot be opened.
    pub fn of_error_logs(logs: &[ErrorLog], guard: &Guard) -> Result<LogSet, LogOpenError> {
        let mut wanted = Wanted::default();
        wanted.error_logs(logs);
        let open = |_, target: &LogTarget| open_target(target, guard);
        LogSet::build(wanted, &Arc::new(Queue::new()), guard, None, open)
    }

    /// Opens these logs and no others.
    #[cfg(test)]
    pub(super) fn of_logs(
        error_logs: &[ErrorLog],
        access_logs: &[AccessLog],
    ) -> Result<LogSet, LogOpenError> {
        let mut wanted = Wanted::default();
        wanted.error_logs(error_logs);
        wanted.access_logs(access_logs);
        let guard = Guard::default();
        let open = |_, target: &LogTarget| open_target(target, &guard);
        LogSet::build(wanted, &Arc::new(Queue::new()), &guard, None, open)
    }

    /// A set with nothing but stderr, for the time before there is a configuration.
    pub fn stderr() -> LogSet {
        let mut wanted = Wanted::default();
        wanted.add(&LogTarget::Stderr, None);
        let guard = Guard::default();
        let open = |_, target: &LogTarget| open_target(target, &guard);
        LogSet::build(wanted, &Arc::new(Queue::new()), &guard, None, open)
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
        let index = *self.by_target.get(target)?;
        Some(Arc::clone(&self.entries[index].destination))
    }

    /// Starts the thread that writes for this process; from then on nobody who
    /// logs waits for a disk. `notices` is the main error log. One that runs already,
    /// for a set before this one, goes on.
    ///
    /// # Errors
    /// When the thread cannot be started; lines are then written directly.
    pub fn start_writer(&self, notices: Logger) -> io::Result<()> {
        if self.queue.is_running() {
            self.queue.set_notices(notices);
            return Ok(());
        }
        let queue = Arc::clone(&self.queue);
        last_words::are_in(&queue);
        queue.set_running(true);
        let started = std::thread::Builder::new()
            .name("log-writer".into())
            .spawn(move || {
                let _ = sealane_sys::crash::prepare_thread(); // for the report of a crash
                writer::run(&queue, notices)
            });
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
        let numbered = self.entries.iter().enumerate();
        numbered.filter_map(|(index, entry)| match &*entry.destination.sink {
            Sink::File { path, fd, .. } => Some(LogFile {
                index,
                path,
                fd: fd.as_fd(),
            }),
            Sink::Stderr | Sink::Syslog(_) | Sink::Paths(_) => None,
        })
    }

    /// Opens every file again by its name, after a log rotation, and goes on
    /// with the new one; connects again to syslog servers. A file that cannot be
    /// opened is kept as it is and reported.
    pub fn reopen(&self) -> Vec<LogOpenError> {
        self.reopen_paths();
        let mut failed = Vec::new();
        for (target, &index) in &self.by_target {
            match open_target(target, &self.guard) {
                Ok(Some(new)) => self.replace(index, new),
                Ok(None) => {}
                Err(error) => failed.push(error),
            }
        }
        failed
    }

    /// Lets the files of logs with variables in their paths be opened again, which
    /// the process does itself that writes them; part of [`LogSet::reopen`].
    pub fn reopen_paths(&self) {
        for entry in &self.entries {
            if let Sink::Paths(paths) = &*entry.destination.sink {
                paths.close_all();
            }
        }
        self.queue.wake_up();
    }

    /// Goes on with `file`, which the master has opened again, in the log at
    /// this position. Lines logged before still go to the old file. An unknown
    /// position is ignored.
    pub fn replace(&self, index: usize, file: OwnedFd) {
        if let Some(entry) = self.entries.get(index) {
            entry.destination.replace(file);
        }
    }
}

impl Entry {
    /// A panic cannot leave what it guards half changed.
    fn lock_next(&self) -> MutexGuard<'_, Option<Next>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens what needs a descriptor of its own. A syslog server may be away.
fn open_target(target: &LogTarget, guard: &Guard) -> Result<Option<OwnedFd>, LogOpenError> {
    match target {
        LogTarget::File(path) => match open_file(path, guard) {
            Ok(file) => Ok(Some(file)),
            Err(error) => Err(LogOpenError {
                path: path.clone(),
                error,
            }),
        },
        LogTarget::Syslog(server) => Ok(Syslog::connect(server, guard).ok()),
        LogTarget::Stderr | LogTarget::Discard | LogTarget::Paths(_) => Ok(None),
    }
}
