//! QEMU as a child process: one boot, from the kernel's start to power off.
//!
//! Emulation (TCG) is the default: it works everywhere and always ends.
//! `SEALANE_VM_ACCEL=kvm` uses the hardware, after a boot that does nothing has
//! shown that it works: the device may be there and hang.

use crate::kernels::{Kernel, cache};
use crate::protocol::{Message, Request, Verdict};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// What a boot that proves hardware virtualisation may take.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// How often a guest is booted that dies, or hangs, before its first case: that says something
/// about the emulator, not about the server.
const BOOTS: u32 = 3;

/// The guest's memory. Its file system lives there too.
const MEMORY_MIB: u32 = 1024;

/// How a guest's processor is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// QEMU's translator.
    Emulation,
    /// The processor itself.
    Hardware,
}

impl Accelerator {
    fn options(self) -> [&'static str; 4] {
        match self {
            // One thread for both processors: with one each, QEMU 7.2 now and then
            // executes an instruction that the kernel has just patched away.
            Accelerator::Emulation => ["-accel", "tcg,thread=single", "-cpu", "max"],
            Accelerator::Hardware => ["-accel", "kvm", "-cpu", "host"],
        }
    }

    /// What `SEALANE_VM_ACCEL` asks for and this machine can do.
    pub fn choose(kernel: &Kernel) -> Accelerator {
        static CHOSEN: OnceLock<Accelerator> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let asked = std::env::var("SEALANE_VM_ACCEL").unwrap_or_default();
            if asked != "kvm" {
                return Accelerator::Emulation;
            }
            match boots_and_ends(kernel) {
                Ok(()) => Accelerator::Hardware,
                Err(reason) => {
                    eprintln!("SEALANE_VM_ACCEL=kvm: {reason}; using emulation");
                    Accelerator::Emulation
                }
            }
        })
    }
}

/// Boots without a file system: the kernel panics for want of an init, and
/// `panic=-1` with `-no-reboot` ends the machine.
fn boots_and_ends(kernel: &Kernel) -> Result<(), String> {
    let mut command = qemu(Accelerator::Hardware, kernel);
    command.args(["-append", "panic=-1 quiet", "-serial", "none"]);
    let mut child = command.spawn().map_err(|error| format!("qemu: {error}"))?;
    let status = wait(&mut child, PROBE_LIMIT);
    end(&mut child);
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("a probe boot failed: qemu, {status}")),
        None => Err(format!(
            "a probe boot did not end within {} s",
            PROBE_LIMIT.as_secs()
        )),
    }
}

fn qemu(accelerator: Accelerator, kernel: &Kernel) -> Command {
    let memory = MEMORY_MIB.to_string();
    let mut command = Command::new("qemu-system-x86_64");
    command
        .args([
            "-nodefaults",
            "-no-reboot",
            "-display",
            "none",
            "-nic",
            "none",
        ])
        .args(["-smp", "2", "-m", memory.as_str()])
        .args(accelerator.options())
        .arg("-kernel")
        .arg(kernel.vmlinuz())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    None
}

fn end(child: &mut Child) {
    // Both fail only for a process that is gone already.
    let _ = child.kill();
    let _ = child.wait();
}

/// How one case of a boot ended.
#[derive(Clone, Debug)]
pub struct CaseReport {
    /// How.
    pub verdict: Verdict,
    /// How long it took in the guest.
    pub duration: Duration,
    /// Why, or what it measured.
    pub detail: String,
}

#[derive(Debug, Default)]
struct Progress {
    ended: HashMap<String, CaseReport>,
    running: Option<String>,
    /// Whether the driver has said anything.
    has_begun: bool,
    /// Why nothing more will come.
    over: Option<String>,
}

/// One boot: runs in a thread of its own, is asked case by case.
#[derive(Debug)]
pub struct Boot {
    kernel: Kernel,
    directory: PathBuf,
    progress: Mutex<Progress>,
    changed: Condvar,
}

