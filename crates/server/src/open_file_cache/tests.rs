use super::*;
use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// A directory with files, a cache and a clock that stands still.
struct Fixture {
    directory: PathBuf,
    cache: OpenFileCache,
    settings: Settings,
    now: Instant,
    /// Times the file system was asked.
    asked: u32,
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        let directory =
            std::env::temp_dir().join(format!("sealane-ofc-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).expect("the temporary directory is writable");
        let settings = Settings {
            max: 100,
            inactive: Duration::from_secs(60),
            valid: Duration::from_secs(10),
            min_uses: 1,
            errors: false,
            content_bytes: 0,
            content_max_file_bytes: 0,
        };
        Fixture {
            directory,
            cache: OpenFileCache::new(),
            settings,
            now: Instant::now(),
            asked: 0,
        }
    }

    /// Writes a file that was last changed long ago.
    fn write(&self, name: &str, contents: &[u8]) {
        self.write_at(name, contents, 1_000_000_000);
    }

    fn write_at(&self, name: &str, contents: &[u8], mtime_s: u64) {
        let path = self.directory.join(name);
        fs::write(&path, contents).expect("writable");
        crate::testing::set_mtime(&path, mtime_s);
    }

    fn path(&self, name: &str) -> Vec<u8> {
        self.directory
            .join(name)
            .to_str()
            .expect("UTF-8")
            .as_bytes()
            .to_vec()
    }

    fn open(&mut self, name: &str) -> Result<Opened, Errno> {
        let mut path = self.path(name);
        match self.cache.lookup(&self.settings, &path, self.now) {
            Lookup::Answer(answer) => answer,
            Lookup::Ask => {
                self.asked += 1;
                path.push(0);
                let result = open_blocking(&path, None);
                path.pop();
                self.cache.store(&self.settings, &path, self.now, result)
            }
        }
    }

    fn file(&mut self, name: &str) -> (std::sync::Arc<OpenFile>, Option<bytes::Bytes>) {
        match self.open(name) {
            Ok(Opened::File(file, content)) => (file, content),
            other => panic!("{name}: {other:?}"),
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn text(file: &OpenFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    sealane_sys::file::read_at(file.as_fd(), &mut bytes, 1000, 0).expect("readable");
    bytes
}

#[test]
fn a_valid_entry_is_not_asked_for_again() {
    let mut fixture = Fixture::new("valid");
    fixture.write("a", b"one");
    let (first, _) = fixture.file("a");
    fixture.pass(9);
    // The directory has another file by that name, which nobody knows of yet.
    fs::remove_file(fixture.directory.join("a")).expect("it is there");
    fixture.write("a", b"three");
    let (second, _) = fixture.file("a");
    assert!(std::sync::Arc::ptr_eq(&first, &second));
    assert_eq!((fixture.asked, second.size()), (1, 3));
    fixture.pass(1);
    let (third, _) = fixture.file("a");
    assert_eq!((fixture.asked, third.size()), (2, 5));
    // Who still sends the old one is not disturbed.
    assert_eq!(text(&first), b"one");
}

#[test]
fn an_unchanged_file_keeps_its_descriptor() {
    let mut fixture = Fixture::new("unchanged");
    fixture.write("a", b"one");
    let (first, _) = fixture.file("a");
    fixture.pass(11);
    let (second, _) = fixture.file("a");
    assert!(std::sync::Arc::ptr_eq(&first, &second));
    assert_eq!(fixture.asked, 2);
    fixture.pass(9);
    fixture.file("a");
    assert_eq!(fixture.asked, 2, "checked 9 seconds ago");
}

#[test]
fn a_changed_file_is_opened_again() {
    let mut fixture = Fixture::new("changed");
    fixture.write("a", b"one");
    fixture.file("a");
    fixture.write_at("a", b"two", 1_000_000_001);
    fixture.pass(11);
    let (file, _) = fixture.file("a");
    assert_eq!(file.mtime_s(), 1_000_000_001);
}

#[test]
fn the_least_recently_used_entry_goes_first() {
    let mut fixture = Fixture::new("lru");
    fixture.settings.max = 2;
    for name in ["a", "b", "c"] {
        fixture.write(name, b"x");
    }
    fixture.file("a");
    fixture.file("b");
    fixture.file("a");
    fixture.file("c"); // drops b
    assert_eq!(fixture.asked, 3);
    fixture.file("a");
    fixture.file("c");
    assert_eq!(fixture.asked, 3);
    fixture.file("b");
    assert_eq!(fixture.asked, 4);
}

#[test]
fn inactive_entries_are_forgotten() {
    let mut fixture = Fixture::new("inactive");
    fixture.settings.valid = Duration::from_secs(1000);
    fixture.write("a", b"x");
    fixture.write("b", b"x");
    fixture.file("a");
    fixture.pass(40);
    fixture.file("b");
    fixture.pass(40);
    fixture.file("b");
    assert_eq!(fixture.asked, 2);
    fixture.file("a");
    assert_eq!(fixture.asked, 3, "nobody had asked for 80 seconds");
}

#[test]
fn min_uses_keeps_the_count_but_not_the_descriptor() {
    let mut fixture = Fixture::new("min-uses");
    fixture.settings.min_uses = 3;
    fixture.write("a", b"x");
    for asked in 1..=3 {
        let (file, _) = fixture.file("a");
        assert_eq!(fixture.asked, asked);
        let held = std::sync::Arc::strong_count(&file) > 1;
        assert_eq!(held, asked == 3, "use {asked}");
    }
    fixture.file("a");
    assert_eq!(fixture.asked, 3);
}

#[test]
fn errors_are_kept_only_when_asked_to() {
    let mut fixture = Fixture::new("errors");
    for asked in 1..=2 {
        assert_eq!(fixture.open("none").err(), Some(Errno(libc::ENOENT)));
        assert_eq!(fixture.asked, asked);
    }
    fixture.settings.errors = true;
    for _ in 0..3 {
        assert_eq!(fixture.open("none").err(), Some(Errno(libc::ENOENT)));
        assert_eq!(fixture.asked, 3);
    }
    fixture.write("none", b"now it is");
    fixture.pass(11);
    assert_eq!(fixture.file("none").0.size(), 9);
    // A location that does not want errors does not get the cached one.
    fs::remove_file(fixture.directory.join("none")).expect("it is there");
    fixture.pass(11);
    assert!(fixture.open("none").is_err());
    fixture.settings.errors = false;
    let asked = fixture.asked;
    assert!(fixture.open("none").is_err());
    assert_eq!(fixture.asked, asked + 1);
}

#[test]
fn a_removed_file_leaves_the_cache() {
    let mut fixture = Fixture::new("removed");
    fixture.write("a", b"x");
    fixture.file("a");
    fs::remove_file(fixture.directory.join("a")).expect("it is there");
    fixture.pass(11);
    assert_eq!(fixture.open("a").err(), Some(Errno(libc::ENOENT)));
    fixture.write("a", b"again");
    assert_eq!(fixture.file("a").0.size(), 5);
}

#[test]
fn directories_are_answers_and_others_are_not_files() {
    let mut fixture = Fixture::new("kinds");
    fs::create_dir(fixture.directory.join("d")).expect("writable");
    for _ in 0..2 {
        assert!(matches!(fixture.open("d"), Ok(Opened::Directory)));
    }
    assert_eq!(fixture.asked, 1);
    let socket = fixture.directory.join("s");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("writable");
    // A socket cannot be opened at all.
    assert_eq!(fixture.open("s").err(), Some(Errno(libc::ENXIO)));
    assert!(matches!(
        open_blocking(b"/dev/null\0", None),
        Ok(Opened::Other)
    ));
    assert_eq!(
        open_blocking(b"/dev\0/null\0", None).err(),
        Some(Errno(libc::ENOENT))
    );
}

#[test]
fn contents_live_with_their_entry() {
    let mut fixture = Fixture::new("content");
    fixture.settings.content_bytes = 100;
    fixture.settings.content_max_file_bytes = 10;
    fixture.write("a", b"0123456789");
    fixture.write("large", b"0123456789a");
    fixture.write("empty", b"");
    assert_eq!(fixture.file("a").1.as_deref(), Some(&b"0123456789"[..]));
    assert_eq!(fixture.file("large").1, None);
    assert_eq!(fixture.file("empty").1, None);
    // Changed behind the cache's back: the old bytes with their old length.
    fixture.write_at("a", b"new", 1_000_000_001);
    let (file, content) = fixture.file("a");
    assert_eq!(
        content.as_deref().map(<[u8]>::len),
        Some(file.size() as usize)
    );
    fixture.pass(11);
    assert_eq!(fixture.file("a").1.as_deref(), Some(&b"new"[..]));
}

#[test]
fn contents_are_bounded_in_bytes() {
    let mut fixture = Fixture::new("content-bound");
    fixture.settings.content_bytes = 25;
    fixture.settings.content_max_file_bytes = 10;
    for name in ["a", "b", "c"] {
        fixture.write(name, b"0123456789");
        assert!(fixture.file(name).1.is_some(), "{name}");
    }
    let held = |fixture: &Fixture| {
        let tables = fixture.cache.tables.lock().expect("nobody panicked");
        tables[0].1.content_bytes()
    };
    assert_eq!(
        held(&fixture),
        20,
        "the content of a made room for that of c"
    );
    // It comes back when it is used again, at the expense of b's.
    assert!(fixture.file("a").1.is_some());
    assert_eq!(held(&fixture), 20);
    fixture.settings.max = 100;
    for name in ["a", "b", "c"] {
        fs::remove_file(fixture.directory.join(name)).expect("it is there");
    }
    fixture.pass(11);
    for name in ["a", "b", "c"] {
        assert!(fixture.open(name).is_err());
    }
    assert_eq!(held(&fixture), 0);
}

#[test]
fn a_file_that_is_being_written_is_not_kept() {
    let mut fixture = Fixture::new("content-fresh");
    fixture.settings.content_bytes = 100;
    fixture.settings.content_max_file_bytes = 10;
    let now_s = sealane_sys::time::unix_coarse_s();
    fixture.write_at("a", b"half", now_s as u64 + 1);
    assert_eq!(fixture.file("a").1, None, "written this very second");
    // Shorter than it was when it was opened, though nobody has noticed yet.
    fixture.write("b", b"0123456789");
    fixture.settings.content_bytes = 0;
    fixture.file("b");
    fixture.settings.content_bytes = 100;
    fixture.write("b", b"01234");
    let (file, content) = fixture.file("b");
    assert!(content.is_none_or(|bytes| bytes.len() as u64 == file.size()));
}

#[test]
fn locations_with_equal_parameters_share() {
    let mut fixture = Fixture::new("shared");
    fixture.write("a", b"x");
    fixture.file("a");
    fixture.settings.valid = Duration::from_secs(99);
    fixture.file("a");
    assert_eq!(fixture.asked, 1);
    fixture.settings.max = 7;
    fixture.file("a");
    assert_eq!(fixture.asked, 2, "another max is another cache");
}

/// The table against a list that is searched from end to end.
#[test]
fn the_list_and_the_index_agree_under_random_use() {
    let mut fixture = Fixture::new("random");
    fixture.settings.max = 5;
    fixture.settings.inactive = Duration::from_secs(1000);
    fixture.settings.valid = Duration::from_secs(100_000);
    let names: Vec<String> = (0..12).map(|n| format!("f{n}")).collect();
    for name in &names {
        fixture.write(name, b"x");
    }
    let mut model: Vec<&str> = Vec::new(); // most recently used last
    let mut state = 42u64;
    for _ in 0..5000 {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let name = &names[(state >> 33) as usize % names.len()];
        let asked = fixture.asked;
        fixture.file(name);
        let known = model.iter().position(|other| other == name);
        assert_eq!(fixture.asked == asked, known.is_some(), "{name} {model:?}");
        match known {
            Some(at) => drop(model.remove(at)),
            None if model.len() == 5 => drop(model.remove(0)),
            None => {}
        }
        model.push(name);
    }
}

#[test]
fn descriptors_are_given_up_oldest_first() {
    let mut fixture = Fixture::new("shed");
    for name in ["a", "b", "c"] {
        fixture.write(name, b"x");
        assert!(fixture.open(name).is_ok());
    }
    assert!(fixture.open("a").is_ok(), "used again: the newest now");
    assert_eq!((fixture.asked, fixture.cache.shed(2)), (3, 2));
    assert!(fixture.open("a").is_ok());
    assert_eq!(fixture.asked, 3, "it was kept");
    assert!(fixture.open("b").is_ok());
    assert_eq!(fixture.asked, 4, "it was closed");
    assert_eq!(fixture.cache.shed(100), 2);
    assert_eq!(fixture.cache.shed(100), 0);
}

/// Without `open_file_cache`, the requests of one turn of the event loop share an answer, and those
/// of the next ask anew.
#[test]
fn what_is_not_cached_is_shared_by_the_requests_of_a_turn() {
    use sealane_io::runtime::{Runtime, spawn_with_handle, yield_now};
    let fixture = Fixture::new("same-turn");
    fixture.write("file", b"bytes of a small file");
    let path = fixture.path("file");
    let mut name = path.clone();
    name.push(0);
    let cache = &fixture.cache;
    let open = || open_now(&name, None).expect("it is in the page cache");
    Runtime::new().expect("descriptors").block_on(async {
        // With nobody else to ask in this turn nothing is kept.
        cache.store_uncached(&path, &open());
        assert!(cache.lookup_uncached(&path).is_none());
        let other = spawn_with_handle(async {});
        let answer = open();
        cache.store_uncached(&path, &answer);
        let (Ok(Opened::File(first, None)), Some(Ok(Opened::File(second, Some(bytes))))) =
            (answer, cache.lookup_uncached(&path))
        else {
            panic!("one file, and its bytes from the second request on");
        };
        assert!(std::sync::Arc::ptr_eq(&first, &second));
        assert_eq!(bytes, b"bytes of a small file"[..]);
        assert!(cache.lookup_uncached(b"/another").is_none());
        yield_now().await;
        assert!(cache.lookup_uncached(&path).is_none(), "another turn");
        other.await.expect("no panic");
        // The thread is about to wait.
        let _other = spawn_with_handle(async {});
        cache.store_uncached(&path, &Err(Errno(libc::ENOENT)));
        assert_eq!(
            cache.lookup_uncached(&path).map(Result::err),
            Some(Some(Errno(libc::ENOENT)))
        );
        cache.end_turn();
        assert!(cache.lookup_uncached(&path).is_none());
    });
}
