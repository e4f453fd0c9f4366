//! Another configuration while the server runs: what changes, what stays, and that nothing is
//! lost on the way.

use sealane_tests::http2::{Client, code};
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::reload::{Reload, ask, configure, reload, reload_as_it_is};
use sealane_tests::upgrade::signal;
use sealane_tests::wire::{self, Connection};
use sealane_tests::{
    Certificate, CertificateKey, Outcome, Program, Server, Site, command, handshake, scale,
    wait_for,
};
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// A whole configuration with one server of one line.
fn answering(text: &str) -> String {
    configuration(
        "",
        &format!("server {{ listen 127.0.0.1:%plain%; return 200 {text}; }}"),
    )
}

fn configuration(main: &str, http: &str) -> String {
    let processes = match main.contains("worker_processes") {
        true => "",
        false => "worker_processes 2;",
    };
    let pid = match main.contains("pid ") {
        true => "",
        false => "pid logs/pid;",
    };
    format!(
        "{processes} {pid} error_log logs/error.log info; {main}\n\
         events {{}}\nhttp {{ access_log off;\n{http}\n}}\n"
    )
}

fn body(port: u16) -> String {
    wire::get(port, "/").text()
}

#[track_caller]
fn applied(site: &Site, server: &Server<'_>, configuration: &str) {
    assert_eq!(reload(site, server, configuration), Reload::Applied);
}

fn refuses(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_err()
}

/// The descriptors of a process.
fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let value = line.and_then(|line| line.split_whitespace().nth(1));
    value.and_then(|kib| kib.parse().ok()).expect("a number")
}

#[test]
fn the_worker_process_takes_another_configuration_in_place() {
    let site = Site::new();
    let server = site.serve_whole(&answering("one"));
    let worker = server.worker_pid();
    assert_eq!(body(server.port("plain")), "one");
    applied(&site, &server, &answering("two"));
    assert_eq!(body(server.port("plain")), "two");
    assert_eq!(server.worker_pids(), [worker]);
    let log = server.error_log();
    for line in [
        "signal 1 (SIGHUP) received from ",
        ", reconfiguring\n",
        "[notice] ",
    ] {
        assert!(log.contains(line), "no {line:?} in\n{log}");
    }
}

#[test]
fn the_command_line_reloads_and_says_what_is_wrong() {
    let site = Site::new();
    let server = site.serve_whole(&answering("one"));
    configure(&site, &answering("two"));
    // It listens before it writes its pid file, as nginx does.
    wait_for("the pid file", || {
        site.path("logs/pid").exists().then_some(())
    });
    let outcome = ask(&site, &["-s", "reload"]).success();
    assert!(outcome.stderr.is_empty(), "{}", outcome.stderr);
    wait_for("the new answer", || {
        (body(server.port("plain")) == "two").then_some(())
    });
    // What only the certificates tell: nothing is sent, and the text is that of -t.
    server.expect_alert("cannot load certificate");
    let tls = "server { listen 127.0.0.1:%tls% ssl; ssl_certificate none.pem; \
               ssl_certificate_key none.key; }";
    configure(&site, &configuration("", tls));
    let signals = server.error_log().matches("SIGHUP").count();
    let refused = ask(&site, &["-s", "reload"]);
    assert_eq!(refused.status, 1);
    let first_line = |outcome: &Outcome| {
        let mut lines = outcome.stderr.lines();
        lines
            .find(|line| line.contains("[emerg]"))
            .map(str::to_owned)
    };
    assert!(first_line(&refused).is_some(), "{}", refused.stderr);
    assert_eq!(first_line(&refused), first_line(&ask(&site, &["-t"])));
    assert_eq!(server.error_log().matches("SIGHUP").count(), signals);
    assert_eq!(body(server.port("plain")), "two");
}

