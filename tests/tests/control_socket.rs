//! `control_socket`, and the commands that ask a running server there: `sealane status`,
//! `sealane certificates` and `sealane top`.

use sealane_tests::reload::{Reload, ask, reload};
use sealane_tests::terminal::Terminal;
use sealane_tests::upgrade::{Daemon, runs, signal};
use sealane_tests::{
    Certificate, CertificateKey, Outcome, Program, Server, Site, command, sealane_binary, wait_for,
    wire,
};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

const CONFIGURATION: &str = "
    pid logs/pid; worker_processes 2; error_log logs/error.log notice; MAIN
    events {}
    http {
        access_log off; deny 10.0.0.0/8; auth_basic closed; auth_basic_user_file /none;
        limit_req_zone $server_name zone=narrow:1m rate=1r/m;
        server { listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl; server_name a.test;
            ssl_certificate certificates/localhost.pem;
            ssl_certificate_key certificates/localhost.key;
            auth_basic off; root html;
            location /busy { limit_req zone=narrow; } }
        server { listen 127.0.0.1:%other%; server_name b.test; auth_basic off; return 500; }
    }";

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("localhost", CertificateKey::P256));
    site.write("html/page", "page");
    site.write("html/busy/page", "page");
    site
}

fn with(main: &str) -> String {
    CONFIGURATION.replace("MAIN", main)
}

/// Runs a command of the program beside the server, as its operator would.
#[track_caller]
fn run(site: &Site, arguments: &[&str]) -> Outcome {
    let (prefix, file) = (site.path(""), site.path("sealane.conf"));
    let (prefix, file) = (prefix.display().to_string(), file.display().to_string());
    let all = [arguments, &["-p", &prefix, "-c", &file]].concat();
    command(&sealane_binary().display().to_string(), &all, b"")
}

/// Asks as any client of a Unix socket could.
fn curl(socket: &Path, target: &str) -> Outcome {
    let socket = socket.display().to_string();
    let url = format!("http://localhost{target}");
    let arguments = ["-sS", "-i", "--unix-socket", &socket, &url];
    command("curl", &arguments, b"")
}

fn is_socket(path: &Path) -> bool {
    let found = path.symlink_metadata();
    found.is_ok_and(|found| found.file_type().is_socket())
}

#[test]
fn only_its_owner_may_connect_and_it_inherits_nothing() {
    let site = site();
    let server = site.serve_whole(&with("user nobody nogroup;"));
    let socket = site.path("logs/pid.control.sock");
    let mode = socket.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    // What `http` refuses or asks for is not inherited.
    let answer = curl(&socket, "/metrics").success().text();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("sealane_requests_total"), "{answer}");
    assert!(
        !answer.contains("\"control"),
        "it has a zone of its own: {answer}"
    );
    let answer = curl(&socket, "/status/http/server_zones").success().text();
    assert!(answer.contains("\"a.test\""), "{answer}");
    for (method, target, status) in [
        ("GET", "/", 404),
        ("GET", "/metrics/x", 404),
        ("POST", "/metrics", 405),
        ("DELETE", "/status/", 405),
    ] {
        let path = socket.display().to_string();
        let url = format!("http://localhost{target}");
        let arguments = ["-sS", "-i", "-X", method, "--unix-socket", &path, &url];
        let answer = command("curl", &arguments, b"").success().text();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{method} {target}: {answer}"
        );
    }
    let refused = ["-u", "nobody", "--", "curl", "-sS", "--unix-socket"];
    let path = socket.display().to_string();
    let refused = [&refused[..], &[&path, "http://localhost/metrics"]].concat();
    let refused = command("runuser", &refused, b"");
    assert_eq!(refused.status, 7, "{}", refused.stderr);
    assert!(server.stop("TERM").success());
    assert!(!socket.exists(), "it goes with the server");
}

