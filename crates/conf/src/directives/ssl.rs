//! ngx_http_ssl_module, first part: certificates, protocols, ciphers, records.

use super::{Arity, Check, HS, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{KtlsMode, TlsProtocols};

pub(super) const MODULE: Module = Module {
    title: "TLS: certificates, protocols and records",
    doc: "The server side of TLS. All directives may stand in `http` and hold for its servers.",
    rows: ROWS,
};

/// Smallest `ssl_ktls_key_records`: changing keys must not be most of the work.
const MIN_KEY_RECORDS: u64 = 16;

const ROWS: &[Row] = &[
    Row::new(
        "ssl_certificate",
        HS,
        ONE,
        "",
        "PEM file with a certificate and its intermediates, or `data:` and the PEM text. May be \
         given several times, for keys of different kinds.",
        |b, c| {
            let certificate = certificate(c)?;
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
        HS,
        ONE,
        "",
        "PEM file with the private key of the certificate in the same place of the order, or \
         `data:` and the PEM text.",
        |b, c| {
            let key = certificate(c)?;
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
        HS,
        ONE,
        "",
        "File with pass phrases for encrypted keys, one per line.",
        |b, c| {
            let path = b.options.beside_conf(c.path(1));
            c.once(&b.server().tls.password_file)?;
            b.server().tls.password_file = Some(path);
            Ok(())
        },
    ),
    Row::new(
        "ssl_protocols",
        HS,
        Arity::AtLeast(1),
        "TLSv1.2 TLSv1.3",
        "Versions offered: `TLSv1`, `TLSv1.1`, `TLSv1.2`, `TLSv1.3`. SSLv2 and SSLv3 are accepted \
         and never offered.",
        protocols,
    ),
    Row::new(
        "ssl_ciphers",
        HS,
        ONE,
        "HIGH:!aNULL:!MD5",
        "Cipher suites up to TLS 1.2, in OpenSSL's notation. Suites that AWS-LC does not have are \
         left out; those of TLS 1.3 are set by `ssl_conf_command Ciphersuites`.",
        |b, c| {
            c.once(&b.server().tls.ciphers)?;
            b.server().tls.ciphers = Some(c.text(1)?.to_owned());
            Ok(())
        },
    ),
    Row::new(
        "ssl_prefer_server_ciphers",
        HS,
        ONE,
        "off",
        "Whether the server's order of suites decides, or the client's.",
        |b, c| c.flag(&mut b.server().tls.prefer_server_ciphers),
    ),
    Row::new(
        "ssl_ecdh_curve",
        HS,
        ONE,
        "auto",
        "Groups for the key exchange, separated by colons; `auto` begins with X25519MLKEM768.",
        |b, c| {
            c.once(&b.server().tls.ecdh_curve)?;
            b.server().tls.ecdh_curve = Some(c.text(1)?.to_owned());
            Ok(())
        },
    ),
    Row::new(
        "ssl_dhparam",
        HS,
        ONE,
        "",
        "File with DH parameters. Accepted with a warning: finite-field DHE is not offered, since \
         AWS-LC has none; ECDHE is.",
        |b, c| {
            let path = b.options.beside_conf(c.path(1));
            c.once(&b.server().tls.dhparam)?;
            b.server().tls.dhparam = Some(path);
            let message =
                "the \"ssl_dhparam\" directive has no effect: DHE is not offered, ECDHE is";
            b.warn_once("ssl_dhparam", message);
            Ok(())
        },
    ),
    Row::new(
        "ssl_conf_command",
        HS,
        Arity::Between(2, 2),
        "",
        "A command and its value for the TLS library, such as `Ciphersuites`, `Options`, `Groups` \
         or `MinProtocol`. Unknown names are errors.",
        conf_command,
    ),
    Row::new(
        "ssl_reject_handshake",
        HS,
        ONE,
        "off",
        "Refuses handshakes for this server's names, so that no certificate is needed.",
        |b, c| c.flag(&mut b.server().tls.reject_handshake),
    ),
    Row::new(
        "ssl_buffer_size",
        HS,
        ONE,
        "16k",
        "Largest payload of a TLS record.",
        |b, c| c.size(&mut b.server().tls.buffer_bytes),
    ),
    Row::new(
        "ssl_dyn_rec_enable",
        HS,
        ONE,
        "off",
        "Whether records start small, so that a browser can use the first bytes at once, and grow \
         with the amount sent.",
        |b, c| c.flag(&mut b.server().tls.dyn_rec_enable),
    )
    .own(),
    Row::new(
        "ssl_dyn_rec_timeout",
        HS,
        ONE,
        "1s",
        "Idle time after which records are small again.",
        |b, c| c.time(&mut b.server().tls.dyn_rec_timeout),
    )
    .own(),
    Row::new(
        "ssl_dyn_rec_size_lo",
        HS,
        ONE,
        "1369",
        "Payload of the first records, which should fill one packet.",
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
        "Payload of the records after those, before they grow to `ssl_buffer_size`.",
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
        "Records of each size before the next.",
        |b, c| c.number(&mut b.server().tls.dyn_rec_threshold),
    )
    .own(),
    Row::new(
        "ssl_ktls",
        HS,
        ONE,
        "",
        "Whether the kernel seals records (kernel TLS), so that files go from the page cache to the \
         socket without passing through the process. `on`: from the end of the handshake; `auto`: \
         once a file of `ssl_ktls_min_size` is to be sent with `sendfile on`; `off`: never. Without \
         it, `ssl_conf_command Options KTLS` means `on`, `Options -KTLS` means `off`, and neither \
         means `auto`. Where the kernel cannot, the process seals: `$ssl_ktls_reason` and `sealane \
         doctor` say why.",
        |b, c| {
            let modes = [
                ("on", KtlsMode::On),
                ("auto", KtlsMode::Auto),
                ("off", KtlsMode::Off),
            ];
            c.choice(&mut b.server().tls.ktls, &modes)
        },
    )
    .own(),
    Row::new(
        "ssl_ktls_min_size",
        HS,
        ONE,
        "64k",
        "With `ssl_ktls auto`, the smallest file body for which the kernel takes a connection over.",
        |b, c| c.offset(&mut b.server().tls.ktls_min_size),
    )
    .own(),
    Row::new(
        "ssl_ktls_key_records",
        HS,
        ONE,
        "16777216",
        "Most records that the kernel seals under one key. Then the key is changed (TLS 1.3 on Linux \
         6.14 or later), or the connection ends after the response at hand.",
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
        HS,
        ONE,
        "64",
        "Most TLS 1.3 KeyUpdates that a client may ask for on a connection that the kernel seals; \
         one more closes it.",
        |b, c| c.number(&mut b.server().tls.ktls_key_updates),
    )
    .own(),
    Row::later(
        "ssl_stapling",
        HS,
        ONE,
        Check::Flag,
        "OCSP responses are not stapled",
    ),
    Row::later(
        "ssl_stapling_verify",
        HS,
        ONE,
        Check::Flag,
        "OCSP responses are not stapled",
    ),
    Row::later(
        "ssl_stapling_file",
        HS,
        ONE,
        Check::Any,
        "OCSP responses are not stapled",
    ),
    Row::later(
        "ssl_stapling_responder",
        HS,
        ONE,
        Check::Any,
        "OCSP responses are not stapled",
    ),
    Row::later(
        "ssl_certificate_compression",
        HS,
        ONE,
        Check::Flag,
        "certificates are sent uncompressed",
    ),
    Row::later(
        "ssl_ech_file",
        HS,
        ONE,
        Check::Any,
        "Encrypted Client Hello is not offered",
    ),
    Row::meaningless(
        "ssl_certificate_cache",
        HS,
        Arity::Between(1, 3),
        Check::Any,
        "Certificates are read when the configuration is; their names cannot contain variables.",
    ),
];

/// A certificate or key as written; nginx resolves it when servers are merged.
fn certificate(c: &Call<'_>) -> Result<String, Fault> {
    let written = c.text(1)?;
    let name = c.row.name;
    if written.contains('$') {
        return Err(
            Fault::at(1, format!("variables in \"{name}\" are not supported yet"))
                .help("write one \"server\" for each certificate"),
        );
    }
    if written.starts_with("engine:") || written.starts_with("store:") {
        return Err(Fault::at(
            1,
            format!("keys outside of files are not supported yet in \"{name}\""),
        ));
    }
    Ok(written.to_owned())
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
                format!("SSLv2 and SSLv3 in \"{name}\" are never offered"),
            );
        } else if before {
            b.warn(format!("duplicate value \"{}\"", c.shown(index)));
        }
    }
    Ok(set)
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
