//! A loader for real files; the crate itself does no I/O.

use sealane_conf::Loader;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// Reads from the file system; patterns may have wildcards in the last
/// segment only, which is all that the tests use.
pub(crate) struct Files;

impl Loader for Files {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        let Some(directory) = Path::new(pattern).parent() else {
            return Ok(Vec::new());
        };
        let Ok(entries) = std::fs::read_dir(directory) else {
            return Ok(Vec::new());
        };
        let mut found: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                path.to_str()
                    .is_some_and(|path| sealane_conf::input::matches(pattern, path))
            })
            .collect();
        found.sort();
        Ok(found)
    }

    fn resolve(&mut self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok((host, 0)
            .to_socket_addrs()?
            .map(|address| address.ip())
            .collect())
    }
}
