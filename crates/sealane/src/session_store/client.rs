//! One store as the control thread sees it: kept connected, queried with a
//! deadline, left alone while it is down.

use super::claims::{self, Memory};
use super::health::{Announcer, BackOff, Notice, Silence, printable};
use super::link::{Dialer, Link};
use crate::journal::{Journal, note};
use redis::{Cmd, RedisError, Value};
use sealane_conf::model::SessionStore;
use sealane_counters::Placed;
use sealane_server::metrics::StoreCounts;
use sealane_tls::StoreKey;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// How long a new connection may take to be ready: finding the server, TLS,
/// passwords, the first reply.
const READY_WITHIN: Duration = Duration::from_secs(5);

/// How often a store is checked for having started afresh.
const MEMORY_INTERVAL: Duration = Duration::from_secs(1);

/// Takes a lease that is free, or the holder's own, as one step: between two commands the lease
/// could end, and another node take it. `SET ... IFEQ` does the same, but only in Valkey 8.1.
const LEASE_SCRIPT: &str = "local holder = redis.call('GET', KEYS[1]) \
                            if holder and holder ~= ARGV[1] then return 0 end \
                            redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2]) \
                            return 1";

/// A store.
pub(super) struct Client {
    /// Its URL without secrets.
    name: String,
    /// What names of keys begin with.
    prefix: String,
    /// How long an answer may take.
    timeout: Duration,
    /// Whether early data is claimed here.
    claims: bool,
    journal: Journal,
    counts: Placed<StoreCounts>,
    state: Mutex<ClientState>,
    /// The connection was given up.
    given_up: Notify,
    /// The first attempt to connect has ended, well or not.
    attempted: watch::Sender<bool>,
}

#[derive(Default)]
struct ClientState {
    link: Option<Link>,
    memory: Memory,
    /// That it may forget claims was mentioned.
    forgetful: bool,
    /// Why the last connection was given up.
    why: String,
    silence: Silence,
    announcer: Announcer,
}

/// The request has no answer; what to do about it has been done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The store is down, or went down with this request.
    Down,
    /// It did not answer in time.
    Late,
    /// It refused.
    Refused,
}

impl Client {
    /// A client without a connection. `claims` says whether early data is claimed.
    pub(super) fn new(conf: &SessionStore, claims: bool, journal: Journal) -> Client {
        Client {
            name: conf.to_string(),
            prefix: conf.prefix.clone(),
            timeout: conf.timeout,
            claims,
            journal,
            counts: StoreCounts::named(&conf.to_string()),
            state: Mutex::default(),
            given_up: Notify::new(),
            attempted: watch::Sender::new(false),
        }
    }

    /// Whether there is a connection.
    pub(super) fn is_up(&self) -> bool {
        self.state().link.is_some()
    }

    /// Until the first attempt to connect has ended, well or not.
    pub(super) async fn attempted(&self) {
        let mut attempted = self.attempted.subscribe();
        // The sender is ours, so that it is there for as long as this waits.
        let _ = attempted.wait_for(|attempted| *attempted).await;
    }

    /// The URL without secrets.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A key's name in the store.
    pub(super) fn full_name(&self, key: &StoreKey) -> String {
        format!("{}{}", self.prefix, key.as_str())
    }

    /// Whether the store still knows every claim of the last `lifetime`.
    pub(super) fn remembers_claims(&self, lifetime: Duration) -> bool {
        self.state().memory.covers(lifetime, Instant::now())
    }

    /// The value of a key. Longer ones than `max_bytes` are not Sealane's and
    /// count as missing; no more than that is ever transferred.
    pub(super) async fn get(
        &self,
        key: &str,
        max_bytes: usize,
        asked: Instant,
    ) -> Result<Option<Vec<u8>>, NoAnswer> {
        // The range is inclusive: one byte more than allowed reveals values that are too long.
        let command = Cmd::new()
            .arg("GETRANGE")
            .arg(key)
            .arg(0)
            .arg(max_bytes)
            .take();
        match self.ask(&command, asked).await? {
            Value::BulkString(value) if (1..=max_bytes).contains(&value.len()) => Ok(Some(value)),
            _ => Ok(None),
        }
    }

