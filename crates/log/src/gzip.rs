//! `access_log ... gzip`.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// `bytes` compressed as one member of a gzip file. Members may follow one
/// another in a file, so each buffer is complete when it is written.
pub(super) fn member(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    let done = encoder.write_all(bytes).and_then(|()| encoder.finish());
    done.expect("writing to a vector does not fail")
}
