//! Resumption: tickets and the session cache, as clients see it.

#[path = "sessions/processes.rs"]
mod processes;

use sealane_tests::{Certificate, CertificateKey, Server, Site, handshake};

fn serve<'a>(site: &'a Site, directives: &str) -> Server<'a> {
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    serve_with_existing_certificate(site, directives)
}

fn serve_with_existing_certificate<'a>(site: &'a Site, directives: &str) -> Server<'a> {
    site.serve(&format!(
        "server {{ listen 127.0.0.1:%tls% ssl;
            ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key; {directives}
            location = /tls {{ return 200 \"<$ssl_session_reused>\"; }} }}"
    ))
}

/// Whether a second connection resumes the session of a first one.
#[track_caller]
fn resumes(server: &Server<'_>, site: &Site, options: &str) -> bool {
    let file = site.path("session.pem");
    let _ = std::fs::remove_file(&file);
    let first = handshake(server, &format!("{options} -sess_out {}", file.display()));
    assert!(first.succeeded() && !first.resumed, "{}", first.output);
    if !file.exists() {
        return false;
    }
    let second = handshake(server, &format!("{options} -sess_in {}", file.display()));
    assert!(second.succeeded(), "{}", second.output);
    assert_eq!(
        second.output.contains("<r>"),
        second.resumed,
        "$ssl_session_reused agrees: {}",
        second.output
    );
    second.resumed
}

#[test]
fn tickets_resume_in_both_protocols() {
    let site = Site::new();
    let server = serve(&site, "");
    assert!(resumes(&server, &site, "-tls1_2"));
    assert!(resumes(&server, &site, "-tls1_3"));
}

#[test]
fn without_tickets_and_cache_nothing_resumes() {
    let site = Site::new();
    let server = serve(&site, "ssl_session_tickets off;");
    assert!(!resumes(&server, &site, "-tls1_2"));
    assert!(!resumes(&server, &site, "-tls1_3"));
}

#[test]
fn the_cache_resumes_sessions_without_tickets() {
    let site = Site::new();
    let server = serve(
        &site,
        "ssl_session_tickets off; ssl_session_cache shared:TLS:1m;",
    );
    assert!(resumes(&server, &site, "-tls1_2"));
}

#[test]
fn tickets_from_a_key_file_resume_on_another_server() {
    let (here, there) = (Site::new(), Site::new());
    for site in [&here, &there] {
        site.write("ticket.key", [7; 80]);
    }
    let first = serve(&here, "ssl_session_ticket_key ticket.key;");
    // Two nodes of one site have the same certificate.
    for file in ["authority.pem", "authority.key", "site.pem", "site.key"] {
        let path = format!("certificates/{file}");
        let content = std::fs::read(here.path(&path)).expect("the first site has it");
        there.write(&path, content);
    }
    let second = serve_with_existing_certificate(&there, "ssl_session_ticket_key ticket.key;");
    for protocol in ["-tls1_2", "-tls1_3"] {
        let file = here.path("session.pem");
        assert!(handshake(&first, &format!("{protocol} -sess_out {}", file.display())).succeeded());
        let moved = handshake(&second, &format!("{protocol} -sess_in {}", file.display()));
        assert!(moved.resumed, "{protocol}: {}", moved.output);
    }
}
