//! Counters for the cost and the waiting times of handshakes.
//!
//! One [`HandshakeStats`] serves all servers and threads of a process. Every update is a relaxed
//! atomic addition: a few for a handshake that costs a hundred thousand instructions. What is
//! counted ([`HandshakeCounts`]) outlives the process; what waits at the moment does not.

use std::array;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use sealane_awslc::{KeyKind, PrivateKey};
use sealane_counters::{Counter, Histogram, HistogramValues, Level, Placed};
use sealane_vector::RSA_LANES;
use zerocopy::{FromBytes, IntoBytes};

use super::WrongResults;

/// The type of a key, as far as it affects the cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// RSA, 2048 bits.
    Rsa2048,
    /// RSA, 3072 bits.
    Rsa3072,
    /// RSA, 4096 bits.
    Rsa4096,
    /// RSA of another size.
    RsaOther,
    /// ECDSA on P-256.
    EcP256,
    /// ECDSA on P-384.
    EcP384,
    /// ECDSA on P-521.
    EcP521,
    /// Ed25519.
    Ed25519,
    /// Something else.
    Other,
}

impl KeyType {
    /// Every type.
    pub const ALL: [Self; 9] = [
        Self::Rsa2048,
        Self::Rsa3072,
        Self::Rsa4096,
        Self::RsaOther,
        Self::EcP256,
        Self::EcP384,
        Self::EcP521,
        Self::Ed25519,
        Self::Other,
    ];

    /// The type of a key.
    pub fn of(key: &PrivateKey) -> Self {
        Self::new(key.kind(), key.bits())
    }

    /// The type of a key of this kind and size.
    pub fn new(kind: KeyKind, bits: u32) -> Self {
        match (kind, bits) {
            (KeyKind::Rsa, 2048) => Self::Rsa2048,
            (KeyKind::Rsa, 3072) => Self::Rsa3072,
            (KeyKind::Rsa, 4096) => Self::Rsa4096,
            (KeyKind::Rsa, _) => Self::RsaOther,
            (KeyKind::EcP256, _) => Self::EcP256,
            (KeyKind::EcP384, _) => Self::EcP384,
            (KeyKind::EcP521, _) => Self::EcP521,
            (KeyKind::Ed25519, _) => Self::Ed25519,
            (KeyKind::Other, _) => Self::Other,
        }
    }

    /// Whether it is an RSA key of whichever size.
    pub fn is_rsa(self) -> bool {
        matches!(
            self,
            Self::Rsa2048 | Self::Rsa3072 | Self::Rsa4096 | Self::RsaOther
        )
    }

    /// Whether an operation takes 0.1 ms or more (RSA, the larger curves), not some 10 us.
    pub fn is_expensive(self) -> bool {
        self.is_rsa() || matches!(self, Self::EcP384 | Self::EcP521)
    }

    /// A word for labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa2048",
            Self::Rsa3072 => "rsa3072",
            Self::Rsa4096 => "rsa4096",
            Self::RsaOther => "rsa_other",
            Self::EcP256 => "p256",
            Self::EcP384 => "p384",
            Self::EcP521 => "p521",
            Self::Ed25519 => "ed25519",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rsa2048 => "RSA with 2048 bits",
            Self::Rsa3072 => "RSA with 3072 bits",
            Self::Rsa4096 => "RSA with 4096 bits",
            Self::RsaOther => "RSA of an unusual size",
            Self::EcP256 => "ECDSA on P-256",
            Self::EcP384 => "ECDSA on P-384",
            Self::EcP521 => "ECDSA on P-521",
            Self::Ed25519 => "Ed25519",
            Self::Other => "of a kind that TLS servers do not use",
        })
    }
}

/// An accelerator, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcceleratorKind {
    /// AWS-LC on the calling thread.
    Cpu,
    /// Eight at a time in vectors.
    Batch,
}

impl AcceleratorKind {
    /// Every accelerator.
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Batch];

    /// A word for logs and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Batch => "batch",
        }
    }
}

/// Counters and levels of handshakes.
pub struct HandshakeStats {
    counts: Placed<HandshakeCounts>,
    /// Wrong results from the vectors, which were computed again.
    pub wrong_results: WrongResults,
    /// Jobs that wait in accelerators.
    pub queued_jobs: Level,
    /// Flights that wait in the pool for a thread.
    pub queued_flights: Level,
}

