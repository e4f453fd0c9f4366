//! The requests on a shared connection.
//!
//! Requests and the driver run on the same thread, so the lock never waits. It is there because
//! what a request owns may move between threads.

use super::super::failure::{Doing, Failure};
use sealane_http::dubbo::{HEADER_BYTES, HESSIAN2, Header, Kind};
use sealane_io::chain::OutputChain;
use sealane_io::{OutboundMessage, Received};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A shared connection, as its requests know it.
#[derive(Default)]
pub(super) struct SharedConnection(Mutex<SharedState>);

#[derive(Default)]
struct SharedState {
    phase: Phase,
    calls: BTreeMap<u64, CallSlot>,
    /// The calls whose frames are to be sent, in order.
    queue: VecDeque<u64>,
    /// The newest number of a frame.
    last_number: u64,
    /// Responses that have come.
    answered: u64,
    driver: Option<Waker>,
    /// No request will come any more.
    is_retired: bool,
}

#[derive(Default)]
enum Phase {
    #[default]
    Connecting,
    Open,
    /// The provider wants no more requests.
    Closing,
    Ended(SharedEnd),
}

/// Why a connection has ended.
#[derive(Clone, Debug)]
pub(super) enum SharedEnd {
    /// It could not be opened. The socket's name, if it is a Unix socket.
    Connect(SystemError, Option<Box<str>>),
    /// There was no socket for it: the call that failed.
    Socket(Cow<'static, str>, SystemError),
    /// It could not be opened in time.
    ConnectTimedOut,
    /// The provider closed it, or nobody needed it any more.
    Closed,
    /// It broke.
    Broken(SystemError, Doing),
    /// Nothing happened in time.
    TimedOut(Doing),
    /// The provider does not keep to the protocol; a sentence in nginx's words.
    Invalid(String),
    /// Part of a request body could not be read from its temporary file.
    File(String),
}

/// An error of the operating system that several requests are told of.
#[derive(Clone, Debug)]
pub(super) struct SystemError {
    code: Option<i32>,
    kind: io::ErrorKind,
}

impl From<io::Error> for SystemError {
    fn from(error: io::Error) -> SystemError {
        SystemError {
            code: error.raw_os_error(),
            kind: error.kind(),
        }
    }
}

impl From<&SystemError> for io::Error {
    fn from(fault: &SystemError) -> io::Error {
        match fault.code {
            Some(code) => io::Error::from_raw_os_error(code),
            None => fault.kind.into(),
        }
    }
}

/// What a call has, and what has come of it.
#[derive(Default)]
struct CallSlot {
    /// The payload that is to be sent, until its turn comes.
    payload: Option<OutputChain>,
    /// Bytes of its frame that have left.
    sent: u64,
    /// The response, its frame's header included.
    input: Vec<u8>,
    /// Some of the request has left, or of the response has come, since the call last looked.
    has_progressed: bool,
    /// All of the response has come.
    is_answered: bool,
    max_response_bytes: u64,
    waker: Option<Waker>,
}

impl CallSlot {
    fn wait(&mut self, cx: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.waker = Some(cx.waker().clone()),
        }
    }
}

/// What becomes of the payload of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taker {
    /// This call takes it.
    Call(u64),
    /// It is too long, or the request has gone.
    Nobody,
}

impl SharedConnection {
    fn state(&self) -> MutexGuard<'_, SharedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another request may be put on it.
    pub(super) fn takes_calls(&self) -> bool {
        matches!(self.state().phase, Phase::Connecting | Phase::Open)
    }

    /// Requests on it.
    pub(super) fn calls(&self) -> usize {
        self.state().calls.len()
    }

    /// No request will come any more: it ends after those that it has.
    pub(super) fn retire(&self) {
        let mut state = self.state();
        state.is_retired = true;
        let driver = state.driver.take();
        drop(state);
        wake(driver);
    }

    // What the driver does.

    /// Sets who is woken when there is something to do.
    pub(super) fn set_driver(&self, cx: &Context<'_>) {
        match &mut self.state().driver {
            Some(waker) => waker.clone_from(cx.waker()),
            driver => *driver = Some(cx.waker().clone()),
        }
    }

    /// It is connected.
    pub(super) fn open(&self) {
        let mut state = self.state();
        state.phase = Phase::Open;
        let wakers = state.take_wakers();
        drop(state);
        wake(wakers);
    }

    /// The provider wants no more requests.
    pub(super) fn close_to_calls(&self) {
        let mut state = self.state();
        if let Phase::Open = state.phase {
            state.phase = Phase::Closing;
        }
    }

