//! How fast the network delivers: draft-ietf-ccwg-bbr, "Delivery Rate Samples".

use std::time::Duration;

use crate::Time;

/// What was true when a packet was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::recovery) struct Snapshot {
    /// Bytes delivered, and when the last of them were.
    delivered: u64,
    delivered_time: Time,
    /// When the first packet of the flight was sent.
    first_sent: Time,
    /// Bytes lost.
    pub(super) lost: u64,
    /// Bytes in flight, with the packet itself.
    pub(super) in_flight: u32,
    pub(super) app_limited: bool,
}

/// A measurement, from one ACK frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Bytes a second; `None` if the time is too short to tell.
    pub(super) rate: Option<u64>,
    /// Bytes delivered in the interval that is measured.
    pub(super) delivered: u64,
    /// Bytes delivered when it began.
    pub(super) prior_delivered: u64,
    /// Bytes lost in it.
    pub(super) lost: u64,
    /// Bytes in flight when the newest acknowledged packet was sent.
    pub(super) in_flight: u64,
    /// Bytes that this ACK frame acknowledges.
    pub(super) newly_acked: u64,
    pub(super) app_limited: bool,
}

/// The newest packet of an ACK frame.
#[derive(Clone, Copy, Debug)]
struct Newest {
    snapshot: Snapshot,
    sent: Time,
}

#[derive(Debug)]
pub(super) struct Sampler {
    delivered: u64,
    delivered_time: Time,
    first_sent: Time,
    lost: u64,
    /// Samples count as limited by the application until so much is delivered. 0: they do not.
    app_limited_until: u64,
    newest: Option<Newest>,
    newly_acked: u64,
}

/// Bytes a second.
pub(super) fn rate(bytes: u64, time: Duration) -> u64 {
    let micros = time.as_micros().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000 / micros).unwrap_or(u64::MAX)
}

/// Bytes at a rate in some time.
pub(super) fn volume(rate: u64, time: Duration) -> u64 {
    let bytes = u128::from(rate) * time.as_micros() / 1_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl Sampler {
    pub(super) fn new(now: Time) -> Self {
        Self {
            delivered: 0,
            delivered_time: now,
            first_sent: now,
            lost: 0,
            app_limited_until: 0,
            newest: None,
            newly_acked: 0,
        }
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    pub(super) fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    pub(super) fn on_sent(&mut self, now: Time, size: u16, in_flight: u64) -> Snapshot {
        if in_flight == 0 {
            self.first_sent = now;
            self.delivered_time = now;
        }
        Snapshot {
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent: self.first_sent,
            lost: self.lost,
            in_flight: u32::try_from(in_flight + u64::from(size)).unwrap_or(u32::MAX),
            app_limited: self.is_app_limited(),
        }
    }

    pub(super) fn on_lost(&mut self, size: u16) {
        self.lost += u64::from(size);
    }

    pub(super) fn on_acked(&mut self, size: u16, sent: Time, snapshot: &Snapshot, now: Time) {
        self.delivered += u64::from(size);
        self.newly_acked += u64::from(size);
        self.delivered_time = now;
        // Numbers of a frame come in any order: the packet that was sent last counts.
        if self.newest.is_none_or(|newest| sent >= newest.sent) {
            self.newest = Some(Newest {
                snapshot: *snapshot,
                sent,
            });
        }
    }

    /// The measurement of the ACK frame that has been gone through. A time below `min_rtt` means
    /// that ACKs came in a burst, and tells no rate.
    pub(super) fn take(&mut self, min_rtt: Duration) -> Option<Sample> {
        let Newest { snapshot, sent } = self.newest.take()?;
        let newly_acked = std::mem::take(&mut self.newly_acked);
        self.first_sent = sent;
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let send_time = sent.since(snapshot.first_sent);
        let ack_time = self.delivered_time.since(snapshot.delivered_time);
        let interval = send_time.max(ack_time);
        let delivered = self.delivered.saturating_sub(snapshot.delivered);
        Some(Sample {
            rate: (interval >= min_rtt).then(|| rate(delivered, interval)),
            delivered,
            prior_delivered: snapshot.delivered,
            lost: self.lost.saturating_sub(snapshot.lost),
            in_flight: snapshot.in_flight.into(),
            newly_acked,
            app_limited: snapshot.app_limited,
        })
    }
}
