//! `ssl_session_ticket_state`: ticket keys that survive a restart.
//!
//! The worker packs the keys of its rings. The master writes what it is sent
//! without parsing it, and hands it to the next worker, which unpacks it.
//!
//! ```text
//! "SLST" | version 1 | count (2) | count x [ length (2) | name | length (4) | keys ]
//! ```

use super::now_s;
use sealane_sys::guard::{Guard, GuardedName};
use sealane_tls::SessionState;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

const MAGIC: &[u8; 4] = b"SLST";
const VERSION: u8 = 1;

/// Largest state, in bytes: what one message between the processes carries. A
/// thousand keys take 56 KiB.
pub(crate) const MAX_STATE_BYTES: usize = 128 << 10;

/// The keys of rings by name.
pub(super) type Rings<'a> = Vec<(&'a str, &'a [u8])>;

/// One piece of bytes for all rings; `None` when it would be too large.
pub(super) fn pack(rings: &Rings<'_>) -> Option<Zeroizing<Vec<u8>>> {
    let total: usize = rings
        .iter()
        .map(|(name, keys)| 6 + name.len() + keys.len())
        .sum();
    let total = total + MAGIC.len() + 3;
    if total > MAX_STATE_BYTES {
        return None;
    }
    // Never reallocated, so that no copy of a key stays behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(total));
    bytes.extend_from_slice(MAGIC);
    bytes.push(VERSION);
    bytes.extend_from_slice(&u16::try_from(rings.len()).ok()?.to_be_bytes());
    for (name, keys) in rings {
        bytes.extend_from_slice(&u16::try_from(name.len()).ok()?.to_be_bytes());
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&u32::try_from(keys.len()).ok()?.to_be_bytes());
        bytes.extend_from_slice(keys);
    }
    Some(bytes)
}

/// The rings in the output of [`pack`]; `Err` describes the fault.
pub(super) fn unpack(bytes: &[u8]) -> Result<Rings<'_>, &'static str> {
    const CUT: &str = "it ends too soon";
    let rest = bytes.strip_prefix(MAGIC).ok_or("it is no such file")?;
    let ([version], mut rest) = rest.split_first_chunk().ok_or(CUT)?;
    if *version != VERSION {
        return Err("another version wrote it");
    }
    let mut take = |count: usize| -> Result<&[u8], &'static str> {
        let (taken, left) = rest.split_at_checked(count).ok_or(CUT)?;
        rest = left;
        Ok(taken)
    };
    let number = |bytes: &[u8]| -> usize {
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let count = number(take(2)?);
    let mut rings = Vec::new();
    for _ in 0..count {
        let length = number(take(2)?);
        let name = std::str::from_utf8(take(length)?).map_err(|_| "a name in it is damaged")?;
        let length = number(take(4)?);
        rings.push((name, take(length)?));
    }
    if rest.is_empty() {
        Ok(rings)
    } else {
        Err("something follows its end")
    }
}

/// The keys of all rings of a process that rotate; `None` when they would be too large.
pub(super) fn of(sessions: &SessionState) -> Option<Zeroizing<Vec<u8>>> {
    let rings = sessions.rings();
    let keys: Vec<_> = rings.iter().map(|(_, ring)| ring.to_bytes()).collect();
    let rings = rings.iter().zip(&keys);
    let rings = rings.map(|((name, _), keys)| (name.as_str(), keys.expose()));
    pack(&rings.collect())
}

