//! `sealane bench`: runs the load generator, which is a separate program so that none of it
//! is in the server.

use crate::program::Program;
use crate::terminal::say;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The package and its program.
const PROGRAM: &str = "sealane-bench";

/// What the command takes: the program's arguments, which has a manual of its own.
pub(crate) fn describe() -> clap::Command {
    let arguments = clap::Arg::new("arguments").num_args(0..);
    let arguments = arguments.help("Those of sealane-bench(1)");
    clap::Command::new("sealane bench")
        .about("Load generator and comparison of servers")
        .arg(arguments.trailing_var_arg(true).allow_hyphen_values(true))
}

/// Becomes the load generator; returns only if that fails. `arguments` begin with `bench`.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let arguments = &arguments[1..];
    let here = Program::of_this_process();
    let beside = here.path().with_file_name(PROGRAM);
    // A name alone is looked for in the directories of PATH.
    for path in [beside, PathBuf::from(PROGRAM)] {
        let error = Command::new(&path).args(arguments).exec();
        if error.kind() != io::ErrorKind::NotFound {
            say(&format!(
                "sealane bench: cannot run {}: {error}\n",
                path.display()
            ));
            return ExitCode::FAILURE;
        }
    }
    say(&format!(
        "sealane bench: the load generator, {PROGRAM}, is not installed: it is neither next to {} \
         nor in PATH. Copy it from the release archive, or build it:\n    cargo build --release \
         --locked -p {PROGRAM}\n",
        here.path().display()
    ));
    ExitCode::FAILURE
}
