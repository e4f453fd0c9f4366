//! What happens when nothing comes.

use super::frames::item_owners;
use super::{CloseReason, Connection};
use crate::Time;
use std::time::Duration;

/// A connection is not forgotten for want of packets before so many probe timeouts have passed
/// (RFC 9000 section 10.1).
const IDLE_PTOS: u32 = 3;

impl Connection {
    /// When [`Connection::on_timeout`] is to be called, and what else is called after a datagram
    /// after it. Ask again after every other call.
    #[must_use]
    pub fn timeout(&self) -> Option<Time> {
        if self.is_ending() {
            return self.end_of_closing();
        }
        let acks = [
            self.initial
                .as_ref()
                .and_then(|space| space.received.ack_deadline()),
            self.handshake
                .as_ref()
                .and_then(|space| space.received.ack_deadline()),
            self.data
                .received
                .ack_deadline()
                .filter(|_| self.can_seal_data()),
        ];
        // Without credit they would be due for ever.
        let acks = acks.map(|time| time.filter(|_| !self.is_held_back()));
        let recovery = self.recovery.next_timeout(&self.paths.current.path);
        acks.into_iter()
            .chain([
                recovery,
                self.idle_end(),
                self.ping_due(),
                self.end_of_waiting(),
                self.path_timeout(),
                self.paced_until,
            ])
            .flatten()
            .min()
    }

    /// That time has come.
    pub fn on_timeout(&mut self, now: Time) {
        self.trace_time(now);
        self.pass_timeout(now);
        self.trace_state();
    }

    fn pass_timeout(&mut self, now: Time) {
        if self.is_ending() {
            if self.end_of_closing().is_some_and(|end| end <= now) {
                self.finish_closing();
            }
            return;
        }
        if self.idle_end().is_some_and(|end| end <= now) {
            return self.drop_silently(CloseReason::TimedOut);
        }
        if self.ping_due().is_some_and(|due| due <= now) {
            self.once.ping = true;
        }
        if self.end_of_waiting().is_some_and(|end| end <= now) {
            self.stop_waiting();
        }
        if self.path_timeout().is_some_and(|time| time <= now) {
            self.expire_paths(now);
            if self.is_ending() {
                return;
            }
        }
        if self.paced_until.is_some_and(|time| time <= now) {
            self.paced_until = None;
        }
        let path = &mut self.paths.current.path;
        if self
            .recovery
            .next_timeout(path)
            .is_some_and(|time| time <= now)
        {
            let mut owners = item_owners!(self);
            self.recovery
                .on_timeout(path, now, &mut |fate, item| owners.tell(fate, item));
        }
    }

    /// Whether the connection is to outlast silence: it asks for a sign of life in time (RFC 9000
    /// section 10.1.2).
    pub fn keep_alive(&mut self, keeps_alive: bool) {
        self.keeps_alive = keeps_alive;
    }

    /// When a sign of life is to be asked for. What was sent since the last one asks already.
    fn ping_due(&self) -> Option<Time> {
        let is_due = self.keeps_alive && !self.has_sent_since && !self.once.ping;
        if !is_due || !self.is_established() {
            return None;
        }
        Some(self.active_at + self.idle_timeout()? / 2)
    }

    /// When the connection is forgotten if nothing comes.
    fn idle_end(&self) -> Option<Time> {
        let timeout = self.idle_timeout()?;
        Some(self.active_at + timeout.max(IDLE_PTOS * self.pto()))
    }

    /// The silence that both ends allow.
    fn idle_timeout(&self) -> Option<Duration> {
        let own = self.settings.max_idle_timeout;
        let theirs = Duration::from_millis(self.peer.max_idle_timeout_ms);
        match (own.is_zero(), theirs.is_zero()) {
            (true, true) => None,
            (false, true) => Some(own),
            (true, false) => Some(theirs),
            (false, false) => Some(own.min(theirs)),
        }
    }
}
