//! Order, wake-ups from elsewhere, readiness and timers of an event loop.

use super::*;
use crate::Socket;
use std::future::poll_fn;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

fn runtime() -> Runtime {
    Runtime::new().expect("descriptors")
}

fn pair() -> (Socket, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("descriptors");
    ours.set_nonblocking(true).expect("any socket can be");
    (
        Socket::unix(ours.into()).expect("inside of a runtime"),
        theirs,
    )
}

async fn receive(socket: &Socket) -> usize {
    let mut bytes = Vec::new();
    poll_fn(|cx| socket.poll_recv(cx, &mut bytes, 4096))
        .await
        .expect("it is open")
}

/// Whether a call would find something without waiting.
fn has_input(socket: &Socket) -> bool {
    socket.may_have_input()
}

#[test]
fn tasks_run_in_the_order_in_which_they_were_woken() {
    let order = Rc::new(RefCell::new(Vec::new()));
    runtime().block_on(async {
        let tasks: Vec<_> = (0..5)
            .map(|number| {
                let order = order.clone();
                spawn_with_handle(async move {
                    order.borrow_mut().push(number);
                    yield_now().await;
                    order.borrow_mut().push(number + 10);
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    });
    assert_eq!(*order.borrow(), [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]);
}

#[test]
fn a_task_that_never_waits_does_not_keep_the_loop() {
    runtime().block_on(async {
        let (ours, mut theirs) = pair();
        let busy = spawn_with_handle(async {
            loop {
                let mut again = false;
                poll_fn(|cx| {
                    if std::mem::replace(&mut again, true) {
                        return Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
            }
        });
        yield_now().await;
        theirs.write_all(b"abc").expect("room");
        assert_eq!(receive(&ours).await, 3);
        busy.abort();
        assert_eq!(busy.await, Err(Ended));
    });
}

/// A peer that always has more to say must not keep the thread.
#[test]
fn a_socket_that_is_always_ready_leaves_turns_to_others() {
    runtime().block_on(async {
        let (ours, mut theirs) = pair();
        theirs.write_all(&[7; 64 << 10]).expect("room");
        let others = Rc::new(Cell::new(0));
        let counted = others.clone();
        let counting = spawn_with_handle(async move {
            loop {
                counted.set(counted.get() + 1);
                yield_now().await;
            }
        });
        let reading = spawn_with_handle(async move {
            let mut bytes = Vec::new();
            for _ in 0..4 * OPERATIONS_PER_POLL {
                poll_fn(|cx| ours.poll_recv(cx, &mut bytes, 1))
                    .await
                    .expect("it is open");
            }
        });
        reading.await.expect("no panic");
        counting.abort();
        assert!(others.get() >= 3, "{} turns of others", others.get());
    });
}

#[test]
fn a_panic_ends_its_task_alone() {
    runtime().block_on(async {
        let panicking = spawn_with_handle(async { panic!("only this one") });
        assert_eq!(panicking.await, Err(Ended));
        assert_eq!(spawn_with_handle(async { 7 }).await, Ok(7));
    });
}

#[test]
fn other_threads_wake_tasks_that_wait_and_those_that_do_not() {
    const ROUNDS: usize = 2000;
    runtime().block_on(async {
        // One thread asks, the loop answers: sometimes it waits by then, sometimes not yet.
        let (ask, mut asked) = tokio::sync::mpsc::unbounded_channel();
        let (answer, answered) = std::sync::mpsc::channel();
        let asking = std::thread::spawn(move || {
            for round in 0..ROUNDS {
                ask.send(round).expect("the loop lives");
                assert_eq!(answered.recv(), Ok(round));
            }
        });
        while let Some(round) = asked.recv().await {
            answer.send(round).expect("the thread lives");
        }
        asking.join().expect("no panic");
    });
}

#[test]
fn input_is_seen_however_it_arrives() {
    runtime().block_on(async {
        // Before the socket is registered.
        let (ours, mut theirs) = UnixStream::pair().expect("descriptors");
        theirs.write_all(b"early").expect("room");
        ours.set_nonblocking(true).expect("any socket can be");
        let ours = Socket::unix(ours.into()).expect("inside of a runtime");
        assert_eq!(receive(&ours).await, 5);
        // While nobody asks.
        theirs.write_all(b"late").expect("room");
        yield_now().await;
        assert!(has_input(&ours));
        assert_eq!(receive(&ours).await, 4);
        assert!(!has_input(&ours), "a short read says that there is no more");
        // Together with the end, which one event says of both.
        let (short, mut theirs_of_short) = pair();
        theirs_of_short.write_all(b"last words").expect("room");
        drop(theirs_of_short);
        assert_eq!((receive(&short).await, receive(&short).await), (10, 0));
        // While somebody waits, and then the end.
        let reading =
            spawn_with_handle(async move { (receive(&ours).await, receive(&ours).await) });
        yield_now().await;
        theirs.write_all(b"now").expect("room");
        yield_now().await;
        drop(theirs);
        assert_eq!(reading.await, Ok((3, 0)));
    });
}

#[test]
fn a_full_socket_is_watched_until_there_is_room() {
    runtime().block_on(async {
        let (ours, mut theirs) = pair();
        let chunk = vec![1; 64 << 10];
        let sent = Rc::new(Cell::new(0));
        let counted = sent.clone();
        let sending = spawn_with_handle(async move {
            for _ in 0..64 {
                let piece = [std::io::IoSlice::new(&chunk)];
                let taken = poll_fn(|cx| ours.poll_send(cx, &piece, false)).await;
                counted.set(counted.get() + taken.expect("it is open"));
            }
        });
        for _ in 0..10 {
            yield_now().await;
        }
        let stuck_at = sent.get();
        assert!(
            stuck_at < 64 * (64 << 10),
            "nobody reads, and buffers are smaller"
        );
        let reading = std::thread::spawn(move || std::io::copy(&mut theirs, &mut std::io::sink()));
        sending.await.expect("no panic");
        let read = reading.join().expect("no panic").expect("it is open");
        assert_eq!(read, sent.get() as u64);
        assert!(sent.get() > stuck_at);
    });
}

#[test]
fn a_slot_that_is_used_again_hears_nothing_of_the_socket_before() {
    runtime().block_on(async {
        let (ours, mut theirs) = pair();
        // Another descriptor keeps the socket, and its place in epoll, alive.
        let kept = ours.as_fd().try_clone_to_owned().expect("descriptors");
        drop(ours);
        let (next, _their_end) = pair();
        theirs.write_all(b"for the one before").expect("room");
        yield_now().await;
        assert!(!has_input(&next));
        drop(kept);
    });
}

#[test]
fn a_socket_belongs_to_one_loop() {
    let first = runtime();
    let (ours, mut theirs) = first.block_on(async { pair() });
    theirs.write_all(b"x").expect("room");
    std::thread::spawn(move || {
        runtime().block_on(async {
            let mut bytes = Vec::new();
            let refused = poll_fn(|cx| ours.poll_recv(cx, &mut bytes, 1)).await;
            let error = refused.expect_err("it is another thread's");
            assert!(error.to_string().contains("another thread"), "{error}");
            let here = ours.move_here().expect("it is open");
            assert_eq!(receive(&here).await, 1);
        });
    })
    .join()
    .expect("no panic");
    // The slot came back.
    first.block_on(async {
        yield_now().await;
        let (_ours, _theirs) = pair();
        assert_eq!(first.local.reactor.borrow().sources_in_use(), 1);
    });
}

#[test]
fn timers_fire_in_order_and_can_be_moved() {
    runtime().block_on(async {
        let order = Rc::new(RefCell::new(Vec::new()));
        let after = |ms| {
            let order = order.clone();
            spawn_with_handle(async move {
                sleep(Duration::from_millis(ms)).await;
                order.borrow_mut().push(ms);
            })
        };
        let (third, first, second) = (after(30), after(1), after(15));
        for task in [first, second, third] {
            task.await.expect("no panic");
        }
        assert_eq!(*order.borrow(), [1, 15, 30]);
        let begun = Instant::now();
        let mut moved = sleep(Duration::from_millis(1));
        poll_fn(|cx| {
            assert!(Pin::new(&mut moved).poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        moved.reset(begun + Duration::from_millis(40));
        (&mut moved).await;
        assert!(begun.elapsed() >= Duration::from_millis(40));
        moved.reset(Instant::now() + Duration::from_secs(3600));
        moved.reset(Instant::now());
        (&mut moved).await;
        drop(moved);
        let hour = timeout_at(Instant::now() + Duration::from_secs(3600), async { 7 }).await;
        assert_eq!(hour, Ok(7));
        let never = timeout_at(Instant::now(), std::future::pending::<()>()).await;
        assert_eq!(never, Err(Elapsed));
    });
}

#[test]
fn tasks_that_are_left_are_dropped_with_the_loop() {
    struct Told(Arc<Mutex<Vec<&'static str>>>, &'static str);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.lock().expect("no panic").push(self.1);
        }
    }
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let runtime = runtime();
    runtime.block_on(async {
        let told = Told(dropped.clone(), "waits");
        let (socket, theirs) = pair();
        spawn(async move {
            let _told = told;
            let _theirs = theirs;
            receive(&socket).await;
        });
        let told = Told(dropped.clone(), "never ran");
        yield_now().await;
        spawn(async move { drop(told) });
    });
    assert!(dropped.lock().expect("no panic").is_empty());
    drop(runtime);
    let mut all = dropped.lock().expect("no panic").clone();
    all.sort_unstable();
    assert_eq!(all, ["never ran", "waits"]);
}

#[test]
fn blocking_work_runs_elsewhere_and_all_of_it() {
    const COUNT: usize = 100;
    let (done, finished) = std::sync::mpsc::channel();
    runtime().block_on(async {
        for number in 0..COUNT {
            let done = done.clone();
            spawn_blocking(move || {
                let name = std::thread::current().name().map(str::to_owned);
                done.send((number, name)).expect("the test waits");
            });
        }
        let mut seen: Vec<_> = (0..COUNT)
            .map(|_| finished.recv().expect("it runs"))
            .collect();
        seen.sort_unstable();
        for (index, (number, name)) in seen.into_iter().enumerate() {
            assert_eq!((index, name.as_deref()), (number, Some("disk")));
        }
    });
}

/// However many newcomers there are, and however long each of their steps takes.
#[test]
fn an_established_task_runs_between_two_steps_of_newcomers() {
    const NEWCOMERS: usize = 20;
    runtime().block_on(async {
        let journal = Rc::new(RefCell::new(Vec::new()));
        let (ours, theirs) = pair();
        let requests = journal.clone();
        let established = spawn_with_handle(async move {
            for _ in 0..NEWCOMERS {
                let mut byte = Vec::new();
                poll_fn(|cx| ours.poll_recv(cx, &mut byte, 1))
                    .await
                    .expect("it is open");
                requests.borrow_mut().push("request");
            }
        });
        yield_now().await; // it waits for its first byte
        let theirs = Rc::new(theirs);
        for _ in 0..NEWCOMERS {
            let (journal, theirs) = (journal.clone(), theirs.clone());
            spawn_newcomer(async move {
                // A request arrives during the step, which takes all the time that there is.
                (&*theirs).write_all(&[1]).expect("room");
                let began = Instant::now();
                while began.elapsed() < NEWCOMERS_TIME {}
                journal.borrow_mut().push("step");
            });
        }
        established.await.expect("no panic");
        assert_eq!(*journal.borrow(), ["step", "request"].repeat(NEWCOMERS));
    });
}

#[test]
fn a_newcomer_that_is_established_waits_no_longer() {
    runtime().block_on(async {
        let order = Rc::new(RefCell::new(Vec::new()));
        let (first, second) = (order.clone(), order.clone());
        spawn_newcomer(async move {
            establish();
            yield_now().await;
            first.borrow_mut().push("established");
        });
        yield_now().await; // it has run
        spawn_newcomer(async move { second.borrow_mut().push("newcomer") });
        for _ in 0..3 {
            yield_now().await;
        }
        assert_eq!(*order.borrow(), ["established", "newcomer"]);
    });
}

#[test]
fn tasks_that_another_thread_wakes_together_all_run() {
    runtime().block_on(async {
        let wakers = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..5)
            .map(|number| {
                let wakers = wakers.clone();
                let mut has_waited = false;
                spawn_with_handle(poll_fn(move |cx| {
                    if std::mem::replace(&mut has_waited, true) {
                        return Poll::Ready(number);
                    }
                    wakers.lock().expect("no panic").push(cx.waker().clone());
                    Poll::Pending
                }))
            })
            .collect();
        yield_now().await;
        let waking = std::thread::spawn(move || {
            let wakers = std::mem::take(&mut *wakers.lock().expect("no panic"));
            assert_eq!(wakers.len(), 5);
            wake_together(wakers);
        });
        for (number, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await, Ok(number));
        }
        waking.join().expect("no panic");
    });
}

#[test]
fn a_socket_moves_to_another_loop_and_back() {
    let (here, there) = (runtime(), runtime());
    let (mut ours, mut theirs) = {
        let _entered = here.enter();
        pair()
    };
    for (number, runtime) in [&there, &here, &there, &here].into_iter().enumerate() {
        {
            let _entered = runtime.enter();
            assert!(!ours.is_here());
            ours = ours.move_here().expect("a loop");
            assert!(ours.is_here());
        }
        (ours, theirs) = runtime.block_on(async move {
            // Nothing is there yet: it has to wait in this loop.
            let receiving = spawn_with_handle(async move { (receive(&ours).await, ours) });
            yield_now().await;
            theirs.write_all(&vec![1; number + 1]).expect("room");
            let (received, ours) = receiving.await.expect("no panic");
            assert_eq!(received, number + 1);
            (ours, theirs)
        });
    }
}