impl Boot {
    /// A boot of `kernel` that keeps its files in the cache.
    pub fn new(kernel: Kernel) -> Boot {
        let directory = cache().join("vm/boots").join(kernel.label);
        Boot {
            kernel,
            directory,
            progress: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Runs the guest to its end, or to `limit`.
    pub fn run(&self, archive: &[u8], request: &Request, limit: Duration) {
        let mut over = String::new();
        for _ in 0..BOOTS {
            over = self
                .try_run(archive, request, limit)
                .unwrap_or_else(|error| error);
            if self.lock().has_begun {
                break;
            }
            eprintln!("{}: no case began, {over}", self.kernel.release);
        }
        self.lock().over = Some(over);
        self.changed.notify_all();
    }

    /// Notes that this boot cannot happen.
    pub fn fail(&self, reason: &str) {
        self.lock().over = Some(reason.to_owned());
        self.changed.notify_all();
    }

    fn try_run(
        &self,
        archive: &[u8],
        request: &Request,
        limit: Duration,
    ) -> Result<String, String> {
        let directory = &self.directory;
        let describe = |what: &Path, error: std::io::Error| format!("{}: {error}", what.display());
        std::fs::create_dir_all(directory).map_err(|error| describe(directory, error))?;
        let [initrd, console, results] =
            ["initrd", "console.log", "results.log"].map(|name| directory.join(name));
        std::fs::write(&initrd, archive).map_err(|error| describe(&initrd, error))?;
        std::fs::write(&results, b"").map_err(|error| describe(&results, error))?;
        let mut command = qemu(Accelerator::choose(&self.kernel), &self.kernel);
        command
            .arg("-initrd")
            .arg(&initrd)
            .arg("-serial")
            .arg(format!("file:{}", console.display()))
            .arg("-serial")
            .arg(format!("file:{}", results.display()))
            .arg("-append")
            .arg(format!(
                // The clock of an emulated processor is as good as any; without it
                // programs would read the time by system calls.
                "console=ttyS0 panic=-1 loglevel=4 random.trust_cpu=on tsc=reliable clocksource=tsc {}",
                request.command_line()
            ));
        let mut child = command.spawn().map_err(|error| {
            format!("qemu-system-x86_64: {error}; run scripts/install-vm-deps.sh")
        })?;
        let finished = self.follow(&mut child, &results, limit);
        end(&mut child);
        let mut errors = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut stderr, &mut errors);
        }
        Ok(format!(
            "{finished}\n---- end of the console, {} ----\n{}{errors}",
            console.display(),
            tail(&console)
        ))
    }

    /// Reads results as they come; returns how the guest ended.
    fn follow(&self, child: &mut Child, results: &Path, limit: Duration) -> String {
        let deadline = Instant::now() + limit;
        let mut seen = 0;
        let mut finished = false;
        loop {
            let running = matches!(child.try_wait(), Ok(None));
            // Read after the look at the process: what it wrote last is there then.
            let text = std::fs::read(results).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let complete = text.rfind('\n').map_or(0, |at| at + 1);
            for line in text[seen..complete].lines() {
                finished |= self.take(line);
            }
            seen = complete;
            match (running, finished) {
                (false, true) => return "the guest ended in order".to_owned(),
                (false, false) => return "the guest ended before the driver was done".to_owned(),
                (true, _) if Instant::now() > deadline => {
                    return format!("the guest did not end within {} s", limit.as_secs());
                }
                (true, _) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Takes one line; returns whether it says that the driver is done.
    fn take(&self, line: &str) -> bool {
        let Some(message) = Message::parse(line) else {
            return false;
        };
        let finished = message == Message::Finished;
        let mut progress = self.lock();
        progress.has_begun = true;
        match message {
            Message::Started { case } => progress.running = Some(case),
            Message::Ended {
                case,
                verdict,
                duration_ms,
                detail,
            } => {
                progress.running = None;
                let duration = Duration::from_millis(duration_ms);
                progress.ended.insert(
                    case,
                    CaseReport {
                        verdict,
                        duration,
                        detail,
                    },
                );
            }
            Message::Finished => progress.running = None,
        }
        drop(progress);
        self.changed.notify_all();
        finished
    }

    /// Waits for a case.
    ///
    /// # Errors
    ///
    /// Why there is no result: the guest died before, or in it.
    pub fn case(&self, name: &str) -> Result<CaseReport, String> {
        let mut progress = self.lock();
        loop {
            if let Some(report) = progress.ended.get(name) {
                return Ok(report.clone());
            }
            if let Some(over) = &progress.over {
                let part = match progress.running.as_deref() {
                    Some(running) if running == name => "while this case ran".to_owned(),
                    Some(running) => format!("in case {running}, before this one"),
                    None => "and this case did not run".to_owned(),
                };
                return Err(format!("{part}: {over}"));
            }
            progress = self
                .changed
                .wait(progress)
                .expect("no thread panics with the lock held");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress
            .lock()
            .expect("no thread panics with the lock held")
    }
}

/// The last part of a console's output, without the carriage returns.
fn tail(console: &Path) -> String {
    const SHOWN_LINES: usize = 60;
    let text = std::fs::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    shown
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}
