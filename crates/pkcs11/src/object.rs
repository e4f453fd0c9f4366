//! The private key in a token that a URI means, and the public key that belongs to it.

use std::fmt::Write;

use cryptoki::object::{Attribute, AttributeType, ObjectClass, ObjectHandle};
use cryptoki::session::Session;
use sealane_awslc::{KeyKind, PublicKey};

use crate::Uri;
use crate::der;
use crate::failure::Failure;
use crate::token::{MAX_LISTED, listed};

/// The one private key that the URI means.
pub(crate) fn find_private_key(session: &Session, uri: &Uri) -> Result<ObjectHandle, Failure> {
    let mut wanted = vec![Attribute::Class(ObjectClass::PRIVATE_KEY)];
    if let Some(id) = &uri.id {
        wanted.push(Attribute::Id(id.clone()));
    }
    if let Some(label) = &uri.object {
        wanted.push(Attribute::Label(label.clone().into_bytes()));
    }
    let found = first_objects(session, &wanted)?;
    match found[..] {
        [key] => Ok(key),
        [] => {
            let all = first_objects(session, &wanted[..1])?;
            Err(Failure::NoKey(described(session, &all)?.into()))
        }
        _ => Err(Failure::SeveralKeys(described(session, &found)?.into())),
    }
}

/// The public key of a private one: what the token says about the private key itself, else an
/// object with the same CKA_ID, public key or certificate.
pub(crate) fn public_key(session: &Session, key: ObjectHandle) -> Result<PublicKey, Failure> {
    if let Some(Attribute::AlwaysAuthenticate(true)) =
        attribute(session, key, AttributeType::AlwaysAuthenticate)?
    {
        return Err(Failure::AlwaysAuthenticate);
    }
    if let Some(public) = described_key(session, key)? {
        return supported(public);
    }
    let id = bytes(session, key, AttributeType::Id)?.unwrap_or_default();
    if !id.is_empty() {
        for class in [ObjectClass::PUBLIC_KEY, ObjectClass::CERTIFICATE] {
            let wanted = [Attribute::Class(class), Attribute::Id(id.clone())];
            for object in first_objects(session, &wanted)? {
                let public = match class {
                    ObjectClass::CERTIFICATE => bytes(session, object, AttributeType::Value)?
                        .and_then(|der| PublicKey::from_certificate_der(&der).ok()),
                    _ => described_key(session, object)?,
                };
                if let Some(public) = public {
                    return supported(public);
                }
            }
        }
    }
    Err(Failure::NoPublicKey(hexadecimal(&id).into()))
}

fn supported(public: PublicKey) -> Result<PublicKey, Failure> {
    match public.kind() {
        KeyKind::Other => Err(Failure::KeyKind("that TLS servers do not use".into())),
        _ => Ok(public),
    }
}

/// The public key that the attributes of an object, public or private, describe.
fn described_key(session: &Session, object: ObjectHandle) -> Result<Option<PublicKey>, Failure> {
    let get = |attribute| bytes(session, object, attribute);
    // Since version 2.40 any object of a key may have it.
    if let Some(spki) = get(AttributeType::PublicKeyInfo)?
        && let Ok(public) = PublicKey::from_spki_der(&spki)
    {
        return Ok(Some(public));
    }
    if let (Some(modulus), Some(exponent)) = (
        get(AttributeType::Modulus)?,
        get(AttributeType::PublicExponent)?,
    ) {
        return Ok(PublicKey::from_spki_der(&der::rsa_spki(&modulus, &exponent)).ok());
    }
    let Some(attribute) = get(AttributeType::EcPoint)? else {
        return Ok(None);
    };
    let parameters = get(AttributeType::EcParams)?.unwrap_or_default();
    for point in der::points(&attribute) {
        // A point of the one is none of the other, by its length.
        for spki in [der::ec_spki(&parameters, point), der::ed25519_spki(point)] {
            if let Ok(public) = PublicKey::from_spki_der(&spki) {
                return Ok(Some(public));
            }
        }
    }
    Ok(None)
}

/// An attribute; `None` if the object has none, or does not show it.
fn attribute(
    session: &Session,
    object: ObjectHandle,
    kind: AttributeType,
) -> Result<Option<Attribute>, Failure> {
    Ok(session.get_attributes(object, &[kind])?.into_iter().next())
}

/// The bytes of an attribute, unless it is empty.
fn bytes(
    session: &Session,
    object: ObjectHandle,
    kind: AttributeType,
) -> Result<Option<Vec<u8>>, Failure> {
    let bytes = attribute(session, object, kind)?.and_then(|attribute| match attribute {
        Attribute::EcParams(bytes)
        | Attribute::EcPoint(bytes)
        | Attribute::Id(bytes)
        | Attribute::Label(bytes)
        | Attribute::Modulus(bytes)
        | Attribute::PublicExponent(bytes)
        | Attribute::PublicKeyInfo(bytes)
        | Attribute::Value(bytes) => Some(bytes),
        _ => None,
    });
    Ok(bytes.filter(|bytes| !bytes.is_empty()))
}

/// At most one more than a message lists.
fn first_objects(session: &Session, wanted: &[Attribute]) -> Result<Vec<ObjectHandle>, Failure> {
    let objects = session.iter_objects(wanted)?;
    let first: Result<Vec<_>, _> = objects.take(MAX_LISTED + 1).collect();
    Ok(first?)
}

fn described(session: &Session, keys: &[ObjectHandle]) -> Result<String, Failure> {
    let mut texts = Vec::with_capacity(keys.len());
    for key in keys {
        let label = bytes(session, *key, AttributeType::Label)?.unwrap_or_default();
        let label = String::from_utf8_lossy(&label).into_owned();
        let id = bytes(session, *key, AttributeType::Id)?.unwrap_or_default();
        texts.push(format!("{label:?} (id {})", hexadecimal(&id)));
    }
    Ok(listed("private keys in the token", &texts))
}

/// As it is written in a URI.
fn hexadecimal(id: &[u8]) -> String {
    if id.is_empty() {
        return "none".to_owned();
    }
    id.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "%{byte:02X}");
        text
    })
}
