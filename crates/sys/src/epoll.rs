//! Waits for many descriptors: epoll(7), and the event counter by which other threads end a wait.

use crate::{CheckReturn, retry};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Events taken per call.
const MAX_EVENTS: usize = 256;

/// What to report for a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Something new to read, once for each arrival (`EPOLLIN | EPOLLRDHUP | EPOLLET`).
    Input,
    /// That, and room to write after there was none (`EPOLLOUT`).
    InputAndOutput,
    /// As long as there is something to read, in one of the processes and threads that wait for it
    /// (`EPOLLIN | EPOLLEXCLUSIVE`).
    Level,
    /// Something to read, once. Nothing more is reported until it is asked for again (`EPOLLIN |
    /// EPOLLONESHOT`).
    Once,
}

impl Watch {
    fn events(self) -> u32 {
        let events = match self {
            Watch::Input => libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET,
            Watch::InputAndOutput => {
                libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET
            }
            Watch::Level => libc::EPOLLIN | libc::EPOLLEXCLUSIVE,
            Watch::Once => libc::EPOLLIN | libc::EPOLLONESHOT,
        };
        events.cast_unsigned()
    }
}

/// What became ready. An error or a hang-up is both: the next call reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The number given when the descriptor was added.
    pub token: u64,
    /// Reading would not wait.
    pub input: bool,
    /// Writing would not wait.
    pub output: bool,
    /// The peer sends no more (`EPOLLRDHUP`, `EPOLLHUP` or `EPOLLERR`): behind what has arrived
    /// comes the end, or an error. It is not reported again.
    pub ended: bool,
}

/// See [`Epoll::handle`].
#[derive(Debug, Clone)]
pub struct EpollHandle {
    fd: Arc<OwnedFd>,
}

impl EpollHandle {
    /// Reports nothing of `fd` any more. An event that is on its way may still arrive.
    ///
    /// # Errors
    /// The errno of `epoll_ctl`; `ENOENT` when it was not added.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        control(&self.fd, libc::EPOLL_CTL_DEL, fd, 0, 0)
    }
}

fn control(
    epoll: &OwnedFd,
    call: i32,
    fd: BorrowedFd<'_>,
    token: u64,
    events: u32,
) -> io::Result<()> {
    let mut event = libc::epoll_event { events, u64: token };
    // SAFETY: `event` is valid during the call; both descriptors are borrowed, hence open.
    unsafe { libc::epoll_ctl(epoll.as_raw_fd(), call, fd.as_raw_fd(), &raw mut event) }
        .check()
        .map(drop)
}

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll {
    fd: Arc<OwnedFd>,
    events: Box<[MaybeUninit<libc::epoll_event>]>,
}

impl Epoll {
    /// A new instance, closed on exec.
    ///
    /// # Errors
    /// When there are no descriptors, or no memory.
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }.check()?;
        Ok(Epoll {
            // SAFETY: the kernel just returned this descriptor; nobody else owns it.
            fd: Arc::new(unsafe { OwnedFd::from_raw_fd(fd) }),
            events: vec![MaybeUninit::uninit(); MAX_EVENTS].into_boxed_slice(),
        })
    }

    /// Reports events of `fd` with this number from now on, beginning with what is ready already.
    /// Closing the last descriptor of the same open file description ends it.
    ///
    /// # Errors
    /// The errno of `epoll_ctl`; `EPERM` for a file that is always ready.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, watch: Watch) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, watch.events())
    }

    /// Changes what is reported.
    ///
    /// # Errors
    /// The errno of `epoll_ctl`; `EINVAL` with [`Watch::Level`].
    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, watch: Watch) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, watch.events())
    }

    /// Reports the next input of `fd` with this number, whether it has been added before or not
    /// ([`Watch::Once`]).
    ///
    /// # Errors
    /// The errno of `epoll_ctl`; `EPERM` for a file that is always ready.
    pub fn watch_once(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let events = Watch::Once.events();
        match self.control(libc::EPOLL_CTL_MOD, fd, token, events) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                self.control(libc::EPOLL_CTL_ADD, fd, token, events)
            }
            result => result,
        }
    }

    /// What other threads may do with it.
    pub fn handle(&self) -> EpollHandle {
        EpollHandle {
            fd: self.fd.clone(),
        }
    }

    fn control(&self, call: i32, fd: BorrowedFd<'_>, token: u64, events: u32) -> io::Result<()> {
        control(&self.fd, call, fd, token, events)
    }

    /// Waits until something is ready, for at most this long (`None`: without limit), and calls
    /// `report` for each. Returns early, with nothing, when a signal arrives.
    ///
    /// # Errors
    /// The errno of `epoll_wait`.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        mut report: impl FnMut(Ready),
    ) -> io::Result<usize> {
        let timeout_ms = match timeout {
            None => -1,
            // Rounded up, so that a wait never ends early.
            Some(time) => i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX),
        };
        // SAFETY: the buffer is valid for its length during the call.
        let count = unsafe {
            libc::epoll_wait(
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr().cast(),
                self.events.len() as i32,
                timeout_ms,
            )
        }
        .check();
        let count = match count {
            Ok(count) => count.unsigned_abs() as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        let failed = libc::EPOLLERR | libc::EPOLLHUP;
        let has = |events: u32, wanted: i32| events & wanted.cast_unsigned() != 0;
        for event in &self.events[..count] {
            // SAFETY: the kernel has written the first `count` entries.
            let event = unsafe { event.assume_init() };
            let events = event.events;
            report(Ready {
                token: event.u64,
                input: has(events, libc::EPOLLIN | libc::EPOLLRDHUP | failed),
                output: has(events, libc::EPOLLOUT | failed),
                ended: has(events, libc::EPOLLRDHUP | failed),
            });
        }
        Ok(count)
    }
}

