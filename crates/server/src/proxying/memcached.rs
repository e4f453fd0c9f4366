//! `memcached_pass`: the key of a value, and what is asked of the request.

use crate::exchange::Exchange;
use crate::request_log::{Text, log_request};
use crate::variables;
use sealane_conf::model::MemcachedPass;
use sealane_http::uri::{EscapeKind, escape};
use sealane_http::{Method, StatusCode};

/// Values can be fetched, not stored.
///
/// # Errors
/// 405 for other methods than GET and HEAD.
pub(super) fn check(exchange: &Exchange) -> Result<(), StatusCode> {
    match exchange.request.head.method {
        Method::Get | Method::Head => Ok(()),
        _ => Err(StatusCode::NOT_ALLOWED),
    }
}

/// The key as it is sent: nothing in it ends the command.
pub(super) fn key(exchange: &Exchange, pass: &MemcachedPass) -> Vec<u8> {
    let mut key = Vec::new();
    variables::append(exchange, &pass.key, &mut key);
    escape(&key, EscapeKind::Memcached).into_owned()
}

/// The command.
///
/// # Errors
/// When there is no key; the reason is in nginx's words.
pub(super) fn encode(
    exchange: &Exchange,
    pass: &MemcachedPass,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let key = key(exchange, pass);
    if key.is_empty() {
        return Err("the \"$memcached_key\" variable is not set".to_owned());
    }
    for part in [&b"get "[..], &key, b"\r\n"] {
        out.extend_from_slice(part);
    }
    Ok(())
}

/// The key is not there.
pub(super) fn log_not_found(exchange: &Exchange, pass: &MemcachedPass) {
    let key = key(exchange, pass);
    log_request!(
        exchange,
        Info,
        "key: \"{}\" was not found by memcached",
        Text(&key)
    );
}
