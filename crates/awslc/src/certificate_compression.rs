//! Compressed certificates (RFC 8879): the algorithms, and who compresses.

/// An algorithm of RFC 8879, with its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum CertificateCompression {
    /// RFC 1950.
    Zlib = 1,
    /// RFC 7932.
    Brotli = 2,
    /// RFC 8878.
    Zstd = 3,
}

impl CertificateCompression {
    /// By its number in the registry of TLS.
    pub(crate) fn from_wire(number: u16) -> Option<Self> {
        [Self::Zlib, Self::Brotli, Self::Zstd]
            .into_iter()
            .find(|algorithm| *algorithm as u16 == number)
    }
}

/// Compresses the Certificate messages of a server. libssl asks in every handshake and keeps
/// nothing.
pub trait CertificateCompressor: Send + Sync {
    /// Appends the compressed `message` to `output`; false ends the handshake.
    fn compress(
        &self,
        algorithm: CertificateCompression,
        message: &[u8],
        output: &mut dyn FnMut(&[u8]) -> bool,
    ) -> bool;
}
