//! Which peer is asked next, and the wait for one (`queue`).

use super::PassRuntime;
use super::Target;
use super::attempt::{self, NoAnswer};
use super::bound::Afterwards;
use super::failure::Doing;
use super::identity;
use super::lease::{GroupRuntime, Leased};
use super::next::Cause;
use super::states::Attempt;
use super::sticky::Affinity;
use super::tls_settings::Secured;
use crate::debug_log::debug_request;
use crate::exchange::Exchange;
use crate::facts::PeerAddress;
use crate::request_log::log_request;
use crate::template;
use sealane_http::StatusCode;
use sealane_io::runtime::{Sleep, sleep, sleep_until};
use sealane_upstream::pool::ConnectionKey;
use sealane_upstream::{NotPicked, PickRequest, Picked, QueueSlot, Tried};
use std::borrow::Cow;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// What a choice depends on besides the request.
pub(super) struct Asked<'a> {
    pub(super) pass: &'a PassRuntime,
    pub(super) target: &'a Target,
    pub(super) secured: Option<&'a Secured>,
    pub(super) affinity: Option<&'a Affinity<'a>>,
    /// An internal redirect led to this group.
    pub(super) redirected: bool,
}

/// The peer that was found.
pub(super) struct ReadyPeer {
    pub(super) lease: Leased,
    /// How long the request has waited for it.
    pub(super) queued: Option<Duration>,
    /// When it was picked.
    pub(super) now: Instant,
}

/// The next peer of the group. If there is none, that is logged and recorded.
///
/// # Errors
/// When there is none, or the client has gone while the request waited for one.
pub(super) async fn find(
    exchange: &mut Exchange,
    asked: &Asked<'_>,
    tried: &mut Tried,
) -> Result<ReadyPeer, NoAnswer> {
    let group = &asked.target.group;
    let mut now = Instant::now();
    let key = match asked.secured {
        Some(secured) => secured.connection_key(),
        None => asked.pass.connection_key(group),
    };
    let key = identity::connection_key(exchange, asked.pass.settings(), key);
    if let Some(found) = find_bound(exchange, asked, tried, &key, now) {
        return Ok(found);
    }
    let picked = pick_with(exchange, asked, now, |request| {
        group.group.pick_or_wait(request, tried)
    });
    let (picked, queued) = match picked {
        Ok(picked) => (picked, None),
        Err(NotPicked::None(error)) => return Err(give_up(exchange, asked, &error, None)),
        Err(NotPicked::QueueFull) => {
            return Err(give_up(exchange, asked, &QueueError::Full, None));
        }
        // Its state would make every request's task larger.
        Err(NotPicked::Waits(place)) => {
            let (picked, queued) = Box::pin(wait(exchange, asked, tried, place)).await?;
            now += queued;
            (picked, Some(queued))
        }
    };
    let afterwards = Afterwards::of(exchange, asked.pass, group);
    let lease = Leased::new(
        group.clone(),
        picked,
        key,
        afterwards,
        &exchange.worker,
        now,
    );
    Ok(ReadyPeer { lease, queued, now })
}

/// The connection that is bound to the client's (`ntlm`), with its peer, if one works.
fn find_bound(
    exchange: &Exchange,
    asked: &Asked<'_>,
    tried: &mut Tried,
    key: &ConnectionKey,
    now: Instant,
) -> Option<ReadyPeer> {
    let group = &asked.target.group;
    let client = &exchange.connection;
    let bound = client.bound.get().filter(|_| group.ntlm)?;
    let timeout = group.group.keepalive().timeout;
    let bound = bound.take(group.group.name(), key, timeout, now)?;
    let picked = pick_with(exchange, asked, now, |request| {
        group.group.pick_again(&bound.peer, request, tried)
    })?;
    let afterwards = Afterwards::Bound(client.clone());
    let (group, key) = (group.clone(), key.clone());
    let lease = Leased::new(group, picked, key, afterwards, &exchange.worker, now);
    Some(ReadyPeer {
        lease: lease.with_bound(bound.connection, bound.life),
        queued: None,
        now,
    })
}

