//! A thread of a token: waits for jobs, and for the module.

use std::sync::Arc;

use sealane_awslc::KeyOperation;

use crate::failure::Failure;
use crate::key::KeyFacts;
use crate::module::Calls;
use crate::pool::{Outcome, Shared, Task};
use crate::session::LiveSession;
use crate::stats::FailureKind;

/// Says so if the thread ends by a panic.
struct Panicking<'a>(&'a Shared, usize);

impl Drop for Panicking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.panicked(self.1);
        }
    }
}

/// Until the pool closes.
pub(crate) fn run(pool: &Arc<Shared>, index: usize) {
    let _panicking = Panicking(pool, index);
    let mut live = None;
    loop {
        match pool.next(index) {
            Task::End => {
                let calls = pool.module.calls();
                if let Some(spare) = pool.take_spare() {
                    spare.close(&calls);
                }
                break;
            }
            Task::Operation(key, operation) => {
                let outcome = compute(pool, &mut live, &key, &operation);
                if !pool.finish(index, outcome) {
                    break;
                }
            }
            Task::Look { anew } => match look(pool, &mut live, anew) {
                Ok(()) => pool.found(index),
                Err(failure) => {
                    if !pool.finish(index, Outcome::Lost(failure)) {
                        break;
                    }
                }
            },
        }
    }
    if let Some(live) = live {
        live.close(&pool.module.calls());
    }
}

/// Makes a session anew.
fn look(pool: &Shared, live: &mut Option<LiveSession>, anew: bool) -> Result<(), Failure> {
    let mut calls = pool.module.calls();
    if let Some(live) = live.take() {
        live.close(&calls);
    }
    if anew {
        let seen = calls.epoch();
        drop(calls);
        pool.module.begin_again(seen, pool.is_up());
        calls = pool.module.calls();
    }
    let (_calls, found) = connect(pool, calls)?;
    *live = Some(found);
    Ok(())
}

/// Computes, with a new session if the one there is has ended.
fn compute(
    pool: &Shared,
    live: &mut Option<LiveSession>,
    key: &KeyFacts,
    operation: &KeyOperation,
) -> Outcome {
    let prepared = match key.signer.prepared(operation) {
        Ok(prepared) => prepared,
        Err(failure) => return Outcome::Failed(FailureKind::Unsuited, failure),
    };
    if let Some(failure) = key.missing() {
        return Outcome::Failed(FailureKind::KeyMissing, failure);
    }
    let mut calls = pool.module.calls();
    let mut is_second = false;
    loop {
        let mut session = match live.take().or_else(|| pool.take_spare()) {
            Some(session) if session.is_of(&calls) => session,
            _ => match connect(pool, calls) {
                Ok((same, session)) => {
                    calls = same;
                    is_second = true; // Another one would be no different.
                    session
                }
                Err(failure) if failure.is_out_of_sessions() => {
                    return Outcome::NoSession(failure);
                }
                Err(failure) => return Outcome::Lost(failure),
            },
        };
        let result = session.key(key.number, &key.uri).and_then(|object| {
            key.signer
                .perform(session.session(), object, operation, &prepared)
        });
        let failure = match result {
            Ok(result) => {
                *live = Some(session);
                return Outcome::Done(result);
            }
            Err(failure) => failure,
        };
        let is_missing = matches!(failure, Failure::NoKey(_) | Failure::SeveralKeys(_));
        if failure.is_loss() || is_missing {
            session.close(&calls);
            if !is_second {
                is_second = true;
                continue;
            }
        } else {
            *live = Some(session);
        }
        let kind = match failure {
            Failure::WrongResult => FailureKind::WrongResult,
            _ if is_missing => {
                key.set_missing(&failure);
                FailureKind::KeyMissing
            }
            _ if failure.is_loss() => return Outcome::Broken(failure),
            _ => FailureKind::Refused,
        };
        return Outcome::Failed(kind, failure);
    }
}

/// A new session. If the token is not found, the module is begun again once, where that is
/// possible.
fn connect<'a>(pool: &'a Shared, calls: Calls<'a>) -> Result<(Calls<'a>, LiveSession), Failure> {
    let failure = match LiveSession::open(&calls, pool, &pool.uri) {
        Ok(session) => return Ok((calls, session)),
        Err(failure) => failure,
    };
    let seen = calls.epoch();
    drop(calls);
    if !failure.is_loss() || !pool.module.begin_again(seen, pool.is_up()) {
        return Err(failure);
    }
    let calls = pool.module.calls();
    let session = LiveSession::open(&calls, pool, &pool.uri)?;
    Ok((calls, session))
}
