//! The Sealane that is started in the place of nginx, and nginx when it is started again.

use super::nginx::{Nginx, Paths, Socket};
use super::{POLL, Request, VARIABLE};
use crate::activation::NGINX_VARIABLE;
use crate::journal::Journal;
use crate::master::{Other, UPGRADE_VARIABLE};
use sealane_log::{Logger, OsError};
use sealane_sys::process::Pid;
use sealane_sys::signal::unblock_in_child;
use sealane_sys::{poll, socket};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A master process that was started with nginx's sockets. Once this is dropped, it is alone.
pub(super) struct Successor {
    pub(super) pid: u32,
    child: Child,
    /// What it reports: that of a new binary to the old one.
    other: Other,
    journal: Journal,
}

/// What has become of it.
pub(super) enum Outcome {
    /// Its worker accepts connections.
    Serves,
    /// It has ended, or does not get there; how, for a sentence that begins with its name.
    Ended(String),
}

impl Successor {
    /// Starts the program with nginx's paths and sockets.
    pub(super) fn start(
        program: &Path,
        paths: &Paths,
        request: &Request,
        sockets: &[Socket],
    ) -> Result<Successor, String> {
        let failed = |error: io::Error| {
            let (program, error) = (program.display(), OsError(&error));
            format!("cannot start {program} ({error}); nginx serves as before")
        };
        let (inherited, list) = inherit(sockets).map_err(failed)?;
        let (ours, theirs) = socket::seqpacket_pair().map_err(failed)?;
        let theirs = socket::inheritable(theirs.as_fd()).map_err(failed)?;
        let mut command = Command::new(program);
        command.arg("-p").arg(&paths.prefix);
        command.arg("-c").arg(&paths.conf_file);
        command.arg("-e").arg(&paths.error_log);
        if let Some(globals) = &request.globals {
            command.arg("-g").arg(globals);
        }
        command
            .env(NGINX_VARIABLE, list)
            .env(UPGRADE_VARIABLE, theirs.as_raw_fd().to_string())
            .env(VARIABLE, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let child = unblock_in_child(&mut command).spawn().map_err(failed)?;
        drop(inherited);
        let pid = child.id();
        let number = Pid::try_from(pid).map_err(|_| "a process id that is none".to_owned())?;
        Ok(Successor {
            pid,
            child,
            other: Other::started(number, ours),
            // What it says about its binary does not matter here.
            journal: Journal::running(Logger::discard()),
        })
    }

    /// Waits until its worker accepts connections. If it does not get there, it is stopped.
    pub(super) fn wait_until_it_serves(&mut self, patience: Duration) -> Outcome {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            match self.state() {
                Outcome::Serves if self.other.is_serving() => return Outcome::Serves,
                Outcome::Ended(how) => return Outcome::Ended(how),
                Outcome::Serves => {}
            }
            let fds: Vec<_> = self.other.fd().into_iter().collect();
            if poll::wait_readable(&fds, Some(POLL)).is_err() {
                std::thread::sleep(POLL);
            }
        }
        self.stop();
        let seconds = patience.as_secs();
        Outcome::Ended(format!("does not serve after {seconds} s and was stopped"))
    }

    /// Reads what it reports, and whether it has ended.
    pub(super) fn state(&mut self) -> Outcome {
        while self.other.hear(&self.journal) {}
        match self.child.try_wait() {
            Ok(Some(status)) => Outcome::Ended(format!("has ended ({status})")),
            Ok(None) => Outcome::Serves,
            Err(error) => Outcome::Ended(format!("is out of sight ({})", OsError(&error))),
        }
    }

    /// Ends it, with its worker.
    pub(super) fn stop(&mut self) {
        let own = Pid::try_from(self.pid).unwrap_or_default();
        let _ = sealane_sys::signal::send(own, sealane_sys::signal::Signal::Term);
        let _ = self.child.wait();
    }
}

/// nginx again, as it was, with the sockets that it had.
pub(super) fn start_nginx(nginx: &Nginx, sockets: &[Socket], request: &Request) -> io::Result<()> {
    let (inherited, list) = inherit(sockets)?;
    let mut command = Command::new(&nginx.program);
    command.arg("-p").arg(&nginx.prefix);
    command.arg("-c").arg(&nginx.conf_file);
    if let Some(globals) = &request.globals {
        command.arg("-g").arg(globals);
    }
    // With sockets it takes itself for an upgrade, which is in the background already.
    command.process_group(0).env(NGINX_VARIABLE, list);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    unblock_in_child(&mut command).spawn()?;
    drop(inherited);
    Ok(())
}

/// Descriptors for an executed program, open until it has started, and nginx's list of them.
fn inherit(sockets: &[Socket]) -> io::Result<(Vec<OwnedFd>, String)> {
    let (mut inherited, mut list) = (Vec::new(), String::new());
    for socket in sockets {
        let fd = socket::inheritable(socket.fd.as_fd())?;
        list.push_str(&format!("{};", fd.as_raw_fd()));
        inherited.push(fd);
    }
    Ok((inherited, list))
}
