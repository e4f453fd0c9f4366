//! What an auth service and a mail server are told of the client.

use super::session::{MailRuntime, doing};
use super::wire;
use crate::connection::Connection;
use crate::exchange::Exchange;
use crate::facts::PeerAddress;
use crate::request_log::log_request;
use crate::variables;
use sealane_conf::model::{MailProtocol, Variable, VerifyClient};
use sealane_conf::variables::Builtin;
use sealane_http::proxy_protocol::Addresses;
use sealane_mail::{
    ClientDetails, HOST_TEMPORARILY_UNAVAILABLE, HOST_UNAVAILABLE, ProxyHeader, TlsDetails,
    is_valid_host,
};
use sealane_upstream::resolve::ResolveError;
use std::net::IpAddr;
use std::time::Instant;

/// What is known of a client.
#[derive(Default)]
pub(super) struct MailClient {
    address: String,
    /// Its name, with SMTP.
    pub(super) host: Vec<u8>,
    proxy: Option<Header>,
    tls: Option<Tls>,
}

/// The addresses of a PROXY header.
struct Header {
    source: String,
    destination: String,
    ports: (u16, u16),
}

#[derive(Default)]
struct Tls {
    protocol: &'static str,
    cipher: &'static str,
    verify: String,
    subject: String,
    issuer: String,
    serial: String,
    fingerprint: String,
    certificate: String,
}

impl MailClient {
    /// What is known now: TLS may have begun since the last login.
    pub(super) fn of(exchange: &Exchange, mail: &MailRuntime, host: Vec<u8>) -> MailClient {
        MailClient {
            address: exchange.client_address().to_string(),
            host,
            proxy: header(exchange),
            tls: exchange.is_tls().then(|| tls(exchange, mail)),
        }
    }

    /// The same, as the crate `mail` sees it.
    pub(super) fn details(&self) -> ClientDetails<'_> {
        ClientDetails {
            address: &self.address,
            host: &self.host,
            proxy: self.proxy.as_ref().map(|header| ProxyHeader {
                source: &header.source,
                source_port: header.ports.0,
                destination: &header.destination,
                destination_port: header.ports.1,
            }),
            tls: self.tls.as_ref().map(|tls| TlsDetails {
                protocol: tls.protocol,
                cipher: tls.cipher,
                verify: &tls.verify,
                subject: &tls.subject,
                issuer: &tls.issuer,
                serial: &tls.serial,
                fingerprint: &tls.fingerprint,
                certificate: &tls.certificate,
            }),
        }
    }
}

fn header(exchange: &Exchange) -> Option<Header> {
    let addresses = exchange.connection.proxy_protocol()?.addresses;
    let Addresses {
        source,
        destination,
    } = addresses?;
    Some(Header {
        source: source.ip().to_string(),
        destination: destination.ip().to_string(),
        ports: (source.port(), destination.port()),
    })
}

/// What the handshake has brought. As in nginx, certificates are told where they are verified.
fn tls(exchange: &Exchange, mail: &MailRuntime) -> Tls {
    let facts = exchange.connection.tls();
    let mut tls = Tls {
        protocol: facts.map_or("", |facts| facts.protocol),
        cipher: facts.map_or("", |facts| facts.cipher),
        ..Tls::default()
    };
    if exchange.server().conf.verify_client == VerifyClient::Off {
        return tls;
    }
    let value = |builtin| {
        let mut value = Vec::new();
        variables::append(exchange, &Variable::Builtin(builtin), &mut value);
        String::from_utf8_lossy(&value).into_owned()
    };
    tls.verify = value(Builtin::SslClientVerify);
    tls.subject = value(Builtin::SslClientSDn);
    tls.issuer = value(Builtin::SslClientIDn);
    tls.serial = value(Builtin::SslClientSerial);
    tls.fingerprint = value(Builtin::SslClientFingerprint);
    if mail.conf.auth_http.passes_certificate {
        tls.certificate = value(Builtin::SslClientRawCert);
    }
    tls
}

/// The name of a client of SMTP: that of its address, if this name has this address. Empty for
/// other protocols.
pub(super) async fn host(
    connection: &Connection,
    exchange: &mut Exchange,
    mail: &MailRuntime,
) -> Vec<u8> {
    if mail.conf.protocol != MailProtocol::Smtp {
        return Vec::new();
    }
    if exchange.server().resolver.is_none() {
        return HOST_UNAVAILABLE.to_vec();
    }
    let address = match exchange.client_address() {
        PeerAddress::Inet(address) => address.ip(),
        PeerAddress::Unix => return HOST_TEMPORARILY_UNAVAILABLE.to_vec(),
    };
    // The resolver has a time-out of its own; that of the session holds as well.
    let deadline = Instant::now() + mail.conf.timeout.max(exchange.conf().resolver_timeout);
    let looking = Box::pin(look_up(exchange, address));
    match wire::within(connection, deadline, looking).await {
        Ok(name) => name,
        Err(_) => HOST_TEMPORARILY_UNAVAILABLE.to_vec(),
    }
}

/// Looks the name of an address up, and the addresses of that name.
async fn look_up(exchange: &mut Exchange, address: IpAddr) -> Vec<u8> {
    let unknown = |error| match error {
        ResolveError::NotFound => HOST_UNAVAILABLE.to_vec(),
        _ => HOST_TEMPORARILY_UNAVAILABLE.to_vec(),
    };
    let Some(resolver) = exchange.server().resolver.clone() else {
        return HOST_UNAVAILABLE.to_vec();
    };
    doing(exchange, " while in resolving client address");
    let found = resolver.name_of(address).await;
    let found = found.unwrap_or(Err(ResolveError::TimedOut));
    let name = match found.and_then(|name| name.ok_or(ResolveError::NotFound)) {
        Ok(name) => name,
        Err(error) => {
            log_request!(exchange, Error, "{address} could not be resolved ({error})");
            return unknown(error);
        }
    };
    if !is_valid_host(name.as_bytes()) {
        let shown = name.escape_debug();
        log_request!(
            exchange,
            Error,
            "{address} resolved to invalid host name \"{shown}\""
        );
        return HOST_TEMPORARILY_UNAVAILABLE.to_vec();
    }
    doing(exchange, " while in resolving client hostname");
    match resolver.lookup(&name).await {
        Ok(addresses) if addresses.contains(&address) => name.into_bytes(),
        Ok(_) => HOST_UNAVAILABLE.to_vec(),
        Err(error) => {
            log_request!(
                exchange,
                Error,
                "\"{name}\" could not be resolved ({error})"
            );
            unknown(error)
        }
    }
}
