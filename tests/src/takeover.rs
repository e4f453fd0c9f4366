//! What an attacker who has taken over a process would make it do.

use crate::command;

/// Has the main thread of a process make a system call that it would never make by itself. The
/// answer of the call; gdb's words, if there is none.
#[track_caller]
pub fn call_within(pid: u32, call: &str) -> String {
    calls_within(pid, &[call]).remove(0)
}

/// The same with several, one after the other.
#[track_caller]
pub fn calls_within<S: AsRef<str>>(pid: u32, calls: &[S]) -> Vec<String> {
    let mut script = vec![
        "set confirm off".to_owned(),
        format!("attach {pid}"),
        // The signal of a refused call belongs to the process.
        "handle SIGSYS nostop noprint pass".to_owned(),
    ];
    for call in calls {
        script.push(format!("print (int){}", call.as_ref()));
    }
    script.push("detach".to_owned());
    let mut arguments = vec!["-batch", "-nx"];
    for line in &script {
        arguments.extend(["-ex", line]);
    }
    let outcome = command("gdb", &arguments, b"");
    let text = outcome.text();
    let answer = |number: usize| {
        let beginning = format!("${number} = ");
        let line = text.lines().find_map(|line| line.strip_prefix(&beginning));
        line.unwrap_or(&text).to_owned()
    };
    (1..=calls.len()).map(answer).collect()
}
