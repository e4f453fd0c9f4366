//! An HTTP/2 connection: its turns, and its end.

use super::events::log_fault;
use super::framer::Framer;
use super::timeouts::ConnectionTimeouts;
use crate::connection::{Connection, HEAD_READ_BYTES};
use crate::multiplexed::{Exchanges, TurnTime};
use crate::worker::Worker;
use sealane_conf::model::LingeringClose;
use sealane_http::h2;
use sealane_io::Received;
use sealane_io::buffers;
use sealane_io::registry::Asked;
use std::future::poll_fn;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Turns after which other connections of the thread run and the kernel is polled: a request that
/// arrives during a download must be noticed.
const TURNS: u32 = 4;
/// Received bytes that one turn processes, which limits the work that a client can cause at a time.
const TURN_BYTES: usize = 64 << 10;
/// Bytes that one read asks for while a client is uploading.
const BULK_READ_BYTES: usize = 32 << 10;
/// Limit of output that waits for the client; beyond it nothing more is read. Responses without a
/// body are not held back by windows, only by this.
const MAX_QUEUED_BYTES: u64 = 256 << 10;
/// Bytes that the kernel may hold unsent (`TCP_NOTSENT_LOWAT`): a small response waits behind no
/// more than these, however large the kernel's buffer has grown.
const UNSENT_BYTES: u32 = 256 << 10;

/// An HTTP/2 connection while it lives. Each part keeps its own order; what concerns several of
/// them is done here, in `exchanges` and in `timeouts`.
pub(super) struct Serving {
    worker: Arc<Worker>,
    /// The streams, the codec, and what is to be sent.
    pub(super) exchanges: Exchanges<Framer>,
    pub(super) timeouts: ConnectionTimeouts,
    pub(super) input: ReceiveState,
    /// Streams of configurations older than this one have been ended.
    oldest_configuration: u64,
}

/// The state of the client's input.
#[derive(Default)]
pub(super) struct ReceiveState {
    /// The client's SETTINGS, or a request, have come.
    pub(super) has_begun: bool,
    /// Received bytes wait until the client has taken some of what is queued.
    held_back: bool,
    /// The client has finished sending.
    ended: bool,
    /// The last read was a large one.
    bulk: bool,
}

/// How a connection ends.
pub(super) enum ConnectionEnd {
    /// In order: all output has been sent.
    Done,
    /// In order, while it was idle, and without waiting for anything.
    Displaced,
    /// It broke, or is to be closed at once.
    Broken,
}

/// Serves a connection that speaks HTTP/2 to its end.
pub(crate) async fn serve(connection: &mut Connection) {
    let mut serving = Serving::new(connection);
    let end = poll_fn(|cx| serving.poll(connection, cx)).await;
    serving.exchanges.abandon();
    poll_fn(|cx| serving.exchanges.poll_handlers(connection, cx)).await;
    drop(serving);
    let lingers = connection.default_conf().lingering_close != LingeringClose::Off;
    match end {
        ConnectionEnd::Done if lingers => connection.linger().await,
        ConnectionEnd::Done => connection.say_goodbye().await,
        ConnectionEnd::Displaced => connection.say_goodbye().await,
        ConnectionEnd::Broken => {}
    }
}

impl Serving {
    fn new(connection: &mut Connection) -> Serving {
        let mut out = buffers::small();
        let now = connection.facts.accepted.elapsed();
        let settings = connection.server().http2.clone();
        let codec = h2::Connection::server(settings, now, &mut out);
        let conf = connection.default_conf();
        let look_every = conf.send_timeout.min(conf.client_body_timeout);
        let nodelay = conf.tcp_nodelay;
        connection.set_nodelay(nodelay);
        limit_unsent(connection);
        Serving {
            worker: connection.worker.clone(),
            exchanges: Exchanges::new(Framer::new(codec, out)),
            timeouts: ConnectionTimeouts::new(look_every),
            input: ReceiveState::default(),
            oldest_configuration: 0,
        }
    }

