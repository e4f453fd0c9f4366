//! Variables about the connection and its two ends.

use super::{number, seconds, text};
use crate::exchange::Exchange;
use crate::facts::PeerAddress;
use sealane_conf::model::ListenAddress;
use sealane_conf::variables::Builtin;
use sealane_sys::socket::TcpInfo;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;

pub(super) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    let facts = &exchange.connection;
    let tcp = |get: fn(&TcpInfo) -> u32, out: &mut Vec<u8>| {
        facts.tcp_info().is_some_and(|info| number(get(&info), out))
    };
    match builtin {
        Builtin::Scheme => text(if exchange.is_tls() { "https" } else { "http" }, out),
        Builtin::Https => text(if exchange.is_tls() { "on" } else { "" }, out),
        Builtin::RemoteAddr | Builtin::RealipRemoteAddr => match facts.peer {
            PeerAddress::Inet(address) => ip(address.ip(), out),
            PeerAddress::Unix => text("unix:", out),
        },
        Builtin::BinaryRemoteAddr => match facts.peer {
            PeerAddress::Inet(address) => match address.ip() {
                IpAddr::V4(ip) => text(ip.octets(), out),
                IpAddr::V6(ip) => text(ip.octets(), out),
            },
            PeerAddress::Unix => text("unix:", out),
        },
        Builtin::RemotePort | Builtin::RealipRemotePort => match facts.peer {
            PeerAddress::Inet(address) => number(address.port(), out),
            PeerAddress::Unix => text("", out),
        },
        Builtin::ServerAddr => match (facts.local(), listen_address(exchange)) {
            (Some(address), _) => ip(address.ip(), out),
            (None, ListenAddress::Unix(path)) => {
                text("unix:", out) && text(path.as_os_str().as_bytes(), out)
            }
            (None, ListenAddress::Inet(_)) => false,
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

fn listen_address(exchange: &Exchange) -> &ListenAddress {
    &exchange
        .snapshot
        .listener(exchange.connection.listener)
        .address
}

fn ip(address: IpAddr, out: &mut Vec<u8>) -> bool {
    use std::io::Write;
    // Writing to a vector cannot fail.
    write!(out, "{address}").is_ok()
}
