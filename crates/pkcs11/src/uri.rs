//! PKCS #11 URIs (RFC 7512), and how configurations in use write them.
//!
//! | form | from |
//! |---|---|
//! | `pkcs11:token=…;object=…?pin-source=…` | RFC 7512 |
//! | `store:pkcs11:…` | nginx 1.29, for OpenSSL's providers |
//! | `engine:pkcs11:pkcs11:…`, `engine:pkcs11:token=…` | nginx, for OpenSC's engine |
//! | `engine:pkcs11:slot_0-id_01`, `slot_0-label_NAME`, `id_01`, `label_NAME` | the same engine, before it knew URIs |
//!
//! A character that the RFC wants to be percent-encoded may stand for itself, as in those
//! programs, unless it ends an attribute.
//!
//! A PIN never stands in a URI: a configuration is shown, copied and logged. It is read from the
//! file that `pin-source` names, by whoever may read it, so nothing here holds a PIN.

mod attributes;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

pub use attributes::{UriError, is_uri};
use attributes::{decoded, text};

/// The longest URI that is read. A token's fields and a key's label take less than 400 bytes, each
/// of which may be percent-encoded.
pub const MAX_URI_BYTES: usize = 4096;

/// Which private key in which token, and where its PIN is. `Display` prints what identifies the
/// key, in the RFC's form, without the query.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Uri {
    pub(crate) token: Option<String>,
    pub(crate) manufacturer: Option<String>,
    pub(crate) serial: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) library_manufacturer: Option<String>,
    pub(crate) library_description: Option<String>,
    pub(crate) library_version: Option<(u8, u8)>,
    pub(crate) slot_description: Option<String>,
    pub(crate) slot_manufacturer: Option<String>,
    pub(crate) slot_id: Option<u64>,
    /// CKA_LABEL.
    pub(crate) object: Option<String>,
    /// CKA_ID.
    pub(crate) id: Option<Vec<u8>>,
    is_private: bool,
    pin_source: Option<PathBuf>,
    module_name: Option<String>,
    module_path: Option<PathBuf>,
}

impl Uri {
    /// Reads a URI in any of the forms above.
    ///
    /// # Errors
    ///
    /// It is none of them, an attribute is unknown, wrong or given twice, it names something else
    /// than a private key, or it contains a PIN.
    pub fn parse(value: &str) -> Result<Self, UriError> {
        if value.len() > MAX_URI_BYTES {
            return Err(UriError::TooLong);
        }
        let Some(rest) = attributes::after_prefixes(value)? else {
            return Err(UriError::NotAUri);
        };
        match rest {
            attributes::Form::Uri(rest) => Self::parse_attributes(rest),
            attributes::Form::Engine(rest) => Self::parse_engine(rest),
        }
    }

    /// The file that contains the PIN, if the URI names one.
    pub fn pin_source(&self) -> Option<&Path> {
        self.pin_source.as_deref()
    }

    /// The module's file, or a directory in which it is (`module-path`).
    pub fn module_path(&self) -> Option<&Path> {
        self.module_path.as_deref()
    }

    /// The module's name without `lib` and `.so` (`module-name`).
    pub fn module_name(&self) -> Option<&str> {
        self.module_name.as_deref()
    }

