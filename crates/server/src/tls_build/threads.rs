//! The number of handshake threads (`ssl_async_threads`).

use sealane_conf::Config;
use sealane_conf::model::AsyncMode;

/// The configuration of handshake threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeThreads {
    /// `ssl_async_threads`; `None` is `auto`.
    count: Option<u32>,
    /// Some server may use them (`ssl_async on` or `auto`).
    wanted: bool,
}

impl HandshakeThreads {
    /// Reads it from a configuration.
    pub fn of(config: &Config) -> HandshakeThreads {
        let servers = config.http.iter().flat_map(|http| &http.servers);
        let mut modes = servers.filter_map(|server| Some(server.tls.as_ref()?.async_mode));
        HandshakeThreads {
            count: config
                .http
                .as_ref()
                .and_then(|http| http.handshakes.threads),
            wanted: modes.any(|mode| mode != AsyncMode::Off),
        }
    }

    /// The number of threads on a machine with this many usable CPUs. With `auto` there are as many
    /// as CPUs. One is worth it on a single CPU as well: it computes in batches and, unlike the
    /// worker, can be interrupted.
    pub fn on(self, cpus: usize) -> usize {
        match self.count {
            _ if !self.wanted => 0,
            Some(threads) => threads as usize,
            None => cpus.max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_follow_the_cpus_and_who_wants_them() {
        let threads = |count, wanted, cpus| HandshakeThreads { count, wanted }.on(cpus);
        assert_eq!(threads(None, true, 4), 4);
        assert_eq!(threads(None, true, 1), 1);
        assert_eq!(threads(None, false, 8), 0);
        assert_eq!(threads(Some(3), true, 1), 3);
        assert_eq!(threads(Some(3), false, 4), 0, "nobody would use them");
        assert_eq!(threads(Some(0), true, 4), 0);
    }
}
