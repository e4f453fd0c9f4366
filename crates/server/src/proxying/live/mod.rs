//! Groups of servers that change while the server runs: `api write=on`, `upstream_conf`,
//! `dyups_interface`, `state`.
//!
//! ```text
//! handlers/upstreams ── ServerChange ──> GroupRuntime::change_servers ──> StateFile ──> Group
//!                    └─ text of a block ──> LiveGroups::set (a group that no file has)
//! ```
//!
//! | file | what |
//! |---|---|
//! | `lines.rs` | servers as text, and what is to become of one |
//! | `state_file.rs` | the file of `state` |
//!
//! A group with `state` and the one that follows it after a reload have one list of servers, so
//! that nothing is lost that is changed while the reload is under way. In other groups, a reload
//! brings the servers of the configuration back, as in nginx. Groups that no configuration has
//! outlive a reload.

pub(crate) mod lines;
mod state_file;

pub(crate) use self::lines::{Parameter, ServerChange};
pub(crate) use self::state_file::StateFile;

use self::state_file::StateError;
use super::groups::{self, Groups};
use super::health::HealthTask;
use super::lease::GroupRuntime;
use sealane_conf::model::{Check, Sticky, Upstream};
use sealane_upstream::{CheckSettings, ServerList, ServerSettings};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a `zone` that a server takes, as in nginx on average.
const SERVER_BYTES: u64 = 512;
/// Most servers of a group whose `zone` has no size.
const MAX_SERVERS: usize = 10_000;

/// Why a group cannot be changed.
#[derive(Debug)]
pub(crate) enum ChangeError {
    /// It has no `zone`.
    Static,
    /// It has no server with that number.
    NoServer,
    /// It has as many servers as its `zone` has room for.
    Full(usize),
    /// Its method has no backup servers.
    NoBackup,
    /// A name is to be looked up, and there is no `resolver`.
    NoResolver(String),
    /// A value is wrong.
    Invalid(Parameter, String),
    /// It cannot be written down.
    State(StateError),
}

impl ChangeError {
    /// A wrong value, with what the parser says of it.
    fn invalid(parameter: Parameter, message: &str) -> ChangeError {
        // It names the upstream that it was read in.
        let message = message.replace(" in upstream \"upstream\"", "");
        ChangeError::Invalid(parameter, message)
    }
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Static => f.write_str("upstream is static: it needs a \"zone\""),
            ChangeError::NoServer => f.write_str("server not found"),
            ChangeError::Full(most) => write!(
                f,
                "upstream has {most} servers already: its \"zone\" has no room for more"
            ),
            ChangeError::NoBackup => f.write_str("upstream has no backup servers"),
            ChangeError::NoResolver(name) => {
                write!(f, "no \"resolver\" defined to resolve \"{name}\"")
            }
            ChangeError::Invalid(_, message) => f.write_str(message),
            ChangeError::State(error) => error.fmt(f),
        }
    }
}

/// What a group needs to be changed.
#[derive(Debug, Default)]
pub(crate) struct Changing {
    /// It has a `zone`.
    pub(super) has_zone: bool,
    /// The size of that.
    pub(super) zone_bytes: Option<u64>,
    /// Its names can be looked up.
    pub(super) resolves: bool,
    /// Its method has backup servers.
    pub(super) has_backups: bool,
    /// `state`.
    pub(super) state: Option<Arc<StateFile>>,
    /// `check`.
    pub(super) check: Option<Arc<Check>>,
    /// `session_sticky`: whether ids of servers are in plain text, instead of hashes.
    pub(super) plain_ids: Option<bool>,
}

impl Changing {
    pub(super) fn of(upstream: &Upstream, before: Option<&Changing>) -> Changing {
        let known = before.and_then(|before| before.state.as_ref());
        Changing {
            has_zone: upstream.zone.is_some(),
            zone_bytes: upstream.zone.as_ref().and_then(|zone| zone.size_bytes),
            resolves: upstream.resolver.is_some(),
            has_backups: upstream.method.allows_backup(),
            state: upstream.state.as_ref().map(|conf| {
                match known.filter(|known| known.is_known(conf)) {
                    Some(known) => Arc::clone(known),
                    None => Arc::new(StateFile::new(conf)),
                }
            }),
            check: upstream.check.clone(),
            plain_ids: match &upstream.sticky {
                Some(Sticky::Session(session)) => Some(session.plain),
                _ => None,
            },
        }
    }

    /// Whether the group goes on with the servers of the one `before`, whatever the configuration
    /// has read.
    pub(super) fn shares_servers(&self, before: &Changing) -> bool {
        match (&self.state, &before.state) {
            (Some(state), Some(before)) => Arc::ptr_eq(state, before),
            _ => false,
        }
    }

    fn max_servers(&self) -> usize {
        let bytes = self.zone_bytes.map(|bytes| bytes / SERVER_BYTES);
        bytes.map_or(MAX_SERVERS, |most| {
            usize::try_from(most).unwrap_or(usize::MAX)
        })
    }
}

impl GroupRuntime {
    /// Whether its names can be looked up.
    pub(crate) fn resolves(&self) -> bool {
        self.changing.resolves
    }

    /// Whether it has a `zone`, so that APIs may change it.
    pub(crate) fn has_zone(&self) -> bool {
        self.changing.has_zone
    }

