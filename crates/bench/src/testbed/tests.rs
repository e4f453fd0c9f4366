use super::*;

#[test]
fn versions_as_nginx_prints_them() {
    let text = "nginx version: nginx/1.22.1\nbuilt with OpenSSL 3.0.22 25 Aug 2026 (running with OpenSSL 3.0.19 27 Jan 2026)\n\
                TLS SNI support enabled\nconfigure arguments: --with-x\n";
    assert_eq!(
        server::parse_version(text).as_deref(),
        Some("nginx 1.22.1, OpenSSL 3.0.19")
    );
    let text = "nginx version: nginx/1.30.0 (Debian)\nbuilt by gcc 14\nbuilt with OpenSSL 4.0.3 29 Sep 2026\n";
    assert_eq!(
        server::parse_version(text).as_deref(),
        Some("nginx 1.30.0, OpenSSL 4.0.3")
    );
    assert_eq!(
        server::parse_version("sealane version: sealane/0.1.0\n").as_deref(),
        Some("sealane 0.1.0")
    );
    assert_eq!(server::parse_version("usage: something else\n"), None);
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
fn the_template_is_filled_completely() {
    let scratch = std::env::temp_dir().join(format!("sealane-bench-site-{}", std::process::id()));
    let certificates = scratch.join("certificates");
    std::fs::create_dir_all(&certificates).expect("a scratch directory");
    assert!(
        Site::prepare(&scratch, &certificates, false).is_err(),
        "certificates are missing"
    );
    for name in ["p256", "p384", "rsa2048", "rsa4096"] {
        for kind in ["crt", "key"] {
            let path = certificates.join(format!("{name}.{kind}"));
            std::fs::write(path, "").expect("a scratch file");
        }
    }
    let site = Site::prepare(&scratch, &certificates, false).expect("certificates are there");
    let ports = Ports::free().expect("loopback has free ports");
    let variant = site::Variant {
        workers: 3,
        events: "some_event_directive on;",
        directives: "some_directive 1;",
        rsa_directives: "some_rsa_directive 2;",
    };
    let text = site.configuration(&ports, variant);
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect();
    assert!(!code.contains('@'), "{text}");
    for port in ports.all() {
        let listen = format!("listen 127.0.0.1:{port} ");
        assert_eq!(code.matches(&listen).count(), 1, "{listen} in {text}");
    }
    for expected in [
        "worker_processes 3;",
        "some_event_directive on;",
        "some_directive 1;",
        "p384.crt",
        "rsa4096.key",
    ] {
        assert!(code.contains(expected), "{expected} is missing in {text}");
    }
    // RSA-2048, RSA-4096, and what is not tuned.
    assert_eq!(code.matches("some_rsa_directive 2;").count(), 3);
    for (name, bytes) in [("10", 10), ("1k", 1 << 10), ("100k", 100 << 10)] {
        let path = scratch.join("files").join(name);
        let metadata = std::fs::metadata(path).expect("created");
        assert_eq!(metadata.len(), bytes, "{name}");
    }
    std::fs::remove_dir_all(&scratch).expect("cleaning up");
}

#[test]
fn every_other_round_runs_backwards() {
    assert_eq!((order(0, 3), order(1, 3)), (vec![0, 1, 2], vec![2, 1, 0]));
}
