//! Sockets that wait for readiness.
//!
//! Events are edges: epoll reports a socket when something new has arrived, and the reactor
//! remembers it until a call has found nothing more. A socket is watched for input from the start.
//! Room for output is assumed until a send finds none, which happens to few connections; only then
//! is the socket watched for it. A socket that was just accepted is not watched at all before a
//! call finds nothing.

use super::task::Shared;
use super::{Local, poll_share, with_current};
use sealane_sys::epoll::{Epoll, EventCounter, Ready, Watch};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The event counter's number, which no socket has.
const COUNTER: u64 = u64::MAX;

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Something to receive, or the end.
    Input,
    /// Room to send.
    Output,
}

/// Which slot, and which of the sockets that have had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    slot: u32,
    generation: u32,
}

impl Token {
    fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    fn of_number(number: u64) -> Token {
        Token {
            slot: number as u32,
            generation: (number >> 32) as u32,
        }
    }
}

/// All sockets of a thread.
pub(super) struct Reactor {
    epoll: Epoll,
    sources: Vec<Source>,
    free: Vec<u32>,
}

#[derive(Default)]
struct Source {
    generation: u32,
    has_input: bool,
    /// The end has arrived. The event that said so may have announced data as well, so that it
    /// stands however much was read.
    has_ended: bool,
    has_output: bool,
    /// What epoll reports; nothing yet of a socket that has not had to wait.
    watched: Option<Watch>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Lets other threads end a wait.
pub(super) fn watch_counter(epoll: &Epoll, counter: &EventCounter) -> io::Result<()> {
    epoll.add(counter.as_fd(), COUNTER, Watch::Input)
}

impl Reactor {
    pub(super) fn new(epoll: Epoll) -> Reactor {
        Reactor {
            epoll,
            sources: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Waits for events and collects the wakers of those they are for.
    pub(super) fn wait(&mut self, timeout: Option<Duration>, woken: &mut Vec<Waker>) {
        let sources = &mut self.sources;
        let note = |ready: Ready| {
            let token = Token::of_number(ready.token);
            let source = sources.get_mut(token.slot as usize);
            // Nobody, if it is the counter or a socket that is gone.
            let Some(source) = source.filter(|source| source.generation == token.generation) else {
                return;
            };
            source.has_ended |= ready.ended;
            if ready.input {
                source.has_input = true;
                woken.extend(source.reader.take());
            }
            if ready.output {
                source.has_output = true;
                woken.extend(source.writer.take());
            }
        };
        // Fails only if the descriptor is none of epoll's, and then there is no way on.
        let waited = self.epoll.wait(timeout, note);
        waited.expect("epoll_wait() fails on a broken descriptor only");
    }

    /// Takes a slot. Without `watch`, everything is taken to be ready until a call has to wait.
    fn add(&mut self, fd: BorrowedFd<'_>, watch: Option<Watch>) -> io::Result<Token> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.sources.push(Source::default());
            u32::try_from(self.sources.len() - 1).expect("a process has fewer descriptors")
        });
        let source = &mut self.sources[slot as usize];
        let token = Token {
            slot,
            generation: source.generation,
        };
        *source = Source {
            generation: token.generation,
            has_input: watch.is_none(),
            has_output: watch != Some(Watch::InputAndOutput),
            watched: watch,
            ..Source::default()
        };
        let added = watch.map(|watch| self.epoll.add(fd, token.number(), watch));
        if let Some(Err(error)) = added {
            self.free.push(slot);
            return Err(error);
        }
        Ok(token)
    }

    /// The socket is gone, or goes with this.
    pub(super) fn release(&mut self, token: Token) {
        if let Some(source) = self.source(token) {
            *source = Source {
                // Events on their way for the old one are nobody's.
                generation: token.generation.wrapping_add(1),
                ..Source::default()
            };
            self.free.push(token.slot);
        }
    }

    /// Slots that a socket has.
    #[cfg(test)]
    pub(super) fn sources_in_use(&self) -> usize {
        self.sources.len() - self.free.len()
    }

