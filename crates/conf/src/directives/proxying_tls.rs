//! TLS to other servers: `proxy_ssl_*`, `uwsgi_ssl_*` and `grpc_ssl_*`.

use super::key_devices::{check_key_uri, is_key_uri};
use super::proxying::upstream;
use super::ssl;
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::draft::UpstreamTlsDraft;
use crate::model::{Ktls, Template};
use crate::{template, values};
use std::path::PathBuf;

/// The TLS settings of the row's family on the current level.
pub(super) fn tls<'b>(b: &'b mut Build<'_>, c: &Call<'_>) -> &'b mut UpstreamTlsDraft {
    &mut upstream(b, c).tls
}

/// The rows of a family.
macro_rules! tls_rows {
    ($family:literal) => {
        tls_rows!($family, 0)
    };
    // `$also`: where the rows are allowed besides locations.
    ($family:literal, $also:expr) => {
        &[
            Row::new(
                concat!($family, "_ssl_protocols"),
                HSL,
                Arity::AtLeast(1),
                "TLSv1.2 TLSv1.3",
                "Enabled protocols for connections to servers: `TLSv1`, `TLSv1.1`, `TLSv1.2`, \
                 `TLSv1.3`. SSLv2 and SSLv3 are accepted but never enabled.",
                protocols,
            )
            .also_in($also),
            Row::new(
                concat!($family, "_ssl_ciphers"),
                HSL,
                ONE,
                "DEFAULT",
                "Enabled cipher suites up to TLS 1.2 for connections to servers, in OpenSSL's \
                 format.",
                |b, c| {
                    c.once(&tls(b, c).ciphers)?;
                    tls(b, c).ciphers = Some(c.text(1)?.to_owned());
                    Ok(())
                },
            )
            .also_in($also),
            Row::new(
                concat!($family, "_ssl_conf_command"),
                HSL,
                Arity::Between(2, 2),
                "",
                "Configuration command for the TLS library and its value, as in \
                 `ssl_conf_command`.",
                |b, c| {
                    let command = (c.text(1)?.to_owned(), c.text(2)?.to_owned());
                    let commands = &mut tls(b, c).conf_commands;
                    commands.get_or_insert_default().push(command);
                    Ok(())
                },
            )
            .also_in($also),
            Row::new(
                concat!($family, "_ssl_name"),
                HSL,
                ONE,
                "",
                concat!(
                    "Name that verifies a server's certificate and is sent with `",
                    $family,
                    "_ssl_server_name`. By default, the host of `",
                    $family,
                    "_pass`. May contain variables."
                ),
                |b, c| {
                    c.once(&tls(b, c).name)?;
                    let name = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
                    tls(b, c).name = Some(name);
                    Ok(())
                },
            )
            .also_in($also),
            Row::new(
                concat!($family, "_ssl_server_name"),
                HSL,
                ONE,
                "off",
                "Whether the server name is sent to servers (SNI).",
                |b, c| c.flag(&mut tls(b, c).server_name),
            )
            .also_in($also),
            Row::new(
                concat!($family, "_ssl_verify"),
                HSL,
                ONE,
                "off",
                "Whether certificates of servers are verified.",
                |b, c| c.flag(&mut tls(b, c).verify),
            )
            .also_in($also),
            Row::new(
                concat!($family, "_ssl_verify_depth"),
                HSL,
                ONE,
                "1",
                "Maximum number of intermediate certificates between a server certificate and a \
                 trusted one.",
                |b, c| c.number(&mut tls(b, c).verify_depth),
            )
            .also_in($also),
            Row::new(
                concat!($family, "_ssl_trusted_certificate"),
                HSL,
                ONE,
                "",
                "PEM file with the CA certificates that verify server certificates.",
                |b, c| {
                    let path = file(b, c);
                    c.once(&tls(b, c).trusted_certificate)?;
                    tls(b, c).trusted_certificate = Some(path);
                    Ok(())
                },
            )
            .also_in($also),
            Row::new(
                concat!($family, "_ssl_crl"),
                HSL,
                ONE,
                "",
                "PEM file with certificate revocation lists (CRLs).",
                |b, c| {
                    let path = file(b, c);
                    c.once(&tls(b, c).crl)?;
                    tls(b, c).crl = Some(path);
                    Ok(())
                },
            )
            .also_in($also),
            Row::new(
                concat!($family, "_ssl_certificate"),
                HSL,
                ONE,
                "",
                "PEM file with the client certificate for servers, or `data:` and the PEM text; an \
                 empty value disables it. May contain variables.",
                |b, c| {
                    let value = certificate(b, c)?;
                    c.once(&tls(b, c).certificate)?;
                    tls(b, c).certificate = Some(value);
                    Ok(())
                },
            )
            .also_in($also),
            Row::new(
                concat!($family, "_ssl_certificate_key"),
                HSL,
                ONE,
                "",
                "PEM file with the private key of the client certificate, or `data:` and the PEM \
                 text; both may contain variables. Or the URI of a key in a token: `pkcs11:` and so \
                 on, see [PKCS #11](pkcs11.md).",
                |b, c| {
                    let value = certificate(b, c)?;
                    c.once(&tls(b, c).certificate_key)?;
                    tls(b, c).certificate_key = Some(value);
                    Ok(())
                },
            )
            .also_in($also),
            Row::new(
                concat!($family, "_ssl_password_file"),
                HSL,
                ONE,
                "",
                "File with passphrases for an encrypted key, one per line.",
                |b, c| {
                    let path = file(b, c);
                    c.once(&tls(b, c).password_file)?;
                    tls(b, c).password_file = Some(path);
                    Ok(())
                },
            )
            .also_in($also),
            Row::new(
                concat!($family, "_ssl_session_reuse"),
                HSL,
                ONE,
                "on",
                "Whether TLS sessions are reused for connections to servers.",
                |b, c| c.flag(&mut tls(b, c).session_reuse),
            )
            .also_in($also),
            Row::new(
                concat!($family, "_ssl_certificate_cache"),
                HSL,
                Arity::Between(1, 3),
                "off",
                "Caches up to `max=` certificates and keys whose file names contain variables, but no key \
                 with a password. A \
                 certificate that is not used for `inactive=` (10s by default) is removed; after \
                 `valid=` (60s by default), its files are checked for changes. `off`: the files \
                 are read for each connection.",
                certificate_cache,
            )
            .also_in($also),
            Row::new(
                concat!($family, "_ssl_ktls"),
                HSL,
                Arity::Between(1, 4),
                "",
                concat!(
                    "Whether the kernel encrypts the TLS records for servers (kernel TLS). `on`: \
                     from the end of the handshake; `auto`: from the first file of at least \
                     `min_size=` (64k by default) that is sent, such as a request body in a temporary \
                     file, or, in `stream`, once a session has passed on as much from a client without \
                     TLS; `off`: never. If the directive is absent, `",
                    $family,
                    "_ssl_conf_command Options KTLS` means `on`, `Options -KTLS` means `off`, and \
                     neither means `auto`. `key_records=` (16777216 by default) and `key_updates=` (64 \
                     by default) are limits as `ssl_ktls_key_records` and `ssl_ktls_key_updates`."
                ),
                ktls,
            )
            .also_in($also)
            .own(),
        ]
    };
}
pub(super) use tls_rows;

