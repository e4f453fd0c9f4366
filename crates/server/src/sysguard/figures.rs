//! What is known of the machine. One thread writes, all others read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A number that may be unknown: nothing is limited by it then.
#[derive(Debug)]
struct Figure(AtomicU64);

impl Default for Figure {
    fn default() -> Figure {
        Figure(AtomicU64::new(Figure::UNKNOWN))
    }
}

impl Figure {
    const UNKNOWN: u64 = u64::MAX;

    fn set(&self, value: Option<u64>) {
        self.0.store(value.unwrap_or(Figure::UNKNOWN), Relaxed);
    }

    fn get(&self) -> Option<u64> {
        Some(self.0.load(Relaxed)).filter(|value| *value != Figure::UNKNOWN)
    }
}

/// The machine's figures, other than of its processors.
#[derive(Debug, Default)]
pub struct SystemLoad {
    load_thousandths: Figure,
    cpus: Figure,
    swap_used: Figure,
    free_bytes: Figure,
}

impl SystemLoad {
    /// Publishes the load average of the last minute, in thousandths.
    pub fn set_load_thousandths(&self, value: Option<u64>) {
        self.load_thousandths.set(value);
    }

    /// Publishes how many processors the machine has.
    pub fn set_cpus(&self, value: Option<u64>) {
        self.cpus.set(value);
    }

    /// Publishes how much of the swap space is used, in hundredths of a percent.
    pub fn set_swap_used(&self, value: Option<u64>) {
        self.swap_used.set(value);
    }

    /// Publishes how much memory is free.
    pub fn set_free_bytes(&self, value: Option<u64>) {
        self.free_bytes.set(value);
    }

    pub(super) fn load_thousandths(&self) -> Option<u64> {
        self.load_thousandths.get()
    }

    /// At least one.
    pub(super) fn cpus(&self) -> u64 {
        self.cpus.get().unwrap_or(1).max(1)
    }

    pub(super) fn swap_used(&self) -> Option<u64> {
        self.swap_used.get()
    }

    pub(super) fn free_bytes(&self) -> Option<u64> {
        self.free_bytes.get()
    }
}

/// How busy processors were in the last `period`.
#[derive(Debug)]
pub struct CpuMeter {
    period: Duration,
    usage: Figure,
}

impl CpuMeter {
    /// Over which time.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Publishes hundredths of a percent.
    pub fn set_usage(&self, value: Option<u64>) {
        self.usage.set(value);
    }

    pub(super) fn usage(&self) -> Option<u64> {
        self.usage.get()
    }
}

/// What locations of a snapshot want to know.
#[derive(Debug, Default, Clone)]
pub struct LoadWatch {
    system: Arc<SystemLoad>,
    meters: Vec<Arc<CpuMeter>>,
    interval: Option<Duration>,
}

impl LoadWatch {
    /// How often it is to be read; `None` when nobody wants to know.
    pub fn interval(&self) -> Option<Duration> {
        self.interval
    }

    /// Where figures are published.
    pub fn system(&self) -> &Arc<SystemLoad> {
        &self.system
    }

    /// Where those of processors are, one for each period.
    pub fn meters(&self) -> &[Arc<CpuMeter>] {
        &self.meters
    }

    /// Another location wants to know, this often.
    pub(super) fn add(&mut self, interval: Duration) {
        let before = self.interval.unwrap_or(interval);
        self.interval = Some(before.min(interval));
    }

    /// The meter for this period.
    pub(super) fn meter(&mut self, period: Duration) -> Arc<CpuMeter> {
        let mut known = self.meters.iter();
        if let Some(meter) = known.find(|meter| meter.period == period) {
            return Arc::clone(meter);
        }
        let meter = Arc::new(CpuMeter {
            period,
            usage: Figure::default(),
        });
        self.meters.push(Arc::clone(&meter));
        meter
    }
}
