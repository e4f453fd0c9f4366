//! The channel over which one process sends connections and another adopts them.
//!
//! ```text
//! old process                            new process
//!                <── format, 32 credits ──   it can adopt 32 connections
//!   connection ──>    connection ──>
//!                <── format, 16 credits ──   16 of them have arrived
//!                <── format,  0 credits ──   it shuts down as well
//!   end of the channel ──>
//! ```
//!
//! A connection is packed only when there is a credit for it. The new process grants credits only
//! as far as its descriptors and `worker_connections` reach. Until it gets one, a connection is
//! served where it is. If a connection cannot be sent after all, the old process keeps serving it.
//! If the new process does not understand the format of the old one, nothing is sent at all.

use super::{BadMessage, Description, MAX_MESSAGE_BYTES, MovedConnection, VERSION};
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

/// Connections in flight at a time. The new process reserves a descriptor for each.
const MAX_CREDITS: usize = 32;
/// How long the other process may take to read one connection, or to close the channel.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before another attempt when the channel is full. A poll does not report that, as the
/// limit is on the number of messages.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// How often the receiver checks whether it has room again.
const ROOM_PAUSE: Duration = Duration::from_millis(100);
/// Longest message that grants credits.
const CREDIT_MESSAGE_BYTES: usize = 512;

/// How many more connections the new process can adopt.
#[derive(Serialize, Deserialize)]
struct CreditMessage {
    version: u16,
    /// [`moving_format`] of the process that takes them.
    format: String,
    /// 0: there will be no more.
    credits: u16,
}

/// What the new process has granted.
enum CreditUpdate {
    More(u16),
    NoMore,
    /// Nothing, as its format is this one.
    OtherFormat(String),
}

/// What the old process does when a connection cannot leave.
pub(crate) struct OutboundEvents {
    /// Serves a connection that could not be sent.
    pub(crate) take_back: Box<dyn Fn(MovedConnection) + Send>,
    /// Tells the operator why.
    pub(crate) report: Box<dyn Fn(fmt::Arguments<'_>) + Send>,
}

/// The sending end of a channel.
pub(crate) struct Channel {
    credits: Arc<Semaphore>,
    queue: mpsc::Sender<ChannelCommand>,
}

/// A command for the sending thread.
enum ChannelCommand {
    Connection(Box<MovedConnection>),
    /// Nothing more can be sent.
    End,
}

impl Channel {
    /// Starts the threads that send connections over a socket and receive credits from it.
    ///
    /// # Errors
    /// When the threads cannot be started.
    pub(crate) fn open(peer: OwnedFd, events: OutboundEvents) -> io::Result<Channel> {
        let peer = Arc::new(peer);
        let credits = Arc::new(Semaphore::new(0));
        let (queue, outbound) = mpsc::channel();
        let OutboundEvents { take_back, report } = events;
        let (sending, sending_credits) = (peer.clone(), credits.clone());
        std::thread::Builder::new()
            .name("hand over".to_owned())
            .spawn(move || send_all(&sending, &sending_credits, outbound, &*take_back))?;
        let way = Channel {
            credits: credits.clone(),
            queue: queue.clone(),
        };
        std::thread::Builder::new()
            .name("credits".to_owned())
            .spawn(move || {
                receive_credits(&peer, &credits, &*report);
                credits.close();
                let _ = queue.send(ChannelCommand::End);
            })?;
        Ok(way)
    }

    /// Whether no connection can be sent any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.credits.is_closed()
    }

    /// Waits for a credit.
    ///
    /// # Errors
    /// When the channel is closed and there will be no credit.
    pub(crate) fn credit(
        &self,
    ) -> impl Future<Output = Result<OwnedSemaphorePermit, tokio::sync::AcquireError>> + use<> {
        self.credits.clone().acquire_owned()
    }

    /// Sends a connection.
    pub(crate) fn send(&self, credit: OwnedSemaphorePermit, moved: MovedConnection) {
        credit.forget(); // the other process grants it again
        // The thread ends after the last sender.
        let _ = self.queue.send(ChannelCommand::Connection(Box::new(moved)));
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.credits.close();
        let _ = self.queue.send(ChannelCommand::End);
    }
}

