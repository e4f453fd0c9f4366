//! `proxy_cache` and its relatives: responses that are kept as files.
//!
//! ```text
//! request -> look: fresh | stale -> answered from the file
//!                  being received for another request -> read along
//!                  nothing -> origin -> keep: a fill, which everybody reads
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `look` | what there is for a request, and waiting for another one |
//! | `keep` | whether a response is kept, and what a failure or a 304 means |
//! | `answer` | responses that come from the cache |
//! | `freshness` | how long a response may be served, by nginx's rules |
//! | `rfc9111/` | the rules of RFC 9111 |
//! | `fill`, `writer` | a response on its way into a file, and all who read it meanwhile |
//! | `stored`, `form` | reading files, and the form of heads in them |
//! | `hot` | responses in memory |
//! | `zone` | a directory with its index and what of it is in memory |
//! | `update` | updating in the background |
//! | `purge`, `tags` | removing responses by key, prefix and tag |
//! | `tending` | the threads that read directories and keep them small |
//!
//! Files and index are those of `sealane-cache`.

mod answer;
mod fill;
mod form;
mod freshness;
mod hot;
mod keep;
mod look;
mod purge;
mod rfc9111;
mod stored;
mod tags;
mod tending;
mod update;
mod writer;
mod zone;

pub(crate) use fill::Fill;
pub(super) use keep::{failed, intercepted, keep, let_go, response};
pub(super) use look::{Looked, look, look_further};
pub(crate) use purge::at_location as purge_location;
pub(super) use purge::{by_method as purge_method, without_cache as purge_without_cache};
pub(super) use rfc9111::invalidate;
pub use tending::CacheDirectories;
pub(crate) use update::UpdateState;
pub(crate) use zone::{CacheZone, build_zone};

use super::PassRuntime;
use crate::exchange::Exchange;
use sealane_cache::{CacheKey, Hash, Visit};
use sealane_conf::model::{CachePath, CacheSettings, TempPath, UpstreamSettings};
use sealane_http::Method;
use sealane_http::date::ImfDate;
use sealane_http::headers::KnownHeader;
use std::sync::Arc;
use stored::StoredResponse;

/// What a request keeps about the cache of its location.
pub(crate) struct CacheState {
    pub(crate) status: CacheStatus,
    zone: Arc<CacheZone>,
    /// Where files of the zone belong, from the configuration.
    path: Arc<CachePath>,
    key: CacheKey,
    /// The key's hash, or that of its variant.
    hash: Hash,
    /// Purges so far when the request came: an older response is not kept.
    generation: u64,
    /// The response may be kept.
    is_cacheable: bool,
    visit: Option<Visit<Fill>>,
    /// A response that is not fresh any more.
    stale: Option<Box<StoredResponse>>,
    /// The stale response may be served if the origin fails, whatever the configuration says
    /// (`stale-if-error`).
    allows_stale: bool,
    /// When the response was received from the origin, in seconds since 1970.
    pub(crate) date_s: Option<i64>,
    /// What `cache_rules rfc9111` needs besides.
    lookup: rfc9111::CacheLookup,
}

/// `$upstream_cache_status`, in the order of [`sealane_cache::CACHE_STATUSES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheStatus {
    Miss,
    Bypass,
    Expired,
    Stale,
    Updating,
    Revalidated,
    Hit,
}

impl CacheStatus {
    /// The word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CacheStatus::Miss => "MISS",
            CacheStatus::Bypass => "BYPASS",
            CacheStatus::Expired => "EXPIRED",
            CacheStatus::Stale => "STALE",
            CacheStatus::Updating => "UPDATING",
            CacheStatus::Revalidated => "REVALIDATED",
            CacheStatus::Hit => "HIT",
        }
    }
}

impl CacheState {
    /// Counts the response, of whose body so many bytes were sent.
    pub(crate) fn count(&self, sent_bytes: u64) {
        let counts = self.zone.index.counts();
        let status = self.status as usize;
        counts.responses[status].add(1);
        counts.sent[status].add(sent_bytes);
    }

    /// Where the file is written before it has its name; `None` is beside its place.
    fn temp_path(&self, pass: &PassRuntime) -> Option<Arc<TempPath>> {
        let is_used = self.path.use_temp_path;
        is_used.then(|| Arc::clone(&pass.settings().temp_path))
    }

    /// The validators of a response that is to be confirmed: `$upstream_cache_last_modified` in
    /// seconds since 1970, and `$upstream_cache_etag`.
    pub(crate) fn validators(&self, settings: &CacheSettings) -> (Option<i64>, Option<&[u8]>) {
        if !settings.revalidate || self.status != CacheStatus::Expired {
            return (None, None);
        }
        let Some(stale) = self.stale.as_deref() else {
            return (None, None);
        };
        let header = &stale.header;
        let time = Some(header.last_modified_s).filter(|time| *time != sealane_cache::NO_TIME);
        (time, Some(&*header.etag).filter(|etag| !etag.is_empty()))
    }
}

/// The cache state of a request.
pub(crate) fn state(exchange: &Exchange) -> Option<&CacheState> {
    exchange.upstream.as_deref()?.cache.as_deref()
}

fn state_mut(exchange: &mut Exchange) -> Option<&mut CacheState> {
    exchange.upstream.as_deref_mut()?.cache.as_deref_mut()
}

/// The settings of the location.
pub(crate) fn settings(pass: &PassRuntime) -> Option<&CacheSettings> {
    pass.settings().cache.as_deref()
}

/// Whether the response of the origin may be kept: then it is asked for the whole of it.
pub(super) fn asks_for_all(exchange: &Exchange) -> bool {
    state(exchange).is_some_and(|state| state.is_cacheable)
}

/// Fields of the client's request that the origin does not get if its response may be kept: a part
/// of it, or nothing, would be of use to this client alone.
pub(super) fn is_conditional(name: KnownHeader) -> bool {
    matches!(
        name,
        KnownHeader::IfModifiedSince
            | KnownHeader::IfUnmodifiedSince
            | KnownHeader::IfNoneMatch
            | KnownHeader::IfMatch
            | KnownHeader::Range
            | KnownHeader::IfRange
    )
}

/// What the origin is to confirm a stale response by.
pub(super) fn for_each_validator(
    exchange: &Exchange,
    settings: &UpstreamSettings,
    mut each: impl FnMut(&'static str, &[u8]),
) {
    let (Some(state), Some(settings)) = (state(exchange), &settings.cache) else {
        return;
    };
    let (time, tag) = state.validators(settings);
    if let Some(time) = time {
        each("If-Modified-Since", ImfDate::new(time).as_bytes());
    }
    if let Some(tag) = tag {
        each("If-None-Match", tag);
    }
}

/// Whether HEAD is sent as GET, so that the response can be kept (`cache_convert_head`).
pub(super) fn converts_head(exchange: &Exchange, settings: &UpstreamSettings) -> bool {
    let settings = settings.cache.as_ref();
    exchange.request.head.method == Method::Head
        && settings.is_some_and(|settings| settings.convert_head)
        && state(exchange).is_some()
}
