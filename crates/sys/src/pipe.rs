//! Pipes through which bytes move from socket to socket without a copy (splice(2)).

use crate::{CheckReturn, retry};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Lets a pipe hold at least this many bytes (`F_SETPIPE_SZ`). Returns what it can hold then.
///
/// # Errors
///
/// `EPERM` above `fs.pipe-max-size`, or when the user has too many large pipes
/// (`fs.pipe-user-pages-soft`).
pub fn set_capacity(pipe: &PipeWriter, bytes: u32) -> io::Result<u32> {
    // SAFETY: the call takes a number; the descriptor is borrowed, hence open.
    let set = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) }.check()?;
    Ok(set.unsigned_abs())
}

/// How many bytes a pipe can hold (`F_GETPIPE_SZ`).
///
/// # Errors
///
/// The errno of `fcntl`.
pub fn capacity(pipe: &PipeWriter) -> io::Result<u32> {
    // SAFETY: as above; the call takes no argument.
    let bytes = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_GETPIPE_SZ) }.check()?;
    Ok(bytes.unsigned_abs())
}

/// Moves up to `max` received bytes of a non-blocking socket into a pipe; 0 is the end of the
/// stream. May move fewer than there are.
///
/// # Errors
///
/// `WouldBlock` when nothing has arrived, but also when the pipe is full or urgent data is next;
/// `EINVAL` where the socket cannot do this; the errors of receiving.
pub fn fill(socket: BorrowedFd<'_>, pipe: &PipeWriter, max: usize) -> io::Result<usize> {
    splice(socket.as_raw_fd(), pipe.as_raw_fd(), max)
}

/// Moves up to `max` bytes of a pipe into a non-blocking socket.
///
/// # Errors
///
/// `WouldBlock` when there is no room, but also when the pipe is empty; `EINVAL` where the socket
/// cannot do this; the errors of sending. A peer that is gone raises SIGPIPE, which Rust programs
/// ignore.
pub fn drain(pipe: &PipeReader, socket: BorrowedFd<'_>, max: usize) -> io::Result<usize> {
    splice(pipe.as_raw_fd(), socket.as_raw_fd(), max)
}

fn splice(from: i32, to: i32, max: usize) -> io::Result<usize> {
    // SAFETY: the callers have borrowed both descriptors; no offsets are given.
    let moved = retry(|| unsafe {
        libc::splice(
            from,
            std::ptr::null_mut(),
            to,
            std::ptr::null_mut(),
            max,
            libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK,
        )
    })?;
    Ok(moved as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn tcp_pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn bytes_pass_from_socket_to_socket() {
        let (mut client, from) = tcp_pair();
        let (to, mut server) = UnixStream::pair().unwrap();
        from.set_nonblocking(true).unwrap();
        to.set_nonblocking(true).unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let nothing = fill(from.as_fd(), &writer, 100).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        client.write_all(b"hello").unwrap();
        let mut moved = 0;
        while moved < 5 {
            match fill(from.as_fd(), &writer, 100) {
                Ok(count) => moved += count,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert_eq!(drain(&reader, to.as_fd(), 3).unwrap(), 3);
        assert_eq!(drain(&reader, to.as_fd(), 100).unwrap(), 2);
        let empty = drain(&reader, to.as_fd(), 100).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        let mut received = [0; 5];
        server.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"hello");
        drop(client);
        loop {
            match fill(from.as_fd(), &writer, 100) {
                Ok(count) => break assert_eq!(count, 0, "the end"),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    #[test]
    fn a_peer_that_is_gone_is_an_error() {
        let (to, server) = UnixStream::pair().unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        drop(server);
        writer.write_all(b"hello").unwrap();
        let gone = drain(&reader, to.as_fd(), 5).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_pipe_grows_as_far_as_it_may() {
        let (_reader, writer) = io::pipe().unwrap();
        let before = capacity(&writer).unwrap();
        assert!(before >= 4096);
        assert!(set_capacity(&writer, 5000).unwrap() >= 5000);
        assert!(capacity(&writer).unwrap() >= 5000);
    }
}
