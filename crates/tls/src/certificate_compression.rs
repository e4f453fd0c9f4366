//! `ssl_certificate_compression`: certificates that are compressed for clients of TLS 1.3 that ask
//! for it (RFC 8879). Chains make up most of a handshake's bytes, and two thirds of them are left.

use flate2::write::ZlibEncoder;
use sealane_awslc::{CertificateCompression, CertificateCompressor};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// In the order of preference: the smallest first.
pub(crate) const ALGORITHMS: [CertificateCompression; 3] = [
    CertificateCompression::Brotli,
    CertificateCompression::Zstd,
    CertificateCompression::Zlib,
];

/// Messages that are kept compressed: certificates of two kinds, each with and without what changes
/// with time (a staple), by three algorithms, and a few more.
const MAX_KEPT: usize = 16;

/// A quality that takes a chain one or two milliseconds, once.
const BROTLI_QUALITY: i32 = 9;
const ZSTD_LEVEL: i32 = 19;

/// Compresses each message once, as a server sends few that differ. Not more than [`MAX_KEPT`] are
/// kept; the oldest leaves first.
#[derive(Debug, Default)]
pub(crate) struct KeptCertificates {
    kept: Mutex<Vec<Arc<Compressed>>>,
}

#[derive(Debug)]
struct Compressed {
    algorithm: CertificateCompression,
    message: Box<[u8]>,
    output: Vec<u8>,
}

impl KeptCertificates {
    fn get(&self, algorithm: CertificateCompression, message: &[u8]) -> Option<Arc<Compressed>> {
        let is_it =
            |known: &&Arc<Compressed>| known.algorithm == algorithm && *known.message == *message;
        // No code that may panic runs under the lock.
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().iter().find(is_it) {
            return Some(Arc::clone(known));
        }
        // Not under the lock: others would wait. Two may do the same work once.
        let new = Arc::new(Compressed {
            algorithm,
            message: message.into(),
            output: compress(algorithm, message)?,
        });
        let mut kept = lock();
        if !kept.iter().any(|known| is_it(&known)) {
            if kept.len() == MAX_KEPT {
                kept.remove(0);
            }
            kept.push(Arc::clone(&new));
        }
        Some(new)
    }
}

impl CertificateCompressor for KeptCertificates {
    fn compress(
        &self,
        algorithm: CertificateCompression,
        message: &[u8],
        output: &mut dyn FnMut(&[u8]) -> bool,
    ) -> bool {
        let compressed = self.get(algorithm, message);
        compressed.is_some_and(|compressed| output(&compressed.output))
    }
}

/// `None` if a library has no memory.
fn compress(algorithm: CertificateCompression, message: &[u8]) -> Option<Vec<u8>> {
    match algorithm {
        CertificateCompression::Zlib => {
            let mut encoder = ZlibEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(message).ok()?;
            encoder.finish().ok()
        }
        CertificateCompression::Brotli => {
            let parameters = brotli::enc::BrotliEncoderParams {
                quality: BROTLI_QUALITY,
                size_hint: message.len(),
                ..Default::default()
            };
            let mut output = Vec::new();
            brotli::BrotliCompress(&mut &*message, &mut output, &parameters).ok()?;
            Some(output)
        }
        CertificateCompression::Zstd => {
            let mut output = Vec::with_capacity(zstd_safe::compress_bound(message.len()));
            zstd_safe::compress(&mut output, message, ZSTD_LEVEL).ok()?;
            Some(output)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn of(kept: &KeptCertificates, algorithm: CertificateCompression, text: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        let mut append = |bytes: &[u8]| {
            output.extend_from_slice(bytes);
            true
        };
        assert!(kept.compress(algorithm, text, &mut append));
        output
    }

    #[test]
    fn every_algorithm_says_what_it_was_given() {
        let kept = KeptCertificates::default();
        let message = b"a chain of certificates, of certificates, of certificates".repeat(30);
        for algorithm in ALGORITHMS {
            let output = of(&kept, algorithm, &message);
            assert!(output.len() < message.len() / 4);
            let mut text = Vec::new();
            match algorithm {
                CertificateCompression::Zlib => {
                    let mut decoder = flate2::read::ZlibDecoder::new(&output[..]);
                    decoder.read_to_end(&mut text).expect("zlib's format");
                }
                CertificateCompression::Brotli => {
                    brotli::BrotliDecompress(&mut &output[..], &mut text).expect("its format");
                }
                CertificateCompression::Zstd => {
                    text.reserve(message.len());
                    zstd_safe::decompress(&mut text, &output).expect("its format");
                }
            }
            assert_eq!(text, message);
        }
    }

    #[test]
    fn messages_are_compressed_once_and_few_are_kept() {
        let kept = KeptCertificates::default();
        let first = kept
            .get(CertificateCompression::Zlib, b"first")
            .expect("memory");
        let again = kept
            .get(CertificateCompression::Zlib, b"first")
            .expect("memory");
        assert!(Arc::ptr_eq(&first, &again));
        for number in 0..MAX_KEPT {
            of(
                &kept,
                CertificateCompression::Zlib,
                number.to_string().as_bytes(),
            );
        }
        assert_eq!(kept.kept.lock().expect("no panic").len(), MAX_KEPT);
        let later = kept
            .get(CertificateCompression::Zlib, b"first")
            .expect("memory");
        assert!(!Arc::ptr_eq(&first, &later), "it has left");
    }
}
