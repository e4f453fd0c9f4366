//! A listening socket of one thread, and the sessions of its clients.

use super::Traffic;
use super::session::{Inner, Session};
use sealane_io::datagram::DatagramSocket;
use sealane_io::runtime;
use sealane_sys::socket::{BATCH_MESSAGES, ReceivedBatch, ReceivedMessages};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

/// The limits of a listening socket.
#[derive(Debug, Clone, Copy)]
pub struct ListenerSettings<'s> {
    /// `proxy_requests`: a session that begins gets so many datagrams; the next one from there
    /// begins another session. 0 for no limit.
    pub max_requests: u64,
    /// The same for sessions at some of the addresses that the socket stands for.
    pub max_requests_at: &'s [(IpAddr, u64)],
    /// Sessions at a time. The first datagram of another one is dropped.
    pub max_sessions: usize,
    /// Datagrams that wait for a session: its server is still being chosen, or slower than they
    /// come. Others are dropped, but for those of the batch that made them so many.
    pub session_packets: usize,
    /// Bytes of these datagrams.
    pub session_bytes: usize,
    /// Bytes of the datagrams that wait for all sessions together.
    pub waiting_bytes: usize,
}

impl Default for ListenerSettings<'_> {
    fn default() -> Self {
        ListenerSettings {
            max_requests: 0,
            max_requests_at: &[],
            max_sessions: usize::MAX,
            session_packets: 256,
            session_bytes: 256 << 10,
            waiting_bytes: 16 << 20,
        }
    }
}

/// The sessions of a listening socket. Somebody must poll it as long as there are any: it is also
/// what gives them their datagrams.
pub struct DatagramListener {
    table: Rc<Table>,
    /// Begun by the last batch.
    begun: VecDeque<Session>,
    /// Others have not had their turn since the last batch.
    has_received: bool,
    refuses: bool,
}

/// What a listening socket and its sessions share.
pub(super) struct Table {
    pub(super) socket: DatagramSocket,
    pub(super) address: SocketAddr,
    /// Those that get what comes from their client.
    bound: RefCell<HashMap<Key, Rc<Inner>>>,
    /// All that exist.
    sessions: Cell<usize>,
    waiting_bytes: Cell<usize>,
    dropped: Cell<u64>,
    /// Batches that were received.
    batches: Cell<u64>,
    /// Sessions that wait for room in the socket.
    pub(super) writers: Arc<Waiters>,
    /// The listener, once it waits for its last session.
    last: RefCell<Option<Waker>>,
}

/// A client, and the address that it has sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) client: SocketAddr,
    /// If the socket has several.
    pub(super) local: Option<IpAddr>,
}

impl DatagramListener {
    /// A listener on a socket that is bound to `address`.
    pub fn new(socket: DatagramSocket, address: SocketAddr) -> DatagramListener {
        DatagramListener {
            table: Rc::new(Table {
                socket,
                address,
                bound: RefCell::default(),
                sessions: Cell::new(0),
                waiting_bytes: Cell::new(0),
                dropped: Cell::new(0),
                batches: Cell::new(0),
                writers: Arc::default(),
                last: RefCell::default(),
            }),
            begun: VecDeque::new(),
            has_received: false,
            refuses: false,
        }
    }

    /// The next new session; whoever cannot serve it drops it. `None` once new ones are refused and
    /// the last has ended. The settings are for what is received now: a reload may change them.
    ///
    /// # Errors
    /// The errno of receiving. The socket may go on to work.
    pub fn poll_session(
        &mut self,
        cx: &mut Context<'_>,
        settings: &ListenerSettings<'_>,
    ) -> Poll<Option<io::Result<Session>>> {
        loop {
            if let Some(session) = self.begun.pop_front() {
                return Poll::Ready(Some(Ok(session)));
            }
            // Sessions have their turn before more is received: until then it is well kept in the
            // socket's buffer, where it counts against nobody's limits.
            if std::mem::take(&mut self.has_received) {
                runtime::defer(cx.waker().clone());
                return Poll::Pending;
            }
            if self.refuses {
                if self.table.sessions.get() == 0 {
                    return Poll::Ready(None);
                }
                *self.table.last.borrow_mut() = Some(cx.waker().clone());
            }
            let (table, begun) = (&self.table, &mut self.begun);
            let settings = ListenerSettings {
                max_sessions: match self.refuses {
                    true => 0,
                    false => settings.max_sessions,
                },
                ..*settings
            };
            let distribute = |batch: &mut ReceivedBatch| {
                table.batches.set(table.batches.get().wrapping_add(1));
                for message in batch.messages() {
                    table.distribute(&message, &settings, begun);
                }
            };
            if let Err(error) = ready!(table.socket.poll_receive(cx, BATCH_MESSAGES, distribute)) {
                return Poll::Ready(Some(Err(error)));
            }
            self.has_received = true;
        }
    }

