//! What the versions of QUIC have of their own (RFC 9001, RFC 9369 section 3.3).

/// A version of QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// Version 1 (RFC 9000).
    #[default]
    V1,
    /// Version 2 (RFC 9369).
    V2,
}

/// The labels of key derivation, with the prefix of TLS 1.3.
pub(super) struct Labels {
    pub(super) key: &'static [u8],
    pub(super) iv: &'static [u8],
    pub(super) header: &'static [u8],
    pub(super) update: &'static [u8],
}

/// The fixed key and nonce with which Retry packets are authenticated.
pub(super) struct RetryKey {
    pub(super) key: [u8; 16],
    pub(super) nonce: [u8; 12],
}

impl Version {
    pub(super) const fn labels(self) -> Labels {
        match self {
            Self::V1 => Labels {
                key: b"tls13 quic key",
                iv: b"tls13 quic iv",
                header: b"tls13 quic hp",
                update: b"tls13 quic ku",
            },
            Self::V2 => Labels {
                key: b"tls13 quicv2 key",
                iv: b"tls13 quicv2 iv",
                header: b"tls13 quicv2 hp",
                update: b"tls13 quicv2 ku",
            },
        }
    }

    /// The salt of the secrets of Initial packets (RFC 9001 section 5.2, RFC 9369 section 3.3.1).
    pub(super) const fn initial_salt(self) -> [u8; 20] {
        match self {
            Self::V1 => [
                0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8,
                0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a,
            ],
            Self::V2 => [
                0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26,
                0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
            ],
        }
    }

    /// RFC 9001 section 5.8, RFC 9369 section 3.3.3.
    pub(super) const fn retry_key(self) -> RetryKey {
        match self {
            Self::V1 => RetryKey {
                key: [
                    0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3,
                    0x68, 0xc8, 0x4e,
                ],
                nonce: [
                    0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb,
                ],
            },
            Self::V2 => RetryKey {
                key: [
                    0x8f, 0xb4, 0xb0, 0x1b, 0x56, 0xac, 0x48, 0xe2, 0x60, 0xfb, 0xcb, 0xce, 0xad,
                    0x7c, 0xcc, 0x92,
                ],
                nonce: [
                    0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a,
                ],
            },
        }
    }
}
