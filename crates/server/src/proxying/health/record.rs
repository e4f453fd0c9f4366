//! What one node tells the others about servers: bytes in the store, sealed there.

use sealane_upstream::Verdict;

/// Format of records.
const VERSION: u8 = 1;
/// Longest record, in bytes; the store hands out no longer ones.
const MAX_BYTES: usize = 96 << 10;
/// Longest name of a node, in bytes.
pub(super) const MAX_NODE_BYTES: usize = 64;

/// What a node has found out about servers of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// When it was made, in milliseconds since 1970. Later records of a check have later times.
    pub(super) time_ms: u64,
    /// The host name of the node.
    pub(super) node: Box<str>,
    pub(super) found: Vec<Finding>,
}

/// What was found out about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// Its address.
    pub(super) peer: Box<str>,
    pub(super) verdict: Verdict,
    /// Results in a row: passes, or failures as a negative number.
    pub(super) streak: i32,
}

impl Record {
    /// `None` if it would be too long.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.time_ms.to_be_bytes());
        bytes.push(u8::try_from(self.node.len()).ok()?);
        bytes.extend_from_slice(self.node.as_bytes());
        for finding in &self.found {
            bytes.push(match finding.verdict {
                Verdict::Unknown => 0,
                Verdict::Healthy => 1,
                Verdict::Unhealthy => 2,
            });
            bytes.extend_from_slice(&finding.streak.to_be_bytes());
            let length = u16::try_from(finding.peer.len()).ok()?;
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(finding.peer.as_bytes());
        }
        (bytes.len() <= MAX_BYTES).then_some(bytes)
    }

    /// `None` if it is not one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Record> {
        if bytes.len() > MAX_BYTES {
            return None;
        }
        let mut rest = Rest(bytes);
        if rest.take::<1>()? != [VERSION] {
            return None;
        }
        let time_ms = u64::from_be_bytes(rest.take()?);
        let [length] = rest.take()?;
        let node = rest.text(usize::from(length))?;
        // It goes into the log.
        let is_name = |byte: u8| byte.is_ascii_graphic();
        if node.len() > MAX_NODE_BYTES || !node.bytes().all(is_name) {
            return None;
        }
        let mut found = Vec::new();
        while !rest.0.is_empty() {
            let verdict = match rest.take()? {
                [0] => Verdict::Unknown,
                [1] => Verdict::Healthy,
                [2] => Verdict::Unhealthy,
                _ => return None,
            };
            let streak = i32::from_be_bytes(rest.take()?);
            let length = u16::from_be_bytes(rest.take()?);
            let peer = rest.text(usize::from(length))?;
            found.push(Finding {
                peer,
                verdict,
                streak,
            });
        }
        Some(Record {
            time_ms,
            node,
            found,
        })
    }
}

/// What is still to be read.
struct Rest<'b>(&'b [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn text(&mut self, length: usize) -> Option<Box<str>> {
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok().map(Box::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let finding = |peer: &str, verdict, streak| Finding {
            peer: peer.into(),
            verdict,
            streak,
        };
        Record {
            time_ms: 1_700_000_000_123,
            node: "web-1".into(),
            found: vec![
                finding("127.0.0.1:80", Verdict::Healthy, 7),
                finding("[::1]:80", Verdict::Unhealthy, -3),
                finding("unix:/run/a.sock", Verdict::Unknown, 0),
            ],
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let bytes = record().encode().expect("it is short");
        assert_eq!(Record::decode(&bytes), Some(record()));
        let none = Record {
            found: Vec::new(),
            ..record()
        };
        let bytes = none.encode().expect("it is short");
        assert_eq!(Record::decode(&bytes), Some(none));
    }

    #[test]
    fn what_is_cut_or_changed_is_no_record_or_another_one() {
        let bytes = record().encode().expect("it is short");
        // The ends of findings are ends of shorter records.
        let whole = (0..bytes.len()).filter(|&cut| Record::decode(&bytes[..cut]).is_some());
        assert_eq!(whole.count(), 3);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                // It does not panic, and is never the same.
                assert_ne!(Record::decode(&changed), Some(record()), "{at} {bit}");
            }
        }
        for (at, byte) in [(0, 2), (9, 200), (10, b'\n'), (15, 3)] {
            let mut changed = bytes.clone();
            changed[at] = byte;
            assert_eq!(Record::decode(&changed), None, "{at}");
        }
        assert_eq!(Record::decode(&vec![1; MAX_BYTES + 1]), None);
    }

    #[test]
    fn a_record_that_is_too_long_is_not_written() {
        let peer: Box<str> = "a".repeat(1000).into();
        let finding = Finding {
            peer,
            verdict: Verdict::Healthy,
            streak: 1,
        };
        let long = Record {
            found: vec![finding; 100],
            ..record()
        };
        assert_eq!(long.encode(), None);
    }
}
