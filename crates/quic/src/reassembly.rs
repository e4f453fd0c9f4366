//! Bytes that arrived out of order.

use std::collections::VecDeque;

/// Bytes of a block. A larger one wastes more on a lone packet, a smaller one on what is beside the
/// bytes.
const BLOCK: usize = 2_048;
const BITS: usize = u64::BITS as usize;

/// A stretch of the stream that starts at a multiple of [`BLOCK`].
///
/// Which of its bytes have arrived are bits: however small the pieces are that a peer sends, what
/// is kept is an eighth more than the stretch of the stream in which they lie.
struct Block {
    arrived: [u64; BLOCK / BITS],
    bytes: [u8; BLOCK],
}

impl Block {
    fn new() -> Box<Self> {
        Box::new(Self {
            arrived: [0; BLOCK / BITS],
            bytes: [0; BLOCK],
        })
    }

    fn put(&mut self, at: usize, data: &[u8]) {
        let end = at + data.len();
        self.bytes[at..end].copy_from_slice(data);
        let mut from = at;
        while from < end {
            let word = from / BITS;
            let to = end.min((word + 1) * BITS);
            let ones = u64::MAX >> (BITS - (to - from));
            self.arrived[word] |= ones << (from % BITS);
            from = to;
        }
    }

    /// The bytes from `at` to the first one that has not arrived.
    fn run(&self, at: usize) -> &[u8] {
        let mut end = at;
        while end < BLOCK {
            let rest = self.arrived[end / BITS] >> (end % BITS);
            let ones = rest.trailing_ones() as usize;
            end += ones;
            if ones == 0 || !end.is_multiple_of(BITS) {
                break;
            }
        }
        &self.bytes[at..end]
    }
}

/// Bytes of one stream from where it was read up to. The caller bounds how far above that they
/// are: that is what bounds the memory.
#[derive(Default)]
pub(crate) struct Reassembly {
    /// Number of the first block, in blocks from the start of the stream.
    first: u64,
    blocks: VecDeque<Option<Box<Block>>>,
}

impl Reassembly {
    /// Keeps `data`, which starts at `offset`, of a stream that was read up to `read`.
    pub(crate) fn insert(&mut self, read: u64, offset: u64, data: &[u8]) {
        let known = usize::try_from(read.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut data = data.get(known..).unwrap_or_default();
        let mut offset = offset.max(read);
        if self.blocks.is_empty() {
            self.first = read / BLOCK as u64;
        }
        while !data.is_empty() {
            let (index, at) = self.place(offset);
            let (piece, rest) = data.split_at(data.len().min(BLOCK - at));
            if index >= self.blocks.len() {
                self.blocks.resize_with(index + 1, || None);
            }
            self.blocks[index]
                .get_or_insert_with(Block::new)
                .put(at, piece);
            offset += piece.len() as u64;
            data = rest;
        }
    }

    /// What is at `read` and behind it without a gap, up to the end of a block. Not all has to be
    /// in one piece; none means that nothing is there.
    pub(crate) fn run(&self, read: u64) -> &[u8] {
        let (index, at) = self.place(read);
        match self.blocks.get(index) {
            Some(Some(block)) => block.run(at),
            _ => &[],
        }
    }

    /// The stream was read up to `read`: drops the blocks before it.
    pub(crate) fn drop_before(&mut self, read: u64) {
        while self.first < read / BLOCK as u64 && self.blocks.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Block and place in it of an offset that is not below what was read.
    fn place(&self, offset: u64) -> (usize, usize) {
        let block = (offset / BLOCK as u64).saturating_sub(self.first);
        let index = usize::try_from(block).expect("within the window");
        (index, (offset % BLOCK as u64) as usize)
    }

    /// Bytes of memory beside this value.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        let blocks = self.blocks.iter().flatten().count();
        self.blocks.capacity() * size_of::<Option<Box<Block>>>() + blocks * size_of::<Block>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn byte(at: usize) -> u8 {
        (at * 31 + at / 251) as u8
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn reads_what_arrived_without_a_gap(
            pieces in prop::collection::vec((0..9_000_usize, 0..3_000_usize, 0..4_000_usize), 1..40),
        ) {
            let mut kept = Reassembly::default();
            let mut arrived = vec![false; 12_000];
            let mut read = 0;
            for (start, len, take) in pieces {
                let data: Vec<u8> = (start..start + len).map(byte).collect();
                kept.insert(read as u64, start as u64, &data);
                arrived[start..start + len].fill(true);
                let mut take = take;
                while take > 0 {
                    let run = kept.run(read as u64);
                    prop_assert_eq!(run.is_empty(), !arrived[read]);
                    prop_assert!(run.iter().enumerate().all(|(i, &b)| b == byte(read + i)));
                    prop_assert!(arrived[read..read + run.len()].iter().all(|&there| there));
                    if run.is_empty() {
                        break;
                    }
                    let taken = run.len().min(take);
                    take -= taken;
                    read += taken;
                    kept.drop_before(read as u64);
                }
                prop_assert!(kept.blocks.iter().flatten().count() <= 12_000 / BLOCK + 1);
            }
        }
    }

    #[test]
    fn single_bytes_cost_no_more_than_the_stretch_they_lie_in() {
        let mut kept = Reassembly::default();
        let window = 64 * 1_024;
        for at in (1..window).step_by(2) {
            kept.insert(0, at, b"x");
        }
        assert!(kept.run(0).is_empty());
        assert!(kept.heap_bytes() < window as usize * 5 / 4);
        for at in (0..window).step_by(2) {
            kept.insert(0, at, b"y");
        }
        let mut read = 0;
        while read < window {
            assert_eq!(kept.run(read).len(), BLOCK);
            read += BLOCK as u64;
            kept.drop_before(read);
        }
        assert!(kept.run(read).is_empty());
        assert!(kept.blocks.is_empty());
    }
}
