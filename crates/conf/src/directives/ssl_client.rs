//! ngx_http_ssl_module, third part: client certificates.

use super::ssl_sessions::{MIN_ZONE_BYTES, declare_zone};
use super::{HS_STREAM, HS_STREAM_MAIL, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::draft::OcspScope;
use crate::model::VerifyClient;
use crate::values;
use std::path::PathBuf;

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
        HS_STREAM_MAIL,
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
        HS_STREAM_MAIL,
        ONE,
        "1",
        "Maximum number of intermediate certificates between a client certificate and a trusted \
         one.",
        |b, c| c.number(&mut b.server().tls.verify_depth),
    ),
    Row::new(
        "ssl_client_certificate",
        HS_STREAM_MAIL,
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
        HS_STREAM_MAIL,
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
        HS_STREAM_MAIL,
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
    Row::new(
        "ssl_ocsp",
        HS_STREAM,
        ONE,
        "off",
        "Whether issuers are asked by OCSP about certificates of clients that are otherwise \
         accepted: `leaf` about the client's own, `on` about all of the chain. The first request \
         of a connection waits for the answer. Anything but `good` is answered with 495 (sent as \
         400), as is a responder that does not answer, or not as it should.",
        |b, c| {
            let scopes = [
                ("off", OcspScope::Off),
                ("leaf", OcspScope::Leaf),
                ("on", OcspScope::Chain),
            ];
            c.choice(&mut b.server().tls.ocsp, &scopes)
        },
    ),
    Row::new(
        "ssl_ocsp_responder",
        HS_STREAM,
        ONE,
        "",
        "URL of the responder, beginning with `http://`, instead of those that certificates name. \
         Names in certificates are looked up by `resolver`, without which they are not found.",
        |b, c| {
            let url = c.text(1)?.to_owned();
            c.once(&b.server().tls.ocsp_responder)?;
            b.server().tls.ocsp_responder = Some(url);
            Ok(())
        },
    ),
    Row::new(
        "ssl_ocsp_cache",
        HS_STREAM,
        ONE,
        "off",
        "`off` or `shared:name:size`: keeps what responders have said for as long as they say, \
         and an hour if they do not. All worker threads and all servers with the same zone name \
         share it.",
        ocsp_cache,
    ),
];

fn ocsp_cache(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.server().tls.ocsp_cache)?;
    let written = c.arg(1);
    if written == b"off" {
        b.server().tls.ocsp_cache = Some(None);
        return Ok(());
    }
    let invalid = || Fault::at(1, format!("invalid OCSP cache \"{}\"", shown(written)));
    let zone = written.strip_prefix(b"shared:").ok_or_else(invalid)?;
    let colon = memchr::memchr(b':', zone)
        .filter(|at| *at > 0)
        .ok_or_else(invalid)?;
    let name = c.utf8(1, &zone[..colon])?;
    let bytes = values::size(&zone[colon + 1..]).ok_or_else(invalid)?;
    if bytes < MIN_ZONE_BYTES {
        let message = format!("OCSP cache \"{}\" is too small", shown(written));
        return Err(Fault::at(1, message));
    }
    declare_zone(b, 1, name, bytes)?;
    b.server().tls.ocsp_cache = Some(Some((name.to_owned(), bytes)));
    Ok(())
}

/// A file as named, relative to the configuration; an empty name stays empty and means none.
fn file(b: &Build<'_>, c: &Call<'_>) -> PathBuf {
    match c.arg(1) {
        b"" => PathBuf::new(),
        _ => b.options.beside_conf(c.path(1)),
    }
}
