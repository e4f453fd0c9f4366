//! The worker's side of keys that it has the key process load: those whose file names have
//! variables.
//!
//! They go over the line of the worker process, and one of its threads reads the answers in its
//! event loop. A key is held for as long as there is its [`Lease`]. When the key process dies, it
//! has lost these keys, and their leases are current no more: whoever has kept such a key loads it
//! again.
//!
//! Keys of certificates from ACME servers are kept: each key process is given them before it gets
//! any operation.

use crate::client::{KeyClient, PATIENCE, Received};
use crate::line::{self, Loaded};
use crate::service::MAX_LOADING;
use sealane_sys::poll;
use sealane_tls::{KeyHandle, KeyId};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

/// Between two looks at whether a key that is kept is held.
const LOOK: Duration = Duration::from_millis(5);

/// How often a key is sent. A key process that dies of one would otherwise die of it again.
const MAX_ATTEMPTS: u8 = 2;

/// A key that is held for this worker process.
#[derive(Debug)]
pub struct LoadedKey {
    /// Its handle.
    pub handle: KeyHandle,
    /// Whether its file needs a password.
    pub is_encrypted: bool,
    /// While it lives, the key is held.
    pub lease: Arc<Lease>,
}

/// Has the key process hold a key.
pub struct Lease {
    client: Arc<KeyClient>,
    id: KeyId,
    of: Leased,
}

/// For how long a lease is good.
#[derive(Clone, Copy)]
enum Leased {
    /// For one process: the generation of its line.
    Process(u64),
    /// For all: the number of a key that is kept.
    Kept(u64),
}

impl Lease {
    /// Whether the process that has the key still runs, or the next one gets it as well.
    pub fn is_current(&self) -> bool {
        match self.of {
            Leased::Process(generation) => self.client.line().lock().generation == generation,
            Leased::Kept(_) => true,
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.client.line().lock();
        let is_held = match self.of {
            Leased::Process(generation) => generation == state.generation,
            Leased::Kept(number) => {
                let kept = state.kept.remove(&number);
                // If it is on its way, it is forgotten when the answer comes.
                kept.is_some_and(|kept| {
                    kept.held_by == Some(state.generation) && kept.refusal.is_none()
                })
            }
        };
        if is_held {
            state.forgotten.push_back(self.id);
            state.flush();
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({:?})", self.id)
    }
}

/// The right to have a key loaded: only so many are at a time.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

/// The line of a worker process to a key process. While it is open, the key process knows that
/// there is a worker.
pub(crate) struct Line {
    state: Mutex<Loading>,
    /// There is another line.
    renewed: Notify,
    turns: Arc<Semaphore>,
}

struct Loading {
    fd: Option<Arc<OwnedFd>>,
    /// Since when there is no process.
    lost: Instant,
    /// Counts lines.
    generation: u64,
    /// The line over which channels were opened.
    opened: u64,
    last_number: u64,
    /// Keys that were sent over this line and not answered: the process cuts off whoever sends more
    /// than [`MAX_LOADING`].
    under_way: usize,
    /// Keys that were not answered, by their numbers.
    waiting: BTreeMap<u64, Waiting>,
    /// Keys that each process is to have.
    kept: BTreeMap<u64, Kept>,
    /// Keys to be forgotten, of which the process was not told.
    forgotten: VecDeque<KeyId>,
}

/// A key that each process is given.
struct Kept {
    memory: OwnedFd,
    /// The number under which it was sent, while there is no answer.
    sent: Option<u64>,
    /// The generation of the line over which the answer came.
    held_by: Option<u64>,
    /// Why the process does not hold it.
    refusal: Option<String>,
}

struct Waiting {
    memory: OwnedFd,
    is_sent: bool,
    attempts: u8,
    answer: oneshot::Sender<Answer>,
}

/// A key and the generation of its line, or why it is not held.
type Answer = Result<(Loaded, u64), String>;

impl Line {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(Loading {
                fd: None,
                lost: Instant::now(),
                generation: 0,
                opened: 0,
                last_number: 0,
                under_way: 0,
                waiting: BTreeMap::new(),
                kept: BTreeMap::new(),
                forgotten: VecDeque::new(),
            }),
            renewed: Notify::new(),
            turns: Arc::new(Semaphore::new(MAX_LOADING)),
        }
    }

