//! ngx_http_ssl_module, first part: certificates, protocols, ciphers, records.

use super::key_devices::{check_key_uri, is_key_uri};
use super::{Arity, HS, HS_STREAM, HS_STREAM_MAIL, HTTP, MAIL, Module, ONE, Row, STREAM, files};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::draft::WrittenFile;
use crate::model::{
    CERTIFICATE_RELOAD, CertificateCache, KeyProcessSetting, KtlsMode, Template, TlsProtocols,
};
use crate::template;
use crate::values;
use std::sync::Arc;
use std::time::Duration;

pub(super) const MODULE: Module = Module {
    title: "TLS: certificates, protocols and records",
    doc: "The server side of TLS. All directives may be set in `http` and then apply to all its \
        servers.",
    rows: ROWS,
};

/// The values of `ssl_ktls` and `proxy_ssl_ktls`.
pub(super) const KTLS_MODES: [(&str, KtlsMode); 3] = [
    ("on", KtlsMode::On),
    ("auto", KtlsMode::Auto),
    ("off", KtlsMode::Off),
];

/// Smallest `ssl_ktls_key_records`: changing keys must not be most of the work.
pub(super) const MIN_KEY_RECORDS: u64 = 16;

/// Smallest `ssl_certificate_reload`.
const MIN_CERTIFICATE_RELOAD: Duration = Duration::from_millis(100);