    /// It has ended. The first reason counts.
    pub(super) fn end(&self, ending: SharedEnd) {
        let mut state = self.state();
        if let Phase::Ended(_) = state.phase {
            return;
        }
        state.phase = Phase::Ended(ending);
        state.queue.clear();
        let mut payloads = Vec::new();
        for slot in state.calls.values_mut() {
            payloads.extend(slot.payload.take());
        }
        let wakers = state.take_wakers();
        drop(state);
        drop(payloads);
        wake(wakers);
    }

    /// Whether it has no request, and need not stay open for one.
    pub(super) fn may_end(&self) -> bool {
        let state = self.state();
        state.calls.is_empty() && (state.is_retired || matches!(state.phase, Phase::Closing))
    }

    /// The number of a frame that belongs to no request.
    pub(super) fn next_number(&self) -> u64 {
        let mut state = self.state();
        state.last_number += 1;
        state.last_number
    }

    /// The next frame to be sent: the call, its header and its payload.
    pub(super) fn next_frame(&self) -> Option<(u64, [u8; HEADER_BYTES], OutputChain)> {
        let mut state = self.state();
        while let Some(number) = state.queue.pop_front() {
            let slot = state.calls.get_mut(&number);
            let Some(payload) = slot.and_then(|slot| slot.payload.take()) else {
                continue; // the request has gone
            };
            let header = Header {
                kind: Kind::Request { two_way: true },
                serialization: HESSIAN2,
                status: 0,
                number,
                // It was checked when the request was made.
                payload_bytes: u32::try_from(payload.len()).unwrap_or(u32::MAX),
            };
            return Some((number, header.encode(), payload));
        }
        None
    }

    /// So many bytes of a call's frame have left. The call is not woken: it waits for the response.
    pub(super) fn note_sent(&self, number: u64, bytes: u64) {
        if let Some(slot) = self.state().calls.get_mut(&number) {
            slot.sent = bytes;
            slot.has_progressed = true;
        }
    }

    /// A response begins. An error when no request has such a number.
    pub(super) fn begin_response(&self, header: &Header) -> Result<Taker, String> {
        let mut state = self.state();
        let unknown = || {
            let number = header.number;
            format!("upstream sent dubbo response with unknown request id {number}")
        };
        if header.number == 0 || header.number > state.last_number {
            return Err(unknown());
        }
        let Some(slot) = state.calls.get_mut(&header.number) else {
            return Ok(Taker::Nobody);
        };
        if slot.sent == 0 {
            return Err(unknown());
        }
        if slot.is_answered {
            return Ok(Taker::Nobody);
        }
        slot.input.clear();
        slot.input.extend_from_slice(&header.encode());
        slot.has_progressed = true;
        if u64::from(header.payload_bytes) > slot.max_response_bytes {
            // The call sees the length, and that it is too much.
            slot.is_answered = true;
            let waker = slot.waker.take();
            drop(state);
            wake(waker);
            return Ok(Taker::Nobody);
        }
        Ok(Taker::Call(header.number))
    }

    /// More of a response has come.
    pub(super) fn add_response(&self, number: u64, bytes: &[u8]) {
        let mut state = self.state();
        let Some(slot) = state.calls.get_mut(&number) else {
            return;
        };
        slot.input.extend_from_slice(bytes);
        slot.has_progressed = true;
        let waker = slot.waker.take();
        drop(state);
        wake(waker);
    }

    /// A response is complete.
    pub(super) fn end_response(&self, number: u64) {
        let mut state = self.state();
        state.answered += 1;
        let Some(slot) = state.calls.get_mut(&number) else {
            return;
        };
        slot.is_answered = true;
        let waker = slot.waker.take();
        drop(state);
        wake(waker);
    }
}

impl SharedState {
    fn take_wakers(&mut self) -> Vec<Waker> {
        let slots = self.calls.values_mut();
        slots.filter_map(|slot| slot.waker.take()).collect()
    }
}

