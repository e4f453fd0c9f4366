//! The other master while the binary is upgraded, and the channel to it.
//!
//! The binaries may have different versions, and the other one may be nginx, which sends
//! nothing. So the first message on the channel lists what its sender understands. If that differs,
//! everything else is ignored, and connections finish in the process that has them.

use super::quic::QuicSecrets;
use crate::journal::{Journal, note};
use crate::session_store::MAX_STATE_BYTES;
use sealane_log::OsError;
use sealane_server::MAX_QUIC_SECRETS;
use sealane_sys::process::Pid;
use sealane_sys::sealed_memory::SealedMemory;
use sealane_sys::{process, signal, socket};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use zeroize::Zeroizing;

/// The variable that names the new binary's end of the line.
pub(crate) const VARIABLE: &str = "SEALANE_UPGRADE";

/// Of the messages on the line; another meaning of any of them has another number.
const VERSION: u8 = 1;

const HELLO: u8 = b'H';
const KEYS: u8 = b'K';
const SERVING: u8 = b'S';
const STARTING: u8 = b'W';
const NOT_SERVING: u8 = b'N';
const TAKE_OVER: u8 = b'T';
const REGISTER: u8 = b'R';
const BEFORE: u8 = b'B';
const STAPLES: u8 = b'O';
const QUIC: u8 = b'Q';
const QUIC_LINE: u8 = b'L';

/// Of connection ids and of the lines for packets: binaries in which they differ know nothing of
/// each other's connections.
const QUIC_VERSION: u8 = 1;

/// Which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Our parent, which has executed this binary.
    Old,
    /// Our child.
    New,
}

/// Whether a master's worker accepts connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    Serving,
    /// Soon.
    Starting,
    No,
}

/// The other master.
pub(crate) struct Other {
    pub(super) pid: Pid,
    pub(super) side: Side,
    /// `None` for nginx, which has no such thing, and once the other end is closed.
    line: Option<OwnedFd>,
    /// It has announced what it understands, which nginx does not.
    greeted: bool,
    /// Connections can go there in the format of this binary.
    agrees: bool,
    readiness: Readiness,
    /// What it was last told about us.
    told: Readiness,
    /// Its newest ticket keys.
    keys: Option<Zeroizing<Vec<u8>>>,
    /// Where its worker's connections come from, for our worker.
    pub(super) arriving: Vec<OwnedFd>,
    /// The memory of its register of early data.
    register: Option<OwnedFd>,
    /// The channel over which its worker sends its sessions to our first one.
    before: Option<OwnedFd>,
    /// The memory of its staples.
    staples: Option<OwnedFd>,
    /// What the connection ids of its workers are made with.
    quic: Option<QuicSecrets>,
    /// The number of its worker in them.
    quic_worker: Option<u8>,
    /// Lines to its workers of these numbers, for ours.
    pub(super) quic_lines: Vec<(u8, OwnedFd)>,
    /// Ours, until it has read them.
    pub(super) our_staples: Option<SealedMemory>,
}

impl Other {
    fn new(pid: Pid, side: Side, line: Option<OwnedFd>) -> Other {
        Other {
            pid,
            side,
            line,
            greeted: false,
            agrees: false,
            readiness: match side {
                Side::Old => Readiness::No,
                Side::New => Readiness::Starting,
            },
            told: match side {
                Side::Old => Readiness::Starting,
                Side::New => Readiness::No,
            },
            keys: None,
            arriving: Vec::new(),
            register: None,
            before: None,
            staples: None,
            quic: None,
            quic_worker: None,
            quic_lines: Vec::new(),
            our_staples: None,
        }
    }

    /// The new binary, which was started with the other end of `line`.
    pub(crate) fn started(pid: Pid, line: OwnedFd) -> Other {
        Other::new(pid, Side::New, Some(line))
    }

    /// The old binary, which has started this process, with what it has already sent, above all its
    /// ticket keys. nginx sends nothing.
    pub(crate) fn that_started_us(journal: &Journal) -> Other {
        let parent = process::parent_pid();
        let named = std::env::var(VARIABLE);
        let line = named.ok().and_then(|text| text.parse().ok());
        let line = line.and_then(|fd| socket::take_inherited_line(fd).ok());
        let (line, maker) = line.unzip();
        // The old binary may have ended already, and this process have another parent.
        let pid = maker.unwrap_or(parent);
        // A process that was started with another one's variable has no such channel.
        let line = line.filter(|_| pid == parent || !signal::process_exists(pid));
        let mut other = Other::new(pid, Side::Old, line);
        if let Some(line) = &other.line {
            greet(line.as_fd(), journal);
            while other.hear(journal) {}
        }
        other
    }

