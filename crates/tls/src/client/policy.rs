//! The settings of a client with the commands of `proxy_ssl_conf_command` and the like applied.

use super::settings::ClientSettings;
use crate::conf_command::Policy;
use crate::error::{SettingsError, Warning};

/// Commands for which clients have a directive: the part after `proxy_ssl_`.
const CLIENT_DIRECTIVES: [(&str, &str); 6] = [
    ("Certificate", "certificate"),
    ("PrivateKey", "certificate_key"),
    ("VerifyMode", "verify"),
    ("VerifyCAFile", "trusted_certificate"),
    ("VerifyCAPath", "trusted_certificate"),
    ("VerifyCAStore", "trusted_certificate"),
];

impl Policy {
    /// The policy of a client.
    pub(crate) fn for_client(
        settings: &ClientSettings,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, SettingsError> {
        let mut policy = Self {
            protocols: settings.protocols,
            ciphers: settings.ciphers.clone(),
            ciphersuites: None,
            groups: None,
            signature_algorithms: None,
            prefer_server_ciphers: false,
            prioritize_chacha: false,
            tickets: true,
            ticket_count: None,
            ktls: None,
        };
        let directives = settings.directives;
        let directive = format!("{directives}_conf_command");
        for (name, value) in &settings.conf_commands {
            let replaced = CLIENT_DIRECTIVES
                .iter()
                .find(|(command, _)| command.eq_ignore_ascii_case(name));
            if let Some((_, suffix)) = replaced {
                return Err(SettingsError::new(format!(
                    "\"{directive} {name} {value}\" is not supported: use \"{directives}_{suffix}\""
                )));
            }
        }
        policy.apply_all(&directive, &settings.conf_commands, warnings)?;
        Ok(policy)
    }
}
