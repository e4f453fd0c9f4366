//! The line between the process that connections leave and the one that takes them.
//!
//! ```text
//! old process                          new process
//!                <── format, 32 places ──  so many may come
//!   connection ──>    connection ──>
//!                <── format, 16 places ──  so many have found theirs
//!                <── format,  no place ──  it is to end as well
//!   end of the line ──>
//! ```
//!
//! A connection is packed only when it has a place, and the new process gives places only as far
//! as it has descriptors and `worker_connections`. Whoever has none is served where it is. What
//! cannot be sent after all goes on in the old process as if nothing had happened. Where the
//! other process does not understand what this one packs, nothing is sent at all.

use super::{Description, MAX_PARCEL_BYTES, NoParcel, Parcel, VERSION};
use sealane_sys::poll::{self, Interest};
use sealane_sys::socket;
use sealane_tls::{Packed, moving_format};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zeroize::Zeroizing;

/// Connections that may be under way at a time. Of each the new process holds a descriptor ready.
const PLACES: usize = 32;
/// How long the other process may take to read one connection, or to end the line.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause before another attempt when the line is full, which a poll does not tell of a line whose
/// messages have a limit in number.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// Pause before another look whether there is room.
const ROOM_PAUSE: Duration = Duration::from_millis(100);
/// Longest invitation.
const INVITATION_BYTES: usize = 512;

/// How many connections may come.
#[derive(Serialize, Deserialize)]
struct Invitation {
    version: u16,
    /// [`moving_format`] of the process that takes them.
    format: String,
    /// None: there will be no more of them.
    places: u16,
}

/// What the new process says.
enum Said {
    Places(u16),
    NoMore,
    /// Its format is this one.
    Stranger(String),
}

/// Where the old process learns what becomes of the way.
pub(crate) struct Home {
    /// Takes a connection back that could not leave.
    pub(crate) take_back: Box<dyn Fn(Parcel) + Send>,
    /// Tells the operator.
    pub(crate) tell: Box<dyn Fn(fmt::Arguments<'_>) + Send>,
}

/// The way to the other process.
pub(crate) struct Way {
    places: Arc<Semaphore>,
    items: mpsc::Sender<Item>,
}

enum Item {
    Parcel(Box<Parcel>),
    /// The other process takes no more.
    End,
}

impl Way {
    /// Starts the threads that send connections over `line` and hear of places.
    ///
    /// # Errors
    /// When there are no threads to be had.
    pub(crate) fn open(line: OwnedFd, home: Home) -> io::Result<Way> {
        let line = Arc::new(line);
        let places = Arc::new(Semaphore::new(0));
        let (items, queue) = mpsc::channel();
        let Home { take_back, tell } = home;
        let (sending, sending_places) = (line.clone(), places.clone());
        std::thread::Builder::new()
            .name("hand over".to_owned())
            .spawn(move || send_all(&sending, &sending_places, queue, &*take_back))?;
        let way = Way {
            places: places.clone(),
            items: items.clone(),
        };
        std::thread::Builder::new()
            .name("places".to_owned())
            .spawn(move || {
                hear_of_places(&line, &places, &*tell);
                places.close();
                let _ = items.send(Item::End);
            })?;
        Ok(way)
    }

    /// Whether nobody leaves this way any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.places.is_closed()
    }

    /// A place in the other process, when there is one; an error when there will be none.
    pub(crate) fn place(
        &self,
    ) -> impl Future<Output = Result<OwnedSemaphorePermit, tokio::sync::AcquireError>> + use<> {
        self.places.clone().acquire_owned()
    }

    /// Sends a connection.
    pub(crate) fn send(&self, place: OwnedSemaphorePermit, parcel: Parcel) {
        place.forget(); // the other process gives it again
        // The thread ends after the last of those who could send.
        let _ = self.items.send(Item::Parcel(Box::new(parcel)));
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.places.close();
        let _ = self.items.send(Item::End);
    }
}

