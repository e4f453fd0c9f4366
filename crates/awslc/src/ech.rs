//! Encrypted Client Hello (RFC 9849): keys of a server, and what they open.
//!
//! libssl opens a hello only once a connection has its context, and the context depends on the name
//! inside. So an [`EchOpener`] has libssl open the hello for a connection that goes no further; the
//! real one opens it again with the same keys.

use std::ffi::CString;
use std::fmt;
use std::ptr::{self, NonNull};

use aws_lc_sys as sys;
use zeroize::Zeroizing;

use crate::callbacks;
use crate::connection::Connection;
use crate::context::{Context, ContextBuilder};
use crate::error::{self, Error};
use crate::ffi::{check, check_ptr};
use crate::key::{MemoryBio, PrivateKey};
use crate::secret::Secret;

/// The length of an X25519 private key, in bytes.
const KEY_BYTES: usize = 32;

/// What precedes the bytes of an X25519 key in PKCS #8 (RFC 8410 section 7).
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20,
];

/// Where in a configuration its id is: behind version and length.
const CONFIG_ID_AT: usize = 4;

/// Why the text of a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EchKeyError {
    /// There is no private key, or it does not decode.
    NoKey(Error),
    /// The key is of another kind than X25519.
    Kind,
    /// There is no `ECHCONFIG`, or it is no list of configurations.
    NoConfig,
    /// A configuration is not for this key, or has something that is not supported.
    Config(Error),
}

impl fmt::Display for EchKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey(error) | Self::Config(error) => error.fmt(f),
            Self::Kind => f.write_str("the key is not an X25519 key"),
            Self::NoConfig => f.write_str("there is no usable PEM block \"ECHCONFIG\""),
        }
    }
}

impl std::error::Error for EchKeyError {}

/// A key with its configurations.
pub struct EchKey {
    key: HpkeKey,
    /// Each as it is sent to clients.
    configs: Vec<Vec<u8>>,
}

impl EchKey {
    /// Reads PEM text: a `PRIVATE KEY` and an `ECHCONFIG`, a list of configurations for it.
    ///
    /// # Errors
    ///
    /// When one of them is missing, or they do not belong together.
    pub fn from_pem(pem: &[u8]) -> Result<Self, EchKeyError> {
        let private = PrivateKey::from_pem(pem, &[])
            .map_err(|error| EchKeyError::NoKey(error.cause().clone()))?;
        let key = HpkeKey::of(&private)?;
        let list = pem_block(pem, "ECHCONFIG").ok_or(EchKeyError::NoConfig)?;
        let configs = split_list(&list).ok_or(EchKeyError::NoConfig)?;
        let all = configs.iter().map(|config| (config.as_slice(), &key, true));
        // Here it is known which file is wrong.
        Keys::new(all).map_err(EchKeyError::Config)?;
        Ok(Self { key, configs })
    }

    /// The ids of the configurations.
    fn ids(&self) -> impl Iterator<Item = u8> {
        let configs = self.configs.iter();
        configs.filter_map(|config| config.get(CONFIG_ID_AT).copied())
    }
}

impl fmt::Debug for EchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EchKey({} configurations)", self.configs.len())
    }
}

/// A new key for `sealane ech-key`.
#[derive(Debug)]
pub struct NewEchKey {
    /// The private key: PKCS #8 in DER.
    pub pkcs8: Secret,
    /// The list of its one configuration: what is published.
    pub config_list: Vec<u8>,
}

impl NewEchKey {
    /// Makes a key. `public_name` is what clients ask for in the open; their hellos are padded for
    /// names of up to `max_name_bytes`.
    ///
    /// # Errors
    ///
    /// When the name is none that clients accept, or libssl has no memory.
    pub fn generate(public_name: &str, max_name_bytes: u8, id: u8) -> Result<Self, Error> {
        error::clear_queue();
        let key = HpkeKey::empty()?;
        let name = CString::new(public_name)
            .map_err(|_| Error::local("SSL_marshal_ech_config", "the name has a zero byte"))?;
        let mut private = Zeroizing::new(Vec::with_capacity(PKCS8_PREFIX.len() + KEY_BYTES));
        private.extend_from_slice(&PKCS8_PREFIX);
        private.resize(PKCS8_PREFIX.len() + KEY_BYTES, 0);
        let (mut bytes, mut length): (*mut u8, usize) = (ptr::null_mut(), 0);
        let mut key_bytes = 0;
        // SAFETY: the key is valid; its private part has exactly the room that is left for it. The
        // library allocates the configuration, which is copied and given back.
        unsafe {
            check(
                "EVP_HPKE_KEY_generate",
                sys::EVP_HPKE_KEY_generate(key.0.as_ptr(), sys::EVP_hpke_x25519_hkdf_sha256()),
            )?;
            check(
                "EVP_HPKE_KEY_private_key",
                sys::EVP_HPKE_KEY_private_key(
                    key.0.as_ptr(),
                    private[PKCS8_PREFIX.len()..].as_mut_ptr(),
                    &mut key_bytes,
                    KEY_BYTES,
                ),
            )?;
            check(
                "SSL_marshal_ech_config",
                sys::SSL_marshal_ech_config(
                    &mut bytes,
                    &mut length,
                    id,
                    key.0.as_ptr(),
                    name.as_ptr(),
                    max_name_bytes.into(),
                ),
            )?;
            let config = std::slice::from_raw_parts(bytes, length).to_vec();
            sys::OPENSSL_free(bytes.cast());
            let listed = u16::try_from(config.len())
                .unwrap_or(u16::MAX)
                .to_be_bytes();
            Ok(Self {
                pkcs8: Secret::new(std::mem::take(&mut *private)),
                config_list: [&listed[..], &config].concat(),
            })
        }
    }
}

