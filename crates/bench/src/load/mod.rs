//! The load generator.
//!
//! A run has four phases. Every client warms up (connections open, caches fill, sessions arrive);
//! then all of them pause, and while the server is idle its CPU time is read; then the clients work
//! until the limit; then they pause again for the second reading. So no operation straddles a
//! reading, and the cost of opening keep-alive connections is not charged to their requests.
//!
//! Clients are tasks on a few single-threaded event loops, which can be pinned away from the
//! server's core. The loops share only the phase and, in runs by count, the number of remaining
//! operations.

mod client;
mod http2;
mod http3;
mod idle;
mod keys;
mod plan;
mod probe;
mod run;
mod stream;
mod tls;

pub use client::EarlyDataCount;
pub(crate) use http3::prepare_socket;
pub use idle::{IdleOutcome, hold_idle};
pub use keys::{Keys, Zipf};
pub use plan::{ConnectionUse, Limit, Plan, Resource};
pub use probe::{Probe, ProbeRecord, ProbeSettings, Sample};
pub(crate) use run::pin_this_thread;
pub use run::{Meter, Outcome, run, run_metered};
pub use tls::{KeyType, Negotiated, Offer, Protocol, Resumption, TlsPlan};
