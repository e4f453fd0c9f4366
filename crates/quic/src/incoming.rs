//! What a server does with datagrams that belong to no connection: it takes a new one, asks for a
//! token first, refuses, offers other versions, or says that it has lost a connection.

use crate::packet::{
    self, Form, Header, MIN_SEALED_LEN, NewRetry, Packet, Packets, UnknownVersion, long_header,
};
use crate::reset::ResetToken;
use crate::token::{self, TokenKey};
use crate::{Code, ConnectionId, Version, frame};
use sealane_tls::Secret;
use sealane_tls::quic::{self as tls, Aead, InitialSecrets, hmac_sha256};
use std::fmt;

#[cfg(test)]
mod tests;

/// Shortest datagram with a client's Initial packet, RFC 9000 section 14.1. Shorter ones are not
/// answered: an answer would be larger than what caused it.
pub const MIN_INITIAL_DATAGRAM: usize = 1200;

/// Shortest id that a client may choose for the server, RFC 9000 section 7.2.
const MIN_ORIGINAL_ID_LEN: usize = 8;

/// Longest packet that [`put_refusal`] makes: it has to be shorter than what it answers, and needs
/// no more for a code and a few words.
const MAX_REFUSAL_LEN: usize = 256;

/// A client's Initial packet at the front of a datagram, as far as it can be read without keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial<'a> {
    /// Its version.
    pub version: Version,
    /// Destination connection id, which the client has chosen at random, or learnt from a Retry
    /// packet.
    pub destination: ConnectionId,
    /// Source connection id: what the client calls itself.
    pub source: ConnectionId,
    /// A token from a Retry packet or a NEW_TOKEN frame, or nothing.
    pub token: &'a [u8],
}

impl Initial<'_> {
    /// Whether the packet at the front of `datagram`, from which this was read, can be opened: only
    /// then it is worth a connection. What cannot was spoilt on the way, or is no packet at all.
    #[must_use]
    pub fn is_authentic(&self, datagram: &[u8]) -> bool {
        // Opening is done in place, and wipes what it cannot open.
        let mut copy = datagram.to_vec();
        let first = Packets::new(&mut copy, self.destination.len()).next();
        let Some(Packet::Protected(packet)) = first else {
            return false;
        };
        let version = self.version.to_tls();
        let secrets = InitialSecrets::derive(version, &self.destination);
        let keys = tls::Keys::derive(version, &secrets.client);
        let mask = packet.sample().map(|sample| keys.header.mask(sample));
        let Some(packet) = mask.and_then(|mask| packet.unmask(&mask, None)) else {
            return false;
        };
        let opened = (keys.packet).open(packet.number, packet.header, packet.payload);
        opened.is_some()
    }
}

/// A datagram that no connection has claimed.
#[derive(Clone, Copy, Debug)]
pub enum Unrouted<'a> {
    /// It starts a connection.
    Initial(Initial<'a>),
    /// It may start one, of a version that is not spoken, and is long enough to be answered.
    UnknownVersion(UnknownVersion<'a>),
    /// Anything else: no answer, or a stateless reset.
    Other,
}

/// Whether a datagram starts with a long header. Those without may be answered with a stateless
/// reset.
#[must_use]
pub fn is_long(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0x80 != 0)
}

/// Reads what a server needs to know of a datagram that belongs to no connection.
#[must_use]
pub fn initial(datagram: &[u8]) -> Unrouted<'_> {
    if datagram.len() < MIN_INITIAL_DATAGRAM {
        return Unrouted::Other;
    }
    match read_initial(datagram) {
        Some(unrouted) => unrouted,
        None => Unrouted::Other,
    }
}

fn read_initial(datagram: &[u8]) -> Option<Unrouted<'_>> {
    let header = long_header(datagram)?;
    let Some(version) = Version::from_wire(header.version) else {
        return UnknownVersion::read(datagram).map(Unrouted::UnknownVersion);
    };
    let (destination, source) = (header.destination, header.source);
    let (has_fixed_bit, is_initial) = (header.has_fixed_bit(), header.is_initial(version));
    let mut rest = header.rest;
    let token = rest.prefixed()?;
    let len = rest.varint()?;
    let sealed = rest.take(usize::try_from(len).ok()?)?;
    // RFC 9287 section 3.1: without the fixed bit only from clients that have been here before.
    let is_valid = is_initial
        && (has_fixed_bit || !token.is_empty())
        && destination.len() >= MIN_ORIGINAL_ID_LEN
        && sealed.len() >= MIN_SEALED_LEN;
    let initial = Initial {
        version,
        destination: ConnectionId::new(destination)?,
        source: ConnectionId::new(source)?,
        token,
    };
    is_valid.then_some(Unrouted::Initial(initial))
}