/// Sends connections for as long as some may come. What does not leave is taken back.
fn send_all(
    line: &OwnedFd,
    places: &Semaphore,
    queue: mpsc::Receiver<Item>,
    take_back: &dyn Fn(Parcel),
) {
    let mut is_open = true;
    for item in queue {
        let back = match item {
            Item::Parcel(parcel) if is_open => match send(line, parcel) {
                Ok(()) => continue,
                Err(NotSent::TooLong(parcel)) => Some(parcel),
                Err(NotSent::Broken(parcel)) => {
                    is_open = false;
                    Some(parcel)
                }
            },
            Item::Parcel(parcel) => Some(parcel),
            Item::End => {
                is_open = false;
                None
            }
        };
        if !is_open {
            places.close();
            // The other process reads what was sent, and then the end.
            let _ = socket::shutdown(line.as_fd(), Shutdown::Write);
        }
        if let Some(parcel) = back {
            take_back(*parcel);
        }
    }
}

/// Why a connection was not sent.
enum NotSent {
    /// The line has no room for it.
    TooLong(Box<Parcel>),
    /// The other process does not read.
    Broken(Box<Parcel>),
}

fn send(line: &OwnedFd, mut parcel: Box<Parcel>) -> Result<(), NotSent> {
    let secret = parcel.tls.take().map(Packed::into_bytes);
    let tls = secret.as_ref().map_or(&b""[..], |tls| tls.expose());
    let message = parcel.description.encode(tls);
    let sent = match &message {
        Some(message) => send_patiently(line, message, parcel.socket.as_fd()),
        None => Err(io::Error::from_raw_os_error(libc::EMSGSIZE)),
    };
    let Err(error) = sent else { return Ok(()) };
    // These bytes were written a moment ago.
    parcel.tls = secret.and_then(|tls| Packed::from_bytes(tls.expose()).ok());
    Err(match error.raw_os_error() {
        Some(libc::EMSGSIZE) => {
            parcel.stays = true;
            NotSent::TooLong(parcel)
        }
        _ => NotSent::Broken(parcel),
    })
}

/// Sends a message when there is room for it.
fn send_patiently(line: &OwnedFd, message: &[u8], fd: BorrowedFd<'_>) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match socket::send_fds(line.as_fd(), message, &[fd]) {
            Err(error) if passes(&error) && Instant::now() < until => {
                std::thread::sleep(FULL_PAUSE);
            }
            done => return done,
        }
    }
}

/// Whether the line, or the kernel, is short of room for a moment.
fn passes(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::ETOOMANYREFS)
    )
}

/// Counts the places that the other process gives, until it gives no more.
fn hear_of_places(line: &OwnedFd, places: &Semaphore, tell: &dyn Fn(fmt::Arguments<'_>)) {
    let mut bytes = [0; INVITATION_BYTES];
    loop {
        let received = match socket::receive_fds(line.as_fd(), &mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match poll::wait_readable(&[line.as_fd()], None) {
                    Ok(_) => continue,
                    Err(_) => return,
                }
            }
            Err(_) => return,
            Ok(received) if received.len == 0 => return,
            Ok(received) => received,
        };
        match understand(&bytes[..received.len]) {
            Said::Places(count) => places.add_permits(count.into()),
            Said::NoMore => return,
            Said::Stranger(format) => {
                let own = moving_format();
                return tell(format_args!(
                    "connections cannot move to the other worker process and finish here, as it is of \
                     another version (\"{own}\" here, \"{format}\" there)"
                ));
            }
        }
    }
}

fn understand(bytes: &[u8]) -> Said {
    // The version stands first in every layout.
    let version = postcard::take_from_bytes::<u16>(bytes).map(|(version, _)| version);
    let invitation = match version {
        Ok(VERSION) => postcard::from_bytes::<Invitation>(bytes).ok(),
        _ => None,
    };
    match invitation {
        None => Said::Stranger("another layout".to_owned()),
        Some(invitation) if invitation.format != moving_format() => {
            let format = invitation.format.chars();
            Said::Stranger(format.filter(|c| !c.is_control()).collect())
        }
        Some(Invitation { places: 0, .. }) => Said::NoMore,
        Some(invitation) => Said::Places(invitation.places),
    }
}

fn invite(line: &OwnedFd, places: usize) -> io::Result<()> {
    let invitation = Invitation {
        version: VERSION,
        format: moving_format(),
        places: u16::try_from(places).unwrap_or(u16::MAX),
    };
    let bytes = postcard::to_allocvec(&invitation).map_err(io::Error::other)?;
    socket::send_fds(line.as_fd(), &bytes, &[])
}

