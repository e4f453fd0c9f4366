//! Messages on lines: between the master and the key process, and from a worker process to it.
//!
//! Each is one datagram of a `SOCK_SEQPACKET` pair, some of them with a descriptor.
//!
//! | from | messages |
//! |---|---|
//! | the master | deposit, introduce, forget, renew |
//! | a worker process | open, load, forget |
//! | the key process, to the master | held or refused, a report for the operator |
//! | the key process, to a worker process | loaded or refused |

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
const LOAD: u8 = b'L';
const LOADED: u8 = b'H';
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
    /// Keys at a time that it has loaded itself.
    pub max_keys: u32,
}

/// What a worker process wants over its line.
#[derive(Debug)]
pub enum WorkerRequest {
    /// This is a channel of one of its threads.
    Channel(OwnedFd),
    /// Hold this key for it, and answer with its handle.
    Load {
        /// Of the answer.
        number: u64,
        /// What [`Deposit::seal`](crate::deposit::Deposit::seal) has made.
        memory: OwnedFd,
    },
    /// One load of this key is needed no more.
    Forget(KeyId),
}

/// A key that is held for a worker process.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Its handle.
    pub handle: KeyHandle,
    /// Whether its file needs a password.
    pub is_encrypted: bool,
}

/// The answer to [`WorkerRequest::Load`]: its number, and the key, or why it is not held.
pub type LoadAnswer = (u64, Result<Loaded, String>);

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
    let numbers = [rights.max_channels, rights.max_decryptions, rights.max_keys];
    let numbers = numbers.map(u32::to_le_bytes);
    let data = [&[INTRODUCE][..], &numbers.concat()].concat();
    socket::send_fds(line, &data, &[worker])
}

/// Has a key wiped, or, over the line of a worker process, one load of it undone.
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

/// Has a key held for a worker process, over its line.
///
/// # Errors
///
/// The errno of `sendmsg`.
pub fn send_load(line: BorrowedFd<'_>, number: u64, memory: BorrowedFd<'_>) -> io::Result<()> {
    let data = [&[LOAD][..], &number.to_le_bytes()].concat();
    socket::send_fds(line, &data, &[memory])
}

/// Answers [`WorkerRequest::Load`].
///
/// # Errors
///
/// The errno of `sendmsg`.
pub fn send_loaded(line: BorrowedFd<'_>, answer: &LoadAnswer) -> io::Result<()> {
    let (number, result) = answer;
    let number = number.to_le_bytes();
    let data = match result {
        Ok(loaded) => {
            let flag = [u8::from(loaded.is_encrypted)];
            [&[LOADED][..], &number, &flag, &loaded.handle.to_bytes()].concat()
        }
        Err(why) => [&[REFUSED][..], &number, &text(why)].concat(),
    };
    let data = zeroize::Zeroizing::new(data);
    socket::send_fds(line, &data, &[])
}

