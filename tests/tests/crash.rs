//! A worker that dies: what the log says, how soon the next one serves, and what a core dump
//! does not hold.

use sealane_tests::memory::{self, AS_IN_MEMORY, Place, Secret};
use sealane_tests::reload::{Reload, reload};
use sealane_tests::upgrade::{self, Daemon};
use sealane_tests::{
    Certificate, CertificateKey, Program, Server, Site, command, handshake_at, sealane_binary,
    wait_for, wire,
};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const SERVE: &str = "
    error_log logs/error.log notice;
    MAIN
    events { worker_connections 64; }
    http {
        access_log off;
        server { listen 127.0.0.1:%plain%; root html; }
        server {
            listen 127.0.0.1:%tls% ssl;
            ssl_certificate certificates/site.pem;
            ssl_certificate_key certificates/site.key;
            ssl_session_ticket_key tickets.key;
            root html;
        }
    }";

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::Rsa));
    site.write("html/a.txt", b"hello");
    site.write("tickets.key", TICKET_KEY);
    site
}

/// 16 bytes of name, 32 and 32 of keys.
const TICKET_KEY: &[u8; 80] =
    b"name-of-the-key.must-not-be-found-in-a-core-file.nor-these-bytes-of-the-other.kb";

#[track_caller]
fn start<'a>(site: &'a Site, main: &str) -> Server<'a> {
    let server = Server::start(site, Program::Sealane, &SERVE.replace("MAIN", main));
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    for alert in [
        "crashed: signal",
        "exited on signal",
        "#",
        "names of these",
        "keep dying",
    ] {
        server.expect_alert(alert);
    }
    server
}

/// Kills the worker and returns the process id of the next one.
#[track_caller]
fn kill(server: &Server<'_>, signal: &str) -> u32 {
    let worker = server.worker_pid();
    command("kill", &[&format!("-{signal}"), &worker.to_string()], b"").success();
    let next = wait_for("another worker", || {
        let workers = server.worker_pids();
        workers.first().filter(|pid| **pid != worker).copied()
    });
    // The connection waits in the queue of the socket that stayed open.
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    next
}

#[test]
fn a_terminal_whose_window_changes_ends_no_worker() {
    let site = site();
    let server = Server::start(&site, Program::Sealane, &SERVE.replace("MAIN", ""));
    let worker = server.worker_pid();
    for signal in ["-WINCH", "-USR2"] {
        command("kill", &[signal, &worker.to_string()], b"").success();
    }
    server.wait_for_log("signal 12 (SIGUSR2) received");
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    assert_eq!(server.worker_pids(), [worker]);
    assert!(!server.error_log().contains("shutting down"));
}

#[test]
fn a_worker_is_missed_even_by_a_master_that_was_started_without_sigchld() {
    let site = site();
    let wrapper = ["env", "--ignore-signal=CHLD"];
    let configuration = SERVE.replace("MAIN", "");
    let server = Server::start_under(&site, Program::Sealane, &configuration, &wrapper);
    server.expect_alert("exited on signal 9");
    kill(&server, "KILL");
}

#[test]
fn the_log_has_signal_build_and_stack_and_the_next_worker_serves() {
    let site = site();
    let server = start(&site, "");
    for (signal, name) in [
        ("SEGV", "signal 11 (SIGSEGV)"),
        ("BUS", "signal 7 (SIGBUS)"),
        ("ILL", "signal 4 (SIGILL)"),
        ("FPE", "signal 8 (SIGFPE)"),
        ("ABRT", "signal 6 (SIGABRT)"),
    ] {
        kill(&server, signal);
        let line = server.wait_for_log(name);
        assert!(line.contains("[alert]"), "{line}");
        assert!(line.contains("worker process crashed"), "{line}");
        assert!(line.contains("thread \"sealane: worker\""), "{line}");
        let id = line.rsplit_once("build id ").expect("a build id").1;
        let notes = command(
            "readelf",
            &["-n", &sealane_binary().display().to_string()],
            b"",
        );
        assert!(notes.success().text().contains(id), "{id}");
    }
    let log = server.error_log();
    let names = log
        .lines()
        .find_map(|line| Some(line.split_once("names of these: ")?.1));
    let words: Vec<&str> = names.expect("a command").split(' ').collect();
    assert_eq!(words[0], "addr2line");
    let names = command(words[0], &words[1..], b"").success().text();
    assert!(names.contains("worker_process"), "{names}");
}

