//! Responses in memory: those that are asked for often, with their heads as they were parsed.
//!
//! The index decides: a copy is good only as long as the key has the file that it was made from
//! ([`Zone::hit`](sealane_cache::Zone::hit)). And once in a second the file itself is looked at, so
//! that whoever empties or repairs the directory by hand is obeyed as if nothing were in memory.

use super::super::wire::UpstreamHead;
use super::stored::StoredResponse;
use bytes::Bytes;
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use sealane_cache::{CacheHeader, CacheKey, Hash};
use sealane_io::open_file::FileState;
use sealane_sys::time::unix_ms;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A response is taken into memory at this request for it, while the index has known it.
const USES: u16 = 3;
/// What a response takes besides its bytes, about.
const OVERHEAD_BYTES: u64 = 1 << 10;
/// Parts of the memory, each with its own lock; a part has room for several of the longest.
const MAX_PARTS: u64 = 16;
const OBJECTS_OF_A_PART: u64 = 8;

/// The responses of a zone that are in memory. Which ones stay is decided by how often and how
/// lately they were asked for (S3-FIFO), so one pass over many keys does not drive them out.
pub(crate) struct HotResponses {
    responses: Cache<Hash, Arc<HotResponse>, ByBytes>,
    max_object_bytes: AtomicU64,
}

/// A response in memory.
pub(super) struct HotResponse {
    /// Others may have keys with the same MD5 sum.
    key: CacheKey,
    pub(super) header: CacheHeader,
    pub(super) head: Arc<UpstreamHead>,
    pub(super) body: Bytes,
    /// The file that it was made from, by its number in the index, and as the disk has it.
    file_number: u32,
    file: FileState,
    /// When the file was looked at, in seconds since 1970.
    checked_s: AtomicI64,
    bytes: u64,
}

/// A response that was found in a file.
pub(super) struct Candidate<'a> {
    pub(super) hash: &'a Hash,
    pub(super) key: &'a CacheKey,
    /// Which of the zone's files it is.
    pub(super) file_number: u32,
    /// Requests for it so far.
    pub(super) uses: u16,
    pub(super) stored: &'a StoredResponse,
    pub(super) head: &'a Arc<UpstreamHead>,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Hash, Arc<HotResponse>> for ByBytes {
    fn weight(&self, _: &Hash, response: &Arc<HotResponse>) -> u64 {
        response.bytes
    }
}

impl HotResponses {
    /// Room for so many bytes, with no response longer than `max_object_bytes`.
    pub(super) fn new(bytes: u64, max_object_bytes: u64) -> HotResponses {
        let part = max_object_bytes.saturating_mul(OBJECTS_OF_A_PART).max(1);
        let parts = (bytes / part).clamp(1, MAX_PARTS);
        let options = OptionsBuilder::new()
            .weight_capacity(bytes)
            .estimated_items_capacity(0)
            .shards(usize::try_from(parts).unwrap_or(1))
            .build()
            .expect("both capacities are given");
        let hashes = DefaultHashBuilder::default();
        HotResponses {
            responses: Cache::with_options(options, ByBytes, hashes, Default::default()),
            max_object_bytes: AtomicU64::new(max_object_bytes),
        }
    }

    /// Sets what a new configuration says.
    pub(super) fn configure(&self, bytes: u64, max_object_bytes: u64) {
        self.max_object_bytes
            .store(max_object_bytes, Ordering::Relaxed);
        if self.responses.capacity() != bytes {
            self.responses.set_capacity(bytes);
        }
    }

    /// Bytes in memory, and how many there may be.
    pub(crate) fn memory_bytes(&self) -> (u64, u64) {
        (self.responses.weight(), self.responses.capacity())
    }

    /// The response of a key, as it was; the caller asks the index whether it still is.
    pub(super) fn get(&self, hash: &Hash, key: &CacheKey) -> Option<Arc<HotResponse>> {
        self.responses
            .get(hash)
            .filter(|response| response.key == *key)
    }

    /// The response that was found in a file, from memory: it is taken in if it is asked for often
    /// enough and not too long.
    pub(super) async fn admit(
        &self,
        candidate: Candidate<'_>,
        now_s: i64,
    ) -> Option<Arc<HotResponse>> {
        let Candidate {
            hash,
            key,
            file_number,
            uses,
            stored,
            head,
        } = candidate;
        let file = stored.file.state();
        if let Some(known) = self.responses.peek(hash) {
            let is_same = known.file == file
                && known.key == *key
                && known.file_number == file_number
                && known.header == stored.header;
            if is_same {
                known.checked_s.store(now_s, Ordering::Relaxed);
                return Some(known);
            }
            self.responses.remove(hash);
        }
        let max_bytes = self.max_object_bytes.load(Ordering::Relaxed);
        let is_wanted = uses >= USES && stored.body_bytes() <= max_bytes;
        // A change that leaves the time as it is would go unnoticed.
        if !is_wanted || self.responses.capacity() == 0 || stored.file.is_fresh(unix_ms()) {
            return None;
        }
        let bytes = stored.read_all().await.ok()?;
        let body = bytes.slice(usize::from(stored.header.body_start)..);
        let response = Arc::new(HotResponse {
            key: key.clone(),
            header: stored.header.clone(),
            head: Arc::clone(head),
            bytes: stored.file.size() + stored.head.len() as u64 + OVERHEAD_BYTES,
            body,
            file_number,
            file,
            checked_s: AtomicI64::new(now_s),
        });
        self.responses.insert(*hash, Arc::clone(&response));
        Some(response)
    }
}

impl HotResponse {
    /// Whether it was made from the file with this number.
    pub(super) fn is_of(&self, file_number: u32) -> bool {
        self.file_number == file_number
    }

    /// Whether it may be served. Of all requests within a second one gets `false`, and looks at the
    /// file.
    pub(super) fn is_checked(&self, now_s: i64) -> bool {
        let checked_s = self.checked_s.load(Ordering::Relaxed);
        let next =
            self.checked_s
                .compare_exchange(checked_s, now_s, Ordering::Relaxed, Ordering::Relaxed);
        checked_s == now_s || next.is_err()
    }
}
