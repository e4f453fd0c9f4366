//! Load generator and side-by-side comparison: the program behind `sealane bench`.
//!
//! A throughput figure says little on a shared machine: it varies with the client, the neighbours
//! and the clock rate. What an operator pays for is server CPU, so everything here is reported as
//! **server CPU per operation**, read from `/proc`, and as **ratios** between servers measured
//! alternately on the same core.
//!
//! The generator refuses to measure anything other than what was requested. It compares every
//! response's status and length with the expected values, and every handshake's protocol, suite,
//! group, key type and resumption with the pinned ones. The first deviation fails the run. No error
//! is ever averaged away.
//!
//! | file | what |
//! |---|---|
//! | `cli.rs`, `cli/` | the arguments of `sealane bench load`, `idle`, `compare` and its relatives |
//! | `load/` | the generator: [`load::Plan`] in, [`load::Outcome`] out; [`load::Probe`] |
//! | `testbed/` | the basis of comparisons: cores, site and configuration, started servers |
//! | `compare/` | cases, alternating servers, ratios, verdicts, tables |
//! | `storm/` | an established connection while others do handshakes |
//! | `datagrams.rs` | what datagrams cost that are passed on (UDP) |
//! | `report/` | a page about what comparisons and storms measured, beside published tables |
//! | `response.rs` | HTTP/1 responses, sans-IO, checked against what is expected |
//! | `process.rs` | CPU and memory of a server's process tree |
//! | `histogram.rs`, `statistics.rs` | latencies; medians and spread |

pub mod compare;
pub mod load;
pub mod storm;

mod cli;
mod datagrams;
mod error;
mod histogram;
mod process;
mod report;
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
pub use testbed::{Kind, Server};
pub use url::{Url, UrlError};

/// Runs what the arguments request and prints the result to standard output.
///
/// # Errors
///
/// Anything that keeps the measurement from being the requested one: a server that does not start,
/// an unexpected status, length, negotiation or resumption, a connection that fails. A missed
/// target is not an error.
pub fn run(args: Args) -> Result<ExitCode, Error> {
    cli::run(args)
}
