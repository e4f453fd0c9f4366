//! The Linux calls that the standard library lacks, as safe functions.
//!
//! One file per topic. Every function takes borrowed descriptors, returns `io::Result`, and retries
//! on `EINTR` if every caller wants that. Nothing here knows about HTTP, TLS or the configuration.
//!
//! | module | what it holds |
//! |---|---|
//! | [`crash`] | reports of faults and of refused system calls, from signal handlers |
//! | [`epoll`] | waiting for many descriptors, and for other threads |
//! | [`ethtool`] | features of network interfaces |
//! | [`mod@file`] | reading, opening and measuring files with and without blocking; `sendfile` |
//! | [`guard`] | opening files that a user with fewer rights may have put there |
//! | [`links`] | opening files while following symbolic links of certain owners, or none |
//! | [`socket`] | accepting, sending, receiving, listening, datagrams, `TCP_INFO`, descriptor passing |
//! | [`ktls`] | kernel TLS: keys into a socket, records of other types |
//! | [`openssl`] | the system's OpenSSL and its providers, loaded when they are needed |
//! | [`OsError`] | errors in nginx's notation |
//! | [`pipe`] | moving bytes from socket to socket without a copy |
//! | [`poll`] | waiting for a few descriptors |
//! | [`privileges`] | capabilities, `no_new_privs` |
//! | [`process`] | fork, wait, identity, daemon, scheduling |
//! | [`limits`] | `rlimit` |
//! | [`sandbox`] | filters for system calls |
//! | [`sealed_memory`] | bytes for another process that never reach a disk |
//! | [`shared_memory`] | numbers that several processes read and write |
//! | [`memory`] | the heap and core dumps |
//! | [`signal`] | blocking signals and reading them from a descriptor |
//! | [`time`] | clocks and the local time zone |
//! | [`user`] | the user and group databases |
//!
//! If a kernel lacks a call (`ENOSYS`, `EOPNOTSUPP`, `EINVAL`), that is reported as the caller's
//! slow path (`WouldBlock` for the "only if cached" calls), never as a failure that an operator
//! would see.
#![allow(unsafe_code)] // The one reason for this crate; every block says why it is sound.

pub mod crash;
pub mod epoll;
pub mod ethtool;
pub mod file;
pub mod guard;
pub mod ktls;
pub mod limits;
pub mod links;
mod memfd;
pub mod memory;
pub mod openssl;
mod os_error;
pub mod pidfd;
pub mod pipe;
pub mod poll;
pub mod privileges;
pub mod process;
pub mod sandbox;
pub mod sealed_memory;
pub mod shared_memory;
pub mod signal;
pub mod socket;
pub mod time;
pub mod user;

pub use os_error::OsError;
use std::io;

/// Turns the result of a system call (-1 on error) into `io::Result`.
trait CheckReturn: Sized {
    fn check(self) -> io::Result<Self>;
}

macro_rules! check_return {
    ($($int:ty),*) => {$(
        impl CheckReturn for $int {
            fn check(self) -> io::Result<$int> {
                if self == -1 { Err(io::Error::last_os_error()) } else { Ok(self) }
            }
        }
    )*};
}
check_return!(i32, isize, i64);

/// Repeats a system call that a signal interrupted.
fn retry<T: CheckReturn>(mut call: impl FnMut() -> T) -> io::Result<T> {
    loop {
        match call().check() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => return result,
        }
    }
}
