//! A peer that is reserved for a request, and the connection to it: where both come from and
//! where they are returned to.

use super::bound::Afterwards;
use super::failure::Failure;
use super::live::Changing;
use super::peer_connection::{self, PeerConnection};
use super::shared::{self, Call, SharedConnections};
use super::sticky::{Learnt, StickyRuntime};
use crate::exchange::Exchange;
use crate::worker::Worker;
use sealane_conf::model::{DubboPass, ServerKind, Template};
use sealane_tls::SharedSessions;
use sealane_upstream::pool::{ConnectionKey, Life};
use sealane_upstream::{Failure as PeerFailure, Group, IdlePool, Picked};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A group of servers with its state at run time.
pub(crate) struct GroupRuntime {
    /// The choice of peers.
    pub(crate) group: Group,
    /// Idle connections. Successive configurations share them.
    pub(crate) idle: Arc<IdlePool<PeerConnection>>,
    /// Connections that requests share. Successive configurations share them.
    pub(super) shared: Arc<SharedConnections>,
    /// The block that it belongs to.
    pub(crate) kind: ServerKind,
    /// It is an `upstream` block.
    pub(crate) explicit: bool,
    /// `least_time connect`: the time until the connection stands is measured.
    pub(crate) times_connecting: bool,
    /// The key of `hash`.
    pub(crate) hash_key: Option<Template>,
    /// `keepalive ... local`: a connection is reused only by the location that opened it.
    pub(crate) local: bool,
    /// `ntlm`: connections that are authenticated are bound to those of clients.
    pub(crate) ntlm: bool,
    /// `sticky`.
    pub(crate) sticky: Option<StickyRuntime>,
    /// Where nodes share what is found out about it.
    pub(super) store: Option<SharedSessions>,
    /// What it needs to be changed while the server runs.
    pub(super) changing: Changing,
}

/// A peer that was picked, with the connection to it.
pub(crate) struct Leased {
    group: Arc<GroupRuntime>,
    picked: Picked,
    key: ConnectionKey,
    thread: u32,
    life: Life,
    /// The connection that is bound to the client's, until it is taken. Never locked: tasks share
    /// references to a lease, and a connection alone does not allow that.
    bound: Mutex<Option<PeerConnection>>,
    /// What becomes of the connection.
    afterwards: Afterwards,
    /// What the request calls its session; empty without `sticky learn`.
    session: Vec<u8>,
    /// The session that the response belongs to.
    learnt: Option<Learnt>,
}

impl Leased {
    pub(crate) fn new(
        group: Arc<GroupRuntime>,
        picked: Picked,
        key: ConnectionKey,
        afterwards: Afterwards,
        worker: &Worker,
        now: Instant,
    ) -> Leased {
        Leased {
            group,
            picked,
            key,
            thread: worker.index,
            life: Life {
                opened: now,
                requests: 0,
            },
            bound: Mutex::new(None),
            afterwards,
            session: Vec::new(),
            learnt: None,
        }
    }

    /// The same with a connection that is bound to the client's.
    pub(super) fn with_bound(mut self, connection: PeerConnection, life: Life) -> Leased {
        self.bound = Mutex::new(Some(connection));
        self.life = life;
        self
    }

    /// The peer.
    pub(crate) fn picked(&self) -> &Picked {
        &self.picked
    }

    /// The group that it is a member of.
    pub(crate) fn group(&self) -> &Arc<GroupRuntime> {
        &self.group
    }

    /// The session of the request.
    pub(crate) fn session(&self) -> &[u8] {
        &self.session
    }

    /// Sets the session of the request.
    pub(crate) fn set_session(&mut self, session: Vec<u8>) {
        self.session = session;
    }

    /// A session to learn when the peer has done its job.
    pub(crate) fn set_learnt(&mut self, learnt: Learnt) {
        self.learnt = Some(learnt);
    }

    /// The response head has arrived.
    pub(crate) fn note_head(&mut self) {
        self.picked.note_header(Instant::now());
    }

    /// Requests that the connection carried before.
    pub(crate) fn is_reused(&self) -> bool {
        self.life.requests > 0
    }

    /// An idle connection to the peer.
    pub(crate) fn take_idle(&mut self, now: Instant) -> Option<PeerConnection> {
        let bound = self.bound.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(bound) = bound.take() {
            return Some(bound);
        }
        let taken = self.group.idle.take(
            self.thread,
            self.picked.peer(),
            &self.key,
            now,
            PeerConnection::is_quiet,
        )?;
        self.life = taken.life;
        Some(taken.connection)
    }

    /// A place on a connection that requests share.
    ///
    /// # Errors
    /// When it has too many.
    pub(super) fn join(&self, exchange: &Exchange, pass: &DubboPass) -> Result<Call, Failure> {
        let peer = self.picked.peer();
        shared::join(exchange, pass, &self.group, peer, &self.key)
    }

    /// The connection, which others have used before, ended instead of carrying this request.
    pub(crate) fn set_reused(&mut self) {
        self.life.requests = 1;
    }

    /// A connection for a session stands.
    pub(crate) fn note_connected(&mut self) {
        self.picked.note_connected();
        if self.group.times_connecting {
            self.note_head();
        }
    }

    /// The connection was opened just now.
    pub(crate) fn set_opened(&mut self) {
        self.life.opened = Instant::now();
        self.life.requests = 0;
    }

    /// The peer has done its job; `connection` can be reused.
    pub(crate) fn succeeded(self, connection: Option<PeerConnection>) {
        let now = Instant::now();
        if let Some(learnt) = self.learnt {
            learnt.save(self.picked.peer());
        }
        if let Some(connection) = connection {
            let life = Life {
                requests: self.life.requests + 1,
                ..self.life
            };
            let picked = &self.picked;
            match &self.afterwards {
                Afterwards::Closed => peer_connection::close(connection),
                Afterwards::Bound(client) => {
                    let bound = client.bound.get_or_init(Box::default);
                    let group = self.group.group.name();
                    bound.put(group, &self.key, picked, connection, life);
                }
                Afterwards::Shared => {
                    let (peer, idle) = (picked.peer(), &self.group.idle);
                    let closing = idle.put(self.thread, peer, &self.key, connection, life, now);
                    if let Some(connection) = closing {
                        peer_connection::close(connection);
                    }
                }
            }
        }
        self.picked.succeeded(now);
    }

    /// The peer failed, in the sense of `proxy_next_upstream`.
    pub(crate) fn failed(self) -> PeerFailure {
        self.picked.failed(Instant::now())
    }
}
