//! Compatible version negotiation, RFC 9368 section 2.3 and RFC 9369 section 4.1.
//!
//! The client's first packets are of the *original* version, and tell which others it speaks. A
//! server that prefers one of those goes over to it before its first flight; the client follows
//! with the first packet of that version that it can open. All versions that are spoken here are
//! compatible with each other.

use super::handshake::Tls;
use super::{Connection, HandshakeSpace};
use crate::packet::PacketType;
use crate::parameters::VersionInformation;
use crate::{Code, Error, Side, Version};
use sealane_tls::quic::{self as tls, InitialSecrets};

/// Opens Initial packets of another version than the one in use: on a server those of the original
/// version, as long as the client has not followed; on a client those of a version that the server
/// may have gone over to.
#[derive(Debug)]
pub(super) struct OtherInitial {
    version: Version,
    open: tls::Keys,
}

impl Connection {
    /// A server goes over to the version that it likes best of those that the client offers.
    pub(super) fn choose_version(&mut self, offer: &VersionInformation) {
        let is_offered = |own: &Version| offer.available().any(|offered| offered == *own);
        let chosen = (self.settings.versions.iter().copied()).find(is_offered);
        let Some(chosen) = chosen.filter(|chosen| *chosen != self.version) else {
            return;
        };
        if let Some(negotiation) = &mut self.negotiation
            && let Tls::Server(tls) = &mut negotiation.tls
        {
            tls.set_version(chosen.to_tls());
        }
        self.go_over_to(chosen);
    }

    /// Uses another version from now on. Initial keys are derived from the same id (RFC 9369
    /// section 4.1), and packet numbers go on.
    pub(super) fn go_over_to(&mut self, version: Version) {
        let Some(negotiation) = &mut self.negotiation else {
            return;
        };
        let destination = negotiation.initial_destination();
        let original = self.initial.as_mut().and_then(|space| space.open.take());
        negotiation.other_initial = match self.side {
            Side::Server => original.map(|open| {
                let version = self.version;
                Box::new(OtherInitial { version, open })
            }),
            Side::Client => None,
        };
        self.version = version;
        self.set_initial_keys(&destination);
    }

    /// Whether a packet of this version may be one of the peer. Only those without a long header
    /// have none.
    pub(super) fn takes_version(
        &mut self,
        packet_type: PacketType,
        version: Option<Version>,
    ) -> bool {
        let Some(version) = version else {
            return true;
        };
        let in_use = match packet_type {
            // They are sent before anything is negotiated.
            PacketType::ZeroRtt => self.original_version,
            _ => self.version,
        };
        if version == in_use {
            return true;
        }
        match packet_type {
            PacketType::Initial => {
                self.prepare_to_follow(version);
                self.other_initial_keys(version).is_some()
            }
            // It has overtaken the Initial packet, and is kept until that is there.
            PacketType::Handshake => self.may_follow_to(version),
            PacketType::ZeroRtt | PacketType::OneRtt => false,
        }
    }

    /// Whether this end is a client whose server may have gone over to this version: not any more
    /// once a ServerHello has come.
    fn may_follow_to(&self, version: Version) -> bool {
        let has_no_keys =
            |handshake: &HandshakeSpace| handshake.seal.is_none() && handshake.open.is_none();
        self.side.is_client()
            && self.version == self.original_version
            && self.settings.versions.contains(&version)
            && self.handshake.as_deref().is_some_and(has_no_keys)
    }

    /// A client derives the keys that show whether the server has gone over to this version.
    fn prepare_to_follow(&mut self, version: Version) {
        if self.may_follow_to(version)
            && self.other_initial_keys(version).is_none()
            && let Some(negotiation) = &mut self.negotiation
        {
            let destination = negotiation.initial_destination();
            let secrets = InitialSecrets::derive(version.to_tls(), &destination);
            let open = tls::Keys::derive(version.to_tls(), &secrets.server);
            negotiation.other_initial = Some(Box::new(OtherInitial { version, open }));
        }
    }

    fn other_initial_keys(&self, version: Version) -> Option<&tls::Keys> {
        let other = self.negotiation.as_ref()?.other_initial.as_ref()?;
        (other.version == version).then_some(&other.open)
    }

    /// What opens Initial packets of this version.
    pub(super) fn initial_opening_keys(&self, version: Option<Version>) -> Option<&tls::Keys> {
        let initial = self.initial.as_ref()?;
        match version {
            Some(version) if version != self.version => self.other_initial_keys(version),
            _ => initial.open.as_ref(),
        }
    }

    /// The peer has sent an authentic packet of this version.
    pub(super) fn note_version(&mut self, packet_type: PacketType, version: Option<Version>) {
        let Some(version) = version.filter(|_| packet_type == PacketType::Initial) else {
            return;
        };
        match self.side {
            Side::Client if version != self.version => self.go_over_to(version),
            Side::Client => {}
            Side::Server if version == self.version => self.forget_other_version(),
            Side::Server => {}
        }
    }

    /// Initial packets of another version than the one in use are not opened any more.
    pub(super) fn forget_other_version(&mut self) {
        if let Some(negotiation) = &mut self.negotiation {
            negotiation.other_initial = None;
        }
    }

    /// Sees that the peer's transport parameters tell the versions that its packets have (RFC 9368
    /// section 4): nobody on the way has changed them.
    ///
    /// # Errors
    /// VERSION_NEGOTIATION_ERROR if they do not.
    pub(super) fn check_versions(
        &self,
        information: Option<&VersionInformation>,
    ) -> Result<(), Error> {
        let seen = match self.side {
            Side::Server => self.original_version,
            Side::Client => self.version,
        };
        match information {
            Some(information) => information.check_chosen(seen),
            None if seen == self.original_version => Ok(()),
            None => {
                let reason = "the version was changed without version information";
                Err(Error::new(Code::VERSION_NEGOTIATION_ERROR, reason))
            }
        }
    }
}
