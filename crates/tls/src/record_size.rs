//! How large records are: `ssl_buffer_size`, and dynamic sizes.
//!
//! A client can use a record only when all of it has arrived. Small records at the start fit the
//! first segments of a TCP connection in slow start; large records later cost less. The scheme and
//! its defaults are those of the widely used "dynamic TLS records" patch for nginx.

/// The most plaintext in one record.
pub(crate) const MAX_RECORD_BYTES: usize = 16_384;

/// `ssl_dyn_rec_*`: records grow while a connection keeps sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicRecords {
    /// Idle time in milliseconds after which sizes start over.
    pub timeout_ms: u64,
    /// Size of the first records in bytes: one TCP segment.
    pub size_lo: usize,
    /// Size of the records after those, in bytes: three segments.
    pub size_hi: usize,
    /// Records sent of each of the two sizes.
    pub threshold: u32,
}

impl Default for DynamicRecords {
    fn default() -> Self {
        Self {
            timeout_ms: 1000,
            size_lo: 1369,
            size_hi: 4229,
            threshold: 40,
        }
    }
}

/// A connection's place in the scheme.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordSizer {
    pub(crate) sent: u32,
    pub(crate) last_write_ms: u64,
}

/// A run of at most this many records of this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) record_bytes: usize,
    pub(crate) records: usize,
}

impl RecordSizer {
    /// Call once per write, with a clock that only goes forward.
    pub(crate) fn begin_write(&mut self, dynamic: &DynamicRecords, now_ms: u64) {
        if now_ms.saturating_sub(self.last_write_ms) > dynamic.timeout_ms {
            self.sent = 0;
        }
        self.last_write_ms = now_ms;
    }

    /// The next run; `full` is the size after the ramp.
    pub(crate) fn next_run(&self, dynamic: &DynamicRecords, full: usize) -> Run {
        let hi_from = dynamic.threshold.saturating_add(1);
        let full_from = dynamic.threshold.saturating_mul(2).saturating_add(1);
        let (size, until) = match self.sent {
            sent if sent < hi_from => (dynamic.size_lo, hi_from),
            sent if sent < full_from => (dynamic.size_hi, full_from),
            _ => {
                return Run {
                    record_bytes: full,
                    records: usize::MAX,
                };
            }
        };
        Run {
            record_bytes: size.clamp(1, MAX_RECORD_BYTES),
            records: (until - self.sent) as usize,
        }
    }

    /// Counts sent records.
    pub(crate) fn sent(&mut self, records: usize) {
        self.sent = self
            .sent
            .saturating_add(u32::try_from(records).unwrap_or(u32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_twice_and_start_over_when_idle() {
        let dynamic = DynamicRecords {
            threshold: 2,
            ..DynamicRecords::default()
        };
        let mut sizer = RecordSizer::default();
        let mut sizes = Vec::new();
        for now_ms in 0..7 {
            sizer.begin_write(&dynamic, now_ms);
            sizes.push(sizer.next_run(&dynamic, 16_384).record_bytes);
            sizer.sent(1);
        }
        assert_eq!(sizes, [1369, 1369, 1369, 4229, 4229, 16_384, 16_384]);
        sizer.begin_write(&dynamic, 1006);
        assert_eq!(sizer.next_run(&dynamic, 16_384).record_bytes, 16_384);
        sizer.begin_write(&dynamic, 2007);
        assert_eq!(
            sizer.next_run(&dynamic, 16_384),
            Run {
                record_bytes: 1369,
                records: 3
            }
        );
    }
}
