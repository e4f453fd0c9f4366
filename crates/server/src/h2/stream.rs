//! One stream: the exchange while it is handled, then its response.

use crate::body_source::{BodySource, PendingBody};
use crate::chain::OutputChain;
use crate::client_link::ClientFeed;
use crate::exchange::Exchange;
use crate::pipeline;
use crate::prologue::{self, Arrival};
use crate::rate::RateLimit;
use sealane_http::StatusCode;
use sealane_http::h2::StreamRef;
use sealane_http::headers::HeaderList;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Sleep;

/// A stream with something to do.
pub(super) struct Stream {
    /// Its name in the codec; `None` once the client has reset it and only the handler
    /// is left, which has to hear of it.
    pub(super) reference: Option<StreamRef>,
    /// The connection's end of what handler and client tell each other.
    pub(super) feed: ClientFeed,
    /// The client waits for 100 before it sends its body.
    pub(super) awaits_continue: bool,
    /// The handler waits for more of the request body.
    pub(super) awaits_body: bool,
    /// It is in the list of those to look at.
    pub(super) is_queued: bool,
    /// When something last moved or began to wait, in milliseconds of the coarse clock.
    pub(super) moved_ms: u64,
    pub(super) state: State,
}

/// What a stream is doing.
pub(super) enum State {
    /// Its handler works.
    Handling(Handling),
    /// Its response is being sent.
    Sending(Box<StreamResponse>),
}

pub(super) type Handling = Pin<Box<dyn Future<Output = Box<Exchange>> + Send>>;

/// A response whose head has been sent.
pub(super) struct StreamResponse {
    pub(super) exchange: Box<Exchange>,
    pub(super) body: OutputChain,
    pub(super) source: Option<Box<dyn BodySource>>,
    /// They follow the body.
    pub(super) trailers: HeaderList,
    /// Bytes of the body sent.
    pub(super) sent: u64,
    pub(super) rate: RateLimit,
    /// `http2_chunk_size`.
    pub(super) chunk_bytes: u32,
    pub(super) send_timeout: Duration,
    /// Runs while `limit_rate` holds the body back.
    pub(super) pause: Option<Pin<Box<Sleep>>>,
}

/// Handles a request.
pub(super) fn handle(arrival: Arrival) -> Handling {
    Box::pin(async move {
        let mut exchange = Box::new(arrival.begin());
        prologue::answer(&mut exchange).await;
        exchange
    })
}

/// Answers what is to be refused.
pub(super) fn refuse(arrival: Arrival, status: StatusCode) -> Handling {
    Box::pin(async move {
        let mut exchange = Box::new(arrival.begin());
        pipeline::fail(&mut exchange, status).await;
        exchange
    })
}

impl StreamResponse {
    /// The response of a handled exchange, ready to be sent behind its head.
    pub(super) fn new(mut exchange: Box<Exchange>) -> StreamResponse {
        let source = exchange.response.source.take();
        StreamResponse {
            body: std::mem::take(&mut exchange.response.body),
            source: source.map(PendingBody::into_source),
            trailers: std::mem::take(&mut exchange.response.trailers),
            sent: 0,
            rate: RateLimit::of(&exchange),
            chunk_bytes: exchange.conf().http2_chunk_bytes.max(1),
            send_timeout: exchange.conf().send_timeout,
            pause: None,
            exchange,
        }
    }

    /// Whether nothing follows the head.
    pub(super) fn is_empty(&self) -> bool {
        self.body.is_empty() && self.source.is_none() && self.trailers.is_empty()
    }

    /// What is known at the end goes into the log.
    pub(super) fn conclude(mut self: Box<Self>, completed: bool) {
        let exchange = &mut *self.exchange;
        if let Some(source) = self.source.take() {
            source.conclude(exchange, completed);
        }
        exchange.transfer.completed = completed;
        exchange.transfer.request_bytes =
            exchange.request.head.head_bytes as u64 + exchange.client.framed_bytes();
        exchange.transfer.sent_bytes = exchange.transfer.head_bytes + self.sent;
        pipeline::log_access(exchange);
    }
}
