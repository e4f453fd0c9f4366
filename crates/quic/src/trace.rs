//! What a connection tells of itself for qlog, if it is asked to
//! ([`Connection::start_trace`](crate::Connection::start_trace)).
//!
//! Events are facts without a format: whoever owns the connection takes and writes them. None has
//! key material, tokens, stateless reset tokens or bytes of streams; of these, only lengths.

use crate::connection::{Addresses, CloseReason};
use crate::{ConnectionId, Direction, Space, Time, Version};
use std::net::{SocketAddrV4, SocketAddrV6};
use std::time::Duration;

pub use crate::packet::PacketType;

/// Most events that wait to be taken; those that come when there are so many are missed. Owners
/// take them after each datagram that came and each call that makes datagrams, which tells of fewer
/// unless a whole window is lost at once.
pub const MAX_WAITING: usize = 8192;

/// Something that happened, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct Traced {
    /// When.
    pub time: Time,
    /// What.
    pub event: TraceEvent,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum TraceEvent {
    /// The connection began.
    Began {
        /// Where the ends are.
        addresses: Addresses,
        /// The id of this end.
        own_id: ConnectionId,
        /// The id of the peer.
        peer_id: ConnectionId,
    },
    /// Which versions there are.
    Versions {
        /// What this end speaks, the favourite first.
        spoken: Vec<Version>,
        /// What the connection uses.
        chosen: Version,
    },
    /// Transport parameters of an end are known.
    Parameters {
        /// They are those of this end.
        is_local: bool,
        /// What they say.
        parameters: Box<TracedParameters>,
    },
    /// A packet was sent.
    Sent(Box<TracedPacket>),
    /// A packet came, and was authentic.
    Received(Box<TracedPacket>),
    /// A packet came, or a datagram, that was not looked at.
    Dropped {
        /// Its type, if it is known.
        packet_type: Option<PacketType>,
        /// Its bytes.
        bytes: usize,
        /// Why.
        why: DropReason,
    },
    /// A packet waits for its keys.
    Buffered {
        /// Its type.
        packet_type: PacketType,
        /// Its bytes.
        bytes: usize,
    },
    /// A stateless reset came.
    Reset,
    /// A packet that was sent counts as lost.
    Lost {
        /// The space of its number.
        space: Space,
        /// Which.
        loss: TracedLoss,
    },
    /// Recovery and congestion control have new values.
    Metrics(Metrics),
    /// The congestion controller is in another state.
    CongestionState {
        /// The one before.
        old: Option<&'static str>,
        /// The one now.
        new: &'static str,
    },
    /// Datagrams have another size.
    DatagramSize {
        /// Before.
        old: u16,
        /// Now.
        new: u16,
    },
    /// There are new keys.
    KeysMade {
        /// What for.
        keys: TracedKeys,
        /// Who wanted that.
        by: KeyTrigger,
    },
    /// Keys are gone.
    KeysDiscarded(TracedKeys),
    /// An end is addressed by another id.
    IdChanged {
        /// It is the id of this end.
        is_local: bool,
        /// The one before.
        old: ConnectionId,
        /// The one now.
        new: ConnectionId,
    },
    /// The peer moves, or tries to.
    Migration {
        /// How far it has come.
        state: MigrationState,
        /// Where the ends are on the path.
        addresses: Addresses,
    },
    /// The handshake is complete, and with a server confirmed.
    Established,
    /// The connection has ended, or begins to.
    Closed(CloseReason),
}

/// A packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedPacket {
    /// Its type.
    pub packet_type: PacketType,
    /// Its number.
    pub number: u64,
    /// What only long headers have.
    pub long: Option<TracedLongHeader>,
    /// The destination.
    pub destination: ConnectionId,
    /// The key phase bit of a short header.
    pub key_phase: bool,
    /// Bytes in all.
    pub bytes: usize,
    /// Bytes of frames.
    pub payload_bytes: usize,
    /// What is in it, as far as it could be read.
    pub frames: Vec<TracedFrame>,
    /// It tries a size of datagrams.
    pub is_mtu_probe: bool,
}

/// What only long headers have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedLongHeader {
    /// The version.
    pub version: u32,
    /// The source.
    pub source: ConnectionId,
    /// Bytes of the token of an Initial packet.
    pub token_bytes: usize,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are those of RFC 9000 section 19
