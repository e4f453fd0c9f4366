//! Certificates: the origin's, verified, and ours, shown.

use super::{nginx_origin, origin_site, readable_by_all, seen};
use sealane_tests::wire::get;
use sealane_tests::{Server, Site, command};
use std::path::Path;

/// What the error log says of a failed handshake, without time and numbers before and without
/// the request behind.
fn complaint(server: &Server<'_>, target: &str) -> String {
    let line = server.wait_for_log(&format!("\"GET {target} HTTP/1.1\""));
    let text = line.split_once("] ").expect("a level").1;
    let text = text.split_once(": *").expect("a connection").1;
    let text = text.split_once(' ').expect("its number").1;
    let (text, rest) = text.split_once(", client: ").expect("a client");
    assert!(line.contains("[error]"), "{line}");
    let upstream = "upstream: \"https://127.0.0.1:";
    assert!(rest.contains(upstream), "{line}");
    text.to_owned()
}

/// An origin for each kind of certificate, on ports of their names.
fn flawed_origins(site: &Site) -> Server<'_> {
    let directory = site.path("certificates").display().to_string();
    let openssl = |line: &str| {
        let line = line.replace("DIR", &directory);
        let arguments: Vec<&str> = line.split_whitespace().collect();
        command("openssl", &arguments, b"").success();
    };
    site.write("certificates/names.ext", "subjectAltName=DNS:origin.test\n");
    openssl("req -new -key DIR/origin.key -subj /CN=origin.test -out DIR/again.csr");
    openssl(
        "x509 -req -in DIR/again.csr -CA DIR/authority.pem -CAkey DIR/authority.key \
         -set_serial 77 -days -1 -extfile DIR/names.ext -out DIR/expired.pem",
    );
    openssl(
        "req -x509 -key DIR/origin.key -subj /CN=origin.test -days 9 \
         -addext subjectAltName=DNS:origin.test -out DIR/selfsigned.pem",
    );
    // No names but the subject's.
    openssl(
        "x509 -req -in DIR/again.csr -CA DIR/authority.pem -CAkey DIR/authority.key \
         -set_serial 78 -days 9 -out DIR/subject.pem",
    );
    let server = |name: &str| {
        format!(
            "server {{ listen 127.0.0.1:%{name}% ssl; return 200 hello;
                ssl_certificate certificates/{name}.pem; ssl_certificate_key certificates/origin.key; }}"
        )
    };
    site.serve_by_nginx(
        &["origin", "expired", "selfsigned", "subject"]
            .map(server)
            .join("\n"),
    )
}

#[test]
fn commands_replace_the_certificate_that_is_shown() {
    let behind = origin_site();
    let origin = nginx_origin(&behind, "ssl_verify_client optional_no_ca;");
    let address = format!("127.0.0.1:{}", origin.port("tls"));
    let (site, certificates) = (Site::new(), behind.path("certificates"));
    let certificates = certificates.display();
    let server = site.serve(&format!(
        "proxy_ssl_certificate {certificates}/client.pem; proxy_ssl_certificate_key {certificates}/client.key;
         server {{ listen 127.0.0.1:%plain%;
            location / {{ proxy_pass https://{address}; }}
            location /replaced {{ proxy_pass https://{address}; proxy_ssl_session_reuse off;
               proxy_ssl_conf_command Certificate {certificates}/other.pem;
               proxy_ssl_conf_command PrivateKey {certificates}/other.key; }} }}"
    ));
    assert_eq!(seen(&server, "/").client, "CN=client");
    assert_eq!(seen(&server, "/replaced").client, "CN=other");
}

#[test]
fn certificates_are_verified_as_by_nginx() {
    let behind = origin_site();
    let origins = flawed_origins(&behind);
    let elsewhere = origin_site();
    let port = |name: &str| origins.port(name);
    let location = |name: &str, directives: &str, to: &str| {
        format!(
            "location /{name} {{ {directives} proxy_pass https://127.0.0.1:{}; }}\n",
            port(to)
        )
    };
    let named = "proxy_ssl_name origin.test;";
    let foreign = format!(
        "{named} proxy_ssl_trusted_certificate {};",
        elsewhere.authority().display()
    );
    let stranger = format!(
        "{named} proxy_ssl_trusted_certificate {};",
        behind.path("certificates/selfsigned.pem").display()
    );
    let good = [
        location("good", named, "origin"),
        location("wild", "proxy_ssl_name a.wild.test;", "origin"),
        location("port", "proxy_ssl_name origin.test:443;", "origin"),
        location("address", "", "origin"),
        location("subject", named, "subject"),
        location("careless", "proxy_ssl_verify off;", "expired"),
    ];
    let bad = [
        location("foreign", &foreign, "origin"),
        location("stranger", &stranger, "origin"),
        location("other", "proxy_ssl_name other.test;", "origin"),
        location("deep", "proxy_ssl_name a.b.wild.test;", "origin"),
        location("nameless", "proxy_ssl_name '';", "origin"),
        location("otheraddress", "proxy_ssl_name 127.0.0.2;", "origin"),
        location("expired", named, "expired"),
        location("selfsigned", named, "selfsigned"),
    ];
    let configuration = format!(
        "server {{ listen 127.0.0.1:%plain%; proxy_ssl_verify on; proxy_ssl_session_reuse off;
            proxy_ssl_trusted_certificate {}; {}{} }}",
        behind.authority().display(),
        good.concat(),
        bad.concat()
    );
    // Without sessions: nginx would use one of a location that is content with the
    // certificate in another that is not.
    let (ours, theirs) = (Site::new(), Site::new());
    let sealane = ours.serve(&configuration);
    let nginx = theirs.serve_by_nginx(&configuration);
    for name in ["good", "wild", "port", "address", "subject", "careless"] {
        for server in [&sealane, &nginx] {
            // nginx does not look for addresses in certificates.
            if name == "address" && std::ptr::eq(server, &nginx) {
                continue;
            }
            let response = get(server.port("plain"), &format!("/{name}"));
            assert_eq!(response.status, 200, "{name}: {}", server.error_log());
            assert_eq!(response.text(), "hello");
        }
    }
    for name in [
        "foreign",
        "stranger",
        "other",
        "deep",
        "nameless",
        "otheraddress",
        "expired",
        "selfsigned",
    ] {
        let target = format!("/{name}");
        let said = [&sealane, &nginx].map(|server| {
            assert_eq!(get(server.port("plain"), &target).status, 502, "{name}");
            complaint(server, &target)
        });
        assert_eq!(said[0], said[1], "{name}");
        assert!(
            said[0].starts_with("upstream SSL certificate "),
            "{}",
            said[0]
        );
        assert!(said[0].ends_with(" while SSL handshaking to upstream"));
    }
    let line = complaint(&sealane, "/stranger");
    let expected = "upstream SSL certificate verify error: (21:unable to verify the first \
                    certificate) while SSL handshaking to upstream";
    assert_eq!(line, expected);
}

