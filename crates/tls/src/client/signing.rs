//! The private-key operation of a handshake whose key another process holds.
//!
//! A handshake with a certificate has at most one, whose input libssl gives away. Its result is
//! waited for as those of server connections are.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sealane_awslc::{KeyOperation, Secret};

use crate::accelerator::{Accelerator, PendingJob, job};

/// Has operations of a connection computed.
pub(super) struct Signing {
    key: Arc<dyn Accelerator>,
    job: Option<PendingJob>,
    /// What has come of the job.
    result: Option<Option<Secret>>,
    queue_time: Duration,
}

impl Signing {
    pub(super) fn new(key: Arc<dyn Accelerator>) -> Self {
        Self {
            key,
            job: None,
            result: None,
            queue_time: Duration::ZERO,
        }
    }

    /// Begins an operation.
    pub(super) fn begin(&mut self, operation: KeyOperation) {
        let (job, pending) = job(operation);
        self.key.submit(job);
        self.job = Some(pending);
    }

    /// Whether a result is waited for.
    pub(super) fn is_under_way(&self) -> bool {
        self.job.is_some()
    }

    /// Ready when [`take`](Self::take) has a result; at once if none is waited for.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.job {
            Some(job) if self.result.is_none() => {
                job.poll(cx).map(|result| self.result = Some(result))
            }
            _ => Poll::Ready(()),
        }
    }

    /// The result, if it is there; the inner `None` is a failure.
    pub(super) fn take(&mut self) -> Option<Option<Secret>> {
        let job = self.job.as_mut()?;
        let result = self.result.take().or_else(|| job.try_take())?;
        self.queue_time += job.queue_time();
        self.job = None;
        Some(result)
    }

    /// How long results were waited for.
    pub(super) fn queue_time(&self) -> Duration {
        self.queue_time
    }
}

impl fmt::Debug for Signing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signing({:?})", self.job)
    }
}
