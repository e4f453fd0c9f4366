//! What the master tells the worker process, and the worker the master: one message per
//! datagram over a `SOCK_SEQPACKET` pair.

use crate::session_store::MAX_STATE_BYTES;
use sealane_sys::socket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use zeroize::Zeroizing;

/// Log files that one message carries at most, by the kernel's limit on
/// descriptors. More take several messages.
pub(crate) const LOGS_PER_MESSAGE: usize = socket::MAX_PASSED_FDS;

/// An order of the master.
#[derive(Debug)]
pub(crate) enum Message {
    /// Finish what is under way and end.
    Quit,
    /// End now.
    Terminate,
    /// Go on with these files in the logs at these positions.
    Reopen(Vec<(u16, OwnedFd)>),
}

const QUIT: u8 = b'Q';
const TERMINATE: u8 = b'T';
const REOPEN: u8 = b'R';

const MAX_MESSAGE_BYTES: usize = 1 + 2 * LOGS_PER_MESSAGE;

/// Tells the worker to end: gracefully or at once.
///
/// # Errors
/// `WouldBlock` when the worker has not read its messages for long; others when
/// it is gone.
pub(crate) fn send_end(link: BorrowedFd<'_>, gracefully: bool) -> io::Result<()> {
    socket::send_fds(link, &[if gracefully { QUIT } else { TERMINATE }], &[])
}

/// Hands the worker newly opened log files; at most [`LOGS_PER_MESSAGE`].
///
/// # Errors
/// As [`send_end`].
pub(crate) fn send_logs(link: BorrowedFd<'_>, logs: &[(u16, BorrowedFd<'_>)]) -> io::Result<()> {
    let mut data = vec![REOPEN];
    data.extend(logs.iter().flat_map(|(index, _)| index.to_le_bytes()));
    let fds: Vec<BorrowedFd<'_>> = logs.iter().map(|(_, fd)| *fd).collect();
    socket::send_fds(link, &data, &fds)
}

/// The next message; `None` when the master is gone.
///
/// # Errors
/// `WouldBlock` when there is none; `InvalidData` for what no master sends.
pub(crate) fn receive(link: &impl AsFd) -> io::Result<Option<Message>> {
    let mut data = [0; MAX_MESSAGE_BYTES];
    let received = socket::receive_fds(link.as_fd(), &mut data)?;
    match &data[..received.len] {
        [] => Ok(None),
        [QUIT] => Ok(Some(Message::Quit)),
        [TERMINATE] => Ok(Some(Message::Terminate)),
        [REOPEN, indexes @ ..] if indexes.len() == 2 * received.fds.len() => {
            let (indexes, _) = indexes.as_chunks::<2>();
            let indexes = indexes.iter().map(|bytes| u16::from_le_bytes(*bytes));
            Ok(Some(Message::Reopen(indexes.zip(received.fds).collect())))
        }
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "unknown message from the master",
        )),
    }
}

/// A report of the worker.
pub(crate) enum Report {
    /// Ticket keys, for the file and for the next worker. The master does not look
    /// into them.
    TicketState(Zeroizing<Vec<u8>>),
}

const TICKET_STATE: u8 = b'S';

/// Gives the master ticket keys to keep.
///
/// # Errors
/// `WouldBlock` when the master has not read its messages yet; others when it is
/// gone.
pub(crate) fn send_ticket_state(link: BorrowedFd<'_>, state: &[u8]) -> io::Result<()> {
    let mut data = Zeroizing::new(Vec::with_capacity(1 + state.len()));
    data.push(TICKET_STATE);
    data.extend_from_slice(state);
    socket::send_fds(link, &data, &[])
}

/// The worker's next report; `None` when the worker is gone.
///
/// # Errors
/// `WouldBlock` when there is none; `InvalidData` for what no worker sends.
pub(crate) fn receive_report(link: &impl AsFd) -> io::Result<Option<Report>> {
    let mut data = Zeroizing::new(vec![0; 1 + MAX_STATE_BYTES]);
    let received = socket::receive_fds(link.as_fd(), &mut data)?;
    data.truncate(received.len);
    match data.split_first() {
        None => Ok(None),
        Some((&TICKET_STATE, state)) if received.fds.is_empty() => {
            Ok(Some(Report::TicketState(Zeroizing::new(state.to_vec()))))
        }
        Some(_) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "unknown message from the worker process",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn messages_arrive_whole_and_in_order_and_then_the_end() {
        let (master, worker) = socket::seqpacket_pair().expect("a pair");
        let null = File::open("/dev/null").expect("there");
        send_logs(master.as_fd(), &[(3, null.as_fd()), (260, null.as_fd())]).expect("sent");
        send_end(master.as_fd(), true).expect("sent");
        send_end(master.as_fd(), false).expect("sent");
        drop(master);

        let Some(Message::Reopen(logs)) = receive(&worker).expect("received") else {
            panic!("not the logs");
        };
        assert_eq!(
            logs.iter().map(|(index, _)| *index).collect::<Vec<_>>(),
            [3, 260]
        );
        assert!(matches!(receive(&worker), Ok(Some(Message::Quit))));
        assert!(matches!(receive(&worker), Ok(Some(Message::Terminate))));
        assert!(matches!(receive(&worker), Ok(None)), "the master is gone");
    }

    #[test]
    fn nonsense_is_an_error() {
        let (master, worker) = socket::seqpacket_pair().expect("a pair");
        for data in [&b"X"[..], b"QQ", b"R\x01\x00"] {
            socket::send_fds(master.as_fd(), data, &[]).expect("sent");
            let error = receive(&worker).expect_err("nonsense");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{data:?}");
        }
        assert_eq!(
            receive(&worker).expect_err("empty").kind(),
            io::ErrorKind::WouldBlock
        );
    }

    #[test]
    fn ticket_keys_arrive_whole_at_their_largest() {
        let (master, worker) = socket::seqpacket_pair().expect("a pair");
        for size in [0, 1, MAX_STATE_BYTES] {
            let state = vec![7; size];
            send_ticket_state(worker.as_fd(), &state).expect("sent");
            let report = receive_report(&master).expect("received");
            let Some(Report::TicketState(received)) = report else {
                panic!("no report");
            };
            assert!(*received == state, "{size} bytes");
        }
        socket::send_fds(worker.as_fd(), b"X", &[]).expect("sent");
        assert!(receive_report(&master).is_err());
        drop(worker);
        assert!(receive_report(&master).expect("the end").is_none());
    }
}
