//! `userid`: a cookie that identifies a client.

use crate::cookie_time::{COOKIE_TIME_MAX, push_cookie_time};
use crate::exchange::Exchange;
use crate::request_log::{Text, log_request};
use crate::variables;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sealane_conf::model::{UserId, UserIdExpires, UserIdMode};
use sealane_conf::variables::Builtin;
use sealane_sys::time::{unix_coarse_s, unix_ms};
use std::io::Write;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, OnceLock};

/// Four numbers in memory order; the last is never 0.
type Id = [u32; 4];

/// Digits of an id in base64; two characters of padding follow.
const ID_DIGITS: usize = 22;
/// The first number of a sequence of `on`, as in nginx.
const FIRST_V2: u32 = 0x0303_0302;
/// From one client to the next.
const STEP: u32 = 0x100;

/// What a request keeps for `userid`.
#[derive(Default)]
pub(crate) struct UseridState {
    /// The cookie, once it has been asked for.
    cookie: OnceLock<Box<Uid>>,
}

/// The state of a request's cookie.
#[derive(Debug)]
pub(crate) struct Uid {
    /// The received id, if it is valid.
    got: Option<Id>,
    /// The cookie as received, its mark included.
    cookie: Vec<u8>,
    /// What is sent, once that has been decided.
    set: OnceLock<Option<Set>>,
    sent: bool,
}

#[derive(Debug, Clone, Copy)]
struct Set {
    id: Id,
    /// It is a new id, not the received one with another mark.
    is_new: bool,
}

/// `$uid_got`, `$uid_set` and, if no `set` has given it a value, `$uid_reset`.
pub(crate) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    match builtin {
        Builtin::UidGot => got(exchange, out),
        Builtin::UidSet => set(exchange, out),
        _ => true,
    }
}

/// `$uid_got`.
fn got(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    let Some(conf) = exchange.conf().userid.as_deref() else {
        return false;
    };
    show(conf, uid(exchange, conf).got, out)
}

/// `$uid_set`.
fn set(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    let conf = exchange.conf().userid.as_deref();
    let Some(conf) = conf.filter(|conf| conf.mode != UserIdMode::Log) else {
        return false;
    };
    show(conf, choose(exchange, conf).map(|set| set.id), out)
}

fn show(conf: &UserId, id: Option<Id>, out: &mut Vec<u8>) -> bool {
    let Some([a, b, c, d]) = id else { return false };
    let name = &conf.name;
    // Writing to memory does not fail.
    write!(out, "{name}={a:08X}{b:08X}{c:08X}{d:08X}").is_ok()
}

fn uid<'e>(exchange: &'e Exchange, conf: &UserId) -> &'e Uid {
    exchange.features.userid.cookie.get_or_init(|| {
        let cookie = variables::cookie(exchange, conf.name.as_bytes());
        Box::new(Uid {
            got: cookie.and_then(|cookie| parse(exchange, &conf.name, cookie)),
            cookie: cookie.unwrap_or_default().to_vec(),
            set: OnceLock::new(),
            sent: false,
        })
    })
}

fn parse(exchange: &Exchange, name: &str, cookie: &[u8]) -> Option<Id> {
    // nginx logs the whole header line, with other cookies in it.
    let shown = Text(cookie);
    let Some(digits) = cookie.get(..ID_DIGITS) else {
        log_request!(
            exchange,
            Error,
            "client sent too short userid cookie \"{name}={shown}\""
        );
        return None;
    };
    // The last digit has unused bits, whose value does not matter.
    let mut digits = [digits, b"AA"].concat();
    let end = memchr::memchr(b'=', &digits).unwrap_or(digits.len());
    digits.truncate(end);
    let decoded = STANDARD_NO_PAD.decode(&digits).ok();
    let Some(bytes) = decoded.as_deref().and_then(|bytes| bytes.get(..16)) else {
        log_request!(
            exchange,
            Error,
            "client sent invalid userid cookie \"{name}={shown}\""
        );
        return None;
    };
    let mut id = [0; 4];
    for (number, bytes) in id.iter_mut().zip(bytes.chunks_exact(4)) {
        *number = u32::from_ne_bytes(bytes.try_into().expect("chunks of four bytes"));
    }
    (id[3] != 0).then_some(id)
}

/// The id to send, chosen once per request.
fn choose(exchange: &Exchange, conf: &UserId) -> Option<Set> {
    let uid = uid(exchange, conf);
    *uid.set.get_or_init(|| {
        let Some(got) = uid.got else {
            return Some(new(exchange, conf));
        };
        let mut reset = Vec::new();
        variables::append(exchange, &conf.reset, &mut reset);
        if matches!(&reset[..], b"" | b"0") {
            let marked = |mark: u8| uid.cookie.get(ID_DIGITS..ID_DIGITS + 2) == Some(&[mark, b'=']);
            return match conf.mark.is_none_or(marked) {
                true => None,
                false => Some(Set {
                    id: got,
                    is_new: false,
                }),
            };
        }
        if reset == b"log" {
            let ([a, b, c, d], name) = (got, &conf.name);
            log_request!(
                exchange,
                Notice,
                "userid cookie \"{name}={a:08X}{b:08X}{c:08X}{d:08X}\" was reset"
            );
        }
        Some(new(exchange, conf))
    })
}

