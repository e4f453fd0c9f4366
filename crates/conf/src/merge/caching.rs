//! `*_cache` and its relatives: inheritance and defaults.

use super::servers::inherit;
use crate::draft::{CacheDraft, CacheZone as ZoneDraft, CacheZoneDraft, StoreDraft, UpstreamDraft};
use crate::model::{
    CacheLock, CachePath, CacheRules, CacheSettings, CacheZone, Family, List, LocationConf,
    NextUpstream, NextUpstreamCause, Part, Pass, Template, Variable,
};
use crate::variables::Builtin;
use std::sync::Arc;
use std::time::Duration;

/// Default of `cache_lock_timeout` and `cache_lock_age`.
const LOCK: Duration = Duration::from_secs(5);

impl CacheDraft {
    pub(super) fn inherit(&mut self, outer: &CacheDraft) {
        inherit!(self, outer;
            zone key rules valid bypass no_cache purge purge_tags methods min_uses lock lock_timeout
            lock_age
            use_stale background_update revalidate convert_head max_range_offset);
    }
}

impl UpstreamDraft {
    /// What a level stores it does not cache, and the reverse, whatever outer levels do.
    pub(super) fn store_or_cache(&mut self) {
        if matches!(self.store, Some(StoreDraft::ByUri | StoreDraft::At(_))) {
            self.cache.zone = Some(CacheZoneDraft::Off);
        }
        if matches!(
            self.cache.zone,
            Some(CacheZoneDraft::Named(_) | CacheZoneDraft::Evaluated(_))
        ) {
            self.store = Some(StoreDraft::Off);
        }
    }
}

/// The paths of a family, all of which are known by now.
fn paths(zones: &[ZoneDraft], family: Family) -> impl Iterator<Item = &Arc<CachePath>> {
    let zones = zones.iter().filter(move |zone| zone.family == family);
    zones.filter_map(|zone| zone.path.as_ref())
}

/// How a location caches, if it does. `draft` is merged already.
pub(super) fn settings(
    zones: &[ZoneDraft],
    family: Family,
    draft: &CacheDraft,
) -> Option<Arc<CacheSettings>> {
    let zone = match draft.zone.as_ref()? {
        CacheZoneDraft::Off => return None,
        CacheZoneDraft::Named(name) => {
            let path = paths(zones, family).find(|path| path.zone == *name);
            CacheZone::Named(Arc::clone(path.expect("zones have been checked")))
        }
        CacheZoneDraft::Evaluated(name) => {
            CacheZone::Evaluated(name.clone(), paths(zones, family).cloned().collect())
        }
    };
    let list = |values: &Option<List<Template>>| values.as_deref().unwrap_or_default().to_vec();
    let lock = draft.lock.unwrap_or(false).then(|| CacheLock {
        timeout: draft.lock_timeout.unwrap_or(LOCK),
        age: draft.lock_age.unwrap_or(LOCK),
    });
    let rules = draft.rules.unwrap_or_default();
    Some(Arc::new(CacheSettings {
        zone,
        rules,
        key: match family {
            Family::Proxy => draft.key.clone(),
            // As in nginx, which warns about it, all keys are the same.
            _ => Some(draft.key.clone().unwrap_or_default()),
        },
        key_has_body: draft.key.as_ref().is_some_and(has_body),
        valid: draft.valid.as_deref().unwrap_or_default().to_vec(),
        bypass: list(&draft.bypass),
        no_cache: list(&draft.no_cache),
        caches_post: draft.methods.is_some_and(|methods| methods.post),
        min_uses: u32::try_from(draft.min_uses.unwrap_or(1)).unwrap_or(u32::MAX),
        lock,
        use_stale: match draft.use_stale {
            Some(set) if !set.contains(NextUpstreamCause::Off) => set,
            _ => NextUpstream::NEVER,
        },
        background_update: draft.background_update.unwrap_or(false),
        revalidate: draft.revalidate.unwrap_or(rules == CacheRules::Rfc9111),
        convert_head: draft.convert_head.unwrap_or(true),
        max_range_offset: draft.max_range_offset,
        purge: list(&draft.purge),
        purge_tags: list(&draft.purge_tags),
    }))
}

fn has_body(key: &Template) -> bool {
    let mut parts = key.parts().iter();
    parts.any(|part| {
        matches!(
            part,
            Part::Variable(Variable::Builtin(Builtin::RequestBody))
        )
    })
}

/// The host that the client has named, without its port and in small letters.
fn is_host(part: &Part) -> bool {
    matches!(part, Part::Variable(Variable::Builtin(Builtin::Host)))
}

/// The same as it came.
fn is_host_field(part: &Part) -> bool {
    matches!(part, Part::Variable(Variable::RequestHeader(name)) if **name == *"host")
}

/// Whether a location tells the origin which host the client has named, and keeps the response for
/// those who name another one.
pub(super) fn shares_hosts(location: &LocationConf) -> bool {
    let Some(Pass::Proxy(proxy)) = &location.pass else {
        return false;
    };
    let Some(cache) = &proxy.upstream.cache else {
        return false;
    };
    let key = cache.key.as_ref().map_or(&[][..], Template::parts);
    let has = |is: fn(&Part) -> bool| key.iter().any(is);
    if has(is_made) || has(is_host_field) {
        return false;
    }
    let fields = proxy.set_headers.fields.iter();
    let mut fields = fields.filter(|field| field.name.eq_ignore_ascii_case(b"Host"));
    fields.any(|field| {
        let told = field.value.parts();
        told.iter().any(is_host_field) || told.iter().any(is_host) && !has(is_host)
    })
}

/// A variable whose value is decided by the configuration, perhaps by the host.
fn is_made(part: &Part) -> bool {
    matches!(
        part,
        Part::Variable(
            Variable::User(_) | Variable::Capture(_) | Variable::Builtin(Builtin::ServerName)
        )
    )
}

/// The family of a location that caches everything below one key.
pub(super) fn lacks_key(location: &LocationConf) -> Option<Family> {
    let upstream = location.pass.as_ref()?.upstream();
    let key = upstream.cache.as_ref()?.key.as_ref()?;
    key.is_empty().then_some(upstream.family)
}

/// The family of a location where requests may be meant to purge, and nobody may: no directive
/// says who.
pub(super) fn lacks_access(location: &LocationConf) -> Option<Family> {
    let upstream = location.pass.as_ref()?.upstream();
    let mut purge = upstream.cache.as_ref()?.purge.iter();
    let is_meant = purge.any(|value| !matches!(value.as_literal(), Some(b"" | b"0")));
    let except = location.limit_except.as_deref();
    let is_open = !says_who(location) && !except.is_some_and(|except| says_who(&except.conf));
    (is_meant && is_open).then_some(upstream.family)
}

/// Whether a directive of the location says who has access.
pub(super) fn says_who(location: &LocationConf) -> bool {
    location.access.is_some() || location.auth_request.is_some()
}