    /// Its newest ticket keys, once.
    pub(crate) fn take_keys(&mut self) -> Option<Zeroizing<Vec<u8>>> {
        self.keys.take()
    }

    /// The memory of its register of early data, once.
    pub(crate) fn take_register(&mut self) -> Option<OwnedFd> {
        self.register.take()
    }

    /// The memory of its staples, once.
    pub(crate) fn take_staples(&mut self) -> Option<OwnedFd> {
        self.staples.take()
    }

    /// The channel over which its worker sends its sessions to ours, once.
    pub(super) fn take_before(&mut self) -> Option<OwnedFd> {
        self.before.take()
    }

    /// What its connection ids of QUIC are made with, once.
    pub(super) fn take_quic(&mut self) -> Option<QuicSecrets> {
        self.quic.take()
    }

    /// A line from our worker of this number to its worker, with that one's number.
    pub(super) fn open_quic_line(&mut self, process: u8) -> Option<(u8, OwnedFd)> {
        let (ours, theirs) = socket::seqpacket_pair().ok()?;
        let line = self.line.as_ref()?;
        let data = [QUIC_LINE, QUIC_VERSION, process];
        socket::send_fds(line.as_fd(), &data, &[theirs.as_fd()]).ok()?;
        Some((self.quic_worker?, ours))
    }

    /// To wait for its messages.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.line.as_ref().map(AsFd::as_fd)
    }

    /// Whether it runs. A child does until it is reaped.
    pub(super) fn lives(&self) -> bool {
        match self.side {
            Side::New => true,
            Side::Old => process::parent_pid() == self.pid,
        }
    }

    /// Takes its next message. False when there is none.
    pub(crate) fn hear(&mut self, journal: &Journal) -> bool {
        let Some(line) = &self.line else {
            return false;
        };
        let mut data = Zeroizing::new(vec![0; 1 + MAX_STATE_BYTES]);
        let received = match socket::receive_fds(line.as_fd(), &mut data) {
            Ok(received) if received.len == 0 => {
                self.hang_up();
                return false;
            }
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) => {
                if error.kind() != io::ErrorKind::ConnectionReset {
                    let (pid, error) = (self.pid, OsError(&error));
                    note!(
                        journal,
                        Alert,
                        "invalid message from master process {pid} of the other binary ({error}); \
                         connections stay in their processes"
                    );
                }
                self.hang_up();
                return false;
            }
        };
        let mut fds = received.fds.into_iter();
        match (&data[..received.len], fds.next()) {
            ([HELLO, version, format @ ..], None) => {
                self.greeted = true;
                self.agrees =
                    *version == VERSION && format == sealane_server::moving_format().as_bytes();
                if !self.agrees {
                    let format: String = String::from_utf8_lossy(format)
                        .chars()
                        .filter(|c| !c.is_control())
                        .collect();
                    note!(
                        journal,
                        Notice,
                        "the other binary uses another connection format ({format}): connections \
                         stay in their processes"
                    );
                }
            }
            ([KEYS, keys @ ..], None) => self.keys = Some(Zeroizing::new(keys.to_vec())),
            ([SERVING], None) => self.readiness = Readiness::Serving,
            ([STARTING], None) => self.readiness = Readiness::Starting,
            ([NOT_SERVING], None) => self.readiness = Readiness::No,
            ([TAKE_OVER], Some(line)) if self.agrees => self.arriving.push(line),
            ([REGISTER], Some(register)) => self.register = Some(register),
            ([BEFORE], Some(line)) => self.before = Some(line),
            ([STAPLES], Some(memory)) => self.staples = Some(memory),
            ([QUIC, QUIC_VERSION, state @ ..], None) => self.hear_of_quic(state),
            ([QUIC_LINE, QUIC_VERSION, process], Some(line)) => {
                self.quic_worker = Some(*process);
                self.quic_lines.push((*process, line));
            }
            _ => {} // of a version to come
        }
        true
    }

    /// The number of its next worker, whether it has a worker, that one's number, and secrets.
    fn hear_of_quic(&mut self, state: &[u8]) {
        let Some(([next, has_worker, worker], secrets)) = state.split_first_chunk() else {
            return;
        };
        let (secrets, _) = secrets.as_chunks::<32>();
        let Some((secret, former)) = secrets.split_first() else {
            return;
        };
        self.quic_worker = (*has_worker == 1).then_some(*worker);
        self.quic = Some(QuicSecrets {
            secret: *secret,
            former: former.iter().take(MAX_QUIC_SECRETS).copied().collect(),
            next: *next,
        });
    }

    fn hang_up(&mut self) {
        self.line = None;
        self.readiness = Readiness::No;
    }

    /// Reports whether we serve, if that has changed since the last report.
    pub(super) fn tell(&mut self, readiness: Readiness) {
        let Some(line) = &self.line else { return };
        if self.told == readiness {
            return;
        }
        let message = match readiness {
            Readiness::Serving => SERVING,
            Readiness::Starting => STARTING,
            Readiness::No => NOT_SERVING,
        };
        // Told again the next time.
        if socket::send_fds(line.as_fd(), &[message], &[]).is_ok() {
            self.told = readiness;
        }
    }

    /// Gives it our ticket keys. Without them it does with its own.
    pub(super) fn give_keys(&self, keys: &[u8]) {
        if let Some(line) = &self.line {
            let _ = send_keys(line.as_fd(), keys);
        }
    }

    /// Whether it serves, according to its last report.
    pub(crate) fn is_serving(&self) -> bool {
        self.readiness == Readiness::Serving
    }

    /// Whether it is to serve soon, as far as is known.
    pub(super) fn is_starting(&self) -> bool {
        self.readiness == Readiness::Starting && self.line.is_some()
    }

    /// Whether it speaks.
    pub(super) fn has_greeted(&self) -> bool {
        self.greeted
    }

    /// Whether connections can go there now.
    pub(super) fn takes_connections(&self) -> bool {
        self.agrees && self.is_serving() && self.line.is_some()
    }

    /// Has its worker take the connections that come over `line`.
    ///
    /// # Errors
    /// When it cannot be told.
    pub(super) fn send_take_over(&self, line: BorrowedFd<'_>) -> io::Result<()> {
        let ours = self.line.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        socket::send_fds(ours.as_fd(), &[TAKE_OVER], &[line])
    }
}

