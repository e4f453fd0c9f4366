//! Scheduling precedence over other users of the machine.

use std::fs;

use crate::Error;

/// The kernel's group of all processes of this session (`CONFIG_SCHED_AUTOGROUP`). If there are
/// such groups, niceness applies only within a group; between groups their own niceness applies.
const AUTOGROUP: &str = "/proc/self/autogroup";

/// The niceness of this process and of all that it starts. The session group's niceness is restored
/// on drop.
#[derive(Debug)]
pub(crate) struct Precedence {
    autogroup_before: Option<i32>,
}

impl Precedence {
    /// Sets the niceness `nice` for the calling thread and for all threads and processes that it
    /// starts from now on, and for the session's group.
    pub(crate) fn take(nice: i32) -> Result<Self, Error> {
        rustix::process::setpriority_process(None, nice)
            .map_err(|errno| Error::io(format!("set the niceness {nice}"), errno.into()))?;
        let autogroup_before = fs::read_to_string(AUTOGROUP)
            .ok()
            .and_then(|text| parse(&text));
        if autogroup_before.is_some() {
            set_autogroup(nice)?;
        }
        Ok(Self { autogroup_before })
    }
}

impl Drop for Precedence {
    fn drop(&mut self) {
        if let Some(nice) = self.autogroup_before
            && let Err(error) = set_autogroup(nice)
        {
            eprintln!("the session keeps its precedence: {error}");
        }
    }
}

fn set_autogroup(nice: i32) -> Result<(), Error> {
    fs::write(AUTOGROUP, nice.to_string())
        .map_err(|source| Error::io(format!("write {nice} to {AUTOGROUP}"), source))
}

/// Parses `/autogroup-195 nice 0`; the file is empty if groups are disabled.
fn parse(text: &str) -> Option<i32> {
    text.split_once(" nice ")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_own_niceness() {
        assert_eq!(parse("/autogroup-195 nice 0\n"), Some(0));
        assert_eq!(parse("/autogroup-7 nice -20\n"), Some(-20));
        assert_eq!(parse(""), None);
    }
}
