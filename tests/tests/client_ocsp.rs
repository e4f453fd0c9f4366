//! `ssl_ocsp`: which clients are let in, by what their issuers say, and while responders misbehave.

#[path = "stapling/authority.rs"]
mod authority;
#[path = "client_ocsp/clients.rs"]
mod clients;

use authority::{Authority, here, http};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::reload::reload_as_it_is;
use sealane_tests::{NameServer, Server, Site, command, wait_for};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// A server block that demands certificates of the authority.
fn block(name: &str, more: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:%{name}% ssl; http2 on; ssl_protocols TLSv1.2 TLSv1.3;
             ssl_verify_client on; ssl_client_certificate ocsp/root.pem;
             ssl_certificate ocsp/ec.pem; ssl_certificate_key ocsp/ec.key;
             add_header X-Verify $ssl_client_verify:$ssl_session_reused always;
             location / {{ return 200 hello; }} {more} }}\n"
    )
}

/// What a client with this certificate gets: the status, and what `$ssl_client_verify` says.
fn ask(authority: &Authority<'_>, port: u16, certificate: &str, options: &str) -> String {
    let url = format!("https://127.0.0.1:{port}/");
    let (chain, key) = (
        authority.path(&format!("{certificate}.pem")),
        authority.path(&format!("{certificate}.key")),
    );
    let mut arguments = vec!["-sk", "--cert", &chain, "--key", &key, "-o", "/dev/null"];
    arguments.extend(["-w", "%{http_code} %header{x-verify}", &url]);
    arguments.extend(options.split_whitespace());
    let outcome = command("curl", &arguments, b"").success();
    outcome.text().trim_end_matches(":.").to_owned()
}

const ACCEPTED: &str = "200 SUCCESS";
const FAILED: &str = "400 FAILED:certificate status request failed";
const REVOKED: &str = "400 FAILED:certificate revoked";

#[test]
fn a_real_responder_decides() {
    let site = Site::new();
    let authority = Authority::new(&site);
    let _responder = authority.start_responder();
    let url = format!("http://127.0.0.1:{}/", authority.responder_port());
    let text = format!(
        "ssl_ocsp leaf; {} {}",
        block("named", ""),
        block("told", &format!("ssl_ocsp_responder {url};"))
    );
    let server = site.serve(&here(&site, &text));
    let (named, told) = (server.port("named"), server.port("told"));
    for options in ["--http1.1 --tls-max 1.2", "--http1.1", "--http2"] {
        assert_eq!(ask(&authority, named, "ec", options), ACCEPTED, "{options}");
        let told = |certificate| ask(&authority, told, certificate, options);
        assert_eq!(told("silent"), ACCEPTED, "{options}");
        assert_eq!(told("revoked"), REVOKED, "{options}");
        assert_eq!(told("rsa"), ACCEPTED, "{options}");
    }
    // A certificate that names no responder cannot be asked about.
    assert_eq!(ask(&authority, named, "silent", ""), FAILED);
    server.wait_for_log("no OCSP responder URL in certificate while requesting certificate status");
    server.wait_for_log(
        "client SSL certificate verify error: certificate revoked while reading client request \
         headers",
    );
    // All requests of a connection are answered alike, and the issuer is asked once.
    let url = format!("https://127.0.0.1:{named}/");
    let (chain, key) = (authority.path("ec.pem"), authority.path("ec.key"));
    let curl = ["-sk", "--cert", &chain, "--key", &key, &url, &url, &url];
    assert_eq!(
        command("curl", &curl, b"").success().text(),
        "hellohellohello"
    );
}

