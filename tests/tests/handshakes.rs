//! Where handshakes are worked on, with which accelerator, how many may wait: as clients,
//! logs and the operator see it.

use sealane_tests::{
    Server, Site, client_hello, command, handshake, scale, sealane_binary, wait_for,
};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Kinds of keys by the name of their server, with openssl's options.
const KEYS: [(&str, &str); 5] = [
    ("rsa2048", "rsa:2048"),
    ("rsa3072", "rsa:3072"),
    ("rsa4096", "rsa:4096"),
    ("p256", "ec -pkeyopt ec_paramgen_curve:prime256v1"),
    ("p384", "ec -pkeyopt ec_paramgen_curve:secp384r1"),
];

/// A site with one certificate of each kind.
fn site() -> Site {
    Site::with_keys(&KEYS)
}

/// One server for each key, chosen by name. `%key%` directives may differ by kind.
fn servers(rsa: &str, ec: &str) -> String {
    let mut text = String::from(
        "ssl_session_tickets off; log_format times \
         \"$server_name $ssl_handshake_time $ssl_handshake_queue_time\"; access_log logs/times.log times;",
    );
    for (name, key) in KEYS {
        let directives = if key.starts_with("rsa") { rsa } else { ec };
        text.push_str(&format!(
            "server {{ listen 127.0.0.1:%tls% ssl; server_name {name}; {directives}
                ssl_certificate certificates/{name}.pem; ssl_certificate_key certificates/{name}.key;
                ssl_ciphers HIGH:AES128-GCM-SHA256;
                location = /tls {{ return 200 \"<$ssl_protocol $ssl_cipher $ssl_server_name>\"; }} }}\n"
        ));
    }
    text
}

/// Options for s_client: one handshake of each kind that a key can do.
fn kinds(name: &str) -> &'static [&'static str] {
    if name.starts_with("rsa") {
        &[
            "-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256",
            "-tls1_2 -cipher AES128-GCM-SHA256",
            "-tls1_3",
        ]
    } else {
        &["-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256", "-tls1_3"]
    }
}

/// Every kind of handshake with every key, all at the same time, each verified by the client.
fn all_kinds(site: &Site, server: &Server<'_>) {
    let authority = site.authority().display().to_string();
    std::thread::scope(|scope| {
        for (name, _) in KEYS {
            for kind in kinds(name) {
                let authority = &authority;
                scope.spawn(move || {
                    let options = format!(
                        "{kind} -servername {name} -CAfile {authority} -verify_return_error \
                         -verify_hostname {name}"
                    );
                    let result = handshake(server, &options);
                    assert!(result.succeeded(), "{options}: {}", result.output);
                    assert!(
                        result.output.contains(&format!(" {name}>")),
                        "{}",
                        result.output
                    );
                });
            }
        }
    });
}

/// Whether this processor can compute in batches, in the doctor's words.
fn has_batch() -> bool {
    let doctor = command(
        &sealane_binary().display().to_string(),
        &["doctor", "--json"],
        b"",
    );
    let report: serde_json::Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    let batch = &report["accelerators"]["batch"];
    batch["works"] == true
}

#[test]
fn every_key_and_protocol_wherever_it_is_computed() {
    let site = site();
    let batch = has_batch();
    if !batch {
        sealane_needs::leave_out("this processor computes nothing in batches (AVX-512 IFMA)");
    }
    for mode in ["off", "on", "auto"] {
        for accelerator in ["cpu", "batch"] {
            if accelerator == "batch" && !batch {
                continue;
            }
            let mode = format!("ssl_async {mode};");
            let server = site.serve(&servers(
                &format!("{mode} ssl_accelerator {accelerator};"),
                &mode,
            ));
            all_kinds(&site, &server);
            assert!(server.stop("QUIT").success(), "{mode} {accelerator}");
        }
    }
}

#[test]
fn without_a_pool_handshakes_stay_on_the_worker() {
    let site = site();
    let server = site.serve(&format!(
        "ssl_async_threads 0; {}",
        servers("ssl_async on;", "ssl_async on;")
    ));
    all_kinds(&site, &server);
}

/// A thread of the pool, for one flight of many at a time.
#[test]
fn many_clients_at_once_through_one_thread() {
    let site = site();
    let server = site.serve(&format!(
        "ssl_async_threads 1; {}",
        servers("ssl_async on;", "ssl_async on;")
    ));
    for _ in 0..scale(1, 20) {
        std::thread::scope(|scope| {
            for client in 0..24 {
                let server = &server;
                scope.spawn(move || {
                    let version = ["-tls1_2", "-tls1_3"][client % 2];
                    let result = handshake(server, &format!("{version} -servername rsa2048"));
                    assert!(result.succeeded(), "{}", result.output);
                });
            }
        });
    }
}

#[test]
fn the_log_says_how_long_handshakes_took_and_waited() {
    let site = site();
    let server = site.serve(&format!(
        "{} server {{ listen 127.0.0.1:%plain%; server_name plain; }}",
        servers("ssl_async on;", "")
    ));
    all_kinds(&site, &server);
    sealane_tests::wire::get(server.port("plain"), "/");
    let log = || std::fs::read_to_string(site.path("logs/times.log")).unwrap_or_default();
    let handshakes: usize = KEYS.iter().map(|(name, _)| kinds(name).len()).sum();
    let log = wait_for("all lines in the access log", || {
        Some(log()).filter(|log| log.lines().count() == handshakes + 1)
    });
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "plain" {
            assert_eq!(words[1..], ["-", "-"], "{line}");
            continue;
        }
        let seconds = |word: &str| -> f64 {
            let decimals = word.split_once('.').map(|(_, decimals)| decimals.len());
            assert_eq!(decimals, Some(6), "{line}");
            word.parse().expect("a number")
        };
        let (total, queued) = (seconds(words[1]), seconds(words[2]));
        assert!(total > 0.0 && queued <= total && total < 60.0, "{line}");
    }
}

