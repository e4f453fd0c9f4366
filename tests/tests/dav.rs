//! `dav_methods`: what PUT, DELETE, MKCOL, COPY and MOVE answer and do to the files, compared
//! with nginx after every request; and what must not happen to them.

use sealane_tests::command;
use sealane_tests::comparison::normalise;
use sealane_tests::reload::{Reload, reload};
use sealane_tests::wire::{self, Connection};
use sealane_tests::{Server, Site, wait_for};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

const CONFIGURATION: &str = r#"
    default_type text/plain;
    server_tokens off;
    client_max_body_size 100k;
    client_body_temp_path temporary/put;
    server {
        listen 127.0.0.1:%plain%;
        server_name dav.test;
        root html;
        dav_methods PUT DELETE MKCOL COPY MOVE;
        location / { }
        location /full/ { create_full_put_path on; dav_access user:rw group:rw all:r; }
        location /guarded/ { min_delete_depth 2; dav_access group:r; }
        location /aliased/ { alias html/behind/; }
        location /off/ { dav_methods off; }
        location /only-put/ { dav_methods PUT; autoindex on; }
        location /pages/ { error_page 409 /page; }
        location /page { return 200 "page\n"; }
    }
"#;

/// 2001-09-09, before anything that a test writes.
const OLD_S: u64 = 1_000_000_000;

fn site() -> Site {
    let site = Site::new();
    for name in [
        "a.txt",
        "b.txt",
        "dir/c.txt",
        "dir/deep/d.txt",
        "dir/deep/er/e.txt",
        "behind/f.txt",
        "guarded/g.txt",
        "guarded/h/i.txt",
        "off/j.txt",
        "only-put/k.txt",
        "full/l.txt",
        "pages/m.txt",
        "sp ace/n.txt",
        "outside-of-dir.txt",
    ] {
        site.write(format!("html/{name}"), name);
    }
    fs::create_dir(site.path("html/empty")).expect("writable");
    symlink("../a.txt", site.path("html/dir/link")).expect("writable");
    symlink("nowhere", site.path("html/dangling")).expect("writable");
    let access = Permissions::from_mode(0o640);
    fs::set_permissions(site.path("html/dir/c.txt"), access).expect("our own");
    // The worker is "nobody" where the tests are root.
    for directory in walk(&site.path("html")) {
        let path = site.path("html").join(&directory);
        if !path.is_symlink() && path.is_dir() {
            fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("our own");
        }
    }
    fs::set_permissions(site.path("html"), Permissions::from_mode(0o777)).expect("our own");
    for entry in walk(&site.path("html")) {
        let path = site.path("html").join(&entry);
        if !path.is_symlink() {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(OLD_S);
            let file = fs::File::open(&path).expect("just made");
            file.set_modified(time).expect("our own");
            if path.is_file() {
                fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("our own");
            }
        }
    }
    fs::set_permissions(site.path("html/dir/c.txt"), Permissions::from_mode(0o646))
        .expect("our own");
    site
}

/// Every path below a directory, in order.
fn walk(root: &Path) -> Vec<String> {
    fn into(root: &Path, below: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(root.join(below)).expect("readable") {
            let entry = entry.expect("readable");
            let name = format!("{below}{}", entry.file_name().to_string_lossy());
            if entry.file_type().expect("known").is_dir() {
                into(root, &format!("{name}/"), found);
            }
            found.push(name);
        }
    }
    let mut found = Vec::new();
    into(root, "", &mut found);
    found.sort();
    found
}

/// What there is: paths, permissions, contents, and times that are not of today.
fn files(site: &Site) -> Vec<String> {
    let root = site.path("html");
    walk(&root)
        .into_iter()
        .map(|name| {
            let path = root.join(&name);
            let facts = fs::symlink_metadata(&path).expect("there");
            let mode = facts.mode();
            let old = u64::try_from(facts.mtime()).is_ok_and(|mtime| mtime < 1_600_000_000);
            let time = if old && facts.is_file() {
                facts.mtime()
            } else {
                0
            };
            let content = match facts.is_file() {
                true => String::from_utf8_lossy(&fs::read(&path).expect("readable")).into_owned(),
                false => String::new(),
            };
            format!("{name} {mode:o} {time} {} {content:?}", content.len())
        })
        .collect()
}

