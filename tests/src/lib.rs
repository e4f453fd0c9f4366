//! The end-to-end test harness: the real binary, real clients, one feature per
//! file under `tests/`.
//!
//! A test contains its configuration, with `%name%` as a placeholder for a port, and its
//! assertions:
//!
//! ```no_run
//! use sealane_tests::{Site, wire};
//!
//! let site = Site::new();
//! site.write("html/a.txt", b"hello");
//! let server = site.serve("server { listen 127.0.0.1:%plain%; root html; }");
//! assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
//! ```
//!
//! Every site has its own directory and ports that no other test uses. A server is asked to stop
//! when its value is dropped. A test fails if the server crashed, did not stop, or logged an
//! `[alert]` that the test did not announce. The error log of a failed test is printed.

mod applications;
mod browser;
pub mod caching;
mod certificates;
mod clock;
mod command;
pub mod comparison;
pub mod fastcgi;
mod go;
pub mod http2;
pub mod layer4;
pub mod load;
mod lossy_relay;
pub mod memory;
pub mod metrics;
pub mod misbehaving;
mod name_server;
pub mod nodes;
pub mod origin;
mod pebble;
mod ports;
pub mod quic;
pub mod random;
mod redis;
mod relay;
pub mod reload;
mod server;
mod site;
pub mod takeover;
pub mod terminal;
mod tls_client;
pub mod tokens;
pub mod understanding;
pub mod upgrade;
pub mod wire;

pub use applications::Application;
pub use browser::{browse, browse_by_quic, browse_until_loaded, page_client};
pub use certificates::{Certificate, CertificateKey};
pub use clock::faketime_library;
pub use command::{Outcome, command, sha256, sha256_of_file, sha256_of_output};
pub use go::{collector_path, go_client, go_client_path, go_get, has_go, mail_client_path};
pub use lossy_relay::{LossyRelay, NetworkConditions, RelayCounts};
pub use name_server::NameServer;
pub use pebble::{Pebble, PebbleSettings, TestZone};
pub use redis::Redis;
pub use relay::Relay;
pub use server::{
    Program, Server, nginx_binary, nginx_has_http3, nginx_has_mail, nginx_has_stream,
    sealane_binary,
};
pub use site::Site;
pub use tls_client::{Handshake, client_hello, handshake, handshake_at, handshake_saying};

use std::time::{Duration, Instant};

/// How long a test waits for something that must happen. Generous: a loaded
/// machine must not fail a test, and a passing test never waits this long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The count for this run: `bounded` normally, `long` under `make test-long`.
pub fn scale(bounded: usize, long: usize) -> usize {
    if std::env::var_os("SEALANE_TEST_LONG").is_some_and(|value| value == "1") {
        long
    } else {
        bounded
    }
}

/// The root of the repository.
pub fn repository() -> std::path::PathBuf {
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    tests
        .parent()
        .expect("tests/ lies in the repository")
        .to_path_buf()
}

/// Calls `probe` until it gives a value, and panics with `what` after [`PATIENCE`].
#[track_caller]
pub fn wait_for<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, what, probe)
}

/// The same for something that may take longer than [`PATIENCE`] where nothing is wrong.
#[track_caller]
pub fn wait_within<T>(patience: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    // What takes longer is asked for less often: probes may start programs.
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < deadline, "gave up waiting for {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
