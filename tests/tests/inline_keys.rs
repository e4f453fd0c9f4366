//! Private keys that are written into the configuration: `ssl_certificate_key "data:..."`. Where
//! they are in memory is a question of `crash.rs`.

use sealane_tests::reload::{Reload, ask, reload};
use sealane_tests::{
    Certificate, CertificateKey, Outcome, Program, Server, Site, command, handshake_at,
    sealane_binary, wait_for, wire,
};
use std::fs;

/// A site with certificates of these names.
fn site(names: &[&'static str]) -> Site {
    let site = Site::new();
    for name in names {
        site.certificate(&Certificate::localhost(name, CertificateKey::P256));
    }
    site.write("html/a.txt", b"hello");
    site
}

fn pem(site: &Site, file: &str) -> String {
    fs::read_to_string(site.path(format!("certificates/{file}"))).expect("it was made")
}

fn in_one_line(pem: &str) -> String {
    pem.replace('\n', "\\n")
}

/// The subject of the certificate that a server shows at a port.
#[track_caller]
fn subject(server: &Server<'_>, port: &str) -> String {
    let shown = handshake_at(server, port, "");
    assert!(shown.succeeded(), "{port}: {}", shown.output);
    shown.subject.replace("CN = ", "")
}

/// A server for each way to write a key; the name of its port is that of its certificate.
fn every_form(site: &Site) -> String {
    let key = |name: &str| pem(site, &format!("{name}.key"));
    let certificate = |name: &str| pem(site, &format!("{name}.pem"));
    let path = site
        .path("certificates/encrypted.key")
        .display()
        .to_string();
    let arguments = ["pkey", "-in", &path, "-aes256", "-passout", "pass:secret"];
    let encrypted = command("openssl", &arguments, b"").success().text();
    site.write("passwords", "wrong\nsecret\n");
    site.write(
        "included.conf",
        format!(
            "ssl_certificate certificates/included.pem;\nssl_certificate_key \"data:{}\";\n",
            key("included")
        ),
    );
    let both = certificate("both") + &key("both");
    let servers = [
        ("double", format!("\"data:{}\"", key("double"))),
        ("single", format!("'data:{}'", key("single"))),
        ("line", format!("\"data:{}\"", in_one_line(&key("line")))),
        (
            "crlf",
            format!("\"data:{}\"", key("crlf").replace('\n', "\r\n")),
        ),
        (
            "encrypted",
            format!("\"data:{encrypted}\"; ssl_password_file passwords"),
        ),
    ];
    let mut text = String::new();
    for (name, key) in servers {
        text += &format!(
            "server {{ listen 127.0.0.1:%{name}% ssl; ssl_certificate certificates/{name}.pem;
                 ssl_certificate_key {key}; return 200 {name}; }}\n"
        );
    }
    text + &format!(
        "server {{ listen 127.0.0.1:%both% ssl; ssl_certificate \"data:{both}\";
             ssl_certificate_key \"data:{both}\"; return 200 both; }}
         server {{ listen 127.0.0.1:%included% ssl; include included.conf; return 200 included; }}
         map $ssl_server_name $always {{ default variable; }}
         map $ssl_server_name $text {{ default \"data:{}\"; }}
         server {{ listen 127.0.0.1:%variable% ssl; ssl_certificate certificates/$always.pem;
             ssl_certificate_key \"data:{}\"; return 200 variable; }}
         server {{ listen 127.0.0.1:%map% ssl; ssl_certificate certificates/map.pem;
             ssl_certificate_key $text; return 200 map; }}
         server {{ listen 127.0.0.1:%origin% ssl; ssl_verify_client optional_no_ca;
             ssl_certificate certificates/double.pem; ssl_certificate_key \"data:{}\";
             return 200 $ssl_client_s_dn; }}
         server {{ listen 127.0.0.1:%plain%;
             proxy_ssl_certificate certificates/client.pem;
             location /fixed {{ proxy_ssl_certificate_key \"data:{}\"; proxy_pass https://127.0.0.1:%origin%; }}
             location /variable {{ proxy_ssl_certificate certificates/$arg_name.pem;
                 proxy_ssl_certificate_key 'data:{}'; proxy_pass https://127.0.0.1:%origin%; }} }}",
        key("map"),
        key("variable"),
        key("double"),
        key("client"),
        in_one_line(&key("client")),
    )
}

const FORMS: [&str; 9] = [
    "double",
    "single",
    "line",
    "crlf",
    "encrypted",
    "both",
    "included",
    "variable",
    "map",
];

#[track_caller]
fn each_form_works(server: &Server<'_>) {
    for form in FORMS {
        assert_eq!(subject(server, form), form);
    }
    for target in ["/fixed", "/variable?name=client"] {
        let seen = wire::get(server.port("plain"), target);
        assert_eq!(seen.text(), "CN=client", "{target}: {seen:?}");
    }
}

#[test]
fn every_form_of_a_text_is_a_key() {
    let mut names = FORMS.to_vec();
    names.push("client");
    let site = site(&names);
    // The worker reads those with variables.
    let text = every_form(&site);
    for (main, http) in [
        ("", ""),
        ("", "ssl_key_process off;"),
        ("master_process off;", ""),
    ] {
        let server = site.serve_with(main, "", &format!("{http}{text}"));
        each_form_works(&server);
        assert!(server.stop("QUIT").success(), "{main} {http}");
    }
    let server = site.serve(&text);
    server.expect_alert("exited on signal 9");
    server.kill_key_process();
    each_form_works(&server);
    server.kill_worker();
    each_form_works(&server);
}

#[test]
fn nginx_takes_the_same_forms() {
    let mut names = FORMS.to_vec();
    names.push("client");
    let site = site(&names);
    if sealane_tests::comparison::nginx_version() < (1, 27, 4) {
        sealane_needs::leave_out("keys in the configuration as nginx has them: needs nginx 1.27.4");
        return;
    }
    each_form_works(&site.serve_by_nginx(&every_form(&site)));
}

const SERVE: &str = "
    error_log logs/error.log notice;
    events { worker_connections 64; }
    http {
        access_log off;
        MORE
        server {
            listen 127.0.0.1:%tls% ssl;
            ssl_certificate certificates/NAME.pem;
            ssl_certificate_key \"data:KEY\";
            root html;
        }
    }";

fn configuration(site: &Site, name: &str) -> String {
    let key = pem(site, &format!("{name}.key"));
    SERVE
        .replace("MORE", "")
        .replace("NAME", name)
        .replace("KEY", &key)
}

#[test]
fn a_reload_takes_what_is_written_then() {
    let site = site(&["first", "second"]);
    let server = Server::start(&site, Program::Sealane, &configuration(&site, "first"));
    assert_eq!(subject(&server, "tls"), "first");
    for name in ["first", "second", "first", "first"] {
        let reloaded = reload(&site, &server, &configuration(&site, name));
        assert_eq!(reloaded, Reload::Applied);
        assert_eq!(subject(&server, "tls"), name);
    }
    // One that stands for the key of another certificate is refused, and not shown.
    let wrong = configuration(&site, "first").replace("first.pem", "second.pem");
    assert_eq!(reload(&site, &server, &wrong), Reload::Refused);
    server.expect_alert("SSL_CTX_use_PrivateKey(\"data:...\") failed");
    assert_eq!(subject(&server, "tls"), "first");
}

/// Of a key that is written in two ways, and read several times, there is one.
#[test]
fn an_unchanged_key_is_the_same_key() {
    let site = site(&["first"]);
    let key = pem(&site, "first.key");
    let more = format!(
        "server {{ listen 127.0.0.1:%more% ssl; ssl_certificate certificates/first.pem;
             ssl_certificate_key \"data:{}\"; }}",
        in_one_line(&key)
    );
    let text = SERVE
        .replace("NAME", "first")
        .replace("KEY", &key)
        .replace("MORE", &more);
    let server = Server::start(&site, Program::Sealane, &text);
    assert_eq!(reload(&site, &server, &text), Reload::Applied);
    server.expect_alert("exited on signal 9");
    server.kill_key_process();
    let line = server.wait_for_log("start key process ");
    assert!(line.ends_with(" with 1 keys"), "{line}");
    for port in ["tls", "more"] {
        assert_eq!(subject(&server, port), "first");
    }
}

#[test]
fn a_certificate_may_be_renewed_beside_the_text_of_its_key() {
    let site = site(&["live", "other"]);
    let more = "ssl_certificate_reload 100ms;";
    let text = configuration(&site, "live").replace("http {", &format!("http {{ {more}"));
    for process in ["", "ssl_key_process off;"] {
        let text = text.replace("http {", &format!("http {{ {process}"));
        let server = Server::start(&site, Program::Sealane, &text);
        let before = pem(&site, "live.pem");
        // Another certificate for the same key: one that it has signed itself.
        let key = site.path("certificates/live.key").display().to_string();
        let arguments = [
            "req",
            "-x509",
            "-key",
            &key,
            "-subj",
            "/CN=renewed",
            "-days",
            "9",
        ];
        let renewed = command("openssl", &arguments, b"").success().text();
        let put = |content: &str| {
            let new = site.write("certificates/new", content);
            fs::rename(new, site.path("certificates/live.pem")).expect("the site is writable");
        };
        put(&renewed);
        wait_for("the new certificate", || {
            (subject(&server, "tls") == "renewed").then_some(())
        });
        // One for another key is not used.
        put(&pem(&site, "other.pem"));
        server.wait_for_log("stay in use until both files can be used");
        server.expect_alert("SSL_CTX_use_PrivateKey");
        assert_eq!(subject(&server, "tls"), "renewed");
        put(&before);
        wait_for("the certificate as it was", || {
            (subject(&server, "tls") == "live").then_some(())
        });
        assert!(server.stop("QUIT").success());
    }
}

/// `-t` or `-T` on a configuration.
fn test(site: &Site, text: &str, option: &str) -> Outcome {
    site.write("sealane.conf", site.fill_in(text));
    ask(site, &[option])
}

#[test]
fn a_test_prints_what_is_in_the_file_and_errors_name_its_lines() {
    let site = site(&["first", "second"]);
    let text = configuration(&site, "first");
    assert!(test(&site, &text, "-t").success().stderr.contains("is ok"));
    let dump = test(&site, &text, "-T").success().text();
    assert!(dump.contains(&site.fill_in(&text)), "{dump}");
    let secret = pem(&site, "first.key");
    let secret = secret.lines().nth(1).expect("base64");
    let key = format!("data:{}", pem(&site, "first.key"));
    let line = |text: &str, word: &str| {
        let before = text.split_once(word).expect("it is there").0;
        before.matches('\n').count() + 1
    };
    for (written, instead, at) in [
        ("root html;", "wrong html;", "wrong"),
        ("root html;", "root 'html'x;", "'html'"),
        (
            "\n            root",
            " wrong on;\n            root",
            "wrong",
        ),
        (&format!("\"{key}\""), &format!("\"{key}\" twice"), "twice"),
        (&format!("\"{key}\""), &format!("\"{key}\"twice"), "twice"),
        (&format!("\"{key}\""), key.trim_end(), "-----END"),
        (
            &format!("\"{key}\""),
            &format!("\"{}\" twice", in_one_line(&key)),
            "twice",
        ),
    ] {
        let wrong = text.replace(written, instead);
        assert_ne!(wrong, text);
        let shown = test(&site, &wrong, "-t");
        assert_ne!(shown.status, 0, "{instead}");
        let place = format!("sealane.conf:{}\n", line(&wrong, at));
        assert!(shown.stderr.contains(&place), "{place}{}", shown.stderr);
        assert!(!shown.stderr.contains(secret), "{}", shown.stderr);
    }
}

/// What is wrong with a key is said as if it were still in the text, where `-T` leaves it.
#[test]
fn errors_of_keys_are_as_ever() {
    let site = site(&["first", "second"]);
    let text = configuration(&site, "first");
    let key = pem(&site, "first.key");
    let end = "-----END PRIVATE KEY-----";
    for wrong in [
        pem(&site, "second.key"),
        key.replace(end, ""),
        key.replace(end, "-----END KEY-----"),
        key.replace("MI", "M*"),
        "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----".to_owned(),
        "-----BEGIN PRIVATE KEY-----".to_owned(),
        String::new(),
    ] {
        let wrong = text.replace(&key, &wrong);
        let [tested, dumped] = ["-t", "-T"].map(|option| test(&site, &wrong, option));
        assert_ne!(tested.status, 0, "{wrong}");
        assert_eq!(tested.stderr, dumped.stderr);
    }
    // A reference that nobody has put there stands for nothing.
    let reference = format!("-----BEGIN SEALANE KEY {}-----", "0".repeat(64));
    let shown = test(&site, &text.replace(&key, &reference), "-t");
    assert_ne!(shown.status, 0);
    assert!(
        shown.stderr.contains("cannot load certificate key"),
        "{}",
        shown.stderr
    );
}

#[test]
fn the_doctor_has_such_a_key_sign() {
    let site = site(&["first"]);
    let text = configuration(&site, "first");
    let file = site
        .write("test.conf", site.fill_in(&text))
        .display()
        .to_string();
    let directory = site.path("").display().to_string();
    let arguments = ["doctor", "--json", "-p", &directory, "-c", &file];
    let outcome = command(&sealane_binary().display().to_string(), &arguments, b"");
    let report: serde_json::Value = serde_json::from_slice(&outcome.stdout).expect("JSON");
    let keys = report["configuration"]["keys"].as_array().expect("keys");
    assert_eq!(keys.len(), 1, "{report}");
    assert_eq!(keys[0]["name"], "data:...");
    assert!(
        keys[0]["signatures_per_second"].as_f64() > Some(1.0),
        "{report}"
    );
}
