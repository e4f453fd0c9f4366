//! Moves a connection to another process between two requests, and adopts those of others.

use super::Connection;
use crate::acceptor::ListenerRef;
use crate::handover::channel::Channel;
use crate::handover::{AdoptedConnection, Description, MovedConnection};
use crate::snapshot::ServerId;
use crate::worker::Worker;
use sealane_io::registry::Asked;
use sealane_io::stream::{HandshakeTimes, Sealed};
use sealane_sys::time::monotonic_coarse_ms;
use sealane_tls::{Packed, UnpackError};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{AcquireError, OwnedSemaphorePermit};

/// A connection that waits for a credit of the other process.
pub(super) struct PendingMove {
    channel: Arc<Channel>,
    credit: Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>,
}

/// Serves a connection that another process has served so far.
pub(crate) async fn adopt(worker: Arc<Worker>, mut moved: MovedConnection) {
    let number = worker.process.next_connection();
    let stays = moved.stays;
    // Until it is in the registry.
    let in_flight = moved.in_flight.take();
    let adopted = moved.open(number);
    let AdoptedConnection {
        description,
        facts,
        tls,
    } = match adopted {
        Ok(adopted) => adopted,
        Err(error) => return worker.log_adoption(&error),
    };
    // Without a listener that matches its own it is closed, as after a time-out.
    let Some(listener) = ListenerRef::new(&worker, &description.listener()) else {
        return;
    };
    if listener
        .snapshot
        .listener(listener.listener)
        .acceptor
        .is_some()
        != tls.is_some()
    {
        return;
    }
    let facts = Arc::new(facts.debugged_by(&listener.snapshot.debug_connections));
    let listener = listener.of_connection(&facts);
    worker.counters.active.add(1);
    let mut connection = Connection::new(worker, listener, facts);
    drop(in_flight);
    connection.stays = stays;
    connection.nodelay = description.nodelay();
    connection.keep_alive = description.keep_alive();
    connection.idle_since_ms = monotonic_coarse_ms().saturating_sub(description.idle_ms());
    connection.remember_task().await;
    if let Some(tls) = tls
        && let Err(error) = connection.go_on_with(tls).await
    {
        return connection.worker.log_adoption(&error);
    }
    connection.serve_requests().await;
    connection.count_ktls();
}

impl Connection {
    /// Between two requests: moves to the other process once that grants a credit. Ready when the
    /// connection has been sent; its socket must not be touched any more.
    ///
    /// Until then it is served here. If there is no process that adopts it, it stays, and its
    /// next response is the last one.
    pub(super) fn poll_move_out(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // A request that has begun to arrive is answered by this process.
        if self.stays || !self.buffer.is_empty() || !self.transport.is_movable() {
            self.pending_move = None;
            return Poll::Pending;
        }
        let Some(channel) = self.worker.process.outbound_channel() else {
            self.pending_move = None;
            return Poll::Pending;
        };
        let pending = match &mut self.pending_move {
            Some(pending) if Arc::ptr_eq(&pending.channel, &channel) => pending,
            other => other.insert(Box::new(PendingMove {
                credit: Box::pin(channel.credit()),
                channel,
            })),
        };
        let credit = ready!(pending.credit.as_mut().poll(cx));
        let channel = pending.channel.clone();
        self.pending_move = None;
        match credit {
            Ok(credit) => self.move_out(&channel, credit),
            // No connections are taken any more. A new channel wakes this task.
            Err(_) => Poll::Pending,
        }
    }

    /// Sends the connection, if it can be packed.
    fn move_out(&mut self, channel: &Channel, credit: OwnedSemaphorePermit) -> Poll<()> {
        let Ok(socket) = self.facts.socket().as_fd().try_clone_to_owned() else {
            return Poll::Pending;
        };
        let Ok(tls) = self.transport.pack() else {
            self.stays = true;
            return Poll::Pending;
        };
        // The descriptor lives on, and this loop must not hear of it any more.
        self.facts.socket().unwatch();
        let address = &self.snapshot.listener(self.listener).address;
        let (keep_alive, idle_ms) = (self.keep_alive, self.idle_ms());
        let description = Description::new(&self.facts, address, self.nodelay, keep_alive, idle_ms);
        channel.send(
            credit,
            MovedConnection {
                description,
                tls,
                socket,
                stays: false,
                in_flight: Some(self.worker.process.in_flight.begin()),
            },
        );
        Poll::Ready(())
    }

    /// Whether the connection may have another request, though it is to move or to finish.
    pub(crate) fn may_go_on(&self) -> bool {
        match self.asked_now() {
            Asked::Nothing => true,
            Asked::Move => !self.stays && self.worker.process.outbound_channel().is_some(),
            Asked::Finish | Asked::Abort => false,
        }
    }

    /// Restores the TLS state that another process has packed.
    async fn go_on_with(&mut self, tls: Packed) -> Result<(), UnpackError> {
        let acceptor = self.snapshot.listener(self.listener).acceptor.as_ref();
        let acceptor = acceptor.ok_or(UnpackError::NoServer)?;
        let tls = sealane_tls::Connection::unpack(acceptor, tls)?;
        let times = HandshakeTimes {
            total: Duration::ZERO,
            queued: tls.queue_time(),
        };
        self.facts.set_secure();
        self.server = ServerId(tls.selected_token());
        if self.snapshot.uses_tls_facts
            && let Some(info) = tls.info()
        {
            self.facts
                .set_tls(crate::tls_facts::collect(&info, Some(times)));
        }
        self.transport.start_tls(Sealed::established(tls));
        self.note_client();
        match self.settle_ktls().await {
            true => Ok(()),
            false => Err(UnpackError::NoServer),
        }
    }
}
