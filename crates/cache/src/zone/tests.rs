use super::*;
use crate::key::CacheKey;
use crate::load::Loader;
use crate::purge::{Subject, Tags};
use crate::sweep::Sweeper;
use crate::visit::{Found, StoredFile, Visit, ZoneFull};
use std::fs;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

const PACE: Pace = Pace {
    files: 1000,
    threshold: Duration::from_secs(60),
    sleep: Duration::from_millis(1),
};

fn limits(keys: u64) -> ZoneLimits {
    ZoneLimits {
        keys_bytes: keys * BYTES_PER_KEY,
        inactive: Duration::from_secs(100),
        max_bytes: None,
        min_free_bytes: 0,
        loader: PACE,
        manager: PACE,
        purges_files: false,
        purger: PACE,
        max_purge_rules: 10,
    }
}

fn zone(keys: u64) -> Arc<Zone<u8>> {
    Arc::new(Zone::new("z", Path::new("/none"), [1, 0, 0], limits(keys)))
}

fn hash(name: u32) -> Hash {
    CacheKey::new(name.to_ne_bytes().to_vec()).hash()
}

fn begin(zone: &Arc<Zone<u8>>, name: u32, now_s: i64) -> (Visit<u8>, Found) {
    Visit::begin(zone, hash(name), 1, now_s).expect("there is room")
}

fn subject(name: u32) -> Subject {
    Subject {
        key: CacheKey::new(name.to_ne_bytes().to_vec()),
        tags: Tags::Known(Vec::new()),
    }
}

fn store(zone: &Arc<Zone<u8>>, name: u32, now_s: i64) {
    let (visit, _) = begin(zone, name, now_s);
    visit.stored(StoredFile {
        sectors: 8,
        body_start: 500,
    });
}

#[test]
fn keys_without_a_file_are_forgotten() {
    let zone = zone(10);
    let (visit, found) = begin(&zone, 1, 0);
    assert_eq!(found, Found::Nothing { is_new: true });
    let (second, found) = begin(&zone, 1, 0);
    assert_eq!(found, Found::Nothing { is_new: false });
    assert_eq!(zone.keys(), 1);
    drop(visit);
    assert_eq!(zone.keys(), 1);
    drop(second);
    assert_eq!(zone.keys(), 0);
    store(&zone, 1, 0);
    assert_eq!((zone.keys(), zone.bytes()), (1, 4096));
    let found = Found::File {
        body_start: 500,
        uses: 2,
        is_proven: true,
    };
    assert_eq!(begin(&zone, 1, 0).1, found);
    begin(&zone, 1, 0).0.note_no_file();
    assert_eq!((zone.keys(), zone.bytes()), (0, 0));
}

#[test]
fn hits_from_memory_are_of_the_file_that_is_there() {
    let zone = zone(3);
    assert_eq!(zone.hit(&hash(1), 0), None);
    store(&zone, 1, 0);
    let first = zone.hit(&hash(1), 0).expect("there is a file");
    assert_eq!(begin(&zone, 1, 0).0.file_number(), Some(first));
    // While another response is under way a request has to look at that.
    let mut visit = begin(&zone, 1, 0).0;
    visit.begin_fill(Arc::new(1), subject(1), 0);
    assert_eq!(zone.hit(&hash(1), 0), None);
    drop(visit);
    assert_eq!(zone.hit(&hash(1), 0), Some(first));
    store(&zone, 1, 0);
    let second = zone.hit(&hash(1), 0).expect("there is a file");
    assert_ne!(first, second);
    // Such a hit keeps the key from going.
    store(&zone, 2, 0);
    store(&zone, 3, 0);
    assert_eq!(zone.hit(&hash(1), 50), Some(second));
    store(&zone, 4, 0);
    assert_eq!(zone.hit(&hash(2), 0), None);
    assert_eq!(zone.hit(&hash(1), 50), Some(second));
    begin(&zone, 1, 0).0.note_no_file();
    assert_eq!(zone.hit(&hash(1), 0), None);
}

#[test]
fn requests_are_counted_until_they_are_enough() {
    let zone = zone(10);
    let mut founds = (0..4).map(|_| {
        let (_visit, found) = Visit::begin(&zone, hash(1), 3, 0).expect("there is room");
        found
    });
    assert_eq!(founds.next(), Some(Found::Scarce { is_new: true }));
    assert_eq!(founds.next(), Some(Found::Scarce { is_new: false }));
    assert_eq!(founds.next(), Some(Found::Nothing { is_new: false }));
}

#[test]
fn one_asks_the_origin_and_the_others_wait() {
    let zone = zone(10);
    let now = Instant::now();
    let age = Duration::from_secs(5);
    let mut cx = Context::from_waker(Waker::noop());
    let (mut first, _) = begin(&zone, 1, 0);
    let (mut second, _) = begin(&zone, 1, 0);
    assert!(first.lock(now, age));
    assert!(!second.lock(now, age));
    assert_eq!(second.poll_change(&mut cx, now), Poll::Pending);
    // Whoever takes too long is not waited for any more.
    let later = now + age;
    assert_eq!(second.poll_change(&mut cx, later), Poll::Ready(()));
    assert!(second.lock(later, age));
    // The first one's end changes nothing then.
    drop(first);
    let (mut third, _) = begin(&zone, 1, 0);
    assert!(!third.lock(later, age));
    // What is being received can be read.
    second.begin_fill(Arc::new(9), subject(1), 0);
    assert_eq!(third.poll_change(&mut cx, later), Poll::Ready(()));
    assert_eq!(third.others_fill().as_deref(), Some(&9));
    assert_eq!(third.poll_settled(&mut cx), Poll::Pending);
    drop(second);
    assert_eq!(third.poll_settled(&mut cx), Poll::Ready(()));
    assert_eq!(third.others_fill(), None);
    assert!(third.lock(later, age));
}

