//! From the bodies of streams to DATA frames, by priority and as far as windows go.

use super::serving::Serving;
use super::stream::State;
use crate::buffers::BATCH_BYTES;
use crate::chain::{FileRange, Segment};
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

    /// Bytes that wait for the socket.
    pub(super) fn queued_bytes(&self) -> u64 {
        self.out.len() as u64 + self.chain.len()
    }

    /// One frame of a stream's body.
    fn send_data(&mut self, grant: Grant) {
        let Some(place) = self.place_of(grant.stream) else {
            return self.codec.pause(grant.stream);
        };
        let now = self.now;
        let Some(stream) = self.streams[place].as_mut() else {
            return self.codec.pause(grant.stream);
        };
        let State::Sending(sending) = &mut stream.state else {
            return self.codec.pause(grant.stream);
        };
        let allowed = match sending
            .rate
            .allowed(sending.sent, sending.exchange.progress.started)
        {
            Ok(allowed) => allowed.min(u64::from(grant.max_bytes)),
            Err(pause) => {
                let until = tokio::time::Instant::from_std(now + pause);
                sending.pause = Some(Box::pin(tokio::time::sleep_until(until)));
                self.codec.pause(grant.stream);
                // Its waker has to know the timer.
                self.again.push(place as u32);
                return;
            }
        };
        // A frame ends with its segment at the latest: memory and files are not mixed.
        let count = sending.body.front().map_or(0, Segment::len).min(allowed) as u32;
        let is_all = u64::from(count) == sending.body.len() && sending.source.is_none();
        let end = is_all && sending.trailers.is_empty();
        if count == 0 && !end {
            self.codec.pause(grant.stream);
            if is_all {
                self.finish(place);
            }
            return;
        }
        if self
            .codec
            .data(grant.stream, count, end, &mut self.out)
            .is_err()
        {
            // The codec has just said that it may be sent; a stream that is gone after
            // all has no use for its body.
            return self.codec.pause(grant.stream);
        }
        stream.moved_ms = self.now_ms;
        sending.sent += u64::from(count);
        match sending.body.front() {
            Some(Segment::Memory(bytes)) => {
                self.out.extend_from_slice(&bytes[..count as usize]);
            }
            Some(Segment::File(range)) => {
                let part = Segment::File(FileRange {
                    len: u64::from(count),
                    ..range.clone()
                });
                self.chain.push_bytes(std::mem::take(&mut self.out));
                self.chain.push(part);
            }
            None => {}
        }
        sending.body.advance(u64::from(count));
        if is_all {
            self.finish(place);
        } else if sending.source.is_some() && sending.body.is_empty() {
            self.codec.pause(grant.stream);
            self.again.push(place as u32);
        } else if sending.source.is_some() && sending.body.len() < BATCH_BYTES as u64 / 2 {
            self.again.push(place as u32);
        }
    }
}
