//! Reports a fault that kills the process in the error log: signal, address, stack and build. Then
//! the signal has its usual effect (a core dump, if enabled).
//!
//! A handler runs in the middle of other code, perhaps of the allocator, perhaps with a stack that
//! is full or destroyed. So it takes no lock, allocates nothing and calls only what
//! signal-safety(7) allows, with one exception: the unwinder of the C compiler's runtime, which
//! walks the tables of the binary. It is called once beforehand, so that nothing needs to be loaded
//! or bound later. It takes no lock for tables that were loaded with the program (glibc 2.35 and
//! later; older versions take the loader's lock). The first line is written before the unwinder is
//! called, and a timer ends the process if it hangs.
//!
//! Only numbers and module names are written, and no process memory.

mod line;
mod refused;
mod stack;

#[cfg(test)]
mod tests;

pub use refused::{OnRefusal, report_refused_calls};

use crate::CheckReturn;
use crate::process::{self, Pid};
use line::Line;
use stack::{MAX_FRAMES, Module, Stack};
use std::cell::RefCell;
use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};

/// Signals of faults: each ends the process.
const FAULTS: [(i32, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGABRT, "SIGABRT"),
];

/// Room for the handler of a thread whose own stack cannot be used: the unwinder takes a few KiB,
/// the kernel's copy of wide registers up to 11.
const SIGNAL_STACK_BYTES: usize = 64 << 10;

/// On a smaller signal stack the frames are not walked.
const LEAST_STACK_BYTES: usize = 32 << 10;

/// Time limit of a report; the rest is skipped.
const LONGEST_REPORT_S: libc::time_t = 10;

/// A fault this close to the stack pointer indicates a stack overflow.
const NEAR_BYTES: usize = 64 << 10;

/// The name of a process in its report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// The master process.
    Master = 0,
    /// A worker process.
    Worker = 1,
}

/// Collected before anything went wrong; never changes afterwards.
struct Facts {
    /// The program first.
    modules: Vec<Module>,
    build_id: String,
    program: String,
}

static FACTS: OnceLock<Facts> = OnceLock::new();
static ROLE: AtomicU8 = AtomicU8::new(Role::Master as u8);
static LOG: AtomicI32 = AtomicI32::new(libc::STDERR_FILENO);
static UTC_OFFSET_S: AtomicI32 = AtomicI32::new(0);
static REPORTING: AtomicBool = AtomicBool::new(false);
static LAST_WORDS: OnceLock<fn()> = OnceLock::new();

/// From now on faults in this process are reported, to stderr until [`report_to`] is called.
/// Calling it again in a forked process changes the role.
///
/// # Errors
/// When the kernel refuses a handler or a stack for it.
pub fn install(role: Role) -> io::Result<()> {
    ROLE.store(role as u8, Ordering::Relaxed);
    FACTS.get_or_init(|| Facts {
        modules: stack::modules(),
        build_id: stack::build_id(),
        program: std::env::current_exe()
            .map_or_else(|_| "sealane".to_owned(), |path| path.display().to_string()),
    });
    let now = crate::time::local(crate::time::unix_coarse_s());
    UTC_OFFSET_S.store(now.utc_offset_s, Ordering::Relaxed);
    // Binds the unwinder's functions and loads what they need.
    let mut stack = Stack::default();
    stack.walk();
    prepare_thread()?;
    for (signal, _) in FAULTS {
        set_handler(signal, on_fault)?;
    }
    Ok(())
}

/// Sends reports to this descriptor, which must keep its number and stay open for the life of the
/// process, or until this is called again.
pub fn report_to(log: BorrowedFd<'_>) {
    LOG.store(log.as_raw_fd(), Ordering::Relaxed);
}

/// Registers a function to call after the report of a fault, in its handler: for output that other
/// parts of the program have not written yet. It must not wait for a lock or allocate, and must
/// expect any data to be destroyed. A second fault in it ends the process at once, and so does the
/// report's time limit. Only the first registration counts.
pub fn say_last(words: fn()) {
    let _ = LAST_WORDS.set(words);
}

