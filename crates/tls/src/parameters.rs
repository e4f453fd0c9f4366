//! What remains to negotiate once protocols, cipher string, groups and commands are evaluated: the
//! same for servers and clients.

use sealane_awslc::ProtocolVersion;

use crate::ciphers::{CipherList, SecurityLevel, Suite, TLS13_SUITES};
use crate::conf_command::Policy;
use crate::error::{SettingsError, Warning};
use crate::groups::GroupList;

/// `TLS_AES_128_GCM_SHA256`.
const TLS13_AES_128_GCM_SHA256: u16 = 0x1301;

/// What one side offers or accepts.
pub(crate) struct Parameters {
    /// The oldest protocol.
    pub(crate) min: ProtocolVersion,
    /// The newest protocol.
    pub(crate) max: ProtocolVersion,
    /// Suites of TLS 1.2 and below, in order; empty if only TLS 1.3 is offered.
    pub(crate) suites: Vec<&'static Suite>,
    /// Suites of TLS 1.3, number and name, in order.
    pub(crate) tls13_suites: Vec<(u16, &'static str)>,
    /// Key-exchange groups, in order.
    pub(crate) groups: GroupList,
    /// `@SECLEVEL`, if the cipher string has one.
    pub(crate) level: Option<SecurityLevel>,
    /// Whether session tickets are used.
    pub(crate) tickets: bool,
}

impl Parameters {
    pub(crate) fn new(policy: &Policy, warnings: &mut Vec<Warning>) -> Result<Self, SettingsError> {
        let cipher_error = |error: &dyn std::fmt::Display| {
            SettingsError::new(format!(
                "SSL_CTX_set_cipher_list(\"{}\") failed (SSL: {error})",
                policy.ciphers
            ))
        };
        let list = CipherList::parse(&policy.ciphers).map_err(|error| cipher_error(&error))?;
        let level = list.security_level();
        let (mut min, max) = policy.protocols.range(level, warnings)?;
        let suites = match list.supported() {
            Ok(suites) => suites,
            Err(_) if min == ProtocolVersion::Tls13 => Vec::new(),
            Err(_) if max == ProtocolVersion::Tls13 => {
                warnings.push(Warning::new(format!(
                    "AWS-LC supports none of the suites in \"{}\": only TLSv1.3 is offered",
                    policy.ciphers
                )));
                min = max;
                Vec::new()
            }
            Err(error) => return Err(cipher_error(&error)),
        };
        let mut groups = GroupList::parse(policy.groups.as_deref().unwrap_or("auto"), warnings)?;
        let mut tickets = policy.tickets;
        if let Some(level) = level {
            groups.restrict(level)?;
            if tickets && !level.permits_tickets() {
                warnings.push(Warning::new(format!(
                    "session tickets are off: @SECLEVEL={} does not permit them",
                    level.number()
                )));
                tickets = false;
            }
        }
        Ok(Self {
            min,
            max,
            suites,
            tls13_suites: tls13_suites(policy, level)?,
            groups,
            level,
            tickets,
        })
    }
}

/// TLS 1.3 suites in the configured order; without one in OpenSSL's. If our order is the one that
/// counts, the suite comes first whose hash has instructions of its own: a resumed handshake hashes
/// more than it encrypts. The order is the same on every processor, since a session resumes only
/// where the same hash is chosen.
fn tls13_suites(
    policy: &Policy,
    level: Option<SecurityLevel>,
) -> Result<Vec<(u16, &'static str)>, SettingsError> {
    let mut suites = match policy.ciphersuites.as_deref() {
        Some(configured) => configured_tls13_suites(configured)?,
        None => TLS13_SUITES.to_vec(),
    };
    if policy.ciphersuites.is_none() && policy.prefer_server_ciphers {
        suites.sort_by_key(|(id, _)| *id != TLS13_AES_128_GCM_SHA256);
    }
    suites.retain(|(id, _)| {
        let bits = if *id == TLS13_AES_128_GCM_SHA256 {
            128
        } else {
            256
        };
        level.is_none_or(|level| level.permits_tls13_bits(bits))
    });
    if suites.is_empty() {
        let configured = policy.ciphersuites.as_deref().unwrap_or_default();
        return Err(SettingsError::new(format!(
            "SSL_CONF_cmd(\"Ciphersuites\", \"{configured}\") failed (SSL: error:0A0000B9:SSL routines::no cipher match)"
        )));
    }
    Ok(suites)
}

/// Unlike `ssl_ciphers`, OpenSSL refuses an unknown name here.
fn configured_tls13_suites(configured: &str) -> Result<Vec<(u16, &'static str)>, SettingsError> {
    let mut suites = Vec::new();
    for name in configured.split(':').filter(|name| !name.is_empty()) {
        match TLS13_SUITES.iter().find(|(_, known)| *known == name) {
            Some(suite) if suites.contains(suite) => {}
            Some(suite) => suites.push(*suite),
            // OpenSSL has these two; AWS-LC does not.
            None if matches!(name, "TLS_AES_128_CCM_SHA256" | "TLS_AES_128_CCM_8_SHA256") => {}
            None => {
                return Err(SettingsError::new(format!(
                    "SSL_CONF_cmd(\"Ciphersuites\", \"{configured}\") failed (SSL: error:0A0000B9:SSL routines::no cipher match:unknown suite \"{name}\")"
                )));
            }
        }
    }
    Ok(suites)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ServerSettings;

    fn tls13_order(ciphers: &str, ciphersuites: Option<&str>, prefer: bool) -> Vec<u16> {
        let settings = ServerSettings {
            ciphers: ciphers.to_owned(),
            ciphersuites: ciphersuites.map(str::to_owned),
            prefer_server_ciphers: prefer,
            ..ServerSettings::default()
        };
        let policy = Policy::new(&settings, &mut Vec::new()).expect("a valid policy");
        let parameters = Parameters::new(&policy, &mut Vec::new()).expect("valid parameters");
        let suites = parameters.tls13_suites.iter();
        suites.map(|(id, _)| *id).collect()
    }

    #[test]
    fn our_own_order_begins_with_the_fastest_hash() {
        let ours = tls13_order("HIGH", None, true);
        assert_eq!(ours, [0x1301, 0x1302, 0x1303]);
        assert_eq!(
            tls13_order("HIGH", None, false),
            TLS13_SUITES.map(|(id, _)| id)
        );
        let configured = "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256";
        assert_eq!(
            tls13_order("HIGH", Some(configured), true),
            [0x1302, 0x1301]
        );
    }

    #[test]
    fn a_security_level_removes_suites_with_too_few_bits() {
        for configured in [None, Some("TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384")] {
            let left = tls13_order("HIGH:@SECLEVEL=4", configured, true);
            assert!(!left.contains(&0x1301), "{left:?}");
            assert!(left.contains(&0x1302), "{left:?}");
        }
    }
}
