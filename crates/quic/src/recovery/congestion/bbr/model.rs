//! The model of the path: bandwidth, round-trip time, and the bounds that losses set.

use std::time::Duration;

use crate::Time;

use super::rate::{Sample, volume};
use super::{BETA_PERCENT, Bbr, HEADROOM_PERCENT, MIN_RTT_AGE, Mode, PROBE_RTT_INTERVAL};

/// ExtraAckedFilterLen is ten rounds: two halves of five.
const EXTRA_ACKED_HALF_ROUNDS: u64 = 5;

/// The maximum of the current period and the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxFilter {
    current: u64,
    before: u64,
}

impl MaxFilter {
    pub(super) fn get(&self) -> u64 {
        self.current.max(self.before)
    }

    pub(super) fn update(&mut self, value: u64) {
        self.current = self.current.max(value);
    }

    /// A new period begins.
    pub(super) fn advance(&mut self) {
        self.before = self.current;
        self.current = 0;
    }
}

/// Whether bandwidth still grows by a quarter in three rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullBandwidth {
    bw: u64,
    rounds: u8,
    now: bool,
    reached: bool,
}

impl FullBandwidth {
    /// Whether it once grew no more.
    pub(super) fn is_reached(&self) -> bool {
        self.reached
    }

    /// Whether it grows no more since the last reset.
    pub(super) fn is_now(&self) -> bool {
        self.now
    }

    pub(super) fn set_reached(&mut self) {
        self.reached = true;
    }

    pub(super) fn reset(&mut self, bw: u64) {
        self.bw = bw;
        self.rounds = 0;
        self.now = false;
    }

    pub(super) fn update(&mut self, sample: &Sample, round_start: bool) {
        let rate = sample.rate.unwrap_or(0);
        if self.now || sample.app_limited {
            return;
        }
        if rate >= self.bw.saturating_add(self.bw / 4) && rate > 0 {
            self.reset(rate);
        } else if round_start {
            self.rounds += 1;
            self.now = self.rounds >= 3;
            self.reached |= self.now;
        }
    }
}

impl Bbr {
    pub(super) fn start_round(&mut self) {
        self.next_round_delivered = self.sampler.delivered();
    }

    pub(super) fn update_round(&mut self, sample: &Sample) {
        self.round_start = sample.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round();
            self.round_count += 1;
            self.cycle.on_round();
        }
    }

    pub(super) fn update_latest_signals(&mut self, sample: &Sample) {
        self.bw_latest = self.bw_latest.max(sample.rate.unwrap_or(0));
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        self.loss_round_start = sample.prior_delivered >= self.loss_round_delivered;
        if self.loss_round_start {
            self.loss_round_delivered = self.sampler.delivered();
        }
    }

    pub(super) fn advance_latest_signals(&mut self, sample: &Sample) {
        if self.loss_round_start {
            self.bw_latest = sample.rate.unwrap_or(0);
            self.inflight_latest = sample.delivered;
        }
    }

    pub(super) fn update_congestion_signals(&mut self, sample: &Sample) {
        if let Some(rate) = sample.rate
            && (!sample.app_limited || rate >= self.max_bw.get())
        {
            self.max_bw.update(rate);
        }
        self.bw = self.max_bw.get().min(self.bounds.bw_shortterm);
        if !self.loss_round_start {
            return;
        }
        if self.loss_in_round && !self.mode.is_probing() {
            self.lower_bounds();
        }
        self.loss_in_round = false;
    }

    /// Packets were lost though nothing more than before was tried.
    fn lower_bounds(&mut self) {
        let bounds = &mut self.bounds;
        if bounds.bw_shortterm == u64::MAX {
            bounds.bw_shortterm = self.max_bw.get();
        }
        if bounds.inflight_shortterm == u64::MAX {
            bounds.inflight_shortterm = self.cwnd;
        }
        let keep = |bound: u64| bound.saturating_mul(BETA_PERCENT) / 100;
        bounds.bw_shortterm = self.bw_latest.max(keep(bounds.bw_shortterm));
        bounds.inflight_shortterm = self.inflight_latest.max(keep(bounds.inflight_shortterm));
    }

    pub(super) fn reset_congestion_signals(&mut self) {
        self.loss_in_round = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    pub(super) fn reset_shortterm_model(&mut self) {
        self.bounds.bw_shortterm = u64::MAX;
        self.bounds.inflight_shortterm = u64::MAX;
    }

    /// More came than the bandwidth explains: ACKs are held back and come together.
    pub(super) fn update_ack_aggregation(&mut self, sample: &Sample, now: Time) {
        let mut expected = volume(self.bw, now.since(self.extra_acked_start));
        if self.extra_acked_delivered <= expected {
            self.extra_acked_delivered = 0;
            self.extra_acked_start = now;
            expected = 0;
        }
        self.extra_acked_delivered += sample.newly_acked;
        let extra = self.extra_acked_delivered.saturating_sub(expected);
        if self.round_start
            && (!self.full.is_reached() || self.round_count.is_multiple_of(EXTRA_ACKED_HALF_ROUNDS))
        {
            self.extra_acked.advance();
        }
        self.extra_acked.update(extra.min(self.cwnd));
    }

    pub(super) fn update_min_rtt(&mut self, rtt: Option<Duration>, now: Time) {
        self.probe_rtt_expired = now > self.probe_rtt_min_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = rtt
            && (rtt < self.probe_rtt_min || self.probe_rtt_expired)
        {
            self.probe_rtt_min = rtt;
            self.probe_rtt_min_stamp = now;
        }
        let is_old = now > self.min_rtt_stamp + MIN_RTT_AGE;
        let known = self.probe_rtt_min < Duration::MAX;
        if known && (is_old || self.min_rtt.is_none_or(|min| self.probe_rtt_min < min)) {
            self.min_rtt = Some(self.probe_rtt_min);
            self.min_rtt_stamp = self.probe_rtt_min_stamp;
        }
    }

    pub(super) fn inflight_with_headroom(&self) -> u64 {
        match self.bounds.inflight_longterm {
            u64::MAX => u64::MAX,
            bound => (bound.saturating_mul(HEADROOM_PERCENT) / 100).max(self.min_pipe()),
        }
    }

    /// What losses have shown to be too much in flight becomes the bound.
    pub(super) fn on_inflight_too_high(&mut self, in_flight: u64, app_limited: bool) {
        self.cycle.stop_probe_samples();
        if !app_limited {
            let target = self.bdp(100).min(self.cwnd) * BETA_PERCENT / 100;
            self.bounds.inflight_longterm = in_flight.max(target).max(self.min_pipe());
        }
        if self.mode == Mode::Up {
            self.cycle.wants_down();
        }
    }
}