/// The GNU build id of this program in hexadecimal digits; `unknown` if the linker made none.
pub fn build_id() -> &'static str {
    FACTS
        .get()
        .map_or("unknown", |facts| facts.build_id.as_str())
}

/// The command that resolves the frames of the calling code, for the report of a panic; empty
/// before [`install`].
pub fn call_stack() -> String {
    let Some(facts) = FACTS.get() else {
        return String::new();
    };
    let mut stack = Stack::default();
    stack.walk();
    let mut text = Line::new();
    add_command(&mut text, facts, &stack);
    text.as_str().to_owned()
}

/// Gives the calling thread a signal stack, so that a stack overflow can be reported. Without it a
/// report for this thread has the address of the fault but no frames.
///
/// # Errors
/// When there is no memory.
pub fn prepare_thread() -> io::Result<()> {
    thread_local! {
        static STACK: RefCell<Option<SignalStack>> = const { RefCell::new(None) };
    }
    STACK.with_borrow_mut(|own| {
        if own.is_none() {
            *own = Some(SignalStack::install()?);
        }
        Ok(())
    })
}

/// The signal stack of a thread.
struct SignalStack {
    memory: *mut c_void,
}

impl SignalStack {
    fn install() -> io::Result<SignalStack> {
        // SAFETY: a new mapping somewhere; no memory of ours is touched.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                SIGNAL_STACK_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = SignalStack { memory };
        // The first page is made inaccessible, so that a report that needs too much stops there.
        // SAFETY: the page is the first of the mapping just made.
        unsafe { libc::mprotect(memory, 4096, libc::PROT_NONE) }.check()?;
        let description = libc::stack_t {
            ss_sp: memory,
            ss_flags: 0,
            ss_size: SIGNAL_STACK_BYTES,
        };
        // SAFETY: the memory stays mapped until this thread has another signal stack or none.
        unsafe { libc::sigaltstack(&raw const description, std::ptr::null_mut()) }.check()?;
        Ok(stack)
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let none = libc::stack_t {
            ss_sp: std::ptr::null_mut(),
            ss_flags: libc::SS_DISABLE,
            ss_size: 0,
        };
        // SAFETY: the thread ends and is not in a handler; after the first call nothing uses
        // the mapping, which is the one made by `install`.
        unsafe {
            libc::sigaltstack(&raw const none, std::ptr::null_mut());
            libc::munmap(self.memory, SIGNAL_STACK_BYTES);
        }
    }
}

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);

fn set_handler(signal: i32, handler: Handler) -> io::Result<()> {
    // SAFETY: an all-zero sigaction is valid.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // A second fault during the report ends the process at once.
    // SAFETY: the set is in `action`.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    // SAFETY: `action` is valid, and the handlers of this module may run at any time.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) }.check()?;
    Ok(())
}

/// Reports a fault and lets the signal have its usual effect.
extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    if REPORTING.swap(true, Ordering::AcqRel) {
        wait_for_the_end();
    }
    // SAFETY: the kernel hands a handler with SA_SIGINFO valid pointers to both.
    let (info, context) = unsafe { (&*info, &*context.cast::<libc::ucontext_t>()) };
    limit_the_report();
    let name = FAULTS
        .iter()
        .find(|(number, _)| *number == signal)
        .map_or("SIGSYS", |(_, name)| name);
    report(signal, name, info, context);
    if let Some(words) = LAST_WORDS.get() {
        words();
    }
    die_of(signal);
}

/// Writes the report line by line, so that earlier lines survive if the rest fails.
fn report(signal: i32, name: &str, info: &libc::siginfo_t, context: &libc::ucontext_t) {
    let (counter, pointer) = registers(context);
    let mut line = start_line();
    line.text(role()).text(" crashed: signal ");
    line.number(signal as u64).text(" (").text(name).text(")");
    if info.si_code <= 0 {
        // SAFETY: a signal that a process sent has its id.
        let sender = unsafe { info.si_pid() };
        line.text(" sent by process ").number(sender as u64);
    } else if signal != libc::SIGSYS {
        // SAFETY: a fault has its address.
        let address = unsafe { info.si_addr() } as usize;
        line.text(" at address ").hex(address);
        if signal == libc::SIGSEGV && address.abs_diff(pointer) < NEAR_BYTES {
            line.text(" (next to the stack pointer: the stack is probably full)");
        }
    }
    line.text(", thread \"").thread_name().text("\", build id ");
    line.text(build_id()).end(LOG.load(Ordering::Relaxed));
    let Some(facts) = FACTS.get() else { return };
    let mut stack = Stack::default();
    if context.uc_stack.ss_size >= LEAST_STACK_BYTES {
        stack.walk_from(counter);
    } else {
        stack.only(counter);
    }
    report_frames(facts, &stack);
}

