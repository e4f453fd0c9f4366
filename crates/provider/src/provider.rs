//! A loaded provider, and keys in it.

use std::ffi::CString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use sealane_awslc::{KeyKind, PublicKey, Secret};
use sealane_sys::openssl::{Key, LibraryContext, Openssl, OpensslError, signing_provider};

use crate::input::common_digest;

/// OpenSSL's own provider, which computes on the processor.
const DEFAULT_PROVIDER: &str = "default";
/// The longest name of a provider.
const MAX_NAME_BYTES: usize = 64;

/// Which provider to load, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderOptions {
    /// Its name: `qatprovider`, `tpm2`, `default`.
    pub name: String,
    /// A configuration file of OpenSSL (openssl.cnf(5)), which says where the provider's module is
    /// and has its parameters. The system's own file is not read.
    pub conf: Option<PathBuf>,
    /// libcrypto; `None`: `libcrypto.so.4` or `libcrypto.so.3` of the system.
    pub library: Option<PathBuf>,
}

/// A provider of OpenSSL that is ready to compute.
#[derive(Clone, Debug)]
pub struct Provider {
    pub(crate) openssl: Openssl,
    context: Arc<LibraryContext>,
    name: String,
    /// OpenSSL's words for "this provider, if it can".
    properties: CString,
}

/// Why a provider, or a key in it, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderError {
    /// OpenSSL itself cannot be loaded.
    Library(OpensslError),
    /// No provider can have this name.
    Name(String),
    /// The configuration file is of no use.
    Conf(PathBuf, OpensslError),
    /// There is no provider of this name.
    Missing {
        /// The name.
        name: String,
        /// The configuration file that was read.
        conf: Option<PathBuf>,
        /// The providers that are there.
        active: Vec<String>,
        /// What OpenSSL says.
        error: OpensslError,
    },
    /// The provider has no such key.
    Key(String, OpensslError),
    /// The file has no key in it.
    NoPem(String),
    /// The key is of a kind that TLS does not use here.
    KeyKind(String),
    /// Its public key cannot be read, so results could not be verified.
    PublicKey(String, String),
    /// The engine's threads cannot be started.
    Threads(String),
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(error) => write!(
                f,
                "OpenSSL cannot be loaded: {error}. Providers need libcrypto of OpenSSL 3 or 4: \
                 install it (Debian: package \"libssl3\" or \"libssl3t64\")"
            ),
            Self::Name(name) => write!(
                f,
                "{name:?} is no name of an OpenSSL provider: it has letters, digits, \"-\", \"_\" and \
                 \".\", as in \"qatprovider\" and \"tpm2\""
            ),
            Self::Conf(path, error) => write!(
                f,
                "OpenSSL cannot use the configuration file \"{0}\": {error}. See what it makes of the \
                 file with: OPENSSL_CONF={0} openssl list -providers",
                path.display()
            ),
            Self::Missing {
                name,
                conf,
                active,
                error,
            } => {
                write!(
                    f,
                    "there is no OpenSSL provider \"{name}\": {error}. Active are: {}. ",
                    active.join(", ")
                )?;
                match conf {
                    None => write!(
                        f,
                        "Install its package, or name a configuration file that says where its \
                         module is: provider:{name},conf=FILE"
                    ),
                    Some(conf) => write!(
                        f,
                        "\"{}\" must have \"openssl_conf = SECTION\" at its beginning, and lead from \
                         there to a section of \"{name}\" with \"module = FILE\" and \"activate = 1\". \
                         See what is wrong with the module: openssl list -providers -provider FILE",
                        conf.display()
                    ),
                }
            }
            Self::Key(name, error) => write!(
                f,
                "the OpenSSL provider \"{name}\" has no private key for this: {error}. See whether \
                 OpenSSL itself can read it: openssl pkey -provider {name} -provider default -in KEY \
                 -pubout"
            ),
            Self::NoPem(name) => write!(
                f,
                "there is no private key in PEM for the OpenSSL provider \"{name}\": a block that begins \
                 with \"-----BEGIN ... PRIVATE KEY-----\", or what stands for one"
            ),
            Self::KeyKind(name) => write!(
                f,
                "the key in the OpenSSL provider \"{name}\" is not one that TLS servers use here: RSA, \
                 ECDSA on P-256, P-384 or P-521, or Ed25519"
            ),
            Self::PublicKey(name, error) => write!(
                f,
                "the OpenSSL provider \"{name}\" does not give the public key, without which its \
                 results cannot be verified: {error}"
            ),
            Self::Threads(error) => write!(f, "threads for the OpenSSL provider: {error}"),
        }
    }
}