#[test]
fn our_certificate_is_shown() {
    let behind = origin_site();
    let origin = nginx_origin(
        &behind,
        "ssl_verify_client optional_no_ca; keepalive_timeout 0;",
    );
    let directory = behind.path("certificates").display().to_string();
    let key = format!("{directory}/client.key");
    let locked = format!("{directory}/locked.key");
    command(
        "openssl",
        &[
            "ec",
            "-aes128",
            "-passout",
            "pass:words",
            "-in",
            &key,
            "-out",
            &locked,
        ],
        b"",
    )
    .success();
    readable_by_all(Path::new(&locked));
    let passwords = behind.write("certificates/passwords", "wrong\nwords\n");
    let site = Site::new();
    let server = site.serve(&format!(
        "server {{ listen 127.0.0.1:%plain%;
            location /none {{ proxy_pass https://127.0.0.1:{port}; }}
            location /fixed {{ proxy_pass https://127.0.0.1:{port};
                proxy_ssl_certificate {directory}/client.pem; proxy_ssl_certificate_key {key}; }}
            location /locked {{ proxy_pass https://127.0.0.1:{port};
                proxy_ssl_password_file {};
                proxy_ssl_certificate {directory}/client.pem; proxy_ssl_certificate_key {locked}; }}
            location /who {{ proxy_pass https://127.0.0.1:{port};
                proxy_ssl_password_file {};
                proxy_ssl_certificate $arg_who; proxy_ssl_certificate_key $arg_key; }} }}",
        passwords.display(),
        passwords.display(),
        port = origin.port("tls"),
    ));
    let who = |name: &str| format!("/who?who={directory}/{name}.pem&key={directory}/{name}.key");
    for (target, client) in [
        ("/none".to_owned(), ""),
        ("/fixed".to_owned(), "CN=client"),
        ("/locked".to_owned(), "CN=client"),
        (who("client"), "CN=client"),
        (who("other"), "CN=other"),
        ("/who".to_owned(), ""),
        (
            format!("/who?who={directory}/client.pem&key={locked}"),
            "CN=client",
        ),
    ] {
        assert_eq!(seen(&server, &target).client, client, "{target}");
    }
    for (target, words) in [
        (who("missing"), "cannot load certificate \""),
        (
            format!("/who?who={directory}/client.pem&key={directory}/missing.key"),
            "cannot load certificate key \"",
        ),
        (
            format!("/who?who={directory}/client.pem&key={directory}/other.key"),
            "KEY_VALUES_MISMATCH",
        ),
        (
            format!("/who?who={directory}&key={key}"),
            "it is not a regular file",
        ),
    ] {
        assert_eq!(get(server.port("plain"), &target).status, 500, "{target}");
        server.wait_for_log(words);
    }
}

