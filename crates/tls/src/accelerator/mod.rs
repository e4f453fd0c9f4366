//! Who computes with a server's private key.
//!
//! A full handshake needs one operation with the private key, and that is nearly all of its
//! cost. libssl does not have the key here: it asks for a [`KeyOperation`], which becomes a
//! [`Job`] for the [`Accelerator`] of that key. Whoever drives the connection keeps the
//! [`PendingJob`].
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
//! **One instance, one key.** What belongs to a key (its numbers in the form that vectors need,
//! a session with a device and the handle of an object in it) is made once, when the
//! configuration is read, and shared by all threads.
//!
//! **Submit now, complete later.** [`Accelerator::submit`] never waits. A job is completed
//! before `submit` returns or at any time later, by any thread, in any order. An accelerator without
//! threads of its own computes in [`Accelerator::work`], which the handshake pool, and a worker
//! that waits for its own job, call as often as something is queued.
//!
//! **Cancelling is dropping.** A connection that dies drops its [`PendingJob`]. Nobody waits for the
//! accelerator then: it finds [`Job::is_cancelled`] when the job's turn comes and drops the
//! job, or completes it, and the result is wiped. Memory is freed by whichever of the two halves
//! goes last.
//!
//! **Every job ends.** A job that is dropped uncompleted (an accelerator that stops, a thread that
//! panics) has failed, and its waiter is woken.
//!
//! **A failure costs one handshake.** It ends with an alert, `internal_error`, and nothing else
//! happens: no other accelerator is tried by the caller. One that has another way to
//! compute the same, as `batch` has, takes it itself. How long to wait is the caller's
//! business too (`ssl_handshake_timeout`).
//!
//! **The accelerator verifies.** A result that is wrong by a fault of memory or processor can give
//! an RSA key away (Boneh, DeMillo and Lipton), so that whoever computes answers for the result:
//! AWS-LC raises its own to the public exponent, `batch` does the same with what the vectors
//! return, and an implementation that talks to a device, a bus or another process has to.
//!
//! **The accelerator blinds.** The ciphertexts of TLS 1.2's RSA key exchange are the client's choice. Who
//! computes with them shall not let him see, by time or by power, what the key makes of
//! them: AWS-LC blinds all that it computes, `batch` all ciphertexts, and devices answer for themselves.
//!
//! **Queues are not bounded here.** One connection has one job at most, and connections are admitted
//! by `worker_connections`, `ssl_handshake_queue` and `ssl_handshake_timeout`.
//!
//! # What else fits
//!
//! | | `submit` | completes | `work` |
//! |---|---|---|---|
//! | an HSM (PKCS #11) | into a bounded channel; threads of its own, one session each, call `C_Sign` or `C_Decrypt`, which block | those threads | nothing |
//! | a process that holds the keys | numbers the job and writes one frame to a socket | the thread that reads the answers | nothing |
//! | Intel QAT | puts a request into a ring; a full ring keeps the job in a queue here | whoever polls the ring | polls it |
//!
//! None of them has the key in this process, so that they are built from a key's name and its
//! certificate instead of a [`PrivateKey`]. What a [`KeyOperation`] holds is enough for each:
//! a device that hashes and pads gets the message and the scheme, one that only raises
//! numbers to powers gets [`PrivateKey::rsa_encoded`]'s, which needs the modulus alone.
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
use cpu::Cpu;
pub use job::{Job, PendingJob, job};
pub use stats::{
    AcceleratorKind, BUCKET_BOUNDS, Counter, Gauge, HandshakeStats, Histogram, HistogramValues,
    KeyType,
};
pub use wrong_results::{MAX_WRONG_RESULTS, WrongResults};

/// Computes with one private key. The module's documentation has the contract.
pub trait Accelerator: Send + Sync + fmt::Debug {
    /// A word for logs and labels: `cpu`, `batch`.
    fn name(&self) -> &'static str;

    /// Takes a job over and completes it, before this returns or later, from any thread. Does not
    /// wait for anything.
    fn submit(&self, job: Job);

    /// For accelerators without threads of their own: computes queued jobs, one batch of them,
    /// on the calling thread. `false`: nothing was queued.
    fn work(&self) -> bool {
        false
    }

    /// Jobs that wait for a call of [`work`](Self::work).
    fn queued(&self) -> usize {
        0
    }

    /// Jobs that one call of [`work`](Self::work) takes at most. As long as fewer wait, a pool does
    /// better to begin other handshakes first.
    fn batch_size(&self) -> usize {
        1
    }
}

/// Tells the operator, at level alert.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// `ssl_accelerator`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AcceleratorChoice {
    /// `batch` for keys and processors that it suits, else `cpu`.
    #[default]
    Auto,
    /// AWS-LC.
    Cpu,
    /// Vectors, and nothing else.
    Batch,
}

/// Why `batch` cannot serve. The text continues "`batch` cannot be used: ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSuited {
    /// This processor cannot: the clause says what it lacks.
    Processor(&'static str),
    /// The key is not an RSA key.
    KeyType(KeyType),
    /// An RSA key of this many bits.
    KeyBits(u32),
    /// An RSA key whose numbers cannot be had, or that vectors cannot compute with.
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

/// Makes the accelerator of `key`. Fails only if `batch` is asked for in so many words and
/// cannot be had; the caller decides whether that is an error.
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
