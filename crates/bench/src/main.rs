//! The program `sealane-bench`, which `sealane bench` runs.

#[cfg(test)]
mod manual;

use clap::Parser;
use std::process::ExitCode;

/// A storm makes thousands of connections and responses, and the generator's cost must be small
/// compared with the server's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Load generator and comparison, in server CPU per operation
#[derive(Parser)]
#[command(name = "sealane bench", bin_name = "sealane bench", version)]
struct CommandLine {
    #[command(flatten)]
    arguments: sealane_bench::Args,
}

fn main() -> ExitCode {
    // clap prints help and errors and ends the process by itself.
    let line = CommandLine::parse();
    sealane_bench::run(line.arguments).unwrap_or_else(|error| {
        eprintln!("sealane bench: {error}");
        ExitCode::FAILURE
    })
}
