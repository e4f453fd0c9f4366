//! How sessions end, and what slow, silent and flooding peers cost.

use super::*;
use sealane_tests::metrics::samples;
use sealane_tests::{Certificate, CertificateKey};
use std::time::Instant;

#[test]
fn everything_arrives_in_both_directions() {
    let (site, origin) = (Site::new(), Origin::echo());
    let server = serve(
        &site,
        &format!(
            "server {{ listen 127.0.0.1:%a%; proxy_pass 127.0.0.1:{}; }}",
            origin.port
        ),
    );
    let mut socket = connect(server.port("a"));
    let sent: Vec<u8> = (0..8_000_000_u32).map(|at| (at * 7 / 3) as u8).collect();
    let mut writing = socket.try_clone().expect("a descriptor");
    let mut got = vec![0; sent.len()];
    thread::scope(|scope| {
        scope.spawn(|| writing.write_all(&sent).expect("it is taken"));
        socket.read_exact(&mut got).expect("it comes back");
    });
    assert!(got == sent, "unchanged and in order");
}

#[test]
fn what_was_sent_before_the_end_arrives() {
    let site = Site::new();
    let last_words = vec![b'w'; 500_000];
    let (words, length) = (last_words.clone(), last_words.len());
    let speaking = Origin::doing(move |mut socket| {
        let _ = socket.write_all(&words);
    });
    let (tell, told) = std::sync::mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let listening = Origin::doing(move |mut socket| {
        let mut got = Vec::new();
        let _ = socket.read_to_end(&mut got);
        let _ = tell.lock().expect("no panic").send(got.len());
    });
    let server = serve(
        &site,
        &format!(
            "server {{ listen 127.0.0.1:%speaking%; proxy_pass 127.0.0.1:{}; }}
             server {{ listen 127.0.0.1:%listening%; proxy_pass 127.0.0.1:{}; }}",
            speaking.port, listening.port
        ),
    );
    assert_eq!(rest(&mut connect(server.port("speaking"))).len(), length);
    let mut socket = connect(server.port("listening"));
    socket.write_all(&last_words).expect("it is taken");
    drop(socket);
    // Who has looked whether it listens has sent nothing.
    let told = told.iter().find(|got| *got > 0);
    assert_eq!(told, Some(length));
}

#[test]
fn a_half_closed_session_goes_on_where_it_may() {
    let site = Site::new();
    // Answers only once it has got everything.
    let origin = Origin::doing(|mut socket| {
        let mut got = Vec::new();
        let _ = socket.read_to_end(&mut got);
        let _ = write!(socket, "{} bytes", got.len());
    });
    let server = serve(
        &site,
        &format!(
            "server {{ listen 127.0.0.1:%on%; proxy_half_close on; proxy_pass 127.0.0.1:{0}; }}
             server {{ listen 127.0.0.1:%off%; proxy_pass 127.0.0.1:{0}; }}",
            origin.port
        ),
    );
    for (port, answer) in [("on", "5 bytes"), ("off", "")] {
        let mut socket = connect(server.port(port));
        socket.write_all(b"hello").expect("it is taken");
        socket.shutdown(Shutdown::Write).expect("it is connected");
        assert_eq!(rest(&mut socket), answer, "{port}");
    }
}

#[test]
fn silent_sessions_end_after_their_time() {
    let (site, origin) = (Site::new(), Origin::echo());
    let server = serve(
        &site,
        &format!(
            "log_format s '$status $bytes_received'; access_log logs/stream.log s;
             server {{ listen 127.0.0.1:%a%; proxy_timeout 300ms; proxy_pass 127.0.0.1:{}; }}",
            origin.port
        ),
    );
    let mut socket = connect(server.port("a"));
    says_back(&mut socket, "hello");
    assert_eq!(rest(&mut socket), "");
    server.wait_for_log("connection timed out (110: Connection timed out) while proxying");
    wait_for_lines(&site, &["200 5"]);
}