    fn poll(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Poll<ConnectionEnd> {
        self.exchanges.woken.set_task(cx);
        for _ in 0..TURNS {
            self.exchanges.time = TurnTime::now();
            match self.turn(connection, cx) {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                Err(end) => return Poll::Ready(end),
            }
        }
        // Wakes the task after the runtime has looked for events.
        sealane_io::runtime::defer(cx.waker().clone());
        Poll::Pending
    }

    /// One turn. Returns whether another one may have something to do.
    fn turn(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Result<bool, ConnectionEnd> {
        connection.renew();
        match connection.asked() {
            Asked::Nothing => {}
            Asked::Finish if self.is_idle() && !self.worker.registry.is_shutting_down() => {
                // Its slot of `worker_connections` is needed. What the client has sent meanwhile
                // was not processed, as GOAWAY says, and can be sent again.
                self.exchanges.wire.shut_down_now();
                self.flush(connection, cx)?;
                return Err(ConnectionEnd::Displaced);
            }
            Asked::Move | Asked::Finish => self.announce_end(),
            Asked::Abort => return Err(ConnectionEnd::Broken),
        }
        let oldest = connection.oldest_configuration();
        if self.oldest_configuration < oldest {
            self.oldest_configuration = oldest;
            self.exchanges.retire_before(connection, oldest);
        }
        self.insist_on_end();
        let mut news = self.receive(connection, cx)?;
        news |= self.exchanges.let_streams_go_on();
        self.fill();
        news |= self.exchanges.streams.has_queued();
        let flushed = self.flush(connection, cx)?;
        if self.exchanges.wire.codec.is_finished() || (self.input.ended && self.is_idle()) {
            return match flushed {
                true => Err(ConnectionEnd::Done),
                false => self.wait(connection, cx),
            };
        }
        if news
            || (flushed
                && (self.input.held_back || self.exchanges.wire.codec.next_data().is_some()))
        {
            return Ok(true);
        }
        self.wait(connection, cx)
    }

    /// Nothing can be done now: frees what an idle connection does not need, and checks the
    /// deadline.
    fn wait(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Result<bool, ConnectionEnd> {
        if self.is_idle() && !self.exchanges.wire.has_output() {
            self.rest(connection);
        }
        self.set_deadline(connection);
        if connection.poll_expired(cx).is_pending() {
            return Ok(false);
        }
        match self.expire(connection) {
            true => Ok(true),
            false => Err(ConnectionEnd::Broken),
        }
    }

    /// Whether no stream is open.
    pub(super) fn is_idle(&self) -> bool {
        self.exchanges.streams.len() == 0 && self.exchanges.wire.unread.is_empty()
    }

    /// Announces that the connection ends, without losing a request (RFC 9113 section 6.8).
    pub(super) fn announce_end(&mut self) {
        if self.timeouts.announce(self.exchanges.time) {
            self.exchanges.wire.shut_down();
        }
    }

    /// Frees what a connection does not need between requests.
    fn rest(&mut self, connection: &mut Connection) {
        connection.enter_idle();
        if connection.buffer.is_empty() {
            buffers::release(&mut connection.buffer);
        }
        self.exchanges.wire.release_buffers();
        connection.transport.release_buffers();
        self.count();
    }

    /// The next request does not follow at once: frees tables that can be made again.
    pub(super) fn trim(&mut self) {
        self.exchanges.wire.codec.trim();
        self.exchanges.streams.trim();
        self.exchanges.wire.unread.trim();
        self.exchanges.woken.trim();
    }

    /// Reads what has arrived. Returns whether there may be more.
    fn receive(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Result<bool, ConnectionEnd> {
        let mut budget = TURN_BYTES;
        loop {
            if !connection.buffer.is_empty() {
                self.input.held_back = !self.read_frames(connection);
                if self.input.held_back {
                    return Ok(false);
                }
            }
            self.input.held_back = false;
            if self.input.ended {
                return Ok(false);
            }
            if budget == 0 {
                return Ok(true);
            }
            if connection.buffer.capacity() == 0 {
                connection.buffer = buffers::small();
            }
            let max = match self.input.bulk {
                true => BULK_READ_BYTES,
                false => HEAD_READ_BYTES,
            };
            let received = connection
                .transport
                .poll_receive(cx, &mut connection.buffer, max);
            match received {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(Received::Bytes(count))) => {
                    self.input.bulk = count == max;
                    budget = budget.saturating_sub(count);
                }
                Poll::Ready(Ok(Received::End)) => self.end_input(),
                Poll::Ready(Err(error)) => {
                    connection.log_broken(&error, "while processing HTTP/2 connection");
                    return Err(ConnectionEnd::Broken);
                }
            }
        }
    }

    /// The client has closed its side: uploads in progress stay incomplete.
    fn end_input(&mut self) {
        self.input.ended = true;
        for stream in self.exchanges.streams.iter() {
            stream.feed.set_gone();
        }
    }

    /// Processes the frames that have arrived. False if some have to wait, because the client does
    /// not take the output.
    fn read_frames(&mut self, connection: &mut Connection) -> bool {
        let mut input = std::mem::take(&mut connection.buffer);
        let mut at = 0;
        let age = self
            .exchanges
            .time
            .now
            .saturating_duration_since(connection.facts.accepted);
        let all = loop {
            if self.exchanges.wire.codec.is_finished() {
                at = input.len(); // what comes now comes too late
                break true;
            }
            if self.exchanges.wire.queued_bytes() > MAX_QUEUED_BYTES {
                break false;
            }
            match self.exchanges.wire.receive(&input[at..], age) {
                Ok(received) => {
                    at += received.consumed;
                    match received.event {
                        Some(event) => self.take_in(connection, event),
                        None => break true,
                    }
                }
                Err(fault) => {
                    log_fault(connection, fault); // GOAWAY is queued; the codec is finished
                }
            }
        };
        if at == input.len() {
            input.clear();
        } else {
            input.drain(..at);
        }
        connection.buffer = input;
        all
    }

    /// Sends the output. Returns whether all of it has been sent.
    fn flush(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Result<bool, ConnectionEnd> {
        if !self.exchanges.wire.has_output() {
            return Ok(true);
        }
        let message = self.exchanges.wire.unsent();
        let before = message.sent;
        let sending = connection.transport.poll_send(cx, message);
        if message.sent > before {
            self.exchanges.wire.note_sent();
        }
        match sending {
            Poll::Ready(Ok(())) => {
                self.exchanges.wire.note_flushed();
                Ok(true)
            }
            Poll::Ready(Err(error)) => {
                connection.log_broken(&error, "while sending response to client");
                Err(ConnectionEnd::Broken)
            }
            Poll::Pending => {
                self.exchanges.wire.note_stalled(self.exchanges.time);
                Ok(false)
            }
        }
    }

    /// Adds the codec's counts to the thread's counters.
    fn count(&mut self) {
        self.worker
            .counters
            .http2
            .add(&self.exchanges.wire.codec.take_counters());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Whatever ended the connection, a panic included.
        self.count();
    }
}

fn limit_unsent(connection: &Connection) {
    if connection.facts.socket().is_tcp() {
        let socket = connection.facts.socket().as_fd();
        // Without it answers are later, not wrong.
        let _ = sealane_sys::socket::set_unsent_limit(socket, UNSENT_BYTES);
    }
}
