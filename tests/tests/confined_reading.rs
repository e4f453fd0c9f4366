//! `worker_landlock_read`: what a worker that somebody has taken over can read, and what is served
//! all the same.
#![cfg(target_arch = "x86_64")] // whose numbers of system calls these are

use sealane_needs::is_root;
use sealane_tests::reload::{Reload, reload, reload_as_it_is};
use sealane_tests::takeover::{are_allowed, are_refused, landlock};
use sealane_tests::{Certificate, CertificateKey, Program, Server, Site, command, wait_for, wire};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

const SERVE: &str = "
    error_log logs/error.log info;
    pid logs/server.pid;
    user nobody nogroup;
    worker_seccomp off; # so that it is not the filter that refuses
    worker_landlock_read READ;
    events { worker_connections 64; }
    http {
        access_log off;
        server {
            listen 127.0.0.1:%plain%;
            root html;
            SERVER
        }
    }";

fn configuration(read: &str, server: &str) -> String {
    SERVE.replace("READ", read).replace("SERVER", server)
}

fn site() -> Site {
    let site = Site::new();
    site.write("html/a.txt", b"hello");
    site.write("outside/file", b"elsewhere");
    site
}

/// That the worker can, or cannot, open a path for reading.
fn opening(path: impl AsRef<Path>) -> String {
    format!("syscall(257, -100, \"{}\", 0)", path.as_ref().display())
}

/// Another worker takes over.
fn wait_for_another(server: &Server<'_>, worker: u32) {
    wait_for("another worker", || {
        (server.worker_pids().first() != Some(&worker)).then_some(())
    });
}

fn get(server: &Server<'_>, path: &str) -> (u16, Vec<u8>) {
    let response = wire::get(server.port("plain"), path);
    (response.status, response.body)
}

/// Whether it has the worker's rights.
fn is_confined() -> bool {
    landlock() >= 2
}

const NO_LANDLOCK: &str = "this kernel has no Landlock 2";

#[test]
fn what_the_configuration_does_not_serve_is_out_of_reach() {
    if !is_confined() {
        return sealane_needs::leave_out(NO_LANDLOCK);
    }
    let site = site();
    let server = site.serve_whole(&configuration("on", ""));
    assert_eq!(get(&server, "/a.txt"), (200, b"hello".to_vec()));
    server.wait_for_log("public files of the system (worker_landlock_read)");
    let master = server.pid();
    let hidden = [
        site.path("outside/file"),
        site.path("outside"),
        site.path("logs/error.log"),
        site.path(""),
        "/".into(),
        "/etc".into(),
        "/etc/passwd".into(),
        "/proc".into(),
        format!("/proc/{master}/cmdline").into(),
        "/proc/self/root/etc/passwd".into(),
    ];
    are_refused(&server, &hidden.map(opening));
    let served = [
        site.path("html/a.txt"),
        site.path("html"),
        "/proc/self/status".into(),
        "/proc/sys/kernel/hostname".into(),
        "/dev/urandom".into(),
    ];
    are_allowed(&server, &served.map(opening));
    assert_eq!(get(&server, "/a.txt").0, 200);
}

#[test]
fn reading_is_not_confined_unless_asked_for() {
    let site = site();
    let text = configuration("off", "");
    let server = site.serve_whole(&text.replace("worker_landlock_read off;", ""));
    assert_eq!(get(&server, "/a.txt").0, 200);
    are_allowed(&server, &[opening(site.path("outside/file"))]);
}

#[test]
fn a_link_that_leads_out_of_a_root_is_explained() {
    if !is_confined() {
        return sealane_needs::leave_out(NO_LANDLOCK);
    }
    let site = site();
    symlink("../outside/file", site.path("html/b.txt")).expect("new");
    symlink("../outside", site.path("html/list")).expect("new");
    let lists = "autoindex on; location /list/ { index none; }";
    let server = site.serve_whole(&configuration("on", lists));
    let worker = server.worker_pid();
    assert_eq!(get(&server, "/b.txt").0, 403);
    let log = server.wait_for_log("b.txt\" failed (13: Permission denied); besides its user's");
    assert!(log.contains("\"worker_landlock_read\" confines"), "{log}");
    assert_eq!(get(&server, "/list/").0, 403);
    server.wait_for_log("opendir() \"");
    // There is such a file.
    assert_eq!(get(&server, "/none.txt").0, 404);
    let after = configuration("on outside nowhere", lists);
    assert_eq!(reload(&site, &server, &after), Reload::Applied);
    wait_for_another(&server, worker);
    server.wait_for_log("nowhere\", which does not exist: reload once it does");
    assert_eq!(get(&server, "/b.txt"), (200, b"elsewhere".to_vec()));
    assert_eq!(get(&server, "/list/").0, 200);
}

