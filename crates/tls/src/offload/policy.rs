//! Which flights leave the worker.

use crate::accelerator::KeyType;

/// `ssl_async`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AsyncMode {
    /// Flights leave when that helps: expensive ones, if the worker has another connection.
    #[default]
    Auto,
    /// All flights with a private-key operation leave.
    On,
    /// None does.
    Off,
}

/// What else the worker has to do, as far as it matters to a handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Other connections are open on this worker: they wait while it computes.
    pub has_others: bool,
}

/// What a flight's private-key operation costs the thread that has the flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// Some 10 us (P-256, Ed25519), or nothing: another process computes it.
    Low,
    /// 0.1 ms to more than 1 ms: RSA, the larger curves.
    High,
}

impl Cost {
    /// Of a key in this process.
    pub(crate) fn of(key: KeyType) -> Self {
        match key.is_expensive() {
            true => Self::High,
            false => Self::Low,
        }
    }
}

/// Whether a flight with a private-key operation leaves the worker.
///
/// With `auto`, an expensive operation leaves as soon as the worker has another connection, which
/// it would keep waiting. A cheap operation (in a flight of 70 us) stays: handing it over and back
/// costs half of what it takes, and established connections, which go first on a worker, wait for
/// one of them at most.
pub(crate) fn leaves(mode: AsyncMode, cost: Cost, load: Load) -> bool {
    match mode {
        AsyncMode::On => true,
        AsyncMode::Off => false,
        AsyncMode::Auto => load.has_others && cost == Cost::High,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Load = Load { has_others: false };
    const BESIDE_OTHERS: Load = Load { has_others: true };

    #[test]
    fn on_and_off_mean_what_they_say() {
        for key in KeyType::ALL {
            assert!(leaves(AsyncMode::On, Cost::of(key), ALONE));
            assert!(!leaves(AsyncMode::Off, Cost::of(key), BESIDE_OTHERS));
        }
    }

    #[test]
    fn auto_spares_whoever_is_alone_and_cheap() {
        let auto = |key, load| leaves(AsyncMode::Auto, Cost::of(key), load);
        assert!(!auto(KeyType::Rsa2048, ALONE), "nobody would notice");
        assert!(auto(KeyType::Rsa2048, BESIDE_OTHERS));
        assert!(auto(KeyType::EcP384, BESIDE_OTHERS));
        assert!(!auto(KeyType::EcP256, BESIDE_OTHERS));
        assert!(!auto(KeyType::Ed25519, BESIDE_OTHERS));
    }
}
