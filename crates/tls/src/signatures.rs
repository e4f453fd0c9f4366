//! Signature schemes (RFC 8446 section 4.2.3). Those accepted from peers are AWS-LC's own list plus
//! Ed25519, which it lacks, in OpenSSL's order.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_do_not_sign_with_sha_1() {
        assert_eq!(OF_CLIENTS.last(), Some(&0x0601));
        assert!(OF_SERVERS.ends_with(&[0x0601, 0x0201]));
    }
}
