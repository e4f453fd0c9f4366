//! Another binary in the place of the one that runs: USR2, WINCH, QUIT and the way back.

use sealane_tests::nodes::s_client;
use sealane_tests::upgrade::{Daemon, KeptTls, children, runs, signal};
use sealane_tests::wire::{self, Connection};
use sealane_tests::{Certificate, CertificateKey, Program, Site, command, scale, wait_for};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

fn configuration(main: &str, http: &str) -> String {
    let processes = match main.contains("worker_processes") {
        true => "",
        false => "worker_processes 2;",
    };
    format!(
        "{processes} pid logs/pid; error_log logs/error.log info; {main}\n\
         events {{}}\nhttp {{ access_log off;\n{TEMPORARY}\n{http}\n}}\n"
    )
}

/// Debian's paths for temporary files need root.
const TEMPORARY: &str = "client_body_temp_path temporary/a; proxy_temp_path temporary/b;
    fastcgi_temp_path temporary/c; uwsgi_temp_path temporary/d; scgi_temp_path temporary/e;";

/// One server of each kind; which process answers, and which request of the connection it was.
const BOTH: &str = "server {
    listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl;
    ssl_certificate certificates/server.pem; ssl_certificate_key certificates/server.key;
    location / { root html; }
    location = /tls { return 200 \"<$ssl_session_reused>\"; }
    location = /n { return 200 \"$connection_requests $pid\"; } }";

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("server", CertificateKey::P256));
    site.write("html/page", vec![b'x'; 30_000]);
    fs::create_dir_all(site.path("temporary")).expect("writable");
    site
}

fn start(site: &Site) -> Daemon<'_> {
    Daemon::start(site, Program::Sealane, &configuration("", BOTH))
}

/// Connections of three kinds that are kept, and how many requests they have made.
struct Kept {
    plain: Connection,
    tls: [KeptTls; 2],
    requests: usize,
}

impl Kept {
    fn open(site: &Site) -> Kept {
        Kept {
            plain: Connection::open(site.port("plain")),
            tls: ["-tls1_3", "-tls1_2"].map(|options| KeptTls::open(site.port("tls"), options)),
            requests: 0,
        }
    }

    /// One more request on each; all are answered by this process, which goes on counting.
    #[track_caller]
    fn are_served_by(&mut self, worker: u32) {
        self.requests += 1;
        let expected = format!("{} {worker}", self.requests);
        self.plain.send("GET /n HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(self.plain.response(false).text(), expected);
        for tls in &mut self.tls {
            assert_eq!(tls.get("/n"), expected);
        }
    }
}

/// The worker process of a master.
#[track_caller]
fn worker_of(master: u32) -> u32 {
    let is_worker = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        // One that has ended is a child until it is waited for.
        name.starts_with("sealane: worker") && runs(*pid)
    };
    wait_for("one worker", || {
        let mut workers = children(master);
        workers.retain(is_worker);
        match workers.as_slice() {
            [worker] => Some(*worker),
            _ => None,
        }
    })
}

#[test]
fn kept_connections_go_on_in_the_new_process_and_come_back() {
    let site = site();
    let server = start(&site);
    let old = server.pid();
    let old_worker = worker_of(old);
    let mut kept = Kept::open(&site);
    kept.are_served_by(old_worker);

    let new = server.begin_upgrade();
    assert_eq!(server.old_pid(), Some(old));
    let new_worker = worker_of(new);
    kept.are_served_by(old_worker);
    signal(old, "WINCH");
    server.wait_for_end(old_worker);
    kept.are_served_by(new_worker);

    // The way back.
    signal(old, "HUP");
    let old_worker = worker_of(old);
    signal(new, "QUIT");
    server.wait_for_end(new);
    kept.are_served_by(old_worker);
    wait_for("the pid file", || (server.pid() == old).then_some(()));
    assert_eq!(server.old_pid(), None);

    // And all the way.
    let new = server.begin_upgrade();
    let new_worker = worker_of(new);
    signal(old, "QUIT");
    server.wait_for_end(old);
    kept.are_served_by(new_worker);
    assert_eq!((server.pid(), server.old_pid()), (new, None));
    // It is as good as the one before.
    server.upgrade();
    let worker = worker_of(server.pid());
    kept.are_served_by(worker);
}

