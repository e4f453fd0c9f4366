//! The register of early data: each flight is accepted once.
//!
//! A flight is a ticket with the binder of its ClientHello, which covers everything else in the
//! hello. Anyone who records a flight can send it again, and libssl only checks that the ticket's
//! age fits within 60 seconds. So every accepted flight is remembered for as long as its age could
//! fit anywhere.
//!
//! The cost of a flood: only flights whose ticket opens and whose binder was made by the holder of
//! the session get here. (A forged hello costs an opened ticket and seven short hashes, and leaves
//! nothing behind.) Holders of a session may try one ticket with many hellos: a ticket gets
//! [`MAX_FLIGHTS_PER_TICKET`], and any more fall back to a handshake of one round trip. The
//! register is bounded. When it is full, nothing is forgotten before its time: new flights are
//! refused and also become handshakes of one round trip.
//!
//! A register knows nothing of what was accepted before it began. It refuses tickets
//! that were made before it, unless they are so old that the window has passed.
//!
//! It is in memory that all processes of a server share ([`SharedMemory`]): those that serve one
//! after the other, those that serve at the same time during a hand-over, and the one that follows
//! a crash. So it has no locks, which a process could hold when it dies. A ticket has a *bucket* of
//! [`BUCKET`] words, a flight is one word in it, and a claim is one compare-and-exchange followed
//! by another look. If two processes claim the same flight at the same moment, at most one of them
//! is the first.
//!
//! A word has room for the time and for 32 bits of digest. Two flights that agree in both are the
//! same to the register: the second is refused, which costs one client in 500,000 a round trip.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sealane_sys::shared_memory::SharedMemory;

/// How long a flight is remembered, in seconds. libssl accepts an age that is off by up to 60 s
/// either way, so a flight is good for 120 s on one clock. Clocks of nodes that are each wrong by
/// up to a minute either way make it 240 s.
pub const WINDOW_S: u64 = 300;
/// Flights with one ticket in one window.
pub const MAX_FLIGHTS_PER_TICKET: usize = 16;
/// Bytes that a flight takes in the register: two words, one of which stays free so that buckets
/// are seldom full.
pub const FLIGHT_BYTES: usize = WORDS_PER_FLIGHT * size_of::<u64>();

const WORDS_PER_FLIGHT: usize = 2;
/// Words available to a ticket's flights.
const BUCKET: usize = 64;
/// Attempts to get a word while others take words at the same moment.
const ATTEMPTS: usize = 16;

/// The first word: this layout.
const LAYOUT: u64 = u64::from_le_bytes(*b"SLREPL01");
/// Layout, and when the register began.
const HEADER_WORDS: usize = 2;

/// A flight: the digest of its ticket and that of its binder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flight {
    /// 16 bytes of the ticket's SHA-256.
    pub ticket: [u8; 16],
    /// 16 bytes of the SHA-256 of ticket and binder.
    pub binder: [u8; 16],
}

/// The register's verdict on a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is new, and now claimed.
    First,
    /// It was claimed before.
    Replayed,
    /// The ticket has used up its share for now.
    TicketExhausted,
    /// There is no room.
    Full,
    /// The ticket is older than the register, which cannot know; or this process no longer takes
    /// early data.
    BeforeRegister,
}

/// The flights of the last [`WINDOW_S`] seconds. All workers share it, because a
/// replay may reach any of them.
pub struct ReplayRegister {
    memory: SharedMemory,
    began_s: u64,
    /// In this process.
    closed: AtomicBool,
}

impl ReplayRegister {
    /// A register for `flights` flights that begins at `now_s`.
    ///
    /// # Errors
    ///
    /// Without memory.
    pub fn new(flights: usize, now_s: u64) -> io::Result<Self> {
        let words = flights.saturating_mul(WORDS_PER_FLIGHT).max(1);
        let words = words.checked_next_multiple_of(BUCKET);
        let words = words.and_then(|words| words.checked_add(HEADER_WORDS));
        let memory = SharedMemory::new(words.unwrap_or(usize::MAX))?;
        memory.words()[1].store(now_s, Ordering::SeqCst);
        memory.words()[0].store(LAYOUT, Ordering::SeqCst);
        Ok(Self::of(memory, now_s))
    }

