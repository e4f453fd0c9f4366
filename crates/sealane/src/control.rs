//! What the master tells the worker process, and the worker the master: one message per
//! datagram over a `SOCK_SEQPACKET` pair.

use crate::key_process::KeyLine;
use crate::session_store::MAX_STATE_BYTES;
use sealane_sys::socket;
use sealane_tls::{HolderId, StapleId};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use zeroize::Zeroizing;

/// Most descriptors that one message can carry, by the kernel's limit. More need
/// several messages.
pub(crate) const FDS_PER_MESSAGE: usize = socket::MAX_PASSED_FDS;

/// An order of the master.
///
/// A new configuration takes several messages: [`Message::Bundle`] begins, logs and sockets
/// follow, [`Message::Apply`] ends. All carry the number of the reload that they belong to.
#[derive(Debug)]
pub(crate) enum Message {
    /// Finish what is under way and end.
    Quit,
    /// Like `Quit`, but idle connections go over this line to another worker.
    HandOver(OwnedFd),
    /// Go on with the idle connections that another worker sends over this line.
    TakeOver(OwnedFd),
    /// Packets of QUIC for the worker of this number go over this line, and come over it.
    QuicLine(u8, OwnedFd),
    /// Send sessions and ticket keys to the worker at the other end of this channel, which
    /// is to take your place.
    TellSuccessor(OwnedFd),
    /// There is another process with keys.
    KeyLine(KeyLine),
    /// No configuration uses this process with keys any more.
    KeyHolderGone(HolderId),
    /// End now.
    Terminate,
    /// Go on with these files in the logs at these positions.
    Reopen(Vec<(u16, OwnedFd)>),
    /// Texts and files of a new configuration.
    Bundle {
        /// Number of the reload.
        generation: u64,
        /// What [`crate::reload::seal`] has made.
        memory: OwnedFd,
    },
    /// Logs of a new configuration, by their positions.
    Logs {
        /// Number of the reload.
        generation: u64,
        /// Position and file.
        files: Vec<(u16, OwnedFd)>,
    },
    /// Sockets of addresses that the previous configuration did not have, by the numbers of
    /// their listeners.
    Sockets {
        /// Number of the reload.
        generation: u64,
        /// Listener and socket.
        sockets: Vec<(u32, OwnedFd)>,
    },
    /// The configuration is complete: switch to it.
    Apply {
        /// Number of the reload.
        generation: u64,
        /// How many logs were sent.
        logs: u32,
        /// How many sockets were sent.
        sockets: u32,
    },
    /// What has become of [`Report::DnsCommand`].
    DnsCommandDone {
        /// Its number.
        id: u64,
        /// Why it failed, if it did.
        result: Result<(), String>,
    },
}

const QUIT: u8 = b'Q';
const TERMINATE: u8 = b'T';
const REOPEN: u8 = b'R';
const HAND_OVER: u8 = b'H';
const TAKE_OVER: u8 = b'I';
const TELL_SUCCESSOR: u8 = b'P';
const QUIC_LINE: u8 = b'U';
const KEY_LINE: u8 = b'E';
const KEY_HOLDER_GONE: u8 = b'G';
const BUNDLE: u8 = b'B';
const LOGS: u8 = b'L';
const SOCKETS: u8 = b'K';
const APPLY: u8 = b'A';
const DNS_COMMAND_DONE: u8 = b'D';
const DNS_COMMAND_FAILED: u8 = b'F';

/// Of the messages about reloads. Both ends run the same binary, unless it was replaced and a
/// new master talks to an old worker.
const VERSION: u8 = 1;

/// Tag, version and generation.
const HEAD_BYTES: usize = 2 + 8;

const MAX_MESSAGE_BYTES: usize = HEAD_BYTES + 4 * FDS_PER_MESSAGE;

/// Longest name of a process with keys, in bytes; the rest is cut off.
const MAX_HOLDER_NAME_BYTES: usize = 512;

/// Longest reason why a program has failed, in bytes; the rest is cut off.
const MAX_FAILURE_BYTES: usize = 4 * FDS_PER_MESSAGE;

/// Tells the worker to end: gracefully or at once.
///
/// # Errors
/// `WouldBlock` when the worker has not read its messages for a long time; others when
/// it is gone.
pub(crate) fn send_end(link: BorrowedFd<'_>, gracefully: bool) -> io::Result<()> {
    socket::send_fds(link, &[if gracefully { QUIT } else { TERMINATE }], &[])
}

