//! Keys in the tokens of a PKCS #11 module, in the module's process.

use super::computer::token_uri;
use sealane_keys::deposit::{Deposited, DepositedKey};
use sealane_keys::{OpenKeys, OpenedKey};
use sealane_pkcs11::{Options, TokenKey, forget_refused_pins};
use sealane_tls::accelerator::Report;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long opening a key may take: less than the master waits.
const OPEN_TIMEOUT: Duration = Duration::from_secs(20);

/// Opens keys of one module.
pub(super) struct Tokens {
    module: PathBuf,
    options: Options,
}

impl Tokens {
    pub(super) fn new(
        module: PathBuf,
        sessions: usize,
        timeout: Duration,
        report: Report,
    ) -> Tokens {
        let options = Options {
            sessions,
            timeout,
            open_timeout: OPEN_TIMEOUT,
            ..Options::new(report)
        };
        Tokens { module, options }
    }
}

impl OpenKeys for Tokens {
    fn open(&self, deposited: &Deposited) -> Result<OpenedKey, String> {
        let DepositedKey::Uri(uri) = deposited.key() else {
            return Err("a token has no keys in files".to_owned());
        };
        let uri = token_uri(Path::new(uri))?;
        let pin = deposited.passwords().first();
        let key = TokenKey::open(&uri, &self.module, pin, &self.options);
        let key = Arc::new(key.map_err(|error| error.to_string())?);
        OpenedKey::of_device(key.clone(), key.public_key())
    }

    fn renew(&self) {
        forget_refused_pins();
    }
}
