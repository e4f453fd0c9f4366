//! Processes: creating them, waiting for them, and changing what they may do.

use crate::{CheckReturn, retry};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// A process id.
pub type Pid = i32;

/// Which side of a [`fork`] this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fork {
    /// The new process.
    Child,
    /// The old one, with the id of the new one.
    Parent(Pid),
}

/// Forks the process (fork(2)).
///
/// A child of a process with several threads gets only the calling thread, with locks of the other
/// threads locked forever. So this refuses with [`io::ErrorKind::Unsupported`] if the process has
/// more than one thread (as far as `/proc` can be read).
///
/// # Errors
///
/// `Unsupported` in a process with several threads, otherwise the errno of `fork`.
pub fn fork() -> io::Result<Fork> {
    require_single_thread()?;
    // SAFETY: one thread only, so the child is as consistent as the parent.
    match unsafe { libc::fork() }.check()? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Number of threads of this process, from `/proc/self/status`.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn thread_count() -> io::Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Threads:"));
    line.and_then(|n| n.trim().parse().ok())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn require_single_thread() -> io::Result<()> {
    match thread_count() {
        Ok(n) if n > 1 => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("this process has {n} threads; only a single-threaded one may do this"),
        )),
        // Without /proc (a bare chroot) the caller must be trusted.
        _ => Ok(()),
    }
}

/// Becomes the leader of a new session without a terminal (setsid(2)).
///
/// # Errors
///
/// `EPERM` in a process that leads a process group.
pub fn new_session() -> io::Result<()> {
    // SAFETY: no memory is involved.
    unsafe { libc::setsid() }.check()?;
    Ok(())
}

/// Sets the umask; returns the old one.
pub fn set_umask(mask: u32) -> u32 {
    // SAFETY: no memory is involved; the call cannot fail.
    unsafe { libc::umask(mask) }
}

/// Process id of this process.
pub fn pid() -> Pid {
    // SAFETY: no memory is involved; the call cannot fail.
    unsafe { libc::getpid() }
}

/// Process id of the parent; 1 (or a subreaper) if the parent is dead.
pub fn parent_pid() -> Pid {
    // SAFETY: no memory is involved; the call cannot fail.
    unsafe { libc::getppid() }
}

/// Kernel id of the calling thread.
pub fn thread_id() -> Pid {
    // SAFETY: no memory is involved; the call cannot fail.
    unsafe { libc::gettid() }
}

/// Effective user id.
pub fn effective_uid() -> u32 {
    // SAFETY: no memory is involved; the call cannot fail.
    unsafe { libc::geteuid() }
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// It called exit(3) with this code.
    Code(i32),
    /// A signal ended it.
    Signal {
        /// Number of the signal.
        signal: i32,
        /// Whether a core dump was written.
        core_dumped: bool,
    },
}

/// Marks all descriptors from this one on to be closed when a program is executed (close_range(2);
/// Linux 5.11).
///
/// # Errors
///
/// `ENOSYS` before Linux 5.11.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    // Not every C library has a function for it.
    // SAFETY: it changes a flag of descriptors and no memory; whoever owns them goes on.
    unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) }.check()?;
    Ok(())
}

/// Closes every descriptor from 3 on but these. For a forked child that goes on in a role of its
/// own, never returns, and drops nothing that it has inherited.
///
/// # Errors
///
/// The errno of `close_range`; before Linux 5.9, when `/proc` is not mounted.
pub fn close_all_but(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut kept: Vec<u32> = kept
        .iter()
        .map(|fd| fd.as_raw_fd().unsigned_abs())
        .collect();
    kept.sort_unstable();
    let mut first: u32 = 3;
    let ends = kept.into_iter().map(Some).chain([None]);
    for end in ends {
        let last = end.map_or(Some(u32::MAX), |end| end.checked_sub(1));
        if let Some(last) = last.filter(|last| *last >= first) {
            // SAFETY: no memory is involved. The caller has promised that nobody uses what is
            // closed.
            let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }.check();
            match closed {
                Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                    close_one_by_one(first..=last)?;
                }
                closed => drop(closed?),
            }
        }
        first = end.map_or(u32::MAX, |end| first.max(end.saturating_add(1)));
    }
    Ok(())
}

