//! Sealane's targets for a storm.

use serde::{Deserialize, Serialize};

use crate::storm::StormKey;

/// Targets for one kind of key on one number of server cores. Latencies are those of the
/// established connection unless stated otherwise; ratios are Sealane's figure divided by nginx's,
/// with the same number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Targets {
    pub(super) p99_ms: f64,
    /// No target on a single core, where one signature alone may take as long.
    pub(super) max_ms: Option<f64>,
    pub(super) p99_ratio: f64,
    pub(super) max_ratio: Option<f64>,
    /// From connecting to the response.
    pub(super) new_connection_p99_ratio: f64,
    /// A minimum.
    pub(super) rate_ratio: f64,
}

impl Targets {
    pub(super) fn of(key: StormKey, server_cores: usize) -> Self {
        let is_single = server_cores == 1;
        let p99_ms = match (key, is_single) {
            (StormKey::Rsa4096, true) => 5.0,
            (StormKey::Rsa4096, false) | (_, true) => 1.0,
            (_, false) => 0.5,
        };
        Self {
            p99_ms,
            max_ms: (!is_single).then_some(5.0),
            p99_ratio: 1.0 / 3.0,
            max_ratio: key.is_rsa().then_some(1.0 / 5.0),
            new_connection_p99_ratio: 1.3,
            rate_ratio: 1.0,
        }
    }
}
