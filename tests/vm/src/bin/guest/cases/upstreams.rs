//! Connections to other servers whose records the kernel seals (`proxy_ssl_ktls`).

use crate::client::curl;
use crate::kernel::can_rekey;
use crate::lab::{Lab, block, http};
use crate::server::{Kind, Server};
use crate::uploads::{UPLOAD_TEMP_PATH, prepare_uploads, upload, uploaded_bytes, uploads};

/// Sessions without TLS that go on over TLS, by what the port tries.
const BY_DEFAULT: u16 = 5441;
const TLS12: u16 = 5442;
const OFF: u16 = 5443;
const FEW_RECORDS: u16 = 5444;
/// TLS on both sides.
const AGAIN: u16 = 5445;
/// Requests.
const REQUESTS: u16 = 5446;
/// The server behind all of them. What it sends is its own affair.
const ORIGIN: u16 = 5447;

const PORTS: [u16; 7] = [BY_DEFAULT, TLS12, OFF, FEW_RECORDS, AGAIN, REQUESTS, ORIGIN];

fn configuration() -> String {
    let site = http(&[
        UPLOAD_TEMP_PATH.to_owned(),
        block(ORIGIN, &format!("ssl_ktls off; {}", uploads())),
        format!(
            "upstream kept {{ server 127.0.0.1:{ORIGIN}; keepalive 4; }}
            server {{
                listen 127.0.0.1:{REQUESTS};
                client_max_body_size 64m;
                location = /metrics {{ metrics; }}
                location / {{
                    proxy_pass https://kept; proxy_http_version 1.1; proxy_set_header Connection \"\";
                }}
            }}"
        ),
    ]);
    let server = |port, more: &str| {
        format!("server {{ listen {port}; proxy_ssl on; proxy_pass 127.0.0.1:{ORIGIN}; {more} }}")
    };
    format!(
        "{site}
        stream {{
            ssl_certificate /tmp/servers/rsa.pem;
            ssl_certificate_key /tmp/servers/rsa.key;
            ssl_ktls off;
            {}
            {}
            {}
            {}
            {}
        }}",
        server(&format!("127.0.0.1:{BY_DEFAULT}"), ""),
        server(
            &format!("127.0.0.1:{TLS12}"),
            "proxy_ssl_protocols TLSv1.2;"
        ),
        server(&format!("127.0.0.1:{OFF}"), "proxy_ssl_ktls off;"),
        server(
            &format!("127.0.0.1:{FEW_RECORDS}"),
            // Not `on`: who only looks whether the port listens is not to be counted.
            "proxy_ssl_ktls auto key_records=100;"
        ),
        server(&format!("127.0.0.1:{AGAIN} ssl"), "proxy_ssl_ktls on;"),
    )
}

fn start(lab: &Lab) -> Server {
    lab.prepare();
    prepare_uploads();
    Server::start(Kind::Sealane, "upstreams", &configuration(), &PORTS)
}

pub(crate) fn towards_servers(lab: &Lab) {
    let server = start(lab);
    let bytes = uploaded_bytes();
    let plain = |port| format!("http://127.0.0.1:{port}");
    // A session that sends little is not worth it.
    lab.settle_counters();
    upload(&plain(BY_DEFAULT), b"little");
    assert_eq!(lab.sealed_connections(), 0);
    let cases = [
        (plain(BY_DEFAULT), 1),
        (plain(TLS12), 1),
        (plain(OFF), 0),
        (format!("https://127.0.0.1:{AGAIN}"), 1),
        // The body goes from a temporary file.
        (plain(REQUESTS), 1),
    ];
    for (site, sealed) in cases {
        lab.settle_counters();
        upload(&site, &bytes);
        assert_eq!(lab.sealed_connections(), sealed, "{site}");
        assert_eq!(lab.received_connections(), 0, "{site}");
    }
    let url = format!("{}/metrics", plain(REQUESTS));
    let metrics = curl(&["-f", &url]).success().text();
    let counted = "\nsealane_upstream_kernel_tls_connections_total 4\n";
    assert!(metrics.contains(counted), "{metrics}");
    server.check();
    server.stop();
}

/// The kernel seals for a connection that requests share, one after the other.
pub(crate) fn kept_connections(lab: &Lab) {
    let server = start(lab);
    let bytes = uploaded_bytes();
    let site = format!("http://127.0.0.1:{REQUESTS}");
    lab.settle_counters();
    for _ in 0..3 {
        upload(&site, &bytes);
        curl(&["-f", &format!("{site}/small")]).success();
    }
    assert_eq!(lab.sealed_connections(), 1);
    server.check();
    server.stop();
}

/// A key seals so many records and no more, as towards clients.
pub(crate) fn limit_per_key_of_upstreams(lab: &Lab) {
    let server = start(lab);
    lab.settle_counters();
    let site = format!("http://127.0.0.1:{FEW_RECORDS}");
    if can_rekey() {
        upload(&site, &uploaded_bytes());
        assert!(lab.changed_keys() >= 10, "{} keys", lab.changed_keys());
    } else {
        let source = "/tmp/servers/too-much";
        std::fs::write(source, uploaded_bytes()).expect("/tmp is writable");
        let outcome = curl(&["-f", "-T", source, &format!("{site}/up/too-much")]);
        assert_ne!(outcome.status, 0);
        server.wait_for_log("has reached \"proxy_ssl_ktls key_records=\"");
    }
    assert_eq!(lab.sealed_connections(), 1);
    server.check();
    server.stop();
}
