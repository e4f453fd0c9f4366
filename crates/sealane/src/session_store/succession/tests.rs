use super::*;
use sealane_log::Logger;
use sealane_tls::RingSettings;
use std::sync::Mutex;

const SETTINGS: RingSettings = RingSettings {
    rotation_s: 10,
    lifetime_s: 300,
    overlap_s: 0,
};

fn journal() -> Journal {
    Journal::running(Logger::discard())
}

fn id(n: u32) -> [u8; 32] {
    let mut id = [7; 32];
    id[..4].copy_from_slice(&n.to_le_bytes());
    id[31] = n as u8; // of any shard
    id
}

fn has(cache: &SessionCache, n: u32) -> bool {
    cache.find(&id(n), &mut Vec::new(), now_s()).is_ok()
}

#[track_caller]
fn wait_for(what: &str, done: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < until, "no {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn verdicts(count: usize) -> Vec<KnownVerdict> {
    let known = |at: usize| KnownVerdict {
        group: "backend".to_owned(),
        peer: format!("192.0.2.1:{at}"),
        healthy: at.is_multiple_of(3),
    };
    (0..count).map(known).collect()
}

#[test]
fn what_there_is_and_what_follows_arrives() {
    let (ours, theirs) = (SessionState::new(), SessionState::new());
    let end_s = now_s() + 1000;
    let many = ours.cache("many", 8 << 20);
    for n in 0..5000 {
        many.keep(&id(n), &[n as u8; 200], end_s, now_s());
    }
    ours.cache("other size", 1 << 20)
        .keep(&id(1), b"session", end_s, now_s());
    ours.cache("gone", 1 << 20)
        .keep(&id(1), b"session", end_s, now_s());
    let ring = ours.ring("ring", SETTINGS, now_s()).expect("memory");
    let (kept, resized) = (
        theirs.cache("many", 8 << 20),
        theirs.cache("other size", 2 << 20),
    );
    kept.keep(&id(1), b"newer", end_s, now_s());
    let copied = theirs.ring("ring", SETTINGS, now_s()).expect("memory");

    let (line, far) = socket::seqpacket_pair().expect("a pair");
    let telling = tell_successor(line, &ours, verdicts(3000), &journal()).expect("a thread");
    let learnt: Arc<Mutex<Vec<KnownVerdict>>> = Arc::default();
    let told = Arc::clone(&learnt);
    let note = move |known: &KnownVerdict| told.lock().expect("ours").push(known.clone());
    learn(far, &theirs, note, &journal());
    assert_eq!(*learnt.lock().expect("ours"), verdicts(3000));
    // From here on connections are accepted.
    assert_eq!(kept.len(), 5000);
    assert!((0..5000).all(|n| has(&kept, n)));
    let mut session = Vec::new();
    kept.find(&id(1), &mut session, now_s()).expect("there");
    assert_eq!(session, b"newer");
    assert!(resized.is_empty());
    assert_eq!(copied.active_key(u64::MAX), ring.active_key(u64::MAX));

    many.keep(&id(9000), b"session", end_s, now_s());
    wait_for("session that was made later", || has(&kept, 9000));
    ring.rotate(now_s() + 20).expect("memory");
    let is_same = || copied.active_key(u64::MAX) == ring.active_key(u64::MAX);
    wait_for("key that was made later", is_same);
    many.keep(&id(9001), b"session", end_s, now_s());
    telling.finish();
    wait_for("last session", || has(&kept, 9001));
    // No successor is told any more.
    many.keep(&id(9002), b"session", end_s, now_s());
    assert_eq!(Arc::strong_count(&many), 2);
}

#[test]
fn who_has_nothing_says_so_and_who_is_gone_is_not_waited_for() {
    let (line, far) = socket::seqpacket_pair().expect("a pair");
    let began = Instant::now();
    let _telling = tell_successor(line, &SessionState::new(), Vec::new(), &journal());
    learn(far, &SessionState::new(), |_| {}, &journal());
    let (line, far) = socket::seqpacket_pair().expect("a pair");
    drop(line);
    learn(far, &SessionState::new(), |_| {}, &journal());
    assert!(began.elapsed() < LEARN_TIMEOUT);

    // A successor that does not come up leaves no follower behind.
    let state = SessionState::new();
    let cache = state.cache("zone", 1 << 20);
    let (line, far) = socket::seqpacket_pair().expect("a pair");
    drop(far);
    let _telling = tell_successor(line, &state, Vec::new(), &journal());
    wait_for("end of the line", || Arc::strong_count(&cache) == 2);
}

#[test]
fn what_no_worker_says_is_refused_and_what_another_version_says_ignored() {
    let end = now_s() + 100;
    let session = |zone: &[u8], tail: &[u8]| {
        let mut message = vec![SESSIONS];
        message.extend_from_slice(&(1_u64 << 20).to_le_bytes());
        message.extend_from_slice(&(zone.len() as u16).to_le_bytes());
        message.extend_from_slice(zone);
        message.push(2);
        message.extend_from_slice(b"id");
        message.extend_from_slice(&end.to_le_bytes());
        message.extend_from_slice(&7_u16.to_le_bytes());
        message.extend_from_slice(tail);
        message
    };
    let version = [&[VERSION], format().as_bytes()].concat();
    let good = session(b"zone", b"session");
    let cases: [(&[&[u8]], Option<usize>); 13] = [
        (&[&version, &good, b"E"], Some(1)),
        (&[&version, &session(b"other", b"session"), b"E"], Some(0)),
        (&[b"Vsomething else", &good, b"E"], Some(0)),
        (&[b"E"], Some(0)),
        (&[&good, b"E"], None),
        (&[&version, b"Kno keys"], None),
        (&[&version, b"X"], None),
        (&[&version, &session(b"zone", b"sessio")], None),
        (&[&version, &session(b"\xff", b"session")], None),
        (&[&version, b"S\0\0"], None),
        (&[&version, b"H\x01\x01\0g\x01\0p"], Some(0)),
        (&[&version, b"H\x01\x01\0g\x02\0p"], None),
        (&[&version, b"H\x01\x01\0\xff\x01\0p"], None),
    ];
    for (at, (messages, expected)) in cases.into_iter().enumerate() {
        let sessions = SessionState::new();
        let cache = sessions.cache("zone", 1 << 20);
        let (line, far) = socket::seqpacket_pair().expect("a pair");
        for message in messages {
            send(&line, message).expect("there is room");
        }
        drop(line);
        let mut learner = Learner {
            line: far,
            sessions,
            verdicts: Box::new(|_| {}),
            buffer: Zeroizing::new(vec![0; 1 + MAX_STATE_BYTES]),
            learned: 0,
            is_same_format: false,
        };
        let learned = learner.learn_until(Some(Instant::now() + LEARN_TIMEOUT));
        assert_eq!(learned.is_ok(), expected.is_some(), "case {at}");
        assert_eq!(cache.len(), expected.unwrap_or(0), "case {at}");
    }
    // Any damage to a good message is no panic.
    for at in 0..good.len() {
        let mut changed = good[1..].to_vec();
        if let Some(byte) = changed.get_mut(at) {
            *byte ^= 0x55;
        }
        let sessions = SessionState::new();
        let _ = sessions.cache("zone", 1 << 20);
        let _ = keep(&changed, &sessions);
        let _ = keep(&good[1..at.max(1)], &sessions);
    }
}
