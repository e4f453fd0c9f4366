//! Time-outs of an HTTP/2 connection: `client_header_timeout` for a preface or a frame
//! that has begun, `keepalive_timeout` between requests, `send_timeout` for clients that
//! take nothing, `client_body_timeout` for bodies that do not come.
//!
//! A connection has one deadline. While it is busy its streams are looked at when the
//! shortest of their time-outs has passed, and then when the first of those that wait
//! is due: nothing is moved for each frame, and nothing is noticed late.

use super::serving::{Serving, default_conf};
use super::stream::State;
use crate::client_link::BodyError;
use crate::connection::Connection;
use sealane_conf::model::LogLevel;
use sealane_http::h2::ErrorCode;
use std::os::fd::AsFd;
use std::time::Duration;

/// What the connection's deadline stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// It is to be set anew.
    Unset,
    /// The preface, or the rest of a frame or header block that has begun.
    Head,
    /// The next request, for so long that tables are kept for it.
    Recent,
    /// The next request.
    Request,
    /// The client's answer to the announced end of the connection.
    Farewell,
    /// Streams that wait, and output that is not taken.
    Busy,
}

/// How long an idle connection keeps the tables of its last streams.
const RECENT: Duration = Duration::from_secs(2);
/// How long new requests are taken after the end of the connection was announced, if the
/// client does not say that it knows (RFC 9113 section 6.8 asks for a round trip).
const FAREWELL: Duration = Duration::from_secs(1);

/// How long a client has to stop sending a body once its stream was answered. Then the
/// stream is reset (RFC 9113 section 8.1); not at once, as there are clients that lose
/// the answer when the reset comes with it.
pub(super) const UNWANTED_BODY: Duration = Duration::from_millis(500);

const TIMED_OUT: &str = "client timed out (110: Connection timed out)";

impl Serving {
    /// Sets the connection's deadline for what it does now.
    pub(super) fn set_deadline(&mut self, connection: &mut Connection) {
        let wanted = self.wanted_patience(connection);
        if self.patience == wanted {
            return;
        }
        self.patience = wanted;
        let after = match wanted {
            Patience::Head => connection.server().conf.client_header_timeout,
            Patience::Recent => RECENT.min(default_conf(connection).keepalive_timeout),
            Patience::Request => default_conf(connection).keepalive_timeout,
            Patience::Farewell => FAREWELL,
            Patience::Busy | Patience::Unset => return self.look_in_time(connection),
        };
        self.look_at_ms = u64::MAX;
        connection.set_deadline(after);
    }

    /// Sets the deadline for a look at the streams. Not later than it was set before: who
    /// sends requests without end would else keep those that wait for ever.
    fn look_in_time(&mut self, connection: &mut Connection) {
        let after = match self.unwanted.is_empty() {
            true => self.look_every,
            false => self.look_every.min(UNWANTED_BODY),
        };
        let at_ms = self.now_ms.saturating_add(ms(after));
        if at_ms < self.look_at_ms {
            self.look_at_ms = at_ms;
            connection.set_deadline(after);
        }
    }

    fn wanted_patience(&self, connection: &Connection) -> Patience {
        if !self.is_idle() || self.has_output() {
            Patience::Busy
        } else if self.announced_ms.is_some() {
            Patience::Farewell
        } else if !self.client_is_known
            || !connection.buffer.is_empty()
            || self.codec.is_within_head()
        {
            Patience::Head
        } else if self.can_trim() {
            Patience::Recent
        } else {
            Patience::Request
        }
    }

    /// The deadline that is set is not that of what goes on now.
    pub(super) fn look_soon(&mut self) {
        self.patience = Patience::Unset;
    }

    /// A location has a time-out that may be shorter than those that were known.
    pub(super) fn look_within(&mut self, timeout: Duration) {
        if timeout < self.look_every {
            self.look_every = timeout;
            self.look_soon();
        }
    }

