//! Entry points for the fuzzers: a whole worker without a network.
//!
//! It is the real worker, with a configuration that has every kind of handler and filter. Its
//! clients and upstream servers are socket pairs and a Unix socket on the same event loop, so a
//! run needs no other threads than those that read files.

mod answers;
mod client;
mod filtered;
mod origin;
mod site;
mod steps;

pub use filtered::fuzz_body_filters;
pub use steps::fuzz_worker;
