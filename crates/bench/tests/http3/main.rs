//! The load generator over HTTP/3 against a server in this process: its counts are correct, and
//! anything that it did not ask for fails the run.

mod origin;

use std::time::Duration;

use origin::{Behaviour, Origin, body};
use sealane_bench::{
    Error, Expected, ProcessTree, Url,
    load::{self, ConnectionUse, KeyType, Limit, Outcome, Plan, Resource, Resumption},
};

const CLIENTS: u64 = 5;
/// More than the server allows at a time.
const STREAMS: u64 = 4;

fn plan(origin: &Origin, connection_use: ConnectionUse) -> Plan {
    let url: Url = format!("https://localhost:{}/file", origin.address.port())
        .parse()
        .expect("a URL");
    let content = body();
    let expected = Expected {
        status: 200,
        body_bytes: Some(content.len() as u64),
    };
    let mut plan = Plan::new(&url, origin.address, expected, connection_use);
    plan.http3 = Some(Resource {
        streams: STREAMS as usize,
        authority: "localhost".into(),
        path: "/file".into(),
        content: Some(content.into()),
    });
    let tls = plan.tls.as_mut().expect("an https:// URL");
    tls.group = Some("X25519".into());
    tls.suite = Some("TLS_AES_256_GCM_SHA384".into());
    tls.key_type = Some(KeyType::P256);
    plan.clients = CLIENTS as usize;
    plan.threads = 2;
    plan.limit = Limit::Operations(20);
    plan.stall_limit = Duration::from_secs(20);
    plan
}

/// Runs `plan`, which must succeed, with this process as the server.
fn run(plan: &Plan) -> Outcome {
    let server = ProcessTree::of(std::process::id());
    load::run(plan, Some(server)).unwrap_or_else(|error| panic!("{error}"))
}

/// What fails a run against a server that behaves like this.
fn failure(behaviour: Behaviour) -> String {
    let origin = Origin::start(behaviour);
    let mut plan = plan(&origin, ConnectionUse::KeepAlive);
    if behaviour == Behaviour::Silent {
        plan.stall_limit = Duration::from_millis(500);
    }
    match load::run(&plan, None) {
        Ok(outcome) => panic!("{behaviour:?}: {outcome:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn keep_alive_counts_every_request_and_connection() {
    let origin = Origin::start(Behaviour::Good);
    let outcome = run(&plan(&origin, ConnectionUse::KeepAlive));
    assert_eq!(outcome.operations, 20 * STREAMS);
    assert_eq!(outcome.body_bytes, 20 * STREAMS * body().len() as u64);
    assert_eq!(outcome.connections, 0, "all were opened in the warm-up");
    assert_eq!(origin.requests(), (20 + CLIENTS) * STREAMS);
    assert_eq!(origin.connections(), CLIENTS);
    let negotiated = outcome.negotiated.expect("over TLS");
    assert_eq!(
        negotiated.to_string(),
        "TLSv1.3 TLS_AES_256_GCM_SHA384 X25519 P-256 full"
    );
}

#[test]
fn a_client_closes_what_it_does_not_keep() {
    let origin = Origin::start(Behaviour::Good);
    let mut plan = plan(&origin, ConnectionUse::EndedByClient);
    plan.http3.as_mut().expect("set above").streams = 1;
    let outcome = run(&plan);
    assert_eq!((outcome.operations, outcome.connections), (20, 20));
    assert_eq!(origin.requests(), 20 + CLIENTS);
    assert_eq!(origin.connections(), 20 + CLIENTS);
    // The last one's end may still be in the server's socket.
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while origin.closed() < 20 + CLIENTS {
        assert!(std::time::Instant::now() < until, "{}", origin.closed());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn idle_connections_are_held() {
    let origin = Origin::start(Behaviour::Good);
    let mut plan = plan(&origin, ConnectionUse::KeepAlive);
    plan.clients = 50;
    let server = ProcessTree::of(std::process::id());
    let held = load::hold_idle(&plan, server, Duration::from_millis(50));
    let held = held.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(held.connections, 50);
    // So many others are opened before.
    assert_eq!(origin.connections(), 50 + 64);
}

#[test]
fn every_deviation_fails_the_run() {
    for (behaviour, expected) in [
        (Behaviour::LaterNotFound, "status 404 instead of 200"),
        (Behaviour::Short, "a body of 19999 bytes instead of 20000"),
        (Behaviour::Exchanged, "a body that is not the file"),
        (Behaviour::Closes, "peer closed connection with code 0x102"),
        (Behaviour::Silent, "no progress"),
    ] {
        let failure = failure(behaviour);
        assert!(failure.contains(expected), "{behaviour:?}: {failure}");
    }
}

#[test]
fn a_group_that_the_server_lacks_fails_the_handshake() {
    let origin = Origin::start(Behaviour::Good);
    let mut plan = plan(&origin, ConnectionUse::KeepAlive);
    plan.tls.as_mut().expect("set above").key_type = Some(KeyType::Rsa);
    let error = load::run(&plan, None).expect_err("its key is of another kind");
    assert!(matches!(error, Error::Http3(_)), "{error}");
}

#[test]
fn what_http3_cannot_do_is_refused() {
    let origin = Origin::start(Behaviour::Good);
    let mut resumed = plan(&origin, ConnectionUse::KeepAlive);
    resumed.tls.as_mut().expect("set above").resumption = Resumption::Resumed;
    let mut without_tls = plan(&origin, ConnectionUse::KeepAlive);
    without_tls.tls = None;
    for plan in [resumed, without_tls] {
        let error = load::run(&plan, None).expect_err("nothing of the kind");
        assert!(matches!(error, Error::Usage(_)), "{error}");
    }
    assert_eq!(origin.connections(), 0);
}
