//! Waits for a handful of descriptors, for processes without an event loop.

use crate::CheckReturn;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// What to wait for on a descriptor. A descriptor that was closed by its peer or is in error counts
/// as ready for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Something can be read.
    Readable,
    /// Something can be written.
    Writable,
}

/// Waits until one of `fds` can be read or was closed by its peer, or the time is over (`None`
/// waits forever). The result has one entry per descriptor. A signal ends the wait early, with all
/// entries false.
///
/// # Errors
///
/// The errno of `poll`.
pub fn wait_readable(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<Vec<bool>> {
    wait_polled(fds.iter().map(|fd| (*fd, Interest::Readable)), timeout)
}

/// The same, with an interest for each descriptor.
///
/// # Errors
///
/// The errno of `poll`.
pub fn wait(
    fds: &[(BorrowedFd<'_>, Interest)],
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    wait_polled(fds.iter().copied(), timeout)
}

fn wait_polled<'a>(
    fds: impl Iterator<Item = (BorrowedFd<'a>, Interest)>,
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> = fds
        .map(|(fd, interest)| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: match interest {
                Interest::Readable => libc::POLLIN,
                Interest::Writable => libc::POLLOUT,
            },
            revents: 0,
        })
        .collect();
    let timeout_ms = match timeout {
        None => -1,
        // Rounded up, so that a wait never ends early.
        Some(time) => i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX),
    };
    // SAFETY: `polled` is valid for its length during the call.
    let result = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as _, timeout_ms) }.check();
    match result {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(vec![false; polled.len()]),
        Err(error) => Err(error),
        Ok(_) => Ok(polled.iter().map(|p| p.revents != 0).collect()),
    }
}
