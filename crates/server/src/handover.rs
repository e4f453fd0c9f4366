//! Idle HTTP/1 connections move to another process (upgrade of the binary).
//!
//! Between two requests a connection is little more than its socket: who the client is, what it
//! has done so far and, with TLS, libssl's state. That goes as one message, with the socket, over
//! a line that the old process has to the new one; from then on nobody in the old process may
//! touch the socket. A connection that cannot move now finishes here.

use crate::facts::{ConnectionFacts, PeerAddress};
use crate::proxy_protocol::ProxyHeader;
use crate::socket::Socket;
use sealane_conf::model::ListenAddress;
use sealane_http::proxy_protocol::Addresses;
use sealane_sys::{poll, socket};
use sealane_tls::{MAX_PACKED_BYTES, Packed};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Largest message: that of a connection with as many PROXY extensions as there can be.
const MAX_PARCEL_BYTES: usize = MAX_PACKED_BYTES + (128 << 10);
/// Room for a usual description.
const DESCRIPTION_BYTES: usize = 128;
/// Connections that wait for their turn to be sent.
const MAX_WAITING: usize = 1024;
/// How long the other process may take to read one.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause before another attempt when the line is full.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// What both processes must agree on; another layout has another number.
const VERSION: u16 = 1;

/// What two processes must agree on to hand connections to each other, in one line of less than
/// 300 bytes.
pub fn moving_format() -> String {
    format!("connections {VERSION}, {}", sealane_tls::moving_format())
}

/// A connection on its way.
pub(crate) struct Parcel {
    pub(crate) description: Description,
    /// The TLS side, if there is one.
    pub(crate) tls: Option<Packed>,
    pub(crate) socket: OwnedFd,
}

/// A connection that has arrived.
pub(crate) struct Opened {
    pub(crate) description: Description,
    pub(crate) facts: ConnectionFacts,
    pub(crate) tls: Option<Packed>,
}

/// What goes with the socket.
#[derive(Serialize, Deserialize)]
pub(crate) struct Description {
    version: u16,
    listener: Listener,
    peer: Option<SocketAddr>,
    age: Duration,
    requests: u64,
    nodelay: bool,
    keepalive_timeout: Option<Duration>,
    proxied: Option<Proxied>,
    /// Behind the description stand so many bytes of TLS.
    tls_bytes: u32,
}

/// The address that its listener is bound to, in both configurations.
#[derive(Serialize, Deserialize)]
enum Listener {
    Inet(SocketAddr),
    Unix(PathBuf),
}

/// What a PROXY header said.
#[derive(Serialize, Deserialize)]
struct Proxied {
    addresses: Option<(SocketAddr, SocketAddr)>,
    tlvs: Vec<u8>,
}

/// Why a message is no connection.
#[derive(Debug)]
pub(crate) enum NoParcel {
    /// It is from another version of the program, or damaged.
    Unreadable,
    /// The socket does not do what a socket does.
    Socket(io::Error),
}

impl fmt::Display for NoParcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoParcel::Unreadable => f.write_str("a connection that cannot be read"),
            NoParcel::Socket(error) => write!(f, "{}", crate::log::OsError(error)),
        }
    }
}

impl Description {
    /// A plain connection between two requests.
    pub(crate) fn new(
        facts: &ConnectionFacts,
        listener: &ListenAddress,
        nodelay: bool,
        keepalive_timeout: Option<Duration>,
    ) -> Description {
        let proxied = facts.proxy_protocol().map(|header| Proxied {
            addresses: header.addresses.map(|both| (both.source, both.destination)),
            tlvs: header.raw_tlvs().to_vec(),
        });
        Description {
            version: VERSION,
            listener: match listener {
                ListenAddress::Inet(address) => Listener::Inet(*address),
                ListenAddress::Unix(path) => Listener::Unix(path.clone()),
            },
            peer: match facts.peer {
                PeerAddress::Inet(address) => Some(address),
                PeerAddress::Unix => None,
            },
            age: facts.accepted.elapsed(),
            requests: facts.requests(),
            nodelay,
            keepalive_timeout,
            proxied,
            tls_bytes: 0,
        }
    }

    /// The message about a connection with this TLS side; `None` when it is too long.
    fn encode(mut self, tls: Option<Packed>) -> Option<Zeroizing<Vec<u8>>> {
        let tls = tls.map(Packed::into_bytes);
        let tls = tls.as_ref().map_or(&b""[..], |tls| tls.expose());
        self.tls_bytes = u32::try_from(tls.len()).ok()?;
        let mut bytes = Zeroizing::new(Vec::with_capacity(DESCRIPTION_BYTES + tls.len()));
        bytes.extend_from_slice(&postcard::to_allocvec(&self).ok()?);
        bytes.extend_from_slice(tls);
        (bytes.len() <= MAX_PARCEL_BYTES).then_some(bytes)
    }

