//! Several files in one response.

use super::{LISTEN, WAYS, curl};
use sealane_tests::{Certificate, CertificateKey, Server, Site};
use std::fs::File;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

const CONFIGURATION: &str = r#"
    types { application/javascript js; text/css css; text/html html; text/plain txt; }
    concat on;
    gzip on; gzip_types application/javascript; gzip_min_length 0; gzip_static on;
    server {
        LISTEN
        location /static/ { }
        location /mixed/ { alias html/static/; concat_unique off; concat_delimiter "\n"; concat_types text/css text/plain; }
        location /lenient/ { alias html/static/; concat_ignore_file_error on; concat_max_files 3; }
        location /cached/ { alias html/static/; open_file_cache max=100; open_file_cache_content 64k; }
        location /own/ { alias html/static/; disable_symlinks on from=$document_root; }
        location /off/ { alias html/static/; concat off; }
        location /any/ { alias html/static/; concat_types *; }
    }
"#;

fn site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    for (name, text) in [
        ("a.js", "var a;"),
        ("lib/b.js", "var b;"),
        ("c.css", "p{}"),
        ("d.txt", "text"),
        ("empty.js", ""),
        ("index.html", "index"),
        ("name", "no type"),
        ("../secret.js", "secret"),
    ] {
        site.write(format!("html/static/{name}"), text);
    }
    // Compressed files are not part of a list.
    site.write("html/static/a.js.gz", "not gzip");
    let large = |seed: u32| (0..300_000).map(move |at| (at * seed / 7) as u8);
    site.write("html/static/large.js", large(3).collect::<Vec<u8>>());
    site.write("html/static/larger.js", large(5).collect::<Vec<u8>>());
    symlink("a.js", site.path("html/static/link.js")).expect("the site is writable");
    for (seconds, name) in [(1_000_000_000, "a.js"), (1_100_000_000, "lib/b.js")] {
        let path = site.path("html/static").join(name);
        let file = File::options().append(true).open(path).expect("written");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        file.set_modified(time).expect("our own");
    }
    site
}

#[track_caller]
fn is(server: &Server<'_>, path: &str, status: u16, text: &str) {
    for way in WAYS {
        let response = curl(server, way, path);
        assert_eq!(response.status, status, "{path} {way:?}");
        if status == 200 {
            assert_eq!(response.text(), text, "{path} {way:?}");
            let length = text.len().to_string();
            assert_eq!(response.header("content-length"), Some(&*length), "{path}");
        }
    }
}

#[test]
fn files_in_one_response() {
    let site = site();
    let server = site.serve(&CONFIGURATION.replace("LISTEN", LISTEN));
    server.expect_alert("is not a regular file");
    for (path, status, text) in [
        ("/static/??a.js,lib/b.js", 200, "var a;var b;"),
        ("/static/??lib/b.js,/a.js", 200, "var b;var a;"),
        // One version for all, one for each, and several.
        ("/static/??a.js,lib/b.js?v=7", 200, "var a;var b;"),
        ("/static/??a.js?1,lib/b.js?2&x=?", 200, "var a;var b;"),
        ("/static/??a.js,,lib/b.js,", 200, "var a;var b;"),
        (
            "/static/??%61.js,lib/../a.js,./a.js",
            200,
            "var a;var a;var a;",
        ),
        ("/static/??empty.js", 200, ""),
        // No list.
        ("/static/", 200, "index"),
        ("/static/?a.js", 200, "index"),
        ("/static/??", 200, "index"),
        ("/off/??a.js", 200, "index"),
        (
            "/mixed/??a.js,c.css,empty.js,d.txt",
            200,
            "var a;\np{}\ntext",
        ),
        ("/mixed/??index.html", 400, ""),
        ("/static/??a.js,c.css", 400, ""),
        ("/static/??d.txt", 400, ""),
        ("/static/??name", 400, ""),
        ("/any/??name", 200, "no type"),
        ("/static/??a.js,?", 400, ""),
        ("/static/??a.js,none.js", 404, ""),
        ("/any/??lib", 404, ""),
        ("/lenient/??none.js,a.js", 200, "var a;"),
        ("/lenient/??a.js,a.js,a.js,a.js", 400, ""),
        ("/own/??a.js,lib/b.js", 200, "var a;var b;"),
        ("/own/??link.js", 403, ""),
        ("/static/??link.js", 200, "var a;"),
    ] {
        is(&server, path, status, text);
    }
    let eleven = ["a.js"; 11].join(",");
    is(&server, &format!("/static/??{eleven}"), 400, "");
}

#[test]
fn no_list_leads_out_of_its_directory() {
    let site = site();
    let server = site.serve(&CONFIGURATION.replace("LISTEN", LISTEN));
    for name in [
        "../secret.js",
        "../../html/secret.js",
        "lib/../../secret.js",
        "%2e%2e/secret.js",
        "..%2fsecret.js",
        "%2e%2e%2fsecret.js",
        "/../secret.js",
        "a.js%00.css",
        "a%zz.js",
    ] {
        for place in ["/static/", "/mixed/", "/lenient/", "/any/"] {
            let response = curl(&server, WAYS[0], &format!("{place}??a.js,{name}"));
            assert_eq!(response.status, 400, "{place} {name}");
        }
    }
    let log = server.wait_for_log("unsafe concat filename");
    assert!(log.contains("client sent unsafe concat filename"), "{log}");
}

#[test]
fn heads_of_concatenated_files() {
    let site = site();
    let server = site.serve(&CONFIGURATION.replace("LISTEN", LISTEN));
    const NEWEST: &str = "Tue, 09 Nov 2004 11:33:20 GMT";
    for way in WAYS {
        let ask = |more: &[&str]| curl(&server, &[way, more].concat(), "/static/??lib/b.js,a.js");
        let response = ask(&[]);
        let header = |name| response.header(name);
        assert_eq!(header("content-type"), Some("application/javascript"));
        assert_eq!(header("last-modified"), Some(NEWEST));
        // There is no tag for several files, and no part of them.
        assert_eq!(header("etag"), None);
        assert_eq!(header("accept-ranges"), None);
        assert_eq!(ask(&["-HRange: bytes=0-1"]).status, 200);
        assert_eq!(
            ask(&[&*format!("-HIf-Modified-Since: {NEWEST}")]).status,
            304
        );
        let head = ask(&["-I"]);
        let length = head.header("content-length");
        assert_eq!((head.status, length, &*head.text()), (200, Some("12"), ""));
        let packed = ask(&["--compressed"]);
        assert_eq!(packed.header("content-encoding"), Some("gzip"));
        assert_eq!(packed.text(), "var b;var a;");
        assert_eq!(ask(&["-d", "a=b"]).status, 405);
    }
}

#[test]
fn large_files_and_cached_ones() {
    let site = site();
    let server = site.serve(&CONFIGURATION.replace("LISTEN", LISTEN));
    let read = |name: &str| std::fs::read(site.path("html/static").join(name)).expect("written");
    let expected = [read("large.js"), read("a.js"), read("larger.js")].concat();
    for way in WAYS {
        for place in ["/static/", "/cached/", "/cached/"] {
            let response = curl(&server, way, &format!("{place}??large.js,a.js,larger.js"));
            assert!(response.body == expected, "{place} {way:?}");
        }
    }
}
