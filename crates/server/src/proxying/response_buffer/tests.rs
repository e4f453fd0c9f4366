use super::*;
use crate::temp_file::tests::{TestDirectory, full_file};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

const LIMITS: Limits = Limits {
    memory_bytes: 36 << 10,
    busy_bytes: 8 << 10,
    temp_file_bytes: 1 << 30,
    write_bytes: 8 << 10,
};

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = sealane_io::runtime::Runtime::new();
    runtime
        .expect("a runtime without drivers can always be built")
        .block_on(future)
}

async fn finish_moving(held: &mut ResponseBuffer) -> Result<Moved, TempFileError> {
    std::future::poll_fn(|cx| held.poll_move(cx)).await
}

/// The bytes of a chain, which is sent.
fn send(chain: OutputChain) -> Vec<u8> {
    let mut sent = Vec::new();
    for segment in chain.segments() {
        match segment {
            Segment::Memory(bytes) => sent.extend_from_slice(bytes),
            Segment::File(range) => {
                let fd = range.file.as_fd().try_clone_to_owned().expect("it is open");
                let file = std::fs::File::from(fd);
                let mut part = vec![0; range.len as usize];
                file.read_exact_at(&mut part, range.offset)
                    .expect("it was written");
                sent.extend_from_slice(&part);
            }
        }
    }
    sent
}

/// A sequence that is the same in every run (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// Whatever is read, given, sent and written when, the client gets the bytes in the
/// order in which they came, and memory stays within its limit.
#[test]
fn any_interleaving_keeps_the_order_and_the_limit() {
    for seed in 0..200 {
        let directory = TestDirectory::new([1, 0, 0]);
        run(interleave(seed, &directory));
    }
}

async fn interleave(seed: u64, directory: &TestDirectory) {
    let mut random = Random(seed);
    let mut held = ResponseBuffer::new(LIMITS);
    let (mut next, mut received) = (0_u32, Vec::new());
    let mut on_the_way = Vec::new();
    let mut moves = 0;
    for _ in 0..400 {
        match random.below(10) {
            0..=3 if held.room() > 0 => {
                let max = [1, 700, 5000, 20_000][random.below(4) as usize];
                let count = (random.below(max) + 1).min(held.room());
                let piece = (next..).take(count as usize).map(|at| at as u8);
                next += count as u32;
                held.push(piece.collect::<Vec<u8>>().into(), count as usize);
            }
            4..=6 => {
                let mut chain = OutputChain::new();
                let given = held.give(&mut chain, random.below(30_000), false);
                assert_eq!(chain.len(), given);
                on_the_way.push(chain);
            }
            7 if !on_the_way.is_empty() => received.extend(send(on_the_way.remove(0))),
            8 if held.can_move() => {
                held.begin_to_move(&directory.0);
                moves += 1;
            }
            9 => {
                finish_moving(&mut held).await.expect("there is room");
            }
            _ => {}
        }
        assert!(held.busy_bytes() <= 16 << 10);
        let on_the_way: u64 = on_the_way
            .iter()
            .map(|chain| chain.len() - chain.file_bytes())
            .sum();
        assert_eq!(held.busy_bytes(), on_the_way);
    }
    for chain in on_the_way {
        received.extend(send(chain));
    }
    while !held.is_empty() {
        let mut chain = OutputChain::new();
        assert!(held.give(&mut chain, 50_000, true) > 0);
        received.extend(send(chain));
    }
    assert!(moves > 5, "seed {seed}: too tame");
    assert_eq!(received.len(), next as usize, "seed {seed}");
    assert!(
        received
            .iter()
            .zip(0_u32..)
            .all(|(byte, at)| *byte == at as u8),
        "seed {seed}"
    );
}

#[test]
fn small_pieces_share_memory() {
    let mut held = ResponseBuffer::new(LIMITS);
    for byte in 0..4096_u32 {
        let piece = Bytes::from(vec![byte as u8]);
        held.push(piece, 4096);
    }
    held.end_gathering();
    assert_eq!(held.fresh.segments().count(), 1);
}