#[test]
fn what_was_logged_before_a_crash_is_in_the_log() {
    const LINES: usize = 300;
    let site = site();
    let server = start(&site, "");
    let mut connection = wire::Connection::open(server.port("plain"));
    for number in 0..LINES {
        connection.send(format!(
            "GET /missing-{number}. HTTP/1.1\r\nHost: a\r\n\r\n"
        ));
        assert_eq!(connection.response(false).status, 404);
    }
    // The last lines are not older than the time that the writer lets lines come together.
    kill(&server, "SEGV");
    let log = server.error_log();
    let lost = (0..LINES).filter(|number| !log.contains(&format!("/missing-{number}.")));
    assert_eq!(lost.count(), 0, "of {LINES} lines");
    let crash = log.find("worker process crashed").expect("a report");
    assert!(log[crash..].contains("names of these"));
}

#[test]
fn a_master_that_crashes_says_so_as_well() {
    let site = site();
    let server = start(&site, "");
    server.expect_alert("master process");
    let text = server.error_log();
    assert!(!text.contains("crashed"), "{text}");
    let (master, worker) = (server.pid(), server.worker_pid());
    // It must not be stopped by the harness, which has to see that it is dead.
    let status = server.stop("SEGV");
    assert!(!status.success());
    let text = std::fs::read_to_string(site.path("logs/error.log")).expect("a log");
    assert!(
        text.contains("master process crashed: signal 11 (SIGSEGV)"),
        "{text}"
    );
    assert!(text.contains(&format!("{master}#{master}: #0 ")), "{text}");
    wait_for("the worker to end", || {
        let gone = !PathBuf::from(format!("/proc/{worker}/exe")).exists();
        gone.then_some(())
    });
}

/// The core file that the kernel or, where that sends them elsewhere, the debugger makes.
#[track_caller]
fn core_of(site: &Site, server: &Server<'_>) -> PathBuf {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("procfs");
    let worker = server.worker_pid();
    let elsewhere = pattern.starts_with(['|', '/']) || pattern.contains('%');
    if elsewhere {
        let file = site.path(format!("logs/core.{worker}"));
        let prefix = site.path("logs/core").display().to_string();
        command("gcore", &["-o", &prefix, &worker.to_string()], b"").success();
        file
    } else {
        kill(server, "SEGV");
        server.wait_for_log("(core dumped)");
        let directory = std::fs::read_dir(site.path("cores")).expect("there");
        let mut names = directory.map(|entry| entry.expect("readable").path());
        names.next().expect("a core file")
    }
}

