//! Sends lines of an error log to systemd's journal with their fields, in its native protocol
//! (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>), where stderr leads to the journal anyway.
//!
//! A record is one datagram: lines and fields are so short that it always fits into one. When the
//! journal does not take it, the line is written to stderr as it would be without the journal.

use super::error::ErrorLine;
use super::frames;
use super::sink::write_to_stderr;
use sealane_sys::file;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where journald takes records.
const SOCKET: &str = "/run/systemd/journal/socket";

/// systemd's variable: device and inode of the stream to the journal that it has started us with.
const STREAM: &str = "JOURNAL_STREAM";

/// What the journal calls us.
const IDENTIFIER: &[u8] = b"sealane";

/// The socket that leads to the journal.
///
/// The master connects it, with its own rights; the worker inherits it or receives it.
#[derive(Debug)]
pub(super) struct Journald {
    socket: Mutex<Socket>,
}

impl Journald {
    pub(super) fn new(socket: OwnedFd) -> Journald {
        Journald {
            socket: Mutex::new(socket.into()),
        }
    }

    /// A socket connected to the journal, if stderr leads there.
    pub(super) fn connect() -> Option<OwnedFd> {
        let stream = std::env::var(STREAM).ok()?;
        if !leads_to(&stream, io::stderr().as_fd()) {
            return None; // it has been redirected since
        }
        connect_to(Path::new(SOCKET)).ok()
    }

    /// A copy of the socket.
    pub(super) fn socket(&self) -> io::Result<OwnedFd> {
        self.lock().try_clone().map(OwnedFd::from)
    }

    pub(super) fn replace(&self, socket: OwnedFd) {
        *self.lock() = socket.into();
    }

    /// Sends the first of these frames; returns the bytes it has.
    ///
    /// # Errors
    /// `WouldBlock` when neither the journal nor stderr keeps up; others when neither takes it.
    pub(super) fn send(&self, frames: &[u8]) -> io::Result<usize> {
        let Some(([record, line], length)) = frames::first::<2>(frames) else {
            return Ok(frames.len()); // nothing that was ever pushed
        };
        match self.lock().send(record) {
            Ok(_) => return Ok(length),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            Err(_) => {}
        }
        // A line is no longer than what a pipe takes as a whole.
        write_to_stderr(line).map(|_| length)
    }

    /// A panic cannot leave it half changed.
    fn lock(&self) -> MutexGuard<'_, Socket> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a descriptor is the stream that `DEVICE:INODE` describes.
fn leads_to(stream: &str, descriptor: std::os::fd::BorrowedFd<'_>) -> bool {
    let Some((device, inode)) = stream.split_once(':') else {
        return false;
    };
    let (Ok(device), Ok(inode)) = (device.parse::<u64>(), inode.parse::<u64>()) else {
        return false;
    };
    file::stat_fd(descriptor).is_ok_and(|stat| (stat.dev, stat.inode) == (device, inode))
}

/// A socket that never blocks.
fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::UNIX, Type::DGRAM.nonblocking().cloexec(), None)?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(socket.into())
}

/// Appends a line of an error log as a frame: its record, and the line itself.
pub(super) fn push(line: &ErrorLine, out: &mut Vec<u8>) {
    let mut record = Vec::with_capacity(line.text.len() + line.fields.len() + 96);
    push_field(
        "PRIORITY",
        line.severity().to_string().as_bytes(),
        &mut record,
    );
    push_field("SYSLOG_IDENTIFIER", IDENTIFIER, &mut record);
    push_field("TID", line.thread.to_string().as_bytes(), &mut record);
    if let Some(connection) = line.connection {
        let number = connection.to_string();
        push_field("SEALANE_CONNECTION", number.as_bytes(), &mut record);
    }
    record.extend_from_slice(&line.fields);
    push_field("MESSAGE", line.message(), &mut record);
    frames::push(out, [&record], |out| out.extend_from_slice(&line.text));
}

