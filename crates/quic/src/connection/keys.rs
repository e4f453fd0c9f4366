//! The keys of 1-RTT packets and their updates, RFC 9001 section 6.

use crate::packet::Unmasked;
use crate::{Code, Error, Time};
use sealane_tls::quic::{self as tls, HeaderKey, PacketKey, TrafficSecret};
use std::time::Duration;

/// Keys are updated when this share of the packets was sealed that may be: with AES-GCM after
/// 2^22 packets.
const UPDATE_AT_SHARE: u64 = 2;

/// Counts packets that could not be opened, over all keys of a connection.
#[derive(Debug, Default)]
pub(crate) struct Forgeries(u64);

impl Forgeries {
    /// One more.
    ///
    /// # Errors
    /// AEAD_LIMIT_REACHED when there were as many as one may try to forge, RFC 9001 section 6.6.
    pub(crate) fn add(&mut self, suite: tls::Suite) -> Result<(), Error> {
        self.0 += 1;
        if self.0 < suite.integrity_limit() {
            return Ok(());
        }
        let reason = "too many packets that are not authentic";
        Err(Error::new(Code::AEAD_LIMIT_REACHED, reason))
    }
}

/// Keys that open 1-RTT packets.
#[derive(Debug)]
struct Opening {
    header: HeaderKey,
    packet: PacketKey,
    secret: TrafficSecret,
    /// The smallest number that these keys have opened.
    first: Option<u64>,
    /// The keys before, for packets that come late, or from a peer that has not followed yet.
    previous: Option<Box<Previous>>,
    /// The keys after; made when a packet may need them.
    next: Option<Box<(PacketKey, TrafficSecret)>>,
}

/// Keys that were replaced.
#[derive(Debug)]
struct Previous {
    packet: PacketKey,
    /// When they go. Unknown until a packet was opened with those that replace them: the peer may
    /// not have heard of these (section 6.5).
    until: Option<Time>,
}

/// Keys of 1-RTT packets in both directions. Those that seal come first.
#[derive(Debug)]
pub(crate) struct DataKeys {
    version: tls::Version,
    header: HeaderKey,
    packet: PacketKey,
    secret: TrafficSecret,
    phase: bool,
    /// Packets sealed with the current keys.
    sealed: u64,
    /// The first of them that was sealed, and whether it or a later one was acknowledged.
    first_sealed: Option<u64>,
    acknowledged: bool,
    opening: Option<Box<Opening>>,
}

impl DataKeys {
    /// Keys that seal; those that open follow when the handshake is complete.
    pub(crate) fn new(version: tls::Version, secret: TrafficSecret) -> Self {
        let keys = tls::Keys::derive(version, &secret);
        Self {
            version,
            header: keys.header,
            packet: keys.packet,
            secret,
            phase: false,
            sealed: 0,
            first_sealed: None,
            acknowledged: false,
            opening: None,
        }
    }

    /// Keys that open are there.
    pub(crate) fn set_opening(&mut self, secret: TrafficSecret) {
        let keys = tls::Keys::derive(self.version, &secret);
        self.opening = Some(Box::new(Opening {
            header: keys.header,
            packet: keys.packet,
            secret,
            first: None,
            previous: None,
            next: None,
        }));
    }

    /// The suite of all keys.
    pub(crate) fn suite(&self) -> tls::Suite {
        self.secret.suite()
    }

    /// The key phase bit of packets that are sealed now.
    pub(crate) fn phase(&self) -> bool {
        self.phase
    }

    /// The mask for the header of a packet that came.
    pub(crate) fn opening_mask(&self, sample: &[u8; HeaderKey::SAMPLE_BYTES]) -> Option<[u8; 5]> {
        Some(self.opening.as_ref()?.header.mask(sample))
    }

    /// The mask for the header of a sealed packet.
    pub(crate) fn sealing_mask(&self, sample: &[u8; HeaderKey::SAMPLE_BYTES]) -> [u8; 5] {
        self.header.mask(sample)
    }

    /// Seals the packet with this number.
    pub(crate) fn seal(&mut self, number: u64, header: &[u8], payload: &mut [u8]) {
        self.packet.seal(number, header, payload);
        self.sealed += 1;
        self.first_sealed.get_or_insert(number);
    }

    /// Whether the keys should be updated before the next packet is sealed.
    pub(crate) fn is_worn(&self) -> bool {
        self.sealed >= self.suite().confidentiality_limit() / UPDATE_AT_SHARE
    }

