//! What handshakes of clients have in common, whether TLS is over TCP or in QUIC: the settings that
//! they begin with, and what is counted when they are over.

use crate::client::Client;
use crate::evaluated_certificates::Selecting;
use sealane_conf::model::ServerKind;
use sealane_io::stream::HandshakeTimes;
use sealane_tls::{Acceptor, Info};
use std::sync::Arc;
use std::time::Duration;

impl Client {
    /// The longest from accept to the end of the handshake: `ssl_handshake_timeout`, and
    /// `client_header_timeout` as in nginx; in `stream` the former alone, in `mail` `timeout`.
    pub(crate) fn handshake_timeout(&self) -> Duration {
        let conf = &self.server().conf;
        let tls = conf.tls.as_ref();
        let timeout = tls.map_or(Duration::MAX, |tls| tls.handshake_timeout);
        match conf.kind() {
            ServerKind::Http => timeout.min(conf.client_header_timeout),
            ServerKind::Stream | ServerKind::Mail => timeout,
        }
    }

    /// Chooses TLS settings for this client.
    ///
    /// # Panics
    /// If its listener has none.
    pub(crate) fn tls_acceptor(&self) -> Acceptor {
        let listener = self.snapshot.listener(self.listener);
        let acceptor = listener.acceptor.as_ref();
        let acceptor = acceptor.expect("the listener has TLS");
        match listener.evaluates_certificates {
            false => acceptor.clone(),
            true => Acceptor::new(Arc::new(Selecting {
                by_name: acceptor.clone(),
                worker: self.worker.clone(),
                snapshot: self.snapshot.clone(),
                facts: self.facts.clone(),
                listener: self.listener,
            })),
        }
    }

    /// Counts a handshake that is complete, for the server that it has led to.
    pub(crate) fn count_handshake(&self, info: &Info<'_>, times: HandshakeTimes) {
        let is_resumed = info.session_reused() == "r";
        if is_resumed {
            self.worker.counters.handshakes_resumed.add(1);
        }
        if let Some(zone) = &self.server().zone {
            let counts = zone.counts(self.worker.index);
            match is_resumed {
                true => counts.handshakes_resumed.add(1),
                false => counts.handshakes_full.add(1),
            }
        }
        let stats = self.snapshot.handshakes.stats();
        stats.handshake_time.record(times.total);
        stats.handshake_queue_time.record(times.queued);
        let session = if is_resumed {
            "session reused"
        } else {
            "new session"
        };
        self.debug(format_args!(
            "SSL: {}, cipher: \"{}\", {session}",
            info.protocol(),
            info.cipher(),
        ));
    }

    /// Counts a handshake that has failed. Which server it was for is not known for certain: it
    /// counts for the default server of the address.
    pub(crate) fn count_failed_handshake(&self) {
        self.worker.counters.handshakes_failed.add(1);
        if let Some(zone) = &self.server().zone {
            zone.counts(self.worker.index).handshakes_failed.add(1);
        }
    }
}
