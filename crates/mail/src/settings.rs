//! What an operator may configure of a `server` in `mail`.

use crate::limits::{
    CLIENT_BUFFER_BYTES, MAX_ERRORS, POP3_CLIENT_BUFFER_BYTES, POP3_TOKEN_BUFFER_BYTES,
    PROXY_BUFFER_BYTES,
};
use std::ops::BitOr;

/// What clients and mail servers speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// IMAP4rev1 (RFC 3501).
    Imap,
    /// POP3 (RFC 1939).
    Pop3,
    /// SMTP (RFC 5321).
    Smtp,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::Imap, Protocol::Pop3, Protocol::Smtp];

    /// The name in `protocol`, in ALPN, and in the header `Auth-Protocol`.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Imap => "imap",
            Protocol::Pop3 => "pop3",
            Protocol::Smtp => "smtp",
        }
    }

    /// What a client is told before the connection is closed because something failed here, or on
    /// the way to the auth service or the mail server.
    pub fn internal_error(self) -> &'static [u8] {
        match self {
            Protocol::Imap => b"* BAD internal server error\r\n",
            Protocol::Pop3 => b"-ERR internal server error\r\n",
            Protocol::Smtp => b"451 4.3.2 Internal server error\r\n",
        }
    }

    /// What a client is told whose certificate did not verify (`ssl_verify_client`).
    pub fn certificate_error(self) -> &'static [u8] {
        match self {
            Protocol::Imap => b"* BYE SSL certificate error\r\n",
            Protocol::Pop3 => b"-ERR SSL certificate error\r\n",
            Protocol::Smtp => b"421 4.7.1 SSL certificate error\r\n",
        }
    }

    /// What a client is told that sent no certificate where one is required.
    pub fn no_certificate(self) -> &'static [u8] {
        match self {
            Protocol::Imap => b"* BYE No required SSL certificate\r\n",
            Protocol::Pop3 => b"-ERR No required SSL certificate\r\n",
            Protocol::Smtp => b"421 4.7.1 No required SSL certificate\r\n",
        }
    }
}

/// `starttls`: whether clients of a plain connection may, or must, change to TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StartTls {
    /// They cannot.
    #[default]
    Off,
    /// They may.
    On,
    /// They must, before they log in.
    Only,
}

/// Methods of authentication: `imap_auth`, `pop3_auth`, `smtp_auth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AuthMethods(u16);

impl AuthMethods {
    /// `plain`: AUTH PLAIN, and USER and PASS. It only says whether the method is announced;
    /// clients may always use it.
    pub const PLAIN: AuthMethods = AuthMethods(1);
    /// `login`: AUTH LOGIN. The same holds for it.
    pub const LOGIN: AuthMethods = AuthMethods(1 << 1);
    /// `apop`, POP3 alone.
    pub const APOP: AuthMethods = AuthMethods(1 << 2);
    /// `cram-md5` (RFC 2195).
    pub const CRAM_MD5: AuthMethods = AuthMethods(1 << 3);
    /// `external` (RFC 4422, appendix A).
    pub const EXTERNAL: AuthMethods = AuthMethods(1 << 4);
    /// `none`, SMTP alone: mail is accepted from everyone whom the auth service lets in.
    pub const NONE: AuthMethods = AuthMethods(1 << 5);
    /// `xoauth2`. nginx does not have it, freenginx does.
    pub const XOAUTH2: AuthMethods = AuthMethods(1 << 6);
    /// `oauthbearer` (RFC 7628). nginx does not have it, freenginx does.
    pub const OAUTHBEARER: AuthMethods = AuthMethods(1 << 7);

    /// Whether all of these are among them.
    pub fn contains(self, methods: AuthMethods) -> bool {
        self.0 & methods.0 == methods.0
    }

    /// Whether one of these is among them.
    pub fn intersects(self, methods: AuthMethods) -> bool {
        self.0 & methods.0 != 0
    }
}

impl BitOr for AuthMethods {
    type Output = AuthMethods;

    fn bitor(self, other: AuthMethods) -> AuthMethods {
        AuthMethods(self.0 | other.0)
    }
}

/// What sessions of one `server` have in common.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `protocol`.
    pub protocol: Protocol,
    /// `server_name`: in greetings, in salts, and in what is said to mail servers.
    pub server_name: String,
    /// `starttls`.
    pub starttls: StartTls,
    /// `max_errors`.
    pub max_errors: usize,
    /// `imap_capabilities`, `pop3_capabilities` or `smtp_capabilities`.
    pub capabilities: Vec<String>,
    /// `imap_auth`, `pop3_auth` or `smtp_auth`.
    pub auth: AuthMethods,
    /// The longest command in bytes: `imap_client_buffer` or `smtp_client_buffer`. POP3 has no
    /// directive for it.
    pub client_buffer_bytes: usize,
}

impl Settings {
    /// What nginx takes where nothing is configured.
    pub fn new(protocol: Protocol, server_name: &str) -> Settings {
        let (capabilities, auth): (&[&str], _) = match protocol {
            Protocol::Imap => (&["IMAP4", "IMAP4rev1", "UIDPLUS"], AuthMethods::PLAIN),
            Protocol::Pop3 => (&["TOP", "USER", "UIDL"], AuthMethods::PLAIN),
            Protocol::Smtp => (&[], AuthMethods::PLAIN | AuthMethods::LOGIN),
        };
        Settings {
            protocol,
            server_name: server_name.to_owned(),
            starttls: StartTls::Off,
            max_errors: MAX_ERRORS,
            capabilities: capabilities.iter().map(|&name| name.to_owned()).collect(),
            auth,
            client_buffer_bytes: match protocol {
                Protocol::Pop3 => POP3_CLIENT_BUFFER_BYTES,
                Protocol::Imap | Protocol::Smtp => CLIENT_BUFFER_BYTES,
            },
        }
    }

    /// The longest command in bytes. Tokens do not fit into what nginx has for commands of POP3.
    pub(crate) fn command_bytes(&self) -> usize {
        let tokens = AuthMethods::XOAUTH2 | AuthMethods::OAUTHBEARER;
        if self.protocol == Protocol::Pop3 && self.auth.intersects(tokens) {
            return self.client_buffer_bytes.max(POP3_TOKEN_BUFFER_BYTES);
        }
        self.client_buffer_bytes.max(1)
    }
}

/// How a login at a mail server is done: `ngx_mail_proxy_module`.
#[derive(Clone, Debug)]
pub struct ProxySettings {
    /// `proxy_buffer`: the longest response in bytes.
    pub buffer_bytes: usize,
    /// `proxy_pass_error_message`: whether clients see what the mail server says against a login.
    pub pass_error_message: bool,
    /// `xclient`: whether an SMTP server is told who the client is.
    pub xclient: bool,
    /// `proxy_smtp_auth`: whether the client's name and password are used at an SMTP server.
    pub smtp_auth: bool,
}

impl Default for ProxySettings {
    fn default() -> ProxySettings {
        ProxySettings {
            buffer_bytes: PROXY_BUFFER_BYTES,
            pass_error_message: false,
            xclient: true,
            smtp_auth: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_pop3_are_short_unless_they_may_have_tokens() {
        let mut settings = Settings::new(Protocol::Pop3, "mail.example.org");
        assert_eq!(settings.command_bytes(), POP3_CLIENT_BUFFER_BYTES);
        settings.auth = settings.auth | AuthMethods::XOAUTH2;
        assert_eq!(settings.command_bytes(), POP3_TOKEN_BUFFER_BYTES);
    }
}
