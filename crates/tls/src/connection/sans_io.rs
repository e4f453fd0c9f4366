//! [`Connection`] as a byte stream drives it.

use std::io;
use std::os::fd::BorrowedFd;
use std::task::{Context, Poll};
use std::time::Duration;

use sealane_awslc::{HandshakeStatus, ReadStatus};

use super::{Connection, ConnectionState};
use crate::error::Error;
use crate::ktls::Ktls;
use crate::offload::Load;
use crate::sans_io::{KernelSeal, SansIo};

impl SansIo for Connection {
    type Error = Error;

    fn handshake(
        &mut self,
        input: &mut &[u8],
        output: &mut Vec<u8>,
        load: Load,
    ) -> Result<HandshakeStatus, Error> {
        Connection::handshake(self, input, output, load)
    }

    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Connection::poll_pending(self, cx)
    }

    fn pending_timeout(&self) -> Option<Duration> {
        self.lookup_timeout()
    }

    fn pending_timed_out(&mut self) {
        self.lookup_timed_out();
    }

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
        let status = self.running()?.read_into(input, output, plain, max_bytes);
        if let (Some(writer), ConnectionState::Running(tls)) = (&mut self.writer, &mut self.state) {
            writer.control(tls, false, output)?;
        }
        Ok(status?)
    }

    fn may_hold_more(&self, got_bytes: usize, max_bytes: usize) -> bool {
        // A client that has closed, or broken a rule, may wait for us to say so before it sends
        // anything else.
        got_bytes == max_bytes || self.is_ending()
    }

    fn write(&mut self, plain: &[u8], now_ms: u64, output: &mut Vec<u8>) -> Result<(), Error> {
        Connection::write(self, plain, now_ms, output)
    }

    fn close_notify(&mut self, output: &mut Vec<u8>) -> bool {
        if self.is_early_data() {
            return false;
        }
        self.shutdown(output);
        true
    }

    fn is_established(&self) -> bool {
        Connection::is_established(self)
    }
}

impl KernelSeal for Connection {
    fn settle_ktls(&mut self, is_tcp: bool) -> bool {
        Connection::settle_ktls(self, is_tcp)
    }

    fn wants_kernel(&self, file_bytes: u64) -> bool {
        Connection::wants_kernel(self, file_bytes)
    }

    fn take_over(&mut self, socket: BorrowedFd<'_>) {
        Connection::take_over(self, socket);
    }

    fn ktls(&self) -> Ktls<'_> {
        Connection::ktls(self)
    }

    fn is_sealed_by_kernel(&self) -> bool {
        Connection::is_sealed_by_kernel(self)
    }

    fn send_control(
        &mut self,
        socket: BorrowedFd<'_>,
        data_follows: bool,
    ) -> io::Result<Option<Error>> {
        let ended = Connection::send_control(self, socket, data_follows)?;
        Ok(ended.map(Error::KeysEnded))
    }

    fn sent_by_kernel(&mut self, bytes: u64) {
        Connection::sent_by_kernel(self, bytes);
    }

    fn should_end(&self) -> bool {
        Connection::should_end(self)
    }

    fn kernel_allowance_bytes(&self) -> u64 {
        Connection::kernel_allowance_bytes(self)
    }
}
