//! `sysguard` and its options, while a block is read.

use crate::model::{CpuLimit, GuardRule, LoadLimit, LogLevel, ResponseTimeLimit, Sysguard};
use std::sync::Arc;
use std::time::Duration;

/// The directives of [`Sysguard`].
#[derive(Debug, Default, Clone)]
pub(crate) struct SysguardDraft {
    pub(crate) enabled: Option<bool>,
    pub(crate) load: Option<GuardRule<LoadLimit>>,
    pub(crate) cpu: Option<GuardRule<CpuLimit>>,
    pub(crate) swap: Option<GuardRule<u64>>,
    pub(crate) free: Option<GuardRule<u64>>,
    pub(crate) response_time: Option<GuardRule<ResponseTimeLimit>>,
    pub(crate) all: Option<bool>,
    pub(crate) interval: Option<Duration>,
    pub(crate) log_level: Option<LogLevel>,
}

impl SysguardDraft {
    /// What holds; `None` is off.
    pub(crate) fn finish(&self) -> Option<Arc<Sysguard>> {
        self.enabled.unwrap_or(false).then(|| {
            Arc::new(Sysguard {
                load: self.load.clone(),
                cpu: self.cpu.clone(),
                swap: self.swap.clone(),
                free: self.free.clone(),
                response_time: self.response_time.clone(),
                all: self.all.unwrap_or(false),
                interval: self.interval.unwrap_or(Duration::from_secs(1)),
                log_level: self.log_level.unwrap_or(LogLevel::Error),
            })
        })
    }
}
