//! The memory of all compressors of the process (`compression_memory`).
//!
//! A compressor lives as long as its client takes to read the response, and needs up to 24 MiB.
//! When there is no room for another one, responses are sent uncompressed.

use crate::exchange::Exchange;
use crate::request_log::log_request;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static COMPRESSORS: Account = Account {
    used_bytes: AtomicU64::new(0),
    has_run_out: AtomicBool::new(false),
};

/// How much is in use, and whether the log says that it is used up.
struct Account {
    used_bytes: AtomicU64,
    has_run_out: AtomicBool,
}

/// The memory of one compressor, until it is dropped.
pub(super) struct Share {
    account: &'static Account,
    bytes: u64,
}

/// Memory for a compressor; `None` when there is not enough. That is logged once, until half of it
/// is free again.
pub(super) fn share(exchange: &Exchange, bytes: u64) -> Option<Share> {
    let limit_bytes = exchange.snapshot.compression_memory_bytes;
    let share = COMPRESSORS.take(bytes, limit_bytes);
    if share.is_none() && !COMPRESSORS.has_run_out.swap(true, Ordering::Relaxed) {
        log_request!(
            exchange,
            Warn,
            "the {limit_bytes} bytes of compression_memory are in use: responses are sent uncompressed until some is free"
        );
    }
    share
}

impl Account {
    fn take(&'static self, bytes: u64, limit_bytes: u64) -> Option<Share> {
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit_bytes);
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.used_bytes.fetch_update(success, failure, more).ok()?;
        if before < limit_bytes / 2 && self.has_run_out.load(Ordering::Relaxed) {
            self.has_run_out.store(false, Ordering::Relaxed);
        }
        Some(Share {
            account: self,
            bytes,
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.account
            .used_bytes
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        static ACCOUNT: Account = Account {
            used_bytes: AtomicU64::new(0),
            has_run_out: AtomicBool::new(true),
        };
        let first = ACCOUNT.take(60, 100).expect("there is room");
        assert!(!ACCOUNT.has_run_out.load(Ordering::Relaxed), "it was free");
        assert!(ACCOUNT.take(41, 100).is_none());
        let second = ACCOUNT.take(40, 100).expect("there is room");
        assert!(ACCOUNT.take(1, 100).is_none());
        assert!(ACCOUNT.take(u64::MAX, 100).is_none());
        drop((first, second));
        assert!(ACCOUNT.take(100, 100).is_some());
    }
}
