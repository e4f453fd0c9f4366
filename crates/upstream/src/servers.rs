//! The servers of a group, which may change while it runs.

use super::peer::PeerAddress;
use super::peer_set::ResolvedAddress;
use super::settings::{LookupName, ServerSettings};
use std::collections::{HashMap, VecDeque};

/// The servers of a group in their order. Each has a number of its own within the group, which no
/// other one gets later.
#[derive(Debug, Clone, Default)]
pub struct ServerList {
    entries: Vec<ServerEntry>,
    next: u64,
    /// Grows with every change.
    pub(super) version: u64,
}

/// A server with what is known of it.
#[derive(Debug, Clone)]
pub struct ServerEntry {
    /// Its number.
    pub number: u64,
    /// Its settings.
    pub settings: ServerSettings,
    /// Where it is: the addresses of the settings, or those that its name resolves to.
    pub addresses: Vec<ResolvedAddress>,
}

impl ServerList {
    /// Servers with the numbers 0, 1 and so on.
    pub(super) fn new(servers: impl IntoIterator<Item = ServerSettings>) -> ServerList {
        let mut list = ServerList::default();
        for settings in servers {
            list.add(settings);
        }
        list
    }

    /// All servers.
    pub fn entries(&self) -> &[ServerEntry] {
        &self.entries
    }

    pub(super) fn entries_mut(&mut self) -> &mut [ServerEntry] {
        &mut self.entries
    }

    /// The server with a number.
    pub fn get(&self, number: u64) -> Option<&ServerEntry> {
        self.entries.iter().find(|entry| entry.number == number)
    }

    /// One more server, at the end. Returns its number.
    pub fn add(&mut self, settings: ServerSettings) -> u64 {
        let number = self.next;
        self.next += 1;
        self.entries.push(entry(number, settings));
        number
    }

    /// Other settings for a server. Addresses of a name stay if the same name is asked for. Returns
    /// whether there is a server with that number.
    pub fn set(&mut self, number: u64, settings: ServerSettings) -> bool {
        let mut entries = self.entries.iter_mut();
        let Some(found) = entries.find(|entry| entry.number == number) else {
            return false;
        };
        let asks_the_same = match (&found.settings.lookup, &settings.lookup) {
            (Some(before), Some(lookup)) => before == lookup,
            _ => false,
        };
        match asks_the_same {
            true => found.settings = settings,
            false => *found = entry(number, settings),
        }
        true
    }

    /// Removes a server. Returns whether there was one with that number.
    pub fn remove(&mut self, number: u64) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.number != number);
        self.entries.len() < before
    }

    /// These servers in place of all others. Those that are there already, at the same addresses,
    /// keep their numbers.
    pub fn replace(&mut self, servers: impl IntoIterator<Item = ServerSettings>) {
        type Location = (Vec<PeerAddress>, Option<LookupName>);
        let location_of = |settings: &ServerSettings| -> Location {
            (settings.addresses.clone(), settings.lookup.clone())
        };
        let mut before: HashMap<Location, VecDeque<ServerEntry>> = HashMap::new();
        for entry in std::mem::take(&mut self.entries) {
            let known = before.entry(location_of(&entry.settings)).or_default();
            known.push_back(entry);
        }
        for settings in servers {
            let known = before.get_mut(&location_of(&settings));
            match known.and_then(VecDeque::pop_front) {
                Some(known) => self.entries.push(ServerEntry { settings, ..known }),
                None => drop(self.add(settings)),
            }
        }
    }
}

fn entry(number: u64, settings: ServerSettings) -> ServerEntry {
    let addresses = settings.addresses.iter().cloned();
    ServerEntry {
        number,
        addresses: addresses.map(ResolvedAddress::from).collect(),
        settings,
    }
}