/// The same without close_range(2), which came with Linux 5.9.
fn close_one_by_one(range: std::ops::RangeInclusive<u32>) -> io::Result<()> {
    let open = std::fs::read_dir("/proc/self/fd")?;
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    // All names first: the directory has a descriptor of its own.
    let open: Vec<u32> = open.filter_map(|entry| number(entry.ok()?)).collect();
    for number in open.into_iter().filter(|number| range.contains(number)) {
        // SAFETY: as above. One that is closed already is an error, which does not matter.
        unsafe { libc::close(number.cast_signed()) };
    }
    Ok(())
}

/// Makes copies of descriptors at the numbers from `first` on, which a program that is executed
/// next inherits. For a forked child that is about to execute it: whatever has these numbers is
/// closed.
///
/// # Errors
///
/// The errno of `fcntl` or `dup2`.
pub fn pass_on(descriptors: &[BorrowedFd<'_>], first: RawFd) -> io::Result<()> {
    let count = RawFd::try_from(descriptors.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let behind = first
        .checked_add(count)
        .ok_or(io::ErrorKind::InvalidInput)?;
    // First out of the way: one of them may have a number that another one is to get.
    let mut away = Vec::with_capacity(descriptors.len());
    for descriptor in descriptors {
        let copy = retry(|| {
            // SAFETY: the descriptor is borrowed, hence open; the copy gets a number that is free.
            unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, behind) }
        })?;
        // SAFETY: the copy has just been made, and nobody else has it.
        away.push(unsafe { OwnedFd::from_raw_fd(copy) });
    }
    for (copy, number) in away.iter().zip(first..) {
        // SAFETY: the copy is open. Who had the number before loses it, as the caller was told.
        retry(|| unsafe { libc::dup2(copy.as_raw_fd(), number) })?;
    }
    Ok(())
}

