//! Clients, files and limits that are out to hurt: the server says what is
//! wrong in one clear line, does not crash, and goes on serving.

use sealane_tests::wire::{Connection, get, read_to_close};
use sealane_tests::{
    Certificate, CertificateKey, Program, Server, Site, command, handshake, random::Random, scale,
    sha256, wait_for,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

const TLS: &str =
    "ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;";

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site.write("html/a.txt", "alpha");
    site
}

fn serve<'a>(site: &'a Site, directives: &str) -> Server<'a> {
    let http = format!(
        "server {{ listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl; root html; {TLS} {directives}
            location = /tls {{ return 200 ok; }} }}"
    );
    site.serve_with("", "worker_connections 2000;", &http)
}

#[track_caller]
fn assert_serves(server: &Server<'_>) {
    assert_eq!(get(server.port("plain"), "/a.txt").text(), "alpha");
    assert!(handshake(server, "").succeeded(), "TLS goes on");
}

/// The first flight of a real client.
fn client_hello() -> Vec<u8> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    let address = listener.local_addr().expect("bound").to_string();
    let mut client = Command::new("openssl")
        .args(["s_client", "-connect", &address])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed");
    let (mut socket, _) = listener.accept().expect("openssl connects");
    let mut header = [0; 5];
    socket.read_exact(&mut header).expect("a record header");
    let mut hello = header.to_vec();
    hello.resize(
        5 + usize::from(u16::from_be_bytes([header[3], header[4]])),
        0,
    );
    socket.read_exact(&mut hello[5..]).expect("a ClientHello");
    drop(socket);
    client.wait().expect("openssl ends");
    hello
}

fn connect(port: u16) -> TcpStream {
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
    socket
        .set_read_timeout(Some(sealane_tests::PATIENCE))
        .expect("the time-out is not zero");
    socket
}

/// Waits until the peer has sent something, then closes with that unread, to
/// which the kernel answers with a reset.
fn reset_when_answered(socket: &TcpStream) {
    let _ = socket.peek(&mut [0]);
}

#[test]
fn slow_heads_do_not_keep_others_waiting() {
    let site = site();
    let server = serve(&site, "client_header_timeout 3s;");
    let hello = client_hello();
    let mut slow: Vec<TcpStream> = Vec::new();
    for number in 0..400 {
        let (port, first) = match number % 2 {
            0 => (server.port("plain"), b"GET / HTTP/1.1\r\nX: ".as_slice()),
            _ => (server.port("tls"), &hello[..hello.len() / 2]),
        };
        let mut socket = connect(port);
        socket.write_all(first).expect("the server reads");
        slow.push(socket);
    }
    for _ in 0..3 {
        for socket in &mut slow {
            let _ = socket.write_all(b"x");
        }
        assert_serves(&server);
    }
    // All of them are told to go, or are closed, once their time is over.
    for socket in &mut slow {
        let rest = read_to_close(socket);
        assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
    }
    assert_serves(&server);
}

