//! DNS-01 by dynamic updates (RFC 2136), signed with a TSIG key (RFC 8945).

use super::message::{Answer, Change, update_message, zone_question};
use super::tsig::TsigKey;
use crate::certificates::acme::error::AcmeError;
use crate::certificates::acme::now_s;
use crate::certificates::acme::record::Answered;
use sealane_conf::model::DnsUpdate;
use sealane_log::OsError;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long one question and its answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// `dns_update` of an issuer.
pub(super) struct Update<'a> {
    conf: &'a DnsUpdate,
    key_file: Option<&'a [u8]>,
}

impl Update<'_> {
    pub(super) fn new<'a>(conf: &'a DnsUpdate, key_file: Option<&'a [u8]>) -> Update<'a> {
        Update { conf, key_file }
    }

    /// Adds the record of a challenge, or removes exactly this one.
    ///
    /// # Errors
    /// Why that cannot be done.
    pub(super) async fn change(
        &self,
        challenge: &Answered,
        is_added: bool,
    ) -> Result<(), AcmeError> {
        let name = challenge.record_name();
        let key = match self.key_file {
            Some(file) => Some(TsigKey::parse(file).map_err(AcmeError::Dns)?),
            None => None,
        };
        let zone = match &self.conf.zone {
            Some(zone) => zone.clone(),
            None => self.zone_of(&name).await?,
        };
        let value = challenge.value();
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
