//! Signature schemes (RFC 8446 section 4.2.3). Those accepted from peers are AWS-LC's own list plus
//! Ed25519, which it lacks, in OpenSSL's order.

use sealane_awslc::Connection;

/// From servers.
pub(crate) const OF_SERVERS: &[u16] = &[
    0x0403, // ecdsa_secp256r1_sha256
    0x0503, // ecdsa_secp384r1_sha384
    0x0603, // ecdsa_secp521r1_sha512
    0x0807, // ed25519
    0x0804, // rsa_pss_rsae_sha256
    0x0805, // rsa_pss_rsae_sha384
    0x0806, // rsa_pss_rsae_sha512
    0x0401, // rsa_pkcs1_sha256
    0x0501, // rsa_pkcs1_sha384
    0x0601, // rsa_pkcs1_sha512
    0x0201, // rsa_pkcs1_sha1, of old servers
];

/// From clients: all but the last, with SHA-1.
pub(crate) const OF_CLIENTS: &[u16] = OF_SERVERS.split_at(OF_SERVERS.len() - 1).0;

/// Our own: AWS-LC's list without SHA-1, with which AWS-LC signs in TLS 1.2 for clients that accept
/// nothing else. RFC 9155 forbids that.
pub(crate) const OURS: &[u16] = &[
    0x0807, // ed25519
    0x0403, // ecdsa_secp256r1_sha256
    0x0804, // rsa_pss_rsae_sha256
    0x0401, // rsa_pkcs1_sha256
    0x0503, // ecdsa_secp384r1_sha384
    0x0805, // rsa_pss_rsae_sha384
    0x0501, // rsa_pkcs1_sha384
    0x0603, // ecdsa_secp521r1_sha512
    0x0806, // rsa_pss_rsae_sha512
    0x0601, // rsa_pkcs1_sha512
];

/// Schemes that clients accept and AWS-LC does not have, by OpenSSL's names.
const ELSEWHERE: [(u16, &str); 17] = [
    (0x0202, "dsa_sha1"),
    (0x0301, "rsa_pkcs1_sha224"),
    (0x0302, "dsa_sha224"),
    (0x0303, "ecdsa_sha224"),
    (0x0402, "dsa_sha256"),
    (0x0502, "dsa_sha384"),
    (0x0602, "dsa_sha512"),
    (0x0808, "ed448"),
    (0x0809, "rsa_pss_pss_sha256"),
    (0x080a, "rsa_pss_pss_sha384"),
    (0x080b, "rsa_pss_pss_sha512"),
    (0x081a, "ecdsa_brainpoolP256r1_sha256"),
    (0x081b, "ecdsa_brainpoolP384r1_sha384"),
    (0x081c, "ecdsa_brainpoolP512r1_sha512"),
    (0x0904, "mldsa44"),
    (0x0905, "mldsa65"),
    (0x0906, "mldsa87"),
];

/// The name nginx prints in `$ssl_sigalgs`.
pub(crate) fn openssl_name(scheme: u16) -> Option<&'static str> {
    Connection::signature_scheme_name(scheme).or_else(|| {
        let known = ELSEWHERE.iter().find(|(known, _)| *known == scheme);
        known.map(|(_, name)| *name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_do_not_sign_with_sha_1() {
        assert_eq!(OF_CLIENTS.last(), Some(&0x0601));
        assert!(OF_SERVERS.ends_with(&[0x0601, 0x0201]));
    }
}
