//! Built-in variables whose value the configuration defines through other variables, with
//! `root`, `limit_rate` and `secure_link`.
//!
//! A variable that refers to itself has no value: `secure_link_md5 "$secure_link x"` is a
//! mistake, which must not cost more than a line in the error log.

use super::{links, request, response};
use crate::exchange::Exchange;
use crate::request_log::log_request;
use sealane_conf::variables::Builtin;
use std::cell::Cell;

thread_local! {
    /// Variables that are being evaluated, a bit for each. Evaluation never waits, so all of them
    /// belong to one exchange.
    static UNDER_WAY: Cell<u8> = const { Cell::new(0) };
}

/// Appends the value of one of them. Returns whether there is one.
pub(super) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    let bit = match builtin {
        Builtin::DocumentRoot => 1,
        Builtin::RealpathRoot => 1 << 1,
        Builtin::RequestFilename => 1 << 2,
        Builtin::LimitRate => 1 << 3,
        Builtin::SecureLink => 1 << 4,
        _ => 1 << 5,
    };
    let before = UNDER_WAY.get();
    if before & bit != 0 {
        let name = builtin.name();
        log_request!(
            exchange,
            Error,
            "cycle while evaluating variable \"{name}\""
        );
        return false;
    }
    UNDER_WAY.set(before | bit);
    let _until_then = Reset(before);
    match builtin {
        Builtin::SecureLink => links::secure_link(exchange, out),
        Builtin::SecureLinkExpires => links::expires(exchange, out),
        Builtin::LimitRate => response::append(exchange, builtin, out),
        _ => request::append(exchange, builtin, out),
    }
}

/// Restores the previous state, however the evaluation ends.
struct Reset(u8);

impl Drop for Reset {
    fn drop(&mut self) {
        UNDER_WAY.set(self.0);
    }
}
