//! Tengine's `session_sticky`: the cookie that tells which server a client belongs to, in three
//! ways. `insert` sets a cookie of its own. `prefix` puts the server's id before the value of a
//! cookie that the server sets, and `rewrite` in its place.
//!
//! ```text
//! request:   name=ID               insert, rewrite
//!            name=ID|SEEN|FIRST    insert with limits: when the client came last, and first
//!            name=ID~VALUE         prefix; the server gets name=VALUE (session_sticky_hide_cookie)
//! ```

use super::lease::GroupRuntime;
use crate::cookie_time::push_cookie_time;
use crate::exchange::{Exchange, Request};
use crate::request_log::log_request;
use sealane_conf::model::{SessionMode, SessionSticky, Sticky};
use sealane_http::Span;
use sealane_http::StatusCode;
use sealane_http::headers::{HeaderList, KnownHeader};
use sealane_sys::time::unix_coarse_s;
use sealane_upstream::Peer;
use std::sync::Arc;

/// A cookie may come from a clock that is ahead by so much.
const AHEAD_S: i64 = 86400;
/// Between the id and the times.
const TIMES: u8 = b'|';
/// Between the id and the value of the server.
const PREFIX: u8 = b'~';

/// The session of a request with a group.
pub(crate) struct SessionAffinity {
    group: Arc<GroupRuntime>,
    /// The id of its server: of the cookie, then of the server that was picked. Empty if there is
    /// none.
    id: Vec<u8>,
    /// The request has no cookie that counts, or its server could not be picked.
    is_new: bool,
    /// When the client first came.
    first_seen_s: i64,
    /// A server was picked.
    is_picked: bool,
}

impl SessionAffinity {
    /// The server that the request is to go to, and whether it may go to no other one.
    pub(super) fn wanted(&self) -> Option<(&[u8], bool)> {
        if self.is_new {
            return None;
        }
        let is_only = conf_of(&self.group).is_some_and(|conf| !conf.fallback);
        match self.is_picked && !is_only {
            // It has failed.
            true => None,
            false => Some((&self.id, is_only)),
        }
    }

    /// This server was picked.
    pub(super) fn note_picked(&mut self, peer: &Peer) {
        self.is_picked = true;
        if *self.id != *peer.server_id() {
            self.is_new = true;
            self.id = peer.server_id().to_vec();
        }
    }

    fn is_of(&self, group: &Arc<GroupRuntime>) -> bool {
        Arc::ptr_eq(&self.group, group)
    }
}

fn conf_of(group: &GroupRuntime) -> Option<&SessionSticky> {
    match group.sticky.as_ref()?.conf() {
        Sticky::Session(session) => Some(session),
        _ => None,
    }
}

/// Reads the cookie of a request that goes to this group; takes it out of what the server gets, if
/// the location says so.
pub(super) fn begin(exchange: &mut Exchange, group: &Arc<GroupRuntime>) {
    let Some(conf) = conf_of(group) else { return };
    let known = exchange.upstream.as_deref_mut();
    let known = known.and_then(|states| states.session.as_deref_mut());
    if let Some(known) = known.filter(|known| known.is_of(group)) {
        // An internal redirect has led to it again.
        known.is_picked = false;
        return;
    }
    let now_s = unix_coarse_s();
    let found = find(&exchange.request, &conf.cookie);
    let cookie = found.as_ref().and_then(|found| read(conf, found, now_s));
    let (id, first_seen_s) = match &cookie {
        Some(cookie) => (cookie.id.to_vec(), cookie.first_seen_s),
        None => (Vec::new(), now_s),
    };
    let is_new = cookie.is_none();
    let session = SessionAffinity {
        group: group.clone(),
        id,
        is_new,
        first_seen_s,
        is_picked: false,
    };
    if hides(exchange, group, conf) {
        hide(&mut exchange.request, conf);
    }
    exchange.upstream.get_or_insert_default().session = Some(Box::new(session));
}

/// Whether the location has `session_sticky_hide_cookie` for this group.
fn is_hidden(exchange: &Exchange, group: &Arc<GroupRuntime>) -> bool {
    let hidden = exchange.conf().hides_session;
    let hidden = hidden.and_then(|hidden| exchange.snapshot.groups.get(hidden.0));
    hidden.is_some_and(|hidden| Arc::ptr_eq(hidden, group))
}

