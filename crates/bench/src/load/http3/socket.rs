//! A client's socket for datagrams: many in one call, joined and cut by the kernel.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd,
};

use rustix::net::sockopt;
use sealane_quic::{Addresses, Codepoint};
use sealane_sys::socket::{
    BATCH_MESSAGES, Ecn, MessageToSend, ReceivedBatch, join_datagrams, report_ecn, send_datagrams,
};
use tokio::io::Interest;

use crate::Error;

/// `SO_RCVBUF`: a server that is faster than the client for a moment must not lose what it sends.
/// Without privileges the system's limit applies.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// A socket with one peer.
pub(super) struct Socket {
    socket: tokio::net::UdpSocket,
    pub(super) addresses: Addresses,
}

impl Socket {
    /// Opens one for the server at `remote`.
    pub(super) fn connect(remote: SocketAddr) -> Result<Self, Error> {
        let open = || {
            let any: SocketAddr = match remote.is_ipv4() {
                true => ([0, 0, 0, 0], 0).into(),
                false => ([0_u16; 8], 0).into(),
            };
            let socket = UdpSocket::bind(any)?;
            socket.connect(remote)?;
            socket.set_nonblocking(true)?;
            prepare_socket(&socket, remote.is_ipv4())?;
            let local = socket.local_addr()?;
            Ok(Self {
                socket: tokio::net::UdpSocket::from_std(socket)?,
                addresses: Addresses { local, remote },
            })
        };
        open().map_err(|source: io::Error| {
            Error::io(format!("open a socket for datagrams to {remote}"), source)
        })
    }

    /// Waits until something has come.
    pub(super) async fn readable(&self) -> Result<(), Error> {
        let ready = self.socket.readable().await;
        ready.map_err(|source| Error::io("wait for datagrams", source))
    }

    /// Receives what has come; false if nothing has.
    pub(super) fn receive(&self, batch: &mut ReceivedBatch) -> Result<bool, Error> {
        let received = self.socket.try_io(Interest::READABLE, || {
            batch.receive(self.socket.as_fd(), BATCH_MESSAGES)
        });
        match received {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(source) => Err(Error::io("receive datagrams", source)),
        }
    }

    /// Sends datagrams of `segment_bytes` each. What the system has no room for is lost, as it may
    /// be on the way.
    pub(super) fn send(
        &self,
        bytes: &[u8],
        segment_bytes: usize,
        mark: Codepoint,
    ) -> Result<(), Error> {
        let message = MessageToSend {
            bytes,
            segment_bytes,
            to: None,
            from: None,
            ecn: to_ecn(mark),
        };
        match send_datagrams(self.socket.as_fd(), &[message]) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                Err(Error::io("send datagrams", error))
            }
            _ => Ok(()),
        }
    }
}

/// Sets what sockets for datagrams of QUIC need.
pub(crate) fn prepare_socket(socket: &UdpSocket, is_ipv4: bool) -> io::Result<()> {
    if sockopt::set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER_BYTES).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BUFFER_BYTES)?;
    }
    join_datagrams(socket.as_fd(), true)?;
    report_ecn(socket.as_fd(), is_ipv4)
}

/// What QUIC says, in words of the socket.
fn to_ecn(mark: Codepoint) -> Ecn {
    match mark {
        Codepoint::NotEct => Ecn::NotEct,
        Codepoint::Ect0 => Ecn::Ect0,
        Codepoint::Ect1 => Ecn::Ect1,
        Codepoint::Ce => Ecn::Ce,
    }
}

/// What the socket says, in words of QUIC.
pub(super) fn to_codepoint(ecn: Ecn) -> Codepoint {
    match ecn {
        Ecn::NotEct => Codepoint::NotEct,
        Ecn::Ect0 => Codepoint::Ect0,
        Ecn::Ect1 => Codepoint::Ect1,
        Ecn::Ce => Codepoint::Ce,
    }
}
