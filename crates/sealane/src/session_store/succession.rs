//! Passes sessions, ticket keys and verdicts of health checks from a worker process to its
//! successor: the second process of a reload, or that of another binary.
//!
//! ```text
//! worker of before                             worker that takes its place
//!   format                        ───────────>   closes the line if it is another one
//!   keys, all sessions by zone    ───────────>   takes over what it does not have
//!   verdicts of health checks     ───────────>   begins with them
//!   end of what there was         ───────────>   begins to accept connections
//!   every further session and key ───────────>   takes it over, too
//! ```
//!
//! The channel ends with the old process. Each message is one datagram:
//!
//! ```text
//! "V" | format
//! "K" | keys as in the state file
//! "S" | size of the zone (8) | length (2) | zone
//!     | n x [ length (1) | id | end (8) | length (2) | session ]
//! "H" | n x [ healthy (1) | length (2) | group | length (2) | server ]
//! "E"
//! ```
//!
//! Numbers are little-endian. Everything received is checked when it is used: a
//! session is bound to its server, and libssl parses it. What a hostile worker could put into the
//! cache of the next, it could also seal into a ticket, because both have the same keys.

use super::now_s;
use super::state::{self, MAX_STATE_BYTES};
use crate::journal::{Journal, note};
use sealane_log::OsError;
use sealane_server::KnownVerdict;
use sealane_sys::{poll, socket};
use sealane_tls::{SessionCache, SessionState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Raised when a message changes.
const FORMAT: &str = "sealane sessions 2";

const VERSION: u8 = b'V';
const KEYS: u8 = b'K';
const SESSIONS: u8 = b'S';
const HEALTH: u8 = b'H';
const END: u8 = b'E';

/// Longest message but that of keys, in bytes.
const MAX_MESSAGE_BYTES: usize = 32 << 10;
/// Overhead of a session in a message, beyond itself and its id.
const SESSION_OVERHEAD_BYTES: usize = 1 + 8 + 2;
/// Longest name of a zone, in bytes, so that a session of any length fits next to it.
const MAX_ZONE_BYTES: usize = 1 << 10;

/// Sessions that are made while others are on their way; more are not taken along.
const MAX_WAITING: usize = 16 << 10;
/// How long the other process may take to read a message. It reads none before it has
/// parsed its configuration.
const PATIENCE: Duration = Duration::from_secs(120);
/// Pause before another attempt when the line is full.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// How often keys are checked for changes.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How long a process that has nothing else to do waits for the other one to read.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long connections wait for the previous worker's sessions, at most. Later ones are taken over
/// while connections are served.
const LEARN_TIMEOUT: Duration = Duration::from_secs(5);

/// A session for the other process.
struct Made {
    zone: Arc<Zone>,
    id: Vec<u8>,
    session: Zeroizing<Vec<u8>>,
    expires_s: u64,
}

struct Zone {
    name: String,
    bytes: usize,
}

/// What both processes must have in common: libssl writes sessions, and reads them.
fn format() -> String {
    format!("{FORMAT}, {}", sealane_tls::library_version())
}

/// Sends the process at the other end of `line` everything there is, and what is added while both
/// live. `None` when no thread can be started for it.
pub(crate) fn tell_successor(
    line: OwnedFd,
    sessions: &Arc<SessionState>,
    verdicts: Vec<KnownVerdict>,
    journal: &Journal,
) -> Option<Telling> {
    let sessions = Arc::clone(sessions);
    let is_last = Arc::new(AtomicBool::new(false));
    let told_last = Arc::clone(&is_last);
    let spawned = std::thread::Builder::new()
        .name("succession".to_owned())
        .spawn(move || {
            let _ = sealane_sys::crash::prepare_thread(); // for the report of a crash
            let followed = Followed::new(&sessions);
            // The other process is gone: what it lacks is not needed.
            let _ = followed.tell(&line, &sessions, &verdicts, &told_last);
        });
    match spawned {
        Ok(thread) => Some(Telling { thread, is_last }),
        Err(error) => {
            let error = OsError(&error);
            note!(
                journal,
                Alert,
                "the next worker process cannot be given the sessions of this one ({error})"
            );
            None
        }
    }
}

/// The thread that sends to a successor.
pub(crate) struct Telling {
    thread: JoinHandle<()>,
    is_last: Arc<AtomicBool>,
}

impl Telling {
    /// The other process is gone, or has been sent everything.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Nothing more is added: waits until everything is sent, but not forever.
    pub(crate) fn finish(self) {
        self.is_last.store(true, Ordering::Release);
        let until = Instant::now() + FINISH_TIMEOUT;
        while !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(FULL_PAUSE);
        }
    }
}