pub(super) fn protocols(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let before = tls(b, c).protocols.unwrap_or_default();
    let set = ssl::more_protocols(b, c, before)?;
    tls(b, c).protocols = Some(set);
    Ok(())
}

pub(super) fn certificate_cache(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&tls(b, c).certificate_cache)?;
    tls(b, c).certificate_cache = Some(ssl::certificate_cache_of(c)?);
    Ok(())
}

pub(super) fn ktls(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&tls(b, c).ktls)?;
    let mut ktls = Ktls::default();
    c.choice(&mut ktls.mode, &ssl::KTLS_MODES)?;
    for (index, word) in c.args().skip(1) {
        let invalid = || c.invalid_parameter(index);
        let (name, value) = c.utf8(index, word)?.split_once('=').ok_or_else(invalid)?;
        let value = value.as_bytes();
        match name {
            "min_size" => ktls.min_size_bytes = values::offset(value).ok_or_else(invalid)?,
            "key_records" => {
                ktls.key_records = values::number(value)
                    .filter(|records| *records >= ssl::MIN_KEY_RECORDS)
                    .ok_or_else(|| {
                        let least = format!("it must be at least {}", ssl::MIN_KEY_RECORDS);
                        invalid().help(least)
                    })?;
            }
            "key_updates" => {
                let updates = values::number(value).map(u32::try_from);
                ktls.key_updates = updates.and_then(Result::ok).ok_or_else(invalid)?;
            }
            _ => return Err(invalid()),
        }
    }
    tls(b, c).ktls = Some(ktls);
    Ok(())
}

/// A file relative to the configuration; empty stays empty.
pub(super) fn file(b: &Build<'_>, c: &Call<'_>) -> PathBuf {
    match c.arg(1) {
        [] => PathBuf::new(),
        _ => b.options.beside_conf(c.path(1)),
    }
}

pub(super) fn certificate(b: &mut Build<'_>, c: &Call<'_>) -> Result<Template, Fault> {
    let written = c.text(1)?;
    if c.row.name.ends_with("_key") && is_key_uri(written.as_bytes()) {
        check_key_uri(written)?;
        return Ok(Template::literal(written));
    }
    template::compile(&mut b.names, c.arg(1), 1, &c.origin)
}
