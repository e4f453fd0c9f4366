//! What a module or a provider has open in its process: what it may need, for `-t` to say.

use sealane_sys::process::Pid;
use std::collections::BTreeSet;
use std::fs;

/// Sockets that every key process has: the master's line.
const OWN_SOCKETS: usize = 1;

/// Files and sockets of a process, in words. Those that are opened for a moment only, as SoftHSM
/// does, are not seen.
pub(super) fn of(pid: Pid) -> String {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
    let targets: Vec<String> = descriptors
        .into_iter()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .collect();
    in_words(targets.iter().map(String::as_str))
}

fn in_words<'a>(targets: impl Iterator<Item = &'a str> + Clone) -> String {
    let is_socket = |target: &&str| target.starts_with("socket:");
    let sockets = targets.clone().filter(is_socket).count();
    let is_file = |target: &&str| {
        let is_own = *target == "/dev/null" || target.starts_with("/memfd:");
        target.starts_with('/') && !is_own
    };
    let files: BTreeSet<&str> = targets.filter(is_file).collect();
    let files: Vec<&str> = files.into_iter().collect();
    let files = match files.is_empty() {
        true => "no file".to_owned(),
        false => files.join(", "),
    };
    match sockets.saturating_sub(OWN_SOCKETS) {
        0 => files,
        1 => format!("{files} and a socket"),
        some => format!("{files} and {some} sockets"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_process_has_is_left_out() {
        let words = |targets: &[&'static str]| in_words(targets.iter().copied());
        let own = [
            "/dev/null",
            "/memfd:sealane (deleted)",
            "socket:[1]",
            "anon_inode:[eventfd]",
        ];
        assert_eq!(words(&own), "no file");
        let tpm = ["/dev/null", "socket:[1]", "/dev/tpmrm0", "/dev/tpmrm0"];
        assert_eq!(words(&tpm), "/dev/tpmrm0");
        let pcsc = ["socket:[1]", "socket:[2]", "/b", "/a"];
        assert_eq!(words(&pcsc), "/a, /b and a socket");
        assert_eq!(
            words(&["socket:[1]", "socket:[2]", "socket:[3]"]),
            "no file and 2 sockets"
        );
    }
}