fn ask(server: &Server<'_>, request: &str) -> Vec<String> {
    let (line, body) = request.split_once("||").unwrap_or((request, ""));
    let mut lines = line.split('|');
    let target = lines.next().expect("there is one");
    let mut head = format!("{target} HTTP/1.1\r\nHost: dav.test\r\nConnection: close\r\n");
    for line in lines {
        head.push_str(&format!("{line}\r\n"));
    }
    let port = server.port("plain");
    let response = wire::request(port, &format!("{head}\r\n{body}"));
    let response = normalise(&[port], response, false);
    let mut shown: Vec<String> = response.head.split('\n').map(str::to_owned).collect();
    shown.push(response.text());
    shown
}

const REQUESTS: &[&str] = &[
    "PUT /new.txt|Content-Length: 5||hello",
    "PUT /new.txt|Content-Length: 6||hello2",
    "PUT /empty.txt|Content-Length: 0",
    "PUT /nothing.txt",
    "PUT /chunked.txt|Transfer-Encoding: chunked||3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    "PUT /dated.txt|Date: Sun, 09 Sep 2001 01:46:41 GMT|Content-Length: 1||d",
    "PUT /dated2.txt|Date: nonsense|Content-Length: 1||d",
    "PUT /sp%20ace/%25%3F.txt|Content-Length: 1||s",
    "PUT /dir/|Content-Length: 1||x",
    "PUT /dir|Content-Length: 1||x",
    "PUT /no/such/dir.txt|Content-Length: 1||x",
    "PUT /full/such/dir/x.txt|Content-Length: 1||x",
    "PUT /full/l.txt/x.txt|Content-Length: 1||x",
    "PUT /a.txt/x.txt|Content-Length: 1||x",
    "PUT /ranged.txt|Content-Range: bytes 0-1/2|Content-Length: 1||x",
    "PUT /aliased/put.txt|Content-Length: 3||put",
    "PUT /off/put.txt|Content-Length: 3||put",
    "PUT /guarded/put.txt|Content-Length: 3||put",
    "PUT /dangling|Content-Length: 3||put",
    "PUT /pages/|Content-Length: 3||put",
    "GET /new.txt",
    "DELETE /only-put/k.txt",
    "MKCOL /only-put/x/",
    "POST /a.txt|Content-Length: 1||x",
    "MKCOL /made/",
    "MKCOL /made/",
    "MKCOL /made/deeper/",
    "MKCOL /no/such/",
    "MKCOL /made",
    "MKCOL /a.txt/",
    "MKCOL /a.txt/x/",
    "MKCOL /full/made/",
    "MKCOL /sp%20ace/m%25/",
    "MKCOL /aliased/made/",
    "MKCOL /with-body/|Content-Length: 1||x",
    "MKCOL /with-body/|Transfer-Encoding: chunked||0\r\n\r\n",
    "DELETE /missing.txt",
    "DELETE /missing/",
    "DELETE /b.txt/",
    "DELETE /b.txt/x",
    "DELETE /dir",
    "DELETE /dir/|Depth: 0",
    "DELETE /dir/|Depth: 1",
    "DELETE /dir/|Depth: two",
    "DELETE /b.txt|Depth: 1",
    "DELETE /b.txt|Content-Length: 1||x",
    "DELETE /guarded/",
    "DELETE /guarded/g.txt",
    "DELETE /guarded/h/",
    "DELETE /aliased/put.txt",
    "DELETE /off/j.txt",
    "COPY /a.txt",
    "COPY /a.txt|Destination: ",
    "COPY /a.txt|Destination: /copy.txt",
    "COPY /a.txt|Destination: /copy.txt|Overwrite: F",
    "COPY /a.txt|Destination: /copy.txt|Overwrite: t",
    "COPY /a.txt|Destination: /copy.txt|Overwrite: no",
    "COPY /a.txt|Destination: http://dav.test/copy2.txt",
    "COPY /a.txt|Destination: http://dav.test:8080/copy3.txt",
    "COPY /a.txt|Destination: http://dav.test",
    "COPY /a.txt|Destination: https://dav.test/copy4.txt",
    "COPY /a.txt|Destination: http://other.test/copy4.txt",
    "COPY /a.txt|Destination: copy4.txt",
    "COPY /a.txt|Destination: /dir/",
    "COPY /a.txt|Destination: /dir",
    "COPY /a.txt|Destination: /%63opy5.txt?x=y",
    "COPY /a.txt|Destination: /dir/../copy6.txt",
    "COPY /a.txt|Destination: /dir/%2e%2e/copy6.txt",
    "COPY /a.txt|Destination: /nu%00l",
    "COPY /a.txt|Destination: /no/such/copy7.txt",
    "COPY /a.txt|Destination: /b.txt/copy8.txt",
    "COPY /a.txt|Destination: /copy9.txt|Depth: 1",
    "COPY /a.txt|Destination: /copy9.txt|Depth: 0",
    "COPY /a.txt|Destination: /copy9.txt|Content-Length: 1||x",
    "COPY /missing.txt|Destination: /copy10.txt",
    "COPY /missing/|Destination: /copy10/",
    "COPY /a.txt/|Destination: /copy10/",
    "COPY /dir|Destination: /copy10",
    "COPY /dir/|Destination: /copied/",
    "COPY /dir/|Destination: /copied/|Overwrite: F",
    "COPY /dir/deep/|Destination: /copied/",
    "COPY /empty/|Destination: /no/such/",
    "COPY /empty/|Destination: /b.txt/",
    "COPY /aliased/f.txt|Destination: /aliased/copied.txt",
    "COPY /aliased/|Destination: /aliased-not",
    "MOVE /copy.txt|Destination: /moved.txt",
    "MOVE /copy.txt|Destination: /moved.txt",
    "MOVE /copy2.txt|Destination: /moved.txt|Overwrite: F",
    "MOVE /copy2.txt|Destination: /moved.txt|Depth: 0",
    "MOVE /copy2.txt|Destination: /moved.txt",
    "MOVE /copy9.txt|Destination: /way/to/moved.txt",
    "MOVE /copy10|Destination: /way",
    "MOVE /dir/|Destination: /copied/|Overwrite: F",
    "MOVE /dir/|Destination: /copied/",
    "MOVE /copied/|Destination: /again/",
    "MOVE /again/|Destination: /no/such/place/",
    "MOVE /aliased/f.txt|Destination: /aliased/moved.txt",
    "DELETE /again/|Depth: infinity",
    "DELETE /b.txt|Depth: infinity",
    "DELETE /dangling",
    "PROPFIND /a.txt",
    "OPTIONS /a.txt",
];

