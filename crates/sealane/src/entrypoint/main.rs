//! `sealane-entrypoint`: what starts the server in a container, in the place of the shell script of
//! nginx's image, because an image without a distribution has no shell.
//!
//! Before the server it does what is in `/docker-entrypoint.d`, in the order of the names, and the
//! two steps of nginx's own files there that are of use here: `15-local-resolvers.envsh` and
//! `20-envsubst-on-templates.sh`. Then this process becomes the command. `docs/installing.md` is
//! its manual.

mod steps;
mod templates;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use steps::Environment;

/// The directory of further steps.
const STEPS: &str = "/docker-entrypoint.d";
/// Only for these commands: another one (a shell, `sealane-bench`) is executed at once.
const SERVERS: [&str; 2] = ["sealane", "nginx"];
/// The command of an image that names none.
const DEFAULT: [&str; 3] = ["sealane", "-g", "daemon off;"];

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if words.is_empty() {
        words = DEFAULT.map(OsString::from).to_vec();
    }
    let mut environment: Environment = std::env::vars_os().collect();
    let name = Path::new(&words[0]).file_name();
    let starts_server = name.is_some_and(|name| SERVERS.iter().any(|server| name == *server));
    if starts_server && let Err(message) = steps::run(Path::new(STEPS), &mut environment) {
        eprintln!("sealane-entrypoint: {message}");
        return ExitCode::FAILURE;
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().envs(&environment);
    let error = command.exec();
    eprintln!(
        "sealane-entrypoint: cannot run {}: {error}",
        words[0].display()
    );
    ExitCode::FAILURE
}
