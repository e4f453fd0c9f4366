//! `expires`.

use crate::clock;
use crate::exchange::Exchange;
use crate::template;
use sealane_conf::directives::parse_expires;
use sealane_conf::model::Expires;
use sealane_http::date;
use sealane_sys::time;

const DAY_S: i64 = 24 * 60 * 60;

/// Adds `Expires` and `Cache-Control`.
pub(super) fn apply(exchange: &mut Exchange) {
    let configured = &exchange.snapshot.location(exchange.location).conf.expires;
    let now_s = time::unix_coarse_s();
    let last_modified_s = exchange.response.last_modified_s;
    let plan = match configured {
        Expires::Evaluated(value, modified) => {
            match parse_expires(&template::evaluate(value, exchange), *modified) {
                // A value that means nothing adds nothing.
                Err(_) => return,
                Ok(parsed) => Plan::of(&parsed, now_s, last_modified_s),
            }
        }
        fixed => Plan::of(fixed, now_s, last_modified_s),
    };
    let Some(Plan {
        expires,
        cache_control,
    }) = plan
    else {
        return;
    };
    let headers = &mut exchange.response.headers;
    // Dates and numbers hold no line breaks, which is all the list refuses.
    let _ = headers.set(b"Expires", &expires);
    let _ = headers.set(b"Cache-Control", cache_control.as_bytes());
}

/// The values of the two headers.
struct Plan {
    expires: [u8; date::IMF_DATE_BYTES],
    cache_control: String,
}

impl Plan {
    fn of(expires: &Expires, now_s: i64, last_modified_s: Option<i64>) -> Option<Plan> {
        let fixed = |expires: &[u8; date::IMF_DATE_BYTES], cache_control: &str| {
            Some(Plan {
                expires: *expires,
                cache_control: cache_control.to_owned(),
            })
        };
        let (at_s, max_age_s, offset_s) = match *expires {
            Expires::Off | Expires::Evaluated(..) => return None,
            Expires::Epoch => return fixed(b"Thu, 01 Jan 1970 00:00:01 GMT", "no-cache"),
            Expires::Max => return fixed(b"Thu, 31 Dec 2037 23:55:55 GMT", "max-age=315360000"),
            Expires::Access(0) | Expires::Modified(0) => {
                return fixed(clock::http_date().as_bytes(), "max-age=0");
            }
            Expires::Daily(after_midnight_s) => {
                let at_s = next_time_of_day(now_s, i64::from(after_midnight_s));
                (at_s, at_s - now_s, 0)
            }
            Expires::Access(offset_s) => (now_s.saturating_add(offset_s), offset_s, offset_s),
            Expires::Modified(offset_s) => match last_modified_s {
                Some(modified_s) => {
                    let at_s = modified_s.saturating_add(offset_s);
                    (at_s, at_s.saturating_sub(now_s), offset_s)
                }
                None => (now_s.saturating_add(offset_s), offset_s, offset_s),
            },
        };
        let cache_control = if offset_s < 0 || max_age_s < 0 {
            "no-cache".to_owned()
        } else {
            format!("max-age={max_age_s}")
        };
        Some(Plan {
            expires: date::imf(at_s),
            cache_control,
        })
    }
}

/// The next time at which the local clock shows this many seconds after midnight.
fn next_time_of_day(now_s: i64, after_midnight_s: i64) -> i64 {
    let offset_s = i64::from(time::local(now_s).utc_offset_s);
    let midnight_s = now_s - (now_s + offset_s).rem_euclid(DAY_S);
    let mut at_s = midnight_s + after_midnight_s;
    if at_s <= now_s {
        at_s += DAY_S;
    }
    // Summer time may begin or end before then.
    at_s + offset_s - i64::from(time::local(at_s).utc_offset_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(expires: Expires, last_modified_s: Option<i64>) -> (String, String) {
        let plan = Plan::of(&expires, 1_000_000, last_modified_s).expect("adds headers");
        (
            String::from_utf8_lossy(&plan.expires).into_owned(),
            plan.cache_control,
        )
    }

    fn date(unix_s: i64) -> String {
        String::from_utf8_lossy(&date::imf(unix_s)).into_owned()
    }

    #[test]
    fn from_access_and_from_modification() {
        assert_eq!(
            plan(Expires::Access(60), None),
            (date(1_000_060), "max-age=60".into())
        );
        assert_eq!(
            plan(Expires::Access(-1), None),
            (date(999_999), "no-cache".into())
        );
        let modified = Some(999_000);
        assert_eq!(
            plan(Expires::Modified(2000), modified),
            (date(1_001_000), "max-age=1000".into())
        );
        assert_eq!(
            plan(Expires::Modified(500), modified),
            (date(999_500), "no-cache".into())
        );
        assert_eq!(
            plan(Expires::Modified(500), None),
            (date(1_000_500), "max-age=500".into())
        );
        assert_eq!(plan(Expires::Access(0), None).1, "max-age=0");
    }

    #[test]
    fn fixed_dates() {
        assert_eq!(plan(Expires::Epoch, None), (date(1), "no-cache".into()));
        let (expires, cache_control) = plan(Expires::Max, None);
        assert_eq!(expires, "Thu, 31 Dec 2037 23:55:55 GMT");
        assert_eq!(cache_control, "max-age=315360000");
        assert!(Plan::of(&Expires::Off, 0, None).is_none());
    }

    #[test]
    fn the_time_of_day_is_ahead_by_at_most_a_day_and_an_hour() {
        let now_s = 1_700_000_000;
        for after_midnight_s in [0, 1, 3600, 43_200, 86_399] {
            let at_s = next_time_of_day(now_s, after_midnight_s);
            assert!(
                at_s > now_s && at_s <= now_s + DAY_S + 3600,
                "{after_midnight_s}"
            );
            let local = time::local(at_s);
            let shown = i64::from(local.hour) * 3600
                + i64::from(local.minute) * 60
                + i64::from(local.second);
            assert_eq!(shown, after_midnight_s);
        }
    }
}
