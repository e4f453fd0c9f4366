use super::*;
use sealane_conf::model::{StoreAddress, StoreTls, StoreTopology};
use sealane_tls::{Secret, StoreSeal};

fn conf(topology: StoreTopology) -> SessionStore {
    SessionStore {
        topology,
        tls: None,
        user: None,
        password: None,
        database: 0,
        timeout: Duration::from_millis(20),
        key_file: None,
        prefix: "sealane:".into(),
    }
}

fn address(port: u16) -> StoreAddress {
    StoreAddress::Tcp {
        host: "127.0.0.1".into(),
        port,
    }
}

#[test]
fn every_kind_of_store_can_be_prepared() {
    for topology in [
        StoreTopology::Single(address(1)),
        StoreTopology::Single(StoreAddress::Unix("/run/x".into())),
        StoreTopology::Sentinel {
            sentinels: vec![address(1), address(2)],
            service: "main".into(),
        },
        StoreTopology::Cluster(vec![address(1), address(2)]),
    ] {
        let plain = conf(topology);
        RemoteStore::new(Arc::new(plain.clone()), false, None).expect("prepared");
        if plain.topology == StoreTopology::Single(StoreAddress::Unix("/run/x".into())) {
            continue;
        }
        let tls = SessionStore {
            tls: Some(StoreTls { ca_file: None }),
            ..plain
        };
        RemoteStore::new(Arc::new(tls), false, None).expect("prepared with TLS");
    }
}

#[test]
fn what_does_not_fit_into_the_queue_is_dropped_and_counted() {
    let topology = StoreTopology::Single(address(1));
    let store = RemoteStore::new(Arc::new(conf(topology)), false, None).expect("prepared");
    let seal = StoreSeal::from_key_file(&Secret::new(vec![7; 32])).expect("long enough");
    for _ in 0..MAX_QUEUED + 10 {
        store.put(seal.session_key(b"id"), vec![1], 60);
    }
    assert_eq!(store.dropped.load(Ordering::Relaxed), 10);
}
