//! Random and hostile peers.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use proptest::prelude::*;

use super::sender::Sender;
use crate::recovery::rtt::Rtt;
use crate::recovery::{AckInfo, Algorithm, EcnCounts, Fate, Item, Packet, Path, Settings};
use crate::{Space, Time};

#[derive(Clone, Debug)]
enum Action {
    Send {
        space: u8,
        size: u16,
        items: u8,
        silent: bool,
        probe: bool,
    },
    /// Offsets back from the newest packet, so that most of them are in flight.
    Ack {
        space: u8,
        back: Vec<(u8, u8)>,
        delay: u64,
        ce: u64,
    },
    Wait(u32),
    Timeout,
    Probe(u8),
    Discard(bool),
    Restart,
    Switch,
    Ask,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        10 => (0..3_u8, 20..1500_u16, 0..4_u8, any::<bool>(), prop::bool::weighted(0.05)).prop_map(
            |(space, size, items, silent, probe)| Action::Send { space, size, items, silent, probe }
        ),
        6 => (0..3_u8, prop::collection::vec((0..8_u8, 0..8_u8), 1..4), any::<u64>(), 0..3_u64)
            .prop_map(|(space, back, delay, ce)| Action::Ack { space, back, delay, ce }),
        4 => prop_oneof![0..50_000_u32, any::<u32>()].prop_map(Action::Wait),
        2 => Just(Action::Timeout),
        1 => (0..3_u8).prop_map(Action::Probe),
        1 => prop::bool::weighted(0.5).prop_map(Action::Discard),
        1 => Just(Action::Restart),
        1 => Just(Action::Switch),
        3 => Just(Action::Ask),
    ]
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        Just(Algorithm::Cubic),
        Just(Algorithm::Bbr),
        Just(Algorithm::NewReno)
    ]
}

/// What the test knows of items, which all differ.
#[derive(Default)]
struct Items {
    next: u64,
    outstanding: BTreeMap<u64, Space>,
    told: usize,
}

impl Items {
    fn make(&mut self, space: Space, count: u8) -> Vec<Item> {
        (0..count)
            .map(|_| {
                self.next += 1;
                self.outstanding.insert(self.next, space);
                Item::NewConnectionId(self.next)
            })
            .collect()
    }

    fn tell(&mut self, fate: Fate, item: Item) {
        let Item::NewConnectionId(id) = item else {
            panic!("{item:?} was not sent");
        };
        if fate == Fate::Probe {
            assert!(self.outstanding.contains_key(&id), "{id} is not in flight");
        } else {
            assert!(self.outstanding.remove(&id).is_some(), "{id} told twice");
            self.told += 1;
        }
    }
}

struct Run {
    sender: Sender,
    items: Items,
    ecn: [EcnCounts; 3],
    other: Path,
}

impl Run {
    fn new(algorithm: Algorithm, is_client: bool) -> Self {
        let settings = Settings {
            algorithm,
            ..Settings::default()
        };
        let mut sender = Sender::in_handshake(&settings, is_client);
        sender.path.set_validated();
        sender.path.set_mtu_ceiling(1452);
        let other = Path::new(1, &settings, true, sender.now);
        Self {
            sender,
            items: Items::default(),
            ecn: [EcnCounts::default(); 3],
            other,
        }
    }

    fn is_gone(&self, space: Space) -> bool {
        self.sender.recovery.space(space).is_none()
    }

    fn take(&mut self, action: &Action) {
        let Self {
            sender,
            items,
            other,
            ..
        } = self;
        match *action {
            Action::Send { .. } => self.send(action),
            Action::Ack { .. } => self.ack(action),
            Action::Wait(micros) => sender.wait(Duration::from_micros(micros.into())),
            Action::Timeout => {
                if let Some(time) = sender.timeout() {
                    sender.now = sender.now.max(time);
                }
                let (now, path) = (sender.now, &mut sender.path);
                sender
                    .recovery
                    .on_timeout(path, now, &mut |fate, item| items.tell(fate, item));
            }
            Action::Probe(space) => {
                let space = Space::ALL[usize::from(space)];
                sender
                    .recovery
                    .take_probe_items(space, &mut |fate, item| items.tell(fate, item));
            }
            Action::Discard(initial) => {
                let space = if initial {
                    Space::Initial
                } else {
                    Space::Handshake
                };
                sender.recovery.discard_space(&mut sender.path, space);
                items.outstanding.retain(|_, of| *of != space);
            }
            Action::Restart => {
                sender
                    .recovery
                    .restart_space(&mut sender.path, Space::Data, &mut |fate, item| {
                        items.tell(fate, item)
                    })
            }
            Action::Switch => {
                std::mem::swap(&mut sender.path, other);
                sender.recovery.switch_path(&mut sender.path);
            }
            Action::Ask => {
                sender.recovery.allowance(&mut sender.path, sender.now);
                sender.path.set_app_limited();
                sender.recovery.on_handshake_confirmed();
            }
        }
    }

    fn send(&mut self, action: &Action) {
        let &Action::Send {
            space,
            size,
            items,
            silent,
            probe,
        } = action
        else {
            return;
        };
        let space = Space::ALL[usize::from(space)];
        if self.is_gone(space) {
            return;
        }
        let items = self.items.make(space, if silent { 0 } else { items });
        let probe_size = self.sender.path.mtu_probe(self.sender.now);
        let packet = Packet {
            size: probe_size.filter(|_| probe).unwrap_or(size),
            ack_eliciting: !silent,
            in_flight: !silent,
            mtu_probe: probe && !silent && probe_size.is_some(),
            ..self.sender.packet(space)
        };
        self.sender
            .recovery
            .on_sent(&mut self.sender.path, space, &packet, &items);
    }

