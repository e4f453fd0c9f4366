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
//! | `key_log.rs` | `SSLKEYLOGFILE`, in debug builds |
//! | `key_process/` | the process that holds private keys |
//! | `reload/` | another configuration while the server runs |
//! | `control.rs`, `worker_process.rs` | the worker process and its channel to the master |
//! | `control_thread.rs` | threads of the worker process with an event loop of their own |
//! | `certificates.rs` | OCSP responses, for staples and about clients |
//! | `signaller.rs` | `-s` |
//! | `bench.rs` | `sealane bench`: where the load generator is |
//! | `doctor.rs` | `sealane doctor` |
//! | `ech_key.rs` | `sealane ech-key` |
//! | `migrate.rs` | `sealane migrate` |
//! | `running.rs`, `top.rs` | `sealane status`, `certificates`, `top`: a running server is asked |
//! | `takeover.rs` | `sealane takeover` |
//! | `manual.rs` | test: manual page and completions have what the command line takes |
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
#[cfg(debug_assertions)]
mod key_log;
mod key_process;
mod limits;
mod loader;
#[cfg(test)]
mod manual;
mod master;
mod materials;
mod migrate;
mod name_server;
mod notify;
mod paths;
mod pid_file;
mod program;
mod programs;
mod reload;
mod resolver;
mod restarts;
mod rotation;
mod running;
mod sandbox;
mod session_store;
mod signaller;
mod sockets;
mod startup;
mod summary;
mod system_load;
mod taken_texts;
mod takeover;
mod temp_paths;
mod terminal;
mod top;
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

/// A command with a name, beside nginx's letters.
struct Subcommand {
    name: &'static str,
    /// Gets the arguments behind the program's, with the name in front.
    run: fn(&[OsString]) -> ExitCode,
    /// What it takes, for `--help`, the manual page and the completions of shells.
    describe: fn() -> clap::Command,
}

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "top",
        run: top::run,
        describe: top::describe,
    },
    Subcommand {
        name: "status",
        run: running::status::run,
        describe: running::status::describe,
    },
    Subcommand {
        name: "certificates",
        run: running::certificates::run,
        describe: running::certificates::describe,
    },
    Subcommand {
        name: "doctor",
        run: doctor::run,
        describe: doctor::describe,
    },
    Subcommand {
        name: "migrate",
        run: migrate::run,
        describe: migrate::describe,
    },
    Subcommand {
        name: "takeover",
        run: takeover::run,
        describe: takeover::describe,
    },
    Subcommand {
        name: "ech-key",
        run: ech_key::run,
        describe: ech_key::describe,
    },
    Subcommand {
        name: "bench",
        run: bench::run,
        describe: bench::describe,
    },
];

fn main() -> ExitCode {
    sealane_tls::use_program_allocator(); // before anything else of the TLS library
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let first = arguments.first().and_then(|first| first.to_str());
    let named = SUBCOMMANDS.iter().find(|it| first == Some(it.name));
    if let Some(subcommand) = named {
        return (subcommand.run)(&arguments);
    }
    match first {
        // nginx knows letters only, and answers on stderr.
        Some("--version") => return answer(version::LINE),
        Some("--help") => return answer(&help()),
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

/// The answer to `--help`.
fn help() -> String {
    let places = paths::Places::new(&Arguments::default());
    format!("{}{}", version::LINE, version::help(&places))
}

/// Handles every option of nginx's command line.
fn run(arguments: &Arguments) -> ExitCode {
    let places = paths::Places::new(arguments);
    if arguments.show_version {
        say(version::LINE);
        if arguments.show_help {
            say(&version::help(&places));
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
