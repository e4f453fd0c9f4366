//! The `$ssl_*` variables; absent on connections without TLS.

use super::{microseconds, put, text};
use crate::exchange::Exchange;
use sealane_conf::variables::Builtin;

pub(super) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    match builtin {
        Builtin::SslKtls => return put(non_empty(exchange.connection.ktls()), out),
        Builtin::SslKtlsReason => return put(non_empty(exchange.connection.ktls_reason()), out),
        _ => {}
    }
    let Some(facts) = exchange.connection.tls() else {
        return false;
    };
    let some = |value: &str, out: &mut Vec<u8>| put(non_empty(value), out);
    match builtin {
        Builtin::SslProtocol => some(facts.protocol, out),
        Builtin::SslCipher => some(facts.cipher, out),
        Builtin::SslCiphers => some(&facts.client_ciphers, out),
        Builtin::SslCurve => some(facts.curve, out),
        Builtin::SslCurves => some(&facts.client_curves, out),
        Builtin::SslSigalg => some(facts.sigalg, out),
        Builtin::SslSessionId => some(&facts.session_id, out),
        Builtin::SslSessionReused => text(if facts.session_reused { "r" } else { "." }, out),
        Builtin::SslServerName => some(&facts.server_name, out),
        Builtin::SslAlpnProtocol => some(&facts.alpn, out),
        Builtin::SslResumption => some(facts.resumption, out),
        Builtin::SslResumptionMiss => some(facts.resumption_miss, out),
        Builtin::SslEarlyDataVerdict => some(facts.early_data_verdict, out),
        Builtin::SslHandshakeTime => microseconds(facts.handshake_time, out),
        Builtin::SslHandshakeQueueTime => microseconds(facts.handshake_queue_time, out),
        Builtin::SslEarlyData => some(if exchange.request.early_data { "1" } else { "" }, out),
        // Client certificates cannot be asked for (`ssl_verify_client` is an error).
        Builtin::SslClientVerify => text("NONE", out),
        _ => false,
    }
}

fn non_empty(value: &str) -> Option<&[u8]> {
    Some(value.as_bytes()).filter(|value| !value.is_empty())
}
