//! What the protection of QUIC packets costs: nanoseconds for each packet with each suite, and for
//! the mask of a header. ChaCha20-Poly1305 also in wide vectors, with the copy that those need:
//!
//! ```sh
//! cargo run --release -p sealane-tls --example packet_protection
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use sealane_tls::quic::{Keys, PacketKey, Suite, TrafficSecret, Version};
use sealane_vector::ChaCha20Poly1305;

const ROUNDS: usize = 9;
const TIMED: Duration = Duration::from_millis(30);
/// Payloads: of a packet on most paths, and of the largest record of TLS.
const SIZES: [usize; 2] = [1200, 16_384];

fn main() {
    println!("ns, median of {ROUNDS} rounds");
    for suite in [Suite::Aes128Gcm, Suite::Aes256Gcm, Suite::ChaCha20Poly1305] {
        let secret = TrafficSecret::new(suite, &vec![7; suite.secret_bytes()]);
        let keys = Keys::derive(Version::V1, &secret.expect("its length"));
        for bytes in SIZES {
            let mut packet = vec![0; bytes + PacketKey::TAG_BYTES];
            let seal = median(|number| keys.packet.seal(number, &[0x40; 13], &mut packet));
            let open = median(|number| {
                // It does not open, which takes as long.
                black_box(keys.packet.open(number, &[0x40; 13], &mut packet));
            });
            println!("{suite:?} {bytes}: seal {seal:.0}, open {open:.0}");
        }
        let mask = median(|number| {
            let sample = u128::from(number).to_be_bytes();
            black_box(keys.header.mask(&sample));
        });
        println!("{suite:?} mask: {mask:.0}");
    }
    let Some(vectors) = ChaCha20Poly1305::new(&[7; 32]) else {
        return;
    };
    for bytes in SIZES {
        let mut packet = vec![0; bytes];
        let mut sealed = Vec::new();
        let seal = median(|number| {
            let mut nonce = [0; 12];
            nonce[4..].copy_from_slice(&number.to_be_bytes());
            sealed.clear();
            vectors.seal(&nonce, &[0x40; 13], &packet, &[], &mut sealed);
            packet.copy_from_slice(&sealed[..bytes]);
        });
        println!("ChaCha20Poly1305 {bytes} in vectors: seal {seal:.0}");
    }
}

/// The median time of an operation, which gets numbers that do not repeat.
fn median(mut operation: impl FnMut(u64)) -> f64 {
    let mut number = 0;
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let (begun, first) = (Instant::now(), number);
            while begun.elapsed() < TIMED {
                for _ in 0..16 {
                    operation(number);
                    number += 1;
                }
            }
            begun.elapsed().as_nanos() as f64 / (number - first) as f64
        })
        .collect();
    rounds.sort_unstable_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}