    /// Takes the line to the process that takes the place of the one before.
    pub(crate) fn renew(&self, line: OwnedFd) -> io::Result<()> {
        let line = UnixStream::from(line);
        line.set_nonblocking(true)?;
        let mut state = self.lock();
        state.hang_up();
        state.fd = Some(Arc::new(line.into()));
        state.generation += 1;
        let over = |_: &u64, waiting: &mut Waiting| waiting.attempts >= MAX_ATTEMPTS;
        let over: Vec<_> = state.waiting.extract_if(.., over).collect();
        state.flush();
        drop(state);
        for (_, waiting) in over {
            let why = "the key process has died twice while it was to be loaded";
            let _ = waiting.answer.send(Err(why.to_owned()));
        }
        self.renewed.notify_one();
        Ok(())
    }

    /// The line with its generation, once, when the process has all that is kept: channels may be
    /// opened.
    pub(crate) fn take_ready(&self) -> Option<(Arc<OwnedFd>, u64)> {
        let mut state = self.lock();
        let generation = state.generation;
        let is_held = |kept: &Kept| kept.held_by == Some(generation);
        if state.opened == generation || !state.kept.values().all(is_held) {
            return None;
        }
        let line = state.fd.clone()?;
        state.opened = generation;
        Some((line, generation))
    }

    /// The process of this line is of no use.
    pub(crate) fn lose(&self, generation: u64) {
        let mut state = self.lock();
        if state.generation == generation {
            state.hang_up();
        }
    }

    /// Nothing under it panics.
    fn lock(&self) -> MutexGuard<'_, Loading> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loading {
    /// Sends what was not sent, as far as there is room.
    fn flush(&mut self) {
        let Some(line) = &self.fd else {
            return;
        };
        // That there is no room, or nobody, shows when the line is read.
        while let Some(key) = self.forgotten.front() {
            if line::send_forget(line.as_fd(), *key).is_err() {
                return;
            }
            self.forgotten.pop_front();
        }
        // What is kept goes first: operations wait for it.
        for kept in self.kept.values_mut() {
            if kept.sent.is_some() || kept.held_by == Some(self.generation) {
                continue;
            }
            let number = self.last_number + 1;
            let memory = kept.memory.as_fd();
            let is_full = self.under_way >= MAX_LOADING;
            if is_full || line::send_load(line.as_fd(), number, memory).is_err() {
                return;
            }
            self.last_number = number;
            kept.sent = Some(number);
            self.under_way += 1;
        }
        self.waiting
            .retain(|_, waiting| waiting.is_sent || !waiting.answer.is_closed());
        for (number, waiting) in self.waiting.iter_mut().filter(|(_, it)| !it.is_sent) {
            let memory = waiting.memory.as_fd();
            let is_full = self.under_way >= MAX_LOADING;
            if is_full || line::send_load(line.as_fd(), *number, memory).is_err() {
                return;
            }
            waiting.is_sent = true;
            waiting.attempts += 1;
            self.under_way += 1;
        }
    }

    /// An answer that nobody waits for: it is about a key that is kept, or was until now.
    fn settle(&mut self, number: u64, result: Result<Loaded, String>) {
        let mut kept = self.kept.values_mut();
        match (kept.find(|kept| kept.sent == Some(number)), result) {
            (Some(kept), result) => {
                kept.sent = None;
                kept.held_by = Some(self.generation);
                kept.refusal = result.err();
            }
            (None, Ok(loaded)) => self.forgotten.push_back(loaded.handle.id),
            (None, Err(_)) => {}
        }
    }

    /// The process is gone, and all its keys with it.
    fn hang_up(&mut self) {
        if self.fd.take().is_some() {
            self.lost = Instant::now();
        }
        self.under_way = 0;
        self.forgotten.clear();
        self.waiting.values_mut().for_each(|it| it.is_sent = false);
        self.kept.values_mut().for_each(|it| it.sent = None);
    }
}

impl KeyClient {
    /// Waits until another key may be loaded.
    pub async fn turn_to_load(&self) -> Turn {
        let turns = Arc::clone(&self.line().turns);
        Turn(turns.acquire_owned().await.expect("it is never closed"))
    }

