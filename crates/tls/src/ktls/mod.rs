//! Kernel TLS: who seals the records of a connection, libssl or the kernel.
//!
//! Only this module decides. A connection starts as [`Ktls::Pending`]. It ends as [`Ktls::On`] when
//! the kernel has taken over the write direction, or as [`Ktls::Off`] with the first [`Refusal`]
//! that applies, in the order of its variants. Both are final.
//!
//! ```text
//! Pending --(configuration, protocol, cipher, kernel: all fit)--> Pending
//!    |                                                              |
//!    +--(a check fails)--> Off(refusal) <--(a system call fails)----+
//!                                                                   |
//!                                             On <--(take_over)-----+
//! ```
//!
//! With `on` the kernel takes over at the end of the handshake; with `auto`, when a file body is
//! large enough to pay off. Receiving stays with libssl.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | settings, the checks |
//! | `sealing.rs` | the state of one connection, as a server or as a client |
//! | `take_over.rs` | the kernel's side of one connection: keys, alerts, KeyUpdate, the limit per key |
//! | `offer.rs` | a suite that a server offers, and how a kernel could seal it |
//! | `probe.rs` | what this kernel can do, found out by trying |

mod keys_ended;
mod offer;
mod probe;
mod sealing;
mod take_over;

use std::fmt;
use std::io;
use std::sync::Arc;

use sealane_awslc as awslc;
use sealane_awslc::RecordCipher;
use sealane_sys::ktls::{Cipher, Version};

pub use keys_ended::KeysEnded;
pub use offer::OfferedSuite;

pub use probe::{Capabilities, Flaw, Unavailable};
pub(crate) use sealing::Sealing;
pub(crate) use take_over::{KernelCounts, KernelTransmit};

/// `ssl_ktls`: whether the kernel seals records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KtlsMode {
    /// Never.
    Off,
    /// From the end of the handshake, wherever possible (S1's `Options KTLS`).
    On,
    /// When a file body is large enough. The default.
    Auto,
}

/// The kernel TLS settings of one server, or of connections to other servers.
#[derive(Clone, Debug)]
pub struct KtlsSettings {
    /// `ssl_ktls`, `proxy_ssl_ktls`. `None` defers to `ssl_conf_command Options [-]KTLS`, and
    /// without that to [`KtlsMode::Auto`].
    pub mode: Option<KtlsMode>,
    /// `ssl_ktls_min_size`: with `auto`, the smallest file body in bytes for which
    /// the kernel takes over.
    pub min_body_bytes: u64,
    /// `ssl_ktls_key_records`: the most records sealed under one key.
    pub max_key_records: u64,
    /// `ssl_ktls_key_updates`: the most KeyUpdates on one connection.
    pub max_key_updates: u32,
    /// What this kernel can do.
    pub capabilities: Arc<Capabilities>,
}

/// Default of `ssl_ktls_min_size`, in bytes. Taking over costs four system calls and two key
/// set-ups, about as much as sealing this many bytes.
pub const DEFAULT_MIN_BODY_BYTES: u64 = 64 << 10;

/// Default of `ssl_ktls_key_records`, 256 GiB. AES-GCM keeps its safety margin up to 2^24.5 full
/// records (RFC 8446 section 5.5).
pub const DEFAULT_MAX_KEY_RECORDS: u64 = 1 << 24;

/// Default of `ssl_ktls_key_updates`. Each one costs the server a system call, a key set-up and a
/// message; no client has reason for many.
pub const DEFAULT_MAX_KEY_UPDATES: u32 = 64;

impl Default for KtlsSettings {
    fn default() -> Self {
        Self {
            mode: None,
            min_body_bytes: DEFAULT_MIN_BODY_BYTES,
            max_key_records: DEFAULT_MAX_KEY_RECORDS,
            max_key_updates: DEFAULT_MAX_KEY_UPDATES,
            capabilities: Arc::new(Capabilities::unavailable(Unavailable::NotProbed)),
        }
    }
}

impl KtlsSettings {
    /// With the mode in force, given what `ssl_conf_command Options` says.
    pub(crate) fn policy(&self, options: Option<bool>) -> KtlsPolicy {
        KtlsPolicy {
            mode: self.mode.unwrap_or(match options {
                Some(true) => KtlsMode::On,
                Some(false) => KtlsMode::Off,
                None => KtlsMode::Auto,
            }),
            settings: self.clone(),
        }
    }
}

