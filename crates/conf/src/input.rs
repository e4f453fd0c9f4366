//! What the parser gets from outside: options and a way to read files.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Everything that reading a configuration needs from the world.
///
/// The parser calls nothing else, so a test or the fuzzer can hand in files
/// that exist in memory only.
pub trait Loader {
    /// Reads a whole file.
    ///
    /// # Errors
    ///
    /// The operating system's; its text ends up in nginx's message
    /// (`open() "..." failed (2: No such file or directory)`).
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>>;

    /// The files that match a pattern with `*`, `?` and `[...]` as `glob(3)`
    /// has them, sorted. No match is an empty list, not an error.
    ///
    /// # Errors
    ///
    /// When a directory cannot be read.
    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>>;

    /// The addresses of a host named in `listen`, in the system's order.
    /// Literal addresses never come here.
    ///
    /// # Errors
    ///
    /// When the name does not resolve.
    fn resolve(&mut self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// Where and as whom a configuration is read.
#[derive(Debug, Clone)]
pub struct Options {
    /// The configuration file, absolute (`-c`). Relative names of `include`,
    /// certificates and keys start from its directory, as in nginx.
    pub conf_path: PathBuf,
    /// `-p`: relative names of `root`, logs and the pid file start here.
    pub prefix: PathBuf,
    /// `-g`: directives of the `main` context, without a final `;`.
    pub globals: Option<String>,
    /// `-e`: the error log until, and unless, the configuration names one.
    pub error_log: PathBuf,
    /// The access log of `http` when the configuration names none.
    pub access_log: PathBuf,
    /// The pid file when the configuration names none.
    pub pid: PathBuf,
    /// Whether the process has root's privileges: without a `listen` line, a
    /// server listens on port 80, or on 8000 without them.
    pub privileged: bool,
    /// The machine's name, for `server_name $hostname`.
    pub hostname: String,
}

impl Options {
    /// Options for a configuration file below a prefix, with nginx's default
    /// paths (`logs/error.log`, `logs/access.log`, `logs/nginx.pid` become
    /// `logs/sealane.pid`), privileged.
    pub fn new(conf_path: impl Into<PathBuf>, prefix: impl Into<PathBuf>) -> Options {
        let prefix = prefix.into();
        Options {
            conf_path: conf_path.into(),
            globals: None,
            error_log: prefix.join("logs/error.log"),
            access_log: prefix.join("logs/access.log"),
            pid: prefix.join("logs/sealane.pid"),
            prefix,
            privileged: true,
            hostname: String::new(),
        }
    }

    /// A path of the configuration that starts from the prefix when relative.
    pub fn under_prefix(&self, path: &Path) -> PathBuf {
        self.prefix.join(path)
    }

    /// A path of the configuration that starts from the configuration file's
    /// directory when relative.
    pub fn beside_conf(&self, path: &Path) -> PathBuf {
        match self.conf_path.parent() {
            Some(directory) => directory.join(path),
            None => path.to_owned(),
        }
    }
}
