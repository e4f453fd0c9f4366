//! Listening sockets with every option of nginx's `listen` directive.

use crate::CheckReturn;
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BindAddress {
    /// IPv4 or IPv6 address and port.
    Inet(SocketAddr),
    /// The same for datagrams (UDP).
    Datagram(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

/// Options that are set before and together with listen(2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindOptions {
    /// Length of the accept queue.
    pub backlog: i32,
    /// `SO_RCVBUF` in bytes.
    pub rcvbuf_bytes: Option<u32>,
    /// `SO_SNDBUF` in bytes.
    pub sndbuf_bytes: Option<u32>,
    /// `TCP_DEFER_ACCEPT`: accept only when the first data has arrived.
    pub deferred: bool,
    /// `IPV6_V6ONLY`; only for IPv6 addresses.
    pub ipv6only: bool,
    /// `SO_KEEPALIVE` and its times.
    pub keepalive: Option<Keepalive>,
    /// `TCP_FASTOPEN`: length of its queue.
    pub fastopen: Option<u32>,
    /// Multipath TCP (RFC 8684); clients that do not offer it get ordinary connections. It cannot
    /// be changed later.
    pub multipath: bool,
}

/// `so_keepalive=on|off|[idle]:[interval]:[count]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// `SO_KEEPALIVE`.
    pub on: bool,
    /// `TCP_KEEPIDLE`.
    pub idle: Option<Duration>,
    /// `TCP_KEEPINTVL`.
    pub interval: Option<Duration>,
    /// `TCP_KEEPCNT`.
    pub count: Option<u32>,
}

/// Binds `count` sockets to one address, without listening yet. If there are several, they share
/// the address by `SO_REUSEPORT`: the kernel distributes connections among them once all listen,
/// and datagrams, always those of a sender to the same one, at once.
///
/// `SO_REUSEPORT` alone would let a second server of the same user join the group unnoticed. So an
/// ordinary socket is bound first, which fails with `EADDRINUSE` if anyone already listens on the
/// address, and is closed once the group is complete. (Removing `SO_REUSEPORT` from the group
/// instead would stop the kernel from distributing connections.) With datagrams no other socket
/// could be bound beside it, so it is closed before.
///
/// # Errors
/// What bind(2) says, and what setting an option says.
pub fn bind_group(
    address: &BindAddress,
    options: &BindOptions,
    count: usize,
) -> io::Result<Vec<OwnedFd>> {
    let alone = bind_one(address, options, false)?;
    let _guard = match address {
        BindAddress::Inet(_) if count > 1 => Some(alone),
        BindAddress::Datagram(_) if count > 1 => {
            drop(alone);
            None
        }
        _ => return Ok(vec![alone]),
    };
    (0..count)
        .map(|_| bind_one(address, options, true))
        .collect()
}

/// Binds `count` more sockets beside one that already listens on `address`, without listening on
/// them yet. From then on all of them share the address by `SO_REUSEPORT`.
///
/// # Errors
/// As [`bind_group`].
pub fn bind_beside(
    first: BorrowedFd<'_>,
    address: &BindAddress,
    options: &BindOptions,
    count: usize,
) -> io::Result<Vec<OwnedFd>> {
    socket2::SockRef::from(&first).set_reuse_port(true)?;
    (0..count)
        .map(|_| bind_one(address, options, true))
        .collect()
}

fn bind_one(address: &BindAddress, options: &BindOptions, shared: bool) -> io::Result<OwnedFd> {
    let mut kind = Type::STREAM;
    let (domain, protocol, name) = match address {
        BindAddress::Inet(inet) => (
            Domain::for_address(*inet),
            Some(match options.multipath {
                true => Protocol::MPTCP,
                false => Protocol::TCP,
            }),
            SockAddr::from(*inet),
        ),
        BindAddress::Datagram(inet) => {
            kind = Type::DGRAM;
            let name = SockAddr::from(*inet);
            (Domain::for_address(*inet), Some(Protocol::UDP), name)
        }
        BindAddress::Unix(path) => (Domain::UNIX, None, unix_name(path)?),
    };
    let socket = Socket::new(domain, kind.cloexec().nonblocking(), protocol)?;
    // With datagrams it would let another process take the address.
    if kind == Type::STREAM {
        socket.set_reuse_address(true)?;
    }
    if let BindAddress::Datagram(inet) = address
        && inet.ip().is_unspecified()
    {
        // What arrives before it is set does not say where it was sent to.
        super::report_local_address(socket.as_fd(), inet.is_ipv4())?;
    }
    if let BindAddress::Inet(inet) | BindAddress::Datagram(inet) = address {
        if inet.is_ipv6() {
            socket.set_only_v6(options.ipv6only)?;
        }
        if shared {
            socket.set_reuse_port(true)?;
        }
    }
    socket.bind(&name)?;
    Ok(socket.into())
}

fn unix_name(path: &Path) -> io::Result<SockAddr> {
    SockAddr::unix(path)
}

