//! What a session is bound to.
//!
//! A session must resume on every node that serves the same site, and never where
//! the full handshake might have ended otherwise: at another server, or under
//! other rules for client certificates (CVE-2025-23419: a session made under one
//! server's rules was taken by another). So its context id is a hash of
//!
//! - the names of the server (`server_name`) and of its certificates;
//! - the contents of the client CAs, whether and how deep client certificates are
//!   verified, and the contents of the revocation lists.
//!
//! Addresses, ports, paths and file times are not in it: they differ between
//! nodes. All of it comes from the configuration, so all nodes that have the same
//! get the same.

use sealane_awslc::sha256;

/// The parts of the identity.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    /// `server_name`, in any order and case.
    pub(crate) server_names: &'a [String],
    /// Names in the certificates, in any order.
    pub(crate) certificate_names: Vec<String>,
    pub(crate) client: &'a ClientVerification,
}

/// `ssl_verify_client`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyClient {
    /// `off`: no certificate is asked for.
    #[default]
    Off,
    /// `on`: without a valid one there is no service.
    On,
    /// `optional`: one that is shown must be valid.
    Optional,
    /// `optional_no_ca`: one that is shown is not checked here.
    OptionalNoCa,
}

/// How client certificates are judged. Until they can be, anything but the
/// default is refused when the settings are built; the fields are part of the identity
/// already, so that sessions from before do not survive the day they are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientVerification {
    /// `ssl_verify_client`.
    pub mode: VerifyClient,
    /// `ssl_verify_depth`.
    pub depth: u32,
    /// Contents of `ssl_client_certificate` and `ssl_trusted_certificate`, PEM.
    pub trusted_pem: Vec<u8>,
    /// Contents of `ssl_crl`, PEM.
    pub revoked_pem: Vec<u8>,
}

/// nginx's default for `ssl_verify_depth`.
const DEFAULT_VERIFY_DEPTH: u32 = 1;

impl ClientVerification {
    /// nginx's defaults: no client certificates.
    pub const OFF: Self = Self {
        mode: VerifyClient::Off,
        depth: DEFAULT_VERIFY_DEPTH,
        trusted_pem: Vec::new(),
        revoked_pem: Vec::new(),
    };
}

impl Default for ClientVerification {
    fn default() -> Self {
        Self::OFF
    }
}

/// The context id.
pub(crate) fn context_id(parts: &Parts<'_>) -> [u8; 32] {
    let mut names: Vec<String> = parts
        .server_names
        .iter()
        .map(|name| name.to_ascii_lowercase())
        .collect();
    names.sort_unstable();
    names.dedup();
    let mut certificate_names = parts.certificate_names.clone();
    certificate_names.sort_unstable();
    certificate_names.dedup();
    let mut text = b"sealane session identity v2".to_vec();
    for name in &names {
        append(&mut text, b'n', name.as_bytes());
    }
    for name in &certificate_names {
        append(&mut text, b'c', name.as_bytes());
    }
    let mode = match parts.client.mode {
        VerifyClient::Off => 0,
        VerifyClient::On => 1,
        VerifyClient::Optional => 2,
        VerifyClient::OptionalNoCa => 3,
    };
    append(&mut text, b'v', &[mode]);
    append(&mut text, b'd', &parts.client.depth.to_be_bytes());
    append(&mut text, b't', &parts.client.trusted_pem);
    append(&mut text, b'r', &parts.client.revoked_pem);
    sha256(&text)
}

/// Kind and length in front, so that no two lists give the same text.
fn append(text: &mut Vec<u8>, kind: u8, value: &[u8]) {
    text.push(kind);
    text.extend_from_slice(&(value.len() as u64).to_be_bytes());
    text.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(
        server_names: &[&str],
        certificate_names: &[&str],
        client: &ClientVerification,
    ) -> [u8; 32] {
        let text = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        context_id(&Parts {
            server_names: &text(server_names),
            certificate_names: text(certificate_names),
            client,
        })
    }

    #[test]
    fn every_field_changes_it() {
        let off = ClientVerification::OFF;
        let base = of(&["a.test", "b.test"], &["a.test"], &off);
        let others = [
            of(&["a.test"], &["a.test"], &off),
            of(&["a.test", "c.test"], &["a.test"], &off),
            of(&["a.testb.test"], &["a.test"], &off),
            of(&["a.test"], &["a.test", "b.test"], &off),
            of(&["a.test", "b.test"], &[], &off),
            of(&["a.test", "b.test"], &["b.test"], &off),
        ];
        let mut seen = vec![base];
        seen.extend(others);
        for client in [
            ClientVerification {
                mode: VerifyClient::On,
                ..off.clone()
            },
            ClientVerification {
                mode: VerifyClient::Optional,
                ..off.clone()
            },
            ClientVerification {
                mode: VerifyClient::OptionalNoCa,
                ..off.clone()
            },
            ClientVerification {
                depth: 2,
                ..off.clone()
            },
            ClientVerification {
                trusted_pem: b"CA 1".to_vec(),
                ..off.clone()
            },
            ClientVerification {
                trusted_pem: b"CA 2".to_vec(),
                ..off.clone()
            },
            ClientVerification {
                revoked_pem: b"CA 1".to_vec(),
                ..off.clone()
            },
        ] {
            seen.push(of(&["a.test", "b.test"], &["a.test"], &client));
        }
        let distinct: std::collections::HashSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len());
    }

    #[test]
    fn order_case_and_repetition_of_names_do_not() {
        let off = ClientVerification::OFF;
        assert_eq!(
            of(&["a.test", "b.test"], &["x", "y"], &off),
            of(&["B.test", "A.TEST", "a.test"], &["y", "x", "y"], &off)
        );
    }
}
