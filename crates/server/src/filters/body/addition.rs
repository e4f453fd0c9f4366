//! `add_before_body` and `add_after_body`: puts the responses to subrequests around a body.

use super::head;
use crate::body_source::{BodySource, Filled, PendingBody, SourceError};
use crate::exchange::Exchange;
use crate::subrequest::IncludedAnswer;
use sealane_conf::model::Addition;
use sealane_http::StatusCode;
use sealane_http::headers::HeaderList;
use sealane_io::chain::OutputChain;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Whether something is to be added. If so, this changes the head; [`put`] assembles the body,
/// after the filters that do not apply to what is added.
pub(super) fn announce(exchange: &mut Exchange, settings: &Addition) -> bool {
    let response = &exchange.response;
    let adds = response.status == StatusCode::OK
        && !exchange.request.is_subrequest
        && head::is_of(response, &settings.types);
    if adds {
        head::forget_length(&mut exchange.response);
        head::weaken_etag(exchange);
    }
    adds
}

/// Puts the answers around the body.
pub(super) fn put(exchange: &mut Exchange, settings: &Arc<Addition>) {
    let response = &mut exchange.response;
    let body = std::mem::take(&mut response.body);
    let source = response.source.take().map(PendingBody::into_source);
    response.source = Some(PendingBody::new(Framed {
        settings: Arc::clone(settings),
        part: AdditionPart::Before,
        answer: None,
        body,
        source,
        own_ended: false,
    }));
}

/// Which part comes now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AdditionPart {
    Before,
    Own,
    After,
    Over,
}

struct Framed {
    settings: Arc<Addition>,
    part: AdditionPart,
    /// What is being added.
    answer: Option<IncludedAnswer>,
    body: OutputChain,
    source: Option<Box<dyn BodySource>>,
    own_ended: bool,
}

impl Framed {
    /// The response before or after the body.
    fn poll_added(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        let uri = match self.part {
            AdditionPart::Before => &self.settings.before,
            _ => &self.settings.after,
        };
        if uri.is_empty() {
            return Poll::Ready(Ok(Filled::End));
        }
        if self.answer.is_none() {
            self.answer = Some(IncludedAnswer::ask(exchange, uri, None).ok_or(SourceError)?);
        }
        match &mut self.answer {
            Some(answer) => answer.poll_fill(cx, exchange, out, max_bytes),
            None => Poll::Ready(Err(SourceError)),
        }
    }

    /// The body itself. A source must not be polled after its end.
    fn poll_own(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        if !self.body.is_empty() {
            if max_bytes == 0 {
                return Poll::Pending;
            }
            out.append(self.body.split_to(max_bytes));
            return Poll::Ready(Ok(Filled::More));
        }
        match &mut self.source {
            Some(source) if !self.own_ended => source.poll_fill(cx, exchange, out, max_bytes),
            _ => Poll::Ready(Ok(Filled::End)),
        }
    }
}

impl BodySource for Framed {
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        loop {
            let before_bytes = out.len();
            let filled = match self.part {
                AdditionPart::Own => ready!(self.poll_own(cx, exchange, out, max_bytes))?,
                AdditionPart::Over => return Poll::Ready(Ok(Filled::End)),
                _ => ready!(self.poll_added(cx, exchange, out, max_bytes))?,
            };
            if filled == Filled::More {
                return Poll::Ready(Ok(Filled::More));
            }
            self.answer = None;
            self.own_ended |= self.part == AdditionPart::Own;
            self.part = match self.part {
                AdditionPart::Before => AdditionPart::Own,
                AdditionPart::Own => AdditionPart::After,
                AdditionPart::After | AdditionPart::Over => AdditionPart::Over,
            };
            if out.len() > before_bytes && self.part != AdditionPart::Over {
                return Poll::Ready(Ok(Filled::More));
            }
        }
    }

    fn is_prompt(&self) -> bool {
        let source = self.source.as_ref();
        let answer = self.answer.as_ref();
        source.is_some_and(|source| source.is_prompt())
            || answer.is_some_and(|answer| answer.is_prompt())
    }

    fn take_trailers(&mut self, exchange: &mut Exchange) -> HeaderList {
        match &mut self.source {
            Some(source) => source.take_trailers(exchange),
            None => HeaderList::new(),
        }
    }

    fn conclude(self: Box<Self>, exchange: &mut Exchange, completed: bool) {
        if let Some(answer) = self.answer {
            answer.conclude(exchange);
        }
        if let Some(source) = self.source {
            source.conclude(exchange, completed || self.own_ended);
        }
    }
}