/// The caches of a process, each of which reports what it keeps.
struct Followed {
    caches: Vec<(Arc<Zone>, Arc<SessionCache>)>,
    made: mpsc::Receiver<Made>,
}

impl Followed {
    fn new(sessions: &SessionState) -> Followed {
        let (sender, made) = mpsc::sync_channel(MAX_WAITING);
        let all = sessions.caches().into_iter();
        let caches = all.filter(|(name, ..)| name.len() <= MAX_ZONE_BYTES);
        let caches = caches.map(|(name, bytes, cache)| {
            let zone = Arc::new(Zone { name, bytes });
            cache.set_follower(Some(follower(sender.clone(), Arc::clone(&zone))));
            (zone, cache)
        });
        Followed {
            caches: caches.collect(),
            made,
        }
    }

    /// Returns when everything is sent and `is_last`, or when the other process is gone.
    fn tell(
        &self,
        line: &OwnedFd,
        sessions: &SessionState,
        verdicts: &[KnownVerdict],
        is_last: &AtomicBool,
    ) -> io::Result<()> {
        send(line, &[&[VERSION], format().as_bytes()].concat())?;
        tell_verdicts(line, verdicts)?;
        let mut keys = Keys::default();
        keys.tell(line, sessions)?;
        let now_s = now_s();
        for (zone, cache) in &self.caches {
            let mut batch = Batch::new(zone);
            let mut sent = Ok(());
            cache.copy(now_s, |id, session, expires_s| {
                if sent.is_ok() && !batch.add(id, session, expires_s) {
                    sent = batch.send(line);
                    batch = Batch::new(zone);
                    batch.add(id, session, expires_s);
                }
            });
            sent?;
            batch.send(line)?;
        }
        send(line, &[END])?;
        loop {
            let ends = is_last.load(Ordering::Acquire);
            self.tell_made(line, Instant::now() + LOOK_INTERVAL)?;
            keys.tell(line, sessions)?;
            if ends {
                return Ok(());
            }
            // It sends nothing: only its end can be read.
            if poll::wait_readable(&[line.as_fd()], Some(Duration::ZERO))?[0] {
                return Ok(());
            }
        }
    }

    /// Tells what is made until then.
    fn tell_made(&self, line: &OwnedFd, until: Instant) -> io::Result<()> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.made.recv_timeout(left) {
                Ok(made) => {
                    let mut batch = Batch::new(&made.zone);
                    batch.add(&made.id, &made.session, made.expires_s);
                    batch.send(line)?;
                }
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                // There is no cache, and nothing to send but keys.
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(left);
                    return Ok(());
                }
            }
            if left.is_zero() {
                return Ok(());
            }
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        for (_, cache) in &self.caches {
            cache.set_follower(None);
        }
    }
}

/// Servers whose names are longer than a message are checked anew.
fn tell_verdicts(line: &OwnedFd, verdicts: &[KnownVerdict]) -> io::Result<()> {
    let mut message = vec![HEALTH];
    for known in verdicts {
        let lengths = (
            u16::try_from(known.group.len()),
            u16::try_from(known.peer.len()),
        );
        let (Ok(group_bytes), Ok(peer_bytes)) = lengths else {
            continue;
        };
        let size = 5 + known.group.len() + known.peer.len();
        if message.len() + size > MAX_MESSAGE_BYTES {
            send(line, &message)?;
            message.truncate(1);
        }
        if size < MAX_MESSAGE_BYTES {
            message.push(u8::from(known.healthy));
            message.extend_from_slice(&group_bytes.to_le_bytes());
            message.extend_from_slice(known.group.as_bytes());
            message.extend_from_slice(&peer_bytes.to_le_bytes());
            message.extend_from_slice(known.peer.as_bytes());
        }
    }
    match message.len() {
        1 => Ok(()),
        _ => send(line, &message),
    }
}