/// A counter whose descriptor is readable while it is not zero (eventfd(2)).
#[derive(Debug)]
pub struct EventCounter(OwnedFd);

impl EventCounter {
    /// A counter at zero.
    ///
    /// # Errors
    /// When there are no descriptors.
    pub fn new() -> io::Result<EventCounter> {
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }.check()?;
        // SAFETY: the kernel just returned this descriptor; nobody else owns it.
        Ok(EventCounter(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds one. A counter that is full is readable already.
    pub fn add(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the buffer is valid during the call.
        let _ =
            retry(|| unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) });
    }
}

impl AsFd for EventCounter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

    fn ready(epoll: &mut Epoll) -> Vec<Ready> {
        let mut all = Vec::new();
        let count = epoll
            .wait(AT_ONCE, |ready| all.push(ready))
            .expect("it is open");
        assert_eq!(count, all.len());
        all
    }

    #[test]
    fn input_is_reported_once_for_each_arrival() {
        let mut epoll = Epoll::new().expect("descriptors");
        let (ours, mut theirs) = UnixStream::pair().expect("descriptors");
        epoll.add(ours.as_fd(), 7, Watch::Input).expect("a socket");
        assert!(ready(&mut epoll).is_empty(), "room to write is no event");
        theirs.write_all(b"a").expect("room");
        let input = Ready {
            token: 7,
            input: true,
            output: false,
            ended: false,
        };
        assert_eq!(ready(&mut epoll), [input]);
        assert!(ready(&mut epoll).is_empty());
        theirs.write_all(b"b").expect("room");
        assert_eq!(ready(&mut epoll), [input]);
        drop(theirs);
        assert_eq!(
            ready(&mut epoll),
            [Ready {
                output: true,
                ended: true,
                ..input
            }]
        );
    }

    #[test]
    fn output_is_reported_when_asked_for() {
        let mut epoll = Epoll::new().expect("descriptors");
        let (ours, _theirs) = UnixStream::pair().expect("descriptors");
        epoll.add(ours.as_fd(), 1, Watch::Input).expect("a socket");
        epoll
            .modify(ours.as_fd(), 2, Watch::InputAndOutput)
            .expect("it was added");
        assert_eq!(
            ready(&mut epoll),
            [Ready {
                token: 2,
                input: false,
                output: true,
                ended: false
            }]
        );
        epoll.handle().remove(ours.as_fd()).expect("it was added");
        assert!(epoll.handle().remove(ours.as_fd()).is_err());
    }

    #[test]
    fn a_level_is_reported_again() {
        let mut epoll = Epoll::new().expect("descriptors");
        let (mut ours, mut theirs) = UnixStream::pair().expect("descriptors");
        epoll.add(ours.as_fd(), 3, Watch::Level).expect("a socket");
        theirs.write_all(b"a").expect("room");
        assert_eq!(ready(&mut epoll).len(), 1);
        assert_eq!(ready(&mut epoll).len(), 1);
        ours.read_exact(&mut [0]).expect("it was sent");
        assert!(ready(&mut epoll).is_empty());
    }

    #[test]
    fn once_is_reported_once_each_time_it_is_asked_for() {
        let mut epoll = Epoll::new().expect("descriptors");
        let (mut ours, mut theirs) = UnixStream::pair().expect("descriptors");
        theirs.write_all(b"a").expect("room");
        for _ in 0..2 {
            epoll.watch_once(ours.as_fd(), 4).expect("a socket");
            assert_eq!(ready(&mut epoll).len(), 1);
            assert!(ready(&mut epoll).is_empty());
        }
        ours.read_exact(&mut [0]).expect("it was sent");
        epoll.watch_once(ours.as_fd(), 4).expect("a socket");
        assert!(ready(&mut epoll).is_empty());
    }

    #[test]
    fn a_closed_descriptor_needs_no_removal() {
        let mut epoll = Epoll::new().expect("descriptors");
        let (ours, mut theirs) = UnixStream::pair().expect("descriptors");
        epoll.add(ours.as_fd(), 3, Watch::Input).expect("a socket");
        theirs.write_all(b"a").expect("room");
        drop(ours);
        assert!(ready(&mut epoll).is_empty());
    }

    #[test]
    fn another_thread_ends_a_wait() {
        let mut epoll = Epoll::new().expect("descriptors");
        let counter = std::sync::Arc::new(EventCounter::new().expect("descriptors"));
        epoll
            .add(counter.as_fd(), 9, Watch::Input)
            .expect("an eventfd");
        let theirs = counter.clone();
        let adding = std::thread::spawn(move || theirs.add());
        let mut tokens = Vec::new();
        epoll
            .wait(None, |ready| tokens.push(ready.token))
            .expect("it is open");
        assert_eq!(tokens, [9]);
        adding.join().expect("it does not panic");
        // Each addition is an arrival: nothing has to be read.
        counter.add();
        assert_eq!(ready(&mut epoll).len(), 1);
    }
}
