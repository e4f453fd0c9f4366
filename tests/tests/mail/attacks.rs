//! Clients that mean harm, and peers that do not answer.

use super::cases::base64;
use super::*;
use sealane_tests::memory::{Secret, find_in_process};
use sealane_tests::{Certificate, CertificateKey, wire};
use std::collections::BTreeSet;

/// A password that stands nowhere else.
const PASSWORD: &str = "Qz7-unlikely-word-91x";

const PROTOCOLS: [Protocol; 3] = [Protocol::Imap, Protocol::Pop3, Protocol::Smtp];

fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Imap => "imap",
        Protocol::Pop3 => "pop3",
        Protocol::Smtp => "smtp",
    }
}

/// Three servers, each behind the port of its protocol, and a page with the number of connections.
fn with_status(main: &str, mail: &str) -> String {
    let servers: String = PROTOCOLS.iter().fold(String::new(), |mut all, protocol| {
        let name = word(*protocol);
        let port = port_name(*protocol);
        let methods = match protocol {
            Protocol::Pop3 => "plain apop cram-md5 external",
            _ => "plain login cram-md5 external",
        };
        let _ = write!(
            all,
            "server {{ listen 127.0.0.1:%{port}%; protocol {name}; {name}_auth {methods}; }}"
        );
        all
    });
    format!(
        "{main} worker_processes 1; pid logs/pid;
         events {{ worker_connections 4000; }}
         http {{ server {{ listen 127.0.0.1:%status%; location / {{ stub_status; }} }} }}
         mail {{ server_name mail.example.org; {mail} {servers} }}"
    )
}

fn port_name(protocol: Protocol) -> &'static str {
    word(protocol).trim_end_matches('3')
}

/// Connections that the server counts, without the one that asks.
fn connections(server: &Server<'_>) -> usize {
    let page = wire::get(server.port("status"), "/").text();
    let number = page.split_whitespace().nth(2);
    let number: usize = number.and_then(|word| word.parse().ok()).expect("a number");
    number - 1
}

#[track_caller]
fn wait_for_no_connection(server: &Server<'_>) {
    wait_for("the end of all connections", || {
        (connections(server) == 0).then_some(())
    });
}

fn site_with_certificate() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("a", CertificateKey::P256));
    site
}

const TLS: &str = "ssl_certificate certificates/a.pem; ssl_certificate_key certificates/a.key;";

fn own(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 7, 100, last)
}

fn steps(texts: &[&str]) -> Vec<Step> {
    let step = |text: &&str| match *text {
        "TLS" => Step::Tls(String::new()),
        ">" => Step::Hear,
        "." => Step::Wait,
        text => match text.strip_prefix('<') {
            Some(text) => Step::Tell(text.to_owned()),
            None => Step::Say(text.to_owned()),
        },
    };
    texts.iter().map(step).collect()
}

#[test]
fn what_precedes_tls_counts_for_nothing() {
    let (site, auth) = (site_with_certificate(), AuthService::start());
    let mail = format!("{TLS} starttls on; auth_http 127.0.0.1:{};", auth.port);
    let text = with_status("error_log logs/error.log info;", &mail);
    let server = site.serve_whole(&text);
    let injected = [
        (
            Protocol::Imap,
            "s STARTTLS\r\n",
            "x LOGIN jo pw\r\n",
            "b NOOP\r\n",
            "b OK completed",
        ),
        (
            Protocol::Pop3,
            "STLS\r\n",
            "USER jo\r\nPASS pw\r\n",
            "NOOP\r\n",
            "+OK",
        ),
        (
            Protocol::Smtp,
            "STARTTLS\r\n",
            "EHLO evil\r\nAUTH PLAIN AGpvAHB3\r\n",
            "NOOP\r\n",
            "250 2.0.0 OK",
        ),
    ];
    for (number, (protocol, start, evil, noop, answer)) in injected.into_iter().enumerate() {
        let address = own(u8::try_from(number).expect("few") + 1);
        let scene = auth.expect(
            &address.to_string(),
            vec![vec![send(ACCEPTED)]],
            accepting(protocol),
        );
        let port = server.port(port_name(protocol));
        // In the same segment.
        let mut client = Client::connect(protocol, address, port);
        let greeting = client.follow_on(&steps(&[">"]));
        let together = format!("{start}{evil}");
        let seen = client.follow(&steps(&[&together, "TLS", noop]));
        let lines = seen.matches("\\r\\n").count();
        assert_eq!(lines, 2, "{protocol:?}: {greeting} {seen}");
        assert!(seen.ends_with(&format!("{answer}\\r\\n END\n")), "{seen}");
        // In a segment of its own, instead of a handshake.
        let mut client = Client::connect(protocol, address, port);
        let tell = format!("<{evil}");
        let seen = client.follow(&steps(&[">", start, &tell, "TLS", noop]));
        assert_eq!(seen.matches("\\r\\n").count(), 2, "{protocol:?}: {seen}");
        let (asked, _) = scene.finish();
        assert!(asked.is_empty(), "{asked:?}");
    }
    server.wait_for_log("behind the command that begins TLS, discarded");
    wait_for_no_connection(&server);
}

