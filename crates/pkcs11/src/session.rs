//! Sessions with a token, and logging in.

use std::collections::HashMap;
use std::mem::ManuallyDrop;

use cryptoki::error::{Error as CallError, RvError};
use cryptoki::object::ObjectHandle;
use cryptoki::session::{Session, SessionState, UserType};
use cryptoki::slot::TokenInfo;
use cryptoki::types::RawAuthPin;
use sealane_awslc::Secret;

use crate::Uri;
use crate::failure::Failure;
use crate::module::{Calls, Module, lock};
use crate::object;
use crate::pool::Shared;
use crate::token::{self, FoundToken};

/// A session that is logged in.
pub(crate) struct LiveSession {
    /// Closed by [`close`](Self::close) alone: after its epoch its number is somebody else's.
    session: ManuallyDrop<Session>,
    epoch: u64,
    /// Where keys are, by their number in this process.
    keys: HashMap<u64, ObjectHandle>,
}

impl LiveSession {
    /// Opens a session with the token that the URI means, and logs in.
    pub(crate) fn open(calls: &Calls<'_>, pool: &Shared, uri: &Uri) -> Result<Self, Failure> {
        let found = token::find(calls.pkcs11, uri)?;
        Self::open_in(calls, pool, &found)
    }

    pub(crate) fn open_in(
        calls: &Calls<'_>,
        pool: &Shared,
        found: &FoundToken,
    ) -> Result<Self, Failure> {
        let live = Self {
            session: ManuallyDrop::new(calls.pkcs11.open_ro_session(found.slot)?),
            epoch: calls.epoch(),
            keys: HashMap::new(),
        };
        // Held while the module is asked: two threads must not try a PIN at the same time.
        let opened = lock(&pool.pins).log_in(&pool.module, &live.session, found);
        match opened {
            Ok(()) => Ok(live),
            Err(failure) => {
                live.close(calls);
                Err(failure)
            }
        }
    }

    pub(crate) fn is_of(&self, calls: &Calls<'_>) -> bool {
        self.epoch == calls.epoch()
    }

    /// Only while [`is_of`](Self::is_of).
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Where a key is.
    pub(crate) fn key(&mut self, number: u64, uri: &Uri) -> Result<ObjectHandle, Failure> {
        if let Some(key) = self.keys.get(&number) {
            return Ok(*key);
        }
        let key = object::find_private_key(&self.session, uri)?;
        self.keys.insert(number, key);
        Ok(key)
    }

    /// Closes the session. One of an earlier epoch has ended with that.
    pub(crate) fn close(self, calls: &Calls<'_>) {
        if self.is_of(calls) {
            drop(ManuallyDrop::into_inner(self.session));
        }
    }
}

/// The PINs of a token. A PIN that was refused is in none of the two fields, so it is never tried
/// again.
#[derive(Default)]
pub(crate) struct Pins {
    /// Has opened the token.
    proven: Option<Secret>,
    /// Was given later, and not tried yet: the token was open.
    offered: Option<Secret>,
}

impl Pins {
    /// Takes a PIN that somebody has read from a file.
    pub(crate) fn offer(&mut self, pin: &Secret) {
        if self.proven.as_ref() != Some(pin) {
            self.offered = Some(pin.clone());
        }
    }

