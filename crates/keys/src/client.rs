//! The worker's side: operations on their way to a key process, and their results.
//!
//! Each worker thread has a channel of its own, and reads it in its event loop. Handshake threads,
//! which have no event loop, share those channels. When the key process dies, what was under way is
//! sent to the next one; handshakes wait for it, and established connections notice nothing.
//!
//! A device may be slow. While its oldest operation waits for too long, new ones are refused, so
//! that handshakes do not pile up. What a device fails to do, another process may do that has the
//! same key.

use crate::device_stats::DeviceStats;
use crate::line;
use crate::loading::Line;
use crate::wire::{self, MAX_UNDER_WAY, MAX_UNDER_WAY_BYTES};
use sealane_sys::poll;
use sealane_tls::KeyId;
use sealane_tls::accelerator::Job;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long handshakes wait for another key process before they fail at once.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How often an operation is sent. A key process that dies of one would otherwise die of it again.
const MAX_ATTEMPTS: u8 = 2;

/// How long a key process may be too busy to take a channel.
const OPENING: Duration = Duration::from_secs(1);

/// How often the operator is told of refusals at most.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Operations of a worker thread are sent together, at the end of its turn; so many are not kept
/// waiting for that.
const SENT_AT_ONCE: usize = 16;

/// Room for requests that is kept when they have been sent. Those of clients are longer.
const KEPT_BYTES: usize = 8 << 10;

/// Bytes that are read at a time: dozens of signatures.
const READ_BYTES: usize = 4 << 10;

/// Why a handshake fails that has come to more than [`wire::MAX_REQUEST_BYTES`].
const TOO_LONG: &str = "the other server's certificates, and the names of authorities that it asks \
                        for, are longer than the 128 KiB that the key process signs in TLS 1.2 and \
                        below";

/// Tells the operator, at level error.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

thread_local! {
    /// The channel of this thread.
    static OWN: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The channels of a worker process to one key process.
pub struct KeyClient {
    /// What operators call the process.
    name: Arc<str>,
    stats: DeviceStats,
    channels: Vec<Arc<Channel>>,
    next: AtomicUsize,
    tell: Tell,
    line: Line,
    /// Held while channels are opened.
    opening: Mutex<()>,
    /// When the operator was last told of a refusal.
    told: Mutex<Option<Instant>>,
}

/// The channel of one worker thread.
pub struct Channel {
    operations: Mutex<Operations>,
    /// There is another socket.
    renewed: Notify,
    /// Of the task that reads the channel.
    reader: Mutex<Option<Waker>>,
}

struct Operations {
    link: Link,
    last_number: u64,
    /// The task that reads the channel has been woken to send.
    is_reader_woken: bool,
    /// Sent, and not answered, by their numbers: the first is the oldest.
    under_way: BTreeMap<u64, Wanted>,
    /// What their requests have come to.
    under_way_bytes: usize,
    /// Not sent yet. Every job belongs to a connection that has been admitted.
    queue: VecDeque<Wanted>,
    /// The part of what was sent that the socket had no room for.
    unsent: Vec<u8>,
    /// The part of an answer that has arrived.
    received: Vec<u8>,
}

enum Link {
    Up(Arc<UnixStream>),
    Down(Instant),
}

/// An operation.
pub(crate) struct Wanted {
    key: KeyId,
    job: Job,
    attempts: u8,
    since: Instant,
    /// While the oldest operation waits for longer, this one is refused.
    max_wait: Option<Duration>,
    /// The process that computes what this one does not.
    fallback: Option<Arc<KeyClient>>,
}

impl Wanted {
    pub(crate) fn new(key: KeyId, job: Job) -> Self {
        Self {
            key,
            job,
            attempts: 0,
            since: Instant::now(),
            max_wait: None,
            fallback: None,
        }
    }

    pub(crate) fn with_limit(mut self, max_wait: Option<Duration>) -> Self {
        self.max_wait = max_wait;
        self
    }

    pub(crate) fn with_fallback(mut self, fallback: Option<Arc<KeyClient>>) -> Self {
        self.fallback = fallback;
        self
    }
}

/// What the task of a channel does next.
#[derive(Debug, PartialEq, Eq)]
pub enum ToDo {
    /// Operations are to be sent.
    Send,
    /// Something has arrived.
    Receive,
}

/// What reading a channel has come to.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// There is nothing more for now.
    Nothing,
    /// The key process is gone.
    Closed,
}

