//! Idle connections.

use super::*;
use crate::pool::{ConnectionKey, Life};
use std::sync::Arc;

/// A connection is a number; the dead ones are negative.
type Pool = IdlePool<i32>;

struct Setting {
    group: Group,
    peers: Vec<PeerRef>,
    pool: Pool,
    key: ConnectionKey,
    now: Instant,
}

fn keeping(connections: usize) -> Setting {
    let settings = KeepaliveSettings {
        requests: 100,
        time: Duration::from_secs(600),
        ..KeepaliveSettings::keeping(connections)
    };
    let group = Group::new(weighted(Method::RoundRobin, &[1, 1]), 3);
    let now = Instant::now();
    let pick = |_| pick(&group, now);
    let peers = (0..2)
        .map(pick)
        .map(|picked| picked.peer().clone())
        .collect();
    Setting {
        group,
        peers,
        pool: IdlePool::new(settings, 3),
        key: Arc::from(&b"plain"[..]),
        now,
    }
}

fn lives(connection: &mut i32) -> bool {
    *connection >= 0
}

impl Setting {
    fn peer(&self, at: usize) -> PeerRef {
        self.peers[at].clone()
    }

    /// Puts a connection to the first peer back; what is handed back instead.
    fn put(&self, thread: u32, connection: i32) -> Option<i32> {
        self.put_for(thread, connection, 0, 1)
    }

    fn put_for(&self, thread: u32, connection: i32, peer: usize, requests: u64) -> Option<i32> {
        let life = Life {
            opened: self.now,
            requests,
        };
        let peer = self.peer(peer);
        self.pool
            .put(thread, &peer, &self.key, connection, life, self.now)
    }

    fn take(&self, thread: u32) -> Option<(i32, u32)> {
        self.take_at(thread, self.now)
    }

    fn take_at(&self, thread: u32, now: Instant) -> Option<(i32, u32)> {
        let taken = self.pool.take(thread, &self.peer(0), &self.key, now, lives);
        taken.map(|taken| (taken.connection, taken.thread))
    }
}

#[test]
fn the_own_connection_used_last_comes_first() {
    let setting = keeping(8);
    for connection in [1, 2, 3] {
        assert_eq!(setting.put(0, connection), None);
    }
    assert_eq!(setting.put(1, 10), None);
    assert_eq!(setting.take(0), Some((3, 0)));
    assert_eq!(setting.take(1), Some((10, 1)));
    // Then those of other threads, before a new connection is opened.
    assert_eq!(setting.take(1), Some((2, 0)));
    assert_eq!(setting.take(2), Some((1, 0)));
    assert_eq!(setting.take(2), None);
    assert_eq!(setting.peer(0).idle(), 0);
}

#[test]
fn each_thread_keeps_so_many_and_gives_up_the_oldest() {
    let setting = keeping(2);
    assert_eq!(setting.put(0, 1), None);
    assert_eq!(setting.put_for(0, 2, 1, 1), None);
    assert_eq!(setting.put(1, 10), None);
    assert_eq!(setting.put(0, 3), Some(1));
    assert_eq!(setting.pool.len(), 3);
    assert_eq!((setting.peer(0).idle(), setting.peer(1).idle()), (2, 1));
}

#[test]
fn a_connection_is_for_its_peer_and_key() {
    let setting = keeping(8);
    setting.put_for(0, 1, 1, 1);
    assert_eq!(setting.take(0), None);
    setting.put(0, 2);
    let tls: ConnectionKey = Arc::from(&b"tls app.example"[..]);
    let taken = |key: &ConnectionKey| {
        let taken = setting
            .pool
            .take(0, &setting.peer(0), key, setting.now, lives);
        taken.map(|taken| taken.connection)
    };
    assert_eq!(taken(&tls), None);
    // The same words are the same key, whoever wrote them.
    assert_eq!(taken(&Arc::from(&b"plain"[..])), Some(2));
}

#[test]
fn connections_have_a_number_of_requests_and_an_age() {
    let setting = keeping(8);
    assert_eq!(setting.put_for(0, 1, 0, 99), None);
    assert_eq!(setting.put_for(0, 2, 0, 100), Some(2));
    let old = Life {
        opened: setting.now,
        requests: 1,
    };
    let put_after = |seconds| {
        let now = later(setting.now, seconds);
        setting
            .pool
            .put(0, &setting.peer(0), &setting.key, 3, old, now)
    };
    assert_eq!(put_after(601), Some(3));
    assert_eq!(put_after(600), None);
}

#[test]
fn nothing_is_kept_without_keepalive() {
    let setting = keeping(0);
    assert_eq!(setting.put(0, 1), Some(1));
    assert!(setting.pool.is_empty());
}

#[test]
fn connections_time_out() {
    let setting = keeping(8);
    setting.put(0, 1);
    setting.put(1, 2);
    assert_eq!(setting.pool.sweep(0, later(setting.now, 59), lives), [0; 0]);
    assert_eq!(setting.pool.sweep(0, later(setting.now, 60), lives), [1]);
    // What no sweep has found yet is not used either.
    assert_eq!(setting.take_at(1, later(setting.now, 60)), None);
    assert!(setting.pool.is_empty());
    assert_eq!(setting.peer(0).idle(), 0);
}

#[test]
fn dead_connections_are_passed_over_and_swept() {
    let setting = keeping(8);
    for connection in [1, -2, -3] {
        setting.put(0, connection);
    }
    assert_eq!(setting.take(0), Some((1, 0)));
    for connection in [4, -5] {
        setting.put(0, connection);
    }
    assert_eq!(setting.pool.sweep(0, setting.now, lives), [-5]);
    assert_eq!(setting.pool.drain(0), [4]);
    assert_eq!(setting.peer(0).idle(), 0);
}

#[test]
fn connections_to_peers_that_are_gone_are_closed() {
    let setting = keeping(8);
    let gone = setting.peer(0);
    setting.put(0, 1);
    setting.put_for(0, 2, 1, 1);
    setting.group.set_addresses(0, Vec::new());
    assert_eq!(setting.pool.sweep(0, setting.now, lives), [1]);
    assert_eq!(setting.pool.len(), 1);
    let life = Life {
        opened: setting.now,
        requests: 1,
    };
    let put = setting
        .pool
        .put(0, &gone, &setting.key, 3, life, setting.now);
    assert_eq!(put, Some(3));
}

#[test]
fn threads_take_from_and_put_into_one_pool() {
    let setting = keeping(16);
    let shared = &setting;
    std::thread::scope(|scope| {
        for thread in 0..3_u32 {
            scope.spawn(move || {
                let mut own = Vec::new();
                for number in 0..20_000 {
                    match shared.take(thread) {
                        Some((connection, _)) => own.push(connection),
                        None => own.push(number * 3 + thread as i32),
                    }
                    if own.len() > 3 {
                        let first = own.remove(0);
                        shared.put(thread, first);
                    }
                }
            });
        }
    });
    let idle = setting.pool.len();
    assert_eq!(setting.peer(0).idle(), idle);
    assert!(idle <= 48);
    drop(setting.pool);
    assert_eq!(setting.group.peers()[0].idle(), 0);
}
