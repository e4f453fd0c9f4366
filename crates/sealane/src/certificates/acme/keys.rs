//! Private keys that are generated, requests for certificates, and certificates that sign
//! themselves.
//!
//! A key is nowhere but in memory that no process has mapped, except while something is done with
//! it: it is read, used and wiped. So what reads this process's memory finds no key.

use super::error::AcmeError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::string::Ia5String;
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, PKCS_ECDSA_P256_SHA256,
    PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_RSA_SHA256, PublicKeyData, SanType,
    SignatureAlgorithm, SigningKey,
};
use sealane_conf::model::{AcmeIdentifier, AcmeKey};
use sealane_sys::file;
use sealane_sys::sealed_memory::sealed_file;
use sealane_tls::{KeyKind, KeyOperation, NewKey, PrivateKey, sha256};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use zeroize::Zeroizing;

/// What PEM begins with, and base64 does not.
const PEM: &str = "-----BEGIN";

/// A private key in PEM. It is not shown. Cloning shares it.
#[derive(Clone)]
pub(crate) struct KeyPem {
    memory: Arc<OwnedFd>,
    bytes: usize,
    /// Tells it from others.
    digest: [u8; 32],
}

impl KeyPem {
    /// # Errors
    /// When the kernel has no memory or descriptors for it.
    pub(crate) fn new(pem: &[u8]) -> Result<KeyPem, AcmeError> {
        let memory = sealed_file(&[pem]);
        let memory = memory.map_err(|_| AcmeError::Key("there is no memory for it"))?;
        Ok(KeyPem {
            memory: Arc::new(memory),
            bytes: pem.len(),
            digest: sha256(pem),
        })
    }

    /// The text, which is wiped. Empty if the kernel does not give it back.
    pub(crate) fn expose(&self) -> Zeroizing<Vec<u8>> {
        let mut pem = Zeroizing::default();
        match file::read_exact_at(self.memory.as_fd(), &mut pem, self.bytes, 0) {
            Ok(()) => pem,
            Err(_) => Zeroizing::default(),
        }
    }
}

impl PartialEq for KeyPem {
    fn eq(&self, other: &KeyPem) -> bool {
        self.digest == other.digest
    }
}

impl Eq for KeyPem {}

impl fmt::Debug for KeyPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPem(redacted)")
    }
}

/// In base64: what needs no escapes is read without a copy that nobody wipes.
impl Serialize for KeyPem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = Zeroizing::new(STANDARD.encode(self.expose()));
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for KeyPem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KeyPem, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = KeyPem;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a private key in PEM, or that in base64")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<KeyPem, E> {
        let made = match text.starts_with(PEM) {
            true => KeyPem::new(text.as_bytes()),
            false => {
                let mut pem = Zeroizing::new(Vec::with_capacity(text.len()));
                STANDARD.decode_vec(text, &mut pem).map_err(E::custom)?;
                KeyPem::new(&pem)
            }
        };
        made.map_err(E::custom)
    }
}

/// Generates a key. With RSA this takes up to seconds.
///
/// # Errors
/// When the library cannot.
pub(super) fn generate(kind: AcmeKey) -> Result<KeyPem, AcmeError> {
    let kind = match kind {
        AcmeKey::P256 => NewKey::EcP256,
        AcmeKey::P384 => NewKey::EcP384,
        AcmeKey::P521 => NewKey::EcP521,
        AcmeKey::Rsa2048 => NewKey::Rsa(2048),
        AcmeKey::Rsa3072 => NewKey::Rsa(3072),
        AcmeKey::Rsa4096 => NewKey::Rsa(4096),
    };
    let pem = PrivateKey::generate(kind).and_then(|key| key.to_pem());
    let pem = pem.map_err(|_| AcmeError::Library("a key cannot be generated"))?;
    KeyPem::new(pem.expose())
}

/// A key that signs a request for its certificate.
struct Subject {
    key: PrivateKey,
    public: Vec<u8>,
    algorithm: &'static SignatureAlgorithm,
    scheme: u16,
}

impl Subject {
    fn new(key: PrivateKey) -> Option<Subject> {
        let (algorithm, scheme) = match key.kind() {
            KeyKind::EcP256 => (&PKCS_ECDSA_P256_SHA256, 0x0403),
            KeyKind::EcP384 => (&PKCS_ECDSA_P384_SHA384, 0x0503),
            KeyKind::EcP521 => (&PKCS_ECDSA_P521_SHA512, 0x0603),
            KeyKind::Rsa => (&PKCS_RSA_SHA256, 0x0401),
            _ => return None,
        };
        Some(Subject {
            public: key.public_key_bits().ok()?,
            key,
            algorithm,
            scheme,
        })
    }
}

