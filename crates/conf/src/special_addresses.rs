//! Which IP addresses are not of the public Internet, by the registries of IANA (RFC 6890, "IANA
//! IPv4 and IPv6 Special-Purpose Address Registry").
//!
//! A proxy reaches what its clients must not: its own host, the network around it, the metadata
//! service of a cloud. IPv6 has several ways to write an IPv4 address; what counts is the address
//! that the packets reach in the end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// First address, length of the prefix, kind.
type Block<A> = (A, u32, &'static str);

const fn v4(a: u8, b: u8, c: u8, bits: u32, kind: &'static str) -> Block<u32> {
    (Ipv4Addr::new(a, b, c, 0).to_bits(), bits, kind)
}

const fn v6(start: [u16; 3], bits: u32, kind: &'static str) -> Block<u128> {
    let [a, b, c] = start;
    (Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0).to_bits(), bits, kind)
}

const IPV4: &[Block<u32>] = &[
    v4(0, 0, 0, 8, "unspecified"),
    v4(10, 0, 0, 8, "private"),
    v4(100, 64, 0, 10, "shared (carrier-grade NAT)"),
    v4(127, 0, 0, 8, "loopback"),
    v4(169, 254, 0, 16, "link-local"),
    v4(172, 16, 0, 12, "private"),
    v4(192, 0, 0, 24, "reserved"),
    v4(192, 0, 2, 24, "documentation"),
    v4(192, 88, 99, 24, "reserved"),
    v4(192, 168, 0, 16, "private"),
    v4(198, 18, 0, 15, "benchmarking"),
    v4(198, 51, 100, 24, "documentation"),
    v4(203, 0, 113, 24, "documentation"),
    v4(224, 0, 0, 4, "multicast"),
    v4(240, 0, 0, 4, "reserved"),
];

/// Outside of 2000::/3, where everything is special, and inside.
const IPV6: &[Block<u128>] = &[
    v6([0x64, 0xff9b, 1], 48, "NAT64 of a local network"),
    v6([0x100, 0, 0], 64, "discard-only"),
    v6([0xfc00, 0, 0], 7, "private"),
    v6([0xfe80, 0, 0], 10, "link-local"),
    v6([0xfec0, 0, 0], 10, "private"),
    v6([0xff00, 0, 0], 8, "multicast"),
    v6([0x2001, 0, 0], 23, "reserved"),
    v6([0x2001, 0xdb8, 0], 32, "documentation"),
    v6([0x3fff, 0, 0], 20, "documentation"),
];

/// What kind of address this is, if it is not one of the public Internet.
pub(crate) fn kind(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

fn kind_v4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = address.to_bits();
    let inside = |&&(first, prefix, _): &&Block<u32>| (bits ^ first) >> (32 - prefix) == 0;
    IPV4.iter().find(inside).map(|(.., kind)| *kind)
}

fn kind_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("unspecified");
    }
    if address.is_loopback() {
        return Some("loopback");
    }
    if let Some(embedded) = embedded_v4(address) {
        return kind_v4(embedded);
    }
    let bits = address.to_bits();
    let inside = |&&(first, prefix, _): &&Block<u128>| (bits ^ first) >> (128 - prefix) == 0;
    let is_global_unicast = address.segments()[0] >> 13 == 1;
    match IPV6.iter().find(inside) {
        Some((.., kind)) => Some(kind),
        None if is_global_unicast => None,
        None => Some("reserved"),
    }
}

/// The IPv4 address that packets to this one reach: mapped (`::ffff:0:0/96`), compatible (`::/96`),
/// translated (`::ffff:0:0:0/96`, RFC 2765), NAT64 (RFC 6052) and 6to4 (RFC 3056). Teredo
/// (RFC 4380) is one of the reserved blocks.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let low = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, a, b]
        | [0, 0, 0, 0, 0xffff, 0, a, b]
        | [0x64, 0xff9b, 0, 0, 0, 0, a, b]
        | [0x2002, a, b, ..] => Some(low(a, b)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_have_a_kind() {
        for (address, expected) in [
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("10.0.0.1", "private"),
            ("10.255.255.255", "private"),
            ("100.64.0.1", "shared (carrier-grade NAT)"),
            ("100.127.255.255", "shared (carrier-grade NAT)"),
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("169.254.169.254", "link-local"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.0.0.1", "reserved"),
            ("192.168.1.1", "private"),
            ("198.19.255.255", "benchmarking"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "reserved"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("::127.0.0.1", "loopback"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:169.254.169.254", "link-local"),
            ("::ffff:0:10.0.0.1", "private"),
            ("64:ff9b::10.0.0.1", "private"),
            ("64:ff9b::7f00:1", "loopback"),
            ("64:ff9b:1::1.1.1.1", "NAT64 of a local network"),
            ("64:ff9b:2::1.1.1.1", "reserved"),
            ("100::1", "discard-only"),
            ("2001::1", "reserved"),
            ("2001:0:102:304::", "reserved"),
            ("2001:db8::1", "documentation"),
            ("2002:7f00:1::", "loopback"),
            ("2002:c0a8:101::1", "private"),
            ("3fff:0fff::1", "documentation"),
            ("4000::1", "reserved"),
            ("5f00::1", "reserved"),
            ("fc00::1", "private"),
            ("fdff::1", "private"),
            ("fe80::1", "link-local"),
            ("febf::1", "link-local"),
            ("fec0::1", "private"),
            ("ff02::1", "multicast"),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(kind(address), Some(expected), "{address}");
        }
    }

    #[test]
    fn public_addresses_have_none() {
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2001:200::1",
            "2002:101:101::1",
            "2606:4700::1111",
            "3fff:1000::1",
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(kind(address), None, "{address}");
        }
    }
}
