//! The pinned TLS parameters: how they are offered, and the check that the server accepted them.

use std::{borrow::Cow, fmt};

use clap::ValueEnum;
use sealane_awslc::{
    ClientConnection, ClientContext, Error as LibraryError, Group, HandshakeStatus,
    ProtocolVersion, ReadStatus, Session, group_by_name,
};
use serde::{Deserialize, Serialize};

use crate::Error;

/// A protocol version that a run can pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// TLS 1.0.
    #[value(name = "1.0")]
    Tls10,
    /// TLS 1.1.
    #[value(name = "1.1")]
    Tls11,
    /// TLS 1.2.
    #[value(name = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[value(name = "1.3")]
    Tls13,
}

impl Protocol {
    fn version(self) -> ProtocolVersion {
        match self {
            Self::Tls10 => ProtocolVersion::Tls10,
            Self::Tls11 => ProtocolVersion::Tls11,
            Self::Tls12 => ProtocolVersion::Tls12,
            Self::Tls13 => ProtocolVersion::Tls13,
        }
    }

    /// The version in OpenSSL's words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls10 => "TLSv1",
            Self::Tls11 => "TLSv1.1",
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}

/// The kind of certificate key that a run can pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyType {
    /// RSA of any size.
    Rsa,
    /// ECDSA on P-256.
    P256,
    /// ECDSA on P-384.
    P384,
    /// Ed25519.
    Ed25519,
}

impl KeyType {
    /// The signature algorithms to offer, in OpenSSL's syntax.
    pub(super) fn signature_algorithms(self) -> &'static str {
        match self {
            Self::Rsa => "RSA-PSS+SHA256:RSA+SHA256",
            Self::P256 => "ECDSA+SHA256",
            Self::P384 => "ECDSA+SHA384",
            Self::Ed25519 => "ed25519",
        }
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rsa => "RSA",
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::Ed25519 => "Ed25519",
        }
    }

    /// The kind of key behind a signature scheme (RFC 8446, section 4.2.3).
    fn of_signature(scheme: u16) -> Option<Self> {
        match scheme {
            0x0201 | 0x0401 | 0x0501 | 0x0601 | 0x0804..=0x0806 => Some(Self::Rsa),
            0x0403 => Some(Self::P256),
            0x0503 => Some(Self::P384),
            0x0807 => Some(Self::Ed25519),
            _ => None,
        }
    }
}

/// Whether handshakes are full or resume a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Resumption {
    /// Every connection makes a full handshake.
    #[default]
    Full,
    /// Every connection except a client's first resumes the newest session.
    Resumed,
    /// The same, with the request sent along with the ClientHello (0-RTT). Refused data is sent
    /// again after the handshake, and counted.
    EarlyData,
}

/// What a client offers besides the pinned parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Offer {
    /// Only what is pinned, so that the server has no choice.
    #[default]
    Pinned,
    /// What browsers offer: TLS 1.2 and 1.3, all three suites with AES-128 first, X25519MLKEM768
    /// before X25519 and the curves, HTTP/2 and HTTP/1.1. What is pinned must be chosen by the
    /// server.
    Browser,
}

/// The groups that browsers offer, preferred first. Key shares are sent for the first two.
const BROWSER_GROUPS: [&str; 4] = ["X25519MLKEM768", "X25519", "P-256", "P-384"];
/// The TLS 1.3 suites that browsers offer, preferred first.
const BROWSER_SUITES: &str =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

/// The parameters that a run pins. Those that are `None` are left to the server and only reported.
#[derive(Clone, Debug)]
pub struct TlsPlan {
    /// What else is offered.
    pub offer: Offer,
    /// The protocol version.
    pub protocol: Option<Protocol>,
    /// The suite: an IANA name (`TLS_AES_256_GCM_SHA384`) in TLS 1.3, OpenSSL's
    /// name (`ECDHE-RSA-AES128-GCM-SHA256`) below.
    pub suite: Option<String>,
    /// The key-exchange group, by the library's name or OpenSSL's.
    pub group: Option<String>,
    /// The kind of certificate key.
    pub key_type: Option<KeyType>,
    /// Full or resumed handshakes.
    pub resumption: Resumption,
    /// Whether tickets are used; without them TLS 1.2 resumes by session id.
    pub tickets: bool,
    /// Whether an OCSP response is asked for. Then every full handshake must bring one.
    pub staple: bool,
}

