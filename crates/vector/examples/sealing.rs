//! Sealing TLS records with ChaCha20-Poly1305, with this crate and AWS-LC in alternation:
//!
//! ```sh
//! cargo run --release -p sealane-vector --example sealing
//! ```
//!
//! Prints the median of the rounds and their range, in bytes of plaintext per time, and the ratio
//! of times, with AES-256-GCM for comparison.

use std::hint::black_box;
use std::time::{Duration, Instant};

use sealane_awslc::{Aead, RecordCipher};
use sealane_vector::{ChaCha20Poly1305, TAG_BYTES};

const ROUNDS: usize = 9;
const TIMED: Duration = Duration::from_millis(60);

/// `opaque_type`, `legacy_record_version` and `length` of a record (RFC 8446 section 5.2).
const HEADER: [u8; 5] = [23, 3, 3, 0x40, 0x11];

/// The type behind the content of a TLS 1.3 record.
const APPLICATION_DATA: u8 = 23;

fn main() {
    let key = [0x42; 32];
    let Some(ours) = ChaCha20Poly1305::new(&key) else {
        return println!("this processor has no AVX-512 IFMA");
    };
    let library = |cipher| Aead::for_records(cipher, &key).expect("the key has 32 bytes");
    let chacha20 = library(RecordCipher::ChaCha20Poly1305);
    let aes = library(RecordCipher::Aes256Gcm);
    let mut output = Vec::with_capacity(1 << 15);
    let mut target = vec![0; 1 << 15];

    println!("GB/s of records, median (lowest..highest) of {ROUNDS} rounds");
    println!(
        "{:>6}  {:<26}{:<26}{:<26}ratio of times",
        "bytes", "AVX-512", "AWS-LC", "AWS-LC, AES-256-GCM"
    );
    for plain_bytes in [64, 256, 512, 1024, 1369, 4096, 16_384] {
        // The library wants content and type in one piece; here they are two.
        let text = [vec![0x17; plain_bytes], vec![APPLICATION_DATA]].concat();
        let (plain, tail) = text.split_at(plain_bytes);
        let mut with_library = |aead: &Aead, nonce: &[u8; 12]| {
            let sealed = aead.seal(nonce, &HEADER, black_box(&text), &mut target);
            assert_eq!(sealed, Some(text.len() + TAG_BYTES));
        };
        let mut rates = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            rates[0].push(rate(plain_bytes, |nonce| {
                output.clear();
                let sealed = ours.seal(nonce, &HEADER, black_box(plain), tail, &mut output);
                assert_eq!(sealed, Some(text.len() + TAG_BYTES));
            }));
            rates[1].push(rate(plain_bytes, |nonce| with_library(&chacha20, nonce)));
            rates[2].push(rate(plain_bytes, |nonce| with_library(&aes, nonce)));
        }
        let mut line = format!("{plain_bytes:>6}  ");
        for rates in &mut rates {
            rates.sort_by(f64::total_cmp);
            let [lowest, median, highest] = [0, ROUNDS / 2, ROUNDS - 1].map(|i| rates[i]);
            let cell = format!("{median:.2} ({lowest:.2}..{highest:.2})");
            line += &format!("{cell:<26}");
        }
        println!("{line}{:.2}", rates[1][ROUNDS / 2] / rates[0][ROUNDS / 2]);
    }
}

/// Bytes per nanosecond.
fn rate(bytes: usize, mut seal: impl FnMut(&[u8; 12])) -> f64 {
    let mut sequence = 0_u64;
    let start = Instant::now();
    loop {
        for _ in 0..32 {
            let mut nonce = [0x24; 12];
            nonce[4..].copy_from_slice(&sequence.to_be_bytes());
            seal(&nonce);
            sequence += 1;
        }
        let elapsed = start.elapsed();
        if elapsed >= TIMED {
            return sequence as f64 * bytes as f64 / elapsed.as_nanos() as f64;
        }
    }
}
