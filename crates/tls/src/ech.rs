//! Encrypted Client Hello (RFC 9849): `ssl_ech_file`.
//!
//! The hello that arrives has another one inside, sealed for a key of the server. What is inside
//! chooses the server, the session and everything else; libssl still gets what arrived, and opens
//! it again. All keys of a configuration open hellos on all its addresses, so that the two always
//! agree. Servers differ in the configurations that they send to clients whose hello no key opens.

use std::fmt;
use std::sync::Arc;

use sealane_awslc::{ContextBuilder, EchKey, EchOpener, NewEchKey, Secret, sha256};
use zeroize::Zeroizing;

use crate::client_hello::{ClientHello, EchOffer, MAX_HELLO_BYTES};
use crate::error::{Error, SettingsError};

/// Padding of hellos: names of up to this many bytes are as long as all others.
const MAX_NAME_BYTES: u8 = 128;

/// Names outside of an opened hello that are kept: longer ones are no names. Nobody has checked
/// what is outside.
pub(crate) const MAX_OUTER_NAME_BYTES: usize = 255;

/// A file of `ssl_ech_file`, as read.
#[derive(Debug)]
pub struct EchKeyFile {
    /// Its contents.
    pub pem: Secret,
    /// Its name.
    pub label: String,
}

/// The keys of all servers of a configuration.
pub struct EchKeys {
    keys: Vec<(String, EchKey)>,
    opener: EchOpener,
    digest: [u8; 32],
}

impl EchKeys {
    /// The keys of these files; `None` if there are none.
    ///
    /// # Errors
    ///
    /// When a file cannot be used.
    pub fn build(files: &[EchKeyFile]) -> Result<Option<Arc<Self>>, SettingsError> {
        if files.is_empty() {
            return Ok(None);
        }
        let keys = files.iter().map(|file| {
            let label = &file.label;
            let key = EchKey::from_pem(file.pem.expose()).map_err(|error| {
                SettingsError::new(format!("cannot load ECH key \"{label}\": {error}"))
            })?;
            Ok((label.clone(), key))
        });
        let keys = keys.collect::<Result<Vec<_>, SettingsError>>()?;
        let opener = EchOpener::new(keys.iter().map(|(_, key)| key));
        let opener = opener.map_err(|error| SettingsError::new(error.to_string()))?;
        Ok(Some(Arc::new(Self {
            keys,
            opener,
            digest: digest(files),
        })))
    }

    /// Equal for the same files with the same contents, in the same order.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The message inside of a hello, whose records these are, if one of the keys opens it.
    pub(crate) fn open(
        &self,
        hello: &ClientHello<'_>,
        records: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        match hello.ech() {
            Some(EchOffer::Outer { config_id }) if self.opener.knows(config_id) => {
                Ok(self.opener.open(records, MAX_HELLO_BYTES)?)
            }
            _ => Ok(None),
        }
    }

    /// Gives the keys to a context. Clients whose hello none of them opens are sent the
    /// configurations of the file with this name, or those of the first.
    pub(crate) fn set(
        &self,
        builder: &mut ContextBuilder,
        retry: Option<&str>,
    ) -> Result<(), sealane_awslc::Error> {
        let named = self
            .keys
            .iter()
            .position(|(label, _)| Some(label.as_str()) == retry);
        let retry = named.unwrap_or(0);
        let keys = self.keys.iter().enumerate();
        builder.set_ech_keys(keys.map(|(index, (_, key))| (key, index == retry)))
    }
}

/// Over each name and each content with its length.
fn digest(files: &[EchKeyFile]) -> [u8; 32] {
    let mut text = Zeroizing::new(Vec::new());
    for file in files {
        for part in [file.label.as_bytes(), file.pem.expose()] {
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part);
        }
    }
    sha256(&text)
}

impl fmt::Debug for EchKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.keys.iter().map(|(label, _)| label);
        f.debug_list().entries(labels).finish()
    }
}

/// What became of an encrypted hello.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum EchOutcome {
    /// There was none.
    #[default]
    NotTried,
    /// There was something that no key opens: made up, or for a key of another time.
    Grease,
    /// It was opened.
    Accepted {
        /// The name outside, as the client sent it.
        outer_name: Box<str>,
    },
}

impl EchOutcome {
    /// What a hello offered and whether one of the keys has opened it.
    pub(crate) fn of(outer: Option<&ClientHello<'_>>, is_opened: bool) -> Self {
        match outer.map(|outer| (outer.ech(), outer.raw_server_name())) {
            Some((Some(_), name)) if is_opened => Self::Accepted {
                outer_name: match std::str::from_utf8(name) {
                    Ok(name) if name.len() <= MAX_OUTER_NAME_BYTES => name.into(),
                    _ => Box::default(),
                },
            },
            Some((Some(_), _)) => Self::Grease,
            _ => Self::NotTried,
        }
    }

    pub(crate) fn is_accepted(&self) -> bool {
        matches!(self, Self::Accepted { .. })
    }

    /// OpenSSL's and nginx's name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::NotTried => "NOT_TRIED",
            Self::Grease => "GREASE",
            Self::Accepted { .. } => "SUCCESS",
        }
    }
}

/// A new key for `ssl_ech_file`, with what is published about it. See [`NewEchKey::generate`].
///
/// # Errors
///
/// When clients would not accept the name.
pub fn new_ech_key(public_name: &str) -> Result<NewEchKey, SettingsError> {
    let mut id = [0];
    sealane_awslc::fill_random(&mut id);
    NewEchKey::generate(public_name, MAX_NAME_BYTES, id[0]).map_err(|error| {
        SettingsError::new(format!(
            "\"{public_name}\" cannot be the public name of a key: {error}"
        ))
    })
}
