//! Leaving the terminal.

use sealane_sys::file::{self, Standard};
use sealane_sys::process::{self, Fork};
use std::fs::OpenOptions;
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::AsFd;

/// Tells the process that started us that the server runs.
#[derive(Debug)]
pub(crate) struct Ready(PipeWriter);

/// Continues as a daemon: in the background, in its own session, without
/// standard input and output. Standard error stays until the logs take over.
///
/// The process that was started ends with 0 when [`Ready::tell`] is called, or
/// with 1 when the daemon ends first. So the caller knows that
/// the pid file is written and the worker started, which nginx leaves to chance.
///
/// # Errors
/// The call that failed.
pub(crate) fn detach() -> Result<Ready, (&'static str, io::Error)> {
    let (mut reader, writer) = io::pipe().map_err(|error| ("pipe()", error))?;
    match process::fork().map_err(|error| ("fork()", error))? {
        Fork::Parent(_) => {
            drop(writer);
            let ready = reader.read_exact(&mut [0]).is_ok();
            process::exit_now(if ready { 0 } else { 1 });
        }
        Fork::Child => drop(reader),
    }
    process::new_session().map_err(|error| ("setsid()", error))?;
    process::set_umask(0);
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(|error| ("open(\"/dev/null\")", error))?;
    for standard in [Standard::Input, Standard::Output] {
        file::replace_standard(null.as_fd(), standard).map_err(|error| ("dup2()", error))?;
    }
    Ok(Ready(writer))
}

impl Ready {
    /// Lets the process that was started end with success.
    pub(crate) fn tell(mut self) {
        // If this fails, the waiting process is gone.
        let _ = self.0.write_all(&[1]);
    }
}
