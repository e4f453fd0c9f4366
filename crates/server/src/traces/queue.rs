//! Finished spans on their way from worker threads to the thread that exports them.

use super::Span;
use sealane_counters::{Counter, Placed};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use zerocopy::{FromBytes, IntoBytes};

/// The most bytes of spans in one export; collectors refuse more than 4 MiB by default.
const MAX_BATCH_BYTES: usize = 2 << 20;

/// Spans that wait to be exported, and what became of others. It belongs to the process and
/// outlives snapshots.
///
/// A worker thread pushes under a lock that is held for a few instructions, and never waits: a span
/// that finds no room is dropped and counted.
pub struct SpanQueue {
    waiting: Mutex<QueuedSpans>,
    /// There are enough for a batch.
    ready: Notify,
    counts: Placed<SpanCounts>,
}

#[derive(Default)]
struct QueuedSpans {
    spans: Vec<Span>,
    /// Spans that were taken and are not settled.
    taken: usize,
    /// The most of both together: `batch_size` times `batch_count`, for each worker thread.
    limit: usize,
    /// `batch_size`.
    batch: usize,
}

/// What became of spans of this server.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(C)]
pub struct SpanCounts {
    /// Spans that collectors have taken.
    pub exported: Counter,
    /// Attempts to export that failed.
    pub failed_exports: Counter,
    dropped: [Counter; SpanLoss::ALL.len()],
}

/// Why a span was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanLoss {
    /// Too many were waiting already.
    QueueFull,
    /// The collector could not be reached, or answered with an error, for too long.
    ExportFailed,
    /// The collector has refused it.
    Rejected,
    /// The process ended.
    ProcessEnded,
}

impl QueuedSpans {
    fn is_full(&self) -> bool {
        self.spans.len() + self.taken >= self.limit
    }
}

impl SpanLoss {
    /// Every reason, with the value of its label in the metrics.
    pub const ALL: [(SpanLoss, &'static str); 4] = [
        (SpanLoss::QueueFull, "queue_full"),
        (SpanLoss::ExportFailed, "export_failed"),
        (SpanLoss::Rejected, "rejected"),
        (SpanLoss::ProcessEnded, "process_ended"),
    ];
}

impl SpanCounts {
    /// Spans dropped for this reason.
    pub fn dropped(&self, reason: SpanLoss) -> u64 {
        self.dropped[reason as usize].get()
    }

    /// Spans dropped for any reason.
    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().map(Counter::get).sum()
    }

    /// Counts spans that are dropped.
    pub fn count_dropped(&self, reason: SpanLoss, spans: usize) {
        self.dropped[reason as usize].add(spans as u64);
    }
}

impl Default for SpanQueue {
    fn default() -> SpanQueue {
        SpanQueue {
            waiting: Mutex::default(),
            ready: Notify::new(),
            counts: Placed::named("traces"),
        }
    }
}

impl SpanQueue {
    /// What became of spans.
    pub fn counts(&self) -> &SpanCounts {
        &self.counts
    }

    /// Spans that are neither exported nor dropped yet.
    pub fn held(&self) -> usize {
        let waiting = self.lock();
        waiting.spans.len() + waiting.taken
    }

    /// From now on, `batch` spans make a batch, and `limit` spans may wait or be under way.
    pub fn set_limits(&self, batch: usize, limit: usize) {
        let mut waiting = self.lock();
        waiting.batch = batch;
        waiting.limit = limit;
        drop(waiting);
        self.ready.notify_one();
    }

    /// Leaves a span for the exporter, if there is room. Without room it is not even made: dropping
    /// spans must cost less than exporting them.
    pub(crate) fn push(&self, make: impl FnOnce() -> Span) {
        if self.lock().is_full() {
            self.counts.count_dropped(SpanLoss::QueueFull, 1);
            return;
        }
        let span = make(); // not under the lock
        let mut waiting = self.lock();
        if waiting.is_full() {
            drop(waiting);
            self.counts.count_dropped(SpanLoss::QueueFull, 1);
            return;
        }
        waiting.spans.push(span);
        let is_batch = waiting.spans.len() == waiting.batch;
        drop(waiting);
        if is_batch {
            self.ready.notify_one();
        }
    }

