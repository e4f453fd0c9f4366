//! Connection ids, RFC 9000 section 5.1.

use std::fmt;

/// A connection id of 0 to [`ConnectionId::MAX_LEN`] bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    len: u8,
    /// Zeros behind `len`, so that equal ids compare equal.
    bytes: [u8; Self::MAX_LEN],
}

impl ConnectionId {
    /// Longest connection id of versions 1 and 2, RFC 9000 section 17.2.
    pub const MAX_LEN: usize = 20;
    /// The id of no bytes.
    pub const EMPTY: Self = Self {
        len: 0,
        bytes: [0; Self::MAX_LEN],
    };

    /// An id of these bytes, or `None` if they are more than [`ConnectionId::MAX_LEN`].
    #[must_use]
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX_LEN];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self {
            len: u8::try_from(id.len()).ok()?,
            bytes,
        })
    }

    /// Its length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl std::ops::Deref for ConnectionId {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_bytes_and_no_more_than_twenty() {
        for len in 0..=ConnectionId::MAX_LEN {
            let bytes: Vec<u8> = (0..len as u8).collect();
            let id = ConnectionId::new(&bytes).expect("short enough");
            assert_eq!((&id[..], id.len()), (&bytes[..], len));
        }
        assert_eq!(ConnectionId::new(&[0; 21]), None);
        assert_ne!(ConnectionId::new(&[0]), Some(ConnectionId::EMPTY));
    }

    #[test]
    fn ids_are_shown_in_hexadecimal() {
        let id = ConnectionId::new(&[0x0a, 0xff]).expect("short enough");
        assert_eq!(id.to_string(), "0aff");
    }
}
