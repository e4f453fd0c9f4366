//! `set_real_ip_from`: the client's address according to trusted proxies.

use crate::exchange::Exchange;
use crate::facts::PeerAddress;
use sealane_conf::model::{RealIp, RealIpHeader};
use sealane_conf::values;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What a request keeps for `set_real_ip_from`.
#[derive(Clone, Default)]
pub(crate) struct RealIpState {
    /// The client's address, if a trusted proxy names another than the connection's.
    pub(crate) client_address: Option<PeerAddress>,
    /// The other side's address when the request came, if it has moved since its connection began
    /// (RFC 9000 section 9).
    pub(crate) moved_to: Option<Box<SocketAddr>>,
}

/// Replaces the client's address for this exchange if its connection comes from a trusted proxy.
/// Once per exchange, as in nginx: by the server's settings, or by those of the location.
pub(crate) fn apply(exchange: &mut Exchange) {
    if exchange.features.real_ip.client_address.is_some() {
        return;
    }
    let Some(real_ip) = exchange.conf().real_ip.clone() else {
        return;
    };
    if !trusts(&real_ip, exchange.peer_address()) {
        return;
    }
    exchange.features.real_ip.client_address =
        told_address(exchange, &real_ip).map(PeerAddress::Inet);
}

/// The client's address behind a chain of proxies that ends with `address`, for `geo`'s `proxy`.
pub(crate) fn forwarded(exchange: &Exchange, proxies: &RealIp, address: IpAddr) -> IpAddr {
    match proxies.trusts(address) {
        true => told_address(exchange, proxies).map_or(address, |told| told.ip()),
        false => address,
    }
}

fn trusts(real_ip: &RealIp, peer: PeerAddress) -> bool {
    match peer {
        PeerAddress::Inet(address) => real_ip.trusts(address.ip()),
        PeerAddress::Unix => real_ip.trusts_unix(),
    }
}

/// The address in the configured header, if there is one.
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
    let headers = request.head.headers.iter();
    let mut lines = headers
        .filter(|header| header.name.of(&request.buffer).eq_ignore_ascii_case(name))
        .map(|header| header.value.of(&request.buffer));
    match real_ip.header {
        RealIpHeader::XForwardedFor if real_ip.recursive => follow(real_ip, lines.rev()),
        RealIpHeader::XForwardedFor => follow(real_ip, lines.next_back().into_iter()),
        // As in nginx: one line is all that these have.
        _ => follow(real_ip, lines.next().into_iter()),
    }
}

/// Follows a chain of proxies from its end, as long as each is trusted; the last line of the header
/// comes first. Something that is not an address ends the chain, as its author cannot be trusted.
fn follow<'l>(real_ip: &RealIp, lines: impl Iterator<Item = &'l [u8]>) -> Option<SocketAddr> {
    let mut found: Option<SocketAddr> = None;
    for line in lines {
        let mut rest = Some(line);
        while let Some(list) = rest {
            if found.is_some_and(|address| !real_ip.trusts(address.ip())) {
                return found;
            }
            let (before, word) = split_last(list);
            let Some(address) = parse(word) else {
                return found;
            };
            found = Some(address);
            rest = before.filter(|_| real_ip.recursive);
        }
    }
    found
}

/// The last word of a list, and what precedes it; separators are commas and spaces. As in nginx,
/// one at the very beginning does not separate but belongs to an invalid address.
fn split_last(list: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let is_separator = |byte: &u8| matches!(byte, b' ' | b',');
    let Some((_, behind_first)) = list.split_first() else {
        return (None, list);
    };
    let end = behind_first.iter().rposition(|byte| !is_separator(byte));
    let list = &list[..end.map_or(1, |end| end + 2)];
    match list[1..].iter().rposition(is_separator) {
        Some(at) => (Some(&list[..=at]), &list[at + 2..]),
        None => (None, list),
    }
}

/// An address with or without a port, with or without brackets; an IPv6 address with a port needs
/// them.
fn parse(word: &[u8]) -> Option<SocketAddr> {
    if let Some(ip) = parse_ip(word) {
        return Some(SocketAddr::new(ip, 0));
    }
    let (ip, behind) = match word.strip_prefix(b"[") {
        Some(rest) => {
            let end = memchr::memchr(b']', rest)?;
            (&rest[..end], &rest[end + 1..])
        }
        None => word.split_at(memchr::memchr(b':', word)?),
    };
    let port = match behind {
        [] => 0,
        [b':', port @ ..] => u16::try_from(decimal(port)?)
            .ok()
            .filter(|port| *port > 0)?,
        _ => return None,
    };
    Some(SocketAddr::new(parse_ip(ip)?, port))
}

