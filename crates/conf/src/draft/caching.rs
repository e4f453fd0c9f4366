//! `*_cache`, `*_cache_path` and their relatives as written on a level.

use crate::model::{
    CachePath, CacheRules, CacheValid, Family, List, NextUpstream, Origin, PurgeMethod, Template,
};
use std::sync::Arc;
use std::time::Duration;

/// How responses are cached.
#[derive(Debug, Default, Clone)]
pub(crate) struct CacheDraft {
    pub(crate) zone: Option<CacheZoneDraft>,
    pub(crate) key: Option<Template>,
    pub(crate) rules: Option<CacheRules>,
    pub(crate) valid: Option<List<CacheValid>>,
    pub(crate) bypass: Option<List<Template>>,
    pub(crate) no_cache: Option<List<Template>>,
    pub(crate) purge: Option<PurgeDraft>,
    pub(crate) purge_tags: Option<List<Template>>,
    pub(crate) methods: Option<CacheMethods>,
    pub(crate) min_uses: Option<u64>,
    pub(crate) lock: Option<bool>,
    pub(crate) lock_timeout: Option<Duration>,
    pub(crate) lock_age: Option<Duration>,
    pub(crate) use_stale: Option<NextUpstream>,
    pub(crate) background_update: Option<bool>,
    pub(crate) revalidate: Option<bool>,
    pub(crate) convert_head: Option<bool>,
    pub(crate) max_range_offset: Option<u64>,
}

/// `*_cache_purge` in one of the forms that are about the requests of a cached location.
#[derive(Debug, Clone)]
pub(crate) enum PurgeDraft {
    /// `off`.
    Off,
    /// Values with variables.
    Values(List<Template>),
    /// `on`, or a method.
    Method(Arc<PurgeMethod>),
}

/// `*_cache_purge ZONE KEY`.
#[derive(Debug, Clone)]
pub(crate) struct PurgeLocationDraft {
    pub(crate) origin: Origin,
    pub(crate) family: Family,
    pub(crate) zone: Box<str>,
    pub(crate) key: Template,
}

/// The argument of `*_cache`.
#[derive(Debug, Clone)]
pub(crate) enum CacheZoneDraft {
    Off,
    Named(Box<str>),
    Evaluated(Template),
}

/// `*_cache_methods`: which were written.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct CacheMethods {
    pub(crate) get: bool,
    pub(crate) head: bool,
    pub(crate) post: bool,
}

/// A zone that `*_cache` or `*_cache_path` names.
#[derive(Debug)]
pub(crate) struct CacheZone {
    pub(crate) name: Box<str>,
    pub(crate) family: Family,
    /// `None` until its `*_cache_path` is met.
    pub(crate) path: Option<Arc<CachePath>>,
}

/// Where a directory for files was named.
#[derive(Debug)]
pub(crate) struct NamedPath {
    pub(crate) origin: Origin,
    /// For cached responses, otherwise for temporary files.
    pub(crate) is_cache: bool,
}
