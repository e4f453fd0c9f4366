//! What each process may do, as `/proc` tells it, and the modes of what they create.

use sealane_tests::reload::{Reload, ask, reload, reload_as_it_is};
use sealane_tests::takeover::call_within;
use sealane_tests::{Certificate, CertificateKey, Program, Server, Site, command, wait_for, wire};
use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

const SERVE: &str = "
    error_log logs/error.log notice;
    pid logs/server.pid;
    MAIN
    events { worker_connections 64; }
    http {
        access_log logs/access.log;
        ssl_session_ticket_state logs/tickets;
        server { listen 127.0.0.1:%plain%; root html; }
        server { listen unix:SITE/logs/socket; root html; }
        server {
            listen 127.0.0.1:%tls% ssl;
            ssl_certificate certificates/site.pem;
            ssl_certificate_key certificates/site.key;
            location / { proxy_pass http://127.0.0.1:%plain%; }
        }
    }";

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site.write("html/a.txt", b"hello");
    site
}

#[track_caller]
fn start<'a>(site: &'a Site, main: &str) -> Server<'a> {
    let directory = site.path("").display().to_string();
    let text = SERVE
        .replace("MAIN", main)
        .replace("SITE", directory.trim_end_matches('/'));
    Server::start(site, Program::Sealane, &text)
}

/// The fields of `/proc/PID/status`; of every thread they must be the same.
#[track_caller]
fn status(pid: u32, fields: &[&str]) -> BTreeMap<String, String> {
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path.join("status")).expect("it runs");
        let lines = text.lines().filter_map(|line| line.split_once(":\t"));
        lines
            .filter(|(name, _)| fields.contains(name))
            .map(|(name, value)| (name.to_owned(), value.replace('\t', " ")))
            .collect::<BTreeMap<_, _>>()
    };
    let process = read(Path::new(&format!("/proc/{pid}")));
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs") {
        let thread = thread.expect("readable").path();
        assert_eq!(read(&thread), process, "{}", thread.display());
    }
    assert_eq!(process.len(), fields.len(), "{process:?}");
    process
}

const CAPABILITIES: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

#[test]
fn the_worker_has_no_privileges_left() {
    let site = site();
    let server = start(&site, "user nobody nogroup; worker_processes 2;");
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    let worker = server.worker_pid();
    let sets = status(worker, &CAPABILITIES);
    let emptied = if sealane_needs::is_root() { 5 } else { 4 }; // only root may empty the bounding set
    let empty = sets.values().filter(|set| *set == "0000000000000000");
    assert!(empty.count() >= emptied, "{sets:?}");
    let rest = status(worker, &["NoNewPrivs", "Seccomp", "Seccomp_filters"]);
    assert_eq!(rest["NoNewPrivs"], "1");
    assert_eq!(rest["Seccomp"], "2", "a filter");
    if sealane_needs::is_root() {
        let nobody = command("id", &["-u", "nobody"], b"").success().text();
        let nobody = nobody.trim();
        let ids = status(worker, &["Uid", "Gid", "Groups"]);
        assert_eq!(ids["Uid"], [nobody; 4].join(" "));
        assert!(!ids["Gid"].split(' ').any(|id| id == "0"), "{ids:?}");
        assert!(!ids["Groups"].split(' ').any(|id| id == "0"), "{ids:?}");
    }
}

#[test]
fn the_filter_can_be_switched_off() {
    let site = site();
    let server = start(&site, "worker_seccomp off;");
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    let rest = status(server.worker_pid(), &["NoNewPrivs", "Seccomp"]);
    assert_eq!((&*rest["NoNewPrivs"], &*rest["Seccomp"]), ("1", "0"));
}

#[test]
fn transparent_binding_keeps_one_capability() {
    sealane_needs::root();
    let site = site();
    let text = SERVE.replace("MAIN", "user nobody nogroup;");
    let text = text.replace(
        "location / {",
        "location / { proxy_bind $remote_addr transparent;",
    );
    let directory = site.path("").display().to_string();
    let server = Server::start(&site, Program::Sealane, &text.replace("SITE/", &directory));
    wait_for("the worker to give up the others", || {
        let sets = status(server.worker_pid(), &["CapEff", "NoNewPrivs"]);
        (sets["NoNewPrivs"] == "1").then_some(())
    });
    let sets = status(server.worker_pid(), &CAPABILITIES);
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        assert_eq!(sets[set], "0000000000002000", "{set}: CAP_NET_RAW");
    }
    for set in ["CapInh", "CapAmb"] {
        assert_eq!(sets[set], "0000000000000000", "{set}");
    }
}

