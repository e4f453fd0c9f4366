//! Packet number spaces, RFC 9000 section 12.3.

/// A packet number space. 0-RTT and 1-RTT packets share [`Space::Data`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Space {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// 0-RTT and 1-RTT packets.
    Data,
}

impl Space {
    /// In the order in which a connection goes through them.
    pub const ALL: [Self; 3] = [Self::Initial, Self::Handshake, Self::Data];

    /// Its place in [`Space::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}
