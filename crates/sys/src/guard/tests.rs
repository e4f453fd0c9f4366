mod exchanged;

use super::*;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

/// Nobody's number everywhere.
const NOBODY: u32 = 65534;

/// A directory that root has made, and one in it that a guest may write to; gone at the end.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> TestDirectory {
        // Nothing but root can act as somebody else.
        sealane_needs::root();
        let path =
            std::env::temp_dir().join(format!("sealane-guard-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let place = TestDirectory(path);
        fs::create_dir(place.0.join("logs")).unwrap();
        place.mode("", 0o755);
        place.write("secret", b"of root");
        place.mode("secret", 0o600);
        chown(place.0.join("logs"), Some(NOBODY), None).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.at(name), content).unwrap();
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.at(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.at(name)).unwrap()
    }

    fn append(&self, name: &str) -> io::Result<()> {
        let mut file = guard().open(&self.at(name), Open::Append(0o644))?;
        file.write_all(b"line")
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn guest() -> Guest {
    Guest {
        uid: NOBODY,
        groups: vec![NOBODY],
        anyone: false,
    }
}

fn guard() -> Guard {
    Guard::against([guest()])
}

#[track_caller]
fn is_denied(result: io::Result<()>) {
    let error = result.expect_err("it was opened");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    let text = error.to_string();
    assert!(
        text.starts_with("13: Permission denied: user 65534"),
        "{text}"
    );
}

#[test]
fn files_are_opened_and_made_as_usual() {
    let place = TestDirectory::new("usual");
    place.append("log").unwrap();
    place.append("logs/log").unwrap();
    place.append("logs/log").unwrap();
    assert_eq!(place.read("log"), b"line");
    assert_eq!(place.read("logs/log"), b"lineline");
    let facts = fs::metadata(place.at("logs/log")).unwrap();
    assert_eq!(facts.uid(), 0, "the log stays root's");
    let missing = guard().open(&place.at("none/log"), Open::Append(0o644));
    assert_eq!(missing.unwrap_err().raw_os_error(), Some(libc::ENOENT));
}

#[test]
fn links_of_the_administrator_are_followed() {
    let place = TestDirectory::new("own-links");
    symlink("secret", place.at("log")).unwrap();
    place.append("log").unwrap();
    assert_eq!(place.read("secret"), b"of rootline");
    // To a directory, from one that is further away, and by way of "..".
    symlink(place.at("logs"), place.at("elsewhere")).unwrap();
    place.append("elsewhere/../logs/./log").unwrap();
    assert_eq!(place.read("logs/log"), b"line");
    symlink("loop", place.at("loop")).unwrap();
    let error = place.append("loop").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
}

#[test]
fn links_that_the_guest_could_have_made_lead_only_where_it_may_go() {
    let place = TestDirectory::new("planted");
    symlink(place.at("secret"), place.at("logs/log")).unwrap();
    is_denied(place.append("logs/log"));
    // Nothing is made where the guest could make nothing.
    symlink(place.at("new"), place.at("logs/dangling")).unwrap();
    is_denied(place.append("logs/dangling"));
    assert!(!place.at("new").exists());
    // A directory on the way.
    fs::create_dir(place.at("private")).unwrap();
    symlink(place.at("private"), place.at("logs/current")).unwrap();
    is_denied(place.append("logs/current/log"));
    assert_eq!(fs::read_dir(place.at("private")).unwrap().count(), 0);
    // What is the guest's own is its business.
    place.write("logs/own", b"");
    chown(place.at("logs/own"), Some(NOBODY), None).unwrap();
    symlink("own", place.at("logs/link")).unwrap();
    place.append("logs/link").unwrap();
    assert_eq!(place.read("logs/own"), b"line");
    assert_eq!(place.read("secret"), b"of root");
}

#[test]
fn hard_links_and_devices_are_not_opened_for_the_guest() {
    let place = TestDirectory::new("hard");
    fs::hard_link(place.at("secret"), place.at("logs/log")).unwrap();
    is_denied(place.append("logs/log"));
    assert_eq!(place.read("secret"), b"of root");
    symlink("/dev/null", place.at("logs/null")).unwrap();
    place.append("logs/null").unwrap();
    symlink("/dev/mem", place.at("logs/mem")).unwrap();
    assert!(place.append("logs/mem").is_err());
}

#[test]
fn a_hard_link_that_is_taken_away_at_once_is_not_taken_for_a_file_of_its_own() {
    let place = TestDirectory::new("unlinked");
    let path = place.at("logs/log");
    let guard = guard();
    let found = guard.find(&path).unwrap();
    fs::hard_link(place.at("secret"), &path).unwrap();
    let opened = File::open(&path).unwrap();
    assert!(!found.is_harmless(&opened).unwrap());
    fs::remove_file(&path).unwrap();
    assert!(!found.is_harmless(&opened).unwrap(), "one name, another");
    fs::write(&path, b"").unwrap();
    assert!(!found.is_harmless(&opened).unwrap(), "another file");
    let own = File::open(&path).unwrap();
    assert!(found.is_harmless(&own).unwrap());
}

#[test]
fn fifos_are_opened_without_waiting() {
    let place = TestDirectory::new("fifo");
    let path = CString::new(place.at("logs/fifo").as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends with NUL.
    unsafe { libc::mkfifo(path.as_ptr(), 0o644) }
        .check()
        .unwrap();
    let error = place.append("logs/fifo").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENXIO), "nobody reads");
    let both = guard().open(&place.at("logs/fifo"), Open::AppendAndRead(0o644));
    both.unwrap().write_all(b"line").unwrap();
}