impl KeyClient {
    /// Channels for so many worker threads, which lead nowhere until [`connect`](Self::connect).
    pub fn new(name: &str, threads: usize, tell: Tell) -> Arc<Self> {
        let channels = (0..threads.max(1)).map(|_| {
            Arc::new(Channel {
                operations: Mutex::new(Operations {
                    link: Link::Down(Instant::now()),
                    last_number: 0,
                    is_reader_woken: false,
                    under_way: BTreeMap::new(),
                    under_way_bytes: 0,
                    queue: VecDeque::new(),
                    unsent: Vec::new(),
                    received: Vec::new(),
                }),
                renewed: Notify::new(),
                reader: Mutex::default(),
            })
        });
        Arc::new(Self {
            name: name.into(),
            stats: DeviceStats::default(),
            channels: channels.collect(),
            next: AtomicUsize::new(0),
            tell,
            line: Line::new(),
            opening: Mutex::default(),
            told: Mutex::default(),
        })
    }

    /// What operators call the process: that of keys from files, or a device.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What became of operations.
    pub fn stats(&self) -> &DeviceStats {
        &self.stats
    }

    /// Whether there is a process, and the last operation that has ended did not fail.
    pub fn is_up(&self) -> bool {
        let is_connected = |channel: &Arc<Channel>| matches!(channel.lock().link, Link::Up(_));
        !self.stats.is_failing() && self.channels.iter().any(is_connected)
    }

    /// Takes a line to a key process, which takes the place of the one before, and opens the
    /// channels over it.
    ///
    /// # Errors
    ///
    /// When there are no descriptors, or the process is gone already.
    pub fn connect(&self, process: OwnedFd) -> io::Result<()> {
        self.line.renew(process)?;
        self.open_channels()
    }

    /// Opens the channels, unless there are keys that the process is to have first.
    pub(crate) fn open_channels(&self) -> io::Result<()> {
        // Whoever is late must not have the channels lead to the process before.
        let _one_at_a_time = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((line, generation)) = self.line.take_ready() else {
            return Ok(());
        };
        let opened = self.open_over(line.as_fd());
        if opened.is_err() {
            self.line.lose(generation);
        }
        opened
    }

    fn open_over(&self, line: BorrowedFd<'_>) -> io::Result<()> {
        for channel in &self.channels {
            let (own, other) = UnixStream::pair()?;
            own.set_nonblocking(true)?;
            while let Err(error) = line::send_channel(line, other.as_fd()) {
                let has_room = error.kind() == io::ErrorKind::WouldBlock
                    && poll::wait(&[(line, poll::Interest::Writable)], Some(OPENING))?[0];
                if !has_room {
                    return Err(error);
                }
            }
            self.fail_all(channel.renew(own));
        }
        Ok(())
    }

    pub(crate) fn line(&self) -> &Line {
        &self.line
    }

    /// The channel of the worker thread with this number, which calls this and then reads it.
    pub fn own(&self, thread: usize) -> Arc<Channel> {
        let index = thread % self.channels.len();
        OWN.set(Some(index));
        Arc::clone(&self.channels[index])
    }

    /// Operations that wait or are under way.
    pub fn pending(&self) -> usize {
        let channels = self.channels.iter();
        let pending = channels.map(|channel| {
            let state = channel.lock();
            state.under_way.len() + state.queue.len()
        });
        pending.sum()
    }

    /// Reads a channel until nothing more has arrived, and completes jobs.
    pub fn receive(&self, channel: &Channel) -> Received {
        let (received, done, gone) = channel.receive();
        for (wanted, result) in done {
            match result {
                Ok(result) => {
                    self.stats.record_done(wanted.since.elapsed());
                    wanted.job.complete(Some(result));
                }
                Err(reason) => {
                    self.stats.record_failed();
                    self.tell_of(&wanted, reason);
                    self.fail(wanted);
                }
            }
        }
        self.fail_all(gone);
        received
    }

    /// Sends what a channel has kept until now.
    pub fn send(&self, channel: &Channel) {
        let mut gone = Vec::new();
        channel.lock().send(&mut gone);
        self.fail_all(gone);
    }

    /// Takes over an operation.
    pub(crate) fn submit(&self, wanted: Wanted) {
        if !wire::has_room_for(wanted.job.operation()) {
            self.stats.record_failed();
            self.tell_at_times(|| format!("a handshake fails: {TOO_LONG} (key {:?})", wanted.key));
            return; // whoever waits for it sees that it has ended
        }
        let own = OWN.get();
        let index = own.unwrap_or_else(|| {
            // Relaxed: it only spreads the load.
            self.next.fetch_add(1, Ordering::Relaxed)
        });
        let channel = &self.channels[index % self.channels.len()];
        match channel.submit(wanted, own.is_some()) {
            Submitted::Taken(gone) => self.fail_all(gone),
            Submitted::NoProcess(wanted) => {
                self.stats.record_failed();
                self.fail(wanted);
            }
            Submitted::TooSlow(wanted) => {
                self.stats.refused.add(1);
                self.tell_at_times(|| {
                    format!(
                        "handshakes are refused: \"{}\" has kept an operation waiting for longer \
                         than \"max_wait=\" of \"ssl_accelerator\"",
                        self.name
                    )
                });
                self.fail(wanted);
            }
        }
    }

