use super::*;
use crate::process::effective_uid;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// A directory of its own for a test, removed at its end.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Tree {
        let path =
            std::env::temp_dir().join(format!("sealane-links-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("real/deep")).unwrap();
        fs::write(path.join("real/deep/file"), "content").unwrap();
        symlink("real", path.join("dir")).unwrap();
        symlink("real/deep/file", path.join("file")).unwrap();
        // Whoever runs the tests, one of both is another user's.
        symlink("/etc/passwd", path.join("foreign")).unwrap();
        symlink("/etc", path.join("etc")).unwrap();
        if effective_uid() == 0 {
            for link in ["foreign", "etc"] {
                std::os::unix::fs::lchown(path.join(link), Some(65534), None).unwrap();
            }
        }
        Tree(path)
    }

    fn path(&self, name: &str) -> CString {
        CString::new(self.0.join(name).as_os_str().as_bytes()).unwrap()
    }

    fn trusted(&self) -> usize {
        self.0.as_os_str().len()
    }

    fn open(&self, name: &str, links: Links) -> Result<String, i32> {
        let opened = open_read(&self.path(name), self.trusted(), links);
        let fd = opened.map_err(|error| error.raw_os_error().unwrap())?;
        let mut text = String::new();
        fs::File::from(fd).read_to_string(&mut text).unwrap();
        Ok(text)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn links_are_followed_as_told() {
    let tree = Tree::new("told");
    let content = Ok("content".to_owned());
    for links in [Links::Never, Links::OfTheOwner] {
        assert_eq!(tree.open("real/deep/file", links), content);
        assert_eq!(tree.open("real//deep///file", links), content);
        assert_eq!(tree.open("real/../real/deep/./file", links), content);
        assert_eq!(tree.open("real/deep/file/", links), Err(libc::ENOTDIR));
        assert_eq!(tree.open("real/nothing", links), Err(libc::ENOENT));
        assert_eq!(tree.open("foreign", links), Err(libc::ELOOP));
    }
    assert_eq!(tree.open("dir/deep/file", Links::OfTheOwner), content);
    assert_eq!(tree.open("file", Links::OfTheOwner), content);
    assert_eq!(tree.open("dir/deep/file", Links::Never), Err(libc::ENOTDIR));
    assert_eq!(tree.open("file", Links::Never), Err(libc::ELOOP));
    assert_eq!(tree.open("etc/passwd", Links::Never), Err(libc::ENOTDIR));
    assert_eq!(tree.open("etc/passwd", Links::OfTheOwner), Err(libc::ELOOP));
}

#[test]
fn what_is_trusted_is_walked_as_it_is() {
    let tree = Tree::new("trusted");
    let trusted = tree.trusted() + "/dir".len();
    let path = tree.path("dir/deep/file");
    assert!(open_read(&path, trusted, Links::Never).is_ok());
    assert!(open_read(&path, path.as_bytes().len(), Links::Never).is_ok());
    assert!(open_read(&path, usize::MAX, Links::Never).is_ok());
    assert!(open_read(&tree.path("dir/"), trusted, Links::Never).is_ok());
    // A name that only begins so is not the directory that is trusted.
    let begun = open_read(&path, trusted - 1, Links::Never);
    assert!(begun.is_err());
    assert!(open_read(c"Cargo.toml", 0, Links::Never).is_ok());
    assert!(open_read(c"/", 0, Links::Never).is_ok());
    assert!(open_read(c"", 0, Links::Never).is_err());
}

#[test]
fn the_quick_way_knows_no_links() {
    let tree = Tree::new("quick");
    let slow = |name: &str| {
        let opened = open_cached(&tree.path(name), tree.trusted());
        opened.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    };
    for name in [
        "file",
        "dir/deep/file",
        "foreign",
        "nothing",
        "/etc/../foreign",
    ] {
        assert!(slow(name), "{name}");
    }
    // Kernels without the call are always slow.
    let _ = slow("real/deep/file");
}

/// Ends the other thread of a test, also if this one panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Somebody exchanges a name for a link while it is opened: what is opened is never what the
/// link alone leads to.
#[test]
fn nobody_wins_by_exchanging_names() {
    let tree = Tree::new("exchange");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (name, own) = (tree.0.join("moving"), tree.0.join("own"));
            let foreign = tree.0.join("foreign-again");
            while !stop.load(Ordering::Relaxed) {
                fs::write(&own, "mine").unwrap();
                fs::rename(&own, &name).unwrap();
                symlink("/etc/passwd", &foreign).unwrap();
                if effective_uid() == 0 {
                    std::os::unix::fs::lchown(&foreign, Some(65534), None).unwrap();
                }
                fs::rename(&foreign, &name).unwrap();
            }
        });
        let _stop = Stop(&stop);
        let mut opened = 0;
        for round in 0..20_000 {
            let links = [Links::Never, Links::OfTheOwner][round % 2];
            match tree.open("moving", links) {
                Ok(text) => {
                    assert_eq!(text, "mine");
                    opened += 1;
                }
                Err(errno) => assert!(matches!(errno, libc::ELOOP | libc::ENOENT), "{errno}"),
            }
        }
        println!("{opened} times it was a file");
    });
}
