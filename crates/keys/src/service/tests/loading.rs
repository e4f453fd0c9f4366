//! Keys that worker processes load.

use super::*;
use crate::LoadedKey;
use crate::line::{Loaded, receive_loaded, send_forget, send_load};
use crate::service::MAX_LOADING;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const ENCRYPTED: &str = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n";

fn deposit<'a>(roles: Roles, key: KeySource<'a>) -> Deposit<'a> {
    Deposit {
        roles,
        may_decrypt: false,
        accelerator: AcceleratorChoice::Auto,
        passwords: &[],
        key,
    }
}

fn sealed(key: &TestKey) -> OwnedFd {
    let deposit = deposit(Roles::SERVER, KeySource::Pem(key.pem.as_bytes()));
    deposit.seal().expect("memory")
}

/// Polls a future, and reads the line of a client meanwhile.
#[track_caller]
fn complete<T>(client: &Arc<KeyClient>, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        if let Poll::Ready(value) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return value;
        }
        client.receive_loaded();
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no answer");
}

#[track_caller]
fn load(client: &Arc<KeyClient>, memory: OwnedFd) -> Result<LoadedKey, String> {
    complete(client, async {
        let turn = client.turn_to_load().await;
        client.load(turn, memory).await
    })
}

fn signs(client: &KeyClient, channel: &Channel, key: &TestKey) -> bool {
    let (job, mut waiting) = job(sign(0x0403, 1));
    client.submit(Wanted::new(key.id(), job));
    wait(client, channel, &mut waiting).is_some()
}

#[test]
fn a_key_is_held_for_its_worker_alone_and_for_as_long_as_it_is_needed() {
    let service = Service::start(1);
    let (client, channel) = service.client(1);
    let (other, other_channel) = service.client(1);
    let key = TestKey::new(&rcgen::PKCS_ECDSA_P256_SHA256);
    assert!(!signs(&client, &channel, &key));
    let first = load(&client, sealed(&key)).expect("a key");
    assert_eq!(first.handle.id, key.id());
    assert!(!first.is_encrypted && first.lease.is_current());
    assert!(signs(&client, &channel, &key));
    assert!(!signs(&other, &other_channel, &key));
    // The same again, and in another form.
    let again = load(&client, sealed(&key)).expect("a key");
    let text = format!("a comment\n{}", key.pem);
    let form = deposit(Roles::CLIENT, KeySource::Pem(text.as_bytes()));
    let third = load(&client, form.seal().expect("memory")).expect("a key");
    drop((first, again));
    assert!(signs(&client, &channel, &key));
    drop(third);
    // What is forgotten is so before anything else is loaded.
    let next = TestKey::new(&rcgen::PKCS_ECDSA_P256_SHA256);
    let _next = load(&client, sealed(&next)).expect("a key");
    assert!(signs(&client, &channel, &next));
    assert!(!signs(&client, &channel, &key));
}

#[test]
fn a_key_of_the_configuration_stays_what_it_is() {
    let mut service = Service::start(1);
    let key = TestKey::new(&rcgen::PKCS_ECDSA_P256_SHA256);
    service.deposit(&key, false);
    let (client, channel) = service.client(1);
    let form = deposit(Roles::CLIENT, KeySource::Pem(key.pem.as_bytes()));
    let loaded = load(&client, form.seal().expect("memory")).expect("a key");
    assert!(signs(&client, &channel, &key));
    drop(loaded);
    let next = TestKey::new(&rcgen::PKCS_ED25519);
    let _next = load(&client, sealed(&next)).expect("a key");
    assert!(signs(&client, &channel, &key));
}

