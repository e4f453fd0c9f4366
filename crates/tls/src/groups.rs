//! `ssl_ecdh_curve` and the command `Groups`: key-exchange groups by the names
//! that OpenSSL accepts.

use sealane_awslc::{Group, group_by_name};

use crate::ciphers::SecurityLevel;
use crate::error::{SettingsError, Warning};

/// What `auto` stands for: post-quantum first, then the groups that clients offer most.
pub const DEFAULT_GROUPS: &str = "X25519MLKEM768:X25519:prime256v1:secp384r1:secp521r1";

/// Groups in order of preference; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupList(Vec<Group>);

/// OpenSSL's names (compared without case), AWS-LC's name, security bits.
const NAMES: &[(&[&str], &str, u16)] = &[
    (&["X25519"], "X25519", 128),
    (&["prime256v1", "secp256r1", "P-256"], "P-256", 128),
    (&["secp384r1", "P-384"], "P-384", 192),
    (&["secp521r1", "P-521"], "P-521", 256),
    (&["secp224r1", "P-224"], "P-224", 112),
    (&["X25519MLKEM768"], "X25519MLKEM768", 192),
    (&["SecP256r1MLKEM768"], "SecP256r1MLKEM768", 192),
    (&["SecP384r1MLKEM1024"], "SecP384r1MLKEM1024", 256),
    (&["MLKEM512"], "MLKEM512", 128),
    (&["MLKEM768"], "MLKEM768", 192),
    (&["MLKEM1024"], "MLKEM1024", 256),
];

/// Groups that OpenSSL has and AWS-LC does not.
const UNSUPPORTED: &[&str] = &[
    "X448",
    "ffdhe2048",
    "ffdhe3072",
    "ffdhe4096",
    "ffdhe6144",
    "ffdhe8192",
    "brainpoolP256r1",
    "brainpoolP384r1",
    "brainpoolP512r1",
    "brainpoolP256r1tls13",
    "brainpoolP384r1tls13",
    "brainpoolP512r1tls13",
    "secp160k1",
    "secp160r1",
    "secp160r2",
    "secp192k1",
    "secp192r1",
    "prime192v1",
    "P-192",
    "secp224k1",
    "secp256k1",
    "sect163k1",
    "sect163r1",
    "sect163r2",
    "sect193r1",
    "sect193r2",
    "sect233k1",
    "sect233r1",
    "sect239k1",
    "sect283k1",
    "sect283r1",
    "sect409k1",
    "sect409r1",
    "sect571k1",
    "sect571r1",
    "K-163",
    "B-163",
    "K-233",
    "B-233",
    "K-283",
    "B-283",
    "K-409",
    "B-409",
    "K-571",
    "B-571",
    "SM2",
    "curveSM2",
    "curveSM2MLKEM768",
];

impl GroupList {
    /// Reads a list separated by `:` (`/`, which separates OpenSSL 3.5's tuples, counts as one).
    /// `auto` and `DEFAULT` stand for [`DEFAULT_GROUPS`]. `?name` is skipped if unknown, `-name`
    /// removes a name, and `*` (the key share to send, which concerns clients) is ignored. Groups
    /// that OpenSSL knows but AWS-LC lacks are skipped with a warning.
    ///
    /// # Errors
    ///
    /// On a name nobody knows, and when nothing is left.
    pub fn parse(text: &str, warnings: &mut Vec<Warning>) -> Result<Self, SettingsError> {
        let mut groups: Vec<Group> = Vec::new();
        add_all(text, text, &mut groups, warnings)?;
        if groups.is_empty() {
            return Err(SettingsError::new(format!(
                "SSL_CTX_set1_curves_list(\"{text}\") failed: AWS-LC supports none of these \
                 groups, use \"{}\"",
                instead_of(text)
            )));
        }
        Ok(Self(groups))
    }

    /// The groups, most preferred first.
    pub fn groups(&self) -> &[Group] {
        &self.0
    }

    pub(crate) fn restrict(&mut self, level: SecurityLevel) -> Result<(), SettingsError> {
        self.0.retain(|group| {
            let known = NAMES.iter().find(|(_, name, _)| *name == group.name);
            known.is_some_and(|(_, _, bits)| level.permits_group_bits(*bits))
        });
        if self.0.is_empty() {
            return Err(SettingsError::new(format!(
                "no key-exchange group is strong enough for @SECLEVEL={}",
                level.number()
            )));
        }
        Ok(())
    }
}