/// Whether the server does not get the cookie.
fn hides(exchange: &Exchange, group: &Arc<GroupRuntime>, conf: &SessionSticky) -> bool {
    is_hidden(exchange, group)
        && match conf.mode {
            SessionMode::Insert => conf.indirect,
            SessionMode::Prefix => true,
            SessionMode::Rewrite => false,
        }
}

/// The value of the first cookie with this name.
fn find(request: &Request, name: &[u8]) -> Option<Vec<u8>> {
    let mut headers = request.head.get_all(KnownHeader::Cookie);
    headers.find_map(|header| {
        let mut pairs = header.of(&request.buffer).split(|byte| *byte == b';');
        pairs.find_map(|pair| value_of(pair, name).map(<[u8]>::to_vec))
    })
}

/// The value of `name=value`, if it has this name.
fn value_of<'p>(pair: &'p [u8], name: &[u8]) -> Option<&'p [u8]> {
    let at = memchr::memchr(b'=', pair)?;
    (pair[..at].trim_ascii() == name).then(|| pair[at + 1..].trim_ascii())
}

/// What a cookie says.
#[derive(Debug, PartialEq, Eq)]
struct Said<'c> {
    id: &'c [u8],
    first_seen_s: i64,
}

/// Reads the value of the cookie. `None` if it is none of ours, or too old.
fn read<'c>(conf: &SessionSticky, value: &'c [u8], now_s: i64) -> Option<Said<'c>> {
    let unlimited = |id| {
        let first_seen_s = now_s;
        Some(Said { id, first_seen_s }).filter(|said| !said.id.is_empty())
    };
    match (conf.mode, &conf.limits) {
        (SessionMode::Prefix, _) => {
            let at = memchr::memchr(PREFIX, value)?;
            unlimited(&value[..at])
        }
        (SessionMode::Insert, Some(limits)) => {
            let mut parts = value.splitn(3, |byte| *byte == TIMES);
            let id = parts.next().filter(|id| !id.is_empty())?;
            let last_seen_s = seconds(parts.next()?)?;
            let first_seen_s = seconds(parts.next()?)?;
            let is_within = |since_s: i64, most_s: i64| {
                let passed_s = now_s.saturating_sub(since_s);
                (-AHEAD_S..=most_s).contains(&passed_s)
            };
            let is_good = is_within(last_seen_s, limits.max_idle_s)
                && is_within(first_seen_s, limits.max_life_s);
            is_good.then_some(Said { id, first_seen_s })
        }
        _ => unlimited(value),
    }
}

fn seconds(digits: &[u8]) -> Option<i64> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Takes the cookie out of the request; with `prefix` only the server's id. A header that has
/// nothing else is gone.
fn hide(request: &mut Request, conf: &SessionSticky) {
    let Request { buffer, head, .. } = request;
    for header in &mut head.headers {
        if header.known != Some(KnownHeader::Cookie) {
            continue;
        }
        let value = header.value.of(buffer);
        let Some(left) = without(value, conf) else {
            continue;
        };
        // Never longer than it was.
        let start = header.value.start as usize;
        let end = start + left.len();
        if let Some(place) = buffer.get_mut(start..end) {
            place.copy_from_slice(&left);
            header.value = Span::new(start, end);
        }
        break;
    }
    head.headers.retain(|header| {
        header.known != Some(KnownHeader::Cookie) || header.value.start < header.value.end
    });
}

/// A header without the first cookie of this name; `None` if it has none.
fn without(value: &[u8], conf: &SessionSticky) -> Option<Vec<u8>> {
    let pairs: Vec<&[u8]> = value.split(|byte| *byte == b';').collect();
    let at = pairs
        .iter()
        .position(|pair| value_of(pair, &conf.cookie).is_some())?;
    let mut left: Vec<Vec<u8>> = pairs.iter().map(|pair| pair.to_vec()).collect();
    match conf.mode {
        SessionMode::Prefix => {
            let own = value_of(pairs[at], &conf.cookie)?;
            // Without a prefix it is the server's alone, and no other one counts.
            if let Some(prefix) = memchr::memchr(PREFIX, own) {
                let name = [b" ", &*conf.cookie, b"="].concat();
                left[at] = [&name, &own[prefix + 1..]].concat();
            }
        }
        _ => {
            left.remove(at);
        }
    }
    let left = left.join(&b';');
    Some(left.trim_ascii().to_vec())
}

