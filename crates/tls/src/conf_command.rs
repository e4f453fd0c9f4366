//! `ssl_conf_command`: the commands of OpenSSL's `SSL_CONF_cmd` in file mode.
//!
//! Each command is used, has no effect here (a warning), or is refused. A command or value unknown
//! to OpenSSL is an error in OpenSSL's words. Commands apply in order, after all other directives,
//! and override them.

use crate::error::{SettingsError, Warning};
use crate::protocols::{Protocol, Protocols};
use crate::settings::ServerSettings;

/// Settings with the commands applied.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) protocols: Protocols,
    pub(crate) ciphers: String,
    pub(crate) ciphersuites: Option<String>,
    pub(crate) groups: Option<String>,
    pub(crate) signature_algorithms: Option<String>,
    pub(crate) prefer_server_ciphers: bool,
    pub(crate) prioritize_chacha: bool,
    pub(crate) tickets: bool,
    /// Tickets after a TLS 1.3 handshake; `None` is libssl's 2.
    pub(crate) ticket_count: Option<usize>,
    /// `Options KTLS` (`Some(true)`) or `-KTLS`.
    pub(crate) ktls: Option<bool>,
}

/// The most tickets libssl sends.
const MAX_TICKETS: usize = 16;

impl Policy {
    pub(crate) fn new(
        settings: &ServerSettings,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, SettingsError> {
        let mut policy = Self {
            protocols: settings.protocols,
            ciphers: settings.ciphers.clone(),
            ciphersuites: settings.ciphersuites.clone(),
            groups: settings.groups.clone(),
            signature_algorithms: None,
            prefer_server_ciphers: settings.prefer_server_ciphers,
            prioritize_chacha: settings.prioritize_chacha,
            tickets: settings.tickets,
            ticket_count: None,
            ktls: None,
        };
        policy.apply_all("ssl_conf_command", &settings.conf_commands, warnings)?;
        Ok(policy)
    }

    /// Applies commands in order, as those of `directive`.
    pub(crate) fn apply_all(
        &mut self,
        directive: &str,
        commands: &[(String, String)],
        warnings: &mut Vec<Warning>,
    ) -> Result<(), SettingsError> {
        for (name, value) in commands {
            let command = Command {
                directive,
                name,
                value,
            };
            self.apply(&command, warnings)?;
        }
        Ok(())
    }

    fn apply(
        &mut self,
        command: &Command<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), SettingsError> {
        let Some((_, effect)) = COMMANDS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(command.name))
        else {
            return Err(command.unknown());
        };
        let value = command.value.to_owned();
        match effect {
            Effect::CipherString => self.ciphers = value,
            Effect::Ciphersuites => self.ciphersuites = Some(value),
            Effect::Groups => self.groups = Some(value),
            Effect::SignatureAlgorithms => self.signature_algorithms = Some(value),
            Effect::Options => self.options(command, warnings)?,
            Effect::Protocol => self.protocol(command)?,
            Effect::MinProtocol => self.bound(command, |protocol, bound| protocol < bound)?,
            Effect::MaxProtocol => self.bound(command, |protocol, bound| protocol > bound)?,
            Effect::NumTickets => {
                let count: usize = command.value.parse().map_err(|_| command.bad_value())?;
                if count > MAX_TICKETS {
                    warnings
                        .push(command.warning(&format!("at most {MAX_TICKETS} tickets are sent")));
                }
                self.ticket_count = Some(count.min(MAX_TICKETS));
            }
            Effect::Meaningless(why) => warnings.push(command.warning(why)),
            Effect::Unsupported(instead) => return Err(command.unsupported(instead)),
        }
        Ok(())
    }

    fn options(
        &mut self,
        command: &Command<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), SettingsError> {
        for item in command.items() {
            let (on, name) = signed(item);
            let Some((_, option)) = OPTIONS
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
            else {
                return Err(command.bad_value());
            };
            match option {
                Switch::Ktls => self.ktls = Some(on),
                Switch::PrioritizeChaCha => self.prioritize_chacha = on,
                Switch::ServerPreference => self.prefer_server_ciphers = on,
                Switch::SessionTicket => self.tickets = on,
                Switch::Always(state, why) if on != *state => {
                    warnings.push(command.warning(&format!("\"{item}\" has no effect: {why}")));
                }
                Switch::Always(..) => {}
            }
        }
        Ok(())
    }

