//! All logs of a configuration, opened once.

use super::destination::{Destination, Hold};
use super::journald::Journald;
use super::queue::Queue;
use super::sink::{Sink, open_file, open_pipe, open_ring, reading_end};
use super::syslog::Syslog;
use super::wanted::Wanted;
use super::{AccessLogger, Logger, OsError, last_words, writer};
use sealane_conf::Config;
use sealane_conf::model::{AccessLog, ErrorLog, LogPipe, LogTarget, Qlog};
use sealane_sys::guard::Guard;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// All destinations of a configuration. Lines for the same path share one descriptor, also with the
/// set of the previous configuration.
///
/// The master opens the set, and a forked worker inherits it: positions ([`LogFile::index`]) mean
/// the same in both.
#[derive(Debug)]
pub struct LogSet {
    entries: Vec<Entry>,
    by_target: HashMap<LogTarget, usize>,
    queue: Arc<Queue>,
    /// `log_queue_size`.
    queue_bytes: usize,
    /// Checks whose rights apply when files are opened by name.
    guard: Guard,
}

/// One position of a set.
#[derive(Debug)]
struct Entry {
    destination: Arc<Destination>,
    /// Set if the previous set has it open too: what to switch to when this set takes effect.
    next: Mutex<Option<Next>>,
}

/// The changes to a destination that two sets share.
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

/// A program that reads the lines of a log.
#[derive(Debug, Clone)]
pub struct LogProgram {
    /// As configured.
    pub conf: Arc<LogPipe>,
    sink: Arc<Sink>,
}

impl LogProgram {
    /// Whether both are the same log, still open.
    pub fn is_same(&self, other: &LogProgram) -> bool {
        Arc::ptr_eq(&self.sink, &other.sink)
    }

    /// The standard input of the program.
    ///
    /// # Errors
    /// When there are too many descriptors, or no `/proc`.
    pub fn input(&self) -> io::Result<OwnedFd> {
        match &*self.sink {
            Sink::Pipe { fd, .. } => reading_end(fd),
            _ => unreachable!("only pipes have programs"),
        }
    }
}

/// The lines that a process has lost: dropped because a log was full, slow or gone, or could not be
/// written to.
#[derive(Debug, Clone)]
pub struct LostLines(Arc<Queue>);

impl LostLines {
    /// The number of lines, for all logs together.
    pub fn count(&self) -> u64 {
        self.0.lost_lines()
    }
}

/// A log that could not be opened. Displayed in nginx's words: `open() "/var/log/x" failed (13:
/// Permission denied)`.
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

/// The descriptors passed on do not match the configuration.
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
                    "a descriptor was handed over for log {index}, which does not exist"
                )
            }
        }
    }
}

impl std::error::Error for LogAdoptError {}

impl LogSet {
    /// Opens every error log and access log of `config`, creating missing files with mode 0644.
    /// `guard` is applied now and whenever they are reopened.
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

    /// In the master: opens all logs of the next configuration. Logs of this set continue unchanged
    /// until the new one [takes effect](LogSet::take_effect).
    ///
    /// # Errors
    /// The first file that cannot be opened.
    pub fn open_next(&self, config: &Config, guard: &Guard) -> Result<LogSet, LogOpenError> {
        let open = |_, target: &LogTarget| open_target(target, guard);
        LogSet::build(Wanted::of(config), &self.queue, guard, Some(self), open)
    }

