//! Which sessions resume after what replaces processes and configurations. The table in
//! `docs/sessions.md` says the same, with reasons.

use sealane_tests::nodes::s_client;
use sealane_tests::reload::{Reload, reload, reload_as_it_is};
use sealane_tests::upgrade::Daemon;
use sealane_tests::{Certificate, CertificateKey, Program, Redis, Site, command, wait_for};

/// How a client comes back: the protocol, and whether the server gives tickets.
const KINDS: [(&str, &str, &str); 4] = [
    ("TLS 1.2 by ticket", "-tls1_2", "tickets"),
    ("TLS 1.2 by id", "-tls1_2", "kept"),
    ("TLS 1.3 by ticket", "-tls1_3", "tickets"),
    ("TLS 1.3 by opaque ticket", "-tls1_3", "kept"),
];

/// Of each kind, in this order.
type Resumed = [bool; KINDS.len()];

const ALL: Resumed = [true; 4];
const TICKETS: Resumed = [true, false, true, false];
const CACHED: Resumed = [false, true, false, true];
const NONE: Resumed = [false; 4];

/// A server with tickets, and one with a cache alone.
fn configuration(main: &str, http: &str, certificate: &str) -> String {
    let server = |port: &str, directives: &str| {
        format!(
            "server {{ listen 127.0.0.1:%{port}% ssl; server_name localhost; {directives}
             ssl_certificate certificates/{certificate}.pem;
             ssl_certificate_key certificates/{certificate}.key;
             location = /tls {{ return 200 \"<$ssl_session_reused>\"; }} }}"
        )
    };
    format!(
        "worker_processes 2; pid logs/pid; error_log logs/error.log info; {main}
         events {{ }} http {{ access_log off; {http} {} {} }}",
        server("tickets", ""),
        server(
            "kept",
            "ssl_session_tickets off; ssl_session_cache shared:S:1m;"
        )
    )
}

/// `site` and `other` have the same names and different keys, `renewed` has the key of `site`, and
/// `stranger` has another name.
fn site() -> Site {
    let site = Site::new();
    let path = |file: &str| site.path("certificates").join(file).display().to_string();
    let copy = |from: &str, to: &str| {
        std::fs::copy(path(from), path(to)).expect("it is there");
    };
    for name in ["stranger", "site"] {
        site.certificate(&Certificate::localhost(name, CertificateKey::P256));
    }
    copy("site.pem", "other.pem");
    copy("site.key", "other.key");
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    copy("site.key", "renewed.key");
    let (key, new) = (path("renewed.key"), path("renewed.pem"));
    let names = "subjectAltName=DNS:localhost, IP:127.0.0.1, IP:::1";
    let mut arguments = vec!["req", "-x509", "-subj", "/CN=site", "-addext", names];
    arguments.extend(["-days", "9", "-key", &key, "-out", &new]);
    command("openssl", &arguments, b"").success();
    site
}

fn file(site: &Site, kind: usize) -> String {
    let name = format!("temporary/session-{kind}.pem");
    site.path(name).display().to_string()
}

/// A new session of each kind.
#[track_caller]
fn begin(site: &Site) {
    for (kind, (name, option, port)) in KINDS.iter().enumerate() {
        let outcome = s_client(site.port(port), option, &file(site, kind), false);
        assert!(outcome.text().contains("<.>"), "{name}: {}", outcome.text());
    }
}

/// Which of the sessions that [`begin`] has left are resumed.
#[track_caller]
fn come_back(site: &Site) -> Resumed {
    let mut resumed = NONE;
    for (kind, (name, option, port)) in KINDS.iter().enumerate() {
        // Whatever comes of it, the session of before is still there.
        let copy = format!("{}.copy", file(site, kind));
        std::fs::copy(file(site, kind), &copy).expect("there is a session");
        let outcome = s_client(site.port(port), option, &copy, true);
        let text = outcome.text();
        assert_eq!(outcome.status, 0, "{name}: {text}{}", outcome.stderr);
        resumed[kind] = text.contains("<r>");
        assert_eq!(resumed[kind], text.contains("\nReused, "), "{name}: {text}");
    }
    resumed
}

#[test]
fn sessions_outlive_reloads_and_tickets_the_process() {
    let site = site();
    let server = site.serve_whole(&configuration("", "", "site"));
    server.expect_alert("exited on signal 9");
    let to = |main: &str, certificate: &str| {
        let text = configuration(main, "", certificate);
        assert_eq!(reload(&site, &server, &text), Reload::Applied);
    };
    let (limit, other_limit) = ("worker_rlimit_nofile 2000;", "worker_rlimit_nofile 2001;");
    let change = |http: &str, zone: &str| {
        let text = configuration(other_limit, http, "stranger").replace("shared:S:1m", zone);
        assert_eq!(reload(&site, &server, &text), Reload::Applied);
    };
    type Happens<'a> = (&'a str, &'a dyn Fn(), Resumed);
    let table: [Happens<'_>; 10] = [
        ("a reload in place", &|| to("", "site"), ALL),
        ("a renewed certificate", &|| to("", "renewed"), ALL),
        ("another certificate and key", &|| to("", "other"), ALL),
        ("a second process", &|| to(limit, "other"), ALL),
        (
            "a second process with another certificate",
            &|| to(other_limit, "site"),
            ALL,
        ),
        (
            "two second processes and a reload in place",
            &|| {
                to(limit, "site");
                to(other_limit, "site");
                assert_eq!(reload_as_it_is(&server), Reload::Applied);
            },
            ALL,
        ),
        (
            "a certificate with another name",
            &|| to(other_limit, "stranger"),
            NONE,
        ),
        ("the worker's death", &|| server.kill_worker(), TICKETS),
        ("another zone", &|| change("", "shared:S:2m"), TICKETS),
        (
            "another time",
            &|| change("ssl_session_timeout 6m;", "shared:S:2m"),
            CACHED,
        ),
    ];
    for (what, happens, expected) in table {
        begin(&site);
        happens();
        assert_eq!(come_back(&site), expected, "after {what}");
    }
}

#[test]
fn sessions_outlive_upgrades() {
    let site = site();
    let text = configuration("daemon on;", "", "site");
    let daemon = Daemon::start(&site, Program::Sealane, &text);
    for round in ["first", "second"] {
        begin(&site);
        daemon.upgrade();
        assert_eq!(come_back(&site), ALL, "after the {round} upgrade");
    }
}

#[test]
fn after_a_restart_sessions_need_a_place_to_be_in() {
    let site = site();
    site.write("ticket.key", [7; 80]);
    let redis = Redis::start(&site, "redis", &[]);
    let store = format!(
        "ssl_session_store redis://127.0.0.1:{} timeout=2s;",
        redis.port()
    );
    for (http, expected) in [
        ("", NONE),
        ("ssl_session_ticket_state logs/tickets;", TICKETS),
        ("ssl_session_ticket_key ticket.key;", TICKETS),
        (&store, ALL),
    ] {
        let text = configuration("", http, "site");
        let server = site.serve_whole(&text);
        if http == store {
            let stored = |kind| {
                let keys = redis.keys();
                keys.iter().filter(|key| key.contains(kind)).count()
            };
            // Ticket keys come first; then nobody waits for sessions to be stored.
            wait_for("ticket keys in the store", || {
                (stored(":k:") > 0).then_some(())
            });
            let before = stored(":s:");
            begin(&site);
            wait_for("sessions in the store", || {
                (stored(":s:") >= before + 2).then_some(())
            });
        } else {
            begin(&site);
        }
        assert!(server.stop("QUIT").success());
        let _server = site.serve_whole(&text);
        if http == store {
            // The new process serves already while it connects to the store.
            wait_for("all sessions", || {
                (come_back(&site) == expected).then_some(())
            });
        } else {
            let resumed = come_back(&site);
            assert_eq!(resumed, expected, "after a restart with {http:?}");
        }
    }
}