    fn protocol(&mut self, command: &Command<'_>) -> Result<(), SettingsError> {
        for item in command.items() {
            let (on, name) = signed(item);
            let named: Vec<Protocol> = if name.eq_ignore_ascii_case("ALL") {
                Protocol::ALL[2..].to_vec()
            } else {
                vec![find_protocol(name).ok_or_else(|| command.bad_value())?]
            };
            for protocol in named {
                self.protocols = if on {
                    self.protocols.with(protocol)
                } else {
                    self.protocols.without(protocol)
                };
            }
        }
        Ok(())
    }

    /// A bound replaces the range: versions that `ssl_protocols` lists within it stay, and
    /// everything up to the bound is added, just as OpenSSL's bounds replace nginx's.
    fn bound(
        &mut self,
        command: &Command<'_>,
        outside: impl Fn(Protocol, Protocol) -> bool,
    ) -> Result<(), SettingsError> {
        if command.value.eq_ignore_ascii_case("None") {
            return Ok(());
        }
        let bound = find_protocol(command.value).ok_or_else(|| command.bad_value())?;
        let mut protocols: Protocols = self
            .protocols
            .iter()
            .filter(|protocol| !outside(*protocol, bound))
            .collect();
        let between = |protocol: &Protocol| {
            let (mut low, mut high) = (bound, bound);
            for kept in self.protocols.iter() {
                low = low.min(kept);
                high = high.max(kept);
            }
            *protocol >= low && *protocol <= high && !outside(*protocol, bound)
        };
        if !protocols.contains(bound) {
            protocols = Protocol::ALL[2..].iter().copied().filter(between).collect();
        }
        self.protocols = protocols;
        Ok(())
    }
}

struct Command<'a> {
    /// The directive that contains it.
    directive: &'a str,
    name: &'a str,
    value: &'a str,
}

impl<'a> Command<'a> {
    fn items(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.value
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
    }

    fn unknown(&self) -> SettingsError {
        let Self { name, value, .. } = self;
        SettingsError::new(format!(
            "SSL_CONF_cmd(\"{name}\", \"{value}\") failed (SSL: error:0A000182:SSL routines::unknown cmd name:cmd={name})"
        ))
    }

    fn bad_value(&self) -> SettingsError {
        let Self { name, value, .. } = self;
        SettingsError::new(format!(
            "SSL_CONF_cmd(\"{name}\", \"{value}\") failed (SSL: error:0A000180:SSL routines::bad value:cmd={name}, value={value})"
        ))
    }

    fn unsupported(&self, instead: &str) -> SettingsError {
        let Self {
            directive,
            name,
            value,
        } = self;
        SettingsError::new(format!(
            "\"{directive} {name} {value}\" is not supported: {instead}"
        ))
    }

    fn warning(&self, why: &str) -> Warning {
        Warning::new(format!(
            "\"{} {} {}\": {why}",
            self.directive, self.name, self.value
        ))
    }
}

fn signed(item: &str) -> (bool, &str) {
    match item.strip_prefix('-') {
        Some(name) => (false, name),
        None => (true, item.strip_prefix('+').unwrap_or(item)),
    }
}

fn find_protocol(name: &str) -> Option<Protocol> {
    let name = if name.eq_ignore_ascii_case("TLSv1.0") {
        "TLSv1"
    } else {
        name
    };
    Protocol::ALL
        .into_iter()
        .find(|protocol| protocol.name().eq_ignore_ascii_case(name))
}