impl Default for TlsPlan {
    fn default() -> Self {
        Self {
            offer: Offer::Pinned,
            protocol: None,
            suite: None,
            group: None,
            key_type: None,
            resumption: Resumption::Full,
            tickets: true,
            staple: false,
        }
    }
}

/// The negotiated parameters of a handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Negotiated {
    /// `TLSv1.3`.
    pub protocol: Cow<'static, str>,
    /// The suite by OpenSSL's name.
    pub suite: Cow<'static, str>,
    /// The key-exchange group; `None` with static RSA and after a TLS 1.2 resumption.
    pub group: Option<Cow<'static, str>>,
    /// The kind of key that signed; `None` if nothing was signed.
    pub key_type: Option<Cow<'static, str>>,
    /// A session was resumed.
    pub resumed: bool,
    /// An OCSP response came along.
    pub stapled: bool,
}

impl fmt::Display for Negotiated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.protocol, self.suite)?;
        for part in [&self.group, &self.key_type].into_iter().flatten() {
            write!(f, " {part}")?;
        }
        f.write_str(if self.resumed { " resumed" } else { " full" })?;
        f.write_str(if self.stapled { " stapled" } else { "" })
    }
}

/// The plan as settings of the library; one per event loop.
pub(super) struct TlsSettings {
    plan: TlsPlan,
    group: Option<Group>,
    context: ClientContext,
    server_name: Option<String>,
}

impl TlsSettings {
    pub(super) fn new(
        plan: &TlsPlan,
        server_name: Option<&str>,
        http2: bool,
    ) -> Result<Self, Error> {
        let group = plan.group.as_deref().map(group).transpose()?;
        let protocol = check_suite_fits(plan)?;
        let context = match plan.offer {
            Offer::Pinned => context(plan, protocol, group, http2),
            Offer::Browser => browser_context(plan),
        };
        let context = context.map_err(|error| library_error("prepare the TLS client", &error))?;
        let plan = TlsPlan {
            protocol,
            ..plan.clone()
        };
        Ok(Self {
            plan,
            group,
            context,
            server_name: server_name.map(str::to_owned),
        })
    }

    pub(super) fn resumption(&self) -> Resumption {
        self.plan.resumption
    }

    pub(super) fn connect(&self, session: Option<&Session>) -> Result<Tls, Error> {
        let start = || {
            let mut connection = ClientConnection::new(&self.context, self.server_name.as_deref())?;
            if let Some(session) = session {
                connection.set_session(session)?;
                if self.plan.resumption == Resumption::EarlyData {
                    connection.offer_early_data();
                }
            }
            Ok(Tls {
                connection,
                early_data: EarlyData::None,
            })
        };
        start().map_err(|error| library_error("prepare a TLS connection", &error))
    }

    /// Compares the negotiated parameters with the pinned ones.
    pub(super) fn check(&self, got: &Negotiated, offered_session: bool) -> Result<(), Error> {
        let pinned = |what, wanted: Option<&str>, got: Option<&str>| match (wanted, got) {
            (Some(wanted), Some(got)) if wanted != got => Err(Error::Negotiated {
                what,
                wanted: wanted.into(),
                got: got.into(),
            }),
            _ => Ok(()),
        };
        pinned(
            "protocol",
            self.plan.protocol.map(Protocol::name),
            Some(&got.protocol),
        )?;
        pinned("suite", self.plan.suite.as_deref(), Some(&got.suite))?;
        pinned(
            "group",
            self.group.map(|group| group.name),
            got.group.as_deref(),
        )?;
        pinned(
            "key type",
            self.plan.key_type.map(KeyType::name),
            got.key_type.as_deref(),
        )?;
        if got.resumed != offered_session {
            let words = |resumed| if resumed { "resumed" } else { "full" };
            return Err(Error::Negotiated {
                what: "resumption",
                wanted: words(offered_session).into(),
                got: words(got.resumed).into(),
            });
        }
        if self.plan.staple && !got.resumed && !got.stapled {
            return Err(Error::Negotiated {
                what: "stapling",
                wanted: "an OCSP response".into(),
                got: "none".into(),
            });
        }
        Ok(())
    }
}

