//! Pipes, in which bytes wait between two sockets without having been copied.
//!
//! Each thread lends a bounded number of them. Nobody needs one: who gets none copies the bytes.

use sealane_sys::pipe;
use std::cell::RefCell;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::BorrowedFd;

/// What a pipe should hold. The default of 64 KiB is 16 pages, and each piece of a packet takes
/// one, however small it is.
const WANTED_BYTES: u32 = 256 << 10;
/// A pipe that holds less than this, because the user has too many, is not worth its calls.
const LEAST_BYTES: u32 = 32 << 10;
/// Pipes that a thread has lent at a time; each takes two descriptors.
pub const MAX_LENT: usize = 64;
/// Idle pipes that a thread keeps.
const MAX_KEPT: usize = 8;

/// The pipes of a thread.
struct Pool {
    kept: Vec<Ends>,
    lent: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = const {
        RefCell::new(Pool {
            kept: Vec::new(),
            lent: 0,
        })
    };
}

#[derive(Debug)]
struct Ends {
    reader: PipeReader,
    writer: PipeWriter,
}

/// A pipe that was lent. It goes back when it is dropped empty; otherwise it is closed.
#[derive(Debug)]
pub struct Pipe {
    /// Until it is dropped.
    ends: Option<Ends>,
    held_bytes: usize,
}

/// Borrows an empty pipe, unless too many are lent, or the system has none.
pub fn take() -> Option<Pipe> {
    let kept = POOL.with_borrow_mut(|pool| {
        (pool.lent < MAX_LENT).then(|| {
            pool.lent += 1;
            pool.kept.pop()
        })
    })?;
    let Some(ends) = kept.or_else(open) else {
        POOL.with_borrow_mut(|pool| pool.lent -= 1);
        return None;
    };
    Some(Pipe {
        ends: Some(ends),
        held_bytes: 0,
    })
}

fn open() -> Option<Ends> {
    let (reader, writer) = io::pipe().ok()?;
    if pipe::set_capacity(&writer, WANTED_BYTES).is_err() {
        let capacity = pipe::capacity(&writer).ok()?;
        (capacity >= LEAST_BYTES).then_some(())?;
    }
    Some(Ends { reader, writer })
}

impl Pipe {
    /// Bytes in it.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.held_bytes == 0
    }

    /// Takes what is in it into memory.
    ///
    /// # Errors
    /// None that is known.
    pub fn read_back(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        let count = std::mem::take(&mut self.held_bytes);
        let at = buffer.len();
        buffer.resize(at + count, 0);
        self.reader().read_exact(&mut buffer[at..])
    }

    /// Moves received bytes into it; it must be empty, so that only the socket can have it wait.
    pub(crate) fn fill(&mut self, socket: BorrowedFd<'_>, max: usize) -> io::Result<usize> {
        debug_assert!(self.is_empty());
        let ends = self.ends.as_ref().expect("it has them until it is dropped");
        let count = pipe::fill(socket, &ends.writer, max)?;
        self.held_bytes += count;
        Ok(count)
    }

    /// Moves bytes out of it; it must not be empty.
    pub(crate) fn drain(&mut self, socket: BorrowedFd<'_>, max: usize) -> io::Result<usize> {
        let count = pipe::drain(self.reader(), socket, max)?;
        self.held_bytes -= count;
        Ok(count)
    }

    fn reader(&self) -> &PipeReader {
        let ends = self.ends.as_ref();
        &ends.expect("it has them until it is dropped").reader
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // A thread that ends has no pool any more.
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            pool.lent = pool.lent.saturating_sub(1);
            if self.held_bytes == 0 && pool.kept.len() < MAX_KEPT {
                pool.kept.extend(self.ends.take());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_thread_lends_so_many_and_no_more() {
        let mut lent: Vec<_> = (0..MAX_LENT)
            .map(|_| take().expect("one is left"))
            .collect();
        assert!(take().is_none());
        lent.pop();
        assert!(take().is_some());
        drop(lent);
        POOL.with_borrow(|pool| assert_eq!((pool.kept.len(), pool.lent), (MAX_KEPT, 0)));
    }

    #[test]
    fn what_one_borrower_leaves_the_next_does_not_get() {
        let (mut client, socket) = UnixStream::pair().expect("sockets");
        client.write_all(b"secret").expect("there is room");
        let mut pipe = take().expect("a pipe");
        assert_eq!(pipe.fill(socket.as_fd(), 100).expect("it has arrived"), 6);
        drop(pipe);
        POOL.with_borrow(|pool| assert!(pool.kept.is_empty()));
        client.write_all(b"other").expect("there is room");
        let mut pipe = take().expect("a pipe");
        assert_eq!(pipe.fill(socket.as_fd(), 100).expect("it has arrived"), 5);
        let mut bytes = b"an".to_vec();
        pipe.read_back(&mut bytes).expect("they are in it");
        assert_eq!((&bytes[..], pipe.is_empty()), (&b"another"[..], true));
    }
}