#[cfg(target_arch = "x86_64")] // whose numbers these are
#[test]
fn what_the_filter_refuses_fails_and_the_log_says_which_call_it_was() {
    let site = site();
    let server = start(&site, "");
    server.expect_alert("was refused system call");
    let worker = server.worker_pid();
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    // By number, because the program has functions of its own with some of these names.
    for (call, name) in [
        ("syscall(59, \"/bin/true\", 0, 0)", "(execve)"),
        ("syscall(56, 17, 0, 0, 0, 0)", "(clone)"), // fork(3)
        ("syscall(41, 38, 5, 0)", "(socket)"),      // AF_ALG
        ("syscall(50, 0, 1)", "(listen) with 0x0, 0x1, "),
        ("syscall(16, 0, 0x5412, 0)", "(ioctl)"), // TIOCSTI
        ("syscall(157, 22, 0, 0, 0, 0)", "(prctl)"),
        ("syscall(62, 1, 0)", "(kill)"),
        ("syscall(234, 1, 1, 0)", "(tgkill)"),
    ] {
        assert_eq!(call_within(worker, call), "-1", "{call}");
        server.wait_for_log(name);
    }
    assert_eq!(
        call_within(worker, "syscall(110)"),
        server.pid().to_string()
    );
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    assert_eq!(server.worker_pid(), worker, "it goes on");
    // Once for each call.
    call_within(worker, "syscall(62, 1, 0)");
    assert_eq!(server.error_log().matches("(kill)").count(), 1);
}

#[cfg(target_arch = "x86_64")] // whose number it is
#[test]
fn a_refused_call_ends_the_worker_when_that_is_asked_for() {
    let site = site();
    let server = start(&site, "worker_seccomp kill;");
    for alert in [
        "was refused system call",
        "crashed: signal 31",
        "exited on signal 31",
        "#",
        "names",
    ] {
        server.expect_alert(alert);
    }
    let worker = server.worker_pid();
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    call_within(worker, "syscall(62, 1, 0)"); // kill(2)
    server.wait_for_log("(kill)");
    server.wait_for_log("exited on signal 31");
    wait_for("another worker", || {
        let workers = server.worker_pids();
        workers.first().filter(|pid| **pid != worker).copied()
    });
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
}

#[test]
fn what_the_master_creates_has_the_documented_modes() {
    let site = site();
    let server = start(&site, "user nobody nogroup;");
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    wait_for("the ticket keys", || {
        site.path("logs/tickets").exists().then_some(())
    });
    let own = std::fs::metadata("/proc/self").expect("procfs").uid();
    for (path, mode) in [
        ("logs/server.pid", 0o644),
        ("logs/error.log", 0o644),
        ("logs/access.log", 0o644),
        ("logs/tickets", 0o600),
        ("logs/socket", 0o666),
        ("client_body_temp", 0o700),
        ("proxy_temp", 0o700),
    ] {
        let facts = std::fs::metadata(site.path(path)).expect(path);
        // Only a socket is more than the process's umask allows, by an explicit chmod.
        let allowed = facts.mode() & 0o777;
        assert_eq!(allowed & !mode, 0, "{path}: {allowed:o}");
        assert_eq!(allowed & 0o600, 0o600, "{path}: {allowed:o}");
        if facts.file_type().is_socket() {
            assert_eq!(allowed, mode, "{path}");
        }
        if !path.ends_with("temp") {
            assert_eq!(facts.uid(), own, "{path}");
        } else if own == 0 {
            assert_ne!(facts.uid(), 0, "{path} is the worker's");
        }
    }
}

