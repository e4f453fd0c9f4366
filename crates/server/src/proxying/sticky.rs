//! `sticky`: a client belongs to a server of the group, which is picked for it as long as it is
//! available. The cookie or the route of the request names the server, or a session that the
//! server has made (`learn`).

mod sync;

use self::sync::{SessionLookup, SessionSync};
use super::lease::{GroupRuntime, Leased};
use super::session_sticky;
use crate::cookie_time::{COOKIE_TIME_MAX, push_cookie_time};
use crate::debug_log::debug_request;
use crate::exchange::Exchange;
use crate::limits::zone::Zone;
use crate::request_log::{Text, log_request};
use crate::{template, variables};
use md5::{Digest, Md5};
use sealane_conf::model::{
    LogLevel, Sticky, StickyCookie, StickyExpires, StickyLearn, Template, Variable, is_same_site,
};
use sealane_http::headers::HeaderList;
use sealane_log::Logger;
use sealane_sys::time::{monotonic_coarse_ms, unix_coarse_s};
use sealane_tls::SharedSessions;
use sealane_upstream::Peer;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Memory of a session in nginx besides its key: two tree nodes, the time, the server's id.
const NODE_BYTES: usize = 128;
/// `max-age` of `expires=max`, in seconds: ten years.
const MAX_AGE_MAX_S: u64 = 315_360_000;

/// `sticky` of a group.
pub(crate) struct StickyRuntime {
    conf: Sticky,
    /// Of `learn`.
    sessions: Option<Arc<StickySessions>>,
    /// Of `learn ... sync`.
    sync: Option<Arc<SessionSync>>,
}

/// The zone of `sticky learn`: which server has made each session. All worker threads share it,
/// and it stays over a reload. When it is full, the session that was unused longest goes.
struct StickySessions {
    name: Box<str>,
    bytes: u64,
    zone: Zone<StickySession>,
    /// It has been said that the zone is too small.
    is_said: AtomicBool,
}

struct StickySession {
    /// The server's id: at most 32 bytes.
    server_id: SmallVec<[u8; 32]>,
    used_ms: u64,
    /// With `sync`: when it was last read from the store, or written there.
    synced_ms: Option<u64>,
}

/// Sessions are found by a hash, so that none takes more memory than others.
type SessionKey = [u8; 16];

impl StickyRuntime {
    /// That of a configuration; `before` is the same group's in the one that it replaces, `store`
    /// where nodes share sessions.
    pub(super) fn new(
        conf: &Sticky,
        before: Option<&StickyRuntime>,
        store: Option<&SharedSessions>,
    ) -> StickyRuntime {
        let sessions = match conf {
            Sticky::Learn(learn) => {
                let known = before.and_then(|before| before.sessions.as_ref());
                let known = known
                    .filter(|known| known.name == learn.zone && known.bytes == learn.zone_bytes);
                Some(known.cloned().unwrap_or_else(|| {
                    Arc::new(StickySessions {
                        name: learn.zone.clone(),
                        bytes: learn.zone_bytes,
                        zone: Zone::new(learn.zone_bytes, NODE_BYTES),
                        is_said: AtomicBool::new(false),
                    })
                }))
            }
            Sticky::Cookie(_) | Sticky::Route(_) | Sticky::Session(_) => None,
        };
        let sync = match conf {
            Sticky::Learn(learn) if learn.sync => store
                .map(|store| Arc::new(SessionSync::new(store.clone(), &learn.zone, learn.timeout))),
            _ => None,
        };
        StickyRuntime {
            conf: conf.clone(),
            sessions,
            sync,
        }
    }
}

impl StickyRuntime {
    /// The configuration.
    pub(super) fn conf(&self) -> &Sticky {
        &self.conf
    }
}

impl StickySessions {
    /// The id of the server that a session belongs to.
    fn find(&self, key: &SessionKey, timeout: Duration, now_ms: u64) -> Option<SmallVec<[u8; 32]>> {
        let mut shard = self.zone.lock(self.zone.position_of(key));
        let node = shard.find(key)?;
        let session = shard.state(node);
        if is_over(session, timeout, now_ms) {
            shard.remove(node);
            return None;
        }
        Some(session.server_id.clone())
    }

