//! A group at run time.

use super::balance::{self, Positions};
use super::failures::Clock;
use super::health::{CheckSettings, HealthChange, MAX_CHECKS, Verdict};
use super::peer::{Peer, PeerAddress, PeerState};
use super::peer_set::{GroupFacts, LocalSet, PeerRef, PeerSet, ResolvedAddress, TierName};
use super::picked::{NoPeer, Picked};
use super::queue::{GroupId, Queue, QueueSettings};
use super::servers::ServerList;
use super::settings::{GroupSettings, KeepaliveSettings, Method};
use super::times::Stopwatch;
use super::tried::Tried;
use sealane_counters::{Counter, Placed};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The inputs of a pick.
#[derive(Debug, Clone, Copy)]
pub struct PickRequest<'a> {
    /// The value of the key of `hash`; empty for other methods. With an empty key, round robin
    /// picks.
    pub key: &'a [u8],
    /// The client, for `ip_hash`; `None` for a Unix-domain socket.
    pub client: Option<IpAddr>,
    /// The server id of the peer that the client belongs to (`sticky`). It is picked whatever the
    /// method, if it can be.
    pub server_id: Option<&'a [u8]>,
    /// Number of the worker thread, from 0.
    pub thread: u32,
    /// That peer is picked, or none.
    pub own_only: bool,
    /// The time.
    pub now: Instant,
}

/// A group of servers: `upstream`, or the group that a literal address implies.
#[derive(Debug)]
pub struct Group {
    name: String,
    counted_as: Arc<str>,
    method: Method,
    checks: Arc<[CheckSettings]>,
    keepalive: KeepaliveSettings,
    clock: Clock,
    /// Generation of the newest list of peers.
    generation: AtomicU64,
    newest: Mutex<Arc<PeerSet>>,
    /// The input for building lists; locked while a list is built. Groups that follow each other
    /// may share it.
    servers: Arc<Mutex<ServerList>>,
    /// The version of the servers that the newest list was built from.
    built_from: AtomicU64,
    /// The turns of worker threads; a single entry if they share it.
    turns: Box<[Turns]>,
    /// Requests that found no peer.
    without_peer: Placed<Counter>,
    queue: Option<QueueSettings>,
    /// Those that wait, of this group and of those before it.
    line: Arc<Queue>,
    /// Requests that found no place in the queue.
    overflows: Placed<Counter>,
    id: GroupId,
}

/// One thread's turns. Kept apart from its neighbours' so that threads do not contend for the cache
/// line.
#[derive(Debug)]
#[repr(align(128))]
struct Turns(Mutex<Turn>);

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) set: Arc<LocalSet>,
    primary: Positions,
    backup: Positions,
}

impl Group {
    /// A group for `threads` worker threads.
    #[must_use]
    pub fn new(settings: GroupSettings, threads: usize) -> Group {
        Group::after(settings, threads, None)
    }

    /// A group that replaces another one. It takes over what is known of the peers, and the
    /// resolved addresses of names. The old group continues for requests that still use it.
    #[must_use]
    pub fn after(settings: GroupSettings, threads: usize, before: Option<&Group>) -> Group {
        let mut servers = ServerList::new(settings.servers.iter().cloned());
        if let Some(before) = before {
            before.tell_addresses(&mut servers);
        }
        Group::of_servers(settings, threads, before, Arc::new(Mutex::new(servers)))
    }

    /// A group that replaces another one and goes on with its servers, whatever the settings say.
    /// What is changed in one of the two is changed in both, once the other [follows](
    /// Group::follow_servers).
    #[must_use]
    pub fn sharing_servers(settings: GroupSettings, threads: usize, before: &Group) -> Group {
        let servers = Arc::clone(&before.servers);
        Group::of_servers(settings, threads, Some(before), servers)
    }

