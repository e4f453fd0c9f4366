//! `echo` and its relatives: texts from the configuration, one after the other.

use super::{Outcome, set_content_type};
use crate::body_source::{BodySource, Filled, PendingBody, SourceError};
use crate::exchange::Exchange;
use crate::request_body;
use crate::request_log::{Text, log_request};
use crate::template;
use sealane_conf::model::{Echo, EchoStep};
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
    }));
    Outcome::Answered
}

/// Bytes of repeated texts that are made at a time.
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
                    let Some(time) = parse_seconds(&text) else {
                        let text = Text(&text);
                        log_request!(exchange, Error, "invalid sleep duration \"{text}\"");
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
        }
        self.next += 1;
        Poll::Ready(Ok(Then::GoOn))
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
        self.echo.steps.iter().any(waits)
    }

    fn conclude(self: Box<Self>, _: &mut Exchange, _: bool) {}
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
