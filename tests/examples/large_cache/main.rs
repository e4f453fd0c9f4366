//! A cache of many responses, read at the start by nginx and by Sealane: how long that takes, what
//! a key takes in memory, and how long hits take meanwhile and afterwards:
//! `cargo run -p sealane-tests --example large_cache -- [KEYS]` (default: a million, which need
//! 4 GiB of disk below `TMPDIR`).
//!
//! What is printed are figures, not a verdict. Every body is checked.

use sealane_cache::{CacheHeader, CacheKey, NO_TIME, StoredLength, file_path};
use sealane_tests::{Server, Site, wire};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LEVELS: [u8; 3] = [1, 2, 0];
/// How often the log is looked at.
const STEP: Duration = Duration::from_millis(100);
/// No server needs as long.
const LONGEST: Duration = Duration::from_secs(1200);
/// How long hits are measured once everything is read.
const AFTERWARDS: Duration = Duration::from_secs(10);

fn body(number: usize) -> String {
    format!("response {number:x} {}", "x".repeat(200))
}

/// Writes the files of so many responses, as either server would.
fn write_files(site: &Site, keys: usize) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now.expect("after 1970").as_secs() as i64;
    let directory = site.path("files");
    let mut made = std::collections::HashSet::new();
    for number in 0..keys {
        let key = CacheKey::new(format!("/{number:x}").into_bytes());
        let body = body(number);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let start = CacheHeader::start_for(&key);
        let header = CacheHeader {
            valid_s: now_s + 86400,
            last_modified_s: NO_TIME,
            date_s: now_s,
            header_start: start as u16,
            body_start: (start + head.len()) as u16,
            length: StoredLength::of(body.len() as u64),
            ..CacheHeader::default()
        };
        let path = file_path(&directory, LEVELS, &key.hash());
        let parent = path.parent().expect("it has levels").to_owned();
        if !made.contains(&parent) {
            fs::create_dir_all(&parent).expect("the disk has room");
            made.insert(parent);
        }
        let mut bytes = header.encode(&key, head.as_bytes());
        bytes.extend_from_slice(body.as_bytes());
        fs::write(path, bytes).expect("the disk has room");
    }
}

/// Asks for keys in a pseudo-random order until told to stop; the times are in microseconds.
fn ask(port: u16, keys: usize, seed: u64, stop: &AtomicBool) -> Vec<u32> {
    let mut connection = wire::Connection::open(port);
    let mut state = seed;
    let mut times = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        let number = (state >> 33) as usize % keys;
        let begun = Instant::now();
        connection.send(format!("GET /{number:x} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let response = connection.response(false);
        times.push(begun.elapsed().as_micros() as u32);
        assert_eq!(response.header("X-Cache"), Some("HIT"), "/{number:x}");
        assert!(response.text() == body(number), "/{number:x}");
    }
    times
}

/// Hits by two clients while `work` is done.
fn measured<T>(port: u16, keys: usize, work: impl FnOnce() -> T) -> (T, String) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients = [1, 2].map(|seed| {
            let stop = &stop;
            scope.spawn(move || ask(port, keys, seed, stop))
        });
        let done = work();
        stop.store(true, Ordering::Relaxed);
        let answers = clients.map(|client| client.join().expect("every answer is right"));
        let mut times = answers.concat();
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let text = format!(
            "{} hits, p50 {} us, p99 {} us, p99.9 {} us, longest {} us",
            times.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        );
        (done, text)
    })
}

/// Memory of all processes of a server in KiB. What they share has nobody's name on it, so it is
/// that of the whole machine: only the difference counts.
fn memory_kib(server: &Server<'_>) -> u64 {
    let mut pids = vec![server.pid()];
    let mut at = 0;
    while let Some(pid) = pids.get(at) {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        pids.extend(
            children
                .split_whitespace()
                .filter_map(|pid| pid.parse::<u32>().ok()),
        );
        at += 1;
    }
    let of = |pid: &u32| kib_of(&format!("/proc/{pid}/smaps_rollup"), "Pss_Anon:");
    pids.iter().map(of).sum::<u64>() + kib_of("/proc/meminfo", "Shmem:")
}

fn kib_of(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    number.unwrap_or(0)
}

/// One of the two servers.
struct Peer<'a> {
    name: &'static str,
    start: &'a dyn Fn(&'a Site, &str) -> Server<'a>,
}

impl<'a> Peer<'a> {
    /// Starts it with the responses of a directory.
    fn start(&self, site: &'a Site, directory: &str) -> Server<'a> {
        // nginx appends to the log of the one before.
        let _ = fs::remove_file(site.path("logs/error.log"));
        (self.start)(site, &configuration(directory))
    }

    fn measure(&self, site: &'a Site, keys: usize, is_asked: bool) {
        let empty = self.start(site, "empty");
        thread::sleep(Duration::from_secs(1));
        let before = memory_kib(&empty);
        empty.stop("TERM");
        let server = self.start(site, "files");
        let begun = Instant::now();
        let load = || {
            while !server.error_log().contains("http file cache: ") {
                assert!(begun.elapsed() < LONGEST, "{}", server.error_log());
                thread::sleep(STEP);
            }
            begun.elapsed().as_secs_f64()
        };
        let (name, port) = (self.name, server.port("plain"));
        if is_asked {
            let (time, hits) = measured(port, keys, load);
            println!("{name:8} asked: read after {time:.1} s; {hits}");
            let ((), hits) = measured(port, keys, || thread::sleep(AFTERWARDS));
            println!("{name:8} read:  {hits}");
        } else {
            let time = load();
            let grown = memory_kib(&server).saturating_sub(before) * 1024;
            let grown = grown as f64 / keys as f64;
            println!(
                "{name:8} alone: read after {time:.1} s, {grown:.0} bytes of memory for a key"
            );
        }
        server.stop("TERM");
    }
}

/// As fast as the disk allows, with a pause of a millisecond after 200 ms.
fn configuration(directory: &str) -> String {
    format!(
        "proxy_cache_path {directory} levels=1:2 keys_zone=one:256m inactive=1d
             loader_files=1000000 loader_sleep=1ms;
         server {{ listen 127.0.0.1:%plain%; proxy_cache one; proxy_cache_key $uri;
             add_header X-Cache $upstream_cache_status;
             keepalive_requests 100000000;
             location / {{ proxy_pass http://127.0.0.1:1; }} }}"
    )
}

fn main() {
    let keys = match std::env::args().nth(1).map(|word| word.parse()) {
        None => 1_000_000,
        Some(Ok(keys)) => keys,
        Some(Err(error)) => panic!("KEYS is a number: {error}"),
    };
    let site = Site::new();
    let begun = Instant::now();
    write_files(&site, keys);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{keys} files written in {seconds:.0} s; nginx begins to read after a minute");
    let peers = [
        Peer {
            name: "nginx",
            start: &|site, text| site.serve_by_nginx(text),
        },
        Peer {
            name: "sealane",
            start: &|site, text| site.serve(text),
        },
    ];
    for is_asked in [false, true] {
        for peer in &peers {
            peer.measure(&site, keys, is_asked);
        }
    }
}
