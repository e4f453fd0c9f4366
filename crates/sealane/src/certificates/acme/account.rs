//! The account with an ACME server: one for all certificates of an issuer, and for all nodes.
//!
//! The key is kept before the server hears of it. So an account is never lost: whoever has its key
//! finds it again.

use super::client::Client;
use super::error::AcmeError;
use super::jws::AccountKey;
use super::keys::{self, KeyPem};
use super::record::packed;
use super::shared::{Lease, SharedRecords};
use super::state::{KeptAccount, StateDirectory};
use super::transport::Transport;
use crate::journal::{Journal, note};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sealane_conf::model::{AcmeAccountKey, AcmeIssuer};
use sealane_server::AcmeFiles;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// How long to wait for another node that makes the account.
const OTHER_NODE_PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks for it.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// How long a node has for making the account, in seconds.
const LEASE_S: u32 = 15;

/// The account of an issuer.
pub(super) struct Account {
    issuer: Arc<AcmeIssuer>,
    files: Arc<AcmeFiles>,
    state: Option<StateDirectory>,
    /// Locked while it is looked for or made, so that certificates do not each make one.
    known: Mutex<Option<KeptAccount>>,
    /// When it was last shared; all certificates of the issuer ask for it.
    shared_at: Mutex<Option<Instant>>,
}

/// How an account is shared.
#[derive(Serialize, Deserialize)]
struct SharedAccount {
    uri: String,
    key: KeyPem,
    url: Option<String>,
}

/// What is needed to talk to the server as an account.
pub(super) struct Ready {
    pub(super) key: AccountKey,
    pub(super) url: Option<String>,
}

impl Account {
    pub(super) fn new(issuer: &Arc<AcmeIssuer>, files: &Arc<AcmeFiles>) -> Account {
        Account {
            issuer: Arc::clone(issuer),
            files: Arc::clone(files),
            state: StateDirectory::of(issuer),
            known: Mutex::new(None),
            shared_at: Mutex::new(None),
        }
    }

    /// Whether it is what [`Account::new`] would make of this issuer and these files.
    pub(super) fn is_of(&self, issuer: &AcmeIssuer, files: &AcmeFiles) -> bool {
        *self.issuer == *issuer
            && self.files.account_key == files.account_key
            && self.files.external_key == files.external_key
    }

    /// Checks the files of the operator.
    ///
    /// # Errors
    /// What cannot be used.
    pub(super) fn check(&self) -> Result<(), AcmeError> {
        if let Some(pem) = &self.files.account_key {
            AccountKey::from_pem(pem)?;
        }
        self.mac_key().map(drop)
    }

    /// The key and, if it is registered, the URL.
    ///
    /// # Errors
    /// Why there is no key.
    pub(super) async fn ready(
        &self,
        shared: Option<&SharedRecords>,
        journal: &Journal,
    ) -> Result<Ready, AcmeError> {
        let mut known = self.known.lock().await;
        let account = match &*known {
            Some(account) => account.clone(),
            None => {
                let found = self.find(shared, journal).await?;
                known.insert(found).clone()
            }
        };
        Ok(Ready {
            key: AccountKey::from_pem(&account.key.expose())?,
            url: account.url,
        })
    }

