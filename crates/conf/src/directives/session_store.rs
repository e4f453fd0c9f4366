//! The arguments of `ssl_session_store` and `upstream_store`: where a store is, and how it is used.

use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::model::SessionStore;
use crate::store_url;
use crate::values;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Default of `timeout=`.
const STORE_TIMEOUT: Duration = Duration::from_millis(20);
/// Longest `timeout=`: a handshake that waits longer is better done in full.
const MAX_STORE_TIMEOUT: Duration = Duration::from_secs(5);
/// Default of `prefix=`.
const STORE_PREFIX: &str = "sealane:";
/// Longest `prefix=`, in bytes.
const MAX_PREFIX_BYTES: usize = 64;
/// Reads the arguments; `None` for `off`.
///
/// # Errors
/// An argument that is wrong.
pub(super) fn parse(b: &Build<'_>, c: &Call<'_>) -> Result<Option<Arc<SessionStore>>, Fault> {
    if c.arg(1) == b"off" {
        if c.count() > 1 {
            return Err(c.invalid_parameter(2));
        }
        return Ok(None);
    }
    let url = store_url::parse(c.text(1)?)
        .map_err(|why| Fault::at(1, "invalid URL of the session store").help(why))?;
    let mut store = SessionStore {
        topology: url.topology,
        tls: url.tls,
        user: url.user,
        password: url.password,
        database: url.database,
        timeout: STORE_TIMEOUT,
        key_file: None,
        prefix: STORE_PREFIX.to_owned(),
    };
    for (index, written) in c.args().skip(1) {
        let (name, value) = match memchr::memchr(b'=', written) {
            Some(at) => (&written[..at], &written[at + 1..]),
            None => (written, &[][..]),
        };
        let path = || {
            b.options
                .beside_conf(&PathBuf::from(OsStr::from_bytes(value)))
        };
        match name {
            _ if value.is_empty() => return Err(unknown_parameter(c, index)),
            b"timeout" => {
                let timeout = values::time(value)
                    .filter(|time| (Duration::from_millis(1)..=MAX_STORE_TIMEOUT).contains(time));
                store.timeout = timeout.ok_or_else(|| {
                    c.invalid_parameter(index)
                        .help("the time must be between 1ms and 5s")
                })?;
            }
            b"key" => store.key_file = Some(path()),
            b"ca" => match &mut store.tls {
                Some(tls) => tls.ca_file = Some(path()),
                None => {
                    return Err(c
                        .invalid_parameter(index)
                        .help("only a store with TLS (\"rediss://\") has a certificate to check"));
                }
            },
            b"prefix" => {
                let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(byte);
                if value.len() > MAX_PREFIX_BYTES || !value.iter().all(plain) {
                    return Err(c.invalid_parameter(index).help(
                        "a prefix consists of at most 64 letters, digits and characters of \
                         \"-_.:/\"",
                    ));
                }
                store.prefix = shown(value);
            }
            _ => return Err(unknown_parameter(c, index)),
        }
    }
    Ok(Some(Arc::new(store)))
}

fn unknown_parameter(c: &Call<'_>, index: usize) -> Fault {
    c.invalid_parameter(index)
        .help("it can be \"timeout=\", \"key=\", \"ca=\" or \"prefix=\" with a value")
}