#[test]
fn a_piece_that_fills_its_buffer_is_not_copied() {
    let mut held = ResponseBuffer::new(LIMITS);
    let piece = Bytes::from(vec![7; 20_000]);
    let address = piece.as_ptr();
    held.push(piece, 32 << 10);
    let mut chain = OutputChain::new();
    held.give(&mut chain, u64::MAX, true);
    let Some(Segment::Memory(bytes)) = chain.front() else {
        panic!("memory");
    };
    assert_eq!(bytes.as_ptr(), address);
}

#[test]
fn the_client_is_given_whole_records_while_more_is_to_come() {
    let mut held = ResponseBuffer::new(LIMITS);
    held.push(Bytes::from(vec![7; 36 << 10]), 36 << 10);
    assert_eq!(held.room(), 0);
    let mut chain = OutputChain::new();
    assert_eq!(held.give(&mut chain, u64::MAX, false), 16 << 10);
    assert_eq!(held.give(&mut chain, u64::MAX, false), 0);
    assert_eq!(held.room(), 0, "what is on its way counts");
    chain.advance(16 << 10);
    assert_eq!(held.room(), 16 << 10);
}

#[test]
fn without_a_file_the_client_is_given_all() {
    let mut held = ResponseBuffer::new(Limits {
        temp_file_bytes: 0,
        ..LIMITS
    });
    held.push(Bytes::from(vec![7; 36 << 10]), 36 << 10);
    assert!(!held.can_move());
    let mut chain = OutputChain::new();
    assert_eq!(held.give(&mut chain, u64::MAX, false), 36 << 10);
}

#[test]
fn what_is_being_written_can_be_given() {
    let directory = TestDirectory::new([0, 0, 0]);
    run(async {
        let mut held = ResponseBuffer::new(LIMITS);
        held.push(Bytes::from(vec![1; 30_000]), 30_000);
        held.begin_to_move(&directory.0);
        let mut chain = OutputChain::new();
        assert_eq!(held.give(&mut chain, 10_000, false), 10_000);
        assert_eq!(chain.file_bytes(), 0);
        let moved = finish_moving(&mut held).await.expect("there is room");
        assert_eq!(moved, Moved::ToFile);
        assert_eq!(held.give(&mut chain, 50_000, false), 20_000);
        assert_eq!(chain.file_bytes(), 20_000);
        assert_eq!(send(chain), vec![1; 30_000]);
    });
}

#[test]
fn the_file_has_a_limit() {
    let directory = TestDirectory::new([0, 0, 0]);
    run(async {
        let mut held = ResponseBuffer::new(Limits {
            temp_file_bytes: 40_000,
            ..LIMITS
        });
        for _ in 0..2 {
            held.push(Bytes::from(vec![1; 30_000]), 30_000);
            held.begin_to_move(&directory.0);
            finish_moving(&mut held).await.expect("there is room");
        }
        held.push(Bytes::from(vec![1; 30_000]), 30_000);
        assert!(!held.can_move(), "60,000 bytes are in it");
        let mut chain = OutputChain::new();
        held.give(&mut chain, 60_000, false);
        assert!(!held.can_move(), "it does not shrink");
    });
}

#[test]
fn a_full_disk_is_an_error() {
    run(async {
        let mut held = ResponseBuffer::new(LIMITS);
        held.file = Some(full_file());
        held.filed = 0..1;
        held.push(Bytes::from(vec![1; 30_000]), 30_000);
        held.begin_to_move(&TestDirectory::new([0, 0, 0]).0);
        let error = finish_moving(&mut held)
            .await
            .expect_err("/dev/full is full");
        let text = error.to_string();
        assert!(text.contains("No space left on device"), "{text}");
    });
}

#[test]
fn a_file_that_is_done_with_is_not_written_over() {
    let directory = TestDirectory::new([0, 0, 0]);
    run(async {
        let mut held = ResponseBuffer::new(LIMITS);
        let mut chains = Vec::new();
        for fill in 0..3 {
            held.push(Bytes::from(vec![fill; 30_000]), 30_000);
            held.begin_to_move(&directory.0);
            finish_moving(&mut held).await.expect("there is room");
            let mut chain = OutputChain::new();
            held.give(&mut chain, 30_000, false);
            chains.push(chain);
        }
        for (fill, chain) in chains.into_iter().enumerate() {
            assert_eq!(send(chain), vec![fill as u8; 30_000]);
        }
    });
}