    fn of_servers(
        settings: GroupSettings,
        threads: usize,
        before: Option<&Group>,
        servers: Arc<Mutex<ServerList>>,
    ) -> Group {
        let GroupSettings {
            name,
            counted_as,
            servers: _,
            method,
            checks,
            zone,
            keepalive,
            queue,
        } = settings;
        let list = lock(&servers);
        let known = before.map(|before| Arc::clone(&before.newest()));
        let line = known
            .as_ref()
            .map_or_else(Arc::default, |known| Arc::clone(&known.queue));
        let set = Arc::new(PeerSet::build(
            GroupFacts {
                name: &counted_as,
                checks: &checks,
                queue: &line,
            },
            0,
            method,
            list.entries(),
            known.as_deref(),
        ));
        let built_from = list.version;
        drop(list);
        let shared = zone && method.takes_turns();
        let turns = if shared { 1 } else { threads.max(1) };
        let turns = (0..turns).map(|_| Turns(Mutex::new(Turn::new(&set))));
        Group {
            without_peer: Placed::named(&format!("without peer {counted_as}")),
            overflows: match queue {
                Some(_) => Placed::named(&format!("queue overflows {counted_as}")),
                None => Placed::private(),
            },
            queue,
            line,
            id: GroupId::next(),
            name,
            counted_as,
            method,
            checks,
            keepalive,
            // The clock is shared, so that times of failures mean the same in both.
            clock: before.map_or_else(Clock::new, |before| before.clock),
            generation: AtomicU64::new(0),
            turns: turns.collect(),
            newest: Mutex::new(set),
            built_from: AtomicU64::new(built_from),
            servers,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Under which name it is counted.
    pub fn counted_as(&self) -> &Arc<str> {
        &self.counted_as
    }

    /// The settings of the connections kept for it.
    pub fn keepalive(&self) -> &KeepaliveSettings {
        &self.keepalive
    }

    /// How a peer is chosen.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Its peers, primary ones first.
    pub fn peers(&self) -> Vec<Arc<Peer>> {
        self.newest().all().cloned().collect()
    }

    /// Its peers with their states, and whether each is a `backup`.
    pub fn peer_states(&self, now: Instant) -> Vec<(Arc<Peer>, PeerState, bool)> {
        let set = Arc::clone(&self.newest());
        let now_ms = self.clock.ms(now);
        let mut all = Vec::new();
        for (tier, is_backup) in [(TierName::Primary, false), (TierName::Backup, true)] {
            let peers = set.tier(tier).peers.iter();
            all.extend(peers.map(|peer| (Arc::clone(peer), peer.state(now_ms), is_backup)));
        }
        all
    }

    /// A check, given by its number in the settings, has found out that a peer is healthy, or that
    /// it is not.
    pub fn note_verdict(
        &self,
        peer: &Peer,
        check: usize,
        healthy: bool,
        now: Instant,
    ) -> HealthChange {
        let change = peer.note_verdict(check, healthy, self.clock.ms(now));
        if change == HealthChange::BecameHealthy {
            self.line.note_change();
        }
        change
    }

    /// What its checks have found out about its peers, all of them together.
    pub fn verdicts(&self) -> Vec<(Arc<Peer>, Verdict)> {
        let all = self.peers().into_iter();
        all.map(|peer| {
            let verdict = peer.health.verdict();
            (peer, verdict)
        })
        .collect()
    }

    /// Begins with the verdicts of an earlier process of this server. The group may have been built
    /// before they were found.
    pub fn recall_verdicts(&self) {
        self.peers().iter().for_each(|peer| peer.recall_verdict());
        self.line.note_change();
    }

    /// Takes over what another process has found out about its peers.
    pub fn take_over_verdict(&self, peer: &str, healthy: bool, now: Instant) {
        let peers = self.peers();
        for peer in peers.iter().filter(|known| **known.name() == *peer) {
            for check in 0..self.checks.len().min(MAX_CHECKS) {
                self.note_verdict(peer, check, healthy, now);
            }
        }
    }

    /// The number of its list of peers, which changes with it.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Its health checks.
    pub fn checks(&self) -> &[CheckSettings] {
        &self.checks
    }

    fn facts(&self) -> GroupFacts<'_> {
        GroupFacts {
            name: &self.counted_as,
            checks: &self.checks,
            queue: &self.line,
        }
    }

    /// How many requests found no peer.
    pub fn without_peer(&self) -> u64 {
        self.without_peer.get()
    }

    /// Picks the next peer for a request, other than those it has tried.
    ///
    /// # Errors
    /// When there is none.
    pub fn pick(&self, ask: &PickRequest<'_>, tried: &mut Tried) -> Result<Picked, NoPeer> {
        let picked = self.pick_in_turn(ask, tried);
        if picked.is_err() {
            self.note_without_peer();
        }
        picked
    }

    /// A request gets no peer.
    pub fn note_without_peer(&self) {
        self.without_peer.add(1);
    }

    pub(super) fn pick_in_turn(
        &self,
        ask: &PickRequest<'_>,
        tried: &mut Tried,
    ) -> Result<Picked, NoPeer> {
        let mut turn = self.current_turn(ask.thread);
        let now_ms = self.clock.ms(ask.now);
        let Turn {
            set,
            primary,
            backup,
        } = &mut *turn;
        tried.fit(set);
        if set.single {
            return self.pick_single(set, ask, tried);
        }
        loop {
            let tier = set.tier(tried.tier);
            let (positions, method) = match tried.tier {
                TierName::Primary => (&mut *primary, self.method),
                TierName::Backup => (&mut *backup, self.method.for_backup()),
            };
            let own = ask
                .server_id
                .and_then(|id| tier.place_of(id, tried, ask.own_only, now_ms));
            if let Some(place) = own {
                balance::count_turn(method, tier, positions, place, tried, now_ms);
            }
            let found = own.or_else(|| match ask.own_only {
                true => None,
                false => balance::pick(method, tier, positions, ask, tried, now_ms),
            });
            if let Some(place) = found {
                let peer = &tier.peers[place];
                if !peer.enter() {
                    continue; // another thread took its last connection meanwhile
                }
                peer.begin_window(now_ms);
                tried.add(place, peer);
                return Ok(self.picked(set, tried.tier, place, now_ms));
            }
            if tried.tier == TierName::Backup {
                return Err(NoPeer);
            }
            tried.turn_to_backup();
        }
    }

    /// A peer without alternative is skipped only if the configuration says so.
    fn pick_single(
        &self,
        set: &Arc<LocalSet>,
        ask: &PickRequest<'_>,
        tried: &mut Tried,
    ) -> Result<Picked, NoPeer> {
        let peer = set.all().next().ok_or(NoPeer)?;
        let is_own = ask.server_id == Some(peer.server_id());
        if (peer.down && !(peer.drain && is_own))
            || (ask.own_only && !is_own)
            || !peer.health.is_good()
            || !peer.enter()
        {
            return Err(NoPeer);
        }
        tried.add(0, peer);
        Ok(self.picked_alone(PeerRef::new(set, TierName::Primary, 0)))
    }

    /// The only peer, for which the request has already been counted.
    pub(super) fn picked_alone(&self, peer: PeerRef) -> Picked {
        Picked::new(peer, true, self.clock, None)
    }

    /// A peer for which the request has already been counted.
    pub(super) fn picked(
        &self,
        set: &Arc<LocalSet>,
        tier: TierName,
        place: usize,
        now_ms: u64,
    ) -> Picked {
        let peer = PeerRef::new(set, tier, place);
        let rule = self.method.times();
        let stopwatch = rule.map(|rule| Stopwatch::start(rule, &peer.times, now_ms));
        Picked::new(peer, false, self.clock, stopwatch)
    }

    /// Its servers at present.
    pub fn servers(&self) -> ServerList {
        lock(&self.servers).clone()
    }

    /// Changes its servers. Peers that stay keep their state. Others get no more requests, and
    /// connections to them are closed when idle; requests under way are not disturbed. Nothing is
    /// changed if `edit` fails. Other changes wait meanwhile.
    ///
    /// # Errors
    /// That of `edit`.
    pub fn change<T, E>(&self, edit: impl FnOnce(&mut ServerList) -> Result<T, E>) -> Result<T, E> {
        let mut servers = lock(&self.servers);
        let mut edited = servers.clone();
        let done = edit(&mut edited)?;
        edited.version += 1;
        *servers = edited;
        self.build_from(&servers);
        Ok(done)
    }

    /// Takes over what a group with the same servers has changed.
    pub fn follow_servers(&self) {
        let servers = lock(&self.servers);
        if servers.version != self.built_from.load(Ordering::Relaxed) {
            self.build_from(&servers);
        }
    }

    /// Sets new addresses for a server whose name is looked up, given by its number. Returns
    /// whether anything changed.
    pub fn set_addresses(&self, server: u64, addresses: Vec<ResolvedAddress>) -> bool {
        let mut servers = lock(&self.servers);
        let mut entries = servers.entries_mut().iter_mut();
        match entries.find(|entry| entry.number == server) {
            Some(entry) if entry.addresses != addresses => entry.addresses = addresses,
            _ => return false,
        }
        servers.version += 1;
        self.build_from(&servers);
        true
    }

    /// A new list of peers. The caller holds the lock of the servers.
    fn build_from(&self, servers: &ServerList) {
        let before = Arc::clone(&self.newest());
        let generation = before.generation + 1;
        let set = PeerSet::build(
            self.facts(),
            generation,
            self.method,
            servers.entries(),
            Some(&before),
        );
        before.give_way_to(&set);
        *self.newest() = Arc::new(set);
        self.built_from.store(servers.version, Ordering::Relaxed);
        // Stored after the list: a thread that sees the number finds the list.
        self.generation.store(generation, Ordering::Release);
        self.line.note_change();
    }

    /// Passes on the last resolved addresses to servers that ask for the same name and have none
    /// yet: the name servers may not answer for a while.
    fn tell_addresses(&self, servers: &mut ServerList) {
        let known = lock(&self.servers);
        for entry in servers.entries_mut() {
            let lookup = entry.settings.lookup.as_ref();
            let Some(lookup) = lookup.filter(|_| entry.addresses.is_empty()) else {
                continue;
            };
            let mut known = known.entries().iter();
            let found = known.find(|other| {
                let other = other.settings.lookup.as_ref();
                other.is_some_and(|other| other.asks_as(lookup))
            });
            let Some(found) = found else {
                continue;
            };
            entry.addresses.clone_from(&found.addresses);
            // Only the port may have changed; SRV records bring their own.
            for resolved in entry
                .addresses
                .iter_mut()
                .filter(|_| lookup.service.is_none())
            {
                if let PeerAddress::Ip(address) = &mut resolved.address {
                    address.set_port(lookup.port);
                }
            }
        }
    }

    /// `queue`.
    pub fn queue_settings(&self) -> Option<&QueueSettings> {
        self.queue.as_ref()
    }

    /// How many requests found no place in the queue.
    pub fn overflows(&self) -> u64 {
        self.overflows.get()
    }

    pub(super) fn note_overflow(&self) {
        self.overflows.add(1);
    }

    pub(super) fn line(&self) -> &Arc<Queue> {
        &self.line
    }

    pub(super) fn id(&self) -> GroupId {
        self.id
    }

    /// Whether some peer could take a request; or one of a client that belongs to a drained peer.
    pub(super) fn has_room(&self, now: Instant, at_home: bool) -> bool {
        let now_ms = self.clock.ms(now);
        let set = Arc::clone(&self.newest());
        set.all().any(|peer| match at_home {
            true => peer.is_available_to_its_own(now_ms),
            false => peer.is_available(now_ms),
        })
    }

    /// Whether the peer with this id is drained.
    pub(super) fn drains(&self, server_id: &[u8]) -> bool {
        let set = Arc::clone(&self.newest());
        set.all()
            .any(|peer| peer.drain && peer.server_id() == server_id)
    }

    /// When the next peer that is left out after failures gets another chance.
    pub(super) fn next_chance(&self, now: Instant) -> Option<Duration> {
        let now_ms = self.clock.ms(now);
        let set = Arc::clone(&self.newest());
        set.all().filter_map(|peer| peer.next_chance(now_ms)).min()
    }

    pub(super) fn clock_ms(&self, now: Instant) -> u64 {
        self.clock.ms(now)
    }

    /// Held only to copy or replace its contents.
    fn newest(&self) -> MutexGuard<'_, Arc<PeerSet>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's turns among the newest peers.
    pub(super) fn current_turn(&self, thread: u32) -> MutexGuard<'_, Turn> {
        let mut turn = self.turn(thread);
        if turn.set.generation != self.generation.load(Ordering::Acquire) {
            let newest = LocalSet::new(&self.newest());
            turn.follow(newest);
        }
        turn
    }

    /// The turns are usable whatever state a panic has left them in.
    fn turn(&self, thread: u32) -> MutexGuard<'_, Turn> {
        let turns = &self.turns[thread as usize % self.turns.len()];
        turns.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A list is replaced as a whole, so it is usable whatever a panic has left.
fn lock(servers: &Mutex<ServerList>) -> MutexGuard<'_, ServerList> {
    servers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turn {
    fn new(set: &Arc<PeerSet>) -> Turn {
        Turn {
            set: LocalSet::new(set),
            primary: Positions::new(set.tier(TierName::Primary)),
            backup: Positions::new(set.tier(TierName::Backup)),
        }
    }

    /// Switches to another list.
    fn follow(&mut self, set: Arc<LocalSet>) {
        let carried = |positions: &Positions, tier| {
            positions.carried_over(self.set.tier(tier), set.tier(tier))
        };
        self.primary = carried(&self.primary, TierName::Primary);
        self.backup = carried(&self.backup, TierName::Backup);
        self.set = set;
    }
}
