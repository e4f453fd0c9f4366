//! What a session keeps, and what the crate `mail` knows of its configuration.

use crate::connection::Connection;
use crate::exchange::Exchange;
use crate::request_log;
use crate::stream;
use sealane_conf::model::{LogLevel, MailAuthMethod, MailProtocol, MailServer, MailStartTls};
use sealane_mail::{
    AuthMethods, AuthService, Note, Protocol, ProxySettings, SaltSeed, Settings, Severity, StartTls,
};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a session of mail keeps for its log lines.
#[derive(Debug, Default)]
pub(crate) struct MailState {
    /// The name that the client logs in with; empty before.
    pub(crate) login: Vec<u8>,
    /// TLS was begun with STARTTLS.
    pub(crate) is_starttls: bool,
    /// The mail server that it is passed on to, as the auth service named it.
    pub(crate) upstream: Option<String>,
}

/// The session of a connection that begins.
pub(super) fn begin(connection: &Connection) -> Exchange {
    let mut exchange = stream::begin_exchange(connection);
    if let Some(session) = &mut exchange.features.session {
        session.mail = Some(Box::default());
    }
    exchange
}

/// What the session keeps.
pub(super) fn state(exchange: &mut Exchange) -> Option<&mut MailState> {
    exchange.features.session.as_mut()?.mail.as_deref_mut()
}

/// Says in log lines what the session is doing: ` while ...`.
pub(super) fn doing(exchange: &mut Exchange, doing: &'static str) {
    exchange.features.request_log.doing = doing;
}

/// Logs what the dialogue has to say.
pub(super) fn log(exchange: &Exchange, note: &Note) {
    let level = match note.severity() {
        Severity::Info => LogLevel::Info,
        Severity::Error => LogLevel::Error,
    };
    request_log::log(exchange, level, format_args!("{note}"));
}

/// The settings of a server's dialogues.
pub(super) fn settings(conf: &MailServer) -> Settings {
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut settings = Settings::new(protocol(conf.protocol), &conf.server_name);
    settings.starttls = match conf.starttls {
        MailStartTls::Off => StartTls::Off,
        MailStartTls::On => StartTls::On,
        MailStartTls::Only => StartTls::Only,
    };
    settings.max_errors = bytes(conf.max_errors);
    if let Some(capabilities) = &conf.capabilities {
        let names = capabilities.iter();
        settings.capabilities = names.map(|name| name.to_string()).collect();
    }
    if let Some(methods) = &conf.auth {
        let methods = methods.iter().map(|known| method(*known));
        settings.auth = methods.fold(AuthMethods::default(), |all, one| all | one);
    }
    if conf.protocol != MailProtocol::Pop3 {
        settings.client_buffer_bytes = bytes(conf.client_buffer_bytes);
    }
    settings
}

/// How clients are logged in at mail servers.
pub(super) fn proxy_settings(conf: &MailServer) -> ProxySettings {
    let proxy = &conf.proxy;
    ProxySettings {
        buffer_bytes: usize::try_from(proxy.buffer_bytes).unwrap_or(usize::MAX),
        pass_error_message: proxy.pass_error_message,
        xclient: proxy.xclient,
        smtp_auth: proxy.smtp_auth,
    }
}

/// The auth service.
pub(super) fn auth_service(conf: &MailServer) -> AuthService {
    let service = &conf.auth_http;
    AuthService {
        uri: service.uri.clone(),
        host: service.host.clone(),
        headers: service.headers.to_vec(),
    }
}

/// The settings of the dialogue of a session that begins.
pub(super) fn dialogue_settings(conf: &MailServer) -> Arc<Settings> {
    Arc::new(settings(conf))
}

/// What challenges are made of.
pub(super) fn salt_seed() -> SaltSeed {
    let mut random = [0; 8];
    // The kernel's generator cannot fail once the machine has started.
    getrandom::fill(&mut random).expect("the kernel has random bytes");
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    SaltSeed {
        random: u64::from_ne_bytes(random),
        unix_seconds: now.as_ref().map_or(0, Duration::as_secs),
    }
}

fn protocol(protocol: MailProtocol) -> Protocol {
    match protocol {
        MailProtocol::Imap => Protocol::Imap,
        MailProtocol::Pop3 => Protocol::Pop3,
        MailProtocol::Smtp => Protocol::Smtp,
    }
}

fn method(method: MailAuthMethod) -> AuthMethods {
    match method {
        MailAuthMethod::Plain => AuthMethods::PLAIN,
        MailAuthMethod::Login => AuthMethods::LOGIN,
        MailAuthMethod::Apop => AuthMethods::APOP,
        MailAuthMethod::CramMd5 => AuthMethods::CRAM_MD5,
        MailAuthMethod::External => AuthMethods::EXTERNAL,
        MailAuthMethod::None => AuthMethods::NONE,
        MailAuthMethod::XOauth2 => AuthMethods::XOAUTH2,
        MailAuthMethod::OauthBearer => AuthMethods::OAUTHBEARER,
    }
}