/// What responders say, each with what the client gets, what the error log says about it, and
/// whether nginx lets the same clients in.
const CASES: [(&str, &str, &str, bool); 20] = [
    ("cut", FAILED, "the server sent an invalid response", true),
    ("nonsense", FAILED, "d2i_OCSP_RESPONSE() failed", true),
    // nginx takes what comes before.
    ("trailing", FAILED, "something follows it", false),
    ("empty", FAILED, "d2i_OCSP_RESPONSE() failed", true),
    (
        "other",
        FAILED,
        "certificate status not found in the OCSP response",
        true,
    ),
    ("expired", FAILED, "OCSP_check_validity() failed", true),
    ("future", FAILED, "OCSP_check_validity() failed", true),
    ("signature", FAILED, "OCSP_basic_verify() failed", true),
    ("usage", FAILED, "OCSP_basic_verify() failed", true),
    ("stranger", FAILED, "OCSP_basic_verify() failed", true),
    (
        "later",
        FAILED,
        "OCSP response not successful (3: trylater)",
        true,
    ),
    ("revoked", REVOKED, "certificate revoked", true),
    (
        "unknown",
        "400 FAILED:certificate status unknown",
        "certificate status unknown",
        true,
    ),
    (
        "huge",
        FAILED,
        "the server sent a response of more than 65536 bytes",
        true,
    ),
    ("redirect", FAILED, "the server answered 302", true),
    ("missing", FAILED, "the server answered 404", true),
    ("html", FAILED, "the server sent \"text/html\"", true),
    ("plain", ACCEPTED, "", true),
    // nginx asks by HTTP/1.0 and knows no chunks.
    ("chunked", ACCEPTED, "", false),
    ("delegated", ACCEPTED, "", true),
];

fn answers(authority: &Authority<'_>, site: &Site) -> HashMap<String, Vec<u8>> {
    let good = authority.good("silent");
    let day = "-ndays 1";
    // Without certificates behind it, a response ends with the signature.
    let mut signature = authority.response("silent", "root.pem", "-ndays 1 -resp_no_certs", None);
    let last = signature.len() - 1;
    signature[last] ^= 1;
    let send = |body: &[u8]| http("200 OK", "", body);
    let chunks: Vec<u8> = good
        .chunks(100)
        .flat_map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
        .collect();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    let said =
        |about: &str, signer: &str, time| send(&authority.response(about, signer, day, time));
    let whole = send(&good);
    let mut answers = vec![
        ("cut", whole[..whole.len() - 10].to_vec()),
        ("nonsense", send(b"no response")),
        ("trailing", send(&[&good[..], b"x"].concat())),
        ("empty", send(b"")),
        ("other", send(&authority.good("other"))),
        ("expired", said("silent", "root.pem", Some("-3 days"))),
        ("future", said("silent", "root.pem", Some("+3 days"))),
        ("signature", send(&signature)),
        ("usage", said("silent", "plain.leaf", None)),
        ("stranger", said("silent", "stranger.pem", None)),
        ("later", send(&[0x30, 3, 0x0a, 1, 3])),
        ("revoked", said("revoked", "root.pem", None)),
        ("huge", send(&vec![0x30; 100_000])),
        ("redirect", http("302 Found", "Location: /plain\r\n", b"")),
        ("missing", http("404 Not Found", "", &good)),
        (
            "html",
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi".to_vec(),
        ),
        ("plain", whole),
        ("chunked", [head.as_bytes(), &chunks, b"0\r\n\r\n"].concat()),
        ("delegated", said("silent", "delegate.leaf", None)),
    ];
    // A responder that has forgotten all certificates.
    site.write("ocsp/index.txt", "");
    answers.push((
        "unknown",
        send(&authority.response("silent", "root.pem", "-nmin 60", None)),
    ));
    let named = answers.into_iter();
    named
        .map(|(name, answer)| (name.to_owned(), answer))
        .collect()
}

