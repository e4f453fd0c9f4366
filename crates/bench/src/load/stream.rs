//! One connection of a client: TCP, with or without TLS.

use std::{cell::RefCell, io, net::SocketAddr, time::Instant};

use tokio::{io::AsyncWriteExt, io::Interest, net::TcpStream};

use crate::{
    Error,
    load::tls::{EarlyData, Negotiated, Tls, TlsSettings},
    response::{Completed, ResponseError, ResponseReader},
};
use sealane_awslc::Session;

/// Bytes read from a socket at a time. Large, so that a download costs the generator few system
/// calls.
const RECEIVE_BYTES: usize = 256 * 1024;

/// Buffers shared by all connections of one event loop, because each is used only between two
/// awaits.
pub(super) struct Scratch {
    received: Vec<u8>,
    plain: Vec<u8>,
}

impl Scratch {
    pub(super) fn new() -> RefCell<Self> {
        RefCell::new(Self {
            received: vec![0; RECEIVE_BYTES],
            plain: vec![0; RECEIVE_BYTES],
        })
    }
}

/// The outcome of one read.
enum Received {
    /// The response is complete.
    Complete(Completed),
    /// More data is needed.
    More,
    /// The peer has closed its side.
    End,
}

pub(super) struct Stream {
    socket: TcpStream,
    tls: Option<Tls>,
    /// Ciphertext to be sent; empty between operations.
    outgoing: Vec<u8>,
    /// When the current response began to arrive.
    first_byte: Option<Instant>,
}

impl Stream {
    /// Connects and, with TLS settings, completes the client's part of the handshake. The last
    /// flight stays in `outgoing`: like a browser's, it is sent together with the first request.
    /// With early data, this already applies to the first flight.
    pub(super) async fn connect(
        address: SocketAddr,
        tls: Option<(&TlsSettings, Option<&Session>)>,
        scratch: &RefCell<Scratch>,
    ) -> Result<Self, Error> {
        let socket = TcpStream::connect(address)
            .await
            .map_err(|source| Error::io(format!("connect to {address}"), source))?;
        socket
            .set_nodelay(true)
            .map_err(|source| Error::io("set TCP_NODELAY", source))?;
        let tls = tls
            .map(|(settings, session)| settings.connect(session))
            .transpose()?;
        let mut stream = Self {
            socket,
            tls,
            outgoing: Vec::new(),
            first_byte: None,
        };
        stream.handshake(scratch).await?;
        Ok(stream)
    }

    async fn handshake(&mut self, scratch: &RefCell<Scratch>) -> Result<(), Error> {
        let Some(tls) = self.tls.as_mut() else {
            return Ok(());
        };
        if tls.handshake(&mut &b""[..], &mut self.outgoing)? {
            return Ok(());
        }
        loop {
            send_all(&self.socket, &mut self.outgoing).await?;
            readable(&self.socket).await?;
            let mut scratch = scratch.borrow_mut();
            let count = match self.socket.try_read(&mut scratch.received) {
                Ok(0) => return Err(Error::Closed("during the handshake")),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(source) => return Err(Error::io("receive during the handshake", source)),
            };
            let mut bytes = &scratch.received[..count];
            let done = tls.handshake(&mut bytes, &mut self.outgoing)?;
            let left = bytes.len();
            if done {
                // A server may already have sent tickets after its last flight.
                let Scratch { received, plain } = &mut *scratch;
                let mut rest = &received[count - left..count];
                let surplus = |plain: &[u8]| Err(ResponseError::Surplus(plain.len()).into());
                return match tls.read(&mut rest, plain, &mut self.outgoing, surplus)? {
                    true => Err(Error::Closed("right after the handshake")),
                    false => Ok(()),
                };
            }
        }
    }

    /// The negotiated parameters; `None` without TLS.
    pub(super) fn negotiated(&self) -> Result<Option<Negotiated>, Error> {
        self.tls.as_ref().map(Tls::negotiated).transpose()
    }

    /// The newest session that the server has offered on this connection.
    pub(super) fn take_session(&mut self) -> Option<Session> {
        self.tls.as_mut()?.take_session()
    }

    /// Sends one request, after whatever is left of the handshake.
    pub(super) async fn send(&mut self, request: &[u8]) -> Result<(), Error> {
        match self.tls.as_mut() {
            Some(tls) => tls.write(request, &mut self.outgoing)?,
            None => self.outgoing.extend_from_slice(request),
        }
        self.forget_readiness();
        send_all(&self.socket, &mut self.outgoing).await
    }

    /// Makes the next wait for data actually wait. The event loop considers a socket readable until
    /// a read proves otherwise, and right after every request would try a read that cannot succeed.
    /// Nothing is missed: the response is a new event, and a close is recorded separately.
    fn forget_readiness(&self) {
        let _ = self.socket.try_io(Interest::READABLE, || {
            Err::<(), _>(io::ErrorKind::WouldBlock.into())
        });
    }

    /// The outcome of early data.
    pub(super) fn early_data(&self) -> EarlyData {
        self.tls.as_ref().map_or(EarlyData::None, Tls::early_data)
    }

    /// When the last received response began to arrive.
    pub(super) fn first_byte(&mut self) -> Option<Instant> {
        self.first_byte.take()
    }

