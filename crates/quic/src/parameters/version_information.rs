//! Version information, RFC 9368 section 3.

use super::malformed;
use crate::packet::reserved_version;
use crate::{Code, Error, Side, Version, varint};

/// The version that an end uses, and those that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionInformation {
    /// The number of the version in use.
    chosen: u32,
    /// Those that are spoken at this end too, the sender's favourite first. Never a gap.
    available: [Option<Version>; Version::ALL.len()],
}

impl VersionInformation {
    /// That `chosen` is used, and `available` are spoken, the favourite first.
    #[must_use]
    pub(crate) fn new(chosen: Version, available: &[Version]) -> Self {
        let mut information = Self {
            chosen: chosen.to_wire(),
            available: [None; Version::ALL.len()],
        };
        for &version in available {
            information.add(version);
        }
        information
    }

    fn add(&mut self, version: Version) {
        if self.available.contains(&Some(version)) {
            return;
        }
        if let Some(place) = self.available.iter_mut().find(|place| place.is_none()) {
            *place = Some(version);
        }
    }

    /// Those of the available versions that are spoken here, the sender's favourite first.
    pub(crate) fn available(&self) -> impl Iterator<Item = Version> + use<> {
        self.available.into_iter().flatten()
    }

    /// Checks that the peer has chosen the version that was seen in its packets. Clients have to do
    /// more if they reacted to Version Negotiation (RFC 9368 section 4).
    ///
    /// # Errors
    /// VERSION_NEGOTIATION_ERROR if it does not.
    pub(crate) fn check_chosen(&self, seen: Version) -> Result<(), Error> {
        if self.chosen == seen.to_wire() {
            return Ok(());
        }
        let reason = "the chosen version is not that of the packets";
        Err(Error::new(Code::VERSION_NEGOTIATION_ERROR, reason))
    }

    pub(super) fn parse(value: &[u8], sender: Side) -> Result<Self, Error> {
        let (numbers, rest) = value.as_chunks();
        let mut numbers = numbers.iter().map(|&number| u32::from_be_bytes(number));
        let chosen = match (numbers.next(), rest) {
            (Some(chosen), []) if chosen != 0 => chosen,
            _ => return Err(malformed("malformed version information")),
        };
        let mut information = Self {
            chosen,
            available: [None; Version::ALL.len()],
        };
        let mut has_chosen = false;
        for number in numbers {
            if number == 0 {
                return Err(malformed("version 0 is available"));
            }
            has_chosen |= number == chosen;
            if let Some(version) = Version::from_wire(number) {
                information.add(version);
            }
        }
        if sender == Side::Client && !has_chosen {
            return Err(malformed("the chosen version is not an available one"));
        }
        Ok(information)
    }

    /// Appends length and value, with a reserved version out of `random` at the end.
    pub(super) fn put(&self, out: &mut Vec<u8>, random: u32) {
        let count = 2 + self.available().count();
        varint::put(out, 4 * count as u64);
        out.extend_from_slice(&self.chosen.to_be_bytes());
        for version in self.available() {
            out.extend_from_slice(&version.to_wire().to_be_bytes());
        }
        out.extend_from_slice(&reserved_version(random).to_be_bytes());
    }
}
