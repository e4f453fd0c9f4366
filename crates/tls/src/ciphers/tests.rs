//! Cipher strings compared with the `openssl` binary: the language, every alias, and strings from
//! configurations in the wild.

use std::process::Command;

use proptest::prelude::*;
use sealane_awslc::{Cipher, KeyKind};

use super::aliases::ALIASES;
use super::table::SUITES;
use super::*;

/// `ssl_ciphers` as found in documentation, generators and distributions.
const FROM_THE_WILD: &[&str] = &[
    // nginx's default, and what its documentation shows.
    "HIGH:!aNULL:!MD5",
    "ALL:!ADH:!EXPORT56:RC4+RSA:+HIGH:+MEDIUM:+LOW:+SSLv2:+EXP",
    "AES128-SHA:AES256-SHA:RC4-SHA:DES-CBC3-SHA:RC4-MD5",
    "HIGH:!ADH:!MD5",
    "ALL:!aNULL:!ADH:!eNULL:!LOW:!EXP:RC4+RSA:+HIGH:+MEDIUM",
    // The tuning study whose configuration must keep working.
    "ECDHE-RSA-AES256-SHA384:AES256-SHA256:RC4:HIGH:!aNULL:!MD5",
    // Mozilla's generator: modern (before TLS 1.3), intermediate, old; 2014 to now.
    "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES256-GCM-SHA384:DHE-RSA-AES128-GCM-SHA256:DHE-DSS-AES128-GCM-SHA256:kEDH+AESGCM:ECDHE-RSA-AES128-SHA256:ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES256-SHA384:ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES256-SHA:ECDHE-ECDSA-AES256-SHA:DHE-RSA-AES128-SHA256:DHE-RSA-AES128-SHA:DHE-DSS-AES128-SHA256:DHE-RSA-AES256-SHA256:DHE-DSS-AES256-SHA:DHE-RSA-AES256-SHA:!aNULL:!eNULL:!EXPORT:!DES:!RC4:!3DES:!MD5:!PSK",
    "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES256-GCM-SHA384:DHE-RSA-AES128-GCM-SHA256:DHE-DSS-AES128-GCM-SHA256:kEDH+AESGCM:ECDHE-RSA-AES128-SHA256:ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES256-SHA384:ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES256-SHA:ECDHE-ECDSA-AES256-SHA:DHE-RSA-AES128-SHA256:DHE-RSA-AES128-SHA:DHE-DSS-AES128-SHA256:DHE-RSA-AES256-SHA256:DHE-DSS-AES256-SHA:DHE-RSA-AES256-SHA:AES128-GCM-SHA256:AES256-GCM-SHA384:AES128-SHA256:AES256-SHA256:AES128-SHA:AES256-SHA:AES:CAMELLIA:DES-CBC3-SHA:!aNULL:!eNULL:!EXPORT:!DES:!RC4:!MD5:!PSK:!aECDH:!EDH-DSS-DES-CBC3-SHA:!EDH-RSA-DES-CBC3-SHA:!KRB5-DES-CBC3-SHA",
    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA256",
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA256:ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES256-SHA384:ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES256-SHA:ECDHE-RSA-AES256-SHA:DHE-RSA-AES128-SHA256:DHE-RSA-AES128-SHA:DHE-RSA-AES256-SHA256:DHE-RSA-AES256-SHA:ECDHE-ECDSA-DES-CBC3-SHA:ECDHE-RSA-DES-CBC3-SHA:EDH-RSA-DES-CBC3-SHA:AES128-GCM-SHA256:AES256-GCM-SHA384:AES128-SHA256:AES256-SHA256:AES128-SHA:AES256-SHA:DES-CBC3-SHA:!DSS",
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384:DHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384:DHE-RSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA256:ECDHE-ECDSA-AES128-SHA:ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES256-SHA384:ECDHE-ECDSA-AES256-SHA:ECDHE-RSA-AES256-SHA:DHE-RSA-AES128-SHA256:DHE-RSA-AES256-SHA256:AES128-GCM-SHA256:AES256-GCM-SHA384:AES128-SHA256:AES256-SHA256:AES128-SHA:AES256-SHA:DES-CBC3-SHA",
    "@SECLEVEL=0:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:AES128-SHA:DES-CBC3-SHA",
    // Cloudflare, with its equal-preference groups spelled out by those without them.
    "EECDH+CHACHA20:EECDH+AES128:RSA+AES128:EECDH+AES256:RSA+AES256:EECDH+3DES:RSA+3DES:!MD5",
    "EECDH+CHACHA20-draft:EECDH+AES128:RSA+AES128:EECDH+AES256:RSA+AES256:EECDH+3DES:RSA+3DES:!MD5",
    "EECDH+ECDSA+AES128+SHA:EECDH+aRSA+AES128+SHA:RSA+AES128+SHA",
    // cipherli.st and its descendants.
    "EECDH+AESGCM:EDH+AESGCM",
    "EECDH+AESGCM:EDH+AESGCM:AES256+EECDH:AES256+EDH",
    "AES256+EECDH:AES256+EDH:!aNULL",
    "AES256+EECDH:AES256+EDH",
    "ECDHE-RSA-AES256-GCM-SHA512:DHE-RSA-AES256-GCM-SHA512:ECDHE-RSA-AES256-GCM-SHA384:DHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-SHA384",
    "EECDH:+AES256:-3DES:RSA+AES:!NULL:!RC4",
    "EECDH+AES:+ECDHE-RSA-AES128-SHA",
    // Ivan Ristic's, and the long list of 2013 to 2016 with its exclusions.
    "EECDH+ECDSA+AESGCM EECDH+aRSA+AESGCM EECDH+ECDSA+SHA384 EECDH+ECDSA+SHA256 EECDH+aRSA+SHA384 EECDH+aRSA+SHA256 EECDH+aRSA+RC4 EECDH EDH+aRSA RC4 !aNULL !eNULL !LOW !3DES !MD5 !EXP !PSK !SRP !DSS",
    "EECDH+ECDSA+AESGCM:EECDH+aRSA+AESGCM:EECDH+ECDSA+SHA384:EECDH+ECDSA+SHA256:EECDH+aRSA+SHA384:EECDH+aRSA+SHA256:EECDH:EDH+aRSA:!aNULL:!eNULL:!LOW:!3DES:!MD5:!EXP:!PSK:!SRP:!DSS:!RC4",
    "kEECDH+ECDSA+AES128 kEECDH+ECDSA+AES256 kEECDH+AES128 kEECDH+AES256 kEDH+AES128 kEDH+AES256 DES-CBC3-SHA +SHA !aNULL !eNULL !LOW !kECDH !DSS !MD5 !RC4 !EXP !PSK !SRP !CAMELLIA !SEED",
    "ECDH+AESGCM:DH+AESGCM:ECDH+AES256:DH+AES256:ECDH+AES128:DH+AES:ECDH+3DES:DH+3DES:RSA+AESGCM:RSA+AES:RSA+3DES:!aNULL:!MD5:!DSS",
    "ECDH+AESGCM:ECDH+AES256:ECDH+AES128:DH+3DES:!ADH:!AECDH:!MD5",
    "ECDH+AESGCM:ECDH+CHACHA20:DH+AESGCM:DH+CHACHA20:ECDH+AES256:DH+AES256:ECDH+AES128:DH+AES:RSA+AESGCM:RSA+AES:!aNULL:!MD5:!DSS:!SHA1",
    "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:DHE+CHACHA20:!aNULL:!MD5:!DSS",
    "ECDHE+AESGCM:DHE+AESGCM:ECDHE+AES256:DHE+AES256:ECDHE+AES128:DHE+AES:+HIGH:!aNULL:!eNULL:!kRSA",
    // Control panels and distributions.
    "EECDH+AESGCM+AES128:EECDH+AESGCM+AES256:EECDH+CHACHA20:EDH+AESGCM+AES128:EDH+AESGCM+AES256:EDH+CHACHA20:EECDH+SHA256+AES128:EECDH+SHA384+AES256:EDH+SHA256+AES128:EDH+SHA256+AES256:EECDH+SHA1+AES128:EECDH+SHA1+AES256:EDH+SHA1+AES128:EDH+SHA1+AES256:EECDH+HIGH:EDH+HIGH:AESGCM+AES128:AESGCM+AES256:CHACHA20:SHA256+AES128:SHA256+AES256:SHA1+AES128:SHA1+AES256:HIGH:!aNULL:!eNULL:!EXPORT:!DES:!MD5:!PSK:!RC4:!CAMELLIA",
    "HIGH:!aNULL:!MD5:!3DES:!CAMELLIA:!AES128",
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:ECDHE+AESGCM:ECDHE+AES256:!SHA1:!kRSA:!aNULL",
    "PROFILE=SYSTEM:HIGH",
    "HIGH:MEDIUM:!SSLv2:!PSK:!SRP:!ADH:!AECDH",
    "HIGH:!SSLv2:!ADH:!aNULL:!eNULL:!NULL",
    "DEFAULT:!EXP:!SSLv2:!DES:!IDEA:!SEED:+3DES",
    "ALL:+HIGH:!ADH:!EXP:!SSLv2:!SSLv3:!MEDIUM:!LOW:!NULL:!aNULL",
    "DEFAULT@SECLEVEL=1",
    "DEFAULT@SECLEVEL=2:!kRSA",
    "ALL:@SECLEVEL=0",
    "DEFAULT",
    "ALL:!aNULL:!eNULL:@STRENGTH",
    "HIGH:!aNULL:@STRENGTH",
    "TLSv1.2:!aNULL:!eNULL",
    "TLSv1.2+FIPS:kRSA+FIPS:!eNULL:!aNULL",
    "FIPS:!aNULL:!eNULL",
    "AESGCM:!aNULL",
    "!NULL:!ADH:ALL",
    "HIGH",
    // S3-style lists with TLS 1.3 names in them, as many tutorials have.
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256",
    "TLS13-AES-256-GCM-SHA384:TLS13-CHACHA20-POLY1305-SHA256:TLS13-AES-128-GCM-SHA256:EECDH+CHACHA20:EECDH+AESGCM:!MD5",
    "ECDHE-RSA-AES128-GCM-SHA256,ECDHE-RSA-AES256-GCM-SHA384;AES128-SHA AES256-SHA",
    "AES256-GCM-SHA384:AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE:DHE:kGOST:!aNULL:!eNULL:!RC4:!MD5:!3DES:!AES128:!CAMELLIA128:!ECDHE-RSA-AES256-SHA:!ECDHE-ECDSA-AES256-SHA",
];

