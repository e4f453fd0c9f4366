use super::*;
use crate::runtime::Runtime;
use std::future::poll_fn;
use std::sync::Arc;
use std::thread;

fn datagram(bytes: &[u8], port: u16) -> Forwarded<&[u8]> {
    Forwarded {
        bytes,
        peer: ([192, 0, 2, 1], port).into(),
        local: ([127, 0, 0, 1], 443).into(),
        ecn: Ecn::Ect0,
    }
}

fn is_ready(queue: &ForwardQueue, batch: &mut ForwardedBatch) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    queue.poll_take(&mut cx, batch).is_ready()
}

#[test]
fn datagrams_come_out_as_they_went_in_and_can_be_changed() {
    let (queue, mut batch) = (ForwardQueue::default(), ForwardedBatch::default());
    assert!(!is_ready(&queue, &mut batch));
    let sent = [(&b"first"[..], 1), (b"", 2), (b"third", 3)];
    for (bytes, port) in sent {
        assert!(queue.push(datagram(bytes, port)));
    }
    assert!(is_ready(&queue, &mut batch));
    let mut count = 0;
    for (found, (bytes, port)) in batch.datagrams_mut().zip(sent) {
        assert_eq!(&*found.bytes, bytes);
        let expected = datagram(bytes, port);
        assert_eq!((found.peer, found.local), (expected.peer, expected.local));
        assert_eq!(found.ecn, expected.ecn);
        found.bytes.fill(0);
        count += 1;
    }
    assert_eq!((count, batch.datagrams_mut().count()), (3, 3));
    assert!(!is_ready(&queue, &mut batch));
    assert_eq!(batch.datagrams_mut().count(), 0, "they were dealt with");
}

#[test]
fn a_full_queue_drops_and_counts() {
    let (queue, mut batch) = (ForwardQueue::default(), ForwardedBatch::default());
    let pushed = (0..QUEUE_DATAGRAMS + 10).filter(|_| queue.push(datagram(b"x", 1)));
    assert_eq!(pushed.count(), QUEUE_DATAGRAMS);
    assert_eq!(queue.dropped(), 10);
    assert!(is_ready(&queue, &mut batch));
    assert!(queue.push(datagram(b"x", 1)), "there is room again");
    assert!(is_ready(&queue, &mut batch));

    let long = vec![1; 60_000];
    let pushed = (0..100).filter(|_| queue.push(datagram(&long, 1))).count();
    assert_eq!(pushed, QUEUE_BYTES / long.len());
    assert_eq!(queue.dropped(), 10 + 100 - pushed as u64);
    assert!(is_ready(&queue, &mut batch));
    assert!(!is_ready(&queue, &mut batch));
    assert!(batch.bytes.capacity() <= KEPT_BYTES, "a burst is over");
}

#[test]
fn datagrams_wake_the_thread_that_they_are_for() {
    const THREADS: u16 = 3;
    const EACH: u16 = 200;
    let queue = Arc::new(ForwardQueue::default());
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let queue = queue.clone();
            thread::spawn(move || {
                for number in 0..EACH {
                    assert!(queue.push(datagram(&number.to_be_bytes(), thread)));
                }
            })
        })
        .collect();
    let mut expected = [0; THREADS as usize];
    Runtime::new().expect("descriptors").block_on(async {
        let mut batch = ForwardedBatch::default();
        while expected != [EACH; THREADS as usize] {
            poll_fn(|cx| queue.poll_take(cx, &mut batch)).await;
            for found in batch.datagrams_mut() {
                let next = &mut expected[usize::from(found.peer.port())];
                assert_eq!(&*found.bytes, next.to_be_bytes(), "in order");
                *next += 1;
            }
        }
    });
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(queue.dropped(), 0);
}
