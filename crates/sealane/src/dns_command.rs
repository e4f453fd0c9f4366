//! `dns_command`: a program of the operator's that makes TXT records for DNS-01.
//!
//! The worker process may execute nothing, so it asks the master, which trusts it with little: the
//! path, the user and the time limit come from the configuration, and what is asked for has to be
//! a record by which a name of the configuration is verified ([`permitted`]). The program runs
//! alone, in a process group of its own, with a clean environment and no descriptor of the
//! master's. `docs/certificates.md` says what it can rely on.

use crate::control::DnsCommandRequest;
use crate::identity::Identity;
use crate::journal::{Journal, note};
use sealane_conf::Config;
use sealane_conf::model::{AcmeDns, AcmeIdentifier, AcmeIssuer, DnsCommand, Http, is_dns_name};
use sealane_log::OsError;
use sealane_sys::guard::Guard;
use sealane_sys::poll;
use sealane_sys::process::{self, ExitStatus, Pid};
use sealane_sys::signal::{self, Signal};
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Before the name that is verified (RFC 8555 section 8.4).
pub(crate) const PREFIX: &str = "_acme-challenge";

/// The text of a record: SHA-256 in base64url without padding.
const VALUE_BYTES: usize = 43;

/// Where the program's own programs are found.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Lines of a program's stderr that go into the log, and how long they may be.
const MAX_LINES: usize = 50;
const MAX_LINE_BYTES: usize = 500;

/// What is read of stderr at once, so that a program that writes without end does not keep the
/// master from signals.
const READ_BYTES: usize = 64 << 10;

/// The first descriptor after the standard streams.
const FIRST_DESCRIPTOR: u32 = 3;

/// The issuers of a configuration's certificates that have a program.
fn commands(http: Option<&Http>) -> impl Iterator<Item = (&AcmeIssuer, &DnsCommand)> {
    let servers = http.into_iter().flat_map(|http| &http.servers);
    let certificates = servers.filter_map(|server| server.acme_certificate.as_ref());
    certificates.filter_map(|certificate| match &certificate.issuer.dns {
        Some(AcmeDns::Command(command)) => Some((&*certificate.issuer, command)),
        _ => None,
    })
}

/// Checks that the programs can be run.
///
/// # Errors
/// Which one cannot, and why.
pub(crate) fn check(config: &Config, guard: &Guard) -> Result<(), String> {
    for (issuer, command) in commands(config.http.as_ref()) {
        let name = &issuer.name;
        let failed = |why: &str| format!("acme_issuer \"{name}\" cannot be used: {why}");
        if !config.main.master_process {
            return Err(failed(
                "\"dns_command\" needs the master process, which runs the program; remove \
                 \"master_process off\"",
            ));
        }
        find_user(command, None).map_err(|why| failed(&why))?;
        check_program(command, guard).map_err(|why| failed(&why))?;
    }
    Ok(())
}

fn check_program(command: &DnsCommand, guard: &Guard) -> Result<(), String> {
    guard.check_program(&command.program).map_err(|error| {
        let (path, error) = (command.program.display(), OsError(&error));
        format!("\"{path}\" of \"dns_command\" cannot be executed ({error})")
    })
}

/// Whom the program runs as; `None`: as this process.
fn find_user(command: &DnsCommand, worker: Option<&Identity>) -> Result<Option<Identity>, String> {
    let Some(user) = &command.user else {
        return Ok(worker.cloned());
    };
    if process::effective_uid() != 0 {
        return Err("\"user=\" of \"dns_command\" needs a master process that is root".to_owned());
    }
    let identity = Identity::named(user).map_err(|why| format!("\"dns_command\": {why}"))?;
    Ok(Some(identity))
}

/// The program that a worker may have run for its request.
///
/// # Errors
/// What is wrong with the request. The worker may have been taken over, so nothing of it is
/// believed that the configuration does not say as well.
pub(crate) fn permitted<'a>(
    http: Option<&'a Http>,
    request: &DnsCommandRequest,
) -> Result<&'a DnsCommand, &'static str> {
    let of_value = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if request.value.len() != VALUE_BYTES || !request.value.bytes().all(of_value) {
        return Err("the value is not that of a challenge");
    }
    let servers = http.into_iter().flat_map(|http| &http.servers);
    let certificates = servers.filter_map(|server| server.acme_certificate.as_ref());
    let mut of_issuer =
        certificates.filter(|certificate| certificate.issuer.name == request.issuer);
    let certificate = of_issuer.find(|certificate| {
        let mut identifiers = certificate.identifiers.iter();
        identifiers.any(|identifier| is_record_of(&request.name, identifier))
    });
    let certificate = certificate.ok_or("no certificate of this issuer needs the record")?;
    let Some(AcmeDns::Command(command)) = &certificate.issuer.dns else {
        return Err("the issuer has no \"dns_command\"");
    };
    match request.record_name == request.name || is_within(&request.record_name, command) {
        true => Ok(command),
        false => Err("the alias does not lead into \"zone=\""),
    }
}

fn is_record_of(name: &str, identifier: &AcmeIdentifier) -> bool {
    let AcmeIdentifier::Dns(identifier) = identifier else {
        return false;
    };
    let bare = identifier.strip_prefix("*.").unwrap_or(identifier);
    let rest = name.strip_prefix(PREFIX);
    rest.and_then(|rest| rest.strip_prefix('.')) == Some(bare)
}

/// Whether a name is below `zone=`.
pub(crate) fn is_within(name: &str, command: &DnsCommand) -> bool {
    let Some(zone) = &command.zone else {
        return false;
    };
    let inner = name.strip_suffix(zone.as_str());
    is_dns_name(name) && inner.is_some_and(|inner| inner.is_empty() || inner.ends_with('.'))
}

