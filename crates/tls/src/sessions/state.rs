//! Session state that outlives a snapshot: keys, caches, the register, the counters.
//!
//! A process owns one [`SessionState`] and passes it to whoever builds settings. A second snapshot
//! that asks for the same names gets the same objects, so a reload disturbs no session.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_awslc::Error;

use super::cache::SessionCache;
use super::replay::ReplayRegister;
use super::ring::{RingSettings, TicketRing};
use super::stats::SessionStats;

/// The session state of a process. Locked only while settings are built.
#[derive(Default)]
pub struct SessionState {
    named: Mutex<Named>,
    stats: Arc<SessionStats>,
}

#[derive(Default)]
struct Named {
    rings: HashMap<String, Arc<TicketRing>>,
    caches: HashMap<String, (usize, Arc<SessionCache>)>,
    register: Option<Arc<ReplayRegister>>,
}

impl SessionState {
    /// An empty state.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The rotating keys with this name, created at `now_s` if they are new. If the settings have
    /// changed, the keys stay and rotate differently.
    ///
    /// # Errors
    ///
    /// Without memory.
    pub fn ring(
        &self,
        name: &str,
        settings: RingSettings,
        now_s: u64,
    ) -> Result<Arc<TicketRing>, Error> {
        let mut named = self.named();
        if let Some(ring) = named.rings.get(name) {
            ring.configure(settings);
            return Ok(Arc::clone(ring));
        }
        let ring = Arc::new(TicketRing::rotating(settings, now_s)?);
        named.rings.insert(name.to_owned(), Arc::clone(&ring));
        Ok(ring)
    }

    /// All rotating keys by name, for whoever rotates, saves and shares them.
    pub fn rings(&self) -> Vec<(String, Arc<TicketRing>)> {
        let named = self.named();
        let mut rings: Vec<_> = named
            .rings
            .iter()
            .map(|(name, ring)| (name.clone(), Arc::clone(ring)))
            .collect();
        rings.sort_by(|a, b| a.0.cmp(&b.0));
        rings
    }

    /// The cache of this zone. As in nginx, a zone whose size has changed starts empty.
    pub fn cache(&self, zone: &str, bytes: usize) -> Arc<SessionCache> {
        let mut named = self.named();
        match named.caches.get(zone) {
            Some((size, cache)) if *size == bytes => Arc::clone(cache),
            _ => {
                let cache = Arc::new(SessionCache::new(bytes));
                named
                    .caches
                    .insert(zone.to_owned(), (bytes, Arc::clone(&cache)));
                cache
            }
        }
    }

    /// All caches, each with its zone and the zone's size in bytes.
    pub fn caches(&self) -> Vec<(String, usize, Arc<SessionCache>)> {
        let named = self.named();
        let mut caches: Vec<_> = named
            .caches
            .iter()
            .map(|(zone, (bytes, cache))| (zone.clone(), *bytes, Arc::clone(cache)))
            .collect();
        caches.sort_by(|a, b| a.0.cmp(&b.0));
        caches
    }

    /// The register of early data, created at `now_s` if there is none. An existing one continues,
    /// whatever its size: two in use at the same time would each accept a flight.
    ///
    /// # Errors
    ///
    /// Without memory.
    pub fn register(&self, flights: usize, now_s: u64) -> io::Result<Arc<ReplayRegister>> {
        let mut named = self.named();
        if let Some(register) = &named.register {
            return Ok(Arc::clone(register));
        }
        let register = Arc::new(ReplayRegister::new(flights, now_s)?);
        named.register = Some(Arc::clone(&register));
        Ok(register)
    }

    /// The register of early data, if there is one.
    pub fn known_register(&self) -> Option<Arc<ReplayRegister>> {
        self.named().register.clone()
    }

    /// Stops taking early data in this process.
    pub fn close_register(&self) {
        if let Some(register) = self.known_register() {
            register.close();
        }
    }

    /// Continues with the register of another state or process.
    pub fn set_register(&self, register: Arc<ReplayRegister>) {
        self.named().register = Some(register);
    }

    /// The counters.
    pub fn stats(&self) -> &Arc<SessionStats> {
        &self.stats
    }

    /// Forgets rings and caches that no settings use any longer.
    pub fn prune(&self) {
        let mut named = self.named();
        named.rings.retain(|_, ring| Arc::strong_count(ring) > 1);
        named
            .caches
            .retain(|_, (_, cache)| Arc::strong_count(cache) > 1);
    }

    fn named(&self) -> MutexGuard<'_, Named> {
        // Every step leaves the maps consistent.
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.named();
        write!(
            f,
            "SessionState({} rings, {} caches)",
            named.rings.len(),
            named.caches.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: RingSettings = RingSettings {
        rotation_s: 100,
        lifetime_s: 300,
        overlap_s: 0,
    };

    #[test]
    fn the_same_names_give_the_same_objects() {
        let state = SessionState::new();
        let ring = state.ring("default", SETTINGS, 0).expect("memory");
        let cache = state.cache("SSL", 1 << 20);
        let register = state.register(1000, 0).expect("memory");
        let faster = RingSettings {
            rotation_s: 10,
            ..SETTINGS
        };
        let again = state.ring("default", faster, 5).expect("memory");
        assert!(Arc::ptr_eq(&ring, &again));
        assert_eq!(
            ring.settings(),
            Some(faster),
            "it rotates as last configured"
        );
        assert!(Arc::ptr_eq(&cache, &state.cache("SSL", 1 << 20)));
        let again = state.register(2000, 5).expect("memory");
        assert!(Arc::ptr_eq(&register, &again), "whatever the size");
        let next = SessionState::new();
        assert!(next.known_register().is_none());
        next.set_register(register);
        assert!(Arc::ptr_eq(
            &again,
            &next.register(1000, 9).expect("memory")
        ));
        let other = state.ring("other", SETTINGS, 0).expect("memory");
        assert!(!Arc::ptr_eq(&ring, &other));
        assert!(
            !Arc::ptr_eq(&cache, &state.cache("SSL", 2 << 20)),
            "another size"
        );
        assert_eq!(state.rings().len(), 2);
    }

    #[test]
    fn what_nobody_uses_is_forgotten_when_asked() {
        let state = SessionState::new();
        let kept = state.cache("kept", 1 << 20);
        drop(state.cache("gone", 1 << 20));
        drop(state.ring("gone", SETTINGS, 0).expect("memory"));
        state.prune();
        assert_eq!(state.caches().len(), 1);
        assert!(Arc::ptr_eq(&state.cache("kept", 1 << 20), &kept));
        assert!(state.rings().is_empty());
    }
}
