//! `SSLKEYLOGFILE`, as browsers have it: where the secrets of TLS connections are appended, so that
//! recorded traffic can be decrypted. Debug builds alone have it.

use crate::journal::{Journal, note};
use sealane_log::OsError;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

/// The variable with the path of the file.
const VARIABLE: &str = "SSLKEYLOGFILE";

/// Opens the file, while this process has its rights and before there is any TLS context. Workers
/// inherit it: they neither know the variable nor may open files. Returns what the error log has to
/// say about it.
pub(crate) fn start(journal: &Journal) -> Option<String> {
    let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty())?;
    let mut options = OpenOptions::new();
    let opened = options.append(true).create(true).mode(0o600).open(&path);
    match opened {
        Ok(file) => {
            sealane_tls::start_key_log(file);
            let path = path.display();
            Some(format!(
                "this is a debug build: the secrets of all TLS connections are written to \
                 \"{path}\", since the environment has {VARIABLE}. Whoever reads that file can \
                 decrypt them; remove the variable, or use a release build, to stop it"
            ))
        }
        Err(error) => {
            note!(
                journal,
                Warn,
                "{VARIABLE}: open() \"{}\" failed ({}); no secrets are written",
                path.display(),
                OsError(&error)
            );
            None
        }
    }
}