#[test]
fn names_and_certificates_change_for_new_connections() {
    let site = Site::new();
    for name in ["a.test", "b.test"] {
        let names = format!("DNS:{name}");
        site.certificate(&Certificate {
            name,
            key: CertificateKey::P256,
            names: &names,
        });
    }
    let tls = |name: &str| {
        configuration(
            "",
            &format!(
                "server {{ listen 127.0.0.1:%tls% ssl; server_name {name};
                 ssl_certificate certificates/{name}.pem;
                 ssl_certificate_key certificates/{name}.key; return 200 $server_name; }}"
            ),
        )
    };
    let server = site.serve_whole(&tls("a.test"));
    let port = server.port("tls");
    let curl = |name: &str| {
        let (url, place) = (
            format!("https://{name}:{port}/"),
            format!("{name}:{port}:127.0.0.1"),
        );
        let authority = site.authority().display().to_string();
        let arguments = ["-sS", "--cacert", &authority, "--resolve", &place, &url];
        command("curl", &arguments, b"")
    };
    assert_eq!(curl("a.test").success().text(), "a.test");
    assert_ne!(curl("b.test").status, 0, "the certificate is another's");
    applied(&site, &server, &tls("b.test"));
    assert_eq!(curl("b.test").success().text(), "b.test");
    assert_ne!(curl("a.test").status, 0, "the certificate is another's");
    // The same path with other bytes.
    for suffix in ["pem", "key"] {
        let from = site.path(format!("certificates/a.test.{suffix}"));
        fs::copy(from, site.path(format!("certificates/b.test.{suffix}"))).expect("ours");
    }
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert_ne!(curl("b.test").status, 0, "a renewed certificate is used");
}

#[test]
fn listeners_come_go_and_come_back() {
    let site = Site::new();
    let with = |listen: &str| {
        configuration(
            "",
            &format!("server {{ {listen} return 200 $server_port; }}"),
        )
    };
    let first = "listen 127.0.0.1:%first%;";
    let second = "listen 127.0.0.1:%second%;";
    let socket = site.path("socket");
    let unix = format!("listen unix:{};", socket.display());
    let server = site.serve_whole(&with(first));
    let worker = server.worker_pid();
    let (one, two) = (server.port("first"), site.port("second"));
    for _ in 0..3 {
        applied(&site, &server, &with(&format!("{first} {second} {unix}")));
        assert_eq!(body(one), one.to_string());
        assert_eq!(body(two), two.to_string());
        UnixStream::connect(&socket).expect("it listens");
        applied(&site, &server, &with(second));
        wait_for("the end of a listener", || {
            (refuses(one) && !socket.exists()).then_some(())
        });
        assert_eq!(body(two), two.to_string());
        applied(&site, &server, &with(&format!("{first} {unix}")));
        wait_for("the end of a listener", || refuses(two).then_some(()));
        UnixStream::connect(&socket).expect("it listens again");
        assert_eq!(body(one), one.to_string());
        applied(&site, &server, &with(first));
    }
    assert_eq!(server.worker_pids(), [worker]);
}

#[test]
fn options_of_a_listener_change_while_it_listens() {
    let site = Site::new();
    let with = |options: &str| {
        let listen = format!("listen 127.0.0.1:%plain% {options};");
        configuration("", &format!("server {{ {listen} return 200 ok; }}"))
    };
    let server = site.serve_whole(&with(""));
    let port = server.port("plain");
    // What ss(8) shows of a listening socket as its send queue is the backlog.
    let backlog = || {
        let filter = format!("sport = :{port}");
        let outcome = command("ss", &["-Hltn", &filter], b"").success();
        let text = outcome.text();
        text.split_whitespace().nth(2).map(str::to_owned)
    };
    assert_eq!(backlog().as_deref(), Some("511"));
    applied(&site, &server, &with("backlog=77 deferred fastopen=5"));
    assert_eq!(backlog().as_deref(), Some("77"));
    assert_eq!(body(port), "ok");
    applied(&site, &server, &with("backlog=33 so_keepalive=on"));
    assert_eq!(backlog().as_deref(), Some("33"));
    assert_eq!(body(port), "ok");
    // One socket for each thread, and back.
    applied(&site, &server, &with("reuseport"));
    for _ in 0..20 {
        assert_eq!(body(port), "ok");
    }
    applied(&site, &server, &with(""));
    for _ in 0..20 {
        assert_eq!(body(port), "ok");
    }
}

