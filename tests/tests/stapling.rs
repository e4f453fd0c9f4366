//! `ssl_stapling`: what clients see while responders behave, misbehave and die.

#[path = "stapling/authority.rs"]
mod authority;
#[path = "stapling/clients.rs"]
mod clients;

use authority::{Authority, here, http};
use sealane_tests::metrics::Step::Up;
use sealane_tests::metrics::{Watch, samples, value};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::reload::reload_as_it_is;
use sealane_tests::upgrade::{Daemon, children, signal};
use sealane_tests::{NameServer, Program, Redis, Server, Site, command, wait_for, wire};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// What `openssl s_client -status` shows: `good`, or `none`.
fn status(port: u16, options: &str) -> String {
    let address = format!("127.0.0.1:{port}");
    let mut arguments = vec!["s_client", "-connect", &address, "-status"];
    arguments.extend(options.split_whitespace());
    let outcome = command("openssl", &arguments, b"").success();
    let text = outcome.text();
    if text.contains("OCSP response: no response sent") {
        return "none".to_owned();
    }
    assert!(
        text.contains("OCSP Response Status: successful (0x0)"),
        "{text}"
    );
    let line = text.lines().find_map(|line| {
        let line = line.trim();
        line.strip_prefix("Cert Status: ")
    });
    line.expect("a status").to_owned()
}

fn wait_for_staple(server: &Server<'_>, name: &str) {
    wait_for(&format!("a staple of {name}"), || {
        (status(server.port(name), "") == "good").then_some(())
    });
}

/// A server block with a certificate of the authority.
fn block(name: &str, certificate: &str, more: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:%{name}% ssl; ssl_certificate ocsp/{certificate}.pem;
             ssl_certificate_key ocsp/{certificate}.key; {more} }}\n"
    )
}

#[test]
fn a_real_responder_is_asked_before_the_first_client_comes() {
    let site = Site::new();
    let authority = Authority::new(&site);
    let _responder = authority.start_responder();
    let text = format!(
        "ssl_stapling on;
         server {{ listen 127.0.0.1:%both% ssl; ssl_protocols TLSv1.2 TLSv1.3;
             ssl_certificate ocsp/ec.pem; ssl_certificate_key ocsp/ec.key;
             ssl_certificate ocsp/rsa.pem; ssl_certificate_key ocsp/rsa.key; }}
         {}",
        block(
            "verified",
            "ec",
            "ssl_stapling_verify on; ssl_trusted_certificate ocsp/root.pem;"
        )
    );
    let server = site.serve(&here(&site, &text));
    wait_for_staple(&server, "both");
    let port = server.port("both");
    wait_for("the staple of the other certificate", || {
        (status(port, "-tls1_2 -cipher aRSA") == "good").then_some(())
    });
    for options in [
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256",
        "-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256",
        "-tls1_3 -sigalgs ecdsa_secp256r1_sha256",
        "-tls1_3 -sigalgs rsa_pss_rsae_sha256",
    ] {
        assert_eq!(status(port, options), "good", "{options}");
    }
    wait_for_staple(&server, "verified");
    // Who does not ask gets none, and curl and Go verify what they get.
    let url = format!("https://localhost:{port}/");
    let root = authority.path("root.pem");
    let curl = ["-s", "--cert-status", "--cacert", &root, "-o", "/dev/null"];
    let arguments = [&curl[..], &["-w", "%{http_code}", &url]].concat();
    assert_eq!(command("curl", &arguments, b"").success().text(), "403");
}

