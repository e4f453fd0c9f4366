//! Idle HTTP/1 connections move to another process (upgrade of the binary).
//!
//! Between two requests a connection is little more than its socket: who the client is, what it
//! has done so far and, with TLS, libssl's state. That goes as one message, with the socket, over
//! a line that the old process has to the new one; from then on nobody in the old process may
//! touch the socket.
//!
//! A connection leaves only when the new process has a place for it ([`line`]), so that none is
//! under way for long or lost. Until then it is served where it is.

pub(crate) mod line;

use crate::facts::{ConnectionFacts, PeerAddress};
use crate::proxy_protocol::ProxyHeader;
use crate::socket::Socket;
use sealane_conf::model::{ListenAddress, LocationConf};
use sealane_http::proxy_protocol::Addresses;
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

/// Largest message: that of a connection with as many PROXY extensions as there can be.
const MAX_PARCEL_BYTES: usize = MAX_PACKED_BYTES + (128 << 10);
/// Room for a usual description.
const DESCRIPTION_BYTES: usize = 128;
/// What both processes must agree on; another layout has another number.
const VERSION: u16 = 2;

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
    /// It has come back: no message takes it, so that it has to stay.
    pub(crate) stays: bool,
    pub(crate) under_way: Option<UnderWay>,
}

/// How many connections are no task's at the moment: on their way out, or in.
#[derive(Clone, Default)]
pub(crate) struct Travellers(Arc<AtomicUsize>);

/// Counts as one of the [`Travellers`] until it is dropped.
pub(crate) struct UnderWay(Arc<AtomicUsize>);

impl Travellers {
    /// One more.
    pub(crate) fn one(&self) -> UnderWay {
        self.0.fetch_add(1, Ordering::AcqRel);
        UnderWay(self.0.clone())
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
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
    keep_alive: KeepAlive,
    /// So long it has waited for its next request.
    idle_ms: u64,
    proxied: Option<Proxied>,
    /// Behind the description stand so many bytes of TLS.
    tls_bytes: u32,
}

/// How long a connection waits for its next request, in milliseconds: both are part of every idle
/// connection, so they are short; what is longer than 49 days is 49 days.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeepAlive {
    /// `keepalive_timeout` of the location that answered last.
    pub(crate) timeout_ms: u32,
    /// `keepalive_min_timeout` of the same.
    pub(crate) min_timeout_ms: u32,
}

impl KeepAlive {
    /// With the times of a location.
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
            NoParcel::Socket(error) => write!(f, "{}", sealane_log::OsError(error)),
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
            keep_alive,
            idle_ms,
            proxied,
            tls_bytes: 0,
        }
    }

    /// The message about a connection with this TLS side; `None` when it is too long.
    fn encode(&mut self, tls: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        self.tls_bytes = u32::try_from(tls.len()).ok()?;
        let mut bytes = Zeroizing::new(Vec::with_capacity(DESCRIPTION_BYTES + tls.len()));
        bytes.extend_from_slice(&postcard::to_allocvec(self).ok()?);
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

    /// How long it waits.
    pub(crate) fn keep_alive(&self) -> KeepAlive {
        self.keep_alive
    }

    /// Of that, so much has passed.
    pub(crate) fn idle_ms(&self) -> u64 {
        self.idle_ms
    }
}

impl Parcel {
    /// The connection's facts in this process, in whose event loop its socket is from now on.
    pub(crate) fn open(self, number: u64) -> Result<Opened, NoParcel> {
        let Parcel {
            description,
            tls,
            socket,
            ..
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

#[cfg(test)]
mod tests;
