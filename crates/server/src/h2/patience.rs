//! Time-outs of an HTTP/2 connection: `keepalive_timeout` between requests,
//! `send_timeout` for clients that take nothing, `client_body_timeout` for bodies that
//! do not come.
//!
//! A busy connection looks at its streams when the shortest of these times has
//! passed, not at every move of each, so that a time-out may come up to that much late.

use super::serving::Serving;
use super::stream::State;
use crate::client_link::{BodyError, Demand};
use crate::connection::Connection;
use sealane_conf::model::LogLevel;
use sealane_http::h2::ErrorCode;
use std::time::Duration;

impl Serving {
    /// Looks after the clock while the connection is busy. False when the connection
    /// is to be closed.
    pub(super) fn check_times(&mut self, connection: &mut Connection) -> bool {
        let conf = self.default_conf(connection);
        let (send, body) = (ms(conf.send_timeout), ms(conf.client_body_timeout));
        let since = |at_ms: u64| self.now_ms.saturating_sub(at_ms);
        if self.stalled_ms.is_some_and(|at_ms| since(at_ms) >= send) {
            connection.log(
                LogLevel::Info,
                "client timed out (110: Connection timed out) while sending response to client",
            );
            return false;
        }
        for place in 0..self.streams.len() {
            let Some(stream) = &self.streams[place] else {
                continue;
            };
            let waited = self.now_ms.saturating_sub(stream.moved_ms);
            let Some(reference) = stream.reference else {
                continue;
            };
            let is_slow = matches!(stream.state, State::Sending(_))
                && waited >= send
                && self.codec.is_blocked(reference);
            if is_slow {
                connection.log(
                    LogLevel::Info,
                    "client timed out (110: Connection timed out) while sending response to client",
                );
                self.codec
                    .reset(reference, ErrorCode::CANCEL, &mut self.out);
                self.drop_stream(place);
            } else if waited >= body && stream.feed.demand() == Demand::Bytes {
                stream.feed.fail(BodyError::TimedOut);
            }
        }
        true
    }

    /// Sets the connection's deadline for what it does now.
    pub(super) fn set_deadline(&mut self, connection: &mut Connection) {
        let is_idle = self.is_idle();
        if self.deadline_is_for_idle == Some(is_idle) {
            return;
        }
        self.deadline_is_for_idle = Some(is_idle);
        let conf = self.default_conf(connection);
        let after = match is_idle {
            true => conf.keepalive_timeout,
            false => conf.send_timeout.min(conf.client_body_timeout),
        };
        connection.set_deadline(after);
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
