//! A response on its way from the origin into a cache file.
//!
//! It has a task of its own, which reads from the origin as fast as that sends and does not end
//! when a client goes. Everybody who wants the response reads along: what waits for the disk from
//! memory, what is written from the file. So one request to the origin serves any number of
//! clients, and each of them gets the first bytes as soon as they are there.

use super::super::body::Pace;
use super::super::conversation::Conversation;
use super::super::failure::Failure;
use super::super::lease::Leased;
use super::super::response;
use super::super::wire::{ResponseEnd, UpstreamHead, WireEvent};
use super::writer::{Writer, WrittenAs};
use crate::body_source::{BodySource, Filled, SourceError};
use crate::exchange::Exchange;
use crate::request_log;
use bytes::Bytes;
use sealane_cache::{CacheHeader, CacheKey, Visit};
use sealane_conf::model::LogLevel;
use sealane_http::Method;
use sealane_http::h1::ResponseFraming;
use sealane_http::headers::HeaderList;
use sealane_io::chain::OutputChain;
use sealane_io::open_file::OpenFile;
use sealane_log::Logger;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Bytes that wait for the disk before no more are read from the origin.
const MAX_WAITING_BYTES: u64 = 256 << 10;

/// A response that is being received, for all who read it.
pub(crate) struct Fill {
    /// Whose response it is: others may have keys with the same MD5 sum.
    pub(super) key: CacheKey,
    /// Validity and variant.
    pub(super) header: CacheHeader,
    /// Its head, which everybody shares.
    pub(super) head: Arc<UpstreamHead>,
    /// It answers a HEAD that was sent as such: its body does not come.
    is_head_only: bool,
    progress: Mutex<FillProgress>,
}

/// How far it is.
struct FillProgress {
    /// The file, once there is one.
    file: Option<Arc<OpenFile>>,
    /// Bytes of the body that are in the file.
    written: u64,
    /// The position of `waiting` in the body; behind `written` only if the disk has failed.
    waiting_at: u64,
    /// What is not in the file.
    waiting: VecDeque<Bytes>,
    waiting_bytes: u64,
    /// How it ended.
    end: Option<Ending>,
    /// When something came last.
    moved: Instant,
    /// Where those who read are.
    readers: Vec<Option<u64>>,
    /// Nothing more goes into the file: memory is kept only until everybody has read it.
    disk_has_failed: bool,
    wakers: Vec<Waker>,
    /// The task that receives.
    task: Option<Waker>,
    /// For the client that has asked the origin; they are not stored.
    trailers: HeaderList,
    statistics: Statistics,
}

/// The end of a response.
#[derive(Clone)]
enum Ending {
    Complete,
    /// With what is to be logged, by one of those who read.
    Broken(Arc<Failure>),
}

/// What logs and variables show of it.
#[derive(Debug, Clone, Copy, Default)]
struct Statistics {
    response_length: u64,
    bytes_sent: u64,
    bytes_received: u64,
}

impl FillProgress {
    /// Bytes of the body that have arrived.
    fn arrived(&self) -> u64 {
        self.waiting_at + self.waiting_bytes
    }

    fn wake(&mut self) {
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
    }

    /// Somebody has read on, or reads no more. Without a disk that makes room.
    fn note_read(&mut self) {
        if self.disk_has_failed {
            self.trim();
            if let Some(task) = self.task.take() {
                task.wake();
            }
        }
    }

    /// Drops what is in the file, or, without one, what everybody has read.
    fn trim(&mut self) {
        let until = match self.disk_has_failed {
            false => self.written,
            true => {
                let readers = self.readers.iter().flatten();
                readers.copied().min().unwrap_or(u64::MAX)
            }
        };
        while let Some(piece) = self.waiting.front()
            && self.waiting_at + piece.len() as u64 <= until
        {
            let bytes = piece.len() as u64;
            self.waiting_at += bytes;
            self.waiting_bytes -= bytes;
            self.waiting.pop_front();
        }
    }
}

impl Fill {
    /// A response with this head, of which nothing has arrived.
    pub(super) fn new(
        key: CacheKey,
        header: CacheHeader,
        head: Arc<UpstreamHead>,
        is_head_only: bool,
    ) -> Fill {
        Fill {
            key,
            header,
            head,
            is_head_only,
            progress: Mutex::new(FillProgress {
                file: None,
                written: 0,
                waiting_at: 0,
                waiting: VecDeque::new(),
                waiting_bytes: 0,
                end: None,
                moved: Instant::now(),
                readers: Vec::new(),
                disk_has_failed: false,
                wakers: Vec::new(),
                task: None,
                trailers: HeaderList::new(),
                statistics: Statistics::default(),
            }),
        }
    }

