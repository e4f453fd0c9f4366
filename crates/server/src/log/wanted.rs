//! What a configuration logs to, in the order of its positions.

use super::destination::Hold;
use super::queue::QUEUE_BYTES_PER_FILE;
use sealane_conf::Config;
use sealane_conf::model::{AccessLog, ErrorLog, LocationConf, Locations, LogTarget};
use std::collections::HashMap;

/// What a configuration wants to log to.
#[derive(Default)]
pub(super) struct Wanted {
    /// Each target once. Equal configurations have equal orders, in whatever
    /// process: master and worker name logs by their positions here.
    pub(super) targets: Vec<(LogTarget, Option<Hold>)>,
    /// Positions in `targets`.
    pub(super) by_target: HashMap<LogTarget, usize>,
}

impl Wanted {
    pub(super) fn of(config: &Config) -> Wanted {
        let mut wanted = Wanted::default();
        wanted.error_logs(&config.main.error_logs);
        for server in config.http.iter().flat_map(|http| &http.servers) {
            wanted.location(&server.conf);
            wanted.locations(&server.locations);
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
                // Half the queue at most, or the buffer would never come together.
                bytes: usize::try_from(bytes)
                    .unwrap_or(usize::MAX)
                    .min(QUEUE_BYTES_PER_FILE / 2),
                time: log.flush,
            });
            self.add(&log.target, hold);
        }
    }

    pub(super) fn error_logs(&mut self, logs: &[ErrorLog]) {
        for log in logs {
            self.add(&log.target, None);
        }
    }

    /// A target that two lines name is held back only if both say so.
    pub(super) fn add(&mut self, target: &LogTarget, hold: Option<Hold>) {
        if *target == LogTarget::Discard {
            return;
        }
        match self.by_target.get(target) {
            Some(&index) => {
                let known = &mut self.targets[index].1;
                *known = known.and_then(|known| {
                    let hold = hold?;
                    let time = [known.time, hold.time].into_iter().flatten().min();
                    Some(Hold {
                        bytes: known.bytes.min(hold.bytes),
                        time,
                    })
                });
            }
            None => {
                self.by_target.insert(target.clone(), self.targets.len());
                self.targets.push((target.clone(), hold));
            }
        }
    }
}
