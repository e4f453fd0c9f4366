//! `set_real_ip_from` and its options: which peers are trusted to name the
//! client's address.

use super::List;
use std::net::{IpAddr, Ipv6Addr};

/// How the address of a client behind trusted proxies is found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealIp {
    /// `set_real_ip_from`: whose word is taken; never empty.
    pub from: List<PeerNetwork>,
    /// `real_ip_header`; default X-Real-IP.
    pub header: RealIpHeader,
    /// `real_ip_recursive`: use the last address that is not trusted itself,
    /// instead of the last one; default off.
    pub recursive: bool,
}

impl RealIp {
    /// Whether a peer with this address is trusted.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.from.iter().any(|trusted| match trusted {
            PeerNetwork::Network(network) => network.contains(address),
            PeerNetwork::Unix => false,
        })
    }

    /// Whether peers on Unix sockets are trusted.
    pub fn trusts_unix(&self) -> bool {
        self.from.contains(&PeerNetwork::Unix)
    }
}

/// Connections by the address of the other side: one `set_real_ip_from` or `debug_connection`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerNetwork {
    /// `unix:`: everyone on a Unix socket.
    Unix,
    /// An address or a network.
    Network(IpNetwork),
}

/// Where the client's address is taken from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RealIpHeader {
    /// `X-Real-IP`.
    #[default]
    XRealIp,
    /// `X-Forwarded-For`.
    XForwardedFor,
    /// `proxy_protocol`: the PROXY protocol's header.
    ProxyProtocol,
    /// Any other request header, in lower case.
    Field(Box<str>),
}

/// A network in CIDR notation, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpNetwork {
    /// Its first address.
    address: IpAddr,
    /// How many bits of an address must be equal.
    prefix_bits: u8,
}

impl IpNetwork {
    /// The network of `prefix_bits` that `address` lies in, and whether
    /// `address` had bits beyond them. `None` if an address has fewer bits.
    pub fn new(address: IpAddr, prefix_bits: u8) -> Option<(IpNetwork, bool)> {
        let (bits, width) = bits_of(address);
        if prefix_bits > width {
            return None;
        }
        let kept = bits & mask(prefix_bits, width);
        let first = match address {
            IpAddr::V4(_) => IpAddr::V4(u32::try_from(kept).ok()?.into()),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(kept)),
        };
        let network = IpNetwork {
            address: first,
            prefix_bits,
        };
        Some((network, kept != bits))
    }

    /// The network of one address.
    pub fn of(address: IpAddr) -> IpNetwork {
        let (_, width) = bits_of(address);
        IpNetwork {
            address,
            prefix_bits: width,
        }
    }

    /// Its first address as a number, and how many bits of an address it fixes.
    pub(crate) fn first_and_bits(&self) -> (u128, u8) {
        (bits_of(self.address).0, self.prefix_bits)
    }

    /// Whether it is one of IPv6 addresses.
    pub(crate) fn is_ipv6(&self) -> bool {
        self.address.is_ipv6()
    }

    /// Whether an address lies in it. The IPv6 form of an IPv4 address
    /// (`::ffff:192.0.2.1`) is that IPv4 address, as in nginx: IPv4 networks
    /// contain it and IPv6 networks do not, `::/0` included.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.contains_as_is(address.to_canonical())
    }

    /// The same without regard to IPv6 forms of IPv4 addresses.
    pub(crate) fn contains_as_is(&self, address: IpAddr) -> bool {
        let (bits, width) = bits_of(address);
        address.is_ipv4() == self.address.is_ipv4()
            && bits & mask(self.prefix_bits, width) == bits_of(self.address).0
    }
}

impl std::fmt::Display for IpNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
    }
}

fn bits_of(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u32::from(v4).into(), 32),
        IpAddr::V6(v6) => (v6.into(), 128),
    }
}

/// `prefix` ones at the top of `width` bits.
fn mask(prefix: u8, width: u8) -> u128 {
    let all = u128::MAX >> (128 - u32::from(width));
    let beyond = u32::from(width - prefix);
    all & u128::MAX.checked_shl(beyond).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> IpNetwork {
        let (address, bits) = text.split_once('/').expect("a network");
        let address = address.parse().expect("an address");
        let network = IpNetwork::new(address, bits.parse().expect("a number"));
        network.expect("not too many bits").0
    }

    #[test]
    fn networks_contain_their_addresses() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.0.2.128/25", "192.0.2.255", "192.0.2.127"),
            ("192.0.2.1/32", "192.0.2.1", "192.0.2.2"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::"),
            ("0.0.0.0/0", "::ffff:1.2.3.4", "::1.2.3.4"),
            ("::/0", "ffff::", "1.2.3.4"),
            ("::/0", "::1.2.3.4", "::ffff:1.2.3.4"),
            ("::/64", "::1", "::ffff:1.2.3.4"),
            ("::1/128", "::1", "::2"),
        ] {
            let network = network(text);
            let address = |text: &str| text.parse::<IpAddr>().expect("an address");
            assert!(network.contains(address(inside)), "{text} {inside}");
            assert!(!network.contains(address(outside)), "{text} {outside}");
        }
    }

    #[test]
    fn low_bits_are_cut_off() {
        let address = "192.0.2.255".parse().expect("an address");
        let (network, cut) = IpNetwork::new(address, 24).expect("24 bits");
        assert_eq!((network.to_string().as_str(), cut), ("192.0.2.0/24", true));
        assert_eq!(IpNetwork::new(address, 33), None);
        assert_eq!(IpNetwork::of(address).to_string(), "192.0.2.255/32");
    }
}
