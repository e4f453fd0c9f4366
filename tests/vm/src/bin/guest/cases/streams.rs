//! Sessions of `stream`: what is passed on to a client goes through a pipe into a socket whose
//! records the kernel seals.

use crate::client::curl;
use crate::lab::{Lab, assert_same, block, http};
use crate::server::{Kind, Server};
use crate::uploads::{UPLOAD_TEMP_PATH, prepare_uploads, upload, uploaded_bytes, uploads};

/// TLS ends here, and the origin is plain.
const ENDED: u16 = 5433;
/// The same, with TLS to the origin.
const BEGUN: u16 = 5434;
/// `ssl_ktls off`.
const OFF: u16 = 5435;
const ORIGIN: u16 = 5080;
const SECURE_ORIGIN: u16 = 5443;

fn configuration() -> String {
    let put = uploads();
    let site = http(&[
        UPLOAD_TEMP_PATH.to_owned(),
        format!("server {{ listen 127.0.0.1:{ORIGIN}; location / {{ root /data; }} {put} }}"),
        block(SECURE_ORIGIN, &put),
    ]);
    let server = |port, more: &str| format!("server {{ listen 127.0.0.1:{port} ssl; {more} }}");
    format!(
        "{site}
        stream {{
            ssl_certificate /tmp/servers/rsa.pem;
            ssl_certificate_key /tmp/servers/rsa.key;
            ssl_ktls on;
            {}
            {}
            {}
        }}",
        server(ENDED, &format!("proxy_pass 127.0.0.1:{ORIGIN};")),
        server(
            BEGUN,
            &format!("proxy_ssl on; proxy_pass 127.0.0.1:{SECURE_ORIGIN};")
        ),
        server(
            OFF,
            &format!("ssl_ktls off; proxy_pass 127.0.0.1:{ORIGIN};")
        ),
    )
}

fn start(lab: &Lab) -> Server {
    lab.prepare();
    prepare_uploads();
    let ports = [ENDED, BEGUN, OFF, ORIGIN, SECURE_ORIGIN];
    Server::start(Kind::Sealane, "streams", &configuration(), &ports)
}

pub(crate) fn both_ways(lab: &Lab) {
    let server = start(lab);
    let bytes = uploaded_bytes();
    for (port, sealed) in [(ENDED, 1), (BEGUN, 1), (OFF, 0)] {
        lab.settle_counters();
        lab.download(port, "4m", &[]);
        // Towards the origin, and what clients send, records are those of the process; the origin
        // of `BEGUN` is this server as well, and seals what it sends.
        let origin = u64::from(port == BEGUN);
        assert_eq!(lab.sealed_connections(), sealed + origin, "port {port}");
        assert_eq!(lab.received_connections(), 0, "port {port}");
        upload(&format!("https://127.0.0.1:{port}"), &bytes);
    }
    server.check();
    server.stop();
}

pub(crate) fn reload_meanwhile(lab: &Lab) {
    let server = start(lab);
    let expected = std::fs::read("/data/4m").expect("the site has the file");
    let slow: Vec<_> = [ENDED, BEGUN]
        .map(|port| {
            let url = format!("https://127.0.0.1:{port}/4m");
            std::thread::spawn(move || curl(&["--limit-rate", "1m", &url]).success().stdout)
        })
        .into();
    for round in 0..lab.scale(5, 50) {
        server.mark();
        server.reconfigure(&format!("{}\n# {round}\n", configuration()));
        server.wait_for_log("continues with the new configuration");
        lab.download(ENDED, "4m", &[]);
    }
    for client in slow {
        assert_same(&client.join().expect("curl has ended well"), &expected);
    }
    server.check();
    server.stop();
}
