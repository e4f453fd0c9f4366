//! A worker thread's channels to key processes (`ssl_key_process`, devices), and the lines of its
//! process to them, read in its event loop.

use sealane_io::runtime::{self, Direction, Registration, Watch};
use sealane_keys::{Holders, KeyClient, Received, ToDo};
use std::future::poll_fn;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Before a channel that cannot be waited for is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// Completes operations for as long as the thread runs. A reload may bring further processes.
pub(crate) async fn read_all(holders: Arc<Holders>, thread: u32) {
    let mut known = 0;
    loop {
        let keys = holders.next(known).await;
        if thread == 0 {
            runtime::spawn(read_line(Arc::clone(&keys)));
        }
        runtime::spawn(read(keys, thread));
        known += 1;
    }
}

async fn read(keys: Arc<KeyClient>, thread: u32) {
    let channel = keys.own(thread as usize);
    loop {
        let Some(socket) = channel.socket() else {
            channel.renewed().await;
            continue;
        };
        let Ok(registration) = Registration::new(socket.as_fd(), Watch::Input) else {
            runtime::sleep(PAUSE).await;
            continue;
        };
        let is_current = || {
            let current = channel.socket();
            current.is_some_and(|current| Arc::ptr_eq(&current, &socket))
        };
        while is_current() {
            let input = |cx: &mut Context<'_>| {
                registration.poll_ready(socket.as_fd(), Direction::Input, cx)
            };
            match poll_fn(|cx| channel.poll(cx, input)).await {
                Ok(ToDo::Send) => keys.send(&channel),
                Ok(ToDo::Receive) if is_current() => {
                    // Before it is read: what arrives from now on is another event.
                    registration.clear_ready(Direction::Input);
                    if keys.receive(&channel) == Received::Closed {
                        break;
                    }
                }
                _ => break,
            }
        }
    }
}

/// Reads what the process says of keys that it was to load. One thread does that for all.
async fn read_line(keys: Arc<KeyClient>) {
    loop {
        let Some(line) = keys.line_fd() else {
            keys.line_renewed().await;
            continue;
        };
        let Ok(registration) = Registration::new(line.as_fd(), Watch::InputAndOutput) else {
            runtime::sleep(PAUSE).await;
            continue;
        };
        let is_current = || keys.line_fd().is_some_and(|now| Arc::ptr_eq(&now, &line));
        while is_current() {
            // Before it is read: what arrives from now on is another event.
            registration.clear_ready(Direction::Input);
            registration.clear_ready(Direction::Output);
            if keys.receive_loaded() == Received::Closed {
                break;
            }
            let ready = |cx: &mut Context<'_>| {
                let input = registration.poll_ready(line.as_fd(), Direction::Input, cx);
                match input {
                    Poll::Pending => registration.poll_ready(line.as_fd(), Direction::Output, cx),
                    ready => ready,
                }
            };
            if poll_fn(ready).await.is_err() {
                break;
            }
        }
    }
}
