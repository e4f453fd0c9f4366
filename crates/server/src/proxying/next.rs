//! `proxy_next_upstream`: whether another peer is tried.

use super::failure::{Doing, Failure};
use crate::exchange::Exchange;
use sealane_conf::model::{NextUpstreamCause, UpstreamSettings};
use sealane_http::Method;
use std::time::Instant;

/// Why another peer might be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Connecting, sending or reading failed.
    Error,
    /// Nothing happened in time.
    Timeout,
    /// The response head is empty or malformed.
    InvalidHeader,
    /// A response with this status.
    Status(u16),
}

impl Cause {
    pub(super) fn of(failure: &Failure) -> Cause {
        match failure {
            Failure::TimedOut(_) => Cause::Timeout,
            Failure::Invalid(_, Doing::ReadingHead) => Cause::InvalidHeader,
            _ => Cause::Error,
        }
    }

    fn is_wanted(self, settings: &UpstreamSettings) -> bool {
        let causes = settings.next_upstream;
        match self {
            Cause::Error => causes.contains(NextUpstreamCause::Error),
            Cause::Timeout => causes.contains(NextUpstreamCause::Timeout),
            Cause::InvalidHeader => causes.contains(NextUpstreamCause::InvalidHeader),
            Cause::Status(status) => causes.contains_status(status),
        }
    }
}

/// Whether the configuration allows another peer to be tried. `sent`: the peer may have seen some
/// of the request; `streamed`: its body cannot be sent again.
pub(super) fn may_go_on(
    exchange: &Exchange,
    settings: &UpstreamSettings,
    cause: Cause,
    sent: bool,
    streamed: bool,
    begun: Instant,
) -> bool {
    let request = &exchange.request;
    let changes_something = matches!(
        request.head.method,
        Method::Post | Method::Lock | Method::Patch
    );
    let limit = settings.next_upstream_timeout;
    cause.is_wanted(settings)
        && !(sent
            && changes_something
            && !settings
                .next_upstream
                .contains(NextUpstreamCause::NonIdempotent))
        && !(sent && streamed)
        && (limit.is_zero() || begun.elapsed() < limit)
}
