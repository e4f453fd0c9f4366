//! The zones that are delegated to this server, and the names in them.

use crate::dns_command::PREFIX;
use sealane_conf::model::{AcmeDns, AcmeIdentifier, Http};
use std::collections::{HashMap, HashSet};

/// What a configuration says about zones. All names are in lower case without a dot at the end.
#[derive(Debug, Default)]
pub(super) struct Zones {
    /// Name servers of zones.
    zones: HashMap<String, String>,
    /// The identifiers for which names have TXT records.
    texts: HashMap<String, String>,
    /// Names without records that have others below them.
    between: HashSet<String>,
}

/// The zone of a name, and what the name is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found<'a> {
    pub(super) zone: &'a str,
    /// What NS records call this server.
    pub(super) name_server: &'a str,
    /// Whether there is such a name.
    pub(super) exists: bool,
    /// The identifier for which it has TXT records.
    pub(super) identifier: Option<&'a str>,
}

impl Zones {
    /// Those of the certificates that are verified by `dns_listen`.
    pub(super) fn of(http: &Http) -> Zones {
        let mut all = Zones::default();
        for server in &http.servers {
            let Some(certificate) = &server.acme_certificate else {
                continue;
            };
            let Some(AcmeDns::Listen(listen)) = &certificate.issuer.dns else {
                continue;
            };
            if let Some(zone) = &listen.zone {
                all.zones.insert(zone.clone(), listen.name_server.clone());
            }
            for identifier in &certificate.identifiers {
                let AcmeIdentifier::Dns(identifier) = identifier else {
                    continue;
                };
                let bare = identifier.strip_prefix("*.").unwrap_or(identifier);
                // Delegated itself, or an alias into the zone.
                let own = format!("{PREFIX}.{bare}");
                all.zones.insert(own.clone(), listen.name_server.clone());
                all.texts.insert(own, bare.to_owned());
                if let Some(zone) = &listen.zone {
                    all.add(bare, zone);
                }
            }
        }
        all
    }

    /// A name for an identifier in a zone.
    fn add(&mut self, identifier: &str, zone: &str) {
        let name = format!("{identifier}.{zone}");
        let mut parent = name.as_str();
        while let Some((_, rest)) = parent.split_once('.') {
            if rest == zone {
                break;
            }
            self.between.insert(rest.to_owned());
            parent = rest;
        }
        self.texts.insert(name, identifier.to_owned());
    }

    /// What is known about a name; `None` if it is in no zone of ours.
    pub(super) fn find(&self, name: &str) -> Option<Found<'_>> {
        let mut rest = Some(name);
        let zone = loop {
            let suffix = rest?;
            if let Some(zone) = self.zones.get_key_value(suffix) {
                break zone;
            }
            rest = suffix.split_once('.').map(|(_, rest)| rest);
        };
        let identifier = self.texts.get(name).map(String::as_str);
        Some(Found {
            zone: zone.0,
            name_server: zone.1,
            exists: identifier.is_some() || zone.0 == name || self.between.contains(name),
            identifier,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use sealane_conf::{MemoryLoader, Options};

    /// Those of `a.test`, `*.b.test` and `x.y.test`, also in the zone `acme.test`.
    pub(in crate::name_server) fn zones() -> Zones {
        let text = "events {} http {
            acme_issuer one { uri https://a.test/; challenge dns-01; state_path off;
                dns_listen 127.0.0.1:5353 zone=acme.test ns=ns.test; }
            server { listen 80; acme_certificate one a.test *.b.test x.y.test; } }";
        let mut loader = MemoryLoader::new().with("/nginx.conf", text);
        let config = sealane_conf::parse(&Options::new("/nginx.conf", "/"), &mut loader);
        let Ok(config) = config else {
            panic!("it is a good one")
        };
        Zones::of(&config.http.expect("it is there"))
    }

    #[test]
    fn names_are_found_in_their_zones() {
        let zones = zones();
        let found = |name: &str| {
            let found = zones.find(name)?;
            assert_eq!(found.name_server, "ns.test");
            Some((found.zone, found.exists, found.identifier))
        };
        let of = |zone, identifier| Some((zone, true, Some(identifier)));
        assert_eq!(found("a.test.acme.test"), of("acme.test", "a.test"));
        assert_eq!(found("b.test.acme.test"), of("acme.test", "b.test"));
        assert_eq!(found("x.y.test.acme.test"), of("acme.test", "x.y.test"));
        assert_eq!(found("acme.test"), Some(("acme.test", true, None)));
        assert_eq!(found("test.acme.test"), Some(("acme.test", true, None)));
        assert_eq!(found("y.test.acme.test"), Some(("acme.test", true, None)));
        assert_eq!(found("c.test.acme.test"), Some(("acme.test", false, None)));
        assert_eq!(
            found("z.a.test.acme.test"),
            Some(("acme.test", false, None))
        );
        let own = "_acme-challenge.a.test";
        assert_eq!(found(own), of(own, "a.test"));
        assert_eq!(found("x._acme-challenge.a.test"), Some((own, false, None)));
        for foreign in [
            "",
            "test",
            "a.test",
            "example",
            "_acme-challenge.c.test",
            "eacme.test",
        ] {
            assert_eq!(found(foreign), None, "{foreign}");
        }
    }
}
