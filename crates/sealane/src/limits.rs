//! Resource limits of the worker process.

use crate::journal::{Journal, note};
use sealane_conf::Config;
use sealane_log::OsError;
use sealane_sys::limits::{self, Limit, Resource};

/// Descriptors besides one per connection: logs, listeners, epoll, wake-ups.
pub(crate) const SPARE_DESCRIPTORS: u64 = 64;

/// Sets the limits of the worker process for this many threads.
///
/// nginx's figures are per worker process; here one process has all threads, so
/// both `worker_connections` and `worker_rlimit_nofile` are multiplied. Without
/// `worker_rlimit_nofile` the soft limit is raised as far as the connections
/// need and the hard limit allows.
pub(crate) fn apply(config: &Config, threads: u32, journal: &Journal) {
    if let Some(bytes) = config.main.worker_rlimit_core {
        set(
            Resource::CoreBytes,
            Limit {
                soft: bytes,
                hard: bytes,
            },
            journal,
        );
    }
    let Ok(current) = limits::get(Resource::OpenFiles) else {
        return;
    };
    let files = open_files(config, threads, current);
    if files != current {
        set(Resource::OpenFiles, files, journal);
    }
    let now = limits::get(Resource::OpenFiles).unwrap_or(current);
    warn_of_few(config, threads, now, journal);
}

/// Says so if connections will run out of descriptors before they run out of slots.
fn warn_of_few(config: &Config, threads: u32, files: Limit, journal: &Journal) {
    if connections(config, threads) > files.soft {
        note!(
            journal,
            Warn,
            "{} worker_connections in each of {threads} threads exceed open file resource \
             limit: {}; set worker_rlimit_nofile, or raise the limit of the service",
            config.events.worker_connections,
            files.soft
        );
    }
}

fn connections(config: &Config, threads: u32) -> u64 {
    u64::from(config.events.worker_connections) * u64::from(threads)
}

/// The limit of a worker with this configuration that is forked from a process with the limit
/// `current`.
fn open_files(config: &Config, threads: u32, current: Limit) -> Limit {
    match config.main.worker_rlimit_nofile {
        Some(per_thread) => {
            let files = per_thread.saturating_mul(threads.into());
            Limit {
                soft: files,
                hard: files,
            }
        }
        None => {
            let needed = connections(config, threads) + SPARE_DESCRIPTORS;
            let soft = raised(current, needed, threads);
            Limit { soft, ..current }
        }
    }
}

/// Whether a worker that was started for `before` has fewer descriptors than one for `after` would
/// have. It cannot raise its limit: the system call filter forbids it.
pub(crate) fn are_too_few(before: &Config, after: &Config, threads: u32) -> bool {
    let Ok(current) = limits::get(Resource::OpenFiles) else {
        return false;
    };
    let [has, wants] = [before, after].map(|config| open_files(config, threads, current).soft);
    wants > has
}

/// Warns as [`apply`] does, for a worker that takes this configuration in place.
pub(crate) fn examine(config: &Config, threads: u32, journal: &Journal) {
    if let Ok(current) = limits::get(Resource::OpenFiles) {
        warn_of_few(
            config,
            threads,
            open_files(config, threads, current),
            journal,
        );
    }
}

/// The wanted soft limit: what each of nginx's processes would have, times
/// the threads, and at least what the connections need.
pub(crate) fn raised(current: Limit, needed: u64, threads: u32) -> u64 {
    let shared = current.soft.saturating_mul(threads.into());
    shared
        .max(needed)
        .clamp(current.soft, current.hard.max(current.soft))
}

fn set(resource: Resource, limit: Limit, journal: &Journal) {
    if let Err(error) = limits::set(resource, limit) {
        let name = match resource {
            Resource::OpenFiles => "RLIMIT_NOFILE",
            Resource::CoreBytes => "RLIMIT_CORE",
            Resource::LockedBytes => "RLIMIT_MEMLOCK",
        };
        note!(
            journal,
            Alert,
            "setrlimit({name}, {}) failed ({})",
            limit.soft,
            OsError(&error)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_grows_with_threads_and_connections_up_to_the_hard_one() {
        let current = Limit {
            soft: 1024,
            hard: 10_000,
        };
        assert_eq!(raised(current, 576, 1), 1024);
        assert_eq!(raised(current, 576, 4), 4096);
        assert_eq!(raised(current, 8256, 4), 8256);
        assert_eq!(raised(current, 20_000, 4), 10_000);
        let unlimited = Limit {
            soft: u64::MAX,
            hard: u64::MAX,
        };
        assert_eq!(raised(unlimited, 1, 8), u64::MAX);
    }
}
