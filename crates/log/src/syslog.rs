//! Sends lines as datagrams to a syslog server, in nginx's variant of the RFC 3164 format.

use super::sink::Losses;
use super::stamp::with_time_stamps;
use super::{OsError, frames};
use sealane_conf::model::{PeerAddress, SyslogServer};
use sealane_sys::guard::Guard;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A syslog server and the socket connected to it.
///
/// The master connects with its own rights. The worker inherits the socket or receives it, and
/// reconnects by itself after a restart of the server.
#[derive(Debug)]
pub(super) struct Syslog {
    server: Arc<SyslogServer>,
    /// The master must not connect on behalf of a worker to anything that the worker may not.
    guard: Guard,
    socket: Mutex<Option<Socket>>,
    losses: Losses,
}

impl Syslog {
    pub(super) fn new(server: Arc<SyslogServer>, socket: Option<OwnedFd>, guard: Guard) -> Syslog {
        Syslog {
            server,
            guard,
            socket: Mutex::new(socket.map(Socket::from)),
            losses: Losses::default(),
        }
    }

    /// A socket connected to a server. It never blocks.
    pub(super) fn connect(server: &SyslogServer, guard: &Guard) -> io::Result<OwnedFd> {
        let (domain, address) = match &server.address {
            PeerAddress::Inet(address) => (Domain::for_address(*address), SockAddr::from(*address)),
            PeerAddress::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
        };
        let socket = Socket::new(domain, Type::DGRAM.nonblocking().cloexec(), None)?;
        match &server.address {
            PeerAddress::Inet(_) => socket.connect(&address)?,
            PeerAddress::Unix(path) => guard.act(path, true, || socket.connect(&address))?,
        }
        Ok(socket.into())
    }

    pub(super) fn written(&self) -> &str {
        &self.server.written
    }

    pub(super) fn losses(&self) -> &Losses {
        &self.losses
    }

    /// A copy of the socket, if it is connected.
    pub(super) fn socket(&self) -> io::Result<Option<OwnedFd>> {
        let copy = self.lock().as_ref().map(Socket::try_clone).transpose()?;
        Ok(copy.map(OwnedFd::from))
    }

    pub(super) fn replace(&self, socket: OwnedFd) {
        *self.lock() = Some(socket.into());
    }

    /// Appends a datagram as a frame: the line without its end, after a header with `severity` or,
    /// by default, the configured one.
    pub(super) fn push(&self, severity: Option<u8>, line: &[u8], out: &mut Vec<u8>) {
        let server = &*self.server;
        let priority = server.facility * 8 + severity.unwrap_or(server.severity);
        frames::push(out, [], |out| {
            // Writing to a vector cannot fail.
            let _ = with_time_stamps(|now| write!(out, "<{priority}>{} ", now.syslog));
            if let Some(hostname) = &server.hostname {
                let _ = write!(out, "{hostname} ");
            }
            let _ = write!(out, "{}: ", server.tag);
            out.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        });
    }

    /// Sends the first of these frames; returns the bytes it has.
    ///
    /// # Errors
    /// `WouldBlock` when the server does not keep up; others when it is not there.
    /// The datagram is not lost then.
    pub(super) fn send(&self, frames: &[u8]) -> io::Result<usize> {
        let Some(([datagram], length)) = frames::first::<1>(frames) else {
            return Ok(frames.len()); // nothing that was ever pushed
        };
        let mut socket = self.lock();
        let connected = socket.is_some();
        match self.attempt(&mut socket, datagram) {
            Ok(()) => Ok(length),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            Err(error) if self.is_too_long(&error) => {
                self.losses
                    .add(1, format!("sendto() failed ({})", OsError(&error)));
                Ok(length)
            }
            Err(error) => {
                if matches!(self.server.address, PeerAddress::Inet(_)) {
                    // The error belongs to an earlier datagram and had not been fetched yet.
                    if error.kind() == io::ErrorKind::ConnectionRefused {
                        self.losses
                            .add(1, format!("sendto() failed ({})", OsError(&error)));
                    }
                } else {
                    *socket = None;
                }
                if !connected {
                    return Err(error); // it has just been tried
                }
                self.attempt(&mut socket, datagram).map(|()| length)
            }
        }
    }

    fn attempt(&self, socket: &mut Option<Socket>, datagram: &[u8]) -> io::Result<()> {
        let connected = match socket {
            Some(connected) => connected,
            None => socket.insert(Syslog::connect(&self.server, &self.guard)?.into()),
        };
        match connected.send(datagram) {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(error) => Err(error),
        }
    }

    fn is_too_long(&self, error: &io::Error) -> bool {
        error.raw_os_error() == Some(libc::EMSGSIZE)
    }

    /// A panic cannot leave it half changed.
    fn lock(&self) -> MutexGuard<'_, Option<Socket>> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
