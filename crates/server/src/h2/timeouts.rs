//! Time-outs of an HTTP/2 connection: `client_header_timeout` for a preface or a frame
//! that has begun, `keepalive_timeout` between requests, `send_timeout` for clients that
//! take nothing, `client_body_timeout` for bodies that do not come.
//!
//! A connection has one deadline. While it is busy, its streams are looked at when the
//! shortest of their time-outs has passed, and then when the first of those that wait
//! is due: nothing is moved for each frame, and nothing is noticed late.

use super::serving::Serving;
use super::unread;
use crate::connection::Connection;
use crate::multiplexed::{TIMED_OUT, TurnTime, log_slow_reader, ms};
use sealane_conf::model::LogLevel;
use sealane_http::h2::ErrorCode;
use std::os::fd::AsFd;
use std::time::Duration;

/// What the connection's deadline is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaiting {
    /// It has to be set again.
    Unset,
    /// The preface, or the rest of a frame or header block that has begun.
    Head,
    /// The next request; the tables of the last streams are still kept.
    Recent,
    /// The next request.
    Request,
    /// The client's answer to the announced end of the connection.
    Farewell,
    /// Streams that wait, and output that is not taken.
    Busy,
}

/// The deadline of one connection.
pub(super) struct ConnectionTimeouts {
    awaiting: Awaiting,
    /// How often the streams of a busy connection are looked at: the shortest time-out
    /// of any of them.
    look_every: Duration,
    /// When that is due, by the coarse clock; what arrives before does not put it off.
    look_at_ms: u64,
    /// When the end of the connection was announced.
    announced_ms: Option<u64>,
}

/// How long an idle connection keeps the tables of its last streams.
const RECENT: Duration = Duration::from_secs(2);
/// How long new requests are accepted after the end of the connection was announced, unless the
/// client acknowledges it (RFC 9113 section 6.8 asks for a round trip).
const FAREWELL: Duration = Duration::from_secs(1);

impl ConnectionTimeouts {
    /// Before anything was set; `look_every` is the shortest time-out of the server's locations
    /// that is known.
    pub(super) fn new(look_every: Duration) -> ConnectionTimeouts {
        ConnectionTimeouts {
            awaiting: Awaiting::Unset,
            look_every,
            look_at_ms: u64::MAX,
            announced_ms: None,
        }
    }

    /// Something has begun or ended: the deadline is set again at the end of the turn.
    pub(super) fn renew(&mut self) {
        self.awaiting = Awaiting::Unset;
    }

    /// A location has a time-out that may be shorter than those that were known.
    pub(super) fn look_within(&mut self, timeout: Duration) {
        if timeout < self.look_every {
            self.look_every = timeout;
            self.renew();
        }
    }

    /// Notes that the end of the connection is announced now. False when it was before.
    pub(super) fn announce(&mut self, time: TurnTime) -> bool {
        let is_first = self.announced_ms.is_none();
        self.announced_ms.get_or_insert(time.now_ms);
        is_first
    }

    /// Whether the client has had time to take note of the announced end.
    pub(super) fn is_farewell_over(&self, time: TurnTime) -> bool {
        let announced_ms = self.announced_ms;
        announced_ms.is_some_and(|at_ms| time.left_ms(at_ms, ms(FAREWELL)).is_none())
    }

    /// Sets the deadline for a look at the streams. Not later than it was set before:
    /// otherwise a client that sends requests without end would keep those that wait for ever.
    fn look_in_time(&mut self, connection: &mut Connection, time: TurnTime, has_unread: bool) {
        let after = match has_unread {
            true => self.look_every.min(unread::GRACE),
            false => self.look_every,
        };
        let at_ms = time.now_ms.saturating_add(ms(after));
        if at_ms < self.look_at_ms {
            self.look_at_ms = at_ms;
            connection.set_deadline(after);
        }
    }
}

