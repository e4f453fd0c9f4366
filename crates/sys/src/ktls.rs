//! Kernel TLS: the kernel takes the keys for one direction of a TCP connection, and then seals or
//! opens the records (`Documentation/networking/tls.rst`).
//!
//! Call [`attach`] first, then [`set_transmit`] or [`set_receive`]. After `set_transmit` everything
//! sent with send(2) or sendfile(2) is application data; records of other types are sent with
//! [`send_record`].
//!
//! Errors are the kernel's own:
//!
//! | call | errno | meaning |
//! |---|---|---|
//! | `attach` | `ENOENT` | no module `tls`, or it is not loaded and this process may not load it (`CAP_NET_ADMIN`) |
//! | `attach` | `ENOTCONN` | the connection is not established, or half closed |
//! | `attach` | `EEXIST` | already attached |
//! | `attach` | `ENOPROTOOPT` | a kernel before 4.13 |
//! | `set_*` | `EINVAL`, `ENOPROTOOPT` | protocol version or suite unknown to this kernel |
//! | `set_*` | `ENOENT` | the kernel has no implementation of the cipher |
//! | `set_*` | `EBUSY` | keys are set already, and this kernel cannot change them (before 6.14) |

use crate::{CheckReturn, retry};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A protocol version that the kernel supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// A record cipher that the kernel supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cipher {
    /// AES-128-GCM; Linux 4.13 and later, for TLS 1.3 5.1.
    Aes128Gcm,
    /// AES-256-GCM; Linux 5.1 and later.
    Aes256Gcm,
    /// ChaCha20-Poly1305; Linux 5.11 and later.
    ChaCha20Poly1305,
}

impl Version {
    /// Both.
    pub const ALL: [Version; 2] = [Version::Tls12, Version::Tls13];

    /// The name that operators know: `TLSv1.3`.
    pub const fn name(self) -> &'static str {
        match self {
            Version::Tls12 => "TLSv1.2",
            Version::Tls13 => "TLSv1.3",
        }
    }

    /// The number in a record header.
    fn wire(self) -> u16 {
        match self {
            Version::Tls12 => 0x0303,
            Version::Tls13 => 0x0304,
        }
    }
}

impl Cipher {
    /// All three.
    pub const ALL: [Cipher; 3] = [
        Cipher::Aes128Gcm,
        Cipher::Aes256Gcm,
        Cipher::ChaCha20Poly1305,
    ];

    /// The name that operators know: `AES-128-GCM`.
    pub const fn name(self) -> &'static str {
        match self {
            Cipher::Aes128Gcm => "AES-128-GCM",
            Cipher::Aes256Gcm => "AES-256-GCM",
            Cipher::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }

    /// Length of the key in bytes.
    pub const fn key_bytes(self) -> usize {
        match self {
            Cipher::Aes128Gcm => 16,
            Cipher::Aes256Gcm | Cipher::ChaCha20Poly1305 => 32,
        }
    }

    /// Length in bytes of the IV that [`Keys::iv`] holds.
    pub const fn iv_bytes(self, version: Version) -> usize {
        match (version, self) {
            (Version::Tls12, Cipher::Aes128Gcm | Cipher::Aes256Gcm) => 4,
            _ => 12,
        }
    }

    /// The kernel's number, `TLS_CIPHER_*` in `linux/tls.h`.
    fn number(self) -> u16 {
        match self {
            Cipher::Aes128Gcm => 51,
            Cipher::Aes256Gcm => 52,
            Cipher::ChaCha20Poly1305 => 54,
        }
    }
}

/// The parameters with which the kernel protects one direction.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    /// Protocol version.
    pub version: Version,
    /// Record cipher.
    pub cipher: Cipher,
    /// The traffic key, [`Cipher::key_bytes`] long.
    pub key: &'a [u8],
    /// For TLS 1.3, and for ChaCha20-Poly1305 in both versions: the 12-byte IV. For TLS 1.2 with
    /// GCM: the 4-byte fixed part; the kernel uses the sequence number as the explicit nonce.
    pub iv: &'a [u8],
    /// Number of the first record that the kernel seals or opens.
    pub sequence: u64,
}

impl fmt::Debug for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("version", &self.version)
            .field("cipher", &self.cipher)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

/// Gives a connected TCP socket the upper-layer protocol `tls` (`setsockopt(TCP_ULP)`). Data is
/// sent unencrypted until keys are set. The kernel loads the module if the process may
/// (`CAP_NET_ADMIN`).
///
/// The protocol can never be detached from a socket.
///
/// # Errors
///
/// `ENOENT` when the kernel has no module `tls`, `ENOTCONN` on a socket that is not connected, or
/// another errno of `setsockopt`.
pub fn attach(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")
}

