//! Looks after one certificate: orders it, renews it in time, and serves it.
//!
//! Nodes with a session store share the record of a certificate. The one that has the lease orders;
//! all others look every second while something is due, answer what the ACME server asks, and serve
//! what has come.

use super::account::Account;
use super::dns::CommandDesk;
use super::error::AcmeError;
use super::record::{Answered, Issued, OrderUnderWay, Record, Tries};
use super::renewal::{self, Urgency};
use super::serving;
use super::shared::{Lease, SharedRecords};
use super::state::StateDirectory;
use super::transport::Transport;
use super::{Records, dns, label, now_s, order};
use crate::journal::{Journal, note};
use sealane_conf::model::{AcmeCertificate, AcmeChallenge};
use sealane_server::{AcmeState, AcmeTask};
use sealane_tls::CertificateFacts;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Between two looks at what other nodes do, while something is due.
const FAST_LOOK: Duration = Duration::from_secs(1);
/// While nothing is.
const SLOW_LOOK: Duration = Duration::from_secs(60);

/// The longest sleep: clocks may be set.
const MAX_SLEEP: Duration = Duration::from_secs(3600);

/// How long other nodes are given to learn what is to be answered.
const PROPAGATION: Duration = Duration::from_secs(3);

/// How long a node may order before it has to ask again, in seconds.
const LEASE_S: u32 = 15;
/// How often it asks.
const LEASE_INTERVAL: Duration = Duration::from_secs(4);

/// How long a node without a certificate waits for a store that does not answer.
const STORE_PATIENCE: Duration = Duration::from_secs(60);

/// How long another node has for asking the server, in seconds.
const OTHER_NODE_S: i64 = 5;

/// What is shared about a certificate, and its lease.
const RECORD: &str = "record";

/// One certificate of this process.
pub(super) struct Keeper {
    task: AcmeTask,
    serving: Arc<AcmeState>,
    journal: Arc<Mutex<Journal>>,
    account: Arc<Account>,
    state: Option<StateDirectory>,
    /// The certificate's, and its issuer's, in the store.
    shared: Option<(SharedRecords, SharedRecords)>,
    records: Records,
    record: Record,
    /// Of the certificate in the record.
    facts: Option<CertificateFacts>,
    ordering: Arc<Semaphore>,
    desk: Arc<CommandDesk>,
    /// The loudest warning so far.
    warned: Urgency,
    /// What was last said about a failure.
    said: Option<String>,
    /// Since when the store does not answer.
    without_store: Option<Instant>,
    /// The server has not been asked yet when it wants the certificate renewed: it may have changed
    /// its mind while nobody asked.
    asks_first: bool,
}

/// What a keeper is made of.
pub(super) struct Parts {
    pub(super) task: AcmeTask,
    pub(super) serving: Arc<AcmeState>,
    pub(super) journal: Arc<Mutex<Journal>>,
    pub(super) account: Arc<Account>,
    pub(super) shared: Option<(SharedRecords, SharedRecords)>,
    pub(super) records: Records,
    pub(super) ordering: Arc<Semaphore>,
    pub(super) desk: Arc<CommandDesk>,
}

impl Keeper {
    pub(super) fn new(parts: Parts) -> Keeper {
        let record = parts.records.get(&parts.task);
        let mut keeper = Keeper {
            state: StateDirectory::of(&parts.task.conf.issuer),
            task: parts.task,
            serving: parts.serving,
            journal: parts.journal,
            account: parts.account,
            shared: parts.shared,
            records: parts.records,
            facts: None,
            record,
            ordering: parts.ordering,
            desk: parts.desk,
            warned: Urgency::None,
            said: None,
            without_store: None,
            asks_first: true,
        };
        keeper.facts = keeper.read_facts();
        keeper
    }

    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    pub(super) fn conf(&self) -> Arc<AcmeCertificate> {
        Arc::clone(&self.task.conf)
    }

