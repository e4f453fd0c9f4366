//! `$1$` of crypt(3) and Apache's `$apr1$`: a thousand rounds of MD5.

use md5::{Digest, Md5};

/// Digits of crypt(3).
pub(super) const DIGITS: &[u8; 64] =
    b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const MAX_SALT_BYTES: usize = 8;
const ROUNDS: usize = 1000;

/// Hashes a password with the salt of a stored one. The result is complete, with salt and prefix.
/// `magic` is `$1$` or `$apr1$`, with which `stored` begins.
pub(super) fn crypt(password: &[u8], magic: &[u8], stored: &[u8]) -> Vec<u8> {
    let salt = stored.get(magic.len()..).unwrap_or_default();
    let end = salt.iter().take(MAX_SALT_BYTES);
    let end = end.take_while(|byte| **byte != b'$').count();
    let salt = &salt[..end];
    let digest = digest(password, magic, salt);
    let mut out = [magic, salt, b"$"].concat();
    for [high, middle, low] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        let byte = |at: usize| u32::from(digest[at]);
        let bits = byte(high) << 16 | byte(middle) << 8 | byte(low);
        push_digits(&mut out, bits, 4);
    }
    push_digits(&mut out, u32::from(digest[11]), 2);
    out
}

fn push_digits(out: &mut Vec<u8>, mut bits: u32, count: usize) {
    for _ in 0..count {
        out.push(DIGITS[(bits & 63) as usize]);
        bits >>= 6;
    }
}

fn digest(password: &[u8], magic: &[u8], salt: &[u8]) -> [u8; 16] {
    let mut inner = Md5::new();
    for part in [password, salt, password] {
        inner.update(part);
    }
    let inner: [u8; 16] = inner.finalize().into();
    let mut outer = Md5::new();
    for part in [password, magic, salt] {
        outer.update(part);
    }
    for block in password.chunks(inner.len()) {
        outer.update(&inner[..block.len()]);
    }
    let mut bits = password.len();
    while bits > 0 {
        match bits & 1 {
            1 => outer.update([0]),
            _ => outer.update(&password[..1]),
        }
        bits >>= 1;
    }
    let mut digest: [u8; 16] = outer.finalize().into();
    for round in 0..ROUNDS {
        let odd = round % 2 == 1;
        let mut next = Md5::new();
        next.update(if odd { password } else { &digest });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if odd { &digest } else { password });
        digest = next.finalize().into();
    }
    digest
}