/// Appends a field. One with a line break has its length before it, so that no value can be read as
/// further fields.
pub(super) fn push_field(name: &str, value: &[u8], record: &mut Vec<u8>) {
    record.extend_from_slice(name.as_bytes());
    if memchr::memchr(b'\n', value).is_some() {
        record.push(b'\n');
        // Writing to a vector cannot fail.
        let _ = record.write_all(&(value.len() as u64).to_le_bytes());
    } else {
        record.push(b'=');
    }
    record.extend_from_slice(value);
    record.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogLevel;
    use crate::error::format_line;
    use std::collections::BTreeMap;
    use std::os::unix::net::UnixDatagram;

    /// Reads a record as the protocol says.
    fn read(mut record: &[u8]) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        while !record.is_empty() {
            let at = record
                .iter()
                .position(|byte| b"=\n".contains(byte))
                .unwrap();
            let name = String::from_utf8(record[..at].to_vec()).unwrap();
            let (value, rest) = match record[at] {
                b'=' => {
                    let end = record.iter().position(|byte| *byte == b'\n').unwrap();
                    (&record[at + 1..end], &record[end + 1..])
                }
                _ => {
                    let (length, rest) = record[at + 1..].split_at(8);
                    let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
                    assert_eq!(rest[length], b'\n');
                    (&rest[..length], &rest[length + 1..])
                }
            };
            let value = String::from_utf8(value.to_vec()).unwrap();
            assert!(fields.insert(name, value).is_none());
            record = rest;
        }
        fields
    }

    #[test]
    fn values_cannot_become_fields() {
        let mut record = Vec::new();
        push_field("A", b"one\nPRIORITY=0\n", &mut record);
        push_field("B", b"two", &mut record);
        push_field("C", b"", &mut record);
        let fields = read(&record);
        assert_eq!(fields["A"], "one\nPRIORITY=0\n");
        assert_eq!((&*fields["B"], &*fields["C"]), ("two", ""));
        assert_eq!(fields.len(), 3);
    }

    #[test]
    fn a_line_arrives_with_its_fields() {
        let directory = std::env::temp_dir();
        let path = directory.join(format!("sealane-journald-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let journal = UnixDatagram::bind(&path).unwrap();
        let journald = Journald::new(connect_to(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        let mut line = format_line(
            LogLevel::Error,
            Some(7),
            format_args!("no \"a\nMESSAGE=b\""),
        );
        line.push_field("SEALANE_CLIENT", &"127.0.0.1");
        line.push_field("SEALANE_REQUEST", &"GET /\nPRIORITY=0");
        line.push_field("SEALANE_HOST", &"");
        let mut frames = Vec::new();
        push(&line, &mut frames);
        push(
            &format_line(LogLevel::Debug, None, format_args!("more")),
            &mut frames,
        );
        let length = journald.send(&frames).unwrap();
        journald.send(&frames[length..]).unwrap();
        let mut buffer = [0; 8192];
        let count = journal.recv(&mut buffer).unwrap();
        let fields = read(&buffer[..count]);
        let thread = sealane_sys::process::thread_id().to_string();
        let expected = [
            ("MESSAGE", "no \"a\\x0AMESSAGE=b\""),
            ("PRIORITY", "3"),
            ("SEALANE_CLIENT", "127.0.0.1"),
            ("SEALANE_CONNECTION", "7"),
            ("SEALANE_REQUEST", "GET /\\x0APRIORITY=0"),
            ("SYSLOG_IDENTIFIER", "sealane"),
            ("TID", &thread),
        ];
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        assert_eq!(fields, expected);
        let count = journal.recv(&mut buffer).unwrap();
        let fields = read(&buffer[..count]);
        assert_eq!((&*fields["MESSAGE"], &*fields["PRIORITY"]), ("more", "7"));
    }

    #[test]
    fn the_stream_is_the_one_that_systemd_names() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let stat = file::stat_fd(file.as_fd()).unwrap();
        let stream = format!("{}:{}", stat.dev, stat.inode);
        assert!(leads_to(&stream, file.as_fd()));
        for other in [
            "",
            ":",
            "1",
            "x:y",
            &format!("{stream}0"),
            &format!("{stream}:"),
        ] {
            assert!(!leads_to(other, file.as_fd()), "{other}");
        }
    }

    #[test]
    fn the_longest_record_fits_into_a_datagram() {
        let long = "x".repeat(1 << 20);
        let mut line = format_line(LogLevel::Error, Some(7), format_args!("{long}"));
        for name in ["A", "B", "C", "D", "E", "F"] {
            line.push_field(name, &long);
        }
        let mut frames = Vec::new();
        push(&line, &mut frames);
        let (to, from) = UnixDatagram::pair().unwrap();
        let journald = Journald::new(to.into());
        assert_eq!(journald.send(&frames).unwrap(), frames.len());
        let mut buffer = vec![0; 1 << 20];
        assert!(from.recv(&mut buffer).unwrap() > 6 * 4000);
    }
}
