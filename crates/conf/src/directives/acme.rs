//! ngx_http_acme_module, and DNS-01 beyond it.

mod dns;

use super::{ACME_ISSUER, Arity, Check, HTTP, Module, ONE, Row, SERVER, SetterOf};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault, shown};
use crate::draft::{AcmeCertificateDraft, AcmeIssuerDraft};
use crate::model::{
    AcmeAccountKey, AcmeChallenge, AcmeIdentifier, AcmeIssuer, AcmeKey, AcmeProfile,
    ExternalAccount, ExternalAccountKey, Origin, ServerName, is_dns_name,
};
use crate::values;
use std::path::Path;
use std::sync::Arc;

const NONE: Arity = Arity::Between(0, 0);

/// The smallest `acme_shared_zone`, as in nginx: eight memory pages.
const MIN_ZONE_BYTES: u64 = 8 * 4096;

/// The longest name of an issuer, in bytes: it becomes a part of a file's name.
const MAX_ISSUER_NAME_BYTES: usize = 64;

/// Identifiers of one certificate: more than any public server takes.
const MAX_IDENTIFIERS: usize = 256;

pub(super) const MODULE: Module = Module {
    title: "TLS: certificates by ACME",
    doc: "Certificates that are ordered from an ACME server (RFC 8555), renewed in time and \
          served without a reload. Until the first one is there, a self-signed one is served. All \
          nodes with the same `ssl_session_store` share account, orders, challenges and \
          certificates. See [certificates.md](certificates.md#acme).",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::block(
        "acme_issuer",
        HTTP,
        ONE,
        "An account with an ACME server, by a name that `acme_certificate` refers to.",
        acme_issuer,
    ),
    Row::new(
        "uri",
        ACME_ISSUER,
        ONE,
        "",
        "URL of the ACME server's directory; it begins with `https://`. Required.",
        uri,
    ),
    Row::new(
        "account_key",
        ACME_ISSUER,
        ONE,
        "ecdsa:256",
        "The key of the account: a kind that is generated, one of `ecdsa:256`, `ecdsa:384`, \
         `ecdsa:521`, `rsa:2048`, `rsa:3072` and `rsa:4096`, or a PEM file.",
        account_key,
    ),
    Row::new(
        "challenge",
        ACME_ISSUER,
        ONE,
        "http-01",
        "How the ACME server verifies identifiers: `http-01` needs a plain `listen` that it \
         reaches at port 80, `tls-alpn-01` one with `ssl` at port 443, `dns-01` a TXT record, \
         which `dns_update` or `dns_command` makes or `dns_listen` answers; only `dns-01` verifies wildcards.",
        challenge,
    ),
    Row::new(
        "common_name_in_csr",
        ACME_ISSUER,
        ONE,
        "off",
        "Whether the first identifier is also the common name in the certificate request.",
        |b, c| c.flag(&mut b.acme_issuer().common_name_in_csr),
    ),
    Row::new(
        "contact",
        ACME_ISSUER,
        ONE,
        "",
        "URL at which the ACME server reaches the operator; without a scheme, `mailto:` is meant. \
         May be given several times.",
        contact,
    ),
    Row::new(
        "external_account_key",
        ACME_ISSUER,
        Arity::Between(2, 2),
        "",
        "Name and key of an account outside of ACME that the new one is to be linked to. The key \
         is in base64url, in a file or after `data:`.",
        external_account_key,
    ),
    Row::new(
        "preferred_chain",
        ACME_ISSUER,
        ONE,
        "",
        "If the ACME server offers several chains, the one whose topmost certificate was issued \
         by this common name is taken.",
        |b, c| {
            let name = c.text(1)?.to_owned();
            c.once(&b.acme_issuer().preferred_chain)?;
            b.acme_issuer().preferred_chain = Some(name);
            Ok(())
        },
    ),
    Row::new(
        "profile",
        ACME_ISSUER,
        Arity::Between(1, 2),
        "",
        "The certificate profile to order. If the ACME server does not have it, the default one \
         is ordered, or with `require` none.",
        profile,
    ),
    Row::new(
        "ssl_trusted_certificate",
        ACME_ISSUER,
        ONE,
        "",
        "PEM file with the CA certificates that verify the ACME server; by default those of the \
         system.",
        |b, c| {
            let path = b.options.beside_conf(c.path(1));
            c.once(&b.acme_issuer().trusted_certificate)?;
            b.acme_issuer().trusted_certificate = Some(path);
            Ok(())
        },
    ),
    Row::new(
        "ssl_verify",
        ACME_ISSUER,
        ONE,
        "on",
        "Whether the certificate of the ACME server is verified.",
        |b, c| c.flag(&mut b.acme_issuer().verify),
    ),
    Row::new(
        "state_path",
        ACME_ISSUER,
        ONE,
        "",
        "Directory that keeps the account and the certificates with their keys across restarts; \
         by default `acme_NAME` below the prefix. `off` keeps nothing: each start then orders \
         again.",
        state_path,
    ),
    Row::new(
        "accept_terms_of_service",
        ACME_ISSUER,
        NONE,
        "",
        "Agrees to the terms of service of the ACME server. If it requires that, the log has \
         their URL.",
        |b, c| {
            c.once(&b.acme_issuer().terms_accepted)?;
            b.acme_issuer().terms_accepted = Some(());
            Ok(())
        },
    ),
    Row::new(
        "dns_update",
        ACME_ISSUER,
        Arity::Between(1, 4),
        "",
        "Makes the TXT records of `dns-01` by dynamic updates (RFC 2136): address of the primary \
         server, with the port if it is not 53; `zone=` if the server is not to be asked for it; \
         `key=` a file with a TSIG key, as `tsig-keygen` writes it; `wait=` how long the zone's \
         other servers may need to learn of a record (default 5s). Aliases (CNAME) of the name \
         are followed through `resolver`, if there is one.",
        dns::update,
    )
    .own(),
    Row::new(
        "dns_command",
        ACME_ISSUER,
        Arity::Between(1, 5),
        "",
        "Makes the TXT records of `dns-01` by a program, whose path is absolute; it is run as \
         `PROGRAM add|remove NAME VALUE` by the master process. `user=` as whom it runs, by \
         default the user of the worker process; `zone=` a zone into which aliases (CNAME) of \
         the name may lead, which are then followed through `resolver`; `timeout=` after which it \
         is killed (default 60s, at most 600s); `wait=` as for `dns_update` (default 5s).",
        dns::command,
    )
    .own(),
    Row::new(
        "dns_listen",
        ACME_ISSUER,
        Arity::AtLeast(1),
        "",
        "Answers the questions for the TXT records of `dns-01` itself, over UDP and TCP, at these \
         addresses, with the port if it is not 53. `ns=` what NS records call this server; `zone=` \
         the zone that they delegate to it, with a name for each identifier, into which \
         `_acme-challenge.` of the identifier is an alias (CNAME). `_acme-challenge.` of each \
         identifier can also be delegated itself.",
        dns::listen,
    )
    .own(),
    Row::meaningless(
        "acme_shared_zone",
        HTTP,
        ONE,
        Check::By(SetterOf(acme_shared_zone)),
        "Certificates and challenges are kept in the memory of the one worker process.",
    ),
    Row::new(
        "acme_certificate",
        SERVER,
        Arity::AtLeast(1),
        "",
        "The issuer of the server's certificate, and the names and addresses that it is for; by \
         default those of `server_name`. `key=` is the kind of its key, as in `account_key`; \
         default `ecdsa:256`. The certificate is used with `ssl_certificate $acme_certificate` \
         and `ssl_certificate_key $acme_certificate_key`.",
        acme_certificate,
    ),
];

