//! What `migrate` and `doctor` say about servers of mail.

use super::*;
use sealane_tests::{Certificate, CertificateKey, command, sealane_binary};

#[test]
fn migrate_and_doctor_know_servers_of_mail() {
    let site = Site::new();
    site.certificate(&Certificate::localhost("a", CertificateKey::P256));
    let text = configuration(
        "auth_http 127.0.0.1:%auth%; server_name mail.example.org;
         ssl_certificate certificates/a.pem; ssl_certificate_key certificates/a.key;
         server { listen 127.0.0.1:%imap%; protocol imap; starttls on; }
         server { listen 127.0.0.1:%imaps% ssl; protocol imap; }
         server { listen 127.0.0.1:%smtp%; protocol smtp; }",
    );
    let file = site.write("mail.conf", site.fill_in(&text));
    let file = file.display().to_string();
    let prefix = site.path("").display().to_string();
    let binary = sealane_binary().display().to_string();
    let migrated = command(&binary, &["migrate", "-p", &prefix, &file], b"").text();
    assert!(migrated.contains("It works without changes"), "{migrated}");
    assert!(migrated.contains("in mail { }"), "{migrated}");
    // Nothing that belongs to HTTP.
    for word in ["http2", "gzip", "in http", "in stream", "location"] {
        assert!(!migrated.contains(word), "{word}: {migrated}");
    }
    let said = command(&binary, &["doctor", "-p", &prefix, "-c", &file], b"").text();
    let place = format!("127.0.0.1:{}", site.port("imaps"));
    assert!(said.contains(&place), "{said}");
    let starttls = format!("127.0.0.1:{} (starttls on)", site.port("imap"));
    assert!(said.contains(&starttls), "{said}");
    let plain = format!("127.0.0.1:{}", site.port("smtp"));
    assert!(!said.contains(&plain), "{said}");
    assert!(!said.contains("sendfile"), "{said}");
}
