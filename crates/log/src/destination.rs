//! One open log, file or stderr, independent of who writes to it.

use super::error::ErrorLine;
use super::queue::Queue;
use super::sink::Sink;
use super::{LogLevel, OsError, error, journald};
use sealane_sys::file;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The destination of the lines of one log. All handles for the same path share it, in this
/// configuration and in those before and after it, so that there is one descriptor and one order of
/// lines. It is closed with the last handle, once the writer has written the pending lines.
#[derive(Debug)]
pub(super) struct Destination {
    /// What is written to.
    pub(super) sink: Arc<Sink>,
    /// Its lane in the queue; no two destinations have the same at a time.
    pub(super) lane: usize,
    /// The queue of the process.
    pub(super) queue: Arc<Queue>,
    /// The last direct write failed, which was reported on stderr.
    complained: AtomicBool,
}

/// How long lines of a buffered access log are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    /// `buffer=`: written once this many bytes have been gathered.
    pub(super) bytes: usize,
    /// `flush=`: written when the oldest line is this old; `None` means no time limit.
    pub(super) time: Option<Duration>,
    /// `gzip=`: level at which a buffer is compressed.
    pub(super) gzip: Option<u32>,
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

    /// Appends a line of an access log with its end to `out`, in the form that
    /// [`Destination::append`] expects.
    pub(super) fn encode(&self, line: &[u8], out: &mut Vec<u8>) {
        match &*self.sink {
            Sink::Syslog(syslog) => syslog.push(None, line, out),
            _ => out.extend_from_slice(line),
        }
    }

    /// Takes one line of an error log.
    pub(super) fn append_line(&self, line: &ErrorLine) {
        let mut bytes = Vec::new();
        match &*self.sink {
            Sink::Syslog(syslog) => syslog.push(Some(line.severity()), &line.text, &mut bytes),
            Sink::Journal(_) => journald::push(line, &mut bytes),
            _ => return self.append(&line.text, 1),
        }
        self.append(&bytes, 1);
    }

    /// Takes complete lines. Queues them if a writer runs, otherwise writes them at once.
    pub(super) fn append(&self, bytes: &[u8], lines: u64) {
        if self.queue.is_running() && self.queue.push(self.lane, bytes, lines) {
            return;
        }
        match Sink::packed(bytes, self.queue.gzip_of(self.lane)) {
            Some(packed) => self.append_directly(&packed, lines),
            None => self.append_directly(bytes, lines),
        }
    }

    /// Switches to a newly opened file, after everything logged so far.
    pub(super) fn replace(&self, file: OwnedFd) {
        if self.queue.is_running() {
            self.queue.replace(self.lane, file);
        } else {
            // This fails only if the kernel is out of all resources; the old file then stays in
            // use.
            let _ = self.sink.replace(file);
        }
    }

    /// Writes complete lines at once. Lines that cannot be written are lost; the first failure in a
    /// row is reported on stderr.
    fn append_directly(&self, mut bytes: &[u8], lines: u64) {
        while !bytes.is_empty() {
            match self.sink.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) => {
                    self.queue.count_lost(lines);
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
        if matches!(*self.sink, Sink::Stderr | Sink::Journal(_)) {
            return; // nobody is left to tell
        }
        let text = format_args!(
            "{} cannot be written ({}); lines are lost until it can",
            self.sink.name(),
            OsError(error)
        )
        .to_string();
        let line = error::format_line(LogLevel::Alert, None, format_args!("{text}"));
        write_to_stderr(&line.text);
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        self.queue.close_lane(self.lane);
    }
}

/// Last resort for messages about the logs themselves. Failures are ignored, as there is no place
/// left to report them.
pub(super) fn write_to_stderr(line: &[u8]) {
    let _ = file::write(io::stderr().as_fd(), line);
}
