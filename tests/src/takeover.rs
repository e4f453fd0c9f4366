//! What an attacker who has taken over a process would make it do.

use crate::{Server, command, sealane_binary};

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

/// Version of the kernel's Landlock, as the doctor has it.
pub fn landlock() -> u64 {
    let outcome = command(
        &sealane_binary().display().to_string(),
        &["doctor", "--json"],
        b"",
    );
    let text = outcome.text();
    let (_, rest) = text.split_once("\"landlock\":").expect("a report");
    let end = rest.find([',', '}']).expect("an object");
    rest[..end].trim().parse().unwrap_or(0) // null
}

/// Has the worker make calls that must fail.
#[track_caller]
pub fn are_refused<S: AsRef<str>>(server: &Server<'_>, calls: &[S]) {
    let answers = calls_within(server.worker_pid(), calls);
    for (call, answer) in calls.iter().zip(answers) {
        assert_eq!(answer, "-1", "{}", call.as_ref());
    }
}

/// Has the worker make calls that must not.
#[track_caller]
pub fn are_allowed<S: AsRef<str>>(server: &Server<'_>, calls: &[S]) {
    let answers = calls_within(server.worker_pid(), calls);
    for (call, answer) in calls.iter().zip(answers) {
        let number: Option<i32> = answer.parse().ok();
        let worked = number.is_some_and(|number| number >= 0);
        assert!(worked, "{}: {answer}", call.as_ref());
    }
}
