//! Keys that a worker process loads itself: those whose file names have variables.
//!
//! The worker opens the file, as its user may, and sends what is in it without reading it. Reading
//! a key may take as long as its worker likes (an encrypted one can name any number of rounds), so
//! each worker process has a thread for that, and holds up nobody but itself.

use super::{Client, Shared, lock, start};
use crate::deposit::Deposited;
use crate::keyring::{Key, Keyring};
use crate::line::{self, Loaded};
use sealane_tls::{KeyHandle, KeyId};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Keys that wait to be loaded, of one worker process. It sends no more at a time.
pub(crate) const MAX_LOADING: usize = 16;

/// The keys of one worker process.
#[derive(Default)]
pub(crate) struct LoadedKeys {
    keys: HashMap<KeyId, LoadedKey>,
    /// By what was sent, so that the same need not be read again.
    by_content: HashMap<[u8; 32], Content>,
    /// Loads that were not undone.
    count: usize,
}

struct LoadedKey {
    key: Arc<Key>,
    handle: KeyHandle,
    count: usize,
}

struct Content {
    id: KeyId,
    is_encrypted: bool,
}

impl LoadedKeys {
    /// The key with this id.
    pub(crate) fn get(&self, id: KeyId) -> Option<Arc<Key>> {
        Some(Arc::clone(&self.keys.get(&id)?.key))
    }

    /// One load is undone. The key is wiped with the last one, once its last operation has ended.
    pub(super) fn forget(&mut self, id: KeyId) {
        let Some(loaded) = self.keys.get_mut(&id) else {
            return;
        };
        self.count -= 1;
        loaded.count -= 1;
        if loaded.count == 0 {
            self.keys.remove(&id);
            self.by_content.retain(|_, content| content.id != id);
        }
    }

    /// Counts another load of what was loaded before.
    fn again(&mut self, content: &[u8; 32]) -> Option<Loaded> {
        let Content { id, is_encrypted } = self.by_content.get(content)?;
        let loaded = self.keys.get_mut(id)?;
        loaded.count += 1;
        self.count += 1;
        Some(Loaded {
            handle: loaded.handle.clone(),
            is_encrypted: *is_encrypted,
        })
    }

    fn add(&mut self, deposited: &Deposited, handle: KeyHandle, mut key: Key) -> Loaded {
        let (id, is_encrypted) = (handle.id, deposited.is_encrypted());
        let count = self.keys.get(&id).map_or(0, |before| {
            key.join(&before.key);
            before.count
        });
        let loaded = LoadedKey {
            key: Arc::new(key),
            handle: handle.clone(),
            count: count + 1,
        };
        self.keys.insert(id, loaded);
        self.count += 1;
        let content = Content { id, is_encrypted };
        self.by_content.insert(*deposited.content(), content);
        Loaded {
            handle,
            is_encrypted,
        }
    }
}

/// The thread that loads keys for one worker process. It ends with this.
pub(super) struct Loader(SyncSender<(u64, OwnedFd)>);

impl Loader {
    pub(super) fn start(client: &Arc<Client>, shared: &Arc<Shared>) -> io::Result<Self> {
        let (sender, loads) = sync_channel::<(u64, OwnedFd)>(MAX_LOADING);
        let (client, shared) = (Arc::clone(client), Arc::clone(shared));
        start("load".to_owned(), move || {
            for (number, memory) in loads {
                let result = load(&client, &shared.keyring, memory.as_fd());
                // A worker that does not read holds up this thread; the main thread sees its end.
                let _ = line::send_loaded(client.line.as_fd(), &(number, result));
            }
        })?;
        Ok(Self(sender))
    }

    /// Whether there was room: a worker does not send more than that.
    pub(super) fn load(&self, number: u64, memory: OwnedFd) -> bool {
        self.0.try_send((number, memory)).is_ok()
    }
}

fn load(client: &Client, keyring: &Keyring, memory: BorrowedFd<'_>) -> Result<Loaded, String> {
    let max = client.rights.max_keys as usize;
    if lock(&client.loaded).count >= max {
        return Err(format!(
            "this worker process has {max} keys in use (\"keys=\" of \"ssl_key_process\")"
        ));
    }
    let deposited = Deposited::read(memory).map_err(|error| error.to_string())?;
    let known = lock(&client.loaded).again(deposited.content());
    if let Some(known) = known {
        return Ok(known);
    }
    let (handle, key) = keyring.open(&deposited)?;
    Ok(lock(&client.loaded).add(&deposited, handle, key))
}