    /// These were cancelled, or have failed. This wakes their connections, so no lock is held.
    fn fail_all(&self, all: Vec<Wanted>) {
        for wanted in all {
            self.fail(wanted);
        }
    }

    /// Another process computes it, or it has failed.
    fn fail(&self, mut wanted: Wanted) {
        let fallback = wanted.fallback.take();
        if let Some(fallback) = fallback.filter(|_| !wanted.job.is_cancelled()) {
            self.stats.fallbacks.add(1);
            fallback.submit(Wanted::new(wanted.key, wanted.job));
        }
    }

    /// Tells the operator of a refusal. Failures are counted only: a client may send what no key
    /// decrypts.
    fn tell_of(&self, wanted: &Wanted, reason: wire::Reason) {
        if reason == wire::Reason::Failed {
            return;
        }
        self.tell_at_times(|| {
            let (key, operation) = (wanted.key, wanted.job.operation());
            format!("a handshake fails: {reason} (key {key:?}, {operation:?})")
        });
    }

    /// Once a second at most.
    fn tell_at_times(&self, text: impl FnOnce() -> String) {
        let now = Instant::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = told.is_none_or(|at| now.saturating_duration_since(at) >= TOLD_EVERY);
        if is_due {
            *told = Some(now);
            drop(told);
            (self.tell)(&text());
        }
    }
}

/// What has become of an operation.
enum Submitted {
    /// It is on its way; others were cancelled or have failed.
    Taken(Vec<Wanted>),
    /// There is nobody who could do it.
    NoProcess(Wanted),
    /// See [`Wanted::max_wait`].
    TooSlow(Wanted),
}

impl Channel {
    /// The socket to wait for; `None` while there is no key process.
    pub fn socket(&self) -> Option<Arc<UnixStream>> {
        match &self.lock().link {
            Link::Up(socket) => Some(Arc::clone(socket)),
            Link::Down(_) => None,
        }
    }

    /// Waits until there may be another socket.
    pub async fn renewed(&self) {
        self.renewed.notified().await;
    }

