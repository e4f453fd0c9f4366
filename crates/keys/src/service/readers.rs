//! Threads that read channels.

use super::channel::{Channel, READ_BYTES, Reading};
use super::queue::Waiting;
use super::{Client, Shared, lock, start};
use crate::keyring::Key;
use crate::wire::{self, Reason, Request};
use sealane_sys::epoll::{Epoll, EventCounter, Watch};
use sealane_tls::accelerator::job;
use sealane_tls::{KeyId, KeyOperation};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The token of a thread's own counter.
const WOKEN: u64 = 0;

/// The threads.
pub(super) struct Readers {
    all: Vec<Arc<Inbox>>,
    next: AtomicUsize,
}

/// What a thread is told.
struct Inbox {
    woken: EventCounter,
    new: Mutex<Vec<Channel>>,
    go_on: Mutex<Vec<u64>>,
}

/// Has the thread that reads a channel go on with it.
pub(super) struct Wakeup {
    inbox: Arc<Inbox>,
    token: u64,
}

/// What a thread has.
struct Reader {
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    epoll: Epoll,
    channels: HashMap<u64, Read>,
    last_token: u64,
    buffer: Box<[u8; READ_BYTES]>,
}

/// A channel, with what was read of the next request.
struct Read {
    channel: Arc<Channel>,
    wakeup: Arc<Wakeup>,
    received: Vec<u8>,
    /// Behind what has arrived comes the end.
    has_ended: bool,
}

impl Readers {
    pub(super) fn start(shared: &Arc<Shared>, threads: usize) -> io::Result<Self> {
        let mut all = Vec::new();
        for index in 0..threads {
            let inbox = Arc::new(Inbox {
                woken: EventCounter::new()?,
                new: Mutex::default(),
                go_on: Mutex::default(),
            });
            let epoll = Epoll::new()?;
            epoll.add(inbox.woken.as_fd(), WOKEN, Watch::Input)?;
            let mut reader = Reader {
                shared: Arc::clone(shared),
                inbox: Arc::clone(&inbox),
                epoll,
                channels: HashMap::new(),
                last_token: WOKEN,
                buffer: Box::new([0; READ_BYTES]),
            };
            start(format!("keys-{index}"), move || reader.run())?;
            all.push(inbox);
        }
        Ok(Self {
            all,
            next: AtomicUsize::new(0),
        })
    }

    /// Hands a channel to the next thread. What is no socket is closed.
    pub(super) fn add(&self, channel: OwnedFd, client: &Arc<Client>) {
        let socket = UnixStream::from(channel);
        let is_local = socket.local_addr().is_ok();
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.all.len();
        if is_local {
            let inbox = &self.all[index];
            lock(&inbox.new).push(Channel::new(socket, client));
            inbox.woken.add();
        }
    }
}

impl Wakeup {
    pub(super) fn go_on(&self) {
        lock(&self.inbox.go_on).push(self.token);
        self.inbox.woken.add();
    }
}

impl Reader {
    fn run(&mut self) {
        loop {
            let mut ready = Vec::new();
            if self.epoll.wait(None, |event| ready.push(event)).is_err() {
                // Not that of one channel. The master starts another process.
                std::process::abort();
            }
            for event in ready {
                if event.token == WOKEN {
                    self.hear();
                    continue;
                }
                if let Some(read) = self.channels.get_mut(&event.token) {
                    read.has_ended |= event.ended;
                    if event.output {
                        read.channel.flush();
                    }
                }
                self.read(event.token);
            }
        }
    }

    fn hear(&mut self) {
        let inbox = Arc::clone(&self.inbox);
        let new = std::mem::take(&mut *lock(&inbox.new));
        for channel in new {
            self.last_token += 1;
            let token = self.last_token;
            let socket = channel.socket().as_fd();
            let added = self.epoll.add(socket, token, Watch::InputAndOutput);
            if added.is_err() {
                continue; // it is no socket, or there is no memory; the worker sees it close
            }
            let wakeup = Arc::new(Wakeup {
                inbox: Arc::clone(&self.inbox),
                token,
            });
            let read = Read {
                channel: Arc::new(channel),
                wakeup,
                received: Vec::new(),
                has_ended: false,
            };
            self.channels.insert(token, read);
        }
        let tokens = std::mem::take(&mut *lock(&inbox.go_on));
        for token in tokens {
            self.read(token);
        }
    }

    /// Reads what has arrived on a channel, and answers what can be answered at once.
    fn read(&mut self, token: u64) {
        let Some(read) = self.channels.get_mut(&token) else {
            return;
        };
        let is_over = loop {
            if read.channel.holds() {
                break false;
            }
            let (bytes, is_last) = match read.channel.read(&mut self.buffer) {
                Reading::Some(bytes) => (bytes, false),
                Reading::Last(bytes) => (bytes, true),
                Reading::Closed => break true,
            };
            read.received.extend_from_slice(bytes);
            let understood = read.understand(&self.shared);
            read.channel.flush();
            if understood.is_err() {
                break true;
            }
            // The end is not reported again.
            if is_last && !read.has_ended {
                break false;
            }
        };
        if is_over {
            read.channel.close();
            // The worker may have kept the socket: closing it here would not end its events.
            let _ = self.epoll.handle().remove(read.channel.socket().as_fd());
            self.channels.remove(&token);
        }
    }
}

impl Read {
    /// Takes the requests that are whole.
    fn understand(&mut self, shared: &Shared) -> Result<(), wire::Nonsense> {
        let mut rest = &self.received[..];
        let mut requests = Vec::new();
        let understood = loop {
            match wire::take_request(&mut rest) {
                Ok(Some(request)) => requests.push(request),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let taken = self.received.len() - rest.len();
        self.received.drain(..taken);
        if self.received.is_empty() {
            self.received.shrink_to(READ_BYTES); // after a long one
        }
        for request in requests {
            self.take(request, shared);
        }
        understood
    }

    fn take(&self, request: Request, shared: &Shared) {
        let Request {
            number,
            key,
            operation,
        } = request;
        let key = match find(shared, self.channel.client(), key, &operation) {
            Ok(key) => key,
            Err(reason) => return self.channel.answer(number, Err(reason)),
        };
        let is_decryption = matches!(operation, KeyOperation::Decrypt { .. });
        if is_decryption && !self.channel.client().may_decrypt() {
            return self.channel.answer(number, Err(Reason::TooMany));
        }
        if key.is_expensive() {
            shared.queue.push(Waiting {
                channel: Arc::clone(&self.channel),
                wakeup: Arc::clone(&self.wakeup),
                number,
                key,
                operation,
            });
            return;
        }
        let (job, mut pending) = job(operation.clone());
        key.accelerator().submit(job);
        let result = pending.try_take().flatten();
        match result.and_then(|result| key.answer(&operation, result)) {
            Some(bytes) => self.channel.answer(number, Ok(&bytes)),
            None => self.channel.answer(number, Err(Reason::Failed)),
        }
    }
}

/// The key for an operation: one of the configuration, or one that the worker process has loaded.
fn find(
    shared: &Shared,
    client: &Client,
    id: KeyId,
    operation: &KeyOperation,
) -> Result<Arc<Key>, Reason> {
    let held = shared.keyring.get(id);
    if let Some(key) = held.as_ref().filter(|key| key.permits(operation)) {
        return Ok(Arc::clone(key));
    }
    match client.loaded(id) {
        Some(key) if key.permits(operation) => Ok(key),
        None if held.is_none() => Err(Reason::UnknownKey),
        _ => Err(Reason::NotPermitted),
    }
}