#[test]
fn standard_streams_may_be_linked_to_by_anybody() {
    let place = TestDirectory::new("streams");
    for target in ["/dev/stderr", "/proc/self/fd/2"] {
        let name = format!("logs/{}", target.replace('/', "-"));
        symlink(target, place.at(&name)).unwrap();
        let opened = guard().open(&place.at(&name), Open::Append(0o644));
        // It may be a socket, which has no name to be opened by.
        if let Err(error) = opened {
            assert_eq!(error.raw_os_error(), Some(libc::ENXIO), "{error}");
        }
    }
}

#[test]
fn who_may_write_to_a_directory() {
    let place = TestDirectory::new("who");
    symlink(place.at("secret"), place.at("logs/log")).unwrap();
    let open = || place.append("logs/log");
    for (owner, group, mode, trusted) in [
        (0, 0, 0o755, true),
        (0, 0, 0o775, true),
        (0, NOBODY, 0o755, true),
        (0, NOBODY, 0o775, false),
        (0, 0, 0o777, false),
        (NOBODY, 0, 0o500, false),
        (1, 0, 0o755, true),  // somebody else, whose business it is
        (0, 0, 0o1777, true), // a link of root's, which nobody may replace
    ] {
        chown(place.at("logs"), Some(owner), Some(group)).unwrap();
        place.mode("logs", mode);
        if trusted {
            open().unwrap_or_else(|error| panic!("{owner} {group} {mode:o}: {error}"));
        } else {
            is_denied(open());
        }
    }
    std::os::unix::fs::lchown(place.at("logs/log"), Some(NOBODY), None).unwrap();
    is_denied(open());
}

