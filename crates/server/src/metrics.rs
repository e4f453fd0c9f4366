//! Everything that is counted, under the names that a scraper sees.
//!
//! A counter belongs to the part that counts, and counting costs one addition. What is read here is
//! read while it changes: numbers of one answer may differ by what has happened meanwhile.
//!
//! There is one list, [`Families`]. `metrics` sends it as OpenMetrics or as JSON; the page and the
//! terminal read the JSON. Names follow Prometheus' conventions and do not change once released.
//! Labels come from the configuration, or from lists in the code: clients cannot make new ones.
//!
//! | file | what it lists |
//! |---|---|
//! | `families.rs` | [`Families`], and its two formats |
//! | `threads.rs` | connections, requests and HTTP/2, over all worker threads |
//! | `handshakes.rs`, `sessions.rs` | TLS |
//! | `zones.rs` | servers and locations |
//! | `upstreams.rs`, `caches.rs`, `limits.rs`, `traces.rs` | the same for these |
//! | `certificates.rs` | when certificates and staples end |
//! | `process.rs` | the process: memory, descriptors, its configuration, logs |

mod caches;
mod certificates;
mod families;
mod handshakes;
mod limits;
mod process;
mod sessions;
mod threads;
mod traces;
mod upstreams;
mod zones;

pub use self::families::Families;
pub use self::process::{
    ProcessCounts, RESOLVER_RESULTS, ResolverCounts, STORE_RESULTS, StoreCounts, unix_s,
};

use crate::worker::Process;
use std::sync::Arc;

/// All metrics of the server, as this process knows them.
pub fn collect(process: &Arc<Process>) -> Families {
    let mut families = Families::default();
    let Some(worker) = process.workers().first() else {
        return families; // it starts, and nobody can ask
    };
    let snapshot = worker.current.snapshot();
    threads::collect(&mut families, process);
    handshakes::collect(&mut families, process, &snapshot.handshakes);
    sessions::collect(&mut families, snapshot.session_stats());
    zones::collect(&mut families, &snapshot);
    upstreams::collect(&mut families, &snapshot);
    caches::collect(&mut families, &snapshot);
    limits::collect(&mut families, &snapshot);
    traces::collect(&mut families, &snapshot);
    certificates::collect(&mut families, &snapshot);
    process::collect(&mut families, process, &snapshot);
    families
}

#[cfg(test)]
mod tests;
