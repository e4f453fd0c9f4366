//! Computing with a server's private key.
//!
//! A full handshake needs one operation with the private key, which is nearly all of its cost.
//! libssl does not have the key here: it asks for a [`KeyOperation`], which becomes a [`Job`] for
//! the [`Accelerator`] of that key. The [`PendingJob`] stays with whoever drives the connection.
//!
//! ```text
//! connection                                   accelerator of the key
//!    job(operation) -> (Job, PendingJob)
//!                        └────── submit ─────────> computes now, or queues it
//!    PendingJob::poll <──── wakes ──────────────── Job::complete, from any thread
//! ```
//!
//! # The contract
//!
//! **One instance, one key.** Everything tied to a key (its numbers in the form that vectors need,
//! a session with a device and the handle of an object in it) is set up once, when the
//! configuration is read, and shared by all threads.
//!
//! **Submit now, complete later.** [`Accelerator::submit`] never waits. A job is completed before
//! `submit` returns or at any later time, by any thread, in any order. An accelerator without its
//! own threads computes in [`Accelerator::work`]. The handshake pool calls it as long as something
//! is queued, and so does a worker that waits for its own job.
//!
//! **Dropping cancels.** A connection that dies drops its [`PendingJob`] and does not wait for the
//! accelerator. When the job's turn comes, the accelerator sees [`Job::is_cancelled`] and drops the
//! job, or completes it and the result is wiped. The memory is freed with the last of the two
//! halves.
//!
//! **Every job ends.** A job that is dropped before completion (an accelerator that stops, a thread
//! that panics) has failed, and its waiter is woken.
//!
//! **A failure costs one handshake.** That handshake ends with the alert `internal_error`, and
//! nothing else happens: the caller does not try another accelerator. An accelerator that has
//! another way to compute the result, such as `batch`, uses it itself. How long to wait is up to
//! the caller too (`ssl_handshake_timeout`).
//!
//! **The accelerator verifies.** A result that is wrong because of a memory or processor fault can
//! reveal an RSA key (Boneh, DeMillo and Lipton), so every accelerator answers for its results.
//! AWS-LC raises its own to the public exponent, `batch` does the same with the results of the
//! vectors, and an implementation that talks to a device, a bus or another process must do so too.
//!
//! **The accelerator blinds.** In the RSA key exchange of TLS 1.2 the client chooses the
//! ciphertext. It must not learn from time or power what the key makes of it. AWS-LC blinds
//! everything it computes, `batch` blinds all ciphertexts, and devices must do their own blinding.
//!
//! **Queues are not bounded here.** A connection has at most one job, and `worker_connections`,
//! `ssl_handshake_queue` and `ssl_handshake_timeout` limit connections.
//!
//! # What else fits
//!
//! | | `submit` | completes | `work` |
//! |---|---|---|---|
//! | an HSM (PKCS #11): the crate `sealane-pkcs11` | into a bounded queue; threads of its own, one session each, call `C_Sign` or `C_Decrypt`, which block | those threads | nothing |
//! | a process that holds the keys | numbers the job and writes one frame to a socket | the thread that reads the answers | nothing |
//! | a provider of OpenSSL (`crates/provider`): Intel QAT, a TPM | into a queue; a thread of its own runs asynchronous jobs, which the provider pauses | that thread | nothing |
//!
//! None of these has the key in this process, so they are built from a key's name and its
//! certificate instead of a [`PrivateKey`]. A [`KeyOperation`] holds enough for each: a device that
//! hashes and pads gets the message and the scheme; a device that only does the exponentiation gets
//! the output of [`PrivateKey::rsa_encoded`], which needs only the modulus.
//!
//! | file | what |
//! |---|---|
//! | `job.rs` | [`Job`] and [`PendingJob`], the two halves of an operation |
//! | `cpu.rs` | `cpu`: AWS-LC, at once, on the calling thread |
//! | `batch.rs` | `batch`: eight RSA operations of one key at a time in vectors |
//! | `wrong_results.rs` | [`WrongResults`]: when a processor errs |
//! | `stats.rs` | [`HandshakeStats`]: what was done and how long it took |

