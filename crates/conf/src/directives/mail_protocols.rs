//! ngx_mail_imap_module, ngx_mail_pop3_module and ngx_mail_smtp_module.

use super::{Arity, MAIL_LEVELS, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{MailAuthMethod, MailProtocol};

pub(super) const MODULE: Module = Module {
    title: "Mail: protocols",
    doc: "What servers announce to clients, and how these may log in.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "imap_capabilities",
        MAIL_LEVELS,
        Arity::AtLeast(1),
        "IMAP4 IMAP4rev1 UIDPLUS",
        "Capabilities that are announced before the login: those of the mail servers. Methods of \
         `imap_auth`, `STARTTLS` and `LOGINDISABLED` are added.",
        |b, c| capabilities(b, c, MailProtocol::Imap),
    ),
    Row::new(
        "imap_auth",
        MAIL_LEVELS,
        Arity::AtLeast(1),
        "plain",
        "Methods of AUTHENTICATE: `plain`, `login`, `cram-md5`, `external`, and `xoauth2` and \
         `oauthbearer` as in freenginx. LOGIN, and AUTHENTICATE with PLAIN and LOGIN, are always \
         possible; `plain` and `login` only announce them. `cram-md5` needs an auth service that \
         sends the password (`Auth-Pass`).",
        |b, c| auth(b, c, MailProtocol::Imap),
    ),
    Row::new(
        "imap_client_buffer",
        MAIL_LEVELS,
        ONE,
        "4k",
        "Maximum size of a command, its literals included.",
        |b, c| c.size(&mut b.server().mail.imap.client_buffer),
    ),
    Row::new(
        "pop3_capabilities",
        MAIL_LEVELS,
        Arity::AtLeast(1),
        "TOP USER UIDL",
        "Capabilities that are announced before the login: those of the mail servers. Methods of \
         `pop3_auth` and `STLS` are added.",
        |b, c| capabilities(b, c, MailProtocol::Pop3),
    ),
    Row::new(
        "pop3_auth",
        MAIL_LEVELS,
        Arity::AtLeast(1),
        "plain",
        "Methods of authentication: `plain` (USER and PASS, AUTH PLAIN, AUTH LOGIN), `apop`, \
         `cram-md5`, `external`, and `xoauth2` and `oauthbearer` as in freenginx.",
        |b, c| auth(b, c, MailProtocol::Pop3),
    ),
    Row::new(
        "smtp_capabilities",
        MAIL_LEVELS,
        Arity::AtLeast(1),
        "",
        "Extensions that are announced in the response to EHLO: those of the mail servers. \
         Methods of `smtp_auth` and `STARTTLS` are added.",
        |b, c| capabilities(b, c, MailProtocol::Smtp),
    ),
    Row::new(
        "smtp_auth",
        MAIL_LEVELS,
        Arity::AtLeast(1),
        "plain login",
        "Methods of AUTH: `plain`, `login`, `cram-md5`, `external`, and `xoauth2` and \
         `oauthbearer` as in freenginx; `none`: mail is accepted without a login, after the auth \
         service was asked about its sender and first recipient.",
        |b, c| auth(b, c, MailProtocol::Smtp),
    ),
    Row::new(
        "smtp_client_buffer",
        MAIL_LEVELS,
        ONE,
        "4k",
        "Maximum size of a command.",
        |b, c| c.size(&mut b.server().mail.smtp.client_buffer),
    ),
    Row::new(
        "smtp_greeting_delay",
        MAIL_LEVELS,
        ONE,
        "0",
        "Delay of the greeting. A client that does not wait for it is refused.",
        |b, c| c.time(&mut b.server().mail.greeting_delay),
    ),
];

fn capabilities(b: &mut Build<'_>, c: &Call<'_>, protocol: MailProtocol) -> Result<(), Fault> {
    for (index, _) in c.args() {
        let capability = c.text(index)?;
        b.server()
            .mail
            .of_mut(protocol)
            .capabilities
            .push(capability.into());
    }
    Ok(())
}

/// Every name of a method.
const METHODS: [&str; 8] = [
    "plain",
    "login",
    "apop",
    "cram-md5",
    "external",
    "none",
    "xoauth2",
    "oauthbearer",
];

/// The methods of a protocol, by name.
fn method(protocol: MailProtocol, name: &[u8]) -> Option<MailAuthMethod> {
    Some(match (name, protocol) {
        (b"plain", _) => MailAuthMethod::Plain,
        (b"login", MailProtocol::Imap | MailProtocol::Smtp) => MailAuthMethod::Login,
        (b"apop", MailProtocol::Pop3) => MailAuthMethod::Apop,
        (b"cram-md5", _) => MailAuthMethod::CramMd5,
        (b"external", _) => MailAuthMethod::External,
        (b"none", MailProtocol::Smtp) => MailAuthMethod::None,
        (b"xoauth2", _) => MailAuthMethod::XOauth2,
        (b"oauthbearer", _) => MailAuthMethod::OauthBearer,
        _ => return None,
    })
}

/// What to write instead of an unknown method.
fn methods(protocol: MailProtocol) -> String {
    let known = METHODS.into_iter();
    let known = known.filter(|name| method(protocol, name.as_bytes()).is_some());
    let known: Vec<String> = known.map(|name| format!("\"{name}\"")).collect();
    format!("it can be {}", known.join(", "))
}

fn auth(b: &mut Build<'_>, c: &Call<'_>, protocol: MailProtocol) -> Result<(), Fault> {
    for (index, written) in c.args() {
        let method = method(protocol, &written.to_ascii_lowercase());
        let method = method.ok_or_else(|| c.invalid(index).help(methods(protocol)))?;
        let known = &mut b.server().mail.of_mut(protocol).auth;
        match known.contains(&method) {
            true => b.warn(format!("duplicate value \"{}\"", c.shown(index))),
            false => known.push(method),
        }
    }
    Ok(())
}
