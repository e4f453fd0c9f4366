//! Counts the user-space instructions of a server: `perf stat` around a measurement.
//!
//! A count varies far less than a time when neighbours use the same caches and cores, so it shows
//! small differences between settings. It says nothing about the kernel's part or about how long an
//! instruction takes: an AVX-512 instruction does the work of several.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, FileType, Mode, mknodat},
    process::{Pid, Signal, kill_process},
};

use crate::{Error, ProcessTree, load::Meter, testbed::wait_until};

/// The counted event: instructions in user space.
const EVENT: &str = "instructions:u";
/// How long perf may take to answer, and to end.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// A `perf stat` that counts between `begin` and `end`.
pub(super) struct InstructionCounter {
    perf: Child,
    /// Commands to perf, and its answers.
    orders: File,
    answers: File,
    /// Where perf writes.
    output: PathBuf,
    log: PathBuf,
    /// The named pipes, removed at the end: a reader would wait forever.
    pipes: [PathBuf; 2],
}

impl InstructionCounter {
    /// Attaches perf to all processes of a server; files go to `directory`.
    pub(super) fn attach(server: ProcessTree, directory: &Path) -> Result<Self, Error> {
        let pids = server
            .pids()
            .map_err(|source| Error::io("list the server's processes", source))?;
        let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
        let orders_path = directory.join("perf.orders");
        let answers_path = directory.join("perf.answers");
        let (output, log) = (directory.join("perf.out"), directory.join("perf.log"));
        let orders = pipe(&orders_path)?;
        let answers = pipe(&answers_path)?;
        let _ = fs::remove_file(&output);
        let messages = File::create(&log)
            .map_err(|source| Error::io(format!("create {}", log.display()), source))?;
        let perf = Command::new("perf")
            .args(["stat", "-x", ",", "-e", EVENT, "-D", "-1", "-p"])
            .arg(pids.join(","))
            .arg("--control")
            .arg(format!(
                "fifo:{},{}",
                orders_path.display(),
                answers_path.display()
            ))
            .arg("-o")
            .arg(&output)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(messages)
            .spawn()
            .map_err(|source| Error::io("run perf (package linux-perf)", source))?;
        Ok(Self {
            perf,
            orders,
            answers,
            output,
            log,
            pipes: [orders_path, answers_path],
        })
    }

    /// Sends a command and waits until perf has executed it.
    fn order(&mut self, order: &str) -> Result<(), Error> {
        let failed = |source| Error::io("direct perf", source);
        writeln!(self.orders, "{order}").map_err(failed)?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\n") {
            let limit = Timespec {
                tv_sec: i64::try_from(ANSWER_LIMIT.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: 0,
            };
            let mut watched = [PollFd::new(&self.answers, PollFlags::IN)];
            if poll(&mut watched, Some(&limit)).map_err(|errno| failed(errno.into()))? == 0 {
                return Err(self.mute());
            }
            let mut bytes = [0; 16];
            let count = self.answers.read(&mut bytes).map_err(failed)?;
            // perf ends its answer with a zero byte.
            answer.extend(bytes[..count].iter().filter(|&&byte| byte != 0));
        }
        Ok(())
    }

    fn mute(&self) -> Error {
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        Error::Usage(format!(
            "perf does not count {EVENT} (is there such a counter, and is kernel.perf_event_paranoid low enough?): {}",
            said.trim()
        ))
    }

    /// Ends perf and reads the count.
    pub(super) fn finish(mut self) -> Result<u64, Error> {
        self.interrupt();
        if !wait_until(ANSWER_LIMIT, || matches!(self.perf.try_wait(), Ok(Some(_)))) {
            return Err(Error::Stalled("perf did not end after INT".into()));
        }
        let text = fs::read_to_string(&self.output)
            .map_err(|source| Error::io(format!("read {}", self.output.display()), source))?;
        parse(&text).ok_or_else(|| self.mute())
    }

    fn interrupt(&self) {
        if let Some(pid) = i32::try_from(self.perf.id()).ok().and_then(Pid::from_raw) {
            // It ends by itself when the server does.
            let _ = kill_process(pid, Signal::INT);
        }
    }
}

impl Meter for InstructionCounter {
    fn begin(&mut self) -> Result<(), Error> {
        self.order("enable")
    }

    fn end(&mut self) -> Result<(), Error> {
        self.order("disable")
    }
}

impl Drop for InstructionCounter {
    fn drop(&mut self) {
        if matches!(self.perf.try_wait(), Ok(None)) {
            self.interrupt();
            let _ = self.perf.wait();
        }
        for pipe in &self.pipes {
            // If it remains, the next run replaces it.
            let _ = fs::remove_file(pipe);
        }
    }
}

/// Creates a named pipe. It is opened for both directions, which does not wait for perf to open its
/// end.
fn pipe(path: &Path) -> Result<File, Error> {
    let _ = fs::remove_file(path);
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .map_err(|errno| Error::io(format!("create {}", path.display()), errno.into()))?;
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|source| Error::io(format!("open {}", path.display()), source))
}

/// Reads the comma-separated output of `perf stat -x ,`: the count comes first.
/// Processors with cores of several kinds have a line for each.
fn parse(text: &str) -> Option<u64> {
    let counts = text
        .lines()
        .filter(|line| line.contains("instructions"))
        .filter_map(|line| line.split(',').next()?.parse::<u64>().ok());
    counts.reduce(|sum, count| sum + count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_comes_first() {
        let text = "# started on Sun Nov 22 2026\n\n113205,,instructions:u,1000,100.00,,\n";
        assert_eq!(parse(text), Some(113_205));
        let hybrid =
            "10,,cpu_core/instructions:u/,1,50.00,,\n5,,cpu_atom/instructions:u/,1,50.00,,\n";
        assert_eq!(parse(hybrid), Some(15));
        let nothing = "<not supported>,,instructions:u,0,100.00,,\n";
        assert_eq!(parse(nothing), None);
        assert_eq!(parse(""), None);
    }
}
