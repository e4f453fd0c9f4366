//! The ACME protocol (RFC 8555), a method for each request, and renewal information (RFC 9773).

use super::error::{AcmeError, Problem};
use super::jws::{AccountKey, Sender};
use super::transport::{Answer, Transport};
use hyper::header::HeaderName;
use sealane_conf::model::{AcmeIdentifier, AcmeIssuer};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// How often a request is sent again because the server did not accept its nonce.
const MAX_NONCE_ATTEMPTS: usize = 10;

static REPLAY_NONCE: HeaderName = HeaderName::from_static("replay-nonce");

/// Where the server's resources are.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Directory {
    new_nonce: String,
    new_account: String,
    new_order: String,
    renewal_info: Option<String>,
    #[serde(default)]
    meta: Meta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    terms_of_service: Option<String>,
    #[serde(default)]
    external_account_required: bool,
    #[serde(default)]
    profiles: HashMap<String, Value>,
}

/// An order as the server describes it.
#[derive(Debug, Deserialize)]
pub(super) struct Order {
    pub(super) status: String,
    #[serde(default)]
    pub(super) authorizations: Vec<String>,
    pub(super) finalize: Option<String>,
    pub(super) certificate: Option<String>,
    error: Option<Problem>,
    /// From the response's head.
    #[serde(skip)]
    pub(super) retry_after: Option<Duration>,
}

impl Order {
    /// Why no certificate will come of it.
    pub(super) fn failure(&self) -> AcmeError {
        AcmeError::Order(match &self.error {
            Some(problem) => format!("the order failed: {problem}"),
            None => format!("the order is \"{}\"", self.status),
        })
    }
}

/// What the server wants to know about one identifier.
#[derive(Debug, Deserialize)]
pub(super) struct Authorization {
    pub(super) status: String,
    identifier: Identifier,
    #[serde(default)]
    wildcard: bool,
    #[serde(default)]
    pub(super) challenges: Vec<Challenge>,
    /// From the response's head.
    #[serde(skip)]
    pub(super) retry_after: Option<Duration>,
}

#[derive(Debug, Deserialize)]
struct Identifier {
    #[serde(rename = "type")]
    kind: String,
    value: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Challenge {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) url: String,
    #[serde(default)]
    pub(super) token: String,
    error: Option<Problem>,
}

impl Authorization {
    /// What it is about, without the star of a wildcard.
    pub(super) fn identifier(&self) -> Option<AcmeIdentifier> {
        let value = &self.identifier.value;
        match self.identifier.kind.as_str() {
            "dns" => Some(AcmeIdentifier::Dns(value.to_ascii_lowercase())),
            "ip" => value.parse().ok().map(AcmeIdentifier::Ip),
            _ => None,
        }
    }

    /// For messages: with the star.
    pub(super) fn name(&self) -> String {
        let star = if self.wildcard { "*." } else { "" };
        format!("{star}{}", self.identifier.value)
    }

    /// Why it was not granted.
    pub(super) fn failure(&self) -> AcmeError {
        let name = self.name();
        let problem = self.challenges.iter().find_map(|it| it.error.as_ref());
        AcmeError::Order(match problem {
            Some(problem) => format!("\"{name}\" was not verified: {problem}"),
            None => format!("the authorization for \"{name}\" is \"{}\"", self.status),
        })
    }
}

/// When to renew, as the server suggests.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RenewalInfo {
    pub(super) suggested_window: Window,
    #[serde(rename = "explanationURL")]
    pub(super) explanation_url: Option<String>,
    /// From the response's head.
    #[serde(skip)]
    pub(super) retry_after: Option<Duration>,
}

/// Times as in RFC 3339.
#[derive(Debug, Deserialize)]
pub(super) struct Window {
    pub(super) start: String,
    pub(super) end: String,
}

/// The chains of a certificate.
pub(super) struct Chains {
    pub(super) default: String,
    /// URLs of the others.
    pub(super) alternates: Vec<String>,
}

/// A conversation with one server.
pub(super) struct Client<'a> {
    transport: Transport,
    issuer: &'a AcmeIssuer,
    key: &'a AccountKey,
    directory: Directory,
    account: Option<String>,
    nonce: Option<String>,
}