const ROWS: &[Row] = &[
    Row::new(
        "ssl",
        HS,
        ONE,
        "off",
        "In files for nginx before 1.25.1: with `on`, the addresses of the server have the parameter \
         `ssl`. The default server of an address decides. Accepted with a warning.",
        |b, c| {
            c.flag(&mut b.server().ssl)?;
            b.warn(
                "the \"ssl\" directive is deprecated, use the \"listen ... ssl\" directive instead",
            );
            Ok(())
        },
    ),
    Row::new(
        "ssl_certificate",
        HS_STREAM_MAIL,
        ONE,
        "",
        "PEM file with a certificate and its intermediates, or `data:` and the PEM text. May be \
         given several times, for keys of different types. May contain variables: the file is then \
         read in the handshake, by the worker process.",
        |b, c| {
            let certificate = certificate(b, c)?;
            b.server()
                .tls
                .certificates
                .get_or_insert_default()
                .push(certificate);
            Ok(())
        },
    ),
    Row::new(
        "ssl_certificate_key",
        HS_STREAM_MAIL,
        ONE,
        "",
        "PEM file with the private key of the certificate at the same position, or `data:` and the \
         PEM text; both may contain variables. Or a key in a device: `pkcs11:` and the rest of a \
         URI (RFC 7512), also as `store:pkcs11:` or `engine:pkcs11:` ([PKCS #11](pkcs11.md)); \
         `store:` and a URI of the provider that `ssl_accelerator` names.",
        |b, c| {
            let key = certificate(b, c)?;
            b.server()
                .tls
                .certificate_keys
                .get_or_insert_default()
                .push(key);
            Ok(())
        },
    ),
    Row::new(
        "ssl_password_file",
        HS_STREAM_MAIL,
        ONE,
        "",
        "File with passphrases for encrypted keys, one per line.",
        |b, c| {
            let path = b.options.beside_conf(c.path(1));
            c.once(&b.server().tls.password_file)?;
            b.server().tls.password_file = Some(path);
            Ok(())
        },
    ),
    Row::new(
        "ssl_protocols",
        HS_STREAM_MAIL,
        Arity::AtLeast(1),
        "TLSv1.2 TLSv1.3",
        "Enabled protocols: `TLSv1`, `TLSv1.1`, `TLSv1.2`, `TLSv1.3`. SSLv2 and SSLv3 are accepted \
         but never enabled.",
        protocols,
    ),
    Row::new(
        "ssl_ciphers",
        HS_STREAM_MAIL,
        ONE,
        "HIGH:!aNULL:!MD5",
        "Enabled cipher suites up to TLS 1.2, in OpenSSL's format. Suites that AWS-LC lacks are \
         ignored. `ssl_conf_command Ciphersuites` sets the suites of TLS 1.3.",
        |b, c| {
            c.once(&b.server().tls.ciphers)?;
            b.server().tls.ciphers = Some(c.text(1)?.to_owned());
            Ok(())
        },
    ),
    Row::new(
        "ssl_prefer_server_ciphers",
        HS_STREAM_MAIL,
        ONE,
        "off",
        "Whether the server's order of cipher suites takes precedence over the client's. In TLS 1.3, \
         unless `ssl_conf_command Ciphersuites` says otherwise, `TLS_AES_128_GCM_SHA256` goes first, \
         whose hash is the fastest.",
        |b, c| c.flag(&mut b.server().tls.prefer_server_ciphers),
    ),
    Row::new(
        "ssl_ecdh_curve",
        HS_STREAM_MAIL,
        ONE,
        "auto",
        "Key exchange groups, separated by colons; `auto` starts with X25519MLKEM768.",
        |b, c| {
            c.once(&b.server().tls.ecdh_curve)?;
            b.server().tls.ecdh_curve = Some((c.text(1)?.to_owned(), c.origin.clone()));
            Ok(())
        },
    ),
    Row::new(
        "ssl_dhparam",
        HS_STREAM_MAIL,
        ONE,
        "",
        "File with DH parameters. Accepted with a warning: AWS-LC does not support finite-field \
         DHE, so only ECDHE is offered.",
        |b, c| {
            let path = b.options.beside_conf(c.path(1));
            c.once(&b.server().tls.dhparam)?;
            b.server().tls.dhparam = Some(path);
            let message =
                "the \"ssl_dhparam\" directive has no effect: only ECDHE is supported, not DHE";
            b.warn_once("ssl_dhparam", message);
            Ok(())
        },
    ),
    Row::new(
        "ssl_conf_command",
        HS_STREAM_MAIL,
        Arity::Between(2, 2),
        "",
        "Configuration command for the TLS library and its value, such as `Ciphersuites`, \
         `Options`, `Groups` or `MinProtocol`. `Certificate` and `PrivateKey` name files that replace \
         the certificate and the key of the same kind, or add one. Unknown commands are errors.",
        conf_command,
    ),
    Row::new(
        "ssl_reject_handshake",
        HS_STREAM,
        ONE,
        "off",
        "Whether TLS handshakes for this server's names are rejected. The server then needs no \
         certificate.",
        |b, c| c.flag(&mut b.server().tls.reject_handshake),
    ),
    Row::new(
        "ssl_buffer_size",
        HS,
        ONE,
        "16k",
        "Maximum payload of a TLS record.",
        |b, c| c.size(&mut b.server().tls.buffer_bytes),
    ),
    Row::new(
        "ssl_dyn_rec_enable",
        HS,
        ONE,
        "off",
        "Whether TLS records start small, so that a browser can process the first bytes at once, \
         and grow as more data is sent.",
        |b, c| c.flag(&mut b.server().tls.dyn_rec_enable),
    )
    .own(),
    Row::new(
        "ssl_dyn_rec_timeout",
        HS,
        ONE,
        "1s",
        "Idle time after which records start small again.",
        |b, c| c.time(&mut b.server().tls.dyn_rec_timeout),
    )
    .own(),
    Row::new(
        "ssl_dyn_rec_size_lo",
        HS,
        ONE,
        "1369",
        "Payload of the first records; a record should fill one packet.",
        |b, c| {
            c.size(&mut b.server().tls.dyn_rec_size_lo)?;
            record_size(c, b.server().tls.dyn_rec_size_lo)
        },
    )
    .own(),
    Row::new(
        "ssl_dyn_rec_size_hi",
        HS,
        ONE,
        "4229",
        "Payload of the next records, before they grow to `ssl_buffer_size`.",
        |b, c| {
            c.size(&mut b.server().tls.dyn_rec_size_hi)?;
            record_size(c, b.server().tls.dyn_rec_size_hi)
        },
    )
    .own(),
    Row::new(
        "ssl_dyn_rec_threshold",
        HS,
        ONE,
        "40",
        "Number of records of each size before the next size is used.",
        |b, c| c.number(&mut b.server().tls.dyn_rec_threshold),
    )
    .own(),
    Row::new(
        "ssl_ktls",
        HS_STREAM_MAIL,
        ONE,
        "",
        "Whether the kernel encrypts TLS records (kernel TLS). Files then go from the page cache \
         to the socket without passing through the process. `on`: from the end of the handshake; \
         `auto`: from the first file of at least `ssl_ktls_min_size` that is sent with `sendfile \
         on`, or, in `stream`, once a session has passed on as much from a server without TLS; \
         `off`: never. If the directive is absent, `ssl_conf_command Options KTLS` means `on`, \
         `Options -KTLS` means `off`, and neither means `auto`. If the kernel cannot encrypt a \
         connection, the process does; `$ssl_ktls_reason` and `sealane doctor` show why.",
        |b, c| {
            c.choice(&mut b.server().tls.ktls, &KTLS_MODES)
        },
    )
    .own(),
    Row::new(
        "ssl_ktls_min_size",
        HS_STREAM_MAIL,
        ONE,
        "64k",
        "With `ssl_ktls auto`, the minimum size of a file body for which a connection switches to \
         kernel TLS.",
        |b, c| c.offset(&mut b.server().tls.ktls_min_size),
    )
    .own(),
    Row::new(
        "ssl_ktls_key_records",
        HS_STREAM_MAIL,
        ONE,
        "16777216",
        "Maximum number of records that the kernel encrypts with one key. At the limit, the key is \
         updated (TLS 1.3 on Linux 6.14 or later), or the connection is closed after the current \
         response.",
        |b, c| {
            c.number(&mut b.server().tls.ktls_key_records)?;
            match b.server().tls.ktls_key_records {
                Some(MIN_KEY_RECORDS..) => Ok(()),
                _ => Err(Fault::at(1, "value must be at least 16")),
            }
        },
    )
    .own(),
    Row::new(
        "ssl_ktls_key_updates",
        HS_STREAM_MAIL,
        ONE,
        "64",
        "Maximum number of TLS 1.3 KeyUpdates that a client may request on a connection with \
         kernel TLS. One more closes the connection.",
        |b, c| c.number(&mut b.server().tls.ktls_key_updates),
    )
    .own(),
    Row::new(
        "ssl_certificate_compression",
        HS_STREAM_MAIL,
        ONE,
        "off",
        "Whether certificates are sent compressed (RFC 8879) to clients of TLS 1.3 that ask for \
         it, by Brotli, Zstandard or zlib. Each chain is compressed once.",
        |b, c| c.flag(&mut b.server().tls.certificate_compression),
    ),
    Row::new(
        "ssl_ech_file",
        HS_STREAM,
        ONE,
        "",
        "PEM file with a key for Encrypted Client Hello (RFC 9849) and its configurations \
         (`PRIVATE KEY`, `ECHCONFIG`), as `sealane ech-key` and `openssl ech` make it. It may be \
         given several times: clients whose key is not known are sent the configurations of the \
         first file. Each key opens hellos on all addresses.",
        |b, c| {
            let path = b.options.beside_conf(c.path(1));
            let files = &mut b.server().tls.ech_files;
            files.get_or_insert_default().push(path);
            Ok(())
        },
    ),
    Row::new(
        "ssl_certificate_reload",
        HTTP | STREAM | MAIL,
        ONE,
        "on",
        "How often the files of certificates and keys are looked at for changes, 100ms at least; \
         `on`: 10s. A pair that has changed, is no longer being written, and fits together is used \
         from then on, without a reload. `off`: only a reload reads them again.",
        certificate_reload,
    )
    .own(),
    Row::new(
        "ssl_key_process",
        HTTP | STREAM | MAIL,
        Arity::Between(1, 4),
        "on",
        "Private keys of servers, and those of `proxy_ssl_certificate_key` and its relatives, are \
         in a process of their own, which has no network, no files and no children; worker processes \
         have it compute signatures, and decrypt premaster secrets of the RSA key exchange, \
         `decryptions=` of them in a second for each worker process (10000). Keys whose file names contain \
         variables are held for the worker process that has found them, `keys=` at a time (16384, or more \
         if caches hold more). It \
         runs as `user=`, by default as the master. Each device that has keys, or computes with them, has such a process \
         as well, whatever this says (`ssl_accelerator`). `off`: keys are in the memory of worker \
         processes. Keys whose text is the value of a variable are there in any case.",
        key_process,
    )
    .own(),
    Row::new(
        "ssl_certificate_cache",
        HS_STREAM,
        Arity::Between(1, 3),
        "off",
        "Caches up to `max=` certificates and keys whose file names contain variables, but no key \
         with a password. A certificate that is not used for `inactive=` (10s by default) is \
         removed; after `valid=` (60s by default), its files are checked for changes. `off`: the \
         files are read in each handshake.",
        certificate_cache,
    ),
];

