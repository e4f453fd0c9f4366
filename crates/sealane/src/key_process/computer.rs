//! What computes in a key process: the processor, a PKCS #11 module, or a provider of OpenSSL.

use super::providers::Providers;
use super::tokens::Tokens;
use sealane_conf::model::{DeviceKind, KeyDevice};
use sealane_keys::{OpenKeys, Processor};
use sealane_pkcs11::{Uri, find_module};
use sealane_provider::{EngineOptions, ProviderOptions};
use sealane_tls::accelerator::Report;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What computes. Each has a process of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Computer {
    /// AWS-LC and our vectors, with keys from files.
    Processor,
    /// A module of PKCS #11, with its tokens.
    Module {
        /// Its file.
        path: PathBuf,
        /// Threads of each token.
        sessions: usize,
        /// Of an operation.
        timeout: Duration,
    },
    /// A provider of OpenSSL.
    Provider {
        /// What is loaded.
        options: ProviderOptions,
        /// How it is used.
        engine: EngineOptions,
    },
}

impl Computer {
    /// That of a key which a device has, or computes with.
    ///
    /// # Errors
    /// What is wrong with its URI, or that the module is not installed.
    pub(super) fn of(device: &KeyDevice, key: &Path) -> Result<Computer, String> {
        match &device.kind {
            DeviceKind::Pkcs11 { module, sessions } => {
                let uri = token_uri(key)?;
                let found = find_module(&uri, module.as_deref());
                Ok(Computer::Module {
                    path: found.map_err(|error| error.to_string())?,
                    sessions: *sessions as usize,
                    timeout: device.timeout,
                })
            }
            DeviceKind::Provider {
                name,
                conf,
                threads,
                in_flight,
                verify_ecdsa,
            } => Ok(Computer::Provider {
                options: ProviderOptions {
                    name: name.clone(),
                    conf: conf.clone(),
                    library: None,
                },
                engine: EngineOptions {
                    threads: *threads as usize,
                    max_in_flight: *in_flight as usize,
                    timeout: device.timeout,
                    verify_ecdsa: *verify_ecdsa,
                },
            }),
        }
    }

    pub(super) fn is_device(&self) -> bool {
        *self != Computer::Processor
    }

    /// What opens its keys, in its process.
    pub(super) fn opener(&self, report: Report) -> Box<dyn OpenKeys> {
        match self.clone() {
            Computer::Processor => Box::new(Processor::new(report)),
            Computer::Module {
                path,
                sessions,
                timeout,
            } => Box::new(Tokens::new(path, sessions, timeout, report)),
            Computer::Provider { options, engine } => {
                Box::new(Providers::new(options, engine, report))
            }
        }
    }

    /// The name of its thread, for ps(1): 15 characters at most.
    pub(super) fn thread_name(&self) -> &'static str {
        match self {
            Computer::Processor => "sealane: keys",
            Computer::Module { .. } => "sealane: pkcs11",
            Computer::Provider { .. } => "sealane: engine",
        }
    }
}

/// The URI of a key in a token.
pub(super) fn token_uri(key: &Path) -> Result<Uri, String> {
    let text = key.to_string_lossy();
    if !sealane_pkcs11::is_uri(&text) {
        return Err(format!(
            "\"{text}\" is not a key of PKCS #11: a key of a provider of OpenSSL needs \
             \"ssl_accelerator provider:NAME\""
        ));
    }
    Uri::parse(&text).map_err(|error| error.to_string())
}

/// As in the log, and in metrics.
impl fmt::Display for Computer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Computer::Processor => f.write_str("processor"),
            Computer::Module { path, .. } => write!(f, "pkcs11:{}", path.display()),
            Computer::Provider { options, .. } => write!(f, "provider:{}", options.name),
        }
    }
}
