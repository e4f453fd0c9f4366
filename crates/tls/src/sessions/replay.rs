//! The register of early data: each flight is accepted once.
//!
//! A flight is a ticket with the binder of its ClientHello, which covers
//! everything else in the hello. Whoever records a flight can send it again; libssl only checks
//! that the ticket's age fits within 60 seconds. So every accepted flight is
//! remembered for as long as its age could fit anywhere.
//!
//! What a flood costs: only flights whose ticket opens and whose binder was made by
//! the holder of the session get here (a forged hello costs an opened
//! ticket and seven short hashes, and leaves nothing). Those that hold a session may try
//! one ticket with many hellos: a ticket gets [`MAX_FLIGHTS_PER_TICKET`], more
//! wait for a handshake of one round trip. The register is bounded; when it is
//! full nothing is forgotten before its time: new flights are refused, and become
//! handshakes of one round trip too.
//!
//! A register knows nothing of what was accepted before it began. It refuses tickets
//! that were made before it, unless they are so old that the window has passed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;

/// How long a flight is remembered, in seconds. libssl takes an age that is up to
/// 60 s off either way, so a flight is good for 120 s on one clock; clocks of
/// nodes that are each wrong by a minute either way make it 240 s.
pub const WINDOW_S: u64 = 300;
/// Flights with one ticket in one window.
pub const MAX_FLIGHTS_PER_TICKET: usize = 16;
/// `ssl_early_data_register_size`'s default, in flights; about 100 bytes each.
pub const DEFAULT_REGISTER_FLIGHTS: usize = 100_000;

/// Locks; a power of two.
const SHARDS: usize = 16;

/// A flight: the digest of its ticket and that of its binder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flight {
    /// 16 bytes of the ticket's SHA-256.
    pub ticket: [u8; 16],
    /// 16 bytes of the SHA-256 of ticket and binder.
    pub binder: [u8; 16],
}

/// What the register says of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is new, and taken from now on.
    First,
    /// It was claimed before.
    Replayed,
    /// The ticket has had its share for now.
    TicketExhausted,
    /// There is no room.
    Full,
    /// The ticket is older than the register, which cannot know.
    BeforeRegister,
}

/// The flights of the last [`WINDOW_S`] seconds. All workers share it, because a
/// replay may reach any of them; it is split into shards with a lock each.
pub struct ReplayRegister {
    shards: Box<[Mutex<Shard>]>,
    shard_flights: usize,
    began_s: u64,
}

/// Two generations: what is in the older one is at least as old as the younger
/// one's beginning, so it can go as a whole.
#[derive(Default)]
struct Shard {
    young: Generation,
    old: Generation,
}

#[derive(Default)]
struct Generation {
    began_s: u64,
    flights: usize,
    tickets: HashMap<[u8; 16], SmallVec<[[u8; 16]; 1]>>,
}

impl ReplayRegister {
    /// A register of at most `flights`, that begins at `now_s`.
    pub fn new(flights: usize, now_s: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_flights: flights.div_ceil(SHARDS).max(1),
            began_s: now_s,
        }
    }

    /// Flights remembered.
    pub fn len(&self) -> usize {
        let flights = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.young.flights + shard.old.flights
        };
        self.shards.iter().map(flights).sum()
    }

    /// Whether no flight is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a flight with a ticket made at `made_s` may have been accepted
    /// before the register began.
    pub fn is_before(&self, made_s: u64, now_s: u64) -> bool {
        // Within one second nothing is certain, nor is a clock that went back.
        let fresh = made_s > self.began_s && made_s <= now_s;
        !fresh && now_s.saturating_sub(self.began_s) <= WINDOW_S
    }

    /// Claims a flight whose ticket was made at `made_s`.
    pub fn claim(&self, flight: &Flight, made_s: u64, now_s: u64) -> Claim {
        if self.is_before(made_s, now_s) {
            return Claim::BeforeRegister;
        }
        self.claim_known(flight, now_s)
    }

    /// Claims a flight, leaving what was before the register to others.
    pub fn claim_known(&self, flight: &Flight, now_s: u64) -> Claim {
        let shard = &self.shards[usize::from(flight.ticket[15]) % SHARDS];
        // A panic cannot have left a shard half changed.
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        shard.advance(now_s);
        shard.claim(flight, self.shard_flights)
    }
}

impl Shard {
    fn advance(&mut self, now_s: u64) {
        // A clock that goes back lengthens memory, never shortens it.
        if now_s < self.young.began_s.saturating_add(WINDOW_S) {
            return;
        }
        let next = Generation {
            began_s: now_s,
            ..Generation::default()
        };
        let quiet = now_s >= self.young.began_s.saturating_add(2 * WINDOW_S);
        let previous = std::mem::replace(&mut self.young, next);
        self.old = if quiet {
            Generation::default()
        } else {
            previous
        };
    }