fn acme_issuer(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let name = c.text(1)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let fits = (1..=MAX_ISSUER_NAME_BYTES).contains(&name.len()) && !name.starts_with('.');
    if !fits || !name.bytes().all(is_plain) {
        return Err(c.invalid(1).help(
            "the name becomes a part of a file's name: up to 64 letters, digits, \"-\", \"_\" and \
             \".\"",
        ));
    }
    if b.http.acme_issuers.iter().any(|known| known.name == name) {
        return Err(c.refuse("is duplicate"));
    }
    b.opening = Some(Opening::AcmeIssuer(Box::new(AcmeIssuerDraft {
        name: name.to_owned(),
        ..AcmeIssuerDraft::new(c.origin.clone())
    })));
    Ok(())
}

/// At the end of an `acme_issuer` block.
pub(crate) fn end_acme_issuer(b: &mut Build<'_>) -> Result<(), Fault> {
    let Some(draft) = b.http.open_acme_issuer.take() else {
        return Ok(());
    };
    let name = draft.name;
    let uri = draft.uri.ok_or_else(|| {
        Fault::new(format!("\"uri\" is missing in acme_issuer \"{name}\""))
            .help("it is the URL of the ACME server's directory")
    })?;
    let challenge = draft.challenge.unwrap_or(AcmeChallenge::Http01);
    let is_dns = challenge == AcmeChallenge::Dns01;
    match &draft.dns {
        None if is_dns => {
            let message = format!("\"challenge dns-01\" of acme_issuer \"{name}\" has no records");
            return Err(Fault::new(message).help(
                "\"dns_update\" says which server takes dynamic updates, \"dns_command\" which \
                 program makes records; with \"dns_listen\" they are answered here",
            ));
        }
        Some(dns) if !is_dns => {
            let directive = dns.directive();
            let message = format!("\"{directive}\" of acme_issuer \"{name}\" without \"dns-01\"");
            return Err(Fault::new(message).help("write \"challenge dns-01\" as well"));
        }
        _ => {}
    }
    let state_path = match draft.state_path {
        Some(path) => path,
        None => Some(b.options.under_prefix(Path::new(&format!("acme_{name}")))),
    };
    let taken = b.http.acme_issuers.iter().find(|known| {
        known.state_path.is_some() && known.state_path == state_path // each has its own account
    });
    if let Some(other) = taken {
        return Err(Fault::new(format!(
            "acme_issuer \"{name}\" has the \"state_path\" of \"{}\"",
            other.name
        )));
    }
    b.http.acme_issuers.push(Arc::new(AcmeIssuer {
        name,
        uri,
        account_key: draft
            .account_key
            .unwrap_or(AcmeAccountKey::Generated(AcmeKey::default())),
        challenge,
        common_name_in_csr: draft.common_name_in_csr.unwrap_or(false),
        contacts: draft.contacts,
        external_account: draft.external_account,
        preferred_chain: draft.preferred_chain,
        profile: draft.profile,
        trusted_certificate: draft.trusted_certificate,
        verify: draft.verify.unwrap_or(true),
        state_path,
        terms_accepted: draft.terms_accepted.is_some(),
        dns: draft.dns,
        origin: draft.origin,
    }));
    Ok(())
}

