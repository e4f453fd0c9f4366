//! The key-exchange groups that the library has.

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use aws_lc_sys as sys;

use crate::ffi::static_str;

/// A key-exchange group (RFC 8446 section 4.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// IANA number.
    pub id: u16,
    /// The library's name: `X25519`, `P-256`, `X25519MLKEM768`.
    pub name: &'static str,
    pub(crate) nid: c_int,
}

/// The group with this IANA number.
pub fn group_by_id(id: u16) -> Option<Group> {
    all().iter().copied().find(|group| group.id == id)
}

/// The group that the library calls `name`.
pub fn group_by_name(name: &str) -> Option<Group> {
    all().iter().copied().find(|group| group.name == name)
}

fn all() -> &'static [Group] {
    static ALL: OnceLock<Vec<Group>> = OnceLock::new();
    ALL.get_or_init(|| {
        let known = [
            (sys::SSL_GROUP_SECP224R1, sys::NID_secp224r1),
            (sys::SSL_GROUP_SECP256R1, sys::NID_X9_62_prime256v1),
            (sys::SSL_GROUP_SECP384R1, sys::NID_secp384r1),
            (sys::SSL_GROUP_SECP521R1, sys::NID_secp521r1),
            (sys::SSL_GROUP_X25519, sys::NID_X25519),
            (
                sys::SSL_GROUP_SECP256R1_MLKEM768,
                sys::NID_SecP256r1MLKEM768,
            ),
            (sys::SSL_GROUP_X25519_MLKEM768, sys::NID_X25519MLKEM768),
            (
                sys::SSL_GROUP_SECP384R1_MLKEM1024,
                sys::NID_SecP384r1MLKEM1024,
            ),
            (sys::SSL_GROUP_MLKEM512, sys::NID_MLKEM512),
            (sys::SSL_GROUP_MLKEM768, sys::NID_MLKEM768),
            (sys::SSL_GROUP_MLKEM1024, sys::NID_MLKEM1024),
        ];
        known
            .into_iter()
            .filter_map(|(id, nid)| {
                let id = u16::try_from(id).ok()?;
                // SAFETY: returns null or a static string for any number.
                let name: *const c_char = unsafe { sys::SSL_get_group_name(id) };
                Some(Group {
                    id,
                    name: static_str(name)?,
                    nid,
                })
            })
            .collect()
    })
}
