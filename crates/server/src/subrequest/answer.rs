//! The response to a subrequest as part of another body, while it arrives.

use super::{Subrequest, SubrequestKind};
use crate::body_source::{BodySource, Filled, PendingBody, SourceError};
use crate::exchange::Exchange;
use crate::handlers::special::Stub;
use crate::request_log::{Text, log_request};
use crate::{framing, pipeline};
use sealane_http::{Method, StatusCode};
use sealane_io::chain::OutputChain;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Maximum depth of nested subrequests; nginx's limit, which is 50 and the first.
const MAX_DEPTH: u8 = 51;

/// The response of another URI, to be included in a body.
pub(crate) struct IncludedAnswer {
    state: AnswerState,
    succeeded: bool,
}

enum AnswerState {
    /// Its head is being prepared.
    Asked(Pin<Box<dyn Future<Output = Box<Exchange>> + Send>>),
    /// Its body is arriving.
    Comes(Box<Exchange>, Option<Box<dyn BodySource>>),
    Over,
}

impl IncludedAnswer {
    /// Begins a subrequest; `None`, which is logged, if it is nested too deeply or its request has
    /// too many.
    ///
    /// It does not use the client's connection, but ends when the client goes.
    pub(crate) fn ask(
        exchange: &mut Exchange,
        uri: &[u8],
        args: Option<&[u8]>,
    ) -> Option<IncludedAnswer> {
        let depth = exchange.features.subrequest.depth;
        IncludedAnswer::ask_from(exchange, uri, args, depth, None)
    }

    /// The same at a nesting of `depth`, with what replaces the response if that is an error.
    pub(crate) fn ask_from(
        exchange: &mut Exchange,
        uri: &[u8],
        args: Option<&[u8]>,
        depth: u8,
        stub: Option<Stub>,
    ) -> Option<IncludedAnswer> {
        if depth >= MAX_DEPTH {
            let uri = Text(uri);
            log_request!(
                exchange,
                Error,
                "subrequests cycle while processing \"{uri}\""
            );
            return None;
        }
        if !exchange.snapshot.limit_zones.is_empty() {
            exchange.features.limits.begin_to_share();
        }
        let kind = SubrequestKind::Included;
        let subrequest = Subrequest {
            kind,
            permit: super::permit(exchange, uri, kind)?,
            uri,
            args,
            method: Method::Get,
            body: exchange.request.received.clone(),
            client: exchange.client.clone(),
        };
        let mut asked = Box::new(subrequest.of(exchange));
        asked.features.subrequest.depth = depth + 1;
        asked.features.subrequest.stub = stub.map(Box::new);
        let asking = Box::pin(async move {
            pipeline::handle_subrequest(&mut asked).await;
            asked
        });
        Some(IncludedAnswer {
            state: AnswerState::Asked(asking),
            succeeded: false,
        })
    }

    /// Polls it until its body begins.
    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let AnswerState::Asked(asking) = &mut self.state {
            let mut asked = ready!(asking.as_mut().poll(cx));
            framing::leave_out_unwanted_source(&mut asked);
            let source = asked.response.source.take().map(PendingBody::into_source);
            self.succeeded = asked.response.status.0 < 300;
            self.state = AnswerState::Comes(asked, source);
        }
        Poll::Ready(())
    }

    /// Whether its status is below 300.
    pub(crate) fn succeeded(&self) -> bool {
        self.succeeded
    }

    /// `subrequest_output_buffer_size` of the location that answers, once its head is there.
    pub(crate) fn max_kept_bytes(&self) -> u64 {
        match &self.state {
            AnswerState::Comes(exchange, _) => exchange.conf().subrequest_output_buffer_bytes,
            AnswerState::Asked(_) | AnswerState::Over => u64::MAX,
        }
    }

    /// See [`BodySource::is_prompt`].
    pub(crate) fn is_prompt(&self) -> bool {
        match &self.state {
            AnswerState::Comes(_, Some(source)) => source.is_prompt(),
            _ => false,
        }
    }

    /// See [`BodySource::poll_fill`]; `main` is the exchange with the body that includes this one.
    ///
    /// # Errors
    /// When the body of the subrequest has failed.
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        main: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        ready!(self.poll_head(cx));
        let AnswerState::Comes(asked, source) = &mut self.state else {
            return Poll::Ready(Ok(Filled::End));
        };
        let cut = asked.response.drop_connection;
        if cut || asked.response.status == StatusCode::SWITCHING_PROTOCOLS {
            self.end(main, false);
            return Poll::Ready(Err(SourceError));
        }
        let body = &mut asked.response.body;
        if !body.is_empty() {
            if max_bytes == 0 {
                return Poll::Pending;
            }
            out.append(body.split_to(max_bytes));
            return Poll::Ready(Ok(Filled::More));
        }
        let filled = match source {
            Some(source) => ready!(source.poll_fill(cx, asked, out, max_bytes)),
            None => Ok(Filled::End),
        };
        if filled != Ok(Filled::More) {
            self.end(main, filled.is_ok());
        }
        Poll::Ready(filled)
    }

    /// Ends it: it is logged, and variables are those of the main request again.
    fn end(&mut self, main: &mut Exchange, completed: bool) {
        if let AnswerState::Comes(mut asked, source) =
            std::mem::replace(&mut self.state, AnswerState::Over)
        {
            if let Some(source) = source {
                source.conclude(&mut asked, completed);
            }
            pipeline::conclude_subrequest(&asked);
            let values = &mut asked.request.values;
            main.request.values.take_variables(values);
            // Anything else that waits registers again.
            main.client.ignore_gone();
        }
    }

    /// The rest is not needed.
    pub(crate) fn conclude(mut self, main: &mut Exchange) {
        self.end(main, false);
    }
}
