//! Explicit congestion notification, RFC 9000 section 13.4.

use crate::frame::EcnCounts;

/// The ECN bits of an IP header, RFC 3168 section 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codepoint {
    /// Not capable.
    NotEct,
    /// Capable, marked by the sender.
    Ect0,
    /// Capable, the other mark.
    Ect1,
    /// Congestion experienced.
    Ce,
}

/// So many packets are marked before the path has shown that it keeps marks: RFC 9000 appendix
/// A.4.
const TESTING_PACKETS: u8 = 10;

/// Whether a path keeps ECN marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Validation {
    /// The first packets are marked, this many more.
    Testing { left: u8 },
    /// The test packets were sent, and none was acknowledged.
    Unknown,
    /// Marks arrive.
    Capable,
    /// Marks are lost or changed, or packets with them are.
    Failed,
}

/// The validation of ECN on a path, RFC 9000 section 13.4.2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ecn {
    validation: Validation,
    /// Marked packets that were declared lost while testing.
    lost: u8,
}

impl Ecn {
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            validation: if enabled {
                Validation::Testing {
                    left: TESTING_PACKETS,
                }
            } else {
                Validation::Failed
            },
            lost: 0,
        }
    }

    /// Whether the next packet gets ECT(0).
    pub(super) fn marks(&self) -> bool {
        matches!(
            self.validation,
            Validation::Testing { .. } | Validation::Capable
        )
    }

    /// Whether marks arrive.
    #[cfg(test)]
    pub(super) fn is_capable(&self) -> bool {
        self.validation == Validation::Capable
    }

    /// A marked packet was sent.
    pub(super) fn on_sent(&mut self) {
        if let Validation::Testing { left } = &mut self.validation {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.validation = Validation::Unknown;
            }
        }
    }

    /// Nothing has been acknowledged for a while: no more test packets.
    pub(super) fn stop_testing(&mut self) {
        if let Validation::Testing { .. } = self.validation {
            self.validation = Validation::Unknown;
        }
    }

    /// A marked packet was lost. When all test packets are lost, the path may drop marked ones.
    pub(super) fn on_lost(&mut self) {
        if matches!(
            self.validation,
            Validation::Testing { .. } | Validation::Unknown
        ) {
            self.lost = self.lost.saturating_add(1);
            if self.lost >= TESTING_PACKETS {
                self.validation = Validation::Failed;
            }
        }
    }

    /// An ACK frame raised the largest acknowledged number. `before` are the counts of the last
    /// such frame, `counts` those of this one, `newly_acked` how many marked packets it
    /// acknowledges for the first time, `sent` how many were marked in this space.
    ///
    /// Returns how many packets more have met congestion.
    pub(super) fn on_ack(
        &mut self,
        before: &EcnCounts,
        counts: Option<&EcnCounts>,
        newly_acked: u64,
        sent: u64,
    ) -> u64 {
        if self.validation == Validation::Failed {
            return 0;
        }
        let Some(counts) = counts else {
            if newly_acked > 0 {
                self.validation = Validation::Failed;
            }
            return 0;
        };
        match increase(before, counts, sent) {
            Some((ect0, ce)) if ect0.saturating_add(ce) >= newly_acked => {
                if newly_acked > 0 {
                    self.validation = Validation::Capable;
                }
                ce
            }
            _ => {
                self.validation = Validation::Failed;
                0
            }
        }
    }
}

/// By how much ECT(0) and CE grew, or `None` if the counts cannot be: they fell, ECT(1) was never
/// sent, and there are not more marks than marked packets.
fn increase(before: &EcnCounts, counts: &EcnCounts, sent: u64) -> Option<(u64, u64)> {
    let ect0 = counts.ect0.checked_sub(before.ect0)?;
    let ce = counts.ce.checked_sub(before.ce)?;
    let possible = counts.ect1 == before.ect1
        && counts
            .ect0
            .checked_add(counts.ce)
            .is_some_and(|n| n <= sent);
    possible.then_some((ect0, ce))
}
