//! Versions of QUIC that are spoken.

/// A version of QUIC, RFC 9000 section 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Version {
    /// RFC 9000.
    V1 = 1,
    /// RFC 9369.
    V2 = 0x6b33_43cf,
}

impl Version {
    /// All, the one that is preferred first (RFC 9369 section 4).
    pub const ALL: [Self; 2] = [Self::V1, Self::V2];

    /// The version with this number, if it is spoken.
    #[must_use]
    pub const fn from_wire(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::V1),
            0x6b33_43cf => Some(Self::V2),
            _ => None,
        }
    }

    /// Its number in long headers.
    #[must_use]
    pub const fn to_wire(self) -> u32 {
        self as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_versions() {
        for version in Version::ALL {
            assert_eq!(Version::from_wire(version.to_wire()), Some(version));
        }
        for other in [0, 2, 0xff00_001d, 0x1a2a_3a4a] {
            assert_eq!(Version::from_wire(other), None);
        }
    }
}
