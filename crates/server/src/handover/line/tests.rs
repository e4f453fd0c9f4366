//! Both ends of a line, with places, without, and when one of them goes away.

use super::super::tests::{message, parcel};
use super::super::{Opened, Travellers};
use super::*;
use crate::testing::Site;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;

/// What came back, and what was said.
#[derive(Clone, Default)]
struct Heard {
    back: Arc<Mutex<Vec<Parcel>>>,
    said: Arc<Mutex<Vec<String>>>,
}

impl Heard {
    fn home(&self) -> Home {
        let Heard { back, said } = self.clone();
        Home {
            take_back: Box::new(move |parcel| back.lock().expect("alive").push(parcel)),
            tell: Box::new(move |text| said.lock().expect("alive").push(text.to_string())),
        }
    }

    fn back(&self) -> usize {
        self.back.lock().expect("alive").len()
    }
}

/// Takes what comes, up to a number.
#[derive(Default)]
struct Guests {
    room: usize,
    came: Vec<Result<Parcel, NoParcel>>,
    travellers: Travellers,
}

impl Host for Guests {
    fn has_room(&self, count: usize) -> bool {
        self.came.len() + count <= self.room
    }

    fn take(&mut self, arrived: Result<Parcel, NoParcel>) {
        self.came.push(arrived);
    }

    fn under_way(&self) -> super::super::UnderWay {
        self.travellers.one()
    }
}

/// Both ends, and what the first of them hears.
fn pair() -> (Way, OwnedFd, Heard) {
    let (old, new) = socket::seqpacket_pair().expect("a pair");
    let heard = Heard::default();
    let way = Way::open(old, heard.home()).expect("threads");
    (way, new, heard)
}

/// Waits for a place; `None` when there will be none.
fn place(way: &Way) -> Option<OwnedSemaphorePermit> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let place = way.place();
    runtime.expect("a runtime").block_on(place).ok()
}

