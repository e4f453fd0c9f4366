//! From secrets to the protection of packets (RFC 9001 section 5).

use sealane_awslc::{HeaderCipher, PacketCipher, QuicSuite, TrafficSecret, expand_label, extract};
use zeroize::Zeroizing;

use super::version::Version;

/// What protects the packets of one level in one direction.
#[derive(Debug)]
pub struct Keys {
    /// Seals or opens them.
    pub packet: PacketKey,
    /// Protects their headers. It stays the same when the other is updated.
    pub header: HeaderKey,
}

impl Keys {
    /// The keys of a secret.
    pub fn derive(version: Version, secret: &TrafficSecret) -> Self {
        Self {
            packet: PacketKey::derive(version, secret),
            header: HeaderKey::derive(version, secret),
        }
    }
}

/// Seals or opens packets.
#[derive(Debug)]
pub struct PacketKey(PacketCipher);

impl PacketKey {
    /// Bytes of the tag behind each packet.
    pub const TAG_BYTES: usize = PacketCipher::TAG_BYTES;

    /// The key of a secret.
    pub fn derive(version: Version, secret: &TrafficSecret) -> Self {
        let labels = version.labels();
        Self(PacketCipher::derive(secret, labels.key, labels.iv))
    }

    /// Seals the packet with this number in place: `packet` is the payload, and behind it
    /// [`TAG_BYTES`](Self::TAG_BYTES) that get the tag. `header` is everything before the payload,
    /// not protected yet. No number may be used twice.
    ///
    /// # Panics
    ///
    /// When there is no room for the tag.
    pub fn seal(&self, number: u64, header: &[u8], packet: &mut [u8]) {
        self.0.seal(number, header, packet);
    }

    /// Opens the packet with this number in place: `packet` is the payload and its tag, `header`
    /// everything before that, without protection. Returns the length of the payload, which is
    /// then at the start; `None` if it is not genuine, and what was there is lost.
    pub fn open(&self, number: u64, header: &[u8], packet: &mut [u8]) -> Option<usize> {
        self.0.open(number, header, packet)
    }
}

/// Makes the masks that protect headers.
#[derive(Debug)]
pub struct HeaderKey(HeaderCipher);

impl HeaderKey {
    /// Bytes of a sample (RFC 9001 section 5.4.2): it begins four bytes after where the packet
    /// number does.
    pub const SAMPLE_BYTES: usize = HeaderCipher::SAMPLE_BYTES;
    /// Bytes of a mask.
    pub const MASK_BYTES: usize = HeaderCipher::MASK_BYTES;

    /// The key of a secret.
    pub fn derive(version: Version, secret: &TrafficSecret) -> Self {
        Self(HeaderCipher::derive(secret, version.labels().header))
    }

    /// The mask for this sample of the sealed payload: the first byte is for the header's first
    /// byte, the others for the packet number.
    pub fn mask(&self, sample: &[u8; Self::SAMPLE_BYTES]) -> [u8; Self::MASK_BYTES] {
        self.0.mask(sample)
    }
}

/// The secret after the next key update (RFC 9001 section 6.1).
pub fn next_secret(version: Version, secret: &TrafficSecret) -> TrafficSecret {
    expanded(secret, version.labels().update)
}

/// The secrets of Initial packets (RFC 9001 section 5.2).
#[derive(Debug)]
pub struct InitialSecrets {
    /// Of what the client sends.
    pub client: TrafficSecret,
    /// Of what the server sends.
    pub server: TrafficSecret,
}

impl InitialSecrets {
    /// Derives them from the destination connection id of the client's first Initial packet, or of
    /// its first one after a Retry.
    pub fn derive(version: Version, destination_id: &[u8]) -> Self {
        let initial = extract(&version.initial_salt(), destination_id);
        Self {
            client: expanded(&initial, b"tls13 client in"),
            server: expanded(&initial, b"tls13 server in"),
        }
    }
}

/// Another secret for the same suite.
fn expanded(secret: &TrafficSecret, label: &[u8]) -> TrafficSecret {
    let suite: QuicSuite = secret.suite();
    let mut bytes = Zeroizing::new([0; 48]);
    let bytes = &mut bytes[..suite.secret_bytes()];
    expand_label(secret, label, bytes);
    TrafficSecret::new(suite, bytes).expect("a secret of the suite's length")
}