#[test]
fn threads_run_where_and_as_urgently_as_configured() {
    let site = site();
    let cpus = status(std::process::id(), &["Cpus_allowed_list"]);
    let server = start(
        &site,
        "worker_processes 2; worker_cpu_affinity auto; worker_priority 5;",
    );
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    let worker = server.worker_pid();
    // The last thing that a thread does before it serves is binding itself.
    let bound = wait_for("bound threads", || {
        let bound = threads(worker);
        let alone = |name: &str| bound.get(name)?.parse::<u32>().ok();
        (alone("worker-0").is_some() && alone("worker-1").is_some()).then_some(bound)
    });
    if cpus["Cpus_allowed_list"].parse::<u32>().is_err() {
        assert_ne!(bound["worker-0"], bound["worker-1"]);
        assert_eq!(bound["log-writer"], cpus["Cpus_allowed_list"]);
    }
}

/// The CPUs of each thread by its name. All have the nice value 5.
fn threads(pid: u32) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs") {
        let path = thread.expect("readable").path();
        let read = |name: &str| std::fs::read_to_string(path.join(name)).expect("it runs");
        let name = read("comm").trim().to_owned();
        let stat = read("stat");
        let behind_name = stat.rsplit_once(") ").expect("a name").1;
        assert_eq!(behind_name.split(' ').nth(16), Some("5"), "{name}");
        let status = read("status");
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
        found.insert(name, list.expect("there").to_owned());
    }
    found
}

/// A site in which everything that the master makes or opens lies in a directory that belongs to
/// the worker's user, with a file that is root's alone.
fn planted_site() -> Site {
    let site = site();
    std::fs::create_dir(site.path("own")).expect("new");
    site.write("own/.keep", b"");
    let own = site.path("own").display().to_string();
    command("chown", &["-R", "nobody", &own], b"").success();
    site.write("secret", b"of root\n");
    let secret = site.path("secret").display().to_string();
    command("chmod", &["600", &secret], b"").success();
    site
}

