//! The processes from outside: the real binary, started, signalled, killed.

#![allow(clippy::unwrap_used)] // In a test the panic is the failure.

mod command_line;
mod lifetime;
mod logs;
mod site;
mod sockets;
