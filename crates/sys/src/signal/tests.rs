use super::*;

// Signals to a whole process may be taken by any of its threads, so what a
// queue receives from outside is tested in `tests/single_thread.rs`.

#[test]
fn numbers_and_names_match_the_system_s() {
    for signal in ALL {
        let script = format!("kill -l {}", signal.number());
        let output = std::process::Command::new("bash")
            .args(["-c", &script])
            .output()
            .unwrap();
        let name = String::from_utf8(output.stdout).unwrap();
        // bash calls SIGIO by its other name where there is one.
        let name = name.trim().replace("POLL", "IO");
        assert_eq!(format!("SIG{name}"), signal.name());
        assert_eq!(Signal::from_number(signal.number() as u32), Some(signal));
    }
    assert_eq!(Signal::from_number(0), None);
}

#[test]
fn processes_exist_or_not() {
    assert!(process_exists(std::process::id() as Pid));
    assert!(process_exists(1), "even another user's");
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id() as Pid;
    child.wait().unwrap();
    assert!(!process_exists(pid));
    assert_eq!(
        send(pid, Signal::Term).unwrap_err().raw_os_error(),
        Some(libc::ESRCH)
    );
}

#[test]
fn what_was_blocked_arrives_again() {
    // In a thread of its own, which ends with its mask.
    std::thread::spawn(|| {
        let is_blocked = || {
            let mut set = MaybeUninit::<libc::sigset_t>::uninit();
            // SAFETY: no mask is set; the present one is written, and then read.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr());
                libc::sigismember(set.as_ptr(), Signal::Winch.number()) == 1
            }
        };
        block(&[Signal::Winch]).unwrap();
        assert!(is_blocked());
        let mut grep = std::process::Command::new("grep");
        grep.args(["SigBlk", "/proc/self/status"]);
        let printed = unblock_in_child(&mut grep).output().unwrap().stdout;
        assert_eq!(printed, b"SigBlk:\t0000000000000000\n");
        assert!(is_blocked());
        unblock_all().unwrap();
        assert!(!is_blocked());
    })
    .join()
    .unwrap();
}