/// Responders that are wrong, each with what the error log says about it.
const WRONG: [(&str, &str); 17] = [
    ("cut", "the server sent an invalid response"),
    ("nonsense", "d2i_OCSP_RESPONSE() failed"),
    (
        "trailing",
        "OCSP response is too long, or something follows it",
    ),
    ("empty", "d2i_OCSP_RESPONSE() failed"),
    ("other", "certificate status not found in the OCSP response"),
    ("expired", "OCSP_check_validity() failed"),
    ("future", "OCSP_check_validity() failed"),
    ("signature", "OCSP_basic_verify() failed"),
    ("usage", "OCSP_basic_verify() failed"),
    ("stranger", "OCSP_basic_verify() failed"),
    ("later", "OCSP response not successful (3: trylater)"),
    (
        "revoked",
        "certificate status \"revoked\" in the OCSP response",
    ),
    (
        "huge",
        "the server sent a response of more than 65536 bytes",
    ),
    ("redirect", "the server answered 302"),
    ("missing", "the server answered 404"),
    ("html", "the server sent \"text/html\""),
    ("closed", "the server sent an invalid response"),
];

/// Responders that are right, in their own ways.
const RIGHT: [&str; 4] = ["plain", "chunked", "slow", "delegated"];

#[test]
fn wrong_responses_are_not_sent_and_say_why() {
    let site = Site::new();
    let authority = Authority::new(&site);
    let good = authority.good("silent");
    // Without certificates behind it, a response ends with the signature.
    let mut signature = authority.response("silent", "root.pem", "-ndays 1 -resp_no_certs", None);
    let last = signature.len() - 1;
    signature[last] ^= 1;
    let day = "-ndays 1";
    let send = |body: &[u8]| http("200 OK", "", body);
    let mut answers: HashMap<String, Vec<u8>> = HashMap::new();
    let chunks: Vec<u8> = good
        .chunks(100)
        .flat_map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
        .collect();
    for (name, answer) in [
        ("cut", {
            let whole = send(&good);
            whole[..whole.len() - 10].to_vec()
        }),
        ("nonsense", send(b"no response")),
        ("trailing", send(&[&good[..], b"x"].concat())),
        ("empty", send(b"")),
        ("other", send(&authority.good("other"))),
        (
            "expired",
            send(&authority.response("silent", "root.pem", day, Some("-3 days"))),
        ),
        (
            "future",
            send(&authority.response("silent", "root.pem", day, Some("+3 days"))),
        ),
        ("signature", send(&signature)),
        (
            "usage",
            send(&authority.response("silent", "plain.leaf", day, None)),
        ),
        (
            "stranger",
            send(&authority.response("silent", "stranger.pem", day, None)),
        ),
        ("later", send(&[0x30, 3, 0x0a, 1, 3])),
        (
            "revoked",
            send(&authority.response("revoked", "root.pem", day, None)),
        ),
        ("huge", send(&vec![0x30; 100_000])),
        ("redirect", http("302 Found", "Location: /plain\r\n", b"")),
        ("missing", http("404 Not Found", "", &good)),
        ("html", {
            let text = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi";
            text.as_bytes().to_vec()
        }),
        ("closed", Vec::new()),
        ("plain", send(&good)),
        ("slow", send(&good)),
        ("chunked", {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\n\
                        Transfer-Encoding: chunked\r\n\r\n";
            [head.as_bytes(), &chunks, b"0\r\n\r\n"].concat()
        }),
        (
            "delegated",
            send(&authority.response("silent", "delegate.leaf", day, None)),
        ),
    ] {
        answers.insert(name.to_owned(), answer);
    }
    let origin = Origin::answering(move |asked: &Asked| {
        let target = asked.target();
        let name = target.split('/').nth(1).unwrap_or_default();
        if name == "silence" {
            return Answer::Silence;
        }
        Answer::SendAndClose(answers.get(name).cloned().unwrap_or_default())
    });
    let url = |name: &str| format!("http://127.0.0.1:{}/{name}", origin.port());
    let mut text = String::from("ssl_stapling on;\n");
    let names = WRONG.iter().map(|(name, _)| *name).chain(RIGHT);
    for name in names.chain(["silence"]) {
        let certificate = if name == "revoked" { name } else { "silent" };
        let responder = format!("ssl_stapling_responder {};", url(name));
        text.push_str(&block(name, certificate, &responder));
    }
    text.push_str("server { listen 127.0.0.1:%metrics%; location = /metrics { metrics; } }");
    let server = site.serve(&here(&site, &text));
    for name in RIGHT {
        wait_for_staple(&server, name);
    }
    for (name, why) in WRONG {
        // Each port has a name of its own, and the certificate is the same.
        server.wait_for_log(why);
        assert_eq!(status(server.port(name), ""), "none", "{name}");
    }
    // Nothing is said about it yet, and nobody has waited for it.
    assert_eq!(status(server.port("silence"), ""), "none");
    let log = server.error_log();
    let line = log.lines().find(|line| line.contains("trylater"));
    let line = line.expect("it was waited for");
    let told = "[error]";
    assert!(line.contains(told), "{line}");
    for part in [
        "while requesting certificate status, responder: 127.0.0.1, peer: 127.0.0.1:",
        "silent.pem\"; no staple is sent, the responder is asked again",
    ] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(log.matches("trylater").count(), 1, "said once");
    // A scraper takes one number for a certificate: that of its worst responder.
    let shown = wire::get(server.port("metrics"), "/metrics").text();
    let name = "sealane_staple_next_update_timestamp_seconds{certificate=";
    let lines: Vec<&str> = shown
        .lines()
        .filter(|line| line.starts_with(name))
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| line.ends_with(" 0.0")), "{lines:?}");
}

