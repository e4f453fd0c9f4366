//! Variables about the time and the process.

use super::{number, put, seconds, text};
use crate::counters::Counters;
use crate::exchange::Exchange;
use sealane_conf::variables::Builtin;
use sealane_log::with_time_stamps;
use sealane_sys::time;
use std::ffi::CString;
use std::sync::OnceLock;

/// `$nginx_version`: the nginx whose behaviour is the reference.
pub(crate) const NGINX_VERSION: &str = "1.29.8";

pub(super) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    let level = |read: fn(&Counters) -> i64, out: &mut Vec<u8>| {
        number(exchange.worker.process.level(read), out)
    };
    match builtin {
        // Before 1970 there was no server to ask.
        Builtin::Msec => seconds(u128::try_from(time::unix_ms()).unwrap_or(0), out),
        Builtin::DateGmt => date(exchange, false, out),
        Builtin::DateLocal => date(exchange, true, out),
        Builtin::TimeIso8601 => with_time_stamps(|now| text(&now.iso8601, out)),
        Builtin::TimeLocal => with_time_stamps(|now| text(&now.local, out)),
        Builtin::Pid => number(std::process::id(), out),
        Builtin::Hostname => put(hostname().map(str::as_bytes), out),
        Builtin::NginxVersion => text(NGINX_VERSION, out),
        Builtin::ConnectionsActive => level(|counters| counters.active.get(), out),
        Builtin::ConnectionsReading => level(|counters| counters.reading.get(), out),
        Builtin::ConnectionsWriting => level(|counters| counters.writing.get(), out),
        Builtin::ConnectionsWaiting => level(|counters| counters.waiting.get(), out),
        _ => false,
    }
}

/// Format of dates unless a page sets one.
const DATE_FORMAT: &[u8] = b"%A, %d-%b-%Y %H:%M:%S %Z";

/// `$date_local` and `$date_gmt`. No value if the format produces an empty text, or one that is too
/// long.
fn date(exchange: &Exchange, is_local: bool, out: &mut Vec<u8>) -> bool {
    let now_s = time::unix_coarse_s();
    let format = exchange.features.ssi.time_format.as_deref();
    let format = format.unwrap_or(DATE_FORMAT);
    if format == b"%s" {
        return number(u64::try_from(now_s).unwrap_or(0), out);
    }
    // A NUL ends the format in nginx too.
    let format = format.split(|byte| *byte == 0).next().unwrap_or_default();
    let format = CString::new(format).unwrap_or_default();
    let text = time::formatted(now_s, is_local, &format);
    out.extend_from_slice(&text);
    !text.is_empty()
}

/// The machine's name in lower case, as it was on first use.
pub(crate) fn hostname() -> Option<&'static str> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    let name = NAME.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        Some(text.trim_end().to_ascii_lowercase())
    });
    name.as_deref()
}
