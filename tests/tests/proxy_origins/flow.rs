//! Bodies that are large, slow clients, early answers and clients that go.

use super::{CONFIGURATION, assert_nothing_is_left, fetch, get, own_descriptors, serve};
use sealane_tests::misbehaving::{self, Misbehaving};
use sealane_tests::random::Random;
use sealane_tests::wire::Connection;
use sealane_tests::{
    Certificate, CertificateKey, Program, Server, Site, command, http2, sha256_of_file,
    sha256_of_output, wait_for,
};
use std::time::{Duration, Instant};

const LARGE_BYTES: usize = 100 << 20;

fn resident_kib(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|text| text.parse().ok()).expect("kB")
}

/// Lines of the configuration that tests put something else in place of.
const SEND_TIMEOUT: &str = "proxy_send_timeout 20s;";
const LISTEN: &str = "server {\n        listen";

/// The configuration with one change.
fn serve_changed<'s>(site: &'s Site, origin: &Misbehaving, from: &str, to: &str) -> Server<'s> {
    let port = origin.port().to_string();
    assert!(CONFIGURATION.contains(from), "{from}");
    site.serve(&CONFIGURATION.replace("ORIGIN", &port).replace(from, to))
}

fn worker(server: &Server<'_>) -> u32 {
    server.worker_pid()
}

#[test]
fn a_hundred_megabytes_each_way() {
    let origin = Misbehaving::start();
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    let server = serve_changed(
        &site,
        &origin,
        LISTEN,
        "server { client_max_body_size 0; http2 on; listen 127.0.0.1:%tls% ssl;
             ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;
             listen",
    );
    fetch(server.port("plain"), &get("/ok", "warm"));
    let before = own_descriptors(&server, &origin);
    let upload = site.write("upload.bin", Random::new(7).bytes(LARGE_BYTES));
    let digest = sha256_of_file(&upload);
    let direct = format!(
        "http://127.0.0.1:{}/length/{LARGE_BYTES}?large",
        origin.port()
    );
    let expected = sha256_of_output("curl", &["-sS", &direct]);
    let plain = format!("http://localhost:{}", server.port("plain"));
    let tls = format!("https://localhost:{}", server.port("tls"));
    let clients: [(&str, &[&str]); 4] = [
        (&plain, &["--http1.1"]),
        (&plain, &["--http2-prior-knowledge"]),
        (&tls, &["-k", "--http1.1"]),
        (&tls, &["-k", "--http2"]),
    ];
    for (base, options) in clients {
        for place in ["", "/unbuffered"] {
            let url = format!("{base}{place}/digest");
            let file = upload.display().to_string();
            let mut arguments = vec!["-sS", "-T", &file, "-X", "POST", "-H", "Expect:", &url];
            arguments.extend(options);
            let answer = command("curl", &arguments, b"").success().text();
            assert_eq!(answer, digest, "{url} {options:?}");
            for kind in ["length", "chunked", "until-close"] {
                let url = format!("{base}{place}/{kind}/{LARGE_BYTES}?large");
                let mut arguments = vec!["-sS", &url];
                arguments.extend(options);
                let got = sha256_of_output("curl", &arguments);
                assert_eq!(got, expected, "{url} {options:?}");
            }
        }
    }
    assert_nothing_is_left(&server, &origin, before);
    let peak_kib = resident_kib(worker(&server), "VmHWM:");
    assert!(
        peak_kib < 100 << 10,
        "bodies are not kept in memory: {peak_kib} KiB"
    );
}

/// A client that asks and does not read.
fn ask(port: u16, path: &str) -> Connection {
    let mut client = Connection::open(port);
    client.send(get(path, "slow"));
    client
}

