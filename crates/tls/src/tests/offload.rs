//! Handshakes that leave the worker, and what may happen to them meanwhile.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use super::*;
use crate::accelerator::{Accelerator, AcceleratorChoice, Job};
use crate::offload::{AsyncMode, HandshakeSettings, HandshakeState};

/// Far longer than anything here takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn pool(threads: usize) -> Arc<HandshakeState> {
    let state = HandshakeState::new();
    state.start(threads).expect("threads are to be had");
    state
}

pub(super) fn asynchronous(
    mut settings: ServerSettings,
    state: &Arc<HandshakeState>,
) -> ServerSettings {
    settings.handshakes = HandshakeSettings {
        mode: AsyncMode::On,
        accelerator: AcceleratorChoice::Cpu,
        state: Some(Arc::clone(state)),
    };
    settings
}

fn with_accelerator(
    state: &Arc<HandshakeState>,
    accelerator: impl Accelerator + 'static,
) -> Arc<ServerTls> {
    let settings = asynchronous(settings(&[p256()]), state);
    let (mut server, _) = ServerTls::build(&settings).expect("valid settings");
    let accelerator: Arc<dyn Accelerator> = Arc::new(accelerator);
    server.set_accelerator(&accelerator);
    Arc::new(server)
}

/// Keeps jobs until the test has decided about them.
#[derive(Debug)]
pub(super) struct Holding(Mutex<Sender<Job>>);

impl Holding {
    pub(super) fn new() -> (Self, Receiver<Job>) {
        let (sender, receiver) = channel();
        (Self(Mutex::new(sender)), receiver)
    }
}

impl Accelerator for Holding {
    fn name(&self) -> &'static str {
        "holding"
    }

    fn submit(&self, job: Job) {
        let _ = self.0.lock().expect("no panic").send(job);
    }
}

#[derive(Debug)]
struct Panicking;

impl Accelerator for Panicking {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn submit(&self, _job: Job) {
        panic!("the accelerator is broken");
    }
}

/// Has the client's first flight reach the server, which answers `Pending`.
fn begin(pair: &mut Pair) {
    let started = pair
        .client
        .handshake(&mut &b""[..], &mut pair.to_server)
        .expect("a hello");
    assert_eq!(started, HandshakeStatus::WantRead);
    let status = go_on(pair).expect("nothing has failed yet");
    assert_eq!(status, HandshakeStatus::Pending, "it has left");
}

fn go_on(pair: &mut Pair) -> Result<HandshakeStatus, Error> {
    let received = std::mem::take(&mut pair.to_server);
    let mut input = &received[..];
    let status = pair
        .server
        .handshake(&mut input, &mut pair.to_client, pair.load);
    pair.to_server = input.to_vec();
    status
}

/// Waits as a worker does: by a waker, not by asking again.
fn wait(pair: &mut Pair) {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let begun = Instant::now();
    while pair
        .server
        .poll_pending(&mut Context::from_waker(&waker))
        .is_pending()
    {
        std::thread::park_timeout(PATIENCE);
        assert!(begun.elapsed() < PATIENCE, "nobody has woken the worker");
    }
}

fn finish(pair: &mut Pair) -> Result<(), Failure> {
    for _ in 0..1000 {
        match go_on(pair).map_err(Failure::Server)? {
            HandshakeStatus::Pending => wait(pair),
            HandshakeStatus::Done => {
                assert_eq!(pair.down(b"hello"), b"hello");
                return Ok(());
            }
            HandshakeStatus::WantRead => {
                let received = std::mem::take(&mut pair.to_client);
                pair.client
                    .handshake(&mut &received[..], &mut pair.to_server)
                    .map_err(Failure::Client)?;
            }
        }
    }
    panic!("the handshake makes no progress");
}

#[test]
fn every_kind_of_handshake_comes_back() {
    let state = pool(2);
    let server = server(&asynchronous(settings(&[rsa(), p256()]), &state));
    for (ciphers, max) in [
        ("ALL", ProtocolVersion::Tls13),
        ("ECDHE-RSA-AES128-GCM-SHA256", ProtocolVersion::Tls12),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", ProtocolVersion::Tls12),
        ("AES128-GCM-SHA256", ProtocolVersion::Tls12),
        ("ECDHE-RSA-AES128-SHA", ProtocolVersion::Tls11),
    ] {
        let before = state.stats().flights_handed_over.get();
        let client = client(|builder| {
            builder
                .set_protocol_range(ProtocolVersion::Tls10, max)
                .expect("valid");
            builder.set_cipher_list(ciphers).expect("known suites");
        });
        let mut pair = Pair::with(&client, &server);
        finish(&mut pair).unwrap_or_else(|failure| panic!("{ciphers}: {failure:?}"));
        let left = state.stats().flights_handed_over.get() - before;
        assert_eq!(left, 1, "{ciphers}: one operation, one flight");
    }
    assert_eq!(state.stats().queued_flights.get(), 0);
    assert_eq!(state.stats().flight_time.values().count(), 5);
}

