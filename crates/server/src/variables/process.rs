//! Variables about the time and the process.

use super::{number, put, seconds, text};
use crate::exchange::Exchange;
use crate::handlers::stub_status::Totals;
use crate::log::with_time_stamps;
use sealane_conf::variables::Builtin;
use sealane_sys::time;
use std::sync::OnceLock;

/// `$nginx_version`: the nginx whose behaviour is the reference.
pub(crate) const NGINX_VERSION: &str = "1.29.8";

pub(super) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    let count = |get: fn(&Totals) -> i64, out: &mut Vec<u8>| {
        number(get(&Totals::of(&exchange.worker)), out)
    };
    match builtin {
        // Before 1970 there was no server to ask.
        Builtin::Msec => seconds(u128::try_from(time::unix_ms()).unwrap_or(0), out),
        Builtin::TimeIso8601 => with_time_stamps(|now| text(&now.iso8601, out)),
        Builtin::TimeLocal => with_time_stamps(|now| text(&now.local, out)),
        Builtin::Pid => number(std::process::id(), out),
        Builtin::Hostname => put(hostname(), out),
        Builtin::NginxVersion => text(NGINX_VERSION, out),
        Builtin::ConnectionsActive => count(|totals| totals.active, out),
        Builtin::ConnectionsReading => count(|totals| totals.reading, out),
        Builtin::ConnectionsWriting => count(|totals| totals.writing, out),
        Builtin::ConnectionsWaiting => count(|totals| totals.waiting, out),
        _ => false,
    }
}

/// The machine's name in lower case, as it was when first asked for.
fn hostname() -> Option<&'static [u8]> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    let name = NAME.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        Some(text.trim_end().to_ascii_lowercase())
    });
    name.as_deref().map(str::as_bytes)
}
