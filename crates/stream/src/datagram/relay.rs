//! A relay of datagrams: between the session of a client and a server, both ways.

use super::{Packets, Session, Traffic};
use crate::relay::rate::Throttle;
use crate::relay::{Action, Side};
use sealane_io::datagram::{DatagramSocket, Path, Run};
use sealane_io::runtime;
use sealane_sys::OsError;
use sealane_sys::socket::{BATCH_MESSAGES, ReceivedBatch};
use std::fmt;
use std::io;
use std::task::{Context, Poll};
use std::time::Instant;

/// Batches that a direction moves before other tasks of the thread have their turn.
const BATCHES_PER_POLL: usize = 8;
/// Bytes from the server that wait for room in the listening socket; others are dropped.
const MAX_WAITING_BYTES: usize = 256 << 10;

/// When a relay has ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct DatagramRelaySettings {
    /// `proxy_requests`: datagrams that the client may send, as in
    /// [`ListenerSettings`](super::ListenerSettings); 0 for no limit.
    pub requests: u64,
    /// `proxy_responses`: datagrams that the server sends for each of the client. Without a number,
    /// only time ends the session.
    pub responses: Option<u64>,
    /// `proxy_upload_rate`: bytes received from the client in a second; 0 for no limit. As in
    /// nginx, datagrams that come too early are dropped.
    pub upload_rate: u64,
    /// `proxy_download_rate`: bytes received from the server in a second; 0 for no limit. Datagrams
    /// that come too early wait in the socket.
    pub download_rate: u64,
}

/// Datagrams so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Received from the client.
    pub from_client: Traffic,
    /// Taken by the kernel for the server.
    pub to_server: Traffic,
    /// Received from the server.
    pub from_server: Traffic,
    /// Taken by the kernel for the client.
    pub to_client: Traffic,
    /// From the client, and dropped because they came too early for `upload_rate`.
    pub dropped_from_client: u64,
    /// From the server, and dropped because there was no room to send them.
    pub dropped_from_server: u64,
}

/// Why a relay cannot go on, or what became of a datagram.
#[derive(Debug)]
pub struct DatagramError {
    /// What was being done.
    pub action: Action,
    /// Why it failed.
    pub error: io::Error,
}

/// Datagrams between a client and a server.
pub struct DatagramRelay {
    session: Session,
    server: DatagramSocket,
    settings: DatagramRelaySettings,
    /// Sent with the first datagram, in front of it.
    prefix: Vec<u8>,
    up: Packets,
    down: Packets,
    counts: DatagramCounts,
    /// Datagrams of the server, and failures in their place.
    responses: u64,
    began: Instant,
    up_throttle: Throttle,
    down_throttle: Throttle,
}

impl DatagramRelay {
    /// A relay of what waits for the session, and of what comes. `prefix` is sent in front of the
    /// first datagram, as a part of it (`proxy_protocol`).
    pub fn new(
        session: Session,
        server: DatagramSocket,
        settings: DatagramRelaySettings,
        prefix: Vec<u8>,
    ) -> DatagramRelay {
        if settings.download_rate > 0 {
            server.receive_each();
        }
        DatagramRelay {
            session,
            server,
            settings,
            prefix,
            up: Packets::default(),
            down: Packets::default(),
            counts: DatagramCounts::default(),
            responses: 0,
            began: Instant::now(),
            up_throttle: Throttle::default(),
            down_throttle: Throttle::default(),
        }
    }

