//! Load generator and side-by-side comparison: the program behind `sealane bench`.
//!
//! A throughput figure says little on a shared machine: it moves with the
//! client, the neighbours and the clock. What an operator pays for is server CPU,
//! so everything here ends in **server CPU per operation**, read from `/proc`, and
//! in **ratios** between servers that were measured by turns on the same core.
//!
//! The generator refuses to measure something else than it was asked to: every
//! response's status and length is compared with what is expected, every
//! handshake's protocol, suite, group, key type and resumption with what was
//! pinned, and the first deviation fails the run. No error is ever averaged away.
//!
//! | file | what |
//! |---|---|
//! | `cli.rs`, `cli/` | the arguments of `sealane bench load`, `idle`, `compare` and `storm` |
//! | `load/` | the generator: [`load::Plan`] in, [`load::Outcome`] out; [`load::Probe`] |
//! | `testbed/` | what comparisons stand on: cores, site and configuration, started servers |
//! | `compare/` | cases, servers by turns, ratios, verdicts, tables |
//! | `storm/` | an established connection while others do handshakes |
//! | `response.rs` | HTTP/1 responses, sans-IO, checked against what is expected |
//! | `process.rs` | CPU and memory of a server's process tree |
//! | `histogram.rs`, `statistics.rs` | latencies; medians and spread |

pub mod compare;
pub mod load;
pub mod storm;

mod cli;
mod error;
mod histogram;
mod process;
mod response;
mod statistics;
mod testbed;
mod url;

use std::process::ExitCode;

pub use cli::Args;
pub use error::Error;
pub use histogram::Histogram;
pub use process::{CpuAccount, CpuTime, Memory, ProcessTree};
pub use response::{Expected, ResponseError, ResponseReader};
pub use statistics::Summary;
pub use testbed::Server;
pub use url::{Url, UrlError};

/// Runs what the arguments ask for and prints the result to standard output.
///
/// # Errors
///
/// Whatever keeps the measurement from being the one that was asked for: a
/// server that does not start, an unexpected status, length, negotiation or
/// resumption, a connection that fails. A missed target is not an error.
pub fn run(args: Args) -> Result<ExitCode, Error> {
    cli::run(args)
}
