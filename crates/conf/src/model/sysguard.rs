//! Requests that are turned away while the machine is overloaded.

use super::LogLevel;
use std::sync::Arc;
use std::time::Duration;

/// `sysguard` and its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysguard {
    /// `sysguard_load`.
    pub load: Option<GuardRule<LoadLimit>>,
    /// `sysguard_cpu`.
    pub cpu: Option<GuardRule<CpuLimit>>,
    /// `sysguard_mem swapratio=`: hundredths of a percent of the swap space.
    pub swap: Option<GuardRule<u64>>,
    /// `sysguard_mem free=`: bytes.
    pub free: Option<GuardRule<u64>>,
    /// `sysguard_rt`.
    pub response_time: Option<GuardRule<ResponseTimeLimit>>,
    /// `sysguard_mode and`: all of them must be exceeded; default one is enough.
    pub all: bool,
    /// `sysguard_interval`: how often figures are read; default a second.
    pub interval: Duration,
    /// `sysguard_log_level`; default `error`.
    pub log_level: LogLevel,
}

/// A limit, and what happens beyond it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardRule<L> {
    /// The limit.
    pub limit: L,
    /// `action=`: a URI, or a named location with its `@`. Without one the status is 503.
    pub action: Option<Arc<str>>,
}

/// `load=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadLimit {
    /// Thousandths of the load average of a minute.
    pub thousandths: u64,
    /// `ncpu*`: for each processor.
    pub per_cpu: bool,
}

/// `usage=` and `period=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuLimit {
    /// Hundredths of a percent.
    pub usage: u64,
    /// Over which time; default three seconds.
    pub period: Duration,
}

/// `rt=` and `period=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseTimeLimit {
    /// The average, in milliseconds.
    pub average_ms: u64,
    /// Over which time; default a second.
    pub period: Duration,
}
