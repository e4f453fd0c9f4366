//! ngx_http_ssl_module, third part: client certificates.

use super::{HS, Module, ONE, Row};
use crate::build::Build;
use crate::call::Call;
use crate::model::VerifyClient;
use std::path::PathBuf;

const OCSP: &str = "OCSP validation of client certificates is not supported yet, so a \
                    configuration that relies on it is refused; use \"ssl_crl\"";

pub(super) const MODULE: Module = Module {
    title: "TLS: certificates of clients",
    doc: "Verification of client certificates. As in nginx, the handshake succeeds whatever \
          certificate the client sends. A request gets 495 (sent as 400) if the certificate is \
          not accepted, and 496 (sent as 400) if there is none. A certificate is verified by the \
          rules of the server that processes the request, and again after a session is resumed \
          and after a reload. If the `Host` of a request selects a server with \
          `ssl_verify_client`, and the connection was opened for another name, the request gets \
          421.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "ssl_verify_client",
        HS,
        ONE,
        "off",
        "Whether clients are asked for a certificate. `on`: a valid certificate is required; \
         `optional`: a certificate that the client sends must be valid; `optional_no_ca`: the \
         certificate may come from any issuer, and `$ssl_client_verify` shows whether it is \
         trusted.",
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
        "Maximum number of intermediate certificates between a client certificate and a trusted \
         one.",
        |b, c| c.number(&mut b.server().tls.verify_depth),
    ),
    Row::new(
        "ssl_client_certificate",
        HS,
        ONE,
        "",
        "PEM file with the CA certificates that verify client certificates. Their names are sent \
         to clients to choose a certificate by.",
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
        "PEM file with further CA certificates that verify client certificates. Their names are \
         not sent to clients.",
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
        "PEM file with certificate revocation lists (CRLs). Every certificate of a chain then \
         requires a valid CRL of its issuer. The file is read with the configuration: reload \
         after changing it.",
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

/// A file as named, relative to the configuration; an empty name stays empty and means none.
fn file(b: &Build<'_>, c: &Call<'_>) -> PathBuf {
    match c.arg(1) {
        b"" => PathBuf::new(),
        _ => b.options.beside_conf(c.path(1)),
    }
}