/// Corners of the language.
const CORNERS: &[&str] = &[
    "",
    ":",
    "::HIGH::",
    "NOSUCH",
    "NOSUCH:AES128-SHA",
    "AES128-SHA:-AES128-SHA",
    "AES128-SHA:!AES128-SHA:AES128-SHA",
    "HIGH:-AES:AES128-SHA",
    "HIGH:-kRSA:kRSA",
    "RSA+AES+SHA1",
    "kRSA+ECDHE",
    "AES128+AES256",
    "+AES",
    "HIGH:+RSA+AES",
    "HIGH:+NOSUCH",
    "AES+",
    "AES+:AES256-SHA",
    "AES++SHA",
    "ALL+HIGH",
    "COMPLEMENTOFALL",
    "ALL:COMPLEMENTOFALL",
    "DEFAULT:COMPLEMENTOFDEFAULT",
    "DEFAULTX",
    "DEFAULTAES128-SHA",
    "AES128-SHA:DEFAULT",
    "!DEFAULT:AES128-SHA",
    "@STRENGTH",
    "HIGH@STRENGTH",
    "HIGH:@NOSUCH",
    "HIGH:@SECLEVEL=6",
    "HIGH:@SECLEVEL=",
    "HIGH:@SECLEVEL=12",
    "@SECLEVEL=1:HIGH",
    "HIGH:@STRENGTH+AES",
    "@STRENGTHX:HIGH",
    "HIGH:%",
    "%:HIGH",
    "HIGH:AES%128",
    "HIGH:-%",
    "TLSv1.2+AES",
    "TLSv1.2+SSLv3",
    "SSLv3+TLSv1.2+AES",
    "TLSv1+AES",
    "TLSv1.0",
    "TLSv1.1:AES128-SHA",
    "SSLv3",
    "AES128-SHA+HIGH",
    "HIGH+AES128-SHA",
    "AES128-SHA+AES256-SHA",
    "AES128-SHA+TLSv1.2",
    "TLSv1.2+AES128-SHA",
    "aes128-sha",
    "high",
    "AES128-SHA:aes",
    "HIGH !aNULL",
    "HIGH,!aNULL;!PSK",
    "HIGH : !aNULL",
    "ECDHE_RSA",
    "NULL",
    "eNULL:!aNULL",
    "PSK",
    "kPSK",
    "SRP",
    "CAMELLIA256+SHA256",
    "CBC",
    "CBC:!SHA1",
    "FIPS+AES256",
    "LOW",
    "MEDIUM",
    "EXPORT:HIGH",
    "SUITEB128",
    "SUITEB128ONLY:HIGH",
    "SUITEB192",
    "SUITEB128C2",
    "HIGH:SUITEB128",
    "AESCCM8:AESCCM",
    "ARIA",
    "DSS",
    "aECDSA+SHA384",
    "3DES:RC4:SEED:IDEA:AES128-SHA",
    "TLS_AES_128_GCM_SHA256",
    "HIGH:!TLS_AES_128_GCM_SHA256",
    ":-AES128-SHA:HIGH",
    "AES:+SHA1:-SHA256:SHA256",
];

