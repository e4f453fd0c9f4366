//! `ssl_accelerator batch`: computes the queued operations of one RSA key, up to eight at a time,
//! in AVX-512 vectors.
//!
//! Eight operations together cost less than three separate ones. So [`Batch::work`] takes whatever
//! is queued and never waits for more. On an idle machine every operation is alone and goes
//! straight to AWS-LC. The longer the queue, the less each operation costs, which is what ends a
//! storm.
//!
//! Jobs are taken under a lock that is held for a few pointer moves; computing, completing and
//! freeing happen outside it. Several threads may work for one key at the same time.
//!
//! Only the modular exponentiation is done here. AWS-LC does the padding (PKCS #1 v1.5 and PSS, RFC
//! 8017 sections 9.1 and 9.2). Decrypted data goes back to libssl with its padding, and libssl
//! alone examines it, in constant time (RFC 5246 section 7.4.7.1).
//!
//! Every result has been checked by raising it to the public exponent before it gets here
//! ([`RsaKey::checked`]). A wrong result is counted ([`WrongResults`](super::WrongResults)), and
//! AWS-LC, which verifies its own results, repeats the operation.
//!
//! The vectors take the same time for all numbers but not the same power, which an attacker who
//! chooses the numbers could exploit. The client chooses ciphertexts, so they are **blinded**
//! ([`RsaBlinding`]), and the power of the blinded number is what is verified. A fault in the
//! blinding itself fails a handshake but reveals nothing, since blinding computes modulo n, without
//! p and q. Signatures are over a padded hash, which nobody can choose, so that number goes to the
//! vectors unblinded. AWS-LC gets the original operation and does its own blinding.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sealane_awslc::{KeyOperation, PrivateKey, RsaBlinding, RsaUnblinding, Secret, is_rsa_operand};
use sealane_vector::{RSA_LANES, RsaKey, RsaRefused, unsupported};
use zeroize::Zeroizing;

use crate::offload::courtesy;

use super::{Accelerator, AcceleratorKind, HandshakeStats, Job, KeyType, NotSuited, Report};

/// The smallest number of jobs for which vectors are used. A vector call always takes the time of
/// eight operations, which is 2.5 times that of one operation by AWS-LC for RSA-2048 and 2.9 times
/// for RSA-4096. Three would hardly be cheaper together, and all of them would finish as late as
/// the last.
const MIN_VECTOR_JOBS: usize = 4;

/// Eight operations in one call. Tests can substitute a faulty kernel.
pub(super) trait Kernel: Send + Sync + fmt::Debug {
    /// As [`RsaKey::checked`].
    fn checked(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<u8, RsaRefused>;
}

impl Kernel for RsaKey {
    fn checked(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<u8, RsaRefused> {
        RsaKey::checked(self, inputs, outputs)
    }
}

/// A job assigned to one lane of the vectors.
struct Lane<'a> {
    job: Job,
    /// The input for the kernel.
    number: Zeroizing<Vec<u8>>,
    unblinding: Option<RsaUnblinding<'a>>,
}

/// The queue of one key.
pub(super) struct Batch {
    key: PrivateKey,
    key_type: KeyType,
    /// Big-endian, without leading zeros.
    modulus: Vec<u8>,
    kernel: Box<dyn Kernel>,
    blinding: RsaBlinding,
    /// Not bounded here: every job belongs to a connection that has been admitted.
    queue: Mutex<VecDeque<Job>>,
    stats: Arc<HandshakeStats>,
    report: Report,
}

impl Batch {
    /// Imports the key's numbers, if vectors can compute with them.
    pub(super) fn new(
        key: &PrivateKey,
        stats: &Arc<HandshakeStats>,
        report: &Report,
    ) -> Result<Self, NotSuited> {
        suits(KeyType::of(key), key.bits())?;
        let numbers = key.rsa_numbers().ok_or(NotSuited::KeyNumbers)?;
        let kernel = RsaKey::new(
            &numbers.modulus,
            &numbers.exponent,
            [&numbers.primes[0], &numbers.primes[1]],
            [&numbers.exponents[0], &numbers.exponents[1]],
            &numbers.coefficient,
        )
        .ok_or(NotSuited::KeyNumbers)?;
        let blinding = RsaBlinding::new(key).map_err(|_| NotSuited::KeyNumbers)?;
        Ok(Self::with_kernel(
            key,
            numbers.modulus,
            // A batch takes up to a few milliseconds, and requests come first.
            Box::new(kernel.pausing(courtesy::let_others_run)),
            blinding,
            stats,
            report,
        ))
    }

