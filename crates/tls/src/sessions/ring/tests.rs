use proptest::prelude::*;

use super::key::FILE_BYTES;
use super::*;

const SETTINGS: RingSettings = RingSettings {
    rotation_s: 100,
    lifetime_s: 300,
    overlap_s: 0,
};
const SHARED: RingSettings = RingSettings {
    overlap_s: 5,
    ..SETTINGS
};
/// How long a key opens once another one seals.
const OPENS_S: u64 = SETTINGS.lifetime_s + CLOCK_TOLERANCE_S;
const T: u64 = 1_000_000;

fn ring(settings: RingSettings, now_s: u64) -> TicketRing {
    TicketRing::rotating(settings, now_s).expect("memory")
}

fn seal(ring: &TicketRing, now_s: u64) -> Vec<u8> {
    let plain = b"session";
    let mut ticket = vec![0; plain.len() + ring.overhead_bytes()];
    let length = ring
        .seal(plain, &mut ticket, now_s)
        .expect("room was given");
    ticket.truncate(length);
    ticket
}

fn open(ring: &TicketRing, ticket: &[u8]) -> Result<Vec<u8>, Miss> {
    let mut plain = vec![0; ticket.len()];
    match ring.open(ticket, &mut plain, T) {
        TicketOpened::Plain(length) => {
            plain.truncate(length);
            Ok(plain)
        }
        TicketOpened::Miss(miss) => Err(miss),
    }
}

#[test]
fn what_one_node_seals_another_with_the_same_files_opens() {
    for size in FILE_BYTES {
        let files = [Secret::new(vec![7; size]), Secret::new(vec![8; size])];
        let [ours, theirs] = [(); 2].map(|()| TicketRing::from_files(&files).expect("valid"));
        assert_eq!(open(&theirs, &seal(&ours, T)), Ok(b"session".to_vec()));
    }
}

#[test]
fn the_first_file_seals_and_every_file_opens() {
    let [old, new] = [Secret::new(vec![1; 48]), Secret::new(vec![2; 80])];
    let before = TicketRing::from_files(std::slice::from_ref(&old)).expect("valid");
    let after = TicketRing::from_files(&[new.clone(), old]).expect("valid");
    let only_new = TicketRing::from_files(&[new]).expect("valid");
    assert!(open(&after, &seal(&before, T)).is_ok());
    assert!(open(&only_new, &seal(&after, T)).is_ok());
    assert_eq!(open(&only_new, &seal(&before, T)), Err(Miss::UnknownKey));
}

#[test]
fn keys_from_files_neither_rotate_nor_travel() {
    let files = [Secret::new(vec![1; 48])];
    let ring = TicketRing::from_files(&files).expect("valid");
    assert_eq!(ring.rotate(u64::MAX), Ok(false));
    assert_eq!(ring.to_bytes(), Secret::default());
    let bytes = super::tests::ring(SETTINGS, T).to_bytes();
    assert_eq!(ring.merge(bytes.expose(), T), Ok(0));
    assert_eq!(ring.key_count(), 1);
}

#[test]
fn a_key_file_of_another_size_is_refused() {
    assert!(TicketRing::from_files(&[Secret::new(vec![0; 47])]).is_err());
    assert!(TicketRing::from_files(&[]).is_err());
    let many = vec![Secret::new(vec![0; 48]); MAX_TICKET_KEY_FILES + 1];
    assert!(TicketRing::from_files(&many).is_err());
}

