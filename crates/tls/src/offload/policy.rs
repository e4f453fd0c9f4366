//! Which flights leave the worker.

use crate::accelerator::KeyType;

/// `ssl_async`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AsyncMode {
    /// Flights leave when that helps: expensive ones if the worker has another connection,
    /// cheap ones if handshakes pile up while a core is idle.
    #[default]
    Auto,
    /// All flights with a private-key operation leave.
    On,
    /// None does.
    Off,
}

/// What else the worker has to do, as far as it matters for one handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Other connections are open on this worker: they wait while it computes.
    pub has_others: bool,
    /// Other handshakes that wait for their turn on this worker.
    pub waiting: usize,
}

/// With that many handshakes waiting on the worker, cheap ones leave as well if a thread of
/// the pool has nothing to do.
const WAITING_FOR_CHEAP: usize = 2;

/// Whether a flight with an operation of such a key leaves the worker. `idle_threads`: threads
/// of the pool that have nothing to do.
///
/// With `auto`, an expensive operation (RSA, the larger curves: 0.1 ms to more than 1 ms) leaves
/// as soon as the worker has another connection, which it would keep waiting. A cheap one
/// (P-256, Ed25519: some 10 us in a flight of 100 us) is not worth the two hand-overs, unless
/// handshakes pile up on this worker while a core has nothing to do.
pub(crate) fn leaves(mode: AsyncMode, key: KeyType, load: Load, idle_threads: usize) -> bool {
    match mode {
        AsyncMode::On => true,
        AsyncMode::Off => false,
        AsyncMode::Auto if is_expensive(key) => load.has_others,
        AsyncMode::Auto => load.waiting >= WAITING_FOR_CHEAP && idle_threads > 0,
    }
}

fn is_expensive(key: KeyType) -> bool {
    key.is_rsa() || matches!(key, KeyType::EcP384 | KeyType::EcP521)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: Load = Load {
        has_others: false,
        waiting: 0,
    };
    const BESIDE_OTHERS: Load = Load {
        has_others: true,
        waiting: 0,
    };

    #[test]
    fn on_and_off_mean_what_they_say() {
        for key in KeyType::ALL {
            assert!(leaves(AsyncMode::On, key, ALONE, 0));
            assert!(!leaves(AsyncMode::Off, key, BESIDE_OTHERS, 4));
        }
    }

    #[test]
    fn auto_spares_whoever_is_alone_and_cheap() {
        let auto = |key, load, idle| leaves(AsyncMode::Auto, key, load, idle);
        assert!(!auto(KeyType::Rsa2048, ALONE, 4), "nobody would notice");
        assert!(auto(KeyType::Rsa2048, BESIDE_OTHERS, 0));
        assert!(auto(KeyType::EcP384, BESIDE_OTHERS, 0));
        assert!(!auto(KeyType::EcP256, BESIDE_OTHERS, 4));
        let crowded = Load {
            has_others: true,
            waiting: 2,
        };
        assert!(auto(KeyType::EcP256, crowded, 1));
        assert!(
            !auto(KeyType::EcP256, crowded, 0),
            "all cores are busy anyway"
        );
    }
}
