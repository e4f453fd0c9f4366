//! `echo` and its relatives: texts from the configuration, one after the other.

use super::{Outcome, set_content_type};
use crate::body_source::{BodySource, Filled, PendingBody, SourceError};
use crate::exchange::Exchange;
use crate::proxying::safe_uri;
use crate::request_body;
use crate::request_log::{Text, log_request};
use crate::subrequest::IncludedAnswer;
use crate::template;
use sealane_conf::model::{Echo, EchoStep, Template};
use sealane_http::StatusCode;
use sealane_io::chain::OutputChain;
use sealane_io::runtime::{Sleep, sleep};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// What a request keeps for `echo_reset_timer`.
#[derive(Default)]
pub(crate) struct EchoState {
    /// When the timer was reset, in milliseconds from the beginning of the request.
    reset_ms: u32,
}

/// `$echo_timer_elapsed`, in milliseconds.
pub(crate) fn elapsed_ms(exchange: &Exchange) -> u32 {
    since_start_ms(exchange).saturating_sub(exchange.features.echo.reset_ms)
}

fn since_start_ms(exchange: &Exchange) -> u32 {
    // Seven weeks are enough for all that use it.
    exchange
        .transfer
        .started
        .elapsed()
        .as_millis()
        .try_into()
        .unwrap_or(u32::MAX)
}

/// Answers with the steps of the location.
pub(crate) async fn answer(exchange: &mut Exchange) -> Outcome {
    let Some(echo) = exchange.conf().echo.clone() else {
        return Outcome::Declined;
    };
    if echo.steps.contains(&EchoStep::ReadRequestBody)
        && let Err(status) = request_body::receive(exchange).await
    {
        return Outcome::Status(status);
    }
    if echo
        .steps
        .iter()
        .any(|step| matches!(step, EchoStep::Exec(..)))
    {
        return elsewhere(exchange, &echo).await;
    }
    exchange.response.status = StatusCode(echo.status);
    exchange.phases.has_status = true;
    set_content_type(exchange);
    let response = &mut exchange.response;
    response.content_length = None;
    response.body.clear();
    response.source = Some(PendingBody::new(Steps {
        echo,
        next: 0,
        repeated: 0,
        ready: OutputChain::new(),
        pause: None,
        answer: None,
    }));
    Outcome::Answered
}

/// `echo_exec`, after what stands before it.
async fn elsewhere(exchange: &mut Exchange, echo: &Echo) -> Outcome {
    for step in &echo.steps {
        match step {
            EchoStep::Sleep(seconds) => {
                let text = template::evaluate(seconds, exchange).into_owned();
                let Some(time) = sleep_time(exchange, &text) else {
                    return Outcome::Status(StatusCode::INTERNAL_SERVER_ERROR);
                };
                sleep(time).await;
            }
            EchoStep::ResetTimer => exchange.features.echo.reset_ms = since_start_ms(exchange),
            EchoStep::Exec(uri, args) => {
                let uri = template::evaluate(uri, exchange).into_owned();
                if let Some(name) = uri.strip_prefix(b"@") {
                    return Outcome::Named(String::from_utf8_lossy(name).into());
                }
                return match target(exchange, &uri, args) {
                    Some((uri, args)) => Outcome::Redirect { uri, args },
                    None => Outcome::Status(StatusCode::INTERNAL_SERVER_ERROR),
                };
            }
            // It is done, or does not stand before `echo_exec`.
            _ => {}
        }
    }
    Outcome::Declined
}

/// The time of `echo_sleep`; `None`, which is logged, if it is none.
fn sleep_time(exchange: &Exchange, text: &[u8]) -> Option<Duration> {
    let time = parse_seconds(text);
    if time.is_none() {
        let text = Text(text);
        log_request!(exchange, Error, "invalid sleep duration \"{text}\"");
    }
    time
}

/// The path and the arguments of another location; `None`, which is logged, if there is none.
fn target(exchange: &Exchange, uri: &[u8], args: &Template) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let Some((path, own_args)) = safe_uri(uri) else {
        let uri = Text(uri);
        log_request!(exchange, Error, "unsafe URI \"{uri}\" was detected");
        return None;
    };
    let args = template::evaluate(args, exchange).into_owned();
    let args = Some(args).filter(|args| !args.is_empty());
    Some((path, args.or(own_args)))
}

/// Bytes of repeated texts that are made at a time, and of other locations' answers.
const REPEATED_BYTES: usize = 16 << 10;

struct Steps {
    echo: Arc<Echo>,
    /// The step that is to be done, or is being done.
    next: usize,
    /// How often its text was written already.
    repeated: u64,
    /// What there is to send.
    ready: OutputChain,
    pause: Option<Pin<Box<Sleep>>>,
    /// What another location answers.
    answer: Option<IncludedAnswer>,
}

/// What becomes of the body after a step.
enum Then {
    /// The next one.
    GoOn,
    /// What there is, if there is something; the same step again afterwards.
    Send,
}

