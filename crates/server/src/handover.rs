//! Moves idle HTTP/1 connections to another process, for an upgrade of the binary.
//!
//! Between two requests a connection is little more than its socket: who the client is, what it
//! has done so far and, with TLS, libssl's state. All of that is sent in one message, together
//! with the socket, over a channel from the old process to the new one. After that the old
//! process must not touch the socket.
//!
//! A connection is sent only when the new process has granted a credit for it ([`channel`]), so
//! none is in flight for long, and none is lost. Until then the old process serves it.

pub(crate) mod channel;

use crate::facts::{ConnectionFacts, PeerAddress};
use crate::proxy_protocol::ProxyHeader;
use sealane_conf::model::{ListenAddress, LocationConf};
use sealane_http::proxy_protocol::Addresses;
use sealane_io::socket::Socket;
use sealane_tls::{MAX_PACKED_BYTES, Packed};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Largest message: a connection with as many PROXY extensions as there can be.
const MAX_MESSAGE_BYTES: usize = MAX_PACKED_BYTES + (128 << 10);
/// Initial capacity: enough for a usual description.
const DESCRIPTION_BYTES: usize = 128;
/// Version of the message layout; both processes must have the same.
const VERSION: u16 = 2;

/// What two processes must agree on to move connections between them: one line of less than
/// 300 bytes.
pub fn moving_format() -> String {
    format!("connections {VERSION}, {}", sealane_tls::moving_format())
}

/// A connection that is being moved.
pub(crate) struct MovedConnection {
    pub(crate) description: Description,
    /// The TLS state, if there is TLS.
    pub(crate) tls: Option<Packed>,
    pub(crate) socket: OwnedFd,
    /// It has come back, as it does not fit into a message: it stays in this process.
    pub(crate) stays: bool,
    pub(crate) in_flight: Option<InFlightGuard>,
}

/// How many connections belong to no task at the moment, as they are being sent or received.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<AtomicUsize>);

/// Counts one connection as [`InFlight`] until it is dropped.
pub(crate) struct InFlightGuard(Arc<AtomicUsize>);

impl InFlight {
    /// Counts one more.
    pub(crate) fn begin(&self) -> InFlightGuard {
        self.0.fetch_add(1, Ordering::AcqRel);
        InFlightGuard(self.0.clone())
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A connection that has arrived.
pub(crate) struct AdoptedConnection {
    pub(crate) description: Description,
    pub(crate) facts: ConnectionFacts,
    pub(crate) tls: Option<Packed>,
}

/// What is sent with the socket.
#[derive(Serialize, Deserialize)]
pub(crate) struct Description {
    version: u16,
    listener: Listener,
    peer: Option<SocketAddr>,
    age: Duration,
    requests: u64,
    nodelay: bool,
    keep_alive: KeepAlive,
    /// How long it has waited for its next request.
    idle_ms: u64,
    proxied: Option<Proxied>,
    /// How many bytes of TLS state follow the description.
    tls_bytes: u32,
}

/// How long a connection waits for its next request, in milliseconds. Every idle connection has
/// both, so they are small: 49 days at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeepAlive {
    /// `keepalive_timeout` of the location that answered last.
    pub(crate) timeout_ms: u32,
    /// `keepalive_min_timeout` of the same.
    pub(crate) min_timeout_ms: u32,
}

impl KeepAlive {
    /// The times of a location.
    pub(crate) fn of(conf: &LocationConf) -> KeepAlive {
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        KeepAlive {
            timeout_ms: ms(conf.keepalive_timeout),
            min_timeout_ms: ms(conf.keepalive_min_timeout),
        }
    }
}

/// The address that its listener is bound to, in both configurations.
#[derive(Serialize, Deserialize)]
enum Listener {
    Inet(SocketAddr),
    Unix(PathBuf),
}

/// The contents of a PROXY header.
#[derive(Serialize, Deserialize)]
struct Proxied {
    addresses: Option<(SocketAddr, SocketAddr)>,
    tlvs: Vec<u8>,
}

/// Why a message cannot be turned into a connection.
#[derive(Debug)]
pub(crate) enum BadMessage {
    /// It is from another version of the program, or damaged.
    Unreadable,
    /// The socket cannot be used.
    Socket(io::Error),
}

impl fmt::Display for BadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadMessage::Unreadable => f.write_str("a connection that cannot be read"),
            BadMessage::Socket(error) => write!(f, "{}", sealane_log::OsError(error)),
        }
    }
}

