//! TLS for servers and towards upstreams: everything that is Sealane's own, without HTTP or the
//! configuration file.
//!
//! `server` maps directives to [`ServerSettings`]. [`ServerTls::build`] turns them into immutable
//! contexts (one per certificate), with errors in nginx's words and warnings about settings without
//! effect here. An [`Acceptor`] belongs to a listener. Each accepted socket gets a [`Connection`],
//! driven sans-IO: bytes in, bytes out.
//!
//! ```text
//! bytes -> ClientHello parsed here -> SelectServer (SNI) -> ServerTls
//!       -> identity the client can verify -> awslc::Connection -> plaintext
//! ```
//!
//! The ClientHello is parsed before libssl sees it. So the whole configuration of the chosen server
//! applies from the first byte on, including protocols, suites, groups, tickets and session cache.
//! (nginx 1.29.2 and later do the same for `ssl_protocols`; with OpenSSL the session cache and
//! tickets stay those of the default server.) A connection that has not sent its ClientHello yet
//! costs no libssl memory at all.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | [`ServerSettings`], [`Identity`]: what is configured |
//! | `server.rs` | [`ServerTls`]: settings checked and built |
//! | `identities.rs` | certificates, also those that are found in handshakes |
//! | `client/` | TLS towards upstreams: `proxy_ssl_*` |
//! | `stapling.rs` | OCSP staples (`ssl_stapling`) |
//! | `conf_command.rs` | `ssl_conf_command` |
//! | `parameters.rs` | what all of that leaves to negotiate |
//! | `ciphers/` | `ssl_ciphers`: OpenSSL's cipher strings |
//! | `groups.rs`, `protocols.rs` | `ssl_ecdh_curve`, `ssl_protocols` |
//! | `client_hello.rs` | the first message, zero-copy |
//! | `ech.rs` | Encrypted Client Hello (`ssl_ech_file`) |
//! | `client_certificates.rs` | client certificates: the rules for verifying them, their contents |
//! | `client_status.rs` | what their issuers say about them (`ssl_ocsp`) |
//! | `choice.rs` | which certificate and suite order a client gets |
//! | `sans_io.rs` | what a byte stream needs of a connection, on either side |
//! | `acceptor.rs`, `connection.rs` | one listener, one connection |
//! | `accelerator/` | computing with the private key: AWS-LC, or vectors |
//! | `info.rs` | what `$ssl_*` variables show |
//! | `sessions/` | resumption and early data: tickets, caches, the store of all nodes |
//! | `ktls/` | who seals the records: libssl or the kernel |
//! | `accelerator/` | who computes with the private key |
//! | `offload/` | handshakes away from the worker |
//! | `quic/` | TLS for QUIC |
//! | `packed.rs`, `packed/` | connections moving to another process |
//! | `record_writer.rs` | records sealed by our own code where it is faster |
//! | `record_size.rs` | `ssl_buffer_size` and dynamic records |

pub mod accelerator;
mod acceptor;
mod certificate_compression;
mod certificate_facts;
mod choice;
pub mod ciphers;
pub mod client;
mod client_certificates;
mod client_hello;
mod client_status;
mod conf_command;
mod connection;
mod control_records;
mod ech;
mod error;
mod groups;
mod hello_records;
mod identities;
mod info;
mod ja4;
mod key_test;
mod ktls;
mod offload;
mod packed;
mod parameters;
mod preread;
mod protocols;
pub mod quic;
mod record_size;
mod record_writer;
mod sans_io;
mod server;
mod server_key;
mod sessions;
mod settings;
mod signatures;
mod stapling;
#[cfg(test)]
mod tests;

pub use accelerator::{AcceleratorChoice, AcceleratorKind, HandshakeStats, KeyType, NotSuited};
pub use acceptor::{ACME_TLS, Acceptor, SelectServer, Selected, looks_like_tls};
pub use certificate_facts::CertificateFacts;
pub use ciphers::fuzz_cipher_string;
pub use client_certificates::{ClientCertificateText, ClientChain, ClientVerifier};
pub use client_hello::fuzz_client_hello;
pub use client_status::{NoResponder, StatusCache, StatusFailure, StatusQuestion, StatusSettings};
pub use connection::Connection;
pub use ech::{EchKeyFile, EchKeys, new_ech_key};
pub use error::{Error, SettingsError, Warning};
pub use groups::{DEFAULT_GROUPS, GroupList};
pub use identities::{
    CertificateAlgorithms, CertificatePair, Fingerprint, HelloFacts, Identities, IdentityAnswer,
    IdentityResult, key_error_text,
};
pub use info::Info;
pub use key_test::{KeyTest, test_key};
pub use ktls::{
    Capabilities, DEFAULT_MAX_KEY_RECORDS, DEFAULT_MAX_KEY_UPDATES, DEFAULT_MIN_BODY_BYTES, Flaw,
    KTLS_REFUSALS, KeysEnded, Ktls, KtlsMode, KtlsSettings, OfferedSuite, Refusal, Unavailable,
};
pub use offload::{AsyncMode, HandshakeSettings, HandshakeState, Load, WakeTogether};
pub use packed::{MAX_PACKED_BYTES, NotPackable, Packed, UnpackError, moving_format};
pub use preread::{PrereadDecoder, PrereadHello, PrereadStatus, fuzz_preread_hello};
pub use protocols::{Protocol, Protocols};
pub use record_size::DynamicRecords;
pub use sans_io::{KernelSeal, SansIo};
#[cfg(debug_assertions)]
pub use sealane_awslc::start_key_log;
pub use sealane_awslc::{
    Fault, HandshakeStatus, KeyKind, KeyOperation, MAX_OCSP_RESPONSE_BYTES, NewEchKey, NewKey,
    OcspFailure, PrivateKey, PublicKey, ReadStatus, Secret, VerifyFailure, fill_random,
    library_version, seed_random, sha256, use_program_allocator,
};
pub use server::{CertificateReport, ServerTls};
pub use server_key::{HolderId, KeyHandle, KeyHolder, KeyId, KeyLease, Route};
pub use sessions::cache::{CacheCounts, Follower, SessionCache};
pub use sessions::early_data::EarlyData;
pub use sessions::identity::{ClientVerification, VerifyClient};
pub use sessions::replay::{
    Claim, FLIGHT_BYTES, Flight, MAX_FLIGHTS_PER_TICKET, ReplayRegister, WINDOW_S,
};
pub use sessions::ring::{MAX_RING_KEYS, RingError, RingSettings, TicketRing};
pub use sessions::seal::{MIN_SEAL_KEY_BYTES, StoreSeal};
pub use sessions::state::SessionState;
pub use sessions::stats::{EarlyVerdict, Missed, Resumed, SessionStats};
pub use sessions::store::{Reply, SharedSessions, SharedStore, StoreKey};
pub use settings::{
    DEFAULT_BUFFER_BYTES, DEFAULT_CIPHERS, Identity, PemFile, ServerSettings, SessionCacheSetting,
};
pub use stapling::{
    BadResponder, Responder, Staple, StapleFile, StapleId, StapleRefused, StapleState,
    StapledCertificate, StaplingSettings,
};
