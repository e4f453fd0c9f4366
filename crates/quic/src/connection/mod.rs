//! A connection: what comes in datagrams, what goes out in them, and when.
//!
//! ```text
//!  datagram ──> receive ──> packets ──> frames ──> streams, recovery, ids, paths
//!                              │ keys                     │ events
//!                              v                          v
//!                          handshake <── TLS          the owner: HTTP/3
//!                              │                          │ bytes when a packet is built
//!                              v                          v
//!  datagrams <── transmit <── packets <────────────── frames
//! ```
//!
//! The caller hands in datagrams ([`Connection::receive`]) and the time when it asked to be called
//! ([`Connection::timeout`], [`Connection::on_timeout`]); lets the handshake go on while
//! [`Connection::wants_handshake`] says so; takes the events of streams
//! ([`Connection::next_event`]); and sends what [`Connection::transmit`] makes until there is
//! nothing more.
//!
//! | file | what it holds |
//! |---|---|
//! | `settings` | what connections may do |
//! | `handshake` | TLS, transport parameters, the life of keys |
//! | `keys` | keys of 1-RTT packets and their updates |
//! | `receive`, `frames` | from datagrams to frames, and what these do |
//! | `transmit`, `packets` | from what is to be sent to datagrams |
//! | `paths` | the peer's addresses, their validation, migration |
//! | `local_ids`, `remote_ids` | connection ids |
//! | `timers` | what happens when nothing comes |
//! | `versions` | going over to another version |
//! | `close` | how it ends |
//! | `tracing` | what it tells of itself for qlog |

mod close;
mod established;
mod frames;
mod handshake;
mod keys;
mod local_ids;
mod packets;
mod paths;
mod receive;
mod remote_ids;
mod settings;
mod timers;
mod tracing;
mod transmit;
mod versions;

#[cfg(test)]
mod tests;

pub use close::CloseReason;
pub use handshake::HandshakeFailure;
pub(crate) use keys::DataKeys;
pub use local_ids::IdSource;
pub use paths::Addresses;
pub use settings::ConnectionSettings;
pub use transmit::{Datagrams, Outbox};

use crate::crypto_stream::CryptoStream;
use crate::recovery::{Path, Received, Recovery};
use crate::reset::ResetToken;
use crate::streams::{Direction, Event, PeerLimits, StreamId, Streams};
use crate::{ConnectionId, Side, Space, Time, Version};
use close::Progress;
use handshake::{Held, Negotiation, Tls};
use keys::Forgeries;
use local_ids::LocalIds;
use paths::Paths;
use remote_ids::RemoteIds;
use sealane_tls::quic::{self as tls, ClientConnection, ServerConnection};
use std::sync::Arc;
use std::time::Duration;
use tracing::Tracer;

/// Who a connection belongs to: it has the bytes of streams and makes connection ids.
pub trait Owner: IdSource {
    /// Random bits that a peer cannot guess.
    fn random(&mut self) -> u64;

    /// Takes bytes of a stream in order, and whether the stream ends behind them. Returns how many
    /// it took; the rest is kept for [`Connection::read`]. The first call for a stream of the peer
    /// stands for its [`Event::Opened`].
    fn receive(&mut self, id: StreamId, bytes: &[u8], fin: bool) -> usize;

    /// A client's hello was processed: what was negotiated is known, and whether early data is
    /// accepted. It comes before the first bytes of streams.
    fn negotiated(&mut self, _tls: &ServerConnection) {}

    /// The handshake is complete: what comes from now on is no replay.
    fn handshake_complete(&mut self) {}

    /// Appends bytes that were made available with [`Connection::write_up_to`], exactly `len` from
    /// `offset` on.
    fn copy(&mut self, id: StreamId, offset: u64, len: usize, out: &mut Vec<u8>);
}

/// What a server knows of a client whose first Initial packet it takes.
#[derive(Debug)]
pub struct Accepted {
    /// The version of its packet.
    pub version: Version,
    /// Destination of that packet, from which Initial keys are derived.
    pub destination: ConnectionId,
    /// Source of that packet.
    pub source: ConnectionId,
    /// Destination of the client's very first packet: the same, unless there was a Retry.
    pub original_destination: ConnectionId,
    /// Source of the Retry packet, if there was one.
    pub retry_source: Option<ConnectionId>,
    /// Whether a token has shown that the client's address is its own.
    pub is_validated: bool,
    /// Addresses of both ends.
    pub addresses: Addresses,
}

