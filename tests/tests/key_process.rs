//! `ssl_key_process`: what the process that holds the keys may do, and what becomes of handshakes
//! when it dies, hangs, or is replaced.

#[path = "key_process/upstreams.rs"]
mod upstreams;

use sealane_tests::reload::{Reload, reload};
use sealane_tests::upgrade::{Daemon, KeptTls, signal};
use sealane_tests::{
    Certificate, CertificateKey, Program, Server, Site, command, handshake, scale, wait_for, wire,
};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const SERVE: &str = "
    error_log logs/error.log notice;
    pid logs/pid;
    worker_processes 2;
    events { worker_connections 256; }
    http {
        access_log off;
        PROCESS
        server { listen 127.0.0.1:%plain%; root html; }
        server {
            listen 127.0.0.1:%tls% ssl;
            keepalive_timeout 600s;
            ssl_certificate certificates/rsa.pem;
            ssl_certificate_key certificates/rsa.key;
            ssl_certificate certificates/ec.pem;
            ssl_certificate_key certificates/ec.key;
            ssl_session_tickets off;
            root html;
        }
    }";

fn site() -> Site {
    let site = Site::new();
    for (name, key) in [("rsa", CertificateKey::Rsa), ("ec", CertificateKey::P256)] {
        site.certificate(&Certificate::localhost(name, key));
    }
    site.write("html/a.txt", b"hello");
    site
}

fn start(site: &Site) -> Server<'_> {
    Server::start(site, Program::Sealane, &SERVE.replace("PROCESS", ""))
}

/// Options of `openssl s_client` for handshakes with either key.
const KINDS: [&str; 3] = [
    "-tls1_3",
    "-tls1_3 -sigalgs rsa_pss_rsae_sha256",
    "-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256",
];

#[track_caller]
fn shake_hands(server: &Server<'_>) {
    for kind in KINDS {
        let outcome = handshake(server, kind);
        assert!(outcome.succeeded(), "{kind}: {}", outcome.output);
    }
}

#[test]
fn it_has_no_rights_no_files_and_no_network() {
    let site = site();
    let server = start(&site);
    shake_hands(&server);
    if !sealane_needs::is_root() {
        // Not even its own user may look into it, only root.
        sealane_needs::leave_out("what the key process has: only root may look into it");
        return;
    }
    let pid = server.key_process_pid();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let has = |line: &str| status.lines().any(|it| it.replace('\t', " ") == line);
    for line in ["NoNewPrivs: 1", "Seccomp: 2"] {
        assert!(has(line), "{status}");
    }
    for set in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
        assert!(has(&format!("{set}: 0000000000000000")), "{status}");
    }
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let zeros = core
        .expect("a limit")
        .split_whitespace()
        .filter(|word| *word == "0");
    assert_eq!(zeros.count(), 2, "{limits}");
    // Sockets to master and workers, and what it waits with; no file, and no socket of a network.
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
    for fd in fds {
        let path = fd.expect("readable").path();
        let number: u32 = path
            .file_name()
            .and_then(|it| it.to_str()?.parse().ok())
            .expect("one");
        let leads_to = std::fs::read_link(&path)
            .unwrap_or_default()
            .display()
            .to_string();
        let inode = leads_to
            .strip_prefix("socket:[")
            .and_then(|it| it.strip_suffix(']'));
        let is_local = inode.is_some_and(|inode| {
            let sockets = std::fs::read_to_string("/proc/net/unix").expect("/proc is mounted");
            sockets
                .lines()
                .any(|line| line.split_whitespace().nth(6) == Some(inode))
        });
        let is_own = leads_to.starts_with("anon_inode:[event");
        let is_nothing = number < 3 && leads_to == "/dev/null";
        assert!(is_nothing || is_local || is_own, "{number}: {leads_to}");
    }
}

#[test]
fn without_it_keys_are_used_in_the_worker_and_a_reload_brings_it_and_takes_it() {
    let site = site();
    let off = SERVE.replace("PROCESS", "ssl_key_process off;");
    let on = SERVE.replace("PROCESS", "ssl_key_process on;");
    let server = Server::start(&site, Program::Sealane, &off);
    let has_none = || {
        let path = format!("/proc/{0}/task/{0}/children", server.pid());
        let children = std::fs::read_to_string(path).unwrap_or_default();
        children.split_whitespace().count() == 1
    };
    shake_hands(&server);
    assert!(has_none());
    for _ in 0..2 {
        assert_eq!(reload(&site, &server, &on), Reload::Applied);
        shake_hands(&server);
        server.key_process_pid();
        assert_eq!(reload(&site, &server, &off), Reload::Applied);
        shake_hands(&server);
        wait_for("the key process to end", || has_none().then_some(()));
    }
    let log = server.error_log();
    assert!(log.contains("\"ssl_key_process\" has changed"), "{log}");
}

