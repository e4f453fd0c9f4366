//! What a worker cannot do that somebody has taken over, by having one do it.
#![cfg(target_arch = "x86_64")] // whose numbers of system calls these are

use sealane_needs::is_root;
use sealane_tests::reload::{Reload, reload, reload_as_it_is};
use sealane_tests::takeover::{are_allowed, are_refused, landlock};
use sealane_tests::{Certificate, CertificateKey, Server, Site, command, wait_for, wire};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

const NOBODY: u32 = 65534;

const SERVE: &str = "
    error_log logs/error.log info;
    pid logs/server.pid;
    user nobody nogroup;
    MAIN
    events { worker_connections 64; }
    http {
        access_log off;
        proxy_cache_path cache keys_zone=cache:1m;
        server {
            listen 127.0.0.1:%plain%;
            root html;
            location /put/ { root DAV; dav_methods PUT DELETE MKCOL COPY MOVE; }
            location /pass/ { proxy_pass http://127.0.0.1:%plain%/; }
        }
    }";

fn configuration(main: &str, dav: &str) -> String {
    SERVE.replace("MAIN", main).replace("DAV", dav)
}

/// A site in which the worker's user may change everything, with a file outside of what the
/// configuration has it change.
fn site() -> Site {
    let site = Site::new();
    site.write("html/a.txt", b"hello");
    site.write("outside/file", b"as it was");
    for directory in ["one/put", "two/put"] {
        std::fs::create_dir_all(site.path(directory)).expect("new");
    }
    if is_root() {
        let names = ["outside", "html", "one", "two"];
        let paths = names.map(|name| site.path(name).display().to_string());
        command(
            "chown",
            &[&["-R".to_owned(), "nobody".to_owned()], &paths[..]].concat(),
            b"",
        )
        .success();
    }
    site
}

/// Another process of the worker's user.
struct Bystander(Child);

impl Bystander {
    fn start() -> Bystander {
        let mut sleep = Command::new("sleep");
        sleep.arg("600");
        if is_root() {
            sleep.uid(NOBODY).gid(NOBODY);
        }
        let bystander = Bystander(sleep.spawn().expect("coreutils"));
        let name = format!("/proc/{}/comm", bystander.pid());
        wait_for("another process", || {
            let name = std::fs::read_to_string(&name).ok()?;
            (name == "sleep\n").then_some(())
        });
        bystander
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn calls_are_filtered_by_what_they_ask_for() {
    let site = site();
    let server = site.serve_whole(&configuration("worker_landlock off;", "one"));
    server.expect_alert("was refused system call");
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    let bystander = Bystander::start();
    let own = format!("syscall(72, 0, 8, {})", bystander.pid());
    let (calls, names): (Vec<_>, Vec<_>) = [
        (own.as_str(), "fcntl"),                          // F_SETOWN
        ("syscall(72, 0, 10, 9)", "fcntl"),               // F_SETSIG
        ("syscall(72, 0, 4, 0x2000)", "fcntl"),           // F_SETFL, O_ASYNC
        ("syscall(16, 0, 0x5452, 0)", "ioctl"),           // FIOASYNC
        ("syscall(16, 0, 0x8901, 0)", "ioctl"),           // FIOSETOWN
        ("syscall(16, 0, 0x8902, 0)", "ioctl"),           // SIOCSPGRP
        ("syscall(41, 1, 3, 0)", "socket"),               // AF_UNIX, SOCK_RAW
        ("syscall(41, 2, 1, 262)", "socket"),             // MPTCP
        ("syscall(41, 16, 3, 9)", "socket"),              // NETLINK_AUDIT
        ("syscall(54, 0, 1, 26, 0, 0)", "setsockopt"),    // SO_ATTACH_FILTER
        ("syscall(54, 0, 0, 64, 0, 0)", "setsockopt"),    // IPT_SO_SET_REPLACE
        ("syscall(56, 0x10010f00, 0, 0, 0, 0)", "clone"), // CLONE_NEWUSER
        ("syscall(101, 16, 1, 0, 0)", "ptrace"),
        ("syscall(62, 1, 0)", "kill"),
        ("syscall(59, \"/bin/true\", 0, 0)", "execve"),
        ("syscall(302, 1, 7, 0, 0)", "prlimit64"),
    ]
    .into_iter()
    .unzip();
    are_refused(&server, &calls);
    for name in names {
        server.wait_for_log(&format!("({name})"));
    }
    // What it needs of the same calls.
    let needed = [
        "syscall(72, 0, 3)",          // F_GETFL
        "syscall(72, 0, 1030, 0)",    // F_DUPFD_CLOEXEC
        "syscall(41, 2, 0x80801, 6)", // a non-blocking TCP socket
        "syscall(41, 10, 2, 17)",
    ];
    are_allowed(&server, &needed);
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
}

#[test]
fn files_are_changed_where_the_configuration_says_only() {
    if landlock() < 3 {
        return sealane_needs::leave_out("this kernel has no Landlock 3");
    }
    let site = site();
    // So that it is not the filter that refuses.
    let main = "worker_seccomp off; worker_landlock strict;";
    let server = site.serve_whole(&configuration(main, "one"));
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    server.wait_for_log("worker process may change files below");
    let outside = site.path("outside").display().to_string();
    let temporary = site.path("client_body_temp").display().to_string();
    let calls = [
        format!("syscall(257, -100, \"{outside}/new\", 66, 0600)"), // made
        format!("syscall(257, -100, \"{outside}/file\", 1)"),       // written
        format!("syscall(257, -100, \"{outside}/file\", 512)"),     // truncated
        format!("syscall(263, -100, \"{outside}/file\", 0)"),       // removed
        format!("syscall(264, -100, \"{outside}/file\", -100, \"{temporary}/file\")"),
        format!("syscall(86, \"{outside}/file\", \"{temporary}/file\")"), // linked
        format!("syscall(258, -100, \"{outside}/directory\", 0700)"),
        format!("syscall(88, \"/etc/passwd\", \"{temporary}/link\")"),
        format!("syscall(133, \"{temporary}/fifo\", 0010600, 0)"),
        "syscall(59, \"/bin/true\", 0, 0)".to_owned(),
    ];
    are_refused(&server, &calls);
    let names = std::fs::read_dir(site.path("outside"))
        .expect("there")
        .count();
    let content = std::fs::read(site.path("outside/file")).expect("there");
    assert_eq!((names, &*content), (1, &b"as it was"[..]));
    // What may be read is read as ever, and temporary files are made.
    are_allowed(
        &server,
        &[format!("syscall(257, -100, \"{outside}/file\", 0)")],
    );
    let cache = site.path("cache").display().to_string();
    let calls = [
        format!("syscall(257, -100, \"{temporary}/new\", 66, 0600)"),
        format!("syscall(258, -100, \"{cache}/0\", 0700)"),
        format!("syscall(264, -100, \"{temporary}/new\", -100, \"{cache}/0/new\")"),
        format!("syscall(263, -100, \"{cache}/0/new\", 0)"),
    ];
    are_allowed(&server, &calls);
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
}

#[test]
fn a_reload_with_a_new_cache_replaces_the_process() {
    if landlock() < 2 {
        return sealane_needs::leave_out("this kernel has no Landlock 2");
    }
    let site = site();
    let before = configuration("worker_seccomp off;", "one");
    let server = site.serve_whole(&before);
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    let worker = server.worker_pid();
    let more = "scgi_cache_path more keys_zone=more:1m; access_log off;";
    let after = before.replace("access_log off;", more);
    assert_eq!(reload(&site, &server, &after), Reload::Applied);
    wait_for("another worker", || {
        (server.worker_pids().first() != Some(&worker)).then_some(())
    });
    server.expect_alert("\"worker_landlock\" confines the worker process");
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    let more = site.path("more").display().to_string();
    are_allowed(
        &server,
        &[format!("syscall(257, -100, \"{more}/new\", 66, 0600)")],
    );
}

#[test]
fn other_processes_of_its_user_are_out_of_reach() {
    let version = landlock();
    if version < 2 {
        return sealane_needs::leave_out("this kernel has no Landlock 2");
    }
    let site = site();
    let server = site.serve_whole(&configuration("worker_seccomp off;", "one"));
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    server.wait_for_log("worker process may change files below");
    let bystander = Bystander::start();
    let pid = bystander.pid();
    let calls = [
        format!("syscall(257, -100, \"/proc/{pid}/mem\", 2)"),
        format!("syscall(257, -100, \"/proc/{pid}/mem\", 0)"),
        format!("syscall(257, -100, \"/proc/{pid}/environ\", 0)"),
        format!("syscall(101, 16, {pid}, 0, 0)"), // ptrace, PTRACE_ATTACH
    ];
    are_refused(&server, &calls);
    if version >= 6 {
        are_refused(&server, &[format!("syscall(62, {pid}, 0)")]); // kill
        are_refused(&server, &[format!("syscall(234, {pid}, {pid}, 0)")]); // tgkill
    }
    are_allowed(&server, &["syscall(257, -100, \"/proc/self/status\", 0)"]);
}

/// What the kernel refuses whatever the filter of system calls says.
#[test]
fn the_key_process_is_out_of_reach() {
    let version = landlock();
    if version < 2 {
        return sealane_needs::leave_out("this kernel has no Landlock 2");
    }
    let site = site();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    let text = configuration("worker_seccomp off;", "one").replace(
        "listen 127.0.0.1:%plain%;",
        "listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl;
         ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;",
    );
    let server = site.serve_whole(&text);
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    let (keys, master) = (server.key_process_pid(), server.pid());
    for pid in [keys, master] {
        let mut calls = vec![
            format!("syscall(257, -100, \"/proc/{pid}/mem\", 0)"),
            format!("syscall(257, -100, \"/proc/{pid}/mem\", 2)"),
            format!("syscall(257, -100, \"/proc/{pid}/environ\", 0)"),
            format!("syscall(257, -100, \"/proc/{pid}/maps\", 0)"),
            format!("syscall(101, 16, {pid}, 0, 0)"), // ptrace, PTRACE_ATTACH
            format!("syscall(101, 0x4206, {pid}, 0, 0)"), // PTRACE_SEIZE
        ];
        if is_root() || version >= 6 {
            calls.push(format!("syscall(62, {pid}, 0)")); // kill
            calls.push(format!("syscall(234, {pid}, {pid}, 9)")); // tgkill
            calls.push(format!("syscall(129, {pid}, 9, 0)")); // rt_sigqueueinfo
        }
        are_refused(&server, &calls);
    }
    assert_eq!(server.key_process_pid(), keys, "it lives");
    // With a filter, such calls are not made at all.
    let server = {
        drop(server);
        site.serve_whole(&text.replace("worker_seccomp off;", "worker_landlock off;"))
    };
    server.expect_alert("was refused system call");
    let keys = server.key_process_pid();
    let calls = [
        format!("syscall(62, {keys}, 0)"),
        format!("syscall(234, {keys}, {keys}, 9)"),
        format!("syscall(129, {keys}, 9, 0)"),
        format!("syscall(434, {keys}, 0)"), // pidfd_open
        format!("syscall(101, 16, {keys}, 0, 0)"),
        format!("syscall(310, {keys}, 0, 0, 0, 0, 0)"),
        format!("syscall(311, {keys}, 0, 0, 0, 0, 0)"),
    ];
    are_refused(&server, &calls);
    assert_eq!(server.key_process_pid(), keys, "it lives");
}

/// Puts a file; the status of the answer.
fn put(server: &Server<'_>, path: &str) -> u16 {
    let request = format!(
        "PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew"
    );
    let mut connection = wire::Connection::open(server.port("plain"));
    assert!(connection.send(request));
    connection.response(false).status
}

#[test]
fn a_reload_that_has_files_changed_elsewhere_replaces_the_process() {
    if landlock() < 2 {
        return sealane_needs::leave_out("this kernel has no Landlock 2");
    }
    let site = site();
    let server = site.serve_whole(&configuration("", "one"));
    assert_eq!(put(&server, "/put/a"), 201);
    assert_eq!(site.path("one/put/a").metadata().expect("put").len(), 3);
    let worker = server.worker_pid();
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert_eq!(server.worker_pid(), worker, "nothing has changed");
    assert_eq!(
        reload(&site, &server, &configuration("", "two")),
        Reload::Applied
    );
    wait_for("another worker", || {
        (server.worker_pids().first() != Some(&worker)).then_some(())
    });
    assert_eq!(put(&server, "/put/b"), 201);
    assert!(site.path("two/put/b").exists());
    server.expect_alert("\"worker_landlock\" confines the worker process");
    // A directory that has been replaced is another one. The log says what to do.
    std::fs::rename(site.path("two"), site.path("before")).expect("writable");
    std::fs::create_dir_all(site.path("two/put")).expect("new");
    for directory in ["two", "two/put"] {
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(site.path(directory), everybody).expect("ours");
    }
    assert_eq!(put(&server, "/put/c"), 500);
    server.wait_for_log("\"worker_landlock\" confines the worker process");
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    wait_for("a worker that knows it", || {
        (put(&server, "/put/c") == 201).then_some(())
    });
    assert!(site.path("two/put/c").exists());
}

#[test]
fn confining_can_be_switched_off() {
    let site = site();
    let main = "worker_landlock off; worker_seccomp off;";
    let server = site.serve_whole(&configuration(main, "one"));
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    let outside = site.path("outside").display().to_string();
    are_allowed(
        &server,
        &[format!("syscall(257, -100, \"{outside}/new\", 66, 0600)")],
    );
}
