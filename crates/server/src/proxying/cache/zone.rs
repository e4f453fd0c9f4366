//! A zone of cached responses: the directory with its index, and what of it is in memory.

use super::fill::Fill;
use super::hot::HotResponses;
use sealane_cache::{Pace, Zone, ZoneLimits};
use sealane_conf::model::{CachePace, CachePath};
use std::sync::Arc;

/// A zone of cached responses (`*_cache_path`).
pub(crate) struct CacheZone {
    /// Its keys and files.
    pub(crate) index: Arc<Zone<Fill>>,
    /// The responses that are asked for most.
    pub(crate) hot: HotResponses,
}

impl CacheZone {
    /// `keys_zone`. No other zone of the configuration has this name.
    pub(crate) fn name(&self) -> &str {
        self.index.name()
    }
}

/// The zone of a `cache_path`: that of the previous configuration, if it is the same.
pub(crate) fn build_zone(path: &CachePath, before: Option<&[Arc<CacheZone>]>) -> Arc<CacheZone> {
    let limits = ZoneLimits {
        keys_bytes: path.keys_bytes,
        inactive: path.inactive,
        max_bytes: path.max_bytes,
        min_free_bytes: path.min_free_bytes,
        loader: pace(path.loader),
        manager: pace(path.manager),
        purges_files: path.purges_files,
        purger: pace(path.purger),
        max_purge_rules: path.purger_rules,
    };
    let mut known = before.into_iter().flatten();
    let known = known.find(|zone| zone.index.is_of(&path.zone, &path.path, path.levels));
    if let Some(zone) = known {
        zone.index.configure(limits);
        zone.hot
            .configure(path.memory_bytes, path.memory_max_object_bytes);
        return Arc::clone(zone);
    }
    Arc::new(CacheZone {
        index: Arc::new(Zone::new(&path.zone, &path.path, path.levels, limits)),
        hot: HotResponses::new(path.memory_bytes, path.memory_max_object_bytes),
    })
}

fn pace(conf: CachePace) -> Pace {
    Pace {
        files: conf.files,
        threshold: conf.threshold,
        sleep: conf.sleep,
    }
}