    /// Whether it can be the answer to a request with this key and method.
    pub(super) fn answers(&self, key: &CacheKey, method: Method) -> bool {
        self.key == *key && (!self.is_head_only || method == Method::Head)
    }

    /// Whether all of it has arrived.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.progress().end, Some(Ending::Complete))
    }

    /// Whether more of it has come within this time, or may still come.
    pub(super) fn goes_on(&self, within: Duration) -> bool {
        let progress = self.progress();
        progress.end.is_none() && progress.moved.elapsed() < within
    }

    fn progress(&self) -> MutexGuard<'_, FillProgress> {
        // A panic elsewhere leaves it consistent: each change is a few assignments.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fill")
    }
}

/// Reads a response while it arrives.
pub(super) struct FillReader {
    fill: Arc<Fill>,
    /// Position in the body.
    at: u64,
    /// Its place among those who read.
    number: usize,
    /// It is the one that has asked the origin: it logs what goes wrong there.
    is_first: bool,
}

impl FillReader {
    /// Reads from the beginning.
    pub(super) fn new(fill: Arc<Fill>, is_first: bool) -> FillReader {
        let mut progress = fill.progress();
        let free = progress.readers.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            progress.readers.push(None);
            progress.readers.len() - 1
        });
        progress.readers[number] = Some(0);
        drop(progress);
        FillReader {
            fill,
            at: 0,
            number,
            is_first,
        }
    }

    /// Everything, if all of it has arrived and is in memory.
    pub(super) fn take_at_once(&mut self, out: &mut OutputChain) -> bool {
        let progress = self.fill.progress();
        if !matches!(progress.end, Some(Ending::Complete)) || progress.written > 0 {
            return false;
        }
        for piece in &progress.waiting {
            out.push_bytes(piece.clone());
        }
        true
    }

    /// Appends what has arrived, up to `max_bytes`.
    fn take(&mut self, progress: &FillProgress, out: &mut OutputChain, max_bytes: u64) {
        let mut left = max_bytes;
        if self.at < progress.written
            && let Some(file) = &progress.file
        {
            let bytes = left.min(progress.written - self.at);
            let offset = u64::from(self.fill.header.body_start) + self.at;
            out.push_file(Arc::clone(file), offset, bytes);
            self.at += bytes;
            left -= bytes;
        }
        if self.at < progress.waiting_at {
            return;
        }
        let mut skip = self.at - progress.waiting_at;
        for piece in &progress.waiting {
            let bytes = piece.len() as u64;
            if left == 0 {
                return;
            }
            if skip >= bytes {
                skip -= bytes;
                continue;
            }
            // Both are at most the length of the piece.
            let end = bytes.min(skip + left);
            out.push_bytes(piece.slice(skip as usize..end as usize));
            self.at += end - skip;
            left -= end - skip;
            skip = 0;
        }
    }
}

impl BodySource for FillReader {
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        let fill = Arc::clone(&self.fill);
        let mut progress = fill.progress();
        let before = self.at;
        self.take(&progress, out, max_bytes);
        let has_some = self.at > before;
        progress.readers[self.number] = Some(self.at);
        if has_some {
            progress.note_read();
        }
        let has_all = self.at == progress.arrived();
        match &progress.end {
            Some(Ending::Complete) if has_all => return Poll::Ready(Ok(Filled::End)),
            _ if has_some => return Poll::Ready(Ok(Filled::More)),
            Some(Ending::Broken(failure)) if has_all => {
                let failure = Arc::clone(failure);
                drop(progress);
                if self.is_first && !failure.is_said() {
                    request_log::log(exchange, failure.level(), format_args!("{failure}"));
                }
                return Poll::Ready(Err(SourceError));
            }
            _ => {}
        }
        if !has_all {
            // The client takes nothing now; it is polled again when it does.
            return Poll::Pending;
        }
        let waker = cx.waker();
        if !progress.wakers.iter().any(|known| known.will_wake(waker)) {
            progress.wakers.push(waker.clone());
        }
        Poll::Pending
    }

    fn take_trailers(&mut self, exchange: &mut Exchange) -> HeaderList {
        if !self.is_first {
            return HeaderList::new();
        }
        let trailers = std::mem::take(&mut self.fill.progress().trailers);
        response::pass_trailers(exchange, trailers)
    }

    fn conclude(self: Box<Self>, exchange: &mut Exchange, _completed: bool) {
        if self.is_first {
            note_statistics(exchange, self.fill.progress().statistics);
        }
    }
}