/// Whom a client connects to.
#[derive(Debug)]
pub struct Target<'a> {
    /// The version of its first packet.
    pub version: Version,
    /// A random id of at least 8 bytes, for the first packet.
    pub destination: ConnectionId,
    /// The client's own id, which may be empty.
    pub source: ConnectionId,
    /// A token that the server has issued for later connections, or nothing.
    pub token: &'a [u8],
    /// The limits that were remembered with a session, to send early data by.
    pub remembered: Option<PeerLimits>,
    /// Addresses of both ends.
    pub addresses: Addresses,
}

/// What both ends begin with.
struct Beginning {
    side: Side,
    version: Version,
    settings: Arc<ConnectionSettings>,
    negotiation: Option<Box<Negotiation>>,
    local_ids: LocalIds,
    remote: ConnectionId,
    paths: Paths,
    now: Time,
}

/// A packet number space of the handshake.
struct HandshakeSpace {
    received: Received,
    crypto: CryptoStream,
    seal: Option<tls::Keys>,
    open: Option<tls::Keys>,
}

impl HandshakeSpace {
    fn new(space: Space) -> Self {
        Self {
            received: Received::new(space),
            crypto: CryptoStream::new(),
            seal: None,
            open: None,
        }
    }
}

/// The packet number space of 0-RTT and 1-RTT packets.
struct DataSpace {
    received: Received,
    /// Session tickets, and nothing once they have arrived.
    crypto: Option<Box<CryptoStream>>,
    keys: Option<Box<DataKeys>>,
    /// Keys of 0-RTT packets, which the client seals and the server opens.
    early: Option<Box<tls::Keys>>,
}

/// What the peer's transport parameters say, as far as it is needed behind the handshake.
#[derive(Debug, Clone, Copy)]
struct PeerParameters {
    max_idle_timeout_ms: u64,
    ack_delay_exponent: u8,
    max_udp_payload_size: u16,
    active_connection_id_limit: u64,
    are_known: bool,
}

impl Default for PeerParameters {
    fn default() -> Self {
        Self {
            max_idle_timeout_ms: 0,
            ack_delay_exponent: 3,
            max_udp_payload_size: 1200,
            active_connection_id_limit: 2,
            are_known: false,
        }
    }
}

/// Frames that are sent once, unless they are lost.
#[derive(Debug, Default)]
struct OnceFrames {
    handshake_done: bool,
    /// The token of NEW_TOKEN.
    new_token: Option<Box<[u8]>>,
    new_token_is_due: bool,
    ping: bool,
}

/// What has been counted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that came.
    pub datagrams_received: u64,
    /// Datagrams that were sent.
    pub datagrams_sent: u64,
    /// Bytes in those.
    pub bytes_sent: u64,
    /// Bytes in datagrams that came.
    pub bytes_received: u64,
    /// Packets that could not be opened, or were no packets.
    pub packets_dropped: u64,
    /// Frames that were declared lost and had to be sent again.
    pub frames_lost: u64,
    /// Times at which the peer was found at another address.
    pub migrations: u64,
    /// Key updates of either end.
    pub key_updates: u64,
}

/// One end of a connection.
pub struct Connection {
    side: Side,
    /// The version in use.
    version: Version,
    /// That of the client's first packets, and of all its 0-RTT packets.
    original_version: Version,
    state: Progress,
    settings: Arc<ConnectionSettings>,
    /// TLS and what only the handshake needs; `None` once that is over.
    negotiation: Option<Box<Negotiation>>,
    /// Packets that came before their keys.
    held: Option<Box<Held>>,
    initial: Option<Box<HandshakeSpace>>,
    handshake: Option<Box<HandshakeSpace>>,
    data: DataSpace,
    recovery: Recovery,
    paths: Paths,
    streams: Streams,
    local_ids: LocalIds,
    remote_ids: RemoteIds,
    peer: PeerParameters,
    once: OnceFrames,
    forgeries: Forgeries,
    is_confirmed: bool,
    /// When a packet came last, or the first one was sent after that.
    active_at: Time,
    /// A packet that elicits an ACK was sent since one came.
    has_sent_since: bool,
    /// The owner wants silence to be outlasted.
    keeps_alive: bool,
    /// Nothing may be sent before then: the pacer says so.
    paced_until: Option<Time>,
    counters: Counters,
    /// It is to tell what happens.
    tracer: Option<Box<Tracer>>,
}