/// Calls `pick` with what the request says about peers.
fn pick_with<R>(
    exchange: &Exchange,
    asked: &Asked<'_>,
    now: Instant,
    pick: impl FnOnce(&PickRequest<'_>) -> R,
) -> R {
    let GroupRuntime { hash_key, .. } = &*asked.target.group;
    let key = match hash_key {
        Some(key) => template::evaluate(key, exchange),
        None => Cow::Borrowed(&b""[..]),
    };
    let own = asked
        .affinity
        .and_then(|affinity| affinity.server_id(exchange));
    pick(&PickRequest {
        key: &key,
        client: match exchange.client_address() {
            PeerAddress::Inet(address) => Some(address.ip()),
            PeerAddress::Unix => None,
        },
        server_id: own.as_ref().map(|(id, _)| &**id),
        own_only: own.as_ref().is_some_and(|(_, is_only)| *is_only),
        thread: exchange.worker.index,
        now,
    })
}

/// Waits in the queue until a peer can take the request. The queue wakes it for its turn; besides
/// that, it only looks again when a peer that is left out comes back.
async fn wait(
    exchange: &mut Exchange,
    asked: &Asked<'_>,
    tried: &mut Tried,
    place: QueueSlot,
) -> Result<(Picked, Duration), NoAnswer> {
    let group = &asked.target.group.group;
    let begun = Instant::now();
    debug_request!(
        exchange,
        "upstream queue: waiting for a peer of {}",
        group.name()
    );
    let timeout = group
        .queue_settings()
        .map_or(Duration::ZERO, |queue| queue.timeout);
    let mut end = sleep(timeout);
    let mut chance: Option<Sleep> = None;
    let watches = !asked.pass.settings().ignore_client_abort;
    let waited = poll_fn(|cx| {
        loop {
            if let Some(picked) = poll_turn(exchange, asked, tried, &place, &mut chance, cx) {
                return Poll::Ready(Ok(picked));
            }
            if watches && exchange.client.poll_gone(cx).is_ready() {
                return Poll::Ready(Err(QueueError::ClientGone));
            }
            if Pin::new(&mut end).poll(cx).is_ready() {
                return Poll::Ready(Err(QueueError::TimedOut));
            }
            match chance.as_mut().map(|chance| Pin::new(chance).poll(cx)) {
                Some(Poll::Ready(())) => {
                    chance = None;
                    place.ask_again();
                }
                _ => return Poll::Pending,
            }
        }
    })
    .await;
    // The next one may go on.
    drop(place);
    let queued = begun.elapsed();
    let error = match waited {
        Ok(picked) => return Ok((picked, queued)),
        Err(error) => error,
    };
    if let QueueError::ClientGone = error {
        record(
            exchange,
            asked,
            StatusCode::CLIENT_CLOSED_REQUEST,
            Some(queued),
        );
        attempt::log_client_gone(exchange, Doing::Queueing);
        return Err(NoAnswer::ClientGone);
    }
    group.note_without_peer();
    Err(give_up(exchange, asked, &error, Some(queued)))
}

/// Tries to pick as often as it is this request's turn. `chance` is when a peer comes back by time
/// alone, if this request is to watch that.
fn poll_turn(
    exchange: &Exchange,
    asked: &Asked<'_>,
    tried: &mut Tried,
    place: &QueueSlot,
    chance: &mut Option<Sleep>,
    cx: &mut Context<'_>,
) -> Option<Picked> {
    let group = &asked.target.group.group;
    while place.poll_turn(cx).is_ready() {
        let now = Instant::now();
        let picked = pick_with(exchange, asked, now, |request| {
            group.pick_in_turn_of(place, request, tried)
        });
        match picked {
            Ok(picked) => return Some(picked),
            Err(again) => *chance = again.map(|time| sleep_until(now + time)),
        }
    }
    None
}

/// How the wait in a queue can end.
enum QueueError {
    Full,
    TimedOut,
    ClientGone,
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QueueError::Full => "upstream queue is full while connecting to upstream",
            QueueError::TimedOut => {
                "upstream timed out (110: Connection timed out) while waiting in upstream queue"
            }
            QueueError::ClientGone => "the client has gone",
        })
    }
}

/// There is no peer for the request.
fn give_up(
    exchange: &mut Exchange,
    asked: &Asked<'_>,
    error: &dyn fmt::Display,
    queued: Option<Duration>,
) -> NoAnswer {
    // The line names the group in place of a peer.
    record(exchange, asked, StatusCode::BAD_GATEWAY, queued);
    log_request!(exchange, Error, "{error}");
    NoAnswer::Status(StatusCode::BAD_GATEWAY, Cause::Error)
}

fn record(
    exchange: &mut Exchange,
    asked: &Asked<'_>,
    status: StatusCode,
    queued: Option<Duration>,
) {
    let name: Arc<str> = asked.target.group.group.name().into();
    let mut attempt = Attempt::new(name.clone(), name, Instant::now());
    attempt.queue_time = queued;
    attempt::begin_attempt(exchange, attempt, asked.redirected);
    attempt::end_attempt(exchange, status);
}