/// Who seals the records of a connection.
#[derive(Clone, Copy, Debug)]
pub enum Ktls<'a> {
    /// libssl, until the kernel takes over.
    Pending,
    /// The kernel.
    On,
    /// libssl, for the connection's whole life.
    Off(&'a Refusal),
}

/// Why the kernel does not seal a connection's records: the first reason that applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `ssl_ktls off`, or `ssl_conf_command Options -KTLS`.
    Disabled,
    /// Not TCP: the kernel does this for TCP only.
    NotTcp,
    /// A protocol before TLS 1.2.
    Protocol(&'static str),
    /// A suite whose records the kernel cannot make: CBC, 3DES.
    Suite(&'static str),
    /// This kernel does not support it, or failed the self-test.
    Kernel(Unavailable),
    /// A call failed on this very connection.
    Call {
        /// Which: `TCP_ULP`, `TLS_TX`, or the library's.
        call: &'static str,
        /// The error.
        error: String,
    },
}

/// Every name of a [`Refusal`].
pub const KTLS_REFUSALS: [&str; 13] = [
    "disabled",
    "not_tcp",
    "protocol",
    "suite",
    "call_failed",
    "no_module",
    "attach_refused",
    "suite_unsupported",
    "corrupts",
    "no_rekey",
    "no_loopback",
    "self_test_failed",
    "not_probed",
];

impl Refusal {
    /// `$ssl_ktls_reason`: one word.
    pub fn name(&self) -> &'static str {
        match self {
            Refusal::Disabled => "disabled",
            Refusal::NotTcp => "not_tcp",
            Refusal::Protocol(_) => "protocol",
            Refusal::Suite(_) => "suite",
            Refusal::Kernel(unavailable) => unavailable.name(),
            Refusal::Call { .. } => "call_failed",
        }
    }

    fn keys(error: &dyn fmt::Display) -> Refusal {
        Refusal::Call {
            call: EXPORT_CALL,
            error: error.to_string(),
        }
    }

    fn call(call: &'static str, error: &io::Error) -> Refusal {
        Refusal::Call {
            call,
            error: error.to_string(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Disabled => f.write_str("it is switched off"),
            Refusal::NotTcp => f.write_str("the connection is not TCP"),
            Refusal::Protocol(name) => write!(f, "the kernel does not know {name}"),
            Refusal::Suite(name) => write!(f, "the kernel cannot seal records of {name}"),
            Refusal::Kernel(unavailable) => unavailable.fmt(f),
            Refusal::Call { call, error } => write!(f, "{call} failed: {error}"),
        }
    }
}

/// The calls that [`Refusal::Call`] can name.
pub(crate) const CALLS: [&str; 3] = [EXPORT_CALL, ATTACH_CALL, SET_CALL];
const EXPORT_CALL: &str = "exporting the keys";
const ATTACH_CALL: &str = "setsockopt(TCP_ULP)";
const SET_CALL: &str = "setsockopt(TLS_TX)";

/// The checks that need no socket, in order.
fn check(settings: &KtlsPolicy, tls: &awslc::Connection, is_tcp: bool) -> Result<(), Refusal> {
    if settings.mode == KtlsMode::Off {
        return Err(Refusal::Disabled);
    }
    if !is_tcp {
        return Err(Refusal::NotTcp);
    }
    let version = match tls.protocol() {
        "TLSv1.2" => Version::Tls12,
        "TLSv1.3" => Version::Tls13,
        other => return Err(Refusal::Protocol(other)),
    };
    let Some(cipher) = tls.record_cipher().map(kernel_cipher) else {
        return Err(Refusal::Suite(
            tls.cipher().map_or("(NONE)", awslc::Cipher::name),
        ));
    };
    match settings.settings.capabilities.transmit(version, cipher) {
        Ok(()) => Ok(()),
        Err(unavailable) => Err(Refusal::Kernel(unavailable.clone())),
    }
}

/// Settings with the mode in force.
#[derive(Clone, Debug)]
pub(crate) struct KtlsPolicy {
    pub(crate) mode: KtlsMode,
    pub(crate) settings: KtlsSettings,
}

fn kernel_cipher(cipher: RecordCipher) -> Cipher {
    match cipher {
        RecordCipher::Aes128Gcm => Cipher::Aes128Gcm,
        RecordCipher::Aes256Gcm => Cipher::Aes256Gcm,
        RecordCipher::ChaCha20Poly1305 => Cipher::ChaCha20Poly1305,
    }
}
