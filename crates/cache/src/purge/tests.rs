use super::*;
use crate::load::Loader;
use crate::sweep::Pace;
use crate::visit::{Found, StoredFile, Visit};
use crate::zone::ZoneLimits;
use crate::{CacheHeader, StoredLength};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const PACE: Pace = Pace {
    files: 1000,
    threshold: Duration::from_secs(60),
    sleep: Duration::from_millis(1),
};

/// The second in which most of it happens.
const NOW_S: i64 = 1_000;
const INACTIVE_S: i64 = 100;

type TestZone = Arc<Zone<u8>>;

/// A directory of a cache that is gone with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let name = format!("sealane-purge-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("writable");
        Directory(path)
    }

    fn zone(&self, purges_files: bool, max_purge_rules: u32) -> TestZone {
        let limits = ZoneLimits {
            keys_bytes: 8 << 20,
            inactive: Duration::from_secs(INACTIVE_S as u64),
            max_bytes: None,
            min_free_bytes: 0,
            loader: PACE,
            manager: PACE,
            purges_files,
            purger: PACE,
            max_purge_rules,
        };
        Arc::new(Zone::new("z", &self.0, [1, 0, 0], limits))
    }

    /// A zone of a process that begins: it has read the directory.
    fn next_process(&self, purges_files: bool) -> TestZone {
        let zone = self.zone(purges_files, 100);
        let loaded = zone.load_purges(NOW_S).expect("readable");
        assert_eq!(loaded, LoadedPurges::Whole);
        let mut loader = Loader::new(Arc::clone(&zone));
        while loader.step(PACE, NOW_S, never).is_some() {}
        zone
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left is in a directory for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn never(path: &Path, error: &io::Error) {
    panic!("{}: {error}", path.display());
}

/// In these tests, a head is a list of tags.
fn tags_of(head: &[u8]) -> Tags {
    let tags = head
        .split(|byte| *byte == b' ')
        .filter(|tag| !tag.is_empty());
    Tags::Known(tags.map(Box::from).collect())
}

fn subject(key: &str, tags: &str) -> Subject {
    Subject {
        key: CacheKey::new(key.into()),
        tags: tags_of(tags.as_bytes()),
    }
}

fn begin(zone: &TestZone, key: &str) -> (Visit<u8>, Found) {
    let hash = CacheKey::new(key.into()).hash();
    Visit::begin(zone, hash, 1, NOW_S).expect("there is room")
}

/// Writes a file as it is stored.
fn write(zone: &TestZone, key: &str, tags: &str, vary: &str, date_s: i64) -> StoredFile {
    let cache_key = CacheKey::new(key.into());
    let start = CacheHeader::start_for(&cache_key);
    let header = CacheHeader {
        valid_s: i64::MAX,
        date_s,
        header_start: start as u16,
        body_start: (start + tags.len()) as u16,
        vary: vary.as_bytes().into(),
        length: StoredLength::of(4),
        ..CacheHeader::default()
    };
    let path = zone.file_path(&cache_key.hash());
    fs::create_dir_all(path.parent().expect("it has one")).expect("writable");
    let bytes = [&header.encode(&cache_key, tags.as_bytes())[..], b"body"].concat();
    fs::write(&path, bytes).expect("writable");
    let metadata = fs::metadata(&path).expect("it is there");
    StoredFile::new(&metadata, header.body_start)
}

/// Stores a response.
fn store(zone: &TestZone, key: &str, tags: &str) {
    let mut cx = Context::from_waker(Waker::noop());
    let (mut visit, _) = begin(zone, key);
    visit.begin_fill(Arc::new(1), subject(key, tags), NOW_S);
    assert_eq!(visit.poll_store(&mut cx), Poll::Ready(true));
    visit.stored(write(zone, key, tags, "", NOW_S));
}

/// Whether a request would be answered with the stored response. What was purged is removed, as
/// requests do it.
fn is_served(zone: &TestZone, key: &str, tags: &str) -> bool {
    let path = zone.file_path(&CacheKey::new(key.into()).hash());
    let (visit, found) = begin(zone, key);
    let is_known = matches!(found, Found::File { .. });
    if !is_known && !zone.is_cold() || !path.exists() {
        return false;
    }
    if !visit.must_judge() {
        return true;
    }
    let bytes = fs::read(&path).expect("it is there");
    let (header, _) = CacheHeader::decode_with_key(&bytes).expect("we have written it");
    let (is_purged, is_ours) = visit.judge(&subject(key, tags), header.date_s);
    if is_purged && is_ours {
        let inode = fs::metadata(&path).expect("it is there").ino();
        zone.remove_purged(visit.hash(), inode).expect("it is ours");
    }
    !is_purged
}

fn prefix(text: &str) -> Purge {
    Purge::Prefix(text.as_bytes().into())
}

fn tag(text: &str) -> Purge {
    Purge::Tags(vec![text.as_bytes().into()])
}

fn key(text: &str) -> Purge {
    Purge::Key(CacheKey::new(text.into()))
}

fn purge(zone: &TestZone, what: &Purge) -> Purged {
    zone.purge(what, NOW_S).expect("writable")
}

fn files(directory: &Directory) -> usize {
    let below = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let levels = below(&directory.0).filter(|entry| entry.file_name() != "temp");
    levels.map(|entry| below(&entry.path()).count()).sum()
}

#[test]
fn a_purge_outlasts_a_response_that_was_asked_for_before() {
    let directory = Directory::new("outlasts");
    let zone = directory.next_process(false);
    let cx = &mut Context::from_waker(Waker::noop());
    for purged in [key("/a"), prefix("/"), prefix("/a"), tag("t")] {
        store(&zone, "/a", "t u");
        let (mut before, _) = begin(&zone, "/a");
        before.begin_fill(Arc::new(2), subject("/a", "t u"), NOW_S);
        let (other, _) = begin(&zone, "/a");
        assert_eq!(other.others_fill().as_deref(), Some(&2));
        assert_eq!(purge(&zone, &purged), Purged::Gone);
        // It is neither read along nor stored, and nobody waits for it.
        assert_eq!(other.others_fill(), None, "{purged:?}");
        assert_eq!(before.poll_store(cx), Poll::Ready(false), "{purged:?}");
        assert!(!is_served(&zone, "/a", "t u"), "{purged:?}");
        let (mut after, found) = begin(&zone, "/a");
        assert!(matches!(found, Found::Nothing { .. }), "{purged:?}");
        assert!(after.lock(Instant::now(), Duration::from_secs(5)));
        after.begin_fill(Arc::new(3), subject("/a", "t u"), NOW_S);
        assert_eq!(other.others_fill().as_deref(), Some(&3));
        assert_eq!(after.poll_store(cx), Poll::Ready(true));
        // A purge while the file gets its name.
        purge(&zone, &purged);
        after.stored(write(&zone, "/a", "t u", "", NOW_S));
        let hash = CacheKey::new(b"/a".to_vec()).hash();
        assert_eq!(zone.take_doomed(), [hash], "{purged:?}");
        assert!(!is_served(&zone, "/a", "t u"), "{purged:?}");
        zone.remove_file(&hash, &mut never);
    }
}

#[test]
fn a_request_that_began_before_its_visit_is_older_than_a_purge_in_between() {
    let directory = Directory::new("dated");
    let zone = directory.next_process(false);
    let cx = &mut Context::from_waker(Waker::noop());
    for purged in [key("/a"), prefix("/"), tag("t")] {
        let asked = zone.purge_generation();
        purge(&zone, &purged);
        let (mut visit, _) = begin(&zone, "/a");
        visit.date_back(asked);
        visit.begin_fill(Arc::new(1), subject("/a", "t"), NOW_S);
        assert_eq!(visit.poll_store(cx), Poll::Ready(false), "{purged:?}");
    }
}

#[test]
fn a_purge_of_a_prefix_or_tag_concerns_what_it_names_and_nothing_else() {
    let directory = Directory::new("names");
    let zone = directory.next_process(false);
    let all = [
        ("/a", "x"),
        ("/a/1", "x y"),
        ("/b/\u{e9}", "z"),
        ("/b/%C3%A9", ""),
        ("/c*", "z"),
        ("", ""),
    ];
    let served = |zone: &TestZone| {
        let served = all.iter().filter(|(key, tags)| is_served(zone, key, tags));
        served.map(|(key, _)| *key).collect::<Vec<_>>()
    };
    for (purged, left) in [
        (
            prefix("/a/"),
            vec!["/a", "/b/\u{e9}", "/b/%C3%A9", "/c*", ""],
        ),
        (
            prefix("/b/\u{e9}"),
            vec!["/a", "/a/1", "/b/%C3%A9", "/c*", ""],
        ),
        // Bytes, not characters.
        (
            Purge::Prefix((*b"/b/\xc3").into()),
            vec!["/a", "/a/1", "/b/%C3%A9", "/c*", ""],
        ),
        // An asterisk elsewhere is one like others.
        (prefix("/*"), all.iter().map(|(key, _)| *key).collect()),
        (
            prefix("/c*"),
            vec!["/a", "/a/1", "/b/\u{e9}", "/b/%C3%A9", ""],
        ),
        (prefix(""), vec![]),
        (tag("z"), vec!["/a", "/a/1", "/b/%C3%A9", ""]),
        (tag("x"), vec!["/b/\u{e9}", "/b/%C3%A9", "/c*", ""]),
        (key("/a"), vec!["/a/1", "/b/\u{e9}", "/b/%C3%A9", "/c*", ""]),
    ] {
        for (key, tags) in all {
            store(&zone, key, tags);
        }
        assert_eq!(served(&zone).len(), all.len());
        assert_eq!(purge(&zone, &purged), Purged::Gone);
        assert_eq!(served(&zone), left, "{purged:?}");
        // The files that were asked for have gone.
        assert_eq!(files(&directory), left.len());
        assert_eq!(zone.keys(), left.len());
    }
}

#[test]
fn a_copy_in_memory_is_judged_by_its_file() {
    let directory = Directory::new("memory");
    let zone = directory.next_process(false);
    let hash = CacheKey::new(b"/a".to_vec()).hash();
    store(&zone, "/a", "t");
    let number = zone.hit(&hash, NOW_S);
    assert!(number.is_some());
    // Nobody knows whether it is meant until its file was looked at.
    purge(&zone, &tag("u"));
    assert_eq!(zone.hit(&hash, NOW_S), None);
    assert!(is_served(&zone, "/a", "t"));
    assert_eq!(zone.hit(&hash, NOW_S), number);
    for purged in [tag("t"), prefix("/"), key("/a")] {
        purge(&zone, &purged);
        assert_eq!(zone.hit(&hash, NOW_S), None, "{purged:?}");
        assert!(!is_served(&zone, "/a", "t"));
        store(&zone, "/a", "t");
        let now = zone.hit(&hash, NOW_S);
        assert!(now.is_some() && now != number, "{purged:?}");
    }
}

#[test]
fn a_key_that_is_not_there_is_unknown() {
    let directory = Directory::new("unknown");
    let zone = directory.next_process(false);
    assert_eq!(purge(&zone, &key("/a")), Purged::Unknown);
    store(&zone, "/a", "");
    assert_eq!(purge(&zone, &key("/a")), Purged::Gone);
    assert_eq!((files(&directory), zone.bytes()), (0, 0));
    assert_eq!(purge(&zone, &key("/a")), Purged::Unknown);
    assert_eq!(purge(&zone, &prefix("/a")), Purged::Gone);
}

#[test]
fn rules_are_on_the_disk_before_a_purge_is_answered() {
    for (name, purged, left) in [
        ("prefix", prefix("/a"), vec!["/b", "/new"]),
        ("tag", tag("t"), vec!["/a1", "/new"]),
    ] {
        let directory = Directory::new(name);
        let zone = directory.next_process(false);
        store(&zone, "/a1", "");
        store(&zone, "/b", "t");
        purge(&zone, &purged);
        write(&zone, "/new", "", "", NOW_S + 1);
        drop(zone); // without a word: as if it had been killed
        let zone = directory.next_process(false);
        let all = [("/a1", ""), ("/b", "t"), ("/new", "")];
        let served = all.iter().filter(|(key, tags)| is_served(&zone, key, tags));
        let served: Vec<_> = served.map(|(key, _)| *key).collect();
        assert_eq!(served, left, "{purged:?}");
    }
}

#[test]
fn variants_of_a_key_go_with_it() {
    let directory = Directory::new("variants");
    let zone = directory.next_process(false);
    let main = CacheKey::new(b"/a".to_vec());
    // A variant, in a place of its own.
    let variant = [9; 16];
    let store_variant = |zone: &TestZone| {
        let from = zone.file_path(&main.hash());
        let file = write(zone, "/a", "", "Accept-Language", NOW_S);
        let to = zone.file_path(&variant);
        fs::create_dir_all(to.parent().expect("it has one")).expect("writable");
        fs::copy(&from, to).expect("writable");
        for hash in [main.hash(), variant] {
            let (visit, _) = Visit::begin(zone, hash, 1, NOW_S).expect("there is room");
            visit.stored(file);
        }
    };
    let is_good = |zone: &TestZone| {
        let (visit, found) = Visit::begin(zone, variant, 1, NOW_S).expect("there is room");
        let is_there = matches!(found, Found::File { .. });
        is_there && !(visit.must_judge() && visit.judge(&subject("/a", ""), NOW_S).0)
    };
    store_variant(&zone);
    assert!(is_good(&zone));
    assert_eq!(purge(&zone, &key("/a")), Purged::Gone);
    assert!(!is_good(&zone));
    // Also if what leads to it went before.
    store_variant(&zone);
    assert!(is_good(&zone));
    let (visit, _) = begin(&zone, "/a");
    visit.note_no_file();
    drop(visit);
    zone.remove_file(&main.hash(), &mut never);
    assert_eq!(purge(&zone, &key("/a")), Purged::Unknown);
    assert!(!is_good(&zone));
    // And after a restart.
    store_variant(&zone);
    purge(&zone, &key("/a"));
    assert!(!is_good(&directory.next_process(false)));
}

#[test]
fn the_purger_removes_files_and_then_forgets() {
    let directory = Directory::new("walk");
    let zone = directory.next_process(false);
    for number in 0..40 {
        store(
            &zone,
            &format!("/a/{number}"),
            "odd".repeat(number % 2).as_str(),
        );
        store(&zone, &format!("/b/{number}"), "");
    }
    drop(zone);
    // Half of them are known from the disk alone.
    let zone = directory.next_process(true);
    for number in 0..40 {
        store(&zone, &format!("/b/{number}"), "");
    }
    let mut purger = Purger::new(Arc::clone(&zone), tags_of);
    assert_eq!(purger.step(NOW_S, never), None);
    purge(&zone, &tag("odd"));
    assert_eq!(files(&directory), 80, "nothing is done at once");
    purge(&zone, &prefix("/b/1"));
    let slow = Pace { files: 7, ..PACE };
    zone.configure(ZoneLimits {
        keys_bytes: 8 << 20,
        inactive: Duration::from_secs(100),
        max_bytes: None,
        min_free_bytes: 0,
        loader: PACE,
        manager: PACE,
        purges_files: true,
        purger: slow,
        max_purge_rules: 10,
    });
    let mut steps = 1;
    while purger.step(NOW_S, never).is_some() {
        steps += 1;
    }
    assert!(steps >= 80 / 7, "{steps}");
    // 20 with the tag, and /b/1, /b/10 to /b/19.
    assert_eq!(
        (files(&directory), zone.keys()),
        (80 - 20 - 11, 80 - 20 - 11)
    );
    assert_eq!(zone.purges.oldest_s(), None);
    assert_eq!(purger.step(NOW_S, never), None);
    for (key, tags, expected) in [
        ("/a/0", "", true),
        ("/a/1", "odd", false),
        ("/b/2", "", true),
    ] {
        assert_eq!(is_served(&zone, key, tags), expected, "{key}");
    }
    // What was asked for before all that is still not stored.
    let record = fs::read(directory.0.join("temp/purges")).expect("it is there");
    assert_eq!(record.len(), 16, "nothing is left to remember");
    let next = directory.next_process(true);
    assert!(is_served(&next, "/a/0", "") && !is_served(&next, "/a/1", "odd"));
}

#[test]
fn rules_are_forgotten_once_nothing_older_is_left() {
    let directory = Directory::new("forgotten");
    let zone = directory.next_process(false);
    let mut purger = Purger::new(Arc::clone(&zone), tags_of);
    store(&zone, "/old", "t");
    store(&zone, "/asked", "");
    let (mut under_way, _) = begin(&zone, "/way");
    purge(&zone, &tag("t"));
    let later_s = NOW_S + INACTIVE_S;
    assert_eq!(purger.step(later_s - 1, never), None);
    assert!(is_served(&zone, "/asked", ""));
    // The time has come, but the response is still there, as with a raised "inactive".
    assert_eq!(purger.step(later_s, never), None);
    assert!(zone.purges.oldest_s().is_some());
    assert!(!is_served(&zone, "/old", "t"));
    assert_eq!(purger.step(later_s + 5, never), None);
    assert!(
        zone.purges.oldest_s().is_some(),
        "it is not looked at all the time"
    );
    assert_eq!(purger.step(later_s + INACTIVE_S, never), None);
    assert_eq!(zone.purges.oldest_s(), None);
    assert!(is_served(&zone, "/asked", ""));
    // Nobody can tell any more whether it was purged.
    under_way.begin_fill(Arc::new(1), subject("/way", ""), NOW_S);
    let cx = &mut Context::from_waker(Waker::noop());
    assert_eq!(under_way.poll_store(cx), Poll::Ready(false));
}

#[test]
fn rules_stay_if_a_file_cannot_be_removed() {
    let directory = Directory::new("stay");
    let zone = directory.next_process(true);
    store(&zone, "/a", "");
    let path = zone.file_path(&CacheKey::new(b"/a".to_vec()).hash());
    // A directory in its place can be neither read nor removed.
    fs::remove_file(&path).expect("it is there");
    fs::create_dir(&path).expect("writable");
    fs::write(path.join("x"), "x").expect("writable");
    purge(&zone, &prefix("/"));
    let mut purger = Purger::new(Arc::clone(&zone), tags_of);
    let mut failures = 0;
    while purger.step(NOW_S, |_, _| failures += 1).is_some() {}
    assert!(failures >= 1);
    assert!(zone.purges.oldest_s().is_some());
}

#[test]
fn there_are_no_more_rules_than_allowed() {
    let directory = Directory::new("full");
    let zone = directory.zone(false, 4);
    let mut loader = Loader::new(Arc::clone(&zone));
    while loader.step(PACE, NOW_S, never).is_some() {}
    store(&zone, "/kept", "");
    let mut purger = Purger::new(Arc::clone(&zone), tags_of);
    for number in 0..2 {
        purge(&zone, &prefix(&format!("/{number}/")));
        assert_eq!(purger.step(NOW_S, never), None);
        assert!(zone.purges.oldest_s().is_some(), "they are few");
    }
    purge(&zone, &tag("a"));
    purge(&zone, &tag("b"));
    purge(&zone, &tag("b")); // once more is no more
    let full = zone.purge(&tag("c"), NOW_S);
    assert!(
        matches!(full, Err(PurgeFailure::Full { limit: 4 })),
        "{full:?}"
    );
    let long = zone.purge(&prefix(&"x".repeat(2000)), NOW_S);
    assert!(matches!(long, Err(PurgeFailure::Full { .. })), "{long:?}");
    // Half of them are enough for files to be read, whatever the configuration says.
    while purger.step(NOW_S, never).is_some() {}
    assert_eq!(zone.purges.oldest_s(), None);
    assert!(is_served(&zone, "/kept", ""));
    for number in 0..4 {
        purge(&zone, &tag(&number.to_string()));
    }
    // Everything takes the place of all the others.
    assert_eq!(purge(&zone, &prefix("")), Purged::Gone);
    assert_eq!(purge(&zone, &tag("c")), Purged::Gone);
    assert!(!is_served(&zone, "/kept", ""));
}

#[test]
fn a_damaged_file_counts_as_a_purge_of_everything() {
    let directory = Directory::new("damaged");
    let zone = directory.next_process(false);
    store(&zone, "/a", "");
    purge(&zone, &prefix("/b"));
    purge(&zone, &prefix("/c"));
    let path = directory.0.join("temp/purges");
    let good = fs::read(&path).expect("it is there");
    // A record that was not written to its end belongs to a purge that nobody was told of.
    fs::write(&path, &good[..good.len() - 1]).expect("writable");
    let zone = directory.next_process(false);
    assert!(is_served(&zone, "/a", ""));
    purge(&zone, &prefix("/d"));
    assert!(is_served(&directory.next_process(false), "/a", ""));
    let mut bad = fs::read(&path).expect("it is there");
    bad[30] ^= 1;
    fs::write(&path, bad).expect("writable");
    let zone = directory.zone(false, 100);
    assert_eq!(
        zone.load_purges(NOW_S).expect("readable"),
        LoadedPurges::Damaged
    );
    assert!(!is_served(&zone, "/a", ""));
    // From then on it is whole again.
    assert!(!is_served(&directory.next_process(false), "/a", ""));
    fs::remove_file(&path).expect("it is there");
    fs::create_dir(&path).expect("writable");
    let zone = directory.zone(false, 100);
    store(&zone, "/a", "");
    assert!(zone.load_purges(NOW_S).is_err());
    assert!(!is_served(&zone, "/a", ""));
}

#[test]
fn what_another_process_purges_meanwhile_is_learnt() {
    let directory = Directory::new("another");
    let old = directory.next_process(false);
    store(&old, "/a", "");
    let new = directory.next_process(false);
    assert!(is_served(&new, "/a", ""));
    purge(&old, &prefix("/a"));
    assert_eq!(
        new.load_purges(NOW_S).expect("readable"),
        LoadedPurges::Whole
    );
    assert!(!is_served(&new, "/a", ""));
    // The other way round there is nothing to learn: it ends.
    old.retire();
    let refused = old.purge(&prefix("/"), NOW_S);
    assert!(matches!(refused, Err(PurgeFailure::Retired)), "{refused:?}");
    // Once a purge is known it is not news.
    let generation = new.purge_generation();
    new.load_purges(NOW_S).expect("readable");
    assert_eq!(new.purge_generation(), generation);
}

#[test]
fn a_clock_that_is_set_back_brings_nothing_back() {
    let directory = Directory::new("clock");
    let zone = directory.next_process(false);
    let (mut visit, _) = begin(&zone, "/a");
    visit.begin_fill(Arc::new(1), subject("/a", ""), NOW_S + 500);
    visit.stored(write(&zone, "/a", "", "", NOW_S + 500));
    purge(&zone, &prefix("/"));
    assert!(!is_served(&directory.next_process(false), "/a", ""));
}

#[test]
fn a_status_that_stands_for_a_response_is_purged_with_it() {
    let directory = Directory::new("failure");
    let zone = directory.next_process(false);
    let stands = |zone: &TestZone| {
        let (visit, found) = begin(zone, "/a");
        matches!(found, Found::Failure(404)) && !visit.forgets_failure(&subject("/a", "").key)
    };
    for (purged, is_gone) in [
        (key("/a"), true),
        (prefix("/a"), true),
        (prefix("/b"), false),
        // Nobody knows its tags.
        (tag("t"), true),
    ] {
        begin(&zone, "/a").0.set_failure(404, i64::MAX);
        assert!(stands(&zone));
        purge(&zone, &purged);
        assert_eq!(stands(&zone), !is_gone, "{purged:?}");
        assert_eq!(stands(&zone), !is_gone, "{purged:?}");
    }
}
