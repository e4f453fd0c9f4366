//! Modules: shared libraries that talk to tokens. A process loads each once, and keeps it.
//!
//! A module is never unloaded and never finished: a thread may hang in it. Some modules find a
//! token that was gone only after C_Finalize and C_Initialize, so that is done when nothing else
//! uses the module ([`Module::begin_again`]). It ends all sessions, and numbers of sessions are
//! given out anew. So each session belongs to an epoch of its module, and one of an earlier epoch
//! is forgotten instead of closed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError, Weak};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Function, Pkcs11};
use cryptoki::error::{Error as CallError, RvError};
use sealane_awslc::Secret;

use crate::Uri;
use crate::failure::Failure;
use crate::pool::{PoolUser, Shared};
use crate::token::TokenIdentity;

static MODULES: Mutex<BTreeMap<PathBuf, Arc<Module>>> = Mutex::new(BTreeMap::new());

/// The most PINs remembered as refused; with more, none is tried any more.
const MAX_REFUSED_PINS: usize = 256;

/// A module that is loaded and initialised.
pub(crate) struct Module {
    pkcs11: Pkcs11,
    /// The epoch. Whoever calls the module holds it for reading.
    epoch: RwLock<u64>,
    /// Pools that have a working connection with their token.
    connected: AtomicUsize,
    tokens: Mutex<BTreeMap<TokenIdentity, Weak<Shared>>>,
    /// PINs that a token has refused, which are not tried again: tokens lock after a few.
    refused_pins: Mutex<Vec<(TokenIdentity, Secret)>>,
}

/// The right to call a module. While there is one, its epoch stays.
pub(crate) struct Calls<'a> {
    epoch: RwLockReadGuard<'a, u64>,
    pub(crate) pkcs11: &'a Pkcs11,
}

impl Calls<'_> {
    pub(crate) fn epoch(&self) -> u64 {
        *self.epoch
    }
}

impl Module {
    /// The module in a file, loaded now or before. Waits as long as the module does.
    pub(crate) fn load(path: &Path) -> Result<Arc<Self>, Failure> {
        // Two names of one file are one library in this process.
        let path = path
            .canonicalize()
            .map_err(|error| Failure::NotLoaded(error.to_string().into()))?;
        let mut modules = lock(&MODULES);
        if let Some(module) = modules.get(&path) {
            return Ok(module.clone());
        }
        let pkcs11 = Pkcs11::new(&path).map_err(not_loaded)?;
        initialize(&pkcs11)?;
        let module = Arc::new(Self {
            pkcs11,
            epoch: RwLock::new(0),
            connected: AtomicUsize::new(0),
            tokens: Mutex::default(),
            refused_pins: Mutex::default(),
        });
        modules.insert(path, module.clone());
        Ok(module)
    }

    pub(crate) fn calls(&self) -> Calls<'_> {
        Calls {
            epoch: self.epoch.read().unwrap_or_else(PoisonError::into_inner),
            pkcs11: &self.pkcs11,
        }
    }

    /// Finishes the module and initialises it again, unless another token's sessions would end by
    /// it, or a thread is in a call. `seen` is the epoch in which a token was not found. Whether it
    /// is worth looking again.
    pub(crate) fn begin_again(&self, seen: u64, is_connected: bool) -> bool {
        let mut epoch = match self.epoch.try_write() {
            Ok(epoch) => epoch,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        if *epoch != seen {
            return true; // Somebody else has.
        }
        if self.connected.load(Ordering::Relaxed) > usize::from(is_connected) {
            return false;
        }
        *epoch += 1;
        // An error of the one or the other is followed by errors of what is called next.
        let _ = self.pkcs11.clone().finalize();
        initialize(&self.pkcs11).is_ok()
    }

    /// Counts pools with a working connection.
    pub(crate) fn set_connected(&self, is_connected: bool) {
        match is_connected {
            true => self.connected.fetch_add(1, Ordering::Relaxed),
            false => self.connected.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// The pool of a token, or a new one.
    pub(crate) fn join(&self, token: &TokenIdentity, make: impl FnOnce() -> Shared) -> PoolUser {
        let mut tokens = lock(&self.tokens);
        tokens.retain(|_, pool| pool.strong_count() > 0);
        let known = tokens.get(token).and_then(Weak::upgrade);
        known.and_then(PoolUser::join).unwrap_or_else(|| {
            let pool = Arc::new(make());
            tokens.insert(token.clone(), Arc::downgrade(&pool));
            PoolUser::join(pool).expect("a new pool does not close")
        })
    }

    pub(crate) fn is_refused(&self, token: &TokenIdentity, pin: &Secret) -> bool {
        let refused = lock(&self.refused_pins);
        let is_known = |entry: &(TokenIdentity, Secret)| entry.0 == *token && entry.1 == *pin;
        refused.iter().any(is_known) || refused.len() >= MAX_REFUSED_PINS
    }

    pub(crate) fn remember_refused(&self, token: &TokenIdentity, pin: &Secret) {
        lock(&self.refused_pins).push((token.clone(), pin.clone()));
    }
}

/// Lets PINs be tried again that tokens have refused in this process: somebody has changed
/// something, and asks for it.
pub fn forget_refused_pins() {
    for module in lock(&MODULES).values() {
        lock(&module.refused_pins).clear();
    }
}

/// Where distributions keep modules, and libraries that are some.
const DIRECTORIES: [&str; 9] = [
    "/usr/lib64/pkcs11",
    "/usr/lib/pkcs11",
    "/usr/local/lib/pkcs11",
    "/usr/lib/softhsm",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/lib/@-linux-gnu/pkcs11",
    "/usr/lib/@-linux-gnu",
];
/// The module of p11-kit, which shows the tokens of all modules that are set up on a machine.
const EVERY_MODULE: &str = "p11-kit-proxy";

/// No file of a module was found. The text says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoModule {
    name: Option<Box<str>>,
}

impl fmt::Display for NoModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "the PKCS #11 module \"{name}\" was not found")?,
            None => f.write_str("which PKCS #11 module to use is not said")?,
        }
        f.write_str(
            "; install it, or write its path, such as \
             \"?module-path=/usr/lib/softhsm/libsofthsm2.so\"",
        )
    }
}