    /// Speaks with the server as this account, which is made if there is none.
    ///
    /// # Errors
    /// Why the server does not want us.
    pub(super) async fn open<'a>(
        &'a self,
        ready: &'a Ready,
        transport: Transport,
        shared: Option<&SharedRecords>,
        journal: &Journal,
    ) -> Result<Client<'a>, AcmeError> {
        let url = ready.url.clone();
        let mut client = Client::open(transport, &self.issuer, &ready.key, url).await?;
        let mut known = self.known.lock().await;
        let Some(account) = known.as_mut() else {
            return Err(AcmeError::Key("it has just been given up"));
        };
        if account.url.is_none() {
            let mac_key = self.mac_key()?;
            let url = client
                .register(mac_key.as_ref().map(|key| &key[..]))
                .await?;
            note!(
                journal,
                Notice,
                "acme issuer \"{}\": account {url}",
                self.issuer.name
            );
            account.url = Some(url);
            let account = account.clone();
            self.keep(&account, shared, journal).await;
        } else if client.account() != account.url.as_deref() {
            client.set_account(account.url.clone());
        }
        Ok(client)
    }

    /// The server does not know the account any more: its key registers again.
    pub(super) async fn forget_url(&self, shared: Option<&SharedRecords>, journal: &Journal) {
        let mut known = self.known.lock().await;
        if let Some(account) = known.as_mut() {
            account.url = None;
            let account = account.clone();
            self.keep(&account, shared, journal).await;
        }
    }

    /// Keeps what other nodes have made, and gives ours to a store that has lost it. Every node
    /// has the account then before it needs it, and none makes another one when the store is empty.
    pub(super) async fn share(&self, shared: &SharedRecords, journal: &Journal) {
        if !matches!(self.issuer.account_key, AcmeAccountKey::Generated(_)) {
            return;
        }
        // Otherwise it is just being shared, or looked for.
        let (Ok(mut shared_at), Ok(mut known)) = (self.shared_at.try_lock(), self.known.try_lock())
        else {
            return;
        };
        if shared_at.is_some_and(|at| at.elapsed() < LOOK_INTERVAL) {
            return;
        }
        *shared_at = Some(Instant::now());
        let own = || self.state.as_ref().and_then(|state| state.account(journal));
        match (known.clone().or_else(own), shared.get("account").await) {
            (Some(ours), Some(None)) => self.keep(&ours, Some(shared), journal).await,
            (None, Some(Some(_))) => {
                if let Some(found) = self.of_other_nodes(shared).await {
                    self.keep_here(&found, journal);
                    *known = Some(found);
                }
            }
            _ => {}
        }
    }

    async fn find(
        &self,
        shared: Option<&SharedRecords>,
        journal: &Journal,
    ) -> Result<KeptAccount, AcmeError> {
        if let AcmeAccountKey::File(_) = &self.issuer.account_key {
            let pem = self.files.account_key.as_deref();
            let key = KeyPem::new(pem.map_or(&[][..], |pem| pem))?;
            // Registering a key twice finds the account of the first time.
            let kept = self.state.as_ref().and_then(|state| state.account(journal));
            let url = kept.filter(|kept| kept.key == key).and_then(|it| it.url);
            return Ok(KeptAccount { key, url });
        }
        let own = self.state.as_ref().and_then(|state| state.account(journal));
        let Some(shared) = shared else {
            return self.own_or_new(own, None, journal).await;
        };
        let deadline = Instant::now() + OTHER_NODE_PATIENCE;
        loop {
            if let Some(account) = self.of_other_nodes(shared).await {
                self.keep_here(&account, journal);
                return Ok(account);
            }
            match shared.lease("account", LEASE_S).await {
                Lease::Ours => {
                    // Between the look and the lease another node may have been done.
                    if let Some(account) = self.of_other_nodes(shared).await {
                        self.keep_here(&account, journal);
                        return Ok(account);
                    }
                    return self.own_or_new(own, Some(shared), journal).await;
                }
                Lease::Others | Lease::Unknown => {}
            }
            if Instant::now() >= deadline {
                return self.own_or_new(own, Some(shared), journal).await;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    async fn own_or_new(
        &self,
        own: Option<KeptAccount>,
        shared: Option<&SharedRecords>,
        journal: &Journal,
    ) -> Result<KeptAccount, AcmeError> {
        let account = match own {
            Some(own) => own,
            None => {
                let AcmeAccountKey::Generated(kind) = self.issuer.account_key else {
                    return Err(AcmeError::Key("it was not read"));
                };
                let generated = tokio::task::spawn_blocking(move || keys::generate(kind)).await;
                let failed = |_| AcmeError::Library("a key cannot be generated");
                KeptAccount {
                    key: generated.map_err(failed)??,
                    url: None,
                }
            }
        };
        self.keep(&account, shared, journal).await;
        Ok(account)
    }

    async fn of_other_nodes(&self, shared: &SharedRecords) -> Option<KeptAccount> {
        let bytes = shared.get("account").await??;
        let found: SharedAccount = serde_json::from_slice(&bytes).ok()?;
        let is_usable =
            found.uri == self.issuer.uri && AccountKey::from_pem(&found.key.expose()).is_ok();
        is_usable.then_some(KeptAccount {
            key: found.key,
            url: found.url,
        })
    }

    async fn keep(&self, account: &KeptAccount, shared: Option<&SharedRecords>, journal: &Journal) {
        self.keep_here(account, journal);
        let is_generated = matches!(self.issuer.account_key, AcmeAccountKey::Generated(_));
        if let Some(shared) = shared
            && is_generated
        {
            let value = SharedAccount {
                uri: self.issuer.uri.clone(),
                key: account.key.clone(),
                url: account.url.clone(),
            };
            shared.put("account", &packed(&value)).await;
        }
    }

    fn keep_here(&self, account: &KeptAccount, journal: &Journal) {
        if let Some(state) = &self.state {
            state.keep_account(account, journal);
        }
    }

    /// The key of `external_account_key`.
    fn mac_key(&self) -> Result<Option<Zeroizing<Vec<u8>>>, AcmeError> {
        let Some(text) = &self.files.external_key else {
            return Ok(None);
        };
        let text = text.trim_ascii();
        let text = text.strip_suffix(b"=").unwrap_or(text);
        let text = text.strip_suffix(b"=").unwrap_or(text);
        let decoded = URL_SAFE_NO_PAD.decode(text);
        let key = decoded.map_err(|_| {
            AcmeError::Demand("\"external_account_key\" has no base64url".to_owned())
        })?;
        Ok(Some(Zeroizing::new(key)))
    }
}
