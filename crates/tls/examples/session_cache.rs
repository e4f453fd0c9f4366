//! Figures of the session cache: what an insertion and a look-up cost at 1, 2 and 4
//! threads with a million sessions in it, and its memory against its size.
//!
//! ```sh
//! cargo run --release -p sealane-tls --example session_cache
//! ```
//!
//! Contention shows as a time per operation that grows with the number of threads: with enough free
//! cores it would stay the same as with one thread.

use std::sync::Barrier;
use std::time::Instant;

use sealane_tls::SessionCache;

/// Sessions in the cache.
const SESSIONS: usize = 1_000_000;
/// A TLS 1.3 session with SHA-384, serialised; one of TLS 1.2 is about as long.
const SESSION_BYTES: usize = 180;
/// What the cache may take: room for a million such sessions and a few more.
const CACHE_BYTES: usize = 320 << 20;
const OPERATIONS: usize = 2_000_000;
const THREADS: [usize; 3] = [1, 2, 4];
const NOW_S: u64 = 1_000_000;
const EXPIRES_S: u64 = NOW_S + 300;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let before = resident_bytes()?;
    let cache = SessionCache::new(CACHE_BYTES);
    let session = [7; SESSION_BYTES];
    let started = Instant::now();
    for n in 0..SESSIONS {
        cache.keep(&id(n), &session, EXPIRES_S, NOW_S);
    }
    let fill_ns = started.elapsed().as_nanos() as f64 / SESSIONS as f64;
    let held = resident_bytes()? - before;
    println!("{} sessions of {SESSION_BYTES} bytes", cache.len());
    println!("filling                 {fill_ns:>8.0} ns per session");
    println!(
        "size {:.1} MB, counted {:.1} MB, resident {:.1} MB",
        CACHE_BYTES as f64 / 1e6,
        cache.bytes() as f64 / 1e6,
        held / 1e6
    );
    println!("\nns per operation and thread");
    println!("threads     look-up   insertion (into a full cache)");
    for threads in THREADS {
        let found = run(threads, |thread, n| {
            let mut target = Vec::with_capacity(SESSION_BYTES);
            let at = scattered(thread, n) % SESSIONS;
            cache.find(&id(at), &mut target, NOW_S).is_ok()
        });
        let insert = run(threads, |thread, n| {
            let fresh = SESSIONS * (2 + thread) + scattered(threads, n);
            cache.keep(&id(fresh), &session, EXPIRES_S, NOW_S);
            true
        });
        println!("{threads:<8}{found:>11.0}{insert:>12.0}");
        // Look-ups of the next round find what they look for.
        for n in 0..SESSIONS {
            cache.keep(&id(n), &session, EXPIRES_S, NOW_S);
        }
    }
    println!(
        "afterwards counted {:.1} MB, resident {:.1} MB; {:?}",
        cache.bytes() as f64 / 1e6,
        (resident_bytes()? - before) / 1e6,
        cache.counts()
    );
    Ok(())
}

/// Runs `work` on so many threads at once; nanoseconds per operation of one.
fn run(threads: usize, work: impl Fn(usize, usize) -> bool + Sync) -> f64 {
    let (barrier, work) = (Barrier::new(threads), &work);
    let barrier = &barrier;
    let total: f64 = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    barrier.wait();
                    let started = Instant::now();
                    let done = (0..OPERATIONS).filter(|n| work(thread, *n)).count();
                    assert!(done > 0, "some operations succeed");
                    started.elapsed().as_nanos() as f64 / OPERATIONS as f64
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, f64>| thread.join();
        running
            .into_iter()
            .map(|thread| join(thread).expect("no operation panics"))
            .sum()
    });
    total / threads as f64
}

/// Ids look random, as those of sessions do, but cost little to make.
fn id(n: usize) -> [u8; 32] {
    let mut id = [0; 32];
    let mut state = n as u64;
    for part in id.chunks_exact_mut(8) {
        state = mixed(state);
        part.copy_from_slice(&state.to_le_bytes());
    }
    id
}

fn scattered(thread: usize, n: usize) -> usize {
    (mixed((thread as u64) << 40 | n as u64) >> 24) as usize
}

/// SplitMix64.
fn mixed(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

fn resident_bytes() -> Outcome<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = statm
        .split(' ')
        .nth(1)
        .ok_or("statm has seven fields")?
        .parse()?;
    Ok(pages * 4096.0)
}
