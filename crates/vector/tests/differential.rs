//! Every text sealed here equals AWS-LC's result.

use sealane_awslc::{Aead, RecordCipher};
use sealane_vector::{ChaCha20Poly1305, KEY_BYTES, NONCE_BYTES, TAG_BYTES};

/// Random texts; [`LONG_CASES`] with `SEALANE_TEST_LONG=1`.
const CASES: usize = 100_000;
const LONG_CASES: usize = 1_000_000;

/// A little more than the longest TLS record.
const MOST_BYTES: usize = 17 << 10;

/// Numbers that are the same in every run (Vigna's SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    /// A number from 0 to `most`.
    fn up_to(&mut self, most: usize) -> usize {
        (self.next() % (most as u64 + 1)) as usize
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// One key in both libraries, and room for what they make.
struct Pair {
    numbers: Numbers,
    key: [u8; KEY_BYTES],
    ours: ChaCha20Poly1305,
    reference: Aead,
    /// Random bytes to take plaintext and associated data from.
    bytes: Vec<u8>,
    output: Vec<u8>,
    expected: Vec<u8>,
}

impl Pair {
    /// `None` if this processor cannot run the code.
    fn new(seed: u64) -> Option<Self> {
        let mut numbers = Numbers(seed);
        let key = [0; KEY_BYTES];
        let Some(ours) = ChaCha20Poly1305::new(&key) else {
            sealane_needs::leave_out("this processor has no AVX-512 IFMA");
            return None;
        };
        let mut bytes = vec![0; 2 * MOST_BYTES];
        numbers.fill(&mut bytes);
        let mut pair = Self {
            numbers,
            key,
            ours,
            reference: reference(&key),
            bytes,
            output: Vec::new(),
            expected: Vec::new(),
        };
        pair.change_key();
        Some(pair)
    }

    fn change_key(&mut self) {
        self.numbers.fill(&mut self.key);
        self.ours = ChaCha20Poly1305::new(&self.key).expect("it was there before");
        self.reference = reference(&self.key);
    }

    /// Seals random bytes with both libraries, ours at a random place in its buffer.
    fn compare(&mut self, plain_bytes: usize, tail_bytes: usize, associated_bytes: usize) {
        let text_bytes = plain_bytes + tail_bytes;
        let mut nonce = [0; NONCE_BYTES];
        self.numbers.fill(&mut nonce);
        let start = self.numbers.up_to(self.bytes.len() - text_bytes);
        let text = &self.bytes[start..start + text_bytes];
        let start = self.numbers.up_to(self.bytes.len() - associated_bytes);
        let associated = &self.bytes[start..start + associated_bytes];

        self.output.clear();
        self.output.resize(self.numbers.up_to(70), 0x5a);
        let before = self.output.len();
        let (plain, tail) = text.split_at(plain_bytes);
        let sealed_bytes = self
            .ours
            .seal(&nonce, associated, plain, tail, &mut self.output);

        self.expected.clear();
        self.expected.resize(text_bytes + TAG_BYTES, 0);
        let expected_bytes = self
            .reference
            .seal(&nonce, associated, text, &mut self.expected);
        let case = format!(
            "{plain_bytes} and {tail_bytes} bytes with {associated_bytes} associated, key {:02x?}, nonce {nonce:02x?}",
            self.key
        );
        assert_eq!(sealed_bytes, expected_bytes, "{case}");
        assert!(
            self.output[..before].iter().all(|byte| *byte == 0x5a),
            "what was there before has changed: {case}"
        );
        assert!(self.output[before..] == self.expected, "{case}");
    }
}

fn reference(key: &[u8; KEY_BYTES]) -> Aead {
    Aead::for_records(RecordCipher::ChaCha20Poly1305, key).expect("the key has 32 bytes")
}

/// Every length around every boundary of blocks and groups, as TLS 1.2 and 1.3 use them.
#[test]
fn every_short_text() {
    let Some(mut pair) = Pair::new(1) else { return };
    for plain_bytes in 0..=4 * 1100 {
        let tail_bytes = pair.numbers.up_to(40);
        let associated_bytes = pair.numbers.up_to(40);
        pair.compare(plain_bytes, 0, 13);
        pair.compare(plain_bytes, 1, 5);
        pair.compare(plain_bytes, tail_bytes, associated_bytes);
        pair.change_key();
    }
}

/// Records as large as they may be, their tails being padding.
#[test]
fn whole_records() {
    let Some(mut pair) = Pair::new(2) else { return };
    for tail_bytes in 0..=1024 {
        pair.compare(16_384, tail_bytes, 5);
        pair.compare(16_384 - tail_bytes, tail_bytes + 1, 5);
    }
}

#[test]
fn random_texts() {
    let Some(mut pair) = Pair::new(3) else { return };
    let is_long = std::env::var_os("SEALANE_TEST_LONG").is_some_and(|value| value == "1");
    for case in 0..if is_long { LONG_CASES } else { CASES } {
        // Most of them short, where the boundaries lie closer together.
        let most_bytes = match case % 8 {
            0 => MOST_BYTES,
            1 => 4096,
            _ => 1200,
        };
        let text_bytes = pair.numbers.up_to(most_bytes);
        let tail_bytes = match case % 3 {
            0 => 1.min(text_bytes),
            1 => 0,
            _ => pair.numbers.up_to(text_bytes),
        };
        let associated_bytes = pair.numbers.up_to(if case % 16 == 0 { 2000 } else { 40 });
        pair.compare(text_bytes - tail_bytes, tail_bytes, associated_bytes);
        if case % 64 == 0 {
            pair.change_key();
        }
    }
}

/// What was sealed here is opened there, and nothing else is.
#[test]
fn a_changed_byte_is_noticed() {
    let Some(mut pair) = Pair::new(4) else { return };
    let nonce = [7; NONCE_BYTES];
    let mut sealed = Vec::new();
    let text = pair.bytes[..3000].to_vec();
    pair.ours
        .seal(&nonce, b"header", &text, &[], &mut sealed)
        .expect("it is short enough");
    let mut opened = vec![0; sealed.len()];
    for place in 0..sealed.len() {
        let bit = 1 << pair.numbers.up_to(7);
        sealed[place] ^= bit;
        let changed = pair.reference.open(&nonce, b"header", &sealed, &mut opened);
        assert_eq!(changed, None, "byte {place}");
        sealed[place] ^= bit;
    }
    let length = pair.reference.open(&nonce, b"header", &sealed, &mut opened);
    assert_eq!(length, Some(text.len()));
    assert_eq!(opened[..text.len()], text);
}
