//! Prints the cost of a pick: nanoseconds for each balancing method, by number of peers and worker
//! threads. With a method, a number of peers and a number of picks as arguments it makes only those
//! picks, for callgrind:
//!
//! ```text
//! cargo run --release -p sealane-server --example picks
//! valgrind --tool=callgrind --toggle-collect='*picks::run*' \
//!     target/release/examples/picks vnswrr 1000 10000
//! ```

use sealane_upstream::{
    Group, GroupSettings, KeepaliveSettings, Method, PeerAddress, PickRequest, ServerSettings,
    Tried,
};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

const METHODS: [(&str, Method); 8] = [
    ("round_robin", Method::RoundRobin),
    ("vnswrr", Method::Vnswrr { max_init: 0 }),
    ("least_conn", Method::LeastConn),
    ("ip_hash", Method::IpHash),
    ("hash", Method::Hash),
    ("consistent", Method::ConsistentHash),
    ("random", Method::Random),
    ("random_two", Method::RandomTwo),
];

const PEERS: [usize; 4] = [10, 100, 1_000, 10_000];

/// How long each figure is measured.
const TIME: Duration = Duration::from_millis(200);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => print_all(),
        [method, peers, picks] => {
            let found = METHODS.iter().find(|(name, _)| name == method);
            let (_, method) = found.expect("the name of a method");
            let peers = peers.parse().expect("a number of peers");
            let picks = picks.parse().expect("a number of picks");
            run(&group(*method, peers, true, 1), 0, picks, Instant::now());
        }
        _ => panic!("usage: picks [METHOD PEERS PICKS]"),
    }
}

fn print_all() {
    println!("ns per pick, by number of peers");
    print!("{:<34}", "");
    println!("{:>9} {:>9} {:>9} {:>9}", 10, 100, 1_000, 10_000);
    for (name, method) in METHODS {
        for (kind, weighted) in [("equal weights", false), ("weights 1 to 20", true)] {
            print!("{name:<12} {kind:<21}");
            for peers in PEERS {
                let group = group(method, peers, weighted, 1);
                print!(" {:>9.1}", nanoseconds(&group, 1));
            }
            println!();
        }
        print!("{name:<12} {:<21}", "4 threads, weighted");
        for peers in PEERS {
            let group = group(method, peers, true, 4);
            print!(" {:>9.1}", nanoseconds(&group, 4));
        }
        println!();
    }
}

fn group(method: Method, peers: usize, weighted: bool, threads: usize) -> Group {
    let server = |number: u32| {
        let address = SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + number), 8080));
        ServerSettings {
            weight: if weighted { 1 + number * 7 % 20 } else { 1 },
            ..ServerSettings::new(address.to_string(), vec![PeerAddress::Ip(address)])
        }
    };
    let settings = GroupSettings {
        counted_as: "picks".into(),
        name: "backend".to_owned(),
        servers: (0..peers as u32).map(server).collect(),
        method,
        checks: std::sync::Arc::default(),
        zone: false,
        keepalive: KeepaliveSettings::OFF,
        queue: None,
    };
    Group::new(settings, threads)
}

/// Of each thread, when so many pick at once.
fn nanoseconds(group: &Group, threads: u32) -> f64 {
    let measure = |thread| {
        let start = Instant::now();
        let mut picks = 0_u64;
        while start.elapsed() < TIME {
            run(group, thread, 100, Instant::now());
            picks += 100;
        }
        start.elapsed().as_nanos() as f64 / picks as f64
    };
    let sum: f64 = std::thread::scope(|scope| {
        let measured: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || measure(thread)))
            .collect();
        let measured = measured.into_iter();
        measured
            .map(|thread| thread.join().expect("no panic"))
            .sum()
    });
    sum / f64::from(threads)
}

/// Requests with keys and clients that differ, each of which ends before the next.
#[inline(never)]
fn run(group: &Group, thread: u32, picks: u32, now: Instant) {
    for number in 0..picks {
        let number = number.wrapping_mul(2_654_435_761);
        let asked = PickRequest {
            key: &number.to_le_bytes(),
            client: Some(IpAddr::V4(Ipv4Addr::from(number))),
            server_id: None,
            own_only: false,
            thread,
            now,
        };
        let picked = group.pick(black_box(&asked), &mut Tried::new(0));
        picked.expect("all peers are available").succeeded(now);
    }
}