    /// Receives the response to `request`. Sends the request again if it was early data that the
    /// server refused.
    pub(super) async fn receive(
        &mut self,
        request: &[u8],
        reader: &mut ResponseReader,
        scratch: &RefCell<Scratch>,
    ) -> Result<Completed, Error> {
        let mut undecided = self.early_data() == EarlyData::Sent;
        loop {
            readable(&self.socket).await?;
            let received = self.read_once(reader, scratch)?;
            if undecided && self.early_data() != EarlyData::Sent {
                undecided = false;
                if self.early_data() == EarlyData::Rejected {
                    self.send(request).await?;
                    continue;
                }
            }
            match received {
                Received::Complete(completed) => return Ok(completed),
                Received::More => {}
                Received::End => {
                    return reader
                        .end_of_stream()?
                        .ok_or(Error::Closed("before it answered"));
                }
            }
            if !self.outgoing.is_empty() {
                // The end of the handshake, the answer to a KeyUpdate.
                send_all(&self.socket, &mut self.outgoing).await?;
            }
        }
    }

    /// Sends what is left of the handshake, waits for a session unless one has arrived, and leaves
    /// the rest to the server, which sees the connection end.
    pub(super) async fn last_session(
        mut self,
        scratch: &RefCell<Scratch>,
    ) -> Result<Session, Error> {
        send_all(&self.socket, &mut self.outgoing).await?;
        loop {
            if let Some(session) = self.take_session() {
                return Ok(session);
            }
            readable(&self.socket).await?;
            let mut scratch = scratch.borrow_mut();
            let Scratch { received, plain } = &mut *scratch;
            let count = match self.socket.try_read(received) {
                Ok(0) => return Err(Error::Closed("before it gave a session")),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(source) => return Err(Error::io("wait for a session", source)),
            };
            let surplus = |plain: &[u8]| Err(ResponseError::Surplus(plain.len()).into());
            if let Some(tls) = self.tls.as_mut() {
                tls.read(&mut &received[..count], plain, &mut self.outgoing, surplus)?;
            }
        }
    }

    /// Waits for bytes and passes their plaintext to `consume`; returns false at the end.
    pub(super) async fn receive_plain(
        &mut self,
        scratch: &RefCell<Scratch>,
        mut consume: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        readable(&self.socket).await?;
        let mut scratch = scratch.borrow_mut();
        let Scratch { received, plain } = &mut *scratch;
        let count = match self.socket.try_read(received) {
            Ok(0) => return Ok(false),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(source) => return Err(Error::io("receive a response", source)),
        };
        match self.tls.as_mut() {
            None => consume(&received[..count])?,
            Some(tls) => {
                let bytes = &mut &received[..count];
                return Ok(!tls.read(bytes, plain, &mut self.outgoing, consume)?);
            }
        }
        Ok(true)
    }

    fn read_once(
        &mut self,
        reader: &mut ResponseReader,
        scratch: &RefCell<Scratch>,
    ) -> Result<Received, Error> {
        let mut scratch = scratch.borrow_mut();
        let Scratch { received, plain } = &mut *scratch;
        let count = match self.socket.try_read(received) {
            Ok(0) => return Ok(Received::End),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::More),
            Err(source) => return Err(Error::io("receive a response", source)),
        };
        let mut complete = None;
        let first_byte = &mut self.first_byte;
        let mut feed = |bytes: &[u8]| -> Result<(), Error> {
            first_byte.get_or_insert_with(Instant::now);
            if complete.is_some() {
                return Err(ResponseError::Surplus(bytes.len()).into());
            }
            complete = reader.feed(bytes)?;
            Ok(())
        };
        let end = match self.tls.as_mut() {
            None => {
                feed(&received[..count])?;
                false
            }
            Some(tls) => tls.read(&mut &received[..count], plain, &mut self.outgoing, feed)?,
        };
        Ok(match complete {
            Some(completed) => Received::Complete(completed),
            None if end => Received::End,
            None => Received::More,
        })
    }

    /// Ends the connection as clients do, with a close_notify in TLS, and waits until the server
    /// has closed it, too.
    pub(super) async fn close(mut self, scratch: &RefCell<Scratch>) -> Result<(), Error> {
        if let Some(tls) = self.tls.as_mut() {
            tls.close(&mut self.outgoing);
        }
        send_all(&self.socket, &mut self.outgoing).await?;
        self.socket
            .shutdown()
            .await
            .map_err(|source| Error::io("close a connection", source))?;
        self.closed_by_server(scratch).await
    }

    /// Waits until the server has closed the connection, as it must after a response that announces
    /// it.
    pub(super) async fn closed_by_server(
        &mut self,
        scratch: &RefCell<Scratch>,
    ) -> Result<(), Error> {
        loop {
            readable(&self.socket).await?;
            let read = self.socket.try_read(&mut scratch.borrow_mut().received);
            match read {
                Ok(0) => return Ok(()),
                // A close_notify, which can be ignored without decryption.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(source) => return Err(Error::io("wait for the server to close", source)),
            }
        }
    }

    /// Whether an idle connection is still open and silent.
    pub(super) fn is_open(&self, scratch: &RefCell<Scratch>) -> bool {
        let mut scratch = scratch.borrow_mut();
        matches!(self.socket.try_read(&mut scratch.received), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

async fn readable(socket: &TcpStream) -> Result<(), Error> {
    socket
        .readable()
        .await
        .map_err(|source| Error::io("wait for data", source))
}

/// Sends `bytes` and clears it.
async fn send_all(socket: &TcpStream, bytes: &mut Vec<u8>) -> Result<(), Error> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.try_write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket
                    .writable()
                    .await
                    .map_err(|source| Error::io("wait to send", source))?;
            }
            Err(source) => return Err(Error::io("send", source)),
        }
    }
    bytes.clear();
    Ok(())
}
