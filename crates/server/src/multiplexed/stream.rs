//! One stream: the exchange while it is handled, then its response.

use super::MultiplexedWire;
use super::exchanges::Notes;
use super::time::TurnTime;
use crate::body_source::{BodySource, Filled, PendingBody};
use crate::client_link::{ClientFeed, Demand};
use crate::exchange::Exchange;
use crate::filters;
use crate::pipeline;
use crate::prologue::{self, Arrival};
use crate::rate::RateLimit;
use sealane_http::StatusCode;
use sealane_http::headers::HeaderList;
use sealane_io::chain::OutputChain;
use sealane_io::runtime::Sleep;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Bytes of a body that are asked of its source ahead of what windows allow.
const STREAM_BUFFER_BYTES: u64 = 64 << 10;

/// A stream in progress.
pub(crate) struct Stream<N> {
    /// What the protocol calls it; `None` once the client has reset it and only the handler
    /// remains, which has to be told.
    pub(crate) name: Option<N>,
    /// The number of its configuration.
    pub(crate) generation: u64,
    /// The connection's end of the link to the handler.
    pub(crate) feed: ClientFeed,
    /// The client waits for 100 before it sends its body.
    pub(crate) awaits_continue: bool,
    /// The handler waits for more of the request body.
    pub(crate) awaits_body: bool,
    /// The request is malformed (RFC 9113 section 8.1.1): a reset follows the response.
    pub(crate) is_malformed: bool,
    /// It is in the queue of the table.
    pub(crate) is_queued: bool,
    /// When something last happened or a wait began, in milliseconds of the coarse clock.
    pub(crate) moved_ms: u64,
    pub(crate) state: StreamState,
}

/// The state of a stream.
pub(crate) enum StreamState {
    /// Its handler is running.
    Handling(Handling),
    /// Its response is being sent.
    Sending(Box<StreamResponse>),
}

/// Why a stream is given up. Each protocol has its own codes for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResetReason {
    /// Nobody waits for the rest: a time-out, a shutdown, a response that was to be none.
    Cancelled,
    /// The rest of the response cannot be had.
    Failed,
    /// The same for a tunnel (RFC 9113 section 8.5).
    TunnelFailed,
    /// The request is malformed.
    Malformed,
}

/// What the connection has to do after a stream has done what it could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// Nothing: it is woken, or has its turn to send.
    None,
    /// Look at it again, so that its waker knows what it waits for.
    LookAgain,
    /// All of its response but the trailers has been queued.
    Finish,
    /// What there is of its response has been queued, and a reset is to follow.
    Reset(ResetReason),
}

pub(crate) type Handling = Pin<Box<dyn Future<Output = Box<Exchange>> + Send>>;

/// A response whose head has been sent.
pub(crate) struct StreamResponse {
    pub(crate) exchange: Box<Exchange>,
    pub(crate) body: OutputChain,
    pub(crate) source: Option<Box<dyn BodySource>>,
    /// The body is sent without an end, and this follows: its source has failed, or the request was
    /// malformed.
    pub(crate) reset_behind: Option<ResetReason>,
    /// They follow the body.
    pub(crate) trailers: HeaderList,
    /// Bytes of the body sent.
    pub(crate) sent: u64,
    pub(crate) rate: RateLimit,
    /// `http2_chunk_size`.
    pub(crate) chunk_bytes: u32,
    pub(crate) send_timeout: Duration,
    /// Runs while `limit_rate` holds the body back.
    pub(crate) pause: Option<Pin<Box<Sleep>>>,
}

impl<N: Copy> Stream<N> {
    /// Passes on what handler and client have for each other besides the response: interim
    /// responses, 100, and room for more of the body.
    pub(crate) fn pass_between(
        &mut self,
        wire: &mut impl MultiplexedWire<Name = N>,
        notes: &mut Notes,
        time: TurnTime,
    ) {
        let Some(name) = self.name else {
            return;
        };
        while let Some(interim) = self.feed.take_interim() {
            wire.send_interim(name, interim.status, &interim.headers);
        }
        // Whatever has arrived was passed on.
        self.feed.deny_arrival();
        let awaits_body = self.feed.demand() == Demand::Bytes;
        if awaits_body && !self.awaits_body {
            // `client_body_timeout` runs from here on.
            self.moved_ms = time.now_ms;
            if let Some(timeout) = self.feed.body_timeout() {
                notes.look_within(timeout);
            }
            wire.widen(name);
        }
        self.awaits_body = awaits_body;
        if self.awaits_continue && self.feed.has_begun() {
            self.awaits_continue = false;
            if awaits_body {
                wire.send_interim(name, StatusCode::CONTINUE, &HeaderList::new());
            }
        }
        let consumed = self.feed.take_consumed();
        if consumed > 0 {
            // Bytes in memory fit a usize.
            wire.release(name, consumed as usize);
        }
    }