/// Opens hellos before their connection has a context.
pub struct EchOpener {
    context: Context,
    ids: Vec<u8>,
}

impl EchOpener {
    /// An opener with these keys; at least one.
    ///
    /// # Errors
    ///
    /// When libssl has no memory.
    pub fn new<'k>(keys: impl Iterator<Item = &'k EchKey> + Clone) -> Result<Self, Error> {
        let mut builder = ContextBuilder::new()?;
        builder.set_ech_keys(keys.clone().map(|key| (key, true)))?;
        builder.watch_messages();
        // SAFETY: the context is valid; the callback lives as long as the process.
        unsafe {
            sys::SSL_CTX_set_select_certificate_cb(
                builder.as_ptr(),
                Some(callbacks::ech::take_inner_hello),
            );
        }
        Ok(Self {
            context: builder.build()?,
            ids: keys.flat_map(EchKey::ids).collect(),
        })
    }

    /// Whether one of the keys has a configuration with this id.
    pub fn knows(&self, config_id: u8) -> bool {
        self.ids.contains(&config_id)
    }

    /// The message inside of the hello in `records`, if one of the keys opens it. The hello may
    /// have up to `max_bytes`.
    ///
    /// # Errors
    ///
    /// When libssl has no memory.
    pub fn open(&self, records: &[u8], max_bytes: usize) -> Result<Option<Vec<u8>>, Error> {
        let mut tls = Connection::server(&self.context)?;
        tls.allow_large_hello(max_bytes);
        let mut inner: Option<Vec<u8>> = None;
        // SAFETY: the SSL is valid. It refers to `inner`, which outlives the handshake below, and
        // is not used again after it.
        check("SSL_set_ex_data", unsafe {
            sys::SSL_set_ex_data(
                tls.as_ptr(),
                callbacks::ech::INNER_HELLO,
                (&raw mut inner).cast(),
            )
        })?;
        // The callback always fails it. So does a hello that libssl does not like, for which the
        // real connection will find the alert.
        let (mut input, mut output) = (records, Vec::new());
        let _ = tls.do_handshake(&mut input, &mut output);
        drop(tls);
        error::clear_queue();
        Ok(inner)
    }
}

impl fmt::Debug for EchOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EchOpener(ids {:?})", self.ids)
    }
}

impl ContextBuilder {
    /// Opens hellos with these keys. The configurations of those that are marked are sent to
    /// clients whose hello none of them opens; at least one has to be.
    ///
    /// # Errors
    ///
    /// When none is marked, or libssl has no memory.
    pub fn set_ech_keys<'k>(
        &mut self,
        keys: impl Iterator<Item = (&'k EchKey, bool)>,
    ) -> Result<(), Error> {
        let configs = keys.flat_map(|(key, is_retry)| {
            let configs = key.configs.iter();
            configs.map(move |config| (config.as_slice(), &key.key, is_retry))
        });
        let keys = Keys::new(configs)?;
        // SAFETY: both are valid; the context takes a reference of its own.
        check("SSL_CTX_set1_ech_keys", unsafe {
            sys::SSL_CTX_set1_ech_keys(self.as_ptr(), keys.0.as_ptr())
        })
    }
}

impl Connection {
    /// Whether the hello was opened with one of the keys.
    pub fn is_ech_accepted(&self) -> bool {
        // SAFETY: the SSL is valid.
        unsafe { sys::SSL_ech_accepted(self.as_ptr()) == 1 }
    }
}

/// Keys as libssl takes them.
struct Keys(NonNull<sys::SSL_ECH_KEYS>);

