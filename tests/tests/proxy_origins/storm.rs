//! Many requests at a time, good and bad, over connections that are used again.

use super::cases::{CASES, Came};
use super::{assert_nothing_is_left, classify, classify_http2, fetch, get, own_descriptors, serve};
use sealane_tests::misbehaving::{self, BODY_BYTES, Misbehaving};
use sealane_tests::random::Random;
use sealane_tests::{Program, Site, http2, scale};
use std::time::Duration;

const THREADS: u64 = 8;

/// What a client asks for, with a mark of its own, and what it must see.
fn choose(random: &mut Random, mark: &str) -> (String, Vec<u8>, Came) {
    if random.below(2) == 0 {
        let kind = random.choose(&["length", "chunked", "until-close"]);
        let bytes = *random.choose(&[1, 200, 5000, 40_000, 300_000]);
        return (
            format!("/{kind}/{bytes}"),
            misbehaving::body(mark, bytes),
            Came::Body(200),
        );
    }
    loop {
        let case = random.choose(CASES);
        // Those take their time.
        if !case.path.starts_with("/never") && !case.path.starts_with("/trickle") {
            return (
                case.path.to_owned(),
                misbehaving::body(mark, BODY_BYTES),
                case.came,
            );
        }
    }
}

fn client(port: u16, thread: u64, requests: usize) {
    let mut random = Random::new(thread);
    let mut connection = http2::Client::open(port, &[]);
    for number in 0..requests {
        let mark = format!("t{thread}n{number}.");
        let (path, expected, came) = choose(&mut random, &mark);
        let place = *random.choose(&["", "/unbuffered"]);
        let path = format!("{place}{path}");
        let seen = match thread % 2 {
            0 => classify(&fetch(port, &get(&path, &mark)), &expected),
            _ => {
                let response = connection.fetch(&format!("{path}?{mark}"));
                classify_http2(&response, &expected)
            }
        };
        assert_eq!(seen, came, "{path}?{mark}");
    }
}

#[test]
fn nothing_of_one_response_appears_in_another() {
    let origin = Misbehaving::start();
    let site = Site::new();
    let server = serve(&site, &origin, Program::Sealane);
    let port = server.port("plain");
    client(port, 0, 20);
    client(port, 1, 20);
    let before = own_descriptors(&server, &origin);
    let requests = scale(400, 10_000);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || client(port, thread, requests));
        }
    });
    assert_nothing_is_left(&server, &origin, before);
    assert!(
        origin.opened() < THREADS as usize * requests,
        "connections are used again"
    );
}

/// An origin that speaks when it was not asked cannot be heard by the next client, unless
/// that comes in the same moment.
#[test]
fn a_late_second_response_is_not_used() {
    let origin = Misbehaving::start();
    let site = Site::new();
    let server = serve(&site, &origin, Program::Sealane);
    let port = server.port("plain");
    for round in 0..5 {
        let mark = format!("first{round}");
        let came = classify(
            &fetch(port, &get("/surplus/later", &mark)),
            &misbehaving::body(&mark, BODY_BYTES),
        );
        assert_eq!(came, Came::Body(200));
        std::thread::sleep(Duration::from_millis(300));
        let mark = format!("second{round}");
        let came = classify(
            &fetch(port, &get("/ok", &mark)),
            &misbehaving::body(&mark, BODY_BYTES),
        );
        assert_eq!(came, Came::Body(200));
    }
}
