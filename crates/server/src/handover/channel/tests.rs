//! Both ends of a channel, with credits, without, and when one of them goes away.

use super::super::tests::{message, moved};
use super::super::{AdoptedConnection, InFlight};
use super::*;
use crate::testing::Site;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

/// What came back, and what was said.
#[derive(Clone, Default)]
struct Reports {
    back: Arc<Mutex<Vec<MovedConnection>>>,
    said: Arc<Mutex<Vec<String>>>,
}

impl Reports {
    fn events(&self) -> OutboundEvents {
        let Reports { back, said } = self.clone();
        OutboundEvents {
            take_back: Box::new(move |moved| back.lock().expect("alive").push(moved)),
            report: Box::new(move |text| said.lock().expect("alive").push(text.to_string())),
        }
    }

    fn back(&self) -> usize {
        self.back.lock().expect("alive").len()
    }
}

/// Takes what comes, up to a number.
#[derive(Default)]
struct Adopted {
    room: usize,
    came: Vec<Result<MovedConnection, BadMessage>>,
    in_flight: InFlight,
}

impl Adopter for Adopted {
    fn has_room(&self, count: usize) -> bool {
        self.came.len() + count <= self.room
    }

    fn take(&mut self, arrived: Result<MovedConnection, BadMessage>) {
        self.came.push(arrived);
    }

    fn in_flight(&self) -> super::super::InFlightGuard {
        self.in_flight.begin()
    }
}

/// Both ends, and what the first of them hears.
fn pair() -> (Channel, OwnedFd, Reports) {
    let (old, new) = socket::seqpacket_pair().expect("a pair");
    let reports = Reports::default();
    let channel = Channel::open(old, reports.events()).expect("threads");
    (channel, new, reports)
}

/// Waits for a credit; `None` when there will be none.
fn credit(channel: &Channel) -> Option<OwnedSemaphorePermit> {
    let runtime = sealane_io::runtime::Runtime::new();
    let credit = channel.credit();
    runtime.expect("a runtime").block_on(credit).ok()
}

/// A connection, and the end of its client.
fn connection(in_flight: &InFlight) -> (MovedConnection, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    theirs.set_nonblocking(true).expect("any socket can be");
    (moved(theirs.into(), in_flight.begin()), ours)
}

