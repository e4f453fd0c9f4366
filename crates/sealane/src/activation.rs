//! Sockets that were opened before this program was executed: by the service manager
//! (sd_listen_fds(3): `LISTEN_FDS` of them, from descriptor 3, for the process `LISTEN_PID`), or by
//! the binary that this one upgrades (nginx's way: `NGINX=6;7;` are their descriptors).
//!
//! A socket serves the `listen` directive with its address. So the configuration alone still
//! decides what is served, and works with and without socket activation. The backlog and other
//! options are set as configured, as far as the kernel allows changing them on a listening socket.

use crate::journal::{Journal, note};
use sealane_log::OsError;
use sealane_sys::process::{self, Pid};
use sealane_sys::socket::{self, BindAddress, Inherited};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What one service may hand over; beyond that something is wrong.
const MAX_SOCKETS: i32 = 4096;

/// The first descriptor, by convention.
const FIRST: i32 = 3;

/// The variable with which nginx, and Sealane, hands its sockets to a new binary.
pub(crate) const NGINX_VARIABLE: &str = "NGINX";

/// The variable with which Sealane names those among them that the service manager has opened.
pub(crate) const FOREIGN_VARIABLE: &str = "SEALANE_FOREIGN";

/// Sockets that no `listen` directive has claimed yet. They belong to the process, which gets
/// them once, when it starts.
static WAITING: Mutex<Vec<Waiting>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Waiting {
    socket: OwnedFd,
    address: BindAddress,
    from: From,
}

#[derive(Debug)]
enum From {
    /// The service manager, with its `FileDescriptorName=`, for messages.
    Manager(String),
    /// With whether the server has opened it itself.
    OldBinary { ours: bool },
}

/// Sockets for a `listen` directive.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    pub(crate) sockets: Vec<OwnedFd>,
    /// They are this server's: the file of a Unix socket is to be removed in the end.
    pub(crate) ours: bool,
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
                from: From::Manager(name),
            }),
            Ok(Inherited::Other) => note!(
                journal,
                Warn,
                "descriptor {fd} ({name}) of LISTEN_FDS is not a listening stream socket, ignored; \
                 its socket unit needs ListenStream= and Accept=no"
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

/// Whether another binary seems to have started this one in its place.
pub(crate) fn is_upgrade() -> bool {
    std::env::var_os(NGINX_VARIABLE).is_some()
}

/// Takes the listening sockets that the old binary hands over. False when there are none:
/// this is not an upgrade.
pub(crate) fn accept_from_old_binary(journal: &Journal) -> bool {
    let Some(list) = std::env::var_os(NGINX_VARIABLE) else {
        return false;
    };
    let list = list.to_string_lossy();
    note!(journal, Notice, "using inherited sockets from \"{list}\"");
    let (numbers, complaint) = descriptors(&list);
    let foreign = std::env::var(FOREIGN_VARIABLE).unwrap_or_default();
    let (foreign, _) = descriptors(&foreign);
    let mut taken = list.is_empty(); // a server without sockets
    for fd in numbers {
        match socket::take_inherited(fd) {
            Ok(Inherited::Listening { socket, address }) => {
                taken = true;
                waiting().push(Waiting {
                    socket,
                    address,
                    from: From::OldBinary {
                        ours: !foreign.contains(&fd),
                    },
                });
            }
            Ok(Inherited::Other) => note!(
                journal,
                Notice,
                "the inherited socket #{fd} is not a listening stream socket, closing it"
            ),
            Err(error) => note!(
                journal,
                Crit,
                "the inherited socket #{fd} cannot be used ({}), ignored",
                OsError(&error)
            ),
        }
    }
    if let Some(complaint) = complaint {
        note!(journal, Emerg, "{complaint}");
    }
    taken
}

/// The descriptors of nginx's list, and what is wrong with it.
fn descriptors(list: &str) -> (Vec<i32>, Option<String>) {
    let mut numbers = Vec::new();
    let mut rest = list;
    while let Some((number, behind)) = rest.split_once([';', ':']) {
        let Ok(fd) = number.parse::<u16>() else {
            let complaint = format!(
                "invalid socket number \"{rest}\" in {NGINX_VARIABLE} environment variable, \
                 ignoring the rest of the variable"
            );
            return (numbers, Some(complaint));
        };
        numbers.push(fd.into());
        rest = behind;
    }
    let complaint = (!rest.is_empty()).then(|| {
        format!(
            "invalid socket number \"{rest}\" in {NGINX_VARIABLE} environment variable, ignoring"
        )
    });
    (numbers, complaint)
}

/// The sockets with this address; none when it has to be bound. At most this many of the service
/// manager's, and all of the old binary's: connections may wait in each of them.
pub(crate) fn claim(address: &BindAddress, most: usize) -> Claimed {
    let (mut sockets, mut ours) = (Vec::new(), false);
    for waiting in waiting().extract_if(.., |waiting| same(&waiting.address, address)) {
        let limit = match waiting.from {
            From::Manager(_) => most.max(1),
            From::OldBinary { .. } => usize::MAX,
        };
        if sockets.len() < limit {
            sockets.push(waiting.socket);
            ours |= matches!(waiting.from, From::OldBinary { ours: true });
        }
    }
    Claimed { sockets, ours }
}

/// Closes the sockets that no directive has claimed, and reports them.
pub(crate) fn close_the_rest(journal: &Journal) {
    for Waiting { address, from, .. } in waiting().drain(..) {
        let (address, directive) = match address {
            BindAddress::Inet(address) => (address.to_string(), "listen"),
            BindAddress::Datagram(address) => (format!("{address} (UDP)"), "listen ... udp"),
            BindAddress::Unix(path) => (format!("unix:{}", path.display()), "listen"),
        };
        match from {
            From::Manager(name) => note!(
                journal,
                Warn,
                "the service manager has opened {address} ({name}), but no \"{directive}\" \
                 directive has this address; what comes there is not accepted"
            ),
            From::OldBinary { .. } => note!(
                journal,
                Notice,
                "the old binary served {address}, but no \"{directive}\" directive has this \
                 address any more; closing it"
            ),
        }
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
        (BindAddress::Inet(given), BindAddress::Inet(wanted))
        | (BindAddress::Datagram(given), BindAddress::Datagram(wanted)) => {
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
    fn the_list_of_nginx_is_read_up_to_what_is_none() {
        for (list, numbers, says) in [
            ("", &[][..], None),
            ("6;7;", &[6, 7], None),
            ("6:7:", &[6, 7], None),
            (
                "6;7",
                &[6],
                Some("number \"7\" in NGINX environment variable, ignoring"),
            ),
            (
                "6;x;7;",
                &[6],
                Some("number \"x;7;\" in NGINX environment variable, ignoring the"),
            ),
            (";", &[], Some("number \";\"")),
            ("-1;", &[], Some("number \"-1;\"")),
            ("99999999999;", &[], Some("number \"99999999999;\"")),
            ("/usr/sbin/nginx", &[], Some("number \"/usr/sbin/nginx\"")),
        ] {
            let (found, complaint) = descriptors(list);
            assert_eq!(found, numbers, "{list}");
            let fits = |says| complaint.as_ref().is_some_and(|it| it.contains(says));
            assert!(
                says.map_or(complaint.is_none(), fits),
                "{list}: {complaint:?}"
            );
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
        let datagram = BindAddress::Datagram("127.0.0.1:80".parse().expect("an address"));
        assert!(same(&datagram, &datagram) && !same(&datagram, &inet("127.0.0.1:80")));
    }
}
