//! The load generator against a server in this process: its counts are correct, and anything that
//! it did not ask for fails the run.

mod origin;

use std::time::{Duration, Instant};

use origin::{BODY, Behaviour, Early, Origin, STALL};
use sealane_awslc::ProtocolVersion;
use sealane_bench::{
    Error, Expected, ProcessTree, ResponseError, Url,
    load::{
        self, ConnectionUse, KeyType, Limit, Outcome, Plan, Probe, ProbeSettings, Protocol,
        Resumption, TlsPlan,
    },
};

const GOOD: Expected = Expected {
    status: 200,
    body_bytes: Some(BODY.len() as u64),
};
const CLIENTS: u64 = 5;

fn plan(origin: &Origin, scheme: &str, connection_use: ConnectionUse) -> Plan {
    let url: Url = format!("{scheme}://localhost:{}/file", origin.address.port())
        .parse()
        .expect("a URL");
    let mut plan = Plan::new(&url, origin.address, GOOD, connection_use);
    plan.clients = CLIENTS as usize;
    plan.threads = 2;
    plan.limit = Limit::Operations(100);
    plan.stall_limit = Duration::from_secs(20);
    plan
}

/// Runs `plan`, which must succeed, with this process as the server.
fn run(plan: &Plan) -> Outcome {
    let server = ProcessTree::of(std::process::id());
    load::run(plan, Some(server)).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn keep_alive_counts_every_request_and_connection() {
    let origin = Origin::plain(Behaviour::Good);
    let outcome = run(&plan(&origin, "http", ConnectionUse::KeepAlive));
    assert_eq!(outcome.operations, 100);
    assert_eq!(outcome.latency.count(), 100);
    assert_eq!(outcome.body_bytes, 100 * BODY.len() as u64);
    assert_eq!(
        outcome.connections, 0,
        "connections are opened during the warm-up"
    );
    // Without a length the warm-up is one request for each client.
    assert_eq!(origin.requests(), 100 + CLIENTS);
    assert_eq!(origin.connections(), CLIENTS);
    assert!(outcome.server_cpu.is_some());
}

#[test]
fn a_run_by_time_counts_what_the_server_counts() {
    let origin = Origin::plain(Behaviour::Good);
    let mut plan = plan(&origin, "http", ConnectionUse::KeepAlive);
    plan.limit = Limit::Duration(Duration::from_millis(200));
    let outcome = run(&plan);
    assert!(outcome.operations > 0);
    assert_eq!(origin.requests(), outcome.operations + CLIENTS);
}

#[test]
fn one_connection_per_request() {
    let origin = Origin::plain(Behaviour::Good);
    let outcome = run(&plan(&origin, "http", ConnectionUse::PerRequest));
    assert_eq!((outcome.operations, outcome.connections), (100, 100));
    assert_eq!(origin.connections(), 100 + CLIENTS);
}

#[test]
fn a_server_that_ends_keep_alive_is_connected_to_again() {
    let origin = Origin::plain(Behaviour::EveryThirdCloses);
    let outcome = run(&plan(&origin, "http", ConnectionUse::KeepAlive));
    assert_eq!(outcome.operations, 100);
    assert_eq!(outcome.connections + CLIENTS, origin.connections());
    assert!(outcome.connections >= 28, "{}", outcome.connections);
}

#[test]
fn an_unexpected_status_in_the_middle_fails_the_run() {
    let origin = Origin::plain(Behaviour::LaterNotFound);
    let error = load::run(&plan(&origin, "http", ConnectionUse::KeepAlive), None)
        .expect_err("404 is not expected");
    assert!(
        matches!(
            error,
            Error::Response(ResponseError::Status {
                wanted: 200,
                got: 404
            })
        ),
        "{error}"
    );
}

#[test]
fn an_unexpected_length_fails_the_run() {
    let origin = Origin::plain(Behaviour::Good);
    let mut plan = plan(&origin, "http", ConnectionUse::KeepAlive);
    plan.expected.body_bytes = Some(999);
    let error = load::run(&plan, None).expect_err("another length is expected");
    assert!(
        matches!(
            error,
            Error::Response(ResponseError::Length {
                wanted: 999,
                got: 1000
            })
        ),
        "{error}"
    );
}

#[test]
fn a_truncated_body_fails_the_run() {
    let origin = Origin::plain(Behaviour::Truncates);
    let error = load::run(&plan(&origin, "http", ConnectionUse::KeepAlive), None)
        .expect_err("half of the body is missing");
    assert!(
        matches!(error, Error::Response(ResponseError::Truncated)),
        "{error}"
    );
}

#[test]
fn a_silent_server_fails_the_run() {
    let origin = Origin::plain(Behaviour::Silent);
    let mut plan = plan(&origin, "http", ConnectionUse::KeepAlive);
    plan.stall_limit = Duration::from_millis(200);
    let error = load::run(&plan, None).expect_err("nothing is answered");
    assert!(matches!(error, Error::Stalled(_)), "{error}");
}

#[test]
fn nobody_listening_fails_the_run() {
    let origin = Origin::plain(Behaviour::Good);
    let plan = plan(&origin, "http", ConnectionUse::KeepAlive);
    drop(origin);
    assert!(matches!(load::run(&plan, None), Err(Error::Io { .. })));
}

fn tls_plan(origin: &Origin, tls: TlsPlan) -> Plan {
    let connection_use = ConnectionUse::PerRequest;
    Plan {
        tls: Some(tls),
        ..plan(origin, "https", connection_use)
    }
}

#[test]
fn full_tls13_handshakes_with_everything_pinned() {
    let origin = Origin::tls(|_| {});
    let outcome = run(&tls_plan(
        &origin,
        TlsPlan {
            protocol: Some(Protocol::Tls13),
            suite: Some("TLS_AES_256_GCM_SHA384".into()),
            group: Some("X25519".into()),
            key_type: Some(KeyType::P256),
            ..TlsPlan::default()
        },
    ));
    assert_eq!((outcome.operations, outcome.connections), (100, 100));
    assert_eq!(origin.connections(), 100 + CLIENTS);
    let negotiated = outcome.negotiated.expect("TLS").to_string();
    assert_eq!(
        negotiated,
        "TLSv1.3 TLS_AES_256_GCM_SHA384 X25519 P-256 full"
    );
}

#[test]
fn keep_alive_over_tls() {
    let origin = Origin::tls(|_| {});
    let outcome = run(&plan(&origin, "https", ConnectionUse::KeepAlive));
    assert_eq!((outcome.operations, origin.connections()), (100, CLIENTS));
}

#[test]
fn both_versions_resume_by_ticket() {
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let origin = Origin::tls(|_| {});
        let outcome = run(&tls_plan(
            &origin,
            TlsPlan {
                protocol: Some(protocol),
                resumption: Resumption::Resumed,
                ..TlsPlan::default()
            },
        ));
        assert_eq!(outcome.connections, 100);
        // One connection to get a session, one to try it.
        assert_eq!(origin.connections(), 100 + 2 * CLIENTS);
        let negotiated = outcome.negotiated.expect("TLS");
        assert!(negotiated.resumed, "{negotiated}");
        assert_eq!(negotiated.protocol, protocol.name());
    }
}

