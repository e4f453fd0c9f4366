//! DNS-01: TXT records by dynamic updates ([`update`]) or by a program ([`command`]). With
//! `dns_listen` none is made: `name_server` answers from what [`super::serving`] says.
//!
//! A name that is verified may be an alias into another zone ([`alias`]), which then is the only
//! one that has to be changed.

mod alias;
mod command;
mod message;
mod tsig;
mod update;

pub(in crate::certificates) use self::command::CommandDesk;
pub(super) use self::tsig::TsigKey;

use self::update::Update;
use super::error::AcmeError;
use super::record::Answered;
use crate::dns_command;
use sealane_conf::model::{AcmeDns, DnsCommand};
use sealane_server::AcmeTask;
use std::time::Duration;

/// How an issuer's records are made.
pub(super) struct Records<'a> {
    task: &'a AcmeTask,
    way: Way<'a>,
}

enum Way<'a> {
    Update(Update<'a>),
    Command(&'a DnsCommand, &'a CommandDesk),
}

impl Records<'_> {
    /// Those of a certificate's issuer, if they have to be made.
    pub(super) fn of<'a>(task: &'a AcmeTask, desk: &'a CommandDesk) -> Option<Records<'a>> {
        let way = match task.conf.issuer.dns.as_ref()? {
            AcmeDns::Update(conf) => {
                let key_file = task.files.dns_key.as_deref().map(Vec::as_slice);
                Way::Update(Update::new(conf, key_file))
            }
            AcmeDns::Command(conf) => Way::Command(conf, desk),
            AcmeDns::Listen(_) => return None,
        };
        Some(Records { task, way })
    }

    /// Finds out where the records of challenges have to be.
    ///
    /// # Errors
    /// When an alias leads nowhere, or where this issuer cannot change anything.
    pub(super) async fn locate(&self, challenges: &mut [Answered]) -> Result<(), AcmeError> {
        let Some(resolver) = &self.task.resolver else {
            return Ok(());
        };
        if let Way::Command(DnsCommand { zone: None, .. }, _) = self.way {
            return Ok(());
        }
        for challenge in challenges {
            let name = challenge.own_name();
            let found = alias::follow(resolver.as_ref(), &name).await?;
            if found == name {
                continue;
            }
            if let Way::Command(command, _) = self.way
                && !dns_command::is_within(&found, command)
            {
                return Err(AcmeError::Dns(format!(
                    "\"{name}\" is an alias of \"{found}\", which is not in \"zone=\" of \
                     \"dns_command\""
                )));
            }
            challenge.alias_target = Some(found);
        }
        Ok(())
    }

    /// Makes the records, and waits until the zone's other servers have had time to learn of them.
    ///
    /// # Errors
    /// Why one cannot be made.
    pub(super) async fn add(&self, challenges: &[Answered]) -> Result<(), AcmeError> {
        for challenge in challenges {
            self.change(challenge, true).await?;
        }
        tokio::time::sleep(self.wait()).await;
        Ok(())
    }

    /// Removes exactly these records.
    ///
    /// # Errors
    /// Why one cannot be removed.
    pub(super) async fn remove(&self, challenges: &[Answered]) -> Result<(), AcmeError> {
        for challenge in challenges {
            self.change(challenge, false).await?;
        }
        Ok(())
    }

    async fn change(&self, challenge: &Answered, is_added: bool) -> Result<(), AcmeError> {
        match &self.way {
            Way::Update(update) => update.change(challenge, is_added).await,
            Way::Command(command, desk) => {
                let issuer = &self.task.conf.issuer.name;
                let done = desk.run(issuer, challenge, is_added, command.timeout);
                done.await.map_err(AcmeError::Dns)
            }
        }
    }

    fn wait(&self) -> Duration {
        match &self.task.conf.issuer.dns {
            Some(AcmeDns::Update(update)) => update.wait,
            Some(AcmeDns::Command(command)) => command.wait,
            Some(AcmeDns::Listen(_)) | None => Duration::ZERO,
        }
    }
}