/// Opens connections, and has all of them say hello at the same time.
fn storm(server: &Server<'_>, hello: &[u8], clients: usize) -> Vec<TcpStream> {
    let mut streams: Vec<TcpStream> = (0..clients)
        .map(|_| TcpStream::connect(("127.0.0.1", server.port("tls"))).expect("it listens"))
        .collect();
    for stream in &mut streams {
        stream
            .set_read_timeout(Some(sealane_tests::PATIENCE))
            .expect("any socket can have one");
        stream.write_all(hello).expect("there is room");
    }
    streams
}

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

/// The first record that a server answers with: its type and the start of its body.
fn answer(mut stream: &TcpStream) -> (u8, [u8; 2]) {
    let mut record = [0; 7];
    stream.read_exact(&mut record).expect("the server answers");
    (record[0], [record[5], record[6]])
}

#[test]
fn too_many_are_refused_with_an_alert_and_those_after_them_are_not() {
    let site = site();
    for mode in ["on", "off"] {
        let mode = format!("ssl_async {mode};");
        let server = site.serve(&format!(
            "ssl_async_threads 1; ssl_handshake_queue 1; {}",
            servers(&mode, &mode)
        ));
        server.expect_alert("TLS handshakes refused");
        let hello = client_hello("rsa4096", "-tls1_2");
        // Each takes longer than it takes to say hello: most find the queue full.
        let streams = storm(&server, &hello, 100);
        let answers: Vec<_> = streams.iter().map(answer).collect();
        let refused = answers.iter().filter(|(kind, _)| *kind == ALERT).count();
        let served = answers
            .iter()
            .filter(|(kind, _)| *kind == HANDSHAKE)
            .count();
        assert_eq!(refused + served, 100);
        assert!(
            refused > 0 && served > 0,
            "{refused} refused, {served} served"
        );
        for (kind, body) in &answers {
            // A fatal alert, internal_error (RFC 8446 section 6).
            assert!(*kind != ALERT || *body == [2, 80], "{body:?}");
        }
        for (stream, (kind, _)) in streams.iter().zip(&answers) {
            if *kind == ALERT {
                let mut rest = Vec::new();
                let mut stream = stream;
                stream.read_to_end(&mut rest).expect("closed in order");
                assert!(rest.is_empty());
            }
        }
        let line = server.wait_for_log("TLS handshakes refused");
        assert!(line.contains("[alert]"), "{line}");
        assert!(
            line.contains("because 1 were waiting (ssl_handshake_queue)"),
            "{line}"
        );
        drop(streams);
        let after = handshake(&server, "-servername rsa2048");
        assert!(after.succeeded(), "{}", after.output);
    }
}

