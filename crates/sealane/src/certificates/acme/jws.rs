//! Keys of accounts, and requests that they sign (RFC 7515, RFC 8555 section 6.2).

use super::error::AcmeError;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use aws_lc_rs::{digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::fmt;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// Names, curve names and algorithms of the signatures with elliptic curves.
const CURVES: [(&str, &str, &EcdsaSigningAlgorithm); 3] = [
    ("ES256", "P-256", &ECDSA_P256_SHA256_FIXED_SIGNING),
    ("ES384", "P-384", &ECDSA_P384_SHA384_FIXED_SIGNING),
    ("ES512", "P-521", &ECDSA_P521_SHA512_FIXED_SIGNING),
];

/// The key of an account.
pub(super) struct AccountKey {
    signer: Signer,
    /// The public key (RFC 7517), its members in the order of RFC 7638.
    jwk: String,
}

enum Signer {
    Ecdsa(&'static str, EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountKey(redacted)")
    }
}

/// Who a request comes from.
pub(super) enum Sender<'a> {
    /// A key that the server does not know yet.
    Key,
    /// An account, by its URL.
    Account(&'a str),
}

impl AccountKey {
    /// Reads a key in PEM: PKCS #8, SEC 1 or PKCS #1, with a kind that ACME has.
    ///
    /// # Errors
    /// When there is none, or of no such kind.
    pub(super) fn from_pem(pem: &[u8]) -> Result<AccountKey, AcmeError> {
        let der = PrivateKeyDer::from_pem_slice(pem)
            .map_err(|_| AcmeError::Key("it has no private key in PEM"))?;
        for (name, curve, algorithm) in CURVES {
            if let Ok(pair) = EcdsaKeyPair::from_private_key_der(algorithm, der.secret_der()) {
                let jwk = jwk_of_point(curve, pair.public_key().as_ref());
                return Ok(AccountKey {
                    signer: Signer::Ecdsa(name, pair),
                    jwk,
                });
            }
        }
        let pair = match &der {
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            _ => RsaKeyPair::from_pkcs8(der.secret_der()),
        };
        let pair = pair.map_err(|_| {
            AcmeError::Key("it is neither of P-256, P-384 or P-521 nor RSA of 2048 to 8192 bits")
        })?;
        let public = pair.public_key();
        let (n, e) = (public.modulus(), public.exponent());
        let jwk = format!(
            r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#,
            base64url(e.big_endian_without_leading_zero()),
            base64url(n.big_endian_without_leading_zero())
        );
        Ok(AccountKey {
            signer: Signer::Rsa(pair),
            jwk,
        })
    }

    /// What identifies the key (RFC 7638).
    pub(super) fn thumbprint(&self) -> String {
        base64url(digest::digest(&digest::SHA256, self.jwk.as_bytes()).as_ref())
    }

    /// A signed request; without a payload it only reads.
    ///
    /// # Errors
    /// When the library cannot sign.
    pub(super) fn request(
        &self,
        sender: &Sender<'_>,
        url: &str,
        nonce: &str,
        payload: Option<&Value>,
    ) -> Result<Vec<u8>, AcmeError> {
        let algorithm = match &self.signer {
            Signer::Ecdsa(name, _) => name,
            Signer::Rsa(_) => "RS256",
        };
        let mut header = json!({ "alg": algorithm, "nonce": nonce, "url": url });
        match sender {
            Sender::Key => header["jwk"] = self.public(),
            Sender::Account(kid) => header["kid"] = json!(kid),
        }
        let payload = payload.map(Value::to_string).unwrap_or_default();
        let signed = signed_text(&header, payload.as_bytes());
        let signature = self.sign(signed.text.as_bytes())?;
        Ok(signed.with(&signature).to_string().into_bytes())
    }

    /// Shows that whoever has an account outside of ACME wants this key (RFC 8555 section
    /// 7.3.4).
    pub(super) fn external_binding(&self, kid: &str, mac_key: &[u8], url: &str) -> Value {
        let header = json!({ "alg": "HS256", "kid": kid, "url": url });
        let signed = signed_text(&header, self.jwk.as_bytes());
        let key = hmac::Key::new(hmac::HMAC_SHA256, mac_key);
        let tag = hmac::sign(&key, signed.text.as_bytes());
        signed.with(tag.as_ref())
    }

    fn public(&self) -> Value {
        serde_json::from_str(&self.jwk).expect("it was written as JSON")
    }

    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, AcmeError> {
        let random = SystemRandom::new();
        let failed = |_| AcmeError::Library("signing failed");
        match &self.signer {
            Signer::Ecdsa(_, pair) => {
                let signature = pair.sign(&random, text).map_err(failed)?;
                Ok(signature.as_ref().to_vec())
            }
            Signer::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature)
                    .map_err(failed)?;
                Ok(signature)
            }
        }
    }
}

