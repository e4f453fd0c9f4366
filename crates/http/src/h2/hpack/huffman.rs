//! The Huffman code of strings (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: of two codes the longer is the larger, and codes of one length ascend
//! with their symbols. So the lengths determine everything, and all tables are computed from them
//! at compile time.

use super::HpackError;

/// Bits of each byte's code.
const CODE_BITS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
];

/// The end-of-string symbol, which must not be sent: thirty ones, the last of all codes.
const EOS: u16 = 256;
const EOS_BITS: u8 = 30;
const MAX_CODE_BITS: usize = 30;

/// The shortest code in bits: a string of n bytes decodes to at most 8n/5.
const MIN_CODE_BITS: usize = 5;

/// How many bits one step of the decoder examines. Twelve hold most pairs of letters and digits.
const STEP_BITS: u32 = 12;

/// Size of `input` as a Huffman string, in bytes.
#[inline]
pub(crate) fn encoded_bytes(input: &[u8]) -> usize {
    let bits: usize = input
        .iter()
        .map(|&byte| usize::from(CODE_BITS[usize::from(byte)]))
        .sum();
    bits.div_ceil(8)
}

/// Appends `input` as a Huffman string of `bytes` bytes, which [`encoded_bytes`] computed.
pub(crate) fn encode(input: &[u8], bytes: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bytes, 0);
    let mut at = start;
    // At most 31 bits are pending when a code of at most 30 is added.
    let (mut bits, mut count) = (0u64, 0u32);
    for &byte in input {
        let symbol = usize::from(byte);
        let length = u32::from(CODE_BITS[symbol]);
        bits = bits << length | u64::from(CODES[symbol]);
        count += length;
        if count >= 32 {
            count -= 32;
            out[at..at + 4].copy_from_slice(&((bits >> count) as u32).to_be_bytes());
            at += 4;
        }
    }
    // The last byte is padded with the beginning of EOS, which is all ones.
    let padding = count.wrapping_neg() % 8;
    bits = bits << padding | ((1 << padding) - 1);
    count += padding;
    while count > 0 {
        count -= 8;
        out[at] = (bits >> count) as u8;
        at += 1;
    }
}

/// Appends the decoded Huffman string `input` to `out`.
///
/// # Errors
/// [`HpackError::HuffmanEos`] and [`HpackError::HuffmanPadding`]; `out` then ends with bytes of no
/// meaning.
pub(crate) fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    let start = out.len();
    // One more than the bound: a step writes two bytes where it may mean one.
    out.resize(start + input.len() * 8 / MIN_CODE_BITS + 1, 0);
    let decoded = decode_into(input, &mut out[start..])?;
    out.truncate(start + decoded);
    Ok(())
}

/// The bits that are not decoded yet, left-aligned.
struct Bits<'a> {
    rest: &'a [u8],
    bits: u64,
    count: u32,
}

impl Bits<'_> {
    /// Takes bytes until there are more than 56 bits, or no more bytes. Bits of the next byte may
    /// already follow the valid ones; they stay the same when that byte is taken.
    #[inline]
    fn fill(&mut self) {
        if let Some(word) = self.rest.first_chunk::<8>() {
            self.bits |= u64::from_be_bytes(*word) >> self.count;
            let taken = (63 - self.count) / 8;
            self.rest = &self.rest[taken as usize..];
            self.count += taken * 8;
            return;
        }
        while self.count <= 56 {
            let Some((&byte, rest)) = self.rest.split_first() else {
                return;
            };
            self.rest = rest;
            self.bits |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
    }

    #[inline]
    fn take(&mut self, count: u32) {
        self.bits <<= count;
        self.count -= count;
    }
}

fn decode_into(input: &[u8], out: &mut [u8]) -> Result<usize, HpackError> {
    let mut input = Bits {
        rest: input,
        bits: 0,
        count: 0,
    };
    let mut at = 0;
    loop {
        input.fill();
        if input.count < STEP_BITS {
            return decode_tail(input, out, at);
        }
        while input.count >= STEP_BITS {
            let step = STEPS[(input.bits >> (64 - STEP_BITS)) as usize];
            if step.count == 0 {
                // A code longer than a step may need more bits than are available.
                if input.count < MAX_CODE_BITS as u32 {
                    if input.rest.is_empty() {
                        return decode_tail(input, out, at);
                    }
                    break;
                }
                let (symbol, length) = long_code(input.bits);
                out[at] = u8::try_from(symbol).map_err(|_| HpackError::HuffmanEos)?;
                at += 1;
                input.take(length);
                continue;
            }
            out[at..at + 2].copy_from_slice(&step.symbols);
            at += usize::from(step.count);
            input.take(u32::from(step.bits));
        }
    }
}

/// Decodes the last bits one symbol at a time; the rest must be padding.
fn decode_tail(mut input: Bits<'_>, out: &mut [u8], mut at: usize) -> Result<usize, HpackError> {
    loop {
        // Ones are appended: if only padding is left, they complete the code of EOS, which is
        // longer than what is left.
        let ones = u64::MAX.checked_shr(input.count).unwrap_or(0);
        let (symbol, length) = any_code(input.bits | ones);
        if length > input.count {
            let is_padding = input.count < 8 && input.bits | ones == u64::MAX;
            return is_padding.then_some(at).ok_or(HpackError::HuffmanPadding);
        }
        out[at] = u8::try_from(symbol).map_err(|_| HpackError::HuffmanEos)?;
        at += 1;
        input.take(length);
    }
}

