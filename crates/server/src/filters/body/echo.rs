//! `echo_before_body` and `echo_after_body`: texts around a body.

use super::head;
use crate::body_source::{BodySource, Filled, PendingBody, SourceError};
use crate::exchange::Exchange;
use crate::template;
use bytes::Bytes;
use sealane_conf::model::{EchoAround, Template};
use sealane_http::headers::HeaderList;
use sealane_io::chain::OutputChain;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Puts the texts around the body. Those behind it are evaluated at its end.
pub(super) fn apply(exchange: &mut Exchange, settings: &Arc<EchoAround>) {
    if exchange.response.status.is_bodiless() {
        return;
    }
    head::forget_length(&mut exchange.response);
    let response = &mut exchange.response;
    let own = std::mem::take(&mut response.body);
    let source = response.source.take().map(PendingBody::into_source);
    response.source = Some(PendingBody::new(Around {
        settings: Arc::clone(settings),
        begun: false,
        own,
        source,
        source_ended: false,
    }));
}

struct Around {
    settings: Arc<EchoAround>,
    begun: bool,
    /// What there is of the body itself.
    own: OutputChain,
    /// The rest of it.
    source: Option<Box<dyn BodySource>>,
    source_ended: bool,
}

fn text(texts: &[Template], exchange: &Exchange) -> Bytes {
    let mut text = Vec::new();
    for one in texts {
        template::append(one, exchange, &mut text);
    }
    text.into()
}

impl BodySource for Around {
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        if !self.begun {
            self.begun = true;
            let before = text(&self.settings.before, exchange);
            if !before.is_empty() {
                out.push_bytes(before);
                return Poll::Ready(Ok(Filled::More));
            }
        }
        if !self.own.is_empty() {
            let now = self.own.split_to(max_bytes);
            if now.is_empty() {
                return Poll::Pending;
            }
            out.append(now);
            return Poll::Ready(Ok(Filled::More));
        }
        // A source must not be polled after its end.
        if let Some(source) = &mut self.source
            && !self.source_ended
            && ready!(source.poll_fill(cx, exchange, out, max_bytes))? == Filled::More
        {
            return Poll::Ready(Ok(Filled::More));
        }
        self.source_ended = true;
        out.push_bytes(text(&self.settings.after, exchange));
        Poll::Ready(Ok(Filled::End))
    }

    fn is_prompt(&self) -> bool {
        self.source
            .as_ref()
            .is_some_and(|source| source.is_prompt())
    }

    fn holds_head(&self) -> bool {
        self.source
            .as_ref()
            .is_some_and(|source| source.holds_head())
    }

    fn take_trailers(&mut self, exchange: &mut Exchange) -> HeaderList {
        match &mut self.source {
            Some(source) => source.take_trailers(exchange),
            None => HeaderList::new(),
        }
    }

    fn conclude(self: Box<Self>, exchange: &mut Exchange, completed: bool) {
        if let Some(source) = self.source {
            source.conclude(exchange, completed || self.source_ended);
        }
    }
}
