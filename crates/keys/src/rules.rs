//! What may be signed: what a server signs in a handshake, and nothing else.
//!
//! | protocol | what is signed | |
//! |---|---|---|
//! | TLS 1.3 | 64 spaces, `TLS 1.3, server CertificateVerify`, a zero byte, the hash of the transcript | RFC 8446 section 4.4.3 |
//! | TLS 1.2 and below | both random values, then a curve and a point on it | RFC 8422 section 5.4 |
//!
//! A worker that was taken over can have anything of this form signed, as it can in a handshake of
//! its own. It cannot have a certificate, a token or a message of another protocol signed: none of
//! them has this form.

use sealane_awslc::KeyKind;
use sealane_tls::KeyOperation;

/// What RFC 8446 puts in front, so that nothing of an earlier version has this form.
const SPACES: usize = 64;

const CONTEXT: &[u8] = b"TLS 1.3, server CertificateVerify\0";

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

/// Whether a server with such a key computes this in a handshake. Whether the key may decrypt is
/// for its holder to know.
pub fn is_permitted(kind: KeyKind, operation: &KeyOperation) -> bool {
    match operation {
        KeyOperation::Sign { scheme, input } => {
            let is_of_tls13 = tls13_schemes(kind).contains(scheme) && is_transcript(input);
            is_of_tls13 || (earlier_schemes(kind).contains(scheme) && is_key_exchange(input))
        }
        KeyOperation::Decrypt { .. } => kind == KeyKind::Rsa,
    }
}

/// The input of CertificateVerify.
fn is_transcript(input: &[u8]) -> bool {
    let Some((spaces, rest)) = input.split_at_checked(SPACES) else {
        return false;
    };
    let is_spaces = spaces.iter().all(|byte| *byte == b' ');
    let hash = rest.strip_prefix(CONTEXT);
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

    fn transcript(hash_bytes: usize) -> Vec<u8> {
        let hash = vec![0xab; hash_bytes];
        [
            &[b' '; 64][..],
            b"TLS 1.3, server CertificateVerify\0",
            &hash,
        ]
        .concat()
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
                    assert!(is_permitted(kind, &operation), "{scheme:#x}");
                }
            }
            for scheme in earlier_schemes(kind) {
                for (group, point_bytes) in CURVES {
                    let operation = sign(*scheme, key_exchange(group, point_bytes));
                    assert!(is_permitted(kind, &operation), "{scheme:#x} {group}");
                }
            }
        }
    }

    #[test]
    fn nothing_else_is() {
        let client = b"TLS 1.3, client CertificateVerify\0";
        let mut of_client = transcript(32);
        of_client[64..64 + client.len()].copy_from_slice(client);
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
            of_client,
            with_a_tab,
            key_exchange(23, 64),
            key_exchange(29, 65),
            key_exchange(30, 56),
            [key_exchange(29, 32), vec![0]].concat(),
            key_exchange(29, 32)[..99].to_vec(),
            key_exchange(29, 32)[1..].to_vec(),
        ] {
            let operation = sign(0x0403, input);
            assert!(!is_permitted(KeyKind::EcP256, &operation), "{operation:?}");
        }
    }

    #[test]
    fn schemes_are_those_of_the_key_and_the_version() {
        for kind in KINDS {
            for scheme in 0..=u16::MAX {
                let of_tls13 = is_permitted(kind, &sign(scheme, transcript(32)));
                assert_eq!(of_tls13, tls13_schemes(kind).contains(&scheme));
                let earlier = is_permitted(kind, &sign(scheme, key_exchange(29, 32)));
                assert_eq!(earlier, earlier_schemes(kind).contains(&scheme));
            }
            let decryption = KeyOperation::Decrypt {
                input: vec![1; 256],
            };
            assert_eq!(is_permitted(kind, &decryption), kind == KeyKind::Rsa);
        }
    }

    /// Each byte of what is permitted counts, but for those that a client or a hash decides.
    #[test]
    fn a_changed_frame_of_a_transcript_is_refused() {
        let good = transcript(48);
        for at in 0..64 + CONTEXT.len() {
            for flip in [1, 0x20, 0x80] {
                let mut input = good.clone();
                input[at] ^= flip;
                assert!(!is_permitted(KeyKind::Rsa, &sign(0x0804, input)), "{at}");
            }
        }
    }
}
