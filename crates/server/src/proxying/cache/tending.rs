//! The threads that look after directories of cached responses: one for each zone reads what is
//! there at the start (nginx's cache loader), removes what is old or too much (nginx's cache
//! manager) and what was purged (nginx's cache purger). All of that blocks, so it is never done by
//! a worker thread.

use super::fill::Fill;
use super::{CacheZone, tags};
use sealane_cache::{FileFailure, LoadedPurges, Loader, Purger, Sweeper, Zone};
use sealane_conf::model::LogLevel;
use sealane_log::{Logger, OsError};
use sealane_sys::time::unix_coarse_s;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For so long after the start, the process before this one may still serve, and purge. What it
/// has written is looked for as often.
const OTHERS_PURGE: Duration = Duration::from_secs(60);
const LOOK_FOR_PURGES: Duration = Duration::from_secs(1);

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
    // Before the first request.
    load_purges(zone, logger);
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
    let mut purger = Purger::new(Arc::clone(zone), tags::of_head);
    let mut others_until = Some(Instant::now() + OTHERS_PURGE);
    let failed = |path: &Path, error: &io::Error| {
        let (path, error) = (path.display(), OsError(error));
        logger.log(
            LogLevel::Crit,
            None,
            format_args!("cache file \"{path}\" cannot be read or removed ({error})"),
        );
    };
    // This thread, loader, sweeper and purger have the zone as long as they run.
    let is_needed = |others: usize| Arc::strong_count(zone) > others && !zone.is_retired();
    while is_needed(3 + usize::from(loader.is_some())) {
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
        if let Some(next) = purger.step(now_s, failed) {
            pause = pause.min(next);
        }
        if let Some(until) = others_until {
            pause = pause.min(LOOK_FOR_PURGES);
            // What cannot be read now is looked at again.
            if let Ok(LoadedPurges::Damaged) = zone.learn_purges(now_s) {
                note_damaged(zone, logger);
            }
            others_until = Some(until).filter(|until| Instant::now() < *until);
        }
        zone.wait_for_work(pause);
    }
}

/// Reads what was purged.
fn load_purges(zone: &Zone<Fill>, logger: &Logger) {
    match zone.load_purges(unix_coarse_s()) {
        Ok(LoadedPurges::Whole) => {}
        Ok(LoadedPurges::Damaged) => note_damaged(zone, logger),
        Err(FileFailure { call, path, error }) => {
            let (path, error, name) = (path.display(), OsError(&error), zone.name());
            logger.log(
                LogLevel::Crit,
                None,
                format_args!(
                    "{call} \"{path}\" failed ({error}): nobody knows what was purged from cache \
                     \"{name}\", so everything counts as purged; make the file readable, or remove it"
                ),
            );
        }
    }
}

fn note_damaged(zone: &Zone<Fill>, logger: &Logger) {
    let name = zone.name();
    logger.log(
        LogLevel::Crit,
        None,
        format_args!(
            "the file of purges of cache \"{name}\" is damaged: everything in the cache counts as \
             purged, and is fetched again"
        ),
    );
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