    /// Logs in, unless the token is open already: a login is one of all sessions that a process has
    /// with a token. Each PIN is tried once; a token locks after a few wrong ones.
    pub(crate) fn log_in(
        &mut self,
        module: &Module,
        session: &Session,
        found: &FoundToken,
    ) -> Result<(), Failure> {
        if !found.info.login_required() {
            return Ok(());
        }
        let state = session.get_session_info()?.session_state();
        if matches!(state, SessionState::RoUser | SessionState::RwUser) {
            return Ok(());
        }
        let mut refused = None;
        if let Some(pin) = &self.proven {
            match try_pin(session, found, pin, true)? {
                Tried::Open(_) => return Ok(()),
                Tried::Refused(why) => {
                    self.proven = None;
                    refused = Some(why);
                }
            }
        }
        let Some(pin) = self.offered.take() else {
            return Err(refused.map_or(Failure::PinNeeded, |why| Failure::PinRefused(why.into())));
        };
        if module.is_refused(&found.identity, &pin) {
            return Err(Failure::PinRefused(
                "the token has refused this PIN before, and it is not tried again, since tokens \
                 lock after a few wrong ones: correct the file of the PIN"
                    .into(),
            ));
        }
        match try_pin(session, found, &pin, false) {
            Ok(Tried::Open(is_proven)) => {
                match is_proven {
                    true => self.proven = Some(pin),
                    false => self.offered = Some(pin),
                }
                Ok(())
            }
            Ok(Tried::Refused(why)) => {
                module.remember_refused(&found.identity, &pin);
                Err(Failure::PinRefused(why.into()))
            }
            Err(failure) => {
                // The token has not said anything about it.
                self.offered = Some(pin);
                Err(failure)
            }
        }
    }
}

enum Tried {
    /// The token is open, and whether it is known to be by this PIN.
    Open(bool),
    Refused(String),
}

fn try_pin(
    session: &Session,
    found: &FoundToken,
    pin: &Secret,
    is_proven: bool,
) -> Result<Tried, Failure> {
    let label = &found.identity.label;
    if let Some(why) = untried(&found.info, is_proven) {
        return Err(Failure::PinRefused(why.into()));
    }
    let result = session.login_with_raw(
        UserType::User,
        &RawAuthPin::new(Box::new(pin.expose().to_vec())),
    );
    let Err(error) = result else {
        return Ok(Tried::Open(true));
    };
    let code = match &error {
        CallError::Pkcs11(code, _) => *code,
        _ => return Err(error.into()),
    };
    let why = match code {
        RvError::UserAlreadyLoggedIn => return Ok(Tried::Open(false)),
        RvError::PinIncorrect | RvError::PinInvalid | RvError::PinLenRange => format!(
            "the token \"{label}\" refuses the PIN ({}); it is not tried again, since tokens lock \
             after a few wrong ones: correct the file of the PIN",
            Failure::from(error)
        ),
        RvError::PinLocked => format!(
            "the PIN of the token \"{label}\" is locked ({}), after too many wrong ones: unlock it \
             with the tools of the token",
            Failure::from(error)
        ),
        RvError::PinExpired | RvError::UserPinNotInitialized => format!(
            "the PIN of the token \"{label}\" cannot be used ({}): set a new one with the tools of \
             the token",
            Failure::from(error)
        ),
        _ => return Err(error.into()),
    };
    Ok(Tried::Refused(why))
}

/// Why a PIN is not even tried: the token would lock, or is locked.
fn untried(info: &TokenInfo, is_proven: bool) -> Option<&'static str> {
    if info.user_pin_locked() {
        return Some(
            "the token's PIN is locked, after too many wrong ones: unlock it with the tools of the \
             token",
        );
    }
    (info.user_pin_final_try() && !is_proven).then_some(
        "the token would lock after one more wrong PIN, so the PIN is not tried: make sure that \
         the file of the PIN is right, and log in once by another program (pkcs11-tool --login \
         --list-objects), after which the token counts anew",
    )
}

/// What a file with a PIN contains, without the end of its line. What cannot be a PIN is not given
/// to the token, which would count it as a wrong one.
pub(crate) fn pin_of_file(contents: &Secret) -> Result<Secret, Failure> {
    let mut pin = contents.expose();
    while let [rest @ .., b'\n' | b'\r'] = pin {
        pin = rest;
    }
    let why = match pin {
        [] => "the file of the PIN is empty",
        pin if pin.iter().any(u8::is_ascii_control) => {
            "the file of the PIN contains more than one line, or control characters"
        }
        pin => return Ok(Secret::new(pin.to_vec())),
    };
    Err(Failure::PinRefused(why.into()))
}
