//! Operations that only a single-threaded process may do: fork, signals to itself, changing the
//! environment. The test harness has threads, so this test uses a plain `main` instead.

#![allow(clippy::unwrap_used)] // In a test the panic is the failure.

use sealane_sys::process::{self, ExitStatus, Fork};
use sealane_sys::signal::{self, Received, Signal, SignalQueue};
use sealane_sys::{poll, socket, user};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

fn main() {
    assert_eq!(process::thread_count().unwrap(), 1);
    forked_children_are_reaped();
    descriptors_are_closed_but_for_some();
    signals_are_queued_with_their_sender();
    the_environment_is_replaced_or_left_alone();
    privileges_are_given_up_for_good();
    println!("test result: ok");
}

fn forked_children_are_reaped() {
    let pid = match process::fork().unwrap() {
        Fork::Child => process::exit_now(5),
        Fork::Parent(pid) => pid,
    };
    assert_eq!(process::wait_for(pid).unwrap(), ExitStatus::Code(5));
    assert_eq!(process::ended_child().unwrap(), None, "no children left");
}

fn descriptors_are_closed_but_for_some() {
    let open = || std::fs::File::open("/dev/null").unwrap();
    let files: Vec<_> = (0..6).map(|_| open()).collect();
    let pid = match process::fork().unwrap() {
        Fork::Child => {
            let closed = process::close_all_but(&[files[4].as_fd(), files[1].as_fd()]);
            let is_open = |file: &std::fs::File| {
                let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                std::fs::metadata(path).is_ok()
            };
            let open: Vec<bool> = files.iter().map(is_open).collect();
            let is_right = open == [false, true, false, false, true, false];
            process::exit_now(i32::from(closed.is_err() || !is_right));
        }
        Fork::Parent(pid) => pid,
    };
    assert_eq!(process::wait_for(pid).unwrap(), ExitStatus::Code(0));
}

fn signals_are_queued_with_their_sender() {
    let queue = SignalQueue::open(&[Signal::Usr1, Signal::Chld]).unwrap();
    assert_eq!(queue.next().unwrap(), None);
    let me = process::pid();
    signal::send(me, Signal::Usr1).unwrap();
    let expected = Received {
        signal: Signal::Usr1,
        sender: me,
    };
    assert_eq!(queue.next().unwrap(), Some(expected));

    let (ours, theirs) = socket::seqpacket_pair().unwrap();
    let child = match process::fork().unwrap() {
        Fork::Child => {
            drop(ours);
            // Blocked signals stay blocked in the child; a queue of its own
            // gets what is sent to it.
            let own = SignalQueue::open(&[Signal::Usr1]).unwrap();
            socket::send_fds(theirs.as_fd(), b"r", &[]).unwrap();
            poll::wait_readable(&[own.as_fd()], Some(Duration::from_secs(10))).unwrap();
            let got = own
                .next()
                .unwrap()
                .is_some_and(|received| received.sender == me);
            process::exit_now(if got { 0 } else { 1 });
        }
        Fork::Parent(pid) => pid,
    };
    drop(theirs);
    assert_eq!(
        poll::wait_readable(&[ours.as_fd()], Some(Duration::from_secs(10))).unwrap(),
        [true]
    );
    signal::send(child, Signal::Usr1).unwrap();
    let ready = poll::wait_readable(&[queue.as_fd()], Some(Duration::from_secs(10))).unwrap();
    assert_eq!(ready, [true]);
    let expected = Received {
        signal: Signal::Chld,
        sender: child,
    };
    assert_eq!(queue.next().unwrap(), Some(expected));
    assert_eq!(process::ended_child().unwrap(), Some(child));
    assert_eq!(process::wait_for(child).unwrap(), ExitStatus::Code(0));

    // Ignored, it does nothing.
    let child = match process::fork().unwrap() {
        Fork::Child => {
            signal::ignore(Signal::Usr2).unwrap();
            signal::send(process::pid(), Signal::Usr2).unwrap();
            process::exit_now(3);
        }
        Fork::Parent(pid) => pid,
    };
    assert_eq!(process::wait_for(child).unwrap(), ExitStatus::Code(3));
}

fn the_environment_is_replaced_or_left_alone() {
    let before = std::env::vars_os().count();
    let bad = [(OsStr::new("A=B"), OsStr::new("x"))];
    assert!(process::replace_environment(bad).is_err());
    assert_eq!(std::env::vars_os().count(), before);
    let good = [
        (OsStr::new("TZ"), OsStr::new("UTC")),
        (OsStr::new("EMPTY"), OsStr::new("")),
    ];
    process::replace_environment(good).unwrap();
    let mut now: Vec<_> = std::env::vars().collect();
    now.sort();
    assert_eq!(
        now,
        [("EMPTY".into(), String::new()), ("TZ".into(), "UTC".into())]
    );
    assert_eq!(sealane_sys::time::local(0).utc_offset_s, 0);
}

fn privileges_are_given_up_for_good() {
    sealane_needs::root();
    let nobody = user::user_by_name("nobody")
        .unwrap()
        .expect("every system has this user");
    let child = match process::fork().unwrap() {
        Fork::Child => {
            process::become_user(c"nobody", nobody.uid, nobody.gid).unwrap();
            let gone = process::effective_uid() == nobody.uid
                && std::fs::metadata("/proc/self").unwrap().gid() == nobody.gid
                && process::become_user(c"root", 0, 0).is_err()
                && std::fs::File::open("/etc/shadow").is_err();
            process::exit_now(if gone { 0 } else { 1 });
        }
        Fork::Parent(pid) => pid,
    };
    assert_eq!(process::wait_for(child).unwrap(), ExitStatus::Code(0));
}