fn uri(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let uri = c.text(1)?;
    let rest = uri.strip_prefix("https://").ok_or_else(|| {
        c.invalid(1)
            .help("it begins with \"https://\": ACME is spoken over TLS only (RFC 8555)")
    })?;
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let is_printable = uri.bytes().all(|byte| byte.is_ascii_graphic());
    if host.is_empty() || host.contains('@') || !is_printable || uri.contains('#') {
        return Err(c.invalid(1));
    }
    c.once(&b.acme_issuer().uri)?;
    b.acme_issuer().uri = Some(uri.to_owned());
    Ok(())
}

/// `ecdsa`, `rsa:3072` and so on; `None` for anything else.
fn generated_key(c: &Call<'_>, index: usize, word: &str) -> Result<Option<AcmeKey>, Fault> {
    let (kind, size) = match word.split_once(':') {
        Some((kind, size)) => (kind, Some(size)),
        None => (word, None),
    };
    let default = match kind {
        "ecdsa" => "256",
        "rsa" => "2048",
        _ => return Ok(None),
    };
    let wanted = format!("{kind}:{}", size.unwrap_or(default));
    let found = AcmeKey::ALL.iter().find(|(name, _)| *name == wanted);
    let (_, key) = found.ok_or_else(|| {
        let names: Vec<_> = AcmeKey::ALL.iter().map(|(name, _)| *name).collect();
        c.invalid(index)
            .help(format!("it can be {}", names.join(", ")))
    })?;
    Ok(Some(*key))
}

fn account_key(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.acme_issuer().account_key)?;
    let key = match generated_key(c, 1, c.text(1)?)? {
        Some(key) => AcmeAccountKey::Generated(key),
        None => AcmeAccountKey::File(b.options.beside_conf(c.path(1))),
    };
    b.acme_issuer().account_key = Some(key);
    Ok(())
}