/// The pinned protocol, possibly implied by the suite's name.
fn check_suite_fits(plan: &TlsPlan) -> Result<Option<Protocol>, Error> {
    let Some(suite) = &plan.suite else {
        return Ok(plan.protocol);
    };
    match (suite.starts_with("TLS_"), plan.protocol) {
        (true, None | Some(Protocol::Tls13)) => Ok(Some(Protocol::Tls13)),
        (false, None) => Ok(Some(Protocol::Tls12)),
        (true, Some(protocol)) => Err(Error::Usage(format!(
            "suite {suite} is one of TLS 1.3 and cannot be pinned with {}",
            protocol.name()
        ))),
        (false, Some(Protocol::Tls13)) => {
            Err(Error::Usage(format!("TLS 1.3 has no suite {suite}")))
        }
        (false, protocol) => Ok(protocol),
    }
}

fn context(
    plan: &TlsPlan,
    protocol: Option<Protocol>,
    group: Option<Group>,
    http2: bool,
) -> Result<ClientContext, LibraryError> {
    let mut builder = ClientContext::builder()?;
    if let Some(protocol) = protocol {
        builder.set_protocol_range(protocol.version(), protocol.version())?;
    }
    match &plan.suite {
        Some(suite) if protocol == Some(Protocol::Tls13) => builder.set_ciphersuites(suite)?,
        Some(suite) => builder.set_cipher_list(suite)?,
        None => {}
    }
    if let Some(group) = group {
        builder.set_groups(&[group])?;
    }
    if let Some(key_type) = plan.key_type {
        builder.set_signature_algorithms(key_type.signature_algorithms())?;
    }
    if http2 {
        builder.set_alpn(&[b"h2"])?;
    }
    builder.set_tickets_enabled(plan.tickets);
    if plan.staple {
        builder.ask_for_ocsp_response();
    }
    builder.build()
}

/// The offer of a browser. The certificate's key is the server's choice, too.
fn browser_context(plan: &TlsPlan) -> Result<ClientContext, LibraryError> {
    let mut builder = ClientContext::builder()?;
    builder.set_protocol_range(ProtocolVersion::Tls12, ProtocolVersion::Tls13)?;
    builder.set_ciphersuites(BROWSER_SUITES)?;
    let groups: Vec<_> = BROWSER_GROUPS
        .into_iter()
        .filter_map(group_by_name)
        .collect();
    builder.set_groups(&groups)?;
    builder.set_alpn(&[b"h2", b"http/1.1"])?;
    builder.set_tickets_enabled(plan.tickets);
    if plan.staple {
        builder.ask_for_ocsp_response();
    }
    builder.build()
}

/// A group by the library's name or one of OpenSSL's.
fn group(name: &str) -> Result<Group, Error> {
    let known = match name {
        "prime256v1" | "secp256r1" => "P-256",
        "secp384r1" => "P-384",
        "secp521r1" => "P-521",
        "x25519" => "X25519",
        other => other,
    };
    group_by_name(known)
        .ok_or_else(|| Error::Usage(format!("unknown key-exchange group \"{name}\"")))
}

fn library_error(what: &str, error: &LibraryError) -> Error {
    Error::Tls {
        what: what.into(),
        reason: error.to_string(),
    }
}

