//! The client's side of an HTTP/1 exchange while it is being handled: the request body, interim
//! responses, and whether the client is still there.

use crate::client_link::{BodyError, ClientFeed, Demand, Interim};
use crate::connection::{Connection, HEAD_READ_BYTES, Wait};
use bytes::Bytes;
use sealane_conf::model::LogLevel;
use sealane_http::h1::{BodyDecoder, CONTINUE, Decoded, Framing};
use sealane_io::chain::OutputChain;
use sealane_io::registry::Asked;
use sealane_io::{OutboundMessage, Received};
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Bytes of a body asked for at a time: two full TLS records.
const BODY_READ_BYTES: usize = 32 << 10;

/// The rest of a request body on its connection, which has to be known before the next request is
/// read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Remainder {
    /// Nothing: the next byte begins another request.
    Nothing,
    /// More of it is to come.
    More,
    /// Unknown: the request or the framing of its body was malformed. Nothing that follows may be
    /// taken for a request.
    Unknown,
}

/// News from the client for the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientNews {
    /// Bytes of the body, or of a tunnel.
    Bytes,
    /// The end of the body.
    End,
    /// The body cannot be read on.
    Failed,
    /// The client has gone.
    Gone,
    /// Nothing more of the body has arrived.
    NothingArrived,
}

/// The input from the client during an exchange. Bytes that have been received but not decoded are
/// in the connection's buffer.
pub(super) struct Intake {
    feed: ClientFeed,
    decoder: BodyDecoder,
    /// The head was refused, and everything after it.
    is_refused: bool,
    /// The client waits for 100 before it sends its body.
    awaits_continue: bool,
    /// Interim responses that have not left yet.
    early: Vec<u8>,
    /// Bytes of the body with its framing, without what was discarded.
    pub(super) received: u64,
    /// The reader knows of the end.
    told_end: bool,
    /// The deadline is that of the body.
    waits: bool,
    body_timeout: Duration,
}

impl Intake {
    pub(super) fn new(feed: ClientFeed, framing: Framing, awaits_continue: bool) -> Intake {
        Intake {
            feed,
            decoder: BodyDecoder::new(framing),
            is_refused: false,
            awaits_continue,
            early: Vec::new(),
            received: 0,
            told_end: false,
            waits: false,
            body_timeout: Duration::MAX,
        }
    }

    /// For a request whose head was refused: its body is not read.
    pub(super) fn refused(feed: ClientFeed) -> Intake {
        Intake {
            is_refused: true,
            ..Intake::new(feed, Framing::None, false)
        }
    }

    /// The rest of the body. Once unknown, it stays so.
    pub(super) fn remainder(&self) -> Remainder {
        match () {
            () if self.is_refused || self.decoder.error().is_some() => Remainder::Unknown,
            () if self.decoder.is_done() => Remainder::Nothing,
            () => Remainder::More,
        }
    }

    /// Whether the body is being read.
    pub(super) fn has_reader(&self) -> bool {
        self.feed.has_begun()
    }

    /// Whether the connection has become a tunnel.
    pub(super) fn is_tunnel(&self) -> bool {
        self.feed.is_tunnel()
    }

    /// `client_body_timeout`, unless the reader of the body has set another.
    pub(super) fn set_body_timeout(&mut self, timeout: Duration) {
        self.body_timeout = timeout;
    }

    /// Interim responses to send before the final one. With `discards` the body will be read in any
    /// case, so a client that waits is told to go on.
    pub(super) fn take_early(&mut self, discards: bool) -> Vec<u8> {
        self.gather_interim();
        let mut early = std::mem::take(&mut self.early);
        if discards && self.awaits_continue && self.received == 0 {
            early.extend_from_slice(CONTINUE);
        }
        self.awaits_continue = false;
        early
    }

    /// Whether the reader of the body, or a tunnel, waits for bytes.
    pub(super) fn wants_bytes(&self) -> bool {
        self.feed.demand() == Demand::Bytes
    }

