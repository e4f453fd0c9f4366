//! Modules that answer in place of plain files, and links that are not followed.

use super::files::some_files;
use super::{Files, compare};

fn media(files: &Files) {
    some_files(files);
    files
        .file("v.flv", "FLV\x01 and nothing else")
        .file("one/only one?.txt", "only")
        .file("one/.hidden", "hidden")
        .file("one/dir/x", "x")
        .file("none/dir/x", "x");
    std::os::unix::fs::symlink("../a.txt", files.root().join("none/link")).expect("writable");
    std::os::unix::fs::symlink("nowhere", files.root().join("one/dangling")).expect("writable");
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

fn mp4_files(files: &Files) {
    media(files);
    for seed in 0..MP4_FILES {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut numbers = |below: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 33) as u32) % below
        };
        let file = sealane_http::mp4::sample::file(&mut numbers);
        files.file(&format!("{seed}.mp4"), &file);
        // Broken where it hurts: in the middle of the index.
        let mut broken = file;
        let middle = broken.len() / 3;
        broken.truncate(middle);
        files.file(&format!("short{seed}.mp4"), &broken);
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

/// Links to everything, among them one whose target belongs to another user.
fn links(files: &Files) {
    const NOBODY: u32 = 65534;
    some_files(files);
    files
        .file("dir/a.txt.gz", "packed")
        .file("l/plain", "plain");
    let root = files.root();
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, root.join(name)).expect("writable");
    };
    link("dir", "l-dir");
    link("a.txt", "l-file");
    link("nowhere", "l-dangling");
    link("l-loop", "l-loop");
    link(".", "l-root");
    link("../dir", "l/dir");
    link("../a.txt", "l/a.txt");
    link("dir/a.txt.gz", "a.txt.gz");
    // Files of root are another user's, unless one is root and gives the link away.
    link("/etc/passwd", "other");
    link("/etc", "l/other");
    for name in ["other", "l/other"] {
        let given = std::os::unix::fs::lchown(root.join(name), Some(NOBODY), None);
        let links_are_ours = sealane_sys::process::effective_uid() != 0;
        assert!(given.is_ok() || links_are_ours, "{given:?}");
    }
}

#[test]
fn links_that_are_not_followed() {
    let places = [
        "/a.txt",
        "/dir/",
        "/dir",
        "/bare",
        "/nothing",
        "/a.txt/",
        "/l-dir/index.html",
        "/l-dir/",
        "/l-dir",
        "/l-file",
        "/l-file/",
        "/l-dangling",
        "/l-loop",
        "/l-loop/x",
        "/l-root/a.txt",
        "/l/",
        "/l/plain",
        "/l/a.txt",
        "/l/dir/x.TXT",
        "/other",
        "/l/other/passwd",
        "/l/other",
    ];
    let kinds = [
        ("off", "disable_symlinks off"),
        ("on", "disable_symlinks on"),
        ("own", "disable_symlinks if_not_owner"),
        ("from", "disable_symlinks on from=DIR"),
        ("slash", "disable_symlinks if_not_owner from=DIR/"),
        ("below", "disable_symlinks on from=DIR/l"),
        ("variable", "disable_symlinks on from=$document_root"),
        ("elsewhere", "disable_symlinks on from=/elsewhere"),
        ("part", "disable_symlinks on from=DIR/l-di"),
        ("itself", "disable_symlinks on from=DIR/l-file"),
        ("empty", "disable_symlinks on from="),
        (
            "cache",
            "disable_symlinks on from=$arg_from; open_file_cache max=100; open_file_cache_errors on",
        ),
    ];
    let locations: String = kinds
        .iter()
        .map(|(name, directive)| format!("location /{name}/ {{ alias DIR/; {directive}; }} "))
        .collect();
    let rest = "location /try/ { alias DIR/; disable_symlinks on; try_files $uri /l-file /l/plain =410; } \
         location /if/ { disable_symlinks on; if (-f DIR/$arg_f) { return 200 file; } \
             if (-d DIR/$arg_f) { return 200 directory; } if (-x DIR/$arg_f) { return 200 executable; } \
             return 200 nothing; } \
         location /gz/ { alias DIR/; disable_symlinks on; gzip_static always; } \
         location /list/ { alias DIR/; disable_symlinks on; autoindex on; index none; } \
         location /outer/ { disable_symlinks on; location /outer/in/ { alias DIR/; } \
             location /outer/off/ { alias DIR/; disable_symlinks off; } }";
    let mut requests: Vec<String> = kinds
        .iter()
        .flat_map(|(name, _)| places.map(|place| format!("GET /{name}{place}")))
        .collect();
    // The same path under two rules, and one after the other.
    for _ in 0..2 {
        for from in ["", "?from=DIR/l-dir", "?from=DIR"] {
            requests.push(format!("GET /cache/l-dir/x.TXT{from}"));
        }
    }
    for place in [
        "l-file",
        "a.txt",
        "l-dir",
        "l-dir/x.TXT",
        "l-dangling",
        "dir",
    ] {
        requests.push(format!("GET /try/{place}"));
        requests.push(format!("GET /if/?f={place}"));
        requests.push(format!("GET /gz/{place}"));
        requests.push(format!("GET /outer/in/{place}"));
        requests.push(format!("GET /outer/off/{place}"));
    }
    requests.extend(["GET /list/bare/", "GET /list/l-dir/"].map(str::to_owned));
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    compare(&(locations + rest), links, &requests);
}
