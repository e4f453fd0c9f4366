//! `proxy_ssl_name`: which part is sent as SNI, and which is compared with the certificate.

use std::net::IpAddr;

use sealane_awslc::PeerName;

/// The configured name without a port, which `$proxy_host` and `$http_host` may include:
/// `www.example.com:443`, `[::1]:443`.
pub(super) fn without_port(name: &str) -> &str {
    if name.parse::<IpAddr>().is_ok() {
        return name; // an IPv6 address that is not in brackets
    }
    let host_from = match name.strip_prefix('[') {
        Some(_) => name.find(']').unwrap_or(0),
        None => 0,
    };
    match name[host_from..].find(':') {
        Some(colon) => &name[..host_from + colon],
        None => name,
    }
}

/// The name to send as SNI: none if the name is empty or an address (RFC 6066 section 3).
pub(super) fn server_name(host: &str) -> Option<&str> {
    let is_address = host.starts_with('[') || host.parse::<IpAddr>().is_ok();
    (!host.is_empty() && !is_address).then_some(host)
}

/// The name that the certificate must contain.
pub(super) fn expected(host: &str) -> PeerName {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let address = match bare {
        Some(bare) => bare.parse().map(IpAddr::V6).ok(),
        None => host.parse::<IpAddr>().ok(),
    };
    address.map_or_else(|| PeerName::Host(host.into()), PeerName::Address)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_port_is_taken_off() {
        for (name, host) in [
            ("example.com", "example.com"),
            ("example.com:443", "example.com"),
            ("127.0.0.1:8443", "127.0.0.1"),
            ("[::1]:443", "[::1]"),
            ("[::1]", "[::1]"),
            ("::1", "::1"),
            ("[::1", "["),
            (":443", ""),
            ("", ""),
        ] {
            assert_eq!(without_port(name), host, "{name}");
        }
    }

    #[test]
    fn addresses_are_compared_and_not_sent() {
        for address in ["127.0.0.1", "[::1]", "::1"] {
            assert_eq!(server_name(address), None, "{address}");
            assert!(
                matches!(expected(address), PeerName::Address(_)),
                "{address}"
            );
        }
        assert_eq!(server_name(""), None);
        assert_eq!(server_name("a.test"), Some("a.test"));
        assert_eq!(expected("a.test"), PeerName::Host("a.test".into()));
        // What only looks like an address is a name, and no certificate has it.
        assert_eq!(expected("[::1"), PeerName::Host("[::1".into()));
        assert_eq!(
            expected("127.0.0.1"),
            PeerName::Address(Ipv4Addr::LOCALHOST.into())
        );
    }
}
