//! Tries peers one after the other until one responds (`proxy_next_upstream`).

use super::conversation::{Conversation, Upload};
use super::failure::{Doing, Failure};
use super::lease::Leased;
use super::next::{self, Cause};
use super::peer_choice::{self, Asked, ReadyPeer};
use super::peer_connection::{self, PeerAt, PeerConnection};
use super::response;
use super::states::{Attempt, UpstreamStates};
use super::sticky::Affinity;
use super::tls_settings::Secured;
use super::wire::{UpstreamHead, Wire, WireEvent};
use super::{PassRuntime, Target, identity, tunnel};
use crate::client_link::Interim;
use crate::debug_log::{self, debug_request};
use crate::exchange::Exchange;
use crate::request_log::{self, log_request};
use crate::template;
use sealane_conf::model::{Pass, UpstreamSettings};
use sealane_http::StatusCode;
use sealane_http::h1::{ResponseKind, Version};
use sealane_http::headers::{HeaderList, KnownHeader};
use sealane_io::chain::OutputChain;
use sealane_upstream::Tried;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// The request to be sent, whichever peer it goes to.
pub(super) struct Outbound {
    /// The framed head, and the body as far as it is there.
    pub(super) chain: OutputChain,
    /// The beginning of a streamed body, if the wire frames it.
    pub(super) begun: OutputChain,
    /// Makes the wire of one attempt.
    pub(super) wire: Box<dyn Fn() -> Wire + Send + Sync>,
    /// The rest of the body is streamed from the client and cannot be sent again.
    pub(super) streamed: bool,
}

/// A peer's response: its head, and the conversation in which the body follows.
pub(super) struct PeerResponse {
    pub(super) head: Arc<UpstreamHead>,
    pub(super) conversation: Box<Conversation>,
    pub(super) lease: Leased,
}

/// Why there is no response.
pub(super) enum NoAnswer {
    /// The client gets this status, because of this.
    Status(StatusCode, Cause),
    /// The client has gone.
    ClientGone,
}

/// Asks peers until one gives a response that is to be passed on.
///
/// # Errors
/// See [`NoAnswer`].
pub(super) async fn ask(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    target: &Target,
    outbound: &Outbound,
) -> Result<PeerResponse, NoAnswer> {
    let settings = pass.settings();
    let mut begun = Instant::now();
    let secured = pass.secured(exchange, target);
    let secured = secured.as_deref();
    let mut tried = Tried::new(settings.next_upstream_tries);
    let mut affinity = Affinity::of(exchange, &target.group);
    if let Some(affinity) = &affinity {
        affinity.ask_store().await;
    }
    let mut delivery = Delivery {
        sent: false,
        kept: outbound.begun.clone(),
    };
    let mut redirected = exchange
        .upstream
        .as_ref()
        .is_some_and(|states| !states.attempts.is_empty());
    loop {
        let asked = Asked {
            pass,
            target,
            secured,
            affinity: affinity.as_ref(),
            redirected,
        };
        let found = peer_choice::find(exchange, &asked, &mut tried).await?;
        let ReadyPeer {
            mut lease,
            queued,
            now,
        } = found;
        if let Some(queued) = queued {
            // Only what peers take counts for `proxy_next_upstream_timeout`.
            begun += queued;
        }
        if let Some(affinity) = &mut affinity {
            let is_only = affinity.is_only(exchange);
            affinity.note_picked(exchange, lease.picked().peer());
            if is_only {
                tried.end();
            }
        }
        let peer = lease.picked().peer();
        let mut attempt = Attempt::new(peer.name().clone(), peer.server().clone(), now);
        attempt.counted = Some(peer.clone());
        attempt.queue_time = queued;
        begin_attempt(exchange, attempt, redirected);
        redirected = false;
        delivery.sent = false;
        let asked = ask_peer(exchange, pass, secured, outbound, &mut lease, &mut delivery).await;
        let sent = delivery.sent;
        let (cause, status) = match asked {
            Ok((head, conversation)) => {
                lease.note_head();
                let cause = Cause::Status(head.parsed.status.0);
                let status = head.parsed.status;
                let again =
                    next::may_go_on(exchange, settings, cause, sent, outbound.streamed, begun);
                if !again || tried.left() == 0 {
                    if let Some(affinity) = affinity {
                        lease.set_session(affinity.into_id());
                    }
                    return Ok(PeerResponse {
                        head,
                        conversation,
                        lease,
                    });
                }
                note_head(exchange, &head);
                if matches!(status.0, 403 | 404) {
                    lease.succeeded(None);
                } else {
                    note_failure(exchange, lease, Doing::ReadingHead);
                }
                (cause, status)
            }
            Err(AttemptError::ClientGone(doing, connection)) => {
                lease.succeeded(connection);
                log_client_gone(exchange, doing);
                if let Some(attempt) = last_attempt(exchange) {
                    attempt.end();
                }
                return Err(NoAnswer::ClientGone);
            }
            Err(AttemptError::Failed(failure)) => {
                if !failure.is_said() {
                    request_log::log(exchange, failure.level(), format_args!("{failure}"));
                }
                let status = failure.status();
                if !failure.is_of_peer() {
                    end_attempt(exchange, status);
                    forget_unreached_peer(exchange, &failure);
                    return Err(NoAnswer::Status(status, Cause::of(&failure)));
                }
                let cause = Cause::of(&failure);
                if cause == Cause::Error && lease.is_reused() {
                    // The peer closed an idle connection, which is not a failure.
                    tried.again();
                } else {
                    note_failure(exchange, lease, failure.doing());
                }
                (cause, status)
            }
        };
        end_attempt(exchange, status);
        if tried.left() == 0
            || !next::may_go_on(exchange, settings, cause, sent, outbound.streamed, begun)
        {
            return Err(NoAnswer::Status(status, cause));
        }
    }
}