#[test]
fn rates_are_kept() {
    let site = Site::new();
    let origin = Origin::doing(|mut socket| {
        let _ = socket.write_all(&[b'x'; 30_000]);
    });
    let server = serve(
        &site,
        &format!(
            "server {{ listen 127.0.0.1:%a%; proxy_download_rate $rate; proxy_pass 127.0.0.1:{}; }}
             map $remote_addr $rate {{ default 10k; }}",
            origin.port
        ),
    );
    let begun = Instant::now();
    assert_eq!(rest(&mut connect(server.port("a"))).len(), 30_000);
    // The first second's share comes at once; whatever a machine is busy with takes longer.
    assert!(
        begun.elapsed() > Duration::from_millis(1500),
        "{:?}",
        begun.elapsed()
    );
}

/// Bytes that take some seconds, of which the first is free, at the rate of the next test.
const SLOW_BYTES: usize = 6000;

#[test]
fn waiting_for_a_rate_is_no_silence_and_silence_ends_a_session_afterwards() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("a", CertificateKey::P256));
    let (tell, told) = std::sync::mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let listening = Origin::doing(move |mut socket| {
        let mut got = Vec::new();
        let _ = socket.read_to_end(&mut got);
        let _ = tell.lock().expect("no panic").send(got.len());
    });
    // Both of them keep their connections.
    let speaking = Origin::doing(|mut socket| {
        let _ = socket.write_all(&[b'x'; SLOW_BYTES]);
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let server = serve(
        &site,
        &format!(
            "proxy_timeout 300ms; log_format s '$server_port $bytes_sent $bytes_received';
             ssl_certificate certificates/a.pem; ssl_certificate_key certificates/a.key;
             access_log logs/stream.log s;
             server {{ listen 127.0.0.1:%down%; proxy_download_rate 2k; proxy_pass 127.0.0.1:{0}; }}
             server {{ listen 127.0.0.1:%down_tls% ssl; proxy_download_rate 2k; proxy_pass 127.0.0.1:{0}; }}
             server {{ listen 127.0.0.1:%up%; proxy_upload_rate 2k; proxy_pass 127.0.0.1:{1}; }}",
            speaking.port, listening.port
        ),
    );
    let begun = Instant::now();
    let server = &server;
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(rest(&mut connect(server.port("down"))).len(), SLOW_BYTES));
        scope.spawn(|| {
            // It ends without close_notify or with it: what counts is how much there was.
            let address = format!("127.0.0.1:{}", server.port("down_tls"));
            let arguments = ["s_client", "-quiet", "-connect", &address];
            let outcome = sealane_tests::command("openssl", &arguments, b"");
            assert_eq!(outcome.stdout.len(), SLOW_BYTES);
        });
        scope.spawn(move || {
            let mut socket = connect(server.port("up"));
            socket.write_all(&[b'x'; SLOW_BYTES]).expect("it is taken");
            assert_eq!(rest(&mut socket), "");
            // Who has looked whether it listens has sent nothing.
            let told = told.iter().find(|got| *got > 0);
            assert_eq!(told, Some(SLOW_BYTES));
        });
    });
    // They have waited for longer than they may be silent.
    assert!(begun.elapsed() > Duration::from_millis(1500));
    let (down, down_tls, up) = (
        format!("{} {SLOW_BYTES} 0", server.port("down")),
        format!("{} {SLOW_BYTES} 0", server.port("down_tls")),
        format!("{} 0 {SLOW_BYTES}", server.port("up")),
    );
    wait_for_lines(&site, &[&down, &down_tls, &up]);
    for port in ["down", "down_tls", "up"] {
        let ends = format!("server: 127.0.0.1:{}", server.port(port));
        let log = server.error_log();
        let mut lines = log.lines().filter(|line| line.contains(&ends));
        assert!(
            lines.any(|line| line.contains("connection timed out (110")),
            "{port}: {log}"
        );
    }
}

