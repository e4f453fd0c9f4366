//! Kernel TLS in stock Debian kernels: an optimised binary, real clients, a
//! machine of its own.
//!
//! The kernel that tests run on seldom has the module `tls`, and its state is
//! nobody's to change. So the cases run in guests: QEMU boots a kernel of Debian's
//! with an initial file system that holds the server, curl, openssl, tcpdump, strace
//! and a driver. Results come back over a serial port, one line for each case.
//!
//! | part | what |
//! |---|---|
//! | [`kernels`] | which kernels there are; `scripts/vm/fetch-kernels.sh` gets them |
//! | [`image`] | the initial file system, as a cpio archive |
//! | [`machine`] | QEMU: starting, watching, ending |
//! | [`protocol`] | what driver and host say to each other |
//! | [`wire`] | packet captures opened with the client's key log |
//! | `src/bin/guest` | the driver, and every case |
//! | `tests/vm.rs` | one test for each case and kernel |
//!
//! `docs/vm-tests.md` says how to run them and how to add a case.

pub mod image;
pub mod kernels;
pub mod machine;
pub mod protocol;
pub mod wire;