#[test]
fn programs_are_nobodys_but_the_administrators() {
    let place = TestDirectory::new("program");
    place.write("program", b"#!/bin/sh\n");
    place.mode("program", 0o755);
    // Not nobody, to whom even "/" belongs in some containers.
    const WORKER: u32 = 65_533;
    let guard = Guard::against([Guest {
        uid: WORKER,
        groups: vec![WORKER],
        anyone: false,
    }]);
    chown(place.at("logs"), Some(WORKER), None).unwrap();
    let check = |name: &str| guard.check_program(&place.at(name));
    check("program").expect("all of it is root's");
    symlink(place.at("program"), place.at("link")).unwrap();
    check("link").expect("the link, too");
    for (owner, group, mode, trusted) in [
        (0, WORKER, 0o755, true),
        (1, 1, 0o700, true), // somebody else's business
        (0, WORKER, 0o775, false),
        (0, 0, 0o757, false),
        (WORKER, 0, 0o555, false),
        (0, 0, 0o644, false), // not executable
    ] {
        chown(place.at("program"), Some(owner), Some(group)).unwrap();
        place.mode("program", mode);
        let checked = check("program");
        assert_eq!(
            checked.is_ok(),
            trusted,
            "{owner} {group} {mode:o}: {checked:?}"
        );
        if let Err(error) = checked {
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
    }
    // Where the guest may write, it could put another one in its place.
    place.write("logs/program", b"#!/bin/sh\n");
    place.mode("logs/program", 0o755);
    let text = check("logs/program").expect_err("planted").to_string();
    assert!(text.contains("user 65533"), "{text}");
    fs::create_dir(place.at("logs/deep")).unwrap();
    place.write("logs/deep/program", b"#!/bin/sh\n");
    place.mode("logs/deep/program", 0o755);
    check("logs/deep/program").expect_err("its directory could be exchanged");
    chown(place.at("program"), Some(0), Some(0)).unwrap();
    place.mode("program", 0o755);
    symlink(place.at("program"), place.at("logs/link")).unwrap();
    check("logs/link").expect_err("the link could lead elsewhere");
    assert_eq!(check("none").unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn before_users_are_known_root_alone_is_trusted() {
    let place = TestDirectory::new("anyone");
    symlink(place.at("secret"), place.at("logs/log")).unwrap();
    let guard = Guard::against([Guest::anyone()]);
    let open = || guard.open(&place.at("logs/log"), Open::Append(0o644));
    for (owner, group, mode, trusted) in [
        (0, 0, 0o755, true),
        (0, 0, 0o775, true),
        (0, 1, 0o775, false),
        (1, 0, 0o755, false),
        (0, 0, 0o777, false),
    ] {
        chown(place.at("logs"), Some(owner), Some(group)).unwrap();
        place.mode("logs", mode);
        assert_eq!(open().is_ok(), trusted, "{owner} {group} {mode:o}");
    }
}

#[test]
fn without_guests_everything_is_as_it_was() {
    let place = TestDirectory::new("none");
    symlink(place.at("secret"), place.at("logs/log")).unwrap();
    for guard in [
        Guard::default(),
        Guard::against([Guest {
            uid: 0,
            groups: vec![0],
            anyone: false,
        }]),
    ] {
        guard
            .open(&place.at("logs/log"), Open::Append(0o644))
            .unwrap();
    }
}

#[test]
fn directories_are_given_away_only_where_nobody_else_put_them() {
    let place = TestDirectory::new("directories");
    let make = |name: &str| {
        let guard = guard();
        let found = guard.find(&place.at(name)).unwrap();
        let made = found.directory(0o700, Some(NOBODY));
        made.map(|directory| directory.metadata().unwrap().uid())
    };
    assert_eq!(make("temp").unwrap(), NOBODY);
    assert_eq!(make("temp").unwrap(), NOBODY);
    assert_eq!(make("logs/temp").unwrap(), NOBODY, "made by the guest");
    fs::create_dir(place.at("private")).unwrap();
    symlink(place.at("private"), place.at("logs/link")).unwrap();
    assert_ne!(make("logs/link").unwrap(), NOBODY);
    place.mode("private", 0o700);
    assert!(make("logs/link").is_err());
    symlink("private", place.at("link")).unwrap();
    assert_eq!(
        make("link").unwrap(),
        NOBODY,
        "a link of the administrator's"
    );
    place.write("file", b"");
    let (call, error) = make("file").unwrap_err();
    assert_eq!((call, error.raw_os_error()), ("open", Some(libc::ENOTDIR)));
}

#[test]
fn files_are_replaced_whole() {
    let place = TestDirectory::new("replace");
    let guard = guard();
    for name in ["state", "logs/state"] {
        let path = place.at(name);
        symlink("secret", place.at(&format!("{name}.tmp"))).unwrap();
        let found = guard.find_name(&path).unwrap();
        let mut file = found.create_beside(".tmp", 0o600).unwrap();
        file.write_all(b"state").unwrap();
        found.put_in_place(".tmp").unwrap();
        found.sync_directory().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"state");
        assert!(found.remove_beside(".tmp").is_err(), "it is gone");
    }
    fs::create_dir(place.at("private")).unwrap();
    symlink("../private", place.at("logs/way")).unwrap();
    let path = place.at("logs/way/state");
    let found = guard.find_name(&path).unwrap();
    let (_, error) = found.create_beside(".tmp", 0o600).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(place.read("secret"), b"of root");
}

#[test]
fn what_is_done_by_path_is_done_with_the_rights_of_who_can_change_it() {
    let place = TestDirectory::new("act");
    fs::create_dir(place.at("logs/below")).unwrap();
    fs::create_dir(place.at("other")).unwrap();
    let guard = guard();
    let who = |name: &str, matters: bool| {
        let own = || fs::read_to_string("/proc/thread-self/status");
        let status = guard.act(&place.at(name), matters, own).unwrap();
        let ids = status.lines().find(|line| line.starts_with("Uid")).unwrap();
        ids.ends_with("\t65534")
    };
    assert!(!who("other/socket", true));
    assert!(!who("logs/socket", false));
    assert!(who("logs/socket", true));
    assert!(who("logs/below/socket", false));
}

#[test]
fn rights_come_back() {
    sealane_needs::root();
    let ids = || fs::read_to_string("/proc/thread-self/status").unwrap();
    let lines = |text: &str| -> Vec<String> {
        let wanted = |line: &&str| ["Uid", "Gid", "Gro", "Cap"].contains(&&line[..3]);
        text.lines().filter(wanted).map(str::to_owned).collect()
    };
    let before = lines(&ids());
    let meanwhile = guest().with_rights(|| lines(&ids())).unwrap();
    assert_ne!(before, meanwhile);
    assert!(meanwhile[0].ends_with("\t65534"), "{meanwhile:?}");
    assert_eq!(lines(&ids()), before);
}