#[test]
fn a_resumed_session_stays_on_the_worker() {
    let state = pool(1);
    let server = server(&asynchronous(settings(&[p256()]), &state));
    for max in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        let client = client(|builder| version(builder, max));
        let mut first = Pair::with(&client, &server);
        finish(&mut first).expect("a full handshake");
        let session = first.session().expect("tickets are on");
        let before = state.stats().flights_handed_over.get();
        let mut again = Pair::resuming(&client, &server, &session);
        finish(&mut again).expect("resumed");
        assert!(again.client.is_session_reused());
        assert_eq!(state.stats().flights_handed_over.get(), before);
    }
}

/// A ticket that opens nothing: that the key is needed shows on the way.
#[test]
fn a_missed_session_leaves_on_the_way() {
    let state = pool(1);
    let servers = [(); 2].map(|()| server(&asynchronous(settings(&[p256()]), &state)));
    for max in [ProtocolVersion::Tls12, ProtocolVersion::Tls13] {
        let client = client(|builder| version(builder, max));
        let mut first = Pair::with(&client, &servers[0]);
        finish(&mut first).expect("a full handshake");
        let session = first.session().expect("tickets are on");
        let before = state.stats().flights_handed_over.get();
        let mut elsewhere = Pair::resuming(&client, &servers[1], &session);
        finish(&mut elsewhere).expect("a full handshake");
        assert!(!elsewhere.client.is_session_reused());
        assert_eq!(state.stats().flights_handed_over.get(), before + 1);
    }
}

#[test]
fn who_is_alone_stays() {
    let state = pool(1);
    let mut settings = asynchronous(settings(&[rsa()]), &state);
    settings.handshakes.mode = AsyncMode::Auto;
    let server = server(&settings);
    let client = client(|_| {});
    for (has_others, flights) in [(false, 0), (true, 1)] {
        let mut pair = Pair::with(&client, &server);
        pair.load.has_others = has_others;
        finish(&mut pair).expect("defaults");
        assert_eq!(state.stats().flights_handed_over.get(), flights);
    }
}

#[test]
fn hello_in_pieces() {
    let state = pool(1);
    let server = server(&asynchronous(settings(&[p256()]), &state));
    let client = client(|_| {});
    let mut pair = Pair::with(&client, &server);
    pair.client
        .handshake(&mut &b""[..], &mut pair.to_server)
        .expect("a hello");
    let hello = std::mem::take(&mut pair.to_server);
    let (last, first) = hello.split_last().expect("it is not empty");
    for byte in first {
        let status = pair
            .server
            .handshake(&mut &[*byte][..], &mut pair.to_client, pair.load);
        assert_eq!(status, Ok(HandshakeStatus::WantRead));
    }
    pair.to_server.push(*last);
    finish(&mut pair).expect("complete");
    assert_eq!(state.stats().flights_handed_over.get(), 1);
}

#[test]
fn a_connection_that_dies_cancels_its_operation() {
    let state = pool(1);
    let (holding, jobs) = Holding::new();
    let server = with_accelerator(&state, holding);
    let client = client(|_| {});
    let mut pair = Pair::with(&client, &server);
    begin(&mut pair);
    let job = jobs.recv_timeout(PATIENCE).expect("submitted");
    // The flight is parked at some moment after the job was submitted.
    let begun = Instant::now();
    drop(pair);
    while !job.is_cancelled() {
        assert!(begun.elapsed() < PATIENCE, "nobody cancels");
        std::thread::yield_now();
    }
    job.complete(Some(vec![0; 70].into()));
    // The accelerator holds nothing of it, nor does the pool: the next one is served.
    let mut next = Pair::with(&client, &server);
    begin(&mut next);
    drop(jobs.recv_timeout(PATIENCE).expect("submitted"));
    assert!(matches!(finish(&mut next), Err(Failure::Server(_))));
}

#[test]
fn a_failed_operation_ends_the_handshake_with_an_alert() {
    let state = pool(1);
    let (holding, jobs) = Holding::new();
    let server = with_accelerator(&state, holding);
    let mut pair = Pair::with(&client(|_| {}), &server);
    begin(&mut pair);
    jobs.recv_timeout(PATIENCE)
        .expect("submitted")
        .complete(None);
    let Err(Failure::Server(_)) = finish(&mut pair) else {
        panic!("there is no signature");
    };
    assert!(
        pair.client
            .handshake(&mut &pair.to_client[..], &mut Vec::new())
            .is_err(),
        "an alert tells the client"
    );
}

#[test]
fn time_in_queues_is_counted() {
    let state = pool(1);
    let (holding, jobs) = Holding::new();
    let server = with_accelerator(&state, holding);
    let mut pair = Pair::with(&client(|_| {}), &server);
    begin(&mut pair);
    let job = jobs.recv_timeout(PATIENCE).expect("submitted");
    std::thread::sleep(Duration::from_millis(3));
    drop(job);
    wait(&mut pair);
    let _ = go_on(&mut pair);
    assert!(pair.server.queue_time() >= Duration::from_millis(3));
}

