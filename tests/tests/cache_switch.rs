//! Another binary on a warm cache: what nginx has stored, Sealane serves byte for byte without
//! asking an origin, and the other way round. What has expired is confirmed and replaced by the
//! other one.

use sealane_tests::fastcgi::{self, FastCgiOrigin};
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::random::Random;
use sealane_tests::wire::{self, Connection, Response};
use sealane_tests::{Server, Site, scale};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Sizes of bodies: none, around buffers and pages, and large ones that are rare.
const SIZES: [usize; 10] = [0, 1, 100, 1000, 4095, 4096, 4097, 8192, 20_000, 70_000];
const LARGE_BYTES: usize = 1_500_000;
/// One in so many is large.
const LARGE_EVERY: usize = 100;

/// Every kind of directory that an object may be in, by the location that leads there.
const LOCATIONS: [&str; 5] = ["plain", "flat", "deep", "beside", "fast"];

/// Longer than it takes until what is fresh for one second is stale.
const EXPIRY: Duration = Duration::from_millis(2300);

/// What is asked for.
#[derive(Debug, Clone, Copy)]
struct Object {
    number: usize,
}

impl Object {
    fn location(self) -> &'static str {
        LOCATIONS[self.number % LOCATIONS.len()]
    }

    /// Some objects have variants, three each, of which one is asked for.
    fn language(self) -> &'static str {
        ["", "de", "en", "fr, en"][self.number / LOCATIONS.len() % 4]
    }

    fn target(self) -> String {
        // Variants share a key.
        let number = match self.language() {
            "" => self.number,
            _ => self.number % LOCATIONS.len() + self.number / (LOCATIONS.len() * 4) * 1_000_000,
        };
        let kind = if self.language().is_empty() {
            "one"
        } else {
            "vary"
        };
        format!("/{}/{kind}/{number}", self.location())
    }

    fn request(self) -> String {
        let language = match self.language() {
            "" => String::new(),
            language => format!("Accept-Language: {language}\r\n"),
        };
        format!(
            "GET {} HTTP/1.1\r\nHost: a.test\r\n{language}\r\n",
            self.target()
        )
    }
}

/// The fields and the body of a response, which follow from target and language.
fn response(target: &str, language: &str) -> (String, Vec<u8>) {
    let seed = target.bytes().chain(language.bytes());
    let seed = seed.fold(7_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    let mut random = Random::new(seed);
    let bytes = match random.below(LARGE_EVERY) {
        0 => LARGE_BYTES,
        _ => *random.choose(&SIZES),
    };
    let mut fields = format!(
        "Content-Type: text/x-{bytes}\r\nETag: \"{seed:x}\"\r\n\
         Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT\r\n"
    );
    if target.contains("/vary/") {
        fields.push_str("Vary: Accept-Language\r\n");
    }
    for number in 0..random.below(4) {
        fields.push_str(&format!(
            "X-Field-{number}: {}\r\n",
            "x".repeat(random.below(80))
        ));
    }
    (fields, random.bytes(bytes))
}

/// The origins, and how often they were asked.
struct Origins {
    http: Origin,
    fastcgi: FastCgiOrigin,
    asked: Arc<AtomicUsize>,
}

impl Origins {
    fn new() -> Origins {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let http = Origin::answering(move |request| {
            counter.fetch_add(1, Ordering::Relaxed);
            let language = request.headers("Accept-Language").concat();
            let (fields, body) = response(&request.target(), &language);
            // Some have a length, others are chunked.
            let mut out = format!("HTTP/1.1 200 OK\r\n{fields}").into_bytes();
            match body.len() % 3 {
                0 => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n"),
                _ => out.extend_from_slice(
                    format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes(),
                ),
            }
            match body.len() % 3 {
                0 => {
                    for piece in body.chunks(9999) {
                        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                        out.extend_from_slice(piece);
                        out.extend_from_slice(b"\r\n");
                    }
                    out.extend_from_slice(b"0\r\n\r\n");
                }
                _ => out.extend_from_slice(&body),
            }
            Answer::Send(out)
        });
        let counter = Arc::clone(&asked);
        let fastcgi = FastCgiOrigin::start(move |request, socket| {
            counter.fetch_add(1, Ordering::Relaxed);
            let language = request.parameter("HTTP_ACCEPT_LANGUAGE");
            let (fields, body) = response(request.parameter("REQUEST_URI"), language);
            let mut out = format!("{fields}\r\n").into_bytes();
            out.extend_from_slice(&body);
            fastcgi::answer(socket, &out) && request.keep
        });
        Origins {
            http,
            fastcgi,
            asked,
        }
    }

    fn take_asked(&self) -> usize {
        // They need not be remembered.
        self.http.take_asked();
        self.asked.swap(0, Ordering::Relaxed)
    }

    fn configuration(&self) -> String {
        let (http, fastcgi) = (self.http.port(), self.fastcgi.port());
        let passed = |location: &str, lines: &str| {
            format!(
                "location /{location}/ {{ proxy_pass http://127.0.0.1:{http}; {lines}
                     add_header X-Cache $upstream_cache_status; }}\n"
            )
        };
        [
            "proxy_cache_path plain keys_zone=plain:20m levels=1:2 inactive=1h;
             proxy_cache_path flat keys_zone=flat:20m inactive=1h;
             proxy_cache_path deep keys_zone=deep:20m levels=2:2:1 inactive=1h;
             proxy_cache_path beside keys_zone=beside:20m levels=1 use_temp_path=off inactive=1h;
             fastcgi_cache_path fast keys_zone=fast:20m levels=2 inactive=1h;
             keepalive_requests 1000000;
             proxy_http_version 1.1; proxy_set_header Connection '';
             server { listen 127.0.0.1:%plain%; proxy_cache_valid 1h; fastcgi_cache_valid 1h;\n"
                .to_owned(),
            passed("plain", "proxy_cache plain;"),
            passed("flat", "proxy_cache flat;"),
            passed("deep", "proxy_cache deep;"),
            passed("beside", "proxy_cache beside;"),
            format!(
                "location /fast/ {{ fastcgi_pass 127.0.0.1:{fastcgi}; fastcgi_cache fast;
                     fastcgi_cache_key $request_uri; fastcgi_param REQUEST_URI $request_uri;
                     add_header X-Cache $upstream_cache_status; }} }}"
            ),
        ]
        .concat()
    }
}

