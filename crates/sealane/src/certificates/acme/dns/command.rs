//! Has the master run `dns_command`, which the worker process may not.

use crate::certificates::acme::record::Answered;
use crate::control::{self, DnsCommandRequest, Report};
use sealane_log::OsError;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// How many programs of other worker processes may run before ours does.
const PROGRAMS_BEFORE: u32 = 3;

/// How long the master may need for anything else.
const GRACE: Duration = Duration::from_secs(60);

/// Where programs are asked for, one after another.
pub(in crate::certificates) struct CommandDesk {
    master: Option<Arc<OwnedFd>>,
    turn: tokio::sync::Mutex<Turn>,
    waiting: Mutex<Option<Waiting>>,
}

/// The number of the last request.
#[derive(Default)]
struct Turn(u64);

/// The request that waits for the master's answer.
struct Waiting {
    id: u64,
    done: oneshot::Sender<Result<(), String>>,
}

impl CommandDesk {
    pub(in crate::certificates) fn new(master: Option<Arc<OwnedFd>>) -> CommandDesk {
        CommandDesk {
            master,
            turn: tokio::sync::Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    /// Has the record of a challenge added or removed by the program of an issuer.
    ///
    /// # Errors
    /// Why that was not done.
    pub(super) async fn run(
        &self,
        issuer: &str,
        challenge: &Answered,
        is_added: bool,
        timeout: Duration,
    ) -> Result<(), String> {
        let Some(master) = &self.master else {
            return Err("there is no master process, which would run the program".to_owned());
        };
        let mut turn = self.turn.lock().await;
        turn.0 += 1;
        let id = turn.0;
        let (done, answer) = oneshot::channel();
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(Waiting { id, done });
        let request = Report::DnsCommand(DnsCommandRequest {
            id,
            is_added,
            issuer: issuer.to_owned(),
            name: challenge.own_name(),
            record_name: challenge.record_name(),
            value: challenge.value(),
        });
        control::send_report(master.as_fd(), &request)
            .map_err(|error| format!("the master process cannot be asked ({})", OsError(&error)))?;
        let patience = timeout * PROGRAMS_BEFORE + GRACE;
        match tokio::time::timeout(patience, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_dropped)) => Err("another request has taken its place".to_owned()),
            Err(_elapsed) => {
                let seconds = patience.as_secs();
                Err(format!(
                    "the master process does not answer within {seconds} s"
                ))
            }
        }
    }

    /// The master has answered. Nobody may wait any more.
    pub(in crate::certificates) fn done(&self, id: u64, result: Result<(), String>) {
        let waiting = self.waiting.lock();
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        if let Some(Waiting { done, .. }) = waiting.take_if(|waiting| waiting.id == id) {
            let _ = done.send(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_sys::socket;

    #[tokio::test]
    async fn answers_go_to_who_asked_and_to_nobody_else() {
        let (master, worker) = socket::seqpacket_pair().expect("a pair");
        let desk = Arc::new(CommandDesk::new(Some(Arc::new(worker))));
        let challenge = Answered::new("a.test", "token", "token.print");
        let ask = |is_added| {
            let (desk, challenge) = (Arc::clone(&desk), challenge.clone());
            tokio::spawn(async move {
                let timeout = Duration::from_secs(60);
                desk.run("issuer", &challenge, is_added, timeout).await
            })
        };
        let next = async || loop {
            match control::receive_report(&master) {
                Ok(Some(Report::DnsCommand(request))) => return request,
                Ok(_) => panic!("not the request"),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let first = ask(true);
        let request = next().await;
        assert!(request.is_added);
        assert_eq!(request.name, "_acme-challenge.a.test");
        assert_eq!(request.record_name, request.name);
        assert_eq!(request.value.len(), 43);
        // It is given up, and its answer comes when another one waits.
        first.abort();
        assert!(first.await.is_err());
        let second = ask(false);
        let other = next().await;
        assert!(!other.is_added && other.id != request.id);
        desk.done(request.id, Ok(()));
        desk.done(other.id, Err("no".to_owned()));
        assert_eq!(second.await.expect("it ends"), Err("no".to_owned()));
        drop(master);
        let text = ask(true).await.expect("it ends").expect_err("nobody there");
        assert!(text.contains("cannot be asked"), "{text}");
    }
}
