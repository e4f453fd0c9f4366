//! TLS sessions: how they were resumed, why not, and the fate of early data.

use super::Families;
use sealane_tls::{EarlyVerdict, Missed, Resumed, SessionStats};

pub(super) fn collect(families: &mut Families<'_>, stats: &SessionStats) {
    families
        .counter(
            "tls_sessions_full",
            "TLS handshakes that made a new session",
        )
        .is(stats.full());
    families
        .counter("tls_sessions_resumed", "TLS sessions resumed")
        .by(&["by"])
        .each(Resumed::ALL.map(|kind| (kind.name(), stats.resumed(kind))));
    families
        .counter(
            "tls_sessions_missed",
            "TLS sessions that were offered and not resumed",
        )
        .by(&["reason"])
        .each(Missed::ALL.map(|reason| (reason.name(), stats.missed(reason))));
    families
        .counter(
            "tls_early_data",
            "Early data offered to servers that accept it",
        )
        .by(&["verdict"])
        .each(EarlyVerdict::ALL.map(|verdict| (verdict.name(), stats.early_data(verdict))));
}
