//! Takes the pictures of the page in the README: `scripts/console-pictures.sh`, which calls
//! `cargo run -p sealane-tests --example console_pictures -- DIRECTORY [SECONDS]`.
//!
//! A server with a little of everything is at work for that long, for clients that come and go.

use sealane_tests::load::Load;
use sealane_tests::{Certificate, CertificateKey, Server, Site, page_client};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DIRECTORY_MISSING: &str = "console_pictures DIRECTORY [SECONDS]";
/// How long the graphs on the pictures reach back.
const SECONDS: &str = "140";

const HTTP: &str = "
    access_log off; sendfile on;
    proxy_cache_path cache keys_zone=pages:4m max_size=200m memory=16m;
    limit_req_zone $binary_remote_addr zone=login:1m rate=20r/s;
    limit_conn_zone $server_name zone=per_server:1m;
    upstream backend { server 127.0.0.1:%one%; server 127.0.0.1:%two%; server 127.0.0.1:%three% down; }
    ssl_certificate certificates/www.pem; ssl_certificate_key certificates/www.key;
    ssl_session_cache shared:sessions:4m; ssl_ktls off;
    server { listen 127.0.0.1:%www% ssl; http2 on; server_name www.example.com; root html;
        limit_conn per_server 1000;
        location = /page { status_zone /page; try_files /large =404; } }
    server { listen 127.0.0.1:%shop% ssl; server_name shop.example.com;
        ssl_certificate certificates/shop.pem; ssl_certificate_key certificates/shop.key;
        location / { status_zone /shop; proxy_pass http://backend; proxy_cache pages; proxy_cache_valid 200 2s; } }
    server { listen 127.0.0.1:%api% ssl; server_name api.example.com;
        location / { status_zone /v1; proxy_pass http://backend; } }
    server { listen 127.0.0.1:%static%; server_name static.example.com; root html; }
    server { listen 127.0.0.1:%login% ssl; server_name login.example.com; root html;
        location = /page { limit_req zone=login burst=5; limit_req_status 429; error_page 429 =200 /small; } }
    server { listen 127.0.0.1:%one%; listen 127.0.0.1:%two%; server_name backend.internal; root html; }
    server { listen 127.0.0.1:%console%; server_name console.internal; status_zone off;
        location = /console { console; } }";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect(DIRECTORY_MISSING);
    let seconds = arguments.next().unwrap_or_else(|| SECONDS.to_owned());
    let site = Site::new();
    site.certificate(&Certificate::localhost("www", CertificateKey::P256));
    site.certificate(&Certificate::localhost("shop", CertificateKey::Rsa));
    for (name, bytes) in [("small", 600), ("page", 9_000), ("large", 120_000)] {
        site.write(format!("html/{name}"), vec![b'x'; bytes]);
    }
    let server = site.serve_with("worker_processes 2;", "worker_connections 1024;", HTTP);
    let url = format!("http://127.0.0.1:{}/console", server.port("console"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| work(&site, &server, &done));
        let outcome = page_client(&["pictures", &url, &directory, &seconds]);
        done.store(true, Ordering::Relaxed);
        print!("{}", outcome.success().text());
    });
}

/// Clients that stay, and others that come and go.
fn work(site: &Site, server: &Server<'_>, done: &AtomicBool) {
    let authority = site.authority().display().to_string();
    let start = |kind: &str, name: &str, is_tls: bool, parallel: usize| {
        let address = format!("127.0.0.1:{}", server.port(name));
        Load::go(kind, &address, is_tls.then_some(&*authority), parallel)
    };
    let mut staying = vec![
        start("http2", "www", true, 1),
        start("close", "shop", true, 1),
        start("keep", "api", true, 1),
        start("keep", "static", false, 1),
        start("close", "login", true, 1),
    ];
    let mut visits = [
        ("close", "shop", true, 2),
        ("http2", "www", true, 2),
        ("close", "api", true, 3),
        ("keep", "static", false, 2),
    ]
    .into_iter()
    .cycle();
    let mut guests: Vec<Load> = Vec::new();
    while !done.load(Ordering::Relaxed) {
        if guests.len() == 3 {
            guests.remove(0).stop();
        }
        let (kind, name, is_tls, parallel) = visits.next().expect("it repeats for ever");
        guests.push(start(kind, name, is_tls, parallel));
        std::thread::sleep(Duration::from_secs(7));
    }
    for load in staying.drain(..).chain(guests) {
        load.stop();
    }
}