enum Effect {
    CipherString,
    Ciphersuites,
    Groups,
    SignatureAlgorithms,
    Options,
    Protocol,
    MinProtocol,
    MaxProtocol,
    NumTickets,
    /// Accepted, with a warning that says why it changes nothing.
    Meaningless(&'static str),
    /// Refused, with what to do.
    Unsupported(&'static str),
}

/// Every command of OpenSSL's file mode.
static COMMANDS: &[(&str, Effect)] = &[
    ("CipherString", Effect::CipherString),
    ("Ciphersuites", Effect::Ciphersuites),
    ("Curves", Effect::Groups),
    ("Groups", Effect::Groups),
    ("SignatureAlgorithms", Effect::SignatureAlgorithms),
    ("Options", Effect::Options),
    ("Protocol", Effect::Protocol),
    ("MinProtocol", Effect::MinProtocol),
    ("MaxProtocol", Effect::MaxProtocol),
    ("NumTickets", Effect::NumTickets),
    (
        "ECDHParameters",
        Effect::Meaningless("the groups of \"ssl_ecdh_curve\" are used"),
    ),
    (
        "DHParameters",
        Effect::Meaningless("DHE is not offered, AWS-LC does not have it"),
    ),
    (
        "ClientSignatureAlgorithms",
        Effect::Meaningless("clients may sign with whatever AWS-LC accepts by default"),
    ),
    (
        "ChainCAPath",
        Effect::Meaningless("the chain is sent as \"ssl_certificate\" holds it"),
    ),
    (
        "ChainCAFile",
        Effect::Meaningless("the chain is sent as \"ssl_certificate\" holds it"),
    ),
    (
        "ChainCAStore",
        Effect::Meaningless("the chain is sent as \"ssl_certificate\" holds it"),
    ),
    (
        "RecordPadding",
        Effect::Unsupported("AWS-LC does not pad records"),
    ),
    (
        "Certificate",
        Effect::Unsupported("use \"ssl_certificate\""),
    ),
    (
        "PrivateKey",
        Effect::Unsupported("use \"ssl_certificate_key\""),
    ),
    (
        "ServerInfoFile",
        Effect::Unsupported("AWS-LC sends no server-info extensions"),
    ),
    (
        "VerifyMode",
        Effect::Unsupported("use \"ssl_verify_client\""),
    ),
    (
        "VerifyCAPath",
        Effect::Unsupported("use \"ssl_trusted_certificate\", which names a file"),
    ),
    (
        "VerifyCAFile",
        Effect::Unsupported("use \"ssl_trusted_certificate\""),
    ),
    (
        "VerifyCAStore",
        Effect::Unsupported("use \"ssl_trusted_certificate\", which names a file"),
    ),
    (
        "ClientCAFile",
        Effect::Unsupported("use \"ssl_client_certificate\""),
    ),
    (
        "ClientCAPath",
        Effect::Unsupported("use \"ssl_client_certificate\", which names a file"),
    ),
    (
        "ClientCAStore",
        Effect::Unsupported("use \"ssl_client_certificate\", which names a file"),
    ),
    (
        "RequestCAFile",
        Effect::Unsupported("use \"ssl_client_certificate\""),
    ),
    (
        "RequestCAPath",
        Effect::Unsupported("use \"ssl_client_certificate\", which names a file"),
    ),
    (
        "RequestCAStore",
        Effect::Unsupported("use \"ssl_client_certificate\", which names a file"),
    ),
];

enum Switch {
    Ktls,
    PrioritizeChaCha,
    ServerPreference,
    SessionTicket,
    /// Always on or always off in AWS-LC. Asking for the opposite gives a warning.
    Always(bool, &'static str),
}

/// Every value of the command `Options`.
static OPTIONS: &[(&str, Switch)] = &[
    ("KTLS", Switch::Ktls),
    ("PrioritizeChaCha", Switch::PrioritizeChaCha),
    ("ServerPreference", Switch::ServerPreference),
    ("SessionTicket", Switch::SessionTicket),
    (
        "EmptyFragments",
        Switch::Always(true, "TLS 1.0 records are always split against BEAST"),
    ),
    (
        "Bugs",
        Switch::Always(false, "AWS-LC has no workarounds to switch on"),
    ),
    (
        "Compression",
        Switch::Always(false, "AWS-LC does not compress"),
    ),
    (
        "NoResumptionOnRenegotiation",
        Switch::Always(true, "renegotiation is always refused"),
    ),
    (
        "NoRenegotiation",
        Switch::Always(true, "renegotiation is always refused"),
    ),
    (
        "UnsafeLegacyRenegotiation",
        Switch::Always(false, "renegotiation is always refused"),
    ),
    (
        "ClientRenegotiation",
        Switch::Always(false, "renegotiation is always refused"),
    ),
    (
        "UnsafeLegacyServerConnect",
        Switch::Always(true, "it applies to clients only"),
    ),
    (
        "ECDHSingle",
        Switch::Always(true, "keys are never used twice"),
    ),
    ("DHSingle", Switch::Always(true, "DHE is not offered")),
    (
        "EncryptThenMac",
        Switch::Always(false, "AWS-LC does not have the extension"),
    ),
    (
        "AllowNoDHEKEX",
        Switch::Always(false, "resumption always exchanges fresh keys"),
    ),
    (
        "PreferNoDHEKEX",
        Switch::Always(false, "resumption always exchanges fresh keys"),
    ),
    (
        "MiddleboxCompat",
        Switch::Always(true, "AWS-LC always follows RFC 8446 appendix D.4"),
    ),
    (
        "AntiReplay",
        Switch::Always(true, "early data is never accepted twice"),
    ),
    (
        "ExtendedMasterSecret",
        Switch::Always(true, "AWS-LC always negotiates it"),
    ),
    (
        "CANames",
        Switch::Always(true, "the names in \"ssl_client_certificate\" are sent"),
    ),
    (
        "StrictCertCheck",
        Switch::Always(false, "it applies to Suite B only"),
    ),
    (
        "TxCertificateCompression",
        Switch::Always(false, "certificates are not compressed"),
    ),
    (
        "RxCertificateCompression",
        Switch::Always(false, "certificates are not compressed"),
    ),
    (
        "NoTxCertificateCompression",
        Switch::Always(true, "certificates are not compressed"),
    ),
    (
        "NoRxCertificateCompression",
        Switch::Always(true, "certificates are not compressed"),
    ),
    (
        "KTLSTxZerocopySendfile",
        Switch::Always(false, "it is not used"),
    ),
    (
        "IgnoreUnexpectedEOF",
        Switch::Always(true, "a missing close_notify ends the connection quietly"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(commands: &[(&str, &str)]) -> (Result<Policy, SettingsError>, Vec<Warning>) {
        let settings = ServerSettings {
            conf_commands: commands
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..ServerSettings::default()
        };
        let mut warnings = Vec::new();
        let policy = Policy::new(&settings, &mut warnings);
        (policy, warnings)
    }

    #[test]
    fn options_switch_on_and_off() {
        let (policy, warnings) = apply(&[(
            "Options",
            "KTLS,PrioritizeChaCha, ServerPreference,-SessionTicket",
        )]);
        let policy = policy.expect("valid");
        assert_eq!(policy.ktls, Some(true));
        assert!(policy.prioritize_chacha && policy.prefer_server_ciphers && !policy.tickets);
        assert_eq!(warnings, []);
        assert_eq!(
            apply(&[("Options", "-KTLS")]).0.expect("valid").ktls,
            Some(false)
        );
        assert_eq!(
            apply(&[("options", "+ktls")])
                .0
                .expect("case does not matter")
                .ktls,
            Some(true)
        );
    }

    #[test]
    fn what_cannot_be_had_is_warned_about() {
        let (policy, warnings) = apply(&[(
            "Options",
            "Compression,NoRenegotiation,-NoRenegotiation,Bugs",
        )]);
        policy.expect("valid");
        assert_eq!(warnings.len(), 3);
    }

    #[test]
    fn unknown_names_and_values_are_errors_in_openssl_words() {
        let error = apply(&[("Foo", "bar")]).0.expect_err("unknown");
        assert!(
            error
                .to_string()
                .starts_with("SSL_CONF_cmd(\"Foo\", \"bar\") failed (SSL: error:"),
            "{error}"
        );
        assert!(error.to_string().contains("unknown cmd name"), "{error}");
        for (name, value) in [
            ("Options", "KTLS,Foo"),
            ("MinProtocol", "TLSv9"),
            ("NumTickets", "many"),
            ("Protocol", "x"),
        ] {
            let error = apply(&[(name, value)]).0.expect_err(name);
            assert!(error.to_string().contains("bad value"), "{error}");
        }
        assert!(
            apply(&[("VerifyMode", "Require")]).0.is_err(),
            "a check must never be skipped silently"
        );
    }

    #[test]
    fn protocol_bounds() {
        let protocols = |commands: &[(&str, &str)]| -> Vec<&'static str> {
            apply(commands)
                .0
                .expect("valid")
                .protocols
                .iter()
                .map(Protocol::name)
                .collect()
        };
        assert_eq!(protocols(&[("MinProtocol", "TLSv1.3")]), ["TLSv1.3"]);
        assert_eq!(
            protocols(&[("MinProtocol", "TLSv1")]),
            ["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]
        );
        assert_eq!(protocols(&[("MaxProtocol", "TLSv1.2")]), ["TLSv1.2"]);
        assert_eq!(
            protocols(&[("MinProtocol", "None")]),
            ["TLSv1.2", "TLSv1.3"]
        );
        assert_eq!(protocols(&[("Protocol", "-ALL,TLSv1.1")]), ["TLSv1.1"]);
    }

    #[test]
    fn strings_override_the_directives() {
        let (policy, _) = apply(&[
            ("CipherString", "AESGCM"),
            ("Ciphersuites", "TLS_AES_128_GCM_SHA256"),
            ("Groups", "P-256"),
            ("SignatureAlgorithms", "RSA-PSS+SHA256"),
            ("NumTickets", "1"),
        ]);
        let policy = policy.expect("valid");
        assert_eq!(policy.ciphers, "AESGCM");
        assert_eq!(
            policy.ciphersuites.as_deref(),
            Some("TLS_AES_128_GCM_SHA256")
        );
        assert_eq!(policy.groups.as_deref(), Some("P-256"));
        assert_eq!(
            policy.signature_algorithms.as_deref(),
            Some("RSA-PSS+SHA256")
        );
        assert_eq!(policy.ticket_count, Some(1));
    }
}