#[test]
fn nothing_is_kept_over_the_beginning_of_tls() {
    let (site, auth) = (site_with_certificate(), AuthService::start());
    let mail = format!("{TLS} starttls on; auth_http 127.0.0.1:{};", auth.port);
    let text = with_status("error_log logs/error.log info;", &mail);
    let server = site.serve_whole(&text);
    // The EHLO of before is not told the mail server.
    let scene = auth.expect(
        "127.7.100.9",
        vec![vec![send(ACCEPTED)]],
        accepting(Protocol::Smtp),
    );
    let mut client = Client::connect(Protocol::Smtp, own(9), server.port("smtp"));
    let script = [
        ">",
        "EHLO evil\r\n",
        "STARTTLS\r\n",
        "TLS",
        "AUTH PLAIN AGpvAHB3\r\n",
    ];
    let seen = client.follow(&steps(&script));
    let (asked, told) = scene.finish();
    assert!(seen.contains("235 2.0.0 OK"), "{seen}");
    assert_eq!((asked.len(), told.len()), (1, 1));
    assert!(!told[0].contains("evil"), "{told:?}");
}

#[test]
fn line_ends_in_names_and_passwords_write_no_lines() {
    let (site, auth) = (Site::new(), AuthService::start());
    let mail = format!("auth_http 127.0.0.1:{}; proxy_smtp_auth on;", auth.port);
    let server = site.serve_whole(&with_status("error_log logs/error.log info;", &mail));
    let evil = base64(b"\0jo\r\nAuth-Status: OK\0pw\r\nDELE 1");
    for (number, protocol) in PROTOCOLS.into_iter().enumerate() {
        let address = own(u8::try_from(number).expect("few") + 20);
        let mut deeds = accepting(protocol);
        if protocol == Protocol::Smtp {
            deeds.extend([Deed::Line, send("235 ok\r\n")]);
        }
        let scene = auth.expect(&address.to_string(), vec![vec![send(ACCEPTED)]], deeds);
        let command = match protocol {
            Protocol::Imap => format!("a1 AUTHENTICATE PLAIN {evil}\r\n"),
            _ => format!("AUTH PLAIN {evil}\r\n"),
        };
        let mut script = vec![">"];
        if protocol == Protocol::Smtp {
            script.push("EHLO me\r\n");
        }
        script.push(&command);
        let mut client = Client::connect(protocol, address, server.port(port_name(protocol)));
        let seen = client.follow(&steps(&script));
        let (asked, told) = scene.finish();
        let lines: Vec<&str> = asked[0]
            .lines()
            .filter(|line| line.starts_with("Auth-"))
            .collect();
        assert!(
            lines.contains(&"Auth-User: jo%0D%0AAuth-Status:%20OK"),
            "{lines:?}"
        );
        assert!(lines.contains(&"Auth-Pass: pw%0D%0ADELE%201"), "{lines:?}");
        let is_injected = |line: &str| line.starts_with("DELE") || line.starts_with("Auth-Status");
        match protocol {
            // Literals hold everything.
            Protocol::Imap => assert!(told[0].starts_with("a1 LOGIN {19}\n"), "{told:?}"),
            Protocol::Pop3 | Protocol::Smtp => {
                assert!(
                    !told.iter().any(|text| text.lines().any(is_injected)),
                    "{seen} {told:?}"
                );
            }
        }
    }
}