/// What `openssl ciphers` prints, TLS 1.3 suites left out; `Err` when it refuses.
fn openssl_ciphers(arguments: &[&str]) -> Result<Vec<String>, ()> {
    let output = Command::new("openssl")
        .arg("ciphers")
        .args(arguments)
        .env("OPENSSL_CONF", "/dev/null")
        .output()
        .expect("openssl is installed (scripts/install-test-deps.sh)");
    if !output.status.success() {
        return Err(());
    }
    let names = String::from_utf8(output.stdout).expect("suite names are ASCII");
    let is_tls13 = |name: &&str| TLS13_SUITES.iter().any(|(_, tls13)| tls13 == name);
    Ok(names
        .trim()
        .split(':')
        .filter(|name| !is_tls13(name))
        .map(str::to_owned)
        .collect())
}

/// The table is OpenSSL 3.0's; another version may know more or fewer suites, so
/// with it only those AWS-LC has are compared.
fn binary_is_the_reference() -> bool {
    let version = Command::new("openssl").arg("version").output();
    version.is_ok_and(|output| output.stdout.starts_with(b"OpenSSL 3.0."))
}

fn ours(text: &str) -> Result<Vec<String>, ()> {
    let list = CipherList::parse(text).map_err(|_| ())?;
    Ok(list
        .suites()
        .iter()
        .map(|suite| suite.name.to_owned())
        .collect())
}

