//! Which socket of a `SO_REUSEPORT` group gets a datagram of QUIC: the one whose number is in the
//! connection id, wherever the client has moved to (RFC 9000 section 5.1).
//!
//! Of its own accord the kernel chooses by the addresses, which a client changes when its network
//! does. A filter chooses by a byte of the connection ids that the server gives out instead: see
//! [`CidFormat`]. What has none, such as the first datagram of a client, goes to the socket that
//! the kernel would choose; the connection ids of the answer then name that socket.
//!
//! The filter is a program of classic BPF, which takes no privileges. It is for the master, which
//! has the sockets and binds them: the system-call filter of workers allows no programs on sockets.
//! What belongs to another process has to be forwarded.
//!
//! A position is the order in which the sockets of a group were bound, beginning with 0. When one
//! is closed, the last one takes its position, so that from then on the ids of two threads lead to
//! the wrong socket: threads have to forward what is not theirs.

use crate::CheckReturn;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of a short header before the connection id, RFC 9000 section 17.3.
const SHORT_CID_AT: u8 = 1;
/// Where a long header has the length of the connection id, RFC 8999 section 5.1: behind the first
/// byte and the version.
const LONG_CID_LEN_AT: u8 = 5;
/// Bytes of a long header before the connection id.
const LONG_CID_AT: u8 = LONG_CID_LEN_AT + 1;
/// The bit of the first byte that long headers have, RFC 8999 section 5.1.
const LONG_HEADER_BIT: u8 = 0x80;

/// Where the connection ids of this server name a socket, and how it is hidden: nobody on the way
/// may tell by their ids that two packets belong to one connection (RFC 9000 section 5.1).
///
/// The byte at `slot_at` is the slot, exclusive or with a mix of the four bytes behind it, which
/// are random, and the key. The mix is no cipher: it has to fit into a filter, and what it hides is
/// one of a few numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CidFormat {
    cid_bytes: u8,
    slot_at: u8,
    /// Odd, so that multiplying by it loses nothing.
    key: [u32; 2],
}

/// Random bytes behind the slot that hide it.
const MASK_BYTES: u8 = 4;
/// Bytes of the slot and of what hides it.
const SAMPLE_BYTES: u8 = 1 + MASK_BYTES;
/// The longest connection id, RFC 9000 section 17.2.
const MAX_CID_BYTES: u8 = 20;
/// The lower bits of the first product depend on few bits of the bytes: the upper ones are mixed
/// into them.
const MIX_SHIFT: u32 = 15;
/// The uppermost byte of the second product depends on all bits.
const MASK_SHIFT: u32 = 24;

impl CidFormat {
    /// The format of connection ids of `cid_bytes` bytes with the slot at `slot_at` and four random
    /// bytes behind it; `None` if that does not fit, or is longer than RFC 9000 section 17.2
    /// allows. All processes and threads that share an address have the same key, which is random.
    pub fn new(cid_bytes: u8, slot_at: u8, key: [u32; 2]) -> Option<CidFormat> {
        let fits = cid_bytes <= MAX_CID_BYTES && slot_at.checked_add(SAMPLE_BYTES)? <= cid_bytes;
        fits.then_some(CidFormat {
            cid_bytes,
            slot_at,
            key: key.map(|word| word | 1),
        })
    }

    /// Bytes of a connection id.
    fn cid_bytes(&self) -> usize {
        self.cid_bytes.into()
    }

    /// Names a slot in a connection id, all of whose bytes are random. One of another length stays
    /// as it is.
    pub fn name_slot(&self, cid: &mut [u8], slot: u8) {
        if let Some(mask) = self.mask(cid) {
            cid[usize::from(self.slot_at)] = slot ^ mask;
        }
    }

    /// The slot that a connection id names; one that a client has chosen names any. `None` if its
    /// length is another one.
    pub fn slot(&self, cid: &[u8]) -> Option<u8> {
        let mask = self.mask(cid)?;
        Some(cid[usize::from(self.slot_at)] ^ mask)
    }

    /// The slot that a datagram names, as the filters find it: in the header of its first packet.
    pub fn slot_of_datagram(&self, datagram: &[u8]) -> Option<u8> {
        let is_long = datagram.first()? & LONG_HEADER_BIT != 0;
        let at = match is_long {
            true if *datagram.get(usize::from(LONG_CID_LEN_AT))? != self.cid_bytes => return None,
            true => usize::from(LONG_CID_AT),
            false => usize::from(SHORT_CID_AT),
        };
        self.slot(datagram.get(at..at + self.cid_bytes())?)
    }