#[test]
fn it_moves_with_the_configuration_and_can_be_off() {
    let site = site();
    let server = site.serve_whole(&with(""));
    let first = site.path("logs/pid.control.sock");
    assert!(is_socket(&first));
    // A test beside the server neither complains nor takes the socket away.
    let tested = ask(&site, &["-t"]).success();
    assert!(!tested.stderr.contains("control"), "{}", tested.stderr);
    run(&site, &["status"]).success();

    let second = site.path("logs/own.sock");
    assert_eq!(
        reload(&site, &server, &with("control_socket logs/own.sock;")),
        Reload::Applied
    );
    assert!(is_socket(&second));
    run(&site, &["status"]).success();
    wait_for("the old one to go", || (!first.exists()).then_some(()));

    assert_eq!(
        reload(&site, &server, &with("control_socket off;")),
        Reload::Applied
    );
    wait_for("the second one to go", || (!second.exists()).then_some(()));
    let asked = run(&site, &["status"]);
    assert_eq!(asked.status, 1);
    assert!(
        asked
            .stderr
            .contains("has no control socket: \"control_socket\" is off"),
        "{}",
        asked.stderr
    );
    let (prefix, long) = (site.path(""), "x".repeat(120));
    server.expect_alert("bad.conf");
    for (main, why) in [
        (
            format!("control_socket {long};"),
            "too long path of a socket",
        ),
        (
            "control_socket a; control_socket b;".to_owned(),
            "\"control_socket\" directive is duplicate",
        ),
    ] {
        site.write("bad.conf", site.fill_in(&with(&main)));
        let (prefix, file) = (
            prefix.display().to_string(),
            site.path("bad.conf").display().to_string(),
        );
        let refused = command(
            &sealane_binary().display().to_string(),
            &["-t", "-p", &prefix, "-c", &file],
            b"",
        );
        assert_eq!(refused.status, 1);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
}

#[test]
fn a_server_that_cannot_have_it_serves_all_the_same() {
    let site = site();
    // Another program listens there.
    let taken = UnixListener::bind(site.path("logs/pid.control.sock")).expect("a free path");
    let server = site.serve_whole(&with(""));
    server.wait_for_log("there is no control socket");
    let log = server.error_log();
    assert!(log.contains("bind() to unix:"), "{log}");
    assert!(
        log.contains("name another path with \"control_socket\""),
        "{log}"
    );
    assert_eq!(wire::get(server.port("plain"), "/page").text(), "page");
    // The other program's socket stays.
    drop(server);
    assert!(is_socket(&site.path("logs/pid.control.sock")));
    drop(taken);
    // What a killed server has left behind is replaced.
    let server = site.serve_whole(&with(""));
    run(&site, &["status"]).success();
    drop(server);
    let server = site.serve_whole(&with("control_socket nowhere/to/go.sock;"));
    server.wait_for_log("there is no control socket");
    assert_eq!(wire::get(server.port("plain"), "/page").text(), "page");
}

#[test]
fn an_upgrade_keeps_it() {
    let site = site();
    site.write("html/page", "page");
    let daemon = Daemon::start(&site, Program::Sealane, &with(""));
    let socket = site.path("logs/pid.control.sock").display().to_string();
    let binary = sealane_binary().display().to_string();
    let status = ["status", "--socket", &socket];
    let asked = || command(&binary, &status, b"").success().text();
    assert!(asked().contains("connections"));
    daemon.upgrade();
    assert!(asked().contains("connections"));
    assert!(is_socket(&site.path("logs/pid.control.sock")));
    let pid = daemon.pid();
    signal(pid, "TERM");
    daemon.wait_for_end(pid);
    assert!(!site.path("logs/pid.control.sock").exists());
}

/// Some of everything: requests, errors, handshakes, and a limit that refuses.
fn work(server: &Server<'_>) {
    for _ in 0..20 {
        assert_eq!(wire::get(server.port("plain"), "/page").text(), "page");
        assert_eq!(wire::get(server.port("other"), "/").status, 500);
        wire::get(server.port("plain"), "/busy/page");
    }
    let url = format!("https://localhost:{}/page", server.port("tls"));
    for _ in 0..3 {
        command("curl", &["-skS", &url], b"").success();
    }
}

#[test]
fn status_tells_what_is_counted_and_what_is_wrong() {
    let site = site();
    let server = site.serve_whole(&with(""));
    work(&server);
    let told = run(&site, &["status"]).success().text();
    for line in [
        " with AWS-LC ",
        ", up ",
        "2 worker threads",
        "connections   ",
        "5xx",
        "TLS           3 handshakes, 0 % resumed; 0 failed, 0 refused",
        "certificates  ",
        "Nothing is wrong at the moment.",
        "requests were rejected by limit_req since the start: narrow rejected",
    ] {
        assert!(told.contains(line), "{line} is not in\n{told}");
    }
    // As JSON it is what `metrics` says, and other programs read it.
    let json = run(&site, &["status", "--json"]).success().text();
    let script = "import json,sys; d=json.load(sys.stdin)['families']; \
        print(d['sealane_tls_handshakes']['samples'][0][0], len(d['sealane_build_info']['samples']))";
    let read = command("python3", &["-c", script], json.as_bytes()).success();
    assert_eq!(read.text().trim(), "3 1");

    // A certificate of a test lasts for less than two years.
    let listed = run(&site, &["certificates"]).success().text();
    assert!(
        listed.contains("localhost.pem") && listed.contains("a.test"),
        "{listed}"
    );
    let none = run(&site, &["certificates", "--within", "0"])
        .success()
        .text();
    assert_eq!(none, "No certificate ends within 0 days.\n");
    let soon = run(&site, &["certificates", "--within", "9999", "--json"]);
    assert_eq!(soon.status, 2, "{}", soon.stderr);
    let script =
        "import json,sys; d=json.load(sys.stdin); print(len(d), d[0]['servers'], d[0]['key'])";
    let read = command("python3", &["-c", script], &soon.stdout).success();
    assert_eq!(read.text().trim(), "1 ['a.test'] p256");

    drop(server);
    let asked = run(&site, &["status"]);
    assert_eq!(asked.status, 1);
    assert!(
        asked.stderr.contains("no server can be asked at"),
        "{}",
        asked.stderr
    );
    assert!(
        asked.stderr.contains("does Sealane run"),
        "{}",
        asked.stderr
    );
    let asked = command(
        &sealane_binary().display().to_string(),
        &["certificates", "-c", "/nonexistent.conf"],
        b"",
    );
    assert_eq!(asked.status, 1);
    assert!(
        asked.stderr.contains("name the socket with --socket"),
        "{}",
        asked.stderr
    );
    // A socket where something else answers.
    let plain = UnixListener::bind(site.path("silent.sock")).expect("a free path");
    let silent = std::thread::spawn(move || {
        use std::io::Write;
        let (mut stream, _) = plain.accept().expect("the command connects");
        stream.write_all(b"SSH-2.0-nothing\r\n").expect("it reads");
    });
    let socket = site.path("silent.sock").display().to_string();
    let binary = sealane_binary().display().to_string();
    let asked = command(&binary, &["status", "--socket", &socket], b"");
    assert_eq!(asked.status, 1);
    assert!(
        asked.stderr.contains("invalid response"),
        "{}",
        asked.stderr
    );
    silent.join().expect("it was asked");
}

#[test]
fn top_shows_all_of_it_in_a_terminal() {
    let site = site();
    let server = site.serve_whole(&with(""));
    let socket = site.path("logs/pid.control.sock");
    let line = format!(
        "{} top --delay 1 --socket {}",
        sealane_binary().display(),
        socket.display()
    );
    let terminal = Terminal::run(&site, 120, 40, &line);
    for text in [
        "Sealane ",
        "Nothing is wrong",
        "connections",
        "handshake p99",
        "kernel TLS",
        "q quit",
    ] {
        terminal.wait_for(text);
    }
    work(&server);
    terminal.wait_for("requests were rejected by limit_req in the last 5 minutes");
    for (key, text) in [
        ("2", "resumed, of all"),
        ("3", "servers: 2"),
        ("4", "locations with a status_zone: 0"),
        ("5", "peers of upstreams: 0"),
        ("6", "caches: 0"),
        ("7", "narrow limit_req"),
        ("8", "localhost.pem"),
        ("9", "an attack, or a limit that is too low"),
    ] {
        terminal.press(&[key]);
        terminal.wait_for(text);
    }
    terminal.press(&["3", "/", "b", ".", "t", "Enter"]);
    let screen = terminal.wait_for("1 of 2 match \"b.t\"");
    assert!(
        screen.contains("b.test") && !screen.contains("a.test"),
        "{screen}"
    );
    terminal.press(&["Escape"]);
    terminal.wait_for("servers: 2");
    terminal.press(&["Space"]);
    terminal.wait_for("paused");
    terminal.press(&["Space", "+"]);
    terminal.wait_for("every 2 s");
    // The server may go and come back.
    drop(server);
    terminal.press(&["-"]);
    terminal.wait_for("No answer for");
    let server = site.serve_whole(&with(""));
    terminal.wait_for("up ");
    terminal.press(&["q"]);
    let screen = terminal.wait_for("ended with 0");
    assert!(
        !screen.contains("q quit"),
        "the terminal is given back: {screen}"
    );
    drop(terminal);

    // A small one, and a signal.
    let terminal = Terminal::run(&site, 60, 14, &line);
    terminal.wait_for("problems");
    signal(terminal.pid(), "TERM");
    terminal.wait_for("ended with 0");
    drop(terminal);
    // A terminal that is closed takes it along, also where nobody passes HUP on.
    for command_line in [line.clone(), format!("trap '' HUP; {line}")] {
        let terminal = Terminal::run(&site, 80, 24, &command_line);
        terminal.wait_for("problems");
        let pid = terminal.pid();
        drop(terminal);
        wait_for("the end of sealane top", || (!runs(pid)).then_some(()));
    }
    // It says why it cannot begin.
    let line = format!("{} top --socket /nonexistent", sealane_binary().display());
    let terminal = Terminal::run(&site, 120, 20, &line);
    terminal.wait_for("ended with 1");
    assert!(
        terminal
            .screen()
            .contains("no server can be asked at /nonexistent")
    );
    let piped = run(&site, &["top"]);
    assert_eq!(piped.status, 1);
    assert!(
        piped.stderr.contains("use \"sealane status\""),
        "{}",
        piped.stderr
    );
    drop(server);
}