    /// The register that another process has created and passed on ([`AsFd`]).
    ///
    /// # Errors
    ///
    /// It is not one, or one of another version.
    pub fn attach(fd: OwnedFd) -> io::Result<Self> {
        let memory = SharedMemory::from_fd(fd)?;
        let began_s = match memory.words() {
            [layout, began_s, slots @ ..]
                if layout.load(Ordering::SeqCst) == LAYOUT
                    && !slots.is_empty()
                    && slots.len().is_multiple_of(BUCKET) =>
            {
                began_s.load(Ordering::SeqCst)
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        Ok(Self::of(memory, began_s))
    }

    fn of(memory: SharedMemory, began_s: u64) -> Self {
        Self {
            memory,
            began_s,
            closed: AtomicBool::new(false),
        }
    }

    /// Stops taking early data in this process: a process that does not share the register takes
    /// over.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Flights remembered at `now_s`. Scans the whole register.
    pub fn flights(&self, now_s: u64) -> usize {
        let words = self.slots().iter().map(|slot| slot.load(Ordering::Relaxed));
        words.filter(|word| is_live(*word, now_s)).count()
    }

    /// Whether a flight with a ticket made at `made_s` may have been accepted
    /// before the register began.
    fn is_before(&self, made_s: u64, now_s: u64) -> bool {
        // Within one second nothing is certain, nor with a clock that went back.
        let fresh = made_s > self.began_s && made_s <= now_s;
        !fresh && now_s.saturating_sub(self.began_s) <= WINDOW_S
    }

    /// Claims a flight whose ticket was made at `made_s`.
    pub fn claim(&self, flight: &Flight, made_s: u64, now_s: u64) -> Claim {
        if self.is_before(made_s, now_s) || self.closed.load(Ordering::SeqCst) {
            return Claim::BeforeRegister;
        }
        self.claim_known(flight, now_s)
    }

    /// Claims a flight, without checking whether it may predate the register.
    pub fn claim_known(&self, flight: &Flight, now_s: u64) -> Claim {
        let bucket = self.bucket(flight);
        let entry = entry(flight, now_s);
        for _ in 0..ATTEMPTS {
            let mut free = None;
            let mut of_ticket = 0;
            for slot in bucket {
                let word = slot.load(Ordering::SeqCst);
                if !is_live(word, now_s) {
                    free.get_or_insert((slot, word));
                } else if is_same_flight(word, entry) {
                    return Claim::Replayed;
                } else if is_same_ticket(word, entry) {
                    of_ticket += 1;
                }
            }
            if of_ticket >= MAX_FLIGHTS_PER_TICKET {
                return Claim::TicketExhausted;
            }
            let Some((slot, seen)) = free else {
                return Claim::Full;
            };
            let taken = slot.compare_exchange(seen, entry, Ordering::SeqCst, Ordering::SeqCst);
            if taken.is_ok() {
                return claimed(bucket, entry, now_s);
            }
        }
        Claim::Full
    }

    fn slots(&self) -> &[AtomicU64] {
        &self.memory.words()[HEADER_WORDS..]
    }

    /// The words for the flights of a ticket.
    fn bucket(&self, flight: &Flight) -> &[AtomicU64] {
        let first = flight.ticket.first_chunk().expect("16 bytes");
        let slots = self.slots();
        let buckets = (slots.len() / BUCKET) as u64;
        let start = (u64::from_le_bytes(*first) % buckets) as usize * BUCKET;
        &slots[start..start + BUCKET]
    }
}

/// The result of a claim whose entry is in its bucket. Another process that made the same claim at
/// the same moment and found another word free also has an entry there. A process that checks after
/// both are written sees both.
fn claimed(bucket: &[AtomicU64], entry: u64, now_s: u64) -> Claim {
    let words = bucket.iter().map(|slot| slot.load(Ordering::SeqCst));
    let copies = words.filter(|word| is_live(*word, now_s) && is_same_flight(*word, entry));
    match copies.count() {
        1 => Claim::First,
        _ => Claim::Replayed,
    }
}

/// A word about a flight: the second in which it was claimed, 8 bits of its ticket, 24
/// bits of both. A free word is 0.
fn entry(flight: &Flight, now_s: u64) -> u64 {
    let [a, b, c, ..] = flight.binder;
    let second = u32::try_from(now_s).unwrap_or(u32::MAX).max(1); // enough until 2106
    let digest = u32::from_le_bytes([flight.ticket[15], a, b, c]);
    u64::from(second) << 32 | u64::from(digest)
}

/// Whether its flight could still be good. A clock that goes back makes the register remember for
/// longer, never shorter.
fn is_live(word: u64, now_s: u64) -> bool {
    word != 0 && now_s <= (word >> 32) + WINDOW_S
}

fn is_same_flight(word: u64, entry: u64) -> bool {
    word as u32 == entry as u32
}

fn is_same_ticket(word: u64, entry: u64) -> bool {
    word as u8 == entry as u8
}

impl AsFd for ReplayRegister {
    /// For another process, which [attaches](ReplayRegister::attach) it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

impl fmt::Debug for ReplayRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplayRegister(began {})", self.began_s)
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

    fn register(flights: usize, now_s: u64) -> ReplayRegister {
        ReplayRegister::new(flights, now_s).expect("memory")
    }

    #[test]
    fn a_flight_is_new_once_in_its_window() {
        let register = register(1000, 0);
        for now_s in [1000, 1001, 1000 + WINDOW_S] {
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
        assert_eq!(register.flights(1001), 3);
    }

    #[test]
    fn flights_are_forgotten_when_no_age_can_fit_any_more() {
        let register = register(1000, 0);
        for n in 0..100 {
            assert_eq!(register.claim(&flight(n, n), 900, 1000), Claim::First);
        }
        assert_eq!(register.flights(1000 + WINDOW_S), 100);
        let later_s = 1001 + WINDOW_S;
        assert_eq!(register.flights(later_s), 0);
        assert_eq!(register.claim(&flight(1, 1), 900, later_s), Claim::First);
    }

    #[test]
    fn a_clock_that_goes_back_forgets_nothing() {
        let register = register(1000, 0);
        assert_eq!(register.claim(&flight(1, 1), 900, 10_000), Claim::First);
        assert_eq!(register.claim(&flight(1, 1), 900, 5_000), Claim::Replayed);
    }

    #[test]
    fn one_ticket_cannot_fill_it_and_when_it_is_full_nothing_is_forgotten() {
        let register = register(16 * 64, 0);
        for n in 0..200 {
            let expected = if n < MAX_FLIGHTS_PER_TICKET as u32 {
                Claim::First
            } else {
                Claim::TicketExhausted
            };
            assert_eq!(register.claim(&flight(1, n), 900, 1000), expected);
        }
        assert_eq!(register.flights(1000), MAX_FLIGHTS_PER_TICKET);
        let claims: Vec<Claim> = (2..6000)
            .map(|n| register.claim(&flight(n, n), 900, 1000))
            .collect();
        // As many as it was made for come before the first that finds no room.
        assert!(claims[..16 * 64].iter().all(|claim| *claim == Claim::First));
        let full = claims.iter().filter(|claim| **claim == Claim::Full).count();
        assert!(full > 3000, "{full}");
        assert_eq!(register.claim(&flight(1, 0), 900, 1000), Claim::Replayed);
        for (n, claim) in (2..6000)
            .zip(claims)
            .filter(|(_, claim)| *claim == Claim::First)
        {
            let again = register.claim(&flight(n, n), 900, 1000 + WINDOW_S);
            assert_eq!((claim, again), (Claim::First, Claim::Replayed), "{n}");
        }
    }

    #[test]
    fn what_was_before_the_register_is_refused_until_the_window_has_passed() {
        let register = register(1000, 1000);
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

    #[test]
    fn whoever_attaches_it_knows_the_same_flights() {
        let ours = register(1000, 1000);
        assert_eq!(ours.claim(&flight(1, 1), 1001, 1010), Claim::First);
        let fd = ours.as_fd().try_clone_to_owned().expect("a descriptor");
        let theirs = ReplayRegister::attach(fd).expect("a register");
        assert_eq!(theirs.claim(&flight(1, 1), 1001, 1010), Claim::Replayed);
        assert_eq!(theirs.claim(&flight(2, 2), 1001, 1010), Claim::First);
        assert_eq!(
            theirs.claim(&flight(3, 3), 999, 1010),
            Claim::BeforeRegister
        );
        ours.close();
        assert_eq!(ours.claim(&flight(4, 4), 1001, 1010), Claim::BeforeRegister);
        assert_eq!(theirs.claim(&flight(4, 4), 1001, 1010), Claim::First);
        drop(ours);
        assert_eq!(theirs.claim(&flight(2, 2), 1001, 1010), Claim::Replayed);
    }

    #[test]
    fn what_is_no_register_is_not_attached() {
        for words in [1, 2, HEADER_WORDS + BUCKET - 1, HEADER_WORDS + BUCKET] {
            let memory = SharedMemory::new(words).expect("memory");
            let is_attached = || {
                let fd = memory.as_fd().try_clone_to_owned().expect("a descriptor");
                ReplayRegister::attach(fd).is_ok()
            };
            assert!(!is_attached(), "{words} zeros");
            memory.words()[0].store(LAYOUT, Ordering::SeqCst);
            assert_eq!(is_attached(), words == HEADER_WORDS + BUCKET, "{words}");
        }
    }

    #[test]
    fn of_claims_at_the_same_moment_one_is_the_first() {
        let ours = register(20_000, 0);
        let fd = ours.as_fd().try_clone_to_owned().expect("a descriptor");
        let theirs = ReplayRegister::attach(fd).expect("a register");
        let barrier = std::sync::Barrier::new(4);
        let firsts: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let lanes = [&ours, &theirs, &ours, &theirs].map(|register| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut firsts = Vec::new();
                    for n in 0..5000 {
                        if n % 100 == 0 {
                            barrier.wait();
                        }
                        if register.claim(&flight(n, n), 900, 1000) == Claim::First {
                            firsts.push(n);
                        }
                    }
                    firsts
                })
            });
            lanes.map(|lane| lane.join().expect("no panic")).to_vec()
        });
        let mut all = firsts.concat();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "somebody was first twice");
        // Two who hinder each other are rare.
        assert!(count > 4000, "{count}");
    }
}
