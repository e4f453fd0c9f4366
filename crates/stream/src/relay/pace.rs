//! How much a direction receives at a time.
//!
//! Most connections of layer 4 carry small messages, for which one `recv` into a small buffer and
//! one `send` is the cheapest way. A peer that fills buffers in a row has more to send: then pipes
//! pay off, and over TLS large batches (`examples/relay_cost.rs` measures both).

use std::cell::Cell;

/// Full buffers in a row after which a direction is busy.
const FULL_IN_A_ROW: u8 = 2;
/// Fewer bytes than this are a small batch.
const SMALL_BYTES: usize = 8 << 10;
/// Small batches in a row after which a direction is quiet.
const SMALL_IN_A_ROW: u8 = 4;
/// What a busy direction over TLS receives at a time: three full records. With eight, what was
/// sealed has left the nearest caches before the kernel copies it, which costs a tenth of the CPU.
/// Four do not fit into one packet of the loopback interface, so that each batch would end with
/// another one that is nearly empty, which costs a quarter.
pub const BULK_BYTES: usize = 48 << 10;
/// Directions of a thread that may hold a large buffer at a time. All others make do with
/// `proxy_buffer_size`, so that slow readers cost no more memory than in nginx.
pub const MAX_BULK: usize = 64;

thread_local! {
    static BULK: Cell<usize> = const { Cell::new(0) };
}

/// How busy a direction is.
#[derive(Debug, Default)]
pub(super) struct Pace {
    is_busy: bool,
    /// Batches in a row that speak for a change.
    in_a_row: u8,
}

impl Pace {
    /// Whether large batches pay off.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// `count` bytes were received at once, of `max`.
    pub(super) fn note(&mut self, count: usize, max: usize) {
        let (speaks_for_change, enough) = match self.is_busy {
            true => (count < SMALL_BYTES.min(max), SMALL_IN_A_ROW),
            false => (count == max, FULL_IN_A_ROW),
        };
        self.in_a_row = match speaks_for_change {
            true => self.in_a_row + 1,
            false => 0,
        };
        if self.in_a_row == enough {
            (self.is_busy, self.in_a_row) = (!self.is_busy, 0);
        }
    }
}

/// Permission to hold a large buffer.
#[derive(Debug)]
pub(super) struct Bulk(());

impl Bulk {
    /// Unless too many have one.
    pub(super) fn take() -> Option<Bulk> {
        BULK.with(|count| {
            (count.get() < MAX_BULK).then(|| {
                count.set(count.get() + 1);
                Bulk(())
            })
        })
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        // A thread that ends counts no more.
        let _ = BULK.try_with(|count| count.set(count.get().saturating_sub(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_buffers_in_a_row_make_it_busy_and_small_ones_quiet() {
        let mut pace = Pace::default();
        pace.note(100, 100);
        pace.note(99, 100);
        pace.note(100, 100);
        assert!(!pace.is_busy());
        pace.note(100, 100);
        assert!(pace.is_busy());
        for count in [1, 1, 1, SMALL_BYTES, 1, 1, 1] {
            pace.note(count, 128 << 10);
            assert!(pace.is_busy());
        }
        pace.note(1, 128 << 10);
        assert!(!pace.is_busy());
    }

    #[test]
    fn a_small_buffer_that_is_full_is_no_small_batch() {
        let mut pace = Pace::default();
        for _ in 0..100 {
            pace.note(1024, 1024);
        }
        assert!(pace.is_busy());
    }

    #[test]
    fn so_many_are_permitted_and_no_more() {
        let permitted: Vec<_> = (0..MAX_BULK).map_while(|_| Bulk::take()).collect();
        assert_eq!(permitted.len(), MAX_BULK);
        assert!(Bulk::take().is_none());
        drop(permitted);
        assert!(Bulk::take().is_some());
    }
}
