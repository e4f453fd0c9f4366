//! Collects the results of a handshake for the `$ssl_*` variables.

use crate::facts::TlsFacts;
use sealane_io::stream::HandshakeTimes;
use sealane_tls::Info;

/// Collects what the variables need. Called once per connection, and only if the configuration uses
/// such a variable. A handshake that has failed has no times.
pub(crate) fn collect(info: &Info<'_>, times: Option<HandshakeTimes>) -> TlsFacts {
    TlsFacts {
        protocol: info.protocol(),
        cipher: info.cipher(),
        curve: info.curve(),
        sigalg: info.sigalg(),
        session_reused: info.session_reused() == "r",
        resumption: info.session_source(),
        resumption_miss: info.session_miss(),
        early_data_verdict: info.early_data_verdict(),
        handshake_time: times.map(|times| times.total),
        handshake_queue_time: times.map(|times| times.queued),
        server_name: info.server_name().into(),
        alpn: String::from_utf8_lossy(info.alpn()).into(),
        session_id: info.session_id().into(),
        client_ciphers: info.ciphers().into(),
        client_curves: info.curves().into(),
        client_sigalgs: info.sigalgs().into(),
        ech_status: info.ech_status(),
        ech_outer_server_name: info.ech_outer_server_name().into(),
        ja4: info.ja4().into(),
        certificate_algorithms: info.certificate_algorithms().cloned(),
    }
}