    /// Notes that a session was used at a server; one that is not known is only added if
    /// `creates`.
    fn note(
        &self,
        key: &SessionKey,
        server_id: &[u8],
        creates: bool,
        timeout: Duration,
        now_ms: u64,
    ) -> Noted {
        let mut noted = Noted::default();
        let mut shard = self.zone.lock(self.zone.position_of(key));
        let session = |synced_ms| StickySession {
            server_id: SmallVec::from_slice(server_id),
            used_ms: now_ms,
            synced_ms,
        };
        if let Some(node) = shard.find(key) {
            let known = shard.state(node);
            let is_same = *known.server_id == *server_id;
            noted.is_known = true;
            noted.synced_ms = known.synced_ms.filter(|_| is_same);
            *known = session(noted.synced_ms);
            return noted;
        }
        if !creates || !shard.may_ever_have_room(key) {
            return noted;
        }
        noted.is_known = true;
        // Two that are over go with each one that comes.
        for _ in 0..2 {
            match shard.oldest() {
                Some(oldest) if is_over(shard.state(oldest), timeout, now_ms) => {
                    shard.remove(oldest);
                }
                _ => break,
            }
        }
        while !shard.has_room(key) {
            let Some(oldest) = shard.oldest() else { break };
            shard.remove(oldest);
            noted.was_full = true;
        }
        shard.insert(key, session(None));
        noted
    }

    /// When a session was last compared with the store; `None` if it is not known, or never was.
    fn synced_ms(&self, key: &SessionKey) -> Option<u64> {
        let mut shard = self.zone.lock(self.zone.position_of(key));
        let node = shard.find(key)?;
        shard.state(node).synced_ms
    }

    /// A session was compared with the store.
    fn set_synced(&self, key: &SessionKey, now_ms: u64) {
        let mut shard = self.zone.lock(self.zone.position_of(key));
        if let Some(node) = shard.find(key) {
            shard.state(node).synced_ms = Some(now_ms);
        }
    }
}

/// What has become of a session that was used.
#[derive(Debug, Default)]
struct Noted {
    /// It is in the zone.
    is_known: bool,
    /// When it was last compared with the store, if its server is the same since.
    synced_ms: Option<u64>,
    /// It was added although the zone was full.
    was_full: bool,
}

fn is_over(session: &StickySession, timeout: Duration, now_ms: u64) -> bool {
    let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    now_ms.saturating_sub(session.used_ms) >= timeout_ms
}

fn key_of(session: &[u8]) -> SessionKey {
    Md5::digest(session).into()
}

/// What a request says about where its client belongs.
pub(super) struct Affinity<'g> {
    sticky: &'g StickyRuntime,
    /// The id of a server, or of a session; empty if there is none.
    id: Vec<u8>,
    /// The place of its cookie among those of the response.
    cookie: Option<usize>,
}

impl<'g> Affinity<'g> {
    /// That of a request to a group with `sticky`.
    pub(super) fn of(exchange: &Exchange, group: &'g GroupRuntime) -> Option<Affinity<'g>> {
        let sticky = group.sticky.as_ref()?;
        let id = match &sticky.conf {
            Sticky::Cookie(cookie) => first_value(exchange, [&cookie.received]),
            Sticky::Route(variables) => first_value(exchange, variables),
            Sticky::Learn(learn) => first_value(exchange, &learn.lookup),
            Sticky::Session(_) => None, // it is in the states of the request
        };
        Some(Affinity {
            sticky,
            id: id.unwrap_or_default(),
            cookie: None,
        })
    }

    /// The id of the server that the client belongs to, and whether no other one may be asked.
    pub(super) fn server_id<'a>(&'a self, exchange: &'a Exchange) -> Option<(Cow<'a, [u8]>, bool)> {
        if let Sticky::Session(_) = &self.sticky.conf {
            let (id, is_only) = exchange.upstream.as_deref()?.session.as_deref()?.wanted()?;
            return Some((Cow::Borrowed(id), is_only));
        }
        self.learnt_or_named(exchange).map(|id| (id, false))
    }