/// Clients that send their requests as early data.
fn early_plan(origin: &Origin) -> Plan {
    let tls = TlsPlan {
        resumption: Resumption::EarlyData,
        ..TlsPlan::default()
    };
    Plan {
        tls: Some(tls),
        ..plan(origin, "https", ConnectionUse::KeepAlive)
    }
}

#[test]
fn early_data_is_sent_and_counted() {
    let origin = Origin::early(Early::Accepted);
    let outcome = run(&early_plan(&origin));
    let early_data = outcome.early_data.expect("early data was sent");
    assert_eq!((early_data.accepted, early_data.rejected), (100, 0));
    assert_eq!((outcome.operations, outcome.connections), (100, 100));
    assert_eq!(outcome.first_byte.count(), 100);
    assert_eq!(origin.connections(), 100 + 2 * CLIENTS);
    assert_eq!(origin.requests(), 100 + 2 * CLIENTS);
    assert!(outcome.negotiated.expect("TLS").resumed);
}

#[test]
fn early_data_that_is_refused_is_sent_again() {
    let origin = Origin::early(Early::EveryOtherRefused);
    let outcome = run(&early_plan(&origin));
    let early_data = outcome.early_data.expect("early data was sent");
    assert!(
        early_data.accepted > 0 && early_data.rejected > 0,
        "{early_data:?}"
    );
    assert_eq!(early_data.accepted + early_data.rejected, 100);
    // Each request was read once, on whichever way it came.
    assert_eq!(origin.requests(), origin.connections());
}