#[test]
fn certificates_with_variables_are_read_again_or_kept() {
    let behind = origin_site();
    let origin = nginx_origin(
        &behind,
        "ssl_verify_client optional_no_ca; keepalive_timeout 0;",
    );
    let site = Site::new();
    let copy = |from: &str| {
        for suffix in ["pem", "key"] {
            let path = behind.path(format!("certificates/{from}.{suffix}"));
            let bytes = std::fs::read(path).expect("it was made");
            site.write(format!("ours.{suffix}"), bytes);
        }
    };
    copy("client");
    let server = site.serve(&format!(
        "proxy_ssl_certificate $arg_who.pem; proxy_ssl_certificate_key $arg_who.key;
         server {{ listen 127.0.0.1:%plain%;
            location / {{ proxy_pass https://127.0.0.1:{0}; }}
            location /kept {{ proxy_pass https://127.0.0.1:{0};
                proxy_ssl_certificate_cache max=4 inactive=1h valid=1h; }}
            location /checked {{ proxy_pass https://127.0.0.1:{0};
                proxy_ssl_certificate_cache max=4 inactive=1h valid=0; }} }}",
        origin.port("tls")
    ));
    // Relative names start from the configuration's directory.
    let targets = ["/?who=ours", "/kept?who=ours", "/checked?who=ours"];
    for target in targets {
        assert_eq!(seen(&server, target).client, "CN=client", "{target}");
    }
    copy("other");
    assert_eq!(seen(&server, targets[0]).client, "CN=other");
    assert_eq!(seen(&server, targets[1]).client, "CN=client");
    // What is to be checked after no time at all is checked from the next second on, as the
    // clock goes.
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(seen(&server, targets[2]).client, "CN=other");
    // With two others in the cache the first has left, and is read again.
    for name in ["one", "two"] {
        for suffix in ["pem", "key"] {
            let path = behind.path(format!("certificates/client.{suffix}"));
            let bytes = std::fs::read(path).expect("it was made");
            site.write(format!("{name}.{suffix}"), bytes);
        }
        assert_eq!(
            seen(&server, &format!("/kept?who={name}")).client,
            "CN=client"
        );
    }
    assert_eq!(seen(&server, targets[1]).client, "CN=other");
}

#[test]
fn what_is_wrong_is_found_when_the_configuration_is_read() {
    let site = origin_site();
    site.write("certificates/broken.pem", "no certificate\n");
    let refusal = |directives: &str| {
        let text = format!(
            "events {{}} http {{ server {{ listen 127.0.0.1:%plain%; {directives}
                location / {{ proxy_pass https://127.0.0.1:1; }} }} }}"
        );
        let file = site.write("test.conf", site.fill_in(&text));
        let binary = sealane_tests::sealane_binary();
        let prefix = site.path("").display().to_string();
        let arguments = ["-t", "-p", &prefix, "-c", &file.display().to_string()];
        let outcome = command(&binary.display().to_string(), &arguments, b"");
        assert_ne!(outcome.status, 0, "{directives}");
        outcome.stderr
    };
    for (directives, words) in [
        (
            "proxy_ssl_verify on;",
            "no proxy_ssl_trusted_certificate for proxy_ssl_verify",
        ),
        (
            "proxy_ssl_verify on; proxy_ssl_trusted_certificate certificates/broken.pem;",
            "certificates/broken.pem\"",
        ),
        ("proxy_ssl_ciphers NONSENSE;", "NONSENSE"),
        ("proxy_ssl_conf_command Nonsense 1;", "Nonsense"),
        (
            "proxy_ssl_certificate certificates/client.pem; proxy_ssl_certificate_key certificates/other.key;",
            "certificates/other.key",
        ),
        (
            "proxy_ssl_certificate certificates/client.pem; proxy_ssl_certificate_key certificates/gone.key;",
            "cannot load certificate key",
        ),
        (
            "proxy_ssl_certificate_cache inactive=10s;",
            "must have the \"max\" parameter",
        ),
        (
            "proxy_ssl_certificate_cache max=0;",
            "invalid parameter \"max=0\"",
        ),
    ] {
        let said = refusal(directives);
        assert!(said.contains("[emerg]"), "{directives}: {said}");
        assert!(said.contains(words), "{directives}: {said}");
    }
    // The same settings without TLS are nobody's business.
    let site = Site::new();
    let server = site.serve(
        "proxy_ssl_ciphers NONSENSE;
         server { listen 127.0.0.1:%plain%; location / { return 200 fine; } }",
    );
    assert_eq!(get(server.port("plain"), "/").text(), "fine");
}