/// Sets or changes the cookie in the response.
pub(super) fn finish(exchange: &mut Exchange) {
    let states = exchange.upstream.as_deref_mut();
    let Some(session) = states.and_then(|states| states.session.take()) else {
        return;
    };
    let group = session.group.clone();
    let Some(conf) = conf_of(&group) else { return };
    // As in Tengine, an error says nothing about a session.
    if !session.is_picked || exchange.response.status.0 >= StatusCode::BAD_REQUEST.0 {
        return;
    }
    let has_to_be_hidden = conf.mode == SessionMode::Prefix || conf.indirect;
    if has_to_be_hidden && !is_hidden(exchange, &group) {
        return;
    }
    let headers = &exchange.response.headers;
    let changed = match conf.mode {
        SessionMode::Insert if !session.is_new && conf.limits.is_none() => return,
        SessionMode::Insert => {
            let cookie = cookie(conf, &session, unix_coarse_s());
            let replaced = match conf.indirect {
                true => change_first(headers, conf, |_| Some(cookie.clone())),
                false => None,
            };
            match replaced {
                Some(replaced) => Some(replaced),
                None => {
                    if let Err(error) = exchange.response.headers.push(b"Set-Cookie", &cookie) {
                        log_request!(
                            exchange,
                            Error,
                            "the cookie of \"session_sticky\" is left out: {error}"
                        );
                    }
                    return;
                }
            }
        }
        SessionMode::Prefix => change_first(headers, conf, |set| prefixed(set, &session.id)),
        SessionMode::Rewrite => change_first(headers, conf, |set| {
            Some(rewritten(set, &conf.cookie, &session.id))
        }),
    };
    if let Some(changed) = changed {
        exchange.response.headers = changed;
    }
}

