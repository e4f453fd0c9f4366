//! Checks a password against an entry of a password file.

use super::{des_crypt, md5_crypt};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::Digest;
use sha_crypt::{PasswordVerifier, ShaCrypt};
use sha1::Sha1;
use subtle::ConstantTimeEq;
use yescrypt::Yescrypt;

/// Whether `password` matches `stored`.
///
/// # Errors
/// The beginning of `stored`, which says in what way it was made, if that is not known here.
pub(super) fn verify(password: &[u8], stored: &[u8]) -> Result<bool, String> {
    if let Some(plain) = stored.strip_prefix(b"{PLAIN}") {
        return Ok(same(password, plain));
    }
    if let Some(encoded) = stored.strip_prefix(b"{SSHA}") {
        return Ok(salted_sha1(password, encoded));
    }
    if let Some(encoded) = stored.strip_prefix(b"{SHA}") {
        let ours = STANDARD.encode(Sha1::digest(password));
        return Ok(same(ours.as_bytes(), encoded));
    }
    for magic in [&b"$apr1$"[..], b"$1$"] {
        if stored.starts_with(magic) {
            return Ok(same(&md5_crypt::crypt(password, magic, stored), stored));
        }
    }
    let text = std::str::from_utf8(stored).unwrap_or_default();
    if text.starts_with("$5$") || text.starts_with("$6$") {
        return Ok(is_verified(&ShaCrypt::default(), password, text));
    }
    if text.starts_with("$y$") {
        return Ok(is_verified(&Yescrypt::default(), password, text));
    }
    if ["$2a$", "$2b$", "$2y$"]
        .iter()
        .any(|kind| text.starts_with(kind))
    {
        return Ok(bcrypt::verify(password, text).unwrap_or(false));
    }
    match des_crypt::crypt(password, stored) {
        Some(ours) => Ok(same(&ours, stored)),
        None => Err(kind(stored)),
    }
}

fn is_verified<V>(verifier: &V, password: &[u8], stored: &str) -> bool
where
    V: PasswordVerifier<mcf::PasswordHashRef>,
{
    let stored = mcf::PasswordHashRef::new(stored);
    stored.is_ok_and(|stored| verifier.verify_password(password, stored).is_ok())
}

/// `{SSHA}`: the digest of the password and a salt, and the salt.
fn salted_sha1(password: &[u8], encoded: &[u8]) -> bool {
    const DIGEST_BYTES: usize = 20;
    let Ok(decoded) = STANDARD.decode(encoded) else {
        return false;
    };
    let Some((digest, salt)) = decoded.split_at_checked(DIGEST_BYTES) else {
        return false;
    };
    let mut ours = Sha1::new();
    ours.update(password);
    ours.update(salt);
    bool::from(ours.finalize().ct_eq(digest))
}

/// Compares in constant time. Not even the length of a password shows.
fn same(ours: &[u8], stored: &[u8]) -> bool {
    bool::from(Sha1::digest(ours).ct_eq(&Sha1::digest(stored))) & (ours.len() == stored.len())
}

/// The part of a stored password that names its scheme, which is no secret.
fn kind(stored: &[u8]) -> String {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let name = stored.strip_prefix(b"$").and_then(|rest| {
        let end = rest.iter().position(|byte| *byte == b'$')?;
        Some(&rest[..end]).filter(|name| matches!(name.len(), 1..=8) && name.iter().all(is_name))
    });
    match name {
        Some(name) => format!("${}$", String::from_utf8_lossy(name)),
        None => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `openssl passwd`, `htpasswd`, `slappasswd` and `mkpasswd`.
    const MADE: &[(&str, &str)] = &[
        ("secret", "{PLAIN}secret"),
        ("", "{PLAIN}"),
        ("secret", "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="),
        ("secret", "$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1"),
        ("secret", "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/"),
        ("secret", "$apr1$x$12YdXEY0/hH4rDNkmZupO0"),
        (
            "secret",
            "$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA",
        ),
        (
            "secret",
            "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1",
        ),
        (
            "a much longer password than sixteen bytes",
            "$apr1$abcdefgh$Eqv4oIyMsS.tjfvQCJYY1/",
        ),
        ("secret", "abNANd1rDfiNc"),
        ("", "./Una9Fi.seRo"),
        ("longerpassword", "zZD2Woh8HqlFk"),
        (
            "secret",
            "$6$rounds=1500$saltstringxyz$32xoQAPoZg8ZXxHDpkYDcLy/O1zAeAxdbBK6NoLOECQsseTR7PtDnhYWFJ/fE/xuWX5hgum7n5jY2jV6Zc3sJ0",
        ),
        (
            "secret",
            "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$GmcwIgvdUC9qLWcKCi6gklUa1dM3ziD43YxYNURLKy0",
        ),
        (
            "secret",
            "$y$j75$abcdefghijklmno.$Pn8sxQPHVTdAnM9GGNj8GPFUmfKJYY0lO2Oh12De2yB",
        ),
        (
            "secret",
            "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
        ),
        (
            "secret",
            "$2a$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
        ),
        (
            "secret",
            "$5$rounds=1000$s$1G5532wclKO2DGU0xcX3Rd6BmCQw9FWjZAp9VdiPyK3",
        ),
        ("secret", "{SSHA}1G904nLkTkGWjKNnQuB/hpWXC/hzYWx0c2FsdA=="),
    ];

    #[test]
    fn passwords_that_other_programs_have_made() {
        for (password, stored) in MADE {
            let verified = verify(password.as_bytes(), stored.as_bytes());
            assert_eq!(verified, Ok(true), "{stored}");
            let wrong = format!("{password}x");
            // DES looks at eight bytes only.
            if password.len() < 8 {
                let verified = verify(wrong.as_bytes(), stored.as_bytes());
                assert_eq!(verified, Ok(false), "{stored}");
            }
            let cut = &stored[..stored.len() - 1];
            if !stored.starts_with("{PLAIN}") {
                let verified = verify(password.as_bytes(), cut.as_bytes());
                assert_ne!(verified, Ok(true), "{cut}");
            }
        }
    }

    #[test]
    fn what_was_made_in_other_ways_is_refused_by_its_name() {
        for (stored, name) in [
            ("$gy$j9T$abc$def", "$gy$"),
            ("$7$DU..../....abc$def", "$7$"),
            ("$sha1$1$a$b", "$sha1$"),
            ("$$", "unknown"),
            ("", "unknown"),
            ("!", "unknown"),
            ("*", "unknown"),
            ("$very-long-secret$", "unknown"),
        ] {
            assert_eq!(
                verify(b"", stored.as_bytes()),
                Err(name.to_owned()),
                "{stored}"
            );
        }
    }

    #[test]
    fn broken_ones_are_nobodys() {
        for stored in [
            "$1$",
            "$apr1$",
            "$5$",
            "$5$rounds=1$",
            "$6$a",
            "$6$a$b",
            "$y$",
            "$y$j9T$",
            "$y$j9T$a$b",
            "$2y$",
            "$2y$05$",
            "$2y$99$abcdefghijklmnopqrstuuabcdefghijklmnopqrstuvwxyz01234",
            "{SHA}",
            "{SSHA}",
            "{SSHA}AAAA",
            "{SSHA}!",
            "ab",
            "abc",
        ] {
            assert_eq!(verify(b"", stored.as_bytes()), Ok(false), "{stored}");
        }
    }
}
