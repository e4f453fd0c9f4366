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
//! | `families.rs` | [`Families`], and its JSON |
//! | `text.rs` | its formats for scrapers |
//! | `threads.rs` | connections, requests, HTTP/2, HTTP/3 and QUIC, over all worker threads |
//! | `handshakes.rs`, `sessions.rs` | TLS |
//! | `zones.rs` | servers and locations |
//! | `upstreams.rs`, `caches.rs`, `limits.rs`, `traces.rs` | the same for these |
//! | `fill.rs` | how full zones are |
//! | `certificates.rs` | when certificates and staples end |
//! | `process.rs` | the process: memory, descriptors, its configuration, logs |

mod caches;
mod certificates;
mod families;
mod fill;
mod handshakes;
mod key_devices;
mod limits;
mod process;
mod sessions;
mod text;
mod threads;
mod traces;
mod upstreams;
mod zones;

pub use self::families::Families;
pub(crate) use self::fill::ZoneFill;
pub use self::process::{
    ProcessCounts, RESOLVER_RESULTS, ResolverCounts, STORE_RESULTS, StoreCounts, unix_s,
};

use crate::proxying::GroupRuntime;
use crate::snapshot::Snapshot;
use crate::worker::Process;
use std::sync::Arc;

/// All metrics of the server, as this process knows them: what `show` makes of them.
pub fn show(process: &Process, show: impl FnOnce(Families<'_>) -> String) -> String {
    let Some(worker) = process.workers().first() else {
        return show(Families::default()); // it starts, and nobody can ask
    };
    let snapshot = worker.current.snapshot();
    let groups: Vec<_> = snapshot.groups.every().collect();
    let mut families = Families::default();
    collect(&mut families, process, &snapshot, &groups);
    show(families)
}

fn collect<'a>(
    families: &mut Families<'a>,
    process: &Process,
    snapshot: &'a Snapshot,
    groups: &'a [Arc<GroupRuntime>],
) {
    threads::collect(families, process);
    handshakes::collect(families, process, &snapshot.handshakes);
    key_devices::collect(families, process);
    sessions::collect(families, snapshot.session_stats());
    zones::collect(families, snapshot);
    upstreams::collect(families, groups);
    caches::collect(families, snapshot);
    limits::collect(families, snapshot);
    fill::collect(families, snapshot);
    traces::collect(families, snapshot);
    certificates::collect(families, snapshot);
    process::collect(families, process, snapshot);
}

#[cfg(test)]
mod tests;
