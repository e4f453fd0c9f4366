//! Time-outs between two events: `proxy_connect_timeout`, `proxy_send_timeout`,
//! `proxy_read_timeout`.

use sealane_io::runtime::{Sleep, sleep_until};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A time-out for an event. It needs a timer only once there is a wait.
#[derive(Default)]
pub(crate) struct Pause {
    timer: Option<Pin<Box<Sleep>>>,
    running: bool,
}

impl Pause {
    /// The event has happened: the next wait begins anew.
    pub(crate) fn end(&mut self) {
        self.running = false;
    }

    /// Ready when nothing has happened for `limit`. To be called when there is no event.
    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>, limit: Duration) -> Poll<()> {
        if !self.running {
            self.running = true;
            let until = Instant::now() + limit;
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(until),
                None => self.timer = Some(Box::pin(sleep_until(until))),
            }
        }
        match &mut self.timer {
            Some(timer) => timer.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}