#[test]
fn what_is_no_key_is_refused_with_the_reason() {
    let service = Service::start(1);
    let (client, _channel) = service.client(1);
    let refusal = |pem: &str| {
        let form = deposit(Roles::SERVER, KeySource::Pem(pem.as_bytes()));
        load(&client, form.seal().expect("memory")).expect_err("no key")
    };
    assert!(refusal("").contains("PEM"), "{}", refusal(""));
    let why = refusal(&format!("{ENCRYPTED}DEK-Info: AES-128-CBC,00\n"));
    assert!(!why.is_empty());
    // Nothing was made for it.
    let (end, _other) = socket::seqpacket_pair().expect("descriptors");
    let why = load(&client, end).expect_err("no memory");
    assert!(!why.is_empty());
    let uri = deposit(Roles::SERVER, KeySource::Uri("pkcs11:object=a"));
    let why = load(&client, uri.seal().expect("memory")).expect_err("no file");
    assert_eq!(why, "the key is not in a file");
}

#[test]
fn a_worker_has_no_more_keys_than_it_may() {
    let service = Service::start(1);
    let client = KeyClient::new("keys", 1, Arc::new(|_: &str| ()));
    let line = service.introduce_with(Rights {
        max_channels: 1,
        max_decryptions: 0,
        max_keys: 2,
    });
    client.connect(line).expect("it is there");
    let key = TestKey::new(&rcgen::PKCS_ED25519);
    let mut kept = [(); 2].map(|()| Some(load(&client, sealed(&key)).expect("a key")));
    let why = load(&client, sealed(&key)).expect_err("too many");
    assert!(why.contains("\"keys=\" of \"ssl_key_process\""), "{why}");
    kept[0] = None;
    load(&client, sealed(&key)).expect("there is room");
}

#[test]
fn the_next_process_is_given_what_was_on_its_way() {
    let key = TestKey::new(&rcgen::PKCS_ED25519);
    let client = KeyClient::new("keys", 1, Arc::new(|_: &str| ()));
    let (line, dying) = socket::seqpacket_pair().expect("descriptors");
    client.connect(line).expect("it is there");
    let loaded = complete(&client, async {
        let turn = client.turn_to_load().await;
        let mut loading = pin!(client.load(turn, sealed(&key)));
        let is_ready = loading
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready();
        assert!(!is_ready);
        drop(dying);
        assert_eq!(client.receive_loaded(), Received::Closed);
        let service = Service::start(1);
        client.connect(service.introduce(1)).expect("it is there");
        let loaded = loading.await.expect("a key");
        assert!(loaded.lease.is_current());
        loaded
    });
    // Another process does not have it.
    let service = Service::start(1);
    client.connect(service.introduce(1)).expect("it is there");
    assert!(!loaded.lease.is_current());
    drop(loaded);
    assert!(load(&client, sealed(&key)).is_ok());
    // One that kills each process that is to load it is not sent a third time.
    let (line, dying) = socket::seqpacket_pair().expect("descriptors");
    let connect = || client.connect(line.try_clone().expect("a descriptor"));
    connect().expect("it is there");
    let why = complete(&client, async {
        let turn = client.turn_to_load().await;
        let mut loading = pin!(client.load(turn, sealed(&key)));
        let mut poll = || {
            loading
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
        };
        assert!(poll().is_pending());
        connect().expect("it is there");
        assert!(poll().is_pending());
        connect().expect("it is there");
        loading.await
    });
    assert!(why.expect_err("a reason").contains("died twice"));
    drop(dying);
}

#[test]
fn a_worker_that_asks_for_too_much_at_a_time_is_alone_with_it() {
    let service = Service::start(1);
    let (bystander, channel) = service.client(1);
    let hostile = service.introduce(1);
    let key = TestKey::new(&rcgen::PKCS_ECDSA_P256_SHA256);
    let memory = sealed(&key);
    // Never read: its answers fill the line, then its loader waits, then there are too many.
    let mut sent = 0;
    while send_load(hostile.as_fd(), sent, memory.as_fd()).is_ok() {
        sent += 1;
        assert!(sent < 1_000_000, "nobody ends it");
    }
    assert!(sent as usize > MAX_LOADING);
    let _held = load(&bystander, sealed(&key)).expect("a key");
    assert!(signs(&bystander, &channel, &key));
}

