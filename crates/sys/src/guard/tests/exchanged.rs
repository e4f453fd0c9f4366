//! A guest keeps exchanging names during the operations.

use super::*;
use std::os::unix::fs::DirBuilderExt;
use std::sync::atomic::{AtomicBool, Ordering};

const ROUNDS: usize = 2000;

/// Exchanges two names until the end of the test's rounds.
struct Exchange<'a>(&'a AtomicBool);

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn exchange(one: &CString, other: &CString, enough: &AtomicBool) {
    while !enough.load(Ordering::Relaxed) {
        // SAFETY: both paths end with NUL and outlive the call.
        unsafe {
            libc::renameat2(
                libc::AT_FDCWD,
                one.as_ptr(),
                libc::AT_FDCWD,
                other.as_ptr(),
                libc::RENAME_EXCHANGE,
            )
        }
        .check()
        .unwrap();
    }
}

/// A directory of root's, `private`, and two names in the guest's: its own directory `way`, and
/// `link`, which leads to root's.
fn site(name: &str) -> TestDirectory {
    let place = TestDirectory::new(name);
    for directory in [
        "private",
        "private/directory",
        "logs/way",
        "logs/way/directory",
    ] {
        fs::DirBuilder::new()
            .mode(0o755)
            .create(place.at(directory))
            .unwrap();
    }
    for directory in ["logs/way", "logs/way/directory"] {
        chown(place.at(directory), Some(NOBODY), None).unwrap();
    }
    for file in ["private/file", "private/file.aside", "private/gone"] {
        place.write(file, b"of root");
    }
    symlink("../private", place.at("logs/link")).unwrap();
    place
}

/// Whether nothing in root's directory is other than [`site`] has made it.
#[track_caller]
fn is_untouched(place: &TestDirectory) {
    let entries = fs::read_dir(place.at("private")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["directory", "file", "file.aside", "gone"]);
    for file in ["private/file", "private/file.aside", "private/gone"] {
        assert_eq!(place.read(file), b"of root", "{file}");
    }
    let facts = fs::metadata(place.at("private/directory")).unwrap();
    assert_eq!((facts.uid(), facts.mode() & 0o777), (0, 0o755));
}

/// Does the same again and again while the guest exchanges a directory on the way for a link.
fn while_exchanged(name: &str, act: impl Fn(&Guard, &Path)) {
    let place = site(name);
    let path = |name: &str| CString::new(place.at(name).as_os_str().as_bytes()).unwrap();
    let (way, link, enough) = (path("logs/way"), path("logs/link"), AtomicBool::new(false));
    let guard = guard();
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&way, &link, &enough));
        let _until_then = Exchange(&enough);
        for _ in 0..ROUNDS {
            act(&guard, &place.at("logs/way"));
        }
    });
    is_untouched(&place);
}

#[test]
fn files_are_removed_where_they_were_made() {
    while_exchanged("exchanged-removed", |guard, way| {
        let path = way.join("gone");
        let made = guard.find(&path).and_then(|place| place.create_new(0o600));
        let id = made.and_then(|file| FileId::of(&file));
        if let Ok(id) = id {
            // By now its directory may be another one, with a file of the same name.
            let place = guard.find_name(&path);
            let _ = place.and_then(|place| place.remove(id));
        }
        let left = guard.find_name(&path);
        let _ = left.and_then(|place| place.entry()?.map_or(Ok(()), |id| place.remove(id)));
    });
}

#[test]
fn files_are_renamed_where_they_were_made() {
    while_exchanged("exchanged-renamed", |guard, way| {
        let path = way.join("file");
        let opened = guard.open(&path, Open::Write(0o600));
        let Ok(id) = opened.and_then(|file| FileId::of(&file)) else {
            return;
        };
        let aside = guard.find_name(&path);
        let _ = aside.and_then(|place| place.put_aside(".aside", id));
        let back = guard.find_name(&path);
        let _ = back.and_then(|place| place.put_back(".aside", id));
    });
}

#[test]
fn files_are_replaced_where_they_were_made() {
    while_exchanged("exchanged-replaced", |guard, way| {
        let Ok(place) = guard.find_name(&way.join("file")) else {
            return;
        };
        if let Ok(mut file) = place.create_beside(".aside", 0o600) {
            let _ = file.write_all(b"new");
            let _ = place.put_in_place(".aside");
        }
        let _ = place.remove_beside(".aside");
    });
}

#[test]
fn directories_are_made_and_given_away_where_they_are_the_guests() {
    while_exchanged("exchanged-directories", |guard, way| {
        for name in ["directory", "new"] {
            let found = guard.find(&way.join(name));
            let _ = found.map(|place| place.directory(0o700, Some(NOBODY)).map(drop));
        }
        let _ = guard.make_directories(&way.join("below/it"), 0o777);
    });
}

#[test]
fn directories_of_others_that_a_guest_can_move_are_not_given_to_it() {
    let place = site("moved");
    // Root's, in the guest's directory: the guest may give it any name there.
    fs::create_dir_all(place.at("logs/sub/directory")).unwrap();
    let give = |name: &str| {
        let guard = guard();
        let found = guard.find(&place.at(name)).unwrap();
        let made = found.directory(0o700, Some(NOBODY)).unwrap();
        made.metadata().unwrap().uid()
    };
    assert_eq!(give("logs/sub/directory"), 0);
    assert_eq!(give("logs/sub/new"), NOBODY, "it was made for the guest");
    assert_eq!(
        give("private/directory"),
        NOBODY,
        "nobody could have put it there"
    );
}

#[test]
fn what_is_another_file_by_now_is_neither_removed_nor_renamed() {
    let place = site("another");
    let guard = guard();
    let path = place.at("logs/file");
    let made = guard.open(&path, Open::Write(0o600)).unwrap();
    let id = FileId::of(&made).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, b"another").unwrap();
    let found = guard.find_name(&path).unwrap();
    for refused in [
        found.remove(id),
        found.put_aside(".aside", id),
        found.put_back(".aside", id),
    ] {
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
    assert_eq!(place.read("logs/file"), b"another");
    let id = found.entry().unwrap().unwrap();
    found.put_aside(".aside", id).unwrap();
    assert_eq!(found.entry().unwrap(), None);
    found.put_back(".aside", id).unwrap();
    found.remove(id).unwrap();
    assert_eq!(fs::read_dir(place.at("logs")).unwrap().count(), 2);
}

#[test]
fn missing_directories_are_made_all_the_way() {
    let place = site("ancestors");
    let guard = guard();
    guard.make_directories(&place.at("a/b/c"), 0o755).unwrap();
    guard.make_directories(&place.at("a/b/c"), 0o755).unwrap();
    assert!(place.at("a/b/c").is_dir());
    let refused = guard.make_directories(&place.at("logs/link/a/b"), 0o755);
    assert!(refused.is_err());
    is_untouched(&place);
}