    /// Brings what the handler waits for. Once there is news, the handler is to be polled
    /// again. With `may_expire` the connection's deadline is the body's; otherwise the caller
    /// uses it.
    pub(super) fn poll_news(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
        may_expire: bool,
    ) -> Poll<ClientNews> {
        self.gather_interim();
        let demand = self.feed.demand();
        if demand == Demand::Bytes && self.awaits_continue {
            self.awaits_continue = false;
            if self.received == 0 && connection.buffer.is_empty() {
                self.early.extend_from_slice(CONTINUE);
            }
        }
        self.send_early(connection, cx);
        let news = match demand {
            Demand::Nothing => Poll::Pending,
            Demand::Watch => self.poll_watch(connection, cx),
            Demand::Bytes if self.feed.is_tunnel() => self.poll_tunnel(connection, cx),
            Demand::Bytes => self.poll_body(connection, cx, may_expire),
        };
        if news.is_pending() && self.feed.deny_arrival() {
            // The time-out begins when the reader waits.
            self.waits = false;
            return Poll::Ready(ClientNews::NothingArrived);
        }
        news
    }

    /// Decodes and discards what has arrived of a body that is not read.
    pub(super) fn drop_received(&mut self, connection: &mut Connection) -> Remainder {
        let mut at = 0;
        while let Some(part) = self.next_part(connection, at, "discarding the request body") {
            at += part.consumed;
        }
        if at > 0 {
            // The client does not wait for 100.
            self.awaits_continue = false;
        }
        connection.buffer.drain(..at);
        self.remainder()
    }

    /// The next part of the body in the connection's buffer, from `at` on. `None` if there is none:
    /// the buffer is used up, the body has ended, or its framing is wrong. An error is reported
    /// once, to the log and to the reader.
    fn next_part(&mut self, connection: &Connection, at: usize, doing: &str) -> Option<Decoded> {
        if self.remainder() != Remainder::More || at == connection.buffer.len() {
            return None;
        }
        match self.decoder.decode(&connection.buffer[at..]) {
            Ok(part) => Some(part),
            Err(error) => {
                connection.log(LogLevel::Info, &format!("{error} while {doing}"));
                self.feed.fail(BodyError::Malformed);
                None
            }
        }
    }

    fn poll_body(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
        may_expire: bool,
    ) -> Poll<ClientNews> {
        loop {
            match self.remainder() {
                Remainder::Nothing if self.told_end => return Poll::Pending,
                Remainder::Nothing => {
                    self.told_end = true;
                    self.feed.finish(Vec::new());
                    return Poll::Ready(ClientNews::End);
                }
                Remainder::Unknown => return Poll::Pending,
                Remainder::More => {}
            }
            if !connection.buffer.is_empty() {
                if let Some(news) = self.decode(connection) {
                    return Poll::Ready(news);
                }
                continue;
            }
            let wait = match may_expire {
                true => {
                    if !std::mem::replace(&mut self.waits, true) {
                        let timeout = self.feed.body_timeout();
                        connection.set_deadline(timeout.unwrap_or(self.body_timeout));
                    }
                    connection.poll_receive_wait(cx, BODY_READ_BYTES, false)
                }
                false => receive(connection, cx, BODY_READ_BYTES),
            };
            let wait = ready!(wait);
            self.waits = false;
            match wait {
                Wait::Bytes => {}
                Wait::TimedOut => {
                    self.feed.fail(BodyError::TimedOut);
                    return Poll::Ready(ClientNews::Failed);
                }
                other => return Poll::Ready(self.lost(connection, &other)),
            }
        }
    }

    /// Decodes the buffer, all of its chunks at a time. Returns what the reader got.
    fn decode(&mut self, connection: &mut Connection) -> Option<ClientNews> {
        let mut at = 0;
        let mut has_data = false;
        while let Some(decoded) = self.next_part(connection, at, "reading client request body") {
            self.received += decoded.consumed as u64;
            self.feed.count_framed(decoded.consumed as u64);
            self.announce(decoded.data.len() as u64);
            if decoded.data == (0..connection.buffer.len()) {
                let piece = std::mem::take(&mut connection.buffer);
                self.feed.push(Bytes::from(piece));
                return Some(ClientNews::Bytes);
            }
            let data = at + decoded.data.start..at + decoded.data.end;
            has_data |= !data.is_empty();
            self.feed.push_copy(&connection.buffer[data]);
            at += decoded.consumed;
        }
        connection.buffer.drain(..at);
        match has_data {
            true => Some(ClientNews::Bytes),
            false => (self.remainder() == Remainder::Unknown).then_some(ClientNews::Failed),
        }
    }