#[test]
fn forgetting_what_was_never_loaded_does_nothing() {
    let mut service = Service::start(1);
    let key = TestKey::new(&rcgen::PKCS_ECDSA_P256_SHA256);
    service.deposit(&key, false);
    let hostile = service.introduce(1);
    for _ in 0..3 {
        send_forget(hostile.as_fd(), key.id()).expect("room");
    }
    send_load(hostile.as_fd(), 1, sealed(&key).as_fd()).expect("room");
    poll::wait_readable(&[hostile.as_fd()], Some(LONG)).expect("a socket");
    let answer = receive_loaded(hostile.as_fd());
    assert!(matches!(answer, Ok(Some((1, Ok(Loaded { .. }))))));
    for _ in 0..3 {
        send_forget(hostile.as_fd(), key.id()).expect("room");
    }
    let (client, channel) = service.client(1);
    assert!(signs(&client, &channel, &key));
}

#[test]
fn each_process_has_what_is_kept_before_it_gets_an_operation() {
    let service = Service::start(1);
    let (client, channel) = service.client(1);
    let keys = [(); 40].map(|()| TestKey::new(&rcgen::PKCS_ECDSA_P256_SHA256));
    let keep = |key: &TestKey| client.keep(key.id(), sealed(key), LONG).expect("held");
    let mut leases: Vec<_> = keys.iter().map(keep).collect();
    assert!(keys.iter().all(|key| signs(&client, &channel, key)));
    for _ in 0..3 {
        let service = Service::start(1);
        client.connect(service.introduce(1)).expect("it is there");
        // Nothing has been answered yet: the channel is that of the process before.
        let (job, mut waiting) = job(sign(0x0403, 1));
        client.submit(Wanted::new(keys[39].id(), job));
        let begun = Instant::now();
        while begun.elapsed() < LONG && !leases.is_empty() {
            client.receive_loaded();
            client.receive(&channel);
            if let Some(result) = waiting.try_take() {
                assert!(result.is_some());
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(keys.iter().all(|key| signs(&client, &channel, key)));
        assert!(leases.iter().all(|lease| lease.is_current()));
    }
    leases.truncate(1);
    // What is forgotten is so before anything else is loaded.
    let next = TestKey::new(&rcgen::PKCS_ED25519);
    let _next = load(&client, sealed(&next)).expect("a key");
    assert!(signs(&client, &channel, &keys[0]));
    assert!(!signs(&client, &channel, &keys[1]));
}

#[test]
fn what_cannot_be_kept_is_refused_and_what_is_not_answered_goes_to_the_next_process() {
    let service = Service::start(1);
    let (client, channel) = service.client(1);
    let key = TestKey::new(&rcgen::PKCS_ECDSA_P256_SHA256);
    let nonsense = deposit(Roles::SERVER, KeySource::Pem(b"nonsense"));
    let memory = nonsense.seal().expect("memory");
    let why = client.keep(key.id(), memory, LONG).expect_err("no key");
    assert!(why.contains("PEM"), "{why}");
    assert!(!signs(&client, &channel, &key));
    // A process that hangs.
    let (line, _hanging) = socket::seqpacket_pair().expect("descriptors");
    client.connect(line).expect("it is there");
    let patience = Duration::from_millis(20);
    let _lease = client
        .keep(key.id(), sealed(&key), patience)
        .expect("it is sent");
    let service = Service::start(1);
    client.connect(service.introduce(1)).expect("it is there");
    let (job, mut waiting) = job(sign(0x0403, 1));
    client.submit(Wanted::new(key.id(), job));
    let begun = Instant::now();
    let result = loop {
        client.receive_loaded();
        client.receive(&channel);
        if let Some(result) = waiting.try_take() {
            break result;
        }
        assert!(begun.elapsed() < LONG, "no answer");
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(result.is_some());
}
