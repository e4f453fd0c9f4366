//! TLS 1.3 inside of QUIC (RFC 9001): handshake messages without records, and the secrets from
//! which QUIC derives its keys.
//!
//! A [`Connection`] becomes one for QUIC by [`Connection::start_quic`]. Its handshake then takes no
//! input and makes no output. What the peer sends in CRYPTO frames goes to
//! [`Connection::provide_quic_data`]; what libssl makes of it, messages and secrets, is queued and
//! taken with [`Connection::take_quic_event`]. `quic/keys.rs` has the ciphers of packets.

use std::collections::VecDeque;
use std::fmt;

use aws_lc_sys as sys;
use zeroize::Zeroizing;

use crate::callbacks;
use crate::connection::Connection;
use crate::error::{self, Error};
use crate::ffi::check;

mod keys;

pub use keys::{HeaderCipher, PacketCipher, expand_label, extract};

/// The most bytes of a ClientHello that libssl takes over QUIC, with the header of the message, and
/// of anything else that is received in one flight and holds no certificates.
pub const MAX_QUIC_FLIGHT_BYTES: usize = 16_384;

/// An encryption level (RFC 9001 section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuicLevel {
    /// Initial packets.
    Initial,
    /// 0-RTT packets, which carry no CRYPTO frames.
    ZeroRtt,
    /// Handshake packets.
    Handshake,
    /// 1-RTT packets.
    OneRtt,
}

impl QuicLevel {
    fn to_library(self) -> sys::ssl_encryption_level_t {
        match self {
            Self::Initial => sys::ssl_encryption_level_t_ssl_encryption_initial,
            Self::ZeroRtt => sys::ssl_encryption_level_t_ssl_encryption_early_data,
            Self::Handshake => sys::ssl_encryption_level_t_ssl_encryption_handshake,
            Self::OneRtt => sys::ssl_encryption_level_t_ssl_encryption_application,
        }
    }

    pub(crate) fn from_library(level: sys::ssl_encryption_level_t) -> Option<Self> {
        [Self::Initial, Self::ZeroRtt, Self::Handshake, Self::OneRtt]
            .into_iter()
            .find(|known| known.to_library() == level)
    }
}

/// A cipher suite of TLS 1.3 as QUIC uses it (RFC 9001 section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuicSuite {
    /// `TLS_AES_128_GCM_SHA256`.
    Aes128Gcm,
    /// `TLS_AES_256_GCM_SHA384`.
    Aes256Gcm,
    /// `TLS_CHACHA20_POLY1305_SHA256`.
    ChaCha20Poly1305,
}

impl QuicSuite {
    /// The suite with this number; `None` for those that QUIC does not use.
    pub fn from_wire(number: u16) -> Option<Self> {
        match number {
            0x1301 => Some(Self::Aes128Gcm),
            0x1302 => Some(Self::Aes256Gcm),
            0x1303 => Some(Self::ChaCha20Poly1305),
            _ => None,
        }
    }

    /// How many packets may be sealed with one key (RFC 9001 section 6.6). With ChaCha20 there are
    /// fewer packet numbers than that.
    pub const fn confidentiality_limit(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 1 << 23,
            Self::ChaCha20Poly1305 => 1 << 62,
        }
    }

    /// How many packets may fail to open in the life of a connection, with all keys together
    /// (RFC 9001 section 6.6).
    pub const fn integrity_limit(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 1 << 52,
            Self::ChaCha20Poly1305 => 1 << 36,
        }
    }

    /// Bytes of a key for packets; keys for headers have as many.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Bytes of a secret: those of the hash.
    pub const fn secret_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::ChaCha20Poly1305 => 32,
            Self::Aes256Gcm => MAX_SECRET_BYTES,
        }
    }
}

/// Bytes of a secret with the longest hash, SHA-384.
const MAX_SECRET_BYTES: usize = 48;

/// A traffic secret and the suite that it is for. Wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct TrafficSecret {
    suite: QuicSuite,
    bytes: Zeroizing<[u8; MAX_SECRET_BYTES]>,
}

