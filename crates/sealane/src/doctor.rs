//! `sealane doctor`: what this machine can do for TLS, what a configuration
//! makes of it, and how to improve it. `docs/doctor.md` is its manual.
//!
//! | file | what |
//! |---|---|
//! | `report.rs` | the findings as data, which is also the JSON schema |
//! | `kernel.rs`, `kernel_tls.rs` | the module, the self-test's matrix, what follows from them |
//! | `interfaces.rs`, `cpu.rs`, `limits.rs` | the rest of the machine |
//! | `keys.rs` | whether each private key signs, and how fast |
//! | `servers.rs` | which servers of a configuration use kernel TLS |
//! | `render.rs` | the report as text |

mod cpu;
mod interfaces;
mod kernel;
mod kernel_tls;
mod keys;
mod limits;
mod render;
mod report;
mod servers;

use crate::arguments::Arguments;
use crate::journal::Journal;
use crate::paths::Places;
use crate::startup::{self, Reading};
use crate::terminal::{self, say};
use crate::version;
use clap::{CommandFactory, Parser};
use keys::Devices;
use report::{Report, Use};
use sealane_conf::Config;
use sealane_log::Logger;
use sealane_server::worker;
use sealane_server::{Materials, TlsOfServers};
use sealane_sys::guard::Guard;
use sealane_tls::Capabilities;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// There is something to improve.
const IMPROVE: u8 = 1;
/// The doctor could not do its work: arguments, or the configuration, are wrong.
const FAILED: u8 = 2;

#[derive(Parser)]
#[command(
    name = "sealane doctor",
    bin_name = "sealane doctor",
    about = "Checks what this machine supports for TLS, and how to improve it",
    after_help = "Exit status: 0 nothing to improve, 1 something to improve, 2 the checks could \
                  not run.\nAll checks use the loopback interface. Nothing is changed, except \
                  that the kernel loads its \nmodule \"tls\" if this runs as root."
)]
struct Request {
    /// Configuration file: also say for each server whether kernel TLS will be used
    #[arg(short = 'c', value_name = "filename")]
    conf_file: Option<PathBuf>,
    /// Prefix path, as the server has it; without -c, the configuration below it is read
    #[arg(short = 'p', value_name = "prefix")]
    prefix: Option<PathBuf>,
    /// Global directives out of the configuration file, as the server has them
    #[arg(short = 'g', value_name = "directives")]
    globals: Option<OsString>,
    /// Print JSON (docs/doctor.md has the schema)
    #[arg(long)]
    json: bool,
}

/// What the command takes.
pub(crate) fn describe() -> clap::Command {
    Request::command()
}

/// Does what the command line asks for; `arguments` begin with `doctor`.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    // clap prints help and mistakes (exit status 2) and ends the process by itself.
    let request = Request::parse_from(arguments);
    let subject = match Subject::read(&request) {
        Ok(subject) => subject,
        Err(Unreadable) => return ExitCode::from(FAILED),
    };
    let report = examine(subject.as_ref());
    let text = if request.json {
        match serde_json::to_string_pretty(&report) {
            Ok(json) => format!("{json}\n"),
            Err(error) => {
                say(&format!("sealane doctor: cannot write JSON: {error}\n"));
                return ExitCode::from(FAILED);
            }
        }
    } else {
        render::text(&report, terminal::wants_colours())
    };
    // A reader that went away (`| head`) has what it wanted.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if report.good {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(IMPROVE)
    }
}

/// A configuration, read as the server reads it.
struct Subject {
    file: PathBuf,
    config: Config,
    materials: Materials,
    devices: Devices,
    tls: TlsOfServers,
    workers: u32,
}

/// The configuration cannot be used; why is on stderr.
struct Unreadable;