impl Keys {
    fn new<'k>(
        configs: impl Iterator<Item = (&'k [u8], &'k HpkeKey, bool)>,
    ) -> Result<Self, Error> {
        error::clear_queue();
        // SAFETY: allocates.
        let keys = check_ptr("SSL_ECH_KEYS_new", unsafe { sys::SSL_ECH_KEYS_new() })?;
        let keys = NonNull::new(keys)
            .map(Self)
            .ok_or_else(|| Error::local("SSL_ECH_KEYS_new", "out of memory"))?;
        for (config, key, is_retry) in configs {
            // SAFETY: all are valid; configuration and key are copied.
            check("SSL_ECH_KEYS_add", unsafe {
                sys::SSL_ECH_KEYS_add(
                    keys.0.as_ptr(),
                    is_retry.into(),
                    config.as_ptr(),
                    config.len(),
                    key.0.as_ptr(),
                )
            })?;
        }
        Ok(keys)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // SAFETY: gives back the reference that `self` owns.
        unsafe { sys::SSL_ECH_KEYS_free(self.0.as_ptr()) }
    }
}

/// An X25519 key for HPKE (RFC 9180).
struct HpkeKey(NonNull<sys::EVP_HPKE_KEY>);

// SAFETY: a key is not changed once it is made; using it touches nothing of a thread.
unsafe impl Send for HpkeKey {}
// SAFETY: as above.
unsafe impl Sync for HpkeKey {}

impl HpkeKey {
    fn empty() -> Result<Self, Error> {
        // SAFETY: allocates.
        let key = check_ptr("EVP_HPKE_KEY_new", unsafe { sys::EVP_HPKE_KEY_new() })?;
        NonNull::new(key)
            .map(Self)
            .ok_or_else(|| Error::local("EVP_HPKE_KEY_new", "out of memory"))
    }

    fn of(private: &PrivateKey) -> Result<Self, EchKeyError> {
        let key = Self::empty().map_err(EchKeyError::NoKey)?;
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        let mut length = KEY_BYTES;
        // SAFETY: both keys are valid; the bytes have the given length.
        unsafe {
            if sys::EVP_PKEY_id(private.as_ptr()) != sys::EVP_PKEY_X25519 {
                return Err(EchKeyError::Kind);
            }
            let code = sys::EVP_PKEY_get_raw_private_key(
                private.as_ptr(),
                bytes.as_mut_ptr(),
                &mut length,
            );
            check("EVP_PKEY_get_raw_private_key", code).map_err(EchKeyError::NoKey)?;
            let kem = sys::EVP_hpke_x25519_hkdf_sha256();
            let code = sys::EVP_HPKE_KEY_init(key.0.as_ptr(), kem, bytes.as_ptr(), length);
            check("EVP_HPKE_KEY_init", code).map_err(EchKeyError::NoKey)?;
        }
        Ok(key)
    }
}

impl Drop for HpkeKey {
    fn drop(&mut self) {
        // SAFETY: owned, and freed once; the library wipes it.
        unsafe { sys::EVP_HPKE_KEY_free(self.0.as_ptr()) }
    }
}

/// The contents of the first PEM block with this label.
fn pem_block(pem: &[u8], label: &str) -> Option<Vec<u8>> {
    error::clear_queue();
    let bio = MemoryBio::new(pem).ok()?;
    loop {
        let (mut name, mut header, mut data) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        let mut length = 0;
        // SAFETY: the BIO reads from `pem`; on success the three strings are ours to free
        // (`OPENSSL_free` wipes them), and are copied before.
        unsafe {
            let code =
                sys::PEM_read_bio(bio.as_ptr(), &mut name, &mut header, &mut data, &mut length);
            if code != 1 {
                error::clear_queue();
                return None;
            }
            let is_it = std::ffi::CStr::from_ptr(name).to_bytes() == label.as_bytes();
            let length = usize::try_from(length).unwrap_or(0);
            let found = is_it.then(|| std::slice::from_raw_parts(data, length).to_vec());
            sys::OPENSSL_free(name.cast());
            sys::OPENSSL_free(header.cast());
            sys::OPENSSL_free(data.cast());
            if found.is_some() {
                return found;
            }
        }
    }
}

/// The configurations of an `ECHConfigList` (RFC 9849 section 4), at least one.
fn split_list(list: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (length, mut rest) = list.split_first_chunk()?;
    let mut configs = Vec::new();
    if rest.len() != usize::from(u16::from_be_bytes(*length)) {
        return None;
    }
    while !rest.is_empty() {
        let [_, _, high, low] = *rest.first_chunk()?;
        let length = 4 + usize::from(u16::from_be_bytes([high, low]));
        let (config, behind) = rest.split_at_checked(length)?;
        configs.push(config.to_vec());
        rest = behind;
    }
    (!configs.is_empty()).then_some(configs)
}