/// Tells the master.
///
/// # Errors
///
/// The errno of `sendmsg`.
pub fn send_report(line: BorrowedFd<'_>, report: &Report) -> io::Result<()> {
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
        ([INTRODUCE, rest @ ..], Some(line), 0) => {
            let rights = rights(rest);
            rights.map(|rights| Order::Introduce { rights, line })
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

/// The next request of a worker process; `None` when it is gone.
///
/// # Errors
///
/// `WouldBlock` when there is none; `InvalidData` for anything a worker does not send.
pub fn receive_request(line: BorrowedFd<'_>) -> io::Result<Option<WorkerRequest>> {
    let mut data = [0; 64];
    let mut received = socket::receive_fds(line, &mut data)?;
    let request = match (&data[..received.len], received.fds.pop()) {
        ([], None) => return Ok(None),
        ([OPEN], Some(channel)) if received.fds.is_empty() => WorkerRequest::Channel(channel),
        ([LOAD, number @ ..], Some(memory)) if received.fds.is_empty() && number.len() == 8 => {
            let number = u64::from_le_bytes(number.try_into().map_err(|_| nonsense())?);
            WorkerRequest::Load { number, memory }
        }
        ([FORGET, key @ ..], None) => {
            WorkerRequest::Forget(KeyId(key.try_into().map_err(|_| nonsense())?))
        }
        (_, last) => {
            received.fds.extend(last);
            socket::discard_fds(received.fds);
            return Err(nonsense());
        }
    };
    Ok(Some(request))
}

/// The next answer to a worker process; `None` when the key process is gone.
///
/// # Errors
///
/// `WouldBlock` when there is none; `InvalidData` for anything a key process does not send.
pub fn receive_loaded(line: BorrowedFd<'_>) -> io::Result<Option<LoadAnswer>> {
    let mut data = zeroize::Zeroizing::new([0; MAX_MESSAGE_BYTES]);
    let received = socket::receive_fds(line, &mut *data)?;
    let answer = match &data[..received.len] {
        [] => return Ok(None),
        [LOADED, rest @ ..] => rest.split_first_chunk().and_then(|(number, rest)| {
            let (flag, handle) = rest.split_first()?;
            let handle = KeyHandle::from_bytes(handle)?;
            let is_encrypted = *flag == 1;
            let loaded = Loaded {
                handle,
                is_encrypted,
            };
            Some((u64::from_le_bytes(*number), Ok(loaded)))
        }),
        [REFUSED, rest @ ..] => rest.split_first_chunk().map(|(number, why)| {
            let why = String::from_utf8_lossy(why).into_owned();
            (u64::from_le_bytes(*number), Err(why))
        }),
        _ => None,
    };
    answer.map(Some).ok_or_else(nonsense)
}

/// The numbers of an introduction.
fn rights(mut bytes: &[u8]) -> Option<Rights> {
    let mut next = || {
        let (number, rest) = bytes.split_first_chunk()?;
        bytes = rest;
        Some(u32::from_le_bytes(*number))
    };
    let rights = Rights {
        max_channels: next()?,
        max_decryptions: next()?,
        max_keys: next()?,
    };
    bytes.is_empty().then_some(rights)
}

/// What fits of a text.
fn text(text: &str) -> Vec<u8> {
    text.bytes().take(MAX_TEXT_BYTES).collect()
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
            max_keys: 1 << 24,
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
    fn requests_of_a_worker_arrive_as_they_were_sent() {
        let (worker, service) = line();
        let (some, _other) = line();
        send_channel(worker.as_fd(), some.as_fd()).expect("room");
        send_load(worker.as_fd(), 9, some.as_fd()).expect("room");
        send_forget(worker.as_fd(), KeyId([5; 32])).expect("room");
        let next = || receive_request(service.as_fd());
        assert!(matches!(next(), Ok(Some(WorkerRequest::Channel(_)))));
        assert!(matches!(
            next(),
            Ok(Some(WorkerRequest::Load { number: 9, .. }))
        ));
        assert!(matches!(
            next(),
            Ok(Some(WorkerRequest::Forget(KeyId([5, ..]))))
        ));
        for (data, fds) in [
            (&b"O"[..], &[][..]),
            (b"O", &[some.as_fd(), some.as_fd()]),
            (b"X", &[some.as_fd()]),
            (b"OO", &[some.as_fd()]),
            (b"L1234567", &[some.as_fd()]),
            (b"L12345678", &[]),
            (b"L12345678", &[some.as_fd(), some.as_fd()]),
            (b"F", &[]),
            (&[b'F'; 33], &[some.as_fd()]),
            (&[b'D'; 9], &[some.as_fd()]),
            (&[0; 100], &[]),
        ] {
            socket::send_fds(worker.as_fd(), data, fds).expect("room");
            let error = next().expect_err("nonsense");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        drop(worker);
        assert!(matches!(next(), Ok(None)));
    }

    #[test]
    fn answers_to_a_worker_arrive_as_they_were_given() {
        let (worker, service) = line();
        let handle = handle();
        let loaded = Loaded {
            handle: handle.clone(),
            is_encrypted: true,
        };
        send_loaded(service.as_fd(), &(1, Ok(loaded))).expect("room");
        send_loaded(service.as_fd(), &(2, Err("why".repeat(1000)))).expect("room");
        let next = || receive_loaded(worker.as_fd());
        match next() {
            Ok(Some((1, Ok(loaded)))) => {
                assert!(loaded.is_encrypted && loaded.handle.id == handle.id);
            }
            other => panic!("{other:?}"),
        }
        let Ok(Some((2, Err(why)))) = next() else {
            panic!("a refusal");
        };
        assert_eq!(why.len(), MAX_TEXT_BYTES);
        for data in [&b"K"[..], b"H", &[b'H'; 40], &[b'E'; 5]] {
            socket::send_fds(service.as_fd(), data, &[]).expect("room");
            let error = next().expect_err("nonsense");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        drop(service);
        assert!(matches!(next(), Ok(None)));
    }
}