#[test]
fn a_release_is_switched_without_a_reload() {
    let site = site();
    site.write("app/releases/1/public/a.txt", b"first");
    site.write("app/shared/b.txt", b"shared");
    symlink(
        "../../../shared/b.txt",
        site.path("app/releases/1/public/b.txt"),
    )
    .expect("new");
    symlink("releases/1", site.path("app/current")).expect("new");
    site.write("disk/blue/a.txt", b"blue");
    std::fs::create_dir(site.path("sites")).expect("new");
    symlink("../disk/blue", site.path("sites/shop")).expect("new");
    let server = "root app/current/public; location /shop/ { alias sites/shop/; }";
    let server = site.serve_whole(&configuration("on", server).replace("root html;", ""));
    let worker = server.worker_pid();
    assert_eq!(get(&server, "/a.txt"), (200, b"first".to_vec()));
    assert_eq!(get(&server, "/b.txt"), (200, b"shared".to_vec()));
    assert_eq!(get(&server, "/shop/a.txt"), (200, b"blue".to_vec()));
    // Releases that were not there when the worker started.
    site.write("app/releases/2/public/a.txt", b"second");
    switch(&site, "app/current", "releases/2");
    site.write("disk/green/a.txt", b"green");
    switch(&site, "sites/shop", "../disk/green");
    assert_eq!(get(&server, "/a.txt"), (200, b"second".to_vec()));
    assert_eq!(get(&server, "/shop/a.txt"), (200, b"green".to_vec()));
    // A reload finds nothing that the worker lacks.
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert_eq!(server.worker_pid(), worker);
    assert_eq!(get(&server, "/a.txt"), (200, b"second".to_vec()));
    if is_confined() {
        are_refused(&server, &[opening(site.path("outside/file"))]);
    }
}

/// Lets a link lead elsewhere, at once.
fn switch(site: &Site, link: &str, target: &str) {
    let new = site.path(format!("{link}.new"));
    symlink(target, &new).expect("new");
    std::fs::rename(new, site.path(link)).expect("writable");
}

#[test]
fn a_reload_that_adds_a_root_replaces_the_process() {
    if !is_confined() {
        return sealane_needs::leave_out(NO_LANDLOCK);
    }
    let site = site();
    site.write("more/b.txt", b"more");
    let server = site.serve_whole(&configuration("on", ""));
    let worker = server.worker_pid();
    assert_eq!(get(&server, "/a.txt").0, 200);
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert_eq!(server.worker_pid(), worker, "nothing has changed");
    let more = configuration("on", "location /b.txt { root more; }");
    assert_eq!(reload(&site, &server, &more), Reload::Applied);
    wait_for_another(&server, worker);
    assert_eq!(get(&server, "/b.txt"), (200, b"more".to_vec()));
    // A directory that has been replaced is another one. The log says what to do.
    std::fs::rename(site.path("more"), site.path("before")).expect("writable");
    site.write("more/b.txt", b"replaced");
    assert_eq!(get(&server, "/b.txt").0, 403);
    server.wait_for_log("reload if a directory has been created or replaced since");
    let worker = server.worker_pid();
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    wait_for_another(&server, worker);
    assert_eq!(get(&server, "/b.txt"), (200, b"replaced".to_vec()));
    // Who switches it off gets a process that is not confined, and the other way round.
    for (read, is_readable) in [("off", true), ("on", false)] {
        let worker = server.worker_pid();
        let text = configuration(read, "");
        assert_eq!(reload(&site, &server, &text), Reload::Applied);
        wait_for_another(&server, worker);
        assert_eq!(get(&server, "/a.txt").0, 200);
        let calls = [opening(site.path("outside/file"))];
        match is_readable {
            true => are_allowed(&server, &calls),
            false => are_refused(&server, &calls),
        }
    }
}

#[test]
fn a_root_that_may_be_anywhere_needs_names() {
    if !is_confined() {
        return sealane_needs::leave_out(NO_LANDLOCK);
    }
    let site = site();
    site.write("sites/one/a.txt", b"one");
    let place = site.path("sites").display().to_string();
    let sites = format!("set $site {place}/$arg_site; location /a.txt {{ root $site; }}");
    let server = site.serve_whole(&configuration("on", &sites));
    let worker = server.worker_pid();
    assert_eq!(get(&server, "/a.txt?site=one"), (200, b"one".to_vec()));
    let log = server.wait_for_log("in spite of \"worker_landlock_read on\": ");
    assert!(log.contains("a \"root\" begins with a variable"), "{log}");
    are_allowed(&server, &[opening(site.path("outside/file"))]);
    let named = configuration("on sites", &sites);
    assert_eq!(reload(&site, &server, &named), Reload::Applied);
    wait_for_another(&server, worker);
    assert_eq!(get(&server, "/a.txt?site=one"), (200, b"one".to_vec()));
    are_refused(&server, &[opening(site.path("outside/file"))]);
}

/// Starts a program on a kernel without Landlock, as far as it can see: asking for it fails with
/// the number in the first argument.
const WITHOUT_LANDLOCK: &str = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
instructions = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *it) for it in [
    (0x20, 0, 0, 0),    # the number of the call
    (0x15, 0, 1, 444),  # landlock_create_ruleset
    (0x06, 0, 0, 0x00050000 | int(sys.argv[1])),
    (0x06, 0, 0, 0x7fff0000),
]))
program = struct.pack("HxxxxxxP", 4, ctypes.addressof(instructions))
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, program) == 0  # PR_SET_SECCOMP
os.execv(sys.argv[2], sys.argv[2:])
"#;