/// Sends connections until the channel closes. Those that cannot be sent are taken back.
fn send_all(
    peer: &OwnedFd,
    credits: &Semaphore,
    queue: mpsc::Receiver<ChannelCommand>,
    take_back: &dyn Fn(MovedConnection),
) {
    let mut is_open = true;
    for item in queue {
        let back = match item {
            ChannelCommand::Connection(moved) if is_open => match send(peer, moved) {
                Ok(()) => continue,
                Err(NotSent::TooLong(moved)) => Some(moved),
                Err(NotSent::Broken(moved)) => {
                    is_open = false;
                    Some(moved)
                }
            },
            ChannelCommand::Connection(moved) => Some(moved),
            ChannelCommand::End => {
                is_open = false;
                None
            }
        };
        if !is_open {
            credits.close();
            // The other process reads what was sent, and then the end of the channel.
            let _ = socket::shutdown(peer.as_fd(), Shutdown::Write);
        }
        if let Some(moved) = back {
            take_back(*moved);
        }
    }
}

/// Why a connection was not sent.
enum NotSent {
    /// Its message is too long for the channel.
    TooLong(Box<MovedConnection>),
    /// The other process does not read.
    Broken(Box<MovedConnection>),
}

fn send(peer: &OwnedFd, mut moved: Box<MovedConnection>) -> Result<(), NotSent> {
    let secret = moved.tls.take().map(Packed::into_bytes);
    let tls = secret.as_ref().map_or(&b""[..], |tls| tls.expose());
    let message = moved.description.encode(tls);
    let sent = match &message {
        Some(message) => send_when_possible(peer, message, moved.socket.as_fd()),
        None => Err(io::Error::from_raw_os_error(libc::EMSGSIZE)),
    };
    let Err(error) = sent else { return Ok(()) };
    // These bytes were written a moment ago.
    moved.tls = secret.and_then(|tls| Packed::from_bytes(tls.expose()).ok());
    Err(match error.raw_os_error() {
        Some(libc::EMSGSIZE) => {
            moved.stays = true;
            NotSent::TooLong(moved)
        }
        _ => NotSent::Broken(moved),
    })
}

/// Sends a message as soon as there is room for it.
fn send_when_possible(peer: &OwnedFd, message: &[u8], fd: BorrowedFd<'_>) -> io::Result<()> {
    let until = Instant::now() + PEER_TIMEOUT;
    loop {
        match socket::send_fds(peer.as_fd(), message, &[fd]) {
            Err(error) if is_transient(&error) && Instant::now() < until => {
                std::thread::sleep(FULL_PAUSE);
            }
            done => return done,
        }
    }
}

/// Whether the channel or the kernel is only short of room for a moment.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::ETOOMANYREFS)
    )
}

/// Adds the credits that the other process grants, until it grants no more.
fn receive_credits(peer: &OwnedFd, credits: &Semaphore, report: &dyn Fn(fmt::Arguments<'_>)) {
    let mut bytes = [0; CREDIT_MESSAGE_BYTES];
    loop {
        let received = match socket::receive_fds(peer.as_fd(), &mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match poll::wait_readable(&[peer.as_fd()], None) {
                    Ok(_) => continue,
                    Err(_) => return,
                }
            }
            Err(_) => return,
            Ok(received) if received.len == 0 => return,
            Ok(received) => received,
        };
        match decode_credits(&bytes[..received.len]) {
            CreditUpdate::More(count) => credits.add_permits(count.into()),
            CreditUpdate::NoMore => return,
            CreditUpdate::OtherFormat(format) => {
                let own = moving_format();
                return report(format_args!(
                    "connections cannot move to the other worker process, which has another version, \
                     and finish here (\"{own}\" here, \"{format}\" there)"
                ));
            }
        }
    }
}

fn decode_credits(bytes: &[u8]) -> CreditUpdate {
    // The version comes first in every layout.
    let version = postcard::take_from_bytes::<u16>(bytes).map(|(version, _)| version);
    let message = match version {
        Ok(VERSION) => postcard::from_bytes::<CreditMessage>(bytes).ok(),
        _ => None,
    };
    match message {
        None => CreditUpdate::OtherFormat("another layout".to_owned()),
        Some(message) if message.format != moving_format() => {
            let format = message.format.chars();
            CreditUpdate::OtherFormat(format.filter(|c| !c.is_control()).collect())
        }
        Some(CreditMessage { credits: 0, .. }) => CreditUpdate::NoMore,
        Some(message) => CreditUpdate::More(message.credits),
    }
}

fn send_credits(peer: &OwnedFd, credits: usize) -> io::Result<()> {
    let message = CreditMessage {
        version: VERSION,
        format: moving_format(),
        credits: u16::try_from(credits).unwrap_or(u16::MAX),
    };
    let bytes = postcard::to_allocvec(&message).map_err(io::Error::other)?;
    socket::send_fds(peer.as_fd(), &bytes, &[])
}