/// Tells one worker to end and to send its idle connections over a channel, and another one to
/// receive them from it.
///
/// # Errors
/// As [`send_end`]. When only the first of them was told, its connections end.
pub(crate) fn send_move(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    let (out, line) = socket::seqpacket_pair()?;
    // The receiver first, so that nothing is sent to a channel without an end.
    send_take_over(to, line.as_fd())?;
    send_hand_over(from, out.as_fd())
}

/// Tells a worker to end and to send its idle connections over `line`.
///
/// # Errors
/// As [`send_end`].
pub(crate) fn send_hand_over(link: BorrowedFd<'_>, line: BorrowedFd<'_>) -> io::Result<()> {
    socket::send_fds(link, &[HAND_OVER, VERSION], &[line])
}

/// Has a worker take the connections that come over `line`.
///
/// # Errors
/// As [`send_end`].
pub(crate) fn send_take_over(link: BorrowedFd<'_>, line: BorrowedFd<'_>) -> io::Result<()> {
    socket::send_fds(link, &[TAKE_OVER, VERSION], &[line])
}

/// Tells a worker to send its sessions and ticket keys over a channel.
///
/// # Errors
/// As [`send_end`].
pub(crate) fn send_succession(link: BorrowedFd<'_>, line: BorrowedFd<'_>) -> io::Result<()> {
    socket::send_fds(link, &[TELL_SUCCESSOR, VERSION], &[line])
}

/// Gives a worker the line to another one, with its number in connection ids of QUIC.
///
/// # Errors
/// As [`send_end`].
pub(crate) fn send_quic_line(
    link: BorrowedFd<'_>,
    process: u8,
    line: BorrowedFd<'_>,
) -> io::Result<()> {
    socket::send_fds(link, &[QUIC_LINE, VERSION, process], &[line])
}

/// Tells a worker of another key process.
///
/// # Errors
/// As [`send_end`].
pub(crate) fn send_key_line(
    link: BorrowedFd<'_>,
    holder: HolderId,
    name: &str,
    line: BorrowedFd<'_>,
) -> io::Result<()> {
    let name: Vec<u8> = name.bytes().take(MAX_HOLDER_NAME_BYTES).collect();
    let holder = holder.0.to_le_bytes();
    let data = [&[KEY_LINE, VERSION][..], &holder, &name].concat();
    socket::send_fds(link, &data, &[line])
}

/// Tells a worker that no configuration uses a process with keys any more.
///
/// # Errors
/// As [`send_end`].
pub(crate) fn send_key_holder_gone(link: BorrowedFd<'_>, holder: HolderId) -> io::Result<()> {
    let [low, high] = holder.0.to_le_bytes();
    socket::send_fds(link, &[KEY_HOLDER_GONE, VERSION, low, high], &[])
}

/// Hands the worker newly opened log files; at most [`FDS_PER_MESSAGE`].
///
/// # Errors
/// As [`send_end`].
pub(crate) fn send_logs(link: BorrowedFd<'_>, logs: &[(u16, BorrowedFd<'_>)]) -> io::Result<()> {
    let mut data = vec![REOPEN];
    data.extend(logs.iter().flat_map(|(index, _)| index.to_le_bytes()));
    let fds: Vec<BorrowedFd<'_>> = logs.iter().map(|(_, fd)| *fd).collect();
    socket::send_fds(link, &data, &fds)
}

