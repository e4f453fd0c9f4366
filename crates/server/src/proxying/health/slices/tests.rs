use super::*;

const NOW_MS: u64 = 1_700_000_000_000;

fn record(time_ms: u64) -> Record {
    Record {
        time_ms,
        node: "n".into(),
        found: Vec::new(),
    }
}

fn times() -> Times {
    Times::of(Duration::from_secs(2))
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn times_follow_the_interval_within_bounds() {
    let tick_ms = |interval_ms| {
        Times::of(Duration::from_millis(interval_ms))
            .tick
            .as_millis()
    };
    assert_eq!(
        [10, 250, 2000, 5000, 30_000].map(tick_ms),
        [250, 250, 2000, 5000, 5000]
    );
    assert_eq!(Times::of(Duration::from_millis(250)).lifetime_s, 1);
    assert_eq!(times().lifetime_s, 6);
}

#[test]
fn a_check_of_many_servers_has_parts() {
    assert_eq!(
        [0, 1, 256, 257, 5000, 10_000_000].map(slice_count),
        [1, 1, 1, 2, 32, 256]
    );
}

#[test]
fn a_node_that_begins_waits_for_the_store_and_then_asks() {
    let now = Instant::now();
    let slice = CheckSlice::new(now);
    assert_eq!(slice.turn(now, times()), Turn::Wait);
    assert_eq!(slice.turn(now + seconds(1), times()), Turn::Ask);
    assert!(slice.wants_lease(now, times()));
}

#[test]
fn one_node_holds_the_lease_and_the_others_follow_it() {
    let now = Instant::now();
    let (mut one, mut other) = (CheckSlice::new(now), CheckSlice::new(now));
    one.note_lease(Some(true), now, now, times());
    assert_eq!(one.turn(now, times()), Turn::Ask);
    assert_eq!(one.question(), StoreQuestion::Lease);
    // The first record may take a moment.
    other.note_lease(Some(false), now, now, times());
    assert_eq!(other.turn(now + seconds(5), times()), Turn::Wait);
    let time_ms = one.tell(now, NOW_MS, times());
    assert_eq!(other.hear(&record(time_ms), now, NOW_MS, times()), Ok(()));
    assert_eq!(other.turn(now + seconds(5), times()), Turn::Leave);
    assert!(!other.wants_lease(now + seconds(5), times()));
    // Nothing more comes.
    assert_eq!(other.turn(now + seconds(6), times()), Turn::Ask);
    assert!(other.wants_lease(now + seconds(6), times()));
    other.note_lease(Some(true), now, now + seconds(6), times());
    assert!(other.is_held());
}

#[test]
fn whoever_only_takes_leases_keeps_nobody_from_asking() {
    let now = Instant::now();
    let mut slice = CheckSlice::new(now);
    let mut at = now;
    while at < now + seconds(60) {
        slice.note_lease(Some(false), at, at, times());
        at += times().tick;
    }
    assert_eq!(slice.turn(now + seconds(6), times()), Turn::Ask);
}

#[test]
fn records_that_are_old_or_known_are_not_used() {
    let now = Instant::now();
    let mut slice = CheckSlice::new(now);
    let hear = |slice: &mut CheckSlice, time_ms| slice.hear(&record(time_ms), now, NOW_MS, times());
    assert_eq!(hear(&mut slice, NOW_MS - 16_001), Err(Unused::Clock));
    assert_eq!(hear(&mut slice, NOW_MS + 16_001), Err(Unused::Clock));
    assert_eq!(hear(&mut slice, NOW_MS), Ok(()));
    assert_eq!(hear(&mut slice, NOW_MS), Err(Unused::Known));
    assert_eq!(hear(&mut slice, NOW_MS - 1), Err(Unused::Known));
    assert_eq!(hear(&mut slice, NOW_MS + 1), Ok(()));
    // One that takes its turn goes on from there, whatever its clock says.
    assert_eq!(slice.tell(now, NOW_MS - 500, times()), NOW_MS + 2);
}

#[test]
fn a_clock_that_was_wrong_is_no_obstacle_once_it_is_right() {
    let now = Instant::now();
    let mut slice = CheckSlice::new(now);
    let hour_ms = 3_600_000;
    assert_eq!(slice.tell(now, NOW_MS + hour_ms, times()), NOW_MS + hour_ms);
    assert_eq!(slice.tell(now, NOW_MS, times()), NOW_MS);
    slice.tell(now, NOW_MS + hour_ms, times());
    assert_eq!(slice.hear(&record(NOW_MS), now, NOW_MS, times()), Ok(()));
}

#[test]
fn a_lease_that_the_store_does_not_confirm_ends() {
    let now = Instant::now();
    let mut slice = CheckSlice::new(now);
    slice.note_lease(Some(true), now, now, times());
    slice.note_lease(None, now, now + seconds(5), times());
    assert!(slice.is_held());
    slice.note_lease(None, now, now + seconds(6), times());
    assert!(!slice.is_held());
    // It goes on by itself.
    assert_eq!(slice.turn(now + seconds(6), times()), Turn::Ask);
}

#[test]
fn news_are_told_together() {
    let now = Instant::now();
    let mut slice = CheckSlice::new(now);
    slice.has_news = true;
    assert_eq!(slice.tells_at(), None, "others ask");
    slice.note_lease(Some(true), now, now, times());
    slice.tell(now, NOW_MS, times());
    assert_eq!(slice.tells_at(), None, "there is nothing new");
    slice.has_news = true;
    assert_eq!(slice.tells_at(), Some(now + Duration::from_millis(100)));
}