/// The variable that stands for what `acme_certificate` brings.
fn acme_variable(directive: &str) -> &'static str {
    match directive {
        "ssl_certificate" => ACME_CERTIFICATE,
        _ => ACME_CERTIFICATE_KEY,
    }
}

/// `ssl_certificate` with what `acme_certificate` brings.
pub(crate) const ACME_CERTIFICATE: &str = "$acme_certificate";
/// `ssl_certificate_key` with the same.
pub(crate) const ACME_CERTIFICATE_KEY: &str = "$acme_certificate_key";

/// A certificate or key as written; nginx resolves it when servers are merged.
fn certificate(b: &mut Build<'_>, c: &Call<'_>) -> Result<WrittenFile, Fault> {
    let written = c.text(1)?;
    let name = c.row.name;
    if written == acme_variable(name) {
        return Ok(WrittenFile {
            name: Template::literal(written),
            text: written.to_owned(),
        });
    }
    if written.contains("$acme_certificate") {
        return Err(c.invalid(1).help(format!(
            "what \"acme_certificate\" brings is \"{}\" here, and stands alone",
            acme_variable(name)
        )));
    }
    if name == "ssl_certificate_key" && is_key_uri(written.as_bytes()) {
        check_key_uri(written)?;
        return Ok(WrittenFile {
            name: Template::literal(written),
            text: written.to_owned(),
        });
    }
    Ok(WrittenFile {
        name: template::compile(&mut b.names, c.arg(1), 1, &c.origin)?,
        text: written.to_owned(),
    })
}