    /// Whether no other server than the client's may be asked.
    pub(super) fn is_only(&self, exchange: &Exchange) -> bool {
        let session = || exchange.upstream.as_deref()?.session.as_deref()?.wanted();
        matches!(self.sticky.conf, Sticky::Session(_)) && session().is_some_and(|(_, only)| only)
    }

    fn learnt_or_named(&self, exchange: &Exchange) -> Option<Cow<'_, [u8]>> {
        if self.id.is_empty() {
            return None;
        }
        let (Sticky::Learn(learn), Some(sessions)) = (&self.sticky.conf, &self.sticky.sessions)
        else {
            return Some(Cow::Borrowed(&self.id));
        };
        let now_ms = monotonic_coarse_ms();
        let found = sessions.find(&key_of(&self.id), learn.timeout, now_ms);
        if found.is_none() {
            debug_request!(
                exchange,
                "sticky: the session is not in zone \"{}\"",
                sessions.name
            );
        }
        found.map(|id| Cow::Owned(id.into_vec()))
    }

    /// With `sync`, learns from the store which server the session belongs to, unless that is
    /// known.
    pub(super) async fn ask_store(&self) {
        let (Some(sync), Some(sessions)) = (&self.sticky.sync, &self.sticky.sessions) else {
            return;
        };
        if self.id.is_empty() {
            return;
        }
        let key = key_of(&self.id);
        let synced_ms = sessions.synced_ms(&key);
        let now_ms = monotonic_coarse_ms();
        if synced_ms.is_some_and(|synced_ms| !sync.is_due(synced_ms, now_ms)) {
            return;
        }
        if let SessionLookup::Found(server_id) = sync.look_up(&key).await {
            let Sticky::Learn(learn) = &self.sticky.conf else {
                return;
            };
            sessions.note(&key, &server_id, true, learn.timeout, now_ms);
            // The response renews what was not written for long.
            if synced_ms.is_none() {
                sessions.set_synced(&key, now_ms);
            }
        }
    }

    /// A server was picked: its cookie takes the place of that of the one before.
    pub(super) fn note_picked(&mut self, exchange: &mut Exchange, peer: &Peer) {
        let conf = match &self.sticky.conf {
            Sticky::Cookie(conf) => conf,
            Sticky::Session(_) => {
                let states = exchange.upstream.as_deref_mut();
                if let Some(session) = states.and_then(|states| states.session.as_deref_mut()) {
                    session.note_picked(peer);
                }
                return;
            }
            Sticky::Route(_) | Sticky::Learn(_) => return,
        };
        let value = cookie(exchange, conf, peer.server_id());
        debug_request!(exchange, "sticky: set cookie \"{}\"", Text(&value));
        let cookies = &mut exchange.upstream.get_or_insert_default().sticky_cookies;
        match self.cookie.and_then(|at| cookies.get_mut(at)) {
            Some(cookie) => *cookie = value,
            None => {
                self.cookie = Some(cookies.len());
                cookies.push(value);
            }
        }
    }

    /// The id, for [`note_head`].
    pub(super) fn into_id(self) -> Vec<u8> {
        self.id
    }
}

/// The first of these variables that is not empty.
fn first_value<'v>(
    exchange: &Exchange,
    variables: impl IntoIterator<Item = &'v Variable>,
) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    for variable in variables {
        variables::append(exchange, variable, &mut value);
        if !value.is_empty() {
            return Some(value);
        }
    }
    None
}

