//! Modules that answer in place of plain files, compared with nginx.

use super::differential::{compare, some_files};
use crate::testing::Site;

fn media(site: &Site) {
    some_files(site);
    site.file("v.flv", "FLV\x01 and nothing else")
        .file("one/only one?.txt", "only")
        .file("one/.hidden", "hidden")
        .file("one/dir/x", "x")
        .file("none/dir/x", "x");
    std::os::unix::fs::symlink("../a.txt", site.root().join("none/link")).expect("writable");
    std::os::unix::fs::symlink("nowhere", site.root().join("one/dangling")).expect("writable");
}

#[test]
fn the_empty_gif() {
    compare(
        "location = /e.gif { empty_gif; } location /e/ { empty_gif; expires 1h; } \
         location /if/ { empty_gif; if ($arg_no) { return 404; } if ($arg_x) { add_header X y; } }",
        some_files,
        &[
            "GET /e.gif",
            "HEAD /e.gif",
            "POST /e.gif",
            "PUT /e.gif",
            "GET /e/any/thing?x",
            "GET /if/?no=1",
            "GET /if/?x=1",
            "GET /e.gif|If-Modified-Since: Mon, 28 Sep 1970 06:00:00 GMT",
            "GET /e.gif|Range: bytes=0-5",
        ],
    );
}

#[test]
fn flv_files_from_a_position_on() {
    compare(
        "types { video/x-flv flv; } location / { flv; } location /no/ { flv; alias DIR/; }",
        media,
        &[
            "GET /v.flv",
            "HEAD /v.flv",
            "POST /v.flv",
            "PUT /dir/",
            "GET /v.flv?start=4",
            "GET /v.flv?x=1&START=4",
            "HEAD /v.flv?start=4",
            "GET /v.flv?start=0",
            "GET /v.flv?start=22",
            "GET /v.flv?start=23",
            "GET /v.flv?start=24",
            "GET /v.flv?start=-1",
            "GET /v.flv?start=4x",
            "GET /v.flv?start=",
            "GET /v.flv?start=99999999999999999999",
            "GET /v.flv?start=9223372036854775808",
            "GET /v.flv?start=4|Range: bytes=10-15",
            "GET /v.flv?start=4|Range: bytes=-3",
            "GET /v.flv?start=4|Range: bytes=500-",
            "GET /v.flv?start=4|If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
            "GET /empty.txt?start=1",
            "GET /missing.flv?start=1",
            "GET /dir?start=1",
            "GET /dir/",
            "GET /no/v.flv?start=20",
            "GET /no/bare/",
        ],
    );
}

#[test]
fn a_random_file_of_one() {
    compare(
        "location /one/ { random_index on; } location /none/ { random_index on; autoindex on; } \
         location /both/ { alias DIR/one/; random_index on; index missing.html; } \
         location /nothing/ { random_index on; } location /a.txt/ { random_index on; }",
        media,
        &[
            "GET /one/",
            "HEAD /one/?a=b",
            "PUT /one/",
            "GET /both/",
            "GET /none/",
            "GET /nothing/",
            "GET /a.txt/",
            "GET /one/dir/",
        ],
    );
}

/// Names of generated files: their number is the seed.
const MP4_FILES: u64 = 24;

fn mp4_files(site: &Site) {
    media(site);
    for seed in 0..MP4_FILES {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut numbers = |below: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 33) as u32) % below
        };
        let file = sealane_http::mp4::sample::file(&mut numbers);
        site.file(&format!("{seed}.mp4"), &file);
        // Broken where it hurts: in the middle of the index.
        let mut broken = file;
        let middle = broken.len() / 3;
        broken.truncate(middle);
        site.file(&format!("short{seed}.mp4"), &broken);
    }
}

#[test]
fn mp4_files_from_one_second_to_another() {
    let questions = [
        "start=0",
        "start=0.1",
        "start=0.4&end=0.9",
        "end=0.5",
        "start=0.73",
        "start=1",
        "start=1.5&end=1.6",
        "start=2.25&end=9",
        "start=7",
        "start=0&end=100000",
        "start=30",
        "end=0.05",
        "start=1&end=1",
        "start=3&end=2",
    ];
    let mut requests = Vec::new();
    for seed in 0..MP4_FILES {
        for question in questions {
            requests.push(format!("GET /{seed}.mp4?{question}"));
            requests.push(format!("GET /key/{seed}.mp4?{question}"));
        }
        requests.push(format!("GET /short{seed}.mp4?start=0.1"));
    }
    requests.extend(
        [
            "GET /1.mp4",
            "GET /1.mp4?start=",
            "GET /1.mp4?start=x",
            "GET /1.mp4?start=-1",
            "HEAD /1.mp4?start=0.1",
            "POST /1.mp4?start=0.1",
            "PUT /dir/",
            "GET /dir?start=1",
            "GET /missing.mp4?start=1",
            "GET /a.txt?start=1",
            "GET /empty.txt?start=1",
            "GET /1.mp4?start=0.1|Range: bytes=10-99",
            "GET /1.mp4?start=0.1|Range: bytes=10-19,30-39",
            "GET /1.mp4|Range: bytes=10-19,30-39",
            "GET /small/1.mp4?start=0.1",
            "GET /1.mp4?start=0.1|If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
        ]
        .map(String::from),
    );
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    compare(
        "types { video/mp4 mp4; } location / { mp4; } location /key/ { mp4; mp4_start_key_frame on; alias DIR/; } \
         location /small/ { mp4; mp4_buffer_size 100; mp4_max_buffer_size 200; alias DIR/; }",
        mp4_files,
        &requests,
    );
}
