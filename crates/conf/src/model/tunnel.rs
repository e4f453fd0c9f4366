//! Tunnels for clients (CONNECT): `tunnel_pass` and `proxy_connect`, and where they may lead.

use super::{IpNetwork, List, PassTarget, Template, UpstreamSettings};
use crate::special_addresses;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// `tunnel_pass` or `proxy_connect`, and what belongs to it.
#[derive(Debug, Clone)]
pub struct TunnelPass {
    /// Where to. With variables, the client may have a say in it, and [`TunnelPass::allows`]
    /// holds.
    pub target: PassTarget,
    /// What all families have (except request, response and TLS).
    pub upstream: UpstreamSettings,
    /// Where tunnels may lead whose target has variables.
    pub allows: TunnelRules,
    /// `proxy_connect`, and what only it has.
    pub connect: Option<ProxyConnect>,
}

/// What only `proxy_connect` has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyConnect {
    /// `proxy_connect_address`: what is connected to instead of what the client names.
    pub address: Option<Template>,
    /// `proxy_connect_response`: the response of an open tunnel.
    pub response: Option<Template>,
}

/// Where tunnels may lead: ports and addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelRules {
    /// `tunnel_allow_ports`, `proxy_connect_allow`; `None` is any.
    pub ports: Option<List<RangeInclusive<u16>>>,
    /// `tunnel_allow_addresses`, `proxy_connect_allow_addresses`.
    pub addresses: TunnelAddresses,
}

/// Addresses that tunnels may lead to besides those of the public Internet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TunnelAddresses {
    /// `all`: every IP address.
    pub all: bool,
    /// `unix:`: Unix sockets.
    pub unix: bool,
    /// These networks.
    pub networks: List<IpNetwork>,
}

impl TunnelPass {
    /// Whether the client has a say in the address that is connected to, so that
    /// [`TunnelPass::allows`] holds: the directive has variables.
    pub fn is_chosen_by_client(&self) -> bool {
        let address = self
            .connect
            .as_ref()
            .and_then(|connect| connect.address.as_ref());
        match (&self.target, address) {
            (PassTarget::Group(_), _) => false,
            (PassTarget::Evaluated(_), Some(address)) => address.as_literal().is_none(),
            (PassTarget::Evaluated(_), None) => true,
        }
    }
}

impl TunnelRules {
    /// Whether tunnels may lead to this port.
    pub fn allows_port(&self, port: u16) -> bool {
        match &self.ports {
            None => true,
            Some(ranges) => ranges.iter().any(|range| range.contains(&port)),
        }
    }
}

impl TunnelAddresses {
    /// Whether the configuration names the address. An IPv6 address that contains an IPv4 address
    /// (`::ffff:192.0.2.1`) is named by networks of either.
    pub fn names(&self, address: IpAddr) -> bool {
        let canonical = address.to_canonical();
        let mut networks = self.networks.iter();
        self.all || networks.any(|net| net.contains_as_is(address) || net.contains_as_is(canonical))
    }

    /// Why tunnels must not lead to the address: what kind of address it is. `None` if they may.
    pub fn refusal(&self, address: IpAddr) -> Option<&'static str> {
        match self.names(address) {
            true => None,
            false => special_addresses::kind(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(networks: &[(&str, u8)]) -> TunnelAddresses {
        let network = |(address, bits): &(&str, u8)| {
            let address = address.parse().expect("an address");
            IpNetwork::new(address, *bits).expect("not too many bits").0
        };
        TunnelAddresses {
            networks: networks.iter().map(network).collect(),
            ..TunnelAddresses::default()
        }
    }

    fn refusal(rules: &TunnelAddresses, address: &str) -> Option<&'static str> {
        rules.refusal(address.parse().expect("an address"))
    }

    #[test]
    fn what_is_named_is_allowed_and_nothing_else_of_its_kind() {
        let none = rules(&[]);
        assert_eq!(refusal(&none, "9.9.9.9"), None);
        assert_eq!(refusal(&none, "10.1.2.3"), Some("private"));
        let ten = rules(&[("10.1.0.0", 16), ("fd00::", 16)]);
        assert_eq!(refusal(&ten, "10.1.2.3"), None);
        assert_eq!(refusal(&ten, "::ffff:10.1.2.3"), None);
        assert_eq!(refusal(&ten, "10.2.2.3"), Some("private"));
        assert_eq!(refusal(&ten, "fd00::1"), None);
        assert_eq!(refusal(&ten, "fd01::1"), Some("private"));
        assert_eq!(refusal(&ten, "127.0.0.1"), Some("loopback"));
        let all = TunnelAddresses {
            all: true,
            ..TunnelAddresses::default()
        };
        assert_eq!(refusal(&all, "127.0.0.1"), None);
    }

    #[test]
    fn ports_are_ranges() {
        let of = |ranges: &[RangeInclusive<u16>]| TunnelRules {
            ports: Some(ranges.iter().cloned().collect()),
            addresses: TunnelAddresses::default(),
        };
        let rules = of(&[443..=443, 8000..=8010]);
        for (port, allowed) in [
            (443, true),
            (442, false),
            (444, false),
            (8000, true),
            (8010, true),
            (8011, false),
            (0, false),
        ] {
            assert_eq!(rules.allows_port(port), allowed, "{port}");
        }
        let any = TunnelRules {
            ports: None,
            addresses: TunnelAddresses::default(),
        };
        assert!(any.allows_port(25));
    }
}