fn known_to_awslc(names: Vec<String>) -> Vec<String> {
    names
        .into_iter()
        .filter(|name| {
            sealane_awslc::all_ciphers()
                .iter()
                .any(|cipher| cipher.name() == name)
        })
        .collect()
}

fn assert_same(text: &str, whole: bool) {
    let theirs = openssl_ciphers(&[text]);
    let ours = ours(text);
    if whole {
        assert_eq!(ours, theirs, "{text:?}");
    }
    assert_eq!(
        ours.map(known_to_awslc).unwrap_or_default(),
        theirs.map(known_to_awslc).unwrap_or_default(),
        "{text:?}, suites of AWS-LC"
    );
}

#[test]
fn strings_from_the_wild_select_what_openssl_selects() {
    assert!(FROM_THE_WILD.len() >= 50);
    let whole = binary_is_the_reference();
    for text in FROM_THE_WILD {
        assert_same(text, whole);
    }
}

#[test]
fn corners_of_the_language_are_openssls() {
    let whole = binary_is_the_reference();
    for text in CORNERS {
        assert_same(text, whole);
    }
}

#[test]
fn every_alias_selects_what_openssl_selects() {
    let whole = binary_is_the_reference();
    for (alias, _) in ALIASES {
        assert_same(alias, whole);
        assert_same(&format!("ALL:COMPLEMENTOFALL:!{alias}"), whole);
        assert_same(&format!("ALL:+{alias}"), whole);
    }
    // Words of which OpenSSL's default build has no suites.
    for gone in [
        "3DES",
        "RC4",
        "RC2",
        "IDEA",
        "SEED",
        "DES",
        "GOST89",
        "GOST94",
        "GOST89MAC",
        "GOST12",
        "aGOST",
        "kGOST",
        "EXP",
    ] {
        for text in [
            gone.to_string(),
            format!("ALL:!{gone}"),
            format!("ALL:{gone}+"),
            format!("AES:RSA+{gone}:-{gone}"),
        ] {
            assert_same(&text, whole);
        }
    }
}

#[test]
fn security_levels_permit_what_openssl_permits() {
    for level in 0..=5 {
        for text in [
            "ALL:!PSK:!SRP:!kRSAPSK",
            "HIGH:!PSK:!SRP:!aNULL",
            "kRSA:ECDHE:!PSK",
        ] {
            let text = format!("{text}:@SECLEVEL={level}");
            let theirs = openssl_ciphers(&["-s", "-tls1_2", &text]);
            let list = CipherList::parse(&text).expect("valid");
            let ours: Vec<String> = list
                .supported()
                .map(|suites| suites.iter().map(|suite| suite.name.to_owned()).collect())
                .unwrap_or_default();
            let theirs = known_to_awslc(theirs.unwrap_or_default());
            assert_eq!(ours, theirs, "{text:?}");
        }
    }
}

