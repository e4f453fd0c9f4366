//! One open log: a file or stderr, whoever writes to it.

use super::queue::Queue;
use super::{LogLevel, OsError, error};
use sealane_conf::model::LogTarget;
use sealane_sys::file;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where the lines of one log end up. Shared by all handles that name the same
/// path, in this configuration and in those before and after it, so that there
/// is one descriptor and one order of lines. With the last handle it is closed,
/// once the writer has written what waits.
#[derive(Debug)]
pub(super) struct Destination {
    /// What is written to.
    pub(super) sink: Arc<Sink>,
    /// Its lane in the queue; no two destinations have the same at a time.
    pub(super) lane: usize,
    /// The queue of the process.
    pub(super) queue: Arc<Queue>,
    /// The last direct write failed and stderr was told so.
    complained: AtomicBool,
}

/// What a [`Destination`] writes to.
#[derive(Debug)]
pub(super) enum Sink {
    /// A file opened for appending. Reopening replaces what the descriptor
    /// refers to and keeps its number, so there is nothing to lock.
    File {
        /// Absolute path.
        path: PathBuf,
        /// Its descriptor.
        fd: OwnedFd,
    },
    /// Standard error, whatever it is at the time.
    Stderr,
}

/// How long lines of a buffered access log are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    /// `buffer=`: written when this many bytes have come together.
    pub(super) bytes: usize,
    /// `flush=`: written when the oldest line is this old; `None` waits for ever.
    pub(super) time: Option<Duration>,
}

impl Destination {
    pub(super) fn new(sink: Sink, hold: Option<Hold>, queue: &Arc<Queue>) -> Destination {
        let sink = Arc::new(sink);
        Destination {
            lane: queue.open_lane(&sink, hold),
            sink,
            queue: Arc::clone(queue),
            complained: AtomicBool::new(false),
        }
    }

    /// Takes complete lines: to the queue when a writer runs, else at once.
    pub(super) fn append(&self, bytes: &[u8], lines: u64) {
        if !self.queue.is_running() || !self.queue.push(self.lane, bytes, lines) {
            self.append_directly(bytes);
        }
    }

    /// Goes on with a newly opened file, after what was logged before.
    pub(super) fn replace(&self, file: OwnedFd) {
        if self.queue.is_running() {
            self.queue.replace(self.lane, file);
        } else {
            // Failing here means that the kernel is out of everything; the old
            // file stays in use.
            let _ = self.sink.replace(file.as_fd());
        }
    }

    /// Writes complete lines at once. What cannot be written is lost; the first
    /// time in a row, stderr is told.
    fn append_directly(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.sink.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) => {
                    if !self.complained.swap(true, Ordering::Relaxed) {
                        self.complain(&error);
                    }
                    return;
                }
            }
        }
        self.complained.store(false, Ordering::Relaxed);
    }

    fn complain(&self, error: &io::Error) {
        if matches!(*self.sink, Sink::Stderr) {
            return; // nobody is left to tell
        }
        let text = format_args!(
            "log file \"{}\" cannot be written ({}); lines are lost until it can",
            self.sink.name(),
            OsError(error)
        )
        .to_string();
        write_to_stderr(&error::format_line(
            LogLevel::Alert,
            None,
            format_args!("{text}"),
        ));
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        self.queue.close_lane(self.lane);
    }
}

impl Sink {
    /// What writes to `target`, with the descriptor opened for it.
    pub(super) fn new(target: LogTarget, file: Option<OwnedFd>) -> Sink {
        match (target, file) {
            (LogTarget::File(path), Some(fd)) => Sink::File { path, fd },
            (LogTarget::File(_), None) => unreachable!("no file is wanted without being opened"),
            (LogTarget::Stderr | LogTarget::Discard, _) => Sink::Stderr, // Discard is never wanted
        }
    }

    /// The descriptor that belongs to it alone.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Sink::File { fd, .. } => Some(fd.as_fd()),
            Sink::Stderr => None,
        }
    }

    /// One write(2); returns the bytes written.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::File { fd, .. } => file::write(fd.as_fd(), bytes),
            Sink::Stderr => file::write(io::stderr().as_fd(), bytes),
        }
    }

    /// Lets the descriptor refer to a newly opened file.
    pub(super) fn replace(&self, new: BorrowedFd<'_>) -> io::Result<()> {
        match self {
            Sink::File { fd, .. } => file::replace(new, fd.as_fd()),
            Sink::Stderr => Ok(()),
        }
    }

    /// Its name for messages.
    pub(super) fn name(&self) -> std::path::Display<'_> {
        match self {
            Sink::File { path, .. } => path.display(),
            Sink::Stderr => std::path::Path::new("stderr").display(),
        }
    }
}

/// Last resort for what the logs themselves have to say. Failures are ignored:
/// nobody is left to tell.
pub(super) fn write_to_stderr(line: &[u8]) {
    let _ = file::write(io::stderr().as_fd(), line);
}
