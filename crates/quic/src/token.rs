//! Address validation tokens, RFC 9000 section 8.1.
//!
//! A token is: its kind (1 byte), the id of the key (4), the nonce (12), and then, sealed: the
//! version (4), when it was issued (8), the IP address (16), for Retry also the port (2) and two
//! connection ids behind their lengths, and the AEAD's tag (16). Nodes that have the same keys
//! accept each other's tokens.

use crate::reader::Reader;
use crate::{Code, ConnectionId, Error, Version};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Longest token.
pub(crate) const MAX_LEN: usize = HEAD_LEN + MAX_SEALED_LEN;

const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;
const AAD_LEN: usize = 5;
const HEAD_LEN: usize = AAD_LEN + NONCE_LEN;
const MAX_SEALED_LEN: usize = 4 + 8 + 16 + 2 + 2 * (1 + ConnectionId::MAX_LEN) + TAG_LEN;

/// First byte of tokens in Retry packets.
const RETRY: u8 = 0x52;
/// First byte of tokens in NEW_TOKEN frames.
const NEW_TOKEN: u8 = 0x4e;

/// How far ahead the clock of the node that issued a token may be.
const MAX_SKEW_SECS: u64 = 5;

/// A key that tokens are sealed with: AES-256-GCM or another AEAD with nonces of 12 bytes and tags
/// of 16. Nonces are random, so a key is to be replaced long before 2^32 tokens.
pub trait TokenKey {
    /// What tells it from the other keys, for example a part of its digest.
    fn id(&self) -> u32;

    /// Seals all but the last 16 bytes of `text_and_room` in place, and puts the tag there.
    fn seal(&self, nonce: &[u8; 12], aad: &[u8], text_and_room: &mut [u8]);

    /// Opens in place, and says whether the tag at the end is right.
    #[must_use]
    fn open(&self, nonce: &[u8; 12], aad: &[u8], text_and_tag: &mut [u8]) -> bool;
}

/// How long tokens are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLifetimes {
    /// Those of Retry packets: a client answers at once.
    pub retry: Duration,
    /// Those of NEW_TOKEN frames.
    pub new_token: Duration,
}

