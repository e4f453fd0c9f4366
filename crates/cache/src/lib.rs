//! Cached responses: nginx's cache files, and the index that all threads share.
//!
//! | file | what it holds |
//! |---|---|
//! | `key` | what a response is found by, and its variants (`Vary`) |
//! | `file` | the form of nginx's cache files |
//! | `path` | where a file is (`levels`) |
//! | `zone` | a directory with its index (`*_cache_path`) |
//! | `visit` | what a request does with a key: look, wait, store |
//! | `shard` | a part of the index, with its own lock |
//! | `load` | reads a directory into the index (nginx's cache loader) |
//! | `sweep` | removes what is old or too much (nginx's cache manager) |
//! | `purge` | removes what somebody wants to be gone: keys, prefixes, tags |
//!
//! Nothing here knows of requests, event loops or the configuration. What blocks says so.

mod file;
mod key;
mod load;
mod path;
mod purge;
mod shard;
mod sweep;
mod visit;
mod zone;

pub use file::{BodyChecksum, CacheHeader, FIXED_BYTES, Mismatch, NO_TIME, StoredLength};
pub use key::{CacheKey, HASH_BYTES, Hash, variant};
pub use load::Loader;
pub use path::{Levels, file_path};
pub use purge::{
    Age, FileFailure, LoadedPurges, Purge, PurgeFailure, Purged, Purger, Subject, Tags,
};
pub use sweep::{Pace, Sweeper};
pub use visit::{Found, StoredFile, Visit, ZoneFull};
pub use zone::{CACHE_STATUSES, CacheCounts, Zone, ZoneLimits};
