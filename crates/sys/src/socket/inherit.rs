//! Sockets that whoever started the process has opened for it.

use super::BindAddress;
use crate::CheckReturn;
use socket2::{SockRef, Type};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What a descriptor that came with the process is.
#[derive(Debug)]
pub enum Inherited {
    /// A stream socket that listens; non-blocking and closed on exec from now on.
    Listening {
        /// The socket.
        socket: OwnedFd,
        /// Where it listens.
        address: BindAddress,
    },
    /// Anything else; it is closed.
    Other,
}

/// Takes the descriptor with this number, which the process was started with.
///
/// # Errors
/// `EBADF` when it is not open, `PermissionDenied` when this process has opened it by itself or
/// taken it before: everything that it opens is closed on exec, and what came through an exec
/// cannot be.
pub fn take_inherited(fd: i32) -> io::Result<Inherited> {
    // SAFETY: no memory is involved; a number that is not open is an error.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) }.check()?;
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // SAFETY: it is open, and as just seen nothing in this process owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the descriptor is owned, hence open, and no memory is involved.
    unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) }.check()?;
    match listening_address(&socket) {
        Ok(Some(address)) => Ok(Inherited::Listening { socket, address }),
        Ok(None) => Ok(Inherited::Other),
        Err(error) if error.raw_os_error() == Some(libc::ENOTSOCK) => Ok(Inherited::Other),
        Err(error) => Err(error),
    }
}

/// Where a stream socket listens; `None` when it does not.
fn listening_address(socket: &OwnedFd) -> io::Result<Option<BindAddress>> {
    let socket = SockRef::from(socket);
    if socket.r#type()? != Type::STREAM || !socket.is_listener()? {
        return Ok(None);
    }
    socket.set_nonblocking(true)?;
    let address = socket.local_addr()?;
    let path = || address.as_pathname().map(|path| path.to_owned());
    Ok(address
        .as_socket()
        .map(BindAddress::Inet)
        .or_else(|| path().map(BindAddress::Unix)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::IntoRawFd;

    /// A descriptor as one that came through an exec.
    fn pass_on(owned: impl Into<OwnedFd>) -> i32 {
        let fd = owned.into().into_raw_fd();
        // SAFETY: the descriptor is open, and no memory is involved.
        unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
        fd
    }

    #[test]
    fn a_listening_socket_is_taken_once() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let wanted = BindAddress::Inet(listener.local_addr().expect("bound"));
        let fd = pass_on(listener);
        let taken = take_inherited(fd).expect("it listens");
        let Inherited::Listening { socket, address } = taken else {
            panic!("it listens");
        };
        assert_eq!(address, wanted);
        let again = take_inherited(fd).expect_err("it has an owner");
        assert_eq!(again.kind(), io::ErrorKind::PermissionDenied);
        drop(socket);
    }

    #[test]
    fn what_does_not_listen_is_closed() {
        let udp = pass_on(UdpSocket::bind("127.0.0.1:0").expect("a port"));
        let file = pass_on(std::fs::File::open("/dev/null").expect("there"));
        for fd in [udp, file] {
            assert!(matches!(take_inherited(fd), Ok(Inherited::Other)));
        }
        assert!(take_inherited(1 << 20).is_err(), "not open");
    }
}
