//! `state_path`: the account and the certificates of an issuer in files.
//!
//! The directory belongs to the user of the worker, and only the worker writes there: what is in
//! it comes from the network, which the master does not read. `account.key` and `account.url` are
//! those of nginx's module, so that an account goes on when it comes from there.

use super::jws::AccountKey;
use super::keys::KeyPem;
use super::record::MAX_RECORD_BYTES;
use crate::journal::{Journal, note};
use sealane_conf::model::AcmeIssuer;
use sealane_log::OsError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The account's private key in PEM.
const ACCOUNT_KEY: &str = "account.key";
/// Its URL.
const ACCOUNT_URL: &str = "account.url";

/// Permissions of the files: they hold private keys.
const MODE: u32 = 0o600;

/// The directory of an issuer.
#[derive(Debug, Clone)]
pub(crate) struct StateDirectory {
    path: PathBuf,
    issuer: String,
}

/// What is known about an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptAccount {
    pub(super) key: KeyPem,
    /// `None`: it is not known whether the server has it.
    pub(super) url: Option<String>,
}

impl StateDirectory {
    /// That of an issuer, unless `state_path` is off.
    pub(crate) fn of(issuer: &AcmeIssuer) -> Option<StateDirectory> {
        let path = issuer.state_path.clone()?;
        Some(StateDirectory {
            path,
            issuer: issuer.name.clone(),
        })
    }

    /// The contents of a file; `None` when there is none.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Zeroizing<Vec<u8>>>, String> {
        let failed =
            |call: &str, error: &io::Error| format!("{call}() failed ({})", OsError(error));
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(self.path.join(name));
        let file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("open", &error)),
        };
        if !file.metadata().is_ok_and(|facts| facts.is_file()) {
            return Err("it is not a regular file".to_owned());
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_RECORD_BYTES + 1));
        let most = MAX_RECORD_BYTES as u64 + 1;
        file.take(most)
            .read_to_end(&mut bytes)
            .map_err(|error| failed("read", &error))?;
        match bytes.len() > MAX_RECORD_BYTES {
            true => Err(format!("it is larger than {MAX_RECORD_BYTES} bytes")),
            false => Ok(Some(bytes)),
        }
    }

    /// Replaces a file: after a crash there is the old one or the new one.
    pub(super) fn write(&self, name: &str, bytes: &[u8], journal: &Journal) {
        if let Err((call, error)) = self.replace(name, bytes) {
            note!(
                journal,
                Error,
                "{call}() \"{}\" failed ({}): what acme issuer \"{}\" knows is lost with this \
                 process",
                self.path.join(name).display(),
                OsError(&error),
                self.issuer
            );
        }
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), (&'static str, io::Error)> {
        let (new, path) = (self.path.join(format!("{name}.new")), self.path.join(name));
        // What a process that died has left.
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(MODE)
            .open(&new)
            .map_err(|error| ("open", error))?;
        file.write_all(bytes).map_err(|error| ("write", error))?;
        file.sync_all().map_err(|error| ("fsync", error))?;
        fs::rename(&new, &path).map_err(|error| ("rename", error))?;
        let directory = File::open(&self.path).map_err(|error| ("open", error))?;
        directory.sync_all().map_err(|error| ("fsync", error))
    }

    /// The account of an earlier run.
    pub(super) fn account(&self, journal: &Journal) -> Option<KeptAccount> {
        let text = |name: &str| match self.read(name) {
            Ok(bytes) => bytes,
            Err(why) => {
                note!(
                    journal,
                    Error,
                    "\"{}\" cannot be used ({why})",
                    self.path.join(name).display()
                );
                None
            }
        };
        let key = text(ACCOUNT_KEY)?;
        let usable = AccountKey::from_pem(&key).and_then(|_| KeyPem::new(&key));
        let key = usable.inspect_err(|error| {
            note!(
                journal,
                Error,
                "\"{}\": {error}; acme issuer \"{}\" makes a new account",
                self.path.join(ACCOUNT_KEY).display(),
                self.issuer
            );
        });
        let url = text(ACCOUNT_URL);
        let url = url.map(|url| String::from_utf8_lossy(&url).trim().to_owned());
        Some(KeptAccount {
            key: key.ok()?,
            url: url.filter(|url| url.starts_with("https://")),
        })
    }

    /// Keeps an account. The key comes first: with the key an account is found again.
    pub(super) fn keep_account(&self, account: &KeptAccount, journal: &Journal) {
        self.write(ACCOUNT_KEY, &account.key.expose(), journal);
        let url = account.url.as_deref().unwrap_or_default();
        self.write(ACCOUNT_URL, url.as_bytes(), journal);
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_log::Logger;
    use std::os::unix::fs::PermissionsExt;

    fn directory(name: &str) -> StateDirectory {
        let path = std::env::temp_dir().join(format!("sealane-acme-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("new");
        StateDirectory {
            path,
            issuer: "test".to_owned(),
        }
    }

    #[test]
    fn files_are_replaced_whole_and_are_private() {
        let state = directory("files");
        let journal = Journal::running(Logger::discard());
        assert_eq!(state.read("a"), Ok(None));
        state.write("a", b"one", &journal);
        fs::write(state.path.join("a.new"), "left by a crash").expect("ours");
        state.write("a", b"two", &journal);
        assert_eq!(
            state.read("a").expect("it is there").as_deref(),
            Some(&b"two".to_vec())
        );
        let mode = fs::metadata(state.path.join("a"))
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, MODE);
        assert!(!state.path.join("a.new").exists());
        fs::write(state.path.join("long"), vec![b'x'; MAX_RECORD_BYTES + 1]).expect("ours");
        assert!(state.read("long").is_err());
        std::os::unix::fs::symlink("a", state.path.join("link")).expect("ours");
        assert!(state.read("link").is_err(), "links are not followed");
        fs::remove_dir_all(&state.path).expect("ours");
    }

    #[test]
    fn accounts_without_a_usable_key_are_no_accounts() {
        let state = directory("account");
        let journal = Journal::running(Logger::discard());
        assert_eq!(state.account(&journal), None);
        fs::write(state.path.join(ACCOUNT_KEY), "nonsense").expect("ours");
        assert_eq!(state.account(&journal), None);
        let kind = sealane_conf::model::AcmeKey::P256;
        let account = KeptAccount {
            key: super::super::keys::generate(kind).expect("a key"),
            url: Some("https://a.test/1".to_owned()),
        };
        state.keep_account(&account, &journal);
        assert_eq!(state.account(&journal), Some(account));
        fs::write(state.path.join(ACCOUNT_URL), "").expect("ours");
        assert_eq!(state.account(&journal).expect("its key is there").url, None);
        fs::remove_dir_all(&state.path).expect("ours");
    }
}
