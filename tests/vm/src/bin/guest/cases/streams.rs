//! Sessions of `stream`: what is passed on to a client goes through a pipe into a socket whose
//! records the kernel seals.

use crate::client::curl;
use crate::lab::{Lab, assert_same, block, http};
use crate::server::{Kind, Server};
use std::os::unix::fs::PermissionsExt;

/// TLS ends here, and the origin is plain.
const ENDED: u16 = 5433;
/// The same, with TLS to the origin.
const BEGUN: u16 = 5434;
/// `ssl_ktls off`.
const OFF: u16 = 5435;
const ORIGIN: u16 = 5080;
const SECURE_ORIGIN: u16 = 5443;

/// Large enough for many rounds of every buffer on the way.
const UPLOAD_BYTES: usize = 16 << 20;
const UPLOADS: &str = "/tmp/servers/uploads";

fn configuration() -> String {
    let put =
        format!("location /up/ {{ alias {UPLOADS}/; dav_methods PUT; client_max_body_size 64m; }}");
    let site = http(&[
        "client_body_temp_path /tmp/servers/uploads/temp;".to_owned(),
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
    std::fs::create_dir_all(UPLOADS).expect("/tmp is writable");
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(UPLOADS, everybody).expect("it is ours");
    let ports = [ENDED, BEGUN, OFF, ORIGIN, SECURE_ORIGIN];
    Server::start(Kind::Sealane, "streams", &configuration(), &ports)
}

/// Sends a file through a port, and looks at what has arrived.
#[track_caller]
fn upload(port: u16, bytes: &[u8]) {
    let name = format!("from-{port}");
    let (source, target) = (format!("/tmp/servers/{name}"), format!("{UPLOADS}/{name}"));
    std::fs::write(&source, bytes).expect("/tmp is writable");
    let url = format!("https://127.0.0.1:{port}/up/{name}");
    curl(&["-f", "-T", &source, &url]).success();
    assert_same(&std::fs::read(&target).expect("it has arrived"), bytes);
    let _ = std::fs::remove_file(target);
}

pub(crate) fn both_ways(lab: &Lab) {
    let server = start(lab);
    let pattern = (0..UPLOAD_BYTES).map(|at| (at * 7 + at / 4099) as u8);
    let bytes: Vec<u8> = pattern.collect();
    for (port, sealed) in [(ENDED, 1), (BEGUN, 1), (OFF, 0)] {
        lab.settle_counters();
        lab.download(port, "4m", &[]);
        // Towards the origin, and what clients send, records are those of the process; the origin
        // of `BEGUN` is this server as well, and seals what it sends.
        let origin = u64::from(port == BEGUN);
        assert_eq!(lab.sealed_connections(), sealed + origin, "port {port}");
        assert_eq!(lab.received_connections(), 0, "port {port}");
        upload(port, &bytes);
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
