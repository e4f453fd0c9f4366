//! Network interfaces that can encrypt.

use super::report::{Interface, Switch};
use sealane_sys::ethtool::{self, Feature};

/// Interfaces of this network namespace that could have the feature, by name.
/// One whose features cannot be read has none.
pub(super) fn examine() -> Vec<Interface> {
    let mut names: Vec<String> = std::fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
        .into_iter()
        .filter_map(|name| {
            // Files such as `bonding_masters` are no interfaces.
            let features = ethtool::features(&name).ok()?;
            Some(interface(name, &features))
        })
        .collect()
}

fn interface(name: String, features: &[Feature]) -> Interface {
    let switch = |wanted: &str| {
        let found = features.iter().find(|feature| feature.name == wanted);
        match found {
            Some(feature) if feature.active => Switch::On,
            Some(feature) if !feature.fixed => Switch::Off,
            _ => Switch::Absent,
        }
    };
    Interface {
        transmit: switch("tls-hw-tx-offload"),
        receive: switch("tls-hw-rx-offload"),
        record: switch("tls-hw-record"),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_become_switches() {
        let feature = |name: &str, active, fixed| Feature {
            name: name.to_owned(),
            active,
            fixed,
        };
        let features = [
            feature("tx-checksum-ipv4", true, false),
            feature("tls-hw-tx-offload", true, false),
            feature("tls-hw-rx-offload", false, false),
            feature("tls-hw-record", false, true),
        ];
        let expected = Interface {
            name: "eth0".to_owned(),
            transmit: Switch::On,
            receive: Switch::Off,
            record: Switch::Absent,
        };
        assert_eq!(interface("eth0".to_owned(), &features), expected);
        let old = interface("eth0".to_owned(), &features[..1]);
        assert_eq!(old.transmit, Switch::Absent, "a kernel before 4.18");
    }

    #[test]
    fn the_loopback_is_there_and_encrypts_nothing() {
        let interfaces = examine();
        let loopback = interfaces.iter().find(|interface| interface.name == "lo");
        let loopback = loopback.expect("every network namespace has one");
        assert_eq!(loopback.record, Switch::Absent);
    }
}
