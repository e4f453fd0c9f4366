//! The load generator.
//!
//! A run has four phases. Every client warms up (connections open, caches
//! fill, sessions arrive), then all of them pause; while the server is idle
//! its CPU account is read; then the clients work until the limit and pause
//! again for the second reading. So no operation straddles a reading, and what
//! opening keep-alive connections costs is not charged to their requests.
//!
//! Clients are tasks on a few single-threaded event loops, which can be pinned
//! away from the server's core. Nothing is shared between the loops but the
//! phase and, in runs by count, the number of operations left.

mod client;
mod http2;
mod idle;
mod plan;
mod probe;
mod run;
mod stream;
mod tls;

pub use client::EarlyDataCount;
pub use http2::Http2Plan;
pub use idle::{IdleOutcome, hold_idle};
pub use plan::{ConnectionUse, Limit, Plan};
pub use probe::{Probe, ProbeRecord, ProbeSettings, Sample};
pub(crate) use run::pin_this_thread;
pub use run::{Meter, Outcome, run, run_metered};
pub use tls::{KeyType, Negotiated, Protocol, Resumption, TlsPlan};
