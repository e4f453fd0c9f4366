//! What may be signed: what its owner signs in a handshake, and nothing else.
//!
//! | protocol | what a server signs | |
//! |---|---|---|
//! | TLS 1.3 | 64 spaces, `TLS 1.3, server CertificateVerify`, a zero byte, the hash of the transcript | RFC 8446 section 4.4.3 |
//! | TLS 1.2 and below | both random values, then a curve and a point on it | RFC 8422 section 5.4 |
//!
//! | protocol | what a client signs | |
//! |---|---|---|
//! | TLS 1.3 | the same with `TLS 1.3, client CertificateVerify` | RFC 8446 section 4.4.3 |
//! | TLS 1.2 and below | the messages of the handshake, from ClientHello to ClientKeyExchange (`rules/transcript.rs`) | RFC 5246 section 7.4.8 |
//!
//! A key signs what servers sign if it was deposited as that of a server, and what clients sign if
//! it was deposited as that of a client.
//!
//! A worker that was taken over can have anything of this form signed, as it can in a handshake of
//! its own. It cannot have a certificate, a token or a message of another protocol signed: none of
//! them has this form.

pub(crate) mod transcript;

use sealane_awslc::KeyKind;
use sealane_tls::KeyOperation;

/// In whose place a key signs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Roles {
    /// A server's (`ssl_certificate_key`).
    pub server: bool,
    /// A client's (`proxy_ssl_certificate_key`).
    pub client: bool,
}

impl Roles {
    /// A server alone.
    pub const SERVER: Self = Self {
        server: true,
        client: false,
    };

    /// A client alone.
    pub const CLIENT: Self = Self {
        server: false,
        client: true,
    };

    /// Both of two uses of a key.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            server: self.server || other.server,
            client: self.client || other.client,
        }
    }
}

/// What RFC 8446 puts in front, so that nothing of an earlier version has this form.
const SPACES: usize = 64;

const CONTEXT_OF_SERVER: &[u8] = b"TLS 1.3, server CertificateVerify\0";
const CONTEXT_OF_CLIENT: &[u8] = b"TLS 1.3, client CertificateVerify\0";

/// The hashes of the suites of TLS 1.3.
const TRANSCRIPT_HASH_BYTES: [usize; 2] = [32, 48];

/// The random values of client and server (RFC 5246 section 7.4.1.2).
const RANDOMS_BYTES: usize = 64;

/// `named_curve` of RFC 8422 section 5.4.
const NAMED_CURVE: u8 = 3;

/// Groups of TLS 1.2 by their numbers, with the length of a point: P-256, P-384, P-521, X25519.
const CURVES: [(u16, u8); 4] = [(23, 65), (24, 97), (25, 133), (29, 32)];

/// Signatures of TLS 1.3 by each kind of key (RFC 8446 section 4.2.3).
fn tls13_schemes(kind: KeyKind) -> &'static [u16] {
    match kind {
        KeyKind::Rsa => &[0x0804, 0x0805, 0x0806, 0x0809, 0x080a, 0x080b],
        KeyKind::EcP256 => &[0x0403],
        KeyKind::EcP384 => &[0x0503],
        KeyKind::EcP521 => &[0x0603],
        KeyKind::Ed25519 => &[0x0807],
        KeyKind::Other => &[],
    }
}

/// The same of earlier versions, where the curve does not decide the hash (RFC 5246 section
/// 7.4.1.4.1). 0xff01 is libssl's number for MD5 with SHA-1.
fn earlier_schemes(kind: KeyKind) -> &'static [u16] {
    match kind {
        KeyKind::Rsa => &[
            0x0201, 0x0401, 0x0501, 0x0601, 0xff01, 0x0804, 0x0805, 0x0806,
        ],
        KeyKind::EcP256 | KeyKind::EcP384 | KeyKind::EcP521 => &[0x0203, 0x0403, 0x0503, 0x0603],
        KeyKind::Ed25519 => &[0x0807],
        KeyKind::Other => &[],
    }
}

/// Whether the owner of such a key computes this in a handshake. Whether the key of a server may
/// decrypt is for its holder to know.
pub fn is_permitted(kind: KeyKind, roles: Roles, operation: &KeyOperation) -> bool {
    match operation {
        KeyOperation::Sign { scheme, input } => {
            let is_of_tls13 = || tls13_schemes(kind).contains(scheme);
            let is_earlier = || earlier_schemes(kind).contains(scheme);
            let of_server = || {
                (is_of_tls13() && is_transcript(input, CONTEXT_OF_SERVER))
                    || (is_earlier() && is_key_exchange(input))
            };
            let of_client = || {
                (is_of_tls13() && is_transcript(input, CONTEXT_OF_CLIENT))
                    || (is_earlier() && transcript::is_of_client(input))
            };
            (roles.server && of_server()) || (roles.client && of_client())
        }
        KeyOperation::Decrypt { .. } => roles.server && kind == KeyKind::Rsa,
    }
}

/// The input of CertificateVerify in TLS 1.3.
fn is_transcript(input: &[u8], context: &[u8]) -> bool {
    let Some((spaces, rest)) = input.split_at_checked(SPACES) else {
        return false;
    };
    let is_spaces = spaces.iter().all(|byte| *byte == b' ');
    let hash = rest.strip_prefix(context);
    is_spaces && hash.is_some_and(|hash| TRANSCRIPT_HASH_BYTES.contains(&hash.len()))
}