    fn claim(&mut self, flight: &Flight, limit: usize) -> Claim {
        let earlier = self.old.tickets.get(&flight.ticket);
        let earlier_flights = earlier.map_or(0, SmallVec::len);
        if earlier.is_some_and(|known| known.contains(&flight.binder)) {
            return Claim::Replayed;
        }
        let is_full = self.young.flights + self.old.flights >= limit;
        match self.young.tickets.entry(flight.ticket) {
            Entry::Occupied(known) if known.get().contains(&flight.binder) => Claim::Replayed,
            Entry::Occupied(known)
                if known.get().len() + earlier_flights >= MAX_FLIGHTS_PER_TICKET =>
            {
                Claim::TicketExhausted
            }
            Entry::Vacant(_) if earlier_flights >= MAX_FLIGHTS_PER_TICKET => Claim::TicketExhausted,
            _ if is_full => Claim::Full,
            entry => {
                entry.or_default().push(flight.binder);
                self.young.flights += 1;
                Claim::First
            }
        }
    }
}

impl fmt::Debug for ReplayRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplayRegister({} flights)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(ticket: u32, binder: u32) -> Flight {
        let digest = |n: u32| {
            let digest = sealane_awslc::sha256(&n.to_be_bytes());
            *digest.first_chunk().expect("32 bytes")
        };
        Flight {
            ticket: digest(ticket),
            binder: digest(binder),
        }
    }

    #[test]
    fn a_flight_is_new_once_in_its_window() {
        let register = ReplayRegister::new(1000, 0);
        for now_s in [1000, 1001, 1000 + WINDOW_S - 1] {
            let expected = if now_s == 1000 {
                Claim::First
            } else {
                Claim::Replayed
            };
            assert_eq!(
                register.claim(&flight(1, 1), 900, now_s),
                expected,
                "{now_s}"
            );
        }
        assert_eq!(register.claim(&flight(1, 2), 900, 1001), Claim::First);
        assert_eq!(register.claim(&flight(2, 1), 900, 1001), Claim::First);
        assert_eq!(register.len(), 3);
    }

    #[test]
    fn it_is_remembered_for_the_window_wherever_the_generations_change() {
        for start_s in (1000..1000 + 3 * WINDOW_S).step_by(7) {
            let register = ReplayRegister::new(1000, 0);
            // Something to begin a generation with.
            register.claim(&flight(0, 0), 900, 1000);
            assert_eq!(register.claim(&flight(1, 1), 900, start_s), Claim::First);
            for later_s in (start_s..start_s + WINDOW_S).step_by(11) {
                register.claim(
                    &flight(9, u32::try_from(later_s).expect("small")),
                    900,
                    later_s,
                );
                assert_eq!(register.claim(&flight(1, 1), 900, later_s), Claim::Replayed);
            }
        }
    }

    #[test]
    fn flights_are_forgotten_when_no_age_can_fit_any_more() {
        let register = ReplayRegister::new(1000, 0);
        for n in 0..100 {
            assert_eq!(register.claim(&flight(n, n), 900, 1000), Claim::First);
        }
        let later_s = 1000 + 2 * WINDOW_S;
        for n in 100..900 {
            register.claim(&flight(n, n), 900, later_s);
        }
        assert!(register.len() <= 800);
        // One entry in every shard brings them all up to date.
        for n in 0..100 {
            register.claim(&flight(n, 1_000_000 + n), 900, later_s + 2 * WINDOW_S);
        }
        assert_eq!(register.len(), 100);
    }

    #[test]
    fn a_clock_that_goes_back_forgets_nothing() {
        let register = ReplayRegister::new(1000, 0);
        assert_eq!(register.claim(&flight(1, 1), 900, 10_000), Claim::First);
        assert_eq!(register.claim(&flight(1, 1), 900, 5_000), Claim::Replayed);
    }

    #[test]
    fn one_ticket_cannot_fill_it_and_when_it_is_full_nothing_is_forgotten() {
        let register = ReplayRegister::new(16 * 64, 0);
        for n in 0..200 {
            let expected = if n < MAX_FLIGHTS_PER_TICKET as u32 {
                Claim::First
            } else {
                Claim::TicketExhausted
            };
            assert_eq!(register.claim(&flight(1, n), 900, 1000), expected);
        }
        assert_eq!(register.len(), MAX_FLIGHTS_PER_TICKET);
        let mut full = 0;
        for n in 2..5000 {
            full += u32::from(register.claim(&flight(n, n), 900, 1000) == Claim::Full);
        }
        assert!(full > 3000);
        assert_eq!(register.len(), 16 * 64);
        assert_eq!(register.claim(&flight(1, 0), 900, 1000), Claim::Replayed);
    }

    #[test]
    fn what_was_before_the_register_is_refused_until_the_window_has_passed() {
        let register = ReplayRegister::new(1000, 1000);
        let claim = |n, made_s, now_s| register.claim(&flight(n, n), made_s, now_s);
        assert_eq!(claim(1, 999, 1010), Claim::BeforeRegister);
        assert_eq!(
            claim(1, 1000, 1010),
            Claim::BeforeRegister,
            "the same second"
        );
        assert_eq!(
            claim(1, 1011, 1010),
            Claim::BeforeRegister,
            "from the future"
        );
        assert_eq!(claim(1, 1001, 1010), Claim::First);
        assert_eq!(claim(2, 999, 1000 + WINDOW_S), Claim::BeforeRegister);
        assert_eq!(claim(2, 999, 1001 + WINDOW_S), Claim::First);
    }
}