    /// Has a key held that was [sealed](crate::deposit::Deposit::seal).
    ///
    /// # Errors
    ///
    /// Why it is not, in words for the operator.
    pub async fn load(self: &Arc<Self>, turn: Turn, memory: OwnedFd) -> Result<LoadedKey, String> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.line().lock();
            if state.fd.is_none() && state.lost.elapsed() >= PATIENCE {
                return Err("there is no key process".to_owned());
            }
            state.last_number += 1;
            let number = state.last_number;
            let waiting = Waiting {
                memory,
                is_sent: false,
                attempts: 0,
                answer,
            };
            state.waiting.insert(number, waiting);
            state.flush();
        }
        let answered = answered.await;
        drop(turn);
        let answer = answered.map_err(|_| "there is no key process".to_owned())?;
        answer.map(|(loaded, generation)| self.leased(loaded, generation))
    }

    /// Has each key process hold a key, from now on. Waits until the present one does, for as long
    /// as `patience`; one that does not answer gets it before any operation.
    ///
    /// # Errors
    ///
    /// Why it is not held.
    pub fn keep(
        self: &Arc<Self>,
        id: KeyId,
        memory: OwnedFd,
        patience: Duration,
    ) -> Result<Arc<Lease>, String> {
        let number = {
            let mut state = self.line().lock();
            state.last_number += 1;
            let number = state.last_number;
            let kept = Kept {
                memory,
                sent: None,
                held_by: None,
                refusal: None,
            };
            state.kept.insert(number, kept);
            state.flush();
            number
        };
        let lease = Arc::new(Lease {
            client: Arc::clone(self),
            id,
            of: Leased::Kept(number),
        });
        let deadline = Instant::now() + patience;
        loop {
            // Worker threads may not have begun to read it.
            self.receive_loaded();
            let state = self.line().lock();
            let kept = state.kept.get(&number);
            match kept.filter(|kept| kept.held_by == Some(state.generation)) {
                Some(Kept {
                    refusal: Some(why), ..
                }) => return Err(why.clone()),
                Some(_) => return Ok(lease),
                None if Instant::now() >= deadline => return Ok(lease),
                None => {}
            }
            let line = state.fd.clone();
            drop(state);
            match line {
                // That it ends shows when it is read.
                Some(line) => drop(poll::wait_readable(&[line.as_fd()], Some(LOOK))),
                None => std::thread::sleep(LOOK),
            }
        }
    }

    fn leased(self: &Arc<Self>, loaded: Loaded, generation: u64) -> LoadedKey {
        LoadedKey {
            lease: Arc::new(Lease {
                client: Arc::clone(self),
                id: loaded.handle.id,
                of: Leased::Process(generation),
            }),
            handle: loaded.handle,
            is_encrypted: loaded.is_encrypted,
        }
    }

    /// The line to wait for, for input and for room; `None` while there is no key process.
    pub fn line_fd(&self) -> Option<Arc<OwnedFd>> {
        self.line().lock().fd.clone()
    }

    /// Waits until there may be another line.
    pub async fn line_renewed(&self) {
        self.line().renewed.notified().await;
    }

    /// Reads answers until nothing more has arrived, and sends what there was no room for.
    pub fn receive_loaded(self: &Arc<Self>) -> Received {
        let mut done = Vec::new();
        let mut state = self.line().lock();
        let generation = state.generation;
        let received = loop {
            let Some(line) = &state.fd else {
                break Received::Closed;
            };
            match line::receive_loaded(line.as_fd()) {
                Ok(Some((number, result))) => {
                    state.under_way = state.under_way.saturating_sub(1);
                    match state.waiting.remove(&number) {
                        Some(waiting) => done.push((waiting, result)),
                        None => state.settle(number, result),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    state.flush();
                    break Received::Nothing;
                }
                Ok(None) | Err(_) => {
                    state.hang_up();
                    break Received::Closed;
                }
            }
        };
        drop(state);
        for (waiting, result) in done {
            let result = result.map(|loaded| (loaded, generation));
            // If nobody waits for it any more, it is not needed.
            if let Err(Ok((loaded, generation))) = waiting.answer.send(result) {
                drop(self.leased(loaded, generation));
            }
        }
        match self.open_channels() {
            Ok(()) => received,
            Err(_) => Received::Closed,
        }
    }
}