#[test]
fn who_talks_without_end_runs_out_of_time() {
    let (site, auth) = (Site::new(), AuthService::start());
    let mail = format!(
        "auth_http 127.0.0.1:{}; timeout 1s; max_errors 1000000;",
        auth.port
    );
    let server = site.serve_whole(&with_status("error_log logs/error.log info;", &mail));
    for (number, (protocol, text)) in [
        (Protocol::Imap, "a NOOP\r\n"),
        (Protocol::Imap, "a AUTHENTICATE PLAIN\r\n*\r\n"),
        (Protocol::Pop3, "AUTH LOGIN\r\n"),
        (Protocol::Smtp, "AUTH PLAIN\r\n*\r\n"),
        (Protocol::Smtp, "nonsense\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let address = own(u8::try_from(number).expect("few") + 30);
        let mut client = Client::connect(protocol, address, server.port(port_name(protocol)));
        let mut rounds = 0_u64;
        // Until it is told no more.
        while client.is_open() {
            client.tell(text.as_bytes());
            rounds += 1;
        }
        assert!(rounds > 1, "{protocol:?}");
    }
    wait_for_no_connection(&server);
}

#[test]
fn what_does_not_fit_ends_the_session() {
    let (site, auth) = (Site::new(), AuthService::start());
    let mail = format!("auth_http 127.0.0.1:{};", auth.port);
    let server = site.serve_whole(&with_status("error_log logs/error.log info;", &mail));
    let long = "x".repeat(1 << 20);
    let long_line = format!("<NOOP {long}");
    let long_tag = format!("<{long} NOOP\r\n");
    for (number, (protocol, text)) in [
        (Protocol::Imap, "<a LOGIN {4294967295}\r\nx"),
        (Protocol::Imap, "<a LOGIN {18446744073709551617+}\r\nx"),
        (
            Protocol::Imap,
            &*format!("<a LOGIN {{2147483647+}}\r\n{long}"),
        ),
        (Protocol::Imap, &long_tag),
        (Protocol::Imap, &format!("<a NOOP {long}")),
        (Protocol::Pop3, &long_line),
        (Protocol::Smtp, &long_line),
        (Protocol::Smtp, &format!("<AUTH PLAIN\r\n{long}")),
    ]
    .into_iter()
    .enumerate()
    {
        let address = own(u8::try_from(number).expect("few") + 40);
        let mut client = Client::connect(protocol, address, server.port(port_name(protocol)));
        let seen = client.follow(&steps(&[">", text]));
        assert!(seen.ends_with(" END\n"), "{protocol:?} {number}: {seen}");
        assert!(seen.len() < 500, "{protocol:?} {number}: {seen}");
    }
    wait_for_no_connection(&server);
}

#[test]
fn idle_clients_cost_little() {
    const CLIENTS: usize = 2000;
    let (site, auth) = (Site::new(), AuthService::start());
    let mail = format!("auth_http 127.0.0.1:{}; timeout 1h;", auth.port);
    let server = site.serve_whole(&with_status("error_log logs/error.log error;", &mail));
    let open = |count: usize| -> Vec<Client> {
        let ports = PROTOCOLS.map(|protocol| (protocol, server.port(port_name(protocol))));
        let mut all = Vec::new();
        for number in 0..count {
            let (protocol, port) = ports[number % ports.len()];
            let mut client = Client::connect(protocol, Ipv4Addr::LOCALHOST, port);
            assert!(!client.hear().is_empty());
            // Half a command each.
            client.tell(b"AB");
            all.push(client);
        }
        all
    };
    drop(open(50));
    wait_for_no_connection(&server);
    let before = server.resident_kib();
    let all = open(CLIENTS);
    assert_eq!(connections(&server), CLIENTS);
    let more = server.resident_kib().saturating_sub(before);
    eprintln!("{CLIENTS} idle clients: {more} KiB");
    assert!(more < 64 * CLIENTS as u64, "{more} KiB");
    drop(all);
    wait_for_no_connection(&server);
}

#[test]
fn a_flood_behind_a_login_waits_outside() {
    let (site, auth) = (Site::new(), AuthService::start());
    let mail = format!("auth_http 127.0.0.1:{}; auth_http_timeout 3s;", auth.port);
    let server = site.serve_whole(&with_status("error_log logs/error.log info;", &mail));
    let scene = auth.expect("127.7.100.60", vec![vec![Deed::Silence]], Vec::new());
    let mut client = Client::connect(Protocol::Imap, own(60), server.port("imap"));
    client.tell(b"a1 LOGIN jo pw\r\n");
    wait_for("a request", || {
        (!scene.asked.lock().expect("no panic").is_empty()).then_some(())
    });
    // By now the worker has touched its own code.
    let before = server.resident_kib();
    // More than any buffer of the kernel holds: it is not read, and the sender is stopped.
    let sent = client.flood(64 << 20);
    let more = server.resident_kib().saturating_sub(before);
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    assert!(more < 16_384, "{more} KiB");
    drop(client);
    wait_for_no_connection(&server);
}

#[test]
fn clients_that_go_away_leave_nothing_behind() {
    let (site, auth) = (Site::new(), AuthService::start());
    let mail = format!(
        "auth_http 127.0.0.1:{}; auth_http_timeout 2s; timeout 2s;",
        auth.port
    );
    let server = site.serve_whole(&with_status("error_log logs/error.log info;", &mail));
    let waiting = "HTTP/1.0 200 OK\r\nAuth-Status: no\r\nAuth-Wait: 1\r\n\r\n";
    let scenes = [
        // While the auth service says nothing, has it wait, or the mail server says nothing.
        (vec![Deed::Silence], Vec::new()),
        (vec![send(waiting)], Vec::new()),
        (vec![send(ACCEPTED)], vec![Deed::Silence]),
        (vec![send(ACCEPTED)], accepting(Protocol::Imap)),
    ];
    for reset in [false, true] {
        for (number, (answer, mail)) in scenes.iter().enumerate() {
            let address = own(u8::try_from(number).expect("few") + 70);
            let scene = auth.expect(&address.to_string(), vec![answer.clone()], mail.clone());
            let mut client = Client::connect(Protocol::Imap, address, server.port("imap"));
            client.tell(b"a1 LOGIN jo pw\r\n");
            wait_for("a request", || {
                (!scene.asked.lock().expect("no panic").is_empty()).then_some(())
            });
            if reset {
                let _ = client.follow(&[Step::Reset]);
            }
            drop(client);
            let _ = scene.finish();
        }
    }
    wait_for_no_connection(&server);
}

#[test]
fn passwords_are_in_no_log_and_do_not_stay_in_memory() {
    let (site, auth) = (site_with_certificate(), AuthService::start());
    let mail = format!(
        "{TLS} starttls on; auth_http 127.0.0.1:{}; timeout 2s;",
        auth.port
    );
    let server = site.serve_whole(&with_status("error_log logs/error.log debug;", &mail));
    let plain = base64(format!("\0jo\0{PASSWORD}").as_bytes());
    let word = base64(PASSWORD.as_bytes());
    let long = format!("<a LOGIN jo {PASSWORD}{}", "x".repeat(5000));
    let scripts: [(Protocol, &[&str]); 9] = [
        (
            Protocol::Imap,
            &[">", &format!("a1 LOGIN jo {PASSWORD}\r\n"), "b NOOP\r\n"],
        ),
        (
            Protocol::Imap,
            &[">", &format!("a1 LOGIN jo {PASSWORD} more\r\n")],
        ),
        (Protocol::Imap, &[">", &long, "."]),
        (
            Protocol::Pop3,
            &[
                ">",
                "USER jo\r\n",
                &format!("PASS {PASSWORD}\r\n"),
                "STAT\r\n",
            ],
        ),
        (Protocol::Pop3, &[">", &format!("PASS {PASSWORD}\r\n")]),
        (
            Protocol::Smtp,
            &[
                ">",
                "EHLO me\r\n",
                &format!("AUTH PLAIN {plain}\r\n"),
                "250 x\r\n",
            ],
        ),
        (
            Protocol::Smtp,
            &[
                ">",
                "EHLO me\r\n",
                "AUTH LOGIN\r\n",
                "am8=\r\n",
                &format!("{word}\r\n"),
                "250 x\r\n",
            ],
        ),
        (
            Protocol::Smtp,
            &[">", &format!("AUTH LOGIN x y {word}\r\n")],
        ),
        (
            Protocol::Imap,
            &[
                ">",
                "s STARTTLS\r\n",
                "TLS",
                &format!("a1 LOGIN jo \"{PASSWORD}\"\r\n"),
                "b NOOP\r\n",
            ],
        ),
    ];
    let secret = |name: &str, text: &str| Secret {
        name: name.to_owned(),
        bytes: text.as_bytes().to_vec(),
    };
    let secrets = [
        secret("password", PASSWORD),
        secret("in base64", &word),
        secret("with a name", &plain),
    ];
    let refusal = "HTTP/1.0 200 OK\r\nAuth-Status: no\r\n\r\n";
    for (number, (protocol, script)) in scripts.iter().enumerate() {
        if script.contains(&"TLS") {
            // AWS-LC does not wipe records that it has opened, so they come last.
            wait_for_no_connection(&server);
            let found = find_in_process(&secrets, server.worker_pid());
            assert_eq!(found, BTreeSet::new());
        }
        for (refused, answer) in [(0, ACCEPTED), (1, refusal)] {
            let address = own(u8::try_from(2 * number + refused).expect("few") + 100);
            let scene = auth.expect(
                &address.to_string(),
                vec![vec![send(answer)]],
                accepting(*protocol),
            );
            let mut client = Client::connect(*protocol, address, server.port(port_name(*protocol)));
            let _ = client.follow(&steps(script));
            drop(client);
            let _ = scene.finish();
        }
    }
    wait_for_no_connection(&server);
    let log = server.error_log();
    assert!(log.contains("[debug]"), "it is a log for debugging");
    for secret in [PASSWORD, &word, &plain] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None);
    }
}