/// Says what we understand.
pub(super) fn greet(line: BorrowedFd<'_>, journal: &Journal) {
    let mut hello = vec![HELLO, VERSION];
    hello.extend(sealane_server::moving_format().into_bytes());
    if let Err(error) = socket::send_fds(line, &hello, &[])
        && error.kind() != io::ErrorKind::BrokenPipe
    // it has ended, as is seen next
    {
        let error = OsError(&error);
        note!(
            journal,
            Alert,
            "the connection format cannot be sent to the other binary ({error}): connections stay \
             in their processes"
        );
    }
}

/// Sends ticket keys over a line.
pub(super) fn send_keys(line: BorrowedFd<'_>, keys: &[u8]) -> io::Result<()> {
    let mut data = Zeroizing::new(Vec::with_capacity(1 + keys.len()));
    data.push(KEYS);
    data.extend_from_slice(keys);
    socket::send_fds(line, &data, &[])
}

/// Gives away the memory of the register of early data.
pub(super) fn send_register(line: BorrowedFd<'_>, register: BorrowedFd<'_>) -> io::Result<()> {
    socket::send_fds(line, &[REGISTER], &[register])
}

/// Gives away the memory of staples.
pub(super) fn send_staples(line: BorrowedFd<'_>, staples: BorrowedFd<'_>) -> io::Result<()> {
    socket::send_fds(line, &[STAPLES], &[staples])
}

/// Says what connection ids of QUIC are made with, and which number our worker has in them.
pub(super) fn send_quic(
    line: BorrowedFd<'_>,
    secrets: &QuicSecrets,
    worker: Option<u8>,
) -> io::Result<()> {
    let has_worker = u8::from(worker.is_some());
    let head = [
        QUIC,
        QUIC_VERSION,
        secrets.next,
        has_worker,
        worker.unwrap_or(0),
    ];
    let mut data = Zeroizing::new(head.to_vec());
    data.extend_from_slice(&secrets.secret);
    data.extend_from_slice(secrets.former.as_flattened());
    socket::send_fds(line, &data, &[])
}

