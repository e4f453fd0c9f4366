//! At the end of `mail`: inheritance, defaults and the checks that need the whole block.

use super::{check_listens, lacks, servers::inherit};
use crate::build::Build;
use crate::call::Fault;
use crate::draft::{MailDraft, MailProtocolDraft, MailProxyDraft, ServerBlock};
use crate::input::Options;
use crate::model::{
    MailAuthHttp, MailProtocol, MailProxy, MailServer, MailStartTls, Server, ServerKind,
};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// nginx's default of buffers: a page.
const PAGE_BYTES: u64 = 4 << 10;
/// nginx's default of `max_errors`.
const MAX_ERRORS: u64 = 5;

impl MailDraft {
    /// Takes what is not set from the outer level; addresses belong to one server.
    pub(super) fn inherit(&mut self, outer: &MailDraft) {
        inherit!(self, outer;
            server_name starttls timeout max_errors greeting_delay auth_http auth_http_timeout
            passes_certificate);
        if self.auth_http_headers.is_empty() {
            self.auth_http_headers.clone_from(&outer.auth_http_headers);
        }
        self.imap.inherit(&outer.imap);
        self.pop3.inherit(&outer.pop3);
        self.smtp.inherit(&outer.smtp);
        self.proxy.inherit(&outer.proxy);
    }

    /// What a server with these settings does; they are merged already. `None` if the server was
    /// refused, because something is missing.
    pub(super) fn server(&self, options: &Options) -> Option<MailServer> {
        let protocol = self.protocol?;
        let service = self.auth_http.as_ref()?;
        let own = self.of(protocol);
        let named = self.server_name.clone().filter(|name| !name.is_empty());
        Some(MailServer {
            protocol,
            server_name: named.unwrap_or_else(|| options.hostname.clone()),
            starttls: self.starttls.unwrap_or_default(),
            timeout: self.timeout.unwrap_or(MINUTE),
            max_errors: self.max_errors.unwrap_or(MAX_ERRORS),
            capabilities: some_of(&own.capabilities),
            auth: some_of(&own.auth),
            client_buffer_bytes: own.client_buffer.unwrap_or(PAGE_BYTES),
            greeting_delay: match protocol {
                MailProtocol::Smtp => self.greeting_delay.unwrap_or_default(),
                _ => Duration::ZERO,
            },
            auth_http: MailAuthHttp {
                addresses: service.addresses.clone(),
                host: service.host.clone(),
                uri: service.uri.clone(),
                headers: self.auth_http_headers.clone().into(),
                timeout: self.auth_http_timeout.unwrap_or(MINUTE),
                passes_certificate: self.passes_certificate.unwrap_or(false),
            },
            proxy: MailProxy {
                buffer_bytes: self.proxy.buffer.unwrap_or(PAGE_BYTES),
                timeout: self.proxy.timeout.unwrap_or(DAY),
                pass_error_message: self.proxy.pass_error_message.unwrap_or(false),
                xclient: self.proxy.xclient.unwrap_or(true),
                smtp_auth: self.proxy.smtp_auth.unwrap_or(false),
            },
        })
    }
}

/// `None` for a list without anything.
fn some_of<T: Clone>(list: &[T]) -> Option<std::sync::Arc<[T]>> {
    (!list.is_empty()).then(|| list.into())
}

impl MailProtocolDraft {
    fn inherit(&mut self, outer: &MailProtocolDraft) {
        inherit!(self, outer; client_buffer);
        if self.capabilities.is_empty() {
            self.capabilities.clone_from(&outer.capabilities);
        }
        if self.auth.is_empty() {
            self.auth.clone_from(&outer.auth);
        }
    }
}

impl MailProxyDraft {
    fn inherit(&mut self, outer: &MailProxyDraft) {
        inherit!(self, outer; buffer timeout pass_error_message xclient smtp_auth);
    }
}

/// What every server needs, in nginx's order: somewhere to listen, a protocol, a certificate, an
/// auth service.
pub(super) fn check(b: &Build<'_>, outer: &MailDraft) -> Result<(), Fault> {
    let blocks = || {
        let all = b.http.servers.iter();
        all.filter(|block| block.kind == ServerKind::Mail)
    };
    check_listens(b, ServerKind::Mail)?;
    if let Some(block) = blocks().find(|block| block.server.mail.protocol.is_none()) {
        return Err(lacks(block, "unknown mail protocol").help(
            "say \"protocol imap\", \"pop3\" or \"smtp\": no port of the server's says which",
        ));
    }
    let has_service = |block: &&ServerBlock| block.server.mail.auth_http.is_some();
    if outer.auth_http.is_none()
        && let Some(block) = blocks().find(|block| !has_service(block))
    {
        let fault = lacks(block, "no \"auth_http\" is defined");
        return Err(
            fault.help("add \"auth_http 127.0.0.1:9000/auth;\", the address of the service")
        );
    }
    Ok(())
}

/// Every server with TLS needs a certificate.
pub(super) fn check_certificates(servers: &[Server], drafts: &Build<'_>) -> Result<(), Fault> {
    let blocks = drafts.http.servers.iter();
    let blocks = blocks.filter(|block| block.kind == ServerKind::Mail);
    for (server, block) in servers.iter().zip(blocks) {
        let starttls = server.mail.as_ref().map(|mail| mail.starttls);
        let mode = match (block.server.mail.listens_ssl, starttls) {
            (true, _) => "listen ... ssl",
            (false, Some(MailStartTls::On | MailStartTls::Only)) => "starttls",
            _ => continue,
        };
        let has_one = (server.tls.as_ref()).is_some_and(|tls| !tls.certificates.is_empty());
        if !has_one {
            let message = format!("no \"ssl_certificate\" is defined for the \"{mode}\" directive");
            return Err(Fault::earlier(&server.origin, message));
        }
    }
    Ok(())
}
