//! Sockets that the parent process has opened for this one.

use super::BindAddress;
use crate::CheckReturn;
use crate::process::Pid;
use socket2::{Domain, SockRef, Type};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The type of an inherited descriptor.
#[derive(Debug)]
pub enum Inherited {
    /// A stream socket that listens, or a UDP socket with an address; non-blocking and closed on
    /// exec from now on.
    Listening {
        /// The socket.
        socket: OwnedFd,
        /// The address it has.
        address: BindAddress,
    },
    /// Anything else; it is closed.
    Other,
}

/// Takes the inherited descriptor with this number.
///
/// # Errors
/// `EBADF` when it is not open, `PermissionDenied` when this process has opened it by itself or
/// taken it before: everything that it opens is closed on exec, and what came through an exec
/// cannot be. Standard input, output and error are not to be had either.
pub fn take_inherited(fd: i32) -> io::Result<Inherited> {
    let socket = take(fd)?;
    match listening_address(&socket) {
        Ok(Some(address)) => Ok(Inherited::Listening { socket, address }),
        Ok(None) => Ok(Inherited::Other),
        Err(error) if error.raw_os_error() == Some(libc::ENOTSOCK) => Ok(Inherited::Other),
        Err(error) => Err(error),
    }
}

/// Takes an inherited end of a pair made by [`super::seqpacket_pair`], and returns which process
/// made the pair.
///
/// # Errors
/// As [`take_inherited`]; `InvalidInput` when it is something else.
pub fn take_inherited_line(fd: i32) -> io::Result<(OwnedFd, Pid)> {
    let line = take(fd)?;
    let socket = SockRef::from(&line);
    if socket.domain()? != Domain::UNIX || socket.r#type()? != Type::from(libc::SOCK_SEQPACKET) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    socket.set_nonblocking(true)?;
    let maker = peer_pid(&line)?;
    Ok((line, maker))
}

/// Another descriptor of the same socket, which an executed program inherits.
///
/// # Errors
///
/// When there are no descriptors.
pub fn inheritable(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is borrowed, hence open, and no memory is involved.
    let fd = unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_DUPFD, FIRST) }.check()?;
    // SAFETY: the kernel just returned this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// After standard input, output and error.
const FIRST: i32 = 3;

/// The process that made this pair of Unix sockets, or that listens at the other end.
fn peer_pid(socket: &OwnedFd) -> io::Result<Pid> {
    let mut peer = MaybeUninit::<libc::ucred>::zeroed();
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` has room for the answer and `len` says so; the descriptor is owned.
    unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            peer.as_mut_ptr().cast(),
            &raw mut len,
        )
    }
    .check()?;
    // SAFETY: plain old data, zeroed and then filled.
    Ok(unsafe { peer.assume_init() }.pid)
}

fn take(fd: i32) -> io::Result<OwnedFd> {
    if fd < FIRST {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // SAFETY: no memory is involved; a number that is not open is an error.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) }.check()?;
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // SAFETY: it is open, and as just seen nothing in this process owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the descriptor is owned, hence open, and no memory is involved.
    unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) }.check()?;
    Ok(socket)
}

/// The address a stream socket listens on, or of a UDP socket; `None` if it has none. A socket that
/// has one is non-blocking from now on.
///
/// # Errors
///
/// `ENOTSOCK` for anything else.
pub fn listening_address(socket: &OwnedFd) -> io::Result<Option<BindAddress>> {
    let socket = SockRef::from(socket);
    if socket.r#type()? == Type::DGRAM {
        let address = socket.local_addr()?.as_socket();
        let Some(address) = address.filter(|address| address.port() != 0) else {
            return Ok(None);
        };
        socket.set_nonblocking(true)?;
        return Ok(Some(BindAddress::Datagram(address)));
    }
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
    use std::os::fd::{AsFd, IntoRawFd};

    /// A descriptor prepared as if inherited through an exec.
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
    fn a_socket_for_datagrams_keeps_its_address() {
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let wanted = BindAddress::Datagram(udp.local_addr().expect("bound"));
        let taken = take_inherited(pass_on(udp)).expect("it has an address");
        assert!(matches!(taken, Inherited::Listening { address, .. } if address == wanted));
    }

    #[test]
    fn what_does_not_listen_is_closed() {
        let (unbound, _other) = std::os::unix::net::UnixDatagram::pair().expect("a pair");
        let file = pass_on(std::fs::File::open("/dev/null").expect("there"));
        for fd in [pass_on(unbound), file] {
            assert!(matches!(take_inherited(fd), Ok(Inherited::Other)));
        }
        assert!(take_inherited(1 << 20).is_err(), "not open");
        assert!(take_inherited(2).is_err(), "it has an owner");
    }

    #[test]
    fn a_line_is_taken_and_nothing_else() {
        let (ours, theirs) = super::super::seqpacket_pair().expect("a pair");
        let others: [OwnedFd; 2] = [
            TcpListener::bind("127.0.0.1:0").expect("a port").into(),
            std::fs::File::open("/dev/null").expect("there").into(),
        ];
        for fd in others {
            assert!(take_inherited_line(pass_on(fd)).is_err());
        }
        let fd = inheritable(theirs.as_fd()).expect("room").into_raw_fd();
        let (line, maker) = take_inherited_line(fd).expect("a line");
        assert_eq!(maker, crate::process::pid());
        drop(theirs);
        super::super::send_fds(ours.as_fd(), b"x", &[]).expect("sent");
        let mut bytes = [0; 4];
        let received = super::super::receive_fds(line.as_fd(), &mut bytes).expect("received");
        assert_eq!(received.len, 1);
    }
}
