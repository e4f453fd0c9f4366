//! An HTTP/2 connection: its turns, and its end.

use super::exchanges::log_fault;
use super::patience::Patience;
use super::stream::{State, Stream};
use super::wakers::Woken;
use crate::buffers;
use crate::chain::OutputChain;
use crate::connection::{Connection, HEAD_READ_BYTES};
use crate::registry::Asked;
use sealane_io::{OutboundMessage, Received};
use crate::worker::Worker;
use sealane_conf::model::{LingeringClose, LocationConf};
use sealane_http::h2::{self, StreamRef};
use std::future::poll_fn;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Turns after which other connections of the thread get theirs, and the kernel is asked
/// what has come: a request behind which a download goes on must be seen.
const TURNS: u32 = 4;
/// Received bytes that one turn looks at: what a client may have the thread do at a time.
const TURN_BYTES: usize = 64 << 10;
/// Bytes asked for at a time once a client is uploading.
const BULK_READ_BYTES: usize = 32 << 10;
/// Output that waits for the client, past which nothing more is read from it: answers
/// without a body are not held back by windows, only by this.
const MAX_QUEUED_BYTES: u64 = 256 << 10;
/// Bytes that the kernel may hold without having sent them (`TCP_NOTSENT_LOWAT`): a small
/// answer waits behind no more than these, however large the kernel's buffer has grown.
const UNSENT_BYTES: u32 = 256 << 10;

/// An HTTP/2 connection while it lives.
pub(super) struct Serving {
    worker: Arc<Worker>,
    pub(super) codec: h2::Connection,
    /// Streams by place; places are used again.
    pub(super) streams: Vec<Option<Stream>>,
    pub(super) free: Vec<u32>,
    /// Streams that are there, those that the client has reset included.
    pub(super) live: usize,
    /// The place of each stream of the codec, by its slot.
    pub(super) places: Vec<u32>,
    pub(super) woken: Woken,
    /// Places of streams that are to be looked at in this turn.
    pub(super) again: Vec<u32>,
    /// Streams that were answered while the client still sends, and when.
    pub(super) unwanted: Vec<(StreamRef, u64)>,
    /// What is to be sent: first the chain, then the bytes.
    pub(super) chain: OutputChain,
    pub(super) out: Vec<u8>,
    pub(super) patience: Patience,
    /// When the client stopped taking bytes.
    pub(super) stalled_ms: Option<u64>,
    /// When the end of the connection was announced.
    pub(super) announced_ms: Option<u64>,
    /// How often the streams of a busy connection are looked at: the shortest time-out
    /// of any of them.
    pub(super) look_every: Duration,
    /// When that is due, by the coarse clock: whatever comes until then does not put it off.
    pub(super) look_at_ms: u64,
    /// The time of this turn.
    pub(super) now: Instant,
    pub(super) now_ms: u64,
    /// The client's SETTINGS have come.
    pub(super) client_is_known: bool,
    /// Received bytes wait until the client has taken some of what is queued.
    held_back: bool,
    /// The client has finished sending.
    input_ended: bool,
    /// The last read was a large one.
    bulk: bool,
}

/// How a connection ends.
pub(super) enum End {
    /// In order: what is queued has left.
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
    serving.abandon();
    poll_fn(|cx| serving.poll_handlers(connection, cx)).await;
    drop(serving);
    let lingers = default_conf(connection).lingering_close != LingeringClose::Off;
    match end {
        End::Done if lingers => connection.linger().await,
        End::Done => connection.say_goodbye().await,
        End::Displaced => connection.say_goodbye().await,
        End::Broken => {}
    }
}

impl Serving {
    fn new(connection: &mut Connection) -> Serving {
        let mut out = buffers::small();
        let now = connection.facts.accepted.elapsed();
        let settings = connection.server().http2.clone();
        let codec = h2::Connection::server(settings, now, &mut out);
        let conf = default_conf(connection);
        let look_every = conf.send_timeout.min(conf.client_body_timeout);
        let nodelay = conf.tcp_nodelay;
        connection.set_nodelay(nodelay);
        limit_unsent(connection);
        Serving {
            worker: connection.worker.clone(),
            codec,
            streams: Vec::new(),
            free: Vec::new(),
            live: 0,
            places: Vec::new(),
            woken: Woken::default(),
            again: Vec::new(),
            unwanted: Vec::new(),
            chain: OutputChain::new(),
            out,
            patience: Patience::Unset,
            stalled_ms: None,
            announced_ms: None,
            look_every,
            look_at_ms: u64::MAX,
            now: Instant::now(),
            now_ms: 0,
            client_is_known: false,
            held_back: false,
            input_ended: false,
            bulk: false,
        }
    }