    /// No session begins any more. Those that have begun are still returned, and all go on as long
    /// as this is polled: poll it now.
    pub fn refuse_new(&mut self) {
        self.refuses = true;
    }

    /// Sessions begin again.
    pub fn accept_new(&mut self) {
        self.refuses = false;
    }

    /// Sessions that the last batch has begun, and that have not been returned yet: before the
    /// listener is dropped. Those that have begun can still send then, but receive nothing more.
    pub fn take_begun(&mut self) -> impl Iterator<Item = Session> {
        self.begun.drain(..)
    }

    /// Sessions that exist.
    pub fn sessions(&self) -> usize {
        self.table.sessions.get()
    }

    /// Datagrams that were dropped because a limit was reached, or new sessions are refused.
    pub fn dropped(&self) -> u64 {
        self.table.dropped.get()
    }
}

impl Table {
    /// Gives the datagrams of one client to its session.
    fn distribute(
        self: &Rc<Table>,
        message: &ReceivedMessages<'_>,
        settings: &ListenerSettings<'_>,
        begun: &mut VecDeque<Session>,
    ) {
        let Some(client) = message.source.filter(|_| !message.is_truncated) else {
            return;
        };
        let key = Key {
            client,
            local: message.local,
        };
        let mut session = self.bound.borrow().get(&key).cloned();
        for datagram in message.datagrams() {
            let is_bound = session
                .as_ref()
                .is_some_and(|session| session.is_bound.get());
            if !is_bound {
                if let Some(full) = session.take() {
                    full.wake();
                }
                if !self.has_room_for_session(settings, datagram) {
                    self.note_dropped();
                    continue;
                }
                let new = self.begin(key, settings);
                session = Some(Rc::clone(&new.inner));
                begun.push_back(new);
            }
            if let Some(session) = &session {
                self.deliver(settings, key, session, datagram);
            }
        }
        if let Some(session) = session {
            session.wake();
        }
    }

    fn has_room_for_session(&self, settings: &ListenerSettings<'_>, datagram: &[u8]) -> bool {
        self.sessions.get() < settings.max_sessions
            && self.waiting_bytes.get() + datagram.len() <= settings.waiting_bytes
    }

    fn begin(self: &Rc<Table>, key: Key, settings: &ListenerSettings<'_>) -> Session {
        let mut others = settings.max_requests_at.iter();
        let other = others.find(|(ip, _)| Some(*ip) == key.local);
        let max_requests = other.map_or(settings.max_requests, |(_, max)| *max);
        let inner = Rc::new(Inner::new(key, max_requests));
        self.bound.borrow_mut().insert(key, Rc::clone(&inner));
        self.sessions.set(self.sessions.get() + 1);
        Session {
            table: Rc::clone(self),
            inner,
        }
    }

    fn deliver(&self, settings: &ListenerSettings<'_>, key: Key, session: &Inner, datagram: &[u8]) {
        let mut waiting = session.waiting.borrow_mut();
        // What came in one batch the session could not have taken yet.
        if session.last_batch.replace(self.batches.get()) != self.batches.get() {
            let is_full = waiting.count() >= settings.session_packets
                || waiting.byte_count() >= settings.session_bytes;
            session.is_full.set(is_full);
        }
        let fits = !session.is_full.get()
            && self.waiting_bytes.get() + datagram.len() <= settings.waiting_bytes;
        if !fits {
            self.note_dropped();
            return;
        }
        waiting.push(datagram);
        self.waiting_bytes
            .set(self.waiting_bytes.get() + datagram.len());
        let mut received = session.received.get();
        received.add(Traffic {
            packets: 1,
            bytes: datagram.len() as u64,
        });
        session.received.set(received);
        if session.max_requests > 0 && received.packets >= session.max_requests {
            session.is_bound.set(false);
            self.bound.borrow_mut().remove(&key);
        }
    }

    fn note_dropped(&self) {
        self.dropped.set(self.dropped.get() + 1);
    }

    /// The session has taken these bytes.
    pub(super) fn note_taken(&self, bytes: usize) {
        self.waiting_bytes.set(self.waiting_bytes.get() - bytes);
    }

    /// The session has ended.
    pub(super) fn end(&self, session: &Inner) {
        if session.is_bound.replace(false) {
            self.bound.borrow_mut().remove(&session.key);
        }
        self.note_taken(session.waiting.borrow().byte_count());
        self.sessions.set(self.sessions.get() - 1);
        if self.sessions.get() == 0
            && let Some(listener) = self.last.borrow_mut().take()
        {
            listener.wake();
        }
    }
}

/// Everyone who waits for the same thing: the event loop knows one waker for each socket and
/// direction.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<Vec<Waker>>);

impl Waiters {
    pub(super) fn add(&self, waker: &Waker) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }
}

impl Wake for Waiters {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.into_iter().for_each(Waker::wake);
    }
}
