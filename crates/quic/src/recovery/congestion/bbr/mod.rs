//! BBR version 3, draft-ietf-ccwg-bbr. Names are those of the draft.

mod cycle;
mod model;
mod rate;

use std::time::Duration;

use crate::Time;

use super::{Acked, MAX_WINDOW, Rtt, initial_window};
use cycle::Cycle;
use model::{FullBandwidth, MaxFilter};
pub(in crate::recovery) use rate::Snapshot;
use rate::{Sample, Sampler, volume};

/// StartupPacingGain, in percent: 4 ln 2.
const STARTUP_PACING_GAIN: u64 = 277;
/// DrainPacingGain.
const DRAIN_PACING_GAIN: u64 = 50;
/// DefaultCwndGain.
const CWND_GAIN: u64 = 200;
/// The gain of the window while more bandwidth is probed for.
const UP_CWND_GAIN: u64 = 225;
/// ProbeRTTCwndGain.
const PROBE_RTT_CWND_GAIN: u64 = 50;
/// PacingMarginPercent: so much below the estimate, no queue is built.
const PACING_PERCENT: u64 = 99;
/// Headroom, as what is left: others find some of the capacity free.
const HEADROOM_PERCENT: u64 = 85;
/// Beta, in percent: what is kept of a bound when packets are lost.
const BETA_PERCENT: u64 = 70;
/// LossThresh: above so many lost percent, more is in flight than the path takes.
const LOSS_PERCENT: u64 = 2;
/// MinPipeCwnd in datagrams.
const MIN_PIPE_DATAGRAMS: u64 = 4;
/// StartupFullLossCnt: so many losses in a round end Startup.
const STARTUP_FULL_LOSSES: u32 = 6;
/// MinRTTFilterLen.
const MIN_RTT_AGE: Duration = Duration::from_secs(10);
/// ProbeRTTInterval.
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// ProbeRTTDuration.
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// The least rate in bytes a second: an estimate that has fallen to nothing could not recover.
const MIN_RATE: u64 = 5_000;
/// The largest batch that the window makes room for.
const MAX_SEND_QUANTUM: u64 = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    /// ProbeBW_DOWN: drains what probing may have queued.
    Down,
    /// ProbeBW_CRUISE: leaves headroom.
    Cruise,
    /// ProbeBW_REFILL: fills the pipe before probing.
    Refill,
    /// ProbeBW_UP: probes for more.
    Up,
    ProbeRtt,
}

impl Mode {
    fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// Whether losses are expected, because more than before is tried.
    fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => STARTUP_PACING_GAIN,
            Self::Drain => DRAIN_PACING_GAIN,
            Self::Down => 90,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 100,
            Self::Up => 125,
        }
    }

    fn cwnd_gain(self) -> u64 {
        match self {
            Self::Up => UP_CWND_GAIN,
            Self::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => CWND_GAIN,
        }
    }
}

/// Bounds that losses set. `u64::MAX`: none.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    bw_shortterm: u64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

#[derive(Debug)]
pub(super) struct Bbr {
    sampler: Sampler,
    mode: Mode,
    cwnd: u64,
    prior_cwnd: u64,
    pacing_rate: u64,
    datagram: u16,

    max_bw: MaxFilter,
    bw: u64,
    bounds: Bounds,
    /// Bounds before the last congestion event.
    before: Option<Bounds>,
    full: FullBandwidth,

    /// Rounds: one ends when what is sent at its start is acknowledged.
    next_round_delivered: u64,
    round_start: bool,
    round_count: u64,
    /// Whether the window limited sending in this round.
    cwnd_limited: bool,

    bw_latest: u64,
    inflight_latest: u64,
    loss_round_delivered: u64,
    loss_round_start: bool,
    loss_in_round: bool,
    losses_in_round: u32,

    extra_acked_start: Time,
    extra_acked_delivered: u64,
    extra_acked: MaxFilter,

    /// `None` before there is a measurement.
    min_rtt: Option<Duration>,
    min_rtt_stamp: Time,
    probe_rtt_min: Duration,
    probe_rtt_min_stamp: Time,
    probe_rtt_expired: bool,
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    idle_restart: bool,

    cycle: Cycle,
}

impl Bbr {
    pub(super) fn new(datagram: u16, now: Time) -> Self {
        let cwnd = initial_window(datagram);
        Self {
            sampler: Sampler::new(now),
            mode: Mode::Startup,
            cwnd,
            prior_cwnd: 0,
            // Before the round-trip time is known, as if it was 1 ms.
            pacing_rate: rate::rate(cwnd * STARTUP_PACING_GAIN / 100, Duration::from_millis(1)),
            datagram,
            max_bw: MaxFilter::default(),
            bw: 0,
            bounds: Bounds {
                bw_shortterm: u64::MAX,
                inflight_shortterm: u64::MAX,
                inflight_longterm: u64::MAX,
            },
            before: None,
            full: FullBandwidth::default(),
            next_round_delivered: 0,
            round_start: false,
            round_count: 0,
            cwnd_limited: false,
            bw_latest: 0,
            inflight_latest: 0,
            loss_round_delivered: 0,
            loss_round_start: false,
            loss_in_round: false,
            losses_in_round: 0,
            extra_acked_start: now,
            extra_acked_delivered: 0,
            extra_acked: MaxFilter::default(),
            min_rtt: None,
            min_rtt_stamp: now,
            probe_rtt_min: Duration::MAX,
            probe_rtt_min_stamp: now,
            probe_rtt_expired: false,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            idle_restart: false,
            cycle: Cycle::new(now),
        }
    }

