//! Messages on lines: between the master and the key process, and from a worker process to it.
//!
//! Each is one datagram of a `SOCK_SEQPACKET` pair, some of them with a descriptor.

use sealane_sys::{poll, socket};
use sealane_tls::{KeyHandle, KeyId};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

const DEPOSIT: u8 = b'D';
const INTRODUCE: u8 = b'W';
const FORGET: u8 = b'F';
const RENEW: u8 = b'N';
const OPEN: u8 = b'O';
const HELD: u8 = b'K';
const REFUSED: u8 = b'E';
const REPORT: u8 = b'R';

/// Longest text in a message, in bytes; the rest is cut off.
const MAX_TEXT_BYTES: usize = 1024;

const MAX_MESSAGE_BYTES: usize = 1 + 8 + MAX_TEXT_BYTES;

/// What a worker process may have of the key process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// Channels at a time.
    pub max_channels: u32,
    /// Decryptions in a second, for the RSA key exchange.
    pub max_decryptions: u32,
}

/// What the master wants of the key process.
#[derive(Debug)]
pub enum Order {
    /// Hold this key, and answer with its handle.
    Deposit {
        /// Of the answer.
        number: u64,
        /// What [`Deposit::seal`](crate::deposit::Deposit::seal) has made.
        memory: OwnedFd,
    },
    /// A worker process may open channels over this line.
    Introduce {
        /// What it may have.
        rights: Rights,
        /// Its line.
        line: OwnedFd,
    },
    /// Wipe this key.
    Forget(KeyId),
    /// The configuration is loaded again: its keys follow.
    Renew,
}

/// What the key process tells the master.
#[derive(Debug)]
pub enum Report {
    /// The answer to [`Order::Deposit`].
    Deposited {
        /// Of the order.
        number: u64,
        /// The handle, or why the key is not held.
        result: Result<KeyHandle, String>,
    },
    /// For the operator, at level alert.
    Alert(String),
}

/// Has a key held.
///
/// # Errors
///
/// The errno of `sendmsg`.
pub fn send_deposit(line: BorrowedFd<'_>, number: u64, memory: BorrowedFd<'_>) -> io::Result<()> {
    let data = [&[DEPOSIT][..], &number.to_le_bytes()].concat();
    socket::send_fds(line, &data, &[memory])
}

/// Lets a worker process open channels.
///
/// # Errors
///
/// The errno of `sendmsg`.
pub fn send_introduction(
    line: BorrowedFd<'_>,
    rights: Rights,
    worker: BorrowedFd<'_>,
) -> io::Result<()> {
    let numbers = [rights.max_channels, rights.max_decryptions].map(u32::to_le_bytes);
    let data = [&[INTRODUCE][..], &numbers.concat()].concat();
    socket::send_fds(line, &data, &[worker])
}

/// Has a key wiped.
///
/// # Errors
///
/// The errno of `sendmsg`.
pub fn send_forget(line: BorrowedFd<'_>, key: KeyId) -> io::Result<()> {
    socket::send_fds(line, &[&[FORGET][..], &key.0].concat(), &[])
}

/// Says that the configuration is loaded again.
///
/// # Errors
///
/// The errno of `sendmsg`.
pub fn send_renew(line: BorrowedFd<'_>) -> io::Result<()> {
    socket::send_fds(line, &[RENEW], &[])
}

/// Opens a channel, over the line of a worker process.
///
/// # Errors
///
/// The errno of `sendmsg`.
pub fn send_channel(line: BorrowedFd<'_>, channel: BorrowedFd<'_>) -> io::Result<()> {
    socket::send_fds(line, &[OPEN], &[channel])
}

/// Tells the master.
///
/// # Errors
///
/// The errno of `sendmsg`.
pub fn send_report(line: BorrowedFd<'_>, report: &Report) -> io::Result<()> {
    let text = |text: &str| text.bytes().take(MAX_TEXT_BYTES).collect::<Vec<u8>>();
    let data = match report {
        Report::Deposited { number, result } => {
            let number = number.to_le_bytes();
            match result {
                Ok(handle) => [&[HELD][..], &number, &handle.to_bytes()].concat(),
                Err(why) => [&[REFUSED][..], &number, &text(why)].concat(),
            }
        }
        Report::Alert(what) => [&[REPORT][..], &text(what)].concat(),
    };
    let data = zeroize::Zeroizing::new(data);
    socket::send_fds(line, &data, &[])
}

/// The next order; `None` when the master is gone.
///
/// # Errors
///
/// `WouldBlock` when there is none; `InvalidData` for anything a master does not send.
pub fn receive_order(line: BorrowedFd<'_>) -> io::Result<Option<Order>> {
    let mut data = [0; 64];
    let mut received = socket::receive_fds(line, &mut data)?;
    let data = &data[..received.len];
    if data.is_empty() {
        return Ok(None);
    }
    let order = match (data, received.fds.pop(), received.fds.len()) {
        ([DEPOSIT, number @ ..], Some(memory), 0) => {
            let number = number.try_into().ok().map(u64::from_le_bytes);
            number.map(|number| Order::Deposit { number, memory })
        }
        ([INTRODUCE, a, b, c, d, rest @ ..], Some(line), 0) => {
            let max_decryptions = rest.try_into().ok().map(u32::from_le_bytes);
            let max_channels = u32::from_le_bytes([*a, *b, *c, *d]);
            max_decryptions.map(|max_decryptions| {
                let rights = Rights {
                    max_channels,
                    max_decryptions,
                };
                Order::Introduce { rights, line }
            })
        }
        ([RENEW], None, 0) => Some(Order::Renew),
        ([FORGET, key @ ..], None, 0) => key.try_into().ok().map(|key| Order::Forget(KeyId(key))),
        _ => None,
    };
    order.map(Some).ok_or_else(nonsense)
}