impl std::error::Error for NoModule {}

/// The file of the module that has the key: what the URI says, else `configured`, else p11-kit's.
///
/// # Errors
///
/// The URI names a module that is not installed, or nothing names one.
pub fn find_module(uri: &Uri, configured: Option<&Path>) -> Result<PathBuf, NoModule> {
    let found = match (uri.module_path(), uri.module_name()) {
        (Some(directory), Some(name)) if directory.is_dir() => in_directory(directory, name),
        // Whether it can be loaded is said by whoever loads it.
        (Some(path), _) => return Ok(path.to_owned()),
        (None, Some(name)) => in_directories(name),
        (None, None) => match configured {
            Some(path) => return Ok(path.to_owned()),
            None => in_directories(EVERY_MODULE),
        },
    };
    found.ok_or_else(|| NoModule {
        name: uri.module_name().map(Box::from),
    })
}

fn in_directories(name: &str) -> Option<PathBuf> {
    DIRECTORIES.iter().find_map(|directory| {
        let directory = directory.replace('@', std::env::consts::ARCH);
        in_directory(Path::new(&directory), name)
    })
}

fn in_directory(directory: &Path, name: &str) -> Option<PathBuf> {
    let names = [
        format!("lib{name}.so"),
        format!("{name}.so"),
        name.to_owned(),
    ];
    let files = names.map(|name| directory.join(name)).into_iter();
    files.into_iter().find(|file| file.is_file())
}

fn initialize(pkcs11: &Pkcs11) -> Result<(), Failure> {
    match pkcs11.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
        // Some other library in this process has.
        Err(CallError::Pkcs11(RvError::CryptokiAlreadyInitialized, Function::Initialize)) => Ok(()),
        other => other.map_err(Failure::from),
    }
}

fn not_loaded(error: CallError) -> Failure {
    match error {
        CallError::Pkcs11(..) => error.into(),
        CallError::LibraryLoading(error) => Failure::NotLoaded(error.to_string().into()),
        CallError::MissingSymbol(name) => {
            Failure::NotLoaded(format!("it is not a PKCS #11 module: {name} is missing").into())
        }
        other => Failure::NotLoaded(other.to_string().into()),
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is guarded in this crate is consistent between any two calls of methods.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_by_path_name_or_configuration() {
        let directory =
            std::env::temp_dir().join(format!("sealane-modules-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let file = directory.join("libtoken.so");
        std::fs::write(&file, "").expect("a file");
        let find = |query: &str, configured: Option<&str>| {
            let query = query.replace('@', directory.to_str().expect("UTF-8"));
            let uri = Uri::parse(&format!("pkcs11:?{query}")).expect("a URI");
            find_module(&uri, configured.map(Path::new))
        };
        let configured = Some("/configured.so");
        assert_eq!(find("module-path=/x.so", configured), Ok("/x.so".into()));
        let both = "module-path=@&module-name=token";
        assert_eq!(find(both, configured), Ok(file.clone()));
        let file_and_name = "module-path=@/libtoken.so&module-name=token";
        assert_eq!(find(file_and_name, configured), Ok(file));
        assert_eq!(find("", configured), Ok("/configured.so".into()));
        let none = find("module-path=@&module-name=none", configured);
        assert!(
            none.expect_err("none")
                .to_string()
                .contains("\"none\" was not found")
        );
        let none = find("module-name=no-such-module", configured);
        assert!(none.expect_err("none").to_string().contains("module-path="));
        let _ = std::fs::remove_dir_all(&directory);
    }
}
