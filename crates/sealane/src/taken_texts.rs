//! Texts with private keys (`ssl_certificate_key "data:..."`) that were taken out of a
//! configuration, from its reading until [`Materials`](sealane_server::Materials) have them.
//!
//! In between the key process is forked, which is given keys one by one and is not to inherit the
//! texts. So they are in a file in memory that no process has mapped.

use sealane_conf::{Loader, inline_keys};
use sealane_sys::file;
use sealane_sys::sealed_memory::sealed_file;
use sealane_tls::sha256;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Takes private keys out of what another loader reads, so that nobody keeps them by keeping the
/// text.
pub(crate) struct KeyTakingLoader<L> {
    inner: L,
    /// By the paths that the configuration has in their place, and wiped when they are dropped.
    taken: BTreeMap<PathBuf, Zeroizing<Vec<u8>>>,
}

/// Texts that were taken.
#[derive(Default)]
pub(crate) struct TakenTexts {
    memory: Option<OwnedFd>,
    /// Where each of them is there, and how long it is.
    places: BTreeMap<PathBuf, (u64, usize)>,
}

impl<L> KeyTakingLoader<L> {
    /// Nothing was read yet.
    pub(crate) fn new(inner: L) -> KeyTakingLoader<L> {
        KeyTakingLoader {
            inner,
            taken: BTreeMap::new(),
        }
    }

    /// What was taken.
    ///
    /// # Errors
    /// When the kernel has no room for it.
    pub(crate) fn into_taken(self) -> io::Result<TakenTexts> {
        if self.taken.is_empty() {
            return Ok(TakenTexts::default());
        }
        let pieces: Vec<&[u8]> = self.taken.values().map(|text| text.as_slice()).collect();
        let memory = sealed_file(&pieces)?;
        let mut at = 0;
        let place = |(path, text): (&PathBuf, &Zeroizing<Vec<u8>>)| {
            let place = (at, text.len());
            at += text.len() as u64;
            (path.clone(), place)
        };
        Ok(TakenTexts {
            places: self.taken.iter().map(place).collect(),
            memory: Some(memory),
        })
    }
}

impl<L: Loader> Loader for KeyTakingLoader<L> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let mut text = Zeroizing::new(self.inner.read(path)?);
        let without_keys = inline_keys::without_keys(&text, |key| {
            let hash = sha256(&key);
            self.taken.insert(inline_keys::path_of(&hash), key);
            hash
        });
        Ok(without_keys.unwrap_or_else(|| std::mem::take(&mut *text)))
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        self.inner.glob(pattern)
    }

    fn resolve(&mut self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.inner.resolve(host)
    }
}

impl TakenTexts {
    /// A text, if there is one with this path.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn get(&self, path: &Path) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        let (Some(memory), Some((at, len))) = (&self.memory, self.places.get(path)) else {
            return Ok(None);
        };
        let mut text = Zeroizing::default();
        file::read_exact_at(memory.as_fd(), &mut text, *len, *at)?;
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_conf::MemoryLoader;

    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nc2Vj\n-----END PRIVATE KEY-----\n";

    #[test]
    fn each_text_is_found_under_the_path_that_stands_for_it() {
        let other = KEY.replace("c2Vj", "b3RoZXI=");
        let directive = |key: &str| format!("ssl_certificate_key \"data:{key}\";\n");
        let both = directive(KEY) + &directive(&other);
        let files = MemoryLoader::new()
            .with("/both", both)
            .with("/one", directive(KEY))
            .with("/none", "user www;");
        let mut loader = KeyTakingLoader::new(files);
        for name in ["/both", "/one", "/none"] {
            let text = loader.read(Path::new(name)).expect("it is there");
            let text = String::from_utf8(text).expect("text");
            assert!(
                !text.contains("c2Vj") && !text.contains("b3RoZXI="),
                "{text}"
            );
            assert_eq!(text == "user www;", name == "/none");
        }
        assert!(loader.read(Path::new("/missing")).is_err());
        let taken = loader.into_taken().expect("memory");
        for key in [KEY, &other] {
            let path = inline_keys::path_of(&sha256(key.as_bytes()));
            let text = taken.get(&path).expect("readable").expect("taken");
            assert_eq!(text.as_slice(), key.as_bytes());
        }
        assert_eq!(taken.places.len(), 2);
        assert!(taken.get(Path::new("data:")).expect("readable").is_none());
        assert!(TakenTexts::default().get(Path::new("data:")).is_ok());
    }
}