#[test]
fn a_core_dump_has_the_stacks_and_no_secrets() {
    let site = site();
    // The worker's user has to be able to write there.
    let directory = site.path("cores");
    std::fs::create_dir(&directory).expect("the site is writable");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&directory, open).expect("it is ours");
    let directory = directory.display().to_string();
    let main = format!("worker_processes 2; worker_rlimit_core 1g; working_directory {directory};");
    let server = start(&site, &main);
    let address = format!("https://localhost:{}/a.txt", server.port("tls"));
    for _ in 0..20 {
        let arguments = [
            "-sk",
            "--tls-max",
            "1.2",
            "--ciphers",
            "ECDHE-RSA-AES128-GCM-SHA256",
            &address,
        ];
        let outcome = command("curl", &arguments, b"").success();
        assert_eq!(outcome.text(), "hello");
    }
    let mut secrets = Secret::of_key_file("RSA", &site.path("certificates/site.key"));
    secrets.extend(Secret::of_ticket_key("the", TICKET_KEY));
    // The search works: they are there.
    let own = [(server.worker_pid(), "the ticket key 1")];
    let of_key_process = (server.key_process_pid(), "RSA prime1 as in memory");
    let of_key_process = [of_key_process].into_iter();
    let of_key_process = of_key_process.filter(|_| sealane_needs::is_root());
    for (pid, name) in own.into_iter().chain(of_key_process) {
        let alive = memory::find_in_process(&secrets, pid);
        assert!(alive.iter().any(|(found, _)| found == name), "{alive:?}");
    }
    let core = core_of(&site, &server);
    assert_eq!(memory::find_in_file(&secrets, &core), BTreeSet::new());
    // It is a whole one: the stacks have the name of the program and the way to its threads.
    let name = Secret {
        name: "the name".into(),
        bytes: b"sealane: worker".to_vec(),
    };
    assert_eq!(memory::find_in_file(&[name], &core).len(), 1);
    let core = std::fs::read(core).expect("a small one");
    assert!(core.starts_with(b"\x7fELF"));
    assert!(core.len() > 1 << 16, "{} bytes", core.len());
}