impl Description {
    /// A plain connection between two requests.
    pub(crate) fn new(
        facts: &ConnectionFacts,
        listener: &ListenAddress,
        nodelay: bool,
        keep_alive: KeepAlive,
        idle_ms: u64,
    ) -> Description {
        let proxied = facts.proxy_protocol().map(|header| Proxied {
            addresses: header.addresses.map(|both| (both.source, both.destination)),
            tlvs: header.raw_tlvs().to_vec(),
        });
        Description {
            version: VERSION,
            listener: match listener {
                // Connections do not come from one with `udp`.
                ListenAddress::Inet(address) | ListenAddress::Udp(address) => {
                    Listener::Inet(*address)
                }
                ListenAddress::Unix(path) => Listener::Unix(path.clone()),
            },
            peer: match facts.peer {
                PeerAddress::Inet(address) => Some(address),
                PeerAddress::Unix => None,
            },
            age: facts.accepted.elapsed(),
            requests: facts.requests(),
            nodelay,
            keep_alive,
            idle_ms,
            proxied,
            tls_bytes: 0,
        }
    }

    /// The message for a connection with this TLS state; `None` when it is too long.
    fn encode(&mut self, tls: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        self.tls_bytes = u32::try_from(tls.len()).ok()?;
        let mut bytes = Zeroizing::new(Vec::with_capacity(DESCRIPTION_BYTES + tls.len()));
        bytes.extend_from_slice(&postcard::to_allocvec(self).ok()?);
        bytes.extend_from_slice(tls);
        (bytes.len() <= MAX_MESSAGE_BYTES).then_some(bytes)
    }

    fn decode(bytes: &[u8]) -> Result<(Description, Option<Packed>), BadMessage> {
        // The version comes first in every layout.
        let (version, _) =
            postcard::take_from_bytes::<u16>(bytes).map_err(|_| BadMessage::Unreadable)?;
        if version != VERSION {
            return Err(BadMessage::Unreadable);
        }
        let (description, tls) =
            postcard::take_from_bytes::<Description>(bytes).map_err(|_| BadMessage::Unreadable)?;
        if tls.len() != description.tls_bytes as usize {
            return Err(BadMessage::Unreadable);
        }
        let tls = match tls {
            [] => None,
            tls => Some(Packed::from_bytes(tls).map_err(|_| BadMessage::Unreadable)?),
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

    /// Whether the socket has `TCP_NODELAY`.
    pub(crate) fn nodelay(&self) -> bool {
        self.nodelay
    }

    /// How long it waits for its next request.
    pub(crate) fn keep_alive(&self) -> KeepAlive {
        self.keep_alive
    }

    /// How much of that time has passed.
    pub(crate) fn idle_ms(&self) -> u64 {
        self.idle_ms
    }
}

impl MovedConnection {
    /// The connection's facts in this process. Its socket joins this thread's event loop.
    ///
    /// # Errors
    /// [`BadMessage::Socket`] when the event loop does not take the socket.
    pub(crate) fn open(self, number: u64) -> Result<AdoptedConnection, BadMessage> {
        let MovedConnection {
            description,
            tls,
            socket,
            ..
        } = self;
        let (socket, peer) = match description.peer {
            Some(peer) => (Socket::tcp(socket), PeerAddress::Inet(peer)),
            None => (Socket::unix(socket), PeerAddress::Unix),
        };
        let socket = socket.map_err(BadMessage::Socket)?;
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
        Ok(AdoptedConnection {
            description,
            facts,
            tls,
        })
    }
}

#[cfg(test)]
mod tests;
