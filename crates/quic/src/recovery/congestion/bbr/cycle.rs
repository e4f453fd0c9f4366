//! The cycle of probing for bandwidth, and probing for the round-trip time.

use std::time::Duration;

use crate::Time;

use super::rate::Sample;
use super::{Bbr, Mode, PROBE_RTT_CWND_GAIN, PROBE_RTT_TIME, is_too_much};

/// Bandwidth is probed for after this time at the latest, and up to a second more,
const PROBE_WAIT: Duration = Duration::from_secs(2);

/// or after so many rounds, so that Reno and CUBIC get their share.
const MAX_RENO_ROUNDS: u64 = 63;

/// The slope of probing is doubled each round, at most so often.
const MAX_UP_ROUNDS: u8 = 30;

/// What the ACKs that come now are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

#[derive(Debug)]
pub(super) struct Cycle {
    ack_phase: AckPhase,
    /// When the phase began.
    stamp: Time,
    wait: Duration,
    rounds_since_probe: u64,
    up_rounds: u8,
    /// Bytes acknowledged while probing, and how many make the bound grow by a datagram.
    up_acked: u64,
    up_step: u64,
    /// Whether losses tell of the probe.
    probe_samples: bool,
    wants_down: bool,
}

impl Cycle {
    pub(super) fn new(now: Time) -> Self {
        Self {
            ack_phase: AckPhase::Init,
            stamp: now,
            wait: PROBE_WAIT,
            rounds_since_probe: 0,
            up_rounds: 0,
            up_acked: 0,
            up_step: u64::MAX,
            probe_samples: false,
            wants_down: false,
        }
    }

    pub(super) fn on_round(&mut self) {
        self.rounds_since_probe += 1;
    }

    pub(super) fn has_probe_samples(&self) -> bool {
        self.probe_samples
    }

    pub(super) fn stop_probe_samples(&mut self) {
        self.probe_samples = false;
    }

    /// The next ACK ends ProbeBW_UP.
    pub(super) fn wants_down(&mut self) {
        self.wants_down = true;
    }
}

impl Bbr {
    pub(super) fn start_down(&mut self, sample: &Sample, now: Time) {
        self.reset_congestion_signals();
        let cycle = &mut self.cycle;
        cycle.wants_down = false;
        cycle.up_step = u64::MAX;
        // Flows should not probe in step. What was delivered and when is different for each.
        let mix = (sample.prior_delivered ^ now.as_micros()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        cycle.rounds_since_probe = mix >> 63;
        cycle.wait = PROBE_WAIT + Duration::from_millis((mix >> 32) % 1000);
        cycle.stamp = now;
        cycle.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.mode = Mode::Down;
    }

    fn start_refill(&mut self) {
        self.reset_shortterm_model();
        self.cycle.up_rounds = 0;
        self.cycle.up_acked = 0;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.mode = Mode::Refill;
    }

    fn start_up(&mut self, sample: &Sample, now: Time) {
        self.cycle.probe_samples = true;
        self.cycle.ack_phase = AckPhase::ProbeStarting;
        self.cycle.stamp = now;
        self.start_round();
        self.full.reset(sample.rate.unwrap_or(0));
        self.mode = Mode::Up;
        self.raise_slope();
    }

    fn raise_slope(&mut self) {
        let growth = u64::from(self.datagram) << self.cycle.up_rounds;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(MAX_UP_ROUNDS);
        self.cycle.up_step = (self.cwnd / growth.max(1)).max(1) * u64::from(self.datagram);
    }

    pub(super) fn update_cycle(&mut self, sample: &Sample, in_flight: u64, now: Time) {
        if !self.full.is_reached() {
            return;
        }
        self.adapt_longterm_model(sample);
        let mode = self.mode;
        match mode {
            Mode::Down | Mode::Cruise if self.is_time_to_probe(now) => self.start_refill(),
            Mode::Down if self.is_time_to_cruise(in_flight) => self.mode = Mode::Cruise,
            Mode::Refill if self.round_start => self.start_up(sample, now),
            Mode::Up if self.is_time_to_go_down(sample) => self.start_down(sample, now),
            _ => {}
        }
    }

    fn is_time_to_probe(&self, now: Time) -> bool {
        let packets = self.bdp(100).min(self.cwnd) / u64::from(self.datagram);
        now.since(self.cycle.stamp) > self.cycle.wait
            || self.cycle.rounds_since_probe >= packets.clamp(1, MAX_RENO_ROUNDS)
    }

    fn is_time_to_cruise(&self, in_flight: u64) -> bool {
        in_flight <= self.inflight_with_headroom() && in_flight <= self.inflight(100)
    }

    fn is_time_to_go_down(&mut self, sample: &Sample) -> bool {
        if self.cycle.wants_down {
            return true;
        }
        if self.cwnd_limited && self.cwnd >= self.bounds.inflight_longterm {
            self.full.reset(sample.rate.unwrap_or(0));
            return false;
        }
        self.full.is_now()
    }

    fn adapt_longterm_model(&mut self, sample: &Sample) {
        if self.round_start {
            match self.cycle.ack_phase {
                AckPhase::ProbeStarting => self.cycle.ack_phase = AckPhase::ProbeFeedback,
                AckPhase::ProbeStopping => {
                    self.cycle.probe_samples = false;
                    self.cycle.ack_phase = AckPhase::Init;
                    if self.mode.is_probe_bw() && !sample.app_limited {
                        self.max_bw.advance();
                    }
                }
                _ => {}
            }
        }
        if is_too_much(sample.lost, sample.in_flight) {
            if self.cycle.probe_samples {
                self.on_inflight_too_high(sample.in_flight, sample.app_limited);
            }
            return;
        }
        let bound = &mut self.bounds.inflight_longterm;
        if *bound == u64::MAX {
            return;
        }
        *bound = (*bound).max(sample.in_flight);
        if self.mode == Mode::Up {
            self.probe_inflight_upward(sample);
        }
    }

    fn probe_inflight_upward(&mut self, sample: &Sample) {
        if !self.cwnd_limited || self.cwnd < self.bounds.inflight_longterm {
            return;
        }
        let cycle = &mut self.cycle;
        cycle.up_acked += sample.newly_acked;
        let steps = cycle.up_acked / cycle.up_step;
        cycle.up_acked -= steps * cycle.up_step;
        self.bounds.inflight_longterm += steps * u64::from(self.datagram);
        if self.round_start {
            self.raise_slope();
        }
    }

    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(PROBE_RTT_CWND_GAIN).max(self.min_pipe())
    }

    pub(super) fn check_probe_rtt(&mut self, sample: &Sample, in_flight: u64, now: Time) {
        if self.mode != Mode::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.save_cwnd();
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_done = None;
            self.cycle.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.mode == Mode::ProbeRtt {
            self.handle_probe_rtt(in_flight, now);
        }
        if sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, in_flight: u64, now: Time) {
        // Samples of this time are low on purpose.
        self.sampler.on_app_limited(in_flight);
        if self.probe_rtt_done.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(now);
            }
        } else if in_flight <= self.probe_rtt_cwnd() {
            self.probe_rtt_done = Some(now + PROBE_RTT_TIME);
            self.probe_rtt_round_done = false;
            self.start_round();
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.probe_rtt_min_stamp = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.reset_shortterm_model();
        if self.full.is_reached() {
            let sample = Sample {
                prior_delivered: self.sampler.delivered(),
                ..Sample::default()
            };
            self.start_down(&sample, now);
            self.mode = Mode::Cruise;
        } else {
            self.mode = Mode::Startup;
        }
    }
}
