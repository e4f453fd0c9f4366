//! When the kernel runs which thread.

use crate::CheckReturn;
use std::io;
use std::time::Duration;

/// Processors that this thread may run on (sched_getaffinity(2)).
pub fn usable_cpus() -> io::Result<usize> {
    // SAFETY: all zeros is a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set has the size that is passed along, and the macro reads it only.
    let count = unsafe {
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set).check()?;
        libc::CPU_COUNT(&set)
    };
    Ok(usize::try_from(count).unwrap_or(1).max(1))
}

/// Asks for turns of `slice` for the calling thread, instead of the kernel's usual few
/// milliseconds (sched_setattr(2); between 0.1 and 100 ms).
///
/// The thread gets no more of the processor by it. But since Linux 6.12 a thread with a short slice
/// that wakes up takes the place of one with a longer slice at once, where it would otherwise
/// wait for the end of that one's turn. Older kernels accept the call and do nothing.
/// Threads with a real-time or deadline policy are left as they are.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_processor_to_run_on() {
        let everybody = std::thread::available_parallelism().unwrap().get();
        assert!((1..=everybody.max(1024)).contains(&usable_cpus().unwrap()));
    }

    #[test]
    fn a_slice_is_accepted_and_changes_nothing_else() {
        // In a thread of its own, which ends with the setting.
        std::thread::spawn(|| {
            // SAFETY: no memory is involved.
            let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
            let before = nice();
            match set_time_slice(Duration::from_micros(100)) {
                // A sandbox may forbid the call; it is a hint.
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => return,
                result => result.unwrap(),
            }
            assert_eq!(nice(), before);
        })
        .join()
        .unwrap();
    }
}