#[test]
fn a_kernel_without_landlock_is_said() {
    for (errno, reason) in [
        ("38", "has no Landlock"),           // ENOSYS
        ("95", "has Landlock switched off"), // EOPNOTSUPP
    ] {
        let site = site();
        let wrapper = ["python3", "-c", WITHOUT_LANDLOCK, errno];
        let text = configuration("on", "");
        let server = Server::start_under(&site, Program::Sealane, &text, &wrapper);
        assert_eq!(get(&server, "/a.txt"), (200, b"hello".to_vec()));
        for what in ["change", "read"] {
            let may = format!("worker processes may {what} every file that their user may");
            let line = server.wait_for_log(&may);
            assert!(line.contains(reason), "{line}");
        }
        are_allowed(&server, &[opening(site.path("outside/file"))]);
    }
}

const EVERYTHING: &str = "
    error_log logs/error.log info;
    pid logs/server.pid;
    user nobody nogroup;
    worker_landlock_read on;
    events { worker_connections 64; }
    http {
        access_log off;
        proxy_cache_path cache keys_zone=cache:1m;
        upstream named { zone named 64k; state state/named.conf; }
        server {
            listen 127.0.0.1:%plain%;
            root html;
            gzip_static on;
            client_body_in_file_only clean;
            access_log logs/of/$status.log;
            location /private/ {
                auth_basic closed;
                auth_basic_user_file secrets/users;
            }
            location /list/ { autoindex on; autoindex_localtime on; }
            location /put/ { root dav; dav_methods PUT DELETE COPY MOVE; create_full_put_path on; }
            location /kept/ {
                proxy_cache cache;
                proxy_cache_valid 1h;
                proxy_buffers 4 4k;
                proxy_pass http://127.0.0.1:%plain%/;
            }
            location /tests {
                if (-f $document_root/../outside/file) { return 200 there; }
                return 200 missing;
            }
            error_page 404 /missing.html;
        }
        server {
            listen 127.0.0.1:%tls% ssl;
            ssl_certificate certificates/$ssl_server_name.pem;
            ssl_certificate_key certificates/$ssl_server_name.key;
            root html;
        }
    }";

#[test]
fn what_the_worker_opens_by_itself_is_readable() {
    let site = site();
    site.certificate(&Certificate::localhost("localhost", CertificateKey::P256));
    let large = vec![b'x'; 300_000];
    site.write("html/large.bin", &large);
    site.write("html/a.txt.gz", b"compressed");
    site.write("html/private/a.txt", b"private");
    site.write("html/list/one", b"1");
    site.write("html/missing.html", b"not here");
    site.write("secrets/users", b"me:{PLAIN}first\n");
    for directory in ["logs/of", "dav/put", "state"] {
        std::fs::create_dir_all(site.path(directory)).expect("new");
    }
    for path in ["certificates", "logs/of", "dav", "dav/put", "state"] {
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(site.path(path), all).expect("ours");
    }
    if is_root() {
        let key = site.path("certificates/localhost.key");
        command("chown", &["nobody", &key.display().to_string()], b"").success();
    }
    let server = site.serve_whole(EVERYTHING);
    let port = server.port("plain");
    let gzip = wire::get_with(port, "/a.txt", "Accept-Encoding: gzip\r\n");
    assert_eq!(gzip.body, b"compressed");
    assert_eq!(get(&server, "/no.txt"), (404, b"not here".to_vec()));
    assert!(
        get(&server, "/list/")
            .1
            .windows(3)
            .any(|part| part == b"one")
    );
    assert_eq!(get(&server, "/tests"), (200, b"there".to_vec()));
    for _ in 0..2 {
        assert_eq!(get(&server, "/kept/large.bin"), (200, large.clone()));
    }
    let put =
        "PUT /put/new/a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n";
    let mut connection = wire::Connection::open(port);
    assert!(connection.send(format!("{put}\r\nnew")));
    assert_eq!(connection.response(false).status, 201);
    assert_eq!(get(&server, "/put/new/a.txt"), (200, b"new".to_vec()));
    // Files of passwords are replaced, not written.
    for password in ["first", "second"] {
        site.write("secrets/users.new", format!("me:{{PLAIN}}{password}\n"));
        let new = site.path("secrets/users.new");
        std::fs::rename(new, site.path("secrets/users")).expect("ours");
        let encoded = command("base64", &["-w0"], format!("me:{password}").as_bytes()).text();
        let header = format!("Authorization: Basic {}\r\n", encoded.trim());
        assert_eq!(
            wire::get_with(port, "/private/a.txt", &header).body,
            b"private"
        );
    }
    let url = format!("https://localhost:{}/a.txt", server.port("tls"));
    let answer = command("curl", &["-sSk", &url], b"").success();
    assert_eq!(answer.text(), "hello");
    wait_for("the log", || {
        std::fs::read_to_string(site.path("logs/of/404.log")).ok()
    });
    let log = server.error_log();
    assert!(!log.contains("Permission denied"), "{log}");
}