    fn mask(&self, cid: &[u8]) -> Option<u8> {
        if cid.len() != self.cid_bytes() {
            return None;
        }
        let at = usize::from(self.slot_at) + 1;
        let random = cid.get(at..)?.first_chunk()?;
        let mixed = u32::from_be_bytes(*random).wrapping_mul(self.key[0]);
        let mixed = (mixed ^ (mixed >> MIX_SHIFT)).wrapping_mul(self.key[1]);
        Some(mixed.to_be_bytes()[0])
    }
}

impl std::fmt::Debug for CidFormat {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CidFormat")
            .field("cid_bytes", &self.cid_bytes)
            .field("slot_at", &self.slot_at)
            .finish_non_exhaustive()
    }
}

/// Datagrams whose connection id names a slot go to the socket with this position in the group from
/// now on, whichever of its sockets this is (`SO_ATTACH_REUSEPORT_CBPF`). The kernel chooses for
/// the others, and where no socket has the position.
///
/// # Errors
///
/// `EINVAL` if the socket was not bound with `SO_REUSEPORT`.
pub fn steer_by_position(socket: BorrowedFd<'_>, format: &CidFormat) -> io::Result<()> {
    let mut filter = classic_program(format);
    let program = libc::sock_fprog {
        len: CLASSIC_INSTRUCTIONS as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the kernel reads a program of the length given, which points at as many instructions;
    // it copies both during the call. The descriptor is borrowed.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    }
    .check()?;
    Ok(())
}

/// What the program returns if it names no socket: no group has that many.
const NO_POSITION: u32 = u32::MAX;
const CLASSIC_INSTRUCTIONS: usize = 22;

/// Finds the slot as [`CidFormat::slot_of_datagram`] does. A load beyond the end of the datagram
/// would return 0, which is a position, so the length is compared first. No packet is too short for
/// that: behind a connection id come 20 bytes (RFC 9001 section 5.4.2).
fn classic_program(format: &CidFormat) -> [libc::sock_filter; CLASSIC_INSTRUCTIONS] {
    use libc::{
        BPF_ABS, BPF_ALU, BPF_B, BPF_IMM, BPF_IND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET,
        BPF_K, BPF_LD, BPF_LDX, BPF_LEN, BPF_MEM, BPF_MISC, BPF_MUL, BPF_RET, BPF_RSH, BPF_ST,
        BPF_TAX, BPF_W, BPF_X, BPF_XOR,
    };
    let statement = |code: u32, k: u32| libc::sock_filter {
        // Opcodes have eight bits.
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let jump = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        jt,
        jf,
        ..statement(BPF_JMP | code | BPF_K, k)
    };
    let longest = u32::from(LONG_CID_AT + format.cid_bytes);
    let slot_at = u32::from(format.slot_at);
    [
        // The datagram begins behind the header of UDP.
        statement(BPF_LD | BPF_W | BPF_LEN, 0),
        jump(BPF_JGE, longest, 0, 19),
        // X becomes the place of the connection id.
        statement(BPF_LD | BPF_B | BPF_ABS, 0),
        jump(BPF_JSET, LONG_HEADER_BIT.into(), 2, 0),
        statement(BPF_LDX | BPF_W | BPF_IMM, SHORT_CID_AT.into()),
        jump(BPF_JA, 3, 0, 0),
        statement(BPF_LD | BPF_B | BPF_ABS, LONG_CID_LEN_AT.into()),
        jump(BPF_JEQ, format.cid_bytes.into(), 0, 13),
        statement(BPF_LDX | BPF_W | BPF_IMM, LONG_CID_AT.into()),
        // The byte is kept in the first word of scratch memory.
        statement(BPF_LD | BPF_B | BPF_IND, slot_at),
        statement(BPF_ST, 0),
        statement(BPF_LD | BPF_W | BPF_IND, slot_at + 1),
        statement(BPF_ALU | BPF_MUL | BPF_K, format.key[0]),
        statement(BPF_MISC | BPF_TAX, 0),
        statement(BPF_ALU | BPF_RSH | BPF_K, MIX_SHIFT),
        statement(BPF_ALU | BPF_XOR | BPF_X, 0),
        statement(BPF_ALU | BPF_MUL | BPF_K, format.key[1]),
        statement(BPF_ALU | BPF_RSH | BPF_K, MASK_SHIFT),
        statement(BPF_LDX | BPF_W | BPF_MEM, 0),
        statement(BPF_ALU | BPF_XOR | BPF_X, 0),
        statement(BPF_RET | BPF_A, 0),
        statement(BPF_RET | BPF_K, NO_POSITION),
    ]
}

/// Returns what the program has computed (`BPF_A` of linux/filter.h).
const BPF_A: u32 = 0x10;

#[cfg(test)]
mod tests;
