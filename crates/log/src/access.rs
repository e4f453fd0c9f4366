//! `access_log`: lines are gathered per thread, so that a line costs neither a lock nor a system
//! call.

use super::destination::Destination;
use super::paths::Paths;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// How many bytes a thread gathers for one access log before it passes them to the queue by itself.
pub const THREAD_BUFFER_BYTES: usize = 16 * 1024;

/// Where the lines of an `access_log` directive go. Cheap to clone.
#[derive(Clone)]
pub struct AccessLogger {
    destination: Option<Arc<Destination>>,
}

impl AccessLogger {
    pub(super) fn new(destination: Option<Arc<Destination>>) -> AccessLogger {
        AccessLogger { destination }
    }

    /// A logger that keeps nothing.
    pub fn discard() -> AccessLogger {
        AccessLogger { destination: None }
    }

    /// Whether lines are discarded, so that formatting them is pointless.
    pub fn is_discard(&self) -> bool {
        self.destination.is_none()
    }

    /// Takes one line with its end. It is passed on at the latest when the thread calls
    /// [`flush_thread_buffers`].
    pub fn write_line(&self, line: &[u8]) {
        self.write(|destination, out| destination.encode(line, out));
    }

    /// The same for a log with variables in its path: writes to the file `path` if the directory
    /// `root` exists, or is empty.
    pub fn write_line_to(&self, path: &[u8], root: &[u8], line: &[u8]) {
        self.write(|_, out| Paths::push(path, root, line, out));
    }

    fn write(&self, encode: impl Fn(&Destination, &mut Vec<u8>)) {
        let Some(destination) = &self.destination else {
            return;
        };
        let at_once = || {
            let mut bytes = Vec::new();
            encode(destination, &mut bytes);
            destination.append(&bytes, 1);
        };
        if !destination.queue.is_running() {
            return at_once();
        }
        let add = |bytes: &mut Vec<u8>| encode(destination, bytes);
        let gathered = BUFFERS.try_with(|buffers| buffers.borrow_mut().add(destination, add));
        if gathered.is_err() {
            at_once(); // the thread is ending: its buffers are gone
        }
    }
}

impl fmt::Debug for AccessLogger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.destination {
            Some(destination) => write!(f, "AccessLogger({})", destination.sink.name()),
            None => f.write_str("AccessLogger(off)"),
        }
    }
}

/// Passes the lines that this thread has gathered to the writer. A worker calls it before it waits
/// for events, when it has nothing else to do.
pub fn flush_thread_buffers() {
    // A thread that is ending has already flushed.
    let _ = BUFFERS.try_with(|buffers| buffers.borrow_mut().flush());
}

thread_local! {
    static BUFFERS: RefCell<ThreadBuffers> = const { RefCell::new(ThreadBuffers::new()) };
}

/// The lines gathered by one thread, by lane of the destination.
struct ThreadBuffers {
    slots: Vec<Slot>,
    /// Numbers of the non-empty slots.
    filled: Vec<usize>,
}

/// Lines for one destination. It holds the destination only between two flushes, so that no thread
/// keeps a log of an earlier configuration open.
struct Slot {
    destination: Option<Arc<Destination>>,
    bytes: Vec<u8>,
    lines: u64,
}

impl ThreadBuffers {
    const fn new() -> ThreadBuffers {
        ThreadBuffers {
            slots: Vec::new(),
            filled: Vec::new(),
        }
    }

    fn add(&mut self, destination: &Arc<Destination>, line: impl FnOnce(&mut Vec<u8>)) {
        let number = destination.lane;
        if number >= self.slots.len() {
            self.slots.resize_with(number + 1, || Slot {
                destination: None,
                bytes: Vec::new(),
                lines: 0,
            });
        }
        let slot = &mut self.slots[number];
        match &slot.destination {
            None => {
                slot.destination = Some(Arc::clone(destination));
                self.filled.push(number);
            }
            // Only in tests are there several sets without a common queue.
            Some(other) if !Arc::ptr_eq(other, destination) => {
                slot.hand_over();
                slot.destination = Some(Arc::clone(destination));
            }
            Some(_) => {}
        }
        line(&mut slot.bytes);
        slot.lines += 1;
        if slot.bytes.len() >= THREAD_BUFFER_BYTES {
            slot.hand_over();
        }
    }

    fn flush(&mut self) {
        for number in self.filled.drain(..) {
            let slot = &mut self.slots[number];
            slot.hand_over();
            slot.destination = None;
        }
    }
}

impl Slot {
    fn hand_over(&mut self) {
        if let Some(destination) = &self.destination
            && self.lines > 0
        {
            destination.append(&self.bytes, self.lines);
        }
        self.bytes.clear();
        self.lines = 0;
    }
}

impl Drop for ThreadBuffers {
    fn drop(&mut self) {
        self.flush();
    }
}
