//! `cache_rules rfc9111`: a shared cache by RFC 9111, with RFC 5861, 9211 and 9213.
//!
//! | file | what it holds |
//! |---|---|
//! | `policy` | what a head says: for how long, whether at all, how old it is |
//! | `vary` | variants, and how all of them go at once |
//! | `head` | heads as they are kept and updated |
//! | `serve` | whether what there is may be served, and the fields that it gets |
//! | `keep` | whether a response is kept |
//! | `update` | what a 304, or a response to HEAD, changes |
//! | `invalidation` | what methods such as POST remove |
//! | `status` | `Cache-Status` |
//!
//! The files are the same as with nginx's rules: what is needed besides is computed from the head
//! in them.

mod head;
mod invalidation;
mod keep;
mod policy;
mod serve;
mod status;
mod update;
mod vary;

pub(in crate::proxying) use invalidation::invalidate;
pub(super) use keep::{as_kept, freshness, note_passed_on, received_s};
pub(super) use serve::{not_fresh, note_served, serves};
pub(super) use status::Forward;
pub(super) use update::response;
pub(super) use vary::variant_of;

use crate::exchange::Exchange;
use sealane_conf::model::{CacheRules, CacheSettings};
use sealane_http::StatusCode;
use sealane_http::cache_control::RequestDirectives;
use sealane_http::headers::KnownHeader;

/// What a request keeps about its look into the cache.
#[derive(Debug, Default)]
pub(super) struct CacheLookup {
    /// These are the rules.
    pub(super) is_on: bool,
    /// What the client wishes.
    wishes: RequestDirectives,
    /// What there is must not be served without the origin.
    pub(super) forbids_stale: bool,
    /// Why the origin is asked.
    forward: Option<Forward>,
    /// What it has answered.
    pub(super) origin: Option<StatusCode>,
    /// That of the variants of the key.
    generation: Option<Box<[u8]>>,
}

impl CacheLookup {
    /// What is known before the look.
    pub(super) fn of(exchange: &Exchange, settings: &CacheSettings) -> CacheLookup {
        if settings.rules != CacheRules::Rfc9111 {
            return CacheLookup::default();
        }
        let request = &exchange.request;
        let lines = request.head.headers.iter();
        let lines = lines.filter(|header| header.known == Some(KnownHeader::CacheControl));
        CacheLookup {
            is_on: true,
            wishes: RequestDirectives::read(lines.map(|line| line.value.of(&request.buffer))),
            ..CacheLookup::default()
        }
    }

    /// The same for the request that updates a response in the background: nobody waits for it, so
    /// nobody wishes anything.
    pub(super) fn of_update(&self) -> CacheLookup {
        CacheLookup {
            is_on: self.is_on,
            forward: self.is_on.then_some(Forward::Stale),
            generation: self.generation.clone(),
            ..CacheLookup::default()
        }
    }

    /// The response in the key's place is another variant than the one that is wanted.
    pub(super) fn note_variant(&mut self, kept_vary: &[u8]) {
        if self.is_on {
            self.generation = vary::generation(kept_vary);
        }
    }

    /// The cache has nothing to answer with.
    ///
    /// # Errors
    /// The status for clients that want nothing else (`only-if-cached`).
    pub(super) fn nothing(&mut self, why: Forward) -> Result<(), StatusCode> {
        if self.is_on && self.forward.is_none() {
            self.forward = Some(why);
        }
        match self.wishes.only_if_cached {
            true => Err(StatusCode::GATEWAY_TIMEOUT),
            false => Ok(()),
        }
    }
}

/// Statuses that are errors in the sense of `stale-if-error` (RFC 5861 section 4).
pub(super) fn is_error(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}