    /// Stores a value for some seconds.
    pub(super) async fn set(
        &self,
        key: &str,
        value: &[u8],
        lifetime_s: u32,
        asked: Instant,
    ) -> Result<(), NoAnswer> {
        let command = Cmd::new()
            .arg("SET")
            .arg(key)
            .arg(value)
            .arg("EX")
            .arg(lifetime_s.max(1))
            .take();
        self.store(&command, asked).await.map(drop)
    }

    /// Sets a key that does not exist, for some time. Returns whether it did not exist.
    pub(super) async fn claim(
        &self,
        key: &str,
        lifetime: Duration,
        asked: Instant,
    ) -> Result<bool, NoAnswer> {
        let lifetime_ms = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        let command = Cmd::new()
            .arg("SET")
            .arg(key)
            .arg("1")
            .arg("NX")
            .arg("PX")
            .arg(lifetime_ms.max(1))
            .take();
        match self.store(&command, asked).await? {
            Value::Okay => Ok(true),
            Value::Nil => Ok(false),
            _ => Err(NoAnswer::Refused),
        }
    }

    /// Takes a lease for some seconds, or prolongs the holder's own. Returns whether it has it.
    pub(super) async fn lease(
        &self,
        key: &str,
        holder: &[u8],
        lifetime_s: u32,
        asked: Instant,
    ) -> Result<bool, NoAnswer> {
        let command = Cmd::new()
            .arg("EVAL")
            .arg(LEASE_SCRIPT)
            .arg(1)
            .arg(key)
            .arg(holder)
            .arg(lifetime_s.max(1))
            .take();
        match self.store(&command, asked).await? {
            Value::Int(has_it) => Ok(has_it == 1),
            _ => Err(NoAnswer::Refused),
        }
    }

    async fn store(&self, command: &Cmd, asked: Instant) -> Result<Value, NoAnswer> {
        let answer = self.ask(command, asked).await;
        if answer.is_ok() {
            self.announce(|announcer| announcer.stored());
        }
        answer
    }

    /// Sends the request, and counts what becomes of it.
    async fn ask(&self, command: &Cmd, asked: Instant) -> Result<Value, NoAnswer> {
        let answer = self.answer(command, asked).await;
        let [success, timed_out, error] = &self.counts.results;
        let counter = match answer {
            Ok(_) => success,
            Err(NoAnswer::Late) => timed_out,
            Err(NoAnswer::Down | NoAnswer::Refused) => error,
        };
        counter.add(1);
        answer
    }

    /// Sends the request, unless its time since `asked` is already over.
    async fn answer(&self, command: &Cmd, asked: Instant) -> Result<Value, NoAnswer> {
        let Some(link) = self.state().link.clone() else {
            return Err(NoAnswer::Down);
        };
        let deadline = tokio::time::Instant::from_std(asked + self.timeout);
        match tokio::time::timeout_at(deadline, link.ask(command)).await {
            Ok(Ok(value)) => {
                self.state().silence.broken();
                Ok(value)
            }
            Ok(Err(error)) => Err(self.on_error(&error)),
            Err(_elapsed) => {
                if self.state().silence.lasts(Instant::now()) {
                    let milliseconds = self.timeout.as_millis();
                    self.give_up(&format!("it does not answer within {milliseconds} ms"));
                    return Err(NoAnswer::Down);
                }
                Err(NoAnswer::Late)
            }
        }
    }

    fn on_error(&self, error: &RedisError) -> NoAnswer {
        if means_lost(error) {
            self.give_up(&error.to_string());
            NoAnswer::Down
        } else {
            self.state().silence.broken();
            self.announce(|announcer| announcer.refused(&error.to_string()));
            NoAnswer::Refused
        }
    }

    fn give_up(&self, why: &str) {
        let mut state = self.state();
        // Of the requests on one connection, the first failure gives the reason.
        if state.link.take().is_some() {
            state.silence.broken();
            why.clone_into(&mut state.why);
            self.given_up.notify_one();
        }
    }

    /// Connects, and again whenever the connection is given up; never returns.
    pub(super) async fn keep_connected(&self, mut dialer: Dialer) {
        let mut back_off = BackOff::default();
        loop {
            match self.connect(&mut dialer).await {
                Ok((link, memory)) => {
                    let start = Instant::now();
                    self.connected(link.clone(), memory);
                    self.attempted.send_replace(true);
                    self.counts.up.set(1);
                    self.announce(|announcer| announcer.connected());
                    self.watch_memory(&link).await;
                    back_off.after_connection(start.elapsed());
                    self.counts.up.set(0);
                    let why = std::mem::take(&mut self.state().why);
                    self.announce(|announcer| announcer.lost(&why));
                }
                Err(why) => {
                    self.announce(|announcer| announcer.lost(&why));
                    self.attempted.send_replace(true);
                }
            }
            tokio::time::sleep(back_off.next_wait()).await;
        }
    }