#[test]
fn quit_right_after_usr2_waits_until_the_new_binary_serves() {
    let site = site();
    let server = start(&site);
    let old = server.pid();
    let mut kept = Kept::open(&site);
    kept.are_served_by(worker_of(old));
    signal(old, "USR2");
    signal(old, "QUIT");
    server.wait_for_end(old);
    let new = server.pid();
    assert_ne!(new, old);
    kept.are_served_by(worker_of(new));
}

#[test]
fn only_what_is_needed_is_handed_over() {
    let site = site();
    let server = start(&site);
    server.upgrade();
    let (master, worker) = (server.pid(), worker_of(server.pid()));
    let read = |file: &str| fs::read(format!("/proc/{master}/{file}")).expect("it runs");
    let status = String::from_utf8(read("status")).expect("text");
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let blocked = u64::from_str_radix(blocked.expect("a line").trim(), 16).expect("a number");
    let (alrm, pipe) = (1 << 13, 1 << 12);
    assert_eq!(blocked & (alrm | pipe), 0, "{blocked:x}");
    // Two listeners, the control socket, the lines to the worker and to the key process, signals;
    // logs; and standard ones.
    let names = |pid: u32| -> Vec<String> {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs");
        let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        links.map(|link| link.display().to_string()).collect()
    };
    let sockets = |pid| {
        let names = names(pid).into_iter();
        names.filter(|name| name.starts_with("socket:")).count()
    };
    wait_for("five sockets of the master", || {
        (sockets(master) == 5).then_some(())
    });
    let signals = names(worker).into_iter();
    let signals = signals.filter(|name| name.contains("signalfd"));
    assert_eq!(signals.count(), 1, "the master's signals are its own");
    let environment = String::from_utf8_lossy(&read("environ")).into_owned();
    let ours: Vec<&str> = environment
        .split('\0')
        .filter(|line| line.starts_with("NGINX=") || line.starts_with("SEALANE_UPGRADE"))
        .collect();
    assert_eq!(ours.len(), 2, "{ours:?}");
    assert!(ours.iter().all(|line| line.len() < 40), "{ours:?}");
}

#[test]
fn a_second_upgrade_waits_for_the_end_of_the_first() {
    let site = site();
    let server = start(&site);
    let old = server.pid();
    let new = server.begin_upgrade();
    server.expect_alert("the changing binary signal is ignored");
    for (number, master) in [(1, old), (2, new)] {
        signal(master, "USR2");
        wait_for("a refusal", || {
            let refused = server.log().matches("binary signal is ignored").count();
            (refused == number).then_some(())
        });
    }
    assert!(runs(old) && runs(new));
    signal(old, "QUIT");
    server.wait_for_end(old);
    server.upgrade();
}

#[test]
fn a_binary_that_cannot_be_executed_leaves_all_as_it_was() {
    let site = site();
    let server = start(&site);
    let old = server.pid();
    let mut kept = Kept::open(&site);
    kept.are_served_by(worker_of(old));
    server.expect_alert("execve() failed while executing new binary process");
    let no_program = site.write("bin/text", "no program");
    let not_allowed = site.write("bin/not-allowed", "#!/bin/sh\n");
    fs::set_permissions(&not_allowed, fs::Permissions::from_mode(0o600)).expect("ours");
    fs::set_permissions(&no_program, fs::Permissions::from_mode(0o700)).expect("ours");
    let missing = site.path("bin/missing");
    for (number, (file, error)) in [
        (missing, "(2: No such file or directory)"),
        (not_allowed, "(13: Permission denied)"),
        (no_program, "(8: Exec format error)"),
    ]
    .into_iter()
    .enumerate()
    {
        server.install_file(&file);
        signal(old, "USR2");
        wait_for("the failure", || {
            let log = server.log();
            let failed = log.matches("execve() failed").count() == number + 1;
            (failed && log.contains(error)).then_some(())
        });
        assert_eq!((server.pid(), server.old_pid()), (old, None));
        kept.are_served_by(worker_of(old));
    }
    server.install(Program::Sealane);
    server.upgrade();
    kept.are_served_by(worker_of(server.pid()));
}