/// Appends a Version Negotiation packet, RFC 9000 section 6.1. `random` goes into bits that mean
/// nothing and into a reserved version.
pub fn put_version_negotiation(
    out: &mut Vec<u8>,
    client: &UnknownVersion<'_>,
    versions: &[Version],
    random: u32,
) {
    packet::put_version_negotiation(out, client.destination, client.source, versions, random);
}

/// Appends a Retry packet, RFC 9000 section 17.2.5. `new_source` is where the client is to send to,
/// another id than the destination of its packet; `token` is not empty. `random` goes into bits
/// that mean nothing.
pub fn put_retry(
    out: &mut Vec<u8>,
    client: &Initial<'_>,
    new_source: &ConnectionId,
    token: &[u8],
    random: u8,
) {
    let retry = NewRetry {
        version: client.version,
        destination: &client.source,
        source: new_source,
        token,
        unused: random,
    };
    let version = client.version.to_tls();
    retry.put(out, |packet| {
        tls::retry_tag(version, &client.destination, packet)
    });
}

/// Appends an Initial packet that closes a connection which was never there: INVALID_TOKEN
/// (RFC 9000 section 8.1.2) or CONNECTION_REFUSED (section 5.2.2). As it elicits no
/// acknowledgement, it is not padded.
pub fn put_refusal(out: &mut Vec<u8>, client: &Initial<'_>, code: Code, reason: &str) {
    let version = client.version.to_tls();
    let secrets = InitialSecrets::derive(version, &client.destination);
    let keys = tls::Keys::derive(version, &secrets.server);
    let header = Header {
        destination: &client.source,
        form: Form::Initial {
            version: client.version,
            source: &client.destination,
            token: &[],
        },
        fixed_bit: true,
    };
    let room = MAX_REFUSAL_LEN - header.overhead(0, None);
    let building = header.put(0, None, out);
    frame::put_close(out, room, code.to_wire(), Some(0), reason);
    let (header, payload) = building.close(out);
    keys.packet.seal(0, header, payload);
    let mask = keys.header.mask(building.sample(out));
    building.protect(out, &mask);
}

/// Makes the tokens of stateless resets from connection ids: nodes that share the secret know each
/// other's, RFC 9000 section 10.3.2.
pub struct ResetKey(Secret);

impl ResetKey {
    /// From a secret, which other keys may be made from as well.
    #[must_use]
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(Secret::new(
            hmac_sha256(secret, b"quic stateless reset").to_vec(),
        ))
    }

    /// The token of this id.
    #[must_use]
    pub fn token(&self, id: &ConnectionId) -> ResetToken {
        let digest = hmac_sha256(self.0.expose(), id);
        ResetToken::new(*digest.first_chunk().expect("16 of 32 bytes"))
    }
}

impl fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetKey(..)")
    }
}

/// Seals address validation tokens with AES-256-GCM-SIV. Unlike plain GCM it survives a nonce that
/// is drawn twice, so that a key which many nodes share need not be counted.
#[derive(Debug)]
pub struct AddressTokenKey {
    id: u32,
    aead: Aead,
}

impl AddressTokenKey {
    /// From a secret, which other keys may be made from as well.
    ///
    /// # Errors
    /// `None` if there is no memory.
    #[must_use]
    pub fn new(secret: &[u8; 32]) -> Option<Self> {
        let digest = hmac_sha256(secret, b"quic token key id");
        let key = Secret::new(hmac_sha256(secret, b"quic token key").to_vec());
        Some(Self {
            id: u32::from_be_bytes(*digest.first_chunk()?),
            aead: Aead::new(key.expose().first_chunk()?).ok()?,
        })
    }
}

impl TokenKey for AddressTokenKey {
    fn id(&self) -> u32 {
        self.id
    }

    fn seal(&self, nonce: &[u8; 12], aad: &[u8], text_and_room: &mut [u8]) {
        let mut copy = [0; token::MAX_LEN];
        let copy = &mut copy[..text_and_room.len()];
        copy.copy_from_slice(text_and_room);
        let text = &copy[..copy.len() - Aead::TAG_BYTES];
        let sealed = self.aead.seal(nonce, aad, text, text_and_room);
        assert_eq!(
            sealed,
            Some(text_and_room.len()),
            "there is room for the tag"
        );
    }

    fn open(&self, nonce: &[u8; 12], aad: &[u8], text_and_tag: &mut [u8]) -> bool {
        let mut copy = [0; token::MAX_LEN];
        let Some(copy) = copy.get_mut(..text_and_tag.len()) else {
            return false;
        };
        copy.copy_from_slice(text_and_tag);
        self.aead.open(nonce, aad, copy, text_and_tag).is_some()
    }
}
