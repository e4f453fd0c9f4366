//! Every case of the guest's driver, on every kernel: one test each, named
//! `KERNEL::FILE::CASE`. The guests boot side by side, and each runs its cases in
//! one boot, in order.
//!
//! Without further ado the core part runs; `SEALANE_VM_EVERYTHING=1` (make
//! vm-test) adds the rest, `SEALANE_TEST_LONG=1` (make test-long) the rest with
//! the counts of a soak. A filter (`cargo test -p sealane-vm --test vm -- keyupdate`)
//! reaches the guests too.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sealane_vm::image::Image;
use sealane_vm::kernels::{Kernel, cache};
use sealane_vm::machine::Boot;
use sealane_vm::protocol::{Request, Verdict};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

/// What a guest may take, in emulation on a loaded machine.
const CORE_LIMIT: Duration = Duration::from_secs(600);
const LIMIT: Duration = Duration::from_secs(3600);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if std::env::consts::ARCH != "x86_64" {
        eprintln!("vm: the guests are made for x86_64 and are left out on this machine");
        return libtest_mimic::run(&arguments, Vec::new()).exit_code();
    }
    let programs = Programs::find();
    let request = request(&arguments);
    let cases = programs.cases(&request);
    let mut trials = Vec::new();
    for (label, kernel) in [
        ("bookworm", Kernel::bookworm()),
        ("backports", Kernel::backports()),
    ] {
        let names = cases
            .iter()
            .map(|case| (case.clone(), format!("{label}::{case}")));
        match kernel {
            Ok(kernel) => {
                let boot = Arc::new(Boot::new(kernel));
                let mut wanted = false;
                for (case, name) in names {
                    let asked = Arc::clone(&boot);
                    let trial = Trial::ignorable_test(name, move || outcome(&asked, &case));
                    wanted |= !arguments.is_filtered_out(&trial);
                    trials.push(trial);
                }
                if wanted && !arguments.list {
                    programs.start(boot, &request);
                }
            }
            // Every mirror has Debian 12's kernel; the newer one may be missing.
            Err(reason) if label == "bookworm" => {
                eprintln!("vm: {reason}");
                return ExitCode::FAILURE;
            }
            Err(reason) => trials.extend(names.map(|(_, name)| {
                let reason = reason.clone();
                Trial::ignorable_test(name, move || Ok(Completion::ignored_with(reason)))
            })),
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| value == "1")
}

fn request(arguments: &Arguments) -> Request {
    let long = is_set("SEALANE_TEST_LONG");
    // `bookworm::records::` chooses a kernel and cases; the guest knows cases only.
    let filter = arguments.filter.as_deref().map(|filter| {
        let labels = ["bookworm::", "backports::"];
        let case = labels.iter().find_map(|label| filter.strip_prefix(label));
        case.unwrap_or(filter).to_owned()
    });
    let is_label = |filter: &String| ["bookworm", "backports"].contains(&filter.as_str());
    Request {
        everything: long || is_set("SEALANE_VM_EVERYTHING"),
        long,
        filter: filter.filter(|filter| !filter.is_empty() && !is_label(filter)),
    }
}

/// What one case said, for the test that carries its name.
fn outcome(boot: &Boot, case: &str) -> Result<Completion, Failed> {
    let report = boot.case(case)?;
    match report.verdict {
        Verdict::Passed => {
            if !report.detail.is_empty() {
                println!(
                    "\n{case} on {}, {:.1} s:\n{}",
                    boot.kernel().release,
                    report.duration.as_secs_f64(),
                    report.detail
                );
            }
            Ok(Completion::Completed)
        }
        Verdict::Failed => Err(report.detail.into()),
        Verdict::Skipped => Ok(Completion::ignored_with(report.detail)),
    }
}

/// The server under test and the driver.
struct Programs {
    sealane: PathBuf,
    driver: PathBuf,
}

impl Programs {
    /// The driver beside this test, and the server that `SEALANE_BINARY` names or, without it, the
    /// one that the other tests use.
    fn find() -> Programs {
        Programs {
            sealane: sealane_tests::sealane_binary(),
            driver: PathBuf::from(env!("CARGO_BIN_EXE_sealane-vm-guest")),
        }
    }

    /// The cases that the driver would run.
    fn cases(&self, request: &Request) -> Vec<String> {
        let output = Command::new(&self.driver)
            .args(["--list", &request.command_line()])
            .output()
            .expect("the driver was built");
        let names = String::from_utf8(output.stdout).expect("names of cases are text");
        names.lines().map(str::to_owned).collect()
    }

    /// Boots in a thread of its own.
    fn start(&self, boot: Arc<Boot>, request: &Request) {
        let image = Image::of_guest(boot.kernel(), &self.sealane, &self.driver);
        let mut image = match image {
            Ok(image) => image,
            Err(reason) => return boot.fail(&reason),
        };
        let nginx = cache().join("peers/nginx-reference/sbin/nginx");
        if request.everything
            && nginx.exists()
            && let Err(reason) = image.add_program(&nginx, "bin/nginx")
        {
            return boot.fail(&reason);
        }
        let (request, limit) = (
            request.clone(),
            if request.everything {
                LIMIT
            } else {
                CORE_LIMIT
            },
        );
        std::thread::spawn(move || boot.run(&image.archive(), &request, limit));
    }
}
