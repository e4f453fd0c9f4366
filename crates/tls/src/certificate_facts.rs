//! What those who renew certificates have to know about one.

use std::net::IpAddr;

use sealane_awslc::{CertificateChain, PrivateKey};

use crate::error::SettingsError;

/// Facts about a certificate whose key is at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The start of its validity, in seconds since 1970.
    pub begins_s: i64,
    /// The end of its validity.
    pub ends_s: i64,
    /// The names that it is for, in lower case.
    pub dns_names: Vec<String>,
    /// The addresses that it is for.
    pub addresses: Vec<IpAddr>,
    /// The key identifier of its issuer and its serial number in DER, by which an ACME server
    /// knows it (RFC 9773 section 4.1).
    pub authority: Option<(Vec<u8>, Vec<u8>)>,
    /// The common name of the issuer of the last certificate of its chain.
    pub top_issuer: Option<String>,
}

impl CertificateFacts {
    /// Reads a chain in PEM and checks that the key, in PEM too, is that of its first certificate.
    ///
    /// # Errors
    ///
    /// What cannot be read, or that they do not belong together.
    pub fn read(chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, SettingsError> {
        let failed = |error: &dyn std::fmt::Display| SettingsError::new(error.to_string());
        let chain = CertificateChain::from_pem(chain_pem).map_err(|error| failed(&error))?;
        let key = PrivateKey::from_pem(key_pem, &[]).map_err(|error| failed(&error))?;
        let leaf = chain.leaf();
        leaf.check_key(&key).map_err(|error| failed(&error))?;
        let time = |seconds: Option<i64>| {
            seconds.ok_or_else(|| SettingsError::new("its validity cannot be read".to_owned()))
        };
        let top = chain.certificates().last();
        Ok(Self {
            begins_s: time(leaf.not_before_unix_s())?,
            ends_s: time(leaf.not_after_unix_s())?,
            dns_names: leaf.dns_names(),
            addresses: leaf.ip_addresses(),
            authority: leaf.authority_key_id().map(|id| (id, leaf.serial_der())),
            top_issuer: top.and_then(|certificate| certificate.issuer_common_name()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, Issuer, KeyPair, SerialNumber};

    #[test]
    fn a_certificate_tells_what_an_acme_client_needs() {
        let key = KeyPair::generate().expect("a key");
        let mut authority = CertificateParams::default();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        authority
            .distinguished_name
            .push(DnType::CommonName, "Über-CA");
        let authority = Issuer::new(authority, key);
        let names = vec!["A.test".to_owned(), "192.0.2.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        // A number that would be negative without a byte in front.
        params.serial_number = Some(SerialNumber::from_slice(&[0x87, 0x65]));
        params.use_authority_key_identifier_extension = true;
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let leaf_key = KeyPair::generate().expect("a key");
        let leaf = params.signed_by(&leaf_key, &authority).expect("signed");
        let (pem, key_pem) = (leaf.pem(), leaf_key.serialize_pem());
        let facts = CertificateFacts::read(pem.as_bytes(), key_pem.as_bytes()).expect("a pair");
        assert_eq!(facts.begins_s, 1_767_225_600);
        assert_eq!(facts.ends_s, 1_775_001_600);
        assert_eq!(facts.dns_names, ["a.test"]);
        assert_eq!(
            facts.addresses,
            ["192.0.2.1".parse::<IpAddr>().expect("an address")]
        );
        assert_eq!(facts.top_issuer.as_deref(), Some("Über-CA"));
        let (authority, serial) = facts.authority.expect("it names its issuer's key");
        assert!(!authority.is_empty());
        assert_eq!(serial, [0, 0x87, 0x65]);

        let other = KeyPair::generate().expect("a key").serialize_pem();
        assert!(CertificateFacts::read(pem.as_bytes(), other.as_bytes()).is_err());
        assert!(CertificateFacts::read(b"", key_pem.as_bytes()).is_err());
    }
}