#[test]
fn a_handshake_that_does_not_come_to_an_end_is_given_up() {
    let site = site();
    let server = site.serve(&format!("ssl_handshake_timeout 300ms; {}", servers("", "")));
    let hello = client_hello("rsa2048", "-tls1_2");
    // Half of a hello; a whole one, but no answer to the server's; nothing at all.
    let half = storm(&server, &hello[..hello.len() / 2], 1);
    let whole = storm(&server, &hello, 1);
    let nothing = storm(&server, &[], 1);
    for mut stream in half.iter().chain(&whole).chain(&nothing) {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("the server closes");
    }
    server.wait_for_log("client timed out (110: Connection timed out) while SSL handshaking");
    // A connection that is through has client_header_timeout for its request.
    let slow = "(sleep 1; printf 'GET /tls HTTP/1.1\\r\\nHost: h\\r\\nConnection: close\\r\\n\\r\\n'; sleep 1) | \
                openssl s_client -quiet -servername rsa2048 -connect 127.0.0.1:PORT 2>/dev/null";
    let slow = slow.replace("PORT", &server.port("tls").to_string());
    let outcome = command("sh", &["-c", &slow], b"");
    assert!(outcome.text().contains("rsa2048>"), "{}", outcome.text());
}

#[test]
fn stopping_with_handshakes_in_flight_is_clean() {
    let site = site();
    let hello = client_hello("rsa4096", "-tls1_2");
    for signal in ["TERM", "QUIT"] {
        for mode in ["on", "off", "auto"] {
            let mode = format!("ssl_async {mode};");
            let server = site.serve(&format!("ssl_async_threads 1; {}", servers(&mode, &mode)));
            let streams = storm(&server, &hello, 60);
            // The first is through: the others are on their way.
            answer(&streams[0]);
            if signal == "QUIT" {
                // Handshakes are finished or given up by their clients.
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        server.wait_for_log("gracefully shutting down");
                        drop(streams);
                    });
                    server.signal("QUIT");
                });
                assert!(server.stop("QUIT").success(), "{mode}");
            } else {
                assert!(server.stop("TERM").success(), "{mode}");
            }
        }
    }
}

/// Runs `sealane -t` on a server with these directives. Returns what it prints.
fn check(site: &Site, key: &str, directives: &str) -> String {
    let text = site.fill_in(&format!(
        "events {{}} http {{ server {{ listen 127.0.0.1:%tls% ssl; {directives}
            ssl_certificate certificates/{key}.pem; ssl_certificate_key certificates/{key}.key; }} }}"
    ));
    let file = site.write("check.conf", text).display().to_string();
    let prefix = site.path("").display().to_string();
    let binary = sealane_binary().display().to_string();
    let outcome = command(
        &binary,
        &["-t", "-p", &prefix, "-c", &file, "-e", "logs/check.log"],
        b"",
    );
    format!("{}{}", outcome.text(), outcome.stderr)
}

#[test]
fn wrong_values_are_told_before_anything_starts() {
    let site = site();
    let said = check(&site, "rsa2048", "ssl_async maybe;");
    assert!(said.contains("invalid value \"maybe\""), "{said}");
    let said = check(&site, "rsa2048", "ssl_accelerator qat;");
    assert!(
        said.contains("it can be \"auto\", \"cpu\", \"batch\""),
        "{said}"
    );
    let said = check(&site, "p256", "ssl_accelerator batch;");
    let why = match has_batch() {
        true => "[warn] \"ssl_accelerator batch\" is not for certificate",
        false => "[emerg] \"ssl_accelerator batch\" cannot be used",
    };
    assert!(said.contains(why), "{said}");
    let said = check(&site, "rsa2048", "ssl_accelerator auto; ssl_async auto;");
    assert!(said.contains("test is successful"), "{said}");
}