impl Serving {
    /// Sets the connection's deadline for what it waits for now.
    pub(super) fn set_deadline(&mut self, connection: &mut Connection) {
        self.heed_notes(connection);
        let awaiting = self.awaiting(connection);
        let timeouts = &mut self.timeouts;
        if timeouts.awaiting == awaiting {
            return;
        }
        timeouts.awaiting = awaiting;
        let after = match awaiting {
            Awaiting::Head => connection.server().conf.client_header_timeout,
            Awaiting::Recent => RECENT.min(connection.default_conf().keepalive_timeout),
            Awaiting::Request => connection.default_conf().keepalive_timeout,
            Awaiting::Farewell => FAREWELL,
            Awaiting::Busy | Awaiting::Unset => {
                return timeouts.look_in_time(
                    connection,
                    self.exchanges.time,
                    !self.exchanges.wire.unread.is_empty(),
                );
            }
        };
        timeouts.look_at_ms = u64::MAX;
        connection.set_deadline(after);
    }

    /// Does what exchanges have noted for the connection.
    fn heed_notes(&mut self, connection: &Connection) {
        let notes = self.exchanges.take_notes();
        self.timeouts.look_within(notes.look_within);
        if notes.has_changed {
            self.timeouts.renew();
        }
        for _ in 0..notes.early_data_refused {
            connection.count_early_data_refused();
        }
    }

    fn awaiting(&self, connection: &Connection) -> Awaiting {
        if !self.is_idle() || self.exchanges.wire.has_output() {
            Awaiting::Busy
        } else if self.timeouts.announced_ms.is_some() {
            Awaiting::Farewell
        } else if !self.input.has_begun
            || !connection.buffer.is_empty()
            || self.exchanges.wire.codec.is_within_head()
        {
            Awaiting::Head
        } else if self.exchanges.streams.can_trim() {
            Awaiting::Recent
        } else {
            Awaiting::Request
        }
    }

    /// The deadline has passed. False when the connection is to be closed at once.
    pub(super) fn expire(&mut self, connection: &mut Connection) -> bool {
        self.timeouts.look_at_ms = u64::MAX;
        match std::mem::replace(&mut self.timeouts.awaiting, Awaiting::Unset) {
            Awaiting::Head => {
                connection.log(
                    LogLevel::Info,
                    &format!("{TIMED_OUT} while processing HTTP/2 connection"),
                );
                self.exchanges.wire.close(ErrorCode::PROTOCOL_ERROR);
            }
            Awaiting::Recent => {
                self.trim();
                let keepalive = connection.default_conf().keepalive_timeout;
                match keepalive.checked_sub(RECENT) {
                    Some(rest) if !rest.is_zero() => {
                        self.timeouts.awaiting = Awaiting::Request;
                        connection.set_deadline(rest);
                    }
                    _ => self.announce_end(),
                }
            }
            Awaiting::Request => self.announce_end(),
            Awaiting::Farewell => self.exchanges.wire.shut_down_now(),
            Awaiting::Busy | Awaiting::Unset => return self.look_after_streams(connection),
        }
        true
    }

    /// A client that does not react to the announcement cannot open streams for ever.
    pub(super) fn insist_on_end(&mut self) {
        if self.timeouts.is_farewell_over(self.exchanges.time) {
            self.exchanges.wire.shut_down_now();
        }
    }

    /// Ends what has waited for too long. False when that is the connection.
    fn look_after_streams(&mut self, connection: &mut Connection) -> bool {
        let conf = connection.default_conf();
        let mut next_ms = ms(self.timeouts.look_every);
        if let Some(at_ms) = self.exchanges.wire.stalled_ms() {
            let Some(left_ms) = self.exchanges.time.left_ms(at_ms, ms(conf.send_timeout)) else {
                if conf.reset_timedout_connection {
                    let socket = connection.facts.socket().as_fd();
                    let _ = sealane_sys::socket::set_linger(socket, Some(Duration::ZERO));
                }
                log_slow_reader(connection);
                return false;
            };
            next_ms = next_ms.min(left_ms);
        }
        next_ms = next_ms.min(self.exchanges.wire.reset_unread(self.exchanges.time));
        next_ms = next_ms.min(self.exchanges.end_late_streams(connection));
        self.timeouts.awaiting = Awaiting::Busy;
        self.timeouts.look_at_ms = self.exchanges.time.now_ms.saturating_add(next_ms);
        connection.set_deadline(Duration::from_millis(next_ms));
        true
    }
}
