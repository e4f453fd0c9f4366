//! Checks the client's certificate against the rules of the server that answers, before
//! anything else is done for a request (nginx's `ngx_http_process_request()`).
//!
//! The handshake accepts every client that has the key of the certificate it sends. The chain
//! is verified here, by the rules of the server that answers. It belongs to the connection for
//! its whole life; the verdicts are kept beside it, one for each set of rules.

use crate::exchange::Exchange;
use crate::request_log::log_request;
use crate::snapshot::ServerId;
use sealane_conf::model::VerifyClient;
use sealane_http::StatusCode;
use sealane_io::disk;
use sealane_tls::{ClientChain, ClientVerifier, Info, StatusFailure, VerifyFailure};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// What is known of the client after the handshake, where some server asks for certificates.
pub struct ClientFacts {
    /// The server name, in lower case and without a trailing dot; empty without SNI.
    server_name: Box<[u8]>,
    chain: Option<Arc<ClientChain>>,
    /// The rules of the server whose listener did the handshake, once the connection was passed to
    /// another one (`pass`); it may have had none.
    passed: OnceLock<Option<Arc<ClientVerifier>>>,
}

impl ClientFacts {
    pub(crate) fn of(connection: &sealane_tls::Connection) -> ClientFacts {
        ClientFacts::new(connection.info(), connection.client_chain())
    }

    /// The same of a handshake over QUIC.
    pub(crate) fn of_quic(tls: &sealane_tls::quic::ServerConnection) -> ClientFacts {
        ClientFacts::new(tls.info(), tls.client_chain())
    }

    fn new(info: Option<Info<'_>>, chain: Option<ClientChain>) -> ClientFacts {
        let name = info.as_ref().map_or("", |info| info.server_name());
        let name = name.strip_suffix('.').unwrap_or(name);
        ClientFacts {
            server_name: name.to_ascii_lowercase().into_bytes().into(),
            chain: chain.map(Arc::new),
            passed: OnceLock::new(),
        }
    }

    /// The certificates that the client has shown.
    pub(crate) fn chain(&self) -> Option<&Arc<ClientChain>> {
        self.chain.as_ref()
    }
}

/// Whether the client may be answered. The server has been chosen.
///
/// # Errors
/// The status to answer with.
pub(crate) async fn check(exchange: &Exchange) -> Result<(), StatusCode> {
    if !exchange.snapshot.asks_clients || !exchange.is_tls() {
        return Ok(());
    }
    // As in nginx, who was passed to a listener without `ssl` is not asked there.
    if exchange
        .snapshot
        .listener(exchange.listener)
        .acceptor
        .is_none()
    {
        return Ok(());
    }
    let mode = exchange.server().conf.verify_client;
    if mode == VerifyClient::Off {
        return Ok(());
    }
    if is_misdirected(exchange) {
        log_request!(
            exchange,
            Info,
            "client attempted to request the server name different from the one that was \
             negotiated{}",
            reading(exchange)
        );
        return Err(StatusCode::MISDIRECTED_REQUEST);
    }
    let Some(chain) = chain(exchange) else {
        if mode != VerifyClient::On {
            return Ok(());
        }
        log_request!(
            exchange,
            Info,
            "client sent no required SSL certificate{}",
            reading(exchange)
        );
        return Err(StatusCode::NO_CERTIFICATE);
    };
    match judge(exchange, chain).await {
        Ok(()) => Ok(()),
        Err(NotAccepted::Chain(failure))
            if mode == VerifyClient::OptionalNoCa && failure.is_untrusted_issuer() =>
        {
            Ok(())
        }
        Err(NotAccepted::Status(failure)) => {
            log_request!(
                exchange,
                Info,
                "client SSL certificate verify error: {failure}{}",
                reading(exchange)
            );
            Err(StatusCode::CERTIFICATE_ERROR)
        }
        Err(NotAccepted::Chain(failure)) => {
            log_request!(
                exchange,
                Info,
                "client SSL certificate verify error: ({}:{}){}",
                failure.code(),
                failure.reason(),
                reading(exchange)
            );
            Err(StatusCode::CERTIFICATE_ERROR)
        }
    }
}

/// What is being done, for log lines, unless the exchange says it itself.
fn reading(exchange: &Exchange) -> &'static str {
    match exchange.features.request_log.doing.is_empty() {
        true => " while reading client request headers",
        false => "",
    }
}

/// Whether the connection was opened for another name than the request's. As in nginx, names are
/// compared, not servers, and only if the first was the name of a server.
fn is_misdirected(exchange: &Exchange) -> bool {
    let Some(client) = exchange.connection.client() else {
        return false;
    };
    let names = &exchange.snapshot.listener(exchange.listener).names;
    // The names are of another listener if it was passed on.
    client.passed.get().is_none()
        && !client.server_name.is_empty()
        && !names.is_single()
        && *client.server_name != *exchange.request.host
        && names.has(&client.server_name)
}