    fn parse_attributes(rest: &str) -> Result<Self, UriError> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut uri = Self::default();
        for part in path.split(';').filter(|part| !part.is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| UriError::NoValue(part.into()))?;
            uri.set(name, value)?;
        }
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or(UriError::NoValueInQuery)?;
            uri.set_query(name, value)?;
        }
        Ok(uri)
    }

    /// An attribute of the path (RFC 7512 section 2.3). One that is not known would restrict the
    /// choice in a way that is not known, so it is an error.
    fn set(&mut self, name: &str, value: &str) -> Result<(), UriError> {
        match name {
            "token" => once(&mut self.token, name, text(name, value)?),
            "manufacturer" => once(&mut self.manufacturer, name, text(name, value)?),
            "serial" => once(&mut self.serial, name, text(name, value)?),
            "model" => once(&mut self.model, name, text(name, value)?),
            "library-manufacturer" => {
                once(&mut self.library_manufacturer, name, text(name, value)?)
            }
            "library-description" => once(&mut self.library_description, name, text(name, value)?),
            "library-version" => once(
                &mut self.library_version,
                name,
                attributes::version(value)
                    .ok_or_else(|| UriError::bad(name, value, "a version such as 2 or 2.6"))?,
            ),
            "slot-description" => once(&mut self.slot_description, name, text(name, value)?),
            "slot-manufacturer" => once(&mut self.slot_manufacturer, name, text(name, value)?),
            "slot-id" => once(
                &mut self.slot_id,
                name,
                attributes::number(value)
                    .ok_or_else(|| UriError::bad(name, value, "a decimal number"))?,
            ),
            "object" => once(&mut self.object, name, text(name, value)?),
            "id" => once(&mut self.id, name, decoded(name, value)?),
            "type" => self.set_type(value),
            _ => Err(UriError::Unknown(name.into())),
        }
    }

    fn set_type(&mut self, value: &str) -> Result<(), UriError> {
        match value {
            "private" if self.is_private => Err(UriError::Twice("type".into())),
            "private" => {
                self.is_private = true;
                Ok(())
            }
            "cert" | "public" | "secret-key" | "data" => {
                Err(UriError::NotAPrivateKey(value.into()))
            }
            _ => Err(UriError::bad(
                "type",
                value,
                "\"private\", since the URI is that of a private key",
            )),
        }
    }

    /// An attribute of the query (RFC 7512 section 2.4). Those of vendors say nothing about which
    /// key it is, and are ignored.
    fn set_query(&mut self, name: &str, value: &str) -> Result<(), UriError> {
        match name {
            "pin-value" => Err(UriError::PinInUri),
            "pin-source" => {
                let file = attributes::pin_file(&text(name, value)?)?;
                once(&mut self.pin_source, name, file)
            }
            "module-name" => {
                let module = text(name, value)?;
                if module.is_empty() || module.contains('/') {
                    return Err(UriError::bad(
                        name,
                        value,
                        "a module's name without a directory, such as \"softhsm2\"",
                    ));
                }
                once(&mut self.module_name, name, module)
            }
            "module-path" => {
                let path = PathBuf::from(text(name, value)?);
                if !path.is_absolute() {
                    return Err(UriError::bad(name, value, "an absolute path"));
                }
                once(&mut self.module_path, name, path)
            }
            _ => Ok(()),
        }
    }

    /// What OpenSC's engine took before it knew URIs.
    fn parse_engine(rest: &str) -> Result<Self, UriError> {
        let wrong = || UriError::NotOfEngine(rest.into());
        let mut uri = Self::default();
        let mut key = rest;
        if let Some(slot) = rest.strip_prefix("slot_") {
            let (slot, rest) = slot.split_once('-').unwrap_or((slot, ""));
            uri.slot_id = Some(attributes::number(slot).ok_or_else(wrong)?);
            key = rest;
        }
        if let Some(id) = key.strip_prefix("id_") {
            uri.id = Some(attributes::hexadecimal(id).ok_or_else(wrong)?);
        } else if let Some(label) = key.strip_prefix("label_") {
            uri.object = Some(label.to_owned());
        } else if !key.is_empty() {
            return Err(wrong());
        }
        Ok(uri)
    }
}

fn once<T>(field: &mut Option<T>, name: &str, value: T) -> Result<(), UriError> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(UriError::Twice(name.into())),
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "pkcs11:";
        let mut attribute = |name: &str, value: &[u8], is_binary| {
            write!(f, "{separator}{name}=")?;
            separator = ";";
            attributes::encode(f, value, is_binary)
        };
        let texts = [
            ("token", &self.token),
            ("manufacturer", &self.manufacturer),
            ("serial", &self.serial),
            ("model", &self.model),
            ("library-manufacturer", &self.library_manufacturer),
            ("library-description", &self.library_description),
            ("slot-description", &self.slot_description),
            ("slot-manufacturer", &self.slot_manufacturer),
        ];
        for (name, value) in texts {
            if let Some(value) = value {
                attribute(name, value.as_bytes(), false)?;
            }
        }
        if let Some((major, minor)) = self.library_version {
            attribute(
                "library-version",
                format!("{major}.{minor}").as_bytes(),
                false,
            )?;
        }
        if let Some(slot) = self.slot_id {
            attribute("slot-id", slot.to_string().as_bytes(), false)?;
        }
        if let Some(object) = &self.object {
            attribute("object", object.as_bytes(), false)?;
        }
        if let Some(id) = &self.id {
            attribute("id", id, true)?;
        }
        attribute("type", b"private", false)
    }
}

impl fmt::Debug for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uri({self})")
    }
}
