//! A key operation in the form that a token takes, and its result in the form that TLS takes.
//!
//! | key | mechanism | the token gets | here |
//! |---|---|---|---|
//! | RSA, PKCS #1 v1.5 | CKM_RSA_PKCS | DigestInfo | hash |
//! | RSA, PSS | CKM_RSA_PKCS_PSS | hash | hash |
//! | RSA, if the token lacks these | CKM_RSA_X_509 | a number | hash, padding |
//! | RSA, decryption | CKM_RSA_X_509 | a number | nothing: libssl removes the padding |
//! | ECDSA | CKM_ECDSA | hash | hash; r and s become DER |
//! | Ed25519 | CKM_EDDSA | message | nothing |
//!
//! Every result is verified with the public key before anyone sees it: a signature by a wrong key
//! or with a fault in it helps nobody, and one of RSA may reveal the key.

use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsPssParams};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::ObjectHandle;
use cryptoki::session::Session;
use sealane_awslc::{KeyKind, KeyOperation, PublicKey, Secret};

use crate::der;
use crate::failure::Failure;

/// Who pads what an RSA key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// The token.
    InToken,
    /// This crate; the token computes with the number.
    Here,
}

/// A public key, and how the token is asked to use its private one.
#[derive(Debug)]
pub(crate) struct Signer {
    pub(crate) public: PublicKey,
    pub(crate) pkcs1: Padding,
    pub(crate) pss: Padding,
}

/// Schemes of TLS (RFC 8446 section 4.2.3) with which a key is tried when it is opened.
const RSA_PKCS1_SHA256: u16 = 0x0401;
const RSA_PSS_RSAE_SHA256: u16 = 0x0804;
const ECDSA_SECP256R1_SHA256: u16 = 0x0403;
const ECDSA_SECP384R1_SHA384: u16 = 0x0503;
const ECDSA_SECP521R1_SHA512: u16 = 0x0603;
const ED25519: u16 = 0x0807;

impl Signer {
    /// Finds out by signing what the token can do with the key: whether it is the one of the public
    /// key, may be used to sign, and who pads.
    pub(crate) fn tried(
        public: PublicKey,
        session: &Session,
        key: ObjectHandle,
    ) -> Result<Self, Failure> {
        let mut signer = Self {
            public,
            pkcs1: Padding::InToken,
            pss: Padding::InToken,
        };
        let scheme = match signer.public.kind() {
            KeyKind::Rsa => {
                if signer.does_not_pad(session, key, RSA_PKCS1_SHA256)? {
                    signer.pkcs1 = Padding::Here;
                    signer.try_one(session, key, RSA_PKCS1_SHA256)?;
                }
                if signer.does_not_pad(session, key, RSA_PSS_RSAE_SHA256)? {
                    signer.pss = Padding::Here;
                    signer.try_one(session, key, RSA_PSS_RSAE_SHA256)?;
                }
                return Ok(signer);
            }
            KeyKind::EcP256 => ECDSA_SECP256R1_SHA256,
            KeyKind::EcP384 => ECDSA_SECP384R1_SHA384,
            KeyKind::EcP521 => ECDSA_SECP521R1_SHA512,
            KeyKind::Ed25519 => ED25519,
            KeyKind::Other => return Err(Failure::Unsuited),
        };
        signer.try_one(session, key, scheme)?;
        Ok(signer)
    }

    fn does_not_pad(
        &self,
        session: &Session,
        key: ObjectHandle,
        scheme: u16,
    ) -> Result<bool, Failure> {
        match self.try_one(session, key, scheme) {
            Err(failure) if failure.is_about_mechanism() => Ok(true),
            other => other.map(|()| false),
        }
    }

    fn try_one(&self, session: &Session, key: ObjectHandle, scheme: u16) -> Result<(), Failure> {
        let operation = KeyOperation::Sign {
            scheme,
            input: b"Sealane tries whether this key signs.".to_vec(),
        };
        let prepared = self.prepared(&operation)?;
        self.perform(session, key, &operation, &prepared).map(drop)
    }

    /// What the token gets for an operation.
    ///
    /// # Errors
    ///
    /// It does not fit the key.
    pub(crate) fn prepared(&self, operation: &KeyOperation) -> Result<Prepared, Failure> {
        let unsuited = |_| Failure::Unsuited;
        let hash = || operation.hashed().ok().flatten().ok_or(Failure::Unsuited);
        let KeyOperation::Sign { scheme, input } = operation else {
            return self.prepared_number(operation);
        };
        let mut padding = Padding::InToken;
        let (kind, data) = match self.public.kind() {
            KeyKind::Rsa => {
                let is_pss = (0x0804..=0x0806).contains(scheme);
                let (kind, who) = match is_pss {
                    true => (Kind::Pss, self.pss),
                    false => (Kind::Pkcs1, self.pkcs1),
                };
                padding = who;
                match (who, is_pss) {
                    (Padding::InToken, true) => (kind, hash()?),
                    _ => (kind, self.public.rsa_encoded(operation).map_err(unsuited)?),
                }
            }
            KeyKind::EcP256 | KeyKind::EcP384 | KeyKind::EcP521 => (Kind::Ecdsa, hash()?),
            KeyKind::Ed25519 if *scheme == ED25519 => (Kind::Ed25519, input.clone()),
            KeyKind::Ed25519 | KeyKind::Other => return Err(Failure::Unsuited),
        };
        Ok(match padding {
            Padding::Here => Prepared {
                kind: Kind::Raw,
                data,
            },
            Padding::InToken if kind == Kind::Pkcs1 => Prepared {
                kind,
                data: without_padding(&data).to_vec(),
            },
            Padding::InToken => Prepared { kind, data },
        })
    }