/// What servers say of a certificate that has been replaced, that they do not know, or whose order
/// they cannot find (Pebble's `serverInternal`): a new one can still be ordered.
const CANNOT_REPLACE: [&str; 4] = [
    "alreadyReplaced",
    "malformed",
    "unauthorized",
    "serverInternal",
];

impl<'a> Client<'a> {
    /// Reads the directory. `account` is the URL of the account, if it is known.
    ///
    /// # Errors
    /// Why the directory cannot be read.
    pub(super) async fn open(
        transport: Transport,
        issuer: &'a AcmeIssuer,
        key: &'a AccountKey,
        account: Option<String>,
    ) -> Result<Client<'a>, AcmeError> {
        let answer = transport.get(&issuer.uri).await?;
        Ok(Client {
            directory: parsed(&answer, "directory")?,
            transport,
            issuer,
            key,
            account,
            nonce: None,
        })
    }

    /// The URL of the account, if there is one.
    pub(super) fn account(&self) -> Option<&str> {
        self.account.as_deref()
    }

    /// Requests come from this account from now on.
    pub(super) fn set_account(&mut self, account: Option<String>) {
        self.account = account;
    }

    /// Makes an account, or finds that of the key (RFC 8555 section 7.3); returns its URL.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn register(&mut self, mac_key: Option<&[u8]>) -> Result<String, AcmeError> {
        let meta = &self.directory.meta;
        if let (Some(terms), false) = (&meta.terms_of_service, self.issuer.terms_accepted) {
            return Err(AcmeError::Demand(format!(
                "the server has terms of service, {terms}: \"accept_terms_of_service\" agrees to \
                 them"
            )));
        }
        let mut payload = json!({ "termsOfServiceAgreed": self.issuer.terms_accepted });
        if !self.issuer.contacts.is_empty() {
            payload["contact"] = json!(self.issuer.contacts);
        }
        match (&self.issuer.external_account, mac_key) {
            (Some(account), Some(mac_key)) => {
                let url = &self.directory.new_account;
                payload["externalAccountBinding"] =
                    self.key.external_binding(&account.kid, mac_key, url);
            }
            _ if meta.external_account_required => {
                return Err(AcmeError::Demand(
                    "the server wants an account outside of ACME: \"external_account_key\" names \
                     it"
                    .to_owned(),
                ));
            }
            _ => {}
        }
        self.account = None;
        let url = self.directory.new_account.clone();
        let answer = self.post(&url, Some(&payload)).await?;
        let account = answer.location().ok_or(AcmeError::Answer("account URL"))?;
        self.account = Some(account.to_owned());
        Ok(account.to_owned())
    }

    /// Orders a certificate (RFC 8555 section 7.4), perhaps in place of another (RFC 9773 section
    /// 5); returns the order's URL.
    ///
    /// # Errors
    /// Why there is no order.
    pub(super) async fn new_order(
        &mut self,
        identifiers: &[AcmeIdentifier],
        replaces: Option<&str>,
    ) -> Result<String, AcmeError> {
        let identifiers: Vec<Value> = identifiers
            .iter()
            .map(|identifier| match identifier {
                AcmeIdentifier::Dns(name) => json!({ "type": "dns", "value": name }),
                AcmeIdentifier::Ip(address) => json!({ "type": "ip", "value": address }),
            })
            .collect();
        let mut payload = json!({ "identifiers": identifiers });
        if let Some(profile) = &self.issuer.profile {
            let is_offered = self.directory.meta.profiles.contains_key(&profile.name);
            if is_offered {
                payload["profile"] = json!(profile.name);
            } else if profile.is_required {
                return Err(AcmeError::Demand(format!(
                    "the server has no profile \"{}\"",
                    profile.name
                )));
            }
        }
        if let (Some(replaces), Some(_)) = (replaces, &self.directory.renewal_info) {
            payload["replaces"] = json!(replaces);
        }
        let url = self.directory.new_order.clone();
        let answer = match self.post(&url, Some(&payload)).await {
            Err(AcmeError::Problem(problem))
                if payload.get("replaces").is_some()
                    && CANNOT_REPLACE.iter().any(|name| problem.is(name)) =>
            {
                payload["replaces"].take();
                if let Some(object) = payload.as_object_mut() {
                    object.remove("replaces");
                }
                self.post(&url, Some(&payload)).await?
            }
            answer => answer?,
        };
        let order = answer.location().ok_or(AcmeError::Answer("order URL"))?;
        Ok(order.to_owned())
    }

    /// Reads an order.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) async fn order(&mut self, url: &str) -> Result<Order, AcmeError> {
        let answer = self.post(url, None).await?;
        let mut order: Order = parsed(&answer, "order")?;
        order.retry_after = answer.retry_after();
        Ok(order)
    }

    /// Reads an authorization.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) async fn authorization(&mut self, url: &str) -> Result<Authorization, AcmeError> {
        let answer = self.post(url, None).await?;
        let mut authorization: Authorization = parsed(&answer, "authorization")?;
        authorization.retry_after = answer.retry_after();
        Ok(authorization)
    }

    /// Says that the challenge at this URL is answered.
    ///
    /// # Errors
    /// Why the server does not look.
    pub(super) async fn answered(&mut self, url: &str) -> Result<(), AcmeError> {
        self.post(url, Some(&json!({}))).await.map(drop)
    }

    /// Sends the certificate request.
    ///
    /// # Errors
    /// Why the server does not take it.
    pub(super) async fn finalize(&mut self, url: &str, csr: &[u8]) -> Result<(), AcmeError> {
        let payload = json!({ "csr": super::jws::base64url(csr) });
        self.post(url, Some(&payload)).await.map(drop)
    }

    /// Downloads a certificate with its chain in PEM.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) async fn certificate(&mut self, url: &str) -> Result<Chains, AcmeError> {
        let answer = self.post(url, None).await?;
        let alternates = answer.alternates();
        let default = String::from_utf8(answer.body);
        Ok(Chains {
            default: default.map_err(|_| AcmeError::Answer("certificate"))?,
            alternates,
        })
    }

    /// When the server wants a certificate renewed; `None` if it has no such information.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) async fn renewal_info(
        &mut self,
        certificate: &str,
    ) -> Result<Option<RenewalInfo>, AcmeError> {
        let Some(base) = &self.directory.renewal_info else {
            return Ok(None);
        };
        let answer = self.transport.get(&format!("{base}/{certificate}")).await?;
        let mut info: RenewalInfo = parsed(&answer, "renewal information")?;
        info.retry_after = answer.retry_after();
        Ok(Some(info))
    }

    async fn nonce(&mut self) -> Result<String, AcmeError> {
        if let Some(nonce) = self.nonce.take() {
            return Ok(nonce);
        }
        let answer = self.transport.head(&self.directory.new_nonce).await?;
        let nonce = answer.header(&REPLAY_NONCE);
        Ok(nonce.ok_or(AcmeError::Answer("nonce"))?.to_owned())
    }

    /// Signs and sends a request; a nonce that was refused is replaced (RFC 8555 section 6.5).
    async fn post(&mut self, url: &str, payload: Option<&Value>) -> Result<Answer, AcmeError> {
        for _ in 0..MAX_NONCE_ATTEMPTS {
            let nonce = self.nonce().await?;
            let sender = match &self.account {
                Some(url) => Sender::Account(url),
                None => Sender::Key,
            };
            let body = self.key.request(&sender, url, &nonce, payload)?;
            let answer = self.transport.post(url, body).await?;
            self.nonce = answer.header(&REPLAY_NONCE).map(str::to_owned);
            match answer.success() {
                Err(AcmeError::Problem(problem)) if problem.is("badNonce") => {}
                answer => return answer,
            }
        }
        Err(AcmeError::Answer("nonce: it refuses its own ones"))
    }
}

fn parsed<T: DeserializeOwned>(answer: &Answer, what: &'static str) -> Result<T, AcmeError> {
    serde_json::from_slice(&answer.body).map_err(|_| AcmeError::Answer(what))
}