fn challenge(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    use AcmeChallenge::{Dns01, Http01, TlsAlpn01};
    c.choice(
        &mut b.acme_issuer().challenge,
        &[
            ("http-01", Http01),
            ("http", Http01),
            ("tls-alpn-01", TlsAlpn01),
            ("tls-alpn", TlsAlpn01),
            ("dns-01", Dns01),
            ("dns", Dns01),
        ],
    )
}

fn contact(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let written = c.text(1)?;
    if written.is_empty() {
        return Err(c.invalid(1));
    }
    let has_scheme = written.split_once(':').is_some_and(|(scheme, _)| {
        let rest = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(rest)
    });
    let url = match has_scheme {
        true => written.to_owned(),
        false => format!("mailto:{written}"),
    };
    b.acme_issuer().contacts.push(url);
    Ok(())
}

fn external_account_key(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.acme_issuer().external_account)?;
    let (kid, key) = (c.text(1)?.to_owned(), c.text(2)?);
    if kid.is_empty() || key.is_empty() {
        return Err(c.refuse("invalid value"));
    }
    let key = match key.strip_prefix("data:") {
        Some(key) => {
            let of_base64url = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte);
            let key = key.trim();
            if key.is_empty() || !key.bytes().all(of_base64url) {
                return Err(c.refuse_arg(2, "invalid base64url encoded value"));
            }
            ExternalAccountKey::Inline(key.to_owned())
        }
        None => ExternalAccountKey::File(b.options.beside_conf(c.path(2))),
    };
    b.acme_issuer().external_account = Some(ExternalAccount { kid, key });
    Ok(())
}

fn profile(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.acme_issuer().profile)?;
    let is_required = match c.arg(2) {
        b"" => false,
        b"require" => true,
        _ => return Err(c.refuse_arg(2, "invalid value")),
    };
    let name = c.text(1)?.to_owned();
    b.acme_issuer().profile = Some(AcmeProfile { name, is_required });
    Ok(())
}

fn state_path(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.acme_issuer().state_path)?;
    let path = (c.arg(1) != b"off").then(|| b.options.under_prefix(c.path(1)));
    b.acme_issuer().state_path = Some(path);
    Ok(())
}

fn acme_shared_zone(_: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let word = c.arg(1);
    let invalid = || Fault::at(1, format!("invalid zone size \"{}\"", shown(word)));
    let rest = word
        .strip_prefix(b"zone=")
        .ok_or_else(|| c.invalid_parameter(1))?;
    let colon = rest.iter().position(|byte| *byte == b':');
    let colon = colon.filter(|at| *at > 0).ok_or_else(invalid)?;
    let bytes = values::size(&rest[colon + 1..]).ok_or_else(invalid)?;
    match bytes < MIN_ZONE_BYTES {
        true => Err(Fault::at(
            1,
            format!("zone \"{}\" is too small", shown(&rest[..colon])),
        )),
        false => Ok(()),
    }
}

fn acme_certificate(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.server().acme_certificate)?;
    let mut draft = AcmeCertificateDraft {
        issuer: c.text(1)?.to_owned(),
        identifiers: Vec::new(),
        key: None,
        origin: c.origin.clone(),
    };
    for (index, word) in c.args().skip(1) {
        let word = c.utf8(index, word)?;
        if let Some(kind) = word.strip_prefix("key=") {
            if draft.key.is_some() {
                return Err(c.invalid_parameter(index));
            }
            let key = generated_key(c, index, kind)?;
            draft.key = Some(key.ok_or_else(|| c.invalid_parameter(index))?);
            continue;
        }
        let found = identifiers_of(word).ok_or_else(|| {
            Fault::at(index, format!("invalid identifier \"{word}\"")).help(
                "it is a name of letters, digits and hyphens (xn--... for others), perhaps with \
                 \"*.\" in front, or an address",
            )
        })?;
        draft.identifiers.extend(found);
    }
    b.server().acme_certificate = Some(draft);
    Ok(())
}

