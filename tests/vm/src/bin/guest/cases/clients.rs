//! Clients that read slowly, leave early, or leave half.

use crate::client::{KEY_LOG, SClient, curl, get};
use crate::kernel::{TlsCounters, small_buffers};
use crate::lab::{BOTH, Lab, S1, SUITES, assert_same};
use crate::program::wait_for;
use crate::relay::Relay;
use crate::sniffer::Sniffer;
use std::time::Duration;

#[track_caller]
fn wait_until_closed() {
    wait_for("TlsCurrTxSw to fall to 0", || {
        (TlsCounters::read().open == 0).then_some(())
    });
}

pub(crate) fn slow_reader(lab: &Lab) {
    lab.server();
    lab.settle_counters();
    let _buffers = small_buffers();
    let relay = Relay::start(S1, 16384, Duration::from_millis(5));
    let url = format!("https://127.0.0.1:{}/4m", relay.port);
    let outcome = curl(&[&url]).success();
    assert_same(
        &outcome.stdout,
        &std::fs::read("/data/4m").expect("the site has the file"),
    );
    assert_eq!(lab.sealed_connections(), 1);
}

/// Responses with `Connection: close` that fill the socket's buffers more or less, to a client
/// that is slower than the server. The kernel says that it has taken bytes when it has sealed
/// them; a last record that TCP has no room for yet must not be lost when the server closes.
pub(crate) fn slow_reader_to_the_last_byte(lab: &Lab) {
    lab.server();
    lab.settle_counters();
    let file = std::fs::read("/data/4m").expect("the site has the file");
    let sizes: Vec<usize> = (20_000..120_000).step_by(lab.scale(5000, 500)).collect();
    let sniffer = Sniffer::start(BOTH);
    let buffers = small_buffers();
    let mut lost = Vec::new();
    for (round, size) in sizes.iter().enumerate() {
        let suite = SUITES[[2, 5, 6, 7][round % 4]];
        let relay = Relay::start(BOTH, 4096, Duration::from_millis(10));
        let url = format!("https://127.0.0.1:{}/4m", relay.port);
        let range = format!("0-{}", size - 1);
        let options = ["-H", "Connection: close", "-r", &range, &url];
        let outcome = curl(&[&suite.curl()[..], &[suite.name], &options].concat());
        if outcome.status != 0 || outcome.stdout != file[..*size] {
            lost.push(format!(
                "{size} bytes, {}: {}",
                suite.name,
                outcome.stderr.trim()
            ));
        }
    }
    drop(buffers);
    let seen = sniffer.finish();
    let cut: Vec<String> = seen
        .iter()
        .filter(|seen| seen.server.incomplete_bytes > 0 || seen.server.alerts() != [(1, 0)])
        .map(|seen| {
            format!(
                "{} bytes of data, {} bytes of a record that is not whole, alerts {:?}",
                seen.server.application_data().len(),
                seen.server.incomplete_bytes,
                seen.server.alerts()
            )
        })
        .collect();
    assert!(
        lost.is_empty() && cut.is_empty(),
        "of {} responses, clients did not get:\n{}\nand the wire had:\n{}",
        sizes.len(),
        lost.join("\n"),
        cut.join("\n")
    );
    assert_eq!(lab.sealed_connections(), sizes.len() as u64);
}

/// Starts a download through a relay and cuts it in the middle.
#[track_caller]
fn vanish(port: u16, tls: &str) {
    let relay = Relay::start(port, 16384, Duration::ZERO);
    let url = format!("https://127.0.0.1:{}/4m", relay.port);
    let tls = tls.to_owned();
    let download = std::thread::spawn(move || curl(&["--tls-max", &tls, &url]));
    wait_for("the download to begin", || {
        (relay.pieces() >= 10).then_some(())
    });
    relay.hold(true);
    relay.cut();
    let outcome = download.join().expect("curl runs");
    assert_ne!(outcome.status, 0, "curl has to notice");
}

pub(crate) fn client_that_vanishes(lab: &Lab) {
    lab.server();
    lab.settle_counters();
    let _buffers = small_buffers();
    vanish(S1, "1.3");
    vanish(BOTH, "1.2");
    assert_eq!(lab.sealed_connections(), 2);
    wait_until_closed();
    lab.download(S1, "4m", &[]);
}

pub(crate) fn many_clients_that_vanish(lab: &Lab) {
    lab.server();
    lab.settle_counters();
    let _buffers = small_buffers();
    let count = lab.scale(20, 500);
    for _ in 0..count {
        vanish(S1, "1.3");
    }
    assert_eq!(lab.sealed_connections(), count as u64);
    wait_until_closed();
    lab.download(S1, "4m", &[]);
}

/// A client that has said everything and still listens: curl never does this,
/// s_client does it at the end of its input.
pub(crate) fn half_closed_by_the_client(lab: &Lab) {
    lab.server();
    lab.settle_counters();
    std::fs::write(KEY_LOG, b"").expect("/tmp is writable");
    let mut client = SClient::connect(S1, &[]);
    client.send(&get("/4m"));
    let response = client.response(0);
    assert_same(
        &response.body,
        &std::fs::read("/data/4m").expect("the site has the file"),
    );
    client.finish();
    wait_until_closed();
    assert_eq!(lab.sealed_connections(), 1);
}