#[test]
fn quit_does_not_end_the_server_when_the_upgrade_that_it_waits_for_fails() {
    let site = site();
    let server = start(&site);
    let old = server.pid();
    let mut kept = Kept::open(&site);
    kept.are_served_by(worker_of(old));
    let go = site.path("go");
    let wrapper = format!(
        "#!/bin/sh\nwhile ! test -e {}; do sleep 0.01; done\nexit 1\n",
        go.display()
    );
    let wrapper = site.write("bin/wrapper", wrapper);
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o700)).expect("ours");
    server.install_file(&wrapper);
    server.expect_alert("SIGQUIT was delayed for the other binary, which has exited");
    signal(old, "USR2");
    signal(old, "QUIT");
    server.wait_for_log("SIGQUIT is delayed until it does");
    fs::write(go, "").expect("writable");
    server.wait_for_log("SIGQUIT was delayed for");
    wait_for("the pid file to be back", || {
        server.old_pid().is_none().then_some(())
    });
    assert_eq!(server.pid(), old);
    kept.are_served_by(worker_of(old));
    signal(old, "QUIT");
    server.wait_for_end(old);
}

#[test]
fn an_old_master_that_has_ended_before_the_new_one_looks_is_nobody() {
    let site = site();
    let server = start(&site);
    let old = server.pid();
    let orphan = worker_of(old);
    let (start, program) = (site.path("start"), site.path("bin/program"));
    server.install(Program::Sealane);
    fs::rename(site.path("bin/server"), &program).expect("ours");
    let wrapper = format!(
        "#!/bin/sh\nwhile ! test -e {}; do sleep 0.01; done\nexec {} \"$@\"\n",
        start.display(),
        program.display()
    );
    let wrapper = site.write("bin/wrapper", wrapper);
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o700)).expect("ours");
    server.install_file(&wrapper);
    server.expect_alert("is gone; this worker finishes");
    // Its worker may just have told it something.
    server.expect_alert("session ticket keys are not saved");
    server.expect_alert("the master cannot be told how far a reload is");
    signal(old, "USR2");
    server.wait_for_log("start new binary process");
    signal(old, "KILL");
    server.wait_for_end(old);
    server.wait_for_end(orphan);
    fs::write(start, "").expect("writable");
    server.wait_for_log("of the old binary has exited");
    // That is logged first.
    wait_for("its pid file to go", || {
        server.old_pid().is_none().then_some(())
    });
    server.upgrade();
}

#[test]
fn a_master_that_waits_for_something_sleeps() {
    let site = site();
    let text = format!("ssl_session_ticket_state state; {BOTH}");
    let server = Daemon::start(&site, Program::Sealane, &configuration("", &text));
    let old = server.pid();
    server.begin_upgrade();
    // Its next worker tells keys, which are the other binary's to write.
    server.expect_alert("exited on signal 9");
    let worker = worker_of(old);
    signal(worker, "KILL");
    server.wait_for_end(worker);
    wire::get(site.port("plain"), "/n");
    let ticks = || -> u64 {
        let stat = fs::read_to_string(format!("/proc/{old}/stat")).expect("it runs");
        let (_, fields) = stat.rsplit_once(") ").expect("a state");
        let times = fields.split(' ').skip(11).take(2);
        times
            .map(|time| time.parse::<u64>().expect("a number"))
            .sum()
    };
    // A busy loop has about a hundred in each second.
    wait_for("its other work to end", || {
        let before = ticks();
        std::thread::sleep(std::time::Duration::from_millis(500));
        (ticks() - before < 10).then_some(())
    });
}

