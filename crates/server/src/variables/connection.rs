//! Variables about the connection and its two endpoints.

use super::{number, seconds, text};
use crate::exchange::Exchange;
use crate::facts::PeerAddress;
use sealane_conf::model::ListenAddress;
use sealane_conf::variables::Builtin;
use sealane_http::h1::Version;
use sealane_http::proxy_protocol::{Addresses, TlvName};
use sealane_sys::socket::TcpInfo;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;

pub(super) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    let facts = &exchange.connection;
    let tcp = |get: fn(&TcpInfo) -> u32, out: &mut Vec<u8>| {
        facts.tcp_info().is_some_and(|info| number(get(&info), out))
    };
    match builtin {
        Builtin::Scheme => text(if exchange.is_tls() { "https" } else { "http" }, out),
        Builtin::Http2 => {
            let is_http2 = exchange.request.head.version == Version::Http2;
            let name = if exchange.is_tls() { "h2" } else { "h2c" };
            text(if is_http2 { name } else { "" }, out)
        }
        Builtin::Http3 => {
            let name = match exchange.request.head.version {
                Version::Http3 => "h3",
                Version::Http09 if facts.is_quic() => "hq",
                _ => "",
            };
            text(name, out)
        }
        Builtin::Quic => text(if facts.is_quic() { "quic" } else { "" }, out),
        Builtin::Https => text(if exchange.is_tls() { "on" } else { "" }, out),
        Builtin::RemoteAddr => peer_ip(exchange.client_address(), out),
        Builtin::RealipRemoteAddr => peer_ip(exchange.peer_address(), out),
        Builtin::BinaryRemoteAddr => match exchange.client_address() {
            PeerAddress::Inet(address) => match address.ip() {
                IpAddr::V4(ip) => text(ip.octets(), out),
                IpAddr::V6(ip) => text(ip.octets(), out),
            },
            PeerAddress::Unix => text("unix:", out),
        },
        Builtin::RemotePort => peer_port(exchange.client_address(), out),
        Builtin::RealipRemotePort => peer_port(exchange.peer_address(), out),
        Builtin::ProxyProtocolAddr => {
            told(exchange, |told| told.source).is_some_and(|address| ip(address.ip(), out))
        }
        Builtin::ProxyProtocolPort => {
            told(exchange, |told| told.source).is_some_and(|address| number(address.port(), out))
        }
        Builtin::ProxyProtocolServerAddr => {
            told(exchange, |told| told.destination).is_some_and(|address| ip(address.ip(), out))
        }
        Builtin::ProxyProtocolServerPort => told(exchange, |told| told.destination)
            .is_some_and(|address| number(address.port(), out)),
        Builtin::ServerAddr => match (facts.local(), listen_address(exchange)) {
            (Some(address), _) => ip(address.ip(), out),
            (None, ListenAddress::Unix(path)) => {
                text("unix:", out) && text(path.as_os_str().as_bytes(), out)
            }
            (None, ListenAddress::Inet(_) | ListenAddress::Udp(_)) => false,
        },
        Builtin::ServerPort => match facts.local() {
            Some(address) => number(address.port(), out),
            None => text("", out),
        },
        Builtin::ServerName => text(&exchange.server().conf.primary_name, out),
        Builtin::Connection => number(facts.number, out),
        Builtin::ConnectionRequests => number(facts.requests(), out),
        Builtin::ConnectionTime => seconds(facts.accepted.elapsed().as_millis(), out),
        Builtin::TcpinfoRtt => tcp(|info| info.rtt_us, out),
        Builtin::TcpinfoRttvar => tcp(|info| info.rttvar_us, out),
        Builtin::TcpinfoSndCwnd => tcp(|info| info.snd_cwnd, out),
        Builtin::TcpinfoRcvSpace => tcp(|info| info.rcv_space, out),
        _ => false,
    }
}

/// `$proxy_protocol_tlv_NAME`.
pub(super) fn tlv(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let Some(header) = exchange.connection.proxy_protocol() else {
        return false;
    };
    let value = TlvName::parse(name)
        .ok()
        .map(|name| header.tlvs().value(name));
    // A broken extension is as good as none.
    match value {
        Some(Ok(Some(value))) => text(value, out),
        _ => false,
    }
}

/// One end of the connection according to the PROXY header.
fn told(exchange: &Exchange, end: impl Fn(&Addresses) -> SocketAddr) -> Option<SocketAddr> {
    let header = exchange.connection.proxy_protocol()?;
    header.addresses.as_ref().map(end)
}

fn peer_ip(peer: PeerAddress, out: &mut Vec<u8>) -> bool {
    match peer {
        PeerAddress::Inet(address) => ip(address.ip(), out),
        PeerAddress::Unix => text("unix:", out),
    }
}

fn peer_port(peer: PeerAddress, out: &mut Vec<u8>) -> bool {
    match peer {
        // A proxy may send an address without a port; nginx leaves the variable empty then.
        PeerAddress::Inet(address) if address.port() > 0 => number(address.port(), out),
        PeerAddress::Inet(_) | PeerAddress::Unix => text("", out),
    }
}

fn listen_address(exchange: &Exchange) -> &ListenAddress {
    &exchange.snapshot.listener(exchange.listener).address
}

fn ip(address: IpAddr, out: &mut Vec<u8>) -> bool {
    use std::io::Write;
    // Writing to a vector cannot fail.
    write!(out, "{address}").is_ok()
}
