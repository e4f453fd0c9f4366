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
