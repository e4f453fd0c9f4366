use super::*;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory with a small tree in it.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> TestDirectory {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("sealane-test-dav-{}-{number}", std::process::id());
        let dir = TestDirectory(std::env::temp_dir().join(name));
        fs::create_dir_all(dir.path("tree/inner/deep")).expect("writable");
        fs::create_dir_all(dir.path("elsewhere")).expect("writable");
        for file in [
            "a",
            "tree/b",
            "tree/inner/c",
            "tree/inner/deep/d",
            "elsewhere/keep",
        ] {
            fs::write(dir.path(file), file).expect("writable");
        }
        symlink("../elsewhere", dir.path("tree/link")).expect("writable");
        symlink("../a", dir.path("tree/file-link")).expect("writable");
        symlink(".", dir.path("tree/loop")).expect("writable");
        dir
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| format!("{name}: {error}"))
    }

    fn order(&self, is_move: bool, from: &str, to: &str) -> Result<Done, CopyRefusal> {
        let order = CopyOrMove {
            is_move,
            from_collection: from.ends_with('/'),
            to_collection: to.ends_with('/'),
            overwrite: true,
            access: 0o600,
            from: self.path(from),
            to: self.path(to.trim_end_matches('/')),
        };
        let (noted, done) = order.run();
        assert!(noted.is_empty(), "{noted:?}");
        done
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_links_lead_to_is_not_deleted() {
    let dir = TestDirectory::new();
    let (noted, deleted) = delete(&dir.path("tree/link"), true);
    assert!(noted.is_empty());
    assert_eq!(deleted.expect_err("it is a link").errno, Errno(libc::EPERM));
    let (noted, deleted) = delete(&dir.path("tree"), true);
    assert!(noted.is_empty() && deleted.is_ok(), "{noted:?} {deleted:?}");
    assert!(!dir.path("tree").exists());
    assert_eq!(dir.text("elsewhere/keep"), "elsewhere/keep");
    assert_eq!(dir.text("a"), "a");
}

#[test]
fn a_tree_is_copied_with_its_times_and_without_links_to_directories() {
    let dir = TestDirectory::new();
    set_time(&dir.path("tree/inner"), 1_000_000_000).expect("our own");
    let permissions = Permissions::from_mode(0o640);
    fs::set_permissions(dir.path("tree/b"), permissions).expect("our own");
    assert_eq!(
        dir.order(false, "tree/", "copy/").expect("possible"),
        Done::Tree
    );
    assert_eq!(dir.text("copy/inner/deep/d"), "tree/inner/deep/d");
    assert_eq!(dir.text("copy/file-link"), "a");
    assert!(
        !look(&dir.path("copy/file-link"))
            .expect("there")
            .is_symlink()
    );
    let inner = look(&dir.path("copy/inner")).expect("there");
    assert_eq!(inner.mtime(), 1_000_000_000);
    let file = look(&dir.path("copy/b")).expect("there");
    assert_eq!(file.mode() & 0o777, 0o640);
    assert!(!dir.path("copy/link").exists() && !dir.path("copy/loop").exists());
    assert_eq!(dir.text("tree/b"), "tree/b");
}

#[test]
fn nothing_is_copied_or_moved_into_itself() {
    let dir = TestDirectory::new();
    symlink("tree", dir.path("other")).expect("writable");
    for is_move in [false, true] {
        for (from, to) in [
            ("tree/", "tree/"),
            ("tree/", "tree/new/"),
            ("tree/", "tree/inner/"),
            ("tree/inner/", "tree/"),
            ("tree/", "other/inner/new/"),
        ] {
            let refused = dir.order(is_move, from, to);
            assert!(
                matches!(refused, Err(CopyRefusal::SamePlace)),
                "{from} {to}: {refused:?}"
            );
        }
        let refused = dir.order(is_move, "other/", "new/");
        assert!(matches!(refused, Err(CopyRefusal::Link)), "{refused:?}");
    }
    for to in ["a", "tree/file-link"] {
        let refused = dir.order(false, "a", to);
        assert!(
            matches!(refused, Err(CopyRefusal::SamePlace)),
            "{to}: {refused:?}"
        );
    }
    let refused = dir.order(true, "a", "a");
    assert!(
        matches!(refused, Err(CopyRefusal::SamePlace)),
        "{refused:?}"
    );
    assert_eq!(dir.text("a"), "a");
    assert_eq!(dir.text("tree/inner/deep/d"), "tree/inner/deep/d");
}

#[test]
fn a_pipe_is_not_waited_for() {
    let dir = TestDirectory::new();
    let made = std::process::Command::new("mkfifo")
        .arg(dir.path("pipe"))
        .status();
    assert!(made.expect("coreutils are there").success());
    let refused = dir.order(false, "pipe", "copy");
    assert!(
        matches!(refused, Err(CopyRefusal::Incomplete(_))),
        "{refused:?}"
    );
    assert!(!dir.path("copy").exists());
}

#[test]
fn directories_on_the_way_are_made_for_a_file_that_is_moved() {
    let dir = TestDirectory::new();
    assert_eq!(dir.order(true, "a", "x/y/z").expect("possible"), Done::File);
    assert_eq!(dir.text("x/y/z"), "a");
    let refused = dir.order(false, "x/y/z", "no/such/z");
    assert!(
        matches!(refused, Err(CopyRefusal::Incomplete(_))),
        "{refused:?}"
    );
    let left = fs::read_dir(dir.path("x/y")).expect("there").count();
    assert_eq!(left, 1);
}

#[test]
fn what_a_tree_replaces_stays_until_the_tree_is_there() {
    let dir = TestDirectory::new();
    let names = || {
        let mut names: Vec<_> = fs::read_dir(&dir.0)
            .expect("ours")
            .map(|entry| entry.expect("ours").file_name())
            .collect();
        names.sort();
        names
    };
    let before = names();
    // A file that can be opened and not read: the copy fails behind the first files.
    symlink("/proc/self/mem", dir.path("tree/inner/deep/unreadable")).expect("writable");
    let failed = dir.order(false, "tree/", "elsewhere/");
    assert!(
        matches!(failed, Err(CopyRefusal::Incomplete(_))),
        "{failed:?}"
    );
    assert_eq!(dir.text("elsewhere/keep"), "elsewhere/keep");
    assert_eq!(names(), before);
    fs::remove_file(dir.path("tree/inner/deep/unreadable")).expect("ours");
    assert_eq!(
        dir.order(false, "tree/", "elsewhere/").ok(),
        Some(Done::Tree)
    );
    assert_eq!(dir.text("elsewhere/inner/deep/d"), "tree/inner/deep/d");
    assert!(!dir.path("elsewhere/keep").exists());
    assert_eq!(names(), before);
    // A tree in the place of another one, and of a file.
    assert_eq!(
        dir.order(true, "elsewhere/", "tree/inner/").ok(),
        Some(Done::Tree)
    );
    assert_eq!(dir.text("tree/inner/b"), "tree/b");
    assert!(!dir.path("tree/inner/c").exists());
    assert_eq!(dir.order(true, "tree/inner/", "a/").ok(), Some(Done::Tree));
    assert_eq!(dir.text("a/b"), "tree/b");
    assert_eq!(names(), ["a", "tree"]);
}

/// Whoever may use MKCOL can make a tree as deep as a path can name.
#[test]
fn deep_trees_take_no_stack() {
    const LEVELS: usize = 1000;
    const STACK_BYTES: usize = 128 << 10;
    let dir = TestDirectory::new();
    let mut deepest = dir.path("tree/inner");
    for _ in 0..LEVELS {
        deepest.push("d");
        fs::create_dir(&deepest).expect("writable");
    }
    let from = dir.path("tree/inner");
    let to = dir.path("copy");
    let work = move || {
        fs::create_dir(&to).expect("writable");
        let copied = copy_tree(&from, &to);
        let mut noted = Vec::new();
        let deleted = delete_tree(&from, &mut noted);
        (copied.is_ok(), deleted.is_ok() && noted.is_empty(), to)
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let (copied, deleted, to) = thread.spawn(work).expect("a thread").join().expect("done");
    assert!(copied && deleted);
    let deepest: PathBuf = to.join("d/".repeat(LEVELS));
    assert!(deepest.is_dir(), "all levels were copied");
    assert!(!dir.path("tree/inner").exists());
}

#[test]
fn directories_of_more_names_than_are_kept_are_read_to_their_end() {
    const COUNT: usize = MAX_LISTED + 10;
    let dir = TestDirectory::new();
    let many = dir.path("many");
    fs::create_dir(&many).expect("writable");
    for number in 0..COUNT {
        fs::hard_link(dir.path("a"), many.join(number.to_string())).expect("writable");
    }
    let mut listing = Listing::of(&many).expect("readable");
    assert_eq!(listing.names.len(), MAX_LISTED);
    let mut count = 0;
    while listing.next(&many).expect("readable").is_some() {
        count += 1;
    }
    assert_eq!(count, COUNT);
    assert!(listing.rest.is_none(), "it is closed");
    let mut noted = Vec::new();
    delete_tree(&many, &mut noted).expect("writable");
    assert!(noted.is_empty() && !many.exists(), "{noted:?}");
}