/// The next report; `None` when the key process is gone.
///
/// # Errors
///
/// `WouldBlock` when there is none; `InvalidData` for anything a key process does not send.
pub fn receive_report(line: BorrowedFd<'_>) -> io::Result<Option<Report>> {
    let mut data = zeroize::Zeroizing::new([0; MAX_MESSAGE_BYTES]);
    let received = socket::receive_fds(line, &mut *data)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let report = match &data[..received.len] {
        [] => return Ok(None),
        [tag @ (HELD | REFUSED), rest @ ..] => {
            rest.split_first_chunk().and_then(|(number, rest)| {
                let result = match *tag {
                    HELD => Ok(KeyHandle::from_bytes(rest)?),
                    _ => Err(text(rest)),
                };
                let number = u64::from_le_bytes(*number);
                Some(Report::Deposited { number, result })
            })
        }
        [REPORT, what @ ..] => Some(Report::Alert(text(what))),
        _ => None,
    };
    report.map(Some).ok_or_else(nonsense)
}

/// Waits for the next report.
///
/// # Errors
///
/// `TimedOut`, or those of [`receive_report`].
pub fn wait_for_report(line: BorrowedFd<'_>, patience: Duration) -> io::Result<Option<Report>> {
    let deadline = Instant::now() + patience;
    loop {
        match receive_report(line) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => return received,
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        poll::wait_readable(&[line.as_fd()], Some(left))?;
    }
}

/// The next channel that a worker process opens; `None` when it is gone.
///
/// # Errors
///
/// `WouldBlock` when there is none; `InvalidData` for anything a worker does not send.
pub fn receive_channel(line: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let mut data = [0; 8];
    let mut received = socket::receive_fds(line, &mut data)?;
    let channel = received.fds.pop();
    match (&data[..received.len], channel) {
        ([], _) => Ok(None),
        ([OPEN], Some(channel)) if received.fds.is_empty() => Ok(Some(channel)),
        (_, channel) => {
            received.fds.extend(channel);
            socket::discard_fds(received.fds);
            Err(nonsense())
        }
    }
}

fn nonsense() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message of an unknown form")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_awslc::PrivateKey;

    fn line() -> (OwnedFd, OwnedFd) {
        socket::seqpacket_pair().expect("descriptors")
    }

    fn handle() -> KeyHandle {
        let pair = rcgen::KeyPair::generate().expect("a key");
        let key = PrivateKey::from_pem(pair.serialize_pem().as_bytes(), &[]).expect("it is one");
        KeyHandle::of(&key).expect("an EC key")
    }

    #[test]
    fn orders_arrive_as_they_were_given() {
        let (master, service) = line();
        let (some, _other) = line();
        send_deposit(master.as_fd(), 7, some.as_fd()).expect("room");
        let given = Rights {
            max_channels: 3,
            max_decryptions: 70_000,
        };
        send_introduction(master.as_fd(), given, some.as_fd()).expect("room");
        send_forget(master.as_fd(), KeyId([5; 32])).expect("room");
        send_renew(master.as_fd()).expect("room");
        let next = || receive_order(service.as_fd());
        assert!(matches!(next(), Ok(Some(Order::Deposit { number: 7, .. }))));
        match next() {
            Ok(Some(Order::Introduce { rights, .. })) => assert_eq!(rights, given),
            other => panic!("{other:?}"),
        }
        assert!(matches!(next(), Ok(Some(Order::Forget(KeyId([5, ..]))))));
        assert!(matches!(next(), Ok(Some(Order::Renew))));
        assert!(next().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
        drop(master);
        assert!(matches!(next(), Ok(None)));
    }

    #[test]
    fn reports_arrive_as_they_were_given() {
        let (master, service) = line();
        let handle = handle();
        let result = Ok(handle.clone());
        send_report(service.as_fd(), &Report::Deposited { number: 1, result }).expect("room");
        let result = Err("why".repeat(1000));
        send_report(service.as_fd(), &Report::Deposited { number: 2, result }).expect("room");
        send_report(service.as_fd(), &Report::Alert("text".into())).expect("room");
        let next = || wait_for_report(master.as_fd(), Duration::from_secs(10)).expect("there");
        match next() {
            Some(Report::Deposited { number: 1, result }) => {
                assert_eq!(result.expect("a handle").id, handle.id);
            }
            other => panic!("{other:?}"),
        }
        match next() {
            Some(Report::Deposited { number: 2, result }) => {
                assert_eq!(result.expect_err("a reason").len(), MAX_TEXT_BYTES);
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(next(), Some(Report::Alert(text)) if text == "text"));
        let error = wait_for_report(master.as_fd(), Duration::from_millis(1));
        assert!(error.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut));
        drop(service);
        assert!(next().is_none());
    }

    #[test]
    fn a_worker_opens_channels_and_does_nothing_else() {
        let (worker, service) = line();
        let (some, _other) = line();
        send_channel(worker.as_fd(), some.as_fd()).expect("room");
        assert!(matches!(receive_channel(service.as_fd()), Ok(Some(_))));
        for (data, fds) in [
            (&b"O"[..], &[][..]),
            (b"O", &[some.as_fd(), some.as_fd()]),
            (b"X", &[some.as_fd()]),
            (b"OO", &[some.as_fd()]),
            (&[0; 100], &[]),
        ] {
            socket::send_fds(worker.as_fd(), data, fds).expect("room");
            let error = receive_channel(service.as_fd()).expect_err("nonsense");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        drop(worker);
        assert!(matches!(receive_channel(service.as_fd()), Ok(None)));
    }
}