/// Why a peer gave no response.
enum AttemptError {
    Failed(Failure),
    /// The client has gone. With the connection, if the protocol leaves it usable.
    ClientGone(Doing, Option<PeerConnection>),
}

/// How much of the request has been sent.
struct Delivery {
    /// The last peer may have acted on it.
    sent: bool,
    /// The part of a streamed body that there is already: what had arrived, or was sent to a peer
    /// that did not act on it.
    kept: OutputChain,
}

/// Connects to a peer, sends the request and waits for the response head.
async fn ask_peer(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    secured: Option<&Secured>,
    outbound: &Outbound,
    lease: &mut Leased,
    delivery: &mut Delivery,
) -> Result<(Arc<UpstreamHead>, Box<Conversation>), AttemptError> {
    let begun = last_attempt(exchange).map_or_else(Instant::now, |attempt| attempt.started);
    let (connection, connect_time) = match lease.take_idle(begun) {
        Some(connection) => {
            let name = lease.picked().peer().name();
            debug_request!(exchange, "reusing connection to {name}");
            (connection, Duration::ZERO)
        }
        None => {
            let name = lease.picked().peer().name();
            debug_request!(exchange, "connect to {name}");
            let opened = Box::pin(connect(exchange, pass, secured, lease)).await?;
            (opened, begun.elapsed())
        }
    };
    if let Some(attempt) = last_attempt(exchange) {
        attempt.connect_time = Some(connect_time);
    }
    let upload = match outbound.streamed {
        true => Upload::Streamed(exchange.client.clone()),
        false => Upload::Done,
    };
    let timeouts = tunnel::timeouts(exchange, pass);
    let chain = outbound.chain.clone();
    let mut wire = (outbound.wire)();
    if !delivery.kept.is_empty() {
        // If nothing gets sent, the next peer needs it.
        let kept = delivery.kept.clone();
        if let Some(stream) = wire.stream_mut() {
            stream.begin_body_with(kept);
        }
    }
    let conversation = Conversation::new(connection, wire, chain, upload, timeouts);
    let mut conversation = Box::new(conversation);
    let answered = await_head(exchange, pass, &mut conversation).await;
    log_remarks(exchange, &mut conversation);
    delivery.sent = conversation.bytes_sent() > 0;
    if let Err(AttemptError::Failed(Failure::Unprocessed(..))) = &answered {
        delivery.note_unprocessed(outbound.streamed, &mut conversation);
    }
    if let Some(attempt) = last_attempt(exchange) {
        attempt.bytes_sent = conversation.bytes_sent();
        attempt.bytes_received = conversation.bytes_received;
        if answered.is_ok() {
            attempt.header_time = Some(attempt.started.elapsed());
        }
    }
    match answered {
        Ok(head) => {
            debug_log::upstream_head(exchange, &head);
            Ok((head, conversation))
        }
        Err(AttemptError::ClientGone(doing, _)) => {
            Err(AttemptError::ClientGone(doing, conversation.abandon()))
        }
        Err(broken) => {
            if conversation.connection.ended_while_idle() {
                lease.set_reused();
            }
            Err(broken)
        }
    }
}