#[test]
fn another_number_of_threads_is_another_process_and_one_is_left() {
    let site = Site::new();
    let with = |count: u32| {
        let main = format!("worker_processes {count};");
        let listen = "listen 127.0.0.1:%plain%; listen 127.0.0.1:%shared% reuseport;";
        configuration(&main, &format!("server {{ {listen} return 200 {count}; }}"))
    };
    let server = site.serve_whole(&with(3));
    for count in [1, 4, 2, 3] {
        let worker = server.worker_pid();
        applied(&site, &server, &with(count));
        // It accepts until it has heard of the other one.
        wait_for("the end of the worker before", || {
            let now = server.worker_pids();
            (now.len() == 1 && now[0] != worker).then_some(())
        });
        for name in ["plain", "shared"] {
            for _ in 0..8 {
                assert_eq!(body(server.port(name)), count.to_string(), "{name}");
            }
        }
    }
    assert!(
        server
            .error_log()
            .contains("\"worker_processes\" has changed")
    );
}

#[test]
fn more_connections_than_the_worker_has_descriptors_for_need_another_process() {
    let site = Site::new();
    let with = |count: u32| {
        let http = "server { listen 127.0.0.1:%plain%; return 200 ok; }";
        let whole = configuration("worker_processes 1;", http);
        whole.replace(
            "events {}",
            &format!("events {{ worker_connections {count}; }}"),
        )
    };
    let limited = ["prlimit", "--nofile=200:5000"];
    let server = Server::start_under(&site, Program::Sealane, &with(100), &limited);
    let limit = |pid: u32| {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max open files"));
        let soft = line.and_then(|line| line.split_whitespace().nth(3));
        soft.and_then(|soft| soft.parse::<u32>().ok())
            .expect("a number")
    };
    let worker = server.worker_pid();
    assert_eq!(limit(worker), 200);
    configure(&site, &with(120));
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert_eq!(server.worker_pids(), [worker], "there are enough");
    configure(&site, &with(1000));
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    let another_than = |worker: u32| {
        wait_for("the end of the worker before", || {
            let now = server.worker_pids();
            (now.len() == 1 && now[0] != worker).then_some(now[0])
        })
    };
    let worker = another_than(worker);
    assert!(limit(worker) >= 1000);
    // No process could have more than the hard limit.
    configure(&site, &with(4990));
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    let worker = another_than(worker);
    assert_eq!(limit(worker), 5000);
    configure(&site, &with(9000));
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert_eq!(server.worker_pids(), [worker]);
    server.wait_for_log("9000 worker_connections in each of 1 threads exceed open file");
    assert_eq!(body(server.port("plain")), "ok");
}

#[test]
fn without_a_master_a_reload_changes_nothing_and_says_so() {
    let site = Site::new();
    let with = |text: &str| format!("master_process off; {}", answering(text));
    let server = site.serve_whole(&with("one"));
    configure(&site, &with("two"));
    server.signal("HUP");
    server.wait_for_log("the configuration is not read again, everything goes on as it was");
    assert_eq!(body(server.port("plain")), "one");
}