impl Default for TokenLifetimes {
    fn default() -> Self {
        Self {
            retry: Duration::from_secs(10),
            new_token: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// Where a client is, and what its packets are.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The version of its Initial packet. Tokens are not good for another (RFC 9369 section 5).
    pub version: Version,
    /// Its address. IPv4 addresses in IPv6 are as those of IPv4.
    pub address: SocketAddr,
    /// Destination of the Initial packet that has the token.
    pub destination: &'a ConnectionId,
    /// Seconds since the epoch: nodes that share keys do not share another origin.
    pub unix_secs: u64,
}

/// What a token has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: it goes on as without a token (RFC 9000 section 8.1.3).
    Unproven,
    /// The client answers a Retry packet, and its address is right.
    Retry {
        /// Destination of the client's very first packet, for the transport parameters. The source
        /// of the Retry packet is the destination of this packet.
        original_destination: ConnectionId,
    },
    /// The client has been at this IP address before.
    NewToken {
        /// Different for each token: for a server that wants tokens to be used once only.
        nonce: [u8; 12],
    },
}

/// Appends the token of a Retry packet to the client that has arrived. `retry_source` will be the
/// source of the Retry packet. Each `nonce` must be a new random one.
pub fn put_retry_token(
    out: &mut Vec<u8>,
    key: &impl TokenKey,
    nonce: &[u8; 12],
    arrival: &Arrival<'_>,
    retry_source: &ConnectionId,
) {
    let sealed_at = put_front(out, RETRY, key, nonce, arrival);
    out.extend_from_slice(&arrival.address.port().to_be_bytes());
    for id in [arrival.destination, retry_source] {
        out.push(id.len() as u8);
        out.extend_from_slice(id);
    }
    seal(out, key, nonce, sealed_at);
}

/// Appends a token for a NEW_TOKEN frame to the client that has arrived. Each `nonce` must be a new
/// random one.
pub fn put_new_token(
    out: &mut Vec<u8>,
    key: &impl TokenKey,
    nonce: &[u8; 12],
    arrival: &Arrival<'_>,
) {
    let sealed_at = put_front(out, NEW_TOKEN, key, nonce, arrival);
    seal(out, key, nonce, sealed_at);
}

/// Appends what both kinds have, and says where the part that is to be sealed starts.
fn put_front(
    out: &mut Vec<u8>,
    kind: u8,
    key: &impl TokenKey,
    nonce: &[u8; 12],
    arrival: &Arrival<'_>,
) -> usize {
    out.push(kind);
    out.extend_from_slice(&key.id().to_be_bytes());
    out.extend_from_slice(nonce);
    let sealed_at = out.len();
    out.extend_from_slice(&arrival.version.to_wire().to_be_bytes());
    out.extend_from_slice(&arrival.unix_secs.to_be_bytes());
    out.extend_from_slice(&ip_bytes(arrival.address.ip()));
    sealed_at
}

fn seal(out: &mut Vec<u8>, key: &impl TokenKey, nonce: &[u8; 12], sealed_at: usize) {
    out.resize(out.len() + TAG_LEN, 0);
    let (head, text_and_room) = out.split_at_mut(sealed_at);
    key.seal(
        nonce,
        &head[sealed_at - HEAD_LEN..][..AAD_LEN],
        text_and_room,
    );
}

fn ip_bytes(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// What the token of an Initial packet shows about the client that has arrived. `keys` are the
/// current one and those that were current before.
///
/// # Errors
/// INVALID_TOKEN for a token of a Retry packet that is not right: the client would not follow
/// another Retry packet, and is to be told at once (RFC 9000 section 8.1.2).
pub fn validate<K: TokenKey>(
    token: &[u8],
    keys: &[K],
    arrival: &Arrival<'_>,
    lifetimes: &TokenLifetimes,
) -> Result<Verdict, Error> {
    let Some((head, sealed)) = token.split_first_chunk::<HEAD_LEN>() else {
        return Ok(Verdict::Unproven);
    };
    let (aad, nonce) = head.split_first_chunk::<AAD_LEN>().expect("of this length");
    let nonce: &[u8; NONCE_LEN] = nonce.try_into().expect("of this length");
    let [kind @ (RETRY | NEW_TOKEN), key_id @ ..] = *aad else {
        return Ok(Verdict::Unproven);
    };
    let key_id = u32::from_be_bytes(key_id);
    // A key that is not known here: some other server's token, or one that is much too old.
    let Some(key) = keys.iter().find(|key| key.id() == key_id) else {
        return Ok(Verdict::Unproven);
    };
    let mut room = [0; MAX_SEALED_LEN];
    let contents = room.get_mut(..sealed.len()).and_then(|text| {
        text.copy_from_slice(sealed);
        let text_len = text.len().checked_sub(TAG_LEN)?;
        key.open(nonce, aad, text).then_some(())?;
        Contents::read(&text[..text_len], kind)
    });
    let contents = contents.filter(|contents| contents.is_good_for(arrival, lifetimes));
    match (contents, kind) {
        (Some(contents), _) => Ok(match contents.ids {
            Some((original_destination, _)) => Verdict::Retry {
                original_destination,
            },
            None => Verdict::NewToken { nonce: *nonce },
        }),
        (None, RETRY) => Err(Error::new(
            Code::INVALID_TOKEN,
            "the token of the Retry packet is not valid",
        )),
        (None, _) => Ok(Verdict::Unproven),
    }
}

/// What was sealed.
struct Contents {
    version: u32,
    issued_unix_secs: u64,
    ip: [u8; 16],
    /// The port of a Retry token.
    port: Option<u16>,
    /// Original destination and source of a Retry packet.
    ids: Option<(ConnectionId, ConnectionId)>,
}

impl Contents {
    fn read(text: &[u8], kind: u8) -> Option<Self> {
        let mut reader = Reader::new(text);
        let mut contents = Self {
            version: u32::from_be_bytes(reader.array()?),
            issued_unix_secs: u64::from_be_bytes(reader.array()?),
            ip: reader.array()?,
            port: None,
            ids: None,
        };
        if kind == RETRY {
            contents.port = Some(u16::from_be_bytes(reader.array()?));
            let original = ConnectionId::new(reader.prefixed_by_byte()?)?;
            let source = ConnectionId::new(reader.prefixed_by_byte()?)?;
            contents.ids = Some((original, source));
        }
        reader.is_empty().then_some(contents)
    }

    fn is_good_for(&self, arrival: &Arrival<'_>, lifetimes: &TokenLifetimes) -> bool {
        let lifetime = match self.ids {
            Some(_) => lifetimes.retry,
            None => lifetimes.new_token,
        };
        let is_at = |port| port == arrival.address.port();
        let age_secs = arrival.unix_secs.saturating_sub(self.issued_unix_secs);
        self.version == arrival.version.to_wire()
            && self.ip == ip_bytes(arrival.address.ip())
            && self.port.is_none_or(is_at)
            && self
                .ids
                .is_none_or(|(_, source)| source == *arrival.destination)
            && age_secs <= lifetime.as_secs()
            && self.issued_unix_secs <= arrival.unix_secs.saturating_add(MAX_SKEW_SECS)
    }
}
