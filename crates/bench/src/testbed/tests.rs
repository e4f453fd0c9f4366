use super::*;

#[test]
fn versions_as_nginx_prints_them() {
    let parse = |text| Kind::Nginx.parse_version(text);
    let text = "nginx version: nginx/1.22.1\nbuilt with OpenSSL 3.0.22 25 Aug 2026 (running with OpenSSL 3.0.19 27 Jan 2026)\n\
                TLS SNI support enabled\nconfigure arguments: --with-x\n";
    assert_eq!(parse(text).as_deref(), Some("nginx 1.22.1, OpenSSL 3.0.19"));
    let text = "nginx version: nginx/1.30.0 (Debian)\nbuilt by gcc 14\nbuilt with OpenSSL 4.0.3 29 Sep 2026\n";
    assert_eq!(parse(text).as_deref(), Some("nginx 1.30.0, OpenSSL 4.0.3"));
    assert_eq!(
        parse("sealane version: sealane/0.1.0\n").as_deref(),
        Some("sealane 0.1.0")
    );
    assert_eq!(parse("usage: something else\n"), None);
}

#[test]
fn versions_as_other_servers_print_them() {
    let h2o = "h2o version 2.2.5\nOpenSSL: OpenSSL 3.0.19 27 Jan 2026\nmruby: YES\n";
    let haproxy = "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/\nStatus: long-term\n\
                   Built with OpenSSL version : OpenSSL 3.0.22 25 Aug 2026\n\
                   Running on OpenSSL version : OpenSSL 3.0.19 27 Jan 2026\n";
    let version_of = |kind: Kind, text| kind.parse_version(text);
    assert_eq!(
        version_of(Kind::H2o, h2o).as_deref(),
        Some("H2O 2.2.5, OpenSSL 3.0.19")
    );
    assert_eq!(
        version_of(Kind::Haproxy, haproxy).as_deref(),
        Some("HAProxy 2.6.12, OpenSSL 3.0.19")
    );
    assert_eq!(
        version_of(Kind::Haproxy, "HAProxy version 3.0.2 2024/06/14\n").as_deref(),
        Some("HAProxy 3.0.2")
    );
    // A binary of another kind, or one that breaks off.
    let nginx = "nginx version: nginx/1.22.1\n";
    let outputs = [
        (Kind::Nginx, nginx),
        (Kind::H2o, h2o),
        (Kind::Haproxy, haproxy),
    ];
    for (kind, _) in outputs {
        for (of, text) in outputs {
            assert_eq!(
                version_of(kind, text).is_some(),
                kind == of,
                "{kind:?} {text}"
            );
        }
        let empty = "nginx version: \nh2o version \nHAProxy version \n";
        assert_eq!(version_of(kind, empty), None, "{kind:?}");
    }
}

#[test]
fn server_arguments() {
    let server: Server = "reference=/opt/nginx=x/nginx".parse().expect("name=path");
    assert_eq!(
        (server.name.as_str(), server.path.to_str()),
        ("reference", Some("/opt/nginx=x/nginx"))
    );
    for malformed in ["nginx", "=path", "name=", "../x=path"] {
        assert!(malformed.parse::<Server>().is_err(), "{malformed}");
    }
}

