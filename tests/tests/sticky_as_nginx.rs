//! `sticky` and `least_time` beside nginx, which has them since 1.29.6: generated requests get the
//! same server and the same cookie from both.

use sealane_tests::comparison::nginx_version;
use sealane_tests::origin::{Answer, Origin};
use sealane_tests::random::Random;
use sealane_tests::wire::{Connection, Response, get};
use sealane_tests::{Server, Site, scale};
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

/// The first nginx that has both.
const KNOWN_SINCE: (u32, u32, u32) = (1, 31, 0);

fn lacks_it() -> bool {
    let is_older = nginx_version() < KNOWN_SINCE;
    if is_older {
        sealane_needs::leave_out("this nginx has no \"sticky\" to compare with");
    }
    is_older
}

/// An origin that calls itself so, makes the session that `/login/SESSION` asks for, and answers
/// `/fails` with 503 if its name is `b`.
fn origin(name: &'static str) -> Origin {
    Origin::answering(move |asked| {
        let status = match asked.target().starts_with("/fails") && name == "b" {
            true => "503 Busy",
            false => "200 OK",
        };
        let session = match asked.target().strip_prefix("/login/") {
            Some(session) => format!("Set-Cookie: session={session}\r\n"),
            None => String::new(),
        };
        let head =
            format!("HTTP/1.1 {status}\r\nX-Origin: {name}\r\n{session}Content-Length: 0\r\n\r\n");
        Answer::Send(head.into_bytes())
    })
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Both servers in front of the same origins.
fn configuration(origins: &[Origin], method: &str, sticky: &str) -> String {
    // The one without a route has the hash of its address as its id.
    let parameters = [
        "route=a",
        "route=b weight=2",
        "max_fails=0",
        "route=d drain",
        "route=e down",
    ];
    let servers: String = origins
        .iter()
        .zip(parameters)
        .map(|(origin, of_it)| format!("server 127.0.0.1:{} {of_it};\n", origin.port()))
        .collect();
    format!(
        "upstream app {{
            {method}
            {servers}
            {sticky}
        }}
        server {{
            listen 127.0.0.1:%plain%;
            location / {{
                proxy_pass http://app;
                proxy_next_upstream error http_503 non_idempotent;
            }}
        }}"
    )
}

/// Cookies that may mean a server, or nearly.
struct Requests {
    random: Random,
    /// The id of the server without a route.
    hash: String,
}

impl Requests {
    /// What stands for a server, or does not.
    fn value(&mut self) -> Vec<u8> {
        let hash = self.hash.clone();
        let known = [
            "a", "b", "d", "e", "A", "", "a b", " a", "\"a\"", "a=b", "aa", "s1", "s2", "s3",
        ];
        match self.random.below(8) {
            0 => hash.into_bytes(),
            1 => hash.to_uppercase().into_bytes(),
            // Odd bytes, but none that ends the header.
            2 => {
                let count = 1 + self.random.below(40);
                let mut bytes = self.random.bytes(count);
                bytes.retain(|byte| *byte > b' ' && *byte != 0x7f && *byte != b';');
                bytes
            }
            3 => vec![b'x'; 1 + self.random.below(300)],
            _ => (*self.random.choose(&known)).into(),
        }
    }

    fn cookie(&mut self) -> Vec<u8> {
        let names = [
            "srv", "srv", "srv", "session", "Srv", "srv2", "xsrv", "other", "", "srv ",
        ];
        let name = *self.random.choose(&names);
        let equals = *self.random.choose(&["=", "=", "=", "=", " = ", ""]);
        let mut value = self.value();
        if equals.is_empty() && value.is_empty() {
            // After a name alone nginx misses the next cookie.
            value.push(b'x');
        }
        [name.as_bytes(), equals.as_bytes(), &value].concat()
    }