impl Delivery {
    /// The peer did not process the request: as if it had not been sent, unless more of a streamed
    /// body is gone than was kept.
    fn note_unprocessed(&mut self, streamed: bool, conversation: &mut Conversation) {
        self.sent = match conversation.take_kept_body() {
            _ if !streamed => false,
            Some(kept) => {
                self.kept = kept;
                false
            }
            None => true,
        };
    }
}

/// Waits for the final response head; interim ones are passed on or dropped.
async fn await_head(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    conversation: &mut Conversation,
) -> Result<Arc<UpstreamHead>, AttemptError> {
    let settings = pass.settings();
    let watches = !settings.ignore_client_abort;
    let mut hint_bytes = 0;
    loop {
        let event = poll_fn(|cx| {
            if let Poll::Ready(Err(failure)) = conversation.poll_send(cx) {
                return Poll::Ready(Err(AttemptError::Failed(failure)));
            }
            if let Poll::Ready(event) = conversation.poll_event(cx) {
                return Poll::Ready(event.map_err(AttemptError::Failed));
            }
            log_remarks(exchange, conversation);
            if watches && exchange.client.poll_gone(cx).is_ready() {
                let doing = match conversation.is_sent() {
                    true => Doing::ReadingHead,
                    false => Doing::Sending,
                };
                return Poll::Ready(Err(AttemptError::ClientGone(doing, None)));
            }
            Poll::Pending
        })
        .await;
        match event? {
            WireEvent::Head(head) if head.parsed.kind() == ResponseKind::Interim => {
                pass_interim(exchange, settings, &head, &mut hint_bytes);
            }
            WireEvent::Head(head) if is_unasked_upgrade(exchange, conversation, &head) => {
                let text = "upstream sent 101 to a request without an upgrade".into();
                return Err(AttemptError::Failed(Failure::Invalid(
                    text,
                    Doing::ReadingHead,
                )));
            }
            WireEvent::Head(head) => return Ok(head),
            // A wire gives the head first.
            WireEvent::Data(_) | WireEvent::End(_) => {
                let failure = Failure::ClosedEarly(Doing::ReadingHead);
                return Err(AttemptError::Failed(failure));
            }
        }
    }
}

/// 101 without `Upgrade` in the client's request, or where it does not exist: in HTTP/2 (except for
/// extended CONNECT), HTTP/1.0,
/// and from gateway programs. If it were passed on, the client's next request might be taken for
/// part of a tunnel, or the other way round.
fn is_unasked_upgrade(
    exchange: &Exchange,
    conversation: &Conversation,
    head: &UpstreamHead,
) -> bool {
    let request = &exchange.request.head;
    let may_ask = request.version == Version::Http11 || request.extended_connect;
    let was_asked =
        may_ask && request.get(KnownHeader::Upgrade).is_some() && conversation.can_upgrade();
    head.parsed.kind() == ResponseKind::SwitchingProtocols && !was_asked
}

/// Logs what the peer reports besides its response, before the head.
fn log_remarks(exchange: &Exchange, conversation: &mut Conversation) {
    for remark in conversation.take_remarks() {
        log_request!(exchange, Error, "{remark} {}", Doing::ReadingHead);
    }
}