/// What the new process does with what comes.
pub(crate) trait Host {
    /// Whether there is room for so many more connections.
    fn has_room(&self, count: usize) -> bool;
    /// One has come.
    fn take(&mut self, arrived: Result<Parcel, NoParcel>);
    /// Counts one that is under way.
    fn under_way(&self) -> super::UnderWay;
}

/// Receives connections until the other process has no more, or until `stop` can be read: then
/// those that are under way still come.
///
/// # Errors
/// When the line breaks.
pub(crate) fn receive(line: &OwnedFd, stop: BorrowedFd<'_>, host: &mut dyn Host) -> io::Result<()> {
    let mut bytes = Zeroizing::new(vec![0; MAX_PARCEL_BYTES]);
    // A descriptor for each place that was given: the kernel drops one that there is no
    // room for.
    let mut kept: Vec<OwnedFd> = Vec::with_capacity(PLACES);
    let mut end = Ending::No;
    loop {
        end.go_on(line)?;
        if let Ending::No = end
            && kept.len() <= PLACES / 2
        {
            give_places(line, &mut kept, host);
        }
        let wait = match end {
            Ending::No if kept.len() > PLACES / 2 => None,
            Ending::No => Some(ROOM_PAUSE),
            Ending::Wanted(_) => Some(FULL_PAUSE),
            Ending::Said(until) => Some(until.saturating_duration_since(Instant::now())),
        };
        let fds = [
            (line.as_fd(), Interest::Readable),
            (stop, Interest::Readable),
        ];
        let watched = if let Ending::No = end { 2 } else { 1 };
        let ready = poll::wait(&fds[..watched], wait)?;
        if ready.get(1) == Some(&true) {
            end = Ending::Wanted(Instant::now() + PATIENCE);
        }
        if !ready[0] {
            continue;
        }
        kept.pop();
        let received = match socket::receive_fds(line.as_fd(), &mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            // Too long, or a descriptor was missing: that one is lost, those behind are not.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                host.take(Err(NoParcel::Socket(error)));
                continue;
            }
            // It has ended without reading what it was told. The kernel says so once, before
            // what it has sent.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => continue,
            received => received?,
        };
        if received.len == 0 {
            return Ok(());
        }
        let mut fds = received.fds.into_iter();
        let arrived = match (Description::decode(&bytes[..received.len]), fds.next()) {
            (Ok((description, tls)), Some(socket)) => Ok(Parcel {
                description,
                tls,
                socket,
                stays: false,
                under_way: Some(host.under_way()),
            }),
            (Err(error), _) => Err(error),
            (Ok(_), None) => Err(NoParcel::Unreadable),
        };
        host.take(arrived);
    }
}

/// Fills up the places as far as there is room.
fn give_places(line: &OwnedFd, kept: &mut Vec<OwnedFd>, host: &dyn Host) {
    let before = kept.len();
    while kept.len() < PLACES && host.has_room(kept.len() + 1) {
        match line.try_clone() {
            Ok(fd) => kept.push(fd),
            Err(_) => break, // no descriptors: later, perhaps
        }
    }
    let given = kept.len() - before;
    if given == 0 {
        return;
    }
    match invite(line, given) {
        Err(error) if passes(&error) => kept.truncate(before),
        // Given; or the other process has ended, and what it has sent is still there.
        _ => {}
    }
}

/// How far the end is that this process wants.
enum Ending {
    No,
    /// The other process is to hear of it, until then.
    Wanted(Instant),
    /// What is under way may come until then.
    Said(Instant),
}

impl Ending {
    fn go_on(&mut self, line: &OwnedFd) -> io::Result<()> {
        let until = match *self {
            Ending::No => return Ok(()),
            Ending::Wanted(until) => {
                match invite(line, 0) {
                    Err(error) if passes(&error) => {}
                    // Said, or the other process has ended already.
                    _ => *self = Ending::Said(until),
                }
                until
            }
            Ending::Said(until) => until,
        };
        match Instant::now() < until {
            true => Ok(()),
            false => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

#[cfg(test)]
mod tests;
