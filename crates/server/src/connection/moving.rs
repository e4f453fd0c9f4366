//! A connection leaves for another process between two requests, or comes from one.

use super::Connection;
use crate::acceptor::ListenerRef;
use crate::handover::line::Way;
use crate::handover::{Description, Opened, Parcel};
use crate::registry::Asked;
use crate::snapshot::ServerId;
use crate::worker::Worker;
use sealane_io::stream::{HandshakeTimes, Sealed};
use sealane_sys::time::monotonic_coarse_ms;
use sealane_tls::{Packed, UnpackError};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{AcquireError, OwnedSemaphorePermit};

/// A connection that waits for a place in the other process.
pub(super) struct Leaving {
    way: Arc<Way>,
    place: Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>,
}

/// Goes on with a connection that another process has served so far.
pub(crate) async fn adopt(worker: Arc<Worker>, mut parcel: Parcel) {
    let number = worker.process.next_connection();
    let stays = parcel.stays;
    // Until it is in the registry.
    let under_way = parcel.under_way.take();
    let opened = parcel.open(number);
    let Opened {
        description,
        facts,
        tls,
    } = match opened {
        Ok(opened) => opened,
        Err(error) => return worker.log_adoption(&error),
    };
    // Without a listener that begins like its own it is as if it had been idle for too long.
    let Some(place) = ListenerRef::new(&worker, &description.listener()) else {
        return;
    };
    if place.snapshot.listener(place.listener).acceptor.is_some() != tls.is_some() {
        return;
    }
    let facts = Arc::new(facts);
    let place = place.of_connection(&facts);
    worker.counters.active.add(1);
    let mut connection = Connection::new(worker, place, facts);
    drop(under_way);
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
    /// Between two requests: goes to the other process when that has a place. Ready when it has left,
    /// and nobody here may touch the socket any more.
    ///
    /// Until then it is served here. It stays when there is no other process, or none that takes
    /// it; its next response is the last one then.
    pub(super) fn poll_leave(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // What has come of a request stays with this process, and so does its answer.
        if self.stays || !self.buffer.is_empty() || !self.transport.is_movable() {
            self.leaving = None;
            return Poll::Pending;
        }
        let Some(way) = self.worker.process.way_out() else {
            self.leaving = None;
            return Poll::Pending;
        };
        let leaving = match &mut self.leaving {
            Some(leaving) if Arc::ptr_eq(&leaving.way, &way) => leaving,
            other => other.insert(Box::new(Leaving {
                place: Box::pin(way.place()),
                way,
            })),
        };
        let place = ready!(leaving.place.as_mut().poll(cx));
        let way = leaving.way.clone();
        self.leaving = None;
        match place {
            Ok(place) => self.leave(&way, place),
            // Nobody takes connections any more. The next way wakes this one.
            Err(_) => Poll::Pending,
        }
    }

    /// Leaves, if it can.
    fn leave(&mut self, way: &Way, place: OwnedSemaphorePermit) -> Poll<()> {
        let Ok(socket) = self.facts.socket.as_fd().try_clone_to_owned() else {
            return Poll::Pending;
        };
        let Ok(tls) = self.transport.pack() else {
            self.stays = true;
            return Poll::Pending;
        };
        let address = &self.snapshot.listener(self.listener).address;
        let (keep_alive, idle_ms) = (self.keep_alive, self.idle_ms());
        let description = Description::new(&self.facts, address, self.nodelay, keep_alive, idle_ms);
        way.send(
            place,
            Parcel {
                description,
                tls,
                socket,
                stays: false,
                under_way: Some(self.worker.process.travellers.one()),
            },
        );
        Poll::Ready(())
    }

    /// Whether a connection that is to move, or to finish, may have another request.
    pub(crate) fn may_go_on(&self) -> bool {
        match self.entry.asked() {
            Asked::Nothing => true,
            Asked::Move => !self.stays && self.worker.process.way_out().is_some(),
            Asked::Finish | Asked::Abort => false,
        }
    }

    /// Goes on with the TLS side that another process has packed.
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
            self.facts.set_tls(crate::tls_facts::collect(&info, times));
        }
        self.transport.start_tls(Sealed::established(tls));
        self.note_client();
        match self.settle_ktls().await {
            true => Ok(()),
            false => Err(UnpackError::NoServer),
        }
    }
}