/// What the new process does with the connections that arrive.
pub(crate) trait Adopter {
    /// Whether there is room for this many more connections.
    fn has_room(&self, count: usize) -> bool;
    /// A message has arrived.
    fn take(&mut self, arrived: Result<MovedConnection, BadMessage>);
    /// Counts a connection as in flight.
    fn in_flight(&self) -> super::InFlightGuard;
}

/// Receives connections until the other process closes the channel, or until `stop` becomes
/// readable: then those in flight are still received.
///
/// # Errors
/// When the channel breaks.
pub(crate) fn receive(
    peer: &OwnedFd,
    stop: BorrowedFd<'_>,
    adopter: &mut dyn Adopter,
) -> io::Result<()> {
    let mut bytes = Zeroizing::new(vec![0; MAX_MESSAGE_BYTES]);
    // One descriptor per credit: if there were none free, the kernel would drop the socket.
    let mut spare_fds: Vec<OwnedFd> = Vec::with_capacity(MAX_CREDITS);
    let mut end = Closing::No;
    loop {
        end.go_on(peer)?;
        if let Closing::No = end
            && spare_fds.len() <= MAX_CREDITS / 2
        {
            grant_credits(peer, &mut spare_fds, adopter);
        }
        let wait = match end {
            Closing::No if spare_fds.len() > MAX_CREDITS / 2 => None,
            Closing::No => Some(ROOM_PAUSE),
            Closing::Requested(_) => Some(FULL_PAUSE),
            Closing::Announced(until) => Some(until.saturating_duration_since(Instant::now())),
        };
        let fds = [
            (peer.as_fd(), Interest::Readable),
            (stop, Interest::Readable),
        ];
        let watched = if let Closing::No = end { 2 } else { 1 };
        let ready = poll::wait(&fds[..watched], wait)?;
        if ready.get(1) == Some(&true) {
            end = Closing::Requested(Instant::now() + PEER_TIMEOUT);
        }
        if !ready[0] {
            continue;
        }
        spare_fds.pop();
        let received = match socket::receive_fds(peer.as_fd(), &mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            // Too long, or without a descriptor: this one is lost, the next ones are not.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                adopter.take(Err(BadMessage::Socket(error)));
                continue;
            }
            // It has ended without reading our messages. The kernel reports that once, before
            // what it has sent.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => continue,
            received => received?,
        };
        if received.len == 0 {
            return Ok(());
        }
        let mut fds = received.fds.into_iter();
        let arrived = match (Description::decode(&bytes[..received.len]), fds.next()) {
            (Ok((description, tls)), Some(socket)) => Ok(MovedConnection {
                description,
                tls,
                socket,
                stays: false,
                in_flight: Some(adopter.in_flight()),
            }),
            (Err(error), _) => Err(error),
            (Ok(_), None) => Err(BadMessage::Unreadable),
        };
        adopter.take(arrived);
    }
}

/// Grants as many credits as there is room for.
fn grant_credits(peer: &OwnedFd, spare_fds: &mut Vec<OwnedFd>, adopter: &dyn Adopter) {
    let before = spare_fds.len();
    while spare_fds.len() < MAX_CREDITS && adopter.has_room(spare_fds.len() + 1) {
        match peer.try_clone() {
            Ok(fd) => spare_fds.push(fd),
            Err(_) => break, // no descriptors now
        }
    }
    let granted = spare_fds.len() - before;
    if granted == 0 {
        return;
    }
    match send_credits(peer, granted) {
        Err(error) if is_transient(&error) => spare_fds.truncate(before),
        // Granted; or the other process has ended, and its messages are still to be read.
        _ => {}
    }
}

/// How this process closes the channel.
enum Closing {
    /// It does not.
    No,
    /// The other process is still to be told; it all has to be over by then.
    Requested(Instant),
    /// It has been told: what is in flight may arrive until then.
    Announced(Instant),
}

impl Closing {
    fn go_on(&mut self, peer: &OwnedFd) -> io::Result<()> {
        let until = match *self {
            Closing::No => return Ok(()),
            Closing::Requested(until) => {
                match send_credits(peer, 0) {
                    Err(error) if is_transient(&error) => {}
                    // Sent, or the other process has ended already.
                    _ => *self = Closing::Announced(until),
                }
                until
            }
            Closing::Announced(until) => until,
        };
        match Instant::now() < until {
            true => Ok(()),
            false => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

#[cfg(test)]
mod tests;
