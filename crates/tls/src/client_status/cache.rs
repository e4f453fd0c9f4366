//! `ssl_ocsp_cache`: what responders have said about certificates of clients.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sealane_awslc::CertificateStatus;

use super::StatusKey;

/// What an answer takes, in bytes: its place in the table, which is up to half empty, and in the
/// queue, with room to grow.
const ANSWER_BYTES: usize = 192;

/// Answers by certificate, for as long as they are valid. When there are too many, the oldest goes
/// first. Locked for a few instructions, once or twice for a connection.
pub struct StatusCache {
    max_answers: usize,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    known: HashMap<StatusKey, Known>,
    /// In the order in which they came, with the serials of [`Known`].
    order: VecDeque<(u64, StatusKey)>,
    serial: u64,
}

#[derive(Clone, Copy)]
struct Known {
    status: CertificateStatus,
    end_s: i64,
    serial: u64,
}

impl StatusCache {
    /// An empty cache of this size in bytes.
    pub fn new(bytes: usize) -> Self {
        Self {
            max_answers: (bytes / ANSWER_BYTES).max(1),
            answers: Mutex::default(),
        }
    }

    /// The answer about a certificate, if it is still valid.
    pub(super) fn find(&self, key: &StatusKey, now_s: i64) -> Option<CertificateStatus> {
        let mut answers = self.answers();
        let known = *answers.known.get(key)?;
        if known.end_s > now_s {
            return Some(known.status);
        }
        answers.known.remove(key);
        None
    }

    pub(super) fn keep(&self, key: StatusKey, status: CertificateStatus, end_s: i64, now_s: i64) {
        if end_s <= now_s {
            return;
        }
        let mut answers = self.answers();
        answers.serial += 1;
        let serial = answers.serial;
        let known = Known {
            status,
            end_s,
            serial,
        };
        answers.known.insert(key, known);
        answers.order.push_back((serial, key));
        // What was replaced or has ended still has a place in the queue.
        while answers.order.len() > self.max_answers {
            let Some((serial, key)) = answers.order.pop_front() else {
                break;
            };
            if answers
                .known
                .get(&key)
                .is_some_and(|it| it.serial == serial)
            {
                answers.known.remove(&key);
            }
        }
    }

    /// No code that may panic runs under the lock.
    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for StatusCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatusCache(at most {} answers)", self.max_answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> StatusKey {
        StatusKey([number; 32])
    }

    #[test]
    fn answers_are_known_until_they_end() {
        let cache = StatusCache::new(32 << 10);
        assert_eq!(cache.find(&key(1), 0), None);
        cache.keep(key(1), CertificateStatus::Revoked, 100, 50);
        assert_eq!(cache.find(&key(1), 99), Some(CertificateStatus::Revoked));
        assert_eq!(cache.find(&key(2), 99), None);
        assert_eq!(cache.find(&key(1), 100), None);
        // It is gone, also for a clock that goes back.
        assert_eq!(cache.find(&key(1), 99), None);
        cache.keep(key(1), CertificateStatus::Good, 100, 100);
        assert_eq!(cache.find(&key(1), 99), None, "it had ended when it came");
    }

    #[test]
    fn the_oldest_answer_goes_when_there_are_too_many() {
        let cache = StatusCache::new(3 * ANSWER_BYTES);
        for number in 1..=3 {
            cache.keep(key(number), CertificateStatus::Good, 100, 0);
        }
        // A newer answer about the first one makes the second one the oldest.
        cache.keep(key(1), CertificateStatus::Revoked, 100, 0);
        cache.keep(key(4), CertificateStatus::Good, 100, 0);
        assert_eq!(cache.find(&key(2), 0), None);
        assert_eq!(cache.find(&key(1), 0), Some(CertificateStatus::Revoked));
        assert_eq!(cache.find(&key(4), 0), Some(CertificateStatus::Good));
        let answers = cache.answers();
        assert!(answers.order.len() <= 3 && answers.known.len() <= 3);
    }
}