/// A new configuration, as the master hands it to the worker.
pub(crate) struct NewConfiguration<'a> {
    /// Number of the reload.
    pub(crate) generation: u64,
    /// Its texts and files.
    pub(crate) memory: BorrowedFd<'a>,
    /// Its logs by position.
    pub(crate) logs: Vec<(u32, BorrowedFd<'a>)>,
    /// Its new sockets by listener.
    pub(crate) sockets: Vec<(u32, BorrowedFd<'a>)>,
}

impl NewConfiguration<'_> {
    /// Hands it over. Nothing takes effect before the last message, so a failure in
    /// between leaves everything as it was.
    ///
    /// # Errors
    /// As [`send_end`].
    pub(crate) fn send(&self, link: BorrowedFd<'_>) -> io::Result<()> {
        let head = |tag| {
            let mut data = vec![tag, VERSION];
            data.extend(self.generation.to_le_bytes());
            data
        };
        socket::send_fds(link, &head(BUNDLE), &[self.memory])?;
        for (tag, list) in [(LOGS, &self.logs), (SOCKETS, &self.sockets)] {
            for part in list.chunks(FDS_PER_MESSAGE) {
                let mut data = head(tag);
                data.extend(part.iter().flat_map(|(number, _)| number.to_le_bytes()));
                let fds: Vec<BorrowedFd<'_>> = part.iter().map(|(_, fd)| *fd).collect();
                socket::send_fds(link, &data, &fds)?;
            }
        }
        let mut data = head(APPLY);
        for list in [&self.logs, &self.sockets] {
            let count = u32::try_from(list.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
            data.extend(count.to_le_bytes());
        }
        socket::send_fds(link, &data, &[])
    }
}

/// Tells a worker what has become of its [`Report::DnsCommand`].
///
/// # Errors
/// As [`send_end`].
pub(crate) fn send_dns_command_done(
    link: BorrowedFd<'_>,
    id: u64,
    result: Result<(), &str>,
) -> io::Result<()> {
    let (tag, why) = match result {
        Ok(()) => (DNS_COMMAND_DONE, ""),
        Err(why) => (DNS_COMMAND_FAILED, why),
    };
    let mut data = vec![tag, VERSION];
    data.extend(id.to_le_bytes());
    data.extend(why.bytes().take(MAX_FAILURE_BYTES));
    socket::send_fds(link, &data, &[])
}

/// The next message; `None` when the master is gone.
///
/// # Errors
/// `WouldBlock` when there is none; `InvalidData` for anything a master does not send.
pub(crate) fn receive(link: &impl AsFd) -> io::Result<Option<Message>> {
    let mut data = [0; MAX_MESSAGE_BYTES];
    let received = socket::receive_fds(link.as_fd(), &mut data)?;
    let data = &data[..received.len];
    if data.is_empty() {
        return Ok(None);
    }
    understand(data, received.fds)
        .map(Some)
        .ok_or_else(|| nonsense("the master"))
}

fn understand(data: &[u8], mut fds: Vec<OwnedFd>) -> Option<Message> {
    match data {
        [QUIT] => return Some(Message::Quit),
        [TERMINATE] => return Some(Message::Terminate),
        [tag @ (HAND_OVER | TAKE_OVER | TELL_SUCCESSOR), VERSION] => {
            let line = fds.pop().filter(|_| fds.is_empty())?;
            return Some(match *tag {
                HAND_OVER => Message::HandOver(line),
                TELL_SUCCESSOR => Message::TellSuccessor(line),
                _ => Message::TakeOver(line),
            });
        }
        [QUIC_LINE, VERSION, process] => {
            let line = fds.pop().filter(|_| fds.is_empty())?;
            return Some(Message::QuicLine(*process, line));
        }
        [KEY_LINE, VERSION, low, high, name @ ..] => {
            return Some(Message::KeyLine(KeyLine {
                holder: HolderId(u16::from_le_bytes([*low, *high])),
                name: String::from_utf8_lossy(name).into_owned(),
                line: fds.pop().filter(|_| fds.is_empty())?,
            }));
        }
        [KEY_HOLDER_GONE, VERSION, low, high] if fds.is_empty() => {
            let holder = HolderId(u16::from_le_bytes([*low, *high]));
            return Some(Message::KeyHolderGone(holder));
        }
        [REOPEN, indexes @ ..] => {
            let (indexes, rest) = indexes.as_chunks::<2>();
            let indexes = indexes.iter().map(|bytes| u16::from_le_bytes(*bytes));
            let matching = rest.is_empty() && indexes.len() == fds.len();
            return matching.then(|| Message::Reopen(indexes.zip(fds).collect()));
        }
        _ => {}
    }
    let [tag, VERSION, rest @ ..] = data else {
        return None;
    };
    let (generation, rest) = rest.split_first_chunk()?;
    let generation = u64::from_le_bytes(*generation);
    match (*tag, fds.is_empty()) {
        (DNS_COMMAND_DONE, true) if rest.is_empty() => {
            let (id, result) = (generation, Ok(()));
            return Some(Message::DnsCommandDone { id, result });
        }
        (DNS_COMMAND_FAILED, true) => {
            let (id, why) = (generation, String::from_utf8_lossy(rest));
            let result = Err(why.into_owned());
            return Some(Message::DnsCommandDone { id, result });
        }
        _ => {}
    }
    let (numbers, left) = rest.as_chunks::<4>();
    if !left.is_empty() {
        return None;
    }
    let mut numbers = numbers.iter().map(|bytes| u32::from_le_bytes(*bytes));
    match (*tag, numbers.len(), fds.len()) {
        (BUNDLE, 0, 1) => Some(Message::Bundle {
            generation,
            memory: fds.pop()?,
        }),
        (LOGS, count, given) if count == given => {
            let positions = numbers.map(|number| u16::try_from(number).ok());
            let files = positions
                .zip(fds)
                .map(|(position, fd)| Some((position?, fd)));
            Some(Message::Logs {
                generation,
                files: files.collect::<Option<_>>()?,
            })
        }
        (SOCKETS, count, given) if count == given => Some(Message::Sockets {
            generation,
            sockets: numbers.zip(fds).collect(),
        }),
        (APPLY, 2, 0) => Some(Message::Apply {
            generation,
            logs: numbers.next()?,
            sockets: numbers.next()?,
        }),
        _ => None,
    }
}

/// A report of the worker.
#[cfg_attr(test, derive(Debug))] // it would show keys
pub(crate) enum Report {
    /// Its threads accept connections.
    Ready,
    /// Ticket keys, for the file and for the next worker. The master does not parse
    /// them.
    TicketState(Zeroizing<Vec<u8>>),
    /// A staple, for the file and for the next worker. The master does not parse it.
    Staple(StapleId, Vec<u8>),
    /// The configuration of this reload is in effect.
    Applied(u64),
    /// The configuration of this reload is not used, and why.
    Refused(u64, String),
    /// No more connections wait at an address that this reload has removed.
    Drained(u64),
    /// The sessions of datagrams at addresses that this reload has removed have ended.
    Left(u64),
    /// A record is to be made or removed by the program of an issuer.
    DnsCommand(DnsCommandRequest),
}

/// What a worker asks the master to run: `dns_command` of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DnsCommandRequest {
    /// The worker's number for it.
    pub(crate) id: u64,
    /// Whether the record is added, else removed.
    pub(crate) is_added: bool,
    /// The name of the issuer.
    pub(crate) issuer: String,
    /// `_acme-challenge.` and the name that is verified.
    pub(crate) name: String,
    /// Where the aliases of this name lead, or the name itself.
    pub(crate) record_name: String,
    /// The text of the record.
    pub(crate) value: String,
}