#[test]
fn a_new_binary_that_ends_gives_its_place_back() {
    let site = site();
    let server = start(&site);
    let old = server.pid();
    let mut kept = Kept::open(&site);
    kept.are_served_by(worker_of(old));
    // It does not like its configuration.
    server.expect_alert("unknown directive");
    server.configure(&configuration("no_such_directive;", BOTH));
    signal(old, "USR2");
    server.wait_for_log("exited with code 1");
    wait_for("the pid file", || (server.pid() == old).then_some(()));
    kept.are_served_by(worker_of(old));
    server.configure(&configuration("", BOTH));
    // It is killed, when the old one has a worker and when it has none.
    server.expect_alert("exited on signal 9");
    server.expect_alert("is gone; this worker finishes");
    // One that was just started.
    server.expect_alert("the master cannot be told");
    server.expect_alert("session ticket keys are not saved");
    for paused in [false, true] {
        let new = server.begin_upgrade();
        if paused {
            let worker = worker_of(old);
            signal(old, "WINCH");
            server.wait_for_end(worker);
        }
        let orphan = worker_of(new);
        signal(new, "KILL");
        server.wait_for_end(orphan);
        wait_for("the pid file", || (server.pid() == old).then_some(()));
        assert_eq!(server.old_pid(), None);
        let worker = worker_of(old);
        assert_eq!(
            wire::get(site.port("plain"), "/n").text(),
            format!("1 {worker}")
        );
        if !paused {
            kept.are_served_by(worker);
        }
    }
    server.upgrade();
}

#[test]
fn an_old_master_that_is_killed_leaves_the_new_one_alone() {
    let site = site();
    let server = start(&site);
    let old = server.pid();
    let new = server.begin_upgrade();
    let orphan = worker_of(old);
    server.expect_alert("is gone; this worker finishes");
    // One that was just started.
    server.expect_alert("the master cannot be told");
    server.expect_alert("session ticket keys are not saved");
    signal(old, "KILL");
    server.wait_for_end(orphan);
    server.wait_for_log("of the old binary has exited");
    wait_for("one pid file", || server.old_pid().is_none().then_some(()));
    assert_eq!(server.pid(), new);
    let expected = format!("1 {}", worker_of(new));
    assert_eq!(wire::get(site.port("plain"), "/n").text(), expected);
    server.upgrade();
}

#[test]
fn the_pid_file_that_is_gone_stops_an_upgrade() {
    let site = site();
    let server = start(&site);
    let old = server.pid();
    fs::remove_file(site.path("logs/pid")).expect("there");
    server.expect_alert("before executing new binary process");
    server.expect_alert("unlink() ");
    signal(old, "USR2");
    server.wait_for_log("before executing new binary process");
    assert_eq!(wire::get(site.port("plain"), "/page").body.len(), 30_000);
    signal(old, "QUIT");
    server.wait_for_end(old);
}