#[test]
fn a_panic_ends_its_connection_alone() {
    let state = pool(1);
    let broken = with_accelerator(&state, Panicking);
    let client = client(|_| {});
    let mut pair = Pair::with(&client, &broken);
    begin(&mut pair);
    wait(&mut pair);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| go_on(&mut pair)));
    let panic = panicked.expect_err("it goes on where the connection is");
    assert_eq!(
        panic.downcast_ref::<&str>(),
        Some(&"the accelerator is broken")
    );
    assert_eq!(go_on(&mut pair), Err(Error::Stopping), "not for ever");
    // The thread is alive.
    let whole = server(&asynchronous(settings(&[p256()]), &state));
    finish(&mut Pair::with(&client, &whole)).expect("served");
}

#[test]
fn stopping_ends_what_waits_and_later_handshakes_stay() {
    let state = pool(1);
    let (holding, jobs) = Holding::new();
    let server = with_accelerator(&state, holding);
    let client = client(|_| {});
    let mut parked = Pair::with(&client, &server);
    begin(&mut parked);
    let job = jobs.recv_timeout(PATIENCE).expect("submitted");
    state.stop();
    state.stop();
    assert!(matches!(
        parked
            .server
            .poll_pending(&mut Context::from_waker(Waker::noop())),
        Poll::Pending
    ));
    drop(job);
    wait(&mut parked);
    assert_eq!(go_on(&mut parked), Err(Error::Stopping));
    let mut later = Pair::with(&client, &server);
    begin(&mut later);
    drop(jobs.recv_timeout(PATIENCE).expect("on the worker"));
    assert!(matches!(
        finish(&mut later),
        Err(Failure::Server(Error::Library(_)))
    ));
    assert_eq!(state.stats().flights_handed_over.get(), 1);
}

#[test]
fn a_refused_handshake_gets_an_alert() {
    let server = server(&settings(&[p256()]));
    let mut pair = Pair::with(&client(|_| {}), &server);
    pair.client
        .handshake(&mut &b""[..], &mut pair.to_server)
        .expect("a hello");
    let error = pair.server.refuse(&mut pair.to_client);
    assert_eq!(error, Error::Overloaded);
    let heard = pair
        .client
        .handshake(&mut &pair.to_client[..], &mut Vec::new());
    let error = heard.expect_err("an alert").to_string();
    assert!(error.contains("INTERNAL_ERROR"), "{error}");
    assert_eq!(go_on(&mut pair), Err(Error::NotEstablished));
}

/// Sixteen flights wait while the one thread is busy: they are computed in eights.
#[test]
fn what_waits_is_computed_together() {
    let state = pool(1);
    let (holding, jobs) = Holding::new();
    let busy = with_accelerator(&state, Blocking(Mutex::new(Some(holding))));
    let mut batched = asynchronous(settings(&[rsa()]), &state);
    batched.handshakes.accelerator = AcceleratorChoice::Batch;
    let Ok((server, _)) = ServerTls::build(&batched) else {
        return sealane_needs::leave_out("this processor has no AVX-512 IFMA");
    };
    let server = Arc::new(server);
    let client = client(|_| {});
    let mut first = Pair::with(&client, &busy);
    begin(&mut first);
    let go = jobs.recv_timeout(PATIENCE).expect("the thread is busy");
    let mut pairs: Vec<_> = (0..16).map(|_| Pair::with(&client, &server)).collect();
    pairs.iter_mut().for_each(begin);
    assert_eq!(state.stats().queued_flights.get(), 16);
    drop(go);
    for pair in &mut pairs {
        finish(pair).expect("signed in a batch");
    }
    assert_eq!(state.stats().batches()[7], 2);
    assert_eq!(state.stats().wrong_results.get(), 0);
}

/// Keeps the thread that submits until its job is gone.
#[derive(Debug)]
struct Blocking(Mutex<Option<Holding>>);

impl Accelerator for Blocking {
    fn name(&self) -> &'static str {
        "blocking"
    }

    fn submit(&self, job: Job) {
        let (watch, mut pending) = crate::accelerator::job(job.operation().clone());
        let holding = self.0.lock().expect("no panic").take();
        holding.expect("used once").submit(watch);
        while pending.try_take().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(job);
    }
}

#[test]
fn servers_with_one_key_share_its_accelerator() {
    let state = pool(1);
    let build = |made: &[Made]| server(&asynchronous(settings(made), &state));
    let (one, same, other) = (
        build(&[rsa()]),
        build(&[rsa(), p256()]),
        build(&[ed25519()]),
    );
    assert!(Arc::ptr_eq(one.accelerator(0), same.accelerator(0)));
    assert!(!Arc::ptr_eq(same.accelerator(0), same.accelerator(1)));
    assert!(!Arc::ptr_eq(one.accelerator(0), other.accelerator(0)));
    let weak = Arc::downgrade(one.accelerator(0));
    drop((one, same));
    assert!(weak.upgrade().is_none(), "it goes with the last server");
}
