//! Mistakes in what a configuration names: certificates, keys, lists of secrets, and what is said
//! about TLS.

use crate::judge::{Case, Expected};
use crate::texts::{Place, with};
use sealane_conf::directives::{HTTP, LOCATION};
use sealane_tests::random::Random;
use sealane_tests::{Certificate, CertificateKey, Site, command};

const CERTIFICATE: &str = "ssl_certificate certificates/server.pem;\n";
const KEY: &str = "ssl_certificate_key certificates/server.key;\n";

/// The certificates that the base names, and another one.
pub(crate) fn certificates(site: &Site) {
    for (name, key) in [
        ("server", CertificateKey::P256),
        ("other", CertificateKey::P256),
        ("rsa", CertificateKey::Rsa),
    ] {
        site.certificate(&Certificate::localhost(name, key));
    }
}

/// Files that are no certificate, no key, or not the right one.
fn broken_files(site: &Site) {
    let read = |name: &str| {
        std::fs::read_to_string(site.path("certificates").join(name)).expect("openssl has made it")
    };
    let (pem, key) = (read("server.pem"), read("server.key"));
    let write =
        |name: &str, content: &[u8]| drop(site.write(format!("certificates/{name}"), content));
    let lines: Vec<&str> = pem.lines().collect();
    let without = |line: usize| {
        let kept = lines.iter().enumerate().filter(|(at, _)| *at != line);
        kept.map(|(_, line)| format!("{line}\n"))
            .collect::<String>()
    };
    write("empty", b"");
    write("blank", b"\n\n");
    write("text", b"this is no certificate\n");
    write("random", &Random::new(5).bytes(2000));
    write("no-begin", without(0).as_bytes());
    write("no-end", without(lines.len() - 1).as_bytes());
    write("no-middle", without(3).as_bytes());
    write("cut", &pem.as_bytes()[..pem.len() / 2]);
    write(
        "no-base64",
        pem.replace(lines[2], "!!!! this is no base64 !!!!")
            .as_bytes(),
    );
    write("one-letter", pem.replace(&lines[2][..1], "#").as_bytes());
    write(
        "chain-cut",
        format!("{pem}{}", &read("authority.pem")[..200]).as_bytes(),
    );
    write(
        "chain-garbage",
        format!("{pem}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").as_bytes(),
    );
    write(
        "chain",
        format!("{pem}{}", read("authority.pem")).as_bytes(),
    );
    write(
        "other-first",
        format!("{}{pem}", read("other.pem")).as_bytes(),
    );
    write("both", format!("{pem}{key}").as_bytes());
    write("key-cut", &key.as_bytes()[..key.len() / 2]);
    write(
        "key-no-end",
        key.rsplit_once("-----END").expect("PEM").0.as_bytes(),
    );
    write(
        "key-garbage",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    );
    let path = |name: &str| site.path("certificates").join(name).display().to_string();
    let openssl = |line: &str| {
        let words: Vec<String> = line
            .split(' ')
            .map(|word| match word.strip_prefix('@') {
                Some(name) => path(name),
                None => word.to_owned(),
            })
            .collect();
        command("openssl", &words, b"").success();
    };
    openssl("x509 -in @server.pem -outform DER -out @der");
    openssl("pkey -in @server.key -outform DER -out @key-der");
    openssl("pkey -in @server.key -pubout -out @public");
    openssl("pkcs8 -topk8 -in @server.key -passout pass:secret -out @encrypted");
    openssl("ec -in @server.key -aes128 -passout pass:secret -out @encrypted-old");
    openssl("x509 -req -in @server.csr -signkey @server.key -days -1 -out @expired");
    openssl("genpkey -algorithm ED25519 -out @ed25519.key");
    openssl("genpkey -algorithm X25519 -out @x25519.key");
    openssl("dhparam -dsaparam -out @dh-small 512");
    write("password", b"secret\n");
    write("passwords-wrong", b"no\nneither\n");
    write("ticket-0", b"");
    for bytes in [1, 47, 49, 79, 81, 96, 160] {
        write(&format!("ticket-{bytes}"), &Random::new(6).bytes(bytes));
    }
    write("ticket-48", &Random::new(6).bytes(48));
    write("ticket-80", &Random::new(7).bytes(80));
    write("key-file-short", b"abc");
    write("sparse", b"");
    let sparse = std::fs::File::options()
        .write(true)
        .open(site.path("certificates/sparse"));
    sparse
        .and_then(|file| file.set_len(17 << 20))
        .expect("holes take no room");
    command("mkfifo", &[&path("fifo")], b"").success();
}