#[test]
fn a_slow_client_does_not_hold_the_peer() {
    const BYTES: usize = 30 << 20;
    let origin = Misbehaving::start();
    let site = Site::new();
    let server = serve(&site, &origin, Program::Sealane);
    let port = server.port("plain");
    fetch(port, &get("/ok", "warm"));
    let before_kib = resident_kib(worker(&server), "VmRSS:");
    let mut slow = ask(port, &format!("/length/{BYTES}"));
    let line = server.wait_for_log("an upstream response is buffered to a temporary file");
    assert!(
        line.contains("[warn]") && line.contains("while reading upstream"),
        "{line}"
    );
    // The connection is free again once the response has been read.
    wait_for("the connection to be used again", || {
        let before = origin.opened();
        fetch(port, &get("/ok", "other"));
        (origin.opened() == before).then_some(())
    });
    let after_kib = resident_kib(worker(&server), "VmRSS:");
    assert!(
        after_kib < before_kib + (10 << 10),
        "{before_kib} KiB, then {after_kib}"
    );
    let response = slow.response(false);
    assert!(
        response.body == misbehaving::body("slow", BYTES),
        "in the right order"
    );
    assert_eq!(
        server.error_log().matches("temporary file").count(),
        1,
        "said once"
    );
    let left = command(
        "find",
        &[
            site.path("proxy_temp").display().to_string(),
            "-type".into(),
            "f".into(),
        ],
        b"",
    );
    assert_eq!(left.text(), "", "no file is left");
}

#[test]
fn slow_clients_of_http2_do_not_hold_the_peer() {
    const BYTES: usize = 10 << 20;
    let origin = Misbehaving::start();
    let site = Site::new();
    let server = serve(&site, &origin, Program::Sealane);
    let port = server.port("plain");
    let mut client = http2::Client::open(port, &[]);
    // Its windows are not opened until everything has been read.
    let stream = client.get(&format!("/chunked/{BYTES}?slow"));
    server.wait_for_log("an upstream response is buffered to a temporary file");
    wait_for("the connection to be used again", || {
        let before = origin.opened();
        fetch(port, &get("/ok", "other"));
        (origin.opened() == before).then_some(())
    });
    let response = client.response(stream);
    assert!(
        response.body == misbehaving::body("slow", BYTES),
        "in the right order"
    );
}

#[test]
fn without_a_temporary_file_the_peer_waits() {
    let origin = Misbehaving::start();
    let site = Site::new();
    let server = serve_changed(
        &site,
        &origin,
        SEND_TIMEOUT,
        "proxy_send_timeout 20s; proxy_max_temp_file_size 0;",
    );
    let port = server.port("plain");
    for place in ["", "/unbuffered"] {
        let mut slow = ask(port, &format!("{place}/length/{}", 30 << 20));
        let before = origin.opened();
        // As long as the client does not read, the connection stays in use.
        std::thread::sleep(Duration::from_millis(300));
        fetch(port, &get("/ok", "other"));
        fetch(port, &get("/ok", "other"));
        assert!(
            origin.open() >= 2,
            "{place}: {} after {before}",
            origin.open()
        );
        let response = slow.response(false);
        assert!(response.body == misbehaving::body("slow", 30 << 20));
    }
    assert!(!server.error_log().contains("temporary file"));
}

#[test]
fn temporary_files_have_a_size() {
    let origin = Misbehaving::start();
    let site = Site::new();
    let server = serve_changed(
        &site,
        &origin,
        SEND_TIMEOUT,
        "proxy_send_timeout 20s; proxy_max_temp_file_size 1m;",
    );
    let mut slow = ask(server.port("plain"), &format!("/length/{}", 30 << 20));
    server.wait_for_log("temporary file");
    std::thread::sleep(Duration::from_millis(300));
    let response = slow.response(false);
    assert!(response.body == misbehaving::body("slow", 30 << 20));
}

