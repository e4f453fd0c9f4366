//! Order, budget and liveness of turns. The tests never sleep: they declare how long a flight took.

use super::*;
use std::future::Future;
use std::future::poll_fn;
use std::io::Write;
use std::sync::atomic::AtomicUsize;

/// More than one flight of a turn may take.
const LONG: Duration = Duration::from_micros(5 * BUDGET_US);
/// Several fit into a turn.
const SHORT: Duration = Duration::from_micros(BUDGET_US / 4);

#[derive(Default)]
struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Turn {
    /// Ends the flight as if it had taken so long.
    fn took(self, time: Duration) {
        let turns = Arc::clone(&self.turns);
        turns.finish(time);
        // The time it really took is noise here.
        std::mem::forget(self);
    }
}

/// What happened, in order.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().expect("no panic").push(what.into());
    }

    fn text(&self) -> String {
        self.0.lock().expect("no panic").join(" ")
    }
}

/// Runs tasks as a worker thread does, and lets the turns know when it rests.
fn on_a_worker(turns: &Arc<Turns>, work: impl Future<Output = ()>) {
    let resting = Arc::clone(turns);
    let parts = crate::runtime::Parts::new().expect("descriptors");
    let runtime = parts.start(move || resting.rest());
    runtime.block_on(work);
}

/// Starts handshakes of one flight each, numbered from 0, and waits for them.
async fn storm(turns: &Arc<Turns>, flights: &[Duration], journal: &Journal) {
    let mut running = Vec::new();
    for (number, took) in flights.iter().copied().enumerate() {
        let (mut place, journal) = (turns.place(), journal.clone());
        running.push(crate::runtime::spawn_with_handle(async move {
            let turn = poll_fn(|cx| place.poll_turn(cx)).await;
            journal.note(number.to_string());
            turn.took(took);
        }));
    }
    for flight in running {
        flight.await.expect("no panic");
    }
}

#[test]
fn nobody_queues_while_the_budget_lasts() {
    let turns = Turns::new(false);
    let wakes = Arc::new(CountWakes::default());
    let waker = Waker::from(wakes.clone());
    let mut cx = Context::from_waker(&waker);
    for _ in 0..4 {
        let mut place = turns.place();
        let Poll::Ready(turn) = place.poll_turn(&mut cx) else {
            panic!("the budget is not spent");
        };
        turn.took(SHORT);
        assert_eq!(place.waited(), Duration::ZERO);
    }
    assert!(turns.place().poll_turn(&mut cx).is_pending(), "it is spent");
    assert_eq!(turns.waiting(), 0, "whoever left does not wait");
    turns.rest();
    assert!(turns.place().poll_turn(&mut cx).is_ready(), "a new turn");
}

#[test]
fn first_come_first_served_and_the_budget_counts() {
    let turns = Turns::new(false);
    on_a_worker(&turns, async {
        let journal = Journal::default();
        storm(&turns, &[LONG, SHORT, SHORT, LONG, SHORT], &journal).await;
        assert_eq!(journal.text(), "0 1 2 3 4");
        assert_eq!(turns.waiting(), 0);
    });
}

/// The property of the event loop that everything rests on: what the sockets made ready runs
/// before the next flight, however many wait.
#[test]
fn an_established_connection_runs_between_two_flights() {
    let turns = Turns::new(false);
    on_a_worker(&turns, async {
        const STORM: usize = 20;
        let (theirs, ours) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
        ours.set_nonblocking(true).expect("any socket can be");
        let ours = crate::Socket::unix(ours.into()).expect("inside of a runtime");
        let journal = Journal::default();
        let requests = journal.clone();
        let established = crate::runtime::spawn_with_handle(async move {
            for _ in 0..STORM {
                let mut byte = Vec::new();
                let received = poll_fn(|cx| ours.poll_recv(cx, &mut byte, 1)).await;
                received.expect("it stays open");
                requests.note("request");
            }
        });
        // It waits for its first byte.
        crate::runtime::yield_now().await;
        let theirs = Arc::new(theirs);
        let storm: Vec<_> = (0..STORM)
            .map(|_| {
                let (mut place, journal, theirs) = (turns.place(), journal.clone(), theirs.clone());
                crate::runtime::spawn_with_handle(async move {
                    let turn = poll_fn(|cx| place.poll_turn(cx)).await;
                    journal.note("flight");
                    // A request arrives while the flight is worked on.
                    (&*theirs).write_all(&[1]).expect("there is room");
                    turn.took(LONG);
                })
            })
            .collect();
        for flight in storm {
            flight.await.expect("no panic");
        }
        established.await.expect("no panic");
        assert_eq!(journal.text(), ["flight request"; STORM].join(" "));
    });
}