/// The verdicts of a message.
fn verdicts_of(message: &[u8]) -> Option<Vec<KnownVerdict>> {
    let mut rest = message;
    let mut all = Vec::new();
    let text = |rest: &mut &[u8]| {
        let length = u16::from_le_bytes(take(rest)?);
        let text = rest.split_off(..usize::from(length))?;
        Some(std::str::from_utf8(text).ok()?.to_owned())
    };
    while !rest.is_empty() {
        let [healthy] = take(&mut rest)?;
        all.push(KnownVerdict {
            healthy: healthy == 1,
            group: text(&mut rest)?,
            peer: text(&mut rest)?,
        });
    }
    Some(all)
}

fn follower(sender: SyncSender<Made>, zone: Arc<Zone>) -> sealane_tls::Follower {
    Arc::new(move |id, session, expires_s| {
        let made = Made {
            zone: Arc::clone(&zone),
            id: id.to_vec(),
            session: Zeroizing::new(session.to_vec()),
            expires_s,
        };
        // A worker does not wait. What is not taken along costs a full handshake.
        let _ = sender.try_send(made);
    })
}

/// The ticket keys as last sent.
#[derive(Default)]
struct Keys(Option<Zeroizing<Vec<u8>>>);

impl Keys {
    fn tell(&mut self, line: &OwnedFd, sessions: &SessionState) -> io::Result<()> {
        let now = state::of(sessions);
        if now.is_none() || now == self.0 {
            return Ok(());
        }
        if let Some(keys) = &now {
            let mut message = Zeroizing::new(Vec::with_capacity(1 + keys.len()));
            message.push(KEYS);
            message.extend_from_slice(keys);
            send(line, &message)?;
        }
        self.0 = now;
        Ok(())
    }
}

/// Sessions of one zone in one message.
struct Batch {
    message: Zeroizing<Vec<u8>>,
    head_bytes: usize,
}

impl Batch {
    fn new(zone: &Zone) -> Batch {
        // Never reallocated, so that no copy of a session stays behind.
        let mut message = Zeroizing::new(Vec::with_capacity(MAX_MESSAGE_BYTES));
        message.push(SESSIONS);
        message.extend_from_slice(&(zone.bytes as u64).to_le_bytes());
        let length = u16::try_from(zone.name.len()).expect("at most MAX_ZONE_BYTES");
        message.extend_from_slice(&length.to_le_bytes());
        message.extend_from_slice(zone.name.as_bytes());
        Batch {
            head_bytes: message.len(),
            message,
        }
    }

    /// False when there is no room left.
    fn add(&mut self, id: &[u8], session: &[u8], expires_s: u64) -> bool {
        let size = SESSION_OVERHEAD_BYTES + id.len() + session.len();
        let lengths = (u8::try_from(id.len()), u16::try_from(session.len()));
        let ((Ok(id_bytes), Ok(session_bytes)), true) =
            (lengths, self.message.len() + size <= MAX_MESSAGE_BYTES)
        else {
            return false;
        };
        self.message.push(id_bytes);
        self.message.extend_from_slice(id);
        self.message.extend_from_slice(&expires_s.to_le_bytes());
        self.message.extend_from_slice(&session_bytes.to_le_bytes());
        self.message.extend_from_slice(session);
        true
    }

    fn send(&self, line: &OwnedFd) -> io::Result<()> {
        if self.message.len() == self.head_bytes {
            return Ok(());
        }
        send(line, &self.message)
    }
}

fn send(line: &OwnedFd, message: &[u8]) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match socket::send_fds(line.as_fd(), message, &[]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                std::thread::sleep(FULL_PAUSE);
            }
            done => return done,
        }
    }
}