#[test]
fn wrong_answers_refuse_the_client_and_say_why_as_in_nginx() {
    let site = Site::new();
    let authority = Authority::new(&site);
    let answers = answers(&authority, &site);
    let origin = Origin::answering(move |asked: &Asked| {
        let target = asked.target();
        let name = target.split('/').nth(1).unwrap_or_default();
        Answer::SendAndClose(answers.get(name).cloned().unwrap_or_default())
    });
    let mut text = String::from("ssl_ocsp leaf;\n");
    for (name, ..) in CASES {
        let url = format!("http://127.0.0.1:{}/{name}/", origin.port());
        text.push_str(&block(name, &format!("ssl_ocsp_responder {url};")));
    }
    let text = here(&site, &text);
    let certificate = |name| if name == "revoked" { name } else { "silent" };
    let server = site.serve(&text);
    for (name, expected, why, _) in CASES {
        let got = ask(&authority, server.port(name), certificate(name), "");
        assert_eq!(got, expected, "{name}");
        server.wait_for_log(why);
    }
    let log = server.error_log();
    let line = log.lines().find(|line| line.contains("trylater"));
    let line = line.expect("it was waited for");
    for part in [
        "[error]",
        "while requesting certificate status, responder: 127.0.0.1, peer: 127.0.0.1:",
        "certificate: \"CN=silent\"",
    ] {
        assert!(line.contains(part), "{line}");
    }
    drop(server);
    // An nginx before 1.25.1 has no `http2`.
    let nginx = site.serve_by_nginx(&text.replace("http2 on;", ""));
    for (name, expected, _, agrees) in CASES {
        let got = ask(&authority, nginx.port(name), certificate(name), "");
        assert_eq!(got == expected, agrees, "{name}: nginx says {got}");
    }
}

/// Holds answers back until it is opened.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn pass(&self) {
        let open = self.0.lock().expect("no panic");
        drop(self.1.wait_while(open, |open| !*open).expect("no panic"));
    }

    fn open(&self) {
        *self.0.lock().expect("no panic") = true;
        self.1.notify_all();
    }
}

#[test]
fn a_slow_responder_delays_nobody_else() {
    let site = Site::new();
    let authority = Authority::new(&site);
    let good = http("200 OK", "", &authority.good("silent"));
    let gate = Arc::new(Gate::default());
    let theirs = Arc::clone(&gate);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let origin = Origin::answering(move |_: &Asked| {
        count.fetch_add(1, Ordering::Relaxed);
        theirs.pass();
        Answer::SendAndClose(good.clone())
    });
    let url = format!("http://127.0.0.1:{}/", origin.port());
    let text = format!(
        "{} {}",
        block("slow", &format!("ssl_ocsp on; ssl_ocsp_responder {url};")),
        block("quick", "")
    );
    let server = site.serve_with("worker_processes 1;", "", &here(&site, &text));
    let (slow, quick) = (server.port("slow"), server.port("quick"));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| ask(&authority, slow, "silent", "--http1.1"));
        let streams = scope.spawn(|| ask(&authority, slow, "silent", "--http2"));
        wait_for("both questions", || {
            (asked.load(Ordering::Relaxed) == 2).then_some(())
        });
        // The one worker serves others meanwhile.
        assert_eq!(ask(&authority, quick, "silent", ""), ACCEPTED);
        assert!(!waits.is_finished() && !streams.is_finished());
        gate.open();
        assert_eq!(waits.join().expect("no panic"), ACCEPTED);
        assert_eq!(streams.join().expect("no panic"), ACCEPTED);
    });
}

/// A responder whose answer can be changed, and how often it was asked.
struct Changeable {
    origin: Origin,
    answer: Arc<Mutex<Vec<u8>>>,
    asked: Arc<AtomicUsize>,
}

impl Changeable {
    fn new(answer: Vec<u8>) -> Changeable {
        let answer = Arc::new(Mutex::new(answer));
        let asked = Arc::new(AtomicUsize::new(0));
        let (says, count) = (Arc::clone(&answer), Arc::clone(&asked));
        let origin = Origin::answering(move |_: &Asked| {
            count.fetch_add(1, Ordering::Relaxed);
            Answer::SendAndClose(says.lock().expect("no panic").clone())
        });
        Changeable {
            origin,
            answer,
            asked,
        }
    }

    fn directive(&self) -> String {
        format!(
            "ssl_ocsp_responder http://127.0.0.1:{};",
            self.origin.port()
        )
    }