mod batch;
mod cpu;
mod job;
mod stats;
#[cfg(test)]
mod tests;
mod wrong_results;

use std::fmt;
use std::sync::Arc;

#[cfg(doc)]
use sealane_awslc::KeyOperation;
use sealane_awslc::PrivateKey;

use batch::Batch;
pub use batch::is_batch_possible;
pub(crate) use batch::suits as suits_batch;
use cpu::Cpu;
pub use job::{Job, PendingJob, job};
pub use stats::{AcceleratorKind, HandshakeCounts, HandshakeStats, KeyType};
pub use wrong_results::{MAX_WRONG_RESULTS, WrongResults};

/// Computes with one private key. See the module documentation for the contract.
pub trait Accelerator: Send + Sync + fmt::Debug {
    /// A word for logs and labels: `cpu`, `batch`.
    fn name(&self) -> &'static str;

    /// Takes over a job and completes it, before returning or later, from any thread. Never blocks.
    fn submit(&self, job: Job);

    /// For accelerators without their own threads: computes one batch of queued jobs on the calling
    /// thread. `false`: nothing was queued.
    fn work(&self) -> bool {
        false
    }

    /// Jobs waiting for a call of [`work`](Self::work).
    fn queued(&self) -> usize {
        0
    }

    /// Whether another process computes: the calling thread loses no time to it.
    fn is_elsewhere(&self) -> bool {
        false
    }

    /// The most jobs that one call of [`work`](Self::work) takes. While fewer are queued, a pool
    /// does better to begin other handshakes first.
    fn batch_size(&self) -> usize {
        1
    }
}

/// Reports to the operator, at level alert.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// `ssl_accelerator`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AcceleratorChoice {
    /// `batch` for keys and processors that it suits, otherwise `cpu`.
    #[default]
    Auto,
    /// AWS-LC.
    Cpu,
    /// Vectors, and nothing else.
    Batch,
}

/// Why `batch` cannot be used. The text continues "`batch` cannot be used: ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSuited {
    /// The processor lacks a feature; the clause says which.
    Processor(&'static str),
    /// The key is not an RSA key.
    KeyType(KeyType),
    /// An RSA key of this many bits.
    KeyBits(u32),
    /// An RSA key whose numbers are unavailable, or with which vectors cannot compute.
    KeyNumbers,
}

impl fmt::Display for NotSuited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processor(why) => write!(
                f,
                "{why} (AVX-512 IFMA is in Intel's server processors since Ice Lake and in AMD's \
                 since Zen 4; a virtual machine has it if its host shows it)"
            ),
            Self::KeyType(key) => {
                write!(f, "it computes with RSA keys only, and this key is {key}")
            }
            Self::KeyBits(bits) => write!(
                f,
                "it computes with RSA keys of 2048, 3072 and 4096 bits, and this key has {bits}"
            ),
            Self::KeyNumbers => {
                f.write_str("the key does not contain its two primes, or they differ in length")
            }
        }
    }
}

impl std::error::Error for NotSuited {}

/// Makes the accelerator for `key`. Fails only if `batch` is requested explicitly and cannot be
/// used; the caller decides whether that is an error.
///
/// # Errors
///
/// The key or the processor does not suit the accelerator that was chosen.
pub fn build(
    choice: AcceleratorChoice,
    key: &PrivateKey,
    stats: &Arc<HandshakeStats>,
    report: &Report,
) -> Result<Arc<dyn Accelerator>, NotSuited> {
    let cpu = || Ok(Arc::new(Cpu::new(key, stats)) as Arc<dyn Accelerator>);
    if choice == AcceleratorChoice::Cpu {
        return cpu();
    }
    match Batch::new(key, stats, report) {
        Ok(batch) => Ok(Arc::new(batch)),
        Err(_) if choice == AcceleratorChoice::Auto => cpu(),
        Err(why) => Err(why),
    }
}