    pub(super) fn journal(&self) -> Journal {
        let journal = self.journal.lock();
        journal.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// By which the ACME server knows the certificate that is served (RFC 9773 section 4.1).
    pub(super) fn certificate_id(&self) -> Option<String> {
        let (authority, serial) = self.facts.as_ref()?.authority.as_ref()?;
        let encode = super::jws::base64url;
        Some(format!("{}.{}", encode(authority), encode(serial)))
    }

    /// Says that an order begins.
    pub(super) fn note_order(&self) {
        note!(
            self.journal(),
            Info,
            "acme issuer \"{}\": ordering a certificate for {}",
            self.task.conf.issuer.name,
            label(&self.task.conf)
        );
    }

    /// Never returns.
    pub(super) async fn keep(mut self) {
        self.apply_answers();
        loop {
            let wait = self.step().await;
            tokio::time::sleep(wait.min(MAX_SLEEP)).await;
        }
    }

    /// Does what is due, and returns how long nothing is.
    async fn step(&mut self) -> Duration {
        self.learn().await;
        self.remind();
        let now = now_s();
        if !self.is_due(now) {
            return self.ask_when_to_renew(now).await;
        }
        let until = self.record.tries.next_s - now;
        if until > 0 {
            return self.look_within(until);
        }
        if let Some(wait) = self.wait_for_turn().await {
            return wait;
        }
        self.learn_from_file();
        if !self.is_due(now_s()) {
            return FAST_LOOK;
        }
        match self.attempt().await {
            Ok(()) => FAST_LOOK,
            Err(error) => {
                self.fail(&error).await;
                self.look_within(self.record.tries.next_s - now_s())
            }
        }
    }

    fn look_within(&self, seconds: i64) -> Duration {
        let wait = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        match self.shared {
            Some(_) => wait.min(FAST_LOOK),
            None => wait,
        }
    }

    fn is_due(&self, now_s: i64) -> bool {
        let is_good = |certificate: &Issued| now_s < certificate.renew_s && self.facts.is_some();
        self.record.order.is_some() || !self.record.certificate.as_ref().is_some_and(is_good)
    }

    /// Takes over what other nodes have done; what they lack they get.
    async fn learn(&mut self) {
        let Some((shared, of_issuer)) = self.shared.clone() else {
            return;
        };
        self.account.share(&of_issuer, &self.journal()).await;
        let Some(found) = shared.get(RECORD).await else {
            return;
        };
        let found = found.and_then(|bytes| Record::unpack(&bytes, &self.task.conf).ok());
        match found {
            Some(found) if found.rank() >= self.record.rank() => {
                let is_news = found != self.record;
                let is_other = found.certificate != self.record.certificate;
                if !is_news {
                    return;
                }
                self.record = found;
                self.keep_here();
                self.apply_answers();
                if is_other {
                    self.facts = self.read_facts();
                    self.serve();
                }
            }
            _ if self.record.revision > 0 => {
                shared.put(RECORD, &self.record.pack()).await;
            }
            _ => {}
        }
    }

    /// Takes over what another process of this server has done, such as the one before a reload
    /// that needed another.
    fn learn_from_file(&mut self) {
        let Ok(Some(found)) = super::kept(&self.task.conf) else {
            return;
        };
        if found.rank() > self.record.rank() {
            self.record = found;
            self.records.set(&self.task, &self.record);
            self.facts = self.read_facts();
            self.serve();
            self.apply_answers();
        }
    }

    /// Changes the record, and keeps it everywhere before it returns.
    pub(super) async fn change(&mut self, change: impl FnOnce(&mut Record)) {
        change(&mut self.record);
        self.record.revision += 1;
        self.keep_here();
        if let Some((shared, _)) = self.shared.clone() {
            shared.put(RECORD, &self.record.pack()).await;
        }
    }

    fn keep_here(&self) {
        self.records.set(&self.task, &self.record);
        if let Some(state) = &self.state {
            let name = super::record::file_name(&self.task.conf);
            state.write(&name, &self.record.pack(), &self.journal());
        }
    }

    /// `None` if it is this node's turn, else how long to wait.
    async fn wait_for_turn(&mut self) -> Option<Duration> {
        let (shared, _) = self.shared.clone()?;
        match shared.lease(RECORD, LEASE_S).await {
            Lease::Ours => {
                self.without_store = None;
                // What the node before has done.
                self.learn().await;
                (!self.is_due(now_s())).then_some(FAST_LOOK)
            }
            Lease::Others => {
                self.without_store = None;
                Some(FAST_LOOK)
            }
            Lease::Unknown => {
                let since = *self.without_store.get_or_insert_with(Instant::now);
                let now = now_s();
                let has_time = self.facts.as_ref().is_some_and(|facts| {
                    renewal::urgency(facts.begins_s, facts.ends_s, now) < Urgency::Error
                });
                match has_time || since.elapsed() < STORE_PATIENCE {
                    true => Some(FAST_LOOK),
                    false => None, // rather several orders than no certificate
                }
            }
        }
    }

    async fn attempt(&mut self) -> Result<(), AcmeError> {
        let ordering = Arc::clone(&self.ordering);
        // The semaphore is never closed.
        let _permit = ordering.acquire().await;
        let shared = self.shared.clone();
        let work = self.order();
        let Some((shared, _)) = shared else {
            return work.await;
        };
        tokio::select! {
            done = work => return done,
            () = prolong(&shared) => {}
        }
        // What was given up may have been about to serve what has come.
        self.facts = self.read_facts();
        self.serve();
        self.apply_answers();
        Ok(())
    }

    async fn order(&mut self) -> Result<(), AcmeError> {
        match self.order_once().await {
            // The key has to register again, and can do so at once.
            Err(error) if error.is_about_account() => self.order_once().await,
            done => done,
        }
    }

    async fn order_once(&mut self) -> Result<(), AcmeError> {
        let account = Arc::clone(&self.account);
        let journal = self.journal();
        let shared = self.shared.clone().map(|(_, issuer)| issuer);
        let ready = account.ready(shared.as_ref(), &journal).await?;
        let transport = self.transport()?;
        let opened = account.open(&ready, transport, shared.as_ref(), &journal);
        let mut client = opened.await?;
        let done = order::advance(self, &mut client, &ready.key).await;
        if done.as_ref().is_err_and(AcmeError::is_about_account) {
            account.forget_url(shared.as_ref(), &journal).await;
        }
        done
    }

    fn transport(&self) -> Result<Transport, AcmeError> {
        let issuer = &self.task.conf.issuer;
        let trusted = self.task.files.trusted.as_deref();
        Transport::new(trusted, issuer.verify, self.task.resolver.clone())
    }

    /// Has these challenges answered, here and by all nodes.
    ///
    /// # Errors
    /// When a TXT record cannot be made.
    pub(super) async fn answer(&mut self, mut answers: Vec<Answered>) -> Result<(), AcmeError> {
        if let Some(records) = dns::Records::of(&self.task, &self.desk) {
            records.locate(&mut answers).await?;
        }
        self.change(|record| {
            if let Some(order) = &mut record.order {
                order.challenges = answers;
            }
        })
        .await;
        self.apply_answers();
        if let Some(records) = dns::Records::of(&self.task, &self.desk) {
            records.add(&self.challenges()).await?;
        } else if self.shared.is_some() {
            tokio::time::sleep(PROPAGATION).await;
        }
        Ok(())
    }

    fn challenges(&self) -> Vec<Answered> {
        let order = self.record.order.as_ref();
        order.map_or_else(Vec::new, |order| order.challenges.clone())
    }

    /// Answers what the order in the record is asked, and nothing else.
    fn apply_answers(&self) {
        let challenges = self.challenges();
        let kind = self.task.conf.issuer.challenge;
        let of = |wanted| match kind == wanted {
            true => &challenges[..],
            false => &[],
        };
        let http = of(AcmeChallenge::Http01).iter().map(serving::http_answer);
        self.serving.set_http_answers(self.task.id, http.collect());
        // Only `dns_listen` asks for them.
        let dns = of(AcmeChallenge::Dns01).iter().map(serving::dns_answer);
        self.serving.set_dns_answers(self.task.id, dns.collect());
        let tls = of(AcmeChallenge::TlsAlpn01).iter();
        match tls.map(serving::tls_answer).collect() {
            Ok(answers) => self.serving.set_tls_answers(self.task.id, answers),
            Err(error) => note!(self.journal(), Error, "{error}"),
        }
    }

    /// Removes what was put into the DNS for an order that is over.
    async fn clean(&self, order: Option<&OrderUnderWay>) {
        let records = dns::Records::of(&self.task, &self.desk);
        let (Some(order), Some(records)) = (order, records) else {
            return;
        };
        if let Err(error) = records.remove(&order.challenges).await {
            note!(
                self.journal(),
                Warn,
                "acme issuer \"{}\": {error}; a record of {} stays behind",
                self.task.conf.issuer.name,
                label(&self.task.conf)
            );
        }
    }

    /// A certificate has come.
    pub(super) async fn succeed(&mut self, issued: Issued, facts: &CertificateFacts) {
        let order = self.record.order.clone();
        self.change(|record| {
            record.certificate = Some(issued);
            record.order = None;
            record.tries = Tries::default();
        })
        .await;
        self.facts = Some(facts.clone());
        (self.warned, self.said) = (Urgency::None, None);
        self.serve();
        self.apply_answers();
        let days = (facts.ends_s - now_s()) / (24 * 3600);
        note!(
            self.journal(),
            Notice,
            "acme issuer \"{}\": certificate for {} has come, it ends in {days} days",
            self.task.conf.issuer.name,
            label(&self.task.conf)
        );
        self.clean(order.as_ref()).await;
    }

    /// Notes a failure, and when to try again.
    async fn fail(&mut self, error: &AcmeError) {
        let url = |record: &Record| record.order.as_ref().map(|order| order.url.clone());
        let failed = url(&self.record);
        self.learn().await;
        self.learn_from_file();
        if !self.is_due(now_s()) {
            return; // another process or node has what this one failed to get
        }
        let before = self.record.tries.failures;
        let is_costly = error.is_costly();
        let mut wait_s = renewal::retry_s(before, is_costly, renewal::random());
        if let Some(after) = error.retry_after() {
            wait_s = wait_s.max(i64::try_from(after.as_secs()).unwrap_or(i64::MAX));
        }
        let now = now_s();
        let text = error.to_string();
        // Another node may have begun another one.
        let is_over = error.ends_order() && url(&self.record) == failed;
        let over = self.record.order.clone().filter(|_| is_over);
        let ended = over.is_some();
        self.change(|record| {
            record.tries = Tries {
                failures: before.saturating_add(1),
                last_s: Some(now),
                next_s: now + wait_s,
                error: Some(text.clone()),
            };
            if ended {
                record.order = None;
            }
        })
        .await;
        self.apply_answers();
        self.clean(over.as_ref()).await;
        // Once for each reason.
        if self.said.as_ref() != Some(&text) {
            self.say(&text, wait_s);
            self.said = Some(text);
        }
    }

    fn say(&self, why: &str, wait_s: i64) {
        let serves = match &self.facts {
            Some(facts) if facts.ends_s > now_s() => {
                let days = (facts.ends_s - now_s()) / (24 * 3600);
                format!("the one that ends in {days} days is served on")
            }
            Some(_) => "the one that is served has ended".to_owned(),
            None => "a self-signed one is served".to_owned(),
        };
        note!(
            self.journal(),
            Error,
            "acme issuer \"{}\": no certificate for {}: {why}; {serves}, the next attempt is in \
             {wait_s} s",
            self.task.conf.issuer.name,
            label(&self.task.conf)
        );
    }

    /// Warns, louder and louder, about a certificate that ends and was not renewed.
    fn remind(&mut self) {
        let Some(facts) = &self.facts else { return };
        let now = now_s();
        let urgency = renewal::urgency(facts.begins_s, facts.ends_s, now);
        if urgency <= self.warned || !self.is_due(now) {
            return;
        }
        let tried = match &self.record.tries.error {
            Some(error) => format!("the last attempt failed: {error}"),
            None => "it is being renewed".to_owned(),
        };
        let left_s = facts.ends_s - now;
        let end = match urgency {
            Urgency::Ended => "has ended".to_owned(),
            _ if left_s >= 2 * 24 * 3600 => format!("ends in {} days", left_s / (24 * 3600)),
            _ => format!("ends in {} hours", left_s / 3600),
        };
        let (issuer, names) = (&self.task.conf.issuer.name, label(&self.task.conf));
        let journal = self.journal();
        let message =
            format!("acme issuer \"{issuer}\": the certificate for {names} {end}; {tried}");
        match urgency {
            Urgency::None => {}
            Urgency::Warn => note!(journal, Warn, "{message}"),
            Urgency::Error => note!(journal, Error, "{message}"),
            Urgency::Critical => note!(journal, Crit, "{message}"),
            Urgency::Ended => note!(journal, Alert, "{message}"),
        }
        self.warned = urgency;
    }

    /// Asks the server when it wants the certificate renewed, if it is time to (RFC 9773), and
    /// returns how long nothing is due.
    async fn ask_when_to_renew(&mut self, now: i64) -> Duration {
        let Some(certificate) = self.record.certificate.clone() else {
            return FAST_LOOK;
        };
        let mut next_s = certificate.renew_s.min(certificate.ask_s) - now;
        if self.asks_first || certificate.ask_s <= now {
            let may_ask = match &self.shared {
                Some((shared, _)) => shared.lease(RECORD, LEASE_S).await == Lease::Ours,
                None => true,
            };
            if may_ask {
                self.ask(now, &certificate).await;
            }
            // Otherwise another node asks, or orders, and says what has become of it.
            self.asks_first = false;
            next_s = if may_ask { 1 } else { OTHER_NODE_S };
        }
        let wait = Duration::from_secs(u64::try_from(next_s).unwrap_or(0));
        match self.shared {
            Some(_) => wait.min(SLOW_LOOK),
            None => wait,
        }
    }

    async fn ask(&mut self, now: i64, certificate: &Issued) {
        let info = match self.certificate_id() {
            Some(id) => self.renewal_info(&id).await,
            None => Ok(None),
        };
        let (mut renew_s, mut ask_s) = (certificate.renew_s, now + renewal::MAX_QUESTION_S);
        match info {
            Ok(None) => {}
            Ok(Some(info)) => {
                let window = &info.suggested_window;
                let times = [&window.start, &window.end].map(|time| renewal::parse_time(time));
                if let [Some(start_s), Some(end_s)] = times
                    && start_s < end_s
                    && !(start_s..end_s).contains(&renew_s)
                {
                    renew_s = renewal::within(start_s, end_s, renewal::random());
                    if renew_s <= now && self.shared.is_some() {
                        // All nodes have to look by then.
                        renew_s = now + i64::try_from(SLOW_LOOK.as_secs()).unwrap_or(0) + 5;
                    }
                    self.note_window(renew_s - now, info.explanation_url.as_deref());
                }
                ask_s = now + renewal::question_s(info.retry_after);
            }
            Err(error) => {
                ask_s = now + renewal::QUESTION_S;
                note!(
                    self.journal(),
                    Info,
                    "acme issuer \"{}\": when to renew the certificate for {} is not known: {error}",
                    self.task.conf.issuer.name,
                    label(&self.task.conf)
                );
            }
        }
        self.change(|record| {
            if let Some(certificate) = &mut record.certificate {
                (certificate.renew_s, certificate.ask_s) = (renew_s, ask_s);
            }
        })
        .await;
    }

    async fn renewal_info(
        &self,
        id: &str,
    ) -> Result<Option<super::client::RenewalInfo>, AcmeError> {
        let journal = self.journal();
        let shared = self.shared.clone().map(|(_, issuer)| issuer);
        let ready = self.account.ready(shared.as_ref(), &journal).await?;
        let transport = self.transport()?;
        let opened = self
            .account
            .open(&ready, transport, shared.as_ref(), &journal);
        opened.await?.renewal_info(id).await
    }

    fn note_window(&self, in_s: i64, explanation: Option<&str>) {
        let why = explanation.map(|url| format!(" ({url})"));
        note!(
            self.journal(),
            Notice,
            "acme issuer \"{}\": the server wants the certificate for {} renewed in {} hours{}",
            self.task.conf.issuer.name,
            label(&self.task.conf),
            in_s.max(0) / 3600,
            why.unwrap_or_default()
        );
    }

    fn read_facts(&self) -> Option<CertificateFacts> {
        let certificate = self.record.certificate.as_ref()?;
        certificate.facts().ok()
    }

    /// Serves the certificate of the record.
    fn serve(&self) {
        let Some(certificate) = &self.record.certificate else {
            return;
        };
        if let Err(why) = serving::serve(&self.serving, &self.task, certificate) {
            note!(
                self.journal(),
                Error,
                "acme issuer \"{}\": the certificate for {} cannot be served: {why}",
                self.task.conf.issuer.name,
                label(&self.task.conf)
            );
        }
    }
}

/// Keeps the lease while this node orders, and returns once another one has it, as when the store
/// has lost it: two nodes would get in each other's way.
async fn prolong(shared: &SharedRecords) {
    loop {
        tokio::time::sleep(LEASE_INTERVAL).await;
        if shared.lease(RECORD, LEASE_S).await == Lease::Others {
            return;
        }
    }
}