/// The headers with another value for the first `Set-Cookie` that sets this cookie. `None` if there
/// is none, or it stays.
fn change_first(
    headers: &HeaderList,
    conf: &SessionSticky,
    change: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Option<HeaderList> {
    let mut changed = HeaderList::new();
    let mut is_changed = false;
    for (name, value) in headers.iter() {
        let sets_it = !is_changed
            && name.eq_ignore_ascii_case(b"Set-Cookie")
            && name_of(value).eq_ignore_ascii_case(&conf.cookie);
        let other = match sets_it {
            true => change(value),
            false => None,
        };
        is_changed |= other.is_some();
        changed.push(name, other.as_deref().unwrap_or(value)).ok()?;
    }
    is_changed.then_some(changed)
}

/// The name of the cookie that a `Set-Cookie` sets.
fn name_of(set: &[u8]) -> &[u8] {
    let end = set.iter().position(|byte| matches!(byte, b'=' | b';'));
    set[..end.unwrap_or(set.len())].trim_ascii()
}

/// `name=VALUE` becomes `name=ID~VALUE`. `None` without a value.
fn prefixed(set: &[u8], id: &[u8]) -> Option<Vec<u8>> {
    let equals = memchr::memchr(b'=', set)?;
    let value = set[equals + 1..]
        .iter()
        .position(|byte| !byte.is_ascii_whitespace())?;
    let (before, value) = set.split_at(equals + 1 + value);
    Some([before, id, &[PREFIX], value].concat())
}

/// `name=VALUE` becomes `name=ID`.
fn rewritten(set: &[u8], name: &[u8], id: &[u8]) -> Vec<u8> {
    let end = memchr::memchr(b';', set).unwrap_or(set.len());
    [name, b"=", id, &set[end..]].concat()
}

/// The value of `Set-Cookie`, with its attributes in Tengine's order and case.
fn cookie(conf: &SessionSticky, session: &SessionAffinity, now_s: i64) -> Vec<u8> {
    let mut value = [&*conf.cookie, b"=", &session.id].concat();
    if conf.limits.is_some() {
        value.extend_from_slice(format!("|{now_s}|{}", session.first_seen_s).as_bytes());
    }
    if let Some(domain) = &conf.domain {
        value.extend_from_slice(b"; Domain=");
        value.extend_from_slice(domain);
    }
    value.extend_from_slice(b"; Path=");
    value.extend_from_slice(&conf.path);
    if let (Some(max_age_s), None) = (conf.max_age_s, &conf.limits) {
        value.extend_from_slice(format!("; Max-Age={max_age_s}; Expires=").as_bytes());
        push_cookie_time(now_s.saturating_add(max_age_s), &mut value);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_conf::model::SessionLimits;

    fn conf(mode: SessionMode) -> SessionSticky {
        SessionSticky {
            cookie: b"route"[..].into(),
            domain: None,
            path: b"/"[..].into(),
            max_age_s: None,
            mode,
            indirect: false,
            limits: None,
            fallback: true,
            plain: false,
        }
    }

    fn id(conf: &SessionSticky, value: &str) -> Option<String> {
        let said = read(conf, value.as_bytes(), 100_000)?;
        Some(String::from_utf8_lossy(said.id).into_owned())
    }

    #[test]
    fn values_are_read_by_their_mode() {
        let insert = conf(SessionMode::Insert);
        assert_eq!(id(&insert, "a|b~c").as_deref(), Some("a|b~c"));
        assert_eq!(id(&insert, ""), None);
        let prefix = conf(SessionMode::Prefix);
        assert_eq!(id(&prefix, "a~b~c").as_deref(), Some("a"));
        assert_eq!(id(&prefix, "abc"), None);
        assert_eq!(id(&prefix, "~c"), None);
        let limited = SessionSticky {
            limits: Some(SessionLimits {
                max_idle_s: 10,
                max_life_s: 100,
            }),
            ..conf(SessionMode::Insert)
        };
        for (value, found) in [
            ("a|99990|99900", Some("a")),
            ("a|99989|99900", None),
            ("a|99990|99899", None),
            ("a|186400|186400", Some("a")),
            ("a|186401|100000", None),
            ("a|100000", None),
            ("a", None),
            ("", None),
            ("|100000|100000", None),
            ("a|100000|100000|", None),
            ("a|100000|", None),
            ("a||100000", None),
            ("a|+100000|100000", None),
            ("a|99999999999999999999|100000", None),
            ("a|100000|-1", None),
        ] {
            assert_eq!(id(&limited, value).as_deref(), found, "{value}");
        }
    }

    #[test]
    fn a_cookie_is_taken_out_whatever_is_around_it() {
        let left = |mode, value: &str| {
            let left = without(value.as_bytes(), &conf(mode))?;
            Some(String::from_utf8_lossy(&left).into_owned())
        };
        for (value, after) in [
            ("route=x", Some("")),
            ("route=x; a=1", Some("a=1")),
            ("a=1; route=x; b=2", Some("a=1; b=2")),
            ("a=1; route = x", Some("a=1")),
            ("a=1;route=x;b=2", Some("a=1;b=2")),
            ("myroute=x; routes=2; route", None),
            ("Route=x", None),
            ("", None),
        ] {
            assert_eq!(
                left(SessionMode::Insert, value).as_deref(),
                after,
                "{value}"
            );
        }
        for (value, after) in [
            ("route=id~x=y", Some("route=x=y")),
            ("a=1; route=id~; b=2", Some("a=1; route=; b=2")),
            ("route=x; route=id~y", Some("route=x; route=id~y")),
            ("a=1", None),
        ] {
            assert_eq!(
                left(SessionMode::Prefix, value).as_deref(),
                after,
                "{value}"
            );
        }
    }

    #[test]
    fn cookies_of_the_server_are_changed() {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
        let prefixed = |set: &str| prefixed(set.as_bytes(), b"id").map(text);
        assert_eq!(
            prefixed("route=x; Path=/").as_deref(),
            Some("route=id~x; Path=/")
        );
        assert_eq!(prefixed("route= x").as_deref(), Some("route= id~x"));
        assert_eq!(prefixed("route=; a").as_deref(), Some("route=id~; a"));
        assert_eq!(prefixed("route="), None);
        let rewritten = |set: &str| text(rewritten(set.as_bytes(), b"route", b"id"));
        assert_eq!(rewritten("Route=x; Path=/"), "route=id; Path=/");
        assert_eq!(rewritten("route"), "route=id");
        assert_eq!(name_of(b" a =b; c"), b"a");
        assert_eq!(name_of(b"a; b=c"), b"a");
    }
}