    /// A number that a client has chosen. Those which raising leaves as they are (0, 1, n - 1)
    /// and those that are no numbers below n are refused here, as AWS-LC does: what a token says
    /// about them may look as if it were broken.
    fn prepared_number(&self, operation: &KeyOperation) -> Result<Prepared, Failure> {
        let unsuited = |_| Failure::Unsuited;
        let number = self.public.rsa_encoded(operation).map_err(unsuited)?;
        match self.public.rsa_raised(&number).map_err(unsuited)? == number {
            true => Err(Failure::Unsuited),
            false => Ok(Prepared {
                kind: Kind::Decrypt,
                data: number,
            }),
        }
    }

    /// Has the token compute, and verifies what it returns. Waits for it.
    pub(crate) fn perform(
        &self,
        session: &Session,
        key: ObjectHandle,
        operation: &KeyOperation,
        prepared: &Prepared,
    ) -> Result<Secret, Failure> {
        let data = &prepared.data;
        let result = match prepared.kind {
            Kind::Decrypt => session.decrypt(&Mechanism::RsaX509, key, data)?,
            Kind::Raw => session.sign(&Mechanism::RsaX509, key, data)?,
            Kind::Pkcs1 => session.sign(&Mechanism::RsaPkcs, key, data)?,
            Kind::Pss => session.sign(&pss(data.len())?, key, data)?,
            Kind::Ecdsa => session.sign(&Mechanism::Ecdsa, key, data)?,
            Kind::Ed25519 => {
                let parameters = EddsaParams::new(EddsaSignatureScheme::Pure);
                session.sign(&Mechanism::Eddsa(parameters), key, data)?
            }
        };
        let result = Secret::new(match prepared.kind {
            Kind::Ecdsa => der::ecdsa_signature(&result).ok_or(Failure::WrongResult)?,
            Kind::Ed25519 => result,
            _ => self.as_long_as_the_modulus(result),
        });
        self.verify(operation, result.expose())
            .then_some(result)
            .ok_or(Failure::WrongResult)
    }

    fn verify(&self, operation: &KeyOperation, result: &[u8]) -> bool {
        match operation {
            KeyOperation::Sign { scheme, input } => {
                self.public.verify(*scheme, input, result).is_ok()
            }
            KeyOperation::Decrypt { input } => self
                .public
                .rsa_raised(result)
                .is_ok_and(|number| number == *input),
        }
    }

    /// Some modules leave zeros at the beginning of a number away.
    fn as_long_as_the_modulus(&self, mut number: Vec<u8>) -> Vec<u8> {
        let bytes = self.public.bits().div_ceil(8) as usize;
        if number.len() < bytes {
            let missing = bytes - number.len();
            number.splice(..0, std::iter::repeat_n(0, missing));
        }
        number
    }
}

/// What a token gets.
#[derive(Debug)]
pub(crate) struct Prepared {
    kind: Kind,
    data: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Decrypt,
    Raw,
    Pkcs1,
    Pss,
    Ecdsa,
    Ed25519,
}

/// The DigestInfo behind 00 01 ff … ff 00 (RFC 8017 section 9.2).
fn without_padding(encoded: &[u8]) -> &[u8] {
    let end = encoded.iter().skip(2).position(|byte| *byte == 0);
    end.map_or(encoded, |end| &encoded[2 + end + 1..])
}

/// PSS as TLS has it: the salt is as long as the hash, which also masks.
fn pss(hash_bytes: usize) -> Result<Mechanism<'static>, Failure> {
    let (hash_alg, mgf) = match hash_bytes {
        32 => (MechanismType::SHA256, PkcsMgfType::MGF1_SHA256),
        48 => (MechanismType::SHA384, PkcsMgfType::MGF1_SHA384),
        64 => (MechanismType::SHA512, PkcsMgfType::MGF1_SHA512),
        _ => return Err(Failure::Unsuited),
    };
    let length = u64::try_from(hash_bytes).unwrap_or(0);
    Ok(Mechanism::RsaPkcsPss(PkcsPssParams {
        hash_alg,
        mgf,
        s_len: length.into(),
    }))
}