#[test]
fn who_does_not_read_is_silent_whatever_the_rate() {
    let (site, flood, deaf) = (Site::new(), Origin::flood(), Origin::deaf());
    let server = serve(
        &site,
        &format!(
            "proxy_timeout 300ms;
             server {{ listen 127.0.0.1:%down% sndbuf=16k; proxy_download_rate 4m; proxy_pass 127.0.0.1:{}; }}
             server {{ listen 127.0.0.1:%up%; proxy_upload_rate 4m; proxy_pass 127.0.0.1:{}; }}",
            flood.port, deaf.port
        ),
    );
    let reads_nothing = connect(server.port("down"));
    let floods = connect(server.port("up"));
    let mut writing = floods.try_clone().expect("a descriptor");
    thread::spawn(move || while writing.write_all(&[b'x'; 65_536]).is_ok() {});
    for port in ["down", "up"] {
        let ends = format!("server: 127.0.0.1:{}", server.port(port));
        wait_for("the end of the session", || {
            let log = server.error_log();
            let mut lines = log.lines().filter(|line| line.contains(&ends));
            lines
                .any(|line| line.contains("connection timed out (110"))
                .then_some(())
        });
    }
    drop((reads_nothing, floods));
}

/// The memory of the worker, in KiB, once all sockets are full.
fn once_settled(server: &Server<'_>) -> u64 {
    let mut last = server.resident_kib();
    wait_for("memory that does not grow", || {
        thread::sleep(Duration::from_millis(500));
        let before = std::mem::replace(&mut last, server.resident_kib());
        (last <= before).then_some(last)
    })
}

#[test]
fn who_does_not_read_holds_little_and_nobody_else() {
    let site = Site::new();
    let flood = Origin::doing(|mut socket| {
        let piece = [b'x'; 65_536];
        while socket.write_all(&piece).is_ok() {}
    });
    let server = serve(
        &site,
        &format!(
            "server {{ listen 127.0.0.1:%flood%; proxy_pass 127.0.0.1:{}; }}
             server {{ listen 127.0.0.1:%text%; return ok; }}",
            flood.port
        ),
    );
    let readers: Vec<TcpStream> = (0..100).map(|_| connect(server.port("flood"))).collect();
    let before = once_settled(&server);
    for _ in 0..20 {
        assert_eq!(rest(&mut connect(server.port("text"))), "ok");
    }
    let grown = once_settled(&server).saturating_sub(before);
    assert!(grown < 2048, "{grown} KiB more while nobody reads");
    drop(readers);
}

#[test]
fn sessions_are_counted() {
    let (site, origin) = (Site::new(), Origin::echo());
    let configuration = format!(
        "{} http {{ server {{ listen 127.0.0.1:%metrics%; location / {{ metrics; }} }} }}",
        configuration(&format!(
            "upstream echo {{ server 127.0.0.1:{}; }}
             server {{ listen 127.0.0.1:%a%; status_zone layer4; proxy_pass echo; }}
             server {{ listen 127.0.0.1:%denied%; status_zone denied; deny all; return no; }}",
            origin.port
        ))
    );
    let server = site.serve_whole(&configuration);
    let mut socket = connect(server.port("a"));
    says_back(&mut socket, "hello");
    drop(socket);
    assert_eq!(rest(&mut connect(server.port("denied"))), "");
    let port = server.port("metrics");
    let value = |name: &str| sealane_tests::metrics::value(&samples(port), name);
    wait_for("the end of the session", || {
        let ended = value("sealane_server_received_bytes_total{server=\"layer4\"}");
        (ended == 5.0).then_some(())
    });
    let sent = value("sealane_server_sent_bytes_total{server=\"layer4\"}");
    assert_eq!(sent, 5.0);
    // One of them has only looked whether it listens.
    let ended = "sealane_server_requests_total{server=\"denied\"}";
    wait_for("the other ends", || (value(ended) == 2.0).then_some(()));
    let denied = "sealane_server_responses_total{server=\"denied\",code=\"403\"}";
    assert_eq!(value(denied), 0.0, "nothing was sent");
    let group = "sealane_upstream_received_bytes_total{upstream=\"stream:echo\"}";
    assert_eq!(value(group), 5.0);
}