    /// The deadline has passed. False when the connection is to be closed at once.
    pub(super) fn expire(&mut self, connection: &mut Connection) -> bool {
        self.look_at_ms = u64::MAX;
        match std::mem::replace(&mut self.patience, Patience::Unset) {
            Patience::Head => {
                connection.log(
                    LogLevel::Info,
                    &format!("{TIMED_OUT} while processing HTTP/2 connection"),
                );
                self.codec.close(ErrorCode::PROTOCOL_ERROR, &mut self.out);
            }
            Patience::Recent => {
                self.trim();
                let keepalive = default_conf(connection).keepalive_timeout;
                match keepalive.checked_sub(RECENT) {
                    Some(rest) if !rest.is_zero() => {
                        self.patience = Patience::Request;
                        connection.set_deadline(rest);
                    }
                    _ => self.announce_end(),
                }
            }
            Patience::Request => self.announce_end(),
            Patience::Farewell => self.codec.shut_down_now(&mut self.out),
            Patience::Busy | Patience::Unset => return self.look_after_streams(connection),
        }
        true
    }

    /// A client that does not answer the announcement opens no streams for ever.
    pub(super) fn insist_on_end(&mut self) {
        let Some(at_ms) = self.announced_ms else {
            return;
        };
        if self.now_ms.saturating_sub(at_ms) >= ms(FAREWELL) {
            self.codec.shut_down_now(&mut self.out);
        }
    }

    /// Ends what has waited for too long. False when that is the connection.
    fn look_after_streams(&mut self, connection: &mut Connection) -> bool {
        let conf = default_conf(connection);
        let body_timeout_ms = ms(conf.client_body_timeout);
        let send_timeout_ms = ms(conf.send_timeout);
        let mut next_ms = ms(self.look_every);
        if let Some(at_ms) = self.stalled_ms {
            let Some(left_ms) = self.left_ms(at_ms, send_timeout_ms) else {
                if conf.reset_timedout_connection {
                    let socket = connection.facts.socket.as_fd();
                    let _ = sealane_sys::socket::set_linger(socket, Some(Duration::ZERO));
                }
                log_slow_reader(connection);
                return false;
            };
            next_ms = next_ms.min(left_ms);
        }
        next_ms = next_ms.min(self.reset_unwanted());
        for place in 0..self.streams.len() {
            let Some(stream) = &self.streams[place] else {
                continue;
            };
            let Some(reference) = stream.reference else {
                continue;
            };
            let send_ms = match &stream.state {
                State::Sending(sending) if self.codec.is_blocked(reference) => {
                    Some(ms(sending.send_timeout))
                }
                _ => None,
            };
            let body_ms = stream
                .awaits_body
                .then(|| stream.feed.body_timeout().map_or(body_timeout_ms, ms));
            let Some(limit_ms) = send_ms.or(body_ms) else {
                continue;
            };
            match self.left_ms(stream.moved_ms, limit_ms) {
                Some(left_ms) => next_ms = next_ms.min(left_ms),
                None if send_ms.is_some() => {
                    log_slow_reader(connection);
                    self.give_up(place, ErrorCode::CANCEL);
                }
                None => stream.feed.fail(BodyError::TimedOut),
            }
        }
        self.patience = Patience::Busy;
        self.look_at_ms = self.now_ms.saturating_add(next_ms);
        connection.set_deadline(Duration::from_millis(next_ms));
        true
    }

    /// Resets streams whose bodies nobody wants. Returns the time until the next one.
    fn reset_unwanted(&mut self) -> u64 {
        let mut next_ms = u64::MAX;
        let mut unwanted = std::mem::take(&mut self.unwanted);
        unwanted.retain(|&(stream, since_ms)| {
            if let Some(left_ms) = self.left_ms(since_ms, ms(UNWANTED_BODY)) {
                next_ms = next_ms.min(left_ms);
                return true;
            }
            self.codec.reset(stream, ErrorCode::NO_ERROR, &mut self.out);
            false
        });
        self.unwanted = unwanted;
        next_ms
    }

    /// What is left of a time that began then; `None` when it is over.
    fn left_ms(&self, since_ms: u64, limit_ms: u64) -> Option<u64> {
        let waited_ms = self.now_ms.saturating_sub(since_ms);
        limit_ms.checked_sub(waited_ms).filter(|&left| left > 0)
    }
}

fn log_slow_reader(connection: &Connection) {
    connection.log(
        LogLevel::Info,
        &format!("{TIMED_OUT} while sending response to client"),
    );
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
