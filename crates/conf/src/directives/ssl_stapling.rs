//! ngx_http_ssl_module, fourth part: OCSP stapling.

use super::{HS_STREAM, HTTP, Module, ONE, Row, STREAM};

pub(super) const MODULE: Module = Module {
    title: "TLS: OCSP stapling",
    doc: "A staple is what the issuer of a certificate says about it, sent along with the \
          certificate, so that clients need not ask. Staples are fetched before the first client \
          comes and renewed after half of their time, by a thread of its own: no handshake waits \
          for a responder. What a responder says is checked: its signature, that it may speak for \
          the issuer, that it is about the certificate and up to date, and that it says `good`. \
          If there is no such response, the last staple is sent for as long as it is valid, then \
          none, and the error log says why.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "ssl_stapling",
        HS_STREAM,
        ONE,
        "off",
        "Whether staples are sent. The issuer's certificate has to be in the file of \
         `ssl_certificate` or of `ssl_trusted_certificate`.",
        |b, c| c.flag(&mut b.server().tls.stapling),
    ),
    Row::new(
        "ssl_stapling_verify",
        HS_STREAM,
        ONE,
        "off",
        "Whether a responder that is not the issuer itself has to lead to a certificate of \
         `ssl_trusted_certificate`. With `off` it has to be certified by the issuer.",
        |b, c| c.flag(&mut b.server().tls.stapling_verify),
    ),
    Row::new(
        "ssl_stapling_file",
        HS_STREAM,
        ONE,
        "",
        "File with a response in DER, as `openssl ocsp -respout` makes it, which is sent while it \
         is up to date; no responder is asked. With certificates of several kinds it is sent with \
         the one that it is about.",
        |b, c| {
            let path = b.options.beside_conf(c.path(1));
            c.once(&b.server().tls.stapling_file)?;
            b.server().tls.stapling_file = Some(path);
            Ok(())
        },
    ),
    Row::new(
        "ssl_stapling_responder",
        HS_STREAM,
        ONE,
        "",
        "URL of the responder, beginning with `http://`, instead of the one that the certificate \
         names. With `resolver`, its name is looked up there.",
        |b, c| {
            let url = c.text(1)?.to_owned();
            c.once(&b.server().tls.stapling_responder)?;
            b.server().tls.stapling_responder = Some(url);
            Ok(())
        },
    ),
    Row::new(
        "ssl_stapling_state",
        HTTP | STREAM,
        ONE,
        "",
        "File that keeps staples across a restart, so that the first clients get them, too, and \
         responders are not asked by every start. The master writes it (mode 0600). A relative \
         path starts from the prefix. What is read from it is checked like what a responder says.",
        |b, c| {
            let path = b.options.under_prefix(c.path(1));
            c.once(&b.server().tls.stapling_state)?;
            b.server().tls.stapling_state = Some(path);
            Ok(())
        },
    )
    .own(),
];
