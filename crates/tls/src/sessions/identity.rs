//! What a session is bound to.
//!
//! A session must resume on every node that serves the same site, and never where the full
//! handshake might have ended otherwise: at another server, or under other rules for client
//! certificates (CVE-2025-23419: a session made under one server's rules was accepted by another).
//! So its context id is a hash of
//!
//! - the names of the server (`server_name`) and of its certificates;
//! - the contents of the client CAs, whether and how deep client certificates are
//!   verified, and the contents of the revocation lists.
//!
//! It does not contain addresses, ports, paths and file times, which differ between nodes. All of
//! it comes from the configuration, so nodes with the same configuration get the same id.

use sealane_awslc::sha256;

use crate::settings::PemFile;

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
    /// `on`: requests without a valid one are refused.
    On,
    /// `optional`: one that is sent must be valid.
    Optional,
    /// `optional_no_ca`: one that is sent is not checked here.
    OptionalNoCa,
}

/// How client certificates are verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientVerification {
    /// `ssl_verify_client`.
    pub mode: VerifyClient,
    /// `ssl_verify_depth`.
    pub depth: u32,
    /// `ssl_client_certificate`: trusted, and clients are sent its names.
    pub named: Option<PemFile>,
    /// `ssl_trusted_certificate`: trusted.
    pub trusted: Option<PemFile>,
    /// `ssl_crl`.
    pub revoked: Option<PemFile>,
}

/// nginx's default for `ssl_verify_depth`.
const DEFAULT_VERIFY_DEPTH: u32 = 1;

impl ClientVerification {
    /// nginx's defaults: no client certificates.
    pub const OFF: Self = Self {
        mode: VerifyClient::Off,
        depth: DEFAULT_VERIFY_DEPTH,
        named: None,
        trusted: None,
        revoked: None,
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
    let mut text = b"sealane session identity v3".to_vec();
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
    // If no certificate is asked for, the files may be there for stapling.
    if parts.client.mode != VerifyClient::Off {
        append(&mut text, b'd', &parts.client.depth.to_be_bytes());
        let ClientVerification {
            named,
            trusted,
            revoked,
            ..
        } = parts.client;
        for (kind, file) in [(b'a', named), (b't', trusted), (b'r', revoked)] {
            if let Some(file) = file {
                append(&mut text, kind, &file.pem);
            }
        }
    }
    sha256(&text)
}

/// Prefixed with kind and length, so that no two lists give the same text.
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

    fn file(pem: &str) -> Option<PemFile> {
        Some(PemFile {
            pem: pem.as_bytes().to_vec(),
            label: "/ca.pem".to_owned(),
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
        let on = ClientVerification {
            mode: VerifyClient::On,
            ..off.clone()
        };
        for client in [
            on.clone(),
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
                ..on.clone()
            },
            ClientVerification {
                named: file("CA 1"),
                ..on.clone()
            },
            ClientVerification {
                trusted: file("CA 1"),
                ..on.clone()
            },
            ClientVerification {
                trusted: file("CA 2"),
                ..on.clone()
            },
            ClientVerification {
                revoked: file("CA 1"),
                ..on.clone()
            },
        ] {
            seen.push(of(&["a.test", "b.test"], &["a.test"], &client));
        }
        let distinct: std::collections::HashSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len());
    }

    #[test]
    fn names_of_files_and_files_that_nobody_uses_do_not() {
        let mut on = ClientVerification {
            mode: VerifyClient::On,
            named: file("CA 1"),
            ..ClientVerification::OFF
        };
        let before = of(&["a.test"], &[], &on);
        let named = on.named.as_mut().expect("set above");
        named.label = "/elsewhere.pem".to_owned();
        assert_eq!(of(&["a.test"], &[], &on), before);
        let stapling = ClientVerification {
            trusted: file("CA 1"),
            ..ClientVerification::OFF
        };
        assert_eq!(
            of(&["a.test"], &[], &stapling),
            of(&["a.test"], &[], &ClientVerification::OFF)
        );
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