    pub(super) fn state(&self) -> &'static str {
        match self.mode {
            Mode::Startup => "startup",
            Mode::Drain => "drain",
            Mode::Down => "probe_bw_down",
            Mode::Cruise => "probe_bw_cruise",
            Mode::Refill => "probe_bw_refill",
            Mode::Up => "probe_bw_up",
            Mode::ProbeRtt => "probe_rtt",
        }
    }

    /// How many bytes may be in flight.
    pub(super) fn window(&self) -> u64 {
        self.cwnd
    }

    pub(super) fn pacing_rate(&self) -> u64 {
        self.pacing_rate
    }

    pub(super) fn set_datagram_size(&mut self, datagram: u16) {
        self.datagram = datagram;
        self.cwnd = self.cwnd.max(self.min_pipe());
    }

    pub(super) fn on_app_limited(&mut self, in_flight: u64) {
        self.sampler.on_app_limited(in_flight);
    }

    pub(super) fn on_sent(&mut self, now: Time, size: u16, in_flight: u64) -> Snapshot {
        if in_flight == 0 && self.sampler.is_app_limited() {
            self.restart_from_idle(now);
        }
        let after = in_flight + u64::from(size);
        self.cwnd_limited |= after + u64::from(self.datagram) > self.cwnd;
        self.sampler.on_sent(now, size, in_flight)
    }

    fn restart_from_idle(&mut self, now: Time) {
        self.idle_restart = true;
        self.extra_acked_start = now;
        self.extra_acked_delivered = 0;
        if self.mode.is_probe_bw() {
            self.set_pacing_rate(100);
        } else if self.mode == Mode::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    pub(super) fn on_packet_acked(
        &mut self,
        size: u16,
        sent: Time,
        snapshot: &Snapshot,
        now: Time,
    ) {
        self.sampler.on_acked(size, sent, snapshot, now);
    }

    pub(super) fn on_packet_lost(&mut self, size: u16, snapshot: &Snapshot) {
        self.sampler.on_lost(size);
        self.note_loss();
        self.losses_in_round = self.losses_in_round.saturating_add(1);
        if !self.cycle.has_probe_samples() {
            return;
        }
        let size = u64::from(size);
        let in_flight = u64::from(snapshot.in_flight);
        let lost = self.sampler.lost().saturating_sub(snapshot.lost);
        if is_too_much(lost, in_flight) {
            let at_loss = inflight_at_loss(in_flight, lost, size);
            self.on_inflight_too_high(at_loss, snapshot.app_limited);
        }
    }

    /// A mark counts as a loss: RFC 3168 asks for the same response to both.
    pub(super) fn on_congestion_experienced(&mut self, packets: u64) {
        if packets > 0 {
            self.note_loss();
            if self.cycle.has_probe_samples() {
                self.on_inflight_too_high(self.inflight_latest, false);
            }
        }
    }

    fn note_loss(&mut self) {
        if !self.loss_in_round {
            self.loss_round_delivered = self.sampler.delivered();
        }
        self.loss_in_round = true;
    }

    /// A congestion event begins.
    pub(super) fn save(&mut self) {
        self.before = Some(self.bounds);
    }

    /// It was none.
    pub(super) fn undo(&mut self) {
        if let Some(before) = self.before.take() {
            let bounds = &mut self.bounds;
            bounds.bw_shortterm = bounds.bw_shortterm.max(before.bw_shortterm);
            bounds.inflight_shortterm = bounds.inflight_shortterm.max(before.inflight_shortterm);
            bounds.inflight_longterm = bounds.inflight_longterm.max(before.inflight_longterm);
            self.loss_in_round = false;
        }
    }

    /// Persistent congestion.
    pub(super) fn collapse(&mut self) {
        self.before = None;
        self.save_cwnd();
        self.cwnd = self.min_pipe();
    }

    /// Goes through an ACK frame.
    pub(super) fn on_acked(&mut self, acked: &Acked, rtt: &Rtt) {
        let Some(sample) = self.sampler.take(self.min_rtt.unwrap_or_default()) else {
            return;
        };
        let in_flight = acked.in_flight.saturating_sub(acked.bytes);
        let now = acked.now;
        if self.min_rtt.is_none() && acked.has_rtt {
            let first = rtt.latest().max(Duration::from_micros(1));
            self.pacing_rate = rate::rate(self.cwnd * STARTUP_PACING_GAIN / 100, first);
        }
        self.update_latest_signals(&sample);
        self.update_round(&sample);
        self.update_congestion_signals(&sample);
        self.update_ack_aggregation(&sample, now);
        self.full.update(&sample, self.round_start);
        self.check_startup_high_loss(&sample);
        self.check_startup_done();
        self.check_drain_done(&sample, in_flight, now);
        self.update_cycle(&sample, in_flight, now);
        self.update_min_rtt(acked.has_rtt.then(|| rtt.latest()), now);
        self.check_probe_rtt(&sample, in_flight, now);
        self.advance_latest_signals(&sample);
        self.bw = self.max_bw.get().min(self.bounds.bw_shortterm);
        self.set_pacing_rate(self.mode.pacing_gain());
        self.set_cwnd(&sample);
        if self.round_start {
            self.cwnd_limited = false;
        }
    }

    fn check_startup_high_loss(&mut self, sample: &Sample) {
        if self.mode == Mode::Startup
            && self.loss_round_start
            && self.losses_in_round >= STARTUP_FULL_LOSSES
            && is_too_much(sample.lost, sample.in_flight)
        {
            self.full.set_reached();
            self.bounds.inflight_longterm = self.bdp(100).max(self.inflight_latest);
        }
        if self.loss_round_start {
            self.losses_in_round = 0;
        }
    }

    fn check_startup_done(&mut self) {
        if self.mode == Mode::Startup && self.full.is_reached() {
            self.mode = Mode::Drain;
        }
    }

    fn check_drain_done(&mut self, sample: &Sample, in_flight: u64, now: Time) {
        if self.mode == Mode::Drain && in_flight <= self.inflight(100) {
            self.start_down(sample, now);
        }
    }

    fn set_pacing_rate(&mut self, gain: u64) {
        if self.max_bw.get() == 0 {
            return;
        }
        let bw = u128::from(self.bw);
        let rate = bw * u128::from(gain) * u128::from(PACING_PERCENT) / 10_000;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX).max(MIN_RATE);
        if self.full.is_reached() || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn min_pipe(&self) -> u64 {
        MIN_PIPE_DATAGRAMS * u64::from(self.datagram)
    }

    /// The bandwidth-delay product times a gain in percent.
    fn bdp(&self, gain: u64) -> u64 {
        let Some(min_rtt) = self.min_rtt else {
            return initial_window(self.datagram);
        };
        volume(self.bw, min_rtt).saturating_mul(gain) / 100
    }

    /// What should be in flight for a gain in percent, with room for batches.
    fn inflight(&self, gain: u64) -> u64 {
        self.quantized(self.bdp(gain))
    }

    fn quantized(&self, inflight: u64) -> u64 {
        let datagram = u64::from(self.datagram);
        let quantum = volume(self.pacing_rate, Duration::from_millis(1))
            .clamp(2 * datagram, MAX_SEND_QUANTUM);
        let more = if self.mode == Mode::Up {
            2 * datagram
        } else {
            0
        };
        inflight.max(3 * quantum).max(self.min_pipe()) + more
    }

    fn set_cwnd(&mut self, sample: &Sample) {
        let gain = self.mode.cwnd_gain();
        let max_inflight = self.quantized(self.bdp(gain).saturating_add(self.extra_acked.get()));
        if self.full.is_reached() {
            self.cwnd = (self.cwnd + sample.newly_acked).min(max_inflight);
        } else if self.cwnd < max_inflight
            || self.sampler.delivered() < initial_window(self.datagram)
        {
            self.cwnd += sample.newly_acked;
        }
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let bound = match self.mode {
            Mode::Down | Mode::Refill | Mode::Up => self.bounds.inflight_longterm,
            Mode::Cruise | Mode::ProbeRtt => self.inflight_with_headroom(),
            Mode::Startup | Mode::Drain => u64::MAX,
        };
        let bound = bound.min(self.bounds.inflight_shortterm);
        self.cwnd = self.cwnd.min(bound).max(self.min_pipe()).min(MAX_WINDOW);
    }

    fn save_cwnd(&mut self) {
        self.prior_cwnd = if self.loss_in_round || self.mode == Mode::ProbeRtt {
            self.prior_cwnd.max(self.cwnd)
        } else {
            self.cwnd
        };
    }
}

/// Whether more was lost than a path loses that is not overloaded.
fn is_too_much(lost: u64, in_flight: u64) -> bool {
    lost > in_flight.saturating_mul(LOSS_PERCENT) / 100
}

/// How much was in flight when the losses passed the threshold, of which the last has `size`.
fn inflight_at_loss(in_flight: u64, lost: u64, size: u64) -> u64 {
    let in_flight_before = in_flight.saturating_sub(size);
    let lost_before = lost.saturating_sub(size);
    let allowed = in_flight_before * LOSS_PERCENT;
    let prefix = allowed.saturating_sub(lost_before * 100) / (100 - LOSS_PERCENT);
    in_flight_before + prefix
}