/// The input of the signature in ServerKeyExchange.
fn is_key_exchange(input: &[u8]) -> bool {
    let Some((_, parameters)) = input.split_at_checked(RANDOMS_BYTES) else {
        return false;
    };
    let [NAMED_CURVE, high, low, length, point @ ..] = parameters else {
        return false;
    };
    let curve = (u16::from_be_bytes([*high, *low]), *length);
    CURVES.contains(&curve) && point.len() == usize::from(*length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(scheme: u16, input: Vec<u8>) -> KeyOperation {
        KeyOperation::Sign { scheme, input }
    }

    fn transcript_with(context: &[u8], hash_bytes: usize) -> Vec<u8> {
        let hash = vec![0xab; hash_bytes];
        [&[b' '; 64][..], context, &hash].concat()
    }

    fn transcript(hash_bytes: usize) -> Vec<u8> {
        transcript_with(b"TLS 1.3, server CertificateVerify\0", hash_bytes)
    }

    fn of_client(hash_bytes: usize) -> Vec<u8> {
        transcript_with(b"TLS 1.3, client CertificateVerify\0", hash_bytes)
    }

    const BOTH: Roles = Roles {
        server: true,
        client: true,
    };

    #[track_caller]
    fn is_for(kind: KeyKind, roles: Roles, operation: &KeyOperation) {
        for other in [Roles::default(), Roles::SERVER, Roles::CLIENT, BOTH] {
            let is_one = (other.server && roles.server) || (other.client && roles.client);
            let permitted = is_permitted(kind, other, operation);
            assert_eq!(permitted, is_one, "{operation:?}, {other:?}");
        }
    }

    fn key_exchange(group: u16, point_bytes: u8) -> Vec<u8> {
        let mut input = vec![0x17; 64];
        input.push(3);
        input.extend(group.to_be_bytes());
        input.push(point_bytes);
        input.extend(vec![4; usize::from(point_bytes)]);
        input
    }

    const KINDS: [KeyKind; 6] = [
        KeyKind::Rsa,
        KeyKind::EcP256,
        KeyKind::EcP384,
        KeyKind::EcP521,
        KeyKind::Ed25519,
        KeyKind::Other,
    ];

    #[test]
    fn what_handshakes_sign_is_permitted() {
        for kind in KINDS {
            for scheme in tls13_schemes(kind) {
                for hash_bytes in TRANSCRIPT_HASH_BYTES {
                    let operation = sign(*scheme, transcript(hash_bytes));
                    is_for(kind, Roles::SERVER, &operation);
                    let operation = sign(*scheme, of_client(hash_bytes));
                    is_for(kind, Roles::CLIENT, &operation);
                }
            }
            for scheme in earlier_schemes(kind) {
                for (group, point_bytes) in CURVES {
                    let operation = sign(*scheme, key_exchange(group, point_bytes));
                    is_for(kind, Roles::SERVER, &operation);
                }
                let operation = sign(*scheme, super::transcript::tests::handshake());
                is_for(kind, Roles::CLIENT, &operation);
            }
        }
    }

    #[test]
    fn nothing_else_is() {
        let mut with_a_tab = transcript(32);
        with_a_tab[63] = b'\t';
        for input in [
            Vec::new(),
            vec![b' '; 64],
            b"a message".to_vec(),
            vec![0; 32],
            transcript(0),
            transcript(31),
            transcript(33),
            transcript(64),
            of_client(31),
            of_client(64),
            with_a_tab,
            key_exchange(23, 64),
            key_exchange(29, 65),
            key_exchange(30, 56),
            [key_exchange(29, 32), vec![0]].concat(),
            key_exchange(29, 32)[..99].to_vec(),
            key_exchange(29, 32)[1..].to_vec(),
        ] {
            let operation = sign(0x0403, input);
            is_for(KeyKind::EcP256, Roles::default(), &operation);
        }
    }

    #[test]
    fn schemes_are_those_of_the_key_and_the_version() {
        for kind in KINDS {
            for scheme in 0..=u16::MAX {
                let is_permitted = |input| is_permitted(kind, BOTH, &sign(scheme, input));
                for input in [transcript(32), of_client(32)] {
                    let is_of_tls13 = tls13_schemes(kind).contains(&scheme);
                    assert_eq!(is_permitted(input), is_of_tls13);
                }
                for input in [key_exchange(29, 32), super::transcript::tests::handshake()] {
                    let is_earlier = earlier_schemes(kind).contains(&scheme);
                    assert_eq!(is_permitted(input), is_earlier);
                }
            }
            let decryption = KeyOperation::Decrypt {
                input: vec![1; 256],
            };
            let roles = match kind {
                KeyKind::Rsa => Roles::SERVER,
                _ => Roles::default(),
            };
            is_for(kind, roles, &decryption);
        }
    }

    /// Each byte of what is permitted counts, but for those that a client or a hash decides.
    #[test]
    fn a_changed_frame_of_a_transcript_is_refused() {
        for good in [transcript(48), of_client(48)] {
            for at in 0..64 + CONTEXT_OF_SERVER.len() {
                for flip in [1, 0x20, 0x80] {
                    let mut input = good.clone();
                    input[at] ^= flip;
                    let is_permitted = is_permitted(KeyKind::Rsa, BOTH, &sign(0x0804, input));
                    assert!(!is_permitted, "{at}");
                }
            }
        }
    }
}