#[test]
fn a_server_that_answers_again_is_used_like_any_other() {
    let site = Site::new();
    let server = serve(
        &site,
        "upstream u { server 127.0.0.1:%first% fail_timeout=1s; server 127.0.0.1:%second% backup; }
         server { listen 127.0.0.1:%second%; return backup; }
         server { listen 127.0.0.1:%a%; proxy_pass u; }",
    );
    assert_eq!(rest(&mut connect(server.port("a"))), "backup");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, server.port("first")));
    let listener = listener.expect("nobody listens there");
    thread::spawn(move || {
        // Sessions that last.
        let kept: Vec<TcpStream> = listener.incoming().flatten().collect();
        drop(kept);
    });
    let first = wait_for("the first server to be tried again", || {
        let mut socket = connect(server.port("a"));
        let wait = Duration::from_millis(200);
        socket.set_read_timeout(Some(wait)).expect("not zero");
        // The first one says nothing.
        socket.read(&mut [0; 16]).is_err().then_some(socket)
    });
    for _ in 0..8 {
        let mut socket = connect(server.port("a"));
        let wait = Duration::from_millis(50);
        socket.set_read_timeout(Some(wait)).expect("not zero");
        assert!(socket.read(&mut [0; 16]).is_err(), "it goes to the first");
    }
    drop(first);
}

#[test]
fn a_proxy_that_announces_nothing_is_refused_at_once() {
    let site = Site::new();
    let server = serve(
        &site,
        "log_format s $status; access_log logs/stream.log s;
         server { listen 127.0.0.1:%a% proxy_protocol; return no; }",
    );
    let mut socket = connect(server.port("a"));
    socket.write_all(b"PROXY INVALID").expect("it is taken");
    assert_eq!(rest(&mut socket), "");
    server.wait_for_log("broken header: \"PROXY INVALID\" while reading PROXY protocol");
    wait_for_lines(&site, &["400", "400"]);
}

#[test]
fn log_files_may_have_variables_in_their_names() {
    let site = Site::new();
    // The worker opens them, as whoever it runs as.
    site.write("open/placeholder", "");
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(site.path("open"), everyone).expect("it is ours");
    let server = serve(
        &site,
        "log_format s $status; access_log open/$bytes_sent.log s;
         server { listen 127.0.0.1:%a%; return abc; }",
    );
    assert_eq!(rest(&mut connect(server.port("a"))), "abc");
    wait_for("the line", || {
        let text = std::fs::read_to_string(site.path("open/3.log")).ok()?;
        text.starts_with("200\n").then_some(())
    });
}

#[test]
fn a_socket_that_cannot_be_bound_is_nobodys_fault() {
    let (site, origins) = (Site::new(), [Origin::echo(), Origin::echo()]);
    let server = serve(
        &site,
        &format!(
            "log_format s '$status $upstream_addr'; access_log logs/stream.log s;
             upstream u {{ server 127.0.0.1:{}; server 127.0.0.1:{}; }}
             server {{ listen 127.0.0.1:%a%; proxy_bind 192.0.2.1; proxy_pass u; }}
             server {{ listen 127.0.0.1:%b%; proxy_bind ::1; proxy_pass u; }}
             server {{ listen 127.0.0.1:%c%; proxy_pass u; }}",
            origins[0].port, origins[1].port
        ),
    );
    server.expect_alert("bind(192.0.2.1) failed (99: ");
    server.expect_alert("bind(::1) failed (97: ");
    for name in ["a", "b", "a", "b"] {
        assert_eq!(rest(&mut connect(server.port(name))), "");
    }
    says_back(&mut connect(server.port("c")), "hello");
    // With those that have looked whether the server listens.
    wait_for_lines(&site, &["500 "; 6]);
    let text = std::fs::read_to_string(site.path("logs/stream.log")).expect("a log");
    assert!(!text.contains("502") && !text.contains(','), "{text}");
}