#[test]
fn responders_have_names_and_addresses_of_both_kinds() {
    let site = Site::new();
    let authority = Authority::new(&site);
    let good = http("200 OK", "", &authority.good("silent"));
    let answer = move |_: &Asked| Answer::SendAndClose(good.clone());
    let named = Origin::answering(answer.clone());
    let wide = Origin::at((Ipv6Addr::LOCALHOST, 0), answer);
    let names = NameServer::start();
    // Nobody listens there.
    names.says("ocsp.test", &[Ipv4Addr::new(127, 0, 0, 9)]);
    let responder = |host: &str, port: u16| format!("ssl_stapling_responder http://{host}:{port};");
    let text = format!(
        "ssl_stapling on; {} {} {}",
        block("wide", "silent", &responder("[::1]", wide.port())),
        block("system", "silent", &responder("localhost", named.port())),
        block(
            "named",
            "silent",
            &format!(
                "resolver 127.0.0.1:{} ipv6=off valid=1s; {}",
                names.port(),
                responder("ocsp.test", named.port())
            )
        ),
    );
    let server = site.serve(&here(&site, &text));
    wait_for_staple(&server, "wide");
    wait_for_staple(&server, "system");
    server.wait_for_log("responder: ocsp.test, peer: 127.0.0.9:");
    names.says("ocsp.test", &[Ipv4Addr::LOCALHOST]);
    wait_for_staple(&server, "named");
    server.wait_for_log("OCSP response received again");
}

#[test]
fn the_last_staple_serves_until_it_ends_whatever_the_responder_says() {
    let site = Site::new();
    let authority = Authority::new(&site);
    // Made two minutes ago for two minutes and some seconds: due at once again.
    let short = authority.response("strict", "root.pem", "-nmin 2", Some("-110 seconds"));
    let later = http("200 OK", "", &[0x30, 3, 0x0a, 1, 3]);
    let good = http("200 OK", "", &authority.good("strict"));
    let say = Arc::new(Mutex::new(http("200 OK", "", &short)));
    let said = Arc::clone(&say);
    let origin = Origin::answering(move |_: &Asked| {
        Answer::SendAndClose(said.lock().expect("no panic").clone())
    });
    let responder = format!("ssl_stapling_responder http://127.0.0.1:{};", origin.port());
    let metrics = "server { listen 127.0.0.1:%metrics%; location = /metrics { metrics; } }";
    let text = block("main", "strict", &format!("ssl_stapling on; {responder}"));
    let server = site.serve(&here(&site, &format!("{text}{metrics}")));
    wait_for_staple(&server, "main");
    let watch = Watch::start(&server);
    *say.lock().expect("no panic") = later;
    server.wait_for_log("the last staple is still valid and serves on");
    wait_for("the staple to end", || {
        (status(server.port("main"), "") == "none").then_some(())
    });
    server.wait_for_log("demands a staple (\"must staple\") and there is none");
    // What the number says has ended as well, and stays until there is another staple.
    let end = "sealane_staple_next_update_timestamp_seconds";
    let end_s = value(&samples(server.port("metrics")), end);
    assert!(0.0 < end_s && end_s < unix_s(), "{end_s}");
    *say.lock().expect("no panic") = good;
    wait_for_staple(&server, "main");
    server.wait_for_log("OCSP response received again");
    watch.saw(&[("sealane_staple_next_update_timestamp_seconds", Up)]);
    let end_s = value(&samples(server.port("metrics")), end);
    assert!(end_s > unix_s(), "{end_s}");
}

