//! A private key in a token, as an accelerator.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use sealane_awslc::{PublicKey, Secret};
use sealane_tls::accelerator::{Accelerator, Job, Report};

use crate::Uri;
use crate::failure::{Failure, OpenError};
use crate::module::{Module, lock};
use crate::object;
use crate::operation::Signer;
use crate::pool::{PoolUser, Shared};
use crate::session::{LiveSession, pin_of_file};
use crate::stats::{Health, KeyStats};
use crate::{threads, token};

/// The default of [`Options::sessions`].
pub const DEFAULT_SESSIONS: usize = 4;
/// The default of [`Options::timeout`].
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// The default of [`Options::open_timeout`]: a network HSM may take some seconds to connect to.
pub const DEFAULT_OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// The default of [`Options::max_queued`].
pub const DEFAULT_MAX_QUEUED: usize = 4096;

/// How a token is used.
#[derive(Clone)]
pub struct Options {
    /// Threads of the token, with a session each. Keys of one token share them: the largest number
    /// counts.
    pub sessions: usize,
    /// How long an operation may take in the token, from its turn on.
    pub timeout: Duration,
    /// How long [`TokenKey::open`] may take.
    pub open_timeout: Duration,
    /// Operations that may wait for their turn at the token. More of them fail.
    pub max_queued: usize,
    /// Is told what happens to the token, at most once a minute of each kind.
    pub report: Report,
}

impl Options {
    /// The defaults.
    pub fn new(report: Report) -> Self {
        Self {
            sessions: DEFAULT_SESSIONS,
            timeout: DEFAULT_TIMEOUT,
            open_timeout: DEFAULT_OPEN_TIMEOUT,
            max_queued: DEFAULT_MAX_QUEUED,
            report,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("sessions", &self.sessions)
            .field("timeout", &self.timeout)
            .field("open_timeout", &self.open_timeout)
            .field("max_queued", &self.max_queued)
            .finish_non_exhaustive()
    }
}

/// A private key in a token. Operations are done by threads of the token, which all its keys share.
/// They end with the last key.
///
/// Modules do not survive a fork: a process opens its own keys. One that ends does so after
/// [`wait_for_threads`](crate::wait_for_threads), or by `_exit`.
#[derive(Debug)]
pub struct TokenKey {
    facts: Arc<KeyFacts>,
    pool: PoolUser,
}

/// What threads know about a key.
#[derive(Debug)]
pub(crate) struct KeyFacts {
    /// In this process.
    pub(crate) number: u64,
    pub(crate) uri: Uri,
    pub(crate) signer: Signer,
    pub(crate) timeout: Duration,
    pub(crate) max_queued: usize,
    pub(crate) stats: KeyStats,
    /// When the key was last looked for in vain.
    missing: Mutex<Option<(Instant, Failure)>>,
}

/// How long a key that was not found is not looked for again.
const MISSING_PAUSE: Duration = Duration::from_secs(1);

impl KeyFacts {
    /// What was said when the key was looked for in vain a short time ago.
    pub(crate) fn missing(&self) -> Option<Failure> {
        let missing = lock(&self.missing);
        let (at, failure) = missing.as_ref()?;
        (at.elapsed() < MISSING_PAUSE).then(|| failure.clone())
    }

    pub(crate) fn set_missing(&self, failure: &Failure) {
        *lock(&self.missing) = Some((Instant::now(), failure.clone()));
    }
}

impl TokenKey {
    /// Opens the key that the URI means, in a token of the module in the file `module`. `pin` is
    /// what the file of the PIN contains. The key signs something, and what it signs is verified.
    ///
    /// # Errors
    ///
    /// The module cannot be loaded or does not answer, the token or the key is not there or not
    /// the only one, the PIN is refused or missing, or the key cannot be used. A PIN that was
    /// refused is not tried again by this process before
    /// [`forget_refused_pins`](crate::forget_refused_pins).
    pub fn open(
        uri: &Uri,
        module: &Path,
        pin: Option<&Secret>,
        options: &Options,
    ) -> Result<Self, OpenError> {
        let failed = |failure| OpenError {
            uri: uri.to_string().into(),
            module: module.into(),
            failure,
        };
        // On a thread of its own, which is left behind if the module does not come back.
        let (sender, receiver) = mpsc::sync_channel(1);
        let request = Request {
            uri: uri.clone(),
            module: module.to_owned(),
            pin: pin.map(pin_of_file).transpose().map_err(failed)?,
            options: options.clone(),
        };
        let run = move || {
            let _ = sender.send(request.open());
        };
        threads::start("pkcs11 open".to_owned(), run)
            .map_err(|error| failed(Failure::NoThread(error.to_string().into())))?;
        match receiver.recv_timeout(options.open_timeout) {
            Ok(opened) => opened.map_err(failed),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                Err(failed(Failure::NoAnswer(options.open_timeout)))
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(failed(Failure::NoThread("it ended".into())))
            }
        }
    }

    /// Its public key, which says its kind and size too.
    pub fn public_key(&self) -> &PublicKey {
        &self.facts.signer.public
    }

    /// Its counters.
    pub fn stats(&self) -> &KeyStats {
        &self.facts.stats
    }

    /// How its token is.
    pub fn health(&self) -> Health {
        self.pool.health()
    }
}

impl Accelerator for TokenKey {
    fn name(&self) -> &'static str {
        "pkcs11"
    }

    fn submit(&self, job: Job) {
        self.pool.submit(job, &self.facts);
    }
}

/// A key to be opened.
struct Request {
    uri: Uri,
    module: PathBuf,
    pin: Option<Secret>,
    options: Options,
}

impl Request {
    fn open(&self) -> Result<TokenKey, Failure> {
        let module = Module::load(&self.module)?;
        let mut calls = module.calls();
        let found = match token::find(calls.pkcs11, &self.uri) {
            Err(failure) if failure.is_loss() => {
                // A token that is newer than the module's list of them.
                let seen = calls.epoch();
                drop(calls);
                if !module.begin_again(seen, false) {
                    return Err(failure);
                }
                calls = module.calls();
                token::find(calls.pkcs11, &self.uri)?
            }
            found => found?,
        };
        let pool = module.join(&found.identity, || {
            let (token, uri) = (found.identity.clone(), self.uri.clone());
            Shared::new(module.clone(), token, uri, self.options.report.clone())
        });
        if let Some(pin) = &self.pin {
            lock(&pool.pins).offer(pin);
        }
        let opened = LiveSession::open_in(&calls, &pool, &found);
        let mut session = match opened {
            // The one that the token has, left by the key that was opened before.
            Err(failure) if failure.is_out_of_sessions() => pool
                .take_spare()
                .filter(|spare| spare.is_of(&calls))
                .ok_or(failure)?,
            opened => opened?,
        };
        match self.key(&mut session) {
            Ok(facts) => {
                let facts = Arc::new(facts);
                pool.start(self.options.sessions.max(1), session, &calls)?;
                drop(calls);
                Ok(TokenKey { facts, pool })
            }
            Err(failure) => {
                session.close(&calls);
                Err(failure)
            }
        }
    }

    fn key(&self, session: &mut LiveSession) -> Result<KeyFacts, Failure> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let object = session.key(number, &self.uri)?;
        let public = object::public_key(session.session(), object)?;
        Ok(KeyFacts {
            number,
            uri: self.uri.clone(),
            signer: Signer::tried(public, session.session(), object)?,
            timeout: self.options.timeout,
            max_queued: self.options.max_queued,
            stats: KeyStats::default(),
            missing: Mutex::default(),
        })
    }
}
