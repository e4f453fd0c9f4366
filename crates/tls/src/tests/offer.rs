//! What a server claims to offer.

use super::*;
use crate::OfferedSuite;
use sealane_sys::ktls::{Cipher, Version};

fn offered(identity: &Made, change: impl FnOnce(&mut ServerSettings)) -> Vec<OfferedSuite> {
    let mut settings = settings(std::slice::from_ref(identity));
    change(&mut settings);
    server(&settings).offered_suites()
}

fn kernel_of(offered: &[OfferedSuite], name: &str) -> Option<(Version, Cipher)> {
    let found = offered.iter().find(|suite| suite.name == name);
    found
        .unwrap_or_else(|| panic!("{name} is not offered: {offered:?}"))
        .kernel
}

#[test]
fn the_default_offers_aeads_that_a_kernel_knows_and_cbc_that_none_does() {
    let offered = offered(&rsa(), |_| {});
    for (name, kernel) in [
        (
            "TLS_AES_128_GCM_SHA256",
            Some((Version::Tls13, Cipher::Aes128Gcm)),
        ),
        (
            "TLS_AES_256_GCM_SHA384",
            Some((Version::Tls13, Cipher::Aes256Gcm)),
        ),
        (
            "TLS_CHACHA20_POLY1305_SHA256",
            Some((Version::Tls13, Cipher::ChaCha20Poly1305)),
        ),
        (
            "ECDHE-RSA-AES128-GCM-SHA256",
            Some((Version::Tls12, Cipher::Aes128Gcm)),
        ),
        (
            "AES256-GCM-SHA384",
            Some((Version::Tls12, Cipher::Aes256Gcm)),
        ),
        (
            "ECDHE-RSA-CHACHA20-POLY1305",
            Some((Version::Tls12, Cipher::ChaCha20Poly1305)),
        ),
        ("ECDHE-RSA-AES128-SHA", None),
    ] {
        assert_eq!(kernel_of(&offered, name), kernel, "{name}");
    }
    // A client can only get what a certificate serves.
    let ecdsa = |suite: &OfferedSuite| suite.name.contains("ECDSA");
    assert!(!offered.iter().any(ecdsa));
    let with_ecdsa = self::offered(&p256(), |_| {});
    assert!(with_ecdsa.iter().any(ecdsa));
    assert!(!with_ecdsa.iter().any(|suite| suite.name.contains("RSA")));
}

#[test]
fn protocols_decide_what_can_be_offered() {
    let only = |protocol| {
        offered(&rsa(), |settings| {
            settings.protocols = [protocol].into_iter().collect()
        })
    };
    let is_tls13 = |suite: &OfferedSuite| suite.name.starts_with("TLS_");
    assert!(only(Protocol::TlsV1_3).iter().all(is_tls13));
    let tls12 = only(Protocol::TlsV1_2);
    assert!(!tls12.iter().any(is_tls13) && tls12.iter().any(|suite| suite.kernel.is_some()));
    let tls11 = only(Protocol::TlsV1_1);
    assert!(!tls11.is_empty() && tls11.iter().all(|suite| suite.kernel.is_none()));
}