    /// For the exporter: the oldest spans, at most a batch of them; none before there is a whole
    /// batch, unless `any` will do. It must [`settle`](Self::settle) them.
    pub fn take(&self, any: bool) -> Vec<Span> {
        let mut waiting = self.lock();
        if waiting.spans.is_empty() || (!any && waiting.spans.len() < waiting.batch) {
            return Vec::new();
        }
        let mut bytes = 0;
        let fits = |span: &&Span| {
            bytes += span.bytes();
            bytes <= MAX_BATCH_BYTES
        };
        let oldest = waiting.spans.iter().take(waiting.batch.max(1));
        let count = oldest.take_while(fits).count().max(1);
        let rest = waiting.spans.split_off(count);
        let taken = std::mem::replace(&mut waiting.spans, rest);
        waiting.taken += taken.len();
        taken
    }

    /// For the exporter: makes room for as many spans as are exported or dropped.
    pub fn settle(&self, spans: usize) {
        self.lock().taken -= spans;
    }

    /// For the exporter: waits until there may be a whole batch.
    pub async fn batch_is_ready(&self) {
        self.ready.notified().await;
    }

    /// A panic cannot leave it half changed.
    fn lock(&self) -> MutexGuard<'_, QueuedSpans> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SpanQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanQueue")
            .field("held", &self.held())
            .field("counts", &self.counts)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::span::{Attribute, AttributeValue, MAX_VALUE_BYTES};
    use super::*;
    use sealane_http::traceparent::{SpanId, TraceId};

    /// A span with this name.
    fn span(name: &str) -> Span {
        Span {
            name: name.to_owned(),
            trace: TraceId::from_random([1; 16]),
            id: SpanId::from_random([2; 8]),
            parent: None,
            state: String::new(),
            start_ns: 1,
            end_ns: 2,
            failed: false,
            attributes: Vec::new(),
        }
    }

    fn names(spans: &[Span]) -> String {
        let names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
        names.join(" ")
    }

    #[test]
    fn spans_come_in_batches_and_in_order() {
        let queue = SpanQueue::default();
        queue.set_limits(2, 4);
        queue.push(|| span("a"));
        assert!(queue.take(false).is_empty());
        queue.push(|| span("b"));
        queue.push(|| span("c"));
        assert_eq!(names(&queue.take(false)), "a b");
        assert!(queue.take(false).is_empty());
        assert_eq!(names(&queue.take(true)), "c");
        assert!(queue.take(true).is_empty());
    }

    #[test]
    fn what_finds_no_room_is_counted_and_room_comes_back() {
        let queue = SpanQueue::default();
        queue.push(|| span("nobody exports"));
        queue.set_limits(2, 3);
        for name in ["a", "b", "c", "d"] {
            queue.push(|| span(name));
        }
        assert_eq!(queue.counts().dropped(SpanLoss::QueueFull), 2);
        // Under way, they still take room.
        let taken = queue.take(false);
        queue.push(|| span("e"));
        assert_eq!(queue.counts().all_dropped(), 3);
        queue.settle(taken.len());
        queue.push(|| span("f"));
        assert_eq!(queue.counts().all_dropped(), 3);
        assert_eq!(names(&queue.take(true)), "c f");
        assert_eq!(queue.held(), 2);
    }

    #[test]
    fn a_batch_is_never_too_long_for_a_collector() {
        let queue = SpanQueue::default();
        queue.set_limits(512, 2048);
        let longest = Attribute {
            name: "http.target".into(),
            value: AttributeValue::Text("a".repeat(MAX_VALUE_BYTES)),
        };
        for _ in 0..512 {
            queue.push(|| Span {
                attributes: vec![longest.clone(); 4],
                ..span("long")
            });
        }
        let mut spans = 0;
        while spans < 512 {
            let batch = queue.take(true);
            assert!(batch.iter().map(Span::bytes).sum::<usize>() <= MAX_BATCH_BYTES);
            assert!(!batch.is_empty());
            spans += batch.len();
        }
    }
}
