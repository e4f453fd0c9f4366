//! Access control: `allow` and `deny`, `auth_basic`, `satisfy`, `limit_except`.

use super::{IpNetwork, LocationConf, Template};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The access checks before a request is answered, except `auth_request`.
#[derive(Debug, Clone)]
pub struct Access {
    /// `allow` and `deny`.
    pub addresses: Option<Arc<AddressRules>>,
    /// `auth_basic` with its file.
    pub basic: Option<AuthBasic>,
    /// `satisfy`; default all.
    pub satisfy: Satisfy,
    /// `auth_delay`: how long an answer 401 waits; default 0.
    pub auth_delay: Duration,
}

/// `satisfy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Satisfy {
    /// All checks must allow the request.
    #[default]
    All,
    /// One of them is enough.
    Any,
}

/// `auth_basic` and `auth_basic_user_file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthBasic {
    /// The realm of the password prompt; `off` does not ask.
    pub realm: Template,
    /// The path of the file with names and passwords; relative ones, which begin with a
    /// variable, start from the prefix.
    pub user_file: Template,
}

/// `allow` and `deny` lines of a level, by family: the first that matches decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressRules {
    /// About IPv4 addresses.
    pub ipv4: Vec<AddressRule>,
    /// About IPv6 addresses.
    pub ipv6: Vec<AddressRule>,
    /// About peers on Unix sockets; whether each allows.
    pub unix: Vec<bool>,
}

/// One `allow` or `deny`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRule {
    /// Whom it is about.
    pub network: IpNetwork,
    /// `allow`.
    pub allows: bool,
}

impl AddressRules {
    /// Whether a client is allowed; `None` if no line is about it. `None` as the address is a
    /// peer on a Unix socket. As in nginx, the IPv6 form of an IPv4 address is checked against
    /// the IPv4 rules if there are any, and otherwise used as it is.
    pub fn verdict(&self, address: Option<IpAddr>) -> Option<bool> {
        let Some(address) = address else {
            return self.unix.first().copied();
        };
        let canonical = address.to_canonical();
        let (rules, address) = match (canonical, address) {
            (IpAddr::V4(_), IpAddr::V4(_)) => (&self.ipv4, address),
            (IpAddr::V4(_), IpAddr::V6(_)) if !self.ipv4.is_empty() => (&self.ipv4, canonical),
            _ => (&self.ipv6, address),
        };
        let mut rules = rules.iter();
        let found = rules.find(|rule| rule.network.contains_as_is(address))?;
        Some(found.allows)
    }
}

/// `limit_except`: the settings for all methods but some.
#[derive(Debug, Clone)]
pub struct LimitExcept {
    /// Names of the methods that it is not about, in upper case; HEAD is among them if GET is.
    pub methods: Vec<&'static str>,
    /// What holds for the others.
    pub conf: Arc<LocationConf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(lines: &[(&str, u8, bool)]) -> AddressRules {
        let mut rules = AddressRules::default();
        for (address, bits, allows) in lines {
            let address: IpAddr = address.parse().expect("an address");
            let (network, _) = IpNetwork::new(address, *bits).expect("not too many bits");
            let rule = AddressRule {
                network,
                allows: *allows,
            };
            match address {
                IpAddr::V4(_) => rules.ipv4.push(rule),
                IpAddr::V6(_) => rules.ipv6.push(rule),
            }
        }
        rules
    }

    #[test]
    fn the_first_line_about_an_address_decides() {
        let address = |text: &str| Some(text.parse::<IpAddr>().expect("an address"));
        let both = rules(&[
            ("10.1.0.0", 16, false),
            ("10.0.0.0", 8, true),
            ("::", 0, false),
        ]);
        assert_eq!(both.verdict(address("10.1.2.3")), Some(false));
        assert_eq!(both.verdict(address("10.2.2.3")), Some(true));
        assert_eq!(both.verdict(address("11.2.2.3")), None);
        assert_eq!(both.verdict(address("::ffff:10.2.2.3")), Some(true));
        assert_eq!(both.verdict(address("::ffff:11.2.2.3")), None);
        assert_eq!(both.verdict(address("2001:db8::1")), Some(false));
        assert_eq!(both.verdict(None), None);
        // Without rules about IPv4 the IPv6 form is an IPv6 address.
        let v6 = rules(&[("::ffff:10.0.0.0", 104, false)]);
        assert_eq!(v6.verdict(address("::ffff:10.2.2.3")), Some(false));
        assert_eq!(v6.verdict(address("10.2.2.3")), None);
    }
}
