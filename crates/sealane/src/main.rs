//! Sealane: an HTTPS server that takes `nginx.conf` as it is.
//!
//! This crate is the control plane: it reads arguments and configuration as
//! root, opens everything that needs root, and hands it to one unprivileged
//! worker process, which it watches. It never looks at a byte from the network.
//!
//! | file | what |
//! |---|---|
//! | `arguments.rs`, `version.rs` | the command line, nginx's letters and words |
//! | `paths.rs`, `loader.rs`, `materials.rs` | finding and reading files |
//! | `kernel_tls.rs` | testing at startup what the kernel can do for TLS |
//! | `startup.rs` | from arguments to a validated, bound, ready-to-run server |
//! | `sockets.rs`, `pid_file.rs`, `identity.rs`, `limits.rs` | what needs privileges |
//! | `daemon.rs`, `master/`, `restarts.rs` | the master process |
//! | `sandbox.rs`, `crash.rs`, `cpus.rs` | a worker process: sandbox, crash report, CPUs |
//! | `notify.rs`, `activation.rs` | systemd: notifications; sockets from it or an old binary |
//! | `program.rs` | the binary that an upgrade executes |
//! | `reload/` | another configuration while the server runs |
//! | `control.rs`, `worker_process.rs` | the worker process and its channel to the master |
//! | `control_thread.rs` | threads of the worker process with an event loop of their own |
//! | `certificates.rs` | OCSP responses, for staples and about clients |
//! | `signaller.rs` | `-s` |
//! | `bench.rs` | `sealane bench`: where the load generator is |
//! | `doctor.rs` | `sealane doctor` |
//! | `ech_key.rs` | `sealane ech-key` |
//! | `migrate.rs` | `sealane migrate` |
//! | `summary.rs`, `defaults.rs` | the summary of `-t`; defaults that differ from nginx's |
//! | `journal.rs` | messages, on stderr and in the error log |

mod activation;
mod arguments;
mod bench;
mod certificates;
mod command;
mod control;
mod control_thread;
mod cpus;
mod crash;
mod daemon;
mod defaults;
mod dns_command;
mod doctor;
mod ech_key;
mod identity;
mod journal;
mod kernel_tls;
mod limits;
mod loader;
mod master;
mod materials;
mod migrate;
mod name_server;
mod notify;
mod paths;
mod pid_file;
mod program;
mod reload;
mod resolver;
mod restarts;
mod rotation;
mod sandbox;
mod session_store;
mod signaller;
mod sockets;
mod startup;
mod summary;
mod temp_paths;
mod terminal;
mod traces;
mod version;
mod worker_process;

use arguments::Arguments;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use terminal::say;

/// A proxied request makes some twenty allocations, three of them beyond the sizes for which
/// the C library's allocator has a fast path; this one has it for all of them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sealane_tls::use_program_allocator(); // before anything else of the TLS library
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.first().and_then(|first| first.to_str()) {
        Some("bench") => return bench::run(&arguments[1..]),
        Some("doctor") => return doctor::run(&arguments),
        Some("ech-key") => return ech_key::run(&arguments[1..]),
        Some("migrate") => return migrate::run(&arguments),
        // nginx knows letters only, and answers on stderr.
        Some("--version") => return answer(version::LINE),
        Some("--help") => return answer(&format!("{}{}", version::LINE, version::help())),
        _ => {}
    }
    match Arguments::parse(&arguments) {
        Ok(arguments) => run(&arguments),
        Err(error) => {
            say(&format!("sealane: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Handles every option of nginx's command line.
fn run(arguments: &Arguments) -> ExitCode {
    let places = paths::Places::new(arguments);
    if arguments.show_version {
        say(version::LINE);
        if arguments.show_help {
            say(&version::help());
        }
        if arguments.show_build {
            say(&version::build(&places));
        }
        if !arguments.test {
            return ExitCode::SUCCESS;
        }
    }
    command::run(arguments, &places)
}

/// Writes to stdout.
fn answer(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
