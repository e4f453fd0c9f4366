//! `proxy_cache` and its relatives: where responses are kept, and which.

use super::{AddressRules, Family, NextUpstream, Template};
use crate::diagnostic::SourceLocation;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// `cache_path`: a directory of cached responses and its zone of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachePath {
    /// The name of the zone (`keys_zone`).
    pub zone: Box<str>,
    /// `keys_zone`: memory for keys.
    pub keys_bytes: u64,
    /// The directory, absolute.
    pub path: PathBuf,
    /// `levels`: how many hexadecimal digits, from the end of a file's name, name each level of
    /// subdirectories; 0 after the last.
    pub levels: [u8; 3],
    /// `use_temp_path`: responses are written to `temp_path` and then moved; default on. With
    /// `off` they are written where they will stay.
    pub use_temp_path: bool,
    /// `inactive`: responses that nobody asks for are removed after this; default 10 min.
    pub inactive: Duration,
    /// `max_size` in bytes; `None` is no limit.
    pub max_bytes: Option<u64>,
    /// `min_free`: bytes that the file system must have left; default 0.
    pub min_free_bytes: u64,
    /// `memory` in bytes: room for the responses that are asked for most; 0 for none.
    pub memory_bytes: u64,
    /// `memory_max_object`: longer responses stay on the disk.
    pub memory_max_object_bytes: u64,
    /// `loader_files`, `loader_threshold`, `loader_sleep`: how the files that are there at the
    /// start are read; default 100, 200 ms, 50 ms.
    pub loader: CachePace,
    /// `manager_files`, `manager_threshold`, `manager_sleep`: how old files are removed; default
    /// 100, 200 ms, 50 ms.
    pub manager: CachePace,
    /// `purger`: files are read to find those that were purged by prefix or tag; default off.
    pub purges_files: bool,
    /// `purger_files`, `purger_threshold`, `purger_sleep`: how; default 10, 50 ms, 50 ms.
    pub purger: CachePace,
    /// `purger_rules`: purges that are remembered until no response is older; default 10,000.
    pub purger_rules: u32,
    /// Where the directive stands.
    pub location: SourceLocation,
}

/// How much work on files is done at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachePace {
    /// Files in one go.
    pub files: u32,
    /// The longest time that one go takes.
    pub threshold: Duration,
    /// The pause after it.
    pub sleep: Duration,
}

/// How responses of one location are cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// `cache`.
    pub zone: CacheZone,
    /// `cache_key`; `None` is the address of the server with the URI that it is asked for.
    pub key: Option<Template>,
    /// The key contains the request's body.
    pub key_has_body: bool,
    /// `cache_rules`.
    pub rules: CacheRules,
    /// `cache_valid`, in the order of the configuration.
    pub valid: Vec<CacheValid>,
    /// `cache_bypass`: any value but empty and `0` keeps the cache from answering.
    pub bypass: Vec<Template>,
    /// `no_cache`: any value but empty and `0` keeps the response from being cached.
    pub no_cache: Vec<Template>,
    /// `cache_methods`; GET and HEAD always.
    pub caches_post: bool,
    /// `cache_min_uses`: requests for a key until the response is cached; default 1.
    pub min_uses: u32,
    /// `cache_lock`, `None` for `off`, the default.
    pub lock: Option<CacheLock>,
    /// `cache_use_stale`: with which failures a stale response is served.
    pub use_stale: NextUpstream,
    /// `cache_background_update`; default off.
    pub background_update: bool,
    /// `cache_revalidate`; default off, and on with `cache_rules rfc9111`.
    pub revalidate: bool,
    /// `cache_convert_head`: HEAD becomes GET; default on.
    pub convert_head: bool,
    /// `cache_max_range_offset`: a range that starts at this byte or after is passed on and not
    /// cached; `None`, the default, is no limit.
    pub max_range_offset: Option<u64>,
    /// `cache_purge`: any value but empty and `0` makes the request purge its key.
    pub purge: Vec<Template>,
    /// `cache_purge_tags`: tags that such a request purges in the place of its key; empty values
    /// are none.
    pub purge_tags: Vec<Template>,
}

/// `cache_purge METHOD` of ngx_cache_purge: a request with this method purges its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeMethod {
    /// The method; `PURGE` for `on`.
    pub name: Box<str>,
    /// `purge_all`: such a request purges all that the zone has.
    pub everything: bool,
    /// `from`: who may; `None` are those whom an access directive lets in.
    pub from: Option<AddressRules>,
}

/// `cache_purge ZONE KEY` of ngx_cache_purge: requests of the location purge a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeLocation {
    /// Which directive it was.
    pub family: Family,
    /// The zone.
    pub zone: Arc<CachePath>,
    /// The key; one that ends with an asterisk stands for all that begin so.
    pub key: Template,
}

/// How purges by ngx_cache_purge's forms are answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PurgeAnswers {
    /// `cache_purge_response_type`.
    pub format: PurgeFormat,
    /// `cache_purge_legacy_status`: 412 in the place of 404 if there is nothing to purge; default
    /// off.
    pub legacy_status: bool,
}

/// `cache_purge_response_type`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PurgeFormat {
    /// A page; the default.
    #[default]
    Html,
    /// An object.
    Json,
    /// An element.
    Xml,
    /// Lines.
    Text,
}

/// `cache_rules`: by which rules responses are kept and served again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheRules {
    /// nginx's.
    #[default]
    Nginx,
    /// Those of RFC 9111, for a shared cache.
    Rfc9111,
}

/// Which zone keeps the responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheZone {
    /// A zone by its name.
    Named(Arc<CachePath>),
    /// The value names one of these; empty or `off` is none.
    Evaluated(Template, Arc<[Arc<CachePath>]>),
}

/// `cache_lock` with its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLock {
    /// `cache_lock_timeout`: how long a request waits for the response of another; default 5 s.
    pub timeout: Duration,
    /// `cache_lock_age`: after which another request may ask; default 5 s.
    pub age: Duration,
}

/// One `cache_valid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheValid {
    /// The status; `None` is `any`.
    pub status: Option<u16>,
    /// How long the response is fresh; zero is not at all.
    pub time: Duration,
}

impl CacheSettings {
    /// `cache_valid`: how long a response with this status is fresh if it does not say so itself.
    pub fn valid(&self, status: u16) -> Option<Duration> {
        let mut valid = self.valid.iter();
        let found = valid.find(|valid| match valid.status {
            Some(code) => code == status,
            None => !is_about_request(status),
        })?;
        Some(found.time)
    }
}

/// Whether a status says something about the request, in parts that no key contains, rather than
/// about what was asked for: its credentials, its form, its body, or how often its client asks.
/// Whoever sends a bad request must not decide what others get.
fn is_about_request(status: u16) -> bool {
    matches!(
        status,
        400 | 401
            | 407
            | 408
            | 411
            | 412
            | 413
            | 415
            | 416
            | 417
            | 421
            | 422
            | 425
            | 426
            | 428
            | 429
            | 431
    )
}
