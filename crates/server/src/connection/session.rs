//! What sessions of layer 4 and of mail need of a connection.

use super::Connection;
use crate::limits::Permits;
use crate::stream::PassedTo;
use crate::transport::TransportError;
use sealane_conf::model::{ListenAddress, ServerKind};
use sealane_io::OutboundMessage;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Waits for a future, unless the session has to end before: then there is nothing.
pub(crate) async fn unless_aborted<F: Future>(
    is_to_abort: impl Fn() -> bool,
    future: F,
) -> Option<F::Output> {
    let mut waiting = pin!(future);
    poll_fn(|cx| match waiting.as_mut().poll(cx) {
        Poll::Pending if is_to_abort() => Poll::Ready(None),
        other => other.map(Some),
    })
    .await
}

impl Connection {
    /// The block that its listener belongs to.
    pub(super) fn kind(&self) -> ServerKind {
        self.snapshot.listener(self.listener).kind
    }

    /// The session is over, and the connection with it.
    pub(super) fn end_session(&self) {
        self.count_ktls();
        self.note_retirement();
        self.debug(format_args!("close connection"));
    }

    /// A session begins: from now on the registry can wake its task.
    pub(crate) async fn begin_session(&mut self) {
        self.remember_task().await;
    }

    /// Goes on as if another listener had accepted it (`pass`).
    pub(super) fn pass_to(&mut self, to: PassedTo) {
        let client = &mut self.client;
        client.listener = to.listener;
        let listener = client.snapshot.listener(to.listener);
        client.server = listener.names.default_server();
        client.facts.set_local(match to.address {
            ListenAddress::Inet(address) => Some(address),
            ListenAddress::Unix(_) | ListenAddress::Udp(_) => None,
        });
    }

    /// It cannot move to another process: that would not be told what it takes along from the
    /// listeners that have passed it on.
    pub(crate) fn stay(&mut self) {
        self.stays = true;
    }

    /// It counts in `limit_conn` until it closes.
    pub(crate) fn keep_permits(&mut self, permits: Permits) {
        self.permits.get_or_insert_default().extend(permits);
    }

    /// Counts that it is passed on; returns how often it was.
    pub(crate) fn note_pass(&mut self) -> u8 {
        self.passes = self.passes.saturating_add(1);
        self.passes
    }

    /// Sends what a session says to its client.
    ///
    /// # Errors
    /// Why the connection broke; `None` if the time is over, or the worker process ends.
    pub(crate) async fn send(
        &mut self,
        message: &mut OutboundMessage,
        timeout: Duration,
    ) -> Result<(), Option<TransportError>> {
        self.set_deadline(timeout);
        poll_fn(|cx| {
            if let Poll::Ready(sent) = self.transport.poll_send(cx, message) {
                return Poll::Ready(sent.map_err(Some));
            }
            match self.is_to_abort() {
                true => Poll::Ready(Err(None)),
                false => self.poll_expired(cx).map(|()| Err(None)),
            }
        })
        .await
    }
}
