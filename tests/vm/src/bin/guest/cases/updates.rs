//! KeyUpdate: the client may change its own key, and may ask the server to change its.

use crate::client::{SClient, curl, get};
use crate::kernel::{can_rekey, small_buffers};
use crate::lab::{BOTH, KEY_RECORDS, LIMITED, Lab, S1, SUITES, assert_same};
use crate::relay::Relay;
use crate::sniffer::Sniffer;
use std::collections::BTreeMap;
use std::time::Duration;

fn four_mebibytes() -> Vec<u8> {
    std::fs::read("/data/4m").expect("the site has the file")
}

/// `k`: the client turns its key and asks for nothing. Every kernel goes on.
pub(crate) fn key_update_without_request(lab: &Lab) {
    lab.server();
    lab.settle_counters();
    let sniffer = Sniffer::start(S1);
    let mut client = SClient::connect(S1, &[]);
    let mut at = 0;
    for _ in 0..3 {
        client.send(&get("/4m"));
        let response = client.response(at);
        assert_same(&response.body, &four_mebibytes());
        at += response.bytes;
        client.command('k');
    }
    client.finish();
    assert_eq!((lab.sealed_connections(), lab.changed_keys()), (1, 0));
    assert_eq!(sniffer.finish_one().server.key_updates(), 0);
}

/// `K`: the client wants the server to turn its key, too. Linux 6.14 and later do; before, the
/// server ends the connection in order, and says why.
pub(crate) fn key_update_with_request(lab: &Lab) {
    for suite in [SUITES[5], SUITES[6], SUITES[7]] {
        let server = lab.server();
        lab.settle_counters();
        let sniffer = Sniffer::start(BOTH);
        let mut client = SClient::connect(BOTH, &suite.s_client());
        client.send(&get("/4m"));
        let first = client.response(0);
        assert_same(&first.body, &four_mebibytes());
        client.command('K');
        client.send(&get("/4m"));
        if can_rekey() {
            let second = client.response(first.bytes);
            assert_same(&second.body, &four_mebibytes());
            let at = first.bytes + second.bytes;
            client.command('K');
            client.send(&get("/small"));
            client.response(at);
            client.finish();
            let seen = sniffer.finish_one();
            assert_eq!(
                (seen.server.key_updates(), lab.changed_keys()),
                (2, 2),
                "{}",
                suite.name
            );
        } else {
            let (received, said) = client.ended_by_server();
            assert_eq!(
                received.len(),
                first.bytes,
                "nothing under a key that should have been turned"
            );
            let seen = sniffer.finish_one();
            assert_eq!(
                seen.server.alerts(),
                [(1, 0)],
                "close_notify; s_client says: {said}"
            );
            assert_eq!(seen.server.key_updates(), 0);
            server.wait_for_log("KeyUpdate");
        }
        assert_eq!(lab.sealed_connections(), 1);
    }
}

/// The request arrives while the server is busy sending, with the socket full: the answer has to
/// find its place between two records.
pub(crate) fn key_update_while_sending(lab: &Lab) {
    lab.server();
    lab.settle_counters();
    let sniffer = Sniffer::start(S1);
    let buffers = small_buffers();
    let relay = Relay::start(S1, 16384, Duration::from_millis(2));
    let mut client = SClient::connect(relay.port, &[]);
    client.send(&get("/4m"));
    relay.hold(true);
    client.command('K');
    relay.hold(false);
    let first = client.response(0);
    assert_same(&first.body, &four_mebibytes());
    client.send(&get("/4m"));
    if can_rekey() {
        let second = client.response(first.bytes);
        assert_same(&second.body, &four_mebibytes());
        client.finish();
        drop(buffers);
        let seen = sniffer.finish_one();
        assert_eq!((seen.server.key_updates(), lab.changed_keys()), (1, 1));
    } else {
        let (received, _) = client.ended_by_server();
        drop(buffers);
        assert_eq!(received.len(), first.bytes);
        let seen = sniffer.finish_one();
        assert_eq!(seen.server.alerts(), [(1, 0)], "close_notify");
    }
    assert_eq!(lab.sealed_connections(), 1);
}

/// A key seals so many records and no more. Where the kernel can change it, the connection goes
/// on; elsewhere the connection ends between two responses, before the limit.
pub(crate) fn limit_per_key(lab: &Lab) {
    const REQUESTS: usize = 6;
    for suite in [SUITES[2], SUITES[6]] {
        lab.server();
        lab.settle_counters();
        let sniffer = Sniffer::start(LIMITED);
        let url = format!("https://127.0.0.1:{LIMITED}/4m?[1-{REQUESTS}]");
        let options = [suite.name, "-w", "%{stderr}%{num_connects}", &url];
        let outcome = curl(&[&suite.curl()[..], &options].concat()).success();
        assert_same(&outcome.stdout, &four_mebibytes().repeat(REQUESTS));
        let connections = outcome.stderr.bytes().filter(|&byte| byte == b'1').count();
        let seen = sniffer.finish();
        assert_eq!(seen.len(), connections);
        let mut keys = 0;
        for seen in &seen {
            let mut records = BTreeMap::<u32, usize>::new();
            for record in &seen.server.records {
                *records.entry(record.generation).or_default() += 1;
            }
            let most = records.values().max().copied().unwrap_or(0);
            assert!(
                most <= KEY_RECORDS,
                "{}: {most} records under one key",
                suite.name
            );
            keys += records.len();
        }
        assert!(
            keys >= 2,
            "{}: {REQUESTS} times 4 MiB need more than one key",
            suite.name
        );
        let changes = suite.is_tls13 && can_rekey();
        assert_eq!(
            connections == 1,
            changes,
            "{}: {connections} connections",
            suite.name
        );
        assert_eq!(lab.changed_keys() > 0, changes);
        assert_eq!(lab.sealed_connections(), connections as u64);
    }
}

/// A client may not keep the server busy with it.
pub(crate) fn key_updates_without_end(lab: &Lab) {
    if !can_rekey() {
        lab.skip(
            "this kernel ends the connection at the first one (updates::key_update_with_request)",
        );
    }
    let server = lab.server();
    lab.settle_counters();
    let mut client = SClient::connect(S1, &[]);
    let mut at = 0;
    let mut answered = 0;
    // The default of `ssl_ktls_key_updates` is 64.
    for _ in 0..80 {
        client.command('K');
        client.send(&get("/one"));
        let closed = crate::program::wait_for("an answer or the end", || {
            if server.log().contains("ssl_ktls_key_updates") {
                return Some(true);
            }
            let response = crate::client::Response::parse(client.received().get(at..)?)?;
            at += response.bytes;
            Some(false)
        });
        if closed {
            break;
        }
        answered += 1;
    }
    assert_eq!((answered, lab.changed_keys()), (64, 64));
    let (received, _) = client.ended_by_server();
    assert_eq!(received.len(), at);
}
