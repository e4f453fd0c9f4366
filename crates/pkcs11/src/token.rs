//! Which token a URI means.

use std::fmt::Write;

use cryptoki::context::Pkcs11;
use cryptoki::slot::{Slot, TokenInfo};

use crate::Uri;
use crate::failure::Failure;

/// The most tokens or keys that a message lists.
pub(crate) const MAX_LISTED: usize = 16;

/// What a token says of itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TokenIdentity {
    pub(crate) label: String,
    serial: String,
    manufacturer: String,
    model: String,
}

/// A token in a slot.
pub(crate) struct FoundToken {
    pub(crate) slot: Slot,
    pub(crate) info: TokenInfo,
    pub(crate) identity: TokenIdentity,
}

/// The one token that the URI means.
pub(crate) fn find(pkcs11: &Pkcs11, uri: &Uri) -> Result<FoundToken, Failure> {
    check_library(pkcs11, uri)?;
    let mut found = Vec::new();
    let mut there = Vec::new();
    for slot in pkcs11.get_slots_with_token()? {
        let info = match pkcs11.get_token_info(slot) {
            Ok(info) => info,
            Err(error) => {
                there.push(format!("slot {}: {}", slot.id(), Failure::from(error)));
                continue;
            }
        };
        if !info.token_initialized() {
            continue; // There is no key in it.
        }
        let identity = TokenIdentity {
            label: info.label().to_owned(),
            serial: info.serial_number().to_owned(),
            manufacturer: info.manufacturer_id().to_owned(),
            model: info.model().to_owned(),
        };
        let text = format!(
            "\"{}\" (serial {}, manufacturer {}, model {}, slot-id {})",
            identity.label,
            identity.serial,
            identity.manufacturer,
            identity.model,
            slot.id()
        );
        if is_meant(pkcs11, uri, slot, &identity)? {
            found.push((
                text.clone(),
                FoundToken {
                    slot,
                    info,
                    identity,
                },
            ));
        }
        there.push(text);
    }
    match found.len() {
        0 => Err(Failure::NoToken(listed("tokens", &there).into())),
        1 => Ok(found.remove(0).1),
        _ => {
            let texts: Vec<String> = found.into_iter().map(|(text, _)| text).collect();
            Err(Failure::SeveralTokens(listed("tokens", &texts).into()))
        }
    }
}

fn is_meant(
    pkcs11: &Pkcs11,
    uri: &Uri,
    slot: Slot,
    identity: &TokenIdentity,
) -> Result<bool, Failure> {
    let is_token = is(&uri.token, &identity.label)
        && is(&uri.serial, &identity.serial)
        && is(&uri.manufacturer, &identity.manufacturer)
        && is(&uri.model, &identity.model)
        && uri.slot_id.is_none_or(|id| id == slot.id());
    if !is_token || (uri.slot_description.is_none() && uri.slot_manufacturer.is_none()) {
        return Ok(is_token);
    }
    let info = pkcs11.get_slot_info(slot)?;
    Ok(is(&uri.slot_description, info.slot_description())
        && is(&uri.slot_manufacturer, info.manufacturer_id()))
}

/// What the URI says of the module itself.
fn check_library(pkcs11: &Pkcs11, uri: &Uri) -> Result<(), Failure> {
    let is_any = uri.library_manufacturer.is_none()
        && uri.library_description.is_none()
        && uri.library_version.is_none();
    if is_any {
        return Ok(());
    }
    let info = pkcs11.get_library_info()?;
    let version = (
        info.library_version().major(),
        info.library_version().minor(),
    );
    let is_library = is(&uri.library_manufacturer, info.manufacturer_id())
        && is(&uri.library_description, info.library_description())
        && uri.library_version.is_none_or(|wanted| wanted == version);
    if is_library {
        return Ok(());
    }
    let text = format!(
        "the module is \"{}\", version {}.{}, of \"{}\"",
        info.library_description(),
        version.0,
        version.1,
        info.manufacturer_id()
    );
    Err(Failure::NoToken(text.into()))
}

/// An attribute that a URI does not have matches everything (RFC 7512 section 2.3). Fields of
/// tokens are padded with blanks.
fn is(wanted: &Option<String>, value: &str) -> bool {
    wanted
        .as_ref()
        .is_none_or(|wanted| wanted.trim_end_matches(' ') == value.trim_end_matches(' '))
}

/// `the tokens are …`
pub(crate) fn listed(what: &str, all: &[String]) -> String {
    let mut text = match all {
        [] => return format!("there are no {what}"),
        _ => format!(
            "the {what} are: {}",
            all[..all.len().min(MAX_LISTED)].join("; ")
        ),
    };
    if all.len() > MAX_LISTED {
        let _ = write!(text, "; and others");
    }
    text
}
