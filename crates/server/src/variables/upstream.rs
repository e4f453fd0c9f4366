//! Variables about upstream servers: `$upstream_*`, `$proxy_*`.

use super::{is_variable_name, number, put, seconds, text, tunnel};
use crate::exchange::Exchange;
use crate::proxying::{Attempt, BodyPlan, CacheState, UpstreamStates, cache_settings};
use sealane_conf::model::Pass;
use sealane_conf::variables::Builtin;
use sealane_http::date::ImfDate;
use sealane_http::headers::KnownHeader;
use sealane_sys::time::unix_coarse_s;
use std::time::Duration;

pub(super) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    match builtin {
        Builtin::ProxyHost => proxy_place(
            exchange,
            out,
            |states| states.host.as_deref(),
            |pass| pass.host(),
        ),
        Builtin::ProxyPort => proxy_place(
            exchange,
            out,
            |states| states.port.as_deref(),
            |pass| pass.port(),
        ),
        Builtin::ProxyAddXForwardedFor => forwarded_for(exchange, out),
        Builtin::ProxyInternalBodyLength => match body_plan(exchange) {
            BodyPlan::Length(bytes) => number(bytes, out),
            BodyPlan::None | BodyPlan::Unknown => false,
        },
        Builtin::ProxyInternalChunked => match body_plan(exchange) {
            BodyPlan::Unknown => text("chunked", out),
            BodyPlan::None | BodyPlan::Length(_) => false,
        },
        Builtin::GrpcInternalTrailers => takes_trailers(exchange) && text("trailers", out),
        Builtin::FastcgiScriptName => fastcgi_script(exchange, 1, out),
        // Empty without an expression that splits it off.
        Builtin::FastcgiPathInfo => {
            fastcgi_script(exchange, 2, out);
            true
        }
        Builtin::UpstreamCacheStatus => {
            let state = cache_state(exchange);
            put(state.map(|state| state.status.name().as_bytes()), out)
        }
        Builtin::UpstreamCacheLastModified => match validators(exchange).0 {
            Some(time) => text(ImfDate::new(time).as_bytes(), out),
            None => false,
        },
        Builtin::UpstreamCacheEtag => put(validators(exchange).1, out),
        Builtin::UpstreamCacheAge => match cache_state(exchange).and_then(|state| state.date_s) {
            Some(date_s) => number((unix_coarse_s() - date_s).max(0), out),
            None => false,
        },
        Builtin::ConnectHost
        | Builtin::ConnectPort
        | Builtin::ConnectAddr
        | Builtin::ProxyConnectConnectTimeout
        | Builtin::ProxyConnectDataTimeout
        | Builtin::ProxyConnectReadTimeout
        | Builtin::ProxyConnectSendTimeout
        | Builtin::ProxyConnectResolveTime
        | Builtin::ProxyConnectConnectTime
        | Builtin::ProxyConnectFirstByteTime
        | Builtin::ProxyConnectResponse => tunnel::append(exchange, builtin, out),
        _ => of_states(exchange, builtin, out),
    }
}

fn cache_state(exchange: &Exchange) -> Option<&CacheState> {
    exchange.upstream.as_deref()?.cache.as_deref()
}

/// What a stale response is confirmed by.
fn validators(exchange: &Exchange) -> (Option<i64>, Option<&[u8]>) {
    let pass = exchange.snapshot.location(exchange.location).pass.as_ref();
    let settings = pass.and_then(cache_settings);
    match (cache_state(exchange), settings) {
        (Some(state), Some(settings)) => state.validators(settings),
        _ => (None, None),
    }
}

/// Whether the client accepts trailers (RFC 9110 section 10.1.4).
fn takes_trailers(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    let mut lines = request.head.get_all(KnownHeader::Te);
    lines.any(|line| {
        let mut words = line.of(&request.buffer).split(|byte| *byte == b',');
        words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"trailers"))
    })
}

/// `$fastcgi_script_name` (group 1) and `$fastcgi_path_info` (group 2).
fn fastcgi_script(exchange: &Exchange, group: usize, out: &mut Vec<u8>) -> bool {
    let location = exchange.snapshot.location(exchange.location);
    let uri = &exchange.request.uri;
    let Some(Pass::FastCgi(pass)) = location.pass.as_ref().map(|pass| &pass.pass) else {
        return group == 1 && text(uri, out);
    };
    if let Some(split) = &pass.split_path_info
        && let Ok(Some(found)) = split.captures(uri)
    {
        let part = found.get(uri, group).unwrap_or_default();
        text(part, out);
        if group == 1 && part.ends_with(b"/") {
            text(&pass.index, out);
        }
        return true;
    }
    if group == 2 {
        return text("", out);
    }
    text(uri, out);
    if uri.ends_with(b"/") {
        text(&pass.index, out);
    }
    true
}