/// The outcome of a connection's early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EarlyData {
    /// None was sent.
    None,
    /// The server has not decided yet.
    Sent,
    /// The server accepted it.
    Accepted,
    /// It must be sent again.
    Rejected,
}

/// One connection's TLS, without its socket.
pub(super) struct Tls {
    connection: ClientConnection,
    early_data: EarlyData,
}

impl Tls {
    /// Continues the handshake; returns true when data can be written. That may be early data.
    pub(super) fn handshake(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let status = self
            .connection
            .handshake(input, output)
            .map_err(|error| library_error("TLS handshake", &error))?;
        if self.connection.is_early_data() {
            self.early_data = EarlyData::Sent;
        }
        Ok(status == HandshakeStatus::Done)
    }

    pub(super) fn early_data(&self) -> EarlyData {
        self.early_data
    }

    /// Continues the handshake after early data; returns true once it is done and the server's
    /// decision about the data is known.
    fn finish_handshake(&mut self, input: &mut &[u8], output: &mut Vec<u8>) -> Result<bool, Error> {
        let status = self
            .connection
            .handshake(input, output)
            .map_err(|error| library_error("TLS handshake behind early data", &error))?;
        if status != HandshakeStatus::Done || self.connection.is_early_data() {
            return Ok(false);
        }
        self.early_data = match self.connection.was_early_data_accepted() {
            true => EarlyData::Accepted,
            false => EarlyData::Rejected,
        };
        Ok(true)
    }

    /// Opens all records in `input` and passes their plaintext to `consume`; returns true if the
    /// peer closed its side.
    pub(super) fn read(
        &mut self,
        input: &mut &[u8],
        plain: &mut [u8],
        output: &mut Vec<u8>,
        mut consume: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        if self.early_data == EarlyData::Sent && !self.finish_handshake(input, output)? {
            return Ok(false);
        }
        loop {
            match self.connection.read(input, output, plain) {
                Ok(ReadStatus::Data(count)) => consume(&plain[..count])?,
                Ok(ReadStatus::CloseNotify) => return Ok(true),
                Ok(ReadStatus::WantRead) => return Ok(false),
                Err(error) => return Err(library_error("receive over TLS", &error)),
            }
        }
    }

    /// Seals `plain`, after whatever is queued.
    pub(super) fn write(&mut self, plain: &[u8], output: &mut Vec<u8>) -> Result<(), Error> {
        self.connection
            .write(plain, output)
            .map_err(|error| library_error("send over TLS", &error))
    }

    /// Appends a close_notify, after whatever is queued.
    pub(super) fn close(&mut self, output: &mut Vec<u8>) {
        self.connection.shutdown(output);
    }

    pub(super) fn take_session(&mut self) -> Option<Session> {
        self.connection.take_session()
    }