    pub(super) fn with_kernel(
        key: &PrivateKey,
        modulus: Vec<u8>,
        kernel: Box<dyn Kernel>,
        blinding: RsaBlinding,
        stats: &Arc<HandshakeStats>,
        report: &Report,
    ) -> Self {
        Self {
            key: key.clone(),
            key_type: KeyType::of(key),
            modulus,
            kernel,
            blinding,
            queue: Mutex::default(),
            stats: stats.clone(),
            report: report.clone(),
        }
    }
}

/// Whether batches suit this processor and keys of this type.
///
/// # Errors
///
/// Why not.
pub(crate) fn suits(key_type: KeyType, bits: u32) -> Result<(), NotSuited> {
    is_batch_possible()?;
    match key_type {
        KeyType::Rsa2048 | KeyType::Rsa3072 | KeyType::Rsa4096 => Ok(()),
        KeyType::RsaOther => Err(NotSuited::KeyBits(bits)),
        _ => Err(NotSuited::KeyType(key_type)),
    }
}

/// Whether this processor can compute in batches at all. The error says why not.
///
/// # Errors
///
/// What the processor lacks.
pub fn is_batch_possible() -> Result<(), NotSuited> {
    unsupported().map_or(Ok(()), |why| Err(NotSuited::Processor(why)))
}

impl Accelerator for Batch {
    fn name(&self) -> &'static str {
        AcceleratorKind::Batch.name()
    }

    fn submit(&self, job: Job) {
        let mut gone = Vec::new();
        let mut queue = self.lock();
        // Cancelled jobs must not pile up, even if their submitters go away before calling `work`.
        while queue.front().is_some_and(Job::is_cancelled) {
            gone.extend(queue.pop_front());
        }
        queue.push_back(job);
        drop(queue);
        self.stats.queued_jobs.raise(1);
        self.forget(gone);
    }

    fn work(&self) -> bool {
        let jobs = self.take();
        if jobs.is_empty() {
            return false;
        }
        let start = Instant::now();
        self.stats.record_batch(jobs.len());
        for job in &jobs {
            self.stats.job_queue_time.record(job.begin(start));
        }
        if jobs.len() < MIN_VECTOR_JOBS {
            self.compute_alone(jobs);
        } else {
            self.compute_together(jobs);
        }
        self.stats
            .record_busy(AcceleratorKind::Batch, start.elapsed());
        true
    }

    fn queued(&self) -> usize {
        self.lock().len()
    }

    fn batch_size(&self) -> usize {
        match self.stats.wrong_results.are_too_many() {
            false => RSA_LANES,
            true => 1,
        }
    }
}

impl Batch {
    /// Takes jobs that have not been cancelled: as many as one kernel call takes, or a single job
    /// if a batch does not pay. The remaining jobs are left to another thread, or to this one when
    /// it comes back and may find more.
    fn take(&self) -> Vec<Job> {
        let most = self.batch_size();
        let mut taken = Vec::with_capacity(most);
        let mut gone = Vec::new();
        let mut queue = self.lock();
        while taken.len() < most
            && let Some(job) = queue.pop_front()
        {
            match job.is_cancelled() {
                true => gone.push(job),
                false => taken.push(job),
            }
        }
        if taken.len() < MIN_VECTOR_JOBS {
            for job in taken.drain(taken.len().min(1)..).rev() {
                queue.push_front(job);
            }
        }
        drop(queue);
        self.stats.queued_jobs.lower(taken.len());
        self.forget(gone);
        taken
    }

    /// Frees queued jobs that have been cancelled.
    fn forget(&self, gone: Vec<Job>) {
        if !gone.is_empty() {
            self.stats.queued_jobs.lower(gone.len());
            self.stats.cancelled_jobs.add(gone.len() as u64);
        }
    }