#[test]
fn every_answer_and_every_file_is_nginx_s() {
    let (one, other) = (site(), site());
    let ours = one.serve(CONFIGURATION);
    let theirs =
        other.serve_by_nginx(&CONFIGURATION.replace("client_body_temp_path temporary/put;", ""));
    for text in ["rename()", "open()", "mkdir()", "\"client_body_temp_path\""] {
        ours.expect_alert(text);
        theirs.expect_alert(text);
    }
    let mut differences = String::new();
    for request in REQUESTS {
        let (answer, wanted) = (ask(&ours, request), ask(&theirs, request));
        if answer != wanted {
            differences.push_str(&format!(
                "{request}\nours   {answer:?}\nnginx  {wanted:?}\n"
            ));
        }
        let (ours, theirs) = (files(&one), files(&other));
        if ours != theirs {
            let only = |these: &[String], those: &[String]| -> Vec<String> {
                these
                    .iter()
                    .filter(|file| !those.contains(file))
                    .cloned()
                    .collect()
            };
            let (mine, theirs) = (only(&ours, &theirs), only(&theirs, &ours));
            panic!("{differences}{request}\nour files   {mine:#?}\nnginx's  {theirs:#?}");
        }
    }
    assert!(differences.is_empty(), "{differences}");
    let left: Vec<_> = walk(&one.path("temporary/put"));
    assert!(left.is_empty(), "{left:?}");
}

