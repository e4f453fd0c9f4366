//! Buffers that connections borrow while they work and give back when idle.
//!
//! Each worker thread keeps a few buffers of each of two sizes. An idle connection holds none, so
//! thousands of idle connections cost no buffer memory.

use bytes::Bytes;
use std::cell::RefCell;

/// Capacity of a new small buffer: request and response heads, small bodies.
pub const SMALL_BYTES: usize = 4 << 10;
/// Plaintext that one turn of a large transfer handles: eight full TLS records per system call
/// (docs/performance.md has the gain over one record).
pub const BATCH_BYTES: usize = 128 << 10;
/// Capacity of a new large buffer: a batch plus the overhead of its TLS records.
pub const LARGE_BYTES: usize = BATCH_BYTES + (4 << 10);
/// A small buffer that grew beyond this is not kept.
const SMALL_KEPT_BYTES: usize = 32 << 10;
/// Buffers kept per worker thread and size.
const SMALL_KEPT: usize = 64;
const LARGE_KEPT: usize = 16;

struct Pool {
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
}

thread_local! {
    static POOL: RefCell<Pool> = const {
        RefCell::new(Pool {
            small: Vec::new(),
            large: Vec::new(),
        })
    };
}

/// An empty buffer for heads and small bodies.
pub fn small() -> Vec<u8> {
    POOL.with_borrow_mut(|pool| pool.small.pop())
        .unwrap_or_else(|| Vec::with_capacity(SMALL_BYTES))
}

/// An empty buffer for a batch of records.
pub fn large() -> Vec<u8> {
    POOL.with_borrow_mut(|pool| pool.large.pop())
        .unwrap_or_else(|| Vec::with_capacity(LARGE_BYTES))
}

/// An empty buffer for `count` bytes, capped at one batch.
pub fn for_bytes(count: u64) -> Vec<u8> {
    if count <= SMALL_BYTES as u64 {
        small()
    } else {
        large()
    }
}

/// Gives a buffer back. Its size decides whether it is kept or freed.
pub fn give_back(mut buffer: Vec<u8>) {
    let capacity = buffer.capacity();
    if capacity < SMALL_BYTES {
        return;
    }
    buffer.clear();
    POOL.with_borrow_mut(|pool| {
        if capacity <= SMALL_KEPT_BYTES {
            if pool.small.len() < SMALL_KEPT {
                pool.small.push(buffer);
            }
        } else if (LARGE_BYTES..2 * LARGE_BYTES).contains(&capacity)
            && pool.large.len() < LARGE_KEPT
        {
            pool.large.push(buffer);
        }
    });
}

/// Turns a buffer into shared bytes. The buffer is given back when the last reference is dropped.
pub fn shared(buffer: Vec<u8>) -> Bytes {
    /// Gives its buffer back on drop.
    struct Borrowed(Vec<u8>);

    impl AsRef<[u8]> for Borrowed {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Borrowed {
        fn drop(&mut self) {
            give_back(std::mem::take(&mut self.0));
        }
    }

    if buffer.is_empty() {
        give_back(buffer);
        return Bytes::new();
    }
    Bytes::from_owner(Borrowed(buffer))
}

/// Gives the buffer of an idle owner back and leaves an empty one that holds no memory.
pub fn release(buffer: &mut Vec<u8>) {
    if buffer.capacity() > 0 {
        give_back(std::mem::take(buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty() {
        let mut buffer = small();
        buffer.extend_from_slice(b"secret of the last connection");
        let address = buffer.as_ptr();
        give_back(buffer);
        let again = small();
        assert_eq!(again.as_ptr(), address);
        assert!(again.is_empty());
    }

    #[test]
    fn shared_buffers_come_back_with_their_last_piece() {
        let mut buffer = small();
        buffer.extend_from_slice(b"head and body");
        let address = buffer.as_ptr();
        let mut head = shared(buffer);
        let body = head.split_off(4);
        drop(head);
        let other = small();
        assert_ne!(other.as_ptr(), address);
        assert_eq!(body, b" and body"[..]);
        drop(body);
        let again = small();
        assert_eq!(again.as_ptr(), address);
    }

    #[test]
    fn odd_sizes_are_freed() {
        give_back(Vec::new());
        give_back(Vec::with_capacity(SMALL_KEPT_BYTES + 1));
        give_back(Vec::with_capacity(2 * LARGE_BYTES));
        assert!(large().capacity() >= LARGE_BYTES);
        assert!(small().capacity() >= SMALL_BYTES);
    }
}
