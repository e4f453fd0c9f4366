//! DNS-01 by dynamic updates (RFC 2136), signed with a TSIG key (RFC 8945).

mod message;
mod tsig;

pub(super) use self::tsig::TsigKey;

use self::message::{Answer, Change, update_message, zone_question};
use super::error::AcmeError;
use super::record::Answered;
use super::serving::digest_of;
use super::{jws, now_s};
use sealane_conf::model::{AcmeDns, DnsUpdate};
use sealane_log::OsError;
use sealane_server::AcmeTask;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long one question and its answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where the record of a name is (RFC 8555 section 8.4).
const PREFIX: &str = "_acme-challenge";

/// `dns_update` of an issuer.
pub(super) struct Update<'a> {
    conf: &'a DnsUpdate,
    key_file: Option<&'a [u8]>,
}

impl Update<'_> {
    /// That of a certificate's issuer, if it has one.
    pub(super) fn of(task: &AcmeTask) -> Option<Update<'_>> {
        let AcmeDns::Update(conf) = task.conf.issuer.dns.as_ref()?;
        Some(Update {
            conf,
            key_file: task.files.dns_key.as_deref().map(Vec::as_slice),
        })
    }

    /// Makes the records, and waits until the zone's other servers have had time to learn of them.
    ///
    /// # Errors
    /// Why one cannot be made.
    pub(super) async fn add(&self, challenges: &[Answered]) -> Result<(), AcmeError> {
        for challenge in challenges {
            self.send(challenge, true).await?;
        }
        tokio::time::sleep(self.conf.wait).await;
        Ok(())
    }

    /// Removes exactly these records.
    ///
    /// # Errors
    /// Why one cannot be removed.
    pub(super) async fn remove(&self, challenges: &[Answered]) -> Result<(), AcmeError> {
        for challenge in challenges {
            self.send(challenge, false).await?;
        }
        Ok(())
    }

    async fn send(&self, challenge: &Answered, is_added: bool) -> Result<(), AcmeError> {
        let name = format!("{PREFIX}.{}", challenge.identifier);
        let key = match self.key_file {
            Some(file) => Some(TsigKey::parse(file).map_err(AcmeError::Dns)?),
            None => None,
        };
        let zone = match &self.conf.zone {
            Some(zone) => zone.clone(),
            None => self.zone_of(&name).await?,
        };
        let value = jws::base64url(&digest_of(&challenge.authorization));
        let change = Change {
            name: &name,
            text: &value,
            is_added,
        };
        let id = random_id();
        let mut request = update_message(id, &zone, &change).map_err(failed)?;
        let mac = key
            .as_ref()
            .map(|key| key.sign(&mut request, id, now_s()))
            .transpose()
            .map_err(failed)?;
        let response = self.exchange(&request).await?;
        if let (Some(key), Some(mac)) = (&key, &mac) {
            key.verify(&response, mac, now_s()).map_err(failed)?;
        }
        let answer = Answer::parse(&response, id).map_err(failed)?;
        match answer.failure() {
            None => Ok(()),
            Some(why) => Err(AcmeError::Dns(format!(
                "{} answers {why} to the update of \"{name}\" in zone \"{zone}\"",
                self.conf.server
            ))),
        }
    }

    /// The zone that a name is in, as the server says.
    async fn zone_of(&self, name: &str) -> Result<String, AcmeError> {
        let id = random_id();
        let question = zone_question(id, name).map_err(failed)?;
        let response = self.exchange(&question).await?;
        let answer = Answer::parse(&response, id).map_err(failed)?;
        answer.zone.ok_or_else(|| {
            AcmeError::Dns(format!(
                "{} does not say which zone \"{name}\" is in; \"zone=\" of \"dns_update\" does",
                self.conf.server
            ))
        })
    }

    async fn exchange(&self, message: &[u8]) -> Result<Vec<u8>, AcmeError> {
        let exchanging = async {
            let mut stream = TcpStream::connect(self.conf.server).await?;
            let length = u16::try_from(message.len()).map_err(io::Error::other)?;
            stream
                .write_all(&[&length.to_be_bytes()[..], message].concat())
                .await?;
            let mut response = vec![0; usize::from(stream.read_u16().await?)];
            stream.read_exact(&mut response).await?;
            Ok::<_, io::Error>(response)
        };
        let server = self.conf.server;
        match tokio::time::timeout(TIMEOUT, exchanging).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(AcmeError::Dns(format!("{server}: {}", OsError(&error)))),
            Err(_elapsed) => {
                let seconds = TIMEOUT.as_secs();
                Err(AcmeError::Dns(format!(
                    "{server} does not answer within {seconds} s"
                )))
            }
        }
    }
}

fn failed(why: &'static str) -> AcmeError {
    AcmeError::Dns(why.to_owned())
}

fn random_id() -> u16 {
    let mut bytes = [0; 2];
    sealane_tls::fill_random(&mut bytes);
    u16::from_be_bytes(bytes)
}
