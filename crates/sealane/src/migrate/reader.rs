//! The file system as this command may use it: read-only. No name is
//! looked up; each gets its own made-up address.

use crate::loader::FileSystemLoader;
use sealane_conf::Loader;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// 198.18.0.0/15, which is kept for laboratories: no host of the configuration is there.
const NOBODY: u32 = 0xC612_0000;
/// Addresses in it.
const NOBODIES: u32 = 1 << 17;

/// Reads files and remembers the names that a server would look up.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    names: Vec<String>,
}

impl Reader {
    /// The names that were looked up, each once.
    pub(super) fn names(self) -> Vec<String> {
        self.names
    }
}

impl Loader for Reader {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        FileSystemLoader.read(path)
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        FileSystemLoader.glob(pattern)
    }

    fn resolve(&mut self, host: &str) -> io::Result<Vec<IpAddr>> {
        if host == "localhost" {
            return Ok(vec![Ipv4Addr::LOCALHOST.into()]);
        }
        let known = self.names.iter().position(|name| name == host);
        let index = known.unwrap_or_else(|| {
            self.names.push(host.to_owned());
            self.names.len() - 1
        });
        let index = u32::try_from(index).unwrap_or(0) % NOBODIES;
        Ok(vec![Ipv4Addr::from(NOBODY + index).into()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_an_address_of_its_own_and_is_told_once() {
        let mut reader = Reader::default();
        let mut address = |host| reader.resolve(host).expect("never asked")[0];
        assert_ne!(address("a.example"), address("b.example"));
        assert_eq!(address("a.example"), address("a.example"));
        assert_eq!(address("localhost"), IpAddr::from([127, 0, 0, 1]));
        assert_eq!(reader.names(), ["a.example", "b.example"]);
    }
}