/// Reverts options of a listening socket that `before` set and `after` does not, as far as
/// possible: buffer sizes stay. [`start_listening`] does the rest.
///
/// Returns the options that could not be set, in the same form.
pub fn take_back(
    socket: BorrowedFd<'_>,
    before: &BindOptions,
    after: &BindOptions,
) -> Vec<(&'static str, io::Error)> {
    let mut failed = Vec::new();
    for (option, name, gone) in [
        (
            "TCP_DEFER_ACCEPT",
            libc::TCP_DEFER_ACCEPT,
            before.deferred && !after.deferred,
        ),
        (
            "TCP_FASTOPEN",
            libc::TCP_FASTOPEN,
            before.fastopen.is_some() && after.fastopen.is_none(),
        ),
    ] {
        if gone && let Err(error) = set_tcp_option(socket, name, 0) {
            failed.push((option, error));
        }
    }
    if before.keepalive.is_some_and(|keepalive| keepalive.on)
        && after.keepalive.is_none()
        && let Err(error) = socket2::SockRef::from(&socket).set_keepalive(false)
    {
        failed.push(("SO_KEEPALIVE", error));
    }
    failed
}

/// Sets the options that connections inherit and starts to listen; datagrams come without. Calling
/// it again changes the backlog and the options of a listening socket.
///
/// Returns the options that could not be set although the address works, for the caller to log, as
/// (option, error) pairs. nginx continues in these cases too.
///
/// # Errors
/// What listen(2) says; `EADDRINUSE` is possible here as well.
pub fn start_listening(
    socket: BorrowedFd<'_>,
    address: &BindAddress,
    options: &BindOptions,
) -> io::Result<Vec<(&'static str, io::Error)>> {
    let sock = socket2::SockRef::from(&socket);
    let mut failed = Vec::new();
    let mut note = |option: &'static str, result: io::Result<()>| {
        if let Err(error) = result {
            failed.push((option, error));
        }
    };
    if let Some(bytes) = options.rcvbuf_bytes {
        note("SO_RCVBUF", sock.set_recv_buffer_size(bytes as usize));
    }
    if let Some(bytes) = options.sndbuf_bytes {
        note("SO_SNDBUF", sock.set_send_buffer_size(bytes as usize));
    }
    let inet = matches!(address, BindAddress::Inet(_));
    if let Some(keepalive) = &options.keepalive {
        note("SO_KEEPALIVE", sock.set_keepalive(keepalive.on));
        if keepalive.on && inet {
            note(
                "TCP_KEEPIDLE",
                sock.set_tcp_keepalive(&keepalive_times(keepalive)),
            );
        }
    }
    if inet {
        // Accepted sockets inherit it, which saves a call per connection. The data plane sends
        // whole responses, so waiting for more data gains nothing.
        note("TCP_NODELAY", sock.set_tcp_nodelay(true));
        if let Some(queue) = options.fastopen {
            note(
                "TCP_FASTOPEN",
                set_tcp_option(socket, libc::TCP_FASTOPEN, queue as i32),
            );
        }
        if options.deferred {
            note(
                "TCP_DEFER_ACCEPT",
                set_tcp_option(socket, libc::TCP_DEFER_ACCEPT, 1),
            );
        }
    }
    if !matches!(address, BindAddress::Datagram(_)) {
        sock.listen(options.backlog)?;
    }
    Ok(failed)
}

fn keepalive_times(keepalive: &Keepalive) -> TcpKeepalive {
    let mut times = TcpKeepalive::new();
    if let Some(idle) = keepalive.idle {
        times = times.with_time(idle);
    }
    if let Some(interval) = keepalive.interval {
        times = times.with_interval(interval);
    }
    if let Some(count) = keepalive.count {
        times = times.with_retries(count);
    }
    times
}

fn set_tcp_option(socket: BorrowedFd<'_>, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: `value` is an int, as its length says, and outlives the call.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    }
    .check()?;
    Ok(())
}

/// Whether a file is a Unix socket that no one listens on any more, left behind by a killed
/// process. The file is held open (`O_PATH`), so that exactly this socket is probed; that requires
/// procfs.
///
/// # Errors
/// When it cannot be told, for example for lack of permission.
pub fn is_stale_unix_socket(file: BorrowedFd<'_>) -> io::Result<bool> {
    let facts = std::fs::File::from(file.try_clone_to_owned()?).metadata()?;
    // Connecting to an ordinary file is refused too, so check that it is a socket. A socket with
    // other names has been hard-linked by someone else and belongs to them.
    if !facts.file_type().is_socket() || facts.nlink() > 1 {
        return Ok(false);
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM.cloexec().nonblocking(), None)?;
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    match socket.connect(&unix_name(Path::new(&name))?) {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        // There is a listener, but its queue is full.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// The address a socket is bound to; `None` for a Unix socket.
///
/// # Errors
///
/// The errno of `getsockname`.
pub fn local_address(socket: impl AsFd) -> io::Result<Option<SocketAddr>> {
    Ok(socket2::SockRef::from(&socket).local_addr()?.as_socket())
}