/// Established connections notice nothing, and handshakes wait for the next process.
/// Kills the key process, and waits until each of those who count has gone on by two: then it has
/// no operation under way that has seen the process die. One that sees two die fails.
#[track_caller]
fn kill_between(server: &Server<'_>, done: &[AtomicUsize]) {
    let counts = || done.iter().map(|it| it.load(Ordering::Relaxed));
    let before: Vec<usize> = counts().collect();
    server.kill_key_process();
    wait_for("everybody to go on", || {
        let mut pairs = counts().zip(&before);
        pairs.all(|(now, before)| now >= before + 2).then_some(())
    });
}

#[test]
fn it_may_be_killed_again_and_again_under_load() {
    let site = site();
    let server = start(&site);
    server.expect_alert("exited on signal 9; handshakes wait");
    let kept: Vec<_> = KINDS
        .iter()
        .map(|kind| {
            let mut kept = KeptTls::open(server.port("tls"), kind);
            assert!(kept.get("/a.txt") == "hello");
            kept
        })
        .collect();
    let (ends, failed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let done = KINDS.map(|_| AtomicUsize::new(0));
    let kills = scale(6, 50);
    let port = server.port("tls");
    std::thread::scope(|scope| {
        for (kind, done) in KINDS.iter().zip(&done) {
            let (ends, failed) = (&ends, &failed);
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let client = Command::new("openssl")
                        .args(["s_client", "-connect", &format!("127.0.0.1:{port}")])
                        .args(kind.split_whitespace())
                        .stdin(Stdio::null())
                        .stdout(Stdio::null())
                        .stderr(Stdio::null())
                        .status();
                    let count = match client.expect("openssl starts").success() {
                        true => done,
                        false => failed,
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..kills {
            kill_between(&server, &done);
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(failed.load(Ordering::Relaxed), 0, "of {done:?} handshakes");
    for mut kept in kept {
        assert!(kept.get("/a.txt") == "hello");
    }
}

#[test]
fn while_it_hangs_connections_go_on_and_handshakes_wait() {
    let site = site();
    let server = start(&site);
    shake_hands(&server);
    let mut kept = KeptTls::open(server.port("tls"), "-tls1_3");
    assert!(kept.get("/a.txt") == "hello");
    let pid = server.key_process_pid();
    signal(pid, "STOP");
    let mut clients: Vec<_> = KINDS
        .iter()
        .map(|kind| {
            Command::new("openssl")
                .args([
                    "s_client",
                    "-connect",
                    &format!("127.0.0.1:{}", server.port("tls")),
                ])
                .args(kind.split_whitespace())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("openssl starts")
        })
        .collect();
    for _ in 0..20 {
        assert!(kept.get("/a.txt") == "hello");
        assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
        std::thread::sleep(Duration::from_millis(10));
    }
    for client in &mut clients {
        let ended = client.try_wait().expect("it is ours");
        assert!(ended.is_none(), "a handshake is over without a signature");
    }
    signal(pid, "CONT");
    for mut client in clients {
        assert!(client.wait().expect("it is ours").success());
    }
    assert!(kept.get("/a.txt") == "hello");
}

/// The first worker may come after the death of the process that was started for it, and a reload
/// right after it.
#[test]
fn it_may_die_at_bad_moments() {
    let site = site();
    let text = SERVE.replace("PROCESS", "");
    for _ in 0..scale(3, 30) {
        let server = Server::start(&site, Program::Sealane, &text);
        server.expect_alert("exited on signal 9; handshakes wait");
        signal(server.key_process_pid(), "KILL");
        shake_hands(&server);
        signal(server.key_process_pid(), "KILL");
        assert_eq!(reload(&site, &server, &text), Reload::Applied);
        shake_hands(&server);
    }
}

/// What is in use comes from memory that the master has kept: the files need not be there.
#[test]
fn the_next_process_needs_no_files() {
    let site = site();
    let server = start(&site);
    server.expect_alert("exited on signal 9; handshakes wait");
    for name in ["rsa", "ec"] {
        std::fs::write(
            site.path(format!("certificates/{name}.key")),
            "half written",
        )
        .expect("ours");
    }
    server.kill_key_process();
    shake_hands(&server);
    // The worker may die as well.
    server.expect_alert("exited on signal 9");
    server.kill_worker();
    shake_hands(&server);
}

/// The master may still be opening sockets then, and does not watch it yet.
#[test]
fn one_that_dies_during_the_start_is_replaced() {
    let site = site();
    let socket = |number: u32| site.path(format!("logs/{number}.sock"));
    let listen = |number| format!("listen unix:{};", socket(number).display());
    let many: String = (0..200).map(listen).collect();
    let text = SERVE
        .replace("PROCESS", &format!("server {{ {many} root html; }}"))
        .replace("listen 127.0.0.1:%plain%;", &listen(200));
    let server = Server::start_unready(&site, Program::Sealane, &text);
    server.expect_alert("exited on signal 9; handshakes wait");
    wait_for("the first socket", || socket(0).exists().then_some(()));
    signal(server.key_process_pid(), "KILL");
    wait_for("a handshake", || {
        handshake(&server, KINDS[0]).succeeded().then_some(())
    });
    shake_hands(&server);
}

#[test]
fn a_certificate_and_its_key_may_be_in_one_file_and_the_key_encrypted() {
    let site = site();
    let read = |name: &str| std::fs::read_to_string(site.path(name)).expect("it is there");
    let both = format!(
        "{}{}",
        read("certificates/ec.key"),
        read("certificates/ec.pem")
    );
    site.write("certificates/both.pem", both);
    let rsa = site.path("certificates/rsa.key").display().to_string();
    let encrypted = ["pkey", "-in", &rsa, "-aes256", "-passout", "pass:secret"];
    let encrypted = command("openssl", &encrypted, b"").success().text();
    site.write("certificates/encrypted.key", encrypted);
    site.write("passwords", "wrong\nsecret\n");
    let text = SERVE
        .replace("PROCESS", "ssl_password_file passwords;")
        .replace("certificates/ec.pem", "certificates/both.pem")
        .replace("certificates/ec.key", "certificates/both.pem")
        .replace("certificates/rsa.key", "certificates/encrypted.key");
    let server = Server::start(&site, Program::Sealane, &text);
    shake_hands(&server);
    assert_eq!(reload(&site, &server, &text), Reload::Applied);
    shake_hands(&server);
    // A password that decrypts nothing is told as without a key process.
    site.write("passwords", "wrong\n");
    assert_eq!(reload(&site, &server, &text), Reload::Refused);
    let log = server.error_log();
    assert!(
        log.contains("no password in \"ssl_password_file\" decrypts it"),
        "{log}"
    );
    server.expect_alert("cannot load certificate key");
    shake_hands(&server);
}

#[test]
fn a_key_that_is_not_that_of_the_certificate_is_refused_as_ever() {
    let site = site();
    let server = start(&site);
    let text = SERVE
        .replace("PROCESS", "")
        .replace("certificates/ec.key", "certificates/rsa.key");
    assert_eq!(reload(&site, &server, &text), Reload::Refused);
    let log = server.error_log();
    assert!(
        log.contains("KEY_VALUES_MISMATCH") || log.contains("KEY_TYPE_MISMATCH"),
        "{log}"
    );
    server.expect_alert("SSL_CTX_use_PrivateKey");
    shake_hands(&server);
}

/// Each binary has a process of its own; the old one's ends with it.
#[test]
fn an_upgrade_has_another_process() {
    let site = site();
    let text = SERVE.replace("PROCESS", "");
    let server = Daemon::start(&site, Program::Sealane, &text);
    let get = || {
        let address = format!("https://localhost:{}/a.txt", site.port("tls"));
        let outcome = command("curl", &["-sk", "--no-keepalive", &address], b"").success();
        assert_eq!(outcome.text(), "hello");
    };
    get();
    let old = server.pid();
    server.begin_upgrade();
    for _ in 0..10 {
        get();
    }
    signal(old, "QUIT");
    server.wait_for_end(old);
    for _ in 0..10 {
        get();
    }
}
