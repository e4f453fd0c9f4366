//! ngx_mail_core_module and what ngx_mail_ssl_module has beside the directives of TLS: servers of
//! mail.
//!
//! What means the same in `http` (TLS, error logs, name servers, trusted proxies) has one row,
//! whose contexts include those of `mail`.

use super::{Arity, MAIL, MAIL_LEVELS, MAIL_SERVER, MAIN, Module, ONE, Row};
use crate::build::Opening;
use crate::listen;
use crate::model::{MailProtocol, MailStartTls, ServerKind};

pub(super) const MODULE: Module = Module {
    title: "Mail: servers of IMAP, POP3 and SMTP",
    doc: "A `mail` block has servers that speak with a client until it wants to log in, ask a \
          service over HTTP whether it may and which mail server it belongs to (`auth_http`), log \
          in there, and pass everything on from then on. TLS, `error_log`, `resolver` and \
          `set_real_ip_from` are described with those of HTTP; where they may be used in `mail`, \
          their contexts say so. Values have no variables.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::block(
        "mail",
        MAIN,
        Arity::Between(0, 0),
        "Servers of mail.",
        |b, c| {
            if b.has_block(ServerKind::Mail) {
                return Err(c.refuse("is duplicate"));
            }
            b.opening = Some(Opening::Mail);
            Ok(())
        },
    ),
    Row::block(
        "server",
        MAIL,
        Arity::Between(0, 0),
        "A server of mail.",
        |b, _| {
            b.opening = Some(Opening::MailServer);
            Ok(())
        },
    ),
    Row::new(
        "listen",
        MAIL_SERVER,
        Arity::AtLeast(1),
        "",
        "Address that the server listens on: `port`, `address:port`, `[ipv6]:port`, a range of \
         ports, or `unix:path`; a server needs at least one, and each address belongs to one \
         server. Parameters: `ssl`, `proxy_protocol`, `backlog=`, `rcvbuf=`, `sndbuf=`, `bind`, \
         `ipv6only=`, `so_keepalive=`, `multipath`. Without `protocol`, the first address with \
         one of the ports 143, 993 (IMAP), 110, 995 (POP3), 25, 465, 587 (SMTP) says which \
         protocol is spoken.",
        listen::listen,
    ),
    Row::new(
        "protocol",
        MAIL_SERVER,
        ONE,
        "",
        "What clients speak: `imap`, `pop3` or `smtp`.",
        |b, c| {
            let mut all = MailProtocol::ALL.into_iter();
            let found = all.find(|protocol| protocol.name().as_bytes() == c.arg(1));
            let protocol = found.ok_or_else(|| {
                let message = format!("unknown protocol \"{}\"", c.shown(1));
                let help = "it can be \"imap\", \"pop3\" or \"smtp\"; for TLS, add \"ssl\" to \
                            \"listen\"";
                crate::call::Fault::at(1, message).help(help)
            })?;
            b.server().mail.protocol = Some(protocol);
            Ok(())
        },
    ),
    Row::new(
        "server_name",
        MAIL_LEVELS,
        ONE,
        "",
        "Name in greetings, in challenges of APOP and CRAM-MD5, and in what is said to mail \
         servers; the machine's name by default.",
        |b, c| {
            c.once(&b.server().mail.server_name)?;
            b.server().mail.server_name = Some(c.text(1)?.to_owned());
            Ok(())
        },
    ),
    Row::new(
        "timeout",
        MAIL_LEVELS,
        ONE,
        "60s",
        "Timeout of clients until they have logged in, and of the login at the mail server. \
         `proxy_timeout` holds behind it.",
        |b, c| c.time(&mut b.server().mail.timeout),
    ),
    Row::new(
        "max_errors",
        MAIL_LEVELS,
        ONE,
        "5",
        "Number of invalid commands after which a session ends.",
        |b, c| c.number(&mut b.server().mail.max_errors),
    ),
    Row::new(
        "starttls",
        MAIL_LEVELS,
        ONE,
        "off",
        "Whether clients of a connection without TLS may begin TLS (`STLS` in POP3, `STARTTLS` in \
         IMAP and SMTP): `on`; `only`: they must, before they log in; `off`. What a client sends \
         behind the command is discarded, and nothing that it has said before counts afterwards.",
        |b, c| {
            let choices = [
                ("off", MailStartTls::Off),
                ("on", MailStartTls::On),
                ("only", MailStartTls::Only),
            ];
            c.choice(&mut b.server().mail.starttls, &choices)
        },
    ),
];