#[test]
fn upstreams_change_and_idle_connections_to_those_that_stay_go_on() {
    let site = Site::new();
    let with = |peers: &str| {
        configuration(
            "",
            &format!(
                "upstream group {{ {peers} keepalive 4; }}
                 server {{ listen 127.0.0.1:%one%; return 200 one; }}
                 server {{ listen 127.0.0.1:%two%; return 200 two; }}
                 server {{ listen 127.0.0.1:%plain%; location / {{ proxy_pass http://group; }} }}"
            ),
        )
    };
    let server = site.serve_whole(&with("server 127.0.0.1:%one%;"));
    let port = server.port("plain");
    assert_eq!(body(port), "one");
    applied(&site, &server, &with("server 127.0.0.1:%two%;"));
    assert_eq!(body(port), "two");
    let both = "server 127.0.0.1:%one%; server 127.0.0.1:%two%;";
    applied(&site, &server, &with(both));
    let answers: Vec<String> = (0..8).map(|_| body(port)).collect();
    assert!(answers.iter().any(|answer| answer == "one"), "{answers:?}");
    assert!(answers.iter().any(|answer| answer == "two"), "{answers:?}");
}

#[test]
fn logs_and_the_pid_file_move() {
    let site = Site::new();
    let with = |access: &str, pid: &str| {
        let http = format!(
            "access_log logs/{access}; server {{ listen 127.0.0.1:%plain%; return 200 ok; }}"
        );
        configuration(&format!("pid logs/{pid};"), &http).replace("access_log off;", "")
    };
    let server = site.serve_whole(&with("first", "pid.one"));
    let port = server.port("plain");
    wire::get(port, "/a");
    applied(&site, &server, &with("second", "pid.two"));
    wire::get(port, "/b");
    let text =
        |name: &str| fs::read_to_string(site.path(format!("logs/{name}"))).unwrap_or_default();
    wait_for("the lines", || {
        (text("first").contains("/a") && text("second").contains("/b")).then_some(())
    });
    assert!(!text("first").contains("/b"), "{}", text("first"));
    assert_eq!(text("pid.two").trim(), server.pid().to_string());
    assert!(!site.path("logs/pid.one").exists());
    // Reopening still finds the files of this configuration.
    fs::rename(site.path("logs/second"), site.path("logs/second.1")).expect("ours");
    server.signal("USR1");
    wait_for("the new file", || {
        wire::get(port, "/c");
        text("second").contains("/c").then_some(())
    });
}

#[test]
fn the_main_log_moves_with_the_configuration() {
    let site = Site::new();
    let server = site.serve_whole(&answering("one"));
    configure(
        &site,
        &answering("two").replace("logs/error.log", "logs/other.log"),
    );
    server.signal("HUP");
    let text = || fs::read_to_string(site.path("logs/other.log")).unwrap_or_default();
    wait_for("a line in the new log", || {
        text()
            .contains("reconfigured, worker process ")
            .then_some(())
    });
    assert!(!server.error_log().contains("reconfigured, "));
    server.stop("QUIT");
    assert!(text().contains("gracefully shutting down"), "{}", text());
}

#[test]
fn a_request_finishes_with_its_configuration_and_the_next_has_the_new_one() {
    let site = Site::new();
    let server = site.serve_whole(&answering("one"));
    let port = server.port("plain");
    let mut kept = Connection::open(port);
    kept.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(kept.response(false).text(), "one");
    let mut begun = Connection::open(port);
    begun.send("GET / HTTP/1.1\r\nHost: a\r\n");
    applied(&site, &server, &answering("two"));
    kept.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(kept.response(false).text(), "two");
    begun.send("\r\n");
    assert_eq!(begun.response(false).status, 200);
}

/// nginx ends the worker processes of the configuration that is replaced, with all that they do.
#[test]
fn what_uses_an_old_configuration_ends_after_worker_shutdown_timeout() {
    let (site, origin) = (Site::new(), Origin::answering(|_| Answer::Silence));
    let answering = |text: &str| {
        let main = "worker_processes 1; worker_shutdown_timeout 200ms;";
        let http = format!(
            "server {{ listen 127.0.0.1:%plain%; http2 on; location / {{ return 200 {text}; }}
             location /origin {{ proxy_pass http://127.0.0.1:{}; }} }}",
            origin.port()
        );
        configuration(main, &http)
    };
    let server = site.serve_whole(&answering("one"));
    let port = server.port("plain");
    let mut silent = Connection::open(port);
    let mut begun = Connection::open(port);
    begun.send("GET / HTTP/1.1\r\n");
    let mut waiting = Connection::open(port);
    waiting.send("GET /origin HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut streams = Client::open(port, &[]);
    let old = streams.get("/origin");
    let mut kept = Connection::open(port);
    kept.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(kept.response(false).text(), "one");
    wait_for("both requests to get there", || {
        (origin.connections() == 2).then_some(())
    });
    applied(&site, &server, &answering("two"));
    for connection in [&mut silent, &mut begun, &mut waiting] {
        assert!(connection.is_closed());
    }
    // Of connections with several requests those go on that have the new configuration.
    assert_eq!(streams.response(old).reset, Some(code::CANCEL));
    assert_eq!(streams.fetch("/").body, b"two");
    kept.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(kept.response(false).text(), "two");
    server.wait_for_log("worker_shutdown_timeout has passed since the configuration was replaced");
}

#[test]
fn hups_that_come_together_are_one_and_the_last_configuration_holds() {
    let site = Site::new();
    let server = site.serve_whole(&answering("first"));
    let worker = server.worker_pid();
    const COUNT: usize = 30;
    for number in 0..COUNT {
        configure(&site, &answering(&format!("number-{number}")));
        server.signal("HUP");
    }
    let last = format!("number-{}", COUNT - 1);
    wait_for("the last configuration", || {
        (body(server.port("plain")) == last).then_some(())
    });
    assert_eq!(server.worker_pids(), [worker]);
    let log = server.error_log();
    assert!(log.matches("] ").count() > 0 && log.matches(": reconfiguring\n").count() <= COUNT);
}

#[test]
fn a_worker_that_dies_during_a_reload_is_replaced_by_one_with_the_new_configuration() {
    let site = Site::new();
    let server = site.serve_whole(&answering("first"));
    server.expect_alert("exited on signal 9");
    server.expect_alert("the new configuration cannot be sent to the worker process");
    for number in 0..scale(10, 100) {
        let text = format!("number-{number}");
        configure(&site, &answering(&text));
        let ended = || server.error_log().matches("reconfigured, worker ").count();
        let reloads = ended();
        let worker = server.worker_pid();
        // Stopped, it cannot answer: the reload is under way when it dies.
        signal(worker, "STOP");
        let begun = || server.error_log().matches(": reconfiguring").count();
        let before = begun();
        server.signal("HUP");
        if number % 2 == 0 {
            wait_for("the reload to begin", || (begun() > before).then_some(()));
        }
        signal(worker, "KILL");
        let url = format!("http://127.0.0.1:{}/", server.port("plain"));
        wait_for("the new configuration", || {
            let outcome = command("curl", &["-s", "--max-time", "20", &url], b"");
            (outcome.text() == text).then_some(())
        });
        // It serves before it has said so. Stopped then, it would hold up this reload, and so the
        // next one.
        wait_for("the end of the reload", || {
            (ended() > reloads).then_some(())
        });
        wait_for("one worker", || {
            (server.worker_pids().len() == 1).then_some(())
        });
    }
}

#[test]
fn a_process_that_cannot_start_leaves_the_one_before_serving() {
    let site = Site::new();
    let server = site.serve_whole(&answering("one"));
    server.expect_alert("chdir(");
    server.expect_alert("fatal code");
    server.expect_alert("the new configuration is not used");
    let worker = server.worker_pid();
    // It is there, but the worker may not go there.
    let closed = site.path("closed");
    fs::create_dir(&closed).expect("the site is writable");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o400)).expect("it is ours");
    let (closed, two) = (closed.display(), answering("two"));
    let elsewhere = format!("working_directory {closed};\n{two}");
    for _ in 0..3 {
        assert_eq!(reload(&site, &server, &elsewhere), Reload::Refused);
        assert_eq!(body(server.port("plain")), "one");
    }
    assert_eq!(server.worker_pids(), [worker]);
    applied(&site, &server, &answering("three"));
    assert_eq!(body(server.port("plain")), "three");
    assert_eq!(server.worker_pids(), [worker]);
}

#[test]
fn stopping_during_a_reload_leaves_no_process() {
    for signal in ["QUIT", "TERM"] {
        for main in ["", "worker_processes 3;"] {
            let site = Site::new();
            let server = site.serve_whole(&answering("one"));
            let second = configuration(
                main,
                "server { listen 127.0.0.1:%plain%; listen 127.0.0.1:%more%; return 200 two; }",
            );
            configure(&site, &second);
            server.signal("HUP");
            let status = server.stop(signal);
            assert!(status.success(), "{status}");
            assert!(refuses(site.port("plain")) && refuses(site.port("more")));
        }
    }
}

/// Runs wrk with these options on `%plain%` until `stop`; what went wrong, if anything did.
fn load(server: &Server<'_>, options: &[&str], stop: &AtomicBool) -> Option<String> {
    let url = format!("http://127.0.0.1:{}/page", server.port("plain"));
    let mut arguments = vec!["-t1", "-c8", "-d1s"];
    arguments.extend(options);
    arguments.push(&url);
    loop {
        let text = command("wrk", &arguments, b"").success().text();
        if text.contains("Socket errors") || text.contains("Non-2xx") {
            return Some(text);
        }
        if stop.load(Ordering::Relaxed) {
            return None;
        }
    }
}

#[test]
fn reloads_in_place_under_load_lose_nothing() {
    let site = Site::new();
    site.write("html/page", vec![b'x'; 30_000]);
    let numbered = |number: usize| {
        let more = ["", "listen 127.0.0.1:%more%;"][number % 2];
        let http = format!(
            "server {{ listen 127.0.0.1:%plain%; {more} server_name n{number}; root html; \
             keepalive_requests 100000000; }}"
        );
        configuration("", &http)
    };
    let server = site.serve_whole(&numbered(0));
    let worker = server.worker_pid();
    let stop = AtomicBool::new(false);
    let failed = std::thread::scope(|scope| {
        let keeping = scope.spawn(|| load(&server, &[], &stop));
        let closing = scope.spawn(|| load(&server, &["-H", "Connection: close"], &stop));
        for number in 0..scale(30, 200) {
            applied(&site, &server, &numbered(number));
        }
        stop.store(true, Ordering::Relaxed);
        [keeping, closing].map(|thread| thread.join().expect("no panic"))
    });
    assert_eq!(failed, [None, None]);
    assert_eq!(server.worker_pids(), [worker]);
}

#[test]
fn reloads_that_need_other_processes_lose_no_connection_and_leave_one_process() {
    let site = Site::new();
    site.write("html/page", vec![b'x'; 30_000]);
    let numbered = |number: usize| {
        let main = format!("worker_processes {};", 1 + number % 3);
        let more = ["", "reuseport"][number / 4 % 2];
        let http = format!("server {{ listen 127.0.0.1:%plain% {more}; root html; }}");
        configuration(&main, &http)
    };
    let server = site.serve_whole(&numbered(0));
    let stop = AtomicBool::new(false);
    let failed = std::thread::scope(|scope| {
        let closing = scope.spawn(|| load(&server, &["-H", "Connection: close"], &stop));
        for number in 1..scale(16, 200) {
            applied(&site, &server, &numbered(number));
        }
        stop.store(true, Ordering::Relaxed);
        closing.join().expect("no panic")
    });
    assert_eq!(failed, None);
    wait_for("one worker", || {
        (server.worker_pids().len() == 1).then_some(())
    });
}

#[test]
fn streams_of_http2_go_on_over_reloads_in_place() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("server", CertificateKey::P256));
    site.write("html/page", vec![b'x'; 30_000]);
    let numbered = |number: usize| {
        let http = format!(
            "server {{ listen 127.0.0.1:%tls% ssl; http2 on; server_name n{number}; root html;
             ssl_certificate certificates/server.pem; ssl_certificate_key certificates/server.key;
             keepalive_requests 1000000; }}"
        );
        configuration("", &http)
    };
    let server = site.serve_whole(&numbered(0));
    let url = format!("https://127.0.0.1:{}/page", server.port("tls"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let arguments = ["-n", "5000", "-c", "4", "-m", "8", &url];
            let outcome = command("h2load", &arguments, b"");
            done.store(true, Ordering::Relaxed);
            outcome.success().text()
        });
        let mut number = 0;
        while !done.load(Ordering::Relaxed) || number < 5 {
            number += 1;
            applied(&site, &server, &numbered(number));
        }
        let text = load.join().expect("no panic");
        let expected = "5000 succeeded, 0 failed, 0 errored, 0 timeout";
        assert!(text.contains(expected), "{text}");
    });
}

