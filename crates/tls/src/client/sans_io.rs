//! [`Connection`] as a byte stream drives it. Its handshake waits for the server, and for whoever
//! has the key of its certificate.

use std::io;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};
use std::time::Duration;

use sealane_awslc::{HandshakeStatus, ReadStatus};

use super::connection::{Connection, Handshake};
use super::error::Error;
use crate::ktls::Ktls;
use crate::offload::Load;
use crate::sans_io::{KernelSeal, SansIo};

impl SansIo for Connection {
    type Error = Error;

    fn handshake(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        _load: Load,
    ) -> Result<HandshakeStatus, Error> {
        Ok(match Connection::handshake(self, input, output)? {
            Handshake::Done => HandshakeStatus::Done,
            Handshake::WantRead => HandshakeStatus::WantRead,
            Handshake::Pending => HandshakeStatus::Pending,
        })
    }

    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Connection::poll_pending(self, cx)
    }

    fn pending_timeout(&self) -> Option<Duration> {
        None
    }

    fn pending_timed_out(&mut self) {}

    fn queue_time(&self) -> Duration {
        Connection::queue_time(self)
    }

    fn read(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        plain: &mut Vec<u8>,
        max_bytes: usize,
    ) -> Result<ReadStatus, Error> {
        Connection::read(self, input, output, plain, max_bytes)
    }

    fn may_hold_more(&self, got_bytes: usize, _max_bytes: usize) -> bool {
        // A close_notify may follow the data. It distinguishes a complete response from a truncated
        // one.
        got_bytes > 0
    }

    fn write(&mut self, plain: &[u8], _now_ms: u64, output: &mut Vec<u8>) -> Result<(), Error> {
        Connection::write(self, plain, output)
    }

    fn close_notify(&mut self, output: &mut Vec<u8>) -> bool {
        Connection::close_notify(self, output);
        true
    }

    fn is_established(&self) -> bool {
        Connection::is_established(self)
    }
}

impl KernelSeal for Connection {
    fn settle_ktls(&mut self, is_tcp: bool) -> bool {
        let policy = &self.settings.ktls;
        self.is_established() && self.ktls.settle(policy, self.tls.connection(), is_tcp)
    }

    fn wants_kernel(&self, file_bytes: u64) -> bool {
        self.is_established() && self.ktls.wants_kernel(&self.settings.ktls, file_bytes)
    }

    fn take_over(&mut self, socket: BorrowedFd<'_>) {
        let (policy, tls) = (&self.settings.ktls, self.tls.connection_mut());
        self.ktls.take_over(policy, tls, None, socket);
    }

    fn ktls(&self) -> Ktls<'_> {
        self.ktls.state()
    }

    fn is_sealed_by_kernel(&self) -> bool {
        self.ktls.is_on()
    }

    fn send_control(
        &mut self,
        socket: BorrowedFd<'_>,
        data_follows: bool,
    ) -> io::Result<Option<Error>> {
        let tls = self.tls.connection_mut();
        let ended = self.ktls.send_control(tls, socket, data_follows)?;
        Ok(ended.map(|ended| Error::KeysEnded {
            ended,
            directives: self.settings.directives,
        }))
    }

    fn sent_by_kernel(&mut self, bytes: u64) {
        self.ktls.sent_by_kernel(bytes);
    }

    fn should_end(&self) -> bool {
        self.ktls.should_end()
    }

    fn kernel_allowance_bytes(&self) -> u64 {
        self.ktls.allowance_bytes()
    }
}
