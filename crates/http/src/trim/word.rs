//! Names and values of which only the beginning is kept.

/// A word in lower case. A longer one than `N` bytes is none that anything is compared with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word<const N: usize> {
    bytes: [u8; N],
    /// More than `N`: the word was longer.
    len: usize,
}

impl<const N: usize> Word<N> {
    pub(super) const EMPTY: Word<N> = Word {
        bytes: [0; N],
        len: 0,
    };

    pub(super) fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte.to_ascii_lowercase();
        }
        self.len = (self.len + 1).min(N + 1);
    }

    /// The word; `None` if it is too long.
    pub(super) fn text(&self) -> Option<&[u8]> {
        self.bytes.get(..self.len)
    }
}