    /// The head of a request with up to three `Cookie` headers of up to four cookies.
    fn head(&mut self) -> Vec<u8> {
        let targets = [
            "/",
            "/",
            "/",
            "/?srv=a",
            "/?srv=b",
            "/fails",
            "/login/s1",
            "/login/s2",
            "/login/s3",
        ];
        let target = *self.random.choose(&targets);
        let mut head =
            format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n").into_bytes();
        for _ in 0..self.random.below(4) {
            head.extend_from_slice(b"Cookie: ");
            let separator = *self.random.choose(&["; ", "; ", ";", " ; ", ";;"]);
            for number in 0..1 + self.random.below(4) {
                if number > 0 {
                    head.extend_from_slice(separator.as_bytes());
                }
                head.extend_from_slice(&self.cookie());
            }
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}

/// Status, server and cookies of a response.
fn seen(response: &Response) -> String {
    let origin = response.header("X-Origin").unwrap_or("none");
    let cookies = response.headers("Set-Cookie");
    format!("{} {origin} {cookies:?}", response.status)
}

fn ask(server: &Server<'_>, head: &[u8]) -> Response {
    let mut connection = Connection::open(server.port("plain"));
    connection.send(head);
    connection.response(false)
}

const STICKY: [(&str, &str); 7] = [
    ("", "sticky cookie srv;"),
    (
        "",
        "sticky cookie srv expires=max domain=$arg_srv.example.org httponly secure samesite=$arg_srv \
         path=/x;",
    ),
    ("least_conn;", "sticky cookie srv samesite=lax;"),
    ("", "sticky route $cookie_srv $arg_srv;"),
    ("hash $uri;", "sticky route $arg_srv $cookie_srv;"),
    (
        "",
        "sticky learn create=$upstream_cookie_session lookup=$cookie_session lookup=$cookie_srv \
         zone=sessions:64k;",
    ),
    (
        "",
        "sticky learn create=$upstream_cookie_session lookup=$cookie_session \
         zone=sessions:1m header;",
    ),
];

#[test]
fn generated_cookies_lead_to_the_same_server_as_in_nginx() {
    if lacks_it() {
        return;
    }
    let mut differences = String::new();
    let (mut compared, mut at_home) = (0, 0);
    for (seed, (method, sticky)) in (1..).zip(STICKY) {
        let origins = NAMES.map(origin);
        let text = configuration(&origins, method, sticky);
        let (here, there) = (Site::new(), Site::new());
        let (ours, theirs) = (here.serve(&text), there.serve_by_nginx(&text));
        let hash = md5_of(&format!("127.0.0.1:{}", origins[2].port()));
        let mut requests = Requests {
            random: Random::new(seed),
            hash,
        };
        for number in 0..scale(120, 2000) {
            let head = requests.head();
            let (one, other) = (seen(&ask(&ours, &head)), seen(&ask(&theirs, &head)));
            compared += 1;
            at_home += usize::from(one.starts_with("200 d"));
            if one != other {
                let head = head.escape_ascii();
                differences +=
                    &format!("{sticky} {number}: {head}\n  here  {one}\n  nginx {other}\n");
                // From here on their turns differ.
                break;
            }
        }
    }
    println!("{compared} requests compared, {at_home} of them to a drained server");
    assert!(differences.is_empty(), "{differences}");
    // Only a cookie leads there.
    assert!(at_home > 5, "{at_home}");
}

fn md5_of(text: &str) -> String {
    let said = sealane_tests::command::<&str>("md5sum", &[], text.as_bytes());
    let text = said.success().text();
    text.split(' ').next().expect("a hash").to_owned()
}

/// Origins that take their time: 100, 200 and 400 ms.
fn slow_origins() -> [Origin; 3] {
    [("fast", 100), ("middle", 200), ("slow", 400)].map(|(name, ms)| {
        Origin::answering(move |_| {
            thread::sleep(Duration::from_millis(ms));
            let head = format!("HTTP/1.1 200 OK\r\nX-Origin: {name}\r\nContent-Length: 0\r\n\r\n");
            Answer::Send(head.into_bytes())
        })
    })
}

/// How many of `each` requests of `clients` clients at a time go to each origin.
fn counts(port: u16, clients: usize, each: usize) -> BTreeMap<String, usize> {
    let clients = (0..clients).map(|_| {
        thread::spawn(move || {
            let ask = |_| {
                get(port, "/")
                    .header("X-Origin")
                    .unwrap_or("none")
                    .to_owned()
            };
            (0..each).map(ask).collect::<Vec<_>>()
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut counts = BTreeMap::new();
    for client in clients {
        for name in client.join().expect("no panic") {
            *counts.entry(name).or_insert(0) += 1;
        }
    }
    counts
}

#[test]
fn least_time_spreads_requests_as_nginx_does() {
    if lacks_it() {
        return;
    }
    for rule in ["header", "last_byte", "header inflight"] {
        let origins = slow_origins();
        let servers = origins
            .each_ref()
            .map(|origin| format!("server 127.0.0.1:{};", origin.port()));
        let text = format!(
            "upstream app {{ least_time {rule}; {} }}
            server {{ listen 127.0.0.1:%plain%; location / {{ proxy_pass http://app; }} }}",
            servers.concat()
        );
        let shares = |server: Server<'_>| {
            let port = server.port("plain");
            // One after the other: each is tried once, then the fast one has them all.
            let alone = counts(port, 1, 10);
            let (clients, each) = (8, scale(20, 100));
            let crowd = counts(port, clients, each);
            let share = |name: &str| {
                let count = crowd.get(name).copied().unwrap_or(0);
                count as f64 / (clients * each) as f64
            };
            (alone, ["fast", "middle", "slow"].map(share))
        };
        let (here, there) = (Site::new(), Site::new());
        let ours = shares(here.serve(&text));
        let theirs = shares(there.serve_by_nginx(&text));
        println!("least_time {rule}: here {ours:?}, nginx {theirs:?}");
        assert_eq!(ours.0, theirs.0, "{rule}");
        for (one, other) in ours.1.iter().zip(theirs.1) {
            assert!((one - other).abs() < 0.2, "{rule}: {ours:?} {theirs:?}");
        }
        let [fast, middle, slow] = ours.1;
        assert!(fast > middle && middle > slow, "{rule}: {ours:?}");
    }
}
