//! AWS-LC's libssl behind safe types.
//!
//! This is one of the three crates in which `unsafe` is allowed, and the only one that calls the
//! TLS library. It turns raw pointers and return codes into owned types, `Result`s and status
//! enums; no code above this crate sees a pointer of libssl.
//!
//! TLS is driven **sans-IO**: a [`Connection`] reads ciphertext from a slice and appends ciphertext
//! to a `Vec`, so the same code serves the worker, a handshake pool, the tests and the fuzzer. It
//! owns no buffer between calls (libssl itself keeps at most one partial record), which keeps an
//! idle connection small.
//!
//! | file | what |
//! |---|---|
//! | `context.rs` | [`ContextBuilder`] and [`Context`]: an immutable `SSL_CTX` |
//! | `connection.rs` | [`Connection`]: handshake, read, write, shutdown, what was negotiated |
//! | `client.rs` | [`ClientContext`], [`ClientConnection`]: the client side, for upstreams, the load generator and the tests |
//! | `verify.rs` | [`Verifier`]: whether a chain is trusted and belongs to a name |
//! | `bio.rs` | the `BIO` that lends the caller's buffers to libssl for one call |
//! | `callbacks.rs`, `callbacks/` | every `extern "C"` function, each stopping panics at the border |
//! | `record.rs` | application records sealed straight into the caller's output |
//! | `transmit.rs` | taking the write direction away from libssl: keys, guard |
//! | `moving.rs` | a connection that continues in another process |
//! | `peer.rs`, `verify.rs` | client certificates, and whether those of either side are trusted |
//! | `key.rs`, `rsa.rs`, `certificate.rs` | private keys, an RSA key's numbers, and certificate chains |
//! | `public_key.rs` | [`PublicKey`]: checks what others have computed with the private one |
//! | `ocsp.rs` | OCSP: questions about certificates, and what responders say |
//! | `ech.rs` | Encrypted Client Hello: keys of a server, and what they open |
//! | `ech_seal.rs` | sealing inner hellos that libssl's client would not send |
//! | `certificate_compression.rs` | compressed certificates (RFC 8879) |
//! | `blinding.rs` | random factors for RSA private operations that are computed elsewhere |
//! | `key_operation.rs` | the private-key operation of a handshake, computed wherever that is best |
//! | `cipher.rs`, `group.rs` | the suites and groups that the library has |
//! | `session.rs`, `session_facts.rs` | resumable sessions, what they say of themselves, and the traits a ticket cipher and a session store implement |
//! | `quic.rs`, `quic/` | TLS inside of QUIC: messages and secrets, the ciphers of packets |
//! | `early_data.rs`, `psk.rs` | 0-RTT: allowing it, what became of it, and the binder that proves it genuine |
//! | `aead.rs`, `random.rs`, `digest.rs` | the few primitives that tickets, identities and the kernel TLS self-test need |
//! | `key_log.rs` | the secrets of connections in a file, in debug builds |
//! | `memory.rs` | where the library's memory comes from |
//! | `error.rs` | the error queue as one [`Error`], in the words nginx logs |
//!
//! # Example: a client
//!
//! ```no_run
//! use sealane_awslc::{ClientContext, ClientConnection, HandshakeStatus, ProtocolVersion};
//! # fn main() -> Result<(), sealane_awslc::Error> {
//! let mut builder = ClientContext::builder()?;
//! builder.set_protocol_range(ProtocolVersion::Tls12, ProtocolVersion::Tls13)?;
//! builder.set_alpn(&[b"http/1.1"])?;
//! let context = builder.build()?;
//! let mut tls = ClientConnection::new(&context, Some("example.com"))?;
//! let (mut received, mut to_send) = (&b""[..], Vec::new());
//! while tls.handshake(&mut received, &mut to_send)? != HandshakeStatus::Done {
//!     // send `to_send`, clear it, receive more into `received`
//! }
//! tls.write(b"GET / HTTP/1.1\r\n\r\n", &mut to_send)?;
//! # Ok(()) }
//! ```

#![allow(unsafe_code)] // The reason this crate exists; every block says why it is sound.

mod aead;
mod bio;
mod blinding;
mod callbacks;
mod certificate;
mod certificate_compression;
mod cipher;
mod client;
mod connection;
mod context;
mod digest;
mod early_data;
mod ech;
mod ech_seal;
mod error;
mod ffi;
mod group;
mod key;
#[cfg(debug_assertions)]
mod key_log;
mod key_operation;
mod large_hello;
mod memory;
mod moving;
mod new_key;
mod ocsp;
mod peer;
mod psk;
mod public_key;
mod quic;
mod random;
mod record;
mod rsa;
mod secret;
mod session;
mod session_facts;
#[cfg(test)]
mod tests;
mod time;
mod transmit;
mod verify;
mod wire_rules;

pub use aead::Aead;
pub use blinding::{RsaBlinding, RsaUnblinding};
pub use certificate::{Certificate, CertificateChain, CertificateError};
pub use certificate_compression::{CertificateCompression, CertificateCompressor};
pub use cipher::{Cipher, all_ciphers};
pub use client::{ClientConnection, ClientContext, ClientContextBuilder, ClientIdentity};
pub use connection::{Connection, HandshakeStatus, ReadStatus};
pub use context::{Context, ContextBuilder, ProtocolVersion, Verify};
pub use digest::{hkdf_sha256, hmac_sha256, sha1, sha256};
pub use early_data::EarlyDataOutcome;
pub use ech::{EchKey, EchKeyError, EchOpener, NewEchKey};
pub use ech_seal::{ECH_TAG_BYTES, EchSealer};
pub use error::{Error, Fault};
pub use group::{Group, group_by_id, group_by_name};
pub use key::{KeyError, KeyKind, PrivateKey};
#[cfg(debug_assertions)]
pub use key_log::start_key_log;
pub use key_operation::KeyOperation;
pub use memory::use_program_allocator;
pub use moving::NotMovable;
pub use new_key::NewKey;
pub use ocsp::{
    CertificateStatus, MAX_OCSP_RESPONSE_BYTES, OcspAnswer, OcspFailure, OcspIssuer, OcspQuestion,
    check_ocsp_response,
};
pub use peer::{MAX_CLIENT_CERTIFICATES, MAX_CLIENT_CHAIN_BYTES, PeerChain};
pub use psk::is_psk_binder_valid;
pub use public_key::PublicKey;
pub use quic::{
    HeaderCipher, MAX_QUIC_FLIGHT_BYTES, PacketCipher, QuicEvent, QuicLevel, QuicSuite,
    TrafficSecret, expand_label, extract,
};
pub use random::{fill_random, seed_random};
pub use rsa::{RsaNumbers, is_rsa_operand};
pub use secret::Secret;
pub use session::{Miss, Offered, Prefetched, Session, SessionStore, TicketCipher, TicketOpened};
pub use session_facts::{CLOCK_TOLERANCE_S, SessionFacts};
pub use time::unix_time_s;
pub use transmit::{RecordCipher, TransmitKeys};
pub use verify::{PeerName, Verifier, VerifierBuilder, VerifyFailure};

/// The TLS library's name and version, for `-V`.
pub fn library_version() -> &'static str {
    ffi::static_str(
        // SAFETY: returns a pointer to a static, NUL-terminated string.
        unsafe { aws_lc_sys::OpenSSL_version(aws_lc_sys::OPENSSL_VERSION) },
    )
    .unwrap_or("AWS-LC")
}
