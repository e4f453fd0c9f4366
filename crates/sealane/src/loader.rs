//! The configuration's view of the file system.

use glob::MatchOptions;
use sealane_conf::Loader;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// Largest configuration file that is read, in bytes. A larger one is a
/// mistake, such as an `include` of a log.
const MAX_CONF_FILE_BYTES: u64 = 64 << 20;

/// Reads from the disk and asks the system's resolver.
pub(crate) struct FileSystemLoader;

impl Loader for FileSystemLoader {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // One byte more than allowed, to tell a full file from a longer one.
        // The size that a device or a pipe claims to have means nothing.
        File::open(path)?
            .take(MAX_CONF_FILE_BYTES + 1)
            .read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_CONF_FILE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("more than {MAX_CONF_FILE_BYTES} bytes are no configuration file"),
            ));
        }
        Ok(bytes)
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        // As glob(3) without flags: `*` and `?` stop at slashes and do not
        // match a leading dot.
        let options = MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        let found = glob::glob_with(pattern, options)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let mut paths = found
            .collect::<Result<Vec<_>, _>>()
            .map_err(io::Error::from)?;
        paths.sort();
        Ok(paths)
    }

    fn resolve(&mut self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut addresses = Vec::new();
        for address in (host, 0).to_socket_addrs()? {
            if !addresses.contains(&address.ip()) {
                addresses.push(address.ip());
            }
        }
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_sorted_and_pass_over_hidden_files() {
        let directory = std::env::temp_dir().join(format!("sealane-glob-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("sub")).expect("a directory");
        for name in ["b.conf", "a.conf", ".hidden.conf", "c.txt", "sub/d.conf"] {
            std::fs::write(directory.join(name), "").expect("a file");
        }
        let pattern = directory.join("*.conf");
        let found = FileSystemLoader
            .glob(pattern.to_str().expect("UTF-8"))
            .expect("readable");
        assert_eq!(found, [directory.join("a.conf"), directory.join("b.conf")]);
        let none = FileSystemLoader.glob(directory.join("*.x").to_str().expect("UTF-8"));
        assert!(none.expect("no match is no error").is_empty());
        std::fs::remove_dir_all(directory).expect("clean up");
    }

    #[test]
    fn an_endless_file_is_refused() {
        let error = FileSystemLoader
            .read(Path::new("/dev/zero"))
            .expect_err("endless");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let error = FileSystemLoader
            .read(Path::new("/nonexistent"))
            .expect_err("missing");
        assert_eq!(error.raw_os_error(), Some(2));
    }

    #[test]
    fn names_resolve_without_doubles() {
        let addresses = FileSystemLoader
            .resolve("localhost")
            .expect("localhost is known");
        assert!(addresses.iter().all(IpAddr::is_loopback) && !addresses.is_empty());
        let mut unique = addresses.clone();
        unique.dedup();
        assert_eq!(unique, addresses);
    }
}
