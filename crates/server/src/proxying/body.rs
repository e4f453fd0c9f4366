//! The body of a proxied response, from the peer to the client.
//!
//! With `proxy_buffering on` the peer is read as fast as it sends, into memory and
//! then into a temporary file, so that a slow client does not hold it; with `off` no
//! more than one buffer is read ahead. Either way the client gets what there is at
//! once.

use super::attempt::log_client_gone;
use super::conversation::Conversation;
use super::failure::{Doing, Failure};
use super::lease::Leased;
use super::wire::{Ending, Event};
use crate::body_source::{BodySource, Filled, SourceError};
use crate::chain::{OutputChain, Segment};
use crate::exchange::Exchange;
use crate::request_log::log_request;
use bytes::Bytes;
use sealane_http::headers::HeaderList;
use std::task::{Context, Poll};

/// A response body that is arriving from a peer.
pub(crate) struct ProxiedBody {
    /// Gone once the response is complete or has failed.
    conversation: Option<Conversation>,
    lease: Option<Leased>,
    /// Read from the peer, not yet taken by the client.
    held: OutputChain,
    limits: BodyLimits,
    /// What ended the body.
    end: Option<Result<(), Failure>>,
    trailers: HeaderList,
    /// What the operator is to be told.
    remarks: Vec<String>,
    is_tunnel: bool,
    ignores_client: bool,
    response_length: u64,
    bytes_sent: u64,
    bytes_received: u64,
}

/// How much of a response is kept for a slow client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    /// Bytes in memory: all of `proxy_buffers` with buffering, otherwise `proxy_buffer_size`.
    pub(crate) memory_bytes: u64,
    /// `proxy_max_temp_file_size`; 0 without buffering.
    pub(crate) temp_file_bytes: u64,
}

impl ProxiedBody {
    pub(crate) fn new(
        conversation: Conversation,
        lease: Leased,
        limits: BodyLimits,
        ignores_client: bool,
    ) -> ProxiedBody {
        ProxiedBody {
            conversation: Some(conversation),
            lease: Some(lease),
            held: OutputChain::new(),
            limits,
            end: None,
            trailers: HeaderList::new(),
            remarks: Vec::new(),
            is_tunnel: false,
            ignores_client,
            response_length: 0,
            bytes_sent: 0,
            bytes_received: 0,
        }
    }

    /// A connection that was upgraded: whatever comes goes at once, both ways.
    pub(crate) fn tunnel(mut self) -> ProxiedBody {
        self.is_tunnel = true;
        self
    }

    /// Takes what is there without waiting. True when the response is complete, so
    /// that it needs no source.
    pub(crate) fn take_at_once(&mut self, cx: &mut Context<'_>, out: &mut OutputChain) -> bool {
        self.read(cx, self.limits.memory_bytes);
        if !matches!(self.end, Some(Ok(()))) {
            return false;
        }
        out.append(std::mem::take(&mut self.held));
        true
    }

    /// Reads from the peer until it has nothing, the body has ended, or `room` bytes
    /// are held.
    fn read(&mut self, cx: &mut Context<'_>, room: u64) {
        while self.end.is_none() && self.held.len() < room {
            let Some(conversation) = &mut self.conversation else {
                return;
            };
            match conversation.poll_event(cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(Event::Data(piece))) => self.hold(piece),
                Poll::Ready(Ok(Event::End(ending))) => self.finish(ending),
                // Only a tunnel's bytes follow a final head; the wire gives no other.
                Poll::Ready(Ok(Event::Head(_))) => {}
                Poll::Ready(Err(failure)) => self.fail(failure),
            }
        }
    }

    fn hold(&mut self, piece: Bytes) {
        self.response_length += piece.len() as u64;
        self.held.push(Segment::Memory(piece));
    }

    fn finish(&mut self, ending: Ending) {
        self.end = Some(Ok(()));
        self.trailers = ending.trailers;
        self.remarks.extend(ending.complaint.map(str::to_owned));
        let Some(mut conversation) = self.conversation.take() else {
            return;
        };
        self.remarks.extend(conversation.take_remark());
        self.bytes_sent = conversation.bytes_sent;
        self.bytes_received = conversation.bytes_received;
        // A request that the peer did not read to its end leaves bytes in the way.
        let reusable = ending.reusable && conversation.is_sent();
        if let Some(lease) = self.lease.take() {
            lease.succeeded(reusable.then(|| conversation.into_connection()));
        }
    }

    fn fail(&mut self, failure: Failure) {
        if let Some(mut conversation) = self.conversation.take() {
            self.bytes_sent = conversation.bytes_sent;
            self.bytes_received = conversation.bytes_received;
            self.remarks.extend(conversation.take_remark());
        }
        if let Some(lease) = self.lease.take() {
            // As in nginx a broken body says nothing about the peer's health.
            lease.succeeded(None);
        }
        self.end = Some(Err(failure));
    }

    /// Sends what is still to be sent of the request. False when the client's part of
    /// it failed.
    fn send(&mut self, cx: &mut Context<'_>) {
        let Some(conversation) = &mut self.conversation else {
            return;
        };
        match conversation.poll_send(cx) {
            Poll::Ready(Ok(())) if self.is_tunnel => {
                // The client has closed its side; nginx ends the tunnel then.
                self.finish(Ending::default());
            }
            Poll::Ready(Err(failure)) => self.fail(failure),
            _ => {}
        }
    }
}

impl BodySource for ProxiedBody {
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        self.send(cx);
        self.read(cx, self.limits.memory_bytes);
        if !self.held.is_empty() && max_bytes > 0 {
            out.append(self.held.split_to(max_bytes));
            let all = self.held.is_empty() && matches!(self.end, Some(Ok(())));
            return Poll::Ready(Ok(if all { Filled::End } else { Filled::More }));
        }
        match &self.end {
            _ if !self.held.is_empty() => {}
            Some(Ok(())) => return Poll::Ready(Ok(Filled::End)),
            Some(Err(failure)) => {
                log_request!(exchange, Error, "{failure}");
                return Poll::Ready(Err(SourceError));
            }
            None => {}
        }
        if !self.ignores_client && exchange.client.poll_gone(cx).is_ready() {
            log_client_gone(exchange, Doing::ReadingBody);
            return Poll::Ready(Err(SourceError));
        }
        Poll::Pending
    }

    fn take_trailers(&mut self) -> HeaderList {
        std::mem::take(&mut self.trailers)
    }

    fn conclude(mut self: Box<Self>, exchange: &mut Exchange, _completed: bool) {
        if let Some(conversation) = self.conversation.take() {
            self.bytes_sent = conversation.bytes_sent;
            self.bytes_received = conversation.bytes_received;
        }
        if let Some(lease) = self.lease.take() {
            lease.succeeded(None);
        }
        for remark in &self.remarks {
            log_request!(exchange, Warn, "{remark} {}", Doing::ReadingBody);
        }
        let Some(states) = exchange.upstream.as_deref_mut() else {
            return;
        };
        if let Some(attempt) = states.attempts.last_mut() {
            attempt.end();
            attempt.response_length = self.response_length;
            attempt.bytes_sent = self.bytes_sent;
            attempt.bytes_received = self.bytes_received;
        }
    }
}