    /// Changes its servers, in its `state` file first. Blocks.
    ///
    /// # Errors
    /// That of `edit`, or why it cannot be done; nothing is changed then.
    pub(crate) fn change_servers<T>(
        &self,
        edit: impl FnOnce(&mut ServerList) -> Result<T, ChangeError>,
    ) -> Result<T, ChangeError> {
        let changing = &self.changing;
        self.group.change(|servers| {
            let before = servers.entries().len();
            let done = edit(servers)?;
            let (count, most) = (servers.entries().len(), changing.max_servers());
            if count > before && count > most {
                return Err(ChangeError::Full(most));
            }
            let mut entries = servers.entries().iter();
            if !changing.has_backups && entries.any(|entry| entry.settings.backup) {
                return Err(ChangeError::NoBackup);
            }
            if let Some(state) = &changing.state {
                let lines = lines::lines(servers);
                state.write(&lines).map_err(ChangeError::State)?;
            }
            Ok(done)
        })
    }

    /// Settings of a new server, as the group's `session_sticky` has them.
    pub(crate) fn fitted(&self, settings: ServerSettings) -> ServerSettings {
        let plain_ids = self.changing.plain_ids;
        ServerSettings {
            added: true,
            plain_id: plain_ids == Some(true),
            route: settings.route.filter(|_| plain_ids != Some(false)),
            ..settings
        }
    }

    /// One more server. Returns its number.
    ///
    /// # Errors
    /// As [`GroupRuntime::change_servers`].
    pub(crate) fn add_server(&self, change: &ServerChange) -> Result<u64, ChangeError> {
        let settings = ServerSettings::new("", Vec::new());
        let settings = self.fitted(change.applied_to(settings, self.resolves())?);
        self.change_servers(|servers| Ok(servers.add(settings)))
    }

    /// Another address or other parameters for a server.
    ///
    /// # Errors
    /// As [`GroupRuntime::change_servers`].
    pub(crate) fn change_server(
        &self,
        number: u64,
        change: &ServerChange,
    ) -> Result<(), ChangeError> {
        self.change_servers(|servers| {
            let entry = servers.get(number).ok_or(ChangeError::NoServer)?;
            let before = entry.settings.clone();
            let added = before.added || change.has_server();
            let settings = self.fitted(change.applied_to(before, self.resolves())?);
            servers.set(number, ServerSettings { added, ..settings });
            Ok(())
        })
    }

    /// Removes a server: requests under way are finished.
    ///
    /// # Errors
    /// As [`GroupRuntime::change_servers`].
    pub(crate) fn remove_server(&self, number: u64) -> Result<(), ChangeError> {
        self.change_servers(|servers| match servers.remove(number) {
            true => Ok(()),
            false => Err(ChangeError::NoServer),
        })
    }
}

/// Groups that no configuration has, by name in lower case: `dyups_interface` makes them.
/// Successive configurations share them.
#[derive(Default)]
pub(crate) struct LiveGroups {
    /// Changes with the groups.
    generation: AtomicU64,
    groups: Mutex<BTreeMap<String, LiveGroup>>,
}

struct LiveGroup {
    runtime: Arc<GroupRuntime>,
    /// Length of the text that it was made of.
    bytes: u64,
}

impl LiveGroups {
    /// A number that changes with the groups; 0 if there has never been one.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The group with that name.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<GroupRuntime>> {
        if self.generation() == 0 {
            return None;
        }
        let groups = self.lock();
        let found = groups.get(&name.to_ascii_lowercase());
        found.map(|group| Arc::clone(&group.runtime))
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<GroupRuntime>> {
        if self.generation() == 0 {
            return Vec::new();
        }
        let groups = self.lock();
        let groups = groups.values();
        groups.map(|group| Arc::clone(&group.runtime)).collect()
    }

    /// A new group, or another one in place of that with its name, whose peers keep what is known
    /// of them. `bytes` is the length of its text; all of them have at most `max_bytes`. Returns
    /// whether there is room for it.
    pub(crate) fn set(
        &self,
        upstream: &Upstream,
        (bytes, max_bytes): (u64, u64),
        threads: usize,
    ) -> bool {
        let name = upstream.name.to_ascii_lowercase();
        let mut groups = self.lock();
        let others = groups.iter().filter(|(other, _)| **other != name);
        let taken: u64 = others.map(|(_, group)| group.bytes).sum();
        if taken.saturating_add(bytes) > max_bytes {
            return false;
        }
        let checks: Arc<[CheckSettings]> = match &upstream.check {
            Some(check) => [super::health::settings_of_check(check)].into(),
            None => Arc::default(),
        };
        let before = groups.get(&name).map(|group| &*group.runtime);
        let runtime = Arc::new(groups::runtime(upstream, checks, threads, before, None));
        groups.insert(name, LiveGroup { runtime, bytes });
        self.note_change();
        true
    }

    /// Removes a group: requests under way are finished. Returns whether there was one.
    pub(crate) fn remove(&self, name: &str) -> bool {
        let removed = self.lock().remove(&name.to_ascii_lowercase());
        if removed.is_some() {
            self.note_change();
        }
        removed.is_some()
    }

    /// Forgets those whose names the configuration has.
    pub(super) fn give_way_to(&self, groups: &Groups) {
        if self.generation() == 0 {
            return;
        }
        let mut live = self.lock();
        let before = live.len();
        live.retain(|name, _| groups.block(name).is_none());
        if live.len() != before {
            self.note_change();
        }
    }

    /// The health checks of these groups.
    pub(crate) fn health_tasks(&self) -> Vec<HealthTask> {
        let groups = self.all().into_iter();
        let tasks = groups.filter_map(|group| {
            let check = group.changing.check.clone()?;
            Some(HealthTask::of_group(&group, &check))
        });
        tasks.collect()
    }

    fn note_change(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Each change is one insertion or removal, so what a panic leaves is usable.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, LiveGroup>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
