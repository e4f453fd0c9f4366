//! The site that all servers serve: files, certificates and one configuration.

use std::{
    fs,
    io::{self, Write},
    net::TcpListener,
    path::{Path, PathBuf},
};

use crate::Error;

/// The configuration with `@NAMES@` in place of ports and paths.
const TEMPLATE: &str = include_str!("../../../../bench/nginx.conf");

/// A file that the servers serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum File {
    Small,
    Medium,
    Large,
}

impl File {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Small => "1k",
            Self::Medium => "100k",
            Self::Large => "1g",
        }
    }

    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Small => 1 << 10,
            Self::Medium => 100 << 10,
            Self::Large => 1 << 30,
        }
    }
}

/// The ports of one started server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) plain: u16,
    pub(super) p256: u16,
    pub(super) rsa: u16,
    /// RSA without anything tuned.
    pub(super) untuned: u16,
    /// P-256 with early data.
    pub(super) early: u16,
}

impl Ports {
    /// Free ports. They are free when looked for; a server that finds one
    /// taken meanwhile does not start, which is an error and not a wrong figure.
    pub(super) fn free() -> Result<Self, Error> {
        let bind = || {
            TcpListener::bind("127.0.0.1:0").map_err(|source| Error::io("find a free port", source))
        };
        let listeners = [bind()?, bind()?, bind()?, bind()?, bind()?];
        let port = |index: usize| {
            listeners[index]
                .local_addr()
                .map(|address| address.port())
                .map_err(|source| Error::io("find a free port", source))
        };
        Ok(Self {
            plain: port(0)?,
            p256: port(1)?,
            rsa: port(2)?,
            untuned: port(3)?,
            early: port(4)?,
        })
    }

    /// Every port.
    pub(super) fn all(&self) -> [u16; 5] {
        [self.plain, self.p256, self.rsa, self.untuned, self.early]
    }
}

/// What is the same for all servers and rounds.
#[derive(Debug)]
pub(super) struct Site {
    work: PathBuf,
    files: PathBuf,
    certificates: PathBuf,
}

impl Site {
    /// Creates the files (kept for the next comparison) and checks the certificates.
    pub(super) fn prepare(
        work: &Path,
        certificates: &Path,
        large_file: bool,
    ) -> Result<Self, Error> {
        let absolute = |path: &Path| {
            fs::canonicalize(path)
                .map_err(|source| Error::io(format!("find {}", path.display()), source))
        };
        let files = work.join("files");
        fs::create_dir_all(&files)
            .map_err(|source| Error::io(format!("create {}", files.display()), source))?;
        for name in ["p256.crt", "p256.key", "rsa2048.crt", "rsa2048.key"] {
            let path = certificates.join(name);
            if !path.is_file() {
                return Err(Error::Usage(format!(
                    "{} is missing; run: bench/make-certificates.sh {}",
                    path.display(),
                    certificates.display()
                )));
            }
        }
        let mut wanted = vec![File::Small, File::Medium];
        wanted.extend(large_file.then_some(File::Large));
        for file in wanted {
            let path = files.join(file.name());
            provide(&path, file.bytes())
                .map_err(|source| Error::io(format!("create {}", path.display()), source))?;
        }
        Ok(Self {
            work: absolute(work)?,
            files: absolute(&files)?,
            certificates: absolute(certificates)?,
        })
    }

    /// Directory for one server's configuration, pid file and log.
    pub(super) fn prefix(&self, server: &str) -> Result<PathBuf, Error> {
        let prefix = self.work.join(server);
        fs::create_dir_all(&prefix)
            .map_err(|source| Error::io(format!("create {}", prefix.display()), source))?;
        Ok(prefix)
    }

    /// The configuration of one server.
    pub(super) fn configuration(&self, ports: &Ports, directives: &str) -> String {
        // As root a server would switch to a user who cannot read the cache.
        let user = if rustix::process::geteuid().is_root() {
            "user root;"
        } else {
            ""
        };
        let mut text = TEMPLATE.to_owned();
        for (name, value) in [
            ("@USER@", user),
            ("@DIRECTIVES@", directives),
            ("@PLAIN_PORT@", &ports.plain.to_string()),
            ("@P256_PORT@", &ports.p256.to_string()),
            ("@RSA_PORT@", &ports.rsa.to_string()),
            ("@UNTUNED_PORT@", &ports.untuned.to_string()),
            ("@EARLY_PORT@", &ports.early.to_string()),
            ("@FILES@", &self.files.display().to_string()),
            ("@CERTIFICATES@", &self.certificates.display().to_string()),
        ] {
            text = text.replace(name, value);
        }
        text
    }
}

/// A file of `bytes` bytes without holes and without repetition within a page,
/// read once so that it lies in the page cache.
fn provide(path: &Path, bytes: u64) -> io::Result<()> {
    if !fs::metadata(path).is_ok_and(|metadata| metadata.len() == bytes) {
        let mut file = io::BufWriter::with_capacity(1 << 20, fs::File::create(path)?);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..bytes / 8 {
            // xorshift64: any content will do as long as it is not all zeroes.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            file.write_all(&state.to_le_bytes())?;
        }
        file.flush()?;
    }
    io::copy(&mut fs::File::open(path)?, &mut io::sink()).map(drop)
}
