//! The threads that look after directories of cached responses: one for each zone reads what is
//! there at the start (nginx's cache loader) and removes what is old or too much (nginx's cache
//! manager). Both block, so they are never done by a worker thread.

use super::CacheZone;
use super::fill::Fill;
use sealane_cache::{Loader, Sweeper, Zone};
use sealane_conf::model::LogLevel;
use sealane_log::{Logger, OsError};
use sealane_sys::time::unix_coarse_s;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The name of the threads, for ps; it may have 15 bytes.
const THREAD_NAME: &str = "cache-manager";

/// The directories of cached responses of a configuration.
#[derive(Clone, Default)]
pub struct CacheDirectories(Vec<Arc<Zone<Fill>>>);

impl CacheDirectories {
    pub(crate) fn of(zones: &[Arc<CacheZone>]) -> CacheDirectories {
        CacheDirectories(zones.iter().map(|zone| Arc::clone(&zone.index)).collect())
    }

    /// Starts the threads that look after them, where there are none yet. They end when no
    /// configuration has the directory any more.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn tend(&self, logger: &Logger) -> io::Result<()> {
        self.0.iter().try_for_each(|zone| tend(zone, logger))
    }

    /// This process ends: nothing is removed any more, as the next process has an index of its
    /// own, and knows better what is in use.
    pub fn retire(&self) {
        self.0.iter().for_each(|zone| zone.retire());
    }
}

/// Starts the thread of a zone.
fn tend(zone: &Arc<Zone<Fill>>, logger: &Logger) -> io::Result<()> {
    if !zone.claim_tending() {
        return Ok(());
    }
    let (zone, logger) = (Arc::clone(zone), logger.clone());
    let thread = std::thread::Builder::new().name(THREAD_NAME.to_owned());
    let started = thread.spawn(move || {
        let _ = sealane_sys::crash::prepare_thread(); // for the report of a crash
        run(&zone, &logger);
    });
    started.map(drop)
}

fn run(zone: &Arc<Zone<Fill>>, logger: &Logger) {
    let mut loader = Some(Loader::new(Arc::clone(zone)));
    let mut sweeper = Sweeper::new(Arc::clone(zone));
    let failed = |path: &Path, error: &io::Error| {
        let (path, error) = (path.display(), OsError(error));
        logger.log(
            LogLevel::Crit,
            None,
            format_args!("cache file \"{path}\" cannot be read or removed ({error})"),
        );
    };
    // This thread, loader and sweeper have the zone as long as they run.
    let is_needed = |others: usize| Arc::strong_count(zone) > others && !zone.is_retired();
    while is_needed(2 + usize::from(loader.is_some())) {
        let now_s = unix_coarse_s();
        let mut pause = sweeper.step(zone.manager_pace(), now_s, failed);
        if let Some(loading) = &mut loader {
            match loading.step(zone.loader_pace(), now_s, failed) {
                Some(next) => pause = pause.min(next),
                None => {
                    loader = None;
                    note_loaded(zone, logger);
                }
            }
        }
        zone.wait_for_work(pause);
    }
}

/// nginx's line about a directory that has been read.
fn note_loaded(zone: &Zone<Fill>, logger: &Logger) {
    let path = zone.directory().display();
    let tenths = zone.bytes() * 1000 / (1 << 20);
    logger.log(
        LogLevel::Notice,
        None,
        format_args!(
            "http file cache: {path} {}.{:03}M, {} keys",
            tenths / 1000,
            tenths % 1000,
            zone.keys()
        ),
    );
}
