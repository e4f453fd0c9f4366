//! The date as responses show it, formatted once per second and thread.

use sealane_http::date::ImfDate;
use sealane_sys::time::unix_coarse_s;
use std::cell::Cell;

thread_local! {
    static DATE: Cell<Option<(i64, ImfDate)>> = const { Cell::new(None) };
}

/// The current time as an HTTP date.
pub(crate) fn http_date() -> ImfDate {
    let now_s = unix_coarse_s();
    DATE.with(|date| match date.get() {
        Some((second, text)) if second == now_s => text,
        _ => {
            let text = ImfDate::new(now_s);
            date.set(Some((now_s, text)));
            text
        }
    })
}