/// A child that has ended, without waiting; `None` if none has (or there are no children). It is
/// not collected: until [`wait_for`] is called its number, and that of the group that it leads,
/// stay taken.
///
/// # Errors
///
/// The errno of `waitid`, except `ECHILD`.
pub fn ended_child() -> io::Result<Option<Pid>> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` has room for the structure.
    let result = retry(|| unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) });
    match result {
        // SAFETY: zeroed, and filled if a child has ended; the field is then that of a child.
        Ok(_) => Ok(Some(unsafe { info.assume_init().si_pid() }).filter(|pid| *pid != 0)),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits for one child.
///
/// # Errors
///
/// `ECHILD` when it is not a child of this process.
pub fn wait_for(pid: Pid) -> io::Result<ExitStatus> {
    let mut status = 0;
    // SAFETY: `status` has room for the answer.
    retry(|| unsafe { libc::waitpid(pid, &raw mut status, 0) })?;
    Ok(decode_status(status))
}

fn decode_status(status: i32) -> ExitStatus {
    if libc::WIFSIGNALED(status) {
        ExitStatus::Signal {
            signal: libc::WTERMSIG(status),
            core_dumped: libc::WCOREDUMP(status),
        }
    } else {
        ExitStatus::Code(libc::WEXITSTATUS(status))
    }
}

/// Ends the process at once, without destructors or exit handlers (`_exit(2)`). For a forked child
/// that must not run its parent's destructors.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: does not return and touches no memory of ours.
    unsafe { libc::_exit(code) }
}

/// Gives up root permanently: group, supplementary groups, then user, for all threads of the
/// process. The order matters, as the others would be refused after setuid(2).
///
/// # Errors
/// The call that failed, as text, with its error.
pub fn become_user(user: &CStr, uid: u32, gid: u32) -> Result<(), (String, io::Error)> {
    // SAFETY: no memory is involved.
    unsafe { libc::setgid(gid) }
        .check()
        .map_err(|e| (format!("setgid({gid}) failed"), e))?;
    // SAFETY: `user` is NUL-terminated and outlives the call.
    unsafe { libc::initgroups(user.as_ptr(), gid) }
        .check()
        .map_err(|e| {
            (
                format!("initgroups({}, {gid}) failed", user.to_string_lossy()),
                e,
            )
        })?;
    // SAFETY: no memory is involved.
    unsafe { libc::setuid(uid) }
        .check()
        .map_err(|e| (format!("setuid({uid}) failed"), e))?;
    Ok(())
}

/// `PR_SET_DUMPABLE`: whether core dumps and ptrace by the same user are possible. The kernel
/// clears it when the user changes.
///
/// # Errors
///
/// The errno of `prctl`.
pub fn set_dumpable(on: bool) -> io::Result<()> {
    // SAFETY: this option takes an integer and no pointer.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, libc::c_ulong::from(on), 0, 0, 0) }.check()?;
    Ok(())
}

/// Sets the name of the calling thread as shown by `ps` and `top -H`; truncated to 15 bytes. The
/// first thread's name is the process's.
///
/// # Errors
///
/// The errno of `prctl`.
pub fn set_thread_name(name: &str) -> io::Result<()> {
    let kept: Vec<u8> = name.bytes().filter(|&b| b != 0).take(15).collect();
    let name = CString::new(kept).expect("NUL bytes were filtered out");
    // SAFETY: `name` is NUL-terminated, at most 16 bytes, and is copied by the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) }.check()?;
    Ok(())
}

/// CPUs that this process may run on, at least 1.
pub fn available_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Numbers of the CPUs that the calling thread may run on, ascending (sched_getaffinity(2)).
///
/// # Errors
///
/// The errno of `sched_getaffinity`.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: `set` has room for the size given; 0 is the calling thread.
    unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) }.check()?;
    // SAFETY: every number is within the set.
    let allowed = |&cpu: &usize| unsafe { libc::CPU_ISSET(cpu, &set) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(allowed).collect())
}

/// Binds the calling thread to the given CPUs (sched_setaffinity(2)).
///
/// # Errors
///
/// `EINVAL` when none of the CPUs may be used.
pub fn set_affinity(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { MaybeUninit::zeroed().assume_init() };
    for &cpu in cpus {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: `cpu` is within the set, as just checked.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: `set` has the size given; 0 is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) }.check()?;
    Ok(())
}

/// Requests time slices of `slice` for the calling thread, instead of the kernel's usual few
/// milliseconds (sched_setattr(2); between 0.1 and 100 ms).
///
/// This does not give the thread a larger share of the processor. But since Linux 6.12 a thread
/// with a short slice that wakes up preempts one with a longer slice at once, instead of waiting
/// for the end of that slice. Older kernels accept the call and ignore it. Threads with a real-time
/// or deadline policy are left unchanged.
///
/// # Errors
///
/// The errno of `sched_setattr`; `EPERM` in some sandboxes.
pub fn set_time_slice(slice: Duration) -> io::Result<()> {
    // SAFETY: all zeros is a valid value of the plain struct.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: the kernel writes at most `size` bytes, which the struct has.
    unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) }.check()?;
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    attributes.size = size;
    attributes.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: the struct says its own size, and the kernel only reads it.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) }.check()?;
    Ok(())
}

/// Nice value of this process: -20 (most favourable) to 19.
///
/// # Errors
///
/// `EACCES` without the privilege to lower the value.
pub fn set_priority(nice: i32) -> io::Result<()> {
    // SAFETY: no memory is involved; 0 is the calling process.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) }.check()?;
    Ok(())
}

/// Replaces the whole environment. Only in a single-threaded process (otherwise
/// [`io::ErrorKind::Unsupported`]), because other threads may be reading it.
///
/// # Errors
/// `InvalidInput` for an empty name or one with `=` or NUL in it; the
/// environment is then unchanged.
pub fn replace_environment<'a>(
    variables: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
) -> io::Result<()> {
    require_single_thread()?;
    let mut checked = Vec::new();
    for (name, value) in variables {
        let name = name.as_bytes();
        if name.is_empty() || name.contains(&b'=') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        checked.push((CString::new(name)?, CString::new(value.as_bytes())?));
    }
    // SAFETY: this is the only thread, so nobody reads the environment meanwhile;
    // setenv copies both NUL-terminated strings.
    unsafe {
        libc::clearenv();
        for (name, value) in &checked {
            libc::setenv(name.as_ptr(), value.as_ptr(), 1).check()?;
        }
    }
    Ok(())
}

/// The information from uname(2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// `Linux`.
    pub system: String,
    /// Release of the kernel, such as `6.1.0-26-amd64`.
    pub release: String,
    /// Name of the machine.
    pub hostname: String,
}

/// Kernel and name of this machine (uname(2)).
///
/// # Errors
///
/// The errno of `uname`.
pub fn machine() -> io::Result<Machine> {
    let mut raw = MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: `raw` has room for the structure.
    unsafe { libc::uname(raw.as_mut_ptr()) }.check()?;
    // SAFETY: plain old data, zeroed and then filled.
    let raw = unsafe { raw.assume_init() };
    let text = |field: &[libc::c_char]| {
        let bytes: Vec<u8> = field
            .iter()
            .take_while(|&&c| c != 0)
            .map(|&c| c as u8)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(Machine {
        system: text(&raw.sysname),
        release: text(&raw.release),
        hostname: text(&raw.nodename),
    })
}

#[cfg(test)]
mod tests;