const READY: u8 = b'Y';
const TICKET_STATE: u8 = b'S';
const STAPLE: u8 = b'O';
const APPLIED: u8 = b'A';
const REFUSED: u8 = b'N';
const DRAINED: u8 = b'D';
const LEFT: u8 = b'L';
const DNS_COMMAND: u8 = b'C';

/// Longest texts of a [`DnsCommandRequest`], all together.
const MAX_REQUEST_BYTES: usize = 1_000;

/// Longest reason for a refusal, in bytes; the rest is cut off.
const MAX_REASON_BYTES: usize = 2_000;

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

/// Gives the master a staple to keep.
///
/// # Errors
/// As [`send_ticket_state`].
pub(crate) fn send_staple(link: BorrowedFd<'_>, id: StapleId, response: &[u8]) -> io::Result<()> {
    let data = [&[STAPLE][..], &id.0, response].concat();
    socket::send_fds(link, &data, &[])
}

/// Sends any other report.
///
/// # Errors
/// As [`send_ticket_state`].
pub(crate) fn send_report(link: BorrowedFd<'_>, report: &Report) -> io::Result<()> {
    let (tag, generation, text) = match report {
        Report::Ready => return socket::send_fds(link, &[READY], &[]),
        Report::TicketState(state) => return send_ticket_state(link, state),
        Report::Staple(id, response) => return send_staple(link, *id, response),
        Report::DnsCommand(request) => return send_dns_command(link, request),
        Report::Applied(generation) => (APPLIED, generation, ""),
        Report::Drained(generation) => (DRAINED, generation, ""),
        Report::Left(generation) => (LEFT, generation, ""),
        Report::Refused(generation, why) => (REFUSED, generation, why.as_str()),
    };
    let mut data = vec![tag, VERSION];
    data.extend(generation.to_le_bytes());
    data.extend(text.bytes().take(MAX_REASON_BYTES));
    socket::send_fds(link, &data, &[])
}

fn send_dns_command(link: BorrowedFd<'_>, request: &DnsCommandRequest) -> io::Result<()> {
    let mut data = vec![DNS_COMMAND, VERSION];
    data.extend(request.id.to_le_bytes());
    data.push(request.is_added.into());
    let (name, record_name) = (&request.name, &request.record_name);
    let texts = [&request.issuer, name, record_name, &request.value];
    data.extend(texts.map(String::as_str).join("\0").as_bytes());
    socket::send_fds(link, &data, &[])
}