fn unix_s() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_secs_f64()
}

#[test]
fn a_reload_keeps_staples_and_asks_nobody() {
    let site = Site::new();
    let authority = Authority::new(&site);
    let good = http("200 OK", "", &authority.good("silent"));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let origin = Origin::answering(move |_: &Asked| {
        count.fetch_add(1, Ordering::Relaxed);
        Answer::SendAndClose(good.clone())
    });
    let responder = format!("ssl_stapling_responder http://127.0.0.1:{};", origin.port());
    let text = format!(
        "ssl_stapling on; {responder} {} {}",
        block("first", "silent", ""),
        block("second", "silent", "")
    );
    let server = site.serve(&here(&site, &text));
    wait_for_staple(&server, "first");
    assert_eq!(status(server.port("second"), ""), "good");
    reload_as_it_is(&server);
    assert_eq!(status(server.port("first"), ""), "good");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[test]
fn staples_outlive_workers_binaries_and_restarts() {
    let site = Site::new();
    let authority = Authority::new(&site);
    let good = http("200 OK", "", &authority.good("silent"));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let origin = Origin::answering(
        move |_: &Asked| match count.fetch_add(1, Ordering::Relaxed) {
            0 => Answer::SendAndClose(good.clone()),
            _ => Answer::Silence,
        },
    );
    let responder = format!("ssl_stapling_responder http://127.0.0.1:{};", origin.port());
    let port = site.port("main");
    let configuration = |limit: u32| {
        let text = format!(
            "daemon on; pid logs/pid; error_log logs/error.log info; worker_processes 1;
             worker_rlimit_nofile {limit};
             events {{}}
             http {{ access_log off; ssl_stapling on; ssl_stapling_state state/staples; {responder}
                 {} }}",
            block("main", "silent", "")
        );
        here(&site, &text)
    };
    std::fs::create_dir(site.path("state")).expect("writable");
    let start = || {
        let server = Daemon::start(&site, Program::Sealane, &configuration(1000));
        // All runs write the same log.
        server.expect_alert("exited on signal 9");
        server
    };
    let server = start();
    wait_for("a staple", || (status(port, "") == "good").then_some(()));
    let worker = || {
        let workers = children(server.pid());
        wait_for("one worker", || (workers.len() == 1).then(|| workers[0]))
    };
    // A worker that dies.
    let before = worker();
    signal(before, "KILL");
    wait_for("another worker", || {
        let workers = children(server.pid());
        workers.first().filter(|pid| **pid != before).copied()
    });
    assert_eq!(status(port, ""), "good", "after a worker's death");
    // A reload that needs another worker process.
    server.configure(&configuration(1001));
    signal(server.pid(), "HUP");
    wait_for("the reload", || {
        server
            .log()
            .contains("reconfigured, worker process")
            .then_some(())
    });
    assert_eq!(status(port, ""), "good", "after a reload");
    server.upgrade();
    assert_eq!(status(port, ""), "good", "after an upgrade");
    drop(server);
    let server = start();
    assert_eq!(status(port, ""), "good", "after a restart");
    assert_eq!(asked.load(Ordering::Relaxed), 1, "{}", server.log());
    drop(server);
    // A file that is damaged is not believed, and does not stop the start.
    let path = site.path("state/staples");
    let mut bytes = std::fs::read(&path).expect("the file is there");
    bytes.truncate(bytes.len() - 1);
    site.write("state/staples", bytes);
    let server = start();
    assert_eq!(status(port, ""), "none");
    assert!(server.log().contains("cannot be used (it ends too soon)"));
}

#[test]
fn nodes_share_staples() {
    let sites = [Site::new(), Site::new()];
    let authority = Authority::new(&sites[0]);
    let redis = Redis::start(&sites[0], "redis", &[]);
    let good = http("200 OK", "", &authority.good("silent"));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let origin = Origin::answering(move |_: &Asked| {
        count.fetch_add(1, Ordering::Relaxed);
        Answer::SendAndClose(good.clone())
    });
    let text = format!(
        "ssl_stapling on; ssl_stapling_responder http://127.0.0.1:{};
         ssl_session_store redis://127.0.0.1:{} timeout=100ms; {}",
        origin.port(),
        redis.port(),
        block("main", "silent", "")
    );
    let text = here(&sites[0], &text);
    let first = sites[0].serve(&text);
    wait_for_staple(&first, "main");
    wait_for("the staple in the store", || {
        let keys = redis.keys();
        keys.iter().any(|key| key.contains("o:")).then_some(())
    });
    let second = sites[1].serve(&text);
    wait_for_staple(&second, "main");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[test]
fn a_file_is_sent_with_the_certificate_that_it_is_about() {
    let site = Site::new();
    let authority = Authority::new(&site);
    let day = "-ndays 1";
    site.write("ocsp/rsa.der", authority.good("rsa"));
    let expired = authority.response("silent", "root.pem", day, Some("-3 days"));
    site.write("ocsp/expired.der", expired);
    let text = format!(
        "ssl_stapling on;
         server {{ listen 127.0.0.1:%both% ssl; ssl_stapling_file ocsp/rsa.der;
             ssl_protocols TLSv1.2 TLSv1.3;
             ssl_certificate ocsp/ec.pem; ssl_certificate_key ocsp/ec.key;
             ssl_certificate ocsp/rsa.pem; ssl_certificate_key ocsp/rsa.key; }}
         {}",
        block("expired", "silent", "ssl_stapling_file ocsp/expired.der;")
    );
    let server = site.serve(&here(&site, &text));
    let port = server.port("both");
    assert_eq!(status(port, "-tls1_2 -cipher aRSA"), "good");
    assert_eq!(status(port, "-tls1_2 -cipher aECDSA"), "none");
    assert_eq!(status(server.port("expired"), ""), "none");
    let log = server.error_log();
    assert!(
        log.contains("the response is about another certificate"),
        "{log}"
    );
    assert!(log.contains("the response is out of date"), "{log}");
}

#[test]
fn what_cannot_be_stapled_is_said_at_the_start() {
    let site = Site::new();
    let _authority = Authority::new(&site);
    let text = format!(
        "ssl_stapling on; {} {} {}",
        block("none", "silent", ""),
        block(
            "prefix",
            "silent",
            "ssl_stapling_responder https://127.0.0.1/;"
        ),
        "server { listen 127.0.0.1:%issuer% ssl; ssl_certificate ocsp/ec.leaf;
             ssl_certificate_key ocsp/ec.key; }"
    );
    let server = site.serve(&here(&site, &text));
    let log = server.error_log();
    for text in [
        "\"ssl_stapling\" ignored, no OCSP responder URL in the certificate \"",
        "\"ssl_stapling\" ignored, invalid URL prefix in OCSP responder \"https://127.0.0.1/\" in \
         the certificate \"",
        "\"ssl_stapling\" ignored, issuer certificate not found for certificate \"",
    ] {
        let lines = log.lines().filter(|line| line.contains(text));
        // And once on the terminal.
        let logged = lines.filter(|line| !line.starts_with("sealane: "));
        assert_eq!(logged.count(), 1, "{text}\n{log}");
    }
}
