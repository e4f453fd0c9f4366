//! Signals without handlers: they are blocked and read from a descriptor, so no code ever runs in
//! the middle of other code.

use crate::process::Pid;
use crate::{CheckReturn, retry};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The signals that a server handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Signal {
    /// Reload.
    Hup = libc::SIGHUP,
    /// Stop at once.
    Int = libc::SIGINT,
    /// Stop gracefully.
    Quit = libc::SIGQUIT,
    /// Reopen logs.
    Usr1 = libc::SIGUSR1,
    /// Upgrade the binary.
    Usr2 = libc::SIGUSR2,
    /// Stop at once.
    Term = libc::SIGTERM,
    /// A child has ended.
    Chld = libc::SIGCHLD,
    /// Stop the workers gracefully.
    Winch = libc::SIGWINCH,
    /// A write to a closed pipe or socket.
    Pipe = libc::SIGPIPE,
    /// Asynchronous I/O.
    Io = libc::SIGIO,
    /// A timer.
    Alrm = libc::SIGALRM,
    /// Not catchable: the process ends.
    Kill = libc::SIGKILL,
}

const ALL: [Signal; 12] = [
    Signal::Hup,
    Signal::Int,
    Signal::Quit,
    Signal::Usr1,
    Signal::Usr2,
    Signal::Term,
    Signal::Chld,
    Signal::Winch,
    Signal::Pipe,
    Signal::Io,
    Signal::Alrm,
    Signal::Kill,
];

impl Signal {
    /// Its number, as kill(1) knows it.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// Its name with the prefix: `SIGTERM`.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Hup => "SIGHUP",
            Signal::Int => "SIGINT",
            Signal::Quit => "SIGQUIT",
            Signal::Usr1 => "SIGUSR1",
            Signal::Usr2 => "SIGUSR2",
            Signal::Term => "SIGTERM",
            Signal::Chld => "SIGCHLD",
            Signal::Winch => "SIGWINCH",
            Signal::Pipe => "SIGPIPE",
            Signal::Io => "SIGIO",
            Signal::Alrm => "SIGALRM",
            Signal::Kill => "SIGKILL",
        }
    }

    fn from_number(number: u32) -> Option<Signal> {
        ALL.into_iter()
            .find(|signal| signal.number() as u32 == number)
    }
}

/// A signal that was sent to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Which one.
    pub signal: Signal,
    /// Who sent it; 0 for the kernel.
    pub sender: Pid,
}

/// Signals that are blocked and read one by one instead of having their usual effect.
///
/// Threads started later inherit the blocking. So does a forked child, which must open its own
/// queue.
#[derive(Debug)]
pub struct SignalQueue {
    fd: OwnedFd,
}

/// Blocks `signals` in the calling thread. A [`SignalQueue`] opened for them later also returns
/// those that arrived meanwhile.
///
/// # Errors
/// None that the kernel documents for these arguments.
pub fn block(signals: &[Signal]) -> io::Result<()> {
    let set = signal_set(signals);
    // SAFETY: `set` is initialised and outlives the call.
    let code =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Lets all signals arrive in the calling thread. For a forked child that is about to execute a
/// program, which would inherit what is blocked.
///
/// # Errors
/// None that the kernel documents for these arguments.
pub fn unblock_all() -> io::Result<()> {
    let set = signal_set(&[]);
    // SAFETY: `set` is initialised and outlives the call.
    let code =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) };
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Lets all signals arrive in the program that `command` starts, which would inherit what the
/// calling thread has blocked.
pub fn unblock_in_child(command: &mut Command) -> &mut Command {
    // SAFETY: what runs in the child between fork() and exec() is sigprocmask(), which is
    // async-signal-safe, on a set on its stack; neither it nor an error of it allocates.
    unsafe { command.pre_exec(unblock_all) }
}

impl SignalQueue {
    /// Blocks `signals` in the calling thread and opens a queue for them (signalfd(2)). Signals
    /// that are already pending are in the queue.
    ///
    /// # Errors
    ///
    /// When there are no descriptors.
    pub fn open(signals: &[Signal]) -> io::Result<SignalQueue> {
        block(signals)?;
        let set = signal_set(signals);
        let flags = libc::SFD_NONBLOCK | libc::SFD_CLOEXEC;
        // SAFETY: `set` is initialised and outlives the call.
        let fd = unsafe { libc::signalfd(-1, &raw const set, flags) }.check()?;
        // SAFETY: the kernel just returned this descriptor; nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(SignalQueue { fd })
    }

    /// The next signal, or `None` if none is pending.
    ///
    /// # Errors
    ///
    /// The errno of `read`.
    pub fn next(&self) -> io::Result<Option<Received>> {
        loop {
            let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
            let len = size_of::<libc::signalfd_siginfo>();
            // SAFETY: `info` has room for `len` bytes.
            let read =
                retry(|| unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), len) });
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            // SAFETY: plain old data, zeroed and then filled by the kernel.
            let info = unsafe { info.assume_init() };
            if let Some(signal) = Signal::from_number(info.ssi_signo) {
                return Ok(Some(Received {
                    signal,
                    sender: info.ssi_pid as Pid,
                }));
            }
        }
    }
}

impl AsFd for SignalQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Makes the kernel send SIGCHLD and leave ended children to be collected (wait(2)). The parent
/// process may have ignored that signal, which persists across exec: the kernel would then collect
/// children itself and send nothing, even if the signal is blocked.
///
/// # Errors
/// None that the kernel documents for these arguments.
pub fn expect_children() -> io::Result<()> {
    set_disposition(Signal::Chld, libc::SIG_DFL)
}

/// Ignores a signal for the whole process.
///
/// # Errors
///
/// `EINVAL` for a signal that cannot be ignored.
pub fn ignore(signal: Signal) -> io::Result<()> {
    set_disposition(signal, libc::SIG_IGN)
}

fn set_disposition(signal: Signal, disposition: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: an all-zero sigaction is valid: no flags, empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = disposition;
    // SAFETY: `action` is valid; SIG_DFL and SIG_IGN run no code of ours.
    unsafe { libc::sigaction(signal.number(), &raw const action, std::ptr::null_mut()) }.check()?;
    Ok(())
}

/// Sends a signal to a process (kill(2)).
///
/// # Errors
///
/// `ESRCH` when there is no such process, `EPERM` when it belongs to another user.
pub fn send(pid: Pid, signal: Signal) -> io::Result<()> {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(pid, signal.number()) }.check()?;
    Ok(())
}

/// Sends a signal to all processes of a group (kill(2)). Only while the leader exists or was not
/// collected, because the number may belong to others afterwards.
///
/// # Errors
///
/// `ESRCH` when there is no such group, `EPERM` when none of it may be signalled.
pub fn send_to_group(leader: Pid, signal: Signal) -> io::Result<()> {
    // 0 and 1 would mean this process's own group, and all processes.
    if leader <= 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    send(-leader, signal)
}

/// Whether a process with this id exists (perhaps another user's).
pub fn process_exists(pid: Pid) -> bool {
    // SAFETY: no memory is involved; signal 0 only checks.
    match unsafe { libc::kill(pid, 0) }.check() {
        Ok(_) => true,
        Err(error) => error.raw_os_error() == Some(libc::EPERM),
    }
}

fn signal_set(signals: &[Signal]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set; the numbers are valid signals.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal.number());
        }
        set.assume_init()
    }
}

#[cfg(test)]
mod tests;
