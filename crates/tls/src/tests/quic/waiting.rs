//! Handshakes that wait: for a private-key operation, and in the handshake threads.

use super::*;
use crate::accelerator::Accelerator;
use crate::quic::Close;
use crate::tests::offload::{Holding, PATIENCE, asynchronous, pool};

/// A server that waits for its key, and the jobs for that.
fn holding() -> (
    Arc<ServerTls>,
    std::sync::mpsc::Receiver<crate::accelerator::Job>,
) {
    let (mut server, _) = ServerTls::build(&settings_of(p256())).expect("valid settings");
    let (holding, jobs) = Holding::new();
    let accelerator: Arc<dyn Accelerator> = Arc::new(holding);
    server.set_accelerator(&accelerator);
    (Arc::new(server), jobs)
}

/// A pair whose server waits for its key.
fn signing(server: &Arc<ServerTls>) -> QuicPair {
    let mut pair = QuicPair::with(&plain_client(), server, offer());
    pair.server
        .set_transport_parameters(SERVER_PARAMETERS, REMEMBERED);
    assert_eq!(pair.step_client(), Ok(Status::WantRead));
    let (level, hello) = pair.to_server.pop().expect("a hello");
    pair.server.receive(level, &hello).expect("a hello");
    assert_eq!(pair.server.advance(pair.load), Ok(Status::Pending));
    assert_eq!(pair.server.next_event(), None);
    pair
}

#[test]
fn a_key_elsewhere_is_waited_for() {
    let (server, jobs) = holding();
    let mut pair = signing(&server);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(pair.server.poll_pending(&mut cx).is_pending());
    assert_eq!(pair.server.advance(pair.load), Ok(Status::Pending));
    let job = jobs.recv_timeout(PATIENCE).expect("submitted");
    let key = sealane_awslc::PrivateKey::from_pem(p256().key_pem.as_bytes(), &[]).expect("PEM");
    let signature = key.perform(job.operation()).expect("it fits");
    job.complete(Some(signature));
    assert!(pair.server.poll_pending(&mut cx).is_ready());
    pair.handshake().expect("it is signed");
}

#[test]
fn a_key_that_fails_is_an_internal_error() {
    let (server, jobs) = holding();
    let mut pair = signing(&server);
    jobs.recv_timeout(PATIENCE)
        .expect("submitted")
        .complete(None);
    let failure = pair.server.advance(pair.load).expect_err("no signature");
    assert_eq!(failure.close(), Close::Alert(80));
    assert_eq!(pair.server.advance(pair.load), Err(failure));
}

#[test]
fn what_comes_meanwhile_is_kept_up_to_a_limit() {
    let (server, _jobs) = holding();
    let mut pair = signing(&server);
    let piece = [0; 4096];
    for _ in 0..4 {
        pair.server.receive(Level::Initial, &piece).expect("room");
    }
    let failure = pair.server.receive(Level::Initial, &[0]);
    let failure = failure.expect_err("no room");
    assert_eq!(failure.close(), Close::CryptoBufferExceeded);
}

#[test]
fn a_connection_that_ends_cancels_its_operation() {
    let (server, jobs) = holding();
    drop(signing(&server));
    let job = jobs.recv_timeout(PATIENCE).expect("submitted");
    assert!(job.is_cancelled());
}

#[test]
fn handshakes_leave_for_the_threads_and_come_back() {
    let state = pool(2);
    let server = server(&asynchronous(settings_of(rsa()), &state));
    let client = plain_client();
    let mut pair = met(&client, &server, offer());
    assert!(pair.pending > 0, "it has left");
    assert_eq!(state.stats().flights_handed_over.get(), 1);
    let session = pair.session();
    let again = met(&client, &server, resuming(&session));
    assert!(again.client.is_session_reused());
    assert_eq!(
        state.stats().flights_handed_over.get(),
        1,
        "nothing to sign"
    );
}

#[test]
fn who_comes_when_there_is_too_much_to_do_is_refused() {
    let server = server(&settings_of(p256()));
    let mut pair = QuicPair::with(&plain_client(), &server, offer());
    let failure = pair.server.refuse();
    assert_eq!(failure.close(), Close::Alert(80));
    assert_eq!(failure.server_error(), Some(&Error::Overloaded));
    assert_eq!(pair.server.advance(pair.load), Err(failure));
}