pub(crate) fn parse_ip(text: &[u8]) -> Option<IpAddr> {
    if memchr::memchr(b':', text).is_some() {
        let address: Ipv6Addr = std::str::from_utf8(text).ok()?.parse().ok()?;
        return Some(address.into());
    }
    let mut numbers = text.split(|byte| *byte == b'.');
    let mut octets = [0; 4];
    for octet in &mut octets {
        // Decimal as in nginx, even if a proxy has padded it with zeros.
        *octet = u8::try_from(decimal(numbers.next()?)?).ok()?;
    }
    let address = Ipv4Addr::from(octets);
    // As in nginx, the address of all ones is invalid.
    (numbers.next().is_none() && address != Ipv4Addr::BROADCAST).then_some(address.into())
}

fn decimal(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| values::number(text)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_conf::model::{IpNetwork, PeerNetwork};

    /// Proxies in 10/8 and fd00::/8 are trusted.
    fn real_ip(recursive: bool) -> RealIp {
        let network = |text: &str, bits| {
            let address = text.parse().expect("an address");
            let (network, _) = IpNetwork::new(address, bits).expect("not too many bits");
            PeerNetwork::Network(network)
        };
        RealIp {
            from: [network("10.0.0.0", 8), network("fd00::", 8)]
                .into_iter()
                .collect(),
            header: RealIpHeader::XForwardedFor,
            recursive,
        }
    }

    fn found(recursive: bool, lines: &[&str]) -> String {
        let lines = lines.iter().rev().map(|line| line.as_bytes());
        let lines: Vec<_> = match recursive {
            true => lines.collect(),
            false => lines.take(1).collect(),
        };
        follow(&real_ip(recursive), lines.into_iter())
            .map_or_else(|| "-".to_owned(), |address| address.to_string())
    }

    #[test]
    fn the_last_address_that_is_not_trusted() {
        for (lines, last, recursive) in [
            (&["1.2.3.4"][..], "1.2.3.4:0", "1.2.3.4:0"),
            (&["1.2.3.4, 5.6.7.8"], "5.6.7.8:0", "5.6.7.8:0"),
            (&["1.2.3.4, 10.0.0.1"], "10.0.0.1:0", "1.2.3.4:0"),
            (
                &["9.9.9.9,1.2.3.4,10.0.0.1 , 10.0.0.2"],
                "10.0.0.2:0",
                "1.2.3.4:0",
            ),
            // All are trusted: the first one is the best guess.
            (&["10.0.0.3, 10.0.0.2"], "10.0.0.2:0", "10.0.0.3:0"),
            (&["1.2.3.4", "10.0.0.1"], "10.0.0.1:0", "1.2.3.4:0"),
            (&["1.2.3.4", "", "10.0.0.1"], "10.0.0.1:0", "10.0.0.1:0"),
            (&["1.2.3.4, ", "10.0.0.1 "], "10.0.0.1:0", "1.2.3.4:0"),
            (&["1.2.3.4, unknown, 10.0.0.1"], "10.0.0.1:0", "10.0.0.1:0"),
            (&["1.2.3.4, unknown"], "-", "-"),
            (&["", ","], "-", "-"),
            (&["1.2.3.4", ",10.0.0.1"], "-", "-"),
            (&["1.2.3.4", ", 10.0.0.1"], "10.0.0.1:0", "10.0.0.1:0"),
            (&["fd00::1, [fd00::2]:443"], "[fd00::2]:443", "[fd00::1]:0"),
            (
                &["2001:db8::1, [fd00::2]"],
                "[fd00::2]:0",
                "[2001:db8::1]:0",
            ),
            (&["1.2.3.4:567, 10.0.0.1:8"], "10.0.0.1:8", "1.2.3.4:567"),
        ] {
            assert_eq!(found(false, lines), last, "{lines:?}");
            assert_eq!(found(true, lines), recursive, "recursive, {lines:?}");
        }
    }

    #[test]
    fn what_is_an_address() {
        let parse = |text: &str| parse(text.as_bytes()).map(|address| address.to_string());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parse("192.168.001.010"), some("192.168.1.10:0"));
        assert_eq!(parse("192.168.001.010:0080"), some("192.168.1.10:80"));
        assert_eq!(parse("[1.2.3.4]:5"), some("1.2.3.4:5"));
        assert_eq!(parse("[1.2.3.4]"), some("1.2.3.4:0"));
        assert_eq!(parse("::ffff:1.2.3.4"), some("[::ffff:1.2.3.4]:0"));
        for wrong in [
            "",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.256",
            "1.2.3.4:",
            "1.2.3.4:0",
            "255.255.255.255",
            "1.2.3.4:65536",
            "1.2.3.-4",
            "01.2..4",
            "[1.2.3.4]5",
            "[1.2.3.4",
            "[::1",
            "::1]",
            "fe80::1%eth0",
            "localhost",
            "unix:",
            "0x7f.0.0.1",
            "1.2.3.4\t",
        ] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
