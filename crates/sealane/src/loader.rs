//! The configuration's view of the file system.

use glob::MatchOptions;
use sealane_conf::Loader;
use sealane_sys::poll;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Largest configuration file that is read, in bytes. A larger one is a
/// mistake, such as an `include` of a log.
const MAX_CONF_FILE_BYTES: u64 = 64 << 20;

/// How long a pipe (`-c /dev/stdin`) may take. A master that waited forever could neither be
/// stopped nor start a worker.
const PIPE_PATIENCE: Duration = Duration::from_secs(10);

/// Reads from the disk and asks the system's resolver.
pub(crate) struct FileSystemLoader;

impl Loader for FileSystemLoader {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        // A FIFO without a writer is an empty file, and nothing to wait for.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        // One byte more than allowed, to tell a full file from a longer one.
        // The size that a device or a pipe reports means nothing.
        let bytes = read_patiently(&file, MAX_CONF_FILE_BYTES + 1)?;
        if bytes.len() as u64 > MAX_CONF_FILE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("a configuration file is limited to {MAX_CONF_FILE_BYTES} bytes"),
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
            // To glob(3) a bracket that nothing closes is one that a name has.
            .or_else(|_| glob::glob_with(&pattern.replace('[', "[[]"), options))
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

/// The least room for what is longer than it says.
const MIN_ROOM_BYTES: u64 = 64 << 10;

/// Reads to the end, or `most` bytes, and waits for those of a pipe. What is outgrown is wiped, as
/// there may be keys in it.
fn read_patiently(mut file: &File, most: u64) -> io::Result<Vec<u8>> {
    let until = Instant::now() + PIPE_PATIENCE;
    // One byte more, to see that it has not become longer.
    let mut room = file.metadata()?.len() + 1;
    let mut bytes = Zeroizing::new(vec![0; room.min(most) as usize]);
    let mut filled = 0;
    loop {
        if filled == bytes.len() {
            if filled as u64 == most {
                return Ok(std::mem::take(&mut *bytes));
            }
            room = (2 * room).max(MIN_ROOM_BYTES).min(most);
            let mut larger = Zeroizing::new(vec![0; room as usize]);
            larger[..filled].copy_from_slice(&bytes);
            bytes = larger;
        }
        match file.read(&mut bytes[filled..]) {
            Ok(0) => {
                bytes.truncate(filled);
                return Ok(std::mem::take(&mut *bytes));
            }
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let patience = until.saturating_duration_since(Instant::now());
                if patience.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                poll::wait_readable(&[file.as_fd()], Some(patience))?;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

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
        std::fs::write(directory.join("[d.conf"), "").expect("a file");
        let bracket = FileSystemLoader.glob(directory.join("[d*").to_str().expect("UTF-8"));
        let bracket = bracket.expect("the bracket is part of a name");
        assert_eq!(bracket, [directory.join("[d.conf")]);
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
    fn a_pipe_is_read_as_far_as_somebody_writes() {
        let path = std::env::temp_dir().join(format!("sealane-fifo-{}", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("coreutils").success());
        assert_eq!(FileSystemLoader.read(&path).expect("nobody writes"), b"");
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let reader = PathBuf::from(format!("/dev/fd/{}", reader.as_fd().as_raw_fd()));
        let read = std::thread::spawn(move || FileSystemLoader.read(&reader));
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(10));
            writer.write_all(b"events {}\n").expect("it is read");
        }
        drop(writer);
        let text = read.join().expect("no panic").expect("readable");
        assert_eq!(text, b"events {}\n".repeat(3));
        std::fs::remove_file(path).expect("clean up");
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
