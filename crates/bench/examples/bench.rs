//! `sealane bench` without the server: measures other servers, and lets the
//! load generator be worked on without building everything else.

use std::process::ExitCode;

use clap::Parser;

/// Load generator and comparison of servers.
#[derive(Parser)]
#[command(name = "bench")]
struct Line {
    #[command(flatten)]
    args: sealane_bench::Args,
}

fn main() -> ExitCode {
    sealane_bench::run(Line::parse().args).unwrap_or_else(|error| {
        eprintln!("bench: {error}");
        ExitCode::FAILURE
    })
}
