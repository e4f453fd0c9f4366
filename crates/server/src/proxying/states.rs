//! The attempts of a request at its peers: the `$upstream_*` variables.

use super::cache::CacheState;
use super::request::BodyPlan;
use super::session_sticky::SessionAffinity;
use super::tunnel::TunnelState;
use super::wire::UpstreamHead;
use crate::exchange::Exchange;
use crate::request_log::Text;
use sealane_http::headers::HeaderList;
use sealane_upstream::PeerRef;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// All attempts of an exchange, in order.
pub(crate) struct UpstreamStates {
    /// One entry for each peer that was tried: nearly always one.
    pub(crate) attempts: SmallVec<[Attempt; 1]>,
    /// The last response head (`$upstream_http_*`, `$upstream_cookie_*`).
    pub(crate) head: Option<Arc<UpstreamHead>>,
    /// Trailers of the last response (`$upstream_trailer_*`).
    pub(crate) trailers: HeaderList,
    /// The cache of the location, if it has one that is concerned.
    pub(crate) cache: Option<Box<CacheState>>,
    /// The body that is sent (`$proxy_internal_body_length`, `$proxy_internal_chunked`).
    pub(crate) body: BodyPlan,
    /// `$proxy_host` of a target with variables.
    pub(crate) host: Option<Arc<str>>,
    /// `$proxy_port`, likewise.
    pub(crate) port: Option<Arc<str>>,
    /// The scheme of the URL that error-log lines show: `http://`.
    pub(crate) scheme: &'static str,
    /// Its URI, as sent; empty for the gateway protocols.
    pub(crate) uri: Vec<u8>,
    /// The tunnel, if it is to be one.
    pub(crate) tunnel: Option<Box<TunnelState>>,
    /// `sticky cookie`: the values of `Set-Cookie`, one for each group that the request came to.
    pub(crate) sticky_cookies: Vec<Vec<u8>>,
    /// `session_sticky`.
    pub(crate) session: Option<Box<SessionAffinity>>,
}

/// One peer that was tried, or the group that had none.
pub(crate) struct Attempt {
    /// `$upstream_addr`: the peer, or the group's name when none could be picked.
    pub(crate) peer: Arc<str>,
    /// `$upstream_last_server_name`: the `server` line of the peer.
    pub(crate) server: Arc<str>,
    /// The peer itself; `None` when none could be picked.
    pub(crate) counted: Option<PeerRef>,
    /// `$upstream_status`; 0 while there is no response.
    pub(crate) status: u16,
    /// When it began.
    pub(crate) started: Instant,
    /// `$upstream_queue_time`: how long the request waited for the peer (`queue`).
    pub(crate) queue_time: Option<Duration>,
    /// `$upstream_connect_time`.
    pub(crate) connect_time: Option<Duration>,
    /// `$upstream_header_time`.
    pub(crate) header_time: Option<Duration>,
    /// `$upstream_response_time`; set when it is over.
    pub(crate) response_time: Option<Duration>,
    /// `$upstream_response_length`: bytes of the body.
    pub(crate) response_length: u64,
    /// `$upstream_bytes_sent`.
    pub(crate) bytes_sent: u64,
    /// `$upstream_bytes_received`.
    pub(crate) bytes_received: u64,
    /// An internal redirect led to another group: variables show a colon before it.
    pub(crate) after_redirect: bool,
}

impl Default for UpstreamStates {
    fn default() -> UpstreamStates {
        UpstreamStates {
            attempts: SmallVec::new(),
            head: None,
            trailers: HeaderList::new(),
            cache: None,
            body: BodyPlan::None,
            host: None,
            port: None,
            scheme: "",
            uri: Vec::new(),
            tunnel: None,
            sticky_cookies: Vec::new(),
            session: None,
        }
    }
}

/// `http://127.0.0.1:81/path`: the peer that was tried last, for error-log lines.
impl fmt::Display for UpstreamStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(attempt) = self.attempts.last() else {
            return Ok(());
        };
        let peer = &attempt.peer;
        // A session has neither scheme nor URI.
        let has_uri = !self.scheme.is_empty() || !self.uri.is_empty();
        let separator = match has_uri && peer.starts_with("unix:") {
            true => ":",
            false => "",
        };
        write!(f, "{}{peer}{separator}{}", self.scheme, Text(&self.uri))
    }
}

impl Attempt {
    /// An attempt at a peer that begins now.
    pub(crate) fn new(peer: Arc<str>, server: Arc<str>, now: Instant) -> Attempt {
        Attempt {
            peer,
            server,
            counted: None,
            status: 0,
            started: now,
            queue_time: None,
            connect_time: None,
            header_time: None,
            response_time: None,
            response_length: 0,
            bytes_sent: 0,
            bytes_received: 0,
            after_redirect: false,
        }
    }

    /// It is over.
    pub(crate) fn end(&mut self) {
        if self.response_time.is_none() {
            self.response_time = Some(self.started.elapsed());
        }
    }
}

/// Counts the attempts of a request that has ended, and what its cache has done for it.
pub(crate) fn count(exchange: &Exchange, states: &UpstreamStates) {
    for attempt in &states.attempts {
        let Some(peer) = &attempt.counted else {
            continue;
        };
        let counts = peer.counts();
        counts.requests.add(1);
        counts.sent.add(attempt.bytes_sent);
        counts.received.add(attempt.bytes_received);
        // Otherwise the status is one that was made here.
        if let Some(time) = attempt.header_time {
            counts.header_times.record(time);
            counts.responses.add(attempt.status);
            if let Some(time) = attempt.response_time {
                counts.response_times.record(time);
            }
        }
    }
    if let Some(cache) = &states.cache {
        let transfer = &exchange.transfer;
        cache.count(transfer.sent_bytes.saturating_sub(transfer.head_bytes));
    }
}
