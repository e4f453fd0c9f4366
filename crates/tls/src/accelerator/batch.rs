//! `ssl_accelerator batch`: what is queued of one RSA key, up to eight operations at a time in
//! AVX-512 vectors.
//!
//! Eight together cost less than three one by one. So [`Batch::work`] takes what waits, and never
//! waits for more: on an idle machine every operation is alone and goes to AWS-LC at once;
//! the longer the queue, the less each costs, which is what ends a storm.
//!
//! Jobs are taken under a lock that is held for a few moves of pointers; computing, completing
//! and freeing happen without it. Several threads may work for one key at the same time.
//!
//! Only the power is computed here. Padding (PKCS #1 v1.5 and PSS, RFC 8017 sections 9.1 and 9.2)
//! is AWS-LC's, and what was decrypted goes back to libssl as it is, padding included: libssl
//! alone looks at it, in constant time (RFC 5246 section 7.4.7.1).
//!
//! Every result was raised to the public exponent before it comes here ([`RsaKey::checked`]).
//! One that was wrong is computed again by AWS-LC, which verifies its own, and counted
//! ([`WrongResults`](super::WrongResults)).
//!
//! The vectors take the same time for all numbers, but not the same power, which those who choose
//! the numbers could make use of. Ciphertexts are the client's choice, and **blinded**
//! ([`RsaBlinding`]); it is the power of the blinded number that is verified. A fault in the blinding
//! itself fails a handshake and gives nothing away, since it computes modulo n, without p and q. What is
//! signed is a hash in a padding, which nobody can choose, and goes to the vectors as it is. AWS-LC
//! gets the operation itself, and blinds on its own.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sealane_awslc::{KeyOperation, PrivateKey, RsaBlinding, RsaUnblinding, Secret};
use sealane_vector::{RSA_LANES, RsaKey, RsaRefused, unsupported};
use zeroize::Zeroizing;

use crate::offload::courtesy;

use super::{Accelerator, AcceleratorKind, HandshakeStats, Job, KeyType, NotSuited, Report};

/// From this many on vectors are used. Their time is always that of eight, 2.5 times that of one
/// by AWS-LC for RSA-2048 and 2.9 times for RSA-4096: three would hardly be cheaper together,
/// and all of them as late as the last.
const MIN_VECTOR_JOBS: usize = 4;

/// Eight operations in one call; a test can put a faulty one in its place.
pub(super) trait Kernel: Send + Sync + fmt::Debug {
    /// As [`RsaKey::checked`].
    fn checked(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<u8, RsaRefused>;
}

impl Kernel for RsaKey {
    fn checked(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<u8, RsaRefused> {
        RsaKey::checked(self, inputs, outputs)
    }
}

/// A job in one lane of the vectors.
struct Lane<'a> {
    job: Job,
    /// What the kernel gets.
    number: Zeroizing<Vec<u8>>,
    unblinding: Option<RsaUnblinding<'a>>,
}

/// The queue of one key.
pub(super) struct Batch {
    key: PrivateKey,
    key_type: KeyType,
    /// The modulus less one, big-endian, without leading zeros.
    largest: Vec<u8>,
    kernel: Box<dyn Kernel>,
    blinding: RsaBlinding,
    /// Not bounded here: every job belongs to a connection, and those were admitted.
    queue: Mutex<VecDeque<Job>>,
    stats: Arc<HandshakeStats>,
    report: Report,
}

impl Batch {
    /// Takes the key's numbers over, if vectors can compute with them.
    pub(super) fn new(
        key: &PrivateKey,
        stats: &Arc<HandshakeStats>,
        report: &Report,
    ) -> Result<Self, NotSuited> {
        is_batch_possible()?;
        let key_type = KeyType::of(key);
        match key_type {
            KeyType::Rsa2048 | KeyType::Rsa3072 | KeyType::Rsa4096 => {}
            KeyType::RsaOther => return Err(NotSuited::KeyBits(key.bits())),
            _ => return Err(NotSuited::KeyType(key_type)),
        }
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
            // A batch takes up to some milliseconds: requests come first.
            Box::new(kernel.pausing(courtesy::within_batch)),
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
        let mut largest = modulus;
        if let Some(last) = largest.last_mut() {
            *last &= !1; // The modulus is odd.
        }
        Self {
            key: key.clone(),
            key_type: KeyType::of(key),
            largest,
            kernel,
            blinding,
            queue: Mutex::default(),
            stats: stats.clone(),
            report: report.clone(),
        }
    }
}

/// Whether this processor can compute in batches at all; the error says why not.
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
        // Dead jobs do not pile up, even if those who submit die before they work.
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
    /// Takes jobs that somebody still waits for: as many as one call of the kernel takes, or one
    /// where that does not pay. Then the next is left to another thread, or to this one
    /// when it comes back and perhaps finds more.
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

    /// Frees jobs that nobody waits for, which were in the queue.
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
        let bytes = self.largest.len();
        let mut results = vec![Zeroizing::new(vec![0; bytes]); lanes.len()];
        let inputs: Vec<&[u8]> = lanes.iter().map(|lane| &lane.number[..]).collect();
        let mut outputs: Vec<&mut [u8]> =
            results.iter_mut().map(|result| &mut result[..]).collect();
        // Every number was found to be in range, so that nothing is refused; if it were, all
        // would go the other way, without being counted as wrong.
        let (wrong, refused) = match self.kernel.checked(&inputs, &mut outputs) {
            Ok(wrong) => (wrong, 0),
            Err(_) => (0, u8::MAX),
        };
        let time = start.elapsed();
        for (n, (lane, mut result)) in lanes.into_iter().zip(results).enumerate() {
            let is_right = (wrong | refused) >> n & 1 == 0;
            // What fails for want of memory is no wrong result, and goes the other way as well.
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

    /// Makes a lane of a job, if vectors can compute it. Ciphertexts that cannot be blinded do not
    /// get there.
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

    /// The number to raise to the private exponent, if AWS-LC would: it refuses 0, 1, n - 1 and what is
    /// above. A client may send any ciphertext, must get the same answer from
    /// every accelerator, and must not keep others from the vectors by it. Nothing about the number is
    /// secret: ciphertext and signature are on the wire.
    fn number_of(&self, job: &Job) -> Option<Vec<u8>> {
        let number = self.key.rsa_encoded(job.operation()).ok()?;
        let (last, others) = number.split_last()?;
        let is_tiny = *last <= 1 && others.iter().all(|byte| *byte == 0);
        // Of equal length, the order of numbers is that of their bytes.
        let is_large = number.len() != self.largest.len() || number >= self.largest;
        (!is_tiny && !is_large).then_some(number)
    }

    /// AWS-LC, one by one, which also says no to what is wrong with an operation.
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
        // A queue is whole between any two of its methods.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Unblinds a result that was blinded. `false`: it could not, and is of no use.
fn is_unblinded(unblinding: Option<RsaUnblinding<'_>>, result: &mut [u8]) -> bool {
    unblinding.is_none_or(|unblinding| unblinding.unblind(result).is_ok())
}

impl Drop for Batch {
    fn drop(&mut self) {
        // The jobs go with the queue, and whoever still waits for one learns that it failed.
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
