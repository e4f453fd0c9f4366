//! Turns the bodies of streams into DATA frames, by priority and as far as windows allow.

use super::framer::Framer;
use super::serving::Serving;
use crate::multiplexed::{FollowUp, Stream, StreamResponse, StreamState, TurnTime};
use sealane_http::h2::{Grant, StreamRef};
use sealane_io::buffers::BATCH_BYTES;
use sealane_io::chain::{OutputChain, Segment};

impl Serving {
    /// Puts DATA into the output until one write is full, or no stream can send.
    pub(super) fn fill(&mut self) {
        let exchanges = &mut self.exchanges;
        while exchanges.wire.queued_bytes() < BATCH_BYTES as u64
            && let Some(grant) = exchanges.wire.codec.next_data()
        {
            let Some((index, stream)) = exchanges.streams.find_mut(grant.stream) else {
                exchanges.wire.codec.pause(grant.stream);
                continue;
            };
            let follow_up = send_data(stream, grant, &mut exchanges.wire, exchanges.time);
            exchanges.follow_up(index, follow_up);
        }
    }
}

/// Sends one frame of the body.
fn send_data(
    stream: &mut Stream<StreamRef>,
    grant: Grant,
    framer: &mut Framer,
    time: TurnTime,
) -> FollowUp {
    let StreamState::Sending(sending) = &mut stream.state else {
        framer.codec.pause(grant.stream);
        return FollowUp::None;
    };
    let Some(allowed) = allowed_now(sending, grant, time) else {
        framer.codec.pause(grant.stream);
        // Its waker has to know the timer.
        return FollowUp::LookAgain;
    };
    let count = frame_bytes(&sending.body, allowed);
    let is_all = u64::from(count) == sending.body.len() && sending.source.is_none();
    let reset_behind = sending.reset_behind;
    let end = is_all && sending.trailers.is_empty() && reset_behind.is_none();
    let over = reset_behind.map_or(FollowUp::Finish, FollowUp::Reset);
    if count == 0 && !end {
        framer.codec.pause(grant.stream);
        return match is_all {
            true => over,
            false => FollowUp::None,
        };
    }
    let sent = framer.send_data(grant.stream, &mut sending.body, count, end);
    if sent.is_err() {
        // The codec has just said that it may be sent; a stream that is gone after
        // all has no use for its body.
        framer.codec.pause(grant.stream);
        return FollowUp::None;
    }
    stream.moved_ms = time.now_ms;
    sending.sent += u64::from(count);
    if is_all {
        return over;
    }
    if sending.source.is_none() {
        return FollowUp::None;
    }
    if sending.body.is_empty() {
        framer.codec.pause(grant.stream);
    }
    FollowUp::LookAgain
}

/// What the next frame may carry, within `http2_chunk_size` and `limit_rate`.
/// `None` when the stream has to pause.
fn allowed_now(sending: &mut StreamResponse, grant: Grant, time: TurnTime) -> Option<u64> {
    let most = u64::from(grant.max_bytes.min(sending.chunk_bytes));
    match sending
        .rate
        .allowed(sending.sent, sending.exchange.transfer.started)
    {
        Ok(allowed) => Some(allowed.min(most)),
        Err(pause) => {
            sending.pause = Some(Box::pin(sealane_io::runtime::sleep_until(time.now + pause)));
            None
        }
    }
}

/// Bytes of the next frame. Memory and files are not mixed.
fn frame_bytes(body: &OutputChain, allowed: u64) -> u32 {
    let mut bytes = 0;
    for segment in body.segments() {
        match segment {
            Segment::File(range) if bytes == 0 => {
                bytes = range.len;
                break;
            }
            Segment::File(_) => break,
            Segment::Memory(piece) => bytes += piece.len() as u64,
        }
        if bytes >= allowed {
            break;
        }
    }
    bytes.min(allowed) as u32 // what is allowed is at most a grant
}