/// The symbol at the front of `bits` and its code's length.
#[inline]
fn any_code(bits: u64) -> (u16, u32) {
    let step = STEPS[(bits >> (64 - STEP_BITS)) as usize];
    if step.count == 0 {
        return long_code(bits);
    }
    let [first, _] = step.symbols;
    (u16::from(first), u32::from(CODE_BITS[usize::from(first)]))
}

/// Like [`any_code`] for a code longer than a step: finds the first length whose codes exceed
/// `bits`.
fn long_code(bits: u64) -> (u16, u32) {
    let front = bits >> 32;
    let mut length = STEP_BITS as usize + 1;
    while length < MAX_CODE_BITS && front >= LENGTHS[length].end {
        length += 1;
    }
    let of_length = &LENGTHS[length];
    let code = (front >> (32 - length)) as usize;
    let rank = (code + of_length.first_rank).wrapping_sub(of_length.first_code);
    // Every 30 bits are the code of some symbol, so the rank exists.
    let symbol = SYMBOLS.get(rank).copied().unwrap_or(EOS);
    (symbol, length as u32)
}

/// The meaning of the next bits: one symbol, or two.
#[derive(Clone, Copy)]
struct DecodeStep {
    symbols: [u8; 2],
    /// How many of `symbols` are valid: 0 if the first code is longer than a step.
    count: u8,
    /// Total bits of their codes.
    bits: u8,
}

/// The codes of one length.
#[derive(Clone, Copy)]
struct Length {
    first_code: usize,
    /// How many codes are shorter.
    first_rank: usize,
    /// The end of these codes, as 32 bits from the left.
    end: u64,
}

const fn bits_of(symbol: usize) -> u8 {
    if symbol == EOS as usize {
        EOS_BITS
    } else {
        CODE_BITS[symbol]
    }
}

/// All symbols in the order of their codes.
static SYMBOLS: [u16; 257] = SORTED_SYMBOLS;
const SORTED_SYMBOLS: [u16; 257] = {
    let mut symbols = [0; 257];
    let (mut rank, mut length) = (0, 0);
    while length <= MAX_CODE_BITS {
        let mut symbol = 0;
        while symbol < 257 {
            if bits_of(symbol) as usize == length {
                symbols[rank] = symbol as u16;
                rank += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    assert!(rank == 257);
    symbols
};

/// The codes of all bytes, in the lowest bits.
static CODES: [u32; 256] = ALL_CODES;
const ALL_CODES: [u32; 256] = {
    let mut codes = [0; 256];
    let (mut rank, mut code, mut length) = (0, 0u32, 0);
    while rank < 257 {
        let symbol = SORTED_SYMBOLS[rank] as usize;
        code <<= bits_of(symbol) - length;
        length = bits_of(symbol);
        if symbol < 256 {
            codes[symbol] = code;
        } else {
            assert!(code == (1 << EOS_BITS) - 1, "EOS is thirty ones");
        }
        code += 1;
        rank += 1;
    }
    codes
};

static LENGTHS: [Length; MAX_CODE_BITS + 1] = {
    let none = Length {
        first_code: 0,
        first_rank: 0,
        end: 0,
    };
    let mut lengths = [none; MAX_CODE_BITS + 1];
    let (mut code, mut rank, mut length) = (0usize, 0, 1);
    while length <= MAX_CODE_BITS {
        code <<= 1;
        lengths[length].first_code = code;
        lengths[length].first_rank = rank;
        while rank < 257 && bits_of(SORTED_SYMBOLS[rank] as usize) as usize == length {
            code += 1;
            rank += 1;
        }
        lengths[length].end = (code as u64) << (32 - length);
        length += 1;
    }
    lengths
};

static STEPS: [DecodeStep; 1 << STEP_BITS] = {
    let none = DecodeStep {
        symbols: [0; 2],
        count: 0,
        bits: 0,
    };
    let mut steps = [none; 1 << STEP_BITS];
    // Every byte with a short code: alone before any bits, then before every other code that still
    // fits.
    let mut first = 0;
    while first < 256 {
        let first_bits = CODE_BITS[first] as u32;
        if first_bits <= STEP_BITS {
            let code = (ALL_CODES[first] as usize) << (STEP_BITS - first_bits);
            let alone = DecodeStep {
                symbols: [first as u8, 0],
                count: 1,
                bits: first_bits as u8,
            };
            fill(&mut steps, code, STEP_BITS - first_bits, alone);
            let mut second = 0;
            while second < 256 {
                let bits = first_bits + CODE_BITS[second] as u32;
                if bits <= STEP_BITS {
                    let code = code | (ALL_CODES[second] as usize) << (STEP_BITS - bits);
                    let pair = DecodeStep {
                        symbols: [first as u8, second as u8],
                        count: 2,
                        bits: bits as u8,
                    };
                    fill(&mut steps, code, STEP_BITS - bits, pair);
                }
                second += 1;
            }
        }
        first += 1;
    }
    steps
};

/// Fills in every step that begins with `code`; its last `free_bits` are free.
const fn fill(
    steps: &mut [DecodeStep; 1 << STEP_BITS],
    code: usize,
    free_bits: u32,
    step: DecodeStep,
) {
    let mut free = 0;
    while free < 1 << free_bits {
        steps[code | free] = step;
        free += 1;
    }
}
