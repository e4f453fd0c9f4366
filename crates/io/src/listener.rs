//! A listening socket on the event loop of its thread.

use crate::runtime::{self, Direction, Registration, Watch};
use sealane_sys::socket::{self, Accepted};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};

/// The most connections that are taken before the queue is looked at again.
const MAX_EXPECTED: u32 = 64;

/// A listening socket.
///
/// An `accept4` that finds nothing costs as much as one that finds something: the kernel prepares a
/// socket first. So the queue is reported by epoll as long as it is not empty, and no more
/// connections are taken from it at a time than it can be expected to hold: one after a rest, twice
/// as many as before while the queue is not empty after that.
pub struct Listener {
    /// `None` while it is paused. Dropped before the descriptor is closed.
    registration: Option<Registration>,
    /// Nothing is waited for any more.
    has_left: bool,
    fd: OwnedFd,
    /// Connections that the queue holds, for all that is known.
    expected: u32,
    taken: u32,
    /// The turn in which all that was expected had been taken.
    emptied_in: u64,
}

impl Listener {
    /// A bound, listening, non-blocking socket, registered with the event loop of the calling
    /// thread.
    ///
    /// # Errors
    /// The thread has no event loop, or epoll does not take the socket.
    pub fn new(fd: OwnedFd) -> io::Result<Listener> {
        Ok(Listener {
            registration: Some(Registration::new(fd.as_fd(), Watch::Level)?),
            has_left: false,
            fd,
            expected: 1,
            taken: 0,
            emptied_in: 0,
        })
    }

    /// The next connection.
    ///
    /// # Errors
    /// The errno of accept4(2), see [`socket::accept`].
    pub fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        if self.has_left {
            if self.taken == MAX_EXPECTED {
                self.taken = 0;
                return Poll::Pending;
            }
            self.taken += 1;
            return match socket::accept(self.fd.as_fd()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
                accepted => Poll::Ready(accepted),
            };
        }
        loop {
            let registration = match self.registration.take() {
                Some(registration) => registration,
                None => Registration::new(self.fd.as_fd(), Watch::Level)?,
            };
            let registration = self.registration.insert(registration);
            ready!(registration.poll_ready(self.fd.as_fd(), Direction::Input, cx))?;
            let turn = runtime::turn();
            if self.taken == 0 {
                self.expected = match self.emptied_in.checked_add(1) == Some(turn) {
                    true => (self.expected * 2).min(MAX_EXPECTED),
                    false => 1,
                };
            }
            match socket::accept(self.fd.as_fd()) {
                Ok(accepted) => {
                    self.taken += 1;
                    if self.taken >= self.expected {
                        self.rest(turn);
                    }
                    return Poll::Ready(Ok(accepted));
                }
                // Another thread was faster, or there were fewer than expected.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.rest(turn);
                    self.emptied_in = 0;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// The queue is reported no more until the next call of [`Listener::poll_accept`]: nobody would
    /// take anything from it.
    pub fn pause(&mut self) {
        if let Some(registration) = self.registration.take() {
            registration.unwatch(self.fd.as_fd());
        }
    }

    /// Leaves new connections to the other threads and processes that accept from the same queue.
    /// From now on [`Listener::poll_accept`] returns what is in the queue, wakes nobody, and is
    /// pending from time to time even if there is more.
    pub fn leave(&mut self) {
        self.pause();
        (self.has_left, self.taken) = (true, 0);
    }

    fn rest(&mut self, turn: u64) {
        if let Some(registration) = &self.registration {
            registration.clear_stale(Direction::Input);
        }
        self.taken = 0;
        self.emptied_in = turn;
    }
}

impl Drop for Listener {
    /// Closing the descriptor would not be enough: others have the same socket, and epoll would go
    /// on to wake this thread in their place.
    fn drop(&mut self) {
        self.pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Runtime;
    use std::future::poll_fn;
    use std::net::{TcpListener, TcpStream};
    use std::pin::pin;
    use std::task::Waker;
    use std::time::Duration;
    use tokio::sync::oneshot;

    fn on_loopback() -> TcpListener {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.set_nonblocking(true).expect("a socket");
        listener
    }

    #[test]
    fn who_leaves_is_not_woken_in_place_of_others() {
        for drops in [true, false] {
            let socket = on_loopback();
            let address = socket.local_addr().expect("it is bound");
            let shared = socket.try_clone().expect("a descriptor");
            let (left, has_left) = std::sync::mpsc::channel();
            let (end, ended) = oneshot::channel::<()>();
            let leaver = std::thread::spawn(move || {
                let runtime = Runtime::new().expect("descriptors");
                runtime.block_on(async {
                    let mut listener = Listener::new(shared.into()).expect("a loop");
                    let mut cx = Context::from_waker(Waker::noop());
                    assert!(listener.poll_accept(&mut cx).is_pending());
                    match drops {
                        true => drop(listener),
                        false => {
                            listener.leave();
                            std::mem::forget(listener);
                        }
                    }
                    left.send(()).expect("the test waits");
                    let _ = ended.await;
                });
            });
            has_left.recv().expect("no panic");
            let runtime = Runtime::new().expect("descriptors");
            runtime.block_on(async {
                let mut listener = Listener::new(socket.into()).expect("a loop");
                // The leaver waits in epoll, and this thread does as soon as it has nothing to do.
                std::thread::sleep(Duration::from_millis(50));
                let client = std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(50));
                    TcpStream::connect(address)
                });
                let accepting = poll_fn(|cx| listener.poll_accept(cx));
                let until = std::time::Instant::now() + Duration::from_secs(10);
                let accepted = runtime::timeout_at(until, pin!(accepting)).await;
                assert!(accepted.is_ok(), "the wake-up went to the one that left");
                let _client = client.join().expect("no panic");
            });
            drop(end);
            leaver.join().expect("no panic");
        }
    }

    #[test]
    fn who_leaves_takes_what_is_in_the_queue() {
        let socket = on_loopback();
        let address = socket.local_addr().expect("it is bound");
        let runtime = Runtime::new().expect("descriptors");
        runtime.block_on(async {
            let mut listener = Listener::new(socket.into()).expect("a loop");
            let connect = |_| TcpStream::connect(address).expect("there is room");
            let clients: Vec<_> = (0..100).map(connect).collect();
            listener.leave();
            let mut cx = Context::from_waker(Waker::noop());
            let mut taken = 0;
            for _ in 0..4 {
                while let Poll::Ready(accepted) = listener.poll_accept(&mut cx) {
                    accepted.expect("a connection");
                    taken += 1;
                }
            }
            assert_eq!(taken, clients.len());
        });
    }
}
