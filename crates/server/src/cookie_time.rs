//! Times in cookies, as nginx writes them.

use sealane_http::date;

/// The latest time that old clients know: `Thu, 31-Dec-37 23:55:55 GMT`, in seconds since 1970.
pub(crate) const COOKIE_TIME_MAX: i64 = 2_145_916_555;

/// `Thu, 31-Dec-37 23:55:55 GMT`; a year from 2038 on has four digits, as in nginx.
pub(crate) fn push_cookie_time(unix_s: i64, out: &mut Vec<u8>) {
    // `Thu, 31 Dec 2037 23:55:55 GMT`
    let imf = date::imf(unix_s);
    let year = &imf[12..16];
    let year = if year > &b"2037"[..] {
        year
    } else {
        &year[2..]
    };
    for part in [&imf[..7], b"-", &imf[8..11], b"-", year, &imf[16..]] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_cookies() {
        let time = |unix_s: i64| {
            let mut out = Vec::new();
            push_cookie_time(unix_s, &mut out);
            String::from_utf8(out).expect("it is text")
        };
        assert_eq!(time(COOKIE_TIME_MAX), "Thu, 31-Dec-37 23:55:55 GMT");
        assert_eq!(time(2_145_916_800), "Fri, 01-Jan-2038 00:00:00 GMT");
        assert_eq!(time(0), "Thu, 01-Jan-70 00:00:00 GMT");
    }
}
