//! From the bodies of streams to DATA frames, by priority and as far as windows go.

use super::serving::Serving;
use super::stream::{State, StreamResponse};
use crate::buffers::BATCH_BYTES;
use crate::chain::{FileRange, OutputChain, Segment};
use sealane_http::h2::Grant;

impl Serving {
    /// Puts DATA into the output until one write is full, or nobody can send.
    pub(super) fn fill(&mut self) {
        while self.queued_bytes() < BATCH_BYTES as u64
            && let Some(grant) = self.codec.next_data()
        {
            self.send_data(grant);
        }
    }

    /// One frame of a stream's body.
    fn send_data(&mut self, grant: Grant) {
        let found = self.place_of(grant.stream);
        let stream = found.and_then(|place| self.streams[place].as_mut());
        let (Some(place), Some(stream)) = (found, stream) else {
            return self.codec.pause(grant.stream);
        };
        let State::Sending(sending) = &mut stream.state else {
            return self.codec.pause(grant.stream);
        };
        let Some(allowed) = allowed_now(sending, grant, self.now) else {
            self.codec.pause(grant.stream);
            // Its waker has to know the timer.
            return self.look_again(place);
        };
        let count = frame_bytes(&sending.body, allowed);
        let is_all = u64::from(count) == sending.body.len() && sending.source.is_none();
        let end = is_all && sending.trailers.is_empty();
        if count == 0 && !end {
            self.codec.pause(grant.stream);
            if is_all {
                self.finish(place);
            }
            return;
        }
        let sent = self.codec.data(grant.stream, count, end, &mut self.out);
        if sent.is_err() {
            // The codec has just said that it may be sent; a stream that is gone after
            // all has no use for its body.
            return self.codec.pause(grant.stream);
        }
        stream.moved_ms = self.now_ms;
        sending.sent += u64::from(count);
        if let Some(Segment::File(range)) = sending.body.front() {
            let part = Segment::File(FileRange {
                len: u64::from(count),
                ..range.clone()
            });
            self.chain.push_bytes(std::mem::take(&mut self.out));
            self.chain.push(part);
        } else {
            copy(&sending.body, count as usize, &mut self.out);
        }
        sending.body.advance(u64::from(count));
        if is_all {
            return self.finish(place);
        }
        if sending.source.is_some() {
            if sending.body.is_empty() {
                self.codec.pause(grant.stream);
            }
            self.look_again(place);
        }
    }
}

/// What the next frame may carry: `http2_chunk_size` and `limit_rate` have their say.
/// `None` when the stream has to pause.
fn allowed_now(sending: &mut StreamResponse, grant: Grant, now: std::time::Instant) -> Option<u64> {
    let most = u64::from(grant.max_bytes.min(sending.chunk_bytes));
    match sending
        .rate
        .allowed(sending.sent, sending.exchange.transfer.started)
    {
        Ok(allowed) => Some(allowed.min(most)),
        Err(pause) => {
            let until = tokio::time::Instant::from_std(now + pause);
            sending.pause = Some(Box::pin(tokio::time::sleep_until(until)));
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

/// Appends the first `count` bytes of a chain that begins with as much memory.
fn copy(body: &OutputChain, count: usize, out: &mut Vec<u8>) {
    let mut left = count;
    for segment in body.segments() {
        let Segment::Memory(piece) = segment else {
            return;
        };
        let take = left.min(piece.len());
        out.extend_from_slice(&piece[..take]);
        left -= take;
        if left == 0 {
            return;
        }
    }
}
