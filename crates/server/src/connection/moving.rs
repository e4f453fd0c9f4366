//! A connection leaves for another process between two requests, or comes from one.

use super::Connection;
use crate::acceptor::Place;
use crate::handover::{Description, Opened, Parcel};
use crate::snapshot::ServerId;
use crate::tls_stream::{HandshakeTimes, TlsStream};
use crate::worker::Worker;
use sealane_tls::{Packed, UnpackError};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Goes on with a connection that another process has served so far.
pub(crate) async fn adopt(worker: Arc<Worker>, parcel: Parcel) {
    let number = worker.process.next_connection();
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
    let Some(place) = Place::new(&worker, &description.listener()) else {
        return;
    };
    if place.snapshot.listener(place.listener).acceptor.is_some() != tls.is_some() {
        return;
    }
    let facts = Arc::new(facts);
    let place = place.of_connection(&facts);
    worker.counters.active.add(1);
    let mut connection = Connection::new(worker, place, facts);
    connection.nodelay = description.nodelay();
    connection.keepalive_timeout = description.keepalive_timeout();
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
    /// Hands the connection to another process. False when it cannot move, and is to finish
    /// here; otherwise nobody here may touch the socket any more.
    pub(super) fn move_out(&mut self) -> bool {
        let Some(way) = self.worker.process.way_out() else {
            return false;
        };
        let Ok(socket) = self.facts.socket.as_fd().try_clone_to_owned() else {
            return false;
        };
        let Ok(tls) = self.transport.pack() else {
            return false;
        };
        let address = &self.snapshot.listener(self.listener).address;
        let (nodelay, timeout) = (self.nodelay, self.keepalive_timeout);
        let description = Description::new(&self.facts, address, nodelay, timeout);
        // Without TLS nobody here can speak to the client any more, whatever comes of it.
        let is_secure = tls.is_some();
        let parcel = Parcel {
            description,
            tls,
            socket,
        };
        way.send(parcel) || is_secure
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
        self.transport.start_tls(TlsStream::moved(tls));
        match self.settle_ktls().await {
            true => Ok(()),
            false => Err(UnpackError::NoServer),
        }
    }
}