/// The worker's next report; `None` when the worker is gone.
///
/// # Errors
/// `WouldBlock` when there is none; `InvalidData` for anything a worker does not send.
pub(crate) fn receive_report(link: &impl AsFd) -> io::Result<Option<Report>> {
    let mut data = Zeroizing::new(vec![0; 1 + MAX_STATE_BYTES]);
    let received = socket::receive_fds(link.as_fd(), &mut data)?;
    data.truncate(received.len);
    if data.is_empty() {
        return Ok(None);
    }
    let has_fds = !received.fds.is_empty();
    socket::discard_fds(received.fds);
    let report = (!has_fds).then(|| understand_report(&data));
    report
        .flatten()
        .map(Some)
        .ok_or_else(|| nonsense("the worker process"))
}

fn understand_report(data: &[u8]) -> Option<Report> {
    match data {
        [READY] => return Some(Report::Ready),
        [TICKET_STATE, state @ ..] => {
            return Some(Report::TicketState(Zeroizing::new(state.to_vec())));
        }
        [STAPLE, staple @ ..] => {
            let (id, response) = staple.split_first_chunk()?;
            return Some(Report::Staple(StapleId(*id), response.to_vec()));
        }
        _ => {}
    }
    let [tag, VERSION, rest @ ..] = data else {
        return None;
    };
    let (generation, rest) = rest.split_first_chunk()?;
    let generation = u64::from_le_bytes(*generation);
    match *tag {
        APPLIED if rest.is_empty() => Some(Report::Applied(generation)),
        DRAINED if rest.is_empty() => Some(Report::Drained(generation)),
        LEFT if rest.is_empty() => Some(Report::Left(generation)),
        DNS_COMMAND if rest.len() <= MAX_REQUEST_BYTES => {
            let (is_added, texts) = match rest {
                [0, texts @ ..] => (false, texts),
                [1, texts @ ..] => (true, texts),
                _ => return None,
            };
            let mut texts = std::str::from_utf8(texts).ok()?.split('\0');
            let mut next = || texts.next().map(str::to_owned);
            let request = DnsCommandRequest {
                id: generation,
                is_added,
                issuer: next()?,
                name: next()?,
                record_name: next()?,
                value: next()?,
            };
            next().is_none().then_some(Report::DnsCommand(request))
        }
        // It goes into the log of a privileged process, so nothing in it may move a terminal.
        REFUSED if rest.len() <= MAX_REASON_BYTES => {
            let text = String::from_utf8_lossy(rest);
            let text = text.chars().map(|c| if c.is_control() { ' ' } else { c });
            Some(Report::Refused(generation, text.collect()))
        }
        _ => None,
    }
}