fn add_all(
    text: &str,
    whole: &str,
    groups: &mut Vec<Group>,
    warnings: &mut Vec<Warning>,
) -> Result<(), SettingsError> {
    for item in text.split([':', '/']).filter(|item| !item.is_empty()) {
        let item = item.trim_start_matches('*');
        let (optional, item) = item
            .strip_prefix('?')
            .map_or((false, item), |rest| (true, rest));
        let item = item.trim_start_matches('*');
        if item == "auto" || item.eq_ignore_ascii_case("DEFAULT") {
            add_all(DEFAULT_GROUPS, whole, groups, warnings)?;
        } else if let Some(removed) = item.strip_prefix('-').and_then(find) {
            groups.retain(|group| *group != removed);
        } else if let Some(group) = find(item) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        } else if UNSUPPORTED
            .iter()
            .any(|name| name.eq_ignore_ascii_case(item))
        {
            warnings.push(Warning::new(format!(
                "group \"{item}\" is not offered: AWS-LC does not support it"
            )));
        } else if !optional {
            return Err(SettingsError::new(format!(
                "SSL_CTX_set1_curves_list(\"{whole}\") failed: unknown group \"{item}\""
            )));
        }
    }
    Ok(())
}

/// A group that is supported, in place of a list of which none is.
fn instead_of(text: &str) -> &'static str {
    match text.to_ascii_uppercase().contains("MLKEM") {
        true => "X25519MLKEM768",
        false => "auto",
    }
}

fn find(name: &str) -> Option<Group> {
    let (_, library_name, _) = NAMES
        .iter()
        .find(|(names, _, _)| names.iter().any(|known| known.eq_ignore_ascii_case(name)))?;
    group_by_name(library_name)
}

/// Groups that clients offer and AWS-LC does not have, by OpenSSL's names.
const ELSEWHERE: [(u16, &str); 10] = [
    (22, "secp256k1"),
    (26, "brainpoolP256r1"),
    (27, "brainpoolP384r1"),
    (28, "brainpoolP512r1"),
    (30, "X448"),
    (256, "ffdhe2048"),
    (257, "ffdhe3072"),
    (258, "ffdhe4096"),
    (259, "ffdhe6144"),
    (260, "ffdhe8192"),
];

/// The name nginx prints in `$ssl_curve` and `$ssl_curves`.
pub(crate) fn openssl_name(id: u16) -> Option<&'static str> {
    let Some(group) = sealane_awslc::group_by_id(id) else {
        let known = ELSEWHERE.iter().find(|(known, _)| *known == id);
        return known.map(|(_, name)| *name);
    };
    let (names, _, _) = NAMES.iter().find(|(_, name, _)| *name == group.name)?;
    names.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<&'static str>, SettingsError> {
        let mut warnings = Vec::new();
        GroupList::parse(text, &mut warnings)
            .map(|list| list.groups().iter().map(|group| group.name).collect())
    }

    #[test]
    fn auto_starts_with_the_post_quantum_hybrid() {
        assert_eq!(
            names("auto").expect("valid"),
            ["X25519MLKEM768", "X25519", "P-256", "P-384", "P-521"]
        );
    }

    #[test]
    fn every_spelling_is_known_and_nothing_is_listed_twice() {
        assert_eq!(
            names("P-256:prime256v1:SECP256R1").expect("valid"),
            ["P-256"]
        );
        assert_eq!(
            names("secp384r1:X25519").expect("valid"),
            ["P-384", "X25519"]
        );
    }

    #[test]
    fn a_list_without_a_supported_group_is_refused_with_one_that_is() {
        for (text, instead) in [("curveSM2MLKEM768", "X25519MLKEM768"), ("X448", "auto")] {
            let message = names(text).expect_err("not supported").to_string();
            assert!(
                message.ends_with(&format!("use \"{instead}\"")),
                "{message}"
            );
        }
    }

    #[test]
    fn a_group_that_is_not_a_hybrid_may_stand_alone() {
        assert_eq!(names("mlkem768").expect("valid"), ["MLKEM768"]);
        assert_eq!(
            names("MLKEM1024:X25519MLKEM768").expect("valid"),
            ["MLKEM1024", "X25519MLKEM768"]
        );
        for id in [512, 513, 514] {
            let group = sealane_awslc::group_by_id(id).expect("known");
            assert_eq!(openssl_name(id), Some(group.name));
        }
    }

    #[test]
    fn openssl_35_syntax() {
        assert_eq!(
            names("?*X25519MLKEM768 / ?foo".replace(' ', "").as_str()).expect("valid"),
            ["X25519MLKEM768"]
        );
        assert_eq!(
            names("DEFAULT:-X25519MLKEM768").expect("valid"),
            ["X25519", "P-256", "P-384", "P-521"]
        );
    }

    #[test]
    fn unknown_is_an_error_and_unsupported_a_warning() {
        assert!(names("X25519:foo").is_err());
        let mut warnings = Vec::new();
        let list =
            GroupList::parse("X25519:ffdhe2048:brainpoolP256r1", &mut warnings).expect("valid");
        assert_eq!(list.groups().len(), 1);
        assert_eq!(warnings.len(), 2);
        assert!(names("ffdhe2048").is_err());
    }
}