    fn says(&self, answer: Vec<u8>) {
        *self.answer.lock().expect("no panic") = answer;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[test]
fn a_cache_is_shared_and_outlives_a_reload() {
    let site = Site::new();
    let authority = Authority::new(&site);
    let responder = Changeable::new(http("200 OK", "", &authority.good("silent")));
    let cache = "ssl_ocsp_cache shared:OCSP:1m;";
    let text = format!(
        "ssl_ocsp leaf; {} {} {} {}",
        responder.directive(),
        block("first", cache),
        block("second", cache),
        block("without", "")
    );
    let server = site.serve(&here(&site, &text));
    let client = |name: &str| ask(&authority, server.port(name), "silent", "");
    assert_eq!(client("first"), ACCEPTED);
    assert_eq!(client("second"), ACCEPTED);
    assert_eq!(responder.asked(), 1);
    responder.says(http("200 OK", "", &[0x30, 3, 0x0a, 1, 3]));
    reload_as_it_is(&server);
    assert_eq!(client("first"), ACCEPTED);
    assert_eq!(responder.asked(), 1);
    assert_eq!(client("without"), FAILED);
    assert_eq!(responder.asked(), 2);
    // Refusals are kept as well, failures are not.
    responder.says(http("200 OK", "", &authority.good("revoked")));
    let revoked = |name: &str| ask(&authority, server.port(name), "revoked", "");
    assert_eq!(revoked("first"), REVOKED);
    assert_eq!(revoked("second"), REVOKED);
    assert_eq!(responder.asked(), 3);
}

#[test]
fn the_server_s_certificate_changes_and_clients_are_judged_as_before() {
    let site = Site::new();
    let authority = Authority::new(&site);
    let responder = Changeable::new(http("200 OK", "", &authority.good("silent")));
    let text = format!(
        "ssl_certificate_reload 100ms; ssl_ocsp leaf; ssl_ocsp_cache shared:OCSP:1m; {} {}",
        responder.directive(),
        block("main", "")
    );
    let server = site.serve(&here(&site, &text));
    let client = |name: &str| ask(&authority, server.port("main"), name, "");
    assert_eq!(client("silent"), ACCEPTED);
    assert_eq!(responder.asked(), 1);
    for extension in ["key", "pem"] {
        std::fs::rename(
            authority.path(&format!("plain.{extension}")),
            authority.path(&format!("ec.{extension}")),
        )
        .expect("writable");
    }
    let subject = || {
        let address = format!("127.0.0.1:{}", server.port("main"));
        command("openssl", &["s_client", "-connect", &address], b"").text()
    };
    wait_for("the other certificate", || {
        subject().contains("subject=CN = plain").then_some(())
    });
    // What is known about clients stays known, and others are asked about.
    responder.says(http("200 OK", "", &authority.good("revoked")));
    assert_eq!(client("silent"), ACCEPTED);
    assert_eq!(responder.asked(), 1);
    assert_eq!(client("revoked"), REVOKED);
    assert_eq!(responder.asked(), 2);
}

/// Opens a connection with `openssl s_client`, keeps or offers a session, and returns the response.
fn with_session(server: &Server<'_>, authority: &Authority<'_>, options: &str) -> String {
    let address = format!("127.0.0.1:{}", server.port("main"));
    let (certificate, key) = (authority.path("silent.leaf"), authority.path("silent.key"));
    let mut arguments = vec!["s_client", "-connect", &address, "-ign_eof"];
    arguments.extend(["-cert", &certificate, "-key", &key]);
    arguments.extend(options.split_whitespace());
    let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    command("openssl", &arguments, request).text()
}

#[test]
fn a_resumed_session_is_asked_about_again() {
    for protocol in ["-tls1_2", "-tls1_3"] {
        let site = Site::new();
        let authority = Authority::new(&site);
        let good = http("200 OK", "", &authority.good("silent"));
        let responder = Changeable::new(good);
        let text = format!(
            "ssl_ocsp leaf; {} {}",
            responder.directive(),
            block("main", "")
        );
        let server = site.serve(&here(&site, &text));
        let session = site.path("session").display().to_string();
        let first = with_session(
            &server,
            &authority,
            &format!("{protocol} -sess_out {session}"),
        );
        assert!(first.contains("SUCCESS:."), "{first}");
        let offer = format!("{protocol} -sess_in {session}");
        let second = with_session(&server, &authority, &offer);
        assert!(second.contains("SUCCESS:r"), "{second}");
        clients::revoke(&authority, "silent");
        responder.says(http("200 OK", "", &authority.good("silent")));
        let third = with_session(&server, &authority, &offer);
        assert!(third.contains("FAILED:certificate revoked:r"), "{third}");
        assert!(third.contains("400 The SSL certificate error"), "{third}");
        assert_eq!(responder.asked(), 3, "{protocol}");
    }
}

#[test]
fn the_whole_chain_is_asked_about() {
    let site = Site::new();
    let authority = Authority::new(&site);
    let answers: Arc<Mutex<HashMap<String, Vec<u8>>>> = Arc::default();
    let theirs = Arc::clone(&answers);
    let origin = Origin::answering(move |asked: &Asked| {
        let target = asked.target();
        let name = target.split('/').nth(1).unwrap_or_default();
        let answers = theirs.lock().expect("no panic");
        Answer::SendAndClose(answers.get(name).cloned().unwrap_or_default())
    });
    let named = |name: &str, more: &str| {
        let url = format!("http://127.0.0.1:{}/{name}/", origin.port());
        format!("basicConstraints=critical,CA:{more}\nauthorityInfoAccess=OCSP;URI:{url}\n")
    };
    clients::issue(&authority, "middle", &named("middle", "TRUE"));
    clients::issue_below(&authority, "deep", "middle", &named("deep", "FALSE"));
    let text = format!(
        "{} {}",
        block("leaf", "ssl_ocsp leaf; ssl_verify_depth 2;"),
        block("chain", "ssl_ocsp on; ssl_verify_depth 2;")
    );
    let server = site.serve(&here(&site, &text));
    let client = |name: &str| ask(&authority, server.port(name), "deep", "");
    let say = |name: &str, answer: &[u8]| {
        let answer = http("200 OK", "", answer);
        answers
            .lock()
            .expect("no panic")
            .insert(name.to_owned(), answer);
    };
    say("deep", &clients::good_below(&authority, "deep", "middle"));
    assert_eq!(client("leaf"), ACCEPTED);
    assert_eq!(client("chain"), FAILED, "nobody answers for its issuer");
    say("middle", &authority.good("middle"));
    assert_eq!(client("chain"), ACCEPTED);
    clients::revoke(&authority, "middle");
    say("middle", &authority.good("middle"));
    assert_eq!(client("chain"), REVOKED);
    assert_eq!(client("leaf"), ACCEPTED);
}

#[test]
fn names_in_certificates_need_a_resolver() {
    let site = Site::new();
    let authority = Authority::new(&site);
    let responder = Changeable::new(Vec::new());
    let port = responder.origin.port();
    let url = format!("http://ocsp.test:{port}/");
    let extension = format!("authorityInfoAccess=OCSP;URI:{url}\n");
    clients::issue(&authority, "named", &extension);
    responder.says(http("200 OK", "", &authority.good("named")));
    let names = NameServer::start();
    names.says("ocsp.test", &[Ipv4Addr::LOCALHOST]);
    let resolver = format!("resolver 127.0.0.1:{} ipv6=off;", names.port());
    let at = |host: &str, port: u16| format!("ssl_ocsp_responder http://{host}:{port};");
    let text = format!(
        "ssl_ocsp leaf; {} {} {} {}",
        block("nameless", ""),
        block("resolved", &resolver),
        block("system", &at("localhost", port)),
        block("refused", &at("127.0.0.1", site.port("nobody")))
    );
    let server = site.serve(&here(&site, &text));
    let client = |name: &str| ask(&authority, server.port(name), "named", "");
    assert_eq!(client("nameless"), FAILED);
    server.wait_for_log("no resolver defined to resolve ocsp.test");
    assert_eq!(client("resolved"), ACCEPTED);
    assert_eq!(client("system"), ACCEPTED);
    assert_eq!(client("refused"), FAILED);
    server.wait_for_log("connect() failed (111: Connection refused)");
}