fn nonsense(who: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("unknown message from {who}"),
    )
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
        send_dns_command_done(master.as_fd(), 7, Ok(())).expect("sent");
        let long = "x".repeat(10_000);
        send_dns_command_done(master.as_fd(), 8, Err(&long)).expect("sent");
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
        let done = receive(&worker).expect("received");
        assert!(matches!(
            done,
            Some(Message::DnsCommandDone {
                id: 7,
                result: Ok(())
            })
        ));
        let Ok(Some(Message::DnsCommandDone { id: 8, result })) = receive(&worker) else {
            panic!("not the failure");
        };
        assert_eq!(result.expect_err("it failed").len(), MAX_FAILURE_BYTES);
        assert!(matches!(receive(&worker), Ok(None)), "the master is gone");
    }

    #[test]
    fn nonsense_is_an_error() {
        let (master, worker) = socket::seqpacket_pair().expect("a pair");
        for data in [
            &b"X"[..],
            b"QQ",
            b"R\x01\x00",
            b"B\x01",
            b"B\x02\0\0\0\0\0\0\0\0",
            b"B\x01\0\0\0\0\0\0\0\0",
            b"L\x01\0\0\0\0\0\0\0\0\x01\0\0\0",
            b"A\x01\0\0\0\0\0\0\0\0",
            b"A\x01\0\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0",
        ] {
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

    #[test]
    fn a_configuration_arrives_in_parts_with_all_its_descriptors() {
        let (master, worker) = socket::seqpacket_pair().expect("a pair");
        let null = File::open("/dev/null").expect("there");
        let logs = 3 * FDS_PER_MESSAGE as u32 / 2;
        let configuration = NewConfiguration {
            generation: 7,
            memory: null.as_fd(),
            logs: (0..logs).map(|number| (number, null.as_fd())).collect(),
            sockets: vec![(9, null.as_fd()), (9, null.as_fd())],
        };
        configuration.send(master.as_fd()).expect("sent");
        let next = || receive(&worker).expect("received").expect("a message");
        assert!(matches!(next(), Message::Bundle { generation: 7, .. }));
        let mut found = Vec::new();
        while (found.len() as u32) < logs {
            let Message::Logs {
                generation: 7,
                files,
            } = next()
            else {
                panic!("not the logs");
            };
            found.extend(files.into_iter().map(|(number, _)| number));
        }
        assert!(found.into_iter().map(u32::from).eq(0..logs));
        let Message::Sockets {
            generation: 7,
            sockets,
        } = next()
        else {
            panic!("not the sockets");
        };
        assert!(sockets.iter().all(|(number, _)| *number == 9) && sockets.len() == 2);
        let Message::Apply {
            generation: 7,
            logs: sent,
            sockets: 2,
        } = next()
        else {
            panic!("not the end");
        };
        assert_eq!(sent, logs);
    }

    #[test]
    fn reports_of_reloads_arrive_and_damaged_ones_are_errors() {
        let (master, worker) = socket::seqpacket_pair().expect("a pair");
        let long = "x".repeat(2 * MAX_REASON_BYTES);
        for report in [
            Report::Ready,
            Report::Applied(1),
            Report::Drained(u64::MAX),
            Report::Left(8),
            Report::Refused(3, "no\nwith \x1b[31m control".into()),
            Report::Refused(3, long),
            Report::DnsCommand(DnsCommandRequest {
                id: 9,
                is_added: true,
                issuer: "i".into(),
                name: "_acme-challenge.a.test".into(),
                record_name: "a.acme.test".into(),
                value: "v".into(),
            }),
        ] {
            send_report(worker.as_fd(), &report).expect("sent");
            let received = receive_report(&master).expect("received").expect("one");
            match (&report, &received) {
                (Report::Refused(3, sent), Report::Refused(3, got)) => {
                    assert_eq!(got.len(), sent.len().min(MAX_REASON_BYTES));
                    assert!(!got.contains(char::is_control));
                }
                _ => assert_eq!(format!("{received:?}"), format!("{report:?}")),
            }
        }
        for data in [
            &b"YY"[..],
            b"A",
            b"A\x01\0",
            b"A\x02\0\0\0\0\0\0\0\0",
            b"D\x01\0\0\0\0\0\0\0\0x",
            b"C\x01\0\0\0\0\0\0\0\0",
            b"C\x01\0\0\0\0\0\0\0\0\x02i\0a\0b\0c",
            b"C\x01\0\0\0\0\0\0\0\0\x01i\0a\0b",
            b"C\x01\0\0\0\0\0\0\0\0\x01i\0a\0b\0c\0d",
            b"C\x01\0\0\0\0\0\0\0\0\x01i\0a\0b\0\xff",
            &[&b"C\x01\0\0\0\0\0\0\0\0\x01i\0a\0b\0"[..], &[b'c'; 1_000]].concat(),
        ] {
            socket::send_fds(worker.as_fd(), data, &[]).expect("sent");
            assert!(receive_report(&master).is_err(), "{data:?}");
        }
        let null = File::open("/dev/null").expect("there");
        socket::send_fds(worker.as_fd(), b"Y", &[null.as_fd()]).expect("sent");
        assert!(receive_report(&master).is_err(), "with a descriptor");
    }

    #[test]
    fn a_line_that_refuses_descriptors_carries_the_rest() {
        let (master, worker) = socket::seqpacket_pair().expect("a pair");
        if socket::refuse_fds(master.as_fd()).is_err() {
            return sealane_needs::leave_out("this kernel has no SO_PASSRIGHTS");
        }
        let null = File::open("/dev/null").expect("there");
        assert!(socket::send_fds(worker.as_fd(), b"Y", &[null.as_fd()]).is_err());
        send_report(worker.as_fd(), &Report::Ready).expect("sent");
        assert!(matches!(receive_report(&master), Ok(Some(Report::Ready))));
        send_logs(master.as_fd(), &[(3, null.as_fd())]).expect("the other way");
        assert!(matches!(receive(&worker), Ok(Some(Message::Reopen(_)))));
    }
}
