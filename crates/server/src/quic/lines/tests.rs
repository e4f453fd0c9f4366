use super::*;
use crate::quic::QuicPlace;
use sealane_io::forwarding::ForwardedBatch;
use sealane_io::runtime::{self, Runtime};
use sealane_sys::socket;
use std::task::Poll;

const PORT: u16 = 443;

fn place(process: u8, lines: Vec<(u8, OwnedFd)>) -> Arc<QuicShared> {
    Arc::new(QuicShared::new(QuicPlace {
        process,
        lines,
        ..QuicPlace::alone()
    }))
}

/// A process with connections, and one that takes its place, both of which receive.
fn processes() -> [Arc<QuicShared>; 2] {
    let (one, other) = socket::seqpacket_pair().expect("descriptors");
    let before = place(0, Vec::new());
    let line = before.add_line(1, one);
    runtime::spawn(receive(before.clone(), line.reading()));
    let after = place(1, vec![(0, other)]);
    for line in after.first_lines() {
        runtime::spawn(receive(after.clone(), line.reading()));
    }
    [before, after]
}

/// Where the threads receive.
fn listening() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], PORT))
}

fn datagram(bytes: &[u8]) -> Forwarded<&[u8]> {
    let of = |ip: [u8; 4], port| SocketAddr::from((ip, port));
    Forwarded {
        bytes,
        peer: of([192, 0, 2, 1], 5000),
        local: of([192, 0, 2, 2], PORT),
        ecn: Ecn::Ect0,
    }
}

/// What waits for a thread, once it is more than what only wakes it.
async fn waiting(of: &QuicShared, thread: u8) -> Vec<Vec<u8>> {
    loop {
        let mut all = taken(of, thread).await;
        all.retain(|bytes| !bytes.is_empty());
        if !all.is_empty() {
            return all;
        }
    }
}

/// What waits for a thread, once that is woken.
async fn taken(of: &QuicShared, thread: u8) -> Vec<Vec<u8>> {
    let queue = of.queue(thread, listening());
    let mut batch = ForwardedBatch::default();
    poll_fn(|cx| queue.poll_take(cx, &mut batch)).await;
    let all = batch.datagrams_mut().map(|found| found.bytes.to_vec());
    all.collect()
}

/// Lets the lines work until it is so.
async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        runtime::sleep(Duration::from_millis(5)).await;
    }
    panic!("it does not happen");
}

#[test]
fn packets_go_to_the_process_and_the_thread_that_they_name() {
    Runtime::new().expect("descriptors").block_on(async {
        let [before, after] = processes();
        let _ = (before.queue(0, listening()), before.queue(2, listening()));
        assert!(
            after
                .lines
                .hand_on(0, 2, datagram(b"for the second thread"))
        );
        assert_eq!(waiting(&before, 2).await, [b"for the second thread"]);
        assert!(!after.lines.hand_on(7, 2, datagram(b"for nobody")));
        assert!(before.lines.hand_on(1, 0, datagram(b"back")));
        let _ = after.queue(5, listening());
        // There is no thread 0 there: any one answers.
        assert_eq!(waiting(&after, 5).await, [b"back"]);
    });
}

#[test]
fn the_newest_that_serves_receives_until_it_leaves() {
    Runtime::new().expect("descriptors").block_on(async {
        let [before, after] = processes();
        let _ = (before.queue(0, listening()), after.queue(0, listening()));
        assert!(!before.lines.leave_to_serving(0, datagram(b"new client")));
        after.say_serving();
        until(|| before.lines.are_handed_over()).await;
        assert_eq!(taken(&before, 0).await, [b""], "it only wakes the thread");
        assert!(before.lines.leave_to_serving(0, datagram(b"new client")));
        assert_eq!(waiting(&after, 0).await, [b"new client"]);
        assert!(!after.lines.are_handed_over());
        // The upgrade is taken back.
        after.say_leaving();
        until(|| after.lines.are_handed_over()).await;
        assert!(!before.lines.are_handed_over());
        assert!(after.lines.leave_to_serving(0, datagram(b"another one")));
        assert_eq!(waiting(&before, 0).await, [b"another one"]);
    });
}

#[test]
fn two_that_leave_do_not_send_packets_to_and_fro() {
    Runtime::new().expect("descriptors").block_on(async {
        let [before, after] = processes();
        let _ = (before.queue(0, listening()), after.queue(0, listening()));
        after.say_serving();
        until(|| before.lines.are_handed_over()).await;
        before.say_leaving();
        after.say_leaving();
        until(|| !before.lines.are_handed_over()).await;
        runtime::sleep(Duration::from_millis(50)).await;
        for process in [&before, &after] {
            assert!(!process.lines.leave_to_serving(0, datagram(b"new client")));
        }
    });
}

#[test]
fn who_serves_first_asks_the_one_before_about_clients() {
    Runtime::new().expect("descriptors").block_on(async {
        let [before, after] = processes();
        let _ = (before.queue(0, listening()), after.queue(0, listening()));
        after.say_serving();
        assert!(after.lines.ask_before(0, datagram(b"half a ClientHello")));
        until(|| before.lines.are_handed_over()).await;
        assert_eq!(waiting(&before, 0).await, [b"half a ClientHello"]);
    });
}

#[test]
fn the_end_of_a_process_returns_its_sockets() {
    Runtime::new().expect("descriptors").block_on(async {
        let (one, other) = socket::seqpacket_pair().expect("descriptors");
        let before = place(0, Vec::new());
        let _ = before.queue(0, listening());
        let line = before.add_line(1, one);
        // Two threads receive.
        runtime::spawn(receive(before.clone(), line.reading()));
        runtime::spawn(receive(before.clone(), line.reading()));
        let after = place(1, vec![(0, other)]);
        after.say_serving();
        until(|| before.lines.are_handed_over()).await;
        assert_eq!(taken(&before, 0).await, [b""]);
        drop(after);
        until(|| !before.lines.are_handed_over()).await;
        assert!(!before.lines.hand_on(1, 0, datagram(b"to nobody")));
        let mut batch = ForwardedBatch::default();
        let queue = before.queue(0, listening());
        let woken = poll_fn(|cx| Poll::Ready(queue.poll_take(cx, &mut batch).is_ready())).await;
        assert!(woken, "the thread receives again");
    });
}

/// A thread that has not got to a line yet is one that receives from it.
#[test]
fn a_thread_that_ends_early_does_not_end_a_line() {
    Runtime::new().expect("descriptors").block_on(async {
        let (one, other) = socket::seqpacket_pair().expect("descriptors");
        let before = place(0, Vec::new());
        let line = before.add_line(1, one);
        let [first, second] = [line.reading(), line.reading()];
        let after = place(1, vec![(0, other)]);
        runtime::spawn(receive(after.clone(), after.first_lines()[0].reading()));
        drop(first);
        runtime::sleep(Duration::from_millis(50)).await;
        assert!(after.lines.hand_on(0, 0, datagram(b"there")));
        drop(second);
        until(|| !after.lines.hand_on(0, 0, datagram(b"gone"))).await;
    });
}
