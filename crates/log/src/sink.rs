//! The targets that lines are written to.

use super::journald::Journald;
use super::paths::Paths;
use super::syslog::Syslog;
use super::{frames, gzip};
use sealane_conf::model::{LogPipe, LogTarget};
use sealane_sys::file;
use sealane_sys::guard::{Guard, Open};
use sealane_sys::poll::{self, Interest};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that a pipe takes without blocking if it is writable at all (`PIPE_BUF`).
const PIPE_BYTES: usize = 4096;

/// Mode of new log files, before the umask is applied.
const LOG_MODE: u32 = 0o644;

/// The target of a [`super::destination::Destination`].
#[derive(Debug)]
pub(super) enum Sink {
    /// A file opened for appending. Reopening replaces the file behind the descriptor and keeps its
    /// number, so no lock is needed.
    File {
        /// Absolute path.
        path: PathBuf,
        /// Its descriptor.
        fd: OwnedFd,
        /// Lines are written in pieces that a pipe takes completely or not at all.
        is_pipe: AtomicBool,
    },
    /// Standard error, whatever it currently refers to.
    Stderr,
    /// systemd's journal, where standard error leads there. Lines are [frames] of two fields.
    Journal(Journald),
    /// A ring of lines in an anonymous file. Its position is that of the open file, which all
    /// processes share that have inherited it.
    Memory {
        /// Size of the ring.
        bytes: u64,
        /// The file (memfd_create(2)).
        file: File,
    },
    /// Datagrams. Lines are [frames] of one field.
    Syslog(Syslog),
    /// The standard input of a program, opened for reading too: lines wait in it while the program
    /// is started again.
    Pipe {
        /// The program.
        program: Arc<LogPipe>,
        /// The pipe. It never blocks.
        fd: OwnedFd,
    },
    /// Files with variables in their paths. Lines are [frames] of three fields.
    Paths(Paths),
}

impl Sink {
    /// The sink for `target`, with the descriptor opened for it.
    pub(super) fn new(target: LogTarget, file: Option<OwnedFd>, guard: &Guard) -> Sink {
        match (target, file) {
            (LogTarget::File(path), Some(fd)) => {
                let is_pipe = AtomicBool::new(is_pipe(&fd));
                Sink::File { path, fd, is_pipe }
            }
            (LogTarget::File(_), None) => unreachable!("no file is wanted without being opened"),
            (LogTarget::Syslog(server), socket) => {
                Sink::Syslog(Syslog::new(server, socket, guard.clone()))
            }
            (LogTarget::Memory(bytes), Some(fd)) => Sink::Memory {
                bytes,
                file: fd.into(),
            },
            (LogTarget::Memory(_), None) => unreachable!("no ring is wanted without being opened"),
            (LogTarget::Pipe(program), Some(fd)) => Sink::Pipe { program, fd },
            (LogTarget::Pipe(_), None) => unreachable!("no pipe is wanted without being opened"),
            (LogTarget::Paths(paths), _) => Sink::Paths(Paths::new(paths, guard.clone())),
            (LogTarget::Stderr, Some(socket)) => Sink::Journal(Journald::new(socket)),
            (LogTarget::Stderr | LogTarget::Discard, _) => Sink::Stderr, // Discard is never wanted
        }
    }

    /// Makes one system call; returns how many bytes are done.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::File { fd, is_pipe, .. } => {
                let is_pipe = is_pipe.load(Ordering::Relaxed);
                let bytes = if is_pipe { piece(bytes) } else { bytes };
                file::write(fd.as_fd(), bytes)
            }
            Sink::Pipe { fd, .. } => file::write(fd.as_fd(), piece(bytes)),
            Sink::Stderr => write_to_stderr(bytes),
            Sink::Journal(journal) => journal.send(bytes),
            Sink::Memory { bytes: size, file } => write_to_ring(file, *size, bytes),
            Sink::Syslog(syslog) => syslog.send(bytes),
            Sink::Paths(paths) => Ok(paths.write(bytes)),
        }
    }

    /// Bytes of lines as they are written: compressed with the level `gzip`, if set.
    pub(super) fn packed(bytes: &[u8], gzip: Option<u32>) -> Option<Vec<u8>> {
        gzip.map(|level| gzip::member(bytes, level))
    }

    /// Points the descriptor at a newly opened file.
    pub(super) fn replace(&self, new: OwnedFd) -> io::Result<()> {
        match self {
            Sink::File { fd, is_pipe, .. } => {
                is_pipe.store(self::is_pipe(&new), Ordering::Relaxed);
                file::replace(new.as_fd(), fd.as_fd())
            }
            Sink::Syslog(syslog) => {
                syslog.replace(new);
                Ok(())
            }
            Sink::Journal(journal) => {
                journal.replace(new);
                Ok(())
            }
            Sink::Pipe { fd, .. } => file::replace(new.as_fd(), fd.as_fd()),
            // The lines so far stay.
            Sink::Memory { .. } | Sink::Stderr | Sink::Paths(_) => Ok(()),
        }
    }

    /// A copy of the descriptor, if this sink has its own.
    pub(super) fn descriptor(&self) -> io::Result<Option<OwnedFd>> {
        match self {
            Sink::File { fd, .. } | Sink::Pipe { fd, .. } => fd.try_clone().map(Some),
            Sink::Memory { file, .. } => file.try_clone().map(|file| Some(file.into())),
            Sink::Syslog(syslog) => syslog.socket(),
            Sink::Journal(journal) => journal.socket().map(Some),
            Sink::Stderr | Sink::Paths(_) => Ok(None),
        }
    }

    /// Its name for messages: `log file "/path"`.
    pub(super) fn name(&self) -> String {
        match self {
            Sink::File { path, .. } => format!("log file \"{}\"", path.display()),
            Sink::Pipe { program, .. } => format!("log program \"{}\"", program.written),
            Sink::Stderr => "log file \"stderr\"".into(),
            Sink::Journal(_) => "log of systemd's journal".into(),
            Sink::Memory { bytes, .. } => format!("log of {bytes} bytes in memory"),
            Sink::Syslog(syslog) => format!("syslog server \"{}\"", syslog.written()),
            Sink::Paths(paths) => format!("log files \"{}\"", paths.written().display()),
        }
    }

    /// Whether it keeps fields of lines.
    pub(super) fn keeps_fields(&self) -> bool {
        matches!(self, Sink::Journal(_))
    }

    /// Whether it is a syslog server.
    pub(super) fn is_syslog(&self) -> bool {
        matches!(self, Sink::Syslog(_))
    }

    /// How many lines these bytes contain.
    pub(super) fn lines_in(&self, bytes: &[u8]) -> u64 {
        match self {
            Sink::Syslog(_) => frames::count::<1>(bytes),
            Sink::Journal(_) => frames::count::<2>(bytes),
            Sink::Paths(_) => frames::count::<3>(bytes),
            _ => memchr::memchr_iter(b'\n', bytes).count() as u64,
        }
    }

    /// Lines lost since the last call, and the reason for the last loss.
    pub(super) fn take_losses(&self) -> Option<(u64, String)> {
        match self {
            Sink::Syslog(syslog) => syslog.losses().take(),
            Sink::Paths(paths) => paths.losses().take(),
            Sink::File { .. }
            | Sink::Pipe { .. }
            | Sink::Stderr
            | Sink::Journal(_)
            | Sink::Memory { .. } => None,
        }
    }

    /// Closes files that have been open for long enough.
    pub(super) fn tend(&self, now: Instant) {
        if let Sink::Paths(paths) = self {
            paths.tend(now);
        }
    }

    /// When [`Sink::tend`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Sink::Paths(paths) => paths.deadline(),
            _ => None,
        }
    }
}