#[test]
fn a_status_stands_for_a_response_for_a_while() {
    let zone = zone(10);
    begin(&zone, 1, 100).0.set_failure(502, 110);
    assert_eq!(begin(&zone, 1, 110).1, Found::Failure(502));
    assert_eq!(begin(&zone, 1, 111).1, Found::Nothing { is_new: true });
    assert_eq!(zone.keys(), 0);
    // Only until a response is on its way.
    begin(&zone, 1, 100).0.set_failure(502, 110);
    let (mut visit, _) = begin(&zone, 1, 100);
    visit.begin_fill(Arc::new(1), subject(1), 100);
    assert_eq!(begin(&zone, 1, 100).1, Found::Nothing { is_new: false });
}

#[test]
fn a_full_zone_forgets_the_oldest() {
    let zone = zone(3);
    for name in 0..3 {
        store(&zone, name, i64::from(name));
    }
    // Asked for again, so it is not the oldest.
    drop(begin(&zone, 0, 10));
    store(&zone, 3, 11);
    assert_eq!(zone.keys(), 3);
    assert_eq!(zone.take_doomed(), [hash(1)]);
    // Keys that are in use stay.
    let visits: Vec<_> = [0, 2, 3].map(|name| begin(&zone, name, 12)).into();
    let refused = Visit::begin(&zone, hash(4), 1, 12);
    assert!(matches!(refused, Err(ZoneFull)));
    drop(visits);
    store(&zone, 4, 13);
    assert_eq!(zone.keys(), 3);
}

/// A directory that is gone with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let name = format!("sealane-cache-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("writable");
        Directory(path)
    }

    fn write(&self, zone: &Zone<u8>, name: u32, bytes: usize) -> PathBuf {
        let path = zone.file_path(&hash(name));
        fs::create_dir_all(path.parent().expect("it has one")).expect("writable");
        fs::write(&path, vec![b'x'; bytes]).expect("writable");
        path
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

#[test]
fn a_directory_is_read_a_part_at_a_time_and_cleaned() {
    let directory = Directory::new("load");
    let zone = Arc::new(Zone::new("z", &directory.0, [1, 0, 0], limits(100)));
    let kept: Vec<PathBuf> = (0..25)
        .map(|name| directory.write(&zone, name, 400))
        .collect();
    let short = directory.write(&zone, 30, 10);
    let stranger = directory.0.join("notes.txt");
    fs::write(&stranger, "x").expect("writable");
    let misplaced = directory.0.join(kept[0].file_name().expect("it has one"));
    fs::write(&misplaced, vec![b'x'; 400]).expect("writable");
    let mut temporary = kept[0].clone().into_os_string();
    temporary.push(".0000000001");
    fs::write(&temporary, "x").expect("writable");
    assert!(zone.is_cold());
    let mut loader = Loader::new(Arc::clone(&zone));
    let pace = Pace { files: 10, ..PACE };
    let mut parts = 1;
    while loader.step(pace, 50, never).is_some() {
        parts += 1;
    }
    assert!(parts >= 3, "{parts}");
    assert!(!zone.is_cold());
    assert_eq!(zone.keys(), 25);
    assert!(kept.iter().all(|path| path.exists()));
    assert!(!short.exists() && !stranger.exists() && !misplaced.exists());
    assert!(Path::new(&temporary).exists(), "somebody may be writing it");
    assert!(matches!(
        begin(&zone, 7, 50).1,
        Found::File {
            body_start: 0,
            is_proven: false,
            ..
        }
    ));
}

#[test]
fn what_is_old_or_too_much_is_removed() {
    let directory = Directory::new("sweep");
    let zone = Arc::new(Zone::new("z", &directory.0, [2, 2, 0], limits(100)));
    let mut sweeper = Sweeper::new(Arc::clone(&zone));
    let paths: Vec<PathBuf> = (0..6)
        .map(|name| {
            store(&zone, name, i64::from(name));
            directory.write(&zone, name, 10)
        })
        .collect();
    let there = || paths.iter().filter(|path| path.exists()).count();
    assert_eq!(sweeper.step(PACE, 50, never), Duration::from_secs(10));
    assert_eq!(there(), 6);
    // The first three have been there for longer than `inactive`.
    assert_eq!(sweeper.step(PACE, 102, never), Duration::from_secs(1));
    assert_eq!((there(), zone.keys()), (3, 3));
    assert!(paths[3..].iter().all(|path| path.exists()));
    // `max_size`: two files of 4096 bytes are too much already.
    zone.configure(ZoneLimits {
        max_bytes: Some(8192),
        ..limits(100)
    });
    let _newest = begin(&zone, 3, 102);
    sweeper.step(PACE, 102, never);
    assert_eq!((there(), zone.bytes()), (1, 4096));
    assert!(paths[3].exists(), "it is in use");
}

#[test]
fn an_older_response_does_not_replace_a_newer_one() {
    let zone = zone(10);
    let mut cx = Context::from_waker(Waker::noop());
    let file = StoredFile {
        sectors: 8,
        body_start: 500,
    };
    let (mut older, _) = begin(&zone, 1, 0);
    let (mut newer, _) = begin(&zone, 1, 0);
    older.begin_fill(Arc::new(1), subject(1), 0);
    newer.begin_fill(Arc::new(2), subject(1), 0);
    assert_eq!(newer.poll_store(&mut cx), Poll::Ready(true));
    // They take turns.
    assert_eq!(older.poll_store(&mut cx), Poll::Pending);
    newer.stored(file);
    assert_eq!(older.poll_store(&mut cx), Poll::Ready(false));
}
