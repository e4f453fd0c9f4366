//! Shows where a server spends its time: `perf record` around one more measurement.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Error, ProcessTree, testbed::wait_until};

/// Samples per second; a prime near 2000, to avoid running in step with timers.
const SAMPLES_PER_S: &str = "1999";
/// Symbols with a smaller share of the samples are left out of the text.
const LEAST_PERCENT: &str = "0.5";
/// Time for perf to attach and, at the end, to write its file.
const ATTACH: Duration = Duration::from_millis(300);
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// A running `perf record`.
pub(super) struct Profiler {
    perf: Child,
    data: PathBuf,
}

impl Profiler {
    /// Samples all processes of a server into `<base>.data`.
    pub(super) fn attach(server: ProcessTree, base: &Path) -> Result<Self, Error> {
        let pids = server
            .pids()
            .map_err(|source| Error::io("list the server's processes", source))?;
        let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
        let data = base.with_extension("data");
        let perf = Command::new("perf")
            .args([
                "record",
                "-q",
                "-F",
                SAMPLES_PER_S,
                "-p",
                &pids.join(","),
                "-o",
            ])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| Error::io("run perf (package linux-perf)", source))?;
        thread::sleep(ATTACH);
        Ok(Self { perf, data })
    }

    /// Stops sampling and writes the symbols, sorted by share, to `<base>.txt`.
    pub(super) fn finish(mut self) -> Result<PathBuf, Error> {
        self.interrupt();
        if !wait_until(WRITE_LIMIT, || matches!(self.perf.try_wait(), Ok(Some(_)))) {
            return Err(Error::Stalled("perf did not end after INT".into()));
        }
        let report = Command::new("perf")
            .args([
                "report",
                "--stdio",
                "--sort",
                "dso,symbol",
                "--percent-limit",
                LEAST_PERCENT,
                "-i",
            ])
            .arg(&self.data)
            .stdin(Stdio::null())
            .output()
            .map_err(|source| Error::io("run perf report", source))?;
        let text = self.data.with_extension("txt");
        if !report.status.success() {
            return Err(Error::Usage(format!(
                "perf sampled nothing (is kernel.perf_event_paranoid too high?): {}",
                String::from_utf8_lossy(&report.stderr).trim()
            )));
        }
        fs::write(&text, report.stdout)
            .map_err(|source| Error::io(format!("write {}", text.display()), source))?;
        Ok(text)
    }

    fn interrupt(&self) {
        if let Some(pid) = i32::try_from(self.perf.id()).ok().and_then(Pid::from_raw) {
            // It ends by itself when the server does.
            let _ = kill_process(pid, Signal::INT);
        }
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        if matches!(self.perf.try_wait(), Ok(None)) {
            self.interrupt();
            let _ = self.perf.wait();
        }
    }
}