/// A program that runs.
pub(crate) struct Running {
    pid: Pid,
    /// Its name in messages.
    title: String,
    /// Until it ends.
    stderr: Option<PipeReader>,
    lines: Lines,
    timeout: Duration,
    /// `None` when that was done.
    kill_at: Option<Instant>,
}

impl Running {
    /// Starts the program of a request that is [`permitted`]. `worker` is the user of worker
    /// processes.
    ///
    /// # Errors
    /// Why it cannot be started.
    pub(crate) fn start(
        command: &DnsCommand,
        request: &DnsCommandRequest,
        worker: Option<&Identity>,
        guard: &Guard,
    ) -> Result<Running, String> {
        // Its file may have changed since the configuration was checked.
        check_program(command, guard)?;
        let user = find_user(command, worker)?;
        let failed = |error: io::Error| {
            let (path, error) = (command.program.display(), OsError(&error));
            format!("\"{path}\" cannot be executed ({error})")
        };
        let (stderr, writer) = io::pipe().map_err(failed)?;
        // All of them are closed on exec already; inherited ones may not be. Best effort: old
        // kernels cannot.
        let _ = process::close_on_exec_from(FIRST_DESCRIPTOR);
        let mut program = Command::new(&command.program);
        program
            .arg(if request.is_added { "add" } else { "remove" })
            .args([&request.name, &request.value])
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("ACME_ISSUER", &request.issuer)
            .env("ACME_RECORD_NAME", &request.record_name)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(writer)
            .process_group(0);
        if let Some(user) = &user {
            // Without supplementary groups.
            program.uid(user.uid()).gid(user.gid());
        }
        let child = signal::unblock_in_child(&mut program).spawn();
        let child = child.map_err(failed)?;
        let pid = Pid::try_from(child.id()).map_err(|error| failed(io::Error::other(error)))?;
        let (path, issuer) = (command.program.display(), &request.issuer);
        Ok(Running {
            pid,
            title: format!("acme issuer \"{issuer}\": \"{path}\""),
            stderr: Some(stderr),
            lines: Lines::default(),
            timeout: command.timeout,
            kill_at: Some(Instant::now() + command.timeout),
        })
    }

    /// Its process id, which is also that of its group.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// When it is killed.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.kill_at
    }

    /// Where its stderr can be read.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.stderr.as_ref().map(AsFd::as_fd)
    }

    /// Its time is over: kills it with its process group. Not after it was collected.
    pub(crate) fn kill(&mut self) {
        self.kill_at = None;
        self.end_group();
    }

    /// Kills what there is of its process group. Not after it was collected.
    pub(crate) fn end_group(&self) {
        // There may be nothing left of it.
        let _ = signal::send_to_group(self.pid, Signal::Kill);
    }

    /// Reads a part of what it writes; waits if there is nothing.
    pub(crate) fn read(&mut self, journal: &Journal) {
        let mut bytes = vec![0; READ_BYTES];
        let read = self.stderr.as_mut().map(|pipe| pipe.read(&mut bytes));
        match read {
            Some(Ok(count @ 1..)) => {
                let title = &self.title;
                self.lines.take(&bytes[..count], |line| {
                    note!(journal, Warn, "{title} says: {line}");
                });
            }
            _ => self.stderr = None,
        }
    }

    /// It has ended and was collected: what became of it.
    ///
    /// # Errors
    /// Why it has failed, with its last line.
    pub(crate) fn finish(mut self, status: ExitStatus, journal: &Journal) -> Result<(), String> {
        // As much as a pipe holds; processes that it has left behind may go on writing.
        for _ in 0..2 {
            let readable = self
                .fd()
                .map(|fd| poll::wait_readable(&[fd], Some(Duration::ZERO)));
            if !matches!(readable.as_ref().map(|it| it.as_deref()), Some(Ok([true]))) {
                break;
            }
            self.read(journal);
        }
        let title = &self.title;
        self.lines
            .end(|line| note!(journal, Warn, "{title} says: {line}"));
        if self.lines.left_out_bytes > 0 {
            let count = self.lines.left_out_bytes;
            note!(
                journal,
                Warn,
                "{title} says more, {count} bytes are left out"
            );
        }
        let why = match status {
            ExitStatus::Code(0) => return Ok(()),
            ExitStatus::Signal { .. } if self.kill_at.is_none() => {
                format!("the program was killed after {} s", self.timeout.as_secs())
            }
            ExitStatus::Signal { signal, .. } => format!("the program exited on signal {signal}"),
            ExitStatus::Code(code) => format!("the program exited with code {code}"),
        };
        Err(match self.lines.last {
            last if last.is_empty() => why,
            last => format!("{why}: {last}"),
        })
    }
}

/// Makes lines for the log of what a program writes.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
    count: usize,
    /// The newest that was logged.
    last: String,
    left_out_bytes: u64,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], mut log: impl FnMut(&str)) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.count >= MAX_LINES {
                self.left_out_bytes += part.len() as u64;
                continue;
            }
            let room = MAX_LINE_BYTES - self.begun.len();
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            let (kept, rest) = text.split_at(text.len().min(room));
            self.begun.extend(kept);
            self.left_out_bytes += rest.len() as u64;
            if part.ends_with(b"\n") {
                self.end(&mut log);
            }
        }
    }

    /// Ends the line that is begun.
    fn end(&mut self, mut log: impl FnMut(&str)) {
        let line = std::mem::take(&mut self.begun);
        let line = String::from_utf8_lossy(line.trim_ascii());
        if line.is_empty() {
            return;
        }
        self.count += 1;
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        self.last = line.chars().map(plain).collect();
        log(&self.last);
    }
}

#[cfg(test)]
mod tests;
