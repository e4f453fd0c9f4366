//! What a case requests: the site, and how TLS is set for it.

use super::{CaseSite, OffloadSuite, Sealed};
use crate::load::{KeyType, Offer, Protocol, TlsPlan};
use crate::testbed::{Listener, Ports};

impl CaseSite {
    /// The pinned parameters, and the port of the site.
    pub(super) fn choose(self, ports: &Ports) -> (Option<TlsPlan>, u16) {
        const TLS13: &str = "TLS_AES_256_GCM_SHA384";
        const TLS12: &str = "ECDHE-RSA-AES256-GCM-SHA384";
        let (protocol, suite, key_type, listener) = match self {
            Self::Plain => return (None, ports.of(Listener::Plain)),
            Self::Passed(Sealed::None) => return (None, ports.of(Listener::Passed)),
            Self::Passed(Sealed::Client) => {
                (Protocol::Tls13, TLS13, KeyType::P256, Listener::PassedTls)
            }
            Self::Passed(Sealed::Both) => {
                (Protocol::Tls13, TLS13, KeyType::P256, Listener::PassedBoth)
            }
            Self::Offload(suite) => {
                let (plan, listener) = suite.choose();
                return (Some(plan), ports.of(listener));
            }
            Self::Browser(key_type) => {
                // The group is the newest that the server's library has.
                let plan = TlsPlan {
                    offer: Offer::Browser,
                    group: None,
                    ..tls_plan(Protocol::Tls13, "TLS_AES_128_GCM_SHA256", key_type)
                };
                return (Some(plan), ports.of(Listener::Browser));
            }
            Self::Uncached => (Protocol::Tls13, TLS13, KeyType::P256, Listener::Uncached),
            Self::Tls13(KeyType::Rsa) => (Protocol::Tls13, TLS13, KeyType::Rsa, Listener::Rsa2048),
            Self::Tls13(key_type) => (Protocol::Tls13, TLS13, key_type, Listener::P256),
            Self::EarlyData => (Protocol::Tls13, TLS13, KeyType::P256, Listener::Early),
            Self::Http2 => (Protocol::Tls13, TLS13, KeyType::P256, Listener::Http2),
            Self::Http3 | Self::Http3Afar(_) => {
                (Protocol::Tls13, TLS13, KeyType::P256, Listener::Http3)
            }
            Self::Http2Cached => (Protocol::Tls13, TLS13, KeyType::P256, Listener::Http2),
            Self::Cached(_) => (Protocol::Tls13, TLS13, KeyType::P256, Listener::P256),
            Self::Named(_) => (Protocol::Tls13, TLS13, KeyType::P256, Listener::P256),
            Self::Stapled => (Protocol::Tls13, TLS13, KeyType::P256, Listener::Stapled),
            Self::Tls12Stapled => (Protocol::Tls12, TLS12, KeyType::Rsa, Listener::StapledRsa),
            Self::Proxied => (Protocol::Tls13, TLS13, KeyType::P256, Listener::P256),
            Self::Tls12 => (Protocol::Tls12, TLS12, KeyType::Rsa, Listener::Rsa2048),
            Self::Tls12Untuned => (Protocol::Tls12, TLS12, KeyType::Rsa, Listener::Untuned),
            Self::Tls12StaticRsa => {
                let suite = "AES256-GCM-SHA384";
                (Protocol::Tls12, suite, KeyType::Rsa, Listener::Rsa2048)
            }
        };
        (
            Some(tls_plan(protocol, suite, key_type)),
            ports.of(listener),
        )
    }
}

impl OffloadSuite {
    fn choose(self) -> (TlsPlan, Listener) {
        let (suite, group, key_type, listener) = match self {
            Self::Rsa => ("AES128-GCM-SHA256", X25519, KeyType::Rsa, Listener::Rsa2048),
            Self::EcdheRsa => (
                "ECDHE-RSA-AES128-GCM-SHA256",
                X25519,
                KeyType::Rsa,
                Listener::Rsa2048,
            ),
            Self::EcdsaP384 => (
                "ECDHE-ECDSA-AES128-GCM-SHA256",
                "P-384",
                KeyType::P384,
                Listener::P384,
            ),
            Self::EcdsaP256 => (
                "ECDHE-ECDSA-AES128-GCM-SHA256",
                "P-256",
                KeyType::P256,
                Listener::P256,
            ),
        };
        let plan = TlsPlan {
            group: Some(group.into()),
            ..tls_plan(Protocol::Tls12, suite, key_type)
        };
        (plan, listener)
    }
}

const X25519: &str = "X25519";

fn tls_plan(protocol: Protocol, suite: &str, key_type: KeyType) -> TlsPlan {
    TlsPlan {
        protocol: Some(protocol),
        suite: Some(suite.into()),
        group: Some(X25519.into()),
        key_type: Some(key_type),
        ..TlsPlan::default()
    }
}