/// Header and payload, as they are signed.
struct SignedText {
    header: String,
    payload: String,
    text: String,
}

fn signed_text(header: &Value, payload: &[u8]) -> SignedText {
    let header = base64url(header.to_string().as_bytes());
    let payload = base64url(payload);
    SignedText {
        text: format!("{header}.{payload}"),
        header,
        payload,
    }
}

impl SignedText {
    fn with(&self, signature: &[u8]) -> Value {
        json!({
            "protected": self.header,
            "payload": self.payload,
            "signature": base64url(signature),
        })
    }
}

/// A point is a byte 4, then both coordinates.
fn jwk_of_point(curve: &str, point: &[u8]) -> String {
    let coordinates = point.get(1..).unwrap_or_default();
    let (x, y) = coordinates.split_at(coordinates.len() / 2);
    format!(
        r#"{{"crv":"{curve}","kty":"EC","x":"{}","y":"{}"}}"#,
        base64url(x),
        base64url(y)
    )
}

/// As all of ACME encodes bytes.
pub(super) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::acme::keys;
    use sealane_conf::model::AcmeKey;

    #[test]
    fn every_kind_of_key_signs_and_is_read_again() {
        for (name, kind) in AcmeKey::ALL.iter().filter(|(name, _)| *name != "rsa:4096") {
            let pem = keys::generate(*kind).expect("it is generated");
            let key = AccountKey::from_pem(&pem.expose()).expect("it is read");
            let again = AccountKey::from_pem(&pem.expose()).expect("it is read");
            assert_eq!(key.thumbprint(), again.thumbprint(), "{name}");
            let request = key
                .request(
                    &Sender::Key,
                    "https://a.test/x",
                    "n",
                    Some(&json!({"a": 1})),
                )
                .expect("it is signed");
            let request: Value = serde_json::from_slice(&request).expect("JSON");
            let part = |name: &str| {
                let text = request[name].as_str().expect("a string");
                URL_SAFE_NO_PAD.decode(text).expect("base64url")
            };
            let header: Value = serde_json::from_slice(&part("protected")).expect("JSON");
            assert_eq!(header["url"], "https://a.test/x");
            assert_eq!(header["jwk"], key.public());
            assert_eq!(part("payload"), br#"{"a":1}"#);
            let length = part("signature").len();
            let expected = match *kind {
                AcmeKey::P256 => 64,
                AcmeKey::P384 => 96,
                AcmeKey::P521 => 132,
                AcmeKey::Rsa2048 => 256,
                _ => 384,
            };
            assert_eq!(length, expected, "{name}");
        }
    }

    #[test]
    fn the_thumbprint_is_that_of_rfc_7638() {
        let n = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc\
                 _BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0\
                 _FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhA\
                 I4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw";
        let jwk = format!(r#"{{"e":"AQAB","kty":"RSA","n":"{n}"}}"#);
        let print = base64url(digest::digest(&digest::SHA256, jwk.as_bytes()).as_ref());
        assert_eq!(print, "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for pem in [
            "",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        ] {
            assert!(AccountKey::from_pem(pem.as_bytes()).is_err());
        }
    }
}