/// The last attempt is over, as far as its request is concerned.
fn note_statistics(exchange: &mut Exchange, statistics: Statistics) {
    let states = exchange.upstream.as_deref_mut();
    if let Some(attempt) = states.and_then(|states| states.attempts.last_mut()) {
        attempt.end();
        attempt.response_length = statistics.response_length;
        attempt.bytes_sent = statistics.bytes_sent;
        attempt.bytes_received = statistics.bytes_received;
    }
}

impl Drop for FillReader {
    fn drop(&mut self) {
        let mut progress = self.fill.progress();
        progress.readers[self.number] = None;
        progress.note_read();
    }
}

/// Receives a response: the task behind a [`Fill`].
pub(super) struct Filling {
    pub(super) fill: Arc<Fill>,
    /// `None` once the response is complete or has failed.
    conversation: Option<Box<Conversation>>,
    lease: Option<Leased>,
    /// The right to store it; `None` once it is stored or cannot be.
    visit: Option<Visit<Fill>>,
    writer: Writer,
    expected_bytes: Option<u64>,
    /// `proxy_limit_rate`.
    pace: Option<Pace>,
    logger: Logger,
    connection_number: u64,
}

impl Filling {
    pub(super) fn new(
        fill: Arc<Fill>,
        conversation: Box<Conversation>,
        lease: Leased,
        visit: Visit<Fill>,
        writer: Writer,
        pace: Option<Pace>,
        exchange: &Exchange,
    ) -> Filling {
        let expected_bytes = match fill.head.parsed.framing(conversation.method()) {
            ResponseFraming::Length(bytes) => Some(bytes),
            ResponseFraming::None => Some(0),
            ResponseFraming::Chunked | ResponseFraming::UntilClose => None,
        };
        Filling {
            expected_bytes,
            pace,
            fill,
            conversation: Some(conversation),
            lease: Some(lease),
            visit: Some(visit),
            writer,
            logger: exchange.snapshot.location(exchange.location).logger.clone(),
            connection_number: exchange.connection.number,
        }
    }