impl Subject {
    fn read(request: &Request) -> Result<Option<Subject>, Unreadable> {
        if request.conf_file.is_none() && request.prefix.is_none() {
            if request.globals.is_some() {
                say("sealane doctor: option \"-g\" requires \"-c\" or \"-p\"\n");
                return Err(Unreadable);
            }
            return Ok(None);
        }
        let arguments = Arguments {
            prefix: request.prefix.clone(),
            conf_file: request.conf_file.clone(),
            globals: request.globals.clone(),
            ..Arguments::default()
        };
        let places = Places::new(&arguments);
        let journal = Journal::starting(Logger::discard());
        let refuse = |diagnostic: &sealane_conf::Diagnostic| {
            journal.diagnostic(diagnostic);
            Unreadable
        };
        let reading = startup::read_recorded(&arguments, &places, &journal);
        let Reading { config, files, .. } = reading.map_err(|_refused| Unreadable)?;
        let materials = files.read(config.http.as_ref(), &Guard::default());
        let mut materials = materials.map_err(|error| refuse(&error))?;
        let devices = Devices::open(config.http.as_ref(), &mut materials, &journal);
        let devices = devices.map_err(|message| {
            say(&format!("sealane doctor: {message}\n"));
            Unreadable
        })?;
        let tls = TlsOfServers::build(&config, &materials).map_err(|error| refuse(&error))?;
        for warning in &tls.warnings {
            journal.diagnostic(warning);
        }
        Ok(Some(Subject {
            file: places.conf_file,
            workers: worker::thread_count(config.main.worker_processes),
            config,
            materials,
            devices,
            tls,
        }))
    }
}

fn examine(subject: Option<&Subject>) -> Report {
    // Before the self-test, which may load the module.
    let loaded_before = kernel::is_module_loaded();
    let capabilities = Capabilities::probe_with_receive();
    let kernel = kernel::examine(loaded_before, kernel_tls::loadable(&capabilities));
    let interfaces = interfaces::examine();
    let (cpu, cpu_problem) = cpu::examine();
    let (limits, limits_problem) =
        limits::examine(subject.map(|subject| (&subject.config, subject.workers)));
    let mut problems = kernel_tls::problems(&capabilities, &kernel, cpu::has_aes(&cpu));
    let notes = kernel_tls::notes(&capabilities, &kernel, &interfaces);
    problems.extend(cpu_problem);
    problems.extend(limits_problem);
    let configuration = subject.map(|subject| {
        let (mut configuration, found) = servers::examine(
            &subject.file,
            &subject.config,
            subject.workers,
            &subject.tls,
            &capabilities,
        );
        problems.extend(found);
        let http = subject.config.http.as_ref();
        let (keys, found) = subject.devices.test_keys(http, &subject.materials);
        configuration.keys = keys;
        problems.extend(found);
        configuration
    });
    let kernel_tls = kernel_tls::matrix(&capabilities);
    Report {
        schema: report::SCHEMA,
        version: version::NAME_AND_VERSION,
        good: problems.is_empty(),
        verdict: verdict(&kernel_tls, configuration.as_ref(), problems.len()),
        problems,
        notes,
        kernel,
        kernel_tls,
        interfaces,
        tls_library: sealane_tls::library_version(),
        cpu,
        accelerators: cpu::accelerators(),
        limits,
        configuration,
    }
}

/// The report in one sentence.
fn verdict(
    kernel_tls: &report::KernelTls,
    configuration: Option<&report::Configuration>,
    problems: usize,
) -> String {
    let suites = kernel_tls.suites.len();
    let working = kernel_tls
        .suites
        .iter()
        .filter(|suite| suite.transmit.works);
    let kernel = match working.count() {
        0 => "Kernel TLS cannot be used".to_owned(),
        all if all == suites => "Kernel TLS works with every suite".to_owned(),
        some => format!("Kernel TLS works with {some} of {suites} suites"),
    };
    let servers = configuration.map_or(String::new(), |configuration| {
        // It does not apply to QUIC.
        let over_tcp = |server: &&report::Server| {
            !server.listen.is_empty() || !server.starttls_listen.is_empty()
        };
        let servers: Vec<_> = configuration.servers.iter().filter(over_tcp).collect();
        let using = |server: &&&report::Server| matches!(server.kernel_tls, Use::Yes | Use::Partly);
        let count = servers.iter().filter(using).count();
        match servers.len() {
            0 => String::new(),
            all => format!("; {count} of {all} TLS servers use it"),
        }
    });
    let problems = match problems {
        0 => "nothing to improve".to_owned(),
        1 => "1 thing to improve".to_owned(),
        count => format!("{count} things to improve"),
    };
    format!("{kernel}{servers}; {problems}.")
}
