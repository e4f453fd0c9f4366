//! The two reference configurations of `examples/`, as an operator would start
//! them: only the port differs.

use sealane_tests::wire::Response;
use sealane_tests::{
    Server, Site, command, handshake, random::Random, repository, sealane_binary, sha256, wait_for,
};

/// Starts `examples/NAME/nginx.conf` with its own certificates script.
fn start<'a>(site: &'a Site, name: &str, port_in_file: &str) -> Server<'a> {
    let repository = repository();
    let script = repository.join("scripts/make-certificates.sh");
    let certificates = site.path("certificates");
    command("bash", &[&script, &certificates], b"").success();
    let configuration =
        std::fs::read_to_string(repository.join("examples").join(name).join("nginx.conf"));
    let configuration = configuration.expect("the example is part of the repository");
    assert_eq!(
        configuration.matches(port_in_file).count(),
        1,
        "the port to replace"
    );
    site.serve_whole(&configuration.replace(port_in_file, "127.0.0.1:%tls%"))
}

#[track_caller]
fn curl(site: &Site, server: &Server<'_>, options: &[&str], target: &str) -> Response {
    let authority = site.authority().display().to_string();
    let url = format!("https://localhost:{}{target}", server.port("tls"));
    let mut arguments = vec![
        "-sS",
        "--ipv4",
        "--cacert",
        &authority,
        "-D",
        "/dev/stderr",
        &url,
    ];
    arguments.extend(options);
    let outcome = command("curl", &arguments, b"").success();
    let status = outcome
        .stderr
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .expect("a status line");
    Response {
        status,
        head: outcome.stderr.trim_end().to_owned(),
        body: outcome.stdout,
    }
}

/// Lines of the error log about a directive that is accepted and not yet used.
fn warnings_about(site: &Site, directive: &str) -> usize {
    let log = std::fs::read_to_string(site.path("logs/error.log")).expect("an error log");
    log.lines()
        .filter(|line| line.contains("[warn]") && line.contains(directive))
        .count()
}

#[test]
fn kernel_tls_with_sendfile() {
    let site = Site::new();
    let content = Random::new(1).bytes(5_000_000);
    site.write("data/file.bin", &content);
    let server = start(&site, "s1", "127.0.0.1:8441");
    let response = curl(&site, &server, &["--tlsv1.3"], "/file.bin");
    assert_eq!(
        (response.status, sha256(&response.body)),
        (200, sha256(&content))
    );
    let handshake = handshake(&server, "-tls1_3 -ciphersuites TLS_AES_256_GCM_SHA384");
    assert_eq!(
        handshake.cipher, "TLS_AES_256_GCM_SHA384",
        "{}",
        handshake.output
    );
    assert!(
        !sealane_tests::handshake(&server, "-tls1_2").succeeded(),
        "only TLS 1.3 is configured"
    );
    let log = server.error_log();
    assert_eq!(warnings_about(&site, "KTLS"), 0, "{log}");
    // Whatever this machine's kernel can: either it seals, or the start has said
    // once why not. (`tests/vm` proves it on kernels that can.)
    let refused = log.matches("kernel TLS is not used, ").count();
    let sealed = log.matches("BIO_get_ktls_send(): 1").count();
    assert!(
        (refused == 1 && sealed == 0) || (refused == 0 && sealed > 0),
        "{log}"
    );
}

#[test]
fn tickets_cache_stapling_and_hsts() {
    let site = Site::new();
    site.write("html/index.html", "tuned");
    site.write("tls_session_ticket.key", Random::new(2).bytes(80));
    let server = start(&site, "s3", "127.0.0.1:8443");
    let response = curl(&site, &server, &[], "/");
    assert_eq!((response.status, response.text().as_str()), (200, "tuned"));
    assert_eq!(
        response.header("strict-transport-security"),
        Some("max-age=15768000")
    );

    let first_choice = handshake(&server, "-tls1_2");
    assert_eq!(
        first_choice.cipher, "ECDHE-RSA-AES256-SHA384",
        "{}",
        first_choice.output
    );
    let old = handshake(&server, "-tls1 -cipher ALL:@SECLEVEL=0");
    assert_eq!(old.protocol, "TLSv1", "{}", old.output);
    assert!(
        !handshake(&server, "-tls1_3").succeeded(),
        "TLS 1.3 is not configured"
    );

    let session = site.path("session.pem");
    handshake(&server, &format!("-tls1_2 -sess_out {}", session.display()));
    let again = handshake(&server, &format!("-tls1_2 -sess_in {}", session.display()));
    assert!(again.resumed, "{}", again.output);

    // The certificate of the test names no responder. The log has errors alone; the terminal
    // shows it.
    let said = "[warn] \"ssl_stapling\" ignored, no OCSP responder URL in the certificate";
    let log = server.error_log();
    assert_eq!(log.matches(said).count(), 1, "{log}");
    assert_eq!(
        warnings_about(&site, "ssl_session_ticket_key"),
        0,
        "ticket keys are used"
    );
}

/// It is not started: it would ask a public server.
#[test]
fn the_example_of_acme_is_valid() {
    let site = Site::new();
    let example = repository().join("examples/acme/nginx.conf");
    let text = std::fs::read_to_string(example).expect("part of the repository");
    let file = site.write("nginx.conf", text).display().to_string();
    let prefix = site.path("").display().to_string();
    let program = sealane_binary().display().to_string();
    let outcome = command(&program, &["-t", "-p", &prefix, "-c", &file], b"").success();
    assert!(!outcome.stderr.contains("[warn]"), "{}", outcome.stderr);
}

#[test]
fn the_quickstart_serves_what_its_page_promises() {
    let site = Site::new();
    let quickstart = repository().join("examples/quickstart");
    for directory in ["html", "files"] {
        command(
            "cp",
            &[
                "-r".as_ref(),
                quickstart.join(directory).as_os_str(),
                site.path("").as_os_str(),
            ],
            b"",
        )
        .success();
    }
    let script = repository().join("scripts/make-certificates.sh");
    command("bash", &[&script, &site.path("certificates")], b"").success();
    let configuration =
        std::fs::read_to_string(quickstart.join("nginx.conf")).expect("part of the repository");
    let configuration = configuration
        .replace("listen      8443 ssl;", "listen 127.0.0.1:%tls% ssl;")
        .replace("listen      [::]:8443 ssl;", "");
    let server = site.serve_whole(&configuration);
    let page = curl(&site, &server, &[], "/");
    assert!(page.text().contains("Sealane is serving"));
    assert_eq!(page.header("content-type"), Some("text/html"));
    for (target, status, text) in [
        ("/style.css", 200, "body"),
        ("/files/", 200, "hello.txt"),
        ("/files/hello.txt", 200, "Hello over TLS."),
        ("/status", 200, "Active connections"),
        ("/tls", 200, "TLSv1.3"),
        ("/missing", 404, "Not here"),
    ] {
        let response = curl(&site, &server, &[], target);
        assert_eq!(response.status, status, "{target}");
        assert!(
            response.text().contains(text),
            "{target}: {}",
            response.text()
        );
    }
    wait_for("the access log", || {
        let log = std::fs::read_to_string(site.path("logs/access.log")).unwrap_or_default();
        log.contains("\"GET /missing HTTP/1.1\" 404").then_some(())
    });
}
