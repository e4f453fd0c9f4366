//! AEAD_CHACHA20_POLY1305 (RFC 8439 section 2.8), sealing only.

use std::fmt;
use std::mem::MaybeUninit;

use crate::chacha20::{BLOCK_BYTES, ChaCha20, FourBlocks, GROUP_BLOCKS, GROUP_BYTES};
use crate::poly1305::{Poly1305, Wide};
use crate::{KEY_BYTES, MAX_PLAIN_BYTES, NONCE_BYTES, TAG_BYTES, unsupported};

/// A sealing key, on a processor that supports it.
pub struct ChaCha20Poly1305 {
    cipher: ChaCha20,
}

impl ChaCha20Poly1305 {
    /// Takes a key; `None` if the processor lacks AVX-512 (F) or its IFMA
    /// instructions.
    pub fn new(key: &[u8; KEY_BYTES]) -> Option<Self> {
        unsupported().is_none().then(|| Self {
            cipher: ChaCha20::new(key),
        })
    }

    /// Appends ciphertext and tag to `output`; returns their size in bytes. The plaintext is
    /// `plain` followed by `tail`, so that what TLS 1.3 appends to the content (RFC 8446 section
    /// 5.2: type and padding) needs no copy of the content.
    ///
    /// A nonce must not be used twice under one key. Returns `None`, and appends nothing, if the
    /// plaintext is longer than [`MAX_PLAIN_BYTES`].
    pub fn seal(
        &self,
        nonce: &[u8; NONCE_BYTES],
        associated: &[u8],
        plain: &[u8],
        tail: &[u8],
        output: &mut Vec<u8>,
    ) -> Option<usize> {
        let text_bytes = plain.len().checked_add(tail.len())?;
        if text_bytes as u64 > MAX_PLAIN_BYTES {
            return None;
        }
        let sealed_bytes = text_bytes.checked_add(TAG_BYTES)?;
        output.reserve(sealed_bytes);
        let sealed = &mut output.spare_capacity_mut()[..sealed_bytes];
        // SAFETY: `new` has found the features that the function is compiled for, and
        // there is no other way to a value of this type.
        unsafe { self.seal_into(nonce, associated, [plain, tail], sealed) };
        // SAFETY: `reserve` made room for them, and `seal_into` has written them all.
        unsafe { output.set_len(output.len() + sealed_bytes) };
        Some(sealed_bytes)
    }

    /// Writes every byte of `sealed`, which has exactly the size of ciphertext and tag.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn seal_into(
        &self,
        nonce: &[u8; NONCE_BYTES],
        associated: &[u8],
        [plain, tail]: [&[u8]; 2],
        sealed: &mut [MaybeUninit<u8>],
    ) {
        let text_bytes = sealed.len() - TAG_BYTES;
        let (text, tag) = sealed.split_at_mut(text_bytes);
        let last_bytes = last_bytes(plain.len(), tail.len());
        let mut sealing = Sealing::new(
            self.cipher.with_nonce(nonce),
            associated,
            text_bytes,
            last_bytes,
        );

        // Two groups at a time as long as `plain` has two.
        let (groups, _) = plain.as_chunks::<GROUP_BYTES>();
        let (pairs, _) = groups.as_chunks::<2>();
        let pairs_bytes = pairs.as_flattened().as_flattened().len();
        let (pairs_text, mut text) = text.split_at_mut(pairs_bytes);
        let (groups_text, _) = pairs_text.as_chunks_mut::<GROUP_BYTES>();
        for (plain, text) in pairs.iter().zip(groups_text.as_chunks_mut::<2>().0) {
            sealing.encrypt(plain, text, 2 * GROUP_BYTES);
        }

        // The rest, and the tail, through a buffer.
        let mut rest = [&plain[pairs_bytes..], tail];
        while text.len() > last_bytes {
            let groups_bytes = text.len() - last_bytes;
            text = if groups_bytes > GROUP_BYTES {
                sealing.encrypt_parts::<2>(&mut rest, groups_bytes.min(2 * GROUP_BYTES), text)
            } else {
                sealing.encrypt_parts::<1>(&mut rest, groups_bytes, text)
            };
        }

        // A few bytes with the key stream produced beside the one-time key.
        let mut last = [0; LAST_BYTES];
        let taken = take(&mut rest, &mut last);
        let last = &mut last[..taken];
        let computed = sealing.finish(last);
        write(text, last);
        write(tag, &computed);
    }
}

impl fmt::Debug for ChaCha20Poly1305 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChaCha20Poly1305(redacted)")
    }
}

/// The most bytes that the three blocks beside the one-time key's can encrypt.
const LAST_BYTES: usize = 3 * BLOCK_BYTES;

/// How many bytes at the end of the text those three blocks encrypt.
fn last_bytes(plain_bytes: usize, tail_bytes: usize) -> usize {
    let last = (plain_bytes % GROUP_BYTES + tail_bytes) % GROUP_BYTES;
    if last <= LAST_BYTES { last } else { 0 }
}

/// Moves bytes from the front of `rest` to the front of `buffer`, as many as fit.
fn take(rest: &mut [&[u8]; 2], buffer: &mut [u8]) -> usize {
    let mut taken = 0;
    for part in rest {
        let (now, later) = part.split_at(part.len().min(buffer.len() - taken));
        buffer[taken..taken + now.len()].copy_from_slice(now);
        taken += now.len();
        *part = later;
    }
    taken
}

