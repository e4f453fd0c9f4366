//! Lines to other worker processes of the server, whose connections share the sockets with ours:
//! before an upgrade, or a change of the configuration that needed another process, and behind it.
//!
//! ```text
//!   process before            line             process behind it
//!   connections that finish  <----  packets with the ids of the first
//!                             ---->  first packets of new clients
//! ```
//!
//! One of them receives from the sockets: the newest one that has said that it serves. It hands on
//! what belongs to another one. Who leaves says so, and another one receives again.

use super::shared::QuicShared;
use sealane_io::forwarding::{ForwardLineReceiver, ForwardLineSender, Forwarded};
use sealane_quic::is_long;
use sealane_sys::socket::Ecn;
use std::future::poll_fn;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For so long a process asks the one before it about the first packets of clients: that one may
/// have got the beginning of them.
const FIRST_PACKETS_OF_BEFORE: Duration = Duration::from_secs(3);

/// In the place of a datagram: the sender serves from now on. No packet is that short.
const SERVES: &[u8] = b"S";
/// The sender leaves the sockets to others.
const LEAVES: &[u8] = b"L";

/// A line to another process.
pub(crate) struct ProcessLine {
    /// Its number in connection ids.
    process: u8,
    sender: ForwardLineSender,
    /// It receives from the sockets in our place.
    is_serving: AtomicBool,
    has_ended: AtomicBool,
    /// Threads that receive from it, or are to.
    receivers: AtomicUsize,
}

/// A line that a thread receives from, or is to receive from. Without any, the other process has to
/// know: what it sends would be lost for as long as this process takes to end.
pub(crate) struct LineReading(Arc<ProcessLine>);

impl Drop for LineReading {
    fn drop(&mut self) {
        if self.0.receivers.fetch_sub(1, Ordering::AcqRel) == 1
            && let Ok(fd) = self.0.sender.as_fd().try_clone_to_owned()
        {
            let _ = UnixStream::from(fd).shutdown(Shutdown::Both);
        }
    }
}

/// All lines of a process.
pub(super) struct ProcessLines {
    all: Mutex<Vec<Arc<ProcessLine>>>,
    /// There are any.
    exist: AtomicBool,
    /// Some other process receives from the sockets.
    are_handed_over: AtomicBool,
    is_leaving: AtomicBool,
    began: Instant,
}

impl ProcessLines {
    pub(super) fn new(lines: Vec<(u8, OwnedFd)>) -> ProcessLines {
        let all: Vec<_> = lines
            .into_iter()
            .map(|(process, fd)| ProcessLine::new(process, fd))
            .collect();
        ProcessLines {
            exist: AtomicBool::new(!all.is_empty()),
            all: Mutex::new(all),
            are_handed_over: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            began: Instant::now(),
        }
    }

    fn all(&self) -> Vec<Arc<ProcessLine>> {
        self.all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether another process receives from the sockets.
    pub(super) fn are_handed_over(&self) -> bool {
        self.are_handed_over.load(Ordering::Relaxed)
    }

    /// Hands a packet to the process that its connection id names. Returns whether there is one.
    pub(super) fn hand_on(&self, process: u8, thread: u8, datagram: Forwarded<&[u8]>) -> bool {
        if !self.exist.load(Ordering::Relaxed) {
            return false;
        }
        let line = self.all().into_iter().find(|line| line.process == process);
        line.is_some_and(|line| line.hand_on(thread, datagram))
    }

    /// Asks the process before about the first packet of a client. Returns whether there is one.
    pub(super) fn ask_before(&self, thread: u8, datagram: Forwarded<&[u8]>) -> bool {
        let is_due = self.exist.load(Ordering::Relaxed)
            && !self.are_handed_over()
            && self.began.elapsed() < FIRST_PACKETS_OF_BEFORE;
        if !is_due {
            return false;
        }
        let line = self.all().into_iter().next();
        line.is_some_and(|line| line.hand_on(thread, datagram))
    }

    /// Leaves a packet of a new connection to the process that serves. Returns whether there is
    /// one.
    pub(super) fn leave_to_serving(&self, thread: u8, datagram: Forwarded<&[u8]>) -> bool {
        if !self.are_handed_over() {
            return false;
        }
        let serving = self.all().into_iter().rev().find(|line| line.is_serving());
        serving.is_some_and(|line| line.hand_on(thread, datagram))
    }

    fn find_out(&self) {
        let all = self.all();
        let serves = all.iter().any(|line| line.is_serving());
        self.are_handed_over.store(serves, Ordering::Relaxed);
    }

    fn forget(&self, line: &Arc<ProcessLine>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| !Arc::ptr_eq(known, line));
        self.exist.store(!all.is_empty(), Ordering::Relaxed);
    }
}