/// Counters and histograms of handshakes. They only grow.
#[derive(Default, FromBytes, IntoBytes)]
#[repr(C)]
pub struct HandshakeCounts {
    operation_time: [[Histogram; AcceleratorKind::ALL.len()]; KeyType::ALL.len()],
    busy_ns: [Counter; AcceleratorKind::ALL.len()],
    batches: [Counter; RSA_LANES],
    /// How long jobs waited in an accelerator for their turn.
    pub job_queue_time: Histogram,
    /// How long flights waited in the pool until a thread took them.
    pub flight_queue_time: Histogram,
    /// How long flights were away from their worker, including waiting.
    pub flight_time: Histogram,
    /// How long handshakes took, from the client's first byte to the end.
    pub handshake_time: Histogram,
    /// How long they waited of that: for their turn, for threads, for accelerators.
    pub handshake_queue_time: Histogram,
    /// Operations that failed; their handshakes ended with an alert.
    pub failed_jobs: Counter,
    /// Operations that were not computed because their connections were gone.
    pub cancelled_jobs: Counter,
    /// Flights that a worker gave to the pool.
    pub flights_handed_over: Counter,
    /// Handshakes refused because too many were waiting.
    pub shed_handshakes: Counter,
}

impl Default for HandshakeStats {
    /// The counters of the server, and the levels of this process.
    fn default() -> HandshakeStats {
        HandshakeStats {
            counts: Placed::named("tls handshakes"),
            wrong_results: WrongResults::default(),
            queued_jobs: Level::default(),
            queued_flights: Level::default(),
        }
    }
}

impl Deref for HandshakeStats {
    type Target = HandshakeCounts;

    fn deref(&self) -> &HandshakeCounts {
        &self.counts
    }
}

impl HandshakeCounts {
    /// How long operations took from their turn to their end. Every operation in a batch took as
    /// long as the batch; [`busy_time`](Self::busy_time) is the actual cost.
    pub fn operation_time(&self, key: KeyType, accelerator: AcceleratorKind) -> HistogramValues {
        self.operation_time[key as usize][accelerator as usize].values()
    }

    /// Time that threads have spent computing in an accelerator.
    pub fn busy_time(&self, accelerator: AcceleratorKind) -> Duration {
        Duration::from_nanos(self.busy_ns[accelerator as usize].get())
    }

    /// Calls of `batch` by the number of operations computed, from one to [`RSA_LANES`].
    pub fn batches(&self) -> [u64; RSA_LANES] {
        array::from_fn(|index| self.batches[index].get())
    }

    /// Operations that ended, failed ones included.
    pub(crate) fn jobs_done(&self) -> u64 {
        let cells = self.operation_time.iter().flatten();
        cells.map(|histogram| histogram.values().count()).sum()
    }

    /// Counts an operation that has ended.
    pub fn record_operation(
        &self,
        key: KeyType,
        accelerator: AcceleratorKind,
        time: Duration,
        is_ok: bool,
    ) {
        self.operation_time[key as usize][accelerator as usize].record(time);
        if !is_ok {
            self.failed_jobs.add(1);
        }
    }

    /// Counts time that a thread has spent computing.
    pub fn record_busy(&self, accelerator: AcceleratorKind, time: Duration) {
        self.busy_ns[accelerator as usize].add(nanoseconds(time));
    }

    /// Counts a call of `batch` that computed `operations`.
    pub fn record_batch(&self, operations: usize) {
        if let Some(calls) = operations.checked_sub(1).and_then(|n| self.batches.get(n)) {
            calls.add(1);
        }
    }
}

impl fmt::Debug for HandshakeStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandshakeStats")
            .field("jobs_done", &self.jobs_done())
            .field("batches", &self.batches())
            .field("failed_jobs", &self.failed_jobs)
            .field("cancelled_jobs", &self.cancelled_jobs)
            .field("wrong_results", &self.wrong_results)
            .field("flights_handed_over", &self.flights_handed_over)
            .field("shed_handshakes", &self.shed_handshakes)
            .field("queued_jobs", &self.queued_jobs)
            .field("queued_flights", &self.queued_flights)
            .finish_non_exhaustive()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