/// The value of `Set-Cookie`, with its attributes in nginx's order.
fn cookie(exchange: &Exchange, conf: &StickyCookie, server_id: &[u8]) -> Vec<u8> {
    let mut value = [conf.name.as_bytes(), b"=", server_id].concat();
    let expires = match conf.expires {
        None => None,
        Some(StickyExpires::Max) => Some((COOKIE_TIME_MAX, MAX_AGE_MAX_S)),
        Some(StickyExpires::After(time)) => {
            let age_s = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
            Some((unix_coarse_s().saturating_add(age_s), time.as_secs()))
        }
    };
    if let Some((time, age_s)) = expires {
        value.extend_from_slice(b"; expires=");
        push_cookie_time(time, &mut value);
        value.extend_from_slice(format!("; max-age={age_s}").as_bytes());
    }
    let attribute = |name: &[u8], template: &Option<Template>| {
        let template = template.as_ref()?;
        let text = template::evaluate(template, exchange);
        (!text.is_empty()).then(|| (name.to_vec(), text.into_owned()))
    };
    if let Some((name, domain)) = attribute(b"; domain=", &conf.domain) {
        value.extend_from_slice(&[name, domain].concat());
    }
    if conf.http_only {
        value.extend_from_slice(b"; httponly");
    }
    if conf.secure {
        value.extend_from_slice(b"; secure");
    }
    if let Some((name, same_site)) = attribute(b"; samesite=", &conf.same_site) {
        value.extend_from_slice(&name);
        value.extend_from_slice(match is_same_site(&same_site) {
            true => &same_site,
            false => b"strict",
        });
    }
    if let Some(path) = &conf.path {
        value.extend_from_slice(b"; path=");
        value.extend_from_slice(path);
    }
    value
}

/// A session that is learnt once the response is complete.
pub(super) struct Learnt {
    sessions: Arc<StickySessions>,
    sync: Option<Arc<SessionSync>>,
    key: SessionKey,
    creates: bool,
    timeout: Duration,
    logger: Logger,
}

impl Learnt {
    /// Learns that the session belongs to this server.
    pub(super) fn save(self, peer: &Peer) {
        let Learnt {
            sessions,
            sync,
            key,
            creates,
            timeout,
            logger,
        } = self;
        let now_ms = monotonic_coarse_ms();
        let noted = sessions.note(&key, peer.server_id(), creates, timeout, now_ms);
        if let Some(sync) = sync.filter(|_| noted.is_known) {
            let is_due = |synced_ms| sync.is_due(synced_ms, now_ms);
            if noted.synced_ms.is_none_or(is_due) && sync.write(&key, peer.server_id(), now_ms) {
                sessions.set_synced(&key, now_ms);
            }
        }
        if noted.was_full && !sessions.is_said.swap(true, Ordering::Relaxed) {
            let name = &sessions.name;
            logger.log(
                LogLevel::Warn,
                None,
                format_args!(
                    "sticky session zone \"{name}\" is full: sessions that were unused longest \
                     are forgotten before their timeout; a larger \"zone=\" keeps them (this is \
                     said once)"
                ),
            );
        }
    }
}

/// The response head of a server that is to be passed on is known to variables: finds the session
/// to learn. `header` learns it now.
pub(super) fn note_head(exchange: &Exchange, lease: &mut Leased) {
    let group = lease.group().clone();
    let Some(StickyRuntime {
        conf: Sticky::Learn(learn),
        sessions: Some(sessions),
        sync,
    }) = &group.sticky
    else {
        return;
    };
    let Some((key, creates)) = session_of(exchange, learn, lease.session()) else {
        return;
    };
    let learnt = Learnt {
        sessions: sessions.clone(),
        sync: sync.clone(),
        key,
        creates,
        timeout: learn.timeout,
        logger: exchange.snapshot.location(exchange.location).logger.clone(),
    };
    match learn.after_header {
        true => learnt.save(lease.picked().peer()),
        false => lease.set_learnt(learnt),
    }
}

/// The session that the response makes, or else that of the request.
fn session_of(
    exchange: &Exchange,
    learn: &StickyLearn,
    requested: &[u8],
) -> Option<(SessionKey, bool)> {
    if let Some(created) = first_value(exchange, &learn.create) {
        return Some((key_of(&created), true));
    }
    (!requested.is_empty()).then(|| (key_of(requested), false))
}