impl ProcessLine {
    /// For a thread that is to receive from it. It counts from now on, not from when the thread
    /// gets to it: another one that ends meanwhile must not be taken for the last.
    pub(crate) fn reading(self: &Arc<ProcessLine>) -> LineReading {
        self.receivers.fetch_add(1, Ordering::AcqRel);
        LineReading(self.clone())
    }

    fn new(process: u8, fd: OwnedFd) -> Arc<ProcessLine> {
        Arc::new(ProcessLine {
            process,
            sender: ForwardLineSender::new(fd),
            is_serving: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            receivers: AtomicUsize::new(0),
        })
    }

    fn is_serving(&self) -> bool {
        self.is_serving.load(Ordering::Relaxed)
    }

    /// What does not fit is lost, as on the way, unless there is no other end any more.
    fn hand_on(&self, thread: u8, datagram: Forwarded<&[u8]>) -> bool {
        !self.has_ended.load(Ordering::Relaxed) && {
            self.sender.send(thread, datagram);
            true
        }
    }

    fn say(&self, what: &[u8]) {
        let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        self.sender.send(
            0,
            Forwarded {
                bytes: what,
                peer: nobody,
                local: nobody,
                ecn: Ecn::NotEct,
            },
        );
    }
}

impl QuicShared {
    /// There is another process. Returns the line, from which all threads are to receive.
    pub(crate) fn add_line(&self, process: u8, fd: OwnedFd) -> Arc<ProcessLine> {
        let line = ProcessLine::new(process, fd);
        let mut all = self
            .lines
            .all
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(line.clone());
        self.lines.exist.store(true, Ordering::Relaxed);
        line
    }

    /// The lines that there are at the start.
    pub(crate) fn first_lines(&self) -> Vec<Arc<ProcessLine>> {
        self.lines.all()
    }

    /// Says that this process serves: others leave the sockets to it.
    pub(crate) fn say_serving(&self) {
        self.lines.all().iter().for_each(|line| line.say(SERVES));
    }

    /// Says that this process takes no new connections any more.
    pub(crate) fn say_leaving(&self) {
        self.lines.is_leaving.store(true, Ordering::Relaxed);
        self.lines.all().iter().for_each(|line| line.say(LEAVES));
    }

    /// Takes what has come over a line.
    fn take(&self, line: &ProcessLine, thread: u8, datagram: Forwarded<&[u8]>) {
        match datagram.bytes {
            SERVES => self.set_serving(line, true),
            LEAVES => {
                self.set_serving(line, false);
                if !self.lines.is_leaving.load(Ordering::Relaxed) {
                    line.say(SERVES);
                }
            }
            _ => {
                let queue = self.queue_for(thread, datagram);
                match queue.or_else(|| self.any_queue(datagram.local)) {
                    Some(queue) => {
                        queue.push(datagram);
                    }
                    // A new client of a socket that only the other process has.
                    None if is_long(datagram.bytes) => {
                        self.lines.leave_to_serving(thread, datagram);
                    }
                    None => {}
                }
            }
        }
    }

    fn set_serving(&self, line: &ProcessLine, is_serving: bool) {
        line.is_serving.store(is_serving, Ordering::Relaxed);
        self.lines.find_out();
        self.wake_all();
    }

    /// Makes all threads look who receives.
    fn wake_all(&self) {
        let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        for queue in self.all_queues() {
            queue.push(Forwarded {
                bytes: &[],
                peer: nobody,
                local: nobody,
                ecn: Ecn::NotEct,
            });
        }
    }
}

/// Receives from a line until the other process has ended. All threads do: each may end before the
/// others.
pub(crate) async fn receive(shared: Arc<QuicShared>, reading: LineReading) {
    let line = reading.0.clone();
    let Ok(fd) = line.sender.as_fd().try_clone_to_owned() else {
        return;
    };
    let Ok(mut receiver) = ForwardLineReceiver::new(fd) else {
        return;
    };
    loop {
        let received = poll_fn(|cx| {
            receiver.poll_receive(cx, |thread, datagram| {
                let bytes: &[u8] = datagram.bytes;
                let (peer, local, ecn) = (datagram.peer, datagram.local, datagram.ecn);
                let datagram = Forwarded {
                    bytes,
                    peer,
                    local,
                    ecn,
                };
                shared.take(&line, thread, datagram);
            })
        });
        match received.await {
            Ok(1..) => {}
            Ok(0) | Err(_) => break,
        }
    }
    if !line.has_ended.swap(true, Ordering::Relaxed) {
        shared.lines.forget(&line);
        shared.set_serving(&line, false);
    }
}

#[cfg(test)]
mod tests;