/// 103 is passed on to the client if `early_hints` allows it; 100 is dropped. As in nginx, all
/// hints of a peer together may be as long as one head, as they wait for a slow client.
fn pass_interim(
    exchange: &Exchange,
    settings: &UpstreamSettings,
    head: &UpstreamHead,
    hint_bytes: &mut u64,
) {
    const EARLY_HINTS: StatusCode = StatusCode(103);
    let wanted = exchange
        .conf()
        .early_hints
        .iter()
        .any(|condition| template::is_true(condition, exchange));
    if head.parsed.status != EARLY_HINTS || !wanted || exchange.request.is_subrequest {
        return;
    }
    *hint_bytes += head.buffer.len() as u64;
    if *hint_bytes > settings.buffer_bytes {
        return;
    }
    let mut headers = HeaderList::new();
    for header in &head.parsed.headers {
        let name = header.name.of(&head.buffer);
        if response::may_pass(settings, header.known, name) {
            // Checked by the parser.
            let _ = headers.push(name, header.value.of(&head.buffer));
        }
    }
    exchange.client.send_interim(Interim {
        status: head.parsed.status,
        headers,
    });
}

/// Opens a connection to the leased peer.
async fn connect(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    secured: Option<&Secured>,
    lease: &mut Leased,
) -> Result<PeerConnection, AttemptError> {
    let watches = !pass.settings().ignore_client_abort;
    let peer = lease.picked().peer().clone();
    let client = exchange.client.clone();
    let opened = {
        let leased = &*lease;
        let mut opening = std::pin::pin!(async {
            match &pass.pass {
                Pass::Dubbo(dubbo) => {
                    let call = leased.join(exchange, dubbo)?;
                    poll_fn(|cx| call.poll_open(cx)).await?;
                    Ok(PeerConnection::shared(call))
                }
                _ => {
                    let to = PeerAt::itself(&peer, secured);
                    let header = identity::proxy_header(exchange);
                    peer_connection::open(exchange, pass, to, header).await
                }
            }
        });
        poll_fn(|cx| {
            if let Poll::Ready(opened) = opening.as_mut().poll(cx) {
                return Poll::Ready(opened.map_err(AttemptError::Failed));
            }
            if watches && client.poll_gone(cx).is_ready() {
                return Poll::Ready(Err(AttemptError::ClientGone(Doing::Connecting, None)));
            }
            Poll::Pending
        })
        .await?
    };
    lease.set_opened();
    Ok(opened)
}

pub(super) fn begin_attempt(exchange: &mut Exchange, mut attempt: Attempt, after_redirect: bool) {
    let states = exchange.upstream.get_or_insert_default();
    attempt.after_redirect = after_redirect;
    states.attempts.push(attempt);
}

/// The attempt that was begun last.
pub(crate) fn last_attempt(exchange: &mut Exchange) -> Option<&mut Attempt> {
    exchange.upstream.as_deref_mut()?.attempts.last_mut()
}

pub(super) fn end_attempt(exchange: &mut Exchange, status: StatusCode) {
    if let Some(attempt) = last_attempt(exchange) {
        attempt.status = status.0;
        attempt.end();
    }
}

/// As in nginx, an attempt without a socket shows no peer in variables.
pub(super) fn forget_unreached_peer(exchange: &mut Exchange, failure: &Failure) {
    if let Failure::Socket(..) = failure
        && let Some(attempt) = last_attempt(exchange)
    {
        attempt.peer = "".into();
    }
}

/// Keeps the head of a response that is not passed on, for variables.
fn note_head(exchange: &mut Exchange, head: &UpstreamHead) {
    if let Some(attempt) = last_attempt(exchange) {
        attempt.status = head.parsed.status.0;
    }
}

/// The client has gone, so the request is given up.
pub(super) fn log_client_gone(exchange: &Exchange, doing: Doing) {
    log_request!(
        exchange,
        Info,
        "client prematurely closed connection, so upstream connection is closed too {doing}"
    );
}

/// The peer failed; like nginx, log it if the peer gets no more requests for that.
pub(super) fn note_failure(exchange: &Exchange, lease: Leased, doing: Doing) {
    let failure = lease.failed();
    if failure.disabled {
        log_request!(
            exchange,
            Warn,
            "upstream server temporarily disabled {doing}"
        );
    }
}

impl UpstreamStates {
    /// The head of the response that is passed on.
    pub(super) fn set_head(&mut self, head: Arc<UpstreamHead>) {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.status = head.parsed.status.0;
        }
        self.head = Some(head);
    }
}