impl PublicKeyData for Subject {
    fn der_bytes(&self) -> &[u8] {
        &self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

impl SigningKey for Subject {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let operation = KeyOperation::Sign {
            scheme: self.scheme,
            input: message.to_vec(),
        };
        let signature = self.key.perform(&operation);
        let signature = signature.map_err(|_| rcgen::Error::RemoteKeyError)?;
        Ok(signature.expose().to_vec())
    }
}

/// A request for a certificate (RFC 2986) in DER, signed with its key.
///
/// # Errors
/// When the key cannot be used.
pub(super) fn request(
    key: &KeyPem,
    identifiers: &[AcmeIdentifier],
    with_common_name: bool,
) -> Result<Vec<u8>, AcmeError> {
    let failed = || AcmeError::Library("the certificate request cannot be made");
    let key = PrivateKey::from_pem(&key.expose(), &[]).map_err(|_| failed())?;
    let subject = Subject::new(key).ok_or_else(failed)?;
    let mut params = params(identifiers).map_err(|_| failed())?;
    if with_common_name && let Some(first) = identifiers.first() {
        params
            .distinguished_name
            .push(DnType::CommonName, first.to_string());
    }
    let request = params.serialize_request(&subject).map_err(|_| failed())?;
    Ok(request.der().to_vec())
}

/// A certificate that nobody has issued, with its key: PEM of both. Nobody trusts it, so the key
/// may be here.
pub(super) struct SelfSigned {
    pub(super) chain_pem: String,
    pub(super) key: Zeroizing<Vec<u8>>,
}

/// What is served until the first certificate is there.
///
/// # Errors
/// When the library cannot make it.
pub(super) fn self_signed(identifiers: &[AcmeIdentifier]) -> Result<SelfSigned, AcmeError> {
    make(identifiers, |params| {
        let name = "no certificate yet";
        params.distinguished_name.push(DnType::CommonName, name);
    })
}

/// What answers TLS-ALPN-01 (RFC 8737 section 3): a certificate with the digest of the key
/// authorization.
///
/// # Errors
/// When the library cannot make it.
pub(super) fn challenge(
    identifier: &AcmeIdentifier,
    digest: &[u8; 32],
) -> Result<SelfSigned, AcmeError> {
    make(std::slice::from_ref(identifier), |params| {
        let extension = CustomExtension::new_acme_identifier(digest);
        params.custom_extensions.push(extension);
    })
}

fn make(
    identifiers: &[AcmeIdentifier],
    set: impl FnOnce(&mut CertificateParams),
) -> Result<SelfSigned, AcmeError> {
    let failed = |_| AcmeError::Library("a self-signed certificate cannot be made");
    let pair = rcgen::KeyPair::generate().map_err(failed)?;
    let mut params = params(identifiers).map_err(failed)?;
    set(&mut params);
    let certificate = params.self_signed(&pair).map_err(failed)?;
    Ok(SelfSigned {
        chain_pem: certificate.pem(),
        key: Zeroizing::new(pair.serialize_pem().into_bytes()),
    })
}

fn params(identifiers: &[AcmeIdentifier]) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let name = |identifier: &AcmeIdentifier| {
        Ok(match identifier {
            AcmeIdentifier::Dns(name) => SanType::DnsName(Ia5String::try_from(name.as_str())?),
            AcmeIdentifier::Ip(address) => SanType::IpAddress(*address),
        })
    };
    let names: Result<_, rcgen::Error> = identifiers.iter().map(name).collect();
    params.subject_alt_names = names?;
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_makes_a_request_that_others_verify() {
        for (kind, expected) in [
            (AcmeKey::P256, "prime256v1"),
            (AcmeKey::P384, "secp384r1"),
            (AcmeKey::P521, "secp521r1"),
            (AcmeKey::Rsa2048, "2048 bit"),
        ] {
            let key = generate(kind).expect("it is supported");
            let names = [
                AcmeIdentifier::Dns("a.test".to_owned()),
                AcmeIdentifier::Ip([192, 0, 2, 1].into()),
            ];
            let request = request(&key, &names, true).expect("it signs");
            let path = std::env::temp_dir().join(format!(
                "sealane-request-{}-{}",
                kind.name().replace(':', "-"),
                std::process::id()
            ));
            std::fs::write(&path, request).expect("writable");
            let shown = std::process::Command::new("openssl")
                .args(["req", "-inform", "DER", "-noout", "-text", "-verify", "-in"])
                .arg(&path)
                .output()
                .expect("openssl is there");
            std::fs::remove_file(&path).expect("just written");
            let [text, verdict] = [&shown.stdout, &shown.stderr]
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            assert!(
                shown.status.success() && verdict.contains("OK"),
                "{verdict}"
            );
            for part in [
                expected,
                "DNS:a.test",
                "IP Address:192.0.2.1",
                "CN = a.test",
            ] {
                assert!(text.contains(part), "{part} is not in {text}");
            }
        }
    }

    #[test]
    fn a_key_is_read_as_it_was_written_also_by_earlier_versions() {
        let key = generate(AcmeKey::P256).expect("it is supported");
        let written = serde_json::to_string(&key).expect("it is text");
        assert!(!written.contains('\\'), "{written}");
        let read: KeyPem = serde_json::from_str(&written).expect("just written");
        assert_eq!((&read, read.expose()), (&key, key.expose()));
        let pem = String::from_utf8(key.expose().to_vec()).expect("PEM");
        let earlier = serde_json::to_string(&pem).expect("it is text");
        assert_eq!(serde_json::from_str::<KeyPem>(&earlier).ok(), Some(key));
        for wrong in ["\"*\"", "7", "\"AAA\""] {
            assert!(serde_json::from_str::<KeyPem>(wrong).is_err(), "{wrong}");
        }
    }
}