    fn ack(&mut self, action: &Action) {
        let Action::Ack {
            space,
            back,
            delay,
            ce,
        } = action
        else {
            return;
        };
        let space = Space::ALL[usize::from(*space)];
        let Some(end) = self.sender.recovery.space(space).map(|sent| sent.end()) else {
            return;
        };
        let mut ranges = Vec::new();
        let mut end = end;
        for &(gap, len) in back {
            let Some(largest) = end.checked_sub(u64::from(gap) + 1) else {
                break;
            };
            let smallest = largest.saturating_sub(len.into());
            ranges.push(smallest..=largest);
            end = smallest;
        }
        let counts = &mut self.ecn[space.index()];
        counts.ce += ce;
        let info = AckInfo {
            delay: Duration::from_micros(*delay),
            ecn: (*ce > 0).then_some(*counts),
        };
        let (sender, items) = (&mut self.sender, &mut self.items);
        // Numbers that were skipped may be among them: then that is told, and the test goes on.
        let _ = sender.recovery.on_ack(
            &mut sender.path,
            space,
            &info,
            ranges.into_iter(),
            sender.now,
            &mut |fate, item| items.tell(fate, item),
        );
    }

    fn check(&self) {
        let sender = &self.sender;
        let tag = sender.path.tag();
        let outstanding: u64 = Space::ALL
            .iter()
            .filter_map(|&space| sender.recovery.space(space))
            .map(|sent| sent.in_flight(tag))
            .sum();
        assert_eq!(sender.path.bytes_in_flight(), outstanding);
        assert!(sender.path.window() >= 2 * 1200);
        assert!((1200..=1452).contains(&sender.path.datagram_size()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Items are told at most once, and bytes in flight are those of outstanding packets.
    #[test]
    fn any_course(
        algorithm in algorithm(),
        is_client in any::<bool>(),
        actions in prop::collection::vec(action(), 0..150),
    ) {
        let mut run = Run::new(algorithm, is_client);
        for action in &actions {
            run.take(action);
            run.check();
        }
        // What is left is told when everything starts anew.
        for space in Space::ALL {
            let Run { sender, items, .. } = &mut run;
            sender.recovery.restart_space(&mut sender.path, space, &mut |fate, item| {
                items.tell(fate, item)
            });
        }
        prop_assert!(run.items.outstanding.is_empty());
        prop_assert_eq!(run.sender.path.bytes_in_flight(), 0);
    }

    /// Timers are never set again for a time that has come.
    #[test]
    fn no_timer_storms(
        algorithm in algorithm(),
        actions in prop::collection::vec(action(), 0..60),
    ) {
        let mut run = Run::new(algorithm, false);
        for action in &actions {
            run.take(action);
        }
        let start = run.sender.now;
        let mut timeouts = 0;
        while let Some(time) = run.sender.timeout() && timeouts < 40 {
            run.take(&Action::Timeout);
            let next = run.sender.timeout();
            prop_assert!(next.is_none_or(|next| next > run.sender.now), "{time:?} {next:?}");
            timeouts += 1;
        }
        // Loss timers of three spaces, and a few timeouts that are far apart soon.
        prop_assert!(
            timeouts < 40 || run.sender.now.since(start) > Duration::from_secs(60),
            "{timeouts}"
        );
    }

    #[test]
    fn the_rtt_takes_everything(
        samples in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 1..50),
    ) {
        let mut rtt = Rtt::new(Duration::MAX);
        for (latest, delay, now) in samples {
            rtt.sample(
                Duration::from_micros(latest),
                Duration::from_micros(delay),
                Time::from_micros(now),
            );
            prop_assert!(rtt.min() <= rtt.latest());
            let _ = rtt.pto() * (1 << 16);
        }
    }

    /// Any ranges, of any peer: an error or not, but no panic.
    #[test]
    fn any_ranges(
        ranges in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
        small in prop::collection::vec((0..40_u64, 0..40_u64), 0..20),
        counts in any::<Option<(u64, u64, u64)>>(),
        algorithm in algorithm(),
    ) {
        let mut run = Run::new(algorithm, true);
        run.sender.send_many(30);
        run.sender.wait(Duration::from_millis(20));
        let ecn = counts.map(|(ect0, ect1, ce)| EcnCounts { ect0, ect1, ce });
        for list in [&small, &ranges] {
            let mut list: Vec<RangeInclusive<u64>> = list.iter().map(|&(a, b)| a..=b).collect();
            let _ = run.sender.try_ack(Space::Data, &list, Duration::MAX, ecn);
            list.sort_by_key(|range| std::cmp::Reverse(*range.end()));
            let _ = run.sender.try_ack(Space::Data, &list, Duration::ZERO, ecn);
        }
    }
}

#[test]
fn ranges_of_all_numbers_cost_no_more_than_what_is_in_flight() {
    let settings = Settings::default();
    let mut sender = Sender::new(&settings);
    // Numbers far up, as after a long time: the whole range below them is acknowledged each time.
    for _ in 0..20_000 {
        let number = sender.send(Space::Data);
        sender.wait(Duration::from_micros(100));
        sender.ack(&[number..=number]);
    }
    let error = sender.try_ack(Space::Data, &[0..=(1 << 62) - 1], Duration::ZERO, None);
    assert!(error.is_err());
    assert!(sender.recovery.data.len() < 20);
}