#[test]
fn a_server_that_accepts_no_early_data_fails_the_run() {
    let origin = Origin::early(Early::Off);
    let mut plan = early_plan(&origin);
    plan.stall_limit = Duration::from_secs(1);
    let error = load::run(&plan, None).expect_err("nothing is accepted");
    let is_refusal = matches!(
        error,
        Error::Negotiated {
            what: "early data",
            ..
        }
    );
    assert!(is_refusal, "{error}");
}

#[test]
fn a_server_that_does_not_resume_fails_a_run_that_resumes() {
    let origin = Origin::tls(|builder| builder.set_tickets_enabled(false));
    let plan = tls_plan(
        &origin,
        TlsPlan {
            protocol: Some(Protocol::Tls12),
            resumption: Resumption::Resumed,
            ..TlsPlan::default()
        },
    );
    let error = load::run(&plan, None).expect_err("there is nothing to resume");
    assert!(
        matches!(
            error,
            Error::Negotiated {
                what: "resumption",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_server_without_the_pinned_protocol_fails_the_run() {
    let origin = Origin::tls(|builder| {
        builder
            .set_protocol_range(ProtocolVersion::Tls12, ProtocolVersion::Tls12)
            .expect("a valid range");
    });
    let pinned = TlsPlan {
        protocol: Some(Protocol::Tls13),
        ..TlsPlan::default()
    };
    assert!(matches!(
        load::run(&tls_plan(&origin, pinned), None),
        Err(Error::Tls { .. })
    ));
    // Left open, the same server's choice is taken and reported.
    let outcome = run(&tls_plan(&origin, TlsPlan::default()));
    assert_eq!(outcome.negotiated.expect("TLS").protocol, "TLSv1.2");
}

#[test]
fn idle_connections_are_held_and_counted() {
    let origin = Origin::plain(Behaviour::Good);
    let mut plan = plan(&origin, "http", ConnectionUse::KeepAlive);
    plan.clients = 50;
    let outcome = load::hold_idle(
        &plan,
        ProcessTree::of(std::process::id()),
        Duration::from_millis(10),
    )
    .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.connections, 50);
    // 64 connections warm the server up.
    assert_eq!(origin.connections(), 50 + 64);
    assert!(outcome.holding.pss_bytes > 0);
}

#[test]
fn a_server_that_closes_idle_connections_is_noticed() {
    let origin = Origin::plain(Behaviour::EveryThirdCloses);
    let mut plan = plan(&origin, "http", ConnectionUse::PerRequest);
    let server = ProcessTree::of(std::process::id());
    assert!(matches!(
        load::hold_idle(&plan, server, Duration::ZERO),
        Err(Error::Usage(_))
    ));
    // The request asks for a close, so no connection stays.
    plan.connection_use = ConnectionUse::KeepAlive;
    assert!(matches!(
        load::hold_idle(&plan, server, Duration::ZERO),
        Err(Error::Closed(_))
    ));
}

/// A probe that asks every five milliseconds.
const INTERVAL: Duration = Duration::from_millis(5);

fn probe(origin: &Origin) -> Result<Probe, Error> {
    let settings = ProbeSettings {
        interval: INTERVAL,
        cpu: None,
        has_own_core: false,
    };
    Probe::start(&plan(origin, "https", ConnectionUse::KeepAlive), settings)
}

/// Waits until the origin has seen `count` requests.
fn wait_for_requests(origin: &Origin, count: u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while origin.requests() < count {
        assert!(Instant::now() < deadline, "only {}", origin.requests());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_probe_asks_at_fixed_times_on_one_connection() {
    let origin = Origin::tls_behaving(Behaviour::Good);
    let probe = probe(&origin).unwrap_or_else(|error| panic!("{error}"));
    wait_for_requests(&origin, 20);
    let record = probe.finish().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(origin.connections(), 1);
    // The first request, which shows that all is well, is not a sample.
    assert_eq!(record.samples.len() as u64 + 1, origin.requests());
    for pair in record.samples.windows(2) {
        assert_eq!(pair[1].due - pair[0].due, INTERVAL);
    }
    for sample in &record.samples {
        assert!(sample.latency >= sample.delay, "{sample:?}");
    }
    assert_eq!(record.negotiated.key_type.as_deref(), Some("P-256"));
}

#[test]
fn requests_that_are_due_while_a_server_stalls_count_their_waiting() {
    let origin = Origin::tls_behaving(Behaviour::StallsOnce);
    let probe = probe(&origin).unwrap_or_else(|error| panic!("{error}"));
    wait_for_requests(&origin, 30);
    let record = probe.finish().unwrap_or_else(|error| panic!("{error}"));
    let longest = record.samples.iter().map(|sample| sample.latency).max();
    assert!(longest >= Some(STALL), "{longest:?}");
    // Those of the first half of the stall waited for the second.
    let waited = record.samples.iter();
    let waited = waited.filter(|sample| sample.latency >= STALL / 2).count();
    let due_meanwhile = (STALL / 2).as_millis() / INTERVAL.as_millis();
    assert!(waited as u128 >= due_meanwhile, "{waited}");
}

#[test]
fn a_probe_fails_with_its_connection() {
    let origin = Origin::tls_behaving(Behaviour::EveryThirdCloses);
    let started = probe(&origin).unwrap_or_else(|error| panic!("{error}"));
    wait_for_requests(&origin, 3);
    // A request that is under way already may make the close a reset.
    assert!(matches!(
        started.finish(),
        Err(Error::Closed(_) | Error::Io { .. })
    ));

    let origin = Origin::tls_behaving(Behaviour::LaterNotFound);
    let started = probe(&origin).unwrap_or_else(|error| panic!("{error}"));
    wait_for_requests(&origin, 10);
    assert!(matches!(
        started.finish(),
        Err(Error::Response(ResponseError::Status { got: 404, .. }))
    ));

    let origin = Origin::plain(Behaviour::Good);
    let cleartext = plan(&origin, "http", ConnectionUse::KeepAlive);
    let settings = ProbeSettings {
        interval: INTERVAL,
        cpu: None,
        has_own_core: false,
    };
    assert!(matches!(
        Probe::start(&cleartext, settings),
        Err(Error::Usage(_))
    ));
}

/// A meter that looks at what the origin has counted.
struct Witness<'a> {
    origin: &'a Origin,
    seen: Vec<u64>,
}

impl load::Meter for Witness<'_> {
    fn begin(&mut self) -> Result<(), Error> {
        self.seen.push(self.origin.requests());
        Ok(())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.seen.push(self.origin.requests());
        Ok(())
    }
}

#[test]
fn a_meter_sees_the_measurement_and_nothing_else() {
    let origin = Origin::plain(Behaviour::Good);
    let mut witness = Witness {
        origin: &origin,
        seen: Vec::new(),
    };
    let plan = plan(&origin, "http", ConnectionUse::KeepAlive);
    load::run_metered(&plan, None, &mut [&mut witness]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(witness.seen, [CLIENTS, CLIENTS + 100]);
}