const KEYS: &str = "
    error_log logs/error.log notice;
    worker_processes THREADS;
    events { worker_connections 64; }
    http {
        access_log off;
        ssl_certificate_reload RELOAD;
        ssl_key_process PROCESS;
        server {
            listen 127.0.0.1:%plain%;
            root html;
            proxy_ssl_session_reuse off;
            location /rsa/ {
                proxy_ssl_certificate certificates/SET-client-rsa.pem;
                proxy_ssl_certificate_key certificates/SET-client-rsa.key;
                location /rsa/1.2/ { proxy_ssl_protocols TLSv1.2; proxy_pass https://127.0.0.1:%origin%/; }
                location /rsa/1.3/ { proxy_ssl_protocols TLSv1.3; proxy_pass https://127.0.0.1:%origin%/; }
            }
            location /ec/ {
                proxy_ssl_certificate certificates/SET-client-ec.pem;
                proxy_ssl_certificate_key certificates/SET-client-ec.key;
                location /ec/1.2/ { proxy_ssl_protocols TLSv1.2; proxy_pass https://127.0.0.1:%origin%/; }
                location /ec/1.3/ { proxy_ssl_protocols TLSv1.3; proxy_pass https://127.0.0.1:%origin%/; }
            }
            location /text/ {
                proxy_ssl_certificate \"BOTH:SET-client-text-ec\";
                proxy_ssl_certificate_key \"BOTH:SET-client-text-ec\";
                location /text/1.2/ { proxy_ssl_protocols TLSv1.2; proxy_pass https://127.0.0.1:%origin%/; }
                location /text/1.3/ { proxy_ssl_protocols TLSv1.3; proxy_pass https://127.0.0.1:%origin%/; }
            }
        }
        map $ssl_server_name $name { default SET-named-ec; }
        server {
            listen 127.0.0.1:%named% ssl;
            ssl_certificate certificates/NAMED.pem;
            ssl_certificate_key \"KEY:SET-named-ec\";
            ssl_session_ticket_key SET-tickets.key;
            root html;
        }
        # No longer in use: LINE:SET-line-ec
        server {
            listen 127.0.0.1:%text% ssl;
            ssl_certificate certificates/SET-text-rsa.pem;
            ssl_certificate_key \"KEY:SET-text-rsa\";
            ssl_certificate certificates/SET-line-ec.pem;
            ssl_certificate_key 'LINE:SET-line-ec';
            ssl_session_ticket_key SET-tickets.key;
            root html;
        }
        server {
            listen 127.0.0.1:%origin% ssl;
            ssl_certificate certificates/SET-ec.pem;
            ssl_certificate_key certificates/SET-ec.key;
            ssl_session_ticket_key SET-tickets.key;
            ssl_verify_client optional_no_ca;
            location / { return 200 $ssl_client_s_dn; }
        }
        server {
            listen 127.0.0.1:%tls% ssl;
            ssl_certificate certificates/SET-rsa.pem;
            ssl_certificate_key certificates/SET-rsa.key;
            ssl_certificate certificates/SET-ec.pem;
            ssl_certificate_key certificates/SET-ec.key;
            ssl_session_ticket_key SET-tickets.key;
            root html;
        }
    }";

/// Certificates of servers, and those that other servers are shown.
const FIRST: [&str; 8] = [
    "first-rsa",
    "first-ec",
    "first-client-rsa",
    "first-client-ec",
    "first-text-rsa",
    "first-line-ec",
    "first-client-text-ec",
    "first-named-ec",
];
const SECOND: [&str; 8] = [
    "second-rsa",
    "second-ec",
    "second-client-rsa",
    "second-client-ec",
    "second-text-rsa",
    "second-line-ec",
    "second-client-text-ec",
    "second-named-ec",
];

/// Two sets of keys: what is in use, and what takes its place.
#[track_caller]
fn set_of_keys(site: &Site, set: &str, names: [&'static str; 8], fill: u8) -> Vec<Secret> {
    let mut secrets = Vec::new();
    for name in names {
        let key = match name.ends_with("rsa") {
            true => CertificateKey::Rsa,
            false => CertificateKey::P256,
        };
        site.certificate(&Certificate::localhost(name, key));
        let file = site.path(format!("certificates/{name}.key"));
        secrets.extend(Secret::of_key_file(name, &file));
    }
    let mut file = *TICKET_KEY;
    file.iter_mut().for_each(|byte| *byte ^= fill);
    site.write(format!("{set}-tickets.key"), file);
    secrets.extend(Secret::of_ticket_key(set, &file));
    secrets
}

/// As a server with both keys, and as a client of another server.
#[track_caller]
fn shake_hands(server: &Server<'_>) {
    for key in ["rsa", "ec", "text"] {
        for version in ["1.2", "1.3"] {
            let target = format!("/{key}/{version}/");
            let seen = wire::get(server.port("plain"), &target);
            assert!(seen.text().contains("client"), "{target}: {seen:?}");
        }
    }
    for port in ["tls", "text"] {
        shake_hands_as_client(server.port(port));
    }
    let named = handshake_at(server, "named", "");
    assert!(named.succeeded(), "{}", named.output);
}

#[track_caller]
fn shake_hands_as_client(port: u16) {
    let address = format!("https://localhost:{port}/a.txt");
    for choice in [
        &[
            "--tls-max",
            "1.2",
            "--ciphers",
            "ECDHE-RSA-AES128-GCM-SHA256",
        ][..],
        &[
            "--tls-max",
            "1.2",
            "--ciphers",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ],
        &["--tlsv1.3"],
    ] {
        for _ in 0..4 {
            let arguments = [&["-sk"], choice, &[address.as_str()]].concat();
            let outcome = command("curl", &arguments, b"").success();
            assert_eq!(outcome.text(), "hello");
        }
    }
}

/// Without a key process, the master keeps files for `ssl_certificate_reload`.
fn reload_of(keys: Keys) -> &'static str {
    match keys {
        Keys::Apart => "on",
        Keys::Here => "off",
    }
}

/// Where private keys are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// In the key process alone.
    Apart,
    /// In master and workers.
    Here,
}

/// Of the keys in use, the processes that are to have them have the numbers, and master and worker
/// the ticket keys, on their heaps and nowhere else; the files are gone. Of others they have
/// nothing, but for the key process, which keeps them for handshakes under way.
#[track_caller]
fn keys_are_where_they_belong(
    keys: Keys,
    server: &Server<'_>,
    when: &str,
    used: &[Secret],
    other: &[Secret],
) {
    let all: Vec<Secret> = used.iter().chain(other).cloned().collect();
    let expected = |is_kept: &dyn Fn(&str) -> bool| -> BTreeSet<(String, Place)> {
        let kept = used.iter().filter(|secret| is_kept(&secret.name));
        kept.map(|secret| (secret.name.clone(), Place::Heap))
            .collect()
    };
    let is_number = |name: &str| name.ends_with(AS_IN_MEMORY);
    let is_ticket_key = |name: &str| name.contains("ticket key");
    let numbers = expected(&is_number);
    assert_eq!(numbers.len(), 3 * 6 + 5, "{numbers:?}");
    let expected = match keys {
        Keys::Apart => expected(&is_ticket_key),
        Keys::Here => expected(&|name| is_number(name) || is_ticket_key(name)),
    };
    // Only root may look into it.
    if keys == Keys::Apart && sealane_needs::is_root() {
        let pid = server.key_process_pid();
        let found = memory::find_in_process(&all, pid);
        let less: Vec<_> = numbers.difference(&found).collect();
        assert!(less.is_empty(), "key process, {when}: not found {less:#?}");
        let is_in_order =
            |(name, place): &(String, Place)| is_number(name) && *place == Place::Heap;
        assert!(
            found.iter().all(is_in_order),
            "key process, {when}: {found:#?}"
        );
    }
    for (process, pid) in [("master", server.pid()), ("worker", server.worker_pid())] {
        // What a thread is about to let go of is gone soon.
        let mut found = BTreeSet::new();
        for _ in 0..20 {
            found = memory::find_in_process(&all, pid);
            if found == expected {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let more: Vec<_> = found.difference(&expected).collect();
        let less: Vec<_> = expected.difference(&found).collect();
        assert!(
            more.is_empty() && less.is_empty(),
            "{process}, {when}: found besides {more:#?}, not found {less:#?}"
        );
    }
}

fn configuration(site: &Site, set: &str, threads: &str, reload: &str, process: &str) -> String {
    let text = KEYS.replace("SET", set).replace("THREADS", threads);
    // Without a key process, the worker has the text of a key beside a variable.
    let named = match process {
        "on" => "$name".to_owned(),
        _ => format!("{set}-named-ec"),
    };
    let mut text = text
        .replace("RELOAD", reload)
        .replace("PROCESS", process)
        .replace("NAMED", &named);
    let pem = |name: &str| {
        let path = site.path(format!("certificates/{name}"));
        std::fs::read_to_string(path).expect("it was made")
    };
    for name in [FIRST, SECOND].concat() {
        if text.contains(&format!(":{name}")) {
            let (certificate, key) = (pem(&format!("{name}.pem")), pem(&format!("{name}.key")));
            for (form, content) in [
                ("KEY", key.clone()),
                ("LINE", key.replace('\n', "\\n")),
                ("BOTH", certificate + &key),
            ] {
                text = text.replace(&format!("{form}:{name}"), &format!("data:{content}"));
            }
        }
    }
    text
}

#[test]
fn with_ssl_certificate_reload_and_without_a_key_process_the_master_has_key_files_on_its_heap_and_the_worker_has_not()
 {
    let site = Site::new();
    site.write("html/a.txt", b"hello");
    let keys = set_of_keys(&site, "first", FIRST, 0);
    let text = configuration(&site, "first", "2", "on", "off");
    let server = Server::start(&site, Program::Sealane, &text);
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    shake_hands(&server);
    let is_of_file = |name: &str| name.contains(" line ");
    let lines = keys.iter().filter(|secret| is_of_file(&secret.name));
    let lines: BTreeSet<(String, Place)> = lines
        .map(|secret| (secret.name.clone(), Place::Heap))
        .collect();
    assert!(!lines.is_empty());
    let mut found = memory::find_in_process(&keys, server.pid());
    found.retain(|(name, _)| is_of_file(name));
    assert_eq!(found, lines, "master");
    wait_for("the worker to have let go of them", || {
        let found = memory::find_in_process(&keys, server.worker_pid());
        (!found.iter().any(|(name, _)| is_of_file(name))).then_some(())
    });
    server.stop("QUIT");
}

#[test]
fn keys_are_in_the_key_process_alone() {
    keys_stay_where_they_belong(Keys::Apart, "on");
}

#[test]
fn keys_are_in_master_and_worker_without_a_key_process() {
    keys_stay_where_they_belong(Keys::Here, "off");
}

#[track_caller]
fn keys_stay_where_they_belong(keys: Keys, process: &str) {
    let site = Site::new();
    site.write("html/a.txt", b"hello");
    let first = set_of_keys(&site, "first", FIRST, 0);
    let second = set_of_keys(&site, "second", SECOND, 0x80);
    let text =
        |set: &str, threads: &str| configuration(&site, set, threads, reload_of(keys), process);
    let server = Server::start(&site, Program::Sealane, &text("first", "2"));
    server.expect_alert("crashed: signal");
    server.expect_alert("exited on signal");
    server.expect_alert("#");
    server.expect_alert("names of these");
    server.wait_for_log("start worker process ");
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    keys_are_where_they_belong(keys, &server, "at the start", &first, &second);
    shake_hands(&server);
    keys_are_where_they_belong(keys, &server, "after handshakes", &first, &second);
    let reloaded = reload(&site, &server, &text("first", "2"));
    assert_eq!(reloaded, Reload::Applied);
    keys_are_where_they_belong(keys, &server, "after a reload", &first, &second);
    // What is refused has been read.
    server.expect_alert("unknown directive");
    for wrong in ["wrong on;", "wrong 'on'on;", "wrong \""] {
        let text = text("second", "2") + wrong;
        assert_eq!(reload(&site, &server, &text), Reload::Refused);
        keys_are_where_they_belong(keys, &server, "after a refusal", &first, &second);
    }
    let reloaded = reload(&site, &server, &text("second", "2"));
    assert_eq!(reloaded, Reload::Applied);
    keys_are_where_they_belong(keys, &server, "with other keys", &second, &first);
    shake_hands(&server);
    kill(&server, "SEGV");
    keys_are_where_they_belong(keys, &server, "after a crash", &second, &first);
    shake_hands(&server);
    let before = server.worker_pid();
    let reloaded = reload(&site, &server, &text("first", "1"));
    assert_eq!(reloaded, Reload::Applied);
    wait_for("the process before to end", || {
        (!server.worker_pids().contains(&before)).then_some(())
    });
    keys_are_where_they_belong(keys, &server, "in another process", &first, &second);
}

/// Neither binary's master and worker have a key, while there are both and afterwards.
#[test]
fn keys_are_in_key_processes_alone_over_an_upgrade() {
    let site = Site::new();
    site.write("html/a.txt", b"hello");
    let secrets = set_of_keys(&site, "first", FIRST, 0);
    let text = configuration(&site, "first", "2", "on", "on")
        .replace("error_log", "pid logs/pid; error_log");
    let server = Daemon::start(&site, Program::Sealane, &text);
    let is_of_certificate = |(name, _): &(String, Place)| !name.contains("ticket key");
    let search = |masters: &[u32]| {
        for master in masters {
            let workers = upgrade::children(*master).into_iter();
            let workers = workers.filter(|pid| !masters.contains(pid));
            for pid in workers.chain([*master]) {
                let found = memory::find_in_process(&secrets, pid);
                let found: Vec<_> = found.into_iter().filter(is_of_certificate).collect();
                assert!(found.is_empty(), "{pid}: {found:#?}");
            }
        }
    };
    let get = || {
        let address = format!("https://localhost:{}/a.txt", site.port("tls"));
        for version in ["1.2", "1.3"] {
            let arguments = ["-sk", "--tls-max", version, &address];
            assert_eq!(command("curl", &arguments, b"").success().text(), "hello");
            for key in ["rsa", "text"] {
                let target = format!("/{key}/{version}/");
                let seen = wire::get(site.port("plain"), &target);
                assert!(seen.text().contains("client"), "{target}: {seen:?}");
            }
        }
        shake_hands_as_client(site.port("text"));
    };
    get();
    let old = server.pid();
    search(&[old]);
    let new = server.begin_upgrade();
    get();
    search(&[old, new]);
    upgrade::signal(old, "QUIT");
    server.wait_for_end(old);
    get();
    search(&[new]);
}