impl TrafficSecret {
    /// A secret for this suite; `None` if it does not have [`QuicSuite::secret_bytes`].
    pub fn new(suite: QuicSuite, secret: &[u8]) -> Option<Self> {
        if secret.len() != suite.secret_bytes() {
            return None;
        }
        let mut bytes = Zeroizing::new([0; MAX_SECRET_BYTES]);
        bytes[..secret.len()].copy_from_slice(secret);
        Some(Self { suite, bytes })
    }

    /// Its suite.
    pub fn suite(&self) -> QuicSuite {
        self.suite
    }

    /// The secret itself: for key derivation only.
    pub fn expose(&self) -> &[u8] {
        &self.bytes[..self.suite.secret_bytes()]
    }
}

impl fmt::Debug for TrafficSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrafficSecret({:?}, redacted)", self.suite)
    }
}

/// What libssl wants of QUIC, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuicEvent {
    /// Handshake messages to be sent in CRYPTO frames.
    Crypto {
        /// The level of the packets.
        level: QuicLevel,
        /// What follows the bytes of earlier events of this level.
        bytes: Vec<u8>,
    },
    /// Packets of this level can be opened from now on.
    ReadSecret {
        /// The level.
        level: QuicLevel,
        /// What the keys are derived from.
        secret: TrafficSecret,
    },
    /// Packets of this level can be sealed from now on.
    WriteSecret {
        /// The level.
        level: QuicLevel,
        /// What the keys are derived from.
        secret: TrafficSecret,
    },
}

/// What callbacks leave for the connection.
#[derive(Debug, Default)]
pub(crate) struct QuicState {
    events: VecDeque<QuicEvent>,
    /// The fatal alert that libssl wanted to send.
    alert: Option<u8>,
    /// What sessions are bound to, if not what the context says.
    pub(crate) context_id: Option<Box<[u8]>>,
}

impl QuicState {
    /// Messages of one level follow each other without a break.
    pub(crate) fn add_data(&mut self, level: QuicLevel, data: &[u8]) {
        if let Some(QuicEvent::Crypto { level: last, bytes }) = self.events.back_mut()
            && *last == level
        {
            bytes.extend_from_slice(data);
            return;
        }
        self.events.push_back(QuicEvent::Crypto {
            level,
            bytes: data.to_vec(),
        });
    }

    pub(crate) fn add_event(&mut self, event: QuicEvent) {
        self.events.push_back(event);
    }

    pub(crate) fn note_alert(&mut self, alert: u8) {
        self.alert.get_or_insert(alert);
    }
}

impl Connection {
    /// Makes this a connection for QUIC, which sends these transport parameters (RFC 9001 section
    /// 8.2). Call it before the handshake.
    ///
    /// # Errors
    ///
    /// When libssl has no memory.
    pub fn start_quic(&mut self, transport_parameters: &[u8]) -> Result<(), Error> {
        error::clear_queue();
        // SAFETY: the SSL is valid, the table a static; the parameters are copied.
        unsafe {
            check(
                "SSL_set_quic_method",
                sys::SSL_set_quic_method(self.as_ptr(), &callbacks::quic::METHOD),
            )?;
            check(
                "SSL_set_quic_transport_params",
                sys::SSL_set_quic_transport_params(
                    self.as_ptr(),
                    transport_parameters.as_ptr(),
                    transport_parameters.len(),
                ),
            )?;
        }
        self.quic = Some(Box::default());
        Ok(())
    }

    /// Whether this is a connection for QUIC.
    pub fn is_quic(&self) -> bool {
        self.quic.is_some()
    }

    /// What has to be the same now as when a ticket was made, so that early data with that ticket
    /// is accepted: the limits of the server that a client remembers. Empty: no early data. Call it
    /// before the handshake.
    ///
    /// # Errors
    ///
    /// When libssl has no memory.
    pub fn set_quic_early_data_context(&mut self, context: &[u8]) -> Result<(), Error> {
        error::clear_queue();
        // SAFETY: the SSL is valid; the bytes are copied.
        check("SSL_set_quic_early_data_context", unsafe {
            sys::SSL_set_quic_early_data_context(self.as_ptr(), context.as_ptr(), context.len())
        })
    }

