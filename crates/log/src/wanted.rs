//! The logs of a configuration, in the order of their positions.

use super::destination::Hold;
use super::queue::QUEUE_BYTES_PER_FILE;
use sealane_conf::Config;
use sealane_conf::model::{AccessLog, ErrorLog, LocationConf, Locations, LogTarget};
use std::collections::HashMap;

/// The logs that a configuration asks for.
pub(super) struct Wanted {
    /// Each target once. Equal configurations give equal orders in every process: master and worker
    /// refer to logs by these positions.
    pub(super) targets: Vec<(LogTarget, Option<Hold>)>,
    /// Positions in `targets`.
    pub(super) by_target: HashMap<LogTarget, usize>,
    /// `log_queue_size`.
    pub(super) queue_bytes: usize,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted {
            targets: Vec::new(),
            by_target: HashMap::new(),
            queue_bytes: QUEUE_BYTES_PER_FILE,
        }
    }
}

/// How to hold back a log that two lines name: only if both ask for it, or if it is compressed,
/// which must apply to the whole log.
fn both(one: Option<Hold>, other: Option<Hold>) -> Option<Hold> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Hold {
            bytes: one.bytes.min(other.bytes),
            time: [one.time, other.time].into_iter().flatten().min(),
            gzip: one.gzip.or(other.gzip),
        }),
        (one, other) => one.or(other).filter(|hold| hold.gzip.is_some()),
    }
}

impl Wanted {
    pub(super) fn of(config: &Config) -> Wanted {
        let mut wanted = Wanted::default();
        let queue_bytes = usize::try_from(config.main.log_queue_bytes);
        wanted.queue_bytes = queue_bytes.unwrap_or(usize::MAX);
        wanted.error_logs(&config.main.error_logs);
        if let Some(path) = &config.main.backtrace_log {
            wanted.add(&LogTarget::File(path.clone()), None);
        }
        for server in config.http.iter().flat_map(|http| &http.servers) {
            wanted.location(&server.conf);
            wanted.locations(&server.locations);
            if let Some(qlog) = &server.quic.qlog {
                wanted.add(&qlog.log_target(), None);
            }
        }
        wanted
    }

    fn location(&mut self, conf: &LocationConf) {
        self.error_logs(&conf.error_logs);
        self.access_logs(&conf.access_logs);
    }

    fn locations(&mut self, level: &Locations) {
        for location in level.all() {
            self.location(&location.conf);
            self.locations(&location.children);
        }
    }

    pub(super) fn access_logs(&mut self, logs: &[AccessLog]) {
        for log in logs {
            let hold = log.buffer_bytes.map(|bytes| Hold {
                // At most half of the queue, or the buffer would never fill.
                bytes: usize::try_from(bytes)
                    .unwrap_or(usize::MAX)
                    .min(self.queue_bytes / 2),
                time: log.flush,
                gzip: log.gzip,
            });
            self.add(&log.target, hold);
        }
    }

    pub(super) fn error_logs(&mut self, logs: &[ErrorLog]) {
        for log in logs {
            self.add(&log.target, None);
        }
    }

    pub(super) fn add(&mut self, target: &LogTarget, hold: Option<Hold>) {
        if *target == LogTarget::Discard {
            return;
        }
        match self.by_target.get(target) {
            Some(&index) => {
                let known = &mut self.targets[index].1;
                *known = both(*known, hold);
            }
            None => {
                self.by_target.insert(target.clone(), self.targets.len());
                self.targets.push((target.clone(), hold));
            }
        }
    }
}
