//! Descriptor limits, and whether a configuration fits into them.

use super::report::{Finding, Limits};
use crate::limits::{SPARE_DESCRIPTORS, raised};
use sealane_conf::Config;
use sealane_sys::limits::{self, Limit, Resource};
use sealane_sys::process;

/// Checks the limits. The finding is that the configuration, with this many threads, needs more.
pub(super) fn examine(configuration: Option<(&Config, u32)>) -> (Limits, Option<Finding>) {
    let current = limits::get(Resource::OpenFiles).ok();
    let nr_open = number("/proc/sys/fs/nr_open");
    let mut limits = Limits {
        soft: current.and_then(|limit| finite(limit.soft)),
        hard: current.and_then(|limit| finite(limit.hard)),
        nr_open,
        file_max: number("/proc/sys/fs/file-max"),
        needed: None,
        granted: None,
    };
    let (Some((config, threads)), Some(current)) = (configuration, current) else {
        return (limits, None);
    };
    let wanted = Wanted {
        connections: config.events.worker_connections,
        threads,
        rlimit_nofile: config.main.worker_rlimit_nofile,
        privileged: process::effective_uid() == 0,
    };
    let granted = wanted.granted(current, nr_open.unwrap_or(u64::MAX));
    limits.needed = Some(wanted.needed());
    limits.granted = finite(granted);
    (limits, wanted.problem(granted))
}

/// What a configuration asks for.
struct Wanted {
    connections: u32,
    threads: u32,
    rlimit_nofile: Option<u64>,
    /// Whether the server, started as this process is, may raise hard limits.
    privileged: bool,
}

impl Wanted {
    fn needed(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.threads) + SPARE_DESCRIPTORS
    }

    /// The soft limit that the worker process would end up with.
    fn granted(&self, current: Limit, nr_open: u64) -> u64 {
        match self.rlimit_nofile {
            Some(per_thread) => {
                let files = per_thread.saturating_mul(self.threads.into());
                let most = if self.privileged {
                    nr_open
                } else {
                    current.hard
                };
                // What the kernel refuses leaves everything as it is.
                if files <= most { files } else { current.soft }
            }
            None => raised(current, self.needed(), self.threads),
        }
    }

    fn problem(&self, granted: u64) -> Option<Finding> {
        let needed = self.needed();
        if granted >= needed {
            return None;
        }
        let per_thread = needed.div_ceil(self.threads.max(1).into());
        let what = format!(
            "{} worker_connections in each of {} threads need {needed} descriptors, but the server \
             would have {granted}",
            self.connections, self.threads
        );
        let remedy = if self.privileged || self.rlimit_nofile.is_some() {
            format!("worker_rlimit_nofile {per_thread}; and in the service LimitNOFILE={needed}")
        } else {
            format!("raise the hard limit of the service (systemd: LimitNOFILE={needed})")
        };
        Some(Finding::new("too_few_descriptors", what, remedy))
    }
}

fn finite(limit: u64) -> Option<u64> {
    (limit != u64::MAX).then_some(limit)
}

fn number(path: &str) -> Option<u64> {
    // "Unlimited" is written as the largest number.
    let text = std::fs::read_to_string(path).ok()?;
    text.trim().parse().ok().filter(|n| *n < i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURRENT: Limit = Limit {
        soft: 1024,
        hard: 4096,
    };
    const NR_OPEN: u64 = 1_048_576;

    fn wanted(connections: u32, rlimit_nofile: Option<u64>, privileged: bool) -> Wanted {
        Wanted {
            connections,
            threads: 4,
            rlimit_nofile,
            privileged,
        }
    }

    #[test]
    fn connections_of_all_threads_must_fit() {
        for (wanted, granted, fits) in [
            (wanted(512, None, false), 4096, true),
            (wanted(1024, None, false), 4096, false),
            (wanted(1024, Some(2048), true), 8192, true),
            (wanted(1024, Some(2048), false), 1024, false),
            (wanted(512, Some(1024), false), 4096, true),
            (wanted(100, Some(1 << 40), true), 1024, true),
            (wanted(1024, Some(512), true), 2048, false),
        ] {
            let got = wanted.granted(CURRENT, NR_OPEN);
            assert_eq!(got, granted);
            let problem = wanted.problem(got);
            assert_eq!(problem.is_none(), fits, "{problem:?}");
        }
    }

    #[test]
    fn the_problem_says_what_to_write() {
        let problem = wanted(1024, Some(512), true).problem(2048).unwrap();
        assert!(
            problem.what.contains("need 4160 descriptors"),
            "{problem:?}"
        );
        let remedy = problem.remedy.unwrap();
        assert!(remedy.contains("worker_rlimit_nofile 1040;"), "{remedy}");
        assert!(remedy.contains("LimitNOFILE=4160"), "{remedy}");
        // And what is written then is enough.
        let mended = wanted(1024, Some(1040), true);
        assert_eq!(mended.problem(mended.granted(CURRENT, NR_OPEN)), None);
    }

    #[test]
    fn this_machine_has_limits() {
        let (limits, problem) = examine(None);
        assert!(limits.nr_open.is_some() && problem.is_none());
        assert_eq!((limits.needed, limits.granted), (None, None));
    }
}