    /// In the worker: the set of the next configuration, with the
    /// [descriptors](LogSet::descriptors) that the master has opened for the same configuration.
    /// Otherwise like [`LogSet::open_next`].
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
            (LogTarget::Memory(bytes), None) => Err(LogAdoptError::Missing {
                path: format!("memory:{bytes}").into(),
            }),
            (LogTarget::Pipe(program), None) => Err(LogAdoptError::Missing {
                path: format!("pipe:{}", program.written).into(),
            }),
            (_, file) => Ok(file),
        };
        LogSet::build(wanted, &self.queue, &self.guard, Some(self), take)
    }

    /// Builds a set of all wanted logs; `open` returns the descriptor of a target.
    fn build<E>(
        wanted: Wanted,
        queue: &Arc<Queue>,
        guard: &Guard,
        before: Option<&LogSet>,
        mut open: impl FnMut(usize, &LogTarget) -> Result<Option<OwnedFd>, E>,
    ) -> Result<LogSet, E> {
        let mut entries = Vec::with_capacity(wanted.targets.len());
        for (index, (target, hold)) in wanted.targets.into_iter().enumerate() {
            let known = before.and_then(|set| set.find(&target));
            // A program goes on with the pipe that it has.
            let is_open = known.is_some() && matches!(target, LogTarget::Pipe(_));
            let file = match is_open {
                true => None,
                false => open(index, &target)?,
            };
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

    /// Makes this the set in use. Logs that the previous set also has open continue in the newly
    /// opened files, with this set's buffers. The writer reports to `notices`, the main error log.
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

    /// A counter of the lines that this process loses, including those of later sets.
    pub fn lost_lines(&self) -> LostLines {
        LostLines(Arc::clone(&self.queue))
    }

    /// Copies of all descriptors with their positions, to be passed to a worker: for
    /// [`LogSet::adopt_next`] before the set takes effect, for [`LogSet::replace`] after
    /// [`LogSet::reopen`].
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

    /// Opens only error logs, for the time before there is a configuration.
    ///
    /// # Errors
    /// The first file that cannot be opened.
    pub fn of_error_logs(logs: &[ErrorLog], guard: &Guard) -> Result<LogSet, LogOpenError> {
        let mut wanted = Wanted::default();
        wanted.error_logs(logs);
        let open = |_, target: &LogTarget| open_target(target, guard);
        LogSet::build(wanted, &Arc::new(Queue::new()), guard, None, open)
    }

    /// Opens exactly these logs.
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

    /// A set with only stderr, for the time before there is a configuration.
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

    /// A handle for an `access_log` line. A target that is not in the set discards everything.
    pub fn access(&self, log: &AccessLog) -> AccessLogger {
        AccessLogger::new(self.find(&log.target))
    }

    /// A handle for the files of `quic_qlog`.
    pub fn qlog(&self, qlog: &Qlog) -> AccessLogger {
        AccessLogger::new(self.find(&qlog.log_target()))
    }

    fn find(&self, target: &LogTarget) -> Option<Arc<Destination>> {
        let index = *self.by_target.get(target)?;
        Some(Arc::clone(&self.entries[index].destination))
    }

    /// Starts the thread that writes for this process; from then on logging never waits for a disk.
    /// `notices` is the main error log. A writer already started for an earlier set continues.
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

    /// Writes all pending lines and ends the writer thread. Later lines are written directly.
    /// Returns false if it took too long.
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
            Sink::Memory { .. }
            | Sink::Pipe { .. }
            | Sink::Stderr
            | Sink::Journal(_)
            | Sink::Syslog(_)
            | Sink::Paths(_) => None,
        })
    }

    /// The programs that lines are written to (`pipe:`).
    pub fn programs(&self) -> impl Iterator<Item = LogProgram> {
        let entries = self.entries.iter();
        entries.filter_map(|entry| match &*entry.destination.sink {
            Sink::Pipe { program, .. } => Some(LogProgram {
                conf: Arc::clone(program),
                sink: Arc::clone(&entry.destination.sink),
            }),
            _ => None,
        })
    }

    /// Ends what is written to programs, in this process: once all processes have done so, a
    /// program reads the end of its input.
    ///
    /// # Errors
    /// When `/dev/null` cannot be opened.
    pub fn close_programs(&self) -> io::Result<()> {
        for entry in &self.entries {
            if let Sink::Pipe { .. } = &*entry.destination.sink {
                let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
                entry.destination.sink.replace(nowhere.into())?;
            }
        }
        Ok(())
    }

    /// Reopens every file by its name, after a log rotation, and switches to the new one;
    /// reconnects to syslog servers. A file that cannot be opened stays in use and is reported.
    pub fn reopen(&self) -> Vec<LogOpenError> {
        self.reopen_paths();
        let mut failed = Vec::new();
        for (target, &index) in &self.by_target {
            if let LogTarget::Pipe(_) = target {
                continue; // a program goes on with the pipe that it has
            }
            match open_target(target, &self.guard) {
                Ok(Some(new)) => self.replace(index, new),
                Ok(None) => {}
                Err(error) => failed.push(error),
            }
        }
        failed
    }

    /// Makes the files of logs with variables in their paths be reopened, by the process that
    /// writes them; part of [`LogSet::reopen`].
    pub fn reopen_paths(&self) {
        for entry in &self.entries {
            if let Sink::Paths(paths) = &*entry.destination.sink {
                paths.close_all();
            }
        }
        self.queue.wake_up();
    }

    /// Switches the log at this position to `file`, which the master has reopened. Lines logged
    /// before still go to the old file. An unknown position is ignored.
    pub fn replace(&self, index: usize, file: OwnedFd) {
        if let Some(entry) = self.entries.get(index) {
            entry.destination.replace(file);
        }
    }
}

impl Entry {
    /// A panic cannot leave the guarded value half changed.
    fn lock_next(&self) -> MutexGuard<'_, Option<Next>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens targets that need their own descriptor. A syslog server may be unreachable.
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
        LogTarget::Memory(bytes) => match open_ring() {
            Ok(ring) => Ok(Some(ring)),
            Err(error) => Err(LogOpenError {
                path: format!("memory:{bytes}").into(),
                error,
            }),
        },
        LogTarget::Pipe(program) => match open_pipe() {
            Ok(pipe) => Ok(Some(pipe)),
            Err(error) => Err(LogOpenError {
                path: format!("pipe:{}", program.written).into(),
                error,
            }),
        },
        LogTarget::Stderr => Ok(Journald::connect()),
        LogTarget::Discard | LogTarget::Paths(_) => Ok(None),
    }
}