#[test]
fn every_template_is_filled_completely() {
    let scratch = std::env::temp_dir().join(format!("sealane-bench-site-{}", std::process::id()));
    let certificates = scratch.join("certificates");
    std::fs::create_dir_all(&certificates).expect("a scratch directory");
    assert!(
        Site::prepare(&scratch, &certificates, File::Mebibyte.bytes()).is_err(),
        "certificates are missing"
    );
    for name in ["p256", "p384", "rsa2048", "rsa4096"] {
        for kind in ["crt", "key"] {
            let path = certificates.join(format!("{name}.{kind}"));
            std::fs::write(path, "").expect("a scratch file");
        }
    }
    assert!(
        Site::prepare(&scratch, &certificates, File::Mebibyte.bytes()).is_err(),
        "OCSP responses are missing"
    );
    for name in ["p256", "rsa2048"] {
        for file in [format!("{name}.ocsp"), format!("{name}-root.crt")] {
            std::fs::write(certificates.join(file), "").expect("a scratch file");
        }
    }
    let mut site = Site::prepare(&scratch, &certificates, File::Mebibyte.bytes())
        .expect("certificates are there");
    site.set_origin(([127, 0, 0, 1], 7).into(), ([127, 0, 0, 1], 11).into());
    let ports = Ports::free().expect("loopback has free ports");
    let variant = site::Variant {
        workers: 3,
        additions: Additions {
            names: 0,
            stream: true,
            http3: true,
        },
        main: "some_main_directive on;",
        events: "some_event_directive on;",
        directives: "some_directive 1;",
        rsa_directives: "some_rsa_directive 2;",
        upstream_directives: "some_upstream_directive 3;",
    };
    let is_addition = |listener: Listener| listener.passes_on() || listener == Listener::Http3;
    for (kind, listen, workers) in [
        (Kind::Nginx, "listen 127.0.0.1:PORT ", "worker_processes 3;"),
        (Kind::H2o, "port: PORT\n", "num-threads: 3\n"),
        (Kind::Haproxy, "bind 127.0.0.1:PORT", "nbthread 3\n"),
    ] {
        let code = without_comments(&site.configuration(kind, &ports, variant));
        assert!(!code.contains('@'), "{code}");
        for listener in Listener::ALL {
            let listen = listen.replace("PORT", &ports.of(listener).to_string());
            let has_additions =
                kind == Kind::Nginx || (kind, listener) == (Kind::H2o, Listener::Http3);
            let count = usize::from(!is_addition(listener) || has_additions);
            assert_eq!(code.matches(&listen).count(), count, "{listen} in {code}");
        }
        for expected in [
            workers,
            "p384.crt",
            "rsa4096.crt",
            "TLSv1.2",
            "16384",
            "127.0.0.1:7",
        ] {
            assert!(code.contains(expected), "{expected} is missing in {code}");
        }
    }
    let nginx = without_comments(&site.configuration(Kind::Nginx, &ports, variant));
    for expected in [
        "some_main_directive on;",
        "some_event_directive on;",
        "some_directive 1;",
        "rsa4096.key",
    ] {
        assert!(nginx.contains(expected), "{expected} is missing in {nginx}");
    }
    let named = site::Variant {
        additions: Additions {
            names: 2,
            ..variant.additions
        },
        ..variant
    };
    let named = site.configuration(Kind::Nginx, &ports, named);
    let listen = format!("listen 127.0.0.1:{} ssl", ports.of(Listener::P256));
    assert_eq!(named.matches(&listen).count(), 3, "{named}");
    for index in [0, 1] {
        let name = format!("server_name {};", server_name(index));
        assert_eq!(named.matches(&name).count(), 1, "{name} in {named}");
    }
    assert!(!without_comments(&named).contains('@'), "{named}");
    // RSA-2048, with and without an OCSP response, RSA-4096, and what is not tuned.
    assert_eq!(nginx.matches("some_rsa_directive 2;").count(), 4);
    for (name, bytes) in [("10", 10), ("1k", 1 << 10), ("100k", 100 << 10)] {
        let path = scratch.join("files").join(name);
        let metadata = std::fs::metadata(path).expect("created");
        assert_eq!(metadata.len(), bytes, "{name}");
    }
    site.clear_caches("one").expect("nothing to clear");
    let caches = scratch.join("one/cache");
    std::fs::create_dir(caches.join("limited")).expect("a scratch directory");
    site.clear_caches("one").expect("a directory to clear");
    assert!(caches.is_dir() && !caches.join("limited").exists());
    std::fs::remove_dir_all(&scratch).expect("cleaning up");
}

fn without_comments(configuration: &str) -> String {
    let is_code = |line: &&str| !line.trim_start().starts_with('#');
    let lines = configuration.lines().filter(is_code);
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn all_kinds_get_the_same_suites_and_groups() {
    let of_nginx = |name: &str| {
        let lines = Kind::Nginx.template().lines().map(str::trim);
        let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_suffix(';'));
        values.next().expect("nginx.conf sets it").to_owned()
    };
    let suites = of_nginx("ssl_ciphers ");
    let groups = of_nginx("ssl_ecdh_curve ");
    let suites_of_tls13 = of_nginx("ssl_conf_command Ciphersuites ");
    // H2O has a setting only for the suites below TLS 1.3.
    for (kind, setting, count) in [
        (Kind::H2o, format!("cipher-suite: {suites}\n"), 1),
        (
            Kind::Haproxy,
            format!("ssl-default-bind-ciphers {suites}\n"),
            1,
        ),
        (
            Kind::Haproxy,
            format!("ssl-default-bind-ciphersuites {suites_of_tls13}\n"),
            1,
        ),
        // All except plain HTTP, what browsers meet, and what is not tuned.
        (Kind::Haproxy, format!(" curves {groups}"), 9),
    ] {
        let found = kind.template().matches(&setting).count();
        assert_eq!(found, count, "{setting} for {kind:?}");
    }
}

#[test]
fn every_kind_starts_in_the_foreground_with_its_configuration() {
    let arguments = |kind: Kind| {
        let mut command = std::process::Command::new("server");
        kind.add_arguments(&mut command, "/w".as_ref(), "/w/its.conf".as_ref());
        let arguments = command
            .get_args()
            .map(|argument| argument.to_string_lossy());
        arguments.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        arguments(Kind::Nginx),
        "-p /w -c /w/its.conf -e /w/error.log -g daemon off;"
    );
    assert_eq!(arguments(Kind::H2o), "-c /w/its.conf");
    assert_eq!(arguments(Kind::Haproxy), "-db -f /w/its.conf");
}

#[test]
fn every_other_round_runs_backwards() {
    assert_eq!((order(0, 3), order(1, 3)), (vec![0, 1, 2], vec![2, 1, 0]));
}
