//! `processes`: programs beside the workers, with sockets of the master.

use sealane_tests::reload::{self, Reload};
use sealane_tests::upgrade::{Daemon, runs, signal};
use sealane_tests::{Program, Server, Site, wait_for};
use std::io::Read;
use std::net::TcpStream;

/// Says who it is to everyone who connects.
const PROGRAM: &str = r#"
import os, socket, sys
first, count = 3, int(os.environ["LISTEN_FDS"])
assert os.environ["LISTEN_PID"] == str(os.getpid())
sockets = [socket.socket(fileno=first + number) for number in range(count)]
others = [fd for fd in os.listdir("/proc/self/fd") if int(fd) >= first + count]
others = [fd for fd in others if os.path.exists("/proc/self/fd/" + fd)]
print("ready", file=sys.stderr, flush=True)
while True:
    client, _ = sockets[0].accept()
    says = [os.getpid(), os.environ["LISTEN_FDNAMES"], os.environ.get("COLOUR"),
            os.environ.get("SHAPE"), os.getuid(), os.nice(0), len(others), os.getcwd()]
    client.sendall((" ".join(map(str, says + sys.argv[1:]))).encode())
    client.close()
"#;

fn site() -> Site {
    let site = Site::new();
    site.write("program.py", PROGRAM);
    site
}

/// With a process that has these further directives and arguments.
fn configuration(site: &Site, arguments: &str, directives: &str) -> String {
    let script = site.path("program.py");
    let process = match arguments {
        "absent" => String::new(),
        arguments => format!(
            "processes {{ process speaker {{
               command /usr/bin/python3 {} {arguments};
               listen 127.0.0.1:%speaker%; delay_start 10ms; {directives} }} }}",
            script.display()
        ),
    };
    format!(
        "worker_processes 1; error_log logs/error.log info; pid logs/pid;
         env COLOUR=red; env SHAPE; {process}
         events {{ }}
         http {{ access_log off;
           client_body_temp_path temporary/a; proxy_temp_path temporary/b;
           fastcgi_temp_path temporary/c; uwsgi_temp_path temporary/d; scgi_temp_path temporary/e;
           server {{ listen 127.0.0.1:%plain%; location / {{ return 204; }} }} }}"
    )
}

/// What the process says, word by word.
fn asked(port: u16) -> Vec<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).expect("the master listens");
    let mut text = String::new();
    connection.read_to_string(&mut text).expect("an answer");
    text.split(' ').map(str::to_owned).collect()
}

fn pid_of(port: u16) -> u32 {
    asked(port)[0].parse().expect("a number")
}

#[test]
fn a_process_inherits_sockets_and_little_else() {
    let site = site();
    let server = site.serve_whole(&configuration(&site, "one 'two three'", "priority 5;"));
    let words = asked(server.port("speaker"));
    let is_root = fs_uid(&words[0]) == 65534;
    let uid = if is_root { "65534" } else { words[4].as_str() };
    let expected = [
        "speaker", "red", "None", uid, "5", "0", "/", "one", "two", "three",
    ];
    assert_eq!(words[1..], expected);
    server.wait_for_log("process \"speaker\" says: ready");
    server.wait_for_log("start process \"speaker\", process ");
}

/// Whom a process runs as, by the kernel.
fn fs_uid(pid: &str) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let uid = line.and_then(|line| line.split_whitespace().next());
    uid.expect("it has one").parse().expect("a number")
}

#[test]
fn a_process_that_dies_is_started_again_and_no_connection_is_refused() {
    let site = site();
    let server = site.serve_whole(&configuration(&site, "", ""));
    let port = server.port("speaker");
    let mut before = pid_of(port);
    for _ in 0..3 {
        signal(before, "KILL");
        wait_for("its end", || (!runs(before)).then_some(()));
        // The connection waits for the next one.
        let after = pid_of(port);
        assert_ne!(after, before);
        before = after;
    }
    server.wait_for_log("exited on signal 9; it is started again in ");
    server.expect_alert("exited on signal 9");
    let status = server.stop("QUIT");
    assert!(status.success());
    assert!(!runs(before));
}

