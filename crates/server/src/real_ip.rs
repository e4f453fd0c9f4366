//! `set_real_ip_from`: the client's address, as trusted proxies tell it.

use crate::exchange::Exchange;
use crate::facts::PeerAddress;
use sealane_conf::model::{RealIp, RealIpHeader};
use sealane_conf::upstream_url;
use std::net::{IpAddr, SocketAddr};

/// Replaces the client's address for this exchange if its connection comes from a
/// proxy that is trusted here. Once per exchange, as in nginx: the server's settings,
/// or else those of the location.
pub(crate) fn apply(exchange: &mut Exchange) {
    if exchange.client_address.is_some() {
        return;
    }
    let Some(real_ip) = exchange.conf().real_ip.clone() else {
        return;
    };
    if !trusts(&real_ip, exchange.connection.peer) {
        return;
    }
    exchange.client_address = told_address(exchange, &real_ip).map(PeerAddress::Inet);
}

fn trusts(real_ip: &RealIp, peer: PeerAddress) -> bool {
    match peer {
        PeerAddress::Inet(address) => real_ip.trusts(address.ip()),
        PeerAddress::Unix => real_ip.trusts_unix(),
    }
}

/// The address that the configured header tells, if it tells one.
fn told_address(exchange: &Exchange, real_ip: &RealIp) -> Option<SocketAddr> {
    let name: &[u8] = match &real_ip.header {
        RealIpHeader::ProxyProtocol => {
            let header = exchange.connection.proxy_protocol()?;
            return header.addresses.map(|addresses| addresses.source);
        }
        RealIpHeader::XRealIp => b"x-real-ip",
        RealIpHeader::XForwardedFor => b"x-forwarded-for",
        RealIpHeader::Field(name) => name.as_bytes(),
    };
    let request = &exchange.request;
    let lines = request
        .head
        .headers
        .iter()
        .rev()
        .filter(|header| header.name.of(&request.buffer).eq_ignore_ascii_case(name));
    let words = lines.flat_map(|header| {
        let value = header.value.of(&request.buffer);
        value
            .rsplit(|byte| matches!(byte, b' ' | b'\t' | b','))
            .filter(|word| !word.is_empty())
    });
    let mut found = None;
    for word in words {
        // What is no address ends the chain: whoever wrote it cannot be relied on.
        let Some(address) = parse(word) else {
            break;
        };
        found = Some(address);
        if !real_ip.recursive || !real_ip.trusts(address.ip()) {
            break;
        }
    }
    found
}

/// An address with or without a port.
fn parse(word: &[u8]) -> Option<SocketAddr> {
    if let Ok(text) = std::str::from_utf8(word)
        && let Ok(ip) = text.parse::<IpAddr>()
    {
        return Some(SocketAddr::new(ip, 0));
    }
    upstream_url::local_address(word)
}