#[test]
fn sessions_resume_after_a_reload_and_in_another_process() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("server", CertificateKey::P256));
    let with = |main: &str, name: &str| {
        let http = format!(
            "server {{ listen 127.0.0.1:%tls% ssl; server_name localhost;
             ssl_certificate certificates/server.pem; ssl_certificate_key certificates/server.key;
             return 200 {name}; }}"
        );
        configuration(main, &http)
    };
    let server = site.serve_whole(&with("", "first"));
    let session = site.path("session").display().to_string();
    for protocol in ["-tls1_2", "-tls1_3"] {
        let first = handshake(&server, &format!("{protocol} -sess_out {session}"));
        assert!(first.succeeded() && !first.resumed, "{}", first.output);
        let again = || handshake(&server, &format!("{protocol} -sess_in {session}"));
        applied(&site, &server, &with("", &format!("in-place{protocol}")));
        assert!(again().resumed, "{protocol} in place");
        let main = format!("worker_rlimit_nofile {};", 5_000 + protocol.len());
        for main in [
            &main,
            "worker_rlimit_nofile 6000;",
            "worker_processes 3;",
            "",
        ] {
            applied(&site, &server, &with(main, "other-process"));
            assert!(again().resumed, "{protocol} {main}");
        }
    }
}

#[test]
fn memory_and_descriptors_stay_as_they_are() {
    let site = Site::new();
    let certificate = Certificate::localhost("server", CertificateKey::P256);
    site.certificate(&certificate);
    let with = |number: usize| {
        let mut http = String::new();
        for server in 0..20 {
            http.push_str(&format!(
                "server {{ listen 127.0.0.1:%tls% ssl; server_name s{server}-{number}.test;
                 ssl_certificate certificates/server.pem;
                 ssl_certificate_key certificates/server.key;
                 access_log logs/access-{server}; return 200 {number}; }}\n"
            ));
        }
        configuration("", &http)
    };
    let server = site.serve_whole(&with(0));
    let measure = || {
        let (master, worker) = (server.pid(), server.worker_pid());
        [master, worker].map(|pid| (descriptors(pid), resident_kib(pid)))
    };
    // What is allocated once is there after a few.
    for number in 0..10 {
        applied(&site, &server, &with(number));
    }
    let before = measure();
    for number in 10..10 + scale(50, 500) {
        applied(&site, &server, &with(number));
    }
    wait_for("descriptors as before", || {
        let now = measure();
        let same = (0..2).all(|at| now[at].0 <= before[at].0);
        same.then_some(())
    });
    let now = measure();
    for (at, who) in ["master", "worker"].into_iter().enumerate() {
        let grown = now[at].1.saturating_sub(before[at].1);
        assert!(
            grown < 8 << 10,
            "the {who} has grown by {grown} KiB: {before:?} {now:?}"
        );
    }
    assert_eq!(server.worker_pids().len(), 1);
}
