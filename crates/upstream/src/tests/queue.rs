//! Requests that wait for a peer.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Wake, Waker};
use std::thread;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A group with a queue, of peers with these `max_conns`.
fn queued(limit: usize, max_conns: &[u32]) -> GroupSettings {
    let server = |(port, max_conns): (u16, &u32)| ServerSettings {
        max_conns: *max_conns,
        ..server(port)
    };
    GroupSettings {
        servers: (1..).zip(max_conns).map(server).collect(),
        queue: Some(QueueSettings {
            limit,
            timeout: TIMEOUT,
        }),
        ..weighted(Method::RoundRobin, &[])
    }
}

/// A request that waits.
struct Waiter {
    place: QueueSlot,
    tried: Tried,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Waiter {
    fn new(group: &Group) -> Waiter {
        Waiter::after(group, Tried::default())
    }

    fn after(group: &Group, mut tried: Tried) -> Waiter {
        match group.pick_or_wait(&ask(Instant::now()), &mut tried) {
            Err(NotPicked::Waits(place)) => {
                let mut waiter = Waiter {
                    place,
                    tried,
                    woken: Arc::default(),
                };
                assert!(waiter.try_again(group).is_none());
                waiter
            }
            other => panic!("it does not wait: {other:?}"),
        }
    }

    /// As its task does when it runs.
    fn try_again(&mut self, group: &Group) -> Option<Picked> {
        let waker = Waker::from(self.woken.clone());
        while self
            .place
            .poll_turn(&mut Context::from_waker(&waker))
            .is_ready()
        {
            let asked = ask(Instant::now());
            if let Ok(picked) = group.pick_in_turn_of(&self.place, &asked, &mut self.tried) {
                return Some(picked);
            }
        }
        None
    }

    fn wakes(&self) -> usize {
        self.woken.0.load(Ordering::Relaxed)
    }
}

fn pick_at_once(group: &Group) -> Picked {
    let picked = group.pick_or_wait(&ask(Instant::now()), &mut Tried::default());
    picked.expect("a peer")
}

#[test]
fn who_came_first_goes_first_and_nobody_overtakes() {
    let group = Group::new(queued(10, &[1]), 1);
    let busy = pick_at_once(&group);
    let (mut first, mut second) = (Waiter::new(&group), Waiter::new(&group));
    assert_eq!(group.waiting(), 2);
    drop(busy);
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    // The peer is free, but somebody has waited for it.
    let mut third = Waiter::new(&group);
    assert!(second.try_again(&group).is_none());
    let picked = first.try_again(&group).expect("its turn");
    drop(first);
    assert!(second.try_again(&group).is_none());
    drop(picked);
    let picked = second.try_again(&group).expect("its turn");
    drop(second);
    drop(picked);
    drop(third.try_again(&group).expect("its turn"));
    drop(third);
    assert_eq!(group.waiting(), 0);
    drop(pick_at_once(&group));
}

#[test]
fn no_more_wait_than_may() {
    let group = Group::new(queued(2, &[1]), 1);
    let _busy = pick_at_once(&group);
    let _waiting = [Waiter::new(&group), Waiter::new(&group)];
    let more = group.pick_or_wait(&ask(Instant::now()), &mut Tried::default());
    assert!(matches!(more, Err(NotPicked::QueueFull)), "{more:?}");
    assert_eq!((group.overflows(), group.without_peer()), (1, 1));
}

#[test]
fn one_that_goes_away_hands_its_turn_on() {
    let group = Group::new(queued(10, &[1]), 1);
    let busy = pick_at_once(&group);
    let (first, mut second) = (Waiter::new(&group), Waiter::new(&group));
    drop(busy);
    drop(first);
    assert_eq!(second.wakes(), 1);
    assert!(second.try_again(&group).is_some());
}

#[test]
fn one_event_wakes_two_however_many_wait() {
    let group = Group::new(queued(1000, &[1]), 1);
    let busy = pick_at_once(&group);
    let mut waiters: Vec<_> = (0..1000).map(|_| Waiter::new(&group)).collect();
    drop(busy);
    let picked = waiters[0].try_again(&group);
    assert!(picked.is_some());
    waiters.remove(0);
    let mut wakes = 0;
    for waiter in &mut waiters {
        assert!(waiter.try_again(&group).is_none());
        wakes += waiter.wakes();
    }
    assert_eq!(wakes, 1);
}

#[test]
fn one_that_has_tried_the_free_peer_lets_others_have_it() {
    let group = Group::new(queued(10, &[1, 1]), 1);
    let mut tried = Tried::default();
    let asked = ask(Instant::now());
    let failed = group.pick(&asked, &mut tried).expect("a peer");
    let other = group.pick(&asked, &mut Tried::default()).expect("a peer");
    // It may only go where the other one is.
    let mut first = Waiter::after(&group, tried);
    let mut second = Waiter::new(&group);
    drop(failed);
    assert!(first.try_again(&group).is_none());
    let picked = second.try_again(&group).expect("the peer that failed");
    drop(second);
    // One that comes now finds that peer, although somebody waits.
    drop(picked);
    let third = group.pick_or_wait(&asked, &mut Tried::default());
    let Err(NotPicked::Waits(place)) = third else {
        panic!("{third:?}");
    };
    let mut third = Waiter {
        place,
        tried: Tried::default(),
        woken: Arc::default(),
    };
    assert!(first.try_again(&group).is_none());
    assert!(third.try_again(&group).is_some());
    drop(other);
    assert!(first.try_again(&group).is_some());
}

#[test]
fn one_of_a_drained_peer_goes_where_others_may_not() {
    let settings = queued(10, &[1, 1]);
    let servers = settings.servers.into_iter().enumerate();
    let servers = servers.map(|(at, server)| ServerSettings {
        route: (at == 1).then(|| b"own"[..].into()),
        drain: at == 1,
        ..server
    });
    let settings = GroupSettings {
        servers: servers.collect(),
        ..queued(10, &[])
    };
    let group = Group::new(settings, 1);
    let own = PickRequest {
        server_id: Some(b"own"),
        ..ask(Instant::now())
    };
    let _others = pick_at_once(&group);
    let drained = group
        .pick_or_wait(&own, &mut Tried::default())
        .expect("its own");
    let mut first = Waiter::new(&group);
    let mut tried = Tried::default();
    let waits = group.pick_or_wait(&own, &mut tried);
    let Err(NotPicked::Waits(place)) = waits else {
        panic!("{waits:?}");
    };
    drop(drained);
    assert!(first.try_again(&group).is_none());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(place.poll_turn(&mut cx).is_ready());
    let picked = group.pick_in_turn_of(&place, &own, &mut tried);
    assert_eq!(port(picked.expect("its own").peer()), 2);
}

/// `fallback=off`: what one client's own peer cannot do, others may.
#[test]
fn one_that_may_go_to_one_peer_only_does_not_hold_up_others() {
    let group = Group::new(queued(10, &[1, 1]), 1);
    let first = group.peers()[0].server_id().to_vec();
    let own = PickRequest {
        server_id: Some(&first),
        own_only: true,
        ..ask(Instant::now())
    };
    let busy = [pick_at_once(&group), pick_at_once(&group)];
    let mut tried = Tried::default();
    let waits = group.pick_or_wait(&own, &mut tried);
    let Err(NotPicked::Waits(place)) = waits else {
        panic!("{waits:?}");
    };
    let mut cx = Context::from_waker(Waker::noop());
    let mut other = Waiter::new(&group);
    let [of_first, of_second] = busy;
    assert_eq!(port(of_first.peer()), 1);
    drop(of_second);
    assert!(place.poll_turn(&mut cx).is_ready());
    assert!(group.pick_in_turn_of(&place, &own, &mut tried).is_err());
    let picked = other.try_again(&group).expect("the second peer");
    assert_eq!(port(picked.peer()), 2);
    drop(of_first);
    assert!(place.poll_turn(&mut cx).is_ready());
    let picked = group.pick_in_turn_of(&place, &own, &mut tried);
    assert_eq!(port(picked.expect("its own").peer()), 1);
}

#[test]
fn the_first_one_watches_when_a_peer_that_failed_comes_back() {
    let now = Instant::now();
    let group = Group::new(queued(10, &[0, 0]), 1);
    for _ in 0..2 {
        pick(&group, now).failed(now);
    }
    let mut tried = Tried::default();
    let waits = group.pick_or_wait(&ask(now), &mut tried);
    let Err(NotPicked::Waits(place)) = waits else {
        panic!("{waits:?}");
    };
    let again = group.pick_in_turn_of(&place, &ask(now), &mut tried);
    assert_eq!(again.err(), Some(Some(Duration::from_millis(10_001))));
    place.ask_again();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(place.poll_turn(&mut cx).is_ready());
    let asked = ask(later(now, 11));
    assert!(group.pick_in_turn_of(&place, &asked, &mut tried).is_ok());
}

#[test]
fn verdicts_and_addresses_end_the_wait() {
    let checks = [CheckSettings {
        name: "c".into(),
        mandatory: true,
    }];
    let settings = GroupSettings {
        checks: checks.into(),
        ..queued(10, &[0])
    };
    let group = Group::new(settings, 1);
    let mut waiter = Waiter::new(&group);
    let peer = group.peers().remove(0);
    group.note_verdict(&peer, 0, true, Instant::now());
    assert!(waiter.try_again(&group).is_some());

    let mut settings = queued(10, &[0]);
    settings.servers[0].addresses.clear();
    let group = Group::new(settings, 1);
    let mut waiter = Waiter::new(&group);
    group.set_addresses(0, vec![address(1).into()]);
    assert!(waiter.try_again(&group).is_some());
}

#[test]
fn groups_before_and_after_a_reload_share_the_line() {
    let before = Group::new(queued(10, &[1]), 1);
    let busy = pick_at_once(&before);
    let mut old = Waiter::new(&before);
    let after = Group::after(queued(10, &[1]), 1, Some(&before));
    let mut new = Waiter::new(&after);
    drop(busy);
    assert!(new.try_again(&after).is_none());
    let picked = old.try_again(&before).expect("it came first");
    drop(old);
    drop(picked);
    drop(new.try_again(&after).expect("its turn"));
    drop(new);
    // A peer that only the new group has: the old one's request cannot go there, the new one's can.
    let busy = pick_at_once(&after);
    let mut old = Waiter::new(&before);
    let grown = Group::after(queued(10, &[1, 1]), 1, Some(&after));
    let mut new = match grown.pick_or_wait(&ask(Instant::now()), &mut Tried::default()) {
        Err(NotPicked::Waits(place)) => Waiter {
            place,
            tried: Tried::default(),
            woken: Arc::default(),
        },
        other => panic!("{other:?}"),
    };
    assert!(old.try_again(&before).is_none());
    assert!(new.try_again(&grown).is_some());
    // Without a queue, nobody joins any more; who waits is still told.
    let without = GroupSettings {
        queue: None,
        ..queued(10, &[1])
    };
    let _last = Group::after(without, 1, Some(&grown));
    drop(busy);
    assert!(old.try_again(&before).is_some());
}

/// Threads pick, wait and end requests at the same time: each gets its peer, never more at a time
/// than the peers may have.
#[test]
fn no_wake_is_lost_between_threads() {
    const THREADS: u32 = 4;
    const REQUESTS: usize = 2_000;
    let settings = GroupSettings {
        zone: true,
        ..queued(100, &[1, 2])
    };
    let group = Arc::new(Group::new(settings, THREADS as usize));
    let active = Arc::new(AtomicUsize::new(0));
    let (sender, done) = mpsc::channel();
    for number in 0..THREADS {
        let (group, active, sender) = (group.clone(), active.clone(), sender.clone());
        thread::spawn(move || {
            for _ in 0..REQUESTS {
                let picked = wait_for_peer(&group, number);
                assert!(active.fetch_add(1, Ordering::SeqCst) < 3);
                thread::yield_now();
                active.fetch_sub(1, Ordering::SeqCst);
                picked.succeeded(Instant::now());
            }
            sender.send(()).expect("the test waits");
        });
    }
    for _ in 0..THREADS {
        done.recv_timeout(Duration::from_secs(120))
            .expect("nobody waits for ever");
    }
    assert_eq!(group.waiting(), 0);
}

/// Wakes a thread.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait_for_peer(group: &Group, thread: u32) -> Picked {
    let mut tried = Tried::default();
    let asked = PickRequest {
        thread,
        ..ask(Instant::now())
    };
    let place = match group.pick_or_wait(&asked, &mut tried) {
        Ok(picked) => return picked,
        Err(NotPicked::Waits(place)) => place,
        Err(other) => panic!("{other:?}"),
    };
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        while place
            .poll_turn(&mut Context::from_waker(&waker))
            .is_pending()
        {
            thread::park();
        }
        if let Ok(picked) = group.pick_in_turn_of(&place, &asked, &mut tried) {
            return picked;
        }
    }
}
