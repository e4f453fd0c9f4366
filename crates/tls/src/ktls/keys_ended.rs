//! Why a connection that the kernel seals had to end.

use std::fmt;

/// Why a connection that the kernel seals had to end: it could not continue under its key.
/// close_notify was sent. As text, about a client: towards other servers the directives have other
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysEnded {
    /// The peer asked for a KeyUpdate, which this kernel cannot do
    /// (Linux before 6.14).
    UpdateUnsupported,
    /// The peer asked for more KeyUpdates than `ssl_ktls_key_updates`.
    TooManyUpdates,
    /// `ssl_ktls_key_records` records have been sealed, and this kernel or protocol cannot change
    /// the key.
    Exhausted,
}

impl KeysEnded {
    /// Says it with the names that the limits have on this side.
    pub(crate) fn write(
        self,
        f: &mut fmt::Formatter<'_>,
        key_updates: fmt::Arguments<'_>,
        key_records: fmt::Arguments<'_>,
    ) -> fmt::Result {
        match self {
            KeysEnded::UpdateUnsupported => f.write_str(
                "peer asked for a TLS KeyUpdate, which the kernel cannot do for a connection that it seals (Linux 6.14 can); closing the connection",
            ),
            KeysEnded::TooManyUpdates => write!(
                f,
                "peer asked for more TLS KeyUpdates than \"{key_updates}\" allows; closing the connection"
            ),
            KeysEnded::Exhausted => write!(
                f,
                "the key of a connection that the kernel seals has reached \"{key_records}\" and cannot be changed; closing the connection"
            ),
        }
    }
}

impl fmt::Display for KeysEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(
            f,
            format_args!("ssl_ktls_key_updates"),
            format_args!("ssl_ktls_key_records"),
        )
    }
}