fn report_frames(facts: &Facts, stack: &Stack) {
    let log = LOG.load(Ordering::Relaxed);
    for (index, &address) in stack.frames().iter().enumerate() {
        let mut line = start_line();
        line.text("#").number(index as u64).text(" ");
        stack::describe(&mut line, &facts.modules, address);
        line.end(log);
    }
    let mut line = start_line();
    line.text("names of these: ");
    add_command(&mut line, facts, stack);
    line.end(log);
}

/// The command that resolves the frames in the program.
fn add_command(line: &mut Line, facts: &Facts, stack: &Stack) {
    line.text("addr2line -Cfipe ").text(&facts.program);
    let own = facts.modules.first();
    for (index, &address) in stack.frames().iter().enumerate() {
        if let Some(offset) = own.and_then(|module| module.offset(address)) {
            // The instruction after a call may belong to another line, or to another function.
            line.text(" ").hex(offset - usize::from(index > 0));
        }
    }
    if stack.frames().len() == MAX_FRAMES {
        line.text(" (and more)");
    }
}

fn role() -> &'static str {
    if ROLE.load(Ordering::Relaxed) == Role::Worker as u8 {
        "worker process"
    } else {
        "master process"
    }
}

/// The beginning of an `[alert]` line of the error log.
fn start_line() -> Line {
    let mut line = Line::new();
    line.time_stamp(UTC_OFFSET_S.load(Ordering::Relaxed));
    line.text(" [alert] ").number(process::pid() as u64);
    line.text("#").number(process::thread_id() as u64);
    line.text(": ");
    line
}

/// Ends the process with the timer's signal if the report takes too long.
fn limit_the_report() {
    let none = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let limit = libc::itimerval {
        it_interval: none,
        it_value: libc::timeval {
            tv_sec: LONGEST_REPORT_S,
            tv_usec: 0,
        },
    };
    // SAFETY: `limit` is valid, the old value is not wanted, and the default action of a signal
    // runs no code of ours. The set is initialised before it is used. All are plain system
    // calls. The signal is blocked in this handler, and there may be no other thread to take it.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        let mut alarm = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(alarm.as_mut_ptr());
        libc::sigaddset(alarm.as_mut_ptr(), libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, alarm.as_ptr(), std::ptr::null_mut());
        libc::setitimer(libc::ITIMER_REAL, &raw const limit, std::ptr::null_mut());
    }
}

/// Another thread is already reporting and will end the process.
fn wait_for_the_end() -> ! {
    let pause = libc::timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    loop {
        // SAFETY: `pause` is valid and the remaining time is not wanted.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
}

/// Raises the signal again, with its default action. It is blocked until the handler returns, and
/// is then delivered to the thread with the fault.
fn die_of(signal: i32) {
    let (pid, thread): (Pid, Pid) = (process::pid(), process::thread_id());
    // SAFETY: the default action runs no code of ours; the signal goes to this thread.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::syscall(libc::SYS_tgkill, pid, thread, signal);
    }
}

/// Program counter and stack pointer at the time of the signal.
fn registers(context: &libc::ucontext_t) -> (usize, usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let registers = &context.uc_mcontext.gregs;
        (
            registers[libc::REG_RIP as usize] as usize,
            registers[libc::REG_RSP as usize] as usize,
        )
    }
    #[cfg(target_arch = "aarch64")]
    {
        (
            context.uc_mcontext.pc as usize,
            context.uc_mcontext.sp as usize,
        )
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        (0, 0)
    }
}