    fn compute_together(&self, jobs: Vec<Job>) {
        let start = Instant::now();
        let mut alone = Vec::new();
        let mut lanes = Vec::with_capacity(jobs.len());
        for job in jobs {
            match self.lane(job) {
                Ok(lane) => lanes.push(lane),
                Err(job) => alone.push(job),
            }
        }
        if lanes.len() < MIN_VECTOR_JOBS {
            alone.extend(lanes.into_iter().map(|lane| lane.job));
            return self.compute_alone(alone);
        }
        let bytes = self.modulus.len();
        let mut results = vec![Zeroizing::new(vec![0; bytes]); lanes.len()];
        let inputs: Vec<&[u8]> = lanes.iter().map(|lane| &lane.number[..]).collect();
        let mut outputs: Vec<&mut [u8]> =
            results.iter_mut().map(|result| &mut result[..]).collect();
        // Every number was found to be in range, so nothing is refused. If something were, all jobs
        // would fall back to AWS-LC without being counted as wrong.
        let (wrong, refused) = match self.kernel.checked(&inputs, &mut outputs) {
            Ok(wrong) => (wrong, 0),
            Err(_) => (0, u8::MAX),
        };
        let time = start.elapsed();
        for (n, (lane, mut result)) in lanes.into_iter().zip(results).enumerate() {
            let is_right = (wrong | refused) >> n & 1 == 0;
            // A failure for lack of memory is not a wrong result; it falls back to AWS-LC as well.
            if !is_right || !is_unblinded(lane.unblinding, &mut result) {
                alone.push(lane.job);
                continue;
            }
            self.stats
                .record_operation(self.key_type, AcceleratorKind::Batch, time, true);
            lane.job
                .complete(Some(Secret::new(mem::take(&mut *result))));
        }
        if wrong != 0 {
            let told = self
                .stats
                .wrong_results
                .add(u64::from(wrong.count_ones()), Instant::now());
            if let Some(text) = told {
                (self.report)(&text);
            }
        }
        self.compute_alone(alone);
    }

    /// Makes a lane for a job, if vectors can compute it. Ciphertexts that cannot be blinded are
    /// not.
    fn lane(&self, job: Job) -> Result<Lane<'_>, Job> {
        let Some(mut number) = self.number_of(&job).map(Zeroizing::new) else {
            return Err(job);
        };
        let unblinding = match job.operation() {
            KeyOperation::Sign { .. } => None,
            KeyOperation::Decrypt { .. } => match self.blinding.blind(&mut number) {
                Ok(unblinding) => Some(unblinding),
                Err(_) => return Err(job),
            },
        };
        Ok(Lane {
            job,
            number,
            unblinding,
        })
    }

    /// The number to raise to the private exponent, if AWS-LC would accept it. A client must not be
    /// able to keep others off the vectors.
    fn number_of(&self, job: &Job) -> Option<Vec<u8>> {
        let number = self.key.rsa_encoded(job.operation()).ok()?;
        is_rsa_operand(&number, &self.modulus).then_some(number)
    }

    /// Computes each job separately with AWS-LC, which also rejects invalid operations.
    fn compute_alone(&self, jobs: Vec<Job>) {
        for job in jobs {
            let start = Instant::now();
            let result = self.key.perform(job.operation()).ok();
            self.stats.record_operation(
                self.key_type,
                AcceleratorKind::Batch,
                start.elapsed(),
                result.is_some(),
            );
            job.complete(result);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Job>> {
        // A queue is consistent between any two of its method calls.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the blinding from a result, if it was blinded. `false`: that failed, and the result is
/// unusable.
fn is_unblinded(unblinding: Option<RsaUnblinding<'_>>, result: &mut [u8]) -> bool {
    unblinding.is_none_or(|unblinding| unblinding.unblind(result).is_ok())
}

impl Drop for Batch {
    fn drop(&mut self) {
        // The jobs are dropped with the queue, and anyone still waiting for one learns that it
        // failed.
        self.stats.queued_jobs.lower(self.lock().len());
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("key_type", &self.key_type)
            .field("queued", &self.queued())
            .finish_non_exhaustive()
    }
}
