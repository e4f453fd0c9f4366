//! Statuses of HTTP responses, counted one by one.

use super::Counter;
use zerocopy::{FromBytes, IntoBytes};

/// Statuses that have a counter of their own: the registered ones that servers send, and nginx's.
/// Any other is counted with those of its class.
const STATUS_CODES: [u16; 58] = [
    100, 101, 103, 200, 201, 202, 203, 204, 205, 206, 207, 300, 301, 302, 303, 304, 307, 308, 400,
    401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422,
    423, 424, 425, 426, 428, 429, 431, 451, 494, 495, 496, 497, 499, 500, 501, 502, 503, 504, 505,
    507,
];

/// Names of the classes that other statuses are counted in; the first is for those below 200.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// How often each status was sent or received.
#[derive(Debug, Default, FromBytes, IntoBytes)]
#[repr(C)]
pub struct StatusCounts {
    known: Known,
    others: [Counter; CLASSES.len()],
}

#[derive(Debug, FromBytes, IntoBytes)]
#[repr(transparent)]
struct Known([Counter; STATUS_CODES.len()]);

impl Default for Known {
    fn default() -> Known {
        Known(std::array::from_fn(|_| Counter::default()))
    }
}

impl StatusCounts {
    /// Counts a response; 0 is none.
    pub fn add(&self, status: u16) {
        if status == 0 {
            return;
        }
        match STATUS_CODES.binary_search(&status) {
            Ok(at) => self.known.0[at].add(1),
            Err(_) => {
                let class = usize::from(status / 100).clamp(1, CLASSES.len());
                self.others[class - 1].add(1);
            }
        }
    }
}

/// Sums of [`StatusCounts`].
#[derive(Debug, Clone)]
pub struct StatusSums([u64; STATUS_CODES.len() + CLASSES.len()]);

impl Default for StatusSums {
    fn default() -> StatusSums {
        StatusSums([0; STATUS_CODES.len() + CLASSES.len()])
    }
}

impl StatusSums {
    /// Adds the counts of another thread.
    pub fn add(&mut self, counts: &StatusCounts) {
        let all = counts.known.0.iter().chain(&counts.others);
        for (sum, counter) in self.0.iter_mut().zip(all) {
            *sum += counter.get();
        }
    }

    /// The statuses that there were, with their numbers; `200`, or `2xx` for others of the class.
    pub fn iter(&self) -> impl Iterator<Item = (StatusLabel, u64)> {
        let codes = STATUS_CODES.into_iter().map(StatusLabel::Code);
        let labels = codes.chain(CLASSES.map(StatusLabel::Class));
        labels.zip(self.0).filter(|(_, count)| *count > 0)
    }
}

/// A status or a class of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusLabel {
    /// One status.
    Code(u16),
    /// Other statuses of a class.
    Class(&'static str),
}

impl std::fmt::Display for StatusLabel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StatusLabel::Code(code) => write!(f, "{code}"),
            StatusLabel::Class(class) => f.write_str(class),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_counted_once() {
        assert!(STATUS_CODES.is_sorted());
        let counts = StatusCounts::default();
        for status in 0..1000 {
            counts.add(status);
        }
        let mut sums = StatusSums::default();
        sums.add(&counts);
        let all: Vec<(String, u64)> = sums
            .iter()
            .map(|(label, n)| (label.to_string(), n))
            .collect();
        assert_eq!(all.iter().map(|(_, count)| count).sum::<u64>(), 999);
        assert!(all.contains(&("404".to_owned(), 1)));
        assert!(all.contains(&("2xx".to_owned(), 92)));
    }
}
