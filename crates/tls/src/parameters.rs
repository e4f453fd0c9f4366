//! What remains to negotiate once protocols, cipher string, groups and commands are evaluated: the
//! same for servers and clients.

use sealane_awslc::ProtocolVersion;

use crate::ciphers::{CipherList, SecurityLevel, Suite, TLS13_SUITES};
use crate::conf_command::Policy;
use crate::error::{SettingsError, Warning};
use crate::groups::GroupList;

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
            tls13_suites: tls13_suites(policy.ciphersuites.as_deref(), level)?,
            groups,
            level,
            tickets,
        })
    }
}

/// TLS 1.3 suites in the configured order. Unlike `ssl_ciphers`, OpenSSL refuses
/// an unknown name here.
fn tls13_suites(
    configured: Option<&str>,
    level: Option<SecurityLevel>,
) -> Result<Vec<(u16, &'static str)>, SettingsError> {
    let Some(configured) = configured else {
        return Ok(TLS13_SUITES.to_vec());
    };
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
    suites.retain(|(id, _)| {
        let bits = if *id == 0x1301 { 128 } else { 256 };
        level.is_none_or(|level| level.permits_tls13_bits(bits))
    });
    if suites.is_empty() {
        return Err(SettingsError::new(format!(
            "SSL_CONF_cmd(\"Ciphersuites\", \"{configured}\") failed (SSL: error:0A0000B9:SSL routines::no cipher match)"
        )));
    }
    Ok(suites)
}