#[test]
fn a_changed_or_short_ticket_says_why_it_does_not_open() {
    let ring = ring(SETTINGS, T);
    let ticket = seal(&ring, T);
    for at in 0..ticket.len() {
        let mut changed = ticket.clone();
        changed[at] ^= 1;
        let expected = if at < NAME_BYTES {
            Miss::UnknownKey
        } else {
            Miss::Damaged
        };
        assert_eq!(open(&ring, &changed), Err(expected), "byte {at}");
        assert!(open(&ring, &ticket[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn a_key_opens_until_the_last_ticket_sealed_with_it_has_ended() {
    let ring = ring(SETTINGS, T);
    let first = seal(&ring, T);
    assert_eq!(ring.rotate(T + 99), Ok(false));
    assert_eq!(ring.rotate(T + 100), Ok(true));
    assert_eq!(ring.rotate(T + 101), Ok(false));
    assert_ne!(first[..NAME_BYTES], seal(&ring, T + 100)[..NAME_BYTES]);
    let mut now_s = T + 100;
    while now_s < T + 100 + OPENS_S {
        assert!(open(&ring, &first).is_ok(), "at {now_s}");
        now_s += 100;
        assert_eq!(ring.rotate(now_s), Ok(true));
    }
    assert_eq!(open(&ring, &first), Err(Miss::UnknownKey));
    let expected = usize::try_from(OPENS_S.div_ceil(100)).expect("small") + 1;
    assert!(ring.key_count() <= expected, "{} keys", ring.key_count());
}

#[test]
fn a_rotation_too_short_for_the_keys_that_can_be_held_is_lengthened() {
    let settings = RingSettings {
        rotation_s: 1,
        lifetime_s: 24 * 3600,
        overlap_s: 0,
    };
    let ring = ring(settings, T);
    let rotation_s = ring.settings().expect("it rotates").rotation_s;
    assert!(rotation_s > 1);
    let mut tickets = Vec::new();
    for n in 0..3000 {
        let now_s = T + n * rotation_s;
        assert_eq!(ring.rotate(now_s), Ok(n > 0));
        tickets.push((now_s, seal(&ring, now_s)));
        if n % 500 == 499 {
            let living = tickets
                .iter()
                .filter(|(made_s, _)| now_s - made_s < settings.lifetime_s);
            for (_, ticket) in living {
                assert!(open(&ring, ticket).is_ok());
            }
        }
    }
    assert!(ring.key_count() <= MAX_RING_KEYS);
}

#[test]
fn a_new_key_of_a_shared_ring_waits_for_the_other_nodes() {
    let [ours, theirs] = [(); 2].map(|()| ring(SHARED, T));
    theirs.merge(ours.to_bytes().expose(), T).expect("valid");
    let old = ours.active_key(T);
    assert_eq!(theirs.active_key(T), old, "the first to be shared wins");
    assert_eq!(ours.rotate(T + 100), Ok(true));
    assert_eq!(ours.active_key(T + 104), old);
    assert_eq!(theirs.merge(ours.to_bytes().expose(), T + 102), Ok(1));
    let new = ours.active_key(T + 105);
    assert_ne!(new, old);
    assert_eq!(theirs.active_key(T + 105), old);
    assert!(
        open(&theirs, &seal(&ours, T + 105)).is_ok(),
        "it opens at once"
    );
    assert_eq!(theirs.active_key(T + 107), new);
}

#[test]
fn what_the_provisional_key_sealed_still_opens_here() {
    let [ours, theirs] = [(); 2].map(|()| ring(SHARED, T));
    let early = seal(&theirs, T + 1);
    assert_eq!(theirs.merge(ours.to_bytes().expose(), T + 2), Ok(1));
    assert!(open(&theirs, &early).is_ok());
    assert_eq!(theirs.active_key(T + 2), ours.active_key(T + 2));
    assert_eq!(theirs.to_bytes(), ours.to_bytes(), "it is not shared");
    for n in 1..10 {
        theirs.rotate(T + 100 * n).expect("memory");
    }
    assert_eq!(open(&theirs, &early), Err(Miss::UnknownKey));
}

#[test]
fn keys_survive_a_restart() {
    let before = ring(SETTINGS, T);
    before.rotate(T + 100).expect("memory");
    let ticket = seal(&before, T + 100);
    let after = ring(SETTINGS, T + 110);
    assert_eq!(after.merge(before.to_bytes().expose(), T + 110), Ok(2));
    assert!(open(&after, &ticket).is_ok());
    assert_eq!(after.active_key(T + 110), before.active_key(T + 110));
    // After a long time off, what is left seals until the next rotation.
    let late = ring(SETTINGS, T + 100_000);
    late.merge(before.to_bytes().expose(), T + 100_000)
        .expect("valid");
    assert_eq!(late.rotate(T + 100_000), Ok(true));
}

#[test]
fn clocks_that_differ_by_a_minute_either_way_do_not_lose_a_key() {
    let nodes = [0, 60, 120].map(|ahead_s| (ahead_s, ring(SHARED, T + ahead_s)));
    let mut tickets: Vec<(u64, Vec<u8>)> = Vec::new();
    for second in 0..600 {
        let rotating = (second / 7) as usize % nodes.len();
        let (ahead_s, node) = &nodes[rotating];
        node.rotate(T + second + ahead_s).expect("memory");
        let bytes = node.to_bytes();
        for (ahead_s, node) in &nodes {
            let now_s = T + second + ahead_s;
            node.merge(bytes.expose(), now_s).expect("valid");
            if second >= 10 {
                tickets.push((second, seal(node, now_s)));
            }
        }
        tickets.retain(|(made, _)| second - made < SHARED.lifetime_s);
        for (made, ticket) in tickets.iter().step_by(17) {
            for (ahead_s, node) in &nodes {
                assert!(
                    open(node, ticket).is_ok(),
                    "made at {made}, opened at {second} by the node {ahead_s} s ahead"
                );
            }
        }
    }
    assert!(nodes[0].1.key_count() > 3, "it rotated");
}

#[test]
fn a_key_from_the_far_future_is_not_taken() {
    let ours = ring(SETTINGS, T);
    let theirs = ring(SETTINGS, T + CLOCK_TOLERANCE_S + 1);
    assert_eq!(ours.merge(theirs.to_bytes().expose(), T), Ok(0));
    assert_eq!(ours.merge(theirs.to_bytes().expose(), T + 1), Ok(1));
}

#[test]
fn no_ring_takes_more_keys_than_it_may_hold() {
    let of_node = |node: u8, count: u16| {
        let mut bytes = b"SLTK\x01".to_vec();
        bytes.extend_from_slice(&count.to_be_bytes());
        for number in 0..count {
            bytes.extend_from_slice(&[node; 14]);
            bytes.extend_from_slice(&number.to_be_bytes());
            bytes.extend_from_slice(&[7; 32]);
            bytes.extend_from_slice(&T.to_be_bytes());
        }
        bytes
    };
    let ours = ring(SETTINGS, T);
    let most = MAX_RING_KEYS as u16;
    for node in 1..=3 {
        assert!(ours.merge(&of_node(node, most), T).is_ok());
        assert_eq!(ours.key_count(), MAX_RING_KEYS, "node {node}");
    }
    assert!(ours.merge(&of_node(4, most + 1), T).is_err());
}

#[test]
fn bytes_that_are_not_a_ring_change_nothing() {
    let ours = ring(SETTINGS, T);
    let valid = ring(SETTINGS, T).to_bytes();
    let before = ours.to_bytes();
    for cut in 0..valid.expose().len() {
        assert!(
            ours.merge(&valid.expose()[..cut], T).is_err(),
            "cut at {cut}"
        );
    }
    let longer = [valid.expose(), &[0]].concat();
    assert!(ours.merge(&longer, T).is_err());
    for (at, value) in [(0, b'X'), (4, 2), (5, 0xff)] {
        let mut altered = valid.expose().to_vec();
        altered[at] = value;
        assert!(ours.merge(&altered, T).is_err(), "byte {at}");
    }
    assert_eq!(ours.to_bytes(), before);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is merged in whatever order, all nodes end with the same keys and seal
    /// with the same one.
    #[test]
    fn merging_is_a_union_in_any_order(
        ages in prop::collection::vec(0_u64..200, 1..6),
        order in Just((0..6).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let parts: Vec<Secret> = ages.iter().map(|age| ring(SHARED, T - age).to_bytes()).collect();
        let [ours, theirs] = [(); 2].map(|()| ring(SHARED, T));
        for part in &parts {
            ours.merge(part.expose(), T).expect("valid");
        }
        for part in order.iter().filter_map(|at| parts.get(*at)) {
            theirs.merge(part.expose(), T).expect("valid");
            theirs.merge(part.expose(), T).expect("twice is once");
        }
        prop_assert_eq!(ours.to_bytes(), theirs.to_bytes());
        prop_assert_eq!(ours.active_key(T + 10), theirs.active_key(T + 10));
    }

    #[test]
    fn merging_any_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let ring = ring(SETTINGS, T);
        let header = [b"SLTK\x01\x00\x03", &bytes[..]].concat();
        let _ = (ring.merge(&bytes, T), ring.merge(&header, T));
        prop_assert!(ring.key_count() >= 1);
    }
}

#[test]
fn a_key_that_two_processes_began_with_stays_a_key_of_both() {
    // What fork() does to a new ring.
    let mut key = TicketKey::random(0, 0).expect("memory");
    key.provisional = true;
    let key = Arc::new(key);
    let [first, second] =
        [(); 2].map(|()| TicketRing::with(Keys::new(Some(SETTINGS), vec![Arc::clone(&key)])));
    let now_s = SETTINGS.rotation_s;
    assert!(first.rotate(now_s).expect("memory"));
    let state = first.to_bytes();
    assert_eq!(second.merge(state.expose(), now_s), Ok(1));
    assert_eq!(
        second.to_bytes().expose(),
        state.expose(),
        "the next one gets both"
    );
}

#[test]
fn a_first_key_that_others_have_gives_way_to_none() {
    let ours = ring(SHARED, T);
    assert!(ours.is_provisional());
    let early = seal(&ours, T + 1);
    // It has been stored, and what is stored is what it has.
    assert_eq!(ours.merge(ours.to_bytes().expose(), T + 1), Ok(0));
    assert!(!ours.is_provisional());
    // A node whose ring was made later joins with both keys.
    let theirs = ring(SHARED, T + 2);
    assert_eq!(ours.merge(theirs.to_bytes().expose(), T + 3), Ok(1));
    assert_eq!(theirs.merge(ours.to_bytes().expose(), T + 3), Ok(1));
    assert!(open(&theirs, &early).is_ok());
}