#[test]
fn several_short_flights_share_a_turn() {
    let turns = Turns::new(false);
    on_a_worker(&turns, async {
        let rounds = Arc::new(AtomicUsize::new(0));
        let counted = rounds.clone();
        let counting = crate::runtime::spawn_with_handle(async move {
            loop {
                crate::runtime::yield_now().await;
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let journal = Journal::default();
        storm(&turns, &[SHORT; 40], &journal).await;
        counting.abort();
        // Four fit into the budget.
        let rounds = rounds.load(Ordering::Relaxed);
        assert!((9..=20).contains(&rounds), "{rounds} rounds of the loop");
    });
}

#[test]
fn who_leaves_the_queue_frees_the_place() {
    let turns = Turns::new(false);
    let wakes = Arc::new(CountWakes::default());
    let waker = Waker::from(wakes.clone());
    let mut cx = Context::from_waker(&waker);
    let mut first = turns.place();
    let Poll::Ready(turn) = first.poll_turn(&mut cx) else {
        panic!("nobody waits");
    };
    turn.took(LONG);
    on_a_worker(&turns, async {
        let mut places: Vec<HandshakeSlot> = (0..3).map(|_| turns.place()).collect();
        for place in &mut places {
            assert!(place.poll_turn(&mut cx).is_pending());
        }
        assert_eq!(turns.waiting(), 3);
        places.remove(1);
        assert_eq!(turns.waiting(), 2);
        // The turn goes to the first, which gives up instead of taking it.
        crate::runtime::yield_now().await;
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        places.remove(0);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2, "the last is told");
        assert!(places[0].poll_turn(&mut cx).is_ready());
        assert_eq!(turns.waiting(), 0);
    });
}

#[test]
fn busy_connections_do_not_starve_handshakes() {
    let turns = Turns::new(false);
    let mut state = turns.lock();
    state.began = Some(Instant::now() - Duration::from_millis(50));
    state.spent = Duration::from_millis(10);
    // 40 ms went to others: flights may take as much.
    let allowance = state.allowance();
    assert!(allowance >= Duration::from_millis(40), "{allowance:?}");
    state.began = None;
    assert_eq!(state.allowance(), BUDGET);
}

#[test]
fn a_storm_goes_on_while_everybody_else_is_busy() {
    let turns = Turns::new(false);
    on_a_worker(&turns, async {
        // Tasks that are ready all the time: the thread never rests.
        let busy: Vec<_> = (0..20)
            .map(|_| {
                crate::runtime::spawn_with_handle(async {
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
                })
            })
            .collect();
        let storm: Vec<_> = (0..10)
            .map(|_| {
                let mut place = turns.place();
                crate::runtime::spawn_with_handle(async move {
                    for _ in 0..5 {
                        poll_fn(|cx| place.poll_turn(cx)).await.took(LONG);
                    }
                })
            })
            .collect();
        for handshake in storm {
            handshake.await.expect("no panic");
        }
        busy.iter().for_each(crate::runtime::JoinHandle::abort);
    });
}

#[test]
fn accepting_is_paced_unless_all_are_wanted() {
    let turns = Turns::new(false);
    on_a_worker(&turns, async {
        poll_fn(|cx| {
            for _ in 0..ACCEPTS_PER_TURN {
                assert!(turns.poll_accept(cx).is_ready());
                turns.count_accept();
            }
            assert!(turns.poll_accept(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        // The next turn begins by itself.
        poll_fn(|cx| turns.poll_accept(cx)).await;
    });
    let all = Turns::new(true);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..1000 {
        assert!(all.poll_accept(&mut cx).is_ready());
        all.count_accept();
    }
}

#[test]
fn handshakes_elsewhere_are_counted_once_each() {
    let turns = Turns::new(false);
    let mut place = turns.place();
    place.set_in_flight(true);
    place.set_in_flight(true);
    assert_eq!(turns.in_flight(), 1);
    let mut other = turns.place();
    other.set_in_flight(true);
    place.set_in_flight(false);
    assert_eq!(turns.in_flight(), 1);
    drop(other);
    assert_eq!(turns.in_flight(), 0);
}
