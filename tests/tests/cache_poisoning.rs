//! Cache poisoning: one client sends a request with something in it that the key does not contain,
//! and another one asks for the same thing. What the first has sent must not be in the answer of
//! the second. Everything is tried on nginx, too: docs/differences.md says where it is open.

use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::{Server, Site, wait_for, wire};
use std::thread;
use std::time::Duration;

/// What the attacker brings in.
const MARK: &str = "evil";

/// Who answers the victim with what the attacker has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Neither,
    /// nginx alone.
    Nginx,
    /// Both, as the configuration says: what the key has to contain is for it to decide.
    Both,
}

struct Attempt {
    name: &'static str,
    /// Lines of the location.
    location: &'static str,
    attack: &'static str,
    victim: &'static str,
    open: Open,
}

const VICTIM: &str = "GET /a HTTP/1.1\r\nHost: good\r\nConnection: close\r\n\r\n";
const BY_HOST: &str = "proxy_set_header Host $host; proxy_cache_key $host$request_uri;";

const ATTEMPTS: &[Attempt] = &[
    Attempt {
        name: "a body of GET",
        location: "",
        attack: "GET /a HTTP/1.1\r\nHost: good\r\nContent-Length: 4\r\n\r\nevil",
        victim: VICTIM,
        open: Open::Nginx,
    },
    Attempt {
        name: "a body of GET in chunks",
        location: "",
        attack: "GET /a HTTP/1.1\r\nHost: good\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n",
        victim: VICTIM,
        open: Open::Nginx,
    },
    Attempt {
        name: "a body of GET that is in the key",
        location: "proxy_cache_key $request_uri$request_body;",
        attack: "GET /a HTTP/1.1\r\nHost: good\r\nContent-Length: 4\r\n\r\nevil",
        victim: VICTIM,
        open: Open::Neither,
    },
    Attempt {
        name: "a body of POST that is in the key",
        location: "proxy_cache_methods POST; proxy_cache_key $request_uri$request_body;",
        attack: "POST /a HTTP/1.1\r\nHost: good\r\nContent-Length: 4\r\n\r\nevil",
        victim: "POST /a HTTP/1.1\r\nHost: good\r\nConnection: close\r\n\
                 Content-Length: 4\r\n\r\ngood",
        open: Open::Neither,
    },
    Attempt {
        name: "Host, which the origin does not get",
        location: "",
        attack: "GET /a HTTP/1.1\r\nHost: evil\r\n\r\n",
        victim: VICTIM,
        open: Open::Neither,
    },
    Attempt {
        name: "Host, which the origin gets and the key does not contain",
        location: "proxy_set_header Host $host;",
        attack: "GET /a HTTP/1.1\r\nHost: evil\r\n\r\n",
        victim: VICTIM,
        open: Open::Both,
    },
    Attempt {
        name: "Host in the key",
        location: BY_HOST,
        attack: "GET /a HTTP/1.1\r\nHost: evil\r\n\r\n",
        victim: VICTIM,
        open: Open::Neither,
    },
    Attempt {
        name: "an absolute URI beside Host",
        location: BY_HOST,
        attack: "GET http://evil/a HTTP/1.1\r\nHost: good\r\n\r\n",
        victim: VICTIM,
        open: Open::Neither,
    },
    Attempt {
        name: "Host beside an absolute URI",
        location: BY_HOST,
        attack: "GET http://good/a HTTP/1.1\r\nHost: evil\r\n\r\n",
        victim: VICTIM,
        open: Open::Neither,
    },
    Attempt {
        name: "Host in capitals, with a dot at its end and a port",
        location: BY_HOST,
        attack: "GET /a HTTP/1.1\r\nHost: GOOD.:666\r\nUser-Agent: evil\r\n\r\n",
        victim: "GET /a HTTP/1.1\r\nHost: good\r\nUser-Agent: mine\r\nConnection: close\r\n\r\n",
        open: Open::Both,
    },
    Attempt {
        name: "a field that the origin gets as it is",
        location: "",
        attack: "GET /a HTTP/1.1\r\nHost: good\r\nX-Forwarded-Host: evil\r\n\r\n",
        victim: VICTIM,
        open: Open::Both,
    },
    Attempt {
        name: "a field that is not sent",
        location: "proxy_set_header X-Forwarded-Host \"\";",
        attack: "GET /a HTTP/1.1\r\nHost: good\r\nX-Forwarded-Host: evil\r\n\r\n",
        victim: VICTIM,
        open: Open::Neither,
    },
    Attempt {
        name: "letters in capitals",
        location: "",
        attack: "GET /A?evil HTTP/1.1\r\nHost: good\r\n\r\n",
        victim: VICTIM,
        open: Open::Neither,
    },
    Attempt {
        name: "an escaped letter",
        location: "",
        attack: "GET /%61 HTTP/1.1\r\nHost: good\r\nUser-Agent: evil\r\n\r\n",
        victim: VICTIM,
        open: Open::Neither,
    },
    Attempt {
        name: "an escaped slash and dots",
        location: "",
        attack: "GET /evil%2f..%2fa HTTP/1.1\r\nHost: good\r\nUser-Agent: evil\r\n\r\n",
        victim: VICTIM,
        open: Open::Neither,
    },
    Attempt {
        name: "a fragment",
        location: "",
        attack: "GET /a#evil HTTP/1.1\r\nHost: good\r\n\r\n",
        victim: VICTIM,
        open: Open::Neither,
    },
    Attempt {
        name: "a range, which the origin does not get",
        location: "",
        attack: "GET /a HTTP/1.1\r\nHost: good\r\nRange: bytes=0-1,evil\r\n\r\n",
        victim: VICTIM,
        open: Open::Neither,
    },
    Attempt {
        name: "conditions, which the origin does not get",
        location: "",
        attack: "GET /a HTTP/1.1\r\nHost: good\r\nIf-None-Match: \"evil\"\r\nIf-Range: \"evil\"\r\n\r\n",
        victim: VICTIM,
        open: Open::Neither,
    },
    Attempt {
        name: "HEAD, which becomes GET",
        location: "",
        attack: "HEAD /a HTTP/1.1\r\nHost: good\r\n\r\n",
        victim: VICTIM,
        open: Open::Neither,
    },
    Attempt {
        name: "a method that is not cached",
        location: "",
        attack: "DELETE /a HTTP/1.1\r\nHost: good\r\nUser-Agent: evil\r\n\r\n",
        victim: VICTIM,
        open: Open::Neither,
    },
    Attempt {
        name: "what Vary names",
        location: "",
        attack: "GET /vary HTTP/1.1\r\nHost: good\r\nX-Kind: evil\r\n\r\n",
        victim: "GET /vary HTTP/1.1\r\nHost: good\r\nX-Kind: good\r\nConnection: close\r\n\r\n",
        open: Open::Neither,
    },
    Attempt {
        name: "a key with the same MD5 sum",
        location: "proxy_cache_key $arg_k;",
        attack: "GET /evil?k=TEXTCOLLBYfGiJUETHQ4hAcKSMd5zYpgqf1YRDhkmxHkhPWptrkoyz28wnI9V0aHeAuaKnak \
                 HTTP/1.1\r\nHost: good\r\n\r\n",
        victim: "GET /a?k=TEXTCOLLBYfGiJUETHQ4hEcKSMd5zYpgqf1YRDhkmxHkhPWptrkoyz28wnI9V0aHeAuaKnak \
                 HTTP/1.1\r\nHost: good\r\nConnection: close\r\n\r\n",
        open: Open::Neither,
    },
];

