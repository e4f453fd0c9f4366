//! Stateless resets, RFC 9000 section 10.3.

use std::fmt;
use std::hint::black_box;

/// Shortest stateless reset: five bytes before the token, RFC 9000 section 10.3.
pub const MIN_RESET_LEN: usize = 5 + ResetToken::LEN;

/// Longest stateless reset that is built: one byte less than packets of up to 44 bytes, and not
/// more for longer ones. RFC 9000 section 10.3 wants it to be as long as the shortest packet may
/// be.
pub const MAX_RESET_LEN: usize = 43;

/// A secret that an end shows when it has lost a connection.
///
/// Comparison takes the same time wherever tokens differ, as RFC 9000 section 10.3.1 asks for.
#[derive(Clone, Copy, Eq)]
pub struct ResetToken([u8; Self::LEN]);

impl ResetToken {
    /// Its length in bytes.
    pub const LEN: usize = 16;

    /// The token of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes, to be sent.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// What would be the token if this datagram were a stateless reset, or `None` if it is too
    /// short or no packet of it could be one.
    ///
    /// To be asked before a packet is opened in place: that may wipe the bytes.
    #[must_use]
    pub fn of_datagram(datagram: &[u8]) -> Option<Self> {
        if datagram.len() < MIN_RESET_LEN {
            return None;
        }
        datagram.last_chunk().copied().map(Self)
    }
}

impl PartialEq for ResetToken {
    fn eq(&self, other: &Self) -> bool {
        let difference = self
            .0
            .iter()
            .zip(&other.0)
            .fold(0, |difference, (a, b)| black_box(difference | (a ^ b)));
        difference == 0
    }
}

impl fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetToken(..)")
    }
}

/// Appends a stateless reset that answers a datagram of `provoking_len` bytes, and says whether it
/// did: resets are shorter than what provoked them, so that two ends that have both lost the
/// connection do not go on for ever (RFC 9000 section 10.3.3).
///
/// `random` fills what comes before the token.
pub fn put_reset(
    out: &mut Vec<u8>,
    token: &ResetToken,
    provoking_len: usize,
    random: &[u8; MAX_RESET_LEN - ResetToken::LEN],
) -> bool {
    let len = provoking_len.saturating_sub(1).min(MAX_RESET_LEN);
    if len < MIN_RESET_LEN {
        return false;
    }
    let start = out.len();
    out.extend_from_slice(&random[..len - ResetToken::LEN]);
    // As a short header: the form bit is 0, the fixed bit 1.
    out[start] = out[start] & 0x3f | 0x40;
    out.extend_from_slice(token.bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: ResetToken = ResetToken::new(*b"0123456789abcdef");

    #[test]
    fn tokens_are_equal_only_in_all_bytes_and_never_shown() {
        for place in 0..ResetToken::LEN {
            let mut other = *TOKEN.bytes();
            other[place] ^= 0x80;
            assert_ne!(TOKEN, ResetToken::new(other));
        }
        assert_eq!(TOKEN, ResetToken::new(*b"0123456789abcdef"));
        assert_eq!(format!("{TOKEN:?}"), "ResetToken(..)");
    }

    #[test]
    fn resets_are_shorter_than_what_provoked_them_rfc_9000_section_10_3_3() {
        for provoking_len in 0..100 {
            let mut out = b"before".to_vec();
            let built = put_reset(&mut out, &TOKEN, provoking_len, &[0xff; 27]);
            let reset = &out[6..];
            assert_eq!(built, provoking_len >= 22, "{provoking_len}");
            if built {
                assert!(reset.len() >= MIN_RESET_LEN && reset.len() < provoking_len);
                assert!(reset.len() == provoking_len - 1 || reset.len() == 43);
                assert_eq!(reset[0], 0x7f);
                assert!(reset[1..reset.len() - 16].iter().all(|&byte| byte == 0xff));
                assert_eq!(ResetToken::of_datagram(reset), Some(TOKEN));
            } else {
                assert!(reset.is_empty());
            }
        }
    }

    #[test]
    fn shorter_datagrams_are_no_resets_rfc_9000_section_10_3() {
        assert_eq!(ResetToken::of_datagram(&[0x40; 20]), None);
        let expected = Some(ResetToken::new([0x40; 16]));
        assert_eq!(ResetToken::of_datagram(&[0x40; 21]), expected);
    }
}