    /// Reads from the origin until it has nothing, the body has ended, or memory is full.
    pub(super) fn receive(&mut self, cx: &mut Context<'_>) {
        loop {
            let Some(conversation) = &mut self.conversation else {
                return;
            };
            let (waiting, read) = {
                let progress = self.fill.progress();
                (progress.waiting_bytes, progress.statistics.response_length)
            };
            if waiting >= MAX_WAITING_BYTES {
                return;
            }
            let room = MAX_WAITING_BYTES - waiting;
            let allowed = match &mut self.pace {
                None => room,
                Some(pace) => match pace.poll_allowed(cx, read) {
                    Poll::Ready(allowed) => allowed.min(room),
                    Poll::Pending => return,
                },
            };
            if let Poll::Ready(Err(failure)) = conversation.poll_send(cx) {
                return self.end(Err(failure));
            }
            conversation.limit_reads(allowed);
            match conversation.poll_event(cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(WireEvent::Data(piece))) => self.hold(piece),
                Poll::Ready(Ok(WireEvent::End(ending))) => return self.finish(ending),
                // A final head is followed by its body.
                Poll::Ready(Ok(WireEvent::Head(_))) => {}
                Poll::Ready(Err(failure)) => return self.end(Err(failure)),
            }
        }
    }

    fn hold(&mut self, piece: Bytes) {
        let mut progress = self.fill.progress();
        progress.waiting_bytes += piece.len() as u64;
        progress.statistics.response_length += piece.len() as u64;
        progress.waiting.push_back(piece);
        progress.moved = Instant::now();
        progress.wake();
    }

    fn finish(&mut self, ending: ResponseEnd) {
        let is_sent = self.conversation.as_ref().is_some_and(|all| all.is_sent());
        let reusable = ending.reusable && is_sent;
        if let Some(complaint) = ending.complaint {
            self.log(
                LogLevel::Warn,
                format_args!("{complaint} while reading upstream"),
            );
        }
        self.note_bytes();
        self.fill.progress().trailers = ending.trailers;
        let conversation = self.conversation.take();
        if let Some(lease) = self.lease.take() {
            let connection = conversation.filter(|_| reusable);
            lease.succeeded(connection.and_then(|all| all.into_connection()));
        }
        self.end(Ok(()));
    }

    fn end(&mut self, ended: Result<(), Failure>) {
        self.note_bytes();
        self.conversation = None;
        if let Some(lease) = self.lease.take() {
            // As in nginx, a broken body does not count as a failure of the peer.
            lease.succeeded(None);
        }
        let mut progress = self.fill.progress();
        progress.end = Some(match ended {
            Ok(()) => Ending::Complete,
            Err(failure) => Ending::Broken(Arc::new(failure)),
        });
        progress.wake();
    }

    fn note_bytes(&mut self) {
        if let Some(conversation) = &mut self.conversation {
            for remark in conversation.take_remarks() {
                let logger = &self.logger;
                let number = Some(self.connection_number);
                logger.log(
                    LogLevel::Error,
                    number,
                    format_args!("{remark} while reading upstream"),
                );
            }
            let mut progress = self.fill.progress();
            progress.statistics.bytes_sent = conversation.bytes_sent();
            progress.statistics.bytes_received = conversation.bytes_received;
        }
    }

    /// The origin has been asked, and this is known of it.
    pub(super) fn note_statistics(&self, exchange: &mut Exchange) {
        note_statistics(exchange, self.fill.progress().statistics);
    }

    /// Receives and writes on. Ready when nothing is left to do.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.receive(cx);
            if self.visit.is_none() {
                return self.poll_without_disk(cx);
            }
            if !self.write(cx) {
                return match self.visit {
                    Some(_) => Poll::Pending,
                    None => self.poll_without_disk(cx),
                };
            }
        }
    }

    /// Writes on. Returns whether that has changed anything.
    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        if self.writer.is_idle() {
            let progress = self.fill.progress();
            let ended = match &progress.end {
                None => false,
                Some(Ending::Complete) => true,
                Some(Ending::Broken(_)) => {
                    drop(progress);
                    // What was written goes with the last who reads it.
                    self.visit = None;
                    return false;
                }
            };
            let has_enough = progress.waiting_bytes >= Writer::PIECE_BYTES;
            if !has_enough && !ended {
                return false;
            }
            let arrived = progress.arrived();
            let pieces: Vec<Bytes> = progress.waiting.iter().cloned().collect();
            drop(progress);
            if ended {
                let has_all = self.expected_bytes.is_none_or(|bytes| bytes == arrived);
                let visit = self.visit.as_mut().filter(|_| has_all);
                match visit.map(|visit| visit.poll_store(cx)) {
                    Some(Poll::Pending) => return false,
                    Some(Poll::Ready(true)) => {}
                    Some(Poll::Ready(false)) | None => {
                        self.visit = None;
                        return false;
                    }
                }
            }
            self.writer.begin(pieces, ended.then_some(arrived));
        }
        match self.writer.poll(cx) {
            Poll::Pending => false,
            Poll::Ready(Ok(done)) => {
                let mut progress = self.fill.progress();
                progress.file = Some(done.file);
                progress.written = done.written;
                progress.trim();
                progress.wake();
                drop(progress);
                if let WrittenAs::File(file) = done.finished
                    && let Some(visit) = self.visit.take()
                {
                    visit.stored(file);
                    return false;
                }
                true
            }
            Poll::Ready(Err(error)) => {
                // Nobody else begins to read it, from before the line is there.
                self.visit = None;
                self.log(
                    LogLevel::Crit,
                    format_args!("{error} while reading upstream: the response is not cached"),
                );
                let mut progress = self.fill.progress();
                progress.disk_has_failed = true;
                progress.trim();
                false
            }
        }
    }

    /// The response is stored, or cannot be. If there are clients, they get the rest of it.
    fn poll_without_disk(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.receive(cx);
        let mut progress = self.fill.progress();
        let is_read = progress.readers.iter().any(Option::is_some);
        if progress.end.is_some() || !is_read {
            return Poll::Ready(());
        }
        progress.task = Some(cx.waker().clone());
        Poll::Pending
    }

    fn log(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        let number = Some(self.connection_number);
        self.logger.log(level, number, message);
    }
}
