//! What a session keeps, and what the crate `mail` knows of its configuration.

use crate::connection::Connection;
use crate::exchange::Exchange;
use crate::proxying::peer_address;
use crate::request_log;
use crate::stream;
use sealane_conf::model::{LogLevel, MailAuthMethod, MailProtocol, MailServer, MailStartTls};
use sealane_mail::{
    AuthMethods, AuthService, Note, Protocol, ProxySettings, SaltSeed, Settings, Severity, StartTls,
};
use sealane_upstream::PeerAddress;
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

/// What a server of `mail` means at run time: made once for a snapshot, and shared by its sessions.
pub(crate) struct MailRuntime {
    /// As it is configured.
    pub(super) conf: Arc<MailServer>,
    /// Of dialogues with clients.
    pub(super) settings: Arc<Settings>,
    /// How clients are logged in at mail servers.
    pub(super) proxy: ProxySettings,
    /// The auth service, and its addresses.
    pub(super) service: AuthService,
    pub(super) service_addresses: Box<[PeerAddress]>,
}

impl MailRuntime {
    pub(crate) fn new(conf: &Arc<MailServer>) -> MailRuntime {
        let service = &conf.auth_http;
        MailRuntime {
            conf: Arc::clone(conf),
            settings: Arc::new(settings(conf)),
            proxy: ProxySettings {
                buffer_bytes: usize::try_from(conf.proxy.buffer_bytes).unwrap_or(usize::MAX),
                pass_error_message: conf.proxy.pass_error_message,
                xclient: conf.proxy.xclient,
                smtp_auth: conf.proxy.smtp_auth,
            },
            service: AuthService {
                uri: service.uri.clone(),
                host: service.host.clone(),
                headers: service.headers.to_vec(),
            },
            service_addresses: service.addresses.iter().map(peer_address).collect(),
        }
    }
}

fn settings(conf: &MailServer) -> Settings {
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
