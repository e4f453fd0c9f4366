//! A connection that moves to another process when the binary is upgraded.
//!
//! ```text
//! old process                                   new process
//! Connection::pack -> Packed::into_bytes  ==>   Packed::from_bytes -> Connection::unpack
//! ```
//!
//! [`moving_format`] describes in one line what both sides must have in common. The old process
//! compares it before packing anything, and lets its connections drain if it differs. Packing ends
//! a connection here: two processes that seal with the same keys and sequence numbers would reveal
//! the keys. Only if the new process reports that it did *not* unpack may the old one unpack the
//! same bytes and continue.
//!
//! The bytes contain keys. They must go through a channel that nobody else can read. They are wiped
//! when dropped, and never stored.

use std::fmt;

use sealane_awslc::{Secret, library_version};

use crate::client_hello::ClientOffer;
use crate::ech::EchOutcome;
use crate::error::Error;
use crate::identities::Fingerprint;
use crate::ktls::{KernelCounts, Refusal};
use crate::record_size::RecordSizer;
use crate::record_writer;
use crate::sessions::outcome::SessionOutcome;

mod wire;

pub use sealane_awslc::NotMovable as NotPackable;

/// The longest input that [`Packed::from_bytes`] accepts. Most are shorter than 1 KiB; only the
/// lists of suites, groups and schemes in its ClientHello let a client make it long.
pub const MAX_PACKED_BYTES: usize = 256 << 10;

/// The format that a process packs and unpacks. Two processes whose lines differ cannot hand
/// connections to each other. The line has no line break and is shorter than 200 bytes.
pub fn moving_format() -> String {
    // A connection whose records the faster code seals cannot continue without it.
    let writer = if record_writer::is_available() {
        ", own records"
    } else {
        ""
    };
    format!("{}, {}{writer}", wire::FORMAT, library_version())
}

/// An established connection without its socket. It is used once: see the module.
pub struct Packed {
    /// As in the lookup: lower case, no dot at the end.
    pub(crate) server_name: Option<Box<str>>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) queue_time_us: u32,
    pub(crate) sizer: RecordSizer,
    pub(crate) session: SessionOutcome,
    pub(crate) client_offer: Option<Box<ClientOffer>>,
    pub(crate) ech: EchOutcome,
    pub(crate) sealer: Sealer,
    /// The call that failed on this very socket; the kernel is not asked again.
    pub(crate) refusal: Option<Refusal>,
    /// What [`sealane_awslc::Connection::into_bytes`] wrote.
    pub(crate) tls: Secret,
}

/// Who seals the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sealer {
    Library,
    /// Our own writer, which continues with this record.
    Writer {
        sequence: u64,
    },
    /// The kernel; its keys stay with the socket.
    Kernel(KernelCounts),
}

impl Packed {
    /// The bytes for the other process, with keys.
    pub fn into_bytes(self) -> Secret {
        wire::write(&self)
    }

    /// Parses the bytes in the other process. [`Connection::unpack`](crate::Connection::unpack)
    /// checks the contents of `tls`.
    ///
    /// # Errors
    ///
    /// When the other process is of another version, or wrote something else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, UnpackError> {
        wire::read(bytes)
    }

    /// The name that the client asked for, normalised for lookup: lower case, without a dot at the
    /// end.
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// The chain that the client was sent or, after an earlier move to a server with another chain,
    /// that server's. A caller can use
    /// [`ServerTls::has_certificate`](crate::ServerTls::has_certificate) to refuse a connection
    /// whose server has a different chain by now.
    pub fn certificate(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Whether the kernel seals: then the socket must be the same one.
    pub fn is_sealed_by_kernel(&self) -> bool {
        matches!(self.sealer, Sealer::Kernel(_))
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Packed({:?}, {} bytes redacted)",
            self.server_name,
            self.tls.expose().len()
        )
    }
}

/// Why a connection of another process cannot continue here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnpackError {
    /// Another format or version of the library wrote it: [`moving_format`] differs.
    OtherVersion,
    /// It is not the output of [`Packed::into_bytes`].
    Malformed(&'static str),
    /// No server for its name, or one without a certificate.
    NoServer,
    /// Our own code seals its records, but this processor lacks what that needs: [`moving_format`]
    /// differs.
    NoRecordWriter,
    /// The TLS library refused.
    Library(Error),
}

impl fmt::Display for UnpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherVersion => {
                f.write_str("a process of another version has packed the connection")
            }
            Self::Malformed(what) => write!(f, "not a packed connection: {what}"),
            Self::NoServer => f.write_str("no server has a certificate for this connection"),
            Self::NoRecordWriter => {
                f.write_str("this processor has no code for the connection's records")
            }
            Self::Library(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for UnpackError {}

#[cfg(test)]
mod tests;