    /// Whether no packet may be sealed any more: the peer does not let the keys be updated.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.sealed >= self.suite().confidentiality_limit()
    }

    /// Whether this end may update the keys: the peer has got the current ones (section 6.1), and
    /// the ones before are gone (section 6.5).
    pub(crate) fn may_update(&self, now: Time) -> bool {
        let Some(opening) = &self.opening else {
            return false;
        };
        let is_kept = |previous: &Previous| previous.until.is_none_or(|until| until > now);
        self.acknowledged
            && opening.first.is_some()
            && !opening.previous.as_deref().is_some_and(is_kept)
    }

    /// Packets up to this number were acknowledged.
    pub(crate) fn on_acked(&mut self, largest: u64) {
        self.acknowledged |= self.first_sealed.is_some_and(|first| largest >= first);
    }

    /// Updates the keys, because this end wants to.
    pub(crate) fn update(&mut self) {
        self.make_next();
        self.advance();
    }

    fn make_next(&mut self) {
        let version = self.version;
        if let Some(opening) = &mut self.opening {
            opening.next.get_or_insert_with(|| {
                let secret = tls::next_secret(version, &opening.secret);
                Box::new((PacketKey::derive(version, &secret), secret))
            });
        }
    }

    /// Moves on to the next keys, in both directions.
    fn advance(&mut self) {
        let Some(opening) = &mut self.opening else {
            return;
        };
        let Some(next) = opening.next.take() else {
            return;
        };
        let (packet, secret) = *next;
        let before = std::mem::replace(&mut opening.packet, packet);
        opening.previous = Some(Box::new(Previous {
            packet: before,
            until: None,
        }));
        opening.secret = secret;
        opening.first = None;
        self.secret = tls::next_secret(self.version, &self.secret);
        self.packet = PacketKey::derive(self.version, &self.secret);
        self.phase = !self.phase;
        self.sealed = 0;
        self.first_sealed = None;
        self.acknowledged = false;
    }

    /// Opens a packet. Returns the length of its payload; `None` if it is not authentic.
    ///
    /// # Errors
    /// KEY_UPDATE_ERROR: the peer has updated keys again before it could know that this end has
    /// followed, or has gone back (section 6.4).
    pub(crate) fn open(
        &mut self,
        packet: &mut Unmasked<'_>,
        now: Time,
        pto: impl FnOnce() -> Duration,
    ) -> Result<Option<usize>, Error> {
        let (number, phase) = (packet.number, packet.key_phase());
        let current = self.phase;
        let Some(opening) = &mut self.opening else {
            return Ok(None);
        };
        let is_over = |previous: &Previous| previous.until.is_some_and(|until| until <= now);
        if opening.previous.as_deref().is_some_and(is_over) {
            opening.previous = None;
        }
        if phase == current {
            let opened = opening.packet.open(number, packet.header, packet.payload);
            if opened.is_some() {
                opening.note_opened(number, now, pto);
            }
            return Ok(opened);
        }
        // Of the keys before, if its number is smaller than those of the current ones.
        let is_late = opening.first.is_none_or(|first| number < first);
        if let Some(previous) = &opening.previous
            && is_late
        {
            return Ok((previous.packet).open(number, packet.header, packet.payload));
        }
        if is_late && opening.first.is_some() {
            return Ok(None);
        }
        self.make_next();
        let Some(opening) = &mut self.opening else {
            return Ok(None);
        };
        let next = opening.next.as_ref();
        let opened = next.and_then(|next| next.0.open(number, packet.header, packet.payload));
        if opened.is_some() {
            if !self.has_settled() {
                let reason = "keys were updated again before the last update was acknowledged";
                return Err(Error::new(Code::KEY_UPDATE_ERROR, reason));
            }
            self.advance();
            if let Some(opening) = &mut self.opening {
                opening.note_opened(number, now, pto);
            }
        }
        Ok(opened)
    }

    /// Whether the peer may update keys: this end has sealed with the current ones what told it so.
    fn has_settled(&self) -> bool {
        self.first_sealed.is_some()
    }
}

impl Opening {
    /// A packet was opened with the current keys.
    fn note_opened(&mut self, number: u64, now: Time, pto: impl FnOnce() -> Duration) {
        self.first = Some(self.first.map_or(number, |first| first.min(number)));
        if let Some(previous) = &mut self.previous {
            // Section 6.5: three times the probe timeout, for packets that come late.
            previous.until.get_or_insert_with(|| now + 3 * pto());
        }
    }
}