#[test]
fn the_peer_is_read_no_faster_than_the_rate() {
    let origin = Misbehaving::start();
    let site = Site::new();
    let server = serve_changed(
        &site,
        &origin,
        SEND_TIMEOUT,
        "proxy_send_timeout 20s; proxy_limit_rate 100k;",
    );
    let begun = Instant::now();
    let response = fetch(server.port("plain"), &get("/length/400000", "paced"));
    assert!(response.ends_with(&misbehaving::body("paced", 400_000)));
    // The first second's worth comes at once.
    assert!(
        begun.elapsed() > Duration::from_millis(2500),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn early_answers_arrive() {
    let origin = Misbehaving::start();
    let site = Site::new();
    let server = serve_changed(
        &site,
        &origin,
        LISTEN,
        "server { client_max_body_size 0; http2 on; listen",
    );
    let port = server.port("plain");
    fetch(port, &get("/ok", "warm"));
    let before = own_descriptors(&server, &origin);
    let file = site.write("upload.bin", vec![b'u'; 8 << 20]);
    let file = file.display().to_string();
    for how in ["close", "keep", "stall", "half"] {
        for (place, version) in [
            ("", "--http1.1"),
            ("", "--http2-prior-knowledge"),
            ("/unbuffered", "--http1.1"),
        ] {
            let url = format!("http://localhost:{port}{place}/early/{how}");
            let options = ["-sS", version, "-H", "Expect:", "-X", "POST", "-T", &file];
            let arguments = [&options[..], &["-w", " %{http_code}", &url]].concat();
            let outcome = command("curl", &arguments, b"");
            assert_eq!(
                outcome.text(),
                "long 413",
                "{url} {version}: {}",
                outcome.stderr
            );
        }
        // Half of a body, and no more: the answer does not wait for the rest.
        let mut client = http2::Client::open(port, &[]);
        let path = format!("/unbuffered/early/{how}");
        let stream = client.request("POST", &path, &[("content-length", "32768")], false);
        client.frame(http2::kind::DATA, 0, stream, &[b'u'; 16_384]);
        let response = client.response(stream);
        assert_eq!(
            (response.status, response.body),
            (413, b"long".to_vec()),
            "{path}"
        );
    }
    let good = fetch(port, &get("/ok", "after"));
    assert!(good.ends_with(&misbehaving::body("after", misbehaving::BODY_BYTES)));
    assert_nothing_is_left(&server, &origin, before);
}

#[test]
fn a_client_that_goes_takes_the_peer_with_it() {
    let origin = Misbehaving::start();
    let site = Site::new();
    let configuration = format!(
        "log_format short '$request_uri $status $upstream_status'; access_log logs/access.log short;\n{}",
        CONFIGURATION.replace("ORIGIN", &origin.port().to_string())
            .replace("location /never {", "location = /patient { proxy_pass http://origin/never; proxy_ignore_client_abort on; proxy_read_timeout 2s; }
             location /never {")
            .replace("proxy_read_timeout 1s;", "")
    );
    let server = site.serve(&configuration);
    let port = server.port("plain");
    for path in [
        "/never",
        "/never/body",
        "/unbuffered/never",
        "/unbuffered/never/body",
    ] {
        let client = ask(port, path);
        wait_for("the request at the origin", || {
            (origin.open() == 1).then_some(())
        });
        std::thread::sleep(Duration::from_millis(50));
        drop(client);
        wait_for("the peer to be let go", || {
            (origin.open() == 0).then_some(())
        });
    }
    let access = wait_for("four lines", || {
        let text = std::fs::read_to_string(site.path("logs/access.log")).ok()?;
        (text.lines().count() == 4).then_some(text)
    });
    let lines: Vec<&str> = access.lines().collect();
    assert_eq!(lines[0], "/never?slow 499 -");
    assert!(lines[1].starts_with("/never/body?slow 200"), "{access}");
    assert_eq!(lines[2], "/unbuffered/never?slow 499 -");

    let client = ask(port, "/patient");
    wait_for("the request at the origin", || {
        (origin.open() == 1).then_some(())
    });
    drop(client);
    // The time-out of reading ends it, not the client.
    server.wait_for_log(
        "upstream timed out (110: Connection timed out) while reading response header",
    );
}

#[test]
fn streams_that_are_reset_let_go_of_their_peers() {
    let origin = Misbehaving::start();
    let site = Site::new();
    let server = serve(&site, &origin, Program::Sealane);
    let mut client = http2::Client::open(server.port("plain"), &[]);
    for path in ["/unbuffered/never?a", "/unbuffered/never/body?b"] {
        let stream = client.get(path);
        wait_for("the request at the origin", || {
            (origin.open() == 1).then_some(())
        });
        std::thread::sleep(Duration::from_millis(50));
        client.frame(
            http2::kind::RST_STREAM,
            0,
            stream,
            &http2::code::CANCEL.to_be_bytes(),
        );
        wait_for("the peer to be let go", || {
            (origin.open() == 0).then_some(())
        });
    }
    assert_eq!(
        client.fetch("/ok?c").body,
        misbehaving::body("c", 200),
        "the connection lives"
    );
}