    /// Polls for something to do: whether operations are to be [sent](KeyClient::send), or else
    /// what `input` says of the socket.
    pub fn poll(
        &self,
        cx: &mut Context<'_>,
        input: impl FnOnce(&mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<ToDo>> {
        {
            let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            if !reader
                .as_ref()
                .is_some_and(|known| known.will_wake(cx.waker()))
            {
                *reader = Some(cx.waker().clone());
            }
        }
        if std::mem::take(&mut self.lock().is_reader_woken) {
            return Poll::Ready(Ok(ToDo::Send));
        }
        input(cx).map_ok(|()| ToDo::Receive)
    }

    fn submit(&self, wanted: Wanted, is_own_thread: bool) -> Submitted {
        let mut state = self.lock();
        if let Link::Down(since) = state.link
            && (since.elapsed() >= PATIENCE || wanted.fallback.is_some())
        {
            return Submitted::NoProcess(wanted);
        }
        if let (Some(max_wait), Some(oldest)) = (wanted.max_wait, state.oldest())
            && wanted.since.saturating_duration_since(oldest) > max_wait
        {
            return Submitted::TooSlow(wanted);
        }
        // Cancelled jobs must not pile up.
        let mut gone = Vec::new();
        while state.queue.front().is_some_and(|it| it.job.is_cancelled()) {
            gone.extend(state.queue.pop_front());
        }
        state.queue.push_back(wanted);
        let wakes = is_own_thread && state.queue.len() < SENT_AT_ONCE;
        let wakes_first = wakes && !std::mem::replace(&mut state.is_reader_woken, wakes);
        if !wakes {
            state.send(&mut gone);
        }
        drop(state);
        if wakes_first {
            let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            let waker = reader.clone();
            drop(reader);
            match waker {
                Some(waker) => waker.wake(),
                None => self.lock().send(&mut gone), // nobody reads yet
            }
        }
        Submitted::Taken(gone)
    }

    /// Returns operations that were cancelled or have failed.
    fn renew(&self, socket: UnixStream) -> Vec<Wanted> {
        let mut state = self.lock();
        let mut gone = Vec::new();
        state.hang_up(&mut gone);
        state.link = Link::Up(Arc::new(socket));
        state.send(&mut gone);
        drop(state);
        self.renewed.notify_one();
        gone
    }

    /// Returns what has ended, and what was cancelled or has failed.
    fn receive(&self) -> (Received, Vec<Done>, Vec<Wanted>) {
        let mut done = Vec::new();
        let mut gone = Vec::new();
        let mut state = self.lock();
        let received = state.receive(&mut done);
        match received {
            Received::Nothing => state.send(&mut gone),
            Received::Closed => state.hang_up(&mut gone),
        }
        (received, done, gone)
    }

    fn lock(&self) -> MutexGuard<'_, Operations> {
        // Nothing under it panics.
        self.operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job that has ended.
type Done = (Wanted, Result<sealane_tls::Secret, wire::Reason>);

impl Operations {
    /// Since when the oldest operation waits.
    fn oldest(&self) -> Option<Instant> {
        let sent = self.under_way.first_key_value();
        let sent = sent.map(|(_, wanted)| wanted.since);
        let kept = self.queue.front().map(|wanted| wanted.since);
        sent.into_iter().chain(kept).min()
    }

    /// Sends as many operations as may be under way. Jobs that nobody waits for go to `gone`.
    fn send(&mut self, gone: &mut Vec<Wanted>) {
        self.is_reader_woken = false;
        let Link::Up(socket) = &self.link else {
            return;
        };
        while self.under_way.len() < MAX_UNDER_WAY
            && self.under_way_bytes < MAX_UNDER_WAY_BYTES
            && let Some(mut wanted) = self.queue.pop_front()
        {
            if wanted.job.is_cancelled() {
                gone.push(wanted);
                continue;
            }
            self.last_number += 1;
            wanted.attempts += 1;
            let operation = wanted.job.operation();
            self.under_way_bytes += wire::input_bytes(operation);
            wire::put_request(&mut self.unsent, self.last_number, wanted.key, operation);
            self.under_way.insert(self.last_number, wanted);
        }
        let mut sent = 0;
        while sent < self.unsent.len() {
            match (&**socket).write(&self.unsent[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // There is an answer before there is room, or the end; both are read.
                Err(_) => break,
            }
        }
        self.unsent.drain(..sent);
        if self.unsent.is_empty() {
            self.unsent.shrink_to(KEPT_BYTES);
        }
    }

    fn receive(&mut self, done: &mut Vec<Done>) -> Received {
        let Link::Up(socket) = &self.link else {
            return Received::Closed;
        };
        let mut piece = zeroize::Zeroizing::new([0; READ_BYTES]);
        loop {
            let count = match (&**socket).read(&mut *piece) {
                Ok(0) => return Received::Closed,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Received::Nothing;
                }
                Err(_) => return Received::Closed,
            };
            self.received.extend_from_slice(&piece[..count]);
            let mut rest = &self.received[..];
            loop {
                match wire::take_answer(&mut rest) {
                    Ok(Some((number, result))) => {
                        let result = result.map(|bytes| sealane_tls::Secret::new(bytes.to_vec()));
                        if let Some(wanted) = self.under_way.remove(&number) {
                            self.under_way_bytes -= wire::input_bytes(wanted.job.operation());
                            done.push((wanted, result));
                        }
                    }
                    Ok(None) => break,
                    Err(wire::Nonsense) => return Received::Closed,
                }
            }
            let taken = self.received.len() - rest.len();
            zeroize::Zeroize::zeroize(&mut self.received[..taken]);
            self.received.drain(..taken);
            if count < READ_BYTES {
                return Received::Nothing; // what arrives from now on is another event
            }
        }
    }

    /// The key process is gone: what was under way is sent to the next one, before all others.
    fn hang_up(&mut self, gone: &mut Vec<Wanted>) {
        if let Link::Up(_) = self.link {
            self.link = Link::Down(Instant::now());
        }
        self.unsent.clear();
        self.received.clear();
        self.under_way_bytes = 0;
        let under_way = std::mem::take(&mut self.under_way);
        let has_another_way = |wanted: &Wanted| wanted.fallback.is_some();
        let queue = std::mem::take(&mut self.queue);
        let (others, kept): (VecDeque<_>, _) = queue.into_iter().partition(has_another_way);
        self.queue = kept;
        gone.extend(others);
        for wanted in under_way.into_values().rev() {
            if wanted.attempts < MAX_ATTEMPTS && !has_another_way(&wanted) {
                self.queue.push_front(wanted);
            } else {
                gone.push(wanted);
            }
        }
    }
}

impl fmt::Debug for KeyClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyClient")
            .field("name", &self.name)
            .field("channels", &self.channels.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Channel")
            .field("is_up", &matches!(state.link, Link::Up(_)))
            .field("under_way", &state.under_way.len())
            .field("queued", &state.queue.len())
            .finish_non_exhaustive()
    }
}
