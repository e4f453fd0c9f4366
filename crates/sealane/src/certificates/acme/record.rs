//! What is known about one certificate: kept in a file, and shared between nodes.
//!
//! Certificate and key are one value, so that nobody ever sees one without the other. So are an
//! order and its key: whoever goes on with the order can use its certificate.

use super::jws::base64url;
use super::keys::KeyPem;
use super::serving::digest_of;
use crate::dns_command::PREFIX;
use sealane_conf::model::AcmeCertificate;
use sealane_server::AcmeId;
use sealane_tls::{CertificateFacts, SettingsError};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use zeroize::Zeroizing;

/// Of the format.
const VERSION: u8 = 1;

/// The longest record, in bytes: chains of public servers take a tenth of it.
pub(super) const MAX_RECORD_BYTES: usize = 96 << 10;

/// What is known about one certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    version: u8,
    /// `uri` of its issuer.
    issuer: String,
    identifiers: Vec<String>,
    key_kind: String,
    /// How often it was changed.
    pub(super) revision: u64,
    pub(crate) certificate: Option<Issued>,
    pub(super) order: Option<OrderUnderWay>,
    pub(crate) tries: Tries,
}

/// A certificate with its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Issued {
    /// PEM, with intermediates.
    pub(crate) chain: String,
    pub(crate) key: KeyPem,
    /// When to renew it, in seconds since 1970.
    pub(crate) renew_s: i64,
    /// When to ask the server again when to renew it.
    pub(super) ask_s: i64,
}

/// An order that is not finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OrderUnderWay {
    pub(super) url: String,
    /// Of the certificate.
    pub(super) key: KeyPem,
    pub(super) begun_s: i64,
    /// What servers are answered meanwhile.
    pub(super) challenges: Vec<Answered>,
}

/// The answer to one challenge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answered {
    /// Without the star of a wildcard.
    pub(super) identifier: String,
    pub(super) token: String,
    /// Token and thumbprint of the account's key.
    pub(super) authorization: String,
    /// Where the aliases of the name lead at which a TXT record is looked for, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) alias_target: Option<String>,
}

impl Answered {
    /// One whose record has its own name.
    pub(super) fn new(identifier: &str, token: &str, authorization: &str) -> Answered {
        Answered {
            identifier: identifier.to_owned(),
            token: token.to_owned(),
            authorization: authorization.to_owned(),
            alias_target: None,
        }
    }

    /// The name at which its TXT record is looked for (RFC 8555 section 8.4).
    pub(super) fn own_name(&self) -> String {
        format!("{PREFIX}.{}", self.identifier)
    }

    /// The name at which the record has to be made.
    pub(super) fn record_name(&self) -> String {
        self.alias_target.clone().unwrap_or_else(|| self.own_name())
    }

    /// The text of the record.
    pub(super) fn value(&self) -> String {
        base64url(&digest_of(&self.authorization))
    }
}

/// What became of attempts to get the next certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tries {
    /// Failures since the last success.
    pub(crate) failures: u32,
    /// When the last one was, in seconds since 1970.
    pub(crate) last_s: Option<i64>,
    /// Not before this.
    pub(crate) next_s: i64,
    /// Why it failed.
    pub(crate) error: Option<String>,
}

/// The name of its file, for people and unique: the first identifier and a part of the digest.
pub(crate) fn file_name(conf: &AcmeCertificate) -> String {
    let first = conf.identifiers.first().map(ToString::to_string);
    // A colon is no harm, but a star is for shells.
    let mut name = first
        .unwrap_or_default()
        .replace('*', "_")
        .replace(':', "-");
    name.truncate(128);
    name.push('-');
    for byte in &AcmeId::of(conf).0[..8] {
        let _ = write!(name, "{byte:02x}");
    }
    name.push_str(".json");
    name
}

impl Record {
    /// Of a certificate of which nothing is known.
    pub(crate) fn new(conf: &AcmeCertificate) -> Record {
        Record {
            version: VERSION,
            issuer: conf.issuer.uri.clone(),
            identifiers: conf.identifiers.iter().map(ToString::to_string).collect(),
            key_kind: conf.key.name().to_owned(),
            revision: 0,
            certificate: None,
            order: None,
            tries: Tries::default(),
        }
    }

    /// What [`Record::pack`] has written about this certificate; `Err` describes the fault.
    pub(crate) fn unpack(bytes: &[u8], conf: &AcmeCertificate) -> Result<Record, String> {
        let record: Record = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if record.version != VERSION {
            return Err("another version wrote it".to_owned());
        }
        let expected = Record::new(conf);
        let is_it = record.issuer == expected.issuer
            && record.identifiers == expected.identifiers
            && record.key_kind == expected.key_kind;
        match is_it {
            true => Ok(record),
            false => Err("it is about another certificate".to_owned()),
        }
    }