/// Adds the cookies to the response. As in nginx, they come before the server's own: of two with
/// one name, the server's counts.
pub(crate) fn add_cookies(exchange: &mut Exchange) {
    session_sticky::finish(exchange);
    let Some(states) = exchange.upstream.as_deref_mut() else {
        return;
    };
    let cookies = std::mem::take(&mut states.sticky_cookies);
    if cookies.is_empty() {
        return;
    }
    let mut headers = HeaderList::new();
    for value in cookies {
        if let Err(error) = headers.push(b"Set-Cookie", &value) {
            log_request!(
                exchange,
                Error,
                "the cookie of \"sticky\" is left out: {error}"
            );
        }
    }
    match headers.extend(&exchange.response.headers) {
        Ok(()) => exchange.response.headers = headers,
        Err(error) => log_request!(
            exchange,
            Error,
            "the cookie of \"sticky\" is left out: {error}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn sessions(bytes: u64) -> StickySessions {
        StickySessions {
            name: "s".into(),
            bytes,
            zone: Zone::new(bytes, NODE_BYTES),
            is_said: AtomicBool::new(false),
        }
    }

    #[test]
    fn a_session_is_learnt_moves_and_ends() {
        let sessions = sessions(1 << 20);
        let key = key_of(b"session");
        let find = |now_ms| sessions.find(&key, TIMEOUT, now_ms).map(SmallVec::into_vec);
        sessions.note(&key, b"a", false, TIMEOUT, 0);
        assert_eq!(find(0), None, "it was only used");
        sessions.note(&key, b"a", true, TIMEOUT, 0);
        assert_eq!(find(59_999), Some(b"a".to_vec()));
        sessions.note(&key, b"b", false, TIMEOUT, 59_999);
        assert_eq!(find(119_998), Some(b"b".to_vec()), "used meanwhile");
        assert_eq!(find(119_999), None, "over");
        assert_eq!(find(119_998), None, "and gone");
    }

    #[test]
    fn a_full_zone_forgets_the_session_unused_longest() {
        let sessions = sessions(8 * 4096);
        let key = |number: u32| key_of(&number.to_be_bytes());
        let mut added = 0;
        let note = |number| sessions.note(&key(number), b"a", true, TIMEOUT, u64::from(number));
        while !note(added).was_full {
            added += 1;
            assert!(added < 1000, "it never gets full");
        }
        // nginx: about 4000 in a megabyte.
        assert!((90..130).contains(&added), "{added}");
        let find = |number| sessions.find(&key(number), TIMEOUT, u64::from(added));
        assert!(find(0).is_none());
        assert!(find(1).is_some() && find(added).is_some());
    }

    #[test]
    fn sessions_that_are_over_make_room_without_a_full_zone() {
        let sessions = sessions(8 * 4096);
        for number in 0..10_000_u32 {
            let now_ms = u64::from(number) * 1000;
            let key = key_of(&number.to_be_bytes());
            let noted = sessions.note(&key, b"a", true, TIMEOUT, now_ms);
            assert!(!noted.was_full, "{number}");
        }
        assert!(sessions.zone.fill().keys <= 61);
    }

    /// 200,000 new sessions against a zone for some hundred, and ten that are used now and then:
    /// those stay, whatever comes, and the memory has an end.
    #[test]
    fn an_attack_with_new_sessions_displaces_none_in_use() {
        let sessions = sessions(64 << 10);
        let known = |number: u32| key_of(format!("known {number}").as_bytes());
        for number in 0..10 {
            sessions.note(&known(number), b"home", true, TIMEOUT, 0);
        }
        let mut most_keys = 0;
        for number in 0..200_000_u32 {
            let now_ms = u64::from(number) / 100;
            let key = key_of(&number.to_be_bytes());
            sessions.note(&key, b"elsewhere", true, TIMEOUT, now_ms);
            if number % 20 == 0 {
                let used = known(number / 20 % 10);
                let found = sessions.find(&used, TIMEOUT, now_ms).expect("it is in use");
                assert_eq!(found.as_slice(), b"home", "{number}");
                sessions.note(&used, b"home", false, TIMEOUT, now_ms);
            }
            most_keys = most_keys.max(sessions.zone.fill().keys);
        }
        let fill = sessions.zone.fill();
        println!(
            "{} of {} bytes for {most_keys} sessions",
            fill.used_bytes, fill.size_bytes
        );
        assert!(fill.used_bytes <= fill.size_bytes && fill.size_bytes <= 64 << 10);
        assert!((200..300).contains(&most_keys), "{most_keys}");
    }
}