/// Passes on the channel over which our worker sends its sessions.
pub(super) fn send_before(line: BorrowedFd<'_>, before: BorrowedFd<'_>) -> io::Result<()> {
    socket::send_fds(line, &[BEFORE], &[before])
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_log::Logger;
    use std::fs::File;

    fn pair() -> (Other, Other, Journal) {
        let (ours, theirs) = socket::seqpacket_pair().expect("a pair");
        let journal = Journal::running(Logger::discard());
        let other = |line, side| Other::new(process::pid(), side, Some(line));
        (other(ours, Side::New), other(theirs, Side::Old), journal)
    }

    fn hear_all(other: &mut Other, journal: &Journal) {
        while other.hear(journal) {}
    }

    #[test]
    fn two_of_one_kind_agree_and_hand_over() {
        let (mut new, mut old, journal) = pair();
        greet(new.fd().expect("a line"), &journal);
        greet(old.fd().expect("a line"), &journal);
        new.give_keys(&[7; MAX_STATE_BYTES]);
        hear_all(&mut old, &journal);
        hear_all(&mut new, &journal);
        assert_eq!(old.take_keys().expect("keys").len(), MAX_STATE_BYTES);
        assert!(!old.takes_connections(), "nobody serves there yet");
        let all = [Readiness::Serving, Readiness::No, Readiness::Starting];
        for readiness in all.into_iter().chain([Readiness::Serving; 2]) {
            new.tell(readiness);
            hear_all(&mut old, &journal);
            assert_eq!(old.takes_connections(), readiness == Readiness::Serving);
            assert_eq!(old.is_starting(), readiness == Readiness::Starting);
        }
        let null = File::open("/dev/null").expect("there");
        old.send_take_over(null.as_fd()).expect("sent");
        hear_all(&mut new, &journal);
        assert_eq!(new.arriving.len(), 1);
        let line = old.fd().expect("a line");
        send_register(line, null.as_fd()).expect("sent");
        send_before(line, null.as_fd()).expect("sent");
        hear_all(&mut new, &journal);
        assert!(new.take_register().is_some() && new.take_before().is_some());
        assert!(new.take_register().is_none() && new.take_before().is_none());
        drop(new);
        hear_all(&mut old, &journal);
        assert!(!old.takes_connections() && old.fd().is_none());
        assert!(old.send_take_over(null.as_fd()).is_err());
    }

    #[test]
    fn the_next_binary_knows_connection_ids_and_gets_lines() {
        let (mut new, mut old, journal) = pair();
        let secrets = QuicSecrets {
            secret: [1; 32],
            former: vec![[2; 32], [3; 32]],
            next: 5,
        };
        send_quic(old.fd().expect("a line"), &secrets, Some(4)).expect("sent");
        hear_all(&mut new, &journal);
        let known = new.take_quic().expect("it was sent");
        assert_eq!((known.secret, known.next), (secrets.secret, secrets.next));
        assert_eq!(known.former, secrets.former);
        assert_eq!(QuicSecrets::of(None).former.len(), 0);
        let (worker, _line) = new.open_quic_line(0x80).expect("its worker is known");
        assert_eq!(worker, 4);
        hear_all(&mut old, &journal);
        assert_eq!(old.quic_lines.len(), 1);
        assert_eq!(old.quic_lines[0].0, 0x80);
        // The way back.
        assert_eq!(old.open_quic_line(6).expect("now it is known").0, 0x80);
        for state in [&[][..], &[1, 1], &[1, 1, 1], &[1; 34]] {
            let data = [&[QUIC, QUIC_VERSION][..], state].concat();
            socket::send_fds(old.fd().expect("a line"), &data, &[]).expect("sent");
            hear_all(&mut new, &journal);
            assert!(new.take_quic().is_none());
        }
    }

    #[test]
    fn who_keeps_connections_differently_gets_none() {
        let own = sealane_server::moving_format();
        for (version, format) in [(VERSION + 1, own.as_str()), (VERSION, "other")] {
            let (new, mut old, journal) = pair();
            let line = new.fd().expect("a line");
            let hello = [&[HELLO, version], format.as_bytes()].concat();
            let null = File::open("/dev/null").expect("there");
            socket::send_fds(line, &hello, &[]).expect("sent");
            socket::send_fds(line, &[SERVING], &[]).expect("sent");
            socket::send_fds(line, &[TAKE_OVER], &[null.as_fd()]).expect("sent");
            socket::send_fds(line, b"? of a version to come", &[null.as_fd()]).expect("sent");
            hear_all(&mut old, &journal);
            assert!(old.is_serving() && !old.takes_connections());
            assert!(old.arriving.is_empty());
            assert!(old.fd().is_some(), "its end is still to be heard of");
        }
    }
}