/// A new, unique id.
fn new(exchange: &Exchange, conf: &UserId) -> Set {
    /// Identifies this process: the fraction of the second in which it began, and its number.
    static START: LazyLock<u32> = LazyLock::new(|| {
        let fraction = (unix_ms().rem_euclid(1000) as u32) * 50; // below 50000
        (fraction << 16) | (std::process::id() & 0xffff)
    });
    static V1: AtomicU32 = AtomicU32::new(1);
    static V2: AtomicU32 = AtomicU32::new(FIRST_V2);
    let time = unix_coarse_s() as u32; // as in nginx, until 2106
    let id = if conf.mode == UserIdMode::V1 {
        let number = V1.fetch_add(STEP, Ordering::Relaxed);
        [conf.service.unwrap_or(0), time, *START, number]
    } else {
        let next = |number: u32| Some(number.wrapping_add(STEP).max(FIRST_V2));
        let number = V2.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let number = number.unwrap_or(FIRST_V2);
        let server = conf.service.map_or_else(|| address(exchange), u32::to_be);
        [server, time.to_be(), START.to_be(), number.to_be()]
    };
    Set { id, is_new: true }
}

/// The address of the server, or the end of it.
fn address(exchange: &Exchange) -> u32 {
    let bytes = match exchange.connection.local().map(|local| local.ip()) {
        Some(IpAddr::V4(address)) => address.octets(),
        Some(IpAddr::V6(address)) => {
            let [.., a, b, c, d] = address.octets();
            [a, b, c, d]
        }
        None => [0; 4],
    };
    u32::from_ne_bytes(bytes)
}

/// Sets the cookie, once for a request.
pub(super) fn apply(exchange: &mut Exchange) {
    let Some(conf) = exchange.conf().userid.clone() else {
        return;
    };
    if conf.mode == UserIdMode::Log || exchange.request.is_subrequest {
        return;
    }
    let Some(set) = choose(exchange, &conf) else {
        return;
    };
    let Some(uid) = exchange.features.userid.cookie.get_mut() else {
        return;
    };
    if std::mem::replace(&mut uid.sent, true) {
        return;
    }
    let value = cookie(&conf, uid, set);
    let headers = &mut exchange.response.headers;
    // What a header cannot carry is not sent.
    let _ = headers.push(b"Set-Cookie", &value);
    if let Some(p3p) = &conf.p3p {
        let _ = headers.push(b"P3P", p3p);
    }
}

fn cookie(conf: &UserId, uid: &Uid, set: Set) -> Vec<u8> {
    let mut value = conf.name.as_bytes().to_vec();
    value.push(b'=');
    if set.is_new {
        let mut bytes = Vec::with_capacity(16);
        for number in set.id {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        value.extend_from_slice(STANDARD.encode(bytes).as_bytes());
        if let Some(mark) = conf.mark {
            let at = value.len() - 2;
            value[at] = mark;
        }
    } else {
        value.extend_from_slice(&uid.cookie[..ID_DIGITS]);
        value.extend(conf.mark);
        value.push(b'=');
    }
    match conf.expires {
        None => {}
        Some(UserIdExpires::Max) => {
            value.extend_from_slice(b"; expires=");
            push_cookie_time(COOKIE_TIME_MAX, &mut value);
        }
        Some(UserIdExpires::After(time)) => {
            let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
            value.extend_from_slice(b"; expires=");
            push_cookie_time(unix_coarse_s().saturating_add(seconds), &mut value);
        }
    }
    if let Some(domain) = &conf.domain {
        value.extend_from_slice(b"; domain=");
        value.extend_from_slice(domain);
    }
    value.extend_from_slice(b"; path=");
    value.extend_from_slice(&conf.path);
    for flag in &conf.flags {
        value.extend_from_slice(flag.as_bytes());
    }
    value
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn a_complaint_shows_no_other_cookies() {
        let site = Site::new("userid on;");
        for cookie in ["uid=short", "uid=!gAAAWXQ8Q0AAAAAAwMBAg=="] {
            site.get_with("/", &[&format!("Cookie: session=hidden; {cookie}")]);
        }
        let log = site.error_log();
        assert!(
            log.contains("too short userid cookie \"uid=short\""),
            "{log}"
        );
        assert!(log.contains("invalid userid cookie \"uid=!gAAA"), "{log}");
        assert!(!log.contains("hidden"), "{log}");
    }
}