/// Lines lost by a sink itself.
#[derive(Debug, Default)]
pub(super) struct Losses(Mutex<Option<(u64, String)>>);

impl Losses {
    pub(super) fn add(&self, lines: u64, reason: String) {
        let mut losses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = losses.as_ref().map_or(0, |(lines, _)| *lines);
        *losses = Some((before + lines, reason));
    }

    fn take(&self) -> Option<(u64, String)> {
        let mut losses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        losses.take()
    }
}

/// Opens a log for appending, creating it with mode 0644 if it is missing. A FIFO is opened for
/// reading too, which Linux always allows: lines wait in it whether or not there is a reader.
/// Opening never blocks, whatever kind of file it is.
pub(super) fn open_file(path: &Path, guard: &Guard) -> io::Result<OwnedFd> {
    let place = guard.find(path)?;
    let file = match place.open(Open::Append(LOG_MODE)) {
        Ok(file) if file.metadata()?.file_type().is_fifo() => {
            place.open(Open::AppendAndRead(LOG_MODE))?
        }
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
            place.open(Open::AppendAndRead(LOG_MODE))?
        }
        result => result?,
    };
    Ok(file.into())
}

/// A pipe, open for both ends: without a program, lines wait in it. Neither end blocks.
pub(super) fn open_pipe() -> io::Result<OwnedFd> {
    let (_reader, writer) = io::pipe()?;
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let mut both = OpenOptions::new();
    both.read(true).write(true).custom_flags(libc::O_NONBLOCK);
    both.open(path).map(OwnedFd::from)
}

/// The end of such a pipe that a program reads. It blocks.
pub(super) fn reading_end(pipe: &OwnedFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    File::open(path).map(OwnedFd::from)
}

/// An empty ring: its end is where the first line begins.
pub(super) fn open_ring() -> io::Result<OwnedFd> {
    file::memory_file(c"error_log").map(OwnedFd::from)
}

/// Writes as much as fits before the end of the ring; what follows goes to its beginning.
fn write_to_ring(mut file: &File, size: u64, bytes: &[u8]) -> io::Result<usize> {
    let mut at = file.stream_position()?;
    if at >= size {
        at = file.seek(SeekFrom::Start(0))?;
    }
    let room = usize::try_from(size - at).unwrap_or(usize::MAX);
    file.write(&bytes[..bytes.len().min(room)])
}

/// Standard error may be a pipe shared with other processes, so it cannot be made non-blocking: it
/// is polled first, and given no more than a pipe always takes.
pub(super) fn write_to_stderr(bytes: &[u8]) -> io::Result<usize> {
    let stderr = io::stderr();
    if !poll::wait(
        &[(stderr.as_fd(), Interest::Writable)],
        Some(Duration::ZERO),
    )?[0]
    {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    file::write(stderr.as_fd(), piece(bytes))
}

/// As many whole lines as a pipe takes in one piece (pipe(7)), so that a full pipe or another
/// writer does not tear any line. A longer line is split.
fn piece(bytes: &[u8]) -> &[u8] {
    let most = &bytes[..bytes.len().min(PIPE_BYTES)];
    match memchr::memrchr(b'\n', most) {
        Some(end) => &most[..=end],
        None => most,
    }
}

fn is_pipe(file: &OwnedFd) -> bool {
    file::stat_fd(file.as_fd()).is_ok_and(|stat| stat.mode & libc::S_IFMT == libc::S_IFIFO)
}