    fn decode(bytes: &[u8]) -> Result<(Description, Option<Packed>), NoParcel> {
        // The version stands first in every layout.
        let (version, _) =
            postcard::take_from_bytes::<u16>(bytes).map_err(|_| NoParcel::Unreadable)?;
        if version != VERSION {
            return Err(NoParcel::Unreadable);
        }
        let (description, tls) =
            postcard::take_from_bytes::<Description>(bytes).map_err(|_| NoParcel::Unreadable)?;
        if tls.len() != description.tls_bytes as usize {
            return Err(NoParcel::Unreadable);
        }
        let tls = match tls {
            [] => None,
            tls => Some(Packed::from_bytes(tls).map_err(|_| NoParcel::Unreadable)?),
        };
        Ok((description, tls))
    }

    /// The address that its listener is bound to.
    pub(crate) fn listener(&self) -> ListenAddress {
        match &self.listener {
            Listener::Inet(address) => ListenAddress::Inet(*address),
            Listener::Unix(path) => ListenAddress::Unix(path.clone()),
        }
    }

    /// `TCP_NODELAY` as the socket has it.
    pub(crate) fn nodelay(&self) -> bool {
        self.nodelay
    }

    /// `keepalive_timeout` of the location that answered last.
    pub(crate) fn keepalive_timeout(&self) -> Option<Duration> {
        self.keepalive_timeout
    }
}

impl Parcel {
    /// The connection's facts in this process, in whose event loop its socket is from now on.
    pub(crate) fn open(self, number: u64) -> Result<Opened, NoParcel> {
        let Parcel {
            description,
            tls,
            socket,
        } = self;
        let (socket, peer) = match description.peer {
            Some(peer) => (Socket::tcp(socket), PeerAddress::Inet(peer)),
            None => (Socket::unix(socket), PeerAddress::Unix),
        };
        let socket = socket.map_err(NoParcel::Socket)?;
        let now = Instant::now();
        let accepted = now.checked_sub(description.age).unwrap_or(now);
        let facts = ConnectionFacts::moved(number, peer, socket, accepted, description.requests);
        if let Some(proxied) = &description.proxied {
            let addresses = proxied.addresses.map(|(source, destination)| Addresses {
                source,
                destination,
            });
            facts.set_proxy_protocol(ProxyHeader::new(addresses, &proxied.tlvs));
        }
        Ok(Opened {
            description,
            facts,
            tls,
        })
    }
}

/// The way to the other process.
pub(crate) struct Way(mpsc::SyncSender<Parcel>);

impl Way {
    /// Starts the thread that sends connections over `line`. It ends with the last of them.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(crate) fn open(line: OwnedFd) -> io::Result<Way> {
        let (sender, receiver) = mpsc::sync_channel::<Parcel>(MAX_WAITING);
        std::thread::Builder::new()
            .name("hand over".to_owned())
            .spawn(move || {
                for parcel in receiver {
                    if send(&line, parcel).is_err() {
                        // The other process is gone: what has not moved finishes here.
                        return;
                    }
                }
            })?;
        Ok(Way(sender))
    }

    /// Sends a connection. False when it cannot go.
    pub(crate) fn send(&self, parcel: Parcel) -> bool {
        self.0.try_send(parcel).is_ok()
    }
}

fn send(line: &OwnedFd, parcel: Parcel) -> io::Result<()> {
    let Parcel {
        description,
        tls,
        socket: moving,
    } = parcel;
    let Some(bytes) = description.encode(tls) else {
        return Ok(()); // the client sees an idle connection closed
    };
    let until = Instant::now() + PATIENCE;
    loop {
        match socket::send_fds(line.as_fd(), &bytes, &[moving.as_fd()]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                std::thread::sleep(FULL_PAUSE);
            }
            done => return done,
        }
    }
}

/// Receives connections until the other process has no more. `each` is given every one.
///
/// # Errors
/// When the line breaks.
pub(crate) fn receive(
    line: &OwnedFd,
    mut each: impl FnMut(Result<Parcel, NoParcel>),
) -> io::Result<()> {
    let mut bytes = Zeroizing::new(vec![0; MAX_PARCEL_BYTES]);
    loop {
        let received = match socket::receive_fds(line.as_fd(), &mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll::wait_readable(&[line.as_fd()], None)?;
                continue;
            }
            received => received?,
        };
        if received.len == 0 {
            return Ok(());
        }
        let mut fds = received.fds.into_iter();
        each(
            match (Description::decode(&bytes[..received.len]), fds.next()) {
                (Ok((description, tls)), Some(socket)) => Ok(Parcel {
                    description,
                    tls,
                    socket,
                }),
                (Err(error), _) => Err(error),
                (Ok(_), None) => Err(NoParcel::Unreadable),
            },
        );
    }
}

#[cfg(test)]
mod tests;