const PLANTED: &str = "
    error_log logs/error.log notice;
    user nobody nogroup;
    pid own/server.pid;
    events { worker_connections 64; }
    http {
        log_format uri $uri;
        ssl_session_ticket_state own/tickets;
        proxy_temp_path own/temporary;
        server {
            listen 127.0.0.1:%plain%;
            access_log own/access.log uri;
            root html;
        }
        server {
            listen 127.0.0.1:%tls% ssl;
            access_log off;
            ssl_certificate certificates/site.pem;
            ssl_certificate_key certificates/site.key;
            location / { proxy_pass http://127.0.0.1:%plain%; }
        }
    }";

/// What the worker's user puts in the place of a file.
fn plant(site: &Site, name: &str, what: &[&str]) {
    let place = site.path(name).display().to_string();
    command("rm", &["-rf", &place], b"").success();
    let (program, arguments) = what.split_first().expect("a command");
    let mut arguments = arguments.to_vec();
    arguments.push(&place);
    command(program, &arguments, b"").success();
}

#[test]
fn what_the_workers_user_puts_in_the_place_of_a_log_is_not_opened_for_it() {
    sealane_needs::root();
    let site = planted_site();
    let secret = site.path("secret").display().to_string();
    let directory = site.path("").display().to_string();
    let server = Server::start(&site, Program::Sealane, PLANTED);
    server.expect_alert("13: Permission denied: user 65534");
    let get = || assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    get();
    let new = format!("{directory}/new");
    for what in [
        &["ln", "-s", &secret][..],
        &["ln", &secret],
        &["ln", "-s", &new],
        &["ln", "-s", "/dev/mem"],
    ] {
        plant(&site, "own/access.log", what);
        let refusals = || {
            let log = server.error_log();
            log.matches("own/access.log\" failed (").count()
        };
        let before = refusals();
        server.signal("USR1");
        wait_for("the refusal", || (refusals() > before).then_some(()));
        get();
        // The same in a reload, which changes nothing then.
        assert_eq!(reload_as_it_is(&server), Reload::Refused, "{what:?}");
        get();
    }
    assert!(!site.path("new").exists());
    // A FIFO that nobody reads holds nobody up, and is a log as well as in nginx.
    plant(&site, "own/access.log", &["mkfifo"]);
    server.signal("USR1");
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    get();
    // What leads nowhere else is followed, and a directory of files may be linked to.
    plant(&site, "own/access.log", &["ln", "-s", "/dev/stderr"]);
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    std::fs::remove_file(site.path("own/access.log")).expect("it is there");
    server.signal("USR1");
    wait_for("the log to be made again", || {
        get();
        let log = std::fs::read_to_string(site.path("own/access.log"));
        log.is_ok_and(|log| log.contains("/a.txt")).then_some(())
    });
    let text = std::fs::read_to_string(site.path("secret")).expect("root's");
    assert_eq!(text, "of root\n");
}

#[test]
fn what_the_workers_user_puts_in_the_place_of_other_files_is_left_alone() {
    sealane_needs::root();
    let site = planted_site();
    let secret = site.path("secret").display().to_string();
    let private = site.path("private").display().to_string();
    command("mkdir", &["-m", "700", &private], b"").success();
    plant(&site, "own/tickets.tmp", &["ln", "-s", &secret]);
    let server = Server::start(&site, Program::Sealane, PLANTED);
    wait_for("the ticket keys", || {
        site.path("own/tickets").exists().then_some(())
    });
    let facts = |name: &str| {
        let facts = std::fs::symlink_metadata(site.path(name)).expect(name);
        (facts.uid(), facts.mode() & 0o777)
    };
    assert_eq!(facts("own/tickets"), (0, 0o600));
    assert_eq!(facts("own/temporary"), (65534, 0o700));
    // A directory that becomes the worker's would be a present.
    plant(&site, "own/temporary", &["ln", "-s", &private]);
    server.expect_alert("own/temporary");
    assert_eq!(reload_as_it_is(&server), Reload::Refused);
    plant(&site, "own/temporary", &["mkdir", "-m", "755"]);
    assert_eq!(reload_as_it_is(&server), Reload::Refused);
    server.wait_for_log("is for temporary files but belongs to user 0");
    assert_eq!(facts("private"), (0, 0o700));
    std::fs::remove_dir(site.path("own/temporary")).expect("empty");
    // A new pid file, where a link is already.
    plant(&site, "own/other.pid", &["ln", "-s", &secret]);
    server.expect_alert("own/other.pid");
    let other = PLANTED.replace("server.pid", "other.pid");
    assert_eq!(reload(&site, &server, &other), Reload::Refused);
    // And keys of others.
    plant(
        &site,
        "own/site.key",
        &["ln", "-s", "../certificates/site.key"],
    );
    let key = site.path("certificates/site.key").display().to_string();
    command("chmod", &["600", &key], b"").success();
    server.expect_alert("own/site.key");
    let other = PLANTED.replace("certificates/site.key", "own/site.key");
    assert_eq!(reload(&site, &server, &other), Reload::Refused);
    assert_eq!(facts("secret"), (0, 0o600));
    let text = std::fs::read_to_string(site.path("secret")).expect("root's");
    assert_eq!(text, "of root\n");
}

const IN_A_DIRECTORY_BELOW: &str = "
    error_log logs/error.log notice;
    user nobody nogroup;
    pid own/run/server.pid;
    events { worker_connections 64; }
    http {
        access_log off;
        server { listen 127.0.0.1:%plain%; root html; }
        MORE
    }";

/// A planted site with a directory of the worker's user for the pid file, and one of root's which
/// everybody may look into.
fn site_with_a_way() -> Site {
    let site = planted_site();
    let run = site.path("own/run").display().to_string();
    command("mkdir", &[&run], b"").success();
    command("chown", &["nobody", &run], b"").success();
    std::fs::create_dir(site.path("private")).expect("new");
    site
}

/// The worker's user has a directory of root's stand where its own was.
fn exchange_the_way(site: &Site) {
    let run = site.path("own/run").display().to_string();
    let aside = site.path("own/aside").display().to_string();
    command("mv", &[&run, &aside], b"").success();
    plant(site, "own/run", &["ln", "-s", "../private"]);
}

#[test]
fn the_master_removes_and_renames_only_the_pid_file_that_it_has_made() {
    sealane_needs::root();
    let site = site_with_a_way();
    site.write("private/server.pid", "1\n");
    let server = Server::start(
        &site,
        Program::Sealane,
        &IN_A_DIRECTORY_BELOW.replace("MORE", ""),
    );
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    exchange_the_way(&site);
    server.expect_alert("own/run/server.pid");
    server.signal("USR2");
    server.wait_for_log("before executing new binary process");
    assert!(site.path("private/server.pid").exists(), "it was renamed");
    server.stop("QUIT");
    let content = std::fs::read_to_string(site.path("private/server.pid"));
    assert_eq!(content.expect("it was removed"), "1\n");
    assert!(!site.path("private/server.pid.oldbin").exists());
}

#[test]
fn sockets_that_others_have_left_elsewhere_are_not_taken_for_the_masters() {
    sealane_needs::root();
    let site = site_with_a_way();
    let stale = site.path("private/socket");
    drop(std::os::unix::net::UnixListener::bind(&stale).expect("new"));
    exchange_the_way(&site);
    let directory = site.path("").display().to_string();
    let more = format!("server {{ listen unix:{directory}own/run/socket; }}");
    let text = IN_A_DIRECTORY_BELOW.replace("MORE", &more);
    let text = text.replace("own/run/server.pid", "logs/server.pid");
    site.write("sealane.conf", site.fill_in(&text));
    // It ends by itself, as it cannot listen there.
    let refused = ask(&site, &["-g", "daemon off;"]);
    assert!(
        refused.stderr.contains("own/run/socket"),
        "{}",
        refused.stderr
    );
    assert!(stale.exists(), "it was removed");
}

#[test]
fn directories_that_the_workers_user_can_move_are_not_given_to_it() {
    sealane_needs::root();
    let site = planted_site();
    std::fs::create_dir_all(site.path("own/run/temporary")).expect("new");
    let more = "server { listen 127.0.0.1:%other%; location / {
        proxy_pass http://127.0.0.1:%plain%; proxy_temp_path own/run/temporary; } }";
    let text = IN_A_DIRECTORY_BELOW.replace("MORE", more);
    let text = text.replace("own/run/server.pid", "logs/server.pid");
    site.write("sealane.conf", site.fill_in(&text));
    let refused = ask(&site, &["-t"]);
    let facts = std::fs::metadata(site.path("own/run/temporary")).expect("there");
    assert_eq!(facts.uid(), 0, "it was given away");
    assert!(
        refused.stderr.contains("belongs to user 0"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_pid_that_the_workers_user_has_written_is_not_signalled() {
    sealane_needs::root();
    let site = site_with_a_way();
    let server = Server::start(
        &site,
        Program::Sealane,
        &IN_A_DIRECTORY_BELOW.replace("MORE", ""),
    );
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    let mut bystander = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .expect("coreutils");
    let own = std::fs::read(site.path("own/run/server.pid")).expect("there");
    let pid = format!("{}\n", bystander.id());
    let path = site.path("own/run/server.pid").display().to_string();
    std::fs::remove_file(&path).expect("there");
    std::fs::write(&path, pid).expect("writable");
    command("chown", &["nobody", &path], b"").success();
    let refused = ask(&site, &["-s", "stop"]);
    let lives = bystander.try_wait().expect("ours").is_none();
    let _ = bystander.kill();
    let _ = bystander.wait();
    assert!(lives, "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("belongs to the user of worker processes"),
        "{}",
        refused.stderr
    );
    std::fs::write(&path, own).expect("writable");
    server.expect_alert("own/run/server.pid");
}

/// Modes of everything that both processes make, under a mask of the one who starts them.
#[track_caller]
fn modes_under(mask: &str) {
    let site = site();
    let directory = site.path("").display().to_string();
    let text = SERVE.replace("MAIN", "user nobody nogroup;");
    let text = text.replace("SITE", directory.trim_end_matches('/'));
    let script = format!("umask {mask}; exec \"$0\" \"$@\"");
    let server = Server::start_under(&site, Program::Sealane, &text, &["sh", "-c", &script]);
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    wait_for("the ticket keys", || {
        site.path("logs/tickets").exists().then_some(())
    });
    let kept = !u32::from_str_radix(mask, 8).expect("octal digits");
    for (path, mode) in [
        ("logs/server.pid", 0o644 & kept),
        ("logs/access.log", 0o644 & kept),
        ("logs/tickets", 0o600),
        ("logs/socket", 0o666), // whatever the mask
        ("client_body_temp", 0o700),
        ("proxy_temp", 0o700),
    ] {
        let facts = std::fs::symlink_metadata(site.path(path)).expect(path);
        assert_eq!(facts.mode() & 0o777, mode, "{path} under {mask}");
    }
}

#[test]
fn modes_do_not_depend_on_a_mask_beyond_what_it_takes_away() {
    modes_under("000");
    modes_under("077");
}