pub(crate) fn cases(base: &str, site: &Site) -> Vec<Case> {
    broken_files(site);
    let mut cases = Vec::new();
    let mut add = |class, expected, text: String| {
        cases.push(Case {
            class,
            text: text.into_bytes(),
            expected,
        });
    };
    let files = [
        "none",
        "",
        ".",
        "empty",
        "blank",
        "text",
        "random",
        "no-begin",
        "no-end",
        "no-middle",
        "cut",
        "no-base64",
        "one-letter",
        "chain-cut",
        "chain-garbage",
        "der",
        "public",
        "server.key",
        "other.pem",
        "other-first",
        "authority.pem",
        "sparse",
        "fifo",
        "ticket-48",
        "server.pem/x",
    ];
    for file in files {
        let line = format!("ssl_certificate certificates/{file};\n");
        add(
            "certificates",
            Expected::Refused,
            base.replace(CERTIFICATE, &line),
        );
    }
    for file in ["expired", "chain", "both"] {
        let line = format!("ssl_certificate certificates/{file};\n");
        add(
            "certificates",
            Expected::Taken,
            base.replace(CERTIFICATE, &line),
        );
    }
    let keys = [
        "none",
        "",
        ".",
        "empty",
        "blank",
        "text",
        "random",
        "key-cut",
        "key-no-end",
        "key-garbage",
        "key-der",
        "public",
        "server.pem",
        "other.key",
        "rsa.key",
        "authority.key",
        "encrypted",
        "encrypted-old",
        "ed25519.key",
        "x25519.key",
        "sparse",
        "fifo",
        "cut",
    ];
    for file in keys {
        let line = format!("ssl_certificate_key certificates/{file};\n");
        add("keys", Expected::Refused, base.replace(KEY, &line));
    }
    for (expected, passwords) in [
        (Expected::Taken, "password"),
        (Expected::Refused, "passwords-wrong"),
        (Expected::Refused, "empty"),
        (Expected::Refused, "none"),
        (Expected::Refused, "."),
        (Expected::Refused, "random"),
    ] {
        for key in ["encrypted", "encrypted-old"] {
            let lines = format!(
                "ssl_certificate_key certificates/{key};\nssl_password_file certificates/{passwords};\n"
            );
            add("keys", expected, base.replace(KEY, &lines));
        }
    }
    add(
        "certificates",
        Expected::Refused,
        base.replace(CERTIFICATE, ""),
    );
    add("certificates", Expected::Refused, base.replace(KEY, ""));
    add(
        "certificates",
        Expected::Refused,
        base.replace(CERTIFICATE, "").replace(KEY, ""),
    );
    for (class, expected, lines) in said_about_tls() {
        for line in lines {
            add(class, expected, with(base, Place::Tls, line));
        }
    }
    for file in [
        "none", ".", "empty", "text", "random", "cut", "no-end", "fifo",
    ] {
        for lines in [
            format!("proxy_ssl_verify on; proxy_ssl_trusted_certificate certificates/{file};"),
            format!(
                "proxy_ssl_certificate certificates/{file}; proxy_ssl_certificate_key certificates/server.key;"
            ),
            format!(
                "proxy_ssl_verify on; proxy_ssl_trusted_certificate certificates/authority.pem; proxy_ssl_crl certificates/{file};"
            ),
        ] {
            let lines = format!("proxy_pass https://127.0.0.1:1; {lines}");
            add(
                "upstreams' TLS",
                Expected::Refused,
                with(base, Place::In(LOCATION), &lines),
            );
        }
    }
    for line in [
        "ssl_certificate certificates/none;",
        "ssl_certificate_key certificates/none;",
        "ssl_certificate certificates/server.pem;",
    ] {
        add(
            "certificates",
            Expected::Alike,
            with(base, Place::In(HTTP), line),
        );
    }
    cases
}

type Lines = &'static [&'static str];