/// Sets the keys for sending (`TLS_TX`). On an error the socket has no keys that it did not have
/// before.
///
/// If a TLS 1.3 socket already has keys, Linux 6.14 and later switch to the new ones (`sequence` 0
/// after a KeyUpdate); older kernels return `EBUSY`.
///
/// # Errors
/// `InvalidInput` when key or IV do not have the length of the cipher; else the
/// kernel's, see the module's table.
pub fn set_transmit(socket: BorrowedFd<'_>, keys: &Keys<'_>) -> io::Result<()> {
    set_option(
        socket,
        libc::SOL_TLS,
        TLS_TX,
        CryptoInfo::new(keys)?.bytes(),
    )
}

/// Sets the keys for receiving (`TLS_RX`): recv(2) then returns plaintext. Errors as for
/// [`set_transmit`].
///
/// # Errors
///
/// As [`set_transmit`].
pub fn set_receive(socket: BorrowedFd<'_>, keys: &Keys<'_>) -> io::Result<()> {
    set_option(
        socket,
        libc::SOL_TLS,
        TLS_RX,
        CryptoInfo::new(keys)?.bytes(),
    )
}

/// Sends `bytes` as one record of type `record_type` (21 alert, 22 handshake) on a socket with
/// transmit keys. Returns the number of plaintext bytes taken: all of them up to 16 KiB, or none
/// with `WouldBlock`. Never raises SIGPIPE.
///
/// On a socket without the protocol `tls` the kernel refuses (`EINVAL`) or sends unencrypted bytes,
/// depending on its version, so never call it there.
///
/// # Errors
///
/// `WouldBlock` when the socket has no room, or another errno of `sendmsg`.
pub fn send_record(socket: BorrowedFd<'_>, record_type: u8, bytes: &[u8]) -> io::Result<usize> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut iov = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: a zeroed msghdr is valid: no name, no data, no control bytes.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: CMSG_SPACE only computes.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(1) } as _;
    // SAFETY: `control` is aligned for and as large as one header with one byte
    // of data, so CMSG_FIRSTHDR is not null and the byte behind it is ours.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_TLS;
        (*header).cmsg_type = TLS_SET_RECORD_TYPE;
        (*header).cmsg_len = libc::CMSG_LEN(1) as _;
        libc::CMSG_DATA(header).write(record_type);
    }
    // SAFETY: `message` points at `iov`, `control` and `bytes`, which outlive the
    // call; sendmsg only reads them.
    let sent = retry(|| unsafe {
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    })?;
    Ok(sent as usize)
}

const TLS_TX: i32 = 1;
const TLS_RX: i32 = 2;
const TLS_SET_RECORD_TYPE: i32 = 1;

/// Room for one control header with one byte of data, aligned for `cmsghdr`.
// SAFETY: CMSG_SPACE only computes.
const CONTROL_WORDS: usize = (unsafe { libc::CMSG_SPACE(1) } as usize).div_ceil(8);

fn set_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: `value` is valid for its length, which goes along; the descriptor
    // is borrowed, hence open.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    }
    .check()?;
    Ok(())
}

/// `struct tls12_crypto_info_*` of `linux/tls.h` in its byte form: version and cipher (native
/// 16-bit), IV, key, salt, sequence. Wiped when dropped.
struct CryptoInfo {
    bytes: [u8; CryptoInfo::MAX_BYTES],
    len: usize,
}

impl CryptoInfo {
    /// Version and cipher, 12 bytes of IV and salt, a 32-byte key, the sequence.
    const MAX_BYTES: usize = 4 + 12 + 32 + 8;

    fn new(keys: &Keys<'_>) -> io::Result<CryptoInfo> {
        let Keys {
            version, cipher, ..
        } = *keys;
        if keys.key.len() != cipher.key_bytes() || keys.iv.len() != cipher.iv_bytes(version) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "key or IV does not have the cipher's length",
            ));
        }
        let sequence = keys.sequence.to_be_bytes();
        // GCM nonces have a fixed part, the salt, and 8 bytes that the kernel puts into each record
        // (TLS 1.2) or combines with the sequence number (TLS 1.3).
        let (iv, salt): (&[u8], &[u8]) = match (cipher, version) {
            (Cipher::ChaCha20Poly1305, _) => (keys.iv, &[]),
            (_, Version::Tls13) => (&keys.iv[4..], &keys.iv[..4]),
            (_, Version::Tls12) => (&sequence, keys.iv),
        };
        let mut info = CryptoInfo {
            bytes: [0; CryptoInfo::MAX_BYTES],
            len: 0,
        };
        for field in [
            &version.wire().to_ne_bytes()[..],
            &cipher.number().to_ne_bytes(),
            iv,
            keys.key,
            salt,
            &sequence,
        ] {
            info.bytes[info.len..info.len + field.len()].copy_from_slice(field);
            info.len += field.len();
        }
        Ok(info)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for CryptoInfo {
    fn drop(&mut self) {
        // SAFETY: the array is ours and valid for its whole length.
        unsafe { libc::explicit_bzero(self.bytes.as_mut_ptr().cast(), self.bytes.len()) };
    }
}

#[cfg(test)]
mod tests;