    fn poll(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Poll<End> {
        self.woken.set_task(cx);
        for _ in 0..TURNS {
            self.read_clock();
            match self.turn(connection, cx) {
                Ok(true) => {}
                Ok(false) => return Poll::Pending,
                Err(end) => return Poll::Ready(end),
            }
        }
        // Wakes the task after the runtime has looked for events.
        let _ = pin!(tokio::task::yield_now()).poll(cx);
        Poll::Pending
    }

    fn read_clock(&mut self) {
        self.now = Instant::now();
        self.now_ms = sealane_sys::time::monotonic_coarse_ms();
    }

    /// One turn. Returns whether another one may find something to do.
    fn turn(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Result<bool, End> {
        connection.renew();
        match connection.asked() {
            Asked::Nothing => {}
            Asked::Finish if self.is_idle() && !self.worker.registry.is_shutting_down() => {
                // Its place is needed. Whatever the client has sent meanwhile was not
                // processed, as GOAWAY says, and can be sent again.
                self.codec.shut_down_now(&mut self.out);
                self.flush(connection, cx)?;
                return Err(End::Displaced);
            }
            Asked::Move | Asked::Finish => self.announce_end(),
            Asked::Abort => return Err(End::Broken),
        }
        self.insist_on_end();
        let mut news = self.receive(connection, cx)?;
        news |= self.let_streams_go_on(connection);
        self.fill();
        news |= !self.again.is_empty();
        let flushed = self.flush(connection, cx)?;
        if self.codec.is_finished() || (self.input_ended && self.is_idle()) {
            return match flushed {
                true => Err(End::Done),
                false => self.wait(connection, cx),
            };
        }
        if news || (flushed && (self.held_back || self.codec.next_data().is_some())) {
            return Ok(true);
        }
        self.wait(connection, cx)
    }

    /// Nothing can be done now: gives back what an idle connection does not need, and
    /// looks after the clock.
    fn wait(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Result<bool, End> {
        if self.is_idle() && !self.has_output() {
            self.rest(connection);
        }
        self.set_deadline(connection);
        if connection.poll_expired(cx).is_pending() {
            return Ok(false);
        }
        match self.expire(connection) {
            true => Ok(true),
            false => Err(End::Broken),
        }
    }

    /// Whether no stream is open.
    pub(super) fn is_idle(&self) -> bool {
        self.live == 0 && self.unwanted.is_empty()
    }

    /// Whether something waits for the socket: here, or in the transport, which has to be
    /// asked again until it says that all has left.
    pub(super) fn has_output(&self) -> bool {
        !self.out.is_empty() || !self.chain.is_empty() || self.stalled_ms.is_some()
    }

    /// Bytes that wait for the socket.
    pub(super) fn queued_bytes(&self) -> u64 {
        self.out.len() as u64 + self.chain.len()
    }

    /// Announces that the connection ends, without losing a request (RFC 9113 section 6.8).
    pub(super) fn announce_end(&mut self) {
        if self.announced_ms.is_none() {
            self.announced_ms = Some(self.now_ms);
            self.codec.shut_down(&mut self.out);
        }
    }

    /// Between requests a connection costs next to nothing.
    fn rest(&mut self, connection: &mut Connection) {
        connection.enter_idle();
        if connection.buffer.is_empty() {
            buffers::release(&mut connection.buffer);
        }
        buffers::release(&mut self.out);
        connection.transport.release_buffers();
        self.count();
    }

    /// The next request does not come at once: its tables can be made again.
    pub(super) fn trim(&mut self) {
        self.codec.trim();
        self.streams = Vec::new();
        self.free = Vec::new();
        self.places = Vec::new();
        self.again = Vec::new();
        self.unwanted = Vec::new();
        self.woken.trim();
    }

    /// Whether [`Serving::trim`] would give anything back.
    pub(super) fn can_trim(&self) -> bool {
        self.streams.capacity() > 0
    }

    /// Reads what has come. Returns whether there may be more.
    fn receive(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Result<bool, End> {
        let mut budget = TURN_BYTES;
        loop {
            if !connection.buffer.is_empty() {
                self.held_back = !self.read_frames(connection);
                if self.held_back {
                    return Ok(false);
                }
            }
            self.held_back = false;
            if self.input_ended {
                return Ok(false);
            }
            if budget == 0 {
                return Ok(true);
            }
            if connection.buffer.capacity() == 0 {
                connection.buffer = buffers::small();
            }
            let max = match self.bulk {
                true => BULK_READ_BYTES,
                false => HEAD_READ_BYTES,
            };
            let received = connection
                .transport
                .poll_receive(cx, &mut connection.buffer, max);
            match received {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(Received::Bytes(count))) => {
                    self.bulk = count == max;
                    budget = budget.saturating_sub(count);
                }
                Poll::Ready(Ok(Received::End)) => self.end_input(),
                Poll::Ready(Err(error)) => {
                    connection.log_broken(&error, "while processing HTTP/2 connection");
                    return Err(End::Broken);
                }
            }
        }
    }

    /// The client has closed its side: what is being uploaded will not be complete.
    fn end_input(&mut self) {
        self.input_ended = true;
        for stream in self.streams.iter().flatten() {
            stream.feed.set_gone();
        }
    }

    /// Takes in the frames that have come. False when some have to wait, because the
    /// client does not take what is queued for it.
    fn read_frames(&mut self, connection: &mut Connection) -> bool {
        let mut input = std::mem::take(&mut connection.buffer);
        let mut at = 0;
        let now = self
            .now
            .saturating_duration_since(connection.facts.accepted);
        let all = loop {
            if self.codec.is_finished() {
                at = input.len(); // what comes now comes too late
                break true;
            }
            if self.queued_bytes() > MAX_QUEUED_BYTES {
                break false;
            }
            match self.codec.receive(&input[at..], now, &mut self.out) {
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

    fn let_streams_go_on(&mut self, connection: &mut Connection) -> bool {
        let mut places = std::mem::take(&mut self.again);
        for place in places.iter().copied() {
            self.go_on(connection, place as usize);
        }
        let had = !places.is_empty();
        places.clear();
        self.woken.take(&mut places);
        for place in places.iter().copied() {
            self.go_on(connection, place as usize);
        }
        let had = had || !places.is_empty();
        places.clear();
        if self.again.is_empty() {
            self.again = places;
        }
        had
    }

    /// Sends what is queued. Returns whether all of it has left.
    fn flush(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Result<bool, End> {
        if !self.has_output() {
            return Ok(true);
        }
        if !self.chain.is_empty() {
            self.chain.push_bytes(std::mem::take(&mut self.out));
        }
        let mut message = OutboundMessage {
            // Frames are too small for a call each: they are read in batches.
            sendfile: false,
            ..OutboundMessage::new(
                std::mem::take(&mut self.out),
                std::mem::take(&mut self.chain),
            )
        };
        let sending = connection.transport.poll_send(cx, &mut message);
        (self.out, self.chain) = (message.head, message.body);
        if message.sent > 0 {
            self.stalled_ms = None;
        }
        match sending {
            Poll::Ready(Ok(())) => {
                self.stalled_ms = None;
                self.codec.flushed();
                Ok(true)
            }
            Poll::Ready(Err(error)) => {
                connection.log_broken(&error, "while sending response to client");
                Err(End::Broken)
            }
            Poll::Pending => {
                self.stalled_ms.get_or_insert(self.now_ms);
                Ok(false)
            }
        }
    }

    /// The connection is over. Responses that are not complete end here; handlers are
    /// told that their client has gone.
    fn abandon(&mut self) {
        for place in 0..self.streams.len() {
            let Some(stream) = &mut self.streams[place] else {
                continue;
            };
            stream.reference = None;
            match stream.state {
                State::Handling(_) => {
                    stream.feed.set_gone();
                    self.again.push(place as u32);
                }
                State::Sending(_) => self.drop_stream(place),
            }
        }
    }

    /// Lets handlers finish that do so whether their client is there or not
    /// (`proxy_ignore_client_abort`, mirrored requests). Most are done at once; all of
    /// them write their line of the access log.
    fn poll_handlers(&mut self, connection: &mut Connection, cx: &mut Context<'_>) -> Poll<()> {
        self.woken.set_task(cx);
        loop {
            self.read_clock();
            let news = self.let_streams_go_on(connection);
            if self.live == 0 || connection.asked() == Asked::Abort {
                return Poll::Ready(());
            }
            if !news && self.again.is_empty() {
                return Poll::Pending;
            }
        }
    }

    /// What the codec counted goes into the thread's counters.
    fn count(&mut self) {
        self.worker.counters.http2.add(&self.codec.take_counters());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Whatever ended the connection, a panic included.
        self.count();
    }
}

/// Settings that hold for the connection as a whole.
pub(super) fn default_conf(connection: &Connection) -> &LocationConf {
    let location = connection.server().default_location;
    &connection.snapshot.location(location).conf
}

fn limit_unsent(connection: &Connection) {
    if connection.facts.socket.is_tcp() {
        let socket = connection.facts.socket.as_fd();
        // Without it answers are later, not wrong.
        let _ = sealane_sys::socket::set_unsent_limit(socket, UNSENT_BYTES);
    }
}
