//! Turns the bodies of responses into DATA frames, as far as streams take them.

use super::framer::Http3Framer;
use super::names::StreamName;
use super::serving::Http3Serving;
use crate::multiplexed::{FollowUp, ResetReason, Stream, StreamResponse, StreamState, TurnTime};
use crate::request_log::log_request;
use sealane_io::buffers;
use sealane_io::chain::Segment;
use std::task::{Context, Poll};

/// What filling a stream has come to.
enum StreamFilled {
    /// It waits: for room, for its source, or for nothing.
    Enough,
    /// It waits for a disk.
    Disk,
    /// Something is to be done about it.
    FollowUp(FollowUp),
}

impl Http3Serving {
    /// Reads bodies until no stream takes more. Returns whether anything was written.
    pub(super) fn fill(&mut self, cx: &mut Context<'_>) -> bool {
        let mut wrote = false;
        let exchanges = &mut self.exchanges;
        let mut waiting = Vec::new();
        while let Some(name) = exchanges.wire.to_fill.pop() {
            let Some((index, stream)) = exchanges.streams.find_mut(name) else {
                continue;
            };
            let filled = fill_stream(
                stream,
                name,
                &mut exchanges.wire,
                (exchanges.time, self.buffer_bytes),
                cx,
                &mut wrote,
            );
            if let Some(sending) = exchanges.wire.requests.sending(name) {
                sending.is_queued = matches!(filled, StreamFilled::Disk);
            }
            match filled {
                StreamFilled::Enough => {}
                StreamFilled::Disk => waiting.push(name),
                StreamFilled::FollowUp(follow_up) => exchanges.follow_up(index, follow_up),
            }
        }
        exchanges.wire.to_fill = waiting;
        wrote
    }
}

/// Writes DATA until the stream has enough unsent, or there is no more now.
fn fill_stream(
    stream: &mut Stream<StreamName>,
    name: StreamName,
    wire: &mut Http3Framer,
    (time, most): (TurnTime, u64),
    cx: &mut Context<'_>,
    wrote: &mut bool,
) -> StreamFilled {
    let StreamState::Sending(response) = &mut stream.state else {
        return StreamFilled::Enough;
    };
    loop {
        let Some(sending) = wire.requests.sending(name) else {
            return StreamFilled::Enough;
        };
        if sending.is_over {
            return StreamFilled::Enough;
        }
        let over = response
            .reset_behind
            .map_or(FollowUp::Finish, FollowUp::Reset);
        if response.body.is_empty() {
            return match response.source.is_none() {
                true => StreamFilled::FollowUp(over),
                // What was acknowledged has made room in the buffers of its source.
                false => StreamFilled::FollowUp(FollowUp::LookAgain),
            };
        }
        let room = most.saturating_sub(sending.output.unsent());
        if room == 0 {
            return StreamFilled::Enough;
        }
        let started = response.exchange.transfer.started;
        let allowed = match response.rate.allowed(response.sent, started) {
            Ok(allowed) => allowed.min(room).min(response.body.len()),
            Err(pause) => {
                let at = time.now + pause;
                response.pause = Some(Box::pin(sealane_io::runtime::sleep_until(at)));
                // Its waker has to know the timer.
                return StreamFilled::FollowUp(FollowUp::LookAgain);
            }
        };
        let mut read = Vec::new();
        let count = match response.body.front() {
            Some(Segment::File(_)) => {
                read = buffers::for_bytes(allowed);
                let gathered = (sending.reader).poll_gather(cx, &response.body, &mut read, allowed);
                match gathered {
                    Poll::Pending => {
                        buffers::give_back(read);
                        return StreamFilled::Disk;
                    }
                    Poll::Ready(Ok(count)) => count,
                    Poll::Ready(Err(error)) => {
                        buffers::give_back(read);
                        log_request!(&response.exchange, Alert, "{error}");
                        return StreamFilled::FollowUp(FollowUp::Reset(ResetReason::Failed));
                    }
                }
            }
            _ => memory_bytes(response, allowed),
        };
        let is_all = count == response.body.len() && response.source.is_none();
        let end = is_all && response.trailers.is_empty() && response.reset_behind.is_none();
        let codec = &mut wire.codec;
        let (begun, _) = sending
            .output
            .make(|out| codec.data(name.id.to_wire(), count, end, out));
        if begun.is_err() {
            return StreamFilled::Enough;
        }
        match read.is_empty() {
            true => {
                let has_source = response.source.is_some();
                let part = response.body.split_to(count);
                for segment in part.segments() {
                    let Segment::Memory(bytes) = segment else {
                        continue;
                    };
                    match has_source {
                        // A source has so much memory and no more: it must not wait for the
                        // client's acknowledgements.
                        true => {
                            sending.output.make(|out| out.extend_from_slice(bytes));
                        }
                        false => sending.output.push(bytes.clone()),
                    }
                }
            }
            false => {
                sending.output.push(buffers::shared(read));
                response.body.advance(count);
            }
        }
        stream.moved_ms = time.now_ms;
        response.sent += count;
        wire.announce(name, end);
        *wrote = true;
        if is_all {
            return StreamFilled::FollowUp(over);
        }
        if response.source.is_some() && response.body.is_empty() {
            return StreamFilled::FollowUp(FollowUp::LookAgain);
        }
    }
}

/// Bytes in memory at the front of a body, at most those that are allowed.
fn memory_bytes(response: &StreamResponse, allowed: u64) -> u64 {
    let memory = response.body.segments().map_while(|segment| match segment {
        Segment::Memory(bytes) => Some(bytes.len() as u64),
        Segment::File(_) => None,
    });
    memory.sum::<u64>().min(allowed)
}