/// Wakes whoever waits, outside of the lock.
fn wake(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

/// A request on a shared connection. Dropping it leaves the connection to the others: what has not
/// begun to be sent is not, and a response is not kept.
pub(crate) struct Call {
    connection: Arc<SharedConnection>,
    number: u64,
    /// The connection was idle, and had carried requests.
    was_idle: bool,
}

impl Call {
    /// A call on this connection.
    pub(super) fn new(connection: Arc<SharedConnection>, max_response_bytes: u64) -> Call {
        let mut state = connection.state();
        let was_idle = state.calls.is_empty() && state.answered > 0;
        state.last_number += 1;
        let number = state.last_number;
        let slot = CallSlot {
            max_response_bytes,
            ..CallSlot::default()
        };
        state.calls.insert(number, slot);
        drop(state);
        Call {
            connection,
            number,
            was_idle,
        }
    }

    /// Whether the connection waited for a request when this one came, and has ended: the provider
    /// may have closed it before it saw the request.
    pub(crate) fn ended_while_idle(&self) -> bool {
        self.was_idle && matches!(self.connection.state().phase, Phase::Ended(_))
    }

    /// Ready when the connection is open.
    ///
    /// # Errors
    /// Why it could not be opened.
    pub(crate) fn poll_open(&self, cx: &Context<'_>) -> Poll<Result<(), Failure>> {
        let mut state = self.connection.state();
        match &state.phase {
            Phase::Connecting => {}
            Phase::Open | Phase::Closing => return Poll::Ready(Ok(())),
            Phase::Ended(ending) => return Poll::Ready(Err(ending.failure(Doing::Connecting))),
        }
        if let Some(slot) = state.calls.get_mut(&self.number) {
            slot.wait(cx);
        }
        Poll::Pending
    }

    /// Hands over the payload, which needs no more attention: if it cannot be sent in time, the
    /// connection ends.
    pub(crate) fn send(&self, message: &mut OutboundMessage) {
        let mut state = self.connection.state();
        let payload = std::mem::take(&mut message.body);
        if matches!(state.phase, Phase::Ended(_)) {
            return;
        }
        if let Some(slot) = state.calls.get_mut(&self.number) {
            slot.payload = Some(payload);
            state.queue.push_back(self.number);
        }
        let driver = state.driver.take();
        drop(state);
        wake(driver);
    }

    /// Bytes of the request that have left.
    pub(crate) fn sent(&self) -> u64 {
        let state = self.connection.state();
        state.calls.get(&self.number).map_or(0, |slot| slot.sent)
    }

    /// Takes the response, which comes as a whole.
    pub(crate) fn poll_receive(&self, cx: &Context<'_>, buf: &mut Vec<u8>) -> Poll<Received> {
        let mut state = self.connection.state();
        let Some(slot) = state.calls.get_mut(&self.number) else {
            return Poll::Pending;
        };
        if !slot.is_answered || slot.input.is_empty() {
            slot.wait(cx);
            return Poll::Pending;
        }
        let input = std::mem::take(&mut slot.input);
        drop(state);
        let count = input.len();
        if buf.is_empty() {
            sealane_io::buffers::give_back(std::mem::replace(buf, input));
        } else {
            buf.extend_from_slice(&input);
        }
        Poll::Ready(Received::Bytes(count))
    }

    /// Whether something has left or come since the last call of this.
    pub(crate) fn has_progressed(&self) -> bool {
        let mut state = self.connection.state();
        let slot = state.calls.get_mut(&self.number);
        slot.is_some_and(|slot| std::mem::take(&mut slot.has_progressed))
    }

    /// Why there will be no response: the connection has ended without one.
    pub(crate) fn failure(&self, doing: Doing) -> Option<Failure> {
        let state = self.connection.state();
        let slot = state.calls.get(&self.number);
        match &state.phase {
            Phase::Ended(ending) if slot.is_none_or(|slot| !slot.is_answered) => {
                Some(ending.failure(doing))
            }
            _ => None,
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut state = self.connection.state();
        let slot = state.calls.remove(&self.number);
        // Without requests a connection may be closed.
        let driver = match state.calls.is_empty() {
            true => state.driver.take(),
            false => None,
        };
        drop(state);
        drop(slot);
        wake(driver);
    }
}

impl SharedEnd {
    /// The failure of a request that did this when the connection ended.
    fn failure(&self, doing: Doing) -> Failure {
        match self {
            SharedEnd::Connect(fault, socket) => Failure::Connect(fault.into(), socket.clone()),
            SharedEnd::Socket(call, fault) => Failure::Socket(call.clone(), fault.into()),
            SharedEnd::ConnectTimedOut => Failure::TimedOut(Doing::Connecting),
            SharedEnd::Closed => Failure::ClosedEarly(doing),
            SharedEnd::Broken(fault, doing) => Failure::Io(fault.into(), *doing),
            SharedEnd::TimedOut(doing) => Failure::TimedOut(*doing),
            SharedEnd::Invalid(text) => Failure::Invalid(text.clone(), doing),
            SharedEnd::File(text) => Failure::TempFile(text.clone()),
        }
    }
}