/// Where nginx destroys files, or leaves the root.
#[test]
fn what_would_destroy_files_is_refused() {
    let site = site();
    symlink("..", site.path("html/empty/up")).expect("writable");
    site.write("secret/keep.txt", "keep");
    fs::set_permissions(site.path("secret"), Permissions::from_mode(0o777)).expect("our own");
    symlink("../../secret", site.path("html/empty/out")).expect("writable");
    let server = site.serve(CONFIGURATION);
    server.expect_alert("rmdir()");
    let before = files(&site);
    for (request, status) in [
        ("COPY /a.txt|Destination: /a.txt", 403),
        ("MOVE /a.txt|Destination: /a.txt", 403),
        ("COPY /dir/|Destination: /dir/", 403),
        ("COPY /dir/|Destination: /dir/inside/", 403),
        ("MOVE /dir/|Destination: /dir/inside/", 403),
        ("MOVE /dir/|Destination: /dir/", 403),
        ("COPY /dir/deep/|Destination: /dir/", 403),
        ("COPY /dir/|Destination: /empty/up/dir/x/", 403),
        ("COPY /dir/|Destination: /", 403),
        ("MOVE /empty/out/|Destination: /stolen/", 403),
        ("DELETE /empty/out/", 403),
        // Of these paths "alias" cuts as many bytes as "/aliased/" has.
        ("COPY /aliased/f.txt|Destination: /aliased../x.txt", 400),
        ("COPY /aliased/f.txt|Destination: /1234567/../x.txt", 400),
        ("COPY /aliased/f.txt|Destination: /12345678../x.txt", 400),
        ("MOVE /aliased/f.txt|Destination: /12345678x.txt", 400),
        ("COPY /aliased/f.txt|Destination: /x", 400),
        ("PUT /../x.txt|Content-Length: 1||x", 400),
    ] {
        let answer = ask(&server, request);
        assert!(
            answer[0].contains(&format!(" {status} ")),
            "{request}: {answer:?}"
        );
        assert_eq!(files(&site), before, "{request}");
    }
    // What is behind a link stays when the link goes.
    assert!(ask(&server, "DELETE /empty/")[0].contains(" 204 "));
    assert!(!site.path("html/empty").exists());
    let kept = fs::read_to_string(site.path("secret/keep.txt"));
    assert_eq!(kept.expect("it is there"), "keep");
}

#[test]
fn of_a_body_that_does_not_arrive_nothing_stays() {
    let site = site();
    let server = site.serve(CONFIGURATION);
    let before = files(&site);
    let temporary = site.path("temporary/put");
    for body in ["", "half of it"] {
        let mut connection = Connection::open(server.port("plain"));
        connection.send(format!(
            "PUT /a.txt HTTP/1.1\r\nHost: dav.test\r\nContent-Length: 90000\r\n\r\n{body}"
        ));
        if !body.is_empty() {
            connection.send("x".repeat(70_000));
            wait_for("a temporary file", || {
                (!walk(&temporary).is_empty()).then_some(())
            });
        }
        drop(connection);
        wait_for("the temporary file to go", || {
            walk(&temporary).is_empty().then_some(())
        });
    }
    let malformed = ask(
        &server,
        "PUT /a.txt|Transfer-Encoding: chunked||5\r\nabc\r\nxyz\r\n0\r\n\r\n",
    );
    assert!(malformed[0].contains(" 400 "), "{malformed:?}");
    let large = format!(
        "PUT /a.txt|Transfer-Encoding: chunked||19001\r\n{}\r\n0\r\n\r\n",
        "x".repeat(0x19001)
    );
    let large = ask(&server, &large);
    assert!(large[0].contains(" 413 "), "{large:?}");
    wait_for("no temporary file", || {
        walk(&temporary).is_empty().then_some(())
    });
    assert_eq!(files(&site), before);
}