/// Answers with what it was asked; `X-Status` asks for a status and `Vary` is sent for `/vary`.
fn origin() -> Origin {
    Origin::answering(|asked: &Asked| {
        let body = [&asked.head[..], &asked.body[..]].concat();
        let status = asked.headers("X-Status").concat();
        let (line, time) = match &*status {
            "" => ("200 OK", "Cache-Control: max-age=60\r\n"),
            // Without a word about how long it may be kept.
            status => (status, ""),
        };
        let vary = match asked.target().starts_with("/vary") {
            true => "Vary: X-Kind\r\n",
            false => "",
        };
        let head = format!(
            "HTTP/1.1 {line}\r\n{time}{vary}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let is_head = asked.head.starts_with(b"HEAD ");
        let body = if is_head { &[][..] } else { &body[..] };
        Answer::Send([head.as_bytes(), body].concat())
    })
}

/// The name of a port.
fn name_of(number: usize) -> String {
    format!("attempt_{}", char::from(b'a' + number as u8))
}

/// One server for each location.
fn servers(origin: u16, locations: impl Iterator<Item = String>) -> String {
    let servers = locations.enumerate().map(|(number, location)| {
        let port = name_of(number);
        format!(
            "proxy_cache_path cache{number} keys_zone=zone{number}:1m;
             server {{ listen 127.0.0.1:%{port}%; proxy_cache zone{number};
                 add_header X-Cache $upstream_cache_status always;
                 location / {{ proxy_pass http://127.0.0.1:{origin}; {location} }} }}\n"
        )
    });
    servers.collect()
}

/// Whether the victim gets what the attacker has sent. The attack comes several times, so that the
/// answer is in memory if it can be.
fn is_open(server: &Server<'_>, number: usize, attempt: &Attempt) -> bool {
    let port = server.port(&name_of(number));
    for _ in 0..5 {
        let mut connection = wire::Connection::open(port);
        connection.send(attempt.attack);
        let response = connection.response(attempt.attack.starts_with("HEAD "));
        assert_ne!(response.status, 502, "{}", attempt.name);
        thread::sleep(Duration::from_millis(30));
    }
    let victim = wire::request(port, attempt.victim);
    assert_eq!(victim.status, 200, "{}: {}", attempt.name, victim.head);
    victim.text().contains(MARK)
}

#[test]
fn what_the_key_does_not_contain_is_not_in_what_others_get() {
    let origin = origin();
    let locations = || ATTEMPTS.iter().map(|attempt| attempt.location.to_owned());
    let text = servers(origin.port(), locations());
    let sites = [Site::new(), Site::new()];
    let (sealane, nginx) = (sites[0].serve(&text), sites[1].serve_by_nginx(&text));
    sealane.expect_alert("has md5 collision");
    nginx.expect_alert("has md5 collision");
    for (number, attempt) in ATTEMPTS.iter().enumerate() {
        let open = match [&sealane, &nginx].map(|server| is_open(server, number, attempt)) {
            [false, false] => Open::Neither,
            [false, true] => Open::Nginx,
            [true, true] => Open::Both,
            [true, false] => panic!("{}: only we are open", attempt.name),
        };
        assert_eq!(open, attempt.open, "{}", attempt.name);
    }
}

/// With `any`, a request that is refused must not keep others from what they ask for.
#[test]
fn a_bad_request_decides_only_for_its_sender() {
    const ABOUT_REQUEST: [u16; 17] = [
        400, 401, 407, 408, 411, 412, 413, 415, 416, 417, 421, 422, 425, 426, 428, 429, 431,
    ];
    let origin = origin();
    let site = Site::new();
    let locations = [
        "proxy_cache_valid any 1m;".to_owned(),
        "proxy_cache_valid 429 1m; proxy_cache_valid any 1m;".to_owned(),
    ];
    let server = site.serve(&servers(origin.port(), locations.into_iter()));
    let ask = |port: u16, target: &str, status: u16| {
        wire::get_with(port, target, &format!("X-Status: {status} What\r\n"))
    };
    let port = server.port(&name_of(0));
    for status in ABOUT_REQUEST {
        let target = format!("/{status}");
        for _ in 0..3 {
            let refused = ask(port, &target, status);
            assert_eq!(refused.status, status);
            assert_ne!(refused.header("X-Cache"), Some("HIT"), "{status}");
        }
        let victim = wire::get(port, &target);
        assert_eq!(victim.status, 200, "{status}");
    }
    // What is about the thing that was asked for is for all; and what is named is meant.
    for (port, status) in [
        (port, 404),
        (port, 410),
        (port, 414),
        (server.port(&name_of(1)), 429),
    ] {
        let target = format!("/{status}");
        wait_for("a hit", || {
            let response = ask(port, &target, status);
            (response.header("X-Cache") == Some("HIT")).then_some(())
        });
        assert_eq!(wire::get(port, &target).status, status);
    }
}