    /// The parameters negotiated by the completed handshake.
    pub(super) fn negotiated(&self) -> Result<Negotiated, Error> {
        let suite = self
            .connection
            .cipher()
            .ok_or(Error::Closed("before a suite was negotiated"))?;
        // OpenSSL and the library name the suites of TLS 1.3 differently;
        // their IANA names are the ones that configurations use.
        let suite = if self.connection.protocol() == "TLSv1.3" {
            suite.standard_name()
        } else {
            suite.name()
        };
        let scheme = self.connection.signature_scheme();
        Ok(Negotiated {
            protocol: self.connection.protocol().into(),
            suite: suite.into(),
            group: self.connection.group().map(|group| group.name.into()),
            key_type: scheme
                .and_then(KeyType::of_signature)
                .map(|key_type| key_type.name().into()),
            resumed: self.connection.is_session_reused(),
            stapled: !self.connection.is_session_reused()
                && self.connection.ocsp_response_bytes() > 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(plan: TlsPlan) -> TlsSettings {
        TlsSettings::new(&plan, None, false).expect("a plan that the library can do")
    }

    fn negotiated() -> Negotiated {
        Negotiated {
            protocol: "TLSv1.3".into(),
            suite: "TLS_AES_256_GCM_SHA384".into(),
            group: Some("X25519".into()),
            key_type: Some("P-256".into()),
            resumed: false,
            stapled: false,
        }
    }

    fn full_plan() -> TlsPlan {
        TlsPlan {
            protocol: Some(Protocol::Tls13),
            suite: Some("TLS_AES_256_GCM_SHA384".into()),
            group: Some("X25519".into()),
            key_type: Some(KeyType::P256),
            ..TlsPlan::default()
        }
    }

    fn deviation(plan: TlsPlan, got: &Negotiated, offered: bool) -> Option<&'static str> {
        match settings(plan).check(got, offered) {
            Ok(()) => None,
            Err(Error::Negotiated { what, .. }) => Some(what),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn the_pinned_handshake_passes() {
        assert_eq!(deviation(full_plan(), &negotiated(), false), None);
        assert_eq!(deviation(TlsPlan::default(), &negotiated(), false), None);
        let resumed = Negotiated {
            resumed: true,
            key_type: None,
            ..negotiated()
        };
        assert_eq!(deviation(full_plan(), &resumed, true), None);
    }

    #[test]
    fn a_staple_that_is_asked_for_must_come() {
        let asking = TlsPlan {
            staple: true,
            ..full_plan()
        };
        let got = |resumed, stapled| Negotiated {
            resumed,
            stapled,
            ..negotiated()
        };
        let full = got(false, false);
        assert_eq!(deviation(asking.clone(), &full, false), Some("stapling"));
        assert_eq!(deviation(asking.clone(), &got(false, true), false), None);
        // Nothing is certified again.
        assert_eq!(deviation(asking, &got(true, false), true), None);
    }

    #[test]
    fn every_deviation_is_named() {
        let cases = [
            (
                "protocol",
                Negotiated {
                    protocol: "TLSv1.2".into(),
                    ..negotiated()
                },
            ),
            (
                "suite",
                Negotiated {
                    suite: "TLS_AES_128_GCM_SHA256".into(),
                    ..negotiated()
                },
            ),
            (
                "group",
                Negotiated {
                    group: Some("P-256".into()),
                    ..negotiated()
                },
            ),
            (
                "key type",
                Negotiated {
                    key_type: Some("RSA".into()),
                    ..negotiated()
                },
            ),
            (
                "resumption",
                Negotiated {
                    resumed: true,
                    ..negotiated()
                },
            ),
        ];
        for (what, got) in cases {
            assert_eq!(deviation(full_plan(), &got, false), Some(what));
        }
        assert_eq!(
            deviation(full_plan(), &negotiated(), true),
            Some("resumption")
        );
    }

    #[test]
    fn suites_and_protocols_must_fit() {
        let plan = |suite: &str, protocol| TlsPlan {
            suite: Some(suite.into()),
            protocol,
            ..TlsPlan::default()
        };
        assert_eq!(
            settings(plan("TLS_AES_128_GCM_SHA256", None)).plan.protocol,
            Some(Protocol::Tls13)
        );
        assert_eq!(
            settings(plan("ECDHE-RSA-AES128-GCM-SHA256", None))
                .plan
                .protocol,
            Some(Protocol::Tls12)
        );
        for impossible in [
            plan("TLS_AES_128_GCM_SHA256", Some(Protocol::Tls12)),
            plan("ECDHE-RSA-AES128-GCM-SHA256", Some(Protocol::Tls13)),
            plan("NO-SUCH-SUITE", None),
            TlsPlan {
                group: Some("secp112r1".into()),
                ..TlsPlan::default()
            },
        ] {
            assert!(
                TlsSettings::new(&impossible, None, false).is_err(),
                "{impossible:?}"
            );
        }
    }

    #[test]
    fn groups_by_both_names() {
        for (name, library_name) in [
            ("X25519", "X25519"),
            ("prime256v1", "P-256"),
            ("P-384", "P-384"),
        ] {
            assert_eq!(group(name).expect("a known group").name, library_name);
        }
    }
}
