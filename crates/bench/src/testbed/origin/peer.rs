//! One connection to the origin, with or without TLS.

use std::{fs, io, path::Path};

use sealane_awslc::{
    CertificateChain, Connection, Context, ContextBuilder, Error as LibraryError, HandshakeStatus,
    PrivateKey, ProtocolVersion, ReadStatus,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::Error;

/// Room for what is received at a time.
const RECEIVE_BYTES: usize = 4096;

/// Whoever has connected to the origin.
pub(super) struct Peer {
    socket: TcpStream,
    tls: Option<Connection>,
    /// Received, and not opened yet.
    sealed: Vec<u8>,
    /// To be sent.
    output: Vec<u8>,
}

/// TLS 1.3 with the parameters that clients of comparisons pin, and the certificate `p256` of this
/// directory.
pub(super) fn context(certificates: &Path) -> Result<Context, Error> {
    let refused = |reason: String| Error::Tls {
        what: "prepare the TLS of the origin".into(),
        reason,
    };
    let read = |name: &str| {
        let path = certificates.join(name);
        fs::read(&path).map_err(|source| Error::io(format!("read {}", path.display()), source))
    };
    let chain = CertificateChain::from_pem(&read("p256.crt")?);
    let chain = chain.map_err(|error| refused(error.to_string()))?;
    let key = PrivateKey::from_pem(&read("p256.key")?, &[]);
    let key = key.map_err(|error| refused(error.to_string()))?;
    let build = || -> Result<Context, LibraryError> {
        let mut builder = ContextBuilder::new()?;
        builder.set_protocol_range(ProtocolVersion::Tls13, ProtocolVersion::Tls13)?;
        builder.set_ciphersuites("TLS_AES_256_GCM_SHA384")?;
        builder.set_identity(&chain, &key)?;
        builder.set_tickets_enabled(true);
        builder.build()
    };
    build().map_err(|error| refused(error.to_string()))
}

impl Peer {
    pub(super) fn new(socket: TcpStream, context: Option<&Context>) -> io::Result<Self> {
        // Without it, the server waits for what it should measure.
        let _ = socket.set_nodelay(true);
        let tls = context.map(Connection::server).transpose();
        Ok(Self {
            socket,
            tls: tls.map_err(io::Error::other)?,
            sealed: Vec::with_capacity(RECEIVE_BYTES),
            output: Vec::new(),
        })
    }

    /// Waits until the handshake is done. Returns whether a session was resumed, or there is no
    /// TLS.
    pub(super) async fn handshake(&mut self) -> io::Result<bool> {
        let Some(tls) = self.tls.as_mut() else {
            return Ok(true);
        };
        loop {
            if self.socket.read_buf(&mut self.sealed).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut input = &self.sealed[..];
            let status = tls.do_handshake(&mut input, &mut self.output);
            let left = input.len();
            self.sealed.drain(..self.sealed.len() - left);
            self.socket.write_all(&self.output).await?;
            self.output.clear();
            if status.map_err(io::Error::other)? == HandshakeStatus::Done {
                return Ok(tls.is_session_reused());
            }
        }
    }

    /// Waits for bytes and appends them; returns false at the end.
    pub(super) async fn receive(&mut self, received: &mut Vec<u8>) -> io::Result<bool> {
        let Some(tls) = self.tls.as_mut() else {
            return Ok(self.socket.read_buf(received).await? > 0);
        };
        // What came with the end of the handshake is opened first.
        let mut is_incomplete = self.sealed.is_empty();
        loop {
            if is_incomplete && self.socket.read_buf(&mut self.sealed).await? == 0 {
                return Ok(false);
            }
            let (mut input, before) = (&self.sealed[..], received.len());
            let status = tls.read_into(&mut input, &mut self.output, received, RECEIVE_BYTES);
            let left = input.len();
            self.sealed.drain(..self.sealed.len() - left);
            match status.map_err(io::Error::other)? {
                ReadStatus::Data(_) if received.len() > before => return Ok(true),
                ReadStatus::CloseNotify => return Ok(false),
                ReadStatus::Data(_) | ReadStatus::WantRead => is_incomplete = true,
            }
        }
    }

    /// Sends all of it.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = self.tls.as_mut() else {
            return self.socket.write_all(bytes).await;
        };
        tls.write(bytes, &mut self.output)
            .map_err(io::Error::other)?;
        self.socket.write_all(&self.output).await?;
        self.output.clear();
        Ok(())
    }

    /// Ends a connection that its peer has ended.
    pub(super) async fn close(mut self) {
        if let Some(tls) = self.tls.as_mut() {
            tls.shutdown(&mut self.output);
            // The peer may not wait for it.
            let _ = self.socket.write_all(&self.output).await;
        }
    }
}