fn protocols(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    // nginx adds the lines of one level up.
    let before = b.server().tls.protocols.unwrap_or_default();
    let set = more_protocols(b, c, before)?;
    b.server().tls.protocols = Some(set);
    Ok(())
}

/// The versions named, and those named before.
pub(super) fn more_protocols(
    b: &mut Build<'_>,
    c: &Call<'_>,
    mut set: TlsProtocols,
) -> Result<TlsProtocols, Fault> {
    for (index, written) in c.args() {
        let slot = match written.to_ascii_lowercase().as_slice() {
            b"sslv2" | b"sslv3" => &mut set.ssl_v2_v3,
            b"tlsv1" => &mut set.tls_1_0,
            b"tlsv1.1" => &mut set.tls_1_1,
            b"tlsv1.2" => &mut set.tls_1_2,
            b"tlsv1.3" => &mut set.tls_1_3,
            _ => return Err(c.invalid(index)),
        };
        let before = std::mem::replace(slot, true);
        if written.to_ascii_lowercase().starts_with(b"ssl") {
            let name = c.row.name;
            b.warn_once(
                "SSLv3",
                format!("SSLv2 and SSLv3 in \"{name}\" are not supported, ignored"),
            );
        } else if before {
            b.warn(format!("duplicate value \"{}\"", c.shown(index)));
        }
    }
    Ok(set)
}

fn key_process(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.server().tls.key_process)?;
    let mut process = KeyProcessSetting {
        is_on: c.on_off()?,
        ..KeyProcessSetting::default()
    };
    for (index, word) in c.args().skip(1) {
        let invalid = || {
            let help = "it can be \"decryptions=\" or \"keys=\" and a number, or \"user=\" and a \
                        name";
            c.invalid_parameter(index).help(help)
        };
        let (name, value) = word.split_at(
            word.iter()
                .position(|it| *it == b'=')
                .map_or(0, |at| at + 1),
        );
        let number = || {
            let number = values::number(value).and_then(|it| u32::try_from(it).ok());
            number.ok_or_else(invalid)
        };
        match name {
            b"user=" if !value.is_empty() => process.user = Some(c.utf8(index, value)?.to_owned()),
            b"decryptions=" => process.decryptions = number()?,
            b"keys=" => process.keys = Some(number()?),
            _ => return Err(invalid()),
        }
    }
    b.server().tls.key_process = Some(process);
    Ok(())
}

fn certificate_reload(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.server().tls.certificate_reload)?;
    let interval = match c.arg(1) {
        b"on" => Some(CERTIFICATE_RELOAD),
        b"off" => None,
        written => match values::time(written) {
            Some(time) if time >= MIN_CERTIFICATE_RELOAD => Some(time),
            Some(_) => return Err(Fault::at(1, "value must be at least 100ms")),
            None => {
                let message = format!("invalid value \"{}\"", c.shown(1));
                return Err(Fault::at(1, message).help("it can be \"on\", \"off\" or a time"));
            }
        },
    };
    b.server().tls.certificate_reload = Some(interval);
    Ok(())
}

fn certificate_cache(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.server().tls.certificate_cache)?;
    b.server().tls.certificate_cache = Some(certificate_cache_of(c)?.map(Arc::new));
    Ok(())
}

/// The arguments of a `..._certificate_cache`; `None` for `off`.
pub(super) fn certificate_cache_of(c: &Call<'_>) -> Result<Option<CertificateCache>, Fault> {
    let (mut inactive, mut valid) = (Duration::from_secs(10), Duration::from_secs(60));
    let mut times = [("inactive=", &mut inactive), ("valid=", &mut valid)];
    let max = files::cache_size(c, &mut times, |word| {
        format!("invalid parameter \"{word}\"")
    })?;
    Ok(max.map(|max| CertificateCache {
        max,
        inactive,
        valid,
    }))
}

fn conf_command(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let (name, value) = (c.text(1)?.to_owned(), c.text(2)?.to_owned());
    b.server()
        .tls
        .conf_commands
        .get_or_insert_default()
        .push((name, value));
    Ok(())
}

fn record_size(c: &Call<'_>, size: Option<u64>) -> Result<(), Fault> {
    match size {
        Some(1..=16384) => Ok(()),
        _ => Err(
            Fault::at(1, "value must be between 1 and 16384").help(format!(
                "\"{}\" is the payload of one TLS record",
                c.row.name
            )),
        ),
    }
}