pub enum TracedFrame {
    Padding {
        bytes: usize,
    },
    Ping,
    Ack {
        /// How long it was held back.
        delay: Duration,
        /// From the largest number down.
        ranges: Vec<(u64, u64)>,
        /// Counts of ECT(0), ECT(1) and CE.
        ecn: Option<[u64; 3]>,
    },
    ResetStream {
        id: u64,
        code: u64,
        final_size: u64,
    },
    StopSending {
        id: u64,
        code: u64,
    },
    Crypto {
        offset: u64,
        bytes: usize,
    },
    NewToken {
        bytes: usize,
    },
    Stream {
        id: u64,
        offset: u64,
        bytes: usize,
        fin: bool,
    },
    MaxData(u64),
    MaxStreamData {
        id: u64,
        limit: u64,
    },
    MaxStreams {
        direction: Direction,
        limit: u64,
    },
    DataBlocked(u64),
    StreamDataBlocked {
        id: u64,
        limit: u64,
    },
    StreamsBlocked {
        direction: Direction,
        limit: u64,
    },
    NewConnectionId {
        sequence: u64,
        retire_prior_to: u64,
        id: ConnectionId,
    },
    RetireConnectionId(u64),
    PathChallenge,
    PathResponse,
    ConnectionClose {
        code: u64,
        frame_type: u64,
        reason: String,
    },
    ApplicationClose {
        code: u64,
        reason: String,
    },
    HandshakeDone,
}

/// Why a packet was not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// It came from where the peer may not be yet.
    Address,
    /// It is not of this connection.
    Unknown,
    /// It is of a version that is not in use here.
    Version,
    /// It is malformed, or came where it may not.
    Invalid,
    /// There are no keys for it.
    NoKeys,
    /// It is not authentic.
    NotAuthentic,
    /// It came before.
    Duplicate,
}

/// A packet that counts as lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedLoss {
    /// Its number.
    pub number: u64,
    /// It took too long; else later ones have overtaken it.
    pub by_time: bool,
    /// It tried a size of datagrams.
    pub is_mtu_probe: bool,
}

/// What recovery and congestion control go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metrics {
    /// Once the round-trip time was measured.
    pub rtt: Option<RttMetrics>,
    /// The congestion window in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Where slow start ends, if that is known.
    pub threshold: Option<u64>,
    /// Bytes a second, if the controller estimates what the path carries.
    pub pacing_rate: Option<u64>,
    /// Probe timeouts in a row.
    pub pto_count: u8,
}

/// The round-trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttMetrics {
    /// The least.
    pub min: Duration,
    /// The newest.
    pub latest: Duration,
    /// The smoothed one.
    pub smoothed: Duration,
    /// The mean deviation.
    pub variance: Duration,
}

/// What keys are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedKeys {
    /// The packets.
    pub packet_type: PacketType,
    /// The packets of the server, else those of the client.
    pub of_server: bool,
    /// How often the keys of 1-RTT packets were updated.
    pub phase: Option<u64>,
}

/// Who wanted new keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyTrigger {
    /// The handshake.
    Handshake,
    /// This end.
    Local,
    /// The peer.
    Remote,
}

/// How far a migration has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationState {
    /// The peer tries another path.
    Probing,
    /// It uses the path, which is to be validated.
    Started,
    /// The path is validated.
    Complete,
    /// The connection goes on along the path before.
    Abandoned,
}

/// Transport parameters (RFC 9000 section 18.2), without reset tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names are those of the RFC
pub struct TracedParameters {
    pub original_destination: Option<ConnectionId>,
    pub initial_source: Option<ConnectionId>,
    pub retry_source: Option<ConnectionId>,
    pub disable_active_migration: bool,
    pub max_idle_timeout_ms: u64,
    pub max_udp_payload_size: u64,
    pub ack_delay_exponent: u8,
    pub max_ack_delay_ms: u16,
    pub active_connection_id_limit: u64,
    pub initial_max_data: u64,
    pub initial_max_stream_data_bidi_local: u64,
    pub initial_max_stream_data_bidi_remote: u64,
    pub initial_max_stream_data_uni: u64,
    pub initial_max_streams_bidi: u64,
    pub initial_max_streams_uni: u64,
    pub preferred_v4: Option<SocketAddrV4>,
    pub preferred_v6: Option<SocketAddrV6>,
    pub grease_quic_bit: bool,
}
