//! The `mail` block: proxies for IMAP, POP3 and SMTP.
//!
//! A server of `mail` is a [`super::Server`] whose [`super::Server::mail`] is set: TLS, error logs,
//! name servers and trusted proxies are those of HTTP. What is here belongs to mail alone.

use super::PeerAddress;
use std::sync::Arc;
use std::time::Duration;

/// What clients of a server speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailProtocol {
    /// IMAP.
    Imap,
    /// POP3.
    Pop3,
    /// SMTP.
    Smtp,
}

impl MailProtocol {
    /// All of them.
    pub const ALL: [MailProtocol; 3] = [MailProtocol::Imap, MailProtocol::Pop3, MailProtocol::Smtp];

    /// Its name in `protocol`, and in ALPN.
    pub const fn name(self) -> &'static str {
        match self {
            MailProtocol::Imap => "imap",
            MailProtocol::Pop3 => "pop3",
            MailProtocol::Smtp => "smtp",
        }
    }

    /// The ports that say which protocol is meant.
    pub const fn ports(self) -> &'static [u16] {
        match self {
            MailProtocol::Imap => &[143, 993],
            MailProtocol::Pop3 => &[110, 995],
            MailProtocol::Smtp => &[25, 465, 587],
        }
    }
}

/// `starttls`: whether clients of a plain connection may, or must, change to TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MailStartTls {
    /// They cannot.
    #[default]
    Off,
    /// They may.
    On,
    /// They must, before they log in.
    Only,
}

/// A method of `imap_auth`, `pop3_auth` or `smtp_auth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailAuthMethod {
    /// `plain`.
    Plain,
    /// `login`.
    Login,
    /// `apop`, of POP3.
    Apop,
    /// `cram-md5`.
    CramMd5,
    /// `external`.
    External,
    /// `none`, of SMTP.
    None,
    /// `xoauth2`, which freenginx has.
    XOauth2,
    /// `oauthbearer` (RFC 7628), which freenginx has.
    OauthBearer,
}

/// What only a server of `mail` has.
#[derive(Debug, Clone)]
pub struct MailServer {
    /// `protocol`, or what the port of its first address says.
    pub protocol: MailProtocol,
    /// `server_name`: in greetings, and in what is said to mail servers; by default the machine's
    /// name.
    pub server_name: String,
    /// `starttls`; default off.
    pub starttls: MailStartTls,
    /// `timeout`: for clients before they are logged in, and for the login at a mail server;
    /// default 60 s.
    pub timeout: Duration,
    /// `max_errors`; default 5.
    pub max_errors: u64,
    /// `imap_capabilities`, `pop3_capabilities` or `smtp_capabilities`; `None` for those of nginx.
    pub capabilities: Option<Arc<[Box<str>]>>,
    /// `imap_auth`, `pop3_auth` or `smtp_auth`; `None` for those of nginx.
    pub auth: Option<Arc<[MailAuthMethod]>>,
    /// `imap_client_buffer` or `smtp_client_buffer`; default 4k. For POP3 it means nothing.
    pub client_buffer_bytes: u64,
    /// `smtp_greeting_delay`; default 0, and 0 for other protocols.
    pub greeting_delay: Duration,
    /// `auth_http` and what belongs to it.
    pub auth_http: MailAuthHttp,
    /// What becomes of sessions that have logged in.
    pub proxy: MailProxy,
}

/// The service that decides about logins.
#[derive(Debug, Clone)]
pub struct MailAuthHttp {
    /// The addresses of its host, of which the first is used that a connection can be made to.
    pub addresses: Arc<[PeerAddress]>,
    /// The header `Host`; `localhost` for a Unix socket.
    pub host: String,
    /// Path and query; `/` without one.
    pub uri: String,
    /// `auth_http_header`: names and values.
    pub headers: Arc<[(String, String)]>,
    /// `auth_http_timeout`; default 60 s.
    pub timeout: Duration,
    /// `auth_http_pass_client_cert`; default off.
    pub passes_certificate: bool,
}

/// ngx_mail_proxy_module.
#[derive(Debug, Clone)]
pub struct MailProxy {
    /// `proxy_buffer`: of each direction, and the longest response to a login; default 4k.
    pub buffer_bytes: u64,
    /// `proxy_timeout`: between two reads or writes after the login; default 24 h.
    pub timeout: Duration,
    /// `proxy_pass_error_message`; default off.
    pub pass_error_message: bool,
    /// `xclient`; default on.
    pub xclient: bool,
    /// `proxy_smtp_auth`; default off.
    pub smtp_auth: bool,
}
