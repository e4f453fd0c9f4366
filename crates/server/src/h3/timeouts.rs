//! Time-outs of an HTTP/3 connection: `client_header_timeout` for the handshake and for heads,
//! `send_timeout` for clients that take nothing, `client_body_timeout` for bodies that do not come.
//! An idle connection ends by the time-out of its transport, which is `keepalive_timeout`.

use super::serving::Http3Serving;
use crate::client::Client;
use crate::multiplexed::{TIMED_OUT, TurnTime, log_slow_reader, ms};
use sealane_conf::model::LogLevel;
use sealane_http::h3::Code;
use sealane_io::registry::Asked;
use sealane_quic::StreamId;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long new requests are accepted after the end of the connection was announced, and how long
/// clients have to read what they got last.
const FAREWELL: Duration = Duration::from_secs(1);
/// The time between two looks at all streams: long enough for a deadline without a timer.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What the connection waits for, and since when.
pub(super) struct Http3Timeouts {
    /// When the handshake has to be over.
    handshake: Duration,
    /// When the streams are looked at next, by the coarse clock.
    look_at_ms: u64,
    /// When the end of the connection was announced.
    announced_ms: Option<u64>,
    /// There are no requests, and what they need is freed.
    is_resting: bool,
    /// Since when, by the coarse clock.
    resting_ms: u64,
    /// A deadline is set. It stays when there is nothing to look after any more: to wake the task
    /// once in vain costs less than to clear it after every request.
    is_set: bool,
}

impl Http3Timeouts {
    pub(super) fn new(client: &Client) -> Http3Timeouts {
        Http3Timeouts {
            handshake: client.handshake_timeout(),
            look_at_ms: 0,
            announced_ms: None,
            is_resting: false,
            resting_ms: 0,
            is_set: false,
        }
    }

    /// Notes that the end of the connection is announced now. False when it was before.
    pub(super) fn announce(&mut self, time: TurnTime) -> bool {
        let is_first = self.announced_ms.is_none();
        self.announced_ms.get_or_insert(time.now_ms);
        is_first
    }
}

impl Http3Serving {
    /// At the end of a turn: ends what has waited for too long, and frees what an idle connection
    /// does not need.
    pub(super) fn look_after_time(&mut self) {
        let notes = self.exchanges.take_notes();
        for _ in 0..notes.early_data_refused {
            let stats = self.client.snapshot.session_stats();
            stats.count_early_data(sealane_tls::EarlyVerdict::MethodRefused);
        }
        if self.transport().is_ending() {
            return self.client.clear_deadline();
        }
        let time = self.exchanges.time;
        if !self.is_open && self.client.facts.accepted.elapsed() >= self.timeouts.handshake {
            self.fail_handshake(TIMED_OUT);
            return self.close(Code::H3_NO_ERROR);
        }
        if let Some(at_ms) = self.timeouts.announced_ms {
            // A client of HTTP/0.9 was told nothing that it could heed meanwhile.
            let is_over =
                time.left_ms(at_ms, ms(FAREWELL)).is_none() || self.exchanges.wire.codec.is_hq();
            // What has arrived may not have been read yet: with the end of the connection, clients
            // throw it away.
            let timeouts = &self.timeouts;
            let has_rested =
                timeouts.is_resting && time.left_ms(timeouts.resting_ms, ms(FAREWELL)).is_none();
            if is_over || self.client.asked() == Asked::Finish && has_rested {
                self.exchanges.wire.codec.drain();
                let awaits_requests = self.exchanges.wire.codec.awaits_requests();
                if has_rested && self.is_idle() && !awaits_requests {
                    return self.close(Code::H3_NO_ERROR);
                }
            }
        }
        // Responses may take longer than the client and `keepalive_timeout` allow for silence.
        let is_at_work = self.exchanges.streams.len() > 0;
        self.transport().keep_alive(is_at_work);
        if self.is_idle() {
            if self.is_open && !std::mem::replace(&mut self.timeouts.is_resting, true) {
                self.timeouts.resting_ms = time.now_ms;
                self.rest();
            }
            self.end_without_requests();
        } else {
            self.timeouts.is_resting = false;
        }
        if time.now_ms >= self.timeouts.look_at_ms {
            self.timeouts.look_at_ms = time.now_ms + ms(LOOK_EVERY);
            self.give_up_late_requests();
            self.exchanges.end_late_streams(&self.client);
            self.give_up_late_responses();
        }
        self.set_deadline();
    }

    /// Has the registry wake this task when there is something to look after.
    fn set_deadline(&mut self) {
        let must_look = !self.is_open
            || !self.is_idle()
            || self.timeouts.announced_ms.is_some()
            || self.exchanges.wire.codec.awaits_requests();
        if must_look && !std::mem::replace(&mut self.timeouts.is_set, true) {
            self.client.set_deadline(LOOK_EVERY);
        }
    }

    /// Ready when it is time to look again.
    pub(super) fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.timeouts.is_set || self.client.poll_expired(cx).is_pending() {
            return Poll::Pending;
        }
        self.timeouts.is_set = false;
        Poll::Ready(())
    }

    /// A client without requests has `keepalive_timeout`, even if it sends something now and then.
    /// The transport's own time-out is for those that are silent.
    fn end_without_requests(&mut self) {
        let timeout = self.client.default_conf().keepalive_timeout;
        let time = self.exchanges.time;
        if self.timeouts.is_resting
            && !timeout.is_zero()
            && time
                .left_ms(self.timeouts.resting_ms, ms(timeout))
                .is_none()
        {
            self.announce_end();
        }
    }

    /// Ends streams whose responses were written, and whose clients do not take them, or do not
    /// end their own side.
    fn give_up_late_responses(&mut self) {
        let timeout = self.client.default_conf().send_timeout;
        let exchanges = &mut self.exchanges;
        while let Some(name) = exchanges.wire.requests.find_late(exchanges.time, timeout) {
            if exchanges.wire.requests.blocked_since_ms(name).is_some() {
                log_slow_reader(&self.client);
            }
            exchanges.wire.abort(name.id, Code::H3_REQUEST_CANCELLED);
            exchanges.wire.forget(name.id);
        }
    }

    /// Ends streams on which no whole head comes.
    fn give_up_late_requests(&mut self) {
        let timeout = self.client.server().conf.client_header_timeout;
        let age = self.age();
        let wire = &mut self.exchanges.wire;
        while let Some(id) = wire.codec.late_request(age, timeout) {
            self.client.log(
                LogLevel::Info,
                &format!("{TIMED_OUT} while reading client request headers"),
            );
            wire.abort(StreamId::from_wire(id), Code::H3_REQUEST_REJECTED);
        }
    }
}
