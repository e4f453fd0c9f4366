//! Cached responses: the kernel takes them from the cache file, as it takes static files.

use crate::client::curl;
use crate::lab::{FOUR_MIB, Lab, assert_same, block, http, sendfile_bytes};
use crate::program::wait_for;
use crate::server::{Kind, Server};

/// The server with the cache, and the origin behind it.
const CACHED: u16 = 5443;
const ORIGIN: u16 = 5080;

fn start(lab: &Lab) -> Server {
    lab.prepare();
    let cached = "ssl_ktls on;
        location /cached/ {
            proxy_pass http://127.0.0.1:5080/; proxy_cache guest; proxy_cache_valid 1h;
            add_header X-Cache $upstream_cache_status;
        }";
    let configuration = http(&[
        "proxy_temp_path temp; proxy_cache_path cache levels=1:2 keys_zone=guest:1m;".to_owned(),
        block(CACHED, cached),
        format!("server {{ listen 127.0.0.1:{ORIGIN}; root /data; }}"),
    ]);
    Server::start(Kind::Sealane, "cached", &configuration, &[CACHED, ORIGIN])
}

fn verdict(options: &[&str], url: &str) -> String {
    let shown = ["-o", "/dev/null", "-w", "%header{x-cache}"];
    curl(&[options, &shown, &[url]].concat()).success().text()
}

pub(crate) fn hits_go_through_the_kernel(lab: &Lab) {
    let server = start(lab);
    let file = std::fs::read("/data/4m").expect("the site has the file");
    let url = format!("https://127.0.0.1:{CACHED}/cached/4m");
    assert_eq!(verdict(&[], &url), "MISS");
    wait_for("a hit", || (verdict(&[], &url) == "HIT").then_some(()));
    lab.settle_counters();
    server.mark();
    let whole = curl(&[&url]).success().stdout;
    assert_same(&whole, &file);
    assert_eq!(lab.sealed_connections(), 1, "TlsTxSw");
    let sent = sendfile_bytes(&server.log());
    assert!(
        sent <= FOUR_MIB as u64 && sent >= (FOUR_MIB - (64 << 10)) as u64,
        "SSL_sendfile: {sent} bytes"
    );
    let ranges = [
        (0, 0),
        (1, 16385),
        (1_000_000, 2_000_000),
        (FOUR_MIB - 1, FOUR_MIB - 1),
    ];
    for (from, to) in ranges {
        let part = curl(&["-r", &format!("{from}-{to}"), &url])
            .success()
            .stdout;
        assert_same(&part, &file[from..=to]);
    }
    let several = curl(&["-r", "0-9,100000-199999,-10", &url])
        .success()
        .stdout;
    for part in [&file[..10], &file[100_000..200_000], &file[FOUR_MIB - 10..]] {
        assert!(
            several.windows(part.len()).any(|window| window == part),
            "a part of a multipart answer"
        );
    }
    server.check();
    server.stop();
}
