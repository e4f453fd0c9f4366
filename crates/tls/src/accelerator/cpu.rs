//! `ssl_accelerator cpu`: AWS-LC, immediately, on the calling thread.

use std::sync::Arc;
use std::time::Instant;

use sealane_awslc::PrivateKey;

use super::{Accelerator, AcceleratorKind, HandshakeStats, Job, KeyType};

/// AWS-LC with one key. It verifies its own RSA results.
#[derive(Debug)]
pub(super) struct Cpu {
    key: PrivateKey,
    key_type: KeyType,
    stats: Arc<HandshakeStats>,
}

impl Cpu {
    pub(super) fn new(key: &PrivateKey, stats: &Arc<HandshakeStats>) -> Self {
        Self {
            key: key.clone(),
            key_type: KeyType::of(key),
            stats: stats.clone(),
        }
    }
}

impl Accelerator for Cpu {
    fn name(&self) -> &'static str {
        AcceleratorKind::Cpu.name()
    }

    fn submit(&self, job: Job) {
        let start = Instant::now();
        self.stats.job_queue_time.record(job.begin(start));
        // The library's error says nothing that the alert does not: a peer's ciphertext that is out
        // of range for this key, or lack of memory.
        let result = self.key.perform(job.operation()).ok();
        let time = start.elapsed();
        self.stats
            .record_operation(self.key_type, AcceleratorKind::Cpu, time, result.is_some());
        self.stats.record_busy(AcceleratorKind::Cpu, time);
        job.complete(result);
    }
}
