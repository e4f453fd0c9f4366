//! What an attacker who has taken over a process would make it do.

use crate::command;

/// Not gdb: it cannot call anything on processors whose registers it does not all know.
const SCRIPT: &str = include_str!("call_within.py");

/// Has the main thread of a process make a system call that it would never make by itself. The
/// answer of the call, -1 for an error; what went wrong, if there is none.
#[track_caller]
pub fn call_within(pid: u32, call: &str) -> String {
    calls_within(pid, &[call]).remove(0)
}

/// The same with several, one after the other: `syscall(39)`, with numbers and strings as in C.
#[track_caller]
pub fn calls_within<S: AsRef<str>>(pid: u32, calls: &[S]) -> Vec<String> {
    let pid = pid.to_string();
    let mut arguments = vec!["-c", SCRIPT, &pid];
    arguments.extend(calls.iter().map(AsRef::as_ref));
    let outcome = command("python3", &arguments, b"");
    let text = outcome.text();
    let answers: Vec<String> = text.lines().map(str::to_owned).collect();
    let missing = || format!("{text}{}", outcome.stderr);
    (0..calls.len())
        .map(|at| answers.get(at).cloned().unwrap_or_else(missing))
        .collect()
}
