//! The `$ssl_*` variables; absent on connections without TLS.

use super::{microseconds, put, text};
use crate::client_certificates;
use crate::exchange::Exchange;
use base64::prelude::{BASE64_STANDARD, Engine};
use sealane_conf::variables::Builtin;
use sealane_http::uri::{self, EscapeKind};
use std::time::Duration;

/// Characters in a line of PEM.
const PEM_LINE: usize = 64;

pub(super) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    match builtin {
        Builtin::SslKtls => return put(non_empty(exchange.connection.ktls()), out),
        Builtin::SslKtlsReason => return put(non_empty(exchange.connection.ktls_reason()), out),
        // Over QUIC it comes before anything else of the handshake is known.
        Builtin::SslEarlyData if exchange.request.early_data => return text("1", out),
        _ => {}
    }
    let Some(facts) = exchange.connection.tls() else {
        return false;
    };
    let some = |value: &str, out: &mut Vec<u8>| put(non_empty(value), out);
    let time = |time: Option<Duration>, out: &mut Vec<u8>| {
        time.is_some_and(|time| microseconds(time, out))
    };
    match builtin {
        Builtin::SslProtocol => some(facts.protocol, out),
        Builtin::SslCipher => some(facts.cipher, out),
        Builtin::SslCiphers => some(&facts.client_ciphers, out),
        Builtin::SslCurve => some(facts.curve, out),
        Builtin::SslCurves => some(&facts.client_curves, out),
        Builtin::SslSigalgs => some(&facts.client_sigalgs, out),
        Builtin::SslEchStatus => some(facts.ech_status, out),
        Builtin::SslEchOuterServerName => some(&facts.ech_outer_server_name, out),
        Builtin::SslJa4 => some(&facts.ja4, out),
        Builtin::SslSigalg => some(facts.sigalg, out),
        Builtin::SslSessionId => some(&facts.session_id, out),
        Builtin::SslSessionReused => text(if facts.session_reused { "r" } else { "." }, out),
        Builtin::SslServerName => some(&facts.server_name, out),
        Builtin::SslAlpnProtocol => some(&facts.alpn, out),
        Builtin::SslResumption => some(facts.resumption, out),
        Builtin::SslResumptionMiss => some(facts.resumption_miss, out),
        Builtin::SslEarlyDataVerdict => some(facts.early_data_verdict, out),
        Builtin::SslHandshakeTime => time(facts.handshake_time, out),
        Builtin::SslHandshakeQueueTime => time(facts.handshake_queue_time, out),
        Builtin::SslEarlyData => some("", out),
        _ => client(exchange, builtin, out),
    }
}

/// The client's certificate.
fn client(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    let Some(chain) = client_certificates::chain(exchange) else {
        return match builtin {
            Builtin::SslClientVerify => text("NONE", out),
            _ => false,
        };
    };
    match builtin {
        Builtin::SslClientVerify => match client_certificates::verdict(exchange) {
            Some(Err(failure)) => {
                out.extend_from_slice(b"FAILED:");
                text(&*failure.reason(), out)
            }
            _ => text("SUCCESS", out),
        },
        Builtin::SslClientFingerprint => text(chain.fingerprint(), out),
        Builtin::SslClientSigalg => put(non_empty(chain.sigalg()), out),
        Builtin::SslClientVRemain => match chain.days_left() {
            Some(days) => text(days.to_string(), out),
            None => false,
        },
        Builtin::SslClientRawCert => text(pem(chain.leaf_der()), out),
        Builtin::SslClientCert => {
            let pem = pem(chain.leaf_der());
            text(pem.trim_end().replace('\n', "\n\t"), out)
        }
        Builtin::SslClientEscapedCert => {
            let pem = pem(chain.leaf_der());
            uri::escape_into(out, pem.as_bytes(), EscapeKind::UriComponent);
            true
        }
        _ => {
            let Some(leaf) = chain.text() else {
                return false;
            };
            let value = match builtin {
                Builtin::SslClientSDn => &leaf.subject,
                Builtin::SslClientIDn => &leaf.issuer,
                Builtin::SslClientSDnLegacy => &leaf.subject_legacy,
                Builtin::SslClientIDnLegacy => &leaf.issuer_legacy,
                Builtin::SslClientSerial => &leaf.serial,
                Builtin::SslClientVStart => &leaf.not_before,
                Builtin::SslClientVEnd => &leaf.not_after,
                _ => return false,
            };
            put(non_empty(value), out)
        }
    }
}

/// A certificate in PEM (RFC 7468), with a line break at the end.
fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut pem = String::with_capacity(text.len() + text.len() / PEM_LINE + 64);
    pem.push_str("-----BEGIN CERTIFICATE-----\n");
    let mut rest = &text[..];
    while !rest.is_empty() {
        let (line, later) = rest.split_at(rest.len().min(PEM_LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = later;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

fn non_empty(value: &str) -> Option<&[u8]> {
    Some(value.as_bytes()).filter(|value| !value.is_empty())
}
