//! The date as responses show it, formatted once per second and thread.

use sealane_http::date::{self, IMF_DATE_BYTES};
use sealane_sys::time::unix_coarse_s;
use std::cell::Cell;

thread_local! {
    static DATE: Cell<(i64, [u8; IMF_DATE_BYTES])> = const { Cell::new((i64::MIN, [0; IMF_DATE_BYTES])) };
}

/// The current time as an HTTP date.
pub(crate) fn http_date() -> [u8; IMF_DATE_BYTES] {
    let now_s = unix_coarse_s();
    DATE.with(|date| {
        let (second, text) = date.get();
        if second == now_s {
            return text;
        }
        let text = date::imf(now_s);
        date.set((now_s, text));
        text
    })
}