/// Writes `bytes` to the front of `target`; returns the part after them.
fn write<'a>(target: &'a mut [MaybeUninit<u8>], bytes: &[u8]) -> &'a mut [MaybeUninit<u8>] {
    let (now, later) = target.split_at_mut(bytes.len());
    for (target, byte) in now.iter_mut().zip(bytes) {
        target.write(*byte);
    }
    later
}

/// A text being sealed.
///
/// Poly1305's key is block 0 of the key stream, which on its own would take as long as sixteen
/// blocks. So it is computed together with the first groups, and Poly1305 starts after them.
struct Sealing<'a> {
    cipher: ChaCha20,
    /// Number of the next block.
    counter: u32,
    associated: &'a [u8],
    text_bytes: usize,
    first: [FourBlocks; 1],
    mac: Option<Mac>,
}

impl<'a> Sealing<'a> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn new(cipher: ChaCha20, associated: &'a [u8], text_bytes: usize, last_bytes: usize) -> Self {
        // All blocks before the last bytes are whole; this is unused if there are no such bytes.
        let blocks = ((text_bytes - last_bytes) / BLOCK_BYTES) as u32;
        Self {
            first: [cipher.four_blocks(blocks.wrapping_add(1))],
            cipher,
            counter: 1,
            associated,
            text_bytes,
            mac: None,
        }
    }

    /// Encrypts the next groups, and authenticates and returns the first `used` bytes. These are
    /// whole groups, except for the last call.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn encrypt<'t, const GROUPS: usize>(
        &mut self,
        plain: &[[u8; GROUP_BYTES]; GROUPS],
        text: &'t mut [[MaybeUninit<u8>; GROUP_BYTES]; GROUPS],
        used: usize,
    ) -> &'t [u8] {
        let counter = self.counter;
        self.counter = counter.wrapping_add((GROUPS * GROUP_BLOCKS) as u32);
        let (mac, text) = match &mut self.mac {
            Some(mac) => {
                let text = self.cipher.encrypt(counter, plain, text, &mut []);
                (mac, text)
            }
            None => {
                let text = self.cipher.encrypt(counter, plain, text, &mut self.first);
                let mac = self.start_mac();
                (self.mac.insert(mac), text)
            }
        };
        let text = &text[..used];
        mac.absorb(text);
        text
    }

    /// The same for the first `used` bytes of `rest` followed by `text`; returns the unused part.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn encrypt_parts<'t, const GROUPS: usize>(
        &mut self,
        rest: &mut [&[u8]; 2],
        used: usize,
        text: &'t mut [MaybeUninit<u8>],
    ) -> &'t mut [MaybeUninit<u8>] {
        let mut plain = [[0; GROUP_BYTES]; GROUPS];
        take(rest, &mut plain.as_flattened_mut()[..used]);
        let mut sealed = [[MaybeUninit::uninit(); GROUP_BYTES]; GROUPS];
        write(text, self.encrypt(&plain, &mut sealed, used))
    }

    /// Encrypts the last bytes in place; returns the tag.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn finish(&mut self, last: &mut [u8]) -> [u8; TAG_BYTES] {
        let mac = match &mut self.mac {
            Some(mac) => mac,
            None => {
                self.first[0].rounds();
                let mac = self.start_mac();
                self.mac.insert(mac)
            }
        };
        let stream = self.first[0].stream();
        for (byte, stream) in last.iter_mut().zip(&stream[BLOCK_BYTES..]) {
            *byte ^= stream;
        }
        mac.absorb(last);
        mac.tag(self.associated.len(), self.text_bytes)
    }

    /// Keys Poly1305 (RFC 8439 section 2.6) after the rounds of the first blocks.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn start_mac(&self) -> Mac {
        let stream = self.first[0].stream();
        let (keys, _) = stream.as_chunks::<KEY_BYTES>();
        let mut poly = Poly1305::new(&keys[0]);
        poly.padded(self.associated);
        let wide = (self.text_bytes >= WIDE_BYTES).then(|| poly.widen());
        Mac { poly, wide }
    }
}

/// The size from which Poly1305 takes eight blocks at a time.
const WIDE_BYTES: usize = 512;

/// Poly1305 over associated data and ciphertext.
struct Mac {
    poly: Poly1305,
    wide: Option<Wide>,
}

impl Mac {
    /// Absorbs a piece of the ciphertext. Only the last non-empty piece may contain other than
    /// whole groups of blocks.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn absorb(&mut self, text: &[u8]) {
        let mut rest = text;
        if let Some(wide) = &mut self.wide {
            rest = wide.absorb(text);
            if !rest.is_empty() {
                self.poly.narrow(wide);
                self.wide = None;
            }
        }
        self.poly.padded(rest);
    }

    /// The tag (RFC 8439 section 2.8), after the lengths in bytes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn tag(&mut self, associated_bytes: usize, text_bytes: usize) -> [u8; TAG_BYTES] {
        if let Some(wide) = &self.wide {
            self.poly.narrow(wide);
        }
        self.poly
            .block(associated_bytes as u128 | (text_bytes as u128) << 64);
        self.poly.finish()
    }
}