    /// Announces the rest of a chunk before it arrives, so that a body that is too large is refused
    /// at once.
    fn announce(&self, here: u64) {
        let left = self.decoder.known_left();
        // The decoder returns one byte if it does not know the length.
        if left > 1 {
            self.feed.announce(here + left);
        }
    }

    /// Passes on everything that the client sends.
    fn poll_tunnel(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<ClientNews> {
        if connection.buffer.is_empty() {
            match ready!(receive(connection, cx, BODY_READ_BYTES)) {
                Wait::Bytes => {}
                Wait::End => {
                    self.feed.finish(Vec::new());
                    return Poll::Ready(ClientNews::End);
                }
                other => return Poll::Ready(self.lost(connection, &other)),
            }
        }
        let piece = Bytes::from(std::mem::take(&mut connection.buffer));
        self.received += piece.len() as u64;
        self.feed.push(piece);
        Poll::Ready(ClientNews::Bytes)
    }

    /// Ready when the client has gone, whoever wants to know.
    pub(super) fn poll_gone(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        self.poll_watch(connection, cx).map(|_| ())
    }

    /// Ready when the client has gone. What it sends meanwhile (the next request) is kept, up
    /// to a limit; past that the client is no longer watched.
    fn poll_watch(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<ClientNews> {
        while connection.buffer.len() < HEAD_READ_BYTES {
            match ready!(receive(connection, cx, HEAD_READ_BYTES)) {
                Wait::Bytes => {}
                other => return Poll::Ready(self.lost(connection, &other)),
            }
        }
        Poll::Pending
    }

    fn lost(&mut self, connection: &Connection, wait: &Wait) -> ClientNews {
        if let Wait::Broken(error) = wait {
            connection.log_broken(error, "while reading from client");
        }
        self.feed.set_gone();
        ClientNews::Gone
    }

    fn gather_interim(&mut self) {
        while let Some(Interim { status, headers }) = self.feed.take_interim() {
            sealane_http::h1::encode_interim_head(&mut self.early, status, &headers);
        }
    }

    /// Sends interim responses as far as the socket takes them; the rest is sent with the final
    /// response.
    fn send_early(&mut self, connection: &mut Connection, cx: &mut Context<'_>) {
        if self.early.is_empty() {
            return;
        }
        let early = std::mem::take(&mut self.early);
        let mut message = OutboundMessage {
            sendfile: false,
            ..OutboundMessage::new(early, OutputChain::new())
        };
        let sending = connection.transport.poll_send(cx, &mut message);
        // Interim responses are not part of the one that follows.
        connection.transport.forget_progress();
        self.early = message.head;
        if let Poll::Ready(Err(error)) = sending {
            self.early.clear();
            connection.log_broken(&error, "while sending response to client");
            self.feed.set_gone();
        }
    }
}

/// Receives without a deadline.
fn receive(connection: &mut Connection, cx: &mut Context<'_>, max: usize) -> Poll<Wait> {
    if connection.buffer.capacity() == 0 {
        connection.buffer = sealane_io::buffers::small();
    }
    let received = connection
        .transport
        .poll_receive(cx, &mut connection.buffer, max);
    let wait = match received {
        Poll::Ready(Ok(Received::Bytes(_))) => Wait::Bytes,
        Poll::Ready(Ok(Received::End)) => Wait::End,
        Poll::Ready(Err(error)) => Wait::Broken(error),
        Poll::Pending if connection.asked() == Asked::Abort => Wait::Asked(Asked::Abort),
        Poll::Pending => {
            if connection.buffer.is_empty() {
                sealane_io::buffers::release(&mut connection.buffer);
            }
            return Poll::Pending;
        }
    };
    Poll::Ready(wait)
}
