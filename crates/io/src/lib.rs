//! Everything between a socket and a protocol: no HTTP, no configuration.
//!
//! | file | what it holds |
//! |---|---|
//! | `runtime.rs`, `runtime/` | the event loop of a thread: tasks, readiness of sockets, timers |
//! | `socket.rs`, `listener.rs` | a connected socket, a listening socket |
//! | `datagram.rs`, `datagram/` | a socket for datagrams, with a peer or without |
//! | `forwarding.rs`, `forwarding/` | datagrams for another thread, or another process |
//! | `stream.rs`, `stream/` | the byte stream, plain or TLS, towards clients and origins alike |
//! | `message.rs` | what is to be sent: a head, an output chain, a budget |
//! | `chain.rs` | the output chain: memory and ranges of files |
//! | `pipe.rs` | pipes that bytes pass through from socket to socket |
//! | `buffers.rs` | buffers that connections borrow while they work |
//! | `open_file.rs` | an open file, and how one is opened without waiting |
//! | `disk.rs` | work that waits for a disk, on threads of its own |
//! | `registry.rs`, `deadline.rs` | the connections of a worker thread, and their time-outs |
//! | `turns.rs` | how handshakes share a worker thread with everything else |
//!
//! Cached files belong here as well: they use the same buffers and chains.

pub mod buffers;
pub mod chain;
pub mod datagram;
pub mod deadline;
pub mod disk;
pub mod forwarding;
pub mod listener;
pub mod message;
pub mod open_file;
pub mod pipe;
pub mod registry;
pub mod runtime;
pub mod socket;
pub mod stream;
pub mod turns;

pub use message::OutboundMessage;
pub use open_file::OpenFile;
pub use socket::Socket;
pub use stream::{Endpoint, Received, Stream, StreamError};
