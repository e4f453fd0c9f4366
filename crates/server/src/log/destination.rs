//! One open log: a file or stderr, whoever writes to it.

use super::queue::Queue;
use super::{LogLevel, OsError, error};
use sealane_sys::file;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Where the lines of one log end up. Shared by all handles that name the same
/// path, so that there is one descriptor and one order of lines.
#[derive(Debug)]
pub(super) struct Destination {
    /// Position in its [`super::LogSet`], and so in the queue.
    pub(super) index: usize,
    /// Number that no other destination of the process has.
    pub(super) serial: usize,
    /// What is written to.
    pub(super) sink: Sink,
    /// `buffer=` and `flush=` of the access logs that name it.
    pub(super) hold: Option<Hold>,
    /// The queue of its set.
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

static NEXT_SERIAL: AtomicUsize = AtomicUsize::new(0);

impl Destination {
    pub(super) fn new(
        index: usize,
        sink: Sink,
        hold: Option<Hold>,
        queue: Arc<Queue>,
    ) -> Destination {
        let serial = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed);
        Destination {
            index,
            serial,
            sink,
            hold,
            queue,
            complained: AtomicBool::new(false),
        }
    }

    /// Takes complete lines: to the queue when a writer runs, else at once.
    pub(super) fn append(&self, bytes: &[u8], lines: u64) {
        if !self.queue.is_running() || !self.queue.push(self.index, bytes, lines) {
            self.append_directly(bytes);
        }
    }

    /// Writes complete lines at once. What cannot be written is lost; the first
    /// time in a row, stderr is told.
    fn append_directly(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.write(bytes) {
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
        if matches!(self.sink, Sink::Stderr) {
            return; // nobody is left to tell
        }
        let text = format_args!(
            "log file \"{}\" cannot be written ({}); lines are lost until it can",
            self.name(),
            OsError(error)
        )
        .to_string();
        write_to_stderr(&error::format_line(
            LogLevel::Alert,
            None,
            format_args!("{text}"),
        ));
    }

    /// One write(2); returns the bytes written.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.sink {
            Sink::File { fd, .. } => file::write(fd.as_fd(), bytes),
            Sink::Stderr => file::write(io::stderr().as_fd(), bytes),
        }
    }

    /// Lets the descriptor refer to a newly opened file.
    pub(super) fn replace(&self, new: BorrowedFd<'_>) -> io::Result<()> {
        match &self.sink {
            Sink::File { fd, .. } => file::replace(new, fd.as_fd()),
            Sink::Stderr => Ok(()),
        }
    }

    /// Its name for messages.
    pub(super) fn name(&self) -> std::path::Display<'_> {
        match &self.sink {
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
