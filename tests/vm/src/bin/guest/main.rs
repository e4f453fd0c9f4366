//! The driver that the guest's init starts: runs the cases and writes a line
//! about each to the second serial port.
//!
//! ```text
//! sealane-vm-guest                  in the guest; what to run is on the kernel's command line
//! sealane-vm-guest --list REQUEST   on the host: the names of the cases
//! ```
//!
//! | file | what |
//! |---|---|
//! | `cases/*.rs` | the cases, by theme |
//! | `lab.rs` | what they share: files, the standard server, checks |
//! | `program.rs`, `server.rs` | processes: clients, and servers with their logs |
//! | `client.rs` | curl and `openssl s_client` |
//! | `relay.rs`, `sniffer.rs` | between client and server: faults, packet captures |
//! | `kernel.rs` | the kernel's counters and modules |
//! | `statistics.rs` | tables of measurements |

mod cases;
mod client;
mod kernel;
mod lab;
mod program;
mod relay;
mod server;
mod sniffer;
mod statistics;
mod uploads;

use cases::Case;
use lab::{Lab, Skip};
use sealane_vm::protocol::{Message, Request, Verdict};
use std::any::Any;
use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

/// The serial port for results; the kernel's console is the first one.
const RESULTS: &str = "/dev/ttyS1";

/// Where the last panic happened, which its payload does not say.
static PANICKED_AT: Mutex<String> = Mutex::new(String::new());

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, request] = arguments.as_slice()
        && option == "--list"
    {
        for case in wanted(&Request::parse(request)) {
            println!("{}", case.name);
        }
        return ExitCode::SUCCESS;
    }
    let command_line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    // On a host this would stop servers and mount disks.
    if !command_line.contains("guest.everything=") {
        eprintln!("sealane-vm-guest: this is not a guest; see docs/vm-tests.md");
        return ExitCode::FAILURE;
    }
    run_all(&Request::parse(&command_line));
    ExitCode::SUCCESS
}

/// The cases that a request asks for, in their order. A filter by name reaches
/// those of every part.
fn wanted(request: &Request) -> Vec<&'static Case> {
    cases::all()
        .filter(|case| request.everything || case.core)
        .filter(|case| match &request.filter {
            Some(filter) => case.name.contains(filter.as_str()),
            None => true,
        })
        .collect()
}

fn run_all(request: &Request) {
    let mut results = File::options()
        .write(true)
        .open(RESULTS)
        .expect("the machine has two serial ports");
    let mut say = |message: Message| {
        println!("{message}");
        writeln!(results, "{message}").expect("the serial port takes everything");
    };
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        *PANICKED_AT
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner()) = place;
    }));
    let lab = Lab::new(request.clone());
    for case in wanted(request) {
        say(Message::Started {
            case: case.name.to_owned(),
        });
        let started = Instant::now();
        let (verdict, detail) = run(&lab, case);
        say(Message::Ended {
            case: case.name.to_owned(),
            verdict,
            duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            detail,
        });
    }
    say(Message::Finished);
}

/// Runs one case; a panic is a failure, with what the server logged meanwhile.
fn run(lab: &Lab, case: &Case) -> (Verdict, String) {
    lab.begin_case();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        (case.run)(lab);
        lab.end_case();
    }));
    match outcome {
        Ok(()) => (Verdict::Passed, lab.take_notes()),
        Err(payload) => match payload.downcast::<Skip>() {
            Ok(skip) => (Verdict::Skipped, skip.0),
            Err(payload) => {
                let message = message_of(payload.as_ref());
                let place = PANICKED_AT
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner())
                    .clone();
                (
                    Verdict::Failed,
                    format!("{message}\nat {place}\n{}", lab.evidence()),
                )
            }
        },
    }
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}