fn wait_until(what: impl Fn() -> bool) {
    while !what() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A reader that never becomes ready, and what it reads from.
fn never() -> (std::io::PipeReader, std::io::PipeWriter) {
    std::io::pipe().expect("a pipe")
}

/// A process that takes connections, and what has come.
type Receiving = JoinHandle<io::Result<Vec<Result<MovedConnection, BadMessage>>>>;

/// The process that takes connections, with room for some. It is to end when the second is dropped.
fn receiving(new: OwnedFd, room: usize) -> (Receiving, io::PipeWriter) {
    let mut adopted = Adopted {
        room,
        ..Adopted::default()
    };
    let (stop, writer) = never();
    let thread = std::thread::spawn(move || {
        let done = receive(&new, stop.as_fd(), &mut adopted);
        done.map(|()| adopted.came)
    });
    (thread, writer)
}

/// What has come until the channel ended.
fn came(thread: Receiving) -> Vec<Result<MovedConnection, BadMessage>> {
    let came = thread.join().expect("no panic");
    came.expect("the channel ended in order")
}

/// So many credits.
fn credits(channel: &Channel, count: usize) -> Vec<OwnedSemaphorePermit> {
    (0..count)
        .map(|_| credit(channel).expect("there are credits"))
        .collect()
}

/// Sends a connection for each credit; the ends of their clients.
fn send_connections(
    channel: &Channel,
    credits: impl IntoIterator<Item = OwnedSemaphorePermit>,
    in_flight: &InFlight,
) -> Vec<UnixStream> {
    let send = |credit| {
        let (moved, client) = connection(in_flight);
        channel.send(credit, moved);
        client
    };
    credits.into_iter().map(send).collect()
}

#[test]
fn what_arrives_is_what_was_sent_until_the_channel_ends() {
    let (channel, new, reports) = pair();
    let (thread, _writer) = receiving(new, 1000);
    let in_flight = InFlight::default();
    let free = (0..500).map(|_| credit(&channel).expect("there are credits"));
    let _clients = send_connections(&channel, free, &in_flight);
    drop(channel);
    let came = came(thread);
    assert_eq!((came.len(), reports.back()), (500, 0));
    wait_until(|| in_flight.count() == 0);
    let site = Site::new("return 200;");
    for moved in came {
        let Ok(moved) = moved else {
            panic!("it is readable")
        };
        let opened = site.block_on(async { moved.open(9) });
        let Ok(AdoptedConnection { facts, .. }) = opened else {
            panic!("it is a socket")
        };
        assert_eq!((facts.number, facts.requests()), (9, 3));
        assert!(facts.accepted.elapsed() >= Duration::from_millis(1500));
        let proxied = facts.proxy_protocol().expect("it came through a proxy");
        assert_eq!(proxied.raw_tlvs(), [1, 0, 2, b'h', b'2']);
    }
}

#[test]
fn without_a_credit_a_connection_is_not_sent() {
    let (channel, new, reports) = pair();
    let (thread, writer) = receiving(new, 5);
    let in_flight = InFlight::default();
    let _clients = send_connections(&channel, credits(&channel, 5), &in_flight);
    let mut waiting = std::pin::pin!(channel.credit());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    // The other process ends: whoever waits learns that there will be no credit.
    drop(writer);
    wait_until(|| channel.is_closed());
    let Poll::Ready(Err(_)) = waiting.as_mut().poll(&mut cx) else {
        panic!("a credit where there is none")
    };
    assert_eq!(came(thread).len(), 5);
    assert_eq!(reports.back(), 0);
}

#[test]
fn connections_in_flight_arrive_at_a_process_that_ends() {
    let (channel, new, reports) = pair();
    let (thread, writer) = receiving(new, 1000);
    let in_flight = InFlight::default();
    // These have a credit, and the end comes before they use it.
    let credits = credits(&channel, 10);
    drop(writer);
    wait_until(|| channel.is_closed());
    let _clients = send_connections(&channel, credits, &in_flight);
    let came = came(thread).len();
    wait_until(|| came + reports.back() == 10);
    let back = std::mem::take(&mut *reports.back.lock().expect("alive"));
    assert!(back.iter().all(|moved| !moved.stays));
}

#[test]
fn a_connection_that_cannot_be_sent_comes_back() {
    let (channel, new, reports) = pair();
    send_credits(&new, 3).expect("room");
    let credits = credits(&channel, 3);
    drop(new); // the other process dies
    let in_flight = InFlight::default();
    let _clients = send_connections(&channel, credits, &in_flight);
    wait_until(|| reports.back() == 3);
    assert!(channel.is_closed() && credit(&channel).is_none());
    assert_eq!(in_flight.count(), 3, "as long as nobody has them");
    assert!(reports.said.lock().expect("alive").is_empty());
}

#[test]
fn a_process_of_another_version_gets_nothing() {
    for invitation in [
        CreditMessage {
            version: VERSION,
            format: "other \x1b[31m".to_owned(),
            credits: 10,
        },
        CreditMessage {
            version: VERSION + 1,
            format: moving_format(),
            credits: 10,
        },
    ] {
        let (channel, new, reports) = pair();
        let bytes = postcard::to_allocvec(&invitation).expect("it is small");
        socket::send_fds(new.as_fd(), &bytes, &[]).expect("room");
        wait_until(|| channel.is_closed());
        wait_until(|| !reports.said.lock().expect("alive").is_empty());
        let said = reports.said.lock().expect("alive").join("");
        assert!(said.contains("has another version"), "{said}");
        assert!(!said.contains('\x1b'), "{said:?}");
        assert!(credit(&channel).is_none());
    }
}

#[test]
fn damaged_messages_are_refused_and_what_follows_is_not() {
    let (old, new) = socket::seqpacket_pair().expect("a pair");
    let whole = message();
    let (_ours, theirs) = UnixStream::pair().expect("a pair");
    let sending = std::thread::spawn(move || {
        let fd = theirs.as_fd();
        for length in 1..whole.len() {
            send_when_possible(&old, &whole[..length], fd).expect("it is read");
        }
        loop {
            match socket::send_fds(old.as_fd(), &whole, &[]) {
                Err(error) if is_transient(&error) => std::thread::sleep(FULL_PAUSE),
                sent => break sent.expect("it is read"),
            }
        }
        send_when_possible(&old, &whole, fd).expect("it is read");
        whole.len()
    });
    let mut adopted = Adopted {
        room: 1000,
        ..Adopted::default()
    };
    let (never, _writer) = never();
    receive(&new, never.as_fd(), &mut adopted).expect("the channel ended in order");
    let count = sending.join().expect("no panic");
    let mut good: Vec<bool> = adopted.came.iter().map(Result::is_ok).collect();
    assert_eq!(good.pop(), Some(true));
    assert!(!good.contains(&true));
    assert_eq!(good.len(), count);
}
