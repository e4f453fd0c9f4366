//! Other processes, held by a descriptor: their number cannot become that of another one meanwhile.

use crate::CheckReturn;
use crate::process::Pid;
use crate::signal::Signal;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A process. Its descriptor can be read once it has ended.
#[derive(Debug)]
pub struct OtherProcess(OwnedFd);

impl OtherProcess {
    /// The process with this number (pidfd_open(2)).
    ///
    /// # Errors
    ///
    /// `ESRCH` when there is none, `ENOSYS` before Linux 5.3.
    pub fn open(pid: Pid) -> io::Result<OtherProcess> {
        // SAFETY: no memory is involved.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        Ok(OtherProcess(owned(fd)?))
    }

    /// Another descriptor for what the process has open under this number (pidfd_getfd(2)).
    ///
    /// # Errors
    ///
    /// `EBADF` when nothing is, `EPERM` when this process may not look into that one, `ENOSYS`
    /// before Linux 5.6.
    pub fn descriptor(&self, number: i32) -> io::Result<OwnedFd> {
        // SAFETY: the descriptor is owned, hence open, and no memory is involved.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, self.0.as_raw_fd(), number, 0) };
        owned(fd)
    }

    /// Sends a signal to it (pidfd_send_signal(2)).
    ///
    /// # Errors
    ///
    /// `ESRCH` when it has ended, `EPERM` when it belongs to another user.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let (fd, number) = (self.0.as_raw_fd(), signal.number());
        let no_details = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is owned, hence open; a null pointer stands for no details.
        let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, number, no_details, 0) };
        sent.check()?;
        Ok(())
    }
}

impl AsFd for OtherProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    let fd = i32::try_from(fd.check()?).map_err(io::Error::other)?;
    // SAFETY: the kernel just returned this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::wait_readable;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn a_descriptor_of_another_process_is_the_same_file_and_its_end_is_seen() {
        let mut cat = Command::new("cat");
        cat.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = cat.spawn().expect("coreutils");
        let pid = Pid::try_from(child.id()).expect("a number");
        let process = OtherProcess::open(pid).expect("it runs");
        let theirs = process.descriptor(1).expect("its standard output");
        std::fs::File::from(theirs)
            .write_all(b"from outside")
            .expect("a pipe");
        assert!(process.descriptor(1 << 20).is_err(), "not open");
        let ended = |patience| wait_readable(&[process.as_fd()], Some(patience)).expect("poll");
        assert_eq!(ended(Duration::ZERO), [false]);
        process.signal(Signal::Term).expect("it runs");
        assert_eq!(ended(Duration::from_secs(60)), [true]);
        let mut text = String::new();
        let mut output = child.stdout.take().expect("a pipe");
        output.read_to_string(&mut text).expect("text");
        assert_eq!(text, "from outside");
        child.wait().expect("a child");
        let gone = process.signal(Signal::Term).expect_err("it has ended");
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
        assert!(OtherProcess::open(-1).is_err());
    }
}