    /// Moves datagrams until there is nothing more to do now. Ready when the client has sent all it
    /// may (`requests`), and the server has sent enough (`responses`).
    ///
    /// # Errors
    /// Of [`Action::Reading`]: the server's machine has refused a datagram, which counts as a
    /// response; poll again. Of [`Action::Sending`]: the relay is over.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), DatagramError>> {
        let mut has_more = self.poll_up(cx)?;
        has_more |= self.poll_down(cx)?;
        self.up_throttle.watch(cx);
        if self.is_done() {
            return Poll::Ready(Ok(()));
        }
        if has_more {
            runtime::defer(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Datagrams so far.
    pub fn counts(&self) -> DatagramCounts {
        self.counts
    }

    /// A number that grows with every datagram: while it stands still, `proxy_timeout` runs.
    pub fn progress(&self) -> u64 {
        let counts = &self.counts;
        [
            counts.from_client,
            counts.to_server,
            counts.from_server,
            counts.to_client,
        ]
        .iter()
        .fold(0, |sum, traffic| sum.wrapping_add(traffic.packets))
    }

    /// Whether a direction waits for its rate, during which `proxy_timeout` does not run.
    pub fn is_delayed(&self) -> bool {
        self.up_throttle.is_waiting() || self.down_throttle.is_waiting()
    }

    /// Whether the server has sent all that was expected of it by now, so that running out of time
    /// is no failure. It always has if nothing is expected.
    pub fn is_answered(&self) -> bool {
        self.expected_responses()
            .is_none_or(|expected| self.responses >= expected)
    }

    /// How many responses belong to the requests so far; `None` if nothing is expected.
    fn expected_responses(&self) -> Option<u64> {
        let each = self.settings.responses?;
        Some(each.saturating_mul(self.requests()))
    }

    /// Datagrams of the server, and failures that came in their place.
    pub fn responses(&self) -> u64 {
        self.responses
    }

    fn requests(&self) -> u64 {
        self.counts.from_client.packets
    }

    fn is_done(&self) -> bool {
        self.settings.responses.is_some()
            && self.requests() + self.counts.dropped_from_client >= self.settings.requests.max(1)
            && self.is_answered()
            && self.up.is_empty()
            && self.down.is_empty()
            && !self.session.has_waiting()
    }

    /// From the client to the server. Returns whether there may be more to do at once.
    fn poll_up(&mut self, cx: &mut Context<'_>) -> Result<bool, DatagramError> {
        for _ in 0..BATCHES_PER_POLL {
            if self.up.is_empty() {
                let Poll::Ready(packets) = self.session.poll_receive(cx) else {
                    return Ok(false);
                };
                self.take_requests(cx, packets);
                if self.up.is_empty() {
                    continue;
                }
                self.up.prefix_first(&std::mem::take(&mut self.prefix));
            }
            match self.server.poll_send(cx, Path::default(), self.up.runs()) {
                Poll::Ready(Ok(count)) => self.counts.to_server.add(self.up.advance(count)),
                Poll::Ready(Err(error)) => {
                    return Err(DatagramError {
                        action: Action::Sending(Side::Server),
                        error,
                    });
                }
                Poll::Pending => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Takes what the client has sent, as far as its rate permits.
    fn take_requests(&mut self, cx: &mut Context<'_>, packets: Packets) {
        let (rate, counts) = (self.settings.upload_rate, &mut self.counts);
        if rate == 0 {
            counts.from_client.add(Traffic {
                packets: packets.count() as u64,
                bytes: packets.byte_count() as u64,
            });
            self.up = packets;
            return;
        }
        for datagram in packets.runs().flat_map(Run::cut) {
            let bytes = datagram.bytes;
            let (began, received) = (self.began, counts.from_client.bytes);
            let throttle = &mut self.up_throttle;
            // As in nginx, the first one takes no time, but counts.
            if counts.from_client.packets > 0 {
                let allowed = throttle.poll_allowed(cx, rate, began, received, 1);
                if allowed.is_pending() {
                    counts.dropped_from_client += 1;
                    continue;
                }
                throttle.note(rate, bytes.len());
            }
            counts.from_client.add(Traffic {
                packets: 1,
                bytes: bytes.len() as u64,
            });
            self.up.push(bytes);
        }
    }

    /// From the server to the client.
    fn poll_down(&mut self, cx: &mut Context<'_>) -> Result<bool, DatagramError> {
        let sending = |error| DatagramError {
            action: Action::Sending(Side::Client),
            error,
        };
        for _ in 0..BATCHES_PER_POLL {
            if !self.down.is_empty() {
                match self.session.poll_send(cx, self.down.runs()) {
                    Poll::Ready(Ok(count)) => self.counts.to_client.add(self.down.advance(count)),
                    Poll::Ready(Err(error)) => return Err(sending(error)),
                    Poll::Pending => {
                        self.down_throttle.watch(cx);
                        return Ok(false);
                    }
                }
                continue;
            }
            let (rate, received) = (self.settings.download_rate, self.counts.from_server.bytes);
            let throttle = &mut self.down_throttle;
            if throttle
                .poll_allowed(cx, rate, self.began, received, 1)
                .is_pending()
            {
                return Ok(false);
            }
            let max = match rate {
                0 => self.expected_messages(),
                _ => 1,
            };
            let mut shared = Context::from_waker(cx.waker());
            let (session, down, counts) = (&self.session, &mut self.down, &mut self.counts);
            let before = counts.from_server.packets;
            let passed = self.server.poll_receive(cx, max, |batch| {
                pass_on(batch, &mut shared, session, down, counts)
            });
            let after = self.counts.from_server;
            self.responses += after.packets - before;
            self.down_throttle
                .note(rate, (after.bytes - received) as usize);
            match passed {
                Poll::Ready(Ok(Ok(()))) => {}
                Poll::Ready(Ok(Err(error))) => return Err(sending(error)),
                Poll::Ready(Err(error)) => {
                    // There is one error for all that was sent shortly before.
                    let expected = self.expected_responses().unwrap_or(0);
                    self.responses = expected.max(self.responses + 1);
                    return Err(DatagramError {
                        action: Action::Reading(Side::Server),
                        error,
                    });
                }
                Poll::Pending => return Ok(false),
            }
            if self.is_done() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How many messages to ask the server's socket for. What ends the session is not followed by a
    /// look for more.
    fn expected_messages(&self) -> usize {
        let left = self.expected_responses().map(|expected| {
            usize::try_from(expected.saturating_sub(self.responses)).unwrap_or(usize::MAX)
        });
        match left {
            Some(left @ 1..BATCH_MESSAGES) => left,
            _ => BATCH_MESSAGES,
        }
    }
}

/// Sends what was received from the server, as it lies there; keeps what there is no room for.
fn pass_on(
    batch: &ReceivedBatch,
    cx: &mut Context<'_>,
    session: &Session,
    down: &mut Packets,
    counts: &mut DatagramCounts,
) -> io::Result<()> {
    let messages = batch.messages().filter(|message| !message.is_truncated);
    let runs = messages.map(|message| Run {
        bytes: message.bytes,
        segment_bytes: message.segment_bytes,
    });
    for run in runs.clone() {
        counts.from_server.add(Traffic {
            packets: run.count() as u64,
            bytes: run.bytes.len() as u64,
        });
    }
    let taken = match session.poll_send(cx, runs.clone()) {
        Poll::Ready(sent) => sent?,
        Poll::Pending => 0,
    };
    for (index, datagram) in runs.flat_map(Run::cut).enumerate() {
        let bytes = datagram.bytes;
        if index < taken {
            counts.to_client.add(Traffic {
                packets: 1,
                bytes: bytes.len() as u64,
            });
        } else if down.byte_count() + bytes.len() <= MAX_WAITING_BYTES {
            down.push(bytes);
        } else {
            counts.dropped_from_server += 1;
        }
    }
    Ok(())
}

impl fmt::Display for DatagramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = match self.action {
            Action::Reading(_) => "recv()",
            Action::Sending(_) => "sendmsg()",
        };
        let (error, action) = (OsError(&self.error), self.action);
        write!(f, "{call} failed ({error}) while {action}")
    }
}

impl std::error::Error for DatagramError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
