//! `sealane takeover`: takes the place of a running nginx. `docs/installing.md` is its manual.
//!
//! ```text
//!  takeover                       nginx's master          Sealane's master
//!  reads the configuration
//!  pidfd_getfd() <──────────────  listening sockets
//!  fork, exec ── sockets ─────────────────────────────>   opens everything, starts its worker
//!                                 (both serve) <────────  "serving"
//!  QUIT ──────────────────────>   finishes, ends
//!  ends ──────────────────────────────────────────────>   the pid file gets its name
//! ```
//!
//! nginx's own way, USR2, executes the file that nginx was started from, so that file would have to
//! be replaced, also when the takeover fails. Its sockets are duplicated instead, which nginx does
//! not notice: until it gets QUIT nothing about it has changed, and a failure before that needs no
//! rollback. For Sealane it is the upgrade of a binary (`master/upgrade.rs`), with this process as
//! the old one.
//!
//! While nginx ends, its service must not find Sealane's number in the pid file: stop commands of
//! nginx's packages signal whatever process is named there, also after nginx has ended by itself.
//! So the file is named `.oldbin` until all of that is over.
//!
//! | file | what |
//! |---|---|
//! | `nginx.rs` | the nginx that runs: its paths, its process, its sockets |
//! | `successor.rs` | the Sealane that is started |

mod nginx;
mod successor;

use crate::arguments::arguments_of_subcommand;
use crate::migrate;
use crate::program::Program;
use crate::terminal::say;
use clap::{CommandFactory, Parser, ValueHint};
use nginx::{Nginx, Paths};
use sealane_log::OsError;
use sealane_sys::poll;
use sealane_sys::signal::{self, Signal};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use successor::{Outcome, Successor};

/// nginx serves as before.
const NOT_TAKEN_OVER: u8 = 1;
/// The same, because the configuration does not work here.
const REFUSED: u8 = 2;

/// How long Sealane may take until it serves: it may have to look up names and test the kernel.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long the commands may take that nginx's service runs at its end.
const SERVICE_PATIENCE: Duration = Duration::from_secs(60);
/// How often that is checked.
const POLL: Duration = Duration::from_millis(50);
/// The same of the service, which is asked by a command.
const SERVICE_POLL: Duration = Duration::from_millis(200);

/// Tells a new master that the old "binary" is this program; see `PidFile::create_aside`.
pub(crate) const VARIABLE: &str = "SEALANE_TAKEOVER";

#[derive(Parser)]
#[command(
    name = "sealane takeover",
    bin_name = "sealane takeover",
    about = "Takes the place of a running nginx, with its configuration and its sockets",
    after_help = "Exit status: 0 Sealane serves and nginx has ended, 1 nginx serves as before, 2 \
                  the same, \nbecause its configuration does not work here. Run it as root."
)]
struct Request {
    /// nginx's program; without it, the one in PATH
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    nginx: Option<PathBuf>,
    /// nginx's configuration file; without it, the one that was compiled into nginx
    #[arg(short = 'c', value_name = "filename", value_hint = ValueHint::FilePath)]
    conf_file: Option<PathBuf>,
    /// nginx's prefix; without it, the one that was compiled into nginx
    #[arg(short = 'p', value_name = "prefix", value_hint = ValueHint::DirPath)]
    prefix: Option<PathBuf>,
    /// Global directives out of the configuration file, as nginx has them
    #[arg(short = 'g', value_name = "directives")]
    globals: Option<OsString>,
    /// Only check what would happen
    #[arg(long)]
    dry_run: bool,
}

/// What the command takes.
pub(crate) fn describe() -> clap::Command {
    Request::command()
}

/// Does what the command line asks for; `arguments` begin with `takeover`.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let request: Request = match arguments_of_subcommand(arguments, NOT_TAKEN_OVER) {
        Ok(request) => request,
        Err(code) => return code,
    };
    match take_over(&request) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, code }) => {
            say(&format!("sealane takeover: {message}\n"));
            ExitCode::from(code)
        }
    }
}

/// Why nginx goes on.
struct Failure {
    message: String,
    code: u8,
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure {
            message,
            code: NOT_TAKEN_OVER,
        }
    }
}

/// A line about what was done.
fn step(text: &str) {
    // Nobody reads along; that is no reason to stop half-way.
    let _ = writeln!(io::stdout(), "{text}");
}