#[test]
fn files_cross_to_another_file_system_and_arrive_by_http_2() {
    let site = site();
    // Usually memory, where the rest of the site is not.
    let elsewhere = Path::new("/dev/shm").join(format!("sealane-test-dav-{}", std::process::id()));
    let line = format!("client_body_temp_path {};", elsewhere.display());
    let configuration = CONFIGURATION
        .replace("client_body_temp_path temporary/put;", &line)
        .replace("server_name", "http2 on; server_name");
    let server = site.serve(&configuration);
    let content: Vec<u8> = (0..90_000u32).map(|number| (number % 251) as u8).collect();
    let file = site.write("upload", &content);
    let url = format!(
        "http://127.0.0.1:{}/full/way/to/it.bin",
        server.port("plain")
    );
    for (version, status) in [("--http1.1", "201"), ("--http2-prior-knowledge", "204")] {
        let upload = command(
            "curl",
            &[
                "-sS",
                version,
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "-H",
                "Date: Sun, 09 Sep 2001 01:46:41 GMT",
                "-T",
                &file.display().to_string(),
                &url,
            ],
            b"",
        );
        assert_eq!(upload.text(), status, "{upload:?}");
        let path = site.path("html/full/way/to/it.bin");
        assert_eq!(fs::read(&path).expect("it is there"), content);
        let facts = fs::metadata(&path).expect("it is there");
        assert_eq!(
            (facts.mtime(), facts.mode() & 0o777),
            (1_000_000_001, 0o664)
        );
        let directory = fs::metadata(site.path("html/full/way")).expect("it is there");
        assert_eq!(directory.mode() & 0o700, 0o700);
    }
    wait_for("no temporary file", || {
        walk(&elsewhere).is_empty().then_some(())
    });
    let beside = walk(&site.path("html/full"));
    assert_eq!(beside, ["l.txt", "way", "way/to", "way/to/it.bin"]);
    drop(server);
    let _ = fs::remove_dir_all(&elsewhere);
}

#[test]
fn methods_that_come_with_a_reload_have_the_system_calls_that_they_need() {
    let site = site();
    let with = |methods: &str| {
        format!(
            "worker_processes 1; error_log logs/error.log info; pid logs/pid; events {{}}
             http {{
                 access_log off;
                 server {{ listen 127.0.0.1:%plain%; root html; {methods} }}
             }}"
        )
    };
    let server = site.serve_whole(&with(""));
    let status = |request: &str| ask(&server, request)[0].clone();
    assert_eq!(status("MKCOL /made/"), "HTTP/1.1 405 Not Allowed");
    let all = with("dav_methods PUT DELETE MKCOL;");
    assert_eq!(reload(&site, &server, &all), Reload::Applied);
    // Until it has been told to end, the first worker takes connections, too.
    wait_for("the first worker to end", || {
        (server.worker_pids().len() == 1).then_some(())
    });
    for (request, wanted) in [
        ("MKCOL /made/", "201 Created"),
        (
            "PUT /made/a|Date: Sun, 09 Sep 2001 01:46:41 GMT|Content-Length: 1||a",
            "201 Created",
        ),
        ("DELETE /made/", "204 No Content"),
    ] {
        assert_eq!(status(request), format!("HTTP/1.1 {wanted}"), "{request}");
    }
}
