//! ngx_http_ssl_module, third part: certificates of clients.

use super::{HS, Module, ONE, Row};
use crate::build::Build;
use crate::call::Call;
use crate::model::VerifyClient;
use std::path::PathBuf;

const OCSP: &str = "nobody asks an OCSP responder about client certificates yet, so a \
                    configuration that relies on it is refused; use \"ssl_crl\"";

pub(super) const MODULE: Module = Module {
    title: "TLS: certificates of clients",
    doc: "Who may come in. As in nginx the handshake succeeds whatever a client shows; requests \
          are answered with 495 (sent as 400) when the certificate is not good enough, and with \
          496 (sent as 400) when there is none. A certificate is judged by the rules of the server \
          that answers the request, again after a session was resumed and after a reload. A request \
          whose `Host` leads to a server with `ssl_verify_client`, on a connection that was opened \
          for another name, is answered with 421.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "ssl_verify_client",
        HS,
        ONE,
        "off",
        "Whether clients are asked for a certificate. `on`: there is no answer without a valid one; \
         `optional`: one that is shown must be valid; `optional_no_ca`: one that is shown may be \
         issued by anybody, and `$ssl_client_verify` says whether it is trusted.",
        |b, c| {
            let modes = [
                ("off", VerifyClient::Off),
                ("on", VerifyClient::On),
                ("optional", VerifyClient::Optional),
                ("optional_no_ca", VerifyClient::OptionalNoCa),
            ];
            c.choice(&mut b.server().tls.verify_client, &modes)
        },
    ),
    Row::new(
        "ssl_verify_depth",
        HS,
        ONE,
        "1",
        "Most intermediate certificates between a client's and a trusted one.",
        |b, c| c.number(&mut b.server().tls.verify_depth),
    ),
    Row::new(
        "ssl_client_certificate",
        HS,
        ONE,
        "",
        "PEM file with the certificates that clients are verified by. Their names are sent to \
         clients, which choose by them.",
        |b, c| {
            let path = file(b, c);
            c.once(&b.server().tls.client_certificate)?;
            b.server().tls.client_certificate = Some(path);
            Ok(())
        },
    ),
    Row::new(
        "ssl_trusted_certificate",
        HS,
        ONE,
        "",
        "PEM file with more certificates that clients are verified by. Their names are not sent.",
        |b, c| {
            let path = file(b, c);
            c.once(&b.server().tls.trusted_certificate)?;
            b.server().tls.trusted_certificate = Some(path);
            Ok(())
        },
    ),
    Row::new(
        "ssl_crl",
        HS,
        ONE,
        "",
        "PEM file with lists of revoked certificates. Every certificate of a chain then needs a \
         list of its issuer that is in force. The file is read with the configuration: reload when \
         it has changed.",
        |b, c| {
            let path = file(b, c);
            c.once(&b.server().tls.crl)?;
            b.server().tls.crl = Some(path);
            Ok(())
        },
    ),
    Row::unsupported("ssl_ocsp", HS, ONE, OCSP).inert(&["off"]),
    Row::unsupported("ssl_ocsp_cache", HS, ONE, OCSP).inert(&["off"]),
    Row::unsupported("ssl_ocsp_responder", HS, ONE, OCSP),
];

/// A file as named, beside the configuration; an empty name stays empty and means none.
fn file(b: &Build<'_>, c: &Call<'_>) -> PathBuf {
    match c.arg(1) {
        b"" => PathBuf::new(),
        _ => b.options.beside_conf(c.path(1)),
    }
}