/// A connection, and the end of its client.
fn connection(travellers: &Travellers) -> (Parcel, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    theirs.set_nonblocking(true).expect("any socket can be");
    (parcel(theirs.into(), travellers.one()), ours)
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
type Receiving = JoinHandle<io::Result<Vec<Result<Parcel, NoParcel>>>>;

/// The process that takes connections, with room for some. It is to end when the second is dropped.
fn receiving(new: OwnedFd, room: usize) -> (Receiving, io::PipeWriter) {
    let mut guests = Guests {
        room,
        ..Guests::default()
    };
    let (stop, writer) = never();
    let thread = std::thread::spawn(move || {
        let done = receive(&new, stop.as_fd(), &mut guests);
        done.map(|()| guests.came)
    });
    (thread, writer)
}

/// What has come until the line ended.
fn came(thread: Receiving) -> Vec<Result<Parcel, NoParcel>> {
    let came = thread.join().expect("no panic");
    came.expect("the line ended in order")
}

/// So many places.
fn places(way: &Way, count: usize) -> Vec<OwnedSemaphorePermit> {
    (0..count)
        .map(|_| place(way).expect("there are places"))
        .collect()
}

/// Sends a connection for each place; the ends of their clients.
fn send_connections(
    way: &Way,
    places: impl IntoIterator<Item = OwnedSemaphorePermit>,
    travellers: &Travellers,
) -> Vec<UnixStream> {
    let send = |place| {
        let (parcel, client) = connection(travellers);
        way.send(place, parcel);
        client
    };
    places.into_iter().map(send).collect()
}

#[test]
fn what_arrives_is_what_was_sent_until_the_line_ends() {
    let (way, new, heard) = pair();
    let (thread, _writer) = receiving(new, 1000);
    let travellers = Travellers::default();
    let free = (0..500).map(|_| place(&way).expect("there are places"));
    let _clients = send_connections(&way, free, &travellers);
    drop(way);
    let came = came(thread);
    assert_eq!((came.len(), heard.back()), (500, 0));
    wait_until(|| travellers.count() == 0);
    let site = Site::new("return 200;");
    for parcel in came {
        let Ok(parcel) = parcel else {
            panic!("it is readable")
        };
        let opened = site.block_on(async { parcel.open(9) });
        let Ok(Opened { facts, .. }) = opened else {
            panic!("it is a socket")
        };
        assert_eq!((facts.number, facts.requests()), (9, 3));
        assert!(facts.accepted.elapsed() >= Duration::from_millis(1500));
        let proxied = facts.proxy_protocol().expect("it came through a proxy");
        assert_eq!(proxied.raw_tlvs(), [1, 0, 2, b'h', b'2']);
    }
}

#[test]
fn who_has_no_place_does_not_leave() {
    let (way, new, heard) = pair();
    let (thread, writer) = receiving(new, 5);
    let travellers = Travellers::default();
    let _clients = send_connections(&way, places(&way, 5), &travellers);
    let mut waiting = std::pin::pin!(way.place());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    // The other process ends: whoever waits learns that there will be no place.
    drop(writer);
    wait_until(|| way.is_closed());
    let Poll::Ready(Err(_)) = waiting.as_mut().poll(&mut cx) else {
        panic!("a place where there is none")
    };
    assert_eq!(came(thread).len(), 5);
    assert_eq!(heard.back(), 0);
}

#[test]
fn what_is_under_way_arrives_at_a_process_that_ends() {
    let (way, new, heard) = pair();
    let (thread, writer) = receiving(new, 1000);
    let travellers = Travellers::default();
    // These have a place, and the end comes before they use it.
    let places = places(&way, 10);
    drop(writer);
    wait_until(|| way.is_closed());
    let _clients = send_connections(&way, places, &travellers);
    let came = came(thread).len();
    wait_until(|| came + heard.back() == 10);
    let back = std::mem::take(&mut *heard.back.lock().expect("alive"));
    assert!(back.iter().all(|parcel| !parcel.stays));
}

#[test]
fn who_cannot_be_sent_comes_back() {
    let (way, new, heard) = pair();
    invite(&new, 3).expect("room");
    let places = places(&way, 3);
    drop(new); // the other process dies
    let travellers = Travellers::default();
    let _clients = send_connections(&way, places, &travellers);
    wait_until(|| heard.back() == 3);
    assert!(way.is_closed() && place(&way).is_none());
    assert_eq!(travellers.count(), 3, "as long as nobody has them");
    assert!(heard.said.lock().expect("alive").is_empty());
}

#[test]
fn a_process_of_another_version_gets_nothing() {
    for invitation in [
        Invitation {
            version: VERSION,
            format: "other \x1b[31m".to_owned(),
            places: 10,
        },
        Invitation {
            version: VERSION + 1,
            format: moving_format(),
            places: 10,
        },
    ] {
        let (way, new, heard) = pair();
        let bytes = postcard::to_allocvec(&invitation).expect("it is small");
        socket::send_fds(new.as_fd(), &bytes, &[]).expect("room");
        wait_until(|| way.is_closed());
        wait_until(|| !heard.said.lock().expect("alive").is_empty());
        let said = heard.said.lock().expect("alive").join("");
        assert!(said.contains("is of another version"), "{said}");
        assert!(!said.contains('\x1b'), "{said:?}");
        assert!(place(&way).is_none());
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
            send_patiently(&old, &whole[..length], fd).expect("it is read");
        }
        loop {
            match socket::send_fds(old.as_fd(), &whole, &[]) {
                Err(error) if passes(&error) => std::thread::sleep(FULL_PAUSE),
                sent => break sent.expect("it is read"),
            }
        }
        send_patiently(&old, &whole, fd).expect("it is read");
        whole.len()
    });
    let mut guests = Guests {
        room: 1000,
        ..Guests::default()
    };
    let (never, _writer) = never();
    receive(&new, never.as_fd(), &mut guests).expect("the line ended in order");
    let count = sending.join().expect("no panic");
    let mut good: Vec<bool> = guests.came.iter().map(Result::is_ok).collect();
    assert_eq!(good.pop(), Some(true));
    assert!(!good.contains(&true));
    assert_eq!(good.len(), count);
}