impl std::error::Error for ProviderError {}

impl Provider {
    /// Loads OpenSSL, the provider, and OpenSSL's own provider for what the other one lacks.
    ///
    /// # Errors
    ///
    /// One of them cannot be loaded; the text says what to do.
    pub fn load(options: &ProviderOptions) -> Result<Self, ProviderError> {
        let name = &options.name;
        let is_name = (1..=MAX_NAME_BYTES).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if !is_name {
            return Err(ProviderError::Name(name.clone()));
        }
        let openssl = Openssl::load(options.library.as_deref()).map_err(ProviderError::Library)?;
        let context = LibraryContext::new(openssl).map_err(ProviderError::Library)?;
        if let Some(conf) = &options.conf {
            context
                .load_config(conf)
                .map_err(|error| ProviderError::Conf(conf.clone(), error))?;
        }
        // The first one that is loaded keeps OpenSSL from loading its own.
        context
            .load_provider(DEFAULT_PROVIDER)
            .map_err(ProviderError::Library)?;
        if name != DEFAULT_PROVIDER {
            context
                .load_provider(name)
                .map_err(|error| ProviderError::Missing {
                    name: name.clone(),
                    conf: options.conf.clone(),
                    active: context.provider_names(),
                    error,
                })?;
        }
        let properties = CString::new(format!("?provider={name}"))
            .map_err(|_| ProviderError::Name(name.clone()))?;
        Ok(Self {
            openssl,
            context: Arc::new(context),
            name: name.clone(),
            properties,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// OpenSSL's version, for the log.
    pub fn openssl_version(&self) -> String {
        self.openssl.version()
    }

    /// The key in the text of a PEM file: a private key, or what stands for one in a format of the
    /// provider's.
    ///
    /// # Errors
    ///
    /// There is no private key, or the passphrase does not fit.
    pub fn key_from_pem(
        &self,
        pem: &[u8],
        passphrase: Option<&Secret>,
    ) -> Result<ProviderKey, ProviderError> {
        let passphrase = passphrase.map(Secret::expose);
        let mut last = None;
        for block in key_blocks(pem) {
            match Key::from_pem(&self.context, &self.properties, block, passphrase) {
                Ok(key) => return self.key(Ok(key)),
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) => self.key(Err(error)),
            None => Err(ProviderError::NoPem(self.name.clone())),
        }
    }

    /// The key that a URI names, without `store:`: `handle:0x81000001`, `file:/path`.
    ///
    /// # Errors
    ///
    /// There is no private key, or the passphrase does not fit.
    pub fn key_from_uri(
        &self,
        uri: &str,
        passphrase: Option<&Secret>,
    ) -> Result<ProviderKey, ProviderError> {
        let passphrase = passphrase.map(Secret::expose);
        let key = Key::from_uri(&self.context, &self.properties, uri, passphrase);
        self.key(key)
    }

    fn key(&self, key: Result<Key, OpensslError>) -> Result<ProviderKey, ProviderError> {
        let name = || self.name.clone();
        let key = key.map_err(|error| ProviderError::Key(name(), error))?;
        let no_public =
            |error: &dyn fmt::Display| ProviderError::PublicKey(name(), error.to_string());
        let public_der = key.public_der().map_err(|error| no_public(&error))?;
        let public = PublicKey::from_spki_der(&public_der).map_err(|error| no_public(&error))?;
        if public.kind() == KeyKind::Other {
            return Err(ProviderError::KeyKind(name()));
        }
        let computes = signing_provider(&key, common_digest(public.kind()))
            .map_err(|error| ProviderError::Key(name(), error))?;
        Ok(ProviderKey {
            modulus: public.rsa_modulus().unwrap_or_default(),
            computes,
            key: Arc::new(key),
            public,
            public_der,
        })
    }
}

/// What PEM files have beside private keys.
const NO_KEYS: [&str; 5] = ["CERTIFICATE", "REQUEST", "CRL", "PARAMETERS", "PUBLIC KEY"];

/// The blocks of PEM text in which there may be a private key. Providers have labels of their own
/// for what stands for one.
fn key_blocks(pem: &[u8]) -> impl Iterator<Item = &[u8]> {
    let find = |text: &[u8], what: &[u8]| text.windows(what.len()).position(|part| part == what);
    let mut rest = pem;
    std::iter::from_fn(move || {
        loop {
            rest = &rest[find(rest, b"-----BEGIN ")?..];
            let label = &rest[b"-----BEGIN ".len()..];
            let label = &label[..find(label, b"-----")?];
            let end = find(rest, b"-----END ")? + b"-----END ".len();
            // Up to the end of the line.
            let length = rest[end..].iter().position(|byte| *byte == b'\n');
            let (block, after) = rest.split_at(length.map_or(rest.len(), |n| end + n + 1));
            rest = after;
            if !NO_KEYS
                .iter()
                .any(|other| label.ends_with(other.as_bytes()))
            {
                return Some(block);
            }
        }
    })
}

/// A private key in a provider.
pub struct ProviderKey {
    pub(crate) key: Arc<Key>,
    pub(crate) public: PublicKey,
    /// Of an RSA key.
    pub(crate) modulus: Vec<u8>,
    public_der: Vec<u8>,
    computes: String,
}

impl ProviderKey {
    /// Its kind.
    pub fn kind(&self) -> KeyKind {
        self.public.kind()
    }

    /// Size in bits: 2048 for RSA-2048, 256 for P-256.
    pub fn bits(&self) -> u32 {
        self.public.bits()
    }

    /// The public key as `SubjectPublicKeyInfo` (RFC 5280 section 4.1) in DER, to be compared with
    /// a certificate's.
    pub fn public_der(&self) -> &[u8] {
        &self.public_der
    }

    /// The provider that computes with it. It is OpenSSL's own one, `default`, if the one that was
    /// asked for does not know keys of this kind: then the processor computes.
    pub fn computing_provider(&self) -> &str {
        &self.computes
    }
}

impl fmt::Debug for ProviderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderKey")
            .field("public", &self.public)
            .field("computes", &self.computes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_among_other_blocks() {
        let text = "text\n-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n\
            -----BEGIN EC PARAMETERS-----\nAA==\n-----END EC PARAMETERS-----\r\n\
            -----BEGIN EC PRIVATE KEY-----\r\nAA==\r\n-----END EC PRIVATE KEY-----\r\n\
            -----BEGIN TSS2 PRIVATE KEY-----\nAA==\n-----END TSS2 PRIVATE KEY-----";
        let found: Vec<_> = key_blocks(text.as_bytes()).collect();
        assert_eq!(
            found,
            [
                b"-----BEGIN EC PRIVATE KEY-----\r\nAA==\r\n-----END EC PRIVATE KEY-----\r\n"
                    .as_slice(),
                b"-----BEGIN TSS2 PRIVATE KEY-----\nAA==\n-----END TSS2 PRIVATE KEY-----",
            ]
        );
        for broken in [
            "",
            "-----BEGIN ",
            "-----BEGIN X-----",
            "-----BEGIN X-----\n-----EN",
            "-----END X-----\n-----BEGIN X",
        ] {
            assert_eq!(key_blocks(broken.as_bytes()).count(), 0, "{broken}");
        }
        assert_eq!(key_blocks(b"-----BEGIN X-----END ").count(), 1);
    }
}
