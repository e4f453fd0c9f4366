//! The handshake state of a process, which outlives snapshots.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::Waker;

use sealane_awslc::{PrivateKey, sha256};

use crate::accelerator::{self, Accelerator, AcceleratorChoice, HandshakeStats, NotSuited, Report};

use crate::server_key::{KeyHolder, SharedHolder};

use super::policy::AsyncMode;
use super::pool::{Pool, WakeTogether};

/// How one server does handshakes.
#[derive(Clone, Debug, Default)]
pub struct HandshakeSettings {
    /// `ssl_async`.
    pub mode: AsyncMode,
    /// `ssl_accelerator`.
    pub accelerator: AcceleratorChoice,
    /// The pool and the counters of the process; `None` (no pool) is for tests and tools.
    pub state: Option<Arc<HandshakeState>>,
}

/// Pool, counters and reports of a process. It outlives snapshots, as
/// [`SessionState`](crate::SessionState) does.
#[derive(Default)]
pub struct HandshakeState {
    pool: OnceLock<Pool>,
    stats: Arc<HandshakeStats>,
    report: Arc<OnceLock<Report>>,
    wake_together: OnceLock<WakeTogether>,
    accelerators: Mutex<Accelerators>,
    holder: SharedHolder,
}

/// Accelerators in use, keyed by choice and by the hash of the key.
type Accelerators = HashMap<(AcceleratorChoice, [u8; 32]), Weak<dyn Accelerator>>;

impl HandshakeState {
    /// A state without threads yet: all handshakes stay on their workers.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Sets, once, where alerts for the operator go. Until then they are dropped.
    pub fn set_report(&self, report: Report) {
        let _ = self.report.set(report);
    }

    /// Sets, once, how several connections are told that they can go on. Until then each is woken
    /// by itself.
    pub fn set_wake_together(&self, wake: WakeTogether) {
        let _ = self.wake_together.set(wake);
    }

    /// Starts the pool, once, in the process that will use it: threads do not survive a fork. With
    /// `threads` 0 there is no pool.
    ///
    /// # Errors
    ///
    /// When a thread cannot be started; those that could are stopped.
    pub fn start(&self, threads: usize) -> io::Result<()> {
        if threads == 0 || self.pool.get().is_some() {
            return Ok(());
        }
        let one_by_one: WakeTogether = |wakers| wakers.into_iter().for_each(Waker::wake);
        let wake = self.wake_together.get().copied().unwrap_or(one_by_one);
        let pool = Pool::start(threads, Arc::clone(&self.stats), wake)?;
        let _ = self.pool.set(pool);
        Ok(())
    }

    /// Stops the pool: cancels what is queued and lets running computations finish. From then on
    /// handshakes stay on their workers.
    pub fn stop(&self) {
        if let Some(pool) = self.pool.get() {
            pool.stop();
        }
    }

    /// What is counted.
    pub fn stats(&self) -> &Arc<HandshakeStats> {
        &self.stats
    }

    /// A report that goes to the receiver of [`set_report`](Self::set_report), even if that is set
    /// later.
    pub(crate) fn report(&self) -> Report {
        let report = Arc::clone(&self.report);
        Arc::new(move |text| {
            if let Some(report) = report.get() {
                report(text);
            }
        })
    }

    /// The accelerator of this key. Reuses one that another server or the previous snapshot already
    /// has, so that operations of one key are computed together whoever wants them.
    pub(crate) fn accelerator(
        &self,
        choice: AcceleratorChoice,
        key: &PrivateKey,
    ) -> Result<Arc<dyn Accelerator>, NotSuited> {
        let build = || accelerator::build(choice, key, &self.stats, &self.report());
        let Ok(der) = key.to_der() else {
            return build();
        };
        let id = (choice, sha256(der.expose()));
        // Every change of the map is a single step that a panic cannot interrupt.
        let mut known = self
            .accelerators
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(accelerator) = known.get(&id).and_then(Weak::upgrade) {
            return Ok(accelerator);
        }
        let accelerator = build()?;
        known.retain(|_, accelerator| accelerator.strong_count() > 0);
        known.insert(id, Arc::downgrade(&accelerator));
        Ok(accelerator)
    }

    /// Sets, once, where operations of keys go that another process holds. Until then they fail.
    pub fn set_key_holder(&self, holder: Arc<dyn KeyHolder>) {
        let _ = self.holder.set(holder);
    }

    pub(crate) fn holder(&self) -> &SharedHolder {
        &self.holder
    }

    pub(crate) fn pool(&self) -> Option<&Pool> {
        self.pool.get()
    }
}

impl fmt::Debug for HandshakeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandshakeState")
            .field("pool", &self.pool)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
