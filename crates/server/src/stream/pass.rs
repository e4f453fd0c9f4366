//! `pass`: the connection goes to another listening socket of the configuration, as if it had been
//! accepted there.

use super::{Ended, PassedTo, Verdict, refuse, shown};
use crate::client_certificates;
use crate::connection::Connection;
use crate::exchange::Exchange;
use crate::request_log::log_request;
use crate::snapshot::ListenerId;
use crate::template;
use sealane_conf::model::{ListenAddress, StreamPassTarget};
use sealane_conf::upstream_url::{HostKind, UpstreamUrl, UriPart};
use sealane_http::StatusCode;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// nginx's limit: more would be a circle.
const MAX_PASSES: u8 = 10;

/// Finds the listener.
///
/// # Errors
/// Always: the session is over.
pub(super) fn find(
    connection: &mut Connection,
    exchange: &mut Exchange,
    target: &StreamPassTarget,
) -> Verdict {
    exchange.features.request_log.doing = " while passing connection to port";
    // What was read before TLS begins goes along with the connection.
    if !connection.buffer.is_empty() && connection.transport.tls().is_some() {
        log_request!(exchange, Error, "cannot pass connection with preread data");
        return refuse(StatusCode::INTERNAL_SERVER_ERROR);
    }
    if connection.note_pass() > MAX_PASSES {
        log_request!(exchange, Error, "stream pass cycle");
        return refuse(StatusCode::INTERNAL_SERVER_ERROR);
    }
    let addresses = match target {
        StreamPassTarget::Fixed(addresses) => addresses.to_vec(),
        StreamPassTarget::Evaluated(address) => {
            let text = template::evaluate(address, exchange).into_owned();
            match parse(&text) {
                Ok(address) => vec![address],
                Err(reason) => {
                    log_request!(exchange, Error, "{reason} in pass \"{}\"", shown(&text));
                    return refuse(StatusCode::INTERNAL_SERVER_ERROR);
                }
            }
        }
    };
    let first = addresses.first().map(ListenAddress::to_string);
    let found = addresses.into_iter().find_map(|address| {
        let listener = listener(exchange, &address)?;
        Some(PassedTo { listener, address })
    });
    match found {
        Some(to) => Err(Ended::Passed(to)),
        None => {
            let address = first.unwrap_or_default();
            log_request!(exchange, Error, "port not found for \"{address}\"");
            Err(Ended::Status(StatusCode::OK))
        }
    }
}

/// What the session knows of the client goes along with the connection.
pub(super) fn take_along(connection: &mut Connection, exchange: &mut Exchange) {
    if let Some(client) = exchange.features.real_ip.client_address {
        connection.facts.set_client_address(client);
        connection.stay();
    }
    if connection.transport.tls().is_some() {
        client_certificates::keep_rules(exchange);
        connection.stay();
    }
    if let Some(permits) = exchange.features.limits.take_permits() {
        connection.keep_permits(permits);
        connection.stay();
    }
}

/// The listener of an address, or the wildcard's of its port.
fn listener(exchange: &Exchange, address: &ListenAddress) -> Option<ListenerId> {
    let snapshot = &exchange.snapshot;
    let mut exact = snapshot.listeners().iter().zip(0..);
    let exact = exact.find(|(known, _)| known.address == *address);
    exact
        .map(|(_, id)| ListenerId(id))
        .or_else(|| snapshot.listener_accepting(address))
}

/// An address whose text comes from variables: a port, an address with one, or a socket.
fn parse(text: &[u8]) -> Result<ListenAddress, &'static str> {
    let any_port = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<u16>().ok());
    if let Some(port) = any_port.filter(|port| *port > 0) {
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        return Ok(ListenAddress::Inet(SocketAddr::new(any, port)));
    }
    let url = UpstreamUrl::parse(text, 0, UriPart::Refused)?;
    match url.kind {
        HostKind::Unix => Ok(ListenAddress::Unix(PathBuf::from(url.host))),
        HostKind::Address(_) if url.port == 0 => Err("no port"),
        HostKind::Address(ip) => Ok(ListenAddress::Inet(SocketAddr::new(ip, url.port))),
        HostKind::Name => Err("no addresses"),
    }
}
