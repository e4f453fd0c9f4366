//! ngx_mail_auth_http_module and ngx_mail_proxy_module: who decides about a login, and what becomes
//! of the session.

use super::{Arity, Check, MAIL_LEVELS, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::draft::MailAuthHttpDraft;
use crate::input::addresses_of;
use crate::model::PeerAddress;
use crate::upstream_url::{HostKind, UpstreamUrl, UriPart};
use std::net::SocketAddr;
use std::path::PathBuf;

pub(super) const MODULE: Module = Module {
    title: "Mail: logins and mail servers",
    doc: "The service of `auth_http` is asked about every login. Its response says with \
          `Auth-Status: OK` that the client may log in, and with `Auth-Server` and `Auth-Port` \
          where; everything else in `Auth-Status` is what the client is told, which may try again \
          after `Auth-Wait` seconds. `Auth-User` and `Auth-Pass` are used at the mail server \
          instead of what the client has sent.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "auth_http",
        MAIL_LEVELS,
        ONE,
        "",
        "URL of the auth service: a host with a port (80 by default) and a path, or \
         `unix:PATH:/uri`; `http://` may precede it.",
        auth_http,
    ),
    Row::new(
        "auth_http_header",
        MAIL_LEVELS,
        Arity::Between(2, 2),
        "",
        "Header field of requests to the auth service: its name and its value, such as a shared \
         secret. Several may be given; those of the outer level hold if there is none.",
        |b, c| {
            let header = (c.text(1)?.to_owned(), c.text(2)?.to_owned());
            b.server().mail.auth_http_headers.push(header);
            Ok(())
        },
    ),
    Row::new(
        "auth_http_pass_client_cert",
        MAIL_LEVELS,
        ONE,
        "off",
        "Whether the auth service gets the client's certificate in PEM (`Auth-SSL-Cert`).",
        |b, c| c.flag(&mut b.server().mail.passes_certificate),
    ),
    Row::new(
        "auth_http_timeout",
        MAIL_LEVELS,
        ONE,
        "60s",
        "Timeout of the auth service.",
        |b, c| c.time(&mut b.server().mail.auth_http_timeout),
    ),
    Row::meaningless(
        "proxy",
        MAIL_LEVELS,
        ONE,
        Check::Flag,
        "As in nginx, sessions that have logged in are passed on with either value.",
    ),
    Row::new(
        "proxy_buffer",
        MAIL_LEVELS,
        ONE,
        "4k",
        "Size of the buffer for each direction, and of the longest response to a login.",
        |b, c| {
            c.size(&mut b.server().mail.proxy.buffer)?;
            match b.server().mail.proxy.buffer {
                Some(0) => Err(c.refuse_arg(1, "invalid value")),
                _ => Ok(()),
            }
        },
    ),
    Row::new(
        "proxy_timeout",
        MAIL_LEVELS,
        ONE,
        "24h",
        "Timeout between two successive reads or writes on either side after the login.",
        |b, c| c.time(&mut b.server().mail.proxy.timeout),
    ),
    Row::new(
        "proxy_pass_error_message",
        MAIL_LEVELS,
        ONE,
        "off",
        "Whether a client sees what the mail server says against its login.",
        |b, c| c.flag(&mut b.server().mail.proxy.pass_error_message),
    ),
    Row::new(
        "xclient",
        MAIL_LEVELS,
        ONE,
        "on",
        "Whether mail servers of SMTP are told with XCLIENT who the client is: its address, its \
         name, and its login.",
        |b, c| c.flag(&mut b.server().mail.proxy.xclient),
    ),
    Row::new(
        "proxy_smtp_auth",
        MAIL_LEVELS,
        ONE,
        "off",
        "Whether the client is logged in at mail servers of SMTP, with AUTH PLAIN.",
        |b, c| c.flag(&mut b.server().mail.proxy.smtp_auth),
    ),
];

fn auth_http(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let written = c.arg(1);
    let written = written.strip_prefix(b"http://").unwrap_or(written);
    let refuse = |reason: &str| {
        let message = format!("{reason} in auth_http \"{}\"", shown(written));
        let fault = Fault::at(1, message);
        match written.starts_with(b"https://") {
            true => {
                fault.help("the service is asked without TLS: \"auth_http 127.0.0.1:9000/auth;\"")
            }
            false => fault,
        }
    };
    let url = UpstreamUrl::parse(written, 80, UriPart::Allowed).map_err(refuse)?;
    let uri = c.utf8(1, url.uri)?;
    let inet = |ip| PeerAddress::Inet(SocketAddr::new(ip, url.port));
    let (addresses, host) = match url.kind {
        HostKind::Unix => {
            let path = PeerAddress::Unix(PathBuf::from(url.host));
            (vec![path], "localhost".to_owned())
        }
        HostKind::Address(ip) => (vec![inet(ip)], url.host.to_owned()),
        HostKind::Name => {
            let found = addresses_of(b.loader, url.host);
            let addresses = found.into_iter().map(inet).collect();
            (addresses, url.host.to_owned())
        }
    };
    if addresses.is_empty() {
        return Err(refuse("host not found"));
    }
    b.server().mail.auth_http = Some(MailAuthHttpDraft {
        addresses: addresses.into(),
        host,
        uri: match uri {
            "" => "/".to_owned(),
            uri => uri.to_owned(),
        },
    });
    Ok(())
}
