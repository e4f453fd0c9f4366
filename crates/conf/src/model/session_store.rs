//! `ssl_session_store`: where the nodes of a site keep what they share.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use zeroize::Zeroizing;

/// A Redis or Valkey. Shown as its URL without user and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStore {
    /// Which servers, and how they belong together.
    pub topology: StoreTopology,
    /// CA certificates to check the store's against; `None` without TLS.
    pub tls: Option<StoreTls>,
    /// User of `AUTH`; the default user when not given.
    pub user: Option<String>,
    /// Password of `AUTH`.
    pub password: Option<Password>,
    /// Number of the database; a cluster has only 0.
    pub database: u32,
    /// `timeout=`: how long a handshake waits for an answer. Default 20 ms.
    pub timeout: Duration,
    /// `key=`: file whose bytes seal what is stored. Without it the server's
    /// certificate key does.
    pub key_file: Option<PathBuf>,
    /// `prefix=`: the prefix of keys in the store. Default
    /// `sealane:`.
    pub prefix: String,
}

/// How the store's servers belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreTopology {
    /// `redis://`: one server.
    Single(StoreAddress),
    /// `redis+sentinel://`: sentinels name the server.
    Sentinel {
        /// The sentinels, queried in this order.
        sentinels: Vec<StoreAddress>,
        /// The name under which they watch the server.
        service: String,
    },
    /// `redis+cluster://`: some of its servers, which know the others.
    Cluster(Vec<StoreAddress>),
}

/// Where one of the store's servers listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreAddress {
    /// TCP.
    Tcp {
        /// Name or address, IPv6 without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// A UNIX socket.
    Unix(PathBuf),
}

/// How the store's certificate is checked; its name always is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreTls {
    /// `ca=`: PEM file of the CA certificates; the system's when not given.
    pub ca_file: Option<PathBuf>,
}

/// A password: wiped when dropped, never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Zeroizing<String>);

impl Password {
    /// Takes the password over.
    pub fn new(text: String) -> Password {
        Password(Zeroizing::new(text))
    }

    /// The text, to be sent to the store.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

impl SessionStore {
    fn scheme(&self) -> &'static str {
        match (&self.topology, self.tls.is_some()) {
            (StoreTopology::Single(StoreAddress::Unix(_)), _) => "unix",
            (StoreTopology::Single(_), false) => "redis",
            (StoreTopology::Single(_), true) => "rediss",
            (StoreTopology::Sentinel { .. }, false) => "redis+sentinel",
            (StoreTopology::Sentinel { .. }, true) => "rediss+sentinel",
            (StoreTopology::Cluster(_), false) => "redis+cluster",
            (StoreTopology::Cluster(_), true) => "rediss+cluster",
        }
    }
}

impl fmt::Display for SessionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.scheme())?;
        let (servers, service) = match &self.topology {
            StoreTopology::Single(StoreAddress::Unix(path)) => {
                write!(f, "{}", path.display())?;
                (&[][..], None)
            }
            StoreTopology::Single(address) => (std::slice::from_ref(address), None),
            StoreTopology::Sentinel { sentinels, service } => (sentinels.as_slice(), Some(service)),
            StoreTopology::Cluster(servers) => (servers.as_slice(), None),
        };
        for (index, server) in servers.iter().enumerate() {
            f.write_str(if index == 0 { "//" } else { "," })?;
            server.fmt(f)?;
        }
        if let Some(service) = service {
            write!(f, "/{service}")?;
        }
        if self.database != 0 {
            write!(f, "/{}", self.database)?;
        }
        Ok(())
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreAddress::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            StoreAddress::Tcp { host, port } => write!(f, "{host}:{port}"),
            StoreAddress::Unix(path) => path.display().fmt(f),
        }
    }
}
