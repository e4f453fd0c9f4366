//! Entry points for the fuzzers: a whole worker without a network.
//!
//! The worker is the real one, with a configuration that has every kind of handler and filter.
//! Its clients and the servers behind it are socket pairs and a Unix socket, driven by the same
//! event loop, so that a run needs no other thread but those that read files.

mod answers;
mod client;
mod filtered;
mod origin;
mod site;
mod steps;

pub use filtered::fuzz_body_filters;
pub use steps::fuzz_worker;
