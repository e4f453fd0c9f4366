//! What only `mail` has, as written on a level.

use crate::model::{MailAuthMethod, MailProtocol, MailStartTls, PeerAddress};
use std::sync::Arc;
use std::time::Duration;

/// Settings of `mail` and of its servers.
#[derive(Debug, Default, Clone)]
pub(crate) struct MailDraft {
    /// Of this server alone.
    pub(crate) protocol: Option<MailProtocol>,
    /// Of this server alone: one of its addresses has `ssl`.
    pub(crate) listens_ssl: bool,
    /// `resolver off`.
    pub(crate) resolver_off: bool,
    pub(crate) server_name: Option<String>,
    pub(crate) starttls: Option<MailStartTls>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_errors: Option<u64>,
    pub(crate) imap: MailProtocolDraft,
    pub(crate) pop3: MailProtocolDraft,
    pub(crate) smtp: MailProtocolDraft,
    pub(crate) greeting_delay: Option<Duration>,
    pub(crate) auth_http: Option<MailAuthHttpDraft>,
    pub(crate) auth_http_headers: Vec<(String, String)>,
    pub(crate) auth_http_timeout: Option<Duration>,
    pub(crate) passes_certificate: Option<bool>,
    pub(crate) proxy: MailProxyDraft,
}

/// What each protocol has.
#[derive(Debug, Default, Clone)]
pub(crate) struct MailProtocolDraft {
    pub(crate) capabilities: Vec<Box<str>>,
    pub(crate) auth: Vec<MailAuthMethod>,
    pub(crate) client_buffer: Option<u64>,
}

/// `auth_http`.
#[derive(Debug, Clone)]
pub(crate) struct MailAuthHttpDraft {
    pub(crate) addresses: Arc<[PeerAddress]>,
    pub(crate) host: String,
    pub(crate) uri: String,
}

/// `proxy_*` of `mail`.
#[derive(Debug, Default, Clone)]
pub(crate) struct MailProxyDraft {
    pub(crate) buffer: Option<u64>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) pass_error_message: Option<bool>,
    pub(crate) xclient: Option<bool>,
    pub(crate) smtp_auth: Option<bool>,
}

impl MailDraft {
    /// What is written for a protocol.
    pub(crate) fn of(&self, protocol: MailProtocol) -> &MailProtocolDraft {
        match protocol {
            MailProtocol::Imap => &self.imap,
            MailProtocol::Pop3 => &self.pop3,
            MailProtocol::Smtp => &self.smtp,
        }
    }

    /// The same, to be changed.
    pub(crate) fn of_mut(&mut self, protocol: MailProtocol) -> &mut MailProtocolDraft {
        match protocol {
            MailProtocol::Imap => &mut self.imap,
            MailProtocol::Pop3 => &mut self.pop3,
            MailProtocol::Smtp => &mut self.smtp,
        }
    }
}
