//! What the client says about streams.

use super::serving::Serving;
use crate::client_link::BodyError;
use crate::connection::Connection;
use crate::multiplexed::Incoming;
use sealane_conf::model::LogLevel;
use sealane_http::h2::{Event, Fault, StreamRef};

impl Serving {
    pub(super) fn take_in(&mut self, connection: &mut Connection, event: Event<'_>) {
        match event {
            Event::Request {
                stream,
                request,
                end,
            } => {
                let incoming = Incoming {
                    request,
                    end,
                    early_data: connection.is_early_data(),
                    refusal: None,
                    moved_to: None,
                };
                self.open(connection, stream, incoming);
            }
            Event::Refused {
                stream,
                request,
                error,
                end,
            } => {
                connection.log(
                    LogLevel::Info,
                    &format!("{} while reading client request headers", error.reason()),
                );
                let incoming = Incoming {
                    request,
                    end,
                    early_data: connection.is_early_data(),
                    refusal: Some(error),
                    moved_to: None,
                };
                self.open(connection, stream, incoming);
            }
            // The window of a stream that is gone stays closed: a body that is not read is not
            // asked for.
            Event::Data { stream, bytes, end } => {
                let time = self.exchanges.time;
                let is_read = self.exchanges.streams.take_data(stream, bytes, end, time);
                if end && !is_read {
                    self.exchanges.wire.unread.forget(stream);
                }
            }
            Event::Trailers { stream, trailers } => {
                if !self
                    .exchanges
                    .streams
                    .take_trailers(stream, trailers.iter())
                {
                    self.exchanges.wire.unread.forget(stream);
                }
            }
            Event::Reset { stream, .. } => {
                self.exchanges.wire.unread.forget(stream);
                self.exchanges.lose(stream, BodyError::ClientClosed);
            }
            Event::Malformed { stream, fault } => {
                connection.log(
                    LogLevel::Info,
                    &format!(
                        "{fault} in stream {} while processing HTTP/2 connection",
                        stream.id()
                    ),
                );
                self.exchanges.streams.take_malformed(stream);
            }
            Event::Fault { stream, fault, id } => {
                connection.log(
                    LogLevel::Info,
                    &format!("{fault} in stream {id} while processing HTTP/2 connection"),
                );
                if let Some(stream) = stream {
                    self.exchanges.wire.unread.forget(stream);
                    self.exchanges.lose(stream, BodyError::Malformed);
                }
            }
            Event::Settings => self.input.has_begun = true,
            // The client is still served on its streams; the rest concerns the other end of
            // connections.
            Event::GoAway { .. } | Event::Pong | Event::Interim { .. } | Event::Response { .. } => {
            }
        }
    }

    /// A request has arrived.
    fn open(&mut self, connection: &mut Connection, stream: StreamRef, incoming: Incoming) {
        let streams = self.exchanges.streams.len();
        if streams >= connection.server().http2.max_concurrent_streams as usize {
            // Handlers of streams that the client has reset are still at work.
            if let Err(fault) = self.exchanges.wire.refuse(stream) {
                log_fault(connection, fault);
            }
            return;
        }
        connection.worker.counters.requests.add(1);
        connection.facts.count_request();
        connection.begin_response();
        // Some clients never send SETTINGS. What they are waited for is the next request.
        self.input.has_begun = true;
        // `keepalive_timeout` begins anew behind it.
        self.timeouts.renew();
        let conf = connection.default_conf();
        let age = self
            .exchanges
            .time
            .now
            .saturating_duration_since(connection.facts.accepted);
        if connection.facts.requests() >= conf.keepalive_requests
            || age > conf.keepalive_time
            || connection.transport.should_end()
        {
            self.announce_end();
        }
        self.exchanges.open(connection, stream, incoming);
    }
}

/// Logs why the connection ends.
pub(super) fn log_fault(connection: &Connection, fault: Fault) {
    connection.log(
        LogLevel::Info,
        &format!("{fault} while processing HTTP/2 connection"),
    );
}
