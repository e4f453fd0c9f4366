//! The two ends of a connection.

use std::ops::Not;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Side {
    /// The end that sent the first packet.
    Client,
    /// The other end.
    Server,
}

impl Side {
    /// Whether this is the client.
    #[must_use]
    pub const fn is_client(self) -> bool {
        matches!(self, Self::Client)
    }

    /// Whether this is the server.
    #[must_use]
    pub const fn is_server(self) -> bool {
        matches!(self, Self::Server)
    }
}

impl Not for Side {
    type Output = Self;

    /// The other end.
    fn not(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}