#[test]
fn a_reload_starts_again_what_has_changed() {
    let site = site();
    let server = site.serve_whole(&configuration(&site, "one", "count 2;"));
    let port = server.port("speaker");
    let reload = |arguments: &str, directives: &str| {
        let text = configuration(&site, arguments, directives);
        assert_eq!(reload::reload(&site, &server, &text), Reload::Applied);
    };
    let pids = both(&server);
    reload("one", "count 2; respawn 2s;");
    assert!(!server.error_log().contains("is told to end"));
    assert!(pids.iter().all(|pid| runs(*pid)));
    reload("two", "");
    for pid in pids {
        wait_for("the end of the one before", || (!runs(pid)).then_some(()));
    }
    let words = asked(port);
    assert_eq!(words.last().map(String::as_str), Some("two"));
    server.wait_for_log("is told to end");
    let last = pid_of(port);
    reload("absent", "");
    wait_for("its end", || (!runs(last)).then_some(()));
    wait_for("a closed socket", || {
        TcpStream::connect(("127.0.0.1", port))
            .is_err()
            .then_some(())
    });
}

/// The processes that share the socket.
fn both(server: &Server<'_>) -> [u32; 2] {
    server.wait_for_log("process \"speaker\" 1 says: ready");
    server.wait_for_log("process \"speaker\" 2 says: ready");
    let log = server.error_log();
    let number_after = |text: &str| {
        let (_, rest) = log.rsplit_once(text).expect("it was started");
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
        digits.expect("a number").parse().expect("a number")
    };
    [1, 2].map(|number| number_after(&format!("start process \"speaker\" {number}, process ")))
}

#[test]
fn a_process_that_is_not_wanted_again_stays_away() {
    let site = site();
    let text = configuration(&site, "", "").replace(
        "processes {",
        "processes { process once { command /bin/sh -c 'exit 7'; respawn off; }
         process missing { command /bin/sh /nonexistent; respawn 100ms; }",
    );
    let server = site.serve_whole(&text);
    let log = server.wait_for_log("process \"once\" (process ");
    let log = match log.contains(" exited with code 7") {
        true => log,
        false => server.wait_for_log(" exited with code 7"),
    };
    assert!(!log.contains("exited with code 7;"), "{log}");
    server.wait_for_log("process \"missing\" (process ");
    server.wait_for_log("; it is started again in 100 ms");
}

#[test]
fn the_socket_goes_on_with_another_binary() {
    let site = site();
    std::fs::create_dir_all(site.path("temporary")).expect("writable");
    let daemon = Daemon::start(&site, Program::Sealane, &configuration(&site, "", ""));
    let port = site.port("speaker");
    let before = pid_of(port);
    daemon.upgrade();
    wait_for("the end of the one before", || {
        (!runs(before)).then_some(())
    });
    let after = pid_of(port);
    assert_ne!(after, before);
}

#[test]
fn what_cannot_run_is_refused() {
    let site = site();
    for (block, message) in [
        ("process a { }", "process \"a\" has no \"command\""),
        (
            "process a { command /nonexistent; }",
            "process \"a\" cannot be used: \"/nonexistent\" cannot be executed (2: ",
        ),
        (
            "process a { command relative; }",
            "\"relative\" of \"command\" is not an absolute path",
        ),
        (
            "process a { command /bin/true; } process a { command /bin/true; }",
            "duplicate process \"a\"",
        ),
        (
            "process a { command /bin/true; listen 127.0.0.1:%plain%; }",
            "have the same address 127.0.0.1:",
        ),
        (
            "process a { command /bin/true; count 65; }",
            "value must be between 1 and 64",
        ),
    ] {
        let text = configuration(&site, "absent", "");
        let text = text.replace("events {", &format!("processes {{ {block} }} events {{"));
        reload::configure(&site, &text);
        let outcome = reload::ask(&site, &["-t"]);
        assert_ne!(outcome.status, 0, "{block}");
        assert!(
            outcome.stderr.contains(message),
            "{block}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn a_process_may_have_a_user_of_its_own() {
    sealane_needs::root();
    let site = site();
    let server = site.serve_whole(&configuration(&site, "", "user root;"));
    assert_eq!(asked(server.port("speaker"))[4], "0");
    let text = configuration(&site, "", "user nobody-of-this-name;");
    reload::configure(&site, &text);
    let outcome = reload::ask(&site, &["-t"]);
    assert_ne!(outcome.status, 0);
    server.expect_alert("getpwnam(\"nobody-of-this-name\") failed");
    let message = "process \"speaker\": getpwnam(\"nobody-of-this-name\") failed";
    assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
}
