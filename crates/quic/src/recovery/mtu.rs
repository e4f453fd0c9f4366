//! The largest datagram that a path carries: DPLPMTUD, RFC 8899 and RFC 9000 section 14.3.

use std::time::Duration;

use crate::Time;

/// Size of datagrams that every path of QUIC carries, RFC 9000 section 14.
pub(crate) const BASE_DATAGRAM: u16 = 1200;

/// Tries of a size before it counts as too large: MAX_PROBES of RFC 8899 section 5.1.2.
const MAX_PROBES: u8 = 3;

/// The search ends when less than this is to be gained.
const MIN_GAIN: u16 = 16;

/// When a finished search starts anew: PMTU_RAISE_TIMER of RFC 8899 section 5.1.1.
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// So many times in a row, large packets were lost and only small ones arrived: a black hole.
const MAX_SUSPICIONS: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// A probe of `size` is to be sent. Sizes from `too_large` on do not work.
    Due {
        size: u16,
        too_large: u16,
        tries: u8,
    },
    /// It was sent.
    Waiting {
        size: u16,
        too_large: u16,
        tries: u8,
    },
    /// There is nothing to find before this time.
    Done { until: Time },
    /// Never searches.
    Off,
}

/// The search for the largest datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mtu {
    current: u16,
    ceiling: u16,
    suspicions: u8,
    search: Search,
}

impl Mtu {
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            current: BASE_DATAGRAM,
            ceiling: BASE_DATAGRAM,
            suspicions: 0,
            search: if enabled {
                Search::Done { until: Time::ZERO }
            } else {
                Search::Off
            },
        }
    }

    /// Size of the largest datagram that may be sent.
    pub(super) fn current(&self) -> u16 {
        self.current
    }

    /// The most that the peer and the interface take. Starts the search if that is new.
    pub(super) fn set_ceiling(&mut self, ceiling: u16) {
        let ceiling = ceiling.max(BASE_DATAGRAM);
        if ceiling == self.ceiling {
            return;
        }
        self.ceiling = ceiling;
        self.current = self.current.min(ceiling);
        if self.search != Search::Off {
            self.search = Search::Done { until: Time::ZERO };
        }
    }

    /// Size of the probe that is due.
    pub(super) fn probe(&mut self, now: Time) -> Option<u16> {
        if let Search::Done { until } = self.search
            && now >= until
        {
            // The ceiling itself is the best guess: most paths carry what the interface does.
            self.search = Search::Due {
                size: self.ceiling,
                too_large: self.ceiling.saturating_add(1),
                tries: 0,
            };
            if self.ceiling - self.current < MIN_GAIN {
                self.search = Search::Done {
                    until: now + RAISE_AFTER,
                };
            }
        }
        match self.search {
            Search::Due { size, .. } => Some(size),
            _ => None,
        }
    }

    /// The probe that was due was sent.
    pub(super) fn on_probe_sent(&mut self) {
        if let Search::Due {
            size,
            too_large,
            tries,
        } = self.search
        {
            self.search = Search::Waiting {
                size,
                too_large,
                tries: tries + 1,
            };
        }
    }

    /// What becomes of the probe that was sent is not told: its path was left meanwhile. It is sent
    /// again.
    pub(super) fn forget_probe(&mut self) {
        if let Search::Waiting {
            size,
            too_large,
            tries,
        } = self.search
        {
            self.search = Search::Due {
                size,
                too_large,
                tries: tries - 1,
            };
        }
    }

    /// A probe of this size arrived.
    pub(super) fn on_probe_acked(&mut self, size: u16, now: Time) {
        let Search::Waiting {
            size: expected,
            too_large,
            ..
        } = self.search
        else {
            return;
        };
        if size == expected {
            self.current = size;
            self.search = self.next(too_large, now);
        }
    }

    /// A probe of this size was lost. That is no sign of congestion, RFC 9000 section 14.4.
    pub(super) fn on_probe_lost(&mut self, size: u16, now: Time) {
        let Search::Waiting {
            size: expected,
            too_large,
            tries,
        } = self.search
        else {
            return;
        };
        if size != expected {
            return;
        }
        self.search = if tries < MAX_PROBES {
            Search::Due {
                size,
                too_large,
                tries,
            }
        } else {
            self.next(size, now)
        };
    }

    /// The middle between what works and what does not.
    fn next(&self, too_large: u16, now: Time) -> Search {
        let gain = too_large.saturating_sub(1).saturating_sub(self.current);
        if gain < MIN_GAIN {
            return Search::Done {
                until: now + RAISE_AFTER,
            };
        }
        Search::Due {
            size: self.current + gain.div_ceil(2),
            too_large,
            tries: 0,
        }
    }

    /// One ACK frame, or one timer, told of losses. `large_lost` and `large_acked`: whether
    /// packets above the base size were. Returns whether this path has become a black hole for
    /// them, RFC 8899 section 4.3.
    pub(super) fn on_losses(&mut self, large_lost: bool, large_acked: bool, now: Time) -> bool {
        if large_acked {
            self.suspicions = 0;
        } else if large_lost {
            self.suspicions += 1;
            if self.suspicions >= MAX_SUSPICIONS {
                return self.fall_back(now);
            }
        }
        false
    }

    /// Only the base size is known to work from now on. Returns whether that is news.
    pub(super) fn fall_back(&mut self, now: Time) -> bool {
        self.suspicions = 0;
        if self.current == BASE_DATAGRAM {
            return false;
        }
        self.current = BASE_DATAGRAM;
        if self.search != Search::Off {
            self.search = Search::Done {
                until: now + RAISE_AFTER,
            };
        }
        true
    }
}