/// Lines for the server with TLS.
fn said_about_tls() -> [(&'static str, Expected, Lines); 5] {
    [
        (
            "ticket keys",
            Expected::Refused,
            &[
                "ssl_session_ticket_key certificates/none;",
                "ssl_session_ticket_key certificates/ticket-0;",
                "ssl_session_ticket_key certificates/ticket-1;",
                "ssl_session_ticket_key certificates/ticket-47;",
                "ssl_session_ticket_key certificates/ticket-49;",
                "ssl_session_ticket_key certificates/ticket-79;",
                "ssl_session_ticket_key certificates/ticket-81;",
                "ssl_session_ticket_key certificates/ticket-96;",
                "ssl_session_ticket_key certificates/ticket-160;",
                "ssl_session_ticket_key certificates/sparse;",
                "ssl_session_ticket_key certificates/fifo;",
                "ssl_session_ticket_key certificates;",
                "ssl_session_ticket_key certificates/ticket-48; ssl_session_ticket_key certificates/ticket-47;",
            ],
        ),
        (
            "ticket keys",
            Expected::Taken,
            &[
                "ssl_session_ticket_key certificates/ticket-48;",
                "ssl_session_ticket_key certificates/ticket-80; ssl_session_ticket_key certificates/ticket-48;",
            ],
        ),
        (
            "session stores",
            Expected::Refused,
            &[
                "ssl_session_store;",
                "ssl_session_store nonsense;",
                "ssl_session_store redis://;",
                "ssl_session_store redis://127.0.0.1:0;",
                "ssl_session_store redis://127.0.0.1:99999;",
                "ssl_session_store redis://127.0.0.1:6379/x;",
                "ssl_session_store redis://127.0.0.1:6379/-1;",
                "ssl_session_store redis://[::1;",
                "ssl_session_store http://127.0.0.1:6379;",
                "ssl_session_store memcached://127.0.0.1:6379;",
                "ssl_session_store redis+unix://;",
                "ssl_session_store redis://127.0.0.1:6379 key=none;",
                "ssl_session_store redis://127.0.0.1:6379 timeout=no;",
                "ssl_session_store redis://127.0.0.1:6379 nonsense=1;",
                "ssl_session_store redis://127.0.0.1:6379 key_file=certificates/none;",
                "ssl_session_store redis://127.0.0.1:6379 key_file=certificates/key-file-short;",
                "ssl_session_store redis://127.0.0.1:6379 key_file=certificates/empty;",
                "ssl_session_store rediss://127.0.0.1:6379 ca_file=certificates/none;",
                "ssl_session_store rediss://127.0.0.1:6379 ca_file=certificates/text;",
            ],
        ),
        (
            "TLS",
            Expected::Refused,
            &[
                "ssl_protocols;",
                "ssl_protocols SSLv9;",
                "ssl_protocols TLSv1.2 nonsense;",
                "ssl_ciphers none-of-these;",
                "ssl_ciphers \"\";",
                "ssl_ciphers ALL:!ALL;",
                "ssl_ciphers @SECLEVEL=9;",
                "ssl_ecdh_curve none-such;",
                "ssl_ecdh_curve X25519:none-such;",
                "ssl_ecdh_curve :;",
                "ssl_dhparam certificates/none;",
                "ssl_dhparam certificates/text;",
                "ssl_dhparam certificates/server.pem;",
                "ssl_session_cache shared:x:1k;",
                "ssl_session_cache shared:x;",
                "ssl_session_cache shared::1m;",
                "ssl_session_cache shared:x:lots;",
                "ssl_session_cache nonsense;",
                "ssl_session_cache builtin:-1;",
                "ssl_session_cache shared:x:1m shared:x:2m nonsense;",
                "ssl_session_timeout never;",
                "ssl_session_timeout -1;",
                "ssl_session_tickets maybe;",
                "ssl_prefer_server_ciphers perhaps;",
                "ssl_buffer_size lots;",
                "ssl_early_data perhaps;",
                "ssl_verify_client maybe;",
                "ssl_verify_client on;",
                "ssl_conf_command Options;",
                "ssl_conf_command NoSuchCommand x;",
                "ssl_conf_command Options NoSuchOption;",
                "ssl_conf_command Ciphersuites none;",
                "ssl_conf_command MinProtocol TLSv9;",
                "ssl_conf_command Curves none;",
                "ssl_ktls maybe;",
                "ssl_ktls_min_size -1;",
                "ssl_ktls_key_records 0;",
                "ssl_engine nonsense;",
                "ssl_reject_handshake maybe;",
                "ssl_certificate_compression maybe;",
                "ssl_accelerator nonsense;",
                "ssl_handshake_timeout -1;",
                "ssl_session_ticket_rotation -1;",
                "ssl_session_ticket_state no/such/directory/state;",
                "ssl_certificate certificates/rsa.pem;",
                "ssl_certificate certificates/rsa.pem; ssl_certificate_key certificates/other.key;",
                "ssl_certificate certificates/$no_such_variable.pem; ssl_certificate_key certificates/rsa.key;",
                "ssl_certificate data:nonsense; ssl_certificate_key certificates/rsa.key;",
                "ssl maybe;",
            ],
        ),
        (
            "TLS",
            Expected::Taken,
            &["ssl_certificate certificates/rsa.pem; ssl_certificate_key certificates/rsa.key;"],
        ),
    ]
}