/// Asks for all of them; each must have this cache status, and its own fields and body.
#[track_caller]
fn ask(server: &Server<'_>, objects: impl Iterator<Item = usize>, status: &str) {
    let mut connection = Connection::open(server.port("plain"));
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    for number in objects {
        let object = Object { number };
        connection.send(object.request());
        let got = connection.response(false);
        let (fields, body) = response(&object.target(), object.language());
        assert_eq!(got.status, 200, "{object:?}: {}", got.head);
        assert_eq!(
            got.header("X-Cache"),
            Some(status),
            "{object:?}: {}",
            got.head
        );
        assert!(got.body == body, "{object:?}: {} bytes", got.body.len());
        for field in fields.lines() {
            assert!(has_line(&got, field), "{object:?} {field}: {}", got.head);
        }
        *sizes.entry(body.len()).or_default() += 1;
    }
    assert!(sizes.len() > SIZES.len() / 2, "{sizes:?}");
}

fn has_line(response: &Response, line: &str) -> bool {
    response
        .head
        .split("\r\n")
        .any(|own| own.eq_ignore_ascii_case(line))
}

#[test]
fn either_binary_serves_what_the_other_has_stored() {
    let count = scale(200, 10_000);
    let site = Site::new();
    let origins = Origins::new();
    let configuration = origins.configuration();

    let nginx = site.serve_by_nginx(&configuration);
    ask(&nginx, 0..count, "MISS");
    assert_eq!(origins.take_asked(), count);
    assert!(nginx.stop("QUIT").success());

    let ours = site.serve(&configuration);
    ask(&ours, 0..count, "HIT");
    assert_eq!(origins.take_asked(), 0);
    ask(&ours, count..2 * count, "MISS");
    assert_eq!(origins.take_asked(), count);
    // At once, and again by another process.
    ask(&ours, 0..2 * count, "HIT");
    assert_eq!(origins.take_asked(), 0);
    assert!(ours.stop("QUIT").success());

    let nginx = site.serve_by_nginx(&configuration);
    ask(&nginx, 0..2 * count, "HIT");
    assert_eq!(origins.take_asked(), 0);
    assert!(nginx.stop("QUIT").success());

    let ours = site.serve(&configuration);
    ask(&ours, 0..2 * count, "HIT");
    assert_eq!(origins.take_asked(), 0);
}

/// What is asked for by path, and the cache status.
#[track_caller]
fn status_of(server: &Server<'_>, path: &str) -> (String, String) {
    let got = wire::get(server.port("plain"), path);
    assert_eq!(got.status, 200, "{}", got.head);
    let status = got.header("X-Cache").unwrap_or_default().to_owned();
    (status, got.text())
}

#[test]
fn what_has_expired_is_confirmed_and_replaced_by_the_other() {
    let site = Site::new();
    // Tells one version from the next, unless the path says that it stays the same.
    let version = Arc::new(AtomicUsize::new(1));
    let current = Arc::clone(&version);
    let origin = Origin::answering(move |request| {
        let same = request.target().starts_with("/same");
        let version = if same {
            0
        } else {
            current.load(Ordering::Relaxed)
        };
        let tag = format!("\"{version}\"");
        let head = format!("ETag: {tag}\r\nCache-Control: max-age=1\r\n");
        let answer = match request.headers("If-None-Match").contains(&tag) {
            true => format!("HTTP/1.1 304 Not Modified\r\n{head}\r\n"),
            false => {
                let body = format!("version {version}");
                let length = body.len();
                format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {length}\r\n\r\n{body}")
            }
        };
        Answer::Send(answer.into_bytes())
    });
    let configuration = format!(
        "proxy_cache_path cache keys_zone=z:1m levels=1:2;
         server {{ listen 127.0.0.1:%plain%;
             location / {{ proxy_pass http://127.0.0.1:{}; proxy_cache z; proxy_cache_revalidate on;
                 add_header X-Cache $upstream_cache_status; }} }}",
        origin.port()
    );
    let paths = ["/same/a", "/same/b", "/other/a", "/other/b"];
    let nginx = site.serve_by_nginx(&configuration);
    for path in paths {
        assert_eq!(status_of(&nginx, path).0, "MISS");
    }
    assert!(nginx.stop("QUIT").success());
    for round in 2..6 {
        std::thread::sleep(EXPIRY);
        version.store(round, Ordering::Relaxed);
        let server = match round % 2 {
            0 => site.serve(&configuration),
            _ => site.serve_by_nginx(&configuration),
        };
        for path in paths {
            let wanted = match path.starts_with("/same") {
                true => ("REVALIDATED".to_owned(), "version 0".to_owned()),
                false => ("EXPIRED".to_owned(), format!("version {round}")),
            };
            assert_eq!(status_of(&server, path), wanted, "round {round}, {path}");
        }
        assert!(server.stop("QUIT").success());
    }
}
