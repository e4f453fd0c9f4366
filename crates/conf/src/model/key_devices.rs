//! Devices that compute with private keys: `ssl_accelerator`, and keys that are not files.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// `ssl_accelerator`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Accelerator {
    /// `batch` where processor and key allow it, else `cpu`.
    #[default]
    Auto,
    /// AWS-LC, one operation at a time.
    Cpu,
    /// Eight operations at a time in vector registers.
    Batch,
    /// A device.
    Device(Arc<KeyDevice>),
}

/// A device, and how it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDevice {
    /// What it is.
    pub kind: DeviceKind,
    /// `timeout=`: how long an operation may take; default 5 s.
    pub timeout: Duration,
    /// `max_wait=`: while the oldest operation waits for longer, new ones are refused; default 2 s.
    pub max_wait: Duration,
    /// `fallback=`: what computes with the same keys if the device does not.
    pub fallbacks: Vec<KeyFallback>,
}

/// A kind of device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceKind {
    /// `pkcs11`: tokens, for keys that have a URI. Keys in files are computed with as by `auto`.
    Pkcs11 {
        /// `module=`: where URIs name none; default p11-kit's.
        module: Option<PathBuf>,
        /// `sessions=`, with a thread each; default 4.
        sessions: u32,
    },
    /// `provider:NAME`: a provider of OpenSSL, for keys in files and for those in it.
    Provider {
        /// Its name.
        name: String,
        /// `conf=`: OpenSSL's configuration file.
        conf: Option<PathBuf>,
        /// `threads=`; default 1.
        threads: u32,
        /// `in_flight=`: operations at a time; default 1000.
        in_flight: u32,
        /// `verify_ecdsa`: verify those signatures too.
        verify_ecdsa: bool,
    },
}

/// What computes if a device does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFallback {
    /// `cpu`: the processor, with the key's own file.
    OwnFile,
    /// The processor, with a file that has the same key.
    File(PathBuf),
}

/// What identifies a key in its URI: all but the query, which says where module and PIN are.
pub fn without_query(uri: &str) -> &str {
    uri.split_once('?').map_or(uri, |(key, _)| key)
}

impl KeyDevice {
    /// The defaults.
    pub fn new(kind: DeviceKind) -> Self {
        Self {
            kind,
            timeout: Duration::from_secs(5),
            max_wait: Duration::from_secs(2),
            fallbacks: Vec::new(),
        }
    }

    /// Tokens with the defaults: what keys with a URI of PKCS #11 use unless `ssl_accelerator` says
    /// more.
    pub fn pkcs11() -> Self {
        Self::new(DeviceKind::Pkcs11 {
            module: None,
            sessions: 4,
        })
    }
}

/// As in the configuration: devices that differ have different texts.
impl fmt::Display for KeyDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            DeviceKind::Pkcs11 { module, sessions } => {
                f.write_str("pkcs11")?;
                if let Some(module) = module {
                    write!(f, " module={}", module.display())?;
                }
                write!(f, " sessions={sessions}")?;
            }
            DeviceKind::Provider {
                name,
                conf,
                threads,
                in_flight,
                verify_ecdsa,
            } => {
                write!(f, "provider:{name}")?;
                if let Some(conf) = conf {
                    write!(f, ",conf={}", conf.display())?;
                }
                write!(f, " threads={threads} in_flight={in_flight}")?;
                if *verify_ecdsa {
                    f.write_str(" verify_ecdsa")?;
                }
            }
        }
        let (timeout, max_wait) = (self.timeout.as_millis(), self.max_wait.as_millis());
        write!(f, " timeout={timeout}ms max_wait={max_wait}ms")?;
        for fallback in &self.fallbacks {
            match fallback {
                KeyFallback::OwnFile => f.write_str(" fallback=cpu")?,
                KeyFallback::File(path) => write!(f, " fallback={}", path.display())?,
            }
        }
        Ok(())
    }
}