impl Connection {
    /// The server's end for a client whose first packet is given to [`Connection::receive`] next.
    /// `id` is the server's own, `reset_token` belongs to it.
    #[must_use]
    pub fn server(
        settings: Arc<ConnectionSettings>,
        tls: ServerConnection,
        accepted: &Accepted,
        id: ConnectionId,
        reset_token: ResetToken,
        now: Time,
    ) -> Self {
        let mut negotiation =
            Negotiation::new(Tls::Server(Box::new(tls)), accepted.original_destination);
        negotiation.retry_source = accepted.retry_source;
        negotiation.peer_source = Some(accepted.source);
        negotiation.client_destination = Some(accepted.destination);
        negotiation.reset_token = Some(reset_token);
        let path = Path::new(0, &settings.recovery(), accepted.is_validated, now);
        let mut connection = Self::new(Beginning {
            side: Side::Server,
            version: accepted.version,
            settings,
            negotiation: Some(Box::new(negotiation)),
            local_ids: LocalIds::new(id, reset_token),
            remote: accepted.source,
            paths: Paths::new(accepted.addresses, path),
            now,
        });
        connection.set_initial_keys(&accepted.destination);
        connection
    }

    /// The client's end. `tls` has not begun; its transport parameters are those that
    /// [`ConnectionSettings::client_parameters`] has made for this target.
    #[must_use]
    pub fn client(
        settings: Arc<ConnectionSettings>,
        tls: ClientConnection,
        target: &Target<'_>,
        now: Time,
    ) -> Self {
        let tls = Tls::Client(Box::new(tls));
        let mut negotiation = Negotiation::new(tls, target.destination);
        negotiation.token = target.token.into();
        negotiation.needs_advance = true;
        let path = Path::new(0, &settings.recovery(), true, now);
        let mut connection = Self::new(Beginning {
            side: Side::Client,
            version: target.version,
            settings,
            negotiation: Some(Box::new(negotiation)),
            // Clients send no reset tokens: nobody could use them for the id of the handshake.
            local_ids: LocalIds::new(target.source, ResetToken::new([0; 16])),
            remote: target.destination,
            paths: Paths::new(target.addresses, path),
            now,
        });
        if let Some(limits) = &target.remembered {
            connection.streams.remember_peer_limits(limits);
        }
        connection.set_initial_keys(&target.destination);
        connection
    }

    fn new(beginning: Beginning) -> Self {
        let Beginning {
            side,
            version,
            settings,
            negotiation,
            local_ids,
            remote,
            paths,
            now,
        } = beginning;
        Self {
            side,
            version,
            original_version: version,
            state: Progress::Handshaking,
            negotiation,
            held: None,
            initial: Some(Box::new(HandshakeSpace::new(Space::Initial))),
            handshake: Some(Box::new(HandshakeSpace::new(Space::Handshake))),
            data: DataSpace {
                received: Received::new(Space::Data),
                crypto: None,
                keys: None,
                early: None,
            },
            recovery: Recovery::new(side.is_client()),
            paths,
            streams: Streams::new(side, &settings.streams),
            local_ids,
            remote_ids: RemoteIds::new(remote, settings.active_connection_id_limit),
            peer: PeerParameters::default(),
            once: OnceFrames::default(),
            forgeries: Forgeries::default(),
            is_confirmed: false,
            active_at: now,
            has_sent_since: false,
            keeps_alive: false,
            paced_until: None,
            counters: Counters::default(),
            tracer: None,
            settings,
        }
    }

    /// Which end this is.
    #[must_use]
    pub fn side(&self) -> Side {
        self.side
    }

