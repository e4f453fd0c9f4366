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
            let blocked = match &stream.state {
                StreamState::Sending(sending) => (self.wire)
                    .blocked_since_ms(name, stream.moved_ms)
                    .map(|since_ms| (since_ms, ms(sending.send_timeout))),
                StreamState::Handling(_) => None,
            };
            // The silence of a tunnel is limited by `proxy_read_timeout` and the like.
            let awaited = (stream.awaits_body && !stream.feed.is_tunnel()).then(|| {
                let limit_ms = stream.feed.body_timeout().map_or(body_timeout_ms, ms);
                (stream.moved_ms, limit_ms)
            });
            let Some((since_ms, limit_ms)) = blocked.or(awaited) else {
                continue;
            };
            match self.time.left_ms(since_ms, limit_ms) {
                Some(left_ms) => next_ms = next_ms.min(left_ms),
                None if blocked.is_some() => {
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