    /// Until the connection is closed, checks repeatedly whether the store has forgotten
    /// claims: a cluster may change servers, and a store may be emptied, while the
    /// connection stays open.
    async fn watch_memory(&self, link: &Link) {
        loop {
            tokio::select! {
                () = self.given_up.notified() => return,
                () = tokio::time::sleep(MEMORY_INTERVAL), if self.claims => {}
            }
            // Without an answer claims are refused until there is one.
            let memory = self.examine_memory(link).await.unwrap_or_default();
            self.state().memory = memory;
        }
    }

    fn connected(&self, link: Link, memory: Memory) {
        let mut state = self.state();
        (state.link, state.memory) = (Some(link), memory);
    }

    /// A connection on which the store has answered within the time that
    /// handshakes wait.
    async fn connect(&self, dialer: &mut Dialer) -> Result<(Link, Memory), String> {
        let link = match tokio::time::timeout(READY_WITHIN, dialer.dial()).await {
            Ok(dialed) => dialed.map_err(|error| error.to_string())?,
            Err(_elapsed) => {
                let seconds = READY_WITHIN.as_secs();
                return Err(format!("no connection within {seconds} s"));
            }
        };
        match tokio::time::timeout(self.timeout, link.ask(&redis::cmd("PING"))).await {
            Ok(answer) => answer.map_err(|error| error.to_string())?,
            Err(_elapsed) => {
                let milliseconds = self.timeout.as_millis();
                return Err(format!("it does not answer within {milliseconds} ms"));
            }
        };
        let memory = if self.claims {
            self.examine_memory(&link).await?
        } else {
            Memory::default()
        };
        Ok((link, memory))
    }

    async fn examine_memory(&self, link: &Link) -> Result<Memory, String> {
        let examined = claims::examine(link, &self.prefix);
        let why = match tokio::time::timeout(READY_WITHIN, examined).await {
            Ok(Ok(Ok(memory))) => {
                self.state().forgetful = false;
                return Ok(memory);
            }
            Ok(Ok(Err(why))) => why.to_owned(),
            Ok(Err(error)) if means_lost(&error) => return Err(error.to_string()),
            Ok(Err(error)) => printable(&error.to_string()),
            Err(_elapsed) => return Err("it does not answer".to_owned()),
        };
        if !std::mem::replace(&mut self.state().forgetful, true) {
            note!(
                self.journal,
                Warn,
                "session store {} cannot be trusted with early data ({why}): early data is not \
                 accepted, clients send it again after the handshake",
                self.name
            );
        }
        Ok(Memory::default())
    }

    fn announce(&self, change: impl FnOnce(&mut Announcer) -> Option<Notice>) {
        let notice = change(&mut self.state().announcer);
        let (name, journal) = (&self.name, &self.journal);
        match notice {
            None => {}
            Some(Notice::Lost(why)) => note!(
                journal,
                Error,
                "session store {name} is not reachable ({why}): handshakes go on without it"
            ),
            Some(Notice::Back) => note!(journal, Notice, "session store {name} is back"),
            Some(Notice::Refuses(why)) => note!(
                journal,
                Error,
                "session store {name} refuses requests ({why}): what it does not store can be \
                 resumed on this node only"
            ),
            Some(Notice::Stores) => note!(journal, Notice, "session store {name} stores again"),
        }
    }

    /// A panic while the lock was held cannot have left the state half changed.
    fn state(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether another connection may help: this one is broken, or its server is not
/// (or not yet) the right one.
fn means_lost(error: &RedisError) -> bool {
    const ELSEWHERE: [&str; 6] = [
        "LOADING",
        "READONLY",
        "MASTERDOWN",
        "CLUSTERDOWN",
        "NOAUTH",
        "WRONGPASS",
    ];
    match error.code() {
        Some(code) => ELSEWHERE.contains(&code),
        None => true,
    }
}