#[test]
fn key_sizes_by_level() {
    let level = SecurityLevel::new;
    assert!(level(2).permits_key(KeyKind::Rsa, 2048));
    assert!(!level(2).permits_key(KeyKind::Rsa, 1024));
    assert!(!level(3).permits_key(KeyKind::Rsa, 2048));
    assert!(level(3).permits_key(KeyKind::EcP256, 256));
    assert!(!level(4).permits_key(KeyKind::EcP256, 256));
    assert!(level(0).permits_key(KeyKind::Rsa, 512));
}

#[test]
fn the_table_is_sorted_and_agrees_with_awslc() {
    assert!(SUITES.windows(2).all(|pair| pair[0].id < pair[1].id));
    let mut common = 0;
    for suite in &SUITES {
        let Some(cipher) = Cipher::by_id(suite.id) else {
            continue;
        };
        common += 1;
        assert_eq!(
            (cipher.name(), cipher.standard_name()),
            (suite.name, suite.standard_name)
        );
        assert_eq!(
            cipher.strength_bits(),
            suite.strength_bits(),
            "{}",
            suite.name
        );
        assert_eq!(
            cipher.min_version() == 0x0303,
            suite.needs_tls12(),
            "{}",
            suite.name
        );
    }
    // AWS-LC's suites that OpenSSL's default build does not have: 3DES, and the
    // three of TLS 1.3, which are not in this table.
    assert_eq!(common + 4, sealane_awslc::all_ciphers().len());
}

#[test]
fn errors_say_what_is_wrong() {
    assert_eq!(
        CipherList::parse("HIGH:@FOO"),
        Err(CipherStringError::InvalidCommand)
    );
    assert_eq!(
        CipherList::parse("RC4"),
        Err(CipherStringError::NoCipherMatch)
    );
    let dhe_only = CipherList::parse("DHE-RSA-AES128-SHA").expect("OpenSSL knows it");
    assert_eq!(dhe_only.supported(), Err(CipherStringError::NoneSupported));
}

/// OpenSSL 3.2 and later take IANA names; Debian's 3.0 does not yet.
#[test]
fn iana_names_are_names_too() {
    let list =
        CipherList::parse("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:TLS_RSA_WITH_AES_256_CBC_SHA")
            .expect("valid");
    let names: Vec<&str> = list.suites().iter().map(|suite| suite.name).collect();
    assert_eq!(names, ["ECDHE-RSA-AES128-GCM-SHA256", "AES256-SHA"]);
}

#[test]
fn names_of_offered_suites() {
    assert_eq!(suite_name(0x1301), Some("TLS_AES_128_GCM_SHA256"));
    assert_eq!(suite_name(0xC02F), Some("ECDHE-RSA-AES128-GCM-SHA256"));
    assert_eq!(suite_name(0x1A1A), None);
}

proptest! {
    #[test]
    fn any_text_is_read_without_panicking(text in "\\PC{0,60}") {
        fuzz_cipher_string(&text);
    }

    #[test]
    fn random_strings_of_real_words_give_each_suite_once(
        words in proptest::collection::vec((0..ALIASES.len(), "[-+!]?", "[:+ ]"), 0..12)
    ) {
        let text: String = words.iter().map(|(at, operator, end)| format!("{operator}{}{end}", ALIASES[*at].0)).collect();
        fuzz_cipher_string(&text);
    }
}

/// Slow, because every case starts a process: `cargo test -- --ignored`.
#[test]
#[ignore = "starts a thousand processes; part of make test-long"]
fn random_strings_select_what_openssl_selects() {
    let whole = binary_is_the_reference();
    let words = (0..ALIASES.len() + SUITES.len(), "[-+!]?", "[:+]");
    let strings = proptest::collection::vec(words, 1..9);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(1000));
    let outcome = runner.run(&strings, |items| {
        let word = |at: usize| {
            ALIASES
                .get(at)
                .map_or_else(|| SUITES[at - ALIASES.len()].name, |(name, _)| *name)
        };
        let text: String = items
            .iter()
            .map(|(at, operator, end)| format!("{operator}{}{end}", word(*at)))
            .collect();
        // The colon keeps `-NAME` from being taken for an option of the binary.
        assert_same(&format!(":{text}"), whole);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