#[test]
fn a_half_closed_client_gets_its_whole_answer() {
    let site = site();
    // It fits into the client's first receive window. Linux 6.18 has been seen to lose the segment
    // that carries the FIN of a server that has sent everything and closed, when the receive window
    // of a half-closed client was full: the client reads an end without an error.
    let content = Random::new(3).bytes(50_000);
    site.write("html/big.bin", &content);
    let server = serve(&site, "");
    let mut connection = Connection::open(server.port("plain"));
    connection.send("GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    connection.shut_down_sending();
    assert!(connection.response(false).body == content);
    let mut nothing = Connection::open(server.port("plain"));
    nothing.shut_down_sending();
    assert!(nothing.is_closed());
    let mut incomplete = Connection::open(server.port("plain"));
    incomplete.send("GET /a.txt HTTP/1.1\r\nHo");
    incomplete.shut_down_sending();
    assert!(!String::from_utf8_lossy(&incomplete.rest()).contains("alpha"));
    assert_serves(&server);
}

#[test]
fn resets_at_every_point_of_a_handshake() {
    let site = site();
    let server = serve(&site, "");
    let hello = client_hello();
    for cut in 0..=hello.len() {
        let mut socket = connect(server.port("tls"));
        socket.write_all(&hello[..cut]).expect("the server reads");
        if cut == hello.len() {
            reset_when_answered(&socket);
        }
    }
    for _ in 0..scale(200, 5000) {
        let mut socket = connect(server.port("tls"));
        socket.write_all(&hello).expect("the server reads");
        reset_when_answered(&socket);
    }
    assert_serves(&server);
}

#[test]
fn garbage_on_every_port() {
    let site = site();
    let server = serve(&site, "client_header_timeout 5s;");
    let hello = client_hello();
    let mut random = Random::new(21);
    for round in 0..scale(600, 20_000) {
        let port = if round % 2 == 0 {
            server.port("plain")
        } else {
            server.port("tls")
        };
        let mut socket = connect(port);
        let bytes = match round % 3 {
            // Anything; a record of anything; a ClientHello with a few bytes changed.
            0 => {
                let length = random.below(3000);
                random.bytes(length)
            }
            1 => {
                let content = random.bytes(300);
                let kind = 20 + u8::try_from(random.below(5)).expect("less than five");
                [vec![kind, 3, 1, 1, 44], content].concat()
            }
            _ => {
                let mut changed = hello.clone();
                for _ in 0..=random.below(4) {
                    let at = 5 + random.below(changed.len() - 5);
                    changed[at] = random.bytes(1)[0];
                }
                changed
            }
        };
        let _ = socket.write_all(&bytes);
        if round % 5 == 0 {
            let _ = socket.shutdown(std::net::Shutdown::Write);
            let _ = socket.read(&mut [0; 4096]);
        }
    }
    assert_serves(&server);
}

#[test]
fn thousands_of_idle_tls_connections_on_one_worker_thread() {
    let site = site();
    let count = scale(5_000, 15_000);
    let server = site.serve_with(
        "worker_processes 1; worker_rlimit_nofile 20000;",
        "worker_connections 20000;",
        &format!(
            "server {{ listen 127.0.0.1:%tls% ssl backlog=4096; root html; keepalive_timeout 600s; {TLS}
                location = /tls {{ return 200 ok; }} }}"
        ),
    );
    let client = sealane_tests::go_client_path();
    let mut client = Command::new(client)
        .args([
            "idle",
            "-address",
            &format!("127.0.0.1:{}", server.port("tls")),
        ])
        .args([
            "-ca",
            &site.authority().display().to_string(),
            "-count",
            &count.to_string(),
            "/a.txt",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the client was built");
    let mut lines = BufReader::new(client.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert_eq!(next(), "ready");
    assert!(
        handshake(&server, "").succeeded(),
        "another client beside {count} idle ones"
    );
    client
        .stdin
        .take()
        .expect("a pipe")
        .write_all(b"\n")
        .expect("the client reads");
    assert_eq!(next(), format!("alive {count}"));
    assert!(client.wait().expect("the client ends").success());
}

#[test]
fn exhausted_descriptors_are_logged_and_survived() {
    let site = site();
    let configuration = site_configuration("worker_connections 500;");
    let wrapper = ["prlimit", "--nofile=48:48"];
    let mut server = Server::start_under(&site, Program::Sealane, &configuration, &wrapper);
    server.expect_alert("Too many open files");
    server.expect_alert("worker_connections");
    let port = server.port("plain");
    let mut crowd: Vec<TcpStream> = (0..100).map(|_| connect(port)).collect();
    for socket in &mut crowd {
        let _ = socket.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    server.wait_for_log("Too many open files");
    server.assert_running();
    drop(crowd);
    wait_for("service to resume", || {
        let mut connection = Connection::open(port);
        connection.send("GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = String::from_utf8_lossy(&connection.rest()).into_owned();
        answer.ends_with("alpha").then_some(())
    });
    let lines = server
        .error_log()
        .lines()
        .filter(|line| line.contains("Too many open files"))
        .count();
    assert!(
        lines < 2000,
        "{lines} lines about the same thing would fill a disk"
    );
}

#[test]
fn exhausted_worker_connections_are_logged_and_survived() {
    let site = site();
    let server = Server::start(
        &site,
        Program::Sealane,
        &site_configuration("worker_connections 20;"),
    );
    server.expect_alert("worker_connections are not enough");
    let port = server.port("plain");
    let crowd: Vec<TcpStream> = (0..60).map(|_| connect(port)).collect();
    server.wait_for_log("worker_connections are not enough");
    drop(crowd);
    wait_for("service to resume", || {
        let mut connection = Connection::open(port);
        connection.send("GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        String::from_utf8_lossy(&connection.rest())
            .ends_with("alpha")
            .then_some(())
    });
}

fn site_configuration(events: &str) -> String {
    format!(
        "worker_processes 1; error_log logs/error.log info; pid logs/pid;
         events {{ {events} }}
         http {{ access_log off; server {{ listen 127.0.0.1:%plain%; root html; }} }}"
    )
}

#[test]
fn unreadable_files_and_things_that_are_no_files() {
    let site = site();
    let server = serve(&site, "");
    let port = server.port("plain");
    let secret = site.write("html/secret.txt", "secret");
    command("chmod", &["000".as_ref(), secret.as_os_str()], b"").success();
    site.write("html/closed/a.txt", "closed");
    command(
        "chmod",
        &["000".as_ref(), site.path("html/closed").as_os_str()],
        b"",
    )
    .success();
    command("mkfifo", &[site.path("html/pipe")], b"").success();
    std::os::unix::fs::symlink("loop", site.path("html/loop")).expect("the site is writable");
    server.expect_alert("is not a regular file");
    let long_name = "n".repeat(300);

    for (target, status) in [
        ("/secret.txt", 403),
        ("/closed/a.txt", 403),
        ("/pipe", 404),
        ("/a.txt/below", 404),
        ("/missing", 404),
    ] {
        assert_eq!(get(port, target).status, status, "{target}");
    }
    // nginx answers both with 500 or 404, by version; what counts is an answer.
    for target in ["/loop", &format!("/{long_name}")] {
        server.expect_alert(target);
        assert!(
            matches!(get(port, target).status, 403 | 404 | 500),
            "{target}"
        );
    }
    server.wait_for_log("secret.txt\" failed (13: Permission denied)");
    assert_serves(&server);
    command(
        "chmod",
        &["-R".as_ref(), "755".as_ref(), site.path("html").as_os_str()],
        b"",
    )
    .success();
}

#[test]
fn files_that_shrink_or_are_replaced_while_they_are_sent() {
    let site = site();
    let content = Random::new(4).bytes(60_000_000);
    let server = serve(&site, "");
    server.expect_alert("truncated");
    server.expect_alert("read only");
    let request = "GET /big.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let begin = || {
        site.write("html/big.bin", &content);
        let mut connection = Connection::open(server.port("plain"));
        connection.send(request);
        // The head has come: the file is open and partly on its way.
        let mut first = [0; 1];
        std::io::Read::read_exact(&mut connection.socket(), &mut first)
            .expect("the response begins");
        connection
    };

    let mut replaced = begin();
    site.write("html/new.bin", "new content");
    std::fs::rename(site.path("html/new.bin"), site.path("html/big.bin"))
        .expect("the site is writable");
    assert!(
        replaced.rest().ends_with(&content[content.len() - 1000..]),
        "the open file is sent to its end"
    );
    assert_eq!(get(server.port("plain"), "/big.bin").text(), "new content");

    let mut truncated = begin();
    std::fs::OpenOptions::new()
        .write(true)
        .open(site.path("html/big.bin"))
        .and_then(|file| file.set_len(1000))
        .expect("truncating");
    let received = truncated.rest().len();
    assert!(
        received < content.len(),
        "{received} bytes: the connection ends early instead of sending something else"
    );

    // The same over TLS, where the client is told that the body is incomplete.
    site.write("html/big.bin", &content);
    let url = format!("https://localhost:{}/big.bin", server.port("tls"));
    let authority = site.authority().display().to_string();
    let mut curl = Command::new("curl")
        .args([
            "-sS",
            "--ipv4",
            "--cacert",
            &authority,
            "--limit-rate",
            "20M",
            "-o",
            "/dev/null",
            &url,
        ])
        .spawn()
        .expect("curl is installed");
    std::thread::sleep(Duration::from_millis(300));
    std::fs::OpenOptions::new()
        .write(true)
        .open(site.path("html/big.bin"))
        .and_then(|file| file.set_len(1000))
        .expect("truncating");
    let status = curl.wait().expect("curl ends");
    assert!(!status.success(), "curl noticed that bytes are missing");
    assert_serves(&server);
}

#[test]
fn clients_that_do_not_read_cost_little_and_are_dropped() {
    let site = site();
    site.write("html/big.bin", vec![1; 30_000_000]);
    let server = serve(
        &site,
        "send_timeout 3s; sendfile off; output_buffers 2 64k;",
    );
    let mut lazy: Vec<TcpStream> = Vec::new();
    for _ in 0..300 {
        let mut socket = connect(server.port("plain"));
        socket
            .write_all(b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n")
            .expect("the server reads");
        lazy.push(socket);
    }
    assert_serves(&server);
    let resident = server.resident_kib();
    assert!(
        resident < 400_000,
        "{resident} KiB for 300 clients that do not read"
    );
    wait_for("every one of them to be timed out", || {
        let log = server.error_log();
        (log.matches("client timed out").count() >= lazy.len()).then_some(())
    });
    let rest = read_to_close(&lazy[0]);
    assert!(
        rest.len() < 30_000_000,
        "the server closed before it had sent everything"
    );
    assert_eq!(get(server.port("plain"), "/a.txt").text(), "alpha");
}

#[test]
fn logs_on_a_full_disk_do_not_stop_the_service() {
    let site = site();
    let content = Random::new(5).bytes(300_000);
    site.write("html/b.bin", &content);
    let configuration = "worker_processes 1; error_log /dev/full info; pid logs/pid; events {}
        http { access_log /dev/full; server { listen 127.0.0.1:%plain%; root html; } }";
    let server = site.serve_whole(configuration);
    server.expect_alert("\"/dev/full\" cannot be written (28: No space left on device)");
    for _ in 0..200 {
        assert_eq!(
            sha256(&get(server.port("plain"), "/b.bin").body),
            sha256(&content)
        );
        assert_eq!(get(server.port("plain"), "/missing").status, 404);
    }
    // Standard error still takes the news, once and not for each lost line.
    server.wait_for_log("cannot be written");
    let notices = server
        .error_log()
        .lines()
        .filter(|line| line.contains("cannot be written"))
        .count();
    assert!(notices < 10, "{notices} notices about the same full disk");
}
