//! The handshake of a connection.

use super::serving::Http3Serving;
use crate::client::Client;
use crate::client_certificates::ClientFacts;
use sealane_conf::model::{LogLevel, QuicRetry};
use sealane_io::stream::HandshakeTimes;
use sealane_tls::Load;
use sealane_tls::quic::ServerConnection;
use std::task::Context;

impl Http3Serving {
    /// Lets the handshake go on.
    pub(super) fn go_on_with_handshake(&mut self, cx: &mut Context<'_>) {
        if self.transport().wants_handshake() {
            let load = self.load();
            let now = self.now();
            let _ = self
                .with_transport(|transport, owner| transport.poll_handshake(cx, load, now, owner));
        }
        if self.is_open || self.has_failed {
            return;
        }
        if self.transport().is_established() {
            self.is_open = true;
            self.handshake = None;
            self.record_protocol();
            self.note_handshake();
        } else if let Some(failure) = self.transport().handshake_failure() {
            let text = failure.to_string();
            self.fail_handshake(&text);
        }
    }

    /// Notes that the handshake has failed, and tells why. It is counted at the end.
    pub(super) fn fail_handshake(&mut self, why: &str) {
        self.has_failed = true;
        self.client
            .log(LogLevel::Info, &format!("{why} while QUIC handshaking"));
    }

    fn load(&self) -> Load {
        Load {
            has_others: self.client.worker.counters.active.get() > 1,
        }
    }

    /// Remembers the results of the handshake, and lets TLS go.
    fn note_handshake(&mut self) {
        let client = &self.client;
        client.worker.counters.handshakes.add(1);
        client.worker.counters.quic.handshakes.add(1);
        let Some(tls) = self.exchanges.wire.transport.server_tls() else {
            return;
        };
        let times = times(client, tls);
        note_tls(client, tls);
        let Some(info) = tls.info() else {
            return;
        };
        self.name = info.server_name().to_ascii_lowercase().into_boxed_str();
        client.count_handshake(&info, times);
        self.transport().release_tls();
        self.send_token();
    }

    /// The client need not prove its address again (RFC 9000 section 8.1.3).
    fn send_token(&mut self) {
        if self.client.server().conf.quic.retry == QuicRetry::Never {
            return;
        }
        let transport = &self.exchanges.wire.transport;
        let (version, address) = (transport.version(), transport.addresses().remote);
        if let Some(token) = self.ids.new_token(version, address) {
            self.transport().send_token(token);
        }
    }
}

/// Remembers what TLS says of the client, as soon as there may be requests: at the end of the
/// handshake, or before, if early data is accepted. What came first stays.
pub(super) fn note_tls(client: &Client, tls: &ServerConnection) {
    if client.facts.is_secure() {
        return;
    }
    client.facts.set_secure();
    if client.snapshot.uses_tls_facts
        && let Some(info) = tls.info()
    {
        let times = times(client, tls);
        client
            .facts
            .set_tls(crate::tls_facts::collect(&info, Some(times)));
    }
    if client.snapshot.asks_clients {
        client.facts.set_client(ClientFacts::of_quic(tls));
    }
}

/// How long the handshake has taken so far.
fn times(client: &Client, tls: &ServerConnection) -> HandshakeTimes {
    HandshakeTimes {
        total: client.facts.accepted.elapsed(),
        queued: tls.queue_time(),
    }
}