    fn source(&mut self, token: Token) -> Option<&mut Source> {
        let source = self.sources.get_mut(token.slot as usize)?;
        (source.generation == token.generation).then_some(source)
    }
}

/// A socket's place in the loop of its thread. Drop it before the socket is closed.
#[derive(Debug)]
pub struct Registration {
    token: Token,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Registration {
    /// Registers a non-blocking socket with the loop of the calling thread.
    ///
    /// # Errors
    /// The thread has no loop, or the errno of `epoll_ctl`.
    pub fn new(fd: BorrowedFd<'_>, watch: Watch) -> io::Result<Registration> {
        Registration::start(fd, Some(watch))
    }

    /// The same for a socket that is expected to be ready: epoll does not hear of it until a call
    /// has to wait. A connection that has sent its request before it was accepted, and that is
    /// closed after the response, never gets there.
    ///
    /// # Errors
    /// The thread has no loop.
    pub fn unwatched(fd: BorrowedFd<'_>) -> io::Result<Registration> {
        Registration::start(fd, None)
    }

    fn start(fd: BorrowedFd<'_>, watch: Option<Watch>) -> io::Result<Registration> {
        with_current(|local| {
            let token = local.reactor.borrow_mut().add(fd, watch)?;
            let shared = local.shared.clone();
            Ok(Registration { token, shared })
        })
        .unwrap_or_else(|| Err(foreign()))
    }

    /// Ready when a call may succeed. `fd` is the socket's own.
    ///
    /// # Errors
    /// The socket belongs to another thread's loop, or the errno of `epoll_ctl`.
    pub fn poll_ready(
        &self,
        fd: BorrowedFd<'_>,
        direction: Direction,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.with_local(|local| {
            if poll_share(local, cx).is_pending() {
                return Poll::Pending;
            }
            let reactor = &mut *local.reactor.borrow_mut();
            let Some(source) = reactor.sources.get_mut(self.token.slot as usize) else {
                return Poll::Ready(Err(foreign()));
            };
            let (is_ready, waker) = match direction {
                Direction::Input => (source.has_input || source.has_ended, &mut source.reader),
                Direction::Output => (source.has_output, &mut source.writer),
            };
            if is_ready {
                return Poll::Ready(Ok(()));
            }
            if !waker
                .as_ref()
                .is_some_and(|known| known.will_wake(cx.waker()))
            {
                *waker = Some(cx.waker().clone());
            }
            let number = self.token.number();
            let wanted = match direction {
                Direction::Input => Watch::Input,
                Direction::Output => Watch::InputAndOutput,
            };
            // Both calls report at once what is ready by now.
            match (source.watched, wanted) {
                (None, _) => reactor.epoll.add(fd, number, wanted)?,
                (Some(Watch::Input), Watch::InputAndOutput) => {
                    reactor.epoll.modify(fd, number, wanted)?;
                }
                _ => return Poll::Pending,
            }
            source.watched = Some(wanted);
            Poll::Pending
        })
        .unwrap_or_else(|| Poll::Ready(Err(foreign())))
    }

    /// Whether the socket belongs to the loop of the calling thread.
    pub fn is_here(&self) -> bool {
        self.with_local(|_| ()).is_some()
    }

    /// Whether a call may find something, as far as that is known without asking the kernel.
    pub fn is_ready(&self, direction: Direction) -> bool {
        let mut is_ready = false;
        self.with_source(|source| {
            is_ready = match direction {
                Direction::Input => source.has_input || source.has_ended,
                Direction::Output => source.has_output,
            }
        });
        is_ready
    }

    /// Whether the end has been reported, or an error.
    pub fn has_ended(&self) -> bool {
        let mut has_ended = false;
        self.with_source(|source| has_ended = source.has_ended);
        has_ended
    }

    /// A call has used up what there was: the next one waits for an event, unless it finds the end.
    pub fn clear_ready(&self, direction: Direction) {
        self.with_source(|source| match direction {
            Direction::Input => source.has_input = false,
            Direction::Output => source.has_output = false,
        });
    }

    /// A call would have had to wait (`WouldBlock`), whatever has been reported.
    pub fn clear_stale(&self, direction: Direction) {
        self.with_source(|source| {
            if direction == Direction::Input {
                source.has_ended = false;
            }
        });
        self.clear_ready(direction);
    }

    fn with_source(&self, f: impl FnOnce(&mut Source)) {
        self.with_local(|local| {
            if let Some(source) = local.reactor.borrow_mut().source(self.token) {
                f(source);
            }
        });
    }

    /// Nothing is reported of the socket any more. Closing it is enough unless there are other
    /// descriptors of it.
    pub fn unwatch(&self, fd: BorrowedFd<'_>) {
        let mut is_watched = true;
        self.with_source(|source| is_watched = source.watched.take().is_some());
        if is_watched {
            self.shared.unwatch(fd);
        }
    }

    /// Calls `f` with the loop that the socket belongs to, if that is this thread's.
    fn with_local<R>(&self, f: impl FnOnce(&Local) -> R) -> Option<R> {
        with_current(|local| Arc::ptr_eq(&local.shared, &self.shared).then(|| f(local))).flatten()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let released = self.with_local(|local| local.reactor.borrow_mut().release(self.token));
        if released.is_none() {
            self.shared.release(self.token);
        }
    }
}

fn foreign() -> io::Error {
    io::Error::other("the socket belongs to the event loop of another thread")
}