impl Steps {
    fn step(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange) -> Poll<Result<Then, ()>> {
        let echo = Arc::clone(&self.echo);
        let Some(step) = echo.steps.get(self.next) else {
            return Poll::Ready(Ok(Then::Send));
        };
        match step {
            EchoStep::Text(text) => {
                let text = template::evaluate(text, exchange).into_owned();
                self.ready.push_made(text);
            }
            EchoStep::Repeat(count, text) => {
                let text = template::evaluate(text, exchange);
                let at_once = (REPEATED_BYTES / text.len().max(1)).max(1);
                let left = count - self.repeated;
                let now = if text.is_empty() {
                    0
                } else {
                    left.min(at_once as u64)
                };
                // At most `at_once`, or one.
                self.ready.push_made(text.repeat(now as usize));
                if now > 0 && now < left {
                    self.repeated += now;
                    return Poll::Ready(Ok(Then::Send));
                }
                self.repeated = 0;
            }
            EchoStep::Sleep(seconds) => {
                if self.pause.is_none() {
                    if !self.ready.is_empty() {
                        return Poll::Ready(Ok(Then::Send));
                    }
                    let text = template::evaluate(seconds, exchange).into_owned();
                    let Some(time) = sleep_time(exchange, &text) else {
                        return Poll::Ready(Err(()));
                    };
                    self.pause = Some(Box::pin(sleep(time)));
                }
                if let Some(pause) = &mut self.pause {
                    ready!(pause.as_mut().poll(cx));
                }
                self.pause = None;
            }
            EchoStep::Flush if self.ready.is_empty() => {}
            EchoStep::Flush => {
                self.next += 1;
                return Poll::Ready(Ok(Then::Send));
            }
            EchoStep::ResetTimer => exchange.features.echo.reset_ms = since_start_ms(exchange),
            EchoStep::ReadRequestBody => {}
            EchoStep::RequestBody => {
                if let Some(body) = &exchange.request.received {
                    self.ready.append(body.chain());
                }
            }
            EchoStep::Location(..) if !self.ready.is_empty() => {
                return Poll::Ready(Ok(Then::Send));
            }
            EchoStep::Location(uri, args) => {
                let filled = ready!(self.include(cx, exchange, uri, args))?;
                if filled == Filled::More {
                    return Poll::Ready(Ok(Then::Send));
                }
                self.answer = None;
            }
            EchoStep::Exec(..) => {} // not here
        }
        self.next += 1;
        Poll::Ready(Ok(Then::GoOn))
    }

    /// A part of what another location answers.
    fn include(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        uri: &Template,
        args: &Template,
    ) -> Poll<Result<Filled, ()>> {
        if self.answer.is_none() {
            let uri = template::evaluate(uri, exchange).into_owned();
            let (uri, args) = target(exchange, &uri, args).ok_or(())?;
            let answer = IncludedAnswer::ask(exchange, &uri, args.as_deref());
            self.answer = Some(answer.ok_or(())?);
        }
        let Some(answer) = &mut self.answer else {
            return Poll::Ready(Err(()));
        };
        let filled = answer.poll_fill(cx, exchange, &mut self.ready, REPEATED_BYTES as u64);
        filled.map_err(|_| ())
    }

    fn is_over(&self) -> bool {
        self.next >= self.echo.steps.len() && self.ready.is_empty()
    }
}

impl BodySource for Steps {
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        while self.ready.len() < max_bytes && self.next < self.echo.steps.len() {
            match self.step(cx, exchange) {
                Poll::Ready(Ok(Then::GoOn)) => {}
                Poll::Ready(Ok(Then::Send)) if !self.ready.is_empty() => break,
                Poll::Ready(Ok(Then::Send)) => {}
                Poll::Ready(Err(())) => return Poll::Ready(Err(SourceError)),
                Poll::Pending => return Poll::Pending,
            }
        }
        if self.is_over() {
            return Poll::Ready(Ok(Filled::End));
        }
        let now = self.ready.split_to(max_bytes);
        if now.is_empty() {
            return Poll::Pending;
        }
        out.append(now);
        Poll::Ready(Ok(match self.is_over() {
            true => Filled::End,
            false => Filled::More,
        }))
    }

    fn is_prompt(&self) -> bool {
        let waits = |step: &EchoStep| matches!(step, EchoStep::Sleep(_) | EchoStep::Flush);
        let answer = self.answer.as_ref();
        self.echo.steps.iter().any(waits) || answer.is_some_and(IncludedAnswer::is_prompt)
    }

    fn conclude(self: Box<Self>, exchange: &mut Exchange, _: bool) {
        if let Some(answer) = self.answer {
            answer.conclude(exchange);
        }
    }
}

/// Seconds with up to three digits after the point.
fn parse_seconds(text: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 3 {
        return None;
    }
    let milliseconds: u64 = format!("{fraction:0<3}").parse().ok()?;
    let whole: u64 = whole.parse().ok()?;
    Duration::from_secs(whole).checked_add(Duration::from_millis(milliseconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;

    #[test]
    fn seconds_have_at_most_three_digits_behind_the_point() {
        let of = |text: &str| parse_seconds(text.as_bytes()).map(|time| time.as_millis());
        assert_eq!(
            ["0", "1", "1.5", "0.023", "10.100"].map(of),
            [0, 1000, 1500, 23, 10_100].map(Some)
        );
        assert_eq!(
            ["", ".", "1.", ".5", "1.2345", "-1", "x", "1.x"].map(of),
            [None; 8]
        );
    }

    #[test]
    fn repeated_texts_are_made_as_they_are_sent() {
        let site = Site::new("location / { echo_duplicate 50_000 'abcd'; echo -n end; }");
        let mut exchange = site.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        site.block_on(crate::pipeline::handle(&mut exchange));
        let mut source = exchange
            .response
            .source
            .take()
            .expect("there is more")
            .into_source();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let (mut bytes, mut ended) = (0, false);
        while !ended {
            let mut out = OutputChain::new();
            let filled = source.poll_fill(&mut cx, &mut exchange, &mut out, 10_000);
            assert!(out.len() <= 10_000);
            bytes += out.len();
            ended = match filled {
                Poll::Ready(Ok(filled)) => filled == Filled::End,
                other => panic!("{other:?}"),
            };
        }
        assert_eq!(bytes, 200_003);
    }
}