fn take_over(request: &Request) -> Result<(), Failure> {
    let paths = Paths::find(request)?;
    let conf_file = paths.conf_file.display();
    let report = migrate::examine_file(&paths.conf_file, &paths.prefix, request.globals.clone());
    if !report.works() {
        let _ = io::stdout().write_all(report.text().as_bytes());
        return Err(Failure {
            message:
                "the configuration does not work here, for the reasons above; nginx serves as \
                      before"
                    .to_owned(),
            code: REFUSED,
        });
    }
    step(&format!("{conf_file}: everything works here"));
    let nginx = Nginx::find(&paths, request.globals.as_deref())?;
    let sockets = nginx.sockets()?;
    let addresses = sockets.iter().map(nginx::Socket::shown).collect::<Vec<_>>();
    let addresses = addresses.join(", ");
    step(&format!(
        "nginx, process {}, listens on {addresses}",
        nginx.pid
    ));
    if request.dry_run {
        step("nothing was changed (--dry-run)");
        return Ok(());
    }
    // Were this process to end half-way, both servers would serve.
    if let Err(error) = signal::block(&[Signal::Hup, Signal::Int, Signal::Term]) {
        return Err(format!("sigprocmask() failed ({})", OsError(&error)).into());
    }
    let program = Program::of_this_process();
    let mut successor = Successor::start(program.path(), &paths, request, &sockets)?;
    step(&format!(
        "Sealane, process {}, starts with these sockets",
        successor.pid
    ));
    if let Outcome::Ended(how) = successor.wait_until_it_serves(START_PATIENCE) {
        return Err(format!(
            "Sealane {how}; see the messages above and its error log. nginx serves as before"
        )
        .into());
    }
    step("Sealane serves, too");
    let names = nginx::keep_names(&sockets);
    if let Err(error) = nginx.process.signal(Signal::Quit) {
        successor.stop();
        nginx::give_names_back(names);
        let (pid, error) = (nginx.pid, OsError(&error));
        return Err(
            format!("cannot stop nginx, process {pid} ({error}); it serves as before").into(),
        );
    }
    step("nginx finishes what it has begun and ends (this command waits for it)");
    let ended = wait_for_nginx(&nginx, &mut successor);
    nginx::give_names_back(names);
    if let Outcome::Ended(how) = ended {
        return Err(restart(&nginx, &sockets, request, &how).into());
    }
    step("nginx has ended");
    let pid = successor.pid;
    drop(successor); // it has the pid file from now on
    say_what_to_do(&paths, &nginx, pid);
    Ok(())
}

/// Waits until nginx has ended, with all that belongs to its service, or Sealane.
fn wait_for_nginx(nginx: &Nginx, successor: &mut Successor) -> Outcome {
    while !has_ended(nginx, POLL) {
        if let Outcome::Ended(how) = successor.state() {
            return Outcome::Ended(how);
        }
    }
    nginx.wait_for_its_service(SERVICE_PATIENCE, SERVICE_POLL);
    successor.state()
}

/// Whether nginx has ended, after so much time at most.
fn has_ended(nginx: &Nginx, patience: Duration) -> bool {
    let readable = poll::wait_readable(&[nginx.process.as_fd()], Some(patience));
    readable.is_ok_and(|readable| readable[0])
}

/// Sealane has ended after nginx was told to: nginx is started again, with the same sockets, in
/// which connections have waited meanwhile.
fn restart(nginx: &Nginx, sockets: &[nginx::Socket], request: &Request, how: &str) -> String {
    let deadline = Instant::now() + START_PATIENCE;
    // It gives its pid file and the files of Unix sockets away until its end.
    while !has_ended(nginx, POLL) && Instant::now() < deadline {}
    match successor::start_nginx(nginx, sockets, request) {
        Ok(()) => format!("Sealane {how}; nginx was started again with the same sockets"),
        Err(error) => format!(
            "Sealane {how}, and nginx cannot be started again ({}): start it now",
            OsError(&error)
        ),
    }
}

fn say_what_to_do(paths: &Paths, nginx: &Nginx, pid: u32) {
    let conf_file = paths.conf_file.display();
    step(&format!(
        "\nSealane serves in the place of nginx (process {pid})."
    ));
    step(&format!(
        "  read the configuration again   sealane -p {} -c {conf_file} -s reload",
        paths.prefix.display()
    ));
    step(&format!(
        "  back to nginx                  kill -QUIT {pid}, then start nginx"
    ));
    if std::path::Path::new("/run/systemd/system").exists() {
        let unit = nginx.unit().unwrap_or("nginx.service");
        step(&format!(
            "  after the next start of the machine, too:\n    echo 'SEALANE_OPTIONS=\"-p {} -c \
             {conf_file}\"' >/etc/default/sealane\n    systemctl disable {unit}\n    systemctl \
             enable sealane.service\n  Until then Sealane is no service of systemd; \"systemctl \
             start sealane\" makes it one\n  after kill -QUIT {pid}, with a pause.",
            paths.prefix.display()
        ));
    }
}