/// Why a client's certificate is not accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotAccepted {
    /// Its chain is not trusted.
    Chain(VerifyFailure),
    /// What its issuers say (`ssl_ocsp`).
    Status(StatusFailure),
}

impl NotAccepted {
    /// OpenSSL's number (`X509_V_ERR_...`). As in nginx, what issuers say is a revocation.
    pub(crate) fn code(self) -> i32 {
        match self {
            NotAccepted::Chain(failure) => failure.code(),
            NotAccepted::Status(_) => VerifyFailure::REVOKED.code(),
        }
    }

    /// In OpenSSL's and nginx's words.
    pub(crate) fn reason(self) -> Cow<'static, str> {
        match self {
            NotAccepted::Chain(failure) => failure.reason().into(),
            NotAccepted::Status(failure) => failure.to_string().into(),
        }
    }
}

/// The verdict; computed off the worker thread if it takes long and is not cached. With `ssl_ocsp`
/// the issuers are asked once for each connection and set of rules.
async fn judge(exchange: &Exchange, chain: &Arc<ClientChain>) -> Result<(), NotAccepted> {
    let Some((server, rules)) = rules(exchange) else {
        // Some server asked for a certificate, but its rules no longer exist.
        return Err(NotAccepted::Chain(VerifyFailure::UNSPECIFIED));
    };
    if rules.is_judged(chain) {
        rules.judge(chain).map_err(NotAccepted::Chain)?;
        if let Some(status) = rules.status(chain) {
            return status.map_err(NotAccepted::Status);
        }
    }
    let questions = match chain.is_cheap() {
        true => rules.questions(chain),
        false => {
            let (rules, chain) = (Arc::clone(rules), Arc::clone(chain));
            disk::run(move || rules.questions(&chain)).await
        }
    };
    let questions = questions.map_err(NotAccepted::Chain)?;
    if questions.is_empty() {
        // Without `ssl_ocsp`, or for a certificate that is trusted by itself.
        rules.note_status(chain, Ok(()));
        return Ok(());
    }
    let resolver = exchange.snapshot.server(server).resolver.clone();
    // Few connections do it: they need not make the futures of all others larger.
    let settled = Box::pin(exchange.snapshot.statuses.settle(questions, resolver)).await;
    rules.note_status(chain, settled);
    settled.map_err(NotAccepted::Status)
}

/// The verdict on the client's certificates for `$ssl_client_verify`; `None` without a certificate.
///
/// # Errors
/// Why the certificate is not accepted.
pub(crate) fn verdict(exchange: &Exchange) -> Option<Result<(), NotAccepted>> {
    let chain = chain(exchange)?;
    let Some((_, rules)) = rules(exchange) else {
        return Some(Err(NotAccepted::Chain(VerifyFailure::UNSPECIFIED)));
    };
    if let Err(failure) = rules.judge(chain) {
        return Some(Err(NotAccepted::Chain(failure)));
    }
    // A request that is refused before its client is judged may find that nobody has asked.
    let status = rules.status(chain);
    let status = status.unwrap_or(Err(StatusFailure::RequestFailed));
    Some(status.map_err(NotAccepted::Status))
}

/// The certificates that the client has shown.
pub(crate) fn chain(exchange: &Exchange) -> Option<&Arc<ClientChain>> {
    exchange.connection.client()?.chain()
}

/// The connection of a session is passed to another listener: what the client's certificates are
/// worth stays what it is here.
pub(crate) fn keep_rules(exchange: &Exchange) {
    if let Some(client) = exchange.connection.client() {
        let rules = rules(exchange).map(|(_, rules)| Arc::clone(rules));
        let _ = client.passed.set(rules);
    }
}

/// The rules of the server that answers, and whose they are. If it has none, those of the server
/// that the connection was opened for, or of the default server, whose certificate servers without
/// TLS settings use. After `pass` they are those of the server that it was passed on by: the
/// handshake was there.
fn rules(exchange: &Exchange) -> Option<(ServerId, &Arc<ClientVerifier>)> {
    let client = exchange.connection.client();
    if let Some(passed) = client.and_then(|client| client.passed.get()) {
        return passed.as_ref().map(|rules| (exchange.server, rules));
    }
    let snapshot = &exchange.snapshot;
    let names = &snapshot.listener(exchange.listener).names;
    let opened_for = match client {
        Some(client) if !client.server_name.is_empty() => names.find(&client.server_name, None),
        _ => names.default_server(),
    };
    let mut servers = [exchange.server, opened_for, names.default_server()].into_iter();
    servers.find_map(|server| {
        let tls = snapshot.server(server).tls.as_ref()?;
        Some((server, tls.client_verifier()?))
    })
}
