//! Log files while the server runs: rotation, full disks.

use crate::site::{Site, alive, is_root, kill, owner, wait_until};
use std::fs;
use std::process::Command;

#[test]
fn usr1_goes_on_in_new_files_that_the_worker_could_not_open() {
    let mut site = Site::serving("");
    site.start();
    let before = site.text("logs/access.log").lines().count();
    wait_until("the access log", || {
        site.text("logs/access.log").lines().count() >= before.max(1)
    });
    for log in ["access", "error"] {
        let path = site.path(&format!("logs/{log}.log"));
        fs::rename(&path, path.with_extension("log.1")).unwrap();
    }
    assert!(site.run(&["-s", "reopen"]).status.success());
    wait_until("both processes", || {
        let log = site.text("logs/error.log.1"); // said before it is done
        let said = |pid: i32| log.contains(&format!("{pid}#{pid}: reopening logs"));
        said(site.master()) && said(site.worker())
    });
    wait_until("the new file", || site.path("logs/access.log").exists());
    let old = site.text("logs/access.log.1");
    assert!(site.get().is_some());
    site.wait_for_text("logs/access.log", "\"GET / HTTP/1.0\" 200");
    assert_eq!(
        site.text("logs/access.log.1"),
        old,
        "the old file is finished"
    );
    if is_root() {
        assert_eq!(
            owner(&site.path("logs/access.log")),
            0,
            "the master opened it"
        );
    }
    assert!(alive(site.worker()));
}

#[test]
fn a_full_disk_under_the_access_log_is_said_once_and_serves_on() {
    let mut site = Site::serving("");
    let conf = fs::read_to_string(site.path("conf/nginx.conf")).unwrap();
    site.configure(&conf.replace("access_log logs/access.log", "access_log /dev/full"));
    site.start();
    for _ in 0..20 {
        assert!(site.get().unwrap().ends_with("it works\n"));
    }
    let line = "log file \"/dev/full\" cannot be written (28: No space left on device)";
    site.wait_for_text("logs/error.log", line);
    assert_eq!(site.text("logs/error.log").matches(line).count(), 1);
    site.signal_master("QUIT");
    assert_eq!(
        site.wait_for_end(),
        Some(0),
        "the end does not wait for the disk"
    );
}

#[test]
fn a_full_disk_under_the_error_log_is_said_on_stderr() {
    let mut site = Site::serving("");
    let conf = fs::read_to_string(site.path("conf/nginx.conf")).unwrap();
    site.configure(&conf.replace(
        "error_log logs/error.log notice",
        "error_log /dev/full info",
    ));
    site.start();
    site.wait_for_text("stderr.txt", "log file \"/dev/full\" cannot be written");
    for _ in 0..5 {
        assert!(site.get().unwrap().ends_with("it works\n"));
    }
}

/// A real file system that is really full, and has room again later.
#[test]
fn what_a_full_disk_held_up_is_written_when_there_is_room() {
    let mut site = Site::serving("");
    let Some(disk) = Disk::mount(&site.path("disk")) else {
        sealane_needs::root();
        return sealane_needs::leave_out("not even root may mount here (CAP_SYS_ADMIN)");
    };
    let conf = fs::read_to_string(site.path("conf/nginx.conf")).unwrap();
    site.configure(&conf.replace("access_log logs/", "access_log disk/"));
    site.start();
    let ballast = site.path("disk/ballast");
    fs::write(&ballast, vec![0; 1 << 20]).expect_err("the disk has 64 KiB");
    let failed = "disk/access.log\" cannot be written (28: No space left on device)";
    // The page of the log that is begun has room for some lines.
    wait_until("a full disk", || {
        assert!(site.get().unwrap().ends_with("it works\n"));
        site.text("logs/error.log").contains(failed)
    });
    fs::remove_file(ballast).unwrap();
    site.wait_for_text("logs/error.log", "can be written again after");
    assert!(site.text("logs/error.log").contains("; 0 lines were lost"));
    let text = site.text("disk/access.log");
    assert!(
        text.lines().all(|line| line.starts_with("127.0.0.1 - - [")),
        "no line is cut:\n{text}"
    );
    let requests = text.lines().count();
    assert!(site.get().is_some());
    wait_until("the next line", || {
        site.text("disk/access.log").lines().count() > requests
    });
    kill(site.master(), "TERM");
    site.wait_for_end();
    drop(disk);
}

/// A tmpfs of 64 KiB, unmounted when dropped.
struct Disk(std::path::PathBuf);

impl Disk {
    fn mount(path: &std::path::Path) -> Option<Disk> {
        fs::create_dir(path).unwrap();
        let options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs"];
        let mounted = Command::new("mount")
            .args(options)
            .arg(path)
            .output()
            .unwrap();
        mounted.status.success().then(|| Disk(path.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