    /// When its certificate ends, in seconds since 1970.
    pub(crate) fn ends_s(&self) -> Option<i64> {
        Some(self.facts()?.ends_s)
    }

    /// Of several records of a certificate, the greatest is the one to keep. Where a store has lost
    /// whose turn it was, two nodes may have changed theirs at the same time: a newer certificate
    /// counts for more than the news that it was not got.
    pub(super) fn rank(&self) -> (Option<i64>, u64) {
        let begins_s = self.facts().map(|facts| facts.begins_s);
        (begins_s, self.revision)
    }

    fn facts(&self) -> Option<CertificateFacts> {
        let certificate = self.certificate.as_ref()?;
        certificate.facts().ok()
    }

    /// What became of the last attempt, for people.
    pub(crate) fn last_attempt(&self, now_s: i64) -> String {
        let minutes = |seconds: i64| seconds.max(0).div_euclid(60);
        let tries = &self.tries;
        match (&tries.error, tries.last_s, &self.certificate) {
            (Some(error), Some(last_s), _) => format!(
                "failed {} minutes ago ({error}), the next is in {} minutes",
                minutes(now_s - last_s),
                minutes(tries.next_s - now_s)
            ),
            (_, _, Some(certificate)) => {
                let days = (certificate.renew_s - now_s).div_euclid(24 * 3600);
                format!("succeeded, the next is in {} days", days.max(0))
            }
            _ => "is under way".to_owned(),
        }
    }

    /// As bytes that are wiped.
    pub(super) fn pack(&self) -> Zeroizing<Vec<u8>> {
        packed(self)
    }
}

/// As bytes that are wiped, in which keys may be.
pub(super) fn packed(value: &impl Serialize) -> Zeroizing<Vec<u8>> {
    // Room for all of it, so that no copy of a key stays behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_RECORD_BYTES));
    serde_json::to_writer(&mut *bytes, value).expect("no map in it has keys other than strings");
    bytes
}

impl Issued {
    /// What the certificate says.
    ///
    /// # Errors
    /// When it cannot be read, or the key is another one's.
    pub(super) fn facts(&self) -> Result<CertificateFacts, SettingsError> {
        CertificateFacts::read(self.chain.as_bytes(), &self.key.expose())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::acme::tests::conf;

    #[test]
    fn records_are_read_again_by_their_certificate_only() {
        let (one, other) = (conf("a.test *.a.test"), conf("a.test"));
        let mut record = Record::new(&one);
        record.certificate = Some(Issued {
            chain: "chain".to_owned(),
            key: KeyPem::new(b"secret").expect("memory"),
            renew_s: 7,
            ask_s: 8,
        });
        assert!(!format!("{record:?}").contains("secret"));
        let bytes = record.pack();
        assert_eq!(Record::unpack(&bytes, &one).as_ref(), Ok(&record));
        let foreign = Record::unpack(&bytes, &other).expect_err("another certificate");
        assert_eq!(foreign, "it is about another certificate");
        for length in 0..bytes.len() {
            assert!(Record::unpack(&bytes[..length], &one).is_err());
        }
        assert_ne!(AcmeId::of(&one), AcmeId::of(&other));
        assert!(file_name(&one).starts_with("a.test-"));
    }

    /// A certificate that begins on this day, with its key.
    fn issued(begins_day: u8) -> Issued {
        let key = rcgen::KeyPair::generate().expect("P-256 is supported");
        let names = vec!["a.test".to_owned()];
        let mut params = rcgen::CertificateParams::new(names).expect("a valid name");
        params.not_before = rcgen::date_time_ymd(2026, 1, begins_day);
        params.not_after = rcgen::date_time_ymd(2026, 3, 1);
        Issued {
            chain: params.self_signed(&key).expect("the key signs").pem(),
            key: KeyPem::new(key.serialize_pem().as_bytes()).expect("memory"),
            renew_s: 0,
            ask_s: 0,
        }
    }

    #[test]
    fn a_newer_certificate_counts_for_more_than_many_changes() {
        let record = |certificate, revision| Record {
            certificate,
            revision,
            ..Record::new(&conf("a.test"))
        };
        let (old, new) = (issued(1), issued(2));
        let failed = record(None, 9);
        let renewed = record(Some(new.clone()), 3);
        let failed_to_renew = record(Some(old), 9);
        assert!(renewed.rank() > failed.rank());
        assert!(renewed.rank() > failed_to_renew.rank());
        assert!(failed_to_renew.rank() > failed.rank());
        assert!(record(Some(new), 4).rank() > renewed.rank());
    }

    #[test]
    fn names_of_files_are_plain() {
        let name = file_name(&conf("*.a.test"));
        assert!(
            name.starts_with("_.a.test-") && name.ends_with(".json"),
            "{name}"
        );
    }
}
