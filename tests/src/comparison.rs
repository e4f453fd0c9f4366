//! The same requests to Sealane and to nginx, and where their answers differ.

use crate::Server;
use crate::wire::{self, Response};

/// Every request that the two servers do not answer alike on their ports `%plain%`, with what
/// `shown` shows of both answers; empty when there is none.
#[track_caller]
pub fn differences(
    ours: &Server<'_>,
    theirs: &Server<'_>,
    requests: impl IntoIterator<Item = String>,
    shown: impl Fn(&Response) -> String,
) -> String {
    let mut differences = String::new();
    for request in requests {
        let ask = |server: &Server<'_>| shown(&wire::request(server.port("plain"), &request));
        let (one, other) = (ask(ours), ask(theirs));
        if one != other {
            differences.push_str(&format!("{request}\nours:\n{one}\nnginx:\n{other}\n\n"));
        }
    }
    differences
}

/// The status line, and the header lines in the order of the alphabet but for those with these
/// names.
pub fn head_without<'r>(response: &'r Response, names: &[&str]) -> Vec<&'r str> {
    let is_wanted = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default();
        !names.iter().any(|other| name.eq_ignore_ascii_case(other))
    };
    let mut head: Vec<&str> = response.head.split("\r\n").filter(is_wanted).collect();
    head[1..].sort_unstable();
    head
}