    /// The version in use: that of the client's first packet, until another one is negotiated
    /// (RFC 9368 section 2.3).
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether the handshake is complete (RFC 9001 section 4.1.1), and the connection not ending.
    #[must_use]
    pub fn is_established(&self) -> bool {
        matches!(self.state, Progress::Established)
    }

    /// Whether the handshake is confirmed (RFC 9001 section 4.1.2).
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// Where the peer is, and where it sends to.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.paths.current.addresses
    }

    /// Whether the peer has shown that it is where packets are sent to: not yet, after it has moved
    /// (RFC 9000 section 9.3).
    #[must_use]
    pub fn is_address_validated(&self) -> bool {
        self.paths.current.path.is_validated()
    }

    /// What has been counted since it was asked last.
    #[must_use]
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(&mut self.counters)
    }

    /// What has been counted since then.
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// The smoothed round-trip time.
    #[must_use]
    pub fn rtt(&self) -> Duration {
        self.paths.current.path.rtt().smoothed()
    }

    /// The congestion window, and the bytes in flight.
    #[must_use]
    pub fn congestion(&self) -> (u64, u64) {
        let path = &self.paths.current.path;
        (path.window(), path.bytes_in_flight())
    }

    /// The largest datagram that is sent, in bytes.
    #[must_use]
    pub fn datagram_size(&self) -> u16 {
        self.paths.current.path.datagram_size()
    }

    /// The ids that route packets here.
    pub fn local_ids(&self) -> impl Iterator<Item = &ConnectionId> {
        self.local_ids.active()
    }

    /// The probe timeout.
    fn pto(&self) -> Duration {
        self.recovery.pto(&self.paths.current.path)
    }
}

/// Streams.
impl Connection {
    /// Opens a stream, or `None` if the peer does not allow more of them now.
    pub fn open(&mut self, direction: Direction) -> Option<StreamId> {
        self.streams.open(direction)
    }

    /// The bytes of a stream before `up_to` are available, and if `fin`, it ends there. Returns
    /// whether anything is sent on the stream any more.
    pub fn write_up_to(&mut self, id: StreamId, up_to: u64, fin: bool) -> bool {
        self.streams.write_up_to(id, up_to, fin)
    }

    /// RFC 9218: streams of a lower `urgency` (0 to 7) are sent first; those that are `incremental`
    /// take turns.
    pub fn set_priority(&mut self, id: StreamId, urgency: u8, incremental: bool) {
        self.streams.set_priority(id, urgency, incremental);
    }

    /// Sends no more of a stream (RESET_STREAM).
    pub fn reset_stream(&mut self, id: StreamId, code: u64) {
        self.streams.reset(id, code);
    }

    /// Reads no more of a stream (STOP_SENDING).
    pub fn stop_sending(&mut self, id: StreamId, code: u64) {
        self.streams.stop_sending(id, code);
    }

    /// Offers the owner what it did not take of a stream.
    pub fn read(&mut self, id: StreamId, owner: &mut impl Owner) {
        self.streams
            .read(id, &mut |id, bytes, fin| owner.receive(id, bytes, fin));
    }

    /// So many bytes that the owner has taken are consumed: the peer may send as many more.
    pub fn consumed(&mut self, id: StreamId, bytes: u64, now: Time) {
        let rtt = self.rtt();
        self.streams.consumed(id, bytes, now, rtt);
    }

    /// What happened to streams.
    pub fn next_event(&mut self) -> Option<Event> {
        self.streams.next_event()
    }

    /// Whether no bidirectional stream is open: no request is going on.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.streams.is_idle()
    }

    /// How many streams of this direction the peer may have open at a time.
    pub fn set_max_streams(&mut self, direction: Direction, streams: u64) {
        self.streams.set_max_streams(direction, streams);
    }

    /// Sends a token for later connections (NEW_TOKEN, RFC 9000 section 8.1.3).
    pub fn send_token(&mut self, token: Box<[u8]>) {
        self.once.new_token = Some(token);
        self.once.new_token_is_due = true;
    }

    /// Asks the peer for an acknowledgement, which keeps the connection alive.
    pub fn ping(&mut self) {
        self.once.ping = true;
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Connection({:?} {:?} at {}, {:?})",
            self.side, self.version, self.paths.current.addresses.remote, self.state
        )
    }
}
