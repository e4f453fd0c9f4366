//! The TLS handshake of a connection and its time-out, and whether the kernel seals afterwards.
//!
//! # A handshake that waits
//!
//! Four states describe it, each kept by one type and changed by that type alone. From the
//! socket inwards:
//!
//! | | state | file | answers |
//! |---|---|---|---|
//! | 1 | `HandshakeWait` of `Sealed` | `io/src/stream/handshake.rs` | what does the task wait for? |
//! | 2 | `HandshakeSlot` | `io/src/turns.rs` | may it use the worker now? |
//! | 3 | `ConnectionState` | `tls/src/connection.rs` | who has the handshake? |
//! | 4 | `FlightState` of `Slot` | `tls/src/offload/flight.rs` | where is the flight? |
//!
//! ```text
//! 1      Input --- bytes from the client ---+      +--- poll_pending() is ready --- Asked
//!          ^                                v      v     (then: Answered)             ^
//!          |                 poll_turn() of 2, then handshake() of 3                  |
//!          +--- WantRead ---------------+   |      +-------------- Pending -----------+
//!                                           +--- Done, or an error: the handshake is over
//!
//! 2      idle --- the turn's budget is spent, or others wait ---> queued --- granted ---+
//!          |                                                                            v
//!          +--------------------------- there is time ------------------------------> Turn
//!          ^                                                                            |
//!          +------------------------ Turn is dropped: the next is granted --------------+
//!        counted as in flight: while 1 is Asked and 3 is Away or Signing
//!
//! 3      Hello --- complete ---> Running --- wants the key ---> Signing   (an accelerator)
//!          |                      ^  ^ |                           |  or Away  (a thread: 4)
//!          |                      |  | +--- Done                   |
//!          +--- Waiting ----------+  +--- signed, or landed -------+
//!               (certificates, the session store)
//!        A flight that is known to need the key goes from Hello or Waiting to Away at once.
//!
//! 4      Away --- a job was submitted ---> Parked --- it is done ---> Away --- over ---> Landed
//!        any --- FlightHandle is dropped ---> Abandoned: whoever has the flight drops it
//! ```
//!
//! What ends a handshake from outside (the deadline, `Asked::Abort`, a client that has gone) drops
//! the `Sealed` stream, and with it everything above: the slot leaves the queue, the flight is
//! abandoned, the job cancelled.

use super::Connection;
use crate::admission::{self, Refused};
use crate::client_certificates::ClientFacts;
use crate::debug_log;
use crate::snapshot::ServerId;
use sealane_conf::model::LogLevel;
use sealane_io::registry::Asked;
use sealane_io::runtime;
use sealane_io::stream::{HandshakeTimes, Sealed};
use std::future::poll_fn;
use std::task::Poll;

impl Connection {
    /// Completes the TLS handshake, whose first bytes are in the buffer.
    pub(crate) async fn handshake(&mut self) -> bool {
        let worker = self.worker.clone();
        let received = std::mem::take(&mut self.buffer);
        let connection = sealane_tls::Connection::accept(&self.tls_acceptor());
        let slot = worker.turns.place();
        self.transport
            .start_tls(Sealed::accepting(connection, received, slot));
        if !admission::has_room(&worker.turns, self.snapshot.handshake_queue) {
            self.refuse_handshake(Refused::QueueFull).await;
            return false;
        }
        let outcome = poll_fn(|cx| {
            if self.asked() == Asked::Abort {
                return Poll::Ready(None);
            }
            // Checked first, so that no work is spent on a handshake that has waited too long.
            if self.poll_expired(cx).is_ready() {
                return Poll::Ready(None);
            }
            let has_others = worker.counters.active.get() > 1;
            self.transport.poll_handshake(cx, has_others).map(Some)
        })
        .await;
        match outcome {
            Some(Ok(times)) => {
                runtime::establish();
                self.note_handshake(times);
                self.restore_header_timeout();
                self.settle_ktls().await
            }
            Some(Err(error)) => {
                self.count_failed_handshake();
                self.log_broken(&error, "while SSL handshaking");
                false
            }
            None if self.refuse_handshake(Refused::WaitedTooLong).await => false,
            None => {
                self.count_failed_handshake();
                self.log(
                    LogLevel::Info,
                    "client timed out (110: Connection timed out) while SSL handshaking",
                );
                false
            }
        }
    }

    /// Refuses the handshake with an alert, counts and logs it. False when the handshake has begun
    /// and can no longer be refused.
    async fn refuse_handshake(&mut self, why: Refused) -> bool {
        let refused = poll_fn(|cx| Poll::Ready(self.transport.refuse_handshake(cx)));
        let Some(error) = refused.await else {
            return false;
        };
        self.worker.refused.count(why);
        let stats = self.snapshot.handshakes.stats();
        stats.shed_handshakes.add(1);
        self.log_broken(&error, "while SSL handshaking");
        true
    }

    /// After the handshake only `client_header_timeout` applies, counted from accept as in nginx.
    fn restore_header_timeout(&mut self) {
        let timeout = self.server().conf.client_header_timeout;
        if self.handshake_timeout() < timeout {
            let age = self.facts.accepted.elapsed();
            self.set_deadline(timeout.saturating_sub(age));
        }
    }

    /// Decides about kernel TLS. With `ssl_ktls on` the kernel takes over before the first request.
    /// Returns whether the connection is still usable.
    pub(super) async fn settle_ktls(&mut self) -> bool {
        let client = &self.client;
        let logger = &client
            .snapshot
            .location(client.server().default_location)
            .logger;
        let logger = &*debug_log::logger_for(&client.facts, logger);
        self.transport.endpoint_mut().set_debug_log(logger);
        let settled = poll_fn(|cx| {
            if let Poll::Ready(done) = self.transport.poll_settle_ktls(cx) {
                return Poll::Ready(Some(done));
            }
            if self.asked() == Asked::Abort {
                return Poll::Ready(None);
            }
            self.poll_expired(cx).map(|()| None)
        })
        .await;
        match settled {
            Some(Ok(())) => true,
            Some(Err(error)) => {
                self.log_broken(&error, "while handing the connection to kernel TLS");
                false
            }
            None => false,
        }
    }

    /// Remembers the client's certificate if some server asks for certificates, including one that
    /// does so after a reload.
    pub(super) fn note_client(&mut self) {
        if !self.snapshot.asks_clients || self.facts.client().is_some() {
            return;
        }
        if let Some(tls) = self.transport.tls() {
            self.facts.set_client(ClientFacts::of(tls.connection()));
        }
    }

    /// Remembers the results of the handshake.
    fn note_handshake(&mut self, times: HandshakeTimes) {
        let Some(tls) = self.transport.tls() else {
            return;
        };
        let connection = tls.connection();
        self.facts.set_secure();
        self.worker.counters.handshakes.add(1);
        self.client.server = ServerId(connection.selected_token());
        let Some(info) = connection.info() else {
            return;
        };
        self.count_handshake(&info, times);
        if self.snapshot.uses_tls_facts {
            self.facts
                .set_tls(crate::tls_facts::collect(&info, Some(times)));
        }
        self.note_client();
    }
}