    /// Binds sessions, the offered one and new ones, to something else than the context does; at
    /// most 32 bytes. Call it after [`start_quic`](Self::start_quic) and before the handshake.
    ///
    /// # Errors
    ///
    /// When `identity` is longer than 32 bytes.
    pub fn set_quic_session_context(&mut self, identity: &[u8]) -> Result<(), Error> {
        error::clear_queue();
        // SAFETY: the SSL is valid; the bytes are copied.
        check("SSL_set_session_id_context", unsafe {
            sys::SSL_set_session_id_context(self.as_ptr(), identity.as_ptr(), identity.len())
        })?;
        if let Some(state) = &mut self.quic {
            state.context_id = Some(identity.into());
        }
        Ok(())
    }

    /// Takes handshake messages from the peer, in order. Call
    /// [`do_handshake`](Self::do_handshake) next or, once the handshake is over,
    /// [`process_quic_data`](Self::process_quic_data).
    ///
    /// # Errors
    ///
    /// When nothing is expected at this level, or it is too much.
    pub fn provide_quic_data(&mut self, level: QuicLevel, data: &[u8]) -> Result<(), Error> {
        error::clear_queue();
        // SAFETY: the SSL is valid; the bytes are copied.
        check("SSL_provide_quic_data", unsafe {
            sys::SSL_provide_quic_data(self.as_ptr(), level.to_library(), data.as_ptr(), data.len())
        })
    }

    /// Reads messages that came after the handshake: tickets, on a client.
    ///
    /// # Errors
    ///
    /// A message that is not allowed; [`quic_alert`](Self::quic_alert) says which alert it gets.
    pub fn process_quic_data(&mut self) -> Result<(), Error> {
        error::clear_queue();
        // SAFETY: the SSL is valid and its BIO attached.
        let code = self.call(&mut &[][..], &mut Vec::new(), |ssl| unsafe {
            sys::SSL_process_quic_post_handshake(ssl)
        });
        match code == 1 && self.quic_alert().is_none() {
            true => Ok(()),
            false => Err(self.quic_error("SSL_process_quic_post_handshake")),
        }
    }

    /// Why the connection has failed. libssl has no error if it was a rule of this layer that has
    /// failed it.
    pub(crate) fn quic_error(&self, call: &'static str) -> Error {
        let error = Error::drain(call);
        match error.code() {
            0 => Error::of_peer(call, sys::SSL_R_DECODE_ERROR),
            _ => error,
        }
    }

    /// The most that may be received at a level before libssl has consumed it: more than
    /// [`MAX_QUIC_FLIGHT_BYTES`] where certificates are expected.
    pub fn quic_max_flight_bytes(&self, level: QuicLevel) -> usize {
        match self.is_handshaking() {
            // libssl has forgotten the settings that it would ask.
            false => MAX_QUIC_FLIGHT_BYTES,
            // SAFETY: the SSL is valid, and its handshake is not over.
            true => unsafe {
                sys::SSL_quic_max_handshake_flight_len(self.as_ptr(), level.to_library())
            },
        }
    }

    /// What libssl wants next.
    pub fn take_quic_event(&mut self) -> Option<QuicEvent> {
        let state = self.quic.as_deref_mut()?;
        let event = state.events.pop_front();
        if event.is_none() && state.events.capacity() > 0 {
            // A connection lives on for long without any.
            state.events = VecDeque::new();
        }
        event
    }

    /// The alert with which the connection has to be closed, if libssl has failed it.
    pub fn quic_alert(&self) -> Option<u8> {
        self.quic.as_deref()?.alert
    }

    /// The transport parameters of the peer, as they came; `None` before.
    pub fn peer_transport_parameters(&self) -> Option<&[u8]> {
        let (mut parameters, mut length) = (std::ptr::null(), 0);
        // SAFETY: the SSL is valid; the bytes belong to it and are not replaced while `self` is
        // borrowed.
        unsafe {
            sys::SSL_get_peer_quic_transport_params(self.as_ptr(), &mut parameters, &mut length);
            match parameters.is_null() || length == 0 {
                true => None,
                false => Some(std::slice::from_raw_parts(parameters, length)),
            }
        }
    }
}