/// Gives the rings of a process the keys that another one has packed.
///
/// # Errors
/// Why they cannot be used; the rings before the damaged one have received theirs.
pub(super) fn merge(bytes: &[u8], sessions: &SessionState) -> Result<(), String> {
    let rings = sessions.rings();
    for (name, keys) in unpack(bytes)? {
        // A ring that the configuration no longer has is left out.
        let known = rings.iter().find(|(known, _)| known == name);
        if let Some((_, ring)) = known.filter(|_| !keys.is_empty()) {
            ring.merge(keys, now_s())
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Writes `bytes` atomically to a file that only its owner can read:
/// a reader, now or after a power failure, finds the old file or the new.
///
/// # Errors
/// The system call that failed, by name. The old file is as it was.
pub(crate) fn write_state_file(
    path: &Path,
    bytes: &[u8],
    guard: &Guard,
) -> Result<(), (&'static str, io::Error)> {
    let place = guard.find_name(path).map_err(|error| ("open", error))?;
    let written = write_temporary(&place, bytes).and_then(|()| {
        place
            .put_in_place(TEMPORARY)
            .map_err(|error| ("rename", error))
    });
    if written.is_err() {
        // What is left of it is useless.
        let _ = place.remove_beside(TEMPORARY);
        return written;
    }
    place.sync_directory().map_err(|error| ("fsync", error))
}

/// Ticket keys as the master has them.
#[derive(Default)]
pub(crate) struct TicketStates {
    /// The last report of the current worker, or of the previous run.
    newest: Option<Zeroizing<Vec<u8>>>,
    /// The last report of the previous worker. The current one has learned it from that one,
    /// but may die before it reports it.
    before: Option<Zeroizing<Vec<u8>>>,
}

impl TicketStates {
    /// The current worker has reported its keys.
    pub(crate) fn set(&mut self, state: Zeroizing<Vec<u8>>) {
        self.newest = Some(state);
    }

    /// Another worker is the current one, which has reported these.
    pub(crate) fn succeed(&mut self, state: Option<Zeroizing<Vec<u8>>>) {
        if let Some(state) = state {
            self.before = self.newest.replace(state);
        }
    }

    /// What goes into the file.
    pub(crate) fn newest(&self) -> Option<&[u8]> {
        self.newest.as_ref().map(|state| state.as_slice())
    }

    /// What a new worker begins with.
    pub(crate) fn all(&self) -> Vec<&[u8]> {
        let all = [&self.before, &self.newest].into_iter().flatten();
        all.map(|state| state.as_slice()).collect()
    }
}

impl From<Option<Zeroizing<Vec<u8>>>> for TicketStates {
    /// Those of the run before.
    fn from(newest: Option<Zeroizing<Vec<u8>>>) -> TicketStates {
        TicketStates {
            newest,
            before: None,
        }
    }
}

/// When the master writes the file: soon after a change, and not more often than
/// that, whatever a worker does.
#[derive(Debug, Default)]
pub(crate) struct StateFile {
    /// When the next change is to be written.
    pub(crate) due: Option<Instant>,
    last: Option<Instant>,
    failing: bool,
}

impl StateFile {
    /// The shortest time between two writes.
    const INTERVAL: Duration = Duration::from_secs(1);
    /// How long to wait after one that failed.
    const RETRY: Duration = Duration::from_secs(60);

    /// There is something new to write.
    pub(crate) fn changed(&mut self, now: Instant) {
        let earliest = self.last.map_or(now, |last| last + Self::INTERVAL);
        self.due.get_or_insert(earliest.max(now));
    }

    /// It was tried. Whether a failure is news.
    pub(crate) fn written(&mut self, now: Instant, well: bool) -> bool {
        self.last = Some(now);
        self.due = (!well).then(|| now + Self::RETRY);
        !std::mem::replace(&mut self.failing, !well) && !well
    }
}

/// What is added to the name of a file that is not complete yet.
const TEMPORARY: &str = ".tmp";

/// An existing name is not followed, whatever it is: the file is new.
fn write_temporary(place: &GuardedName<'_>, bytes: &[u8]) -> Result<(), (&'static str, io::Error)> {
    let mut file = place.create_beside(TEMPORARY, 0o600)?;
    file.write_all(bytes).map_err(|error| ("write", error))?;
    file.sync_all().map_err(|error| ("fsync", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_packed_comes_out_again_and_nothing_else_does() {
        let rings: Rings<'_> = vec![("local", b"keys"), ("redis://h", &[0; 300])];
        let bytes = pack(&rings).expect("small");
        assert_eq!(unpack(&bytes), Ok(rings));
        for length in 0..bytes.len() {
            assert!(unpack(&bytes[..length]).is_err(), "cut at {length}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 0x55;
            let _ = unpack(&changed); // whatever it is, no panic
        }
        let mut longer = bytes.to_vec();
        longer.push(0);
        assert!(unpack(&longer).is_err());
        assert!(pack(&vec![("x", &[0; MAX_STATE_BYTES])]).is_none());
    }

    #[test]
    fn the_file_is_replaced_whole_and_private() {
        let directory = std::env::temp_dir().join(format!("sealane-state-{}", std::process::id()));
        fs::create_dir(&directory).expect("new");
        let path = directory.join("tickets");
        fs::write(directory.join("tickets.tmp"), b"left behind").expect("writable");
        for content in [&b"first"[..], b"second, longer"] {
            write_state_file(&path, content, &Guard::default()).expect("writable");
            assert_eq!(fs::read(&path).expect("there"), content);
            let mode = fs::metadata(&path).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert!(!directory.join("tickets.tmp").exists());
        let missing = directory.join("missing/tickets");
        let (call, error) =
            write_state_file(&missing, b"x", &Guard::default()).expect_err("no directory");
        assert_eq!((call, error.kind()), ("open", io::ErrorKind::NotFound));
        fs::remove_file(&path).expect("there");
        fs::remove_dir(&directory).expect("empty");
    }

    #[test]
    fn writes_are_spaced_and_failures_said_once() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut file = StateFile::default();
        file.changed(at(0));
        assert_eq!(file.due, Some(at(0)));
        assert!(!file.written(at(0), true));
        assert_eq!(file.due, None);
        file.changed(at(0));
        file.changed(at(5));
        assert_eq!(file.due, Some(at(1)), "the first change counts");
        assert!(file.written(at(1), false), "news");
        assert_eq!(file.due, Some(at(61)));
        assert!(!file.written(at(61), false));
        assert!(!file.written(at(121), true));
        assert!(file.written(at(122), false), "news again");
    }
}
