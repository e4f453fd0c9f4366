//! Sessions of TLS that go on in another connection, whichever way TLS has begun.

use super::*;
use sealane_tests::reload::{Reload, reload};
use sealane_tests::{Certificate, CertificateKey, handshake_saying};

/// A server of each protocol, with its own TLS or with STARTTLS, and what ends a session there.
const SERVERS: [(&str, &str, &str); 6] = [
    ("imaps", "", "a1 LOGOUT\r\n"),
    ("pops", "", "QUIT\r\n"),
    ("smtps", "", "QUIT\r\n"),
    ("imap", "-starttls imap", "a1 LOGOUT\r\n"),
    ("pop", "-starttls pop3", "QUIT\r\n"),
    ("smtp", "-starttls smtp", "QUIT\r\n"),
];

/// The six servers, with tickets sealed by the same key or with a cache that they share.
fn serving(sessions: &str) -> String {
    configuration(&format!(
        "server_name mail.example; auth_http 127.0.0.1:%auth%; {sessions}
         ssl_certificate certificates/a.pem; ssl_certificate_key certificates/a.key;
         server {{ listen 127.0.0.1:%imaps% ssl; protocol imap; }}
         server {{ listen 127.0.0.1:%pops% ssl; protocol pop3; }}
         server {{ listen 127.0.0.1:%smtps% ssl; protocol smtp; }}
         server {{ listen 127.0.0.1:%imap%; protocol imap; starttls only; }}
         server {{ listen 127.0.0.1:%pop%; protocol pop3; starttls on; }}
         server {{ listen 127.0.0.1:%smtp%; protocol smtp; starttls on; }}"
    ))
}

/// Connects to one of the servers. The session goes into the file or comes out of it.
#[track_caller]
fn speak(server: &Server<'_>, at: (&str, &str, &str), version: &str, session: &str) -> bool {
    let (port, starttls, farewell) = at;
    let options = format!("{version} {starttls} {session}");
    let spoken = handshake_saying(server, port, &options, farewell);
    assert!(spoken.succeeded(), "{port}: {}", spoken.output);
    let said = match farewell {
        "QUIT\r\n" if port.starts_with("smtp") => "221 2.0.0 Bye",
        "QUIT\r\n" => "+OK",
        _ => "a1 OK completed",
    };
    assert!(spoken.output.contains(said), "{port}: {}", spoken.output);
    spoken.resumed
}

fn site_with_keys() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("a", CertificateKey::P256));
    for (name, byte) in [("one.key", 1), ("two.key", 2)] {
        site.write(name, [byte; 48]);
    }
    site
}

#[test]
fn sessions_are_resumed_at_every_server_with_the_same_key() {
    let site = site_with_keys();
    let server = site.serve_whole(&serving("ssl_session_ticket_key one.key;"));
    let file = site.path("session").display().to_string();
    for version in ["-tls1_3", "-tls1_2"] {
        for (number, from) in SERVERS.into_iter().enumerate() {
            let out = format!("-sess_out {file}");
            assert!(!speak(&server, from, version, &out), "{version} {from:?}");
            // Itself, and another one: with other protocol, TLS begun in the other way.
            for to in [from, SERVERS[(number + 4) % 6]] {
                let resumed = speak(&server, to, version, &format!("-sess_in {file}"));
                assert!(resumed, "{version}: from {from:?} at {to:?}");
            }
        }
    }
    // A reload keeps the key, another key ends the sessions.
    let out = format!("-sess_out {file}");
    let into = format!("-sess_in {file}");
    assert!(!speak(&server, SERVERS[3], "-tls1_3", &out));
    let same = serving("ssl_session_ticket_key one.key;");
    assert_eq!(reload(&site, &server, &same), Reload::Applied);
    assert!(speak(&server, SERVERS[3], "-tls1_3", &into));
    let other = serving("ssl_session_ticket_key two.key;");
    assert_eq!(reload(&site, &server, &other), Reload::Applied);
    assert!(!speak(&server, SERVERS[3], "-tls1_3", &into));
}

#[test]
fn sessions_of_a_shared_cache_are_resumed() {
    let site = site_with_keys();
    let cache = "ssl_session_cache shared:mail:1m; ssl_session_tickets off;";
    let server = site.serve_whole(&serving(cache));
    let file = site.path("session").display().to_string();
    for version in ["-tls1_3", "-tls1_2"] {
        for (port, starttls, farewell) in [SERVERS[0], SERVERS[5]] {
            let at = (port, starttls, farewell);
            assert!(!speak(&server, at, version, &format!("-sess_out {file}")));
            let resumed = speak(&server, at, version, &format!("-sess_in {file}"));
            assert!(resumed, "{version} {port}");
        }
    }
}
