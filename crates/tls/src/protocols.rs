//! `ssl_protocols`: a set of versions, and the range libssl is given.

use std::fmt;

use sealane_awslc::ProtocolVersion;

use crate::ciphers::SecurityLevel;
use crate::error::{SettingsError, Warning};

/// A version that `ssl_protocols` can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// Accepted and never offered.
    SslV2,
    /// Accepted and never offered.
    SslV3,
    /// TLS 1.0.
    TlsV1,
    /// TLS 1.1.
    TlsV1_1,
    /// TLS 1.2.
    TlsV1_2,
    /// TLS 1.3.
    TlsV1_3,
}

impl Protocol {
    /// Every version, oldest first.
    pub const ALL: [Self; 6] = [
        Self::SslV2,
        Self::SslV3,
        Self::TlsV1,
        Self::TlsV1_1,
        Self::TlsV1_2,
        Self::TlsV1_3,
    ];

    /// The word in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::SslV2 => "SSLv2",
            Self::SslV3 => "SSLv3",
            Self::TlsV1 => "TLSv1",
            Self::TlsV1_1 => "TLSv1.1",
            Self::TlsV1_2 => "TLSv1.2",
            Self::TlsV1_3 => "TLSv1.3",
        }
    }

    /// The version with this word in the configuration.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|protocol| protocol.name() == name)
    }

    /// As libssl knows it; `None` for SSL 2 and 3, which it does not have.
    pub fn version(self) -> Option<ProtocolVersion> {
        match self {
            Self::SslV2 | Self::SslV3 => None,
            Self::TlsV1 => Some(ProtocolVersion::Tls10),
            Self::TlsV1_1 => Some(ProtocolVersion::Tls11),
            Self::TlsV1_2 => Some(ProtocolVersion::Tls12),
            Self::TlsV1_3 => Some(ProtocolVersion::Tls13),
        }
    }
}

/// A set of versions. The default is nginx's: TLSv1.2 and TLSv1.3.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Protocols(u8);

impl Protocols {
    /// No version.
    pub const NONE: Self = Self(0);

    /// With `protocol` added.
    #[must_use]
    pub const fn with(self, protocol: Protocol) -> Self {
        Self(self.0 | 1 << protocol as u8)
    }

    /// With `protocol` removed.
    #[must_use]
    pub const fn without(self, protocol: Protocol) -> Self {
        Self(self.0 & !(1 << protocol as u8))
    }

    /// Whether `protocol` is in the set.
    pub const fn contains(self, protocol: Protocol) -> bool {
        self.0 & 1 << protocol as u8 != 0
    }

    /// The versions in the set, oldest first.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Protocol> {
        Protocol::ALL
            .into_iter()
            .filter(move |protocol| self.contains(*protocol))
    }

    /// The range for libssl, which has no notion of gaps. It ends at the newest version of the set
    /// and goes down to the first gap. Versions below a gap are not offered, with a warning; nor
    /// are versions that the security level forbids, and SSL 2 and 3.
    pub(crate) fn range(
        self,
        level: Option<SecurityLevel>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(ProtocolVersion, ProtocolVersion), SettingsError> {
        let mut left_out = Vec::new();
        let mut range: Option<(ProtocolVersion, ProtocolVersion)> = None;
        for protocol in self.iter().rev() {
            let Some(version) = protocol.version() else {
                warnings.push(Warning::new(format!(
                    "{} is obsolete and not offered",
                    protocol.name()
                )));
                continue;
            };
            if level.is_some_and(|level| !level.permits_protocol(version)) {
                warnings.push(Warning::new(format!(
                    "{} is not offered: the cipher string's @SECLEVEL does not permit it (use @SECLEVEL=0)",
                    protocol.name()
                )));
                continue;
            }
            range = match range {
                None => Some((version, version)),
                Some((min, max)) if version.wire() + 1 == min.wire() => Some((version, max)),
                Some(kept) => {
                    left_out.push(protocol.name());
                    Some(kept)
                }
            };
        }
        let Some((min, max)) = range else {
            return Err(SettingsError::new(
                "no protocol is left to offer: \"ssl_protocols\" must name one of TLSv1, TLSv1.1, TLSv1.2, TLSv1.3",
            ));
        };
        if !left_out.is_empty() {
            warnings.push(Warning::new(format!(
                "the protocols have a gap: {} is not offered, only {min} to {max}",
                left_out.join(", ")
            )));
        }
        Ok((min, max))
    }
}

impl Default for Protocols {
    fn default() -> Self {
        Self::NONE.with(Protocol::TlsV1_2).with(Protocol::TlsV1_3)
    }
}

impl FromIterator<Protocol> for Protocols {
    fn from_iter<T: IntoIterator<Item = Protocol>>(protocols: T) -> Self {
        protocols.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Debug for Protocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(
        names: &[&str],
    ) -> (
        Result<(ProtocolVersion, ProtocolVersion), SettingsError>,
        usize,
    ) {
        let protocols: Protocols = names
            .iter()
            .map(|name| Protocol::from_name(name).expect(name))
            .collect();
        let mut warnings = Vec::new();
        (protocols.range(None, &mut warnings), warnings.len())
    }

    #[test]
    fn the_default_is_tls12_and_tls13() {
        let (range, warnings) = range(&["TLSv1.2", "TLSv1.3"]);
        assert_eq!(range, Ok((ProtocolVersion::Tls12, ProtocolVersion::Tls13)));
        assert_eq!(warnings, 0);
        assert_eq!(
            Protocols::default(),
            ["TLSv1.2", "TLSv1.3"]
                .into_iter()
                .filter_map(Protocol::from_name)
                .collect()
        );
    }

    #[test]
    fn below_a_gap_nothing_is_offered() {
        let (range, warnings) = range(&["TLSv1", "TLSv1.2"]);
        assert_eq!(range, Ok((ProtocolVersion::Tls12, ProtocolVersion::Tls12)));
        assert_eq!(warnings, 1);
    }

    #[test]
    fn ssl_2_and_3_are_warned_about_and_alone_an_error() {
        assert_eq!(range(&["SSLv3", "TLSv1"]).1, 1);
        assert!(range(&["SSLv2", "SSLv3"]).0.is_err());
    }

    #[test]
    fn a_security_level_takes_tls10_and_tls11_away() {
        let protocols: Protocols = Protocol::ALL.into_iter().skip(2).collect();
        let mut warnings = Vec::new();
        let level = Some(SecurityLevel::new(1));
        assert_eq!(
            protocols.range(level, &mut warnings),
            Ok((ProtocolVersion::Tls12, ProtocolVersion::Tls13))
        );
        assert_eq!(warnings.len(), 2);
    }
}