/// Takes over what the previous process has, at the other end of `line`, before the first client
/// connects; and what it adds, as long as it lives.
pub(crate) fn learn(
    line: OwnedFd,
    sessions: &Arc<SessionState>,
    verdicts: impl Fn(&KnownVerdict) + Send + 'static,
    journal: &Journal,
) {
    let mut learner = Learner {
        line,
        sessions: Arc::clone(sessions),
        verdicts: Box::new(verdicts),
        buffer: Zeroizing::new(vec![0; 1 + MAX_STATE_BYTES]),
        learned: 0,
        is_same_format: false,
    };
    let goes_on = match learner.learn_until(Some(Instant::now() + LEARN_TIMEOUT)) {
        Ok(goes_on) => goes_on,
        Err(error) => {
            let error = OsError(&error);
            note!(
                journal,
                Warn,
                "the sessions of the worker process before cannot be taken over ({error}): clients \
                 shake hands in full once"
            );
            return;
        }
    };
    let count = learner.learned;
    note!(journal, Info, "{count} TLS sessions were taken over");
    if !goes_on {
        return;
    }
    let spawned = std::thread::Builder::new()
        .name("succession".to_owned())
        .spawn(move || {
            let _ = sealane_sys::crash::prepare_thread(); // for the report of a crash
            // It ends when the previous process does. A malformed message ends it, too.
            let _ = learner.learn_until(None);
        });
    if let Err(error) = spawned {
        let error = OsError(&error);
        note!(
            journal,
            Alert,
            "later sessions of the worker process before are not taken over ({error})"
        );
    }
}

struct Learner {
    line: OwnedFd,
    sessions: Arc<SessionState>,
    /// Told what health checks have found out.
    verdicts: Box<dyn Fn(&KnownVerdict) + Send>,
    buffer: Zeroizing<Vec<u8>>,
    /// Sessions taken over.
    learned: usize,
    is_same_format: bool,
}

impl Learner {
    /// Takes over what comes, with a time until the end of what there was. Whether more may come.
    fn learn_until(&mut self, until: Option<Instant>) -> io::Result<bool> {
        loop {
            let length = match socket::receive_fds(self.line.as_fd(), &mut self.buffer) {
                Ok(received) if received.len == 0 => return Ok(false),
                Ok(received) => received.len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = until.map(|at| at.saturating_duration_since(Instant::now()));
                    if left == Some(Duration::ZERO) {
                        return Ok(true);
                    }
                    poll::wait_readable(&[self.line.as_fd()], left)?;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
                Err(error) => return Err(error),
            };
            let message = &self.buffer[..length];
            match message {
                [END] if until.is_some() => return Ok(true),
                [END] => {}
                [VERSION, theirs @ ..] => {
                    self.is_same_format = theirs == format().as_bytes();
                    if !self.is_same_format {
                        return Ok(false);
                    }
                }
                _ if !self.is_same_format => return Err(nonsense()),
                [KEYS, keys @ ..] => {
                    state::merge(keys, &self.sessions).map_err(io::Error::other)?
                }
                [SESSIONS, rest @ ..] => {
                    self.learned += keep(rest, &self.sessions).ok_or_else(nonsense)?;
                }
                [HEALTH, rest @ ..] => {
                    let all = verdicts_of(rest).ok_or_else(nonsense)?;
                    all.iter().for_each(&self.verdicts);
                }
                _ => return Err(nonsense()),
            }
        }
    }
}

/// Keeps the sessions of a message, and counts them. Those of a zone that is missing here, or has
/// another size, are dropped, as in a reload.
fn keep(message: &[u8], sessions: &SessionState) -> Option<usize> {
    let mut rest = message;
    let bytes = u64::from_le_bytes(take(&mut rest)?);
    let length = u16::from_le_bytes(take(&mut rest)?);
    let zone = std::str::from_utf8(rest.split_off(..usize::from(length))?).ok()?;
    let mut caches = sessions.caches().into_iter();
    let cache = caches.find(|(name, size, _)| name == zone && *size as u64 == bytes);
    let (now_s, mut count) = (now_s(), 0);
    while !rest.is_empty() {
        let [length] = take(&mut rest)?;
        let id = rest.split_off(..usize::from(length))?;
        let expires_s = u64::from_le_bytes(take(&mut rest)?);
        let length = u16::from_le_bytes(take(&mut rest)?);
        let session = rest.split_off(..usize::from(length))?;
        if let Some((_, _, cache)) = &cache {
            cache.keep_if_new(id, session, expires_s, now_s);
            count += 1;
        }
    }
    Some(count)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

fn nonsense() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what it says is not understood")
}

#[cfg(test)]
mod tests;
