//! Reports the server's status to the service manager (sd_notify(3)): `Type=notify` and
//! `Type=notify-reload` of systemd, and whatever else sets `NOTIFY_SOCKET`.
//!
//! One datagram for each message, to a Unix socket. There is no reply to wait for, and a message
//! that cannot be sent is dropped: the server runs all the same.

use sealane_sys::process::{self, Pid};
use sealane_sys::time;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;

/// Longest text of a status; more is cut.
const MAX_STATUS_BYTES: usize = 200;

static MANAGER: OnceLock<Option<Manager>> = OnceLock::new();

/// A state reported to the service manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServiceState<'a> {
    /// The server serves, also after a reload. This process is the one to send signals to.
    Ready,
    /// The configuration is being read again; [`ServiceState::Ready`] follows, whatever came of it.
    Reloading,
    /// The server ends.
    Stopping,
    /// From now on that process is the one to send signals to: this one ends.
    MainPid(Pid),
    /// What an operator reads in `systemctl status`.
    Status(&'a str),
}

/// Tells the service manager, if there is one.
pub(crate) fn tell(state: &ServiceState<'_>) {
    let manager = MANAGER.get_or_init(|| {
        let address = std::env::var_os("NOTIFY_SOCKET")?;
        Manager::new(&address).ok()
    });
    if let Some(manager) = manager {
        // A manager that is being restarted gets the next message.
        let _ = manager.send(state);
    }
}

/// The other end.
#[derive(Debug)]
struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Manager {
    /// `address` is an absolute path, or a name in the abstract namespace behind `@`.
    fn new(address: &OsStr) -> io::Result<Manager> {
        let address = match address.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(address)?,
            // Other families (vsock) are for virtual machines as a whole.
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not hold the server up.
        socket.set_nonblocking(true)?;
        Ok(Manager { socket, address })
    }

    fn send(&self, state: &ServiceState<'_>) -> io::Result<()> {
        let text = message(state, process::pid(), time::monotonic_ns() / 1000);
        self.socket
            .send_to_addr(text.as_bytes(), &self.address)
            .map(drop)
    }
}

/// The assignments, one in a line.
fn message(state: &ServiceState<'_>, own: Pid, monotonic_us: u64) -> String {
    match state {
        ServiceState::Ready => format!("READY=1\nMAINPID={own}\nSTATUS=serving"),
        ServiceState::Reloading => format!(
            "RELOADING=1\nMONOTONIC_USEC={monotonic_us}\nSTATUS=reloading the configuration"
        ),
        ServiceState::MainPid(pid) => format!("MAINPID={pid}\nSTATUS=serving with the new binary"),
        ServiceState::Stopping => "STOPPING=1\nSTATUS=shutting down gracefully".to_owned(),
        ServiceState::Status(text) => {
            let cut = &text[..text.floor_char_boundary(MAX_STATUS_BYTES)];
            // A line end would begin another assignment.
            format!("STATUS={}", cut.replace(['\n', '\r'], " "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_assignments_in_lines() {
        let of = |state: ServiceState<'_>| message(&state, 7, 123);
        assert_eq!(
            of(ServiceState::Ready),
            "READY=1\nMAINPID=7\nSTATUS=serving"
        );
        assert!(of(ServiceState::Reloading).starts_with("RELOADING=1\nMONOTONIC_USEC=123\n"));
        assert!(of(ServiceState::Stopping).starts_with("STOPPING=1\n"));
        assert!(of(ServiceState::MainPid(8)).starts_with("MAINPID=8\n"));
        assert_eq!(of(ServiceState::Status("a\nREADY=1")), "STATUS=a READY=1");
        let long = of(ServiceState::Status(&"é".repeat(200)));
        assert_eq!(long.len(), "STATUS=".len() + MAX_STATUS_BYTES);
    }

    #[test]
    fn both_kinds_of_addresses_are_reached_and_a_full_one_does_not_block() {
        let name = format!("sealane-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let abstract_address = SocketAddr::from_abstract_name(&name).expect("a name");
        let receivers = [
            (
                path.clone().into_os_string(),
                UnixDatagram::bind(&path).expect("free"),
            ),
            (
                format!("@{name}").into(),
                UnixDatagram::bind_addr(&abstract_address).expect("free"),
            ),
        ];
        for (address, receiver) in &receivers {
            let manager = Manager::new(address).expect("an address");
            manager.send(&ServiceState::Status("well")).expect("sent");
            let mut text = [0; 100];
            let len = receiver.recv(&mut text).expect("received");
            assert_eq!(&text[..len], b"STATUS=well");
            let full = (0..100_000).find_map(|_| manager.send(&ServiceState::Ready).err());
            assert_eq!(
                full.expect("nobody reads").kind(),
                io::ErrorKind::WouldBlock
            );
        }
        std::fs::remove_file(&path).expect("there");
        assert!(Manager::new(OsStr::new("vsock:2:1234")).is_err());
        assert!(Manager::new(OsStr::new("")).is_err());
    }
}
