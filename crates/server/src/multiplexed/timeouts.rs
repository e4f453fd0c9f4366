//! Streams that have waited for too long: `send_timeout` for responses that the client does not
//! take, `client_body_timeout` and its relatives for bodies that do not come.

use super::{Exchanges, MultiplexedWire, ResetReason, StreamState, ms};
use crate::client::Client;
use crate::client_link::BodyError;
use sealane_conf::model::LogLevel;

/// What begins a line of the log about a client that was waited for in vain, as in nginx.
pub(crate) const TIMED_OUT: &str = "client timed out (110: Connection timed out)";

impl<W: MultiplexedWire> Exchanges<W> {
    /// Ends what has waited for too long on streams. Returns the time until the next of them is
    /// due, in milliseconds; `u64::MAX` if none waits.
    pub(crate) fn end_late_streams(&mut self, client: &Client) -> u64 {
        let body_timeout_ms = ms(client.default_conf().client_body_timeout);
        let mut next_ms = u64::MAX;
        for index in self.streams.indices() {
            let Some(stream) = self.streams.get(index) else {
                continue;
            };
            let Some(name) = stream.name else {
                continue;
            };
            let send_ms = match &stream.state {
                StreamState::Sending(sending) if self.wire.is_blocked(name) => {
                    Some(ms(sending.send_timeout))
                }
                _ => None,
            };
            // The silence of a tunnel is limited by `proxy_read_timeout` and the like.
            let body_ms = (stream.awaits_body && !stream.feed.is_tunnel())
                .then(|| stream.feed.body_timeout().map_or(body_timeout_ms, ms));
            let Some(limit_ms) = send_ms.or(body_ms) else {
                continue;
            };
            match self.time.left_ms(stream.moved_ms, limit_ms) {
                Some(left_ms) => next_ms = next_ms.min(left_ms),
                None if send_ms.is_some() => {
                    log_slow_reader(client);
                    self.give_up(index, ResetReason::Cancelled);
                }
                None => stream.feed.fail(BodyError::TimedOut),
            }
        }
        next_ms
    }
}

/// The client does not take what is sent to it.
pub(crate) fn log_slow_reader(client: &Client) {
    client.log(
        LogLevel::Info,
        &format!("{TIMED_OUT} while sending response to client"),
    );
}
