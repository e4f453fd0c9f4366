//! Sockets that the service manager has opened (sd_listen_fds(3)): `LISTEN_FDS` of them, from
//! descriptor 3, for the process `LISTEN_PID`.
//!
//! A socket serves the `listen` directive with its address. So the configuration stays the one
//! place that says what is served, and works with and without socket activation. Whatever of the
//! backlog and other options the kernel allows to change on a listening socket is set as
//! configured.

use crate::journal::{Journal, note};
use sealane_server::log::OsError;
use sealane_sys::process::{self, Pid};
use sealane_sys::socket::{self, BindAddress, Inherited};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What one service may hand over; beyond that something is wrong.
const MAX_SOCKETS: i32 = 4096;

/// The first descriptor, by convention.
const FIRST: i32 = 3;

/// Sockets that no `listen` directive has claimed yet. They belong to the process, which gets
/// them once, when it is started.
static WAITING: Mutex<Vec<Waiting>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Waiting {
    socket: OwnedFd,
    address: BindAddress,
    /// `FileDescriptorName=`, for messages.
    name: String,
}

/// Takes what the service manager has left for this process.
pub(crate) fn accept(journal: &Journal) {
    let text = |name| std::env::var(name).unwrap_or_default();
    let Some(count) = count(&text("LISTEN_PID"), &text("LISTEN_FDS"), process::pid()) else {
        return;
    };
    let names = text("LISTEN_FDNAMES");
    let mut names = names.split(':');
    for fd in FIRST..FIRST + count {
        let name = names.next().unwrap_or("unknown").to_owned();
        match socket::take_inherited(fd) {
            Ok(Inherited::Listening { socket, address }) => waiting().push(Waiting {
                socket,
                address,
                name,
            }),
            Ok(Inherited::Other) => note!(
                journal,
                Warn,
                "descriptor {fd} ({name}) of LISTEN_FDS is no stream socket that listens, \
                 ignored; its socket unit needs ListenStream= and Accept=no"
            ),
            Err(error) => note!(
                journal,
                Warn,
                "descriptor {fd} ({name}) of LISTEN_FDS cannot be used ({}), ignored",
                OsError(&error)
            ),
        }
    }
}

/// The sockets with this address, at most so many; none when it has to be bound.
pub(crate) fn claim(address: &BindAddress, most: usize) -> Vec<OwnedFd> {
    let mut claimed: Vec<OwnedFd> = waiting()
        .extract_if(.., |waiting| same(&waiting.address, address))
        .map(|waiting| waiting.socket)
        .collect();
    claimed.truncate(most.max(1));
    claimed
}

/// Closes the sockets that nobody has claimed, and says so.
pub(crate) fn close_the_rest(journal: &Journal) {
    for Waiting { address, name, .. } in waiting().drain(..) {
        let address = match address {
            BindAddress::Inet(address) => address.to_string(),
            BindAddress::Unix(path) => format!("unix:{}", path.display()),
        };
        note!(
            journal,
            Warn,
            "the service manager has opened {address} ({name}), but no \"listen\" directive has \
             this address; nobody answers there"
        );
    }
}

fn waiting() -> MutexGuard<'static, Vec<Waiting>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many descriptors are for this process.
fn count(for_pid: &str, count: &str, own: Pid) -> Option<i32> {
    let meant = for_pid.parse() == Ok(own);
    let count = count.parse().ok().filter(|_| meant)?;
    (1..=MAX_SOCKETS).contains(&count).then_some(count)
}

fn same(given: &BindAddress, wanted: &BindAddress) -> bool {
    match (given, wanted) {
        (BindAddress::Inet(given), BindAddress::Inet(wanted)) => {
            (given.ip(), given.port()) == (wanted.ip(), wanted.port())
        }
        (BindAddress::Unix(given), BindAddress::Unix(wanted)) => {
            // One of them may go through a link, as /var/run does.
            let whole = |path: &Path| path.canonicalize().ok();
            given == wanted || whole(given).is_some_and(|given| Some(given) == whole(wanted))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_for_one_process_only() {
        assert_eq!(count("7", "2", 7), Some(2));
        for (pid, number) in [
            ("8", "2"),
            ("", "2"),
            ("7", ""),
            ("7", "0"),
            ("7", "-1"),
            ("7", "9999999"),
        ] {
            assert_eq!(count(pid, number, 7), None, "{pid} {number}");
        }
    }

    #[test]
    fn addresses_match_whatever_their_scope() {
        let inet = |text: &str| BindAddress::Inet(text.parse().expect("an address"));
        let unix = |text: &str| BindAddress::Unix(text.into());
        assert!(same(&inet("[::1]:80"), &inet("[::1]:80")));
        assert!(!same(&inet("127.0.0.1:80"), &inet("0.0.0.0:80")));
        assert!(!same(&inet("0.0.0.0:80"), &inet("[::]:80")));
        assert!(same(&unix("/none/such"), &unix("/none/such")));
        assert!(!same(&unix("/none/such"), &unix("/none/other")));
        assert!(same(&unix("/proc/self/../1"), &unix("/proc/1")));
        assert!(!same(&unix("/x"), &inet("127.0.0.1:80")));
    }
}