    /// Asks the source of the response for more, as far as there is room.
    pub(crate) fn pull_body(
        &mut self,
        wire: &mut impl MultiplexedWire<Name = N>,
        cx: &mut Context<'_>,
    ) -> FollowUp {
        let (StreamState::Sending(sending), Some(name)) = (&mut self.state, self.name) else {
            return FollowUp::None;
        };
        if let Some(pause) = &mut sending.pause
            && pause.as_mut().poll(cx).is_ready()
        {
            sending.pause = None;
            wire.offer(name);
        }
        while let Some(source) = &mut sending.source {
            let room = STREAM_BUFFER_BYTES.saturating_sub(sending.body.len());
            let filled = source.poll_fill(cx, &mut sending.exchange, &mut sending.body, room);
            match filled {
                Poll::Pending => return FollowUp::None,
                Poll::Ready(Ok(filled)) => {
                    if sending.pause.is_none() {
                        wire.offer(name);
                    }
                    if filled == Filled::End {
                        sending.end_source();
                        // Neither the end nor trailers wait for a window.
                        if sending.body.is_empty() {
                            if let Some(reason) = sending.reset_behind {
                                return FollowUp::Reset(reason);
                            }
                            if sending.trailers.is_empty() {
                                wire.end_body(name);
                            }
                            return FollowUp::Finish;
                        }
                    }
                }
                Poll::Ready(Err(_)) => {
                    sending.cut();
                    if let Some(reason) = sending.reset_behind
                        && sending.body.is_empty()
                    {
                        return FollowUp::Reset(reason);
                    }
                    if sending.pause.is_none() {
                        wire.offer(name);
                    }
                }
            }
        }
        FollowUp::None
    }
}

/// Handles a request of a client that has moved to this address, if it has.
pub(crate) fn handle(arrival: Arrival, moved_to: Option<SocketAddr>) -> Handling {
    Box::pin(async move {
        let mut exchange = Box::new(arrival.begin());
        exchange.features.real_ip.moved_to = moved_to.map(Box::new);
        prologue::answer(&mut exchange).await;
        exchange
    })
}

/// Refuses a request.
pub(crate) fn refuse(
    arrival: Arrival,
    moved_to: Option<SocketAddr>,
    status: StatusCode,
) -> Handling {
    Box::pin(async move {
        let mut exchange = Box::new(arrival.begin());
        exchange.features.real_ip.moved_to = moved_to.map(Box::new);
        pipeline::fail(&mut exchange, status).await;
        exchange
    })
}

impl StreamResponse {
    /// The response of a handled exchange, whose head is sent first.
    pub(crate) fn new(mut exchange: Box<Exchange>) -> StreamResponse {
        let source = exchange.response.source.take();
        if source.is_none() {
            filters::add_trailers(&mut exchange);
        }
        StreamResponse {
            body: std::mem::take(&mut exchange.response.body),
            source: source.map(PendingBody::into_source),
            reset_behind: None,
            trailers: exchange.response.trailers.clone(),
            sent: 0,
            rate: RateLimit::of(&exchange),
            chunk_bytes: exchange.conf().http2_chunk_bytes.max(1),
            send_timeout: exchange.conf().send_timeout,
            pause: None,
            exchange,
        }
    }

    /// Whether nothing follows the head.
    pub(crate) fn is_empty(&self) -> bool {
        self.body.is_empty() && self.source.is_none() && self.trailers.is_empty()
    }

    /// The source has ended.
    fn end_source(&mut self) {
        let Some(mut source) = self.source.take() else {
            return;
        };
        let trailers = source.take_trailers(&mut self.exchange);
        let trailers = merged(&self.trailers, trailers);
        self.exchange.response.trailers = trailers;
        filters::add_trailers(&mut self.exchange);
        // They stay there for the log.
        self.trailers = self.exchange.response.trailers.clone();
        source.conclude(&mut self.exchange, true);
    }

    /// The source has failed.
    fn cut(&mut self) {
        let reason = match self.exchange.response.is_tunnel {
            true => ResetReason::TunnelFailed,
            false => ResetReason::Failed,
        };
        self.reset_behind.get_or_insert(reason);
        self.trailers.clear();
        if let Some(source) = self.source.take() {
            source.conclude(&mut self.exchange, false);
        }
    }

    /// Writes what is known at the end to the log.
    pub(crate) fn conclude(mut self: Box<Self>, completed: bool) {
        let exchange = &mut *self.exchange;
        if let Some(source) = self.source.take() {
            source.conclude(exchange, completed);
        }
        exchange.transfer.completed = completed;
        exchange.transfer.request_bytes =
            exchange.request.head.head_bytes as u64 + exchange.client.framed_bytes();
        exchange.transfer.sent_bytes = exchange.transfer.head_bytes + self.sent;
        pipeline::conclude(exchange);
    }
}

/// Trailers of filters and of the source.
fn merged(ours: &HeaderList, theirs: HeaderList) -> HeaderList {
    if ours.is_empty() {
        return theirs;
    }
    let mut all = theirs;
    for (name, value) in ours.iter() {
        // It was checked when it was added to the first list.
        let _ = all.push(name, value);
    }
    all
}