#[test]
fn files_of_unix_sockets_stay_as_long_as_somebody_listens() {
    let site = site();
    let with = |more: &str| {
        let http = format!("server {{ listen unix:%site%/logs/web; {more} return 200 $pid; }}");
        configuration("", &http)
    };
    let server = Daemon::start(
        &site,
        Program::Sealane,
        &with("listen unix:%site%/logs/gone;"),
    );
    let ask = || {
        let mut stream = UnixStream::connect(site.path("logs/web")).expect("somebody listens");
        stream
            .write_all(b"GET / HTTP/1.0\r\n\r\n")
            .expect("somebody reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    // The new one ends, then the old one.
    let (old, new) = (server.pid(), server.begin_upgrade());
    signal(new, "QUIT");
    server.wait_for_end(new);
    assert!(ask().ends_with(&worker_of(old).to_string()));
    server.configure(&with(""));
    server.upgrade();
    assert!(ask().ends_with(&worker_of(server.pid()).to_string()));
    assert!(!site.path("logs/gone").exists(), "nobody listens there");
    let last = server.pid();
    signal(last, "TERM");
    server.wait_for_end(last);
    assert!(!site.path("logs/web").exists());
}

#[test]
fn listeners_and_workers_may_be_others() {
    let site = site();
    let with = |processes: usize, listen: &str| {
        let http = format!("server {{ {listen} return 200 $pid; }}");
        configuration(&format!("worker_processes {processes};"), &http)
    };
    let first = "listen 127.0.0.1:%plain% reuseport; listen 127.0.0.1:%gone%;";
    let second = "listen 127.0.0.1:%plain% reuseport; listen 127.0.0.1:%more%;";
    let server = Daemon::start(&site, Program::Sealane, &with(3, first));
    for (processes, listen) in [(1, first), (4, second), (2, second)] {
        server.configure(&with(processes, listen));
        server.upgrade();
        let worker = worker_of(server.pid()).to_string();
        // Each of the sockets has somebody who accepts.
        for _ in 0..30 {
            assert_eq!(wire::get(site.port("plain"), "/").text(), worker);
        }
    }
    let worker = worker_of(server.pid()).to_string();
    assert_eq!(wire::get(site.port("more"), "/").text(), worker);
    let gone = std::net::TcpStream::connect(("127.0.0.1", site.port("gone")));
    assert!(gone.is_err());
}

#[test]
fn sessions_resume_on_both_sides_of_an_upgrade() {
    let site = site();
    let server = start(&site);
    for protocol in ["-tls1_3", "-tls1_2"] {
        let file = site.path("session").display().to_string();
        let connect = |resume| {
            let outcome = s_client(site.port("tls"), protocol, &file, resume).success();
            outcome.text().contains("<r>")
        };
        assert!(!connect(false));
        server.upgrade();
        assert!(connect(true), "made before");
        server.upgrade();
        assert!(connect(true), "made by the one before");
    }
}

#[test]
fn what_is_under_way_finishes_in_the_old_process() {
    let site = site();
    let slow = format!(
        "{}\nlocation /slow {{ root html; limit_rate 40k; }} }}",
        BOTH.trim_end_matches('}').trim_end()
    );
    let server = Daemon::start(&site, Program::Sealane, &configuration("", &slow));
    site.write("html/slow", vec![b'y'; 60_000]);
    let old = server.pid();
    let old_worker = worker_of(old);
    let mut client = Connection::open(site.port("plain"));
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut half = Connection::open(site.port("plain"));
    half.send("GET /n HTTP/1.1\r\nHost: a\r\n\r\n");
    half.response(false);
    half.send("GET /n HTTP/1.1\r\n");
    let new = server.begin_upgrade();
    signal(old, "QUIT");
    server.wait_for_log("gracefully shutting down");
    assert_eq!(client.response(false).body, vec![b'y'; 60_000]);
    half.send("Host: a\r\n\r\n");
    assert_eq!(half.response(false).text(), format!("2 {old_worker}"));
    // Both are idle now, and move.
    server.wait_for_end(old);
    let worker = worker_of(new);
    half.send("GET /n HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(half.response(false).text(), format!("3 {worker}"));
    client.send("GET /n HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response(false).text(), format!("2 {worker}"));
}

#[test]
fn hup_during_an_upgrade_and_an_upgrade_during_hup() {
    let site = site();
    let server = start(&site);
    let old = server.pid();
    signal(old, "HUP");
    let new = server.begin_upgrade();
    for master in [old, new] {
        let before = server.log().matches("reconfigured, ").count();
        signal(master, "HUP");
        wait_for("a reload", || {
            (server.log().matches("reconfigured, ").count() > before).then_some(())
        });
    }
    assert_eq!((server.pid(), server.old_pid()), (new, Some(old)));
    // Without another binary WINCH is a pause, and HUP reads the configuration anew.
    signal(old, "QUIT");
    server.wait_for_end(old);
    let worker = worker_of(new);
    signal(new, "WINCH");
    server.wait_for_end(worker);
    // The master may still have to collect it.
    wait_for("no worker", || children(new).is_empty().then_some(()));
    signal(new, "HUP");
    let expected = format!("1 {}", worker_of(new));
    assert_eq!(wire::get(site.port("plain"), "/n").text(), expected);
}

#[test]
fn nginx_is_upgraded_to_sealane_and_back() {
    let site = site();
    let text = configuration("", BOTH);
    let server = Daemon::start(&site, Program::Nginx, &text);
    let is_sealane = || {
        let answer = wire::get(site.port("plain"), "/page");
        assert_eq!(answer.body.len(), 30_000);
        answer
            .header("Server")
            .is_some_and(|name| name.contains("sealane"))
    };
    // Debian's nginx reports what it does at shutdown as an alert.
    server.expect_alert("open socket #");
    assert!(!is_sealane());
    for program in [Program::Sealane, Program::Nginx, Program::Sealane] {
        server.install(program);
        let old = server.pid();
        server.begin_upgrade();
        signal(old, "WINCH");
        wait_for("the end of its workers", || {
            children(old)
                .iter()
                .all(|pid| *pid == server.pid() || !runs(*pid))
                .then_some(())
        });
        assert_eq!(is_sealane(), program == Program::Sealane);
        signal(old, "QUIT");
        server.wait_for_end(old);
        assert_eq!(is_sealane(), program == Program::Sealane);
    }
    // The way back to nginx.
    server.install(Program::Nginx);
    let sealane = server.pid();
    let nginx = server.begin_upgrade();
    signal(sealane, "QUIT");
    server.wait_for_end(sealane);
    server.install(Program::Sealane);
    let sealane = server.begin_upgrade();
    let others = || {
        let mut children = children(nginx);
        children.retain(|pid| *pid != sealane && runs(*pid));
        children.len()
    };
    signal(nginx, "WINCH");
    wait_for("no worker of nginx", || (others() == 0).then_some(()));
    signal(nginx, "HUP");
    wait_for("workers of nginx", || (others() == 2).then_some(()));
    signal(sealane, "QUIT");
    server.wait_for_end(sealane);
    assert!(!is_sealane());
    wait_for("the pid file", || (server.pid() == nginx).then_some(()));
}

#[test]
fn a_list_of_sockets_that_is_none_is_said_and_does_not_matter() {
    let site = site();
    let text = configuration("", BOTH);
    let wrapper = ["env", "NGINX=/usr/sbin/nginx", "SEALANE_UPGRADE=1"];
    let server = Daemon::start_under(&site, Program::Sealane, &text, &wrapper);
    server.expect_alert("invalid socket number \"/usr/sbin/nginx\" in NGINX environment variable");
    server.wait_for_log("in NGINX environment variable, ignoring");
    assert_eq!(wire::get(site.port("plain"), "/page").body.len(), 30_000);
    server.upgrade();
}

/// Runs a load generator until `stop`; what went wrong, if anything did.
fn load(program: &str, arguments: &[&str], bad: &[&str], stop: &AtomicBool) -> Option<String> {
    loop {
        let text = command(program, arguments, b"").success().text();
        if bad.iter().any(|bad| text.contains(bad)) {
            return Some(text);
        }
        if stop.load(Ordering::Relaxed) {
            return None;
        }
    }
}

#[test]
fn upgrades_under_load_lose_nothing() {
    let site = site();
    let text = BOTH.replacen("listen", "keepalive_requests 100000000; listen", 1);
    let server = Daemon::start(&site, Program::Sealane, &configuration("", &text));
    let plain = format!("http://127.0.0.1:{}/page", site.port("plain"));
    let tls = format!("https://127.0.0.1:{}/page", site.port("tls"));
    let bad = ["Socket errors", "Non-2xx"];
    let stop = AtomicBool::new(false);
    let loads: [Vec<&str>; 4] = [
        vec!["-t1", "-c8", "-d1s", &plain],
        vec!["-t1", "-c8", "-d1s", "-H", "Connection: close", &plain],
        vec!["-t1", "-c8", "-d1s", &tls],
        vec!["-t1", "-c4", "-d1s", "-H", "Connection: close", &tls],
    ];
    let failed = std::thread::scope(|scope| {
        let running = loads.each_ref().map(|arguments| {
            let (bad, stop) = (&bad, &stop);
            scope.spawn(move || load("wrk", arguments, bad, stop))
        });
        for _ in 0..scale(4, 20) {
            server.upgrade();
        }
        stop.store(true, Ordering::Relaxed);
        running.map(|thread| thread.join().expect("no panic"))
    });
    assert_eq!(failed, [const { None }; 4]);
}

#[test]
fn many_idle_connections_move_at_once() {
    let site = site();
    let text = format!("{BOTH} keepalive_timeout 300s;");
    let text = configuration("worker_rlimit_nofile 9000;", &text);
    let text = text.replace("events {", "events { worker_connections 4000;");
    let server = Daemon::start(&site, Program::Sealane, &text);
    let mut connections: Vec<Connection> = (0..1500)
        .map(|_| Connection::open(site.port("plain")))
        .collect();
    let ask = |connections: &mut Vec<Connection>, expected: &str| {
        for connection in connections.iter_mut() {
            connection.send("GET /n HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        for connection in connections {
            assert_eq!(connection.response(false).text(), expected);
        }
    };
    ask(&mut connections, &format!("1 {}", worker_of(server.pid())));
    for round in 2..4 {
        server.upgrade();
        let worker = worker_of(server.pid());
        ask(&mut connections, &format!("{round} {worker}"));
    }
}

#[test]
fn downloads_over_both_protocols_finish_in_the_old_process() {
    let site = site();
    site.write("html/large", vec![b'z'; 900_000]);
    let text = BOTH.replacen("listen", "http2 on; limit_rate 400k; listen", 1);
    let server = Daemon::start(&site, Program::Sealane, &configuration("", &text));
    let old = server.pid();
    let url = format!("https://127.0.0.1:{}/large", site.port("tls"));
    let file = site.path("got").display().to_string();
    std::thread::scope(|scope| {
        let clients = [["--http2"], ["--http1.1"]].map(|version| {
            let (url, file) = (&url, format!("{file}{}", version[0]));
            scope.spawn(move || {
                let options = ["-sSk", "--max-time", "60", version[0], "-o", &file, url];
                command("curl", &options, b"").success();
                fs::metadata(file).expect("written").len()
            })
        });
        wait_for("both to begin", || {
            let begun = |version: &str| {
                let facts = fs::metadata(format!("{file}{version}"));
                facts.is_ok_and(|facts| facts.len() > 0)
            };
            (begun("--http2") && begun("--http1.1")).then_some(())
        });
        server.begin_upgrade();
        signal(old, "QUIT");
        server.wait_for_log("gracefully shutting down");
        assert!(runs(old), "it has still something to do");
        for client in clients {
            assert_eq!(client.join().expect("no panic"), 900_000);
        }
    });
    server.wait_for_end(old);
}

#[test]
fn a_worker_that_dies_during_an_upgrade_is_replaced_on_its_side() {
    let site = site();
    let server = start(&site);
    let old = server.pid();
    let new = server.begin_upgrade();
    server.expect_alert("exited on signal 9");
    for master in [old, new] {
        let worker = worker_of(master);
        signal(worker, "KILL");
        server.wait_for_end(worker);
        worker_of(master);
        let answer = wire::get(site.port("plain"), "/page");
        assert_eq!(answer.body.len(), 30_000);
    }
    let mut kept = Connection::open(site.port("plain"));
    kept.send("GET /n HTTP/1.1\r\nHost: a\r\n\r\n");
    kept.response(false);
    signal(old, "QUIT");
    server.wait_for_end(old);
    kept.send("GET /n HTTP/1.1\r\nHost: a\r\n\r\n");
    let expected = format!("2 {}", worker_of(new));
    assert_eq!(kept.response(false).text(), expected);
}
