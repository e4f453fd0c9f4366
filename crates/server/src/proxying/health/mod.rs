//! Active health checks: `health_check` of nginx's commercial edition, and Tengine's `check`.
//!
//! One thread of the worker process carries them out for all worker threads, on an event loop of
//! its own. Workers see verdicts only: one atomic number of each peer (`sealane_upstream`).
//!
//! ```text
//! Schedule: which peer is due -> probe (located or raw) -> what it found
//!     ^                                                        │
//!     └── so many failures, or passes, in a row? ──────────────┴─> verdict of the peer
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `tasks` | what the configuration asks for |
//! | `schedule` | when each peer is asked, and what follows from the result; without I/O |
//! | `runner` | the thread |
//! | `located` | a request as the location would send it |
//! | `raw` | Tengine's types |
//! | `sharing` | what nodes tell each other through a store |
//! | `slices` | which node asks; without I/O |
//! | `record` | what is told |
//! | `expect` | whether a response is right |

mod expect;
mod located;
mod raw;
mod record;
mod runner;
mod schedule;
mod sharing;
mod slices;
mod tasks;

pub use runner::HealthChecks;
pub use tasks::KnownVerdict;
pub(crate) use tasks::{HealthTask, settings, settings_of_check, take_over};

use super::failure::Failure;
use super::peer_connection::PeerConnection;
use std::fmt;
use std::time::Instant;

/// Why a peer did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault(String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        Fault(failure.to_string())
    }
}

/// A connection that carries further checks of its peer.
struct KeptProbe {
    connection: PeerConnection,
    opened: Instant,
    /// Checks that it has carried.
    checks: u32,
}