fn of_states(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    let Some(states) = exchange.upstream.as_deref() else {
        return false;
    };
    match builtin {
        Builtin::UpstreamAddr => each(states, out, |attempt, out| {
            out.extend_from_slice(attempt.peer.as_bytes());
        }),
        Builtin::UpstreamStatus => each(states, out, |attempt, out| match attempt.status {
            0 => out.push(b'-'),
            status => {
                number(status, out);
            }
        }),
        Builtin::UpstreamQueueTime => times(states, out, |attempt| attempt.queue_time),
        Builtin::UpstreamConnectTime => times(states, out, |attempt| attempt.connect_time),
        Builtin::UpstreamHeaderTime => times(states, out, |attempt| attempt.header_time),
        Builtin::UpstreamResponseTime => times(states, out, |attempt| attempt.response_time),
        Builtin::UpstreamResponseLength => counts(states, out, |attempt| attempt.response_length),
        Builtin::UpstreamBytesReceived => counts(states, out, |attempt| attempt.bytes_received),
        Builtin::UpstreamBytesSent => counts(states, out, |attempt| attempt.bytes_sent),
        Builtin::UpstreamLastServerName => {
            let last = states.attempts.last();
            put(last.map(|attempt| attempt.server.as_bytes()), out)
        }
        _ => false,
    }
}

/// One value for each attempt: `, ` between them, ` : ` where an internal redirect led
/// to another group.
fn each(
    states: &UpstreamStates,
    out: &mut Vec<u8>,
    mut one: impl FnMut(&Attempt, &mut Vec<u8>),
) -> bool {
    for (index, attempt) in states.attempts.iter().enumerate() {
        if attempt.after_redirect {
            out.extend_from_slice(b" : ");
        } else if index > 0 {
            out.extend_from_slice(b", ");
        }
        one(attempt, out);
    }
    !states.attempts.is_empty()
}

/// A time of each attempt.
pub(crate) fn times(
    states: &UpstreamStates,
    out: &mut Vec<u8>,
    time: impl Fn(&Attempt) -> Option<Duration>,
) -> bool {
    each(states, out, |attempt, out| match time(attempt) {
        Some(time) => {
            seconds(time.as_millis(), out);
        }
        None => out.push(b'-'),
    })
}

fn counts(states: &UpstreamStates, out: &mut Vec<u8>, count: impl Fn(&Attempt) -> u64) -> bool {
    each(states, out, |attempt, out| {
        number(count(attempt), out);
    })
}

fn body_plan(exchange: &Exchange) -> BodyPlan {
    let states = exchange.upstream.as_deref();
    states.map_or(BodyPlan::None, |states| states.body)
}

/// The evaluated target if there is one, otherwise what is configured.
fn proxy_place(
    exchange: &Exchange,
    out: &mut Vec<u8>,
    evaluated: impl Fn(&UpstreamStates) -> Option<&str>,
    configured: impl Fn(&crate::proxying::PassRuntime) -> &str,
) -> bool {
    let location = exchange.snapshot.location(exchange.location);
    let Some(pass) = &location.pass else {
        return false;
    };
    if !matches!(pass.pass, Pass::Proxy(_)) {
        return false;
    }
    match exchange.upstream.as_deref() {
        Some(states) if pass.group.is_none() => text(evaluated(states).unwrap_or_default(), out),
        _ => text(configured(pass), out),
    }
}

/// `$proxy_add_x_forwarded_for`.
fn forwarded_for(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    let request = &exchange.request;
    for line in request.head.get_all(KnownHeader::XForwardedFor) {
        out.extend_from_slice(line.of(&request.buffer));
        out.extend_from_slice(b", ");
    }
    super::append_builtin(exchange, Builtin::RemoteAddr, out)
}

/// `$upstream_http_NAME`.
pub(super) fn header(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let head = exchange.upstream.as_deref().and_then(|s| s.head.as_deref());
    let Some(head) = head else {
        return false;
    };
    let mut found = false;
    for header in &head.parsed.headers {
        if is_variable_name(header.name.of(&head.buffer), name) {
            if found {
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(header.value.of(&head.buffer));
            found = true;
        }
    }
    found
}

/// `$upstream_trailer_NAME`.
pub(super) fn trailer(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let Some(states) = exchange.upstream.as_deref() else {
        return false;
    };
    let mut trailers = states.trailers.iter();
    let named = trailers.find(|(key, _)| is_variable_name(key, name));
    put(named.map(|(_, value)| value), out)
}

/// `$upstream_cookie_NAME`: the value of the cookie that the last response sets.
pub(super) fn cookie(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let head = exchange.upstream.as_deref().and_then(|s| s.head.as_deref());
    let Some(head) = head else {
        return false;
    };
    let value = head
        .parsed
        .get_all(KnownHeader::SetCookie)
        .find_map(|line| {
            let pair = line.of(&head.buffer).split(|byte| *byte == b';').next()?;
            let (key, value) = pair.split_at_checked(name.len())?;
            // As in nginx, spaces may surround the equals sign.
            let value = without_leading_spaces(value).strip_prefix(b"=")?;
            let value = without_leading_spaces(value);
            key.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
        });
    put(value, out)
}

fn without_leading_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|byte| **byte == b' ').count();
    &text[spaces..]
}
