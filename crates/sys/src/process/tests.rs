use super::*;

#[test]
fn a_process_with_threads_does_not_fork_or_change_its_environment() {
    // The test harness runs this in a thread of its own.
    assert!(thread_count().unwrap() > 1);
    assert_eq!(fork().unwrap_err().kind(), io::ErrorKind::Unsupported);
    let error = replace_environment([]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    assert!(
        std::env::var_os("PATH").is_some(),
        "the environment is as it was"
    );
}

#[test]
fn identities_are_plausible() {
    assert_eq!(pid() as u32, std::process::id());
    assert!(parent_pid() > 0 && thread_id() > 0);
    assert_ne!(thread_id(), pid(), "a test runs in a thread of its own");
    assert!(available_cpus() >= 1);
}

#[test]
fn statuses_are_decoded() {
    use std::process::Command;
    let exit = |script: &str| {
        #[expect(clippy::zombie_processes, reason = "collected by the call under test")]
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        wait_for(child.id() as Pid).unwrap()
    };
    assert_eq!(exit("exit 7"), ExitStatus::Code(7));
    let ExitStatus::Signal {
        signal,
        core_dumped,
    } = exit("kill -9 $$")
    else {
        panic!("code")
    };
    assert_eq!((signal, core_dumped), (9, false));
}

#[test]
fn a_group_is_ended_as_a_whole() {
    use crate::signal::{self, Signal};
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    let mut leader = Command::new("sh")
        .args(["-c", "sleep 1000 & echo started; exit 3"])
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let pid = leader.id() as Pid;
    let mut line = String::new();
    let mut output = BufReader::new(leader.stdout.take().expect("it is piped"));
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    signal::send_to_group(pid, Signal::Kill).unwrap();
    // The pipe ends with the last process that has it.
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    leader.wait().unwrap();
    assert!(signal::send_to_group(1, Signal::Kill).is_err());
    assert!(signal::send_to_group(0, Signal::Kill).is_err());
}

#[test]
fn threads_get_names_affinity_and_limits() {
    std::thread::spawn(|| {
        set_thread_name("a name longer than fits").unwrap();
        let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        assert_eq!(name, "a name longer t\n");
        let allowed = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let list = allowed
            .lines()
            .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))
            .unwrap();
        let first: usize = list
            .trim()
            .split([',', '-'])
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap();
        set_affinity(&[first]).unwrap();
        assert_eq!(std::thread::available_parallelism().unwrap().get(), 1);
        assert!(set_affinity(&[100_000]).is_err());
    })
    .join()
    .unwrap();
}

#[test]
fn the_machine_has_a_kernel_and_a_name() {
    let machine = machine().unwrap();
    assert_eq!(machine.system, "Linux");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(machine.release, release.trim());
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(machine.hostname, hostname.trim());
}

#[test]
fn limits_can_be_lowered() {
    use crate::limits::{Limit, Resource, get, set};
    let before = get(Resource::CoreBytes).unwrap();
    set(
        Resource::CoreBytes,
        Limit {
            soft: 0,
            hard: before.hard,
        },
    )
    .unwrap();
    assert_eq!(
        get(Resource::CoreBytes).unwrap(),
        Limit {
            soft: 0,
            hard: before.hard
        }
    );
    set(Resource::CoreBytes, before).unwrap();
    assert!(get(Resource::OpenFiles).unwrap().soft > 0);
}

#[test]
fn a_slice_is_accepted_and_changes_nothing_else() {
    // In a thread of its own, which ends with the setting.
    std::thread::spawn(|| {
        // SAFETY: no memory is involved.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = nice();
        match set_time_slice(Duration::from_micros(100)) {
            // A sandbox may forbid the call; it is a hint.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                return sealane_needs::leave_out("a sandbox forbids sched_setattr");
            }
            result => result.unwrap(),
        }
        assert_eq!(nice(), before);
    })
    .join()
    .unwrap();
}

#[test]
fn passed_descriptors_have_their_numbers_and_stay_open() {
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    // In another process, whose descriptors nobody else has.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let this = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(this);
    command
        .args([
            "--exact",
            "process::tests::passes_descriptors_on",
            "--nocapture",
        ])
        .env("SEALANE_PASS_ON", "1")
        .process_group(0)
        .stdout(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    assert!(child.wait().unwrap().success());
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(text.contains("first second"), "{text}");
}

/// Becomes a shell that reads what was passed on; only as the test above says so.
#[test]
fn passes_descriptors_on() {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::process::CommandExt;
    if std::env::var_os("SEALANE_PASS_ON").is_none() {
        return;
    }
    let mut pipes = Vec::new();
    for text in ["first ", "second"] {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        pipes.push(reader);
    }
    // The other way round than they were made: each has the other's number, or a lower one.
    pass_on(&[pipes[0].as_fd(), pipes[1].as_fd()], 3).unwrap();
    let error = std::process::Command::new("/bin/sh")
        .args(["-c", "cat <&3; cat <&4"])
        .exec();
    panic!("{error}");
}

#[test]
fn descriptors_are_closed_one_by_one_where_there_is_no_call_for_it() {
    use std::os::fd::IntoRawFd;
    let open = || std::fs::File::open("/dev/null").unwrap().into_raw_fd();
    let is_open = |fd: i32| std::fs::metadata(format!("/proc/self/fd/{fd}")).is_ok();
    // Far from those of other tests, which may get the number right after it is closed.
    // SAFETY: the number is free, and the descriptor that is copied is open.
    let high = |number: i32| unsafe { libc::fcntl(open(), libc::F_DUPFD_CLOEXEC, number) };
    let [kept, gone] = [high(700), high(800)];
    assert!(is_open(kept) && is_open(gone));
    close_one_by_one(750..=gone as u32).unwrap();
    assert!(is_open(kept) && !is_open(gone));
}
