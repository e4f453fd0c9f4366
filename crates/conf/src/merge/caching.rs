//! `*_cache` and its relatives: inheritance and defaults.

use super::servers::inherit;
use crate::call::Fault;
use crate::draft::{
    CacheDraft, CacheZone as ZoneDraft, CacheZoneDraft, LocationDraft, PurgeDraft, StoreDraft,
    UpstreamDraft,
};
use crate::model::{
    CacheLock, CachePath, CacheRules, CacheSettings, CacheZone, Family, List, LocationConf,
    NextUpstream, NextUpstreamCause, Part, Pass, PurgeAnswers, PurgeLocation, PurgeMethod,
    Template, Variable,
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

/// The path of a zone that a line names.
fn path(zones: &[ZoneDraft], family: Family, name: &str) -> Arc<CachePath> {
    let found = paths(zones, family).find(|path| *path.zone == *name);
    Arc::clone(found.expect("zones have been checked"))
}

/// How a location caches, if it does. `draft` is merged already.
pub(super) fn settings(
    zones: &[ZoneDraft],
    family: Family,
    draft: &CacheDraft,
) -> Option<Arc<CacheSettings>> {
    let zone = match draft.zone.as_ref()? {
        CacheZoneDraft::Off => return None,
        CacheZoneDraft::Named(name) => CacheZone::Named(path(zones, family, name)),
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
        purge: match &draft.purge {
            Some(PurgeDraft::Values(values)) => values.to_vec(),
            _ => Vec::new(),
        },
        purge_tags: list(&draft.purge_tags),
    }))
}

/// `cache_purge METHOD`.
pub(super) fn purge_method(draft: &CacheDraft) -> Option<Arc<PurgeMethod>> {
    match &draft.purge {
        Some(PurgeDraft::Method(method)) => Some(Arc::clone(method)),
        _ => None,
    }
}

/// `cache_purge ZONE KEY`.
pub(super) fn purge_location(
    zones: &[ZoneDraft],
    draft: &LocationDraft,
) -> Option<Arc<PurgeLocation>> {
    let purge = draft.purge.as_deref()?;
    Some(Arc::new(PurgeLocation {
        family: purge.family,
        zone: path(zones, purge.family, &purge.zone),
        key: purge.key.clone(),
    }))
}

pub(super) fn purge_answers(draft: &LocationDraft) -> PurgeAnswers {
    PurgeAnswers {
        format: draft.purge_format.unwrap_or_default(),
        legacy_status: draft.purge_legacy_status.unwrap_or(false),
    }
}

/// A location with `cache_purge ZONE KEY` does nothing else. `own` is what it sets itself.
///
/// # Errors
/// The module's message.
pub(super) fn check_purge_location(own: &LocationDraft) -> Result<(), Fault> {
    let Some(purge) = own.purge.as_deref() else {
        return Ok(());
    };
    let family = purge.family;
    let mut families = Family::ALL.into_iter();
    let other = match families.find(|family| own.passing.of(*family).target.is_some()) {
        Some(pass) => format!("{pass}_pass"),
        None => match own.passing.of(family).cache.zone {
            Some(CacheZoneDraft::Named(_) | CacheZoneDraft::Evaluated(_)) => {
                format!("{family}_cache")
            }
            _ => return Ok(()),
        },
    };
    let message = format!(
        "\"{family}_cache_purge\" (separate location syntax) is incompatible with \"{other}\""
    );
    let help = format!(
        "it makes a location that only purges; in a location that caches, write \
         \"{family}_cache_purge PURGE from ADDRESS\""
    );
    Err(Fault::earlier(&purge.origin, message).help(help))
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
    let family = match &location.purge {
        Some(purge) => purge.family,
        None => {
            let upstream = location.pass.as_ref()?.upstream();
            let mut purge = upstream.cache.as_ref()?.purge.iter();
            let method = upstream.purge_method.as_deref();
            let is_meant = purge.any(|value| !matches!(value.as_literal(), Some(b"" | b"0")))
                || method.is_some_and(|method| method.from.is_none());
            is_meant.then_some(upstream.family)?
        }
    };
    let except = location.limit_except.as_deref();
    let is_open = !says_who(location) && !except.is_some_and(|except| says_who(&except.conf));
    is_open.then_some(family)
}

/// Whether a directive of the location says who has access.
pub(super) fn says_who(location: &LocationConf) -> bool {
    location.access.is_some() || location.auth_request.is_some()
}
