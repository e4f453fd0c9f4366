//! What became of spans (`otel_exporter`).

use super::Families;
use crate::snapshot::Snapshot;
use crate::traces::SpanLoss;

pub(super) fn collect(families: &mut Families<'_>, snapshot: &Snapshot) {
    if snapshot.trace_target.is_none() {
        return;
    }
    let counts = snapshot.spans.counts();
    families
        .counter("trace_spans_exported", "Spans that a collector has taken")
        .is(counts.exported.get());
    families
        .counter(
            "trace_exports_failed",
            "Attempts to export spans that failed",
        )
        .is(counts.failed_exports.get());
    families
        .counter("trace_spans_dropped", "Spans dropped, by reason")
        .by(&["reason"])
        .each(SpanLoss::ALL.map(|(reason, label)| (label, counts.dropped(reason))));
    families
        .gauge(
            "trace_spans_waiting",
            "Spans that are neither exported nor dropped yet",
        )
        .is(snapshot.spans.held() as u64);
}