/// What a word of `acme_certificate` or `server_name` asks a certificate for. As in nginx, a name
/// with a dot in front means itself and `www.` of it.
fn identifiers_of(word: &str) -> Option<Vec<AcmeIdentifier>> {
    if let Ok(address) = word.parse() {
        return Some(vec![AcmeIdentifier::Ip(address)]);
    }
    let name = word.to_ascii_lowercase();
    if let Some(name) = name.strip_prefix('.') {
        let both = [format!("www.{name}"), name.to_owned()];
        let valid = both.iter().all(|name| is_dns_name(name));
        return valid.then(|| both.map(AcmeIdentifier::Dns).to_vec());
    }
    let bare = name.strip_prefix("*.").unwrap_or(&name);
    is_dns_name(bare).then(|| vec![AcmeIdentifier::Dns(name)])
}

/// What `acme_certificate` without identifiers asks for: the names of the server.
pub(crate) fn identifiers_of_names(
    names: &[ServerName],
    origin: &Origin,
) -> Result<Vec<AcmeIdentifier>, Fault> {
    let mut found = Vec::new();
    for name in names {
        let written = match name {
            ServerName::Exact(name) if name.is_empty() => continue,
            ServerName::Exact(name) | ServerName::Dot(name) => name.clone(),
            ServerName::WildcardPrefix(suffix) => format!("*{suffix}"),
            ServerName::WildcardSuffix(prefix) => format!("{prefix}*"),
            ServerName::Regex(_) => {
                let message = "\"acme_certificate\" cannot tell names from a regular expression";
                return Err(Fault::earlier(origin, message)
                    .help("write the names of the certificate after its issuer"));
            }
        };
        let identifiers = identifiers_of(&written).ok_or_else(|| {
            let message = format!("invalid identifier \"{written}\" for \"acme_certificate\"");
            Fault::earlier(origin, message)
                .help("write the names of the certificate after its issuer")
        })?;
        found.extend(identifiers);
    }
    Ok(found)
}

/// Puts the identifiers of a certificate into their final form.
///
/// The order stays, as the first one is the common name, and none is there twice.
pub(crate) fn check_identifiers(
    identifiers: Vec<AcmeIdentifier>,
    issuer: &AcmeIssuer,
    origin: &Origin,
) -> Result<Vec<AcmeIdentifier>, Fault> {
    let mut unique: Vec<AcmeIdentifier> = Vec::with_capacity(identifiers.len());
    for identifier in identifiers {
        if !unique.contains(&identifier) {
            unique.push(identifier);
        }
    }
    if unique.is_empty() {
        let message = "\"acme_certificate\": no identifiers found in \"server_name\"";
        return Err(Fault::earlier(origin, message));
    }
    if unique.len() > MAX_IDENTIFIERS {
        let message = format!("more than {MAX_IDENTIFIERS} identifiers in \"acme_certificate\"");
        return Err(Fault::earlier(origin, message));
    }
    let name = &issuer.name;
    for identifier in &unique {
        let is_dns = issuer.challenge == AcmeChallenge::Dns01;
        let fault = match identifier {
            AcmeIdentifier::Dns(name) if name.starts_with("*.") && !is_dns => {
                Some("wildcards are only verified with \"challenge dns-01\"")
            }
            AcmeIdentifier::Ip(_) if is_dns => {
                Some("addresses are not verified with \"challenge dns-01\"")
            }
            AcmeIdentifier::Dns(_) | AcmeIdentifier::Ip(_) => None,
        };
        if let Some(help) = fault {
            let message =
                format!("acme_issuer \"{name}\" cannot order a certificate for \"{identifier}\"");
            return Err(Fault::earlier(origin, message).help(help));
        }
    }
    Ok(unique)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(word: &str) -> Option<Vec<String>> {
        let found = identifiers_of(word)?;
        Some(found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn words_become_identifiers() {
        let found = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(names("Example.TEST"), found(&["example.test"]));
        assert_eq!(names("*.example.test"), found(&["*.example.test"]));
        assert_eq!(
            names(".example.test"),
            found(&["www.example.test", "example.test"])
        );
        assert_eq!(names("192.0.2.1"), found(&["192.0.2.1"]));
        assert_eq!(names("2001:DB8::1"), found(&["2001:db8::1"]));
        for wrong in [
            "",
            "*",
            "a..b",
            "www.example.*",
            "a.*.b",
            "a b",
            "é.test",
            "a.",
        ] {
            assert_eq!(names(wrong), None, "{wrong}");
        }
        assert_eq!(names(&"a.".repeat(127)), None);
    }
}
