use super::*;
use sealane_conf::{MemoryLoader, Options};
use sealane_log::Logger;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const VALUE: &str = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0";

fn http(program: &Path, more: &str) -> Http {
    let program = program.display();
    let text = format!(
        "events {{}} http {{
         acme_issuer one {{ uri https://a.test/; challenge dns-01;
             dns_command {program} {more}; state_path off; }}
         acme_issuer other {{ uri https://b.test/; challenge dns-01;
             dns_command {program}; state_path /other; }}
         acme_issuer update {{ uri https://c.test/; challenge dns-01;
             dns_update 127.0.0.1; state_path /update; }}
         server {{ listen 80; acme_certificate one a.test *.b.test; }}
         server {{ listen 80; server_name o; acme_certificate other other.test; }}
         server {{ listen 80; server_name u; acme_certificate update u.test; }} }}"
    );
    let mut loader = MemoryLoader::new().with("/nginx.conf", text);
    let config = sealane_conf::parse(&Options::new("/nginx.conf", "/"), &mut loader);
    let Ok(config) = config else {
        panic!("it is a good one")
    };
    config.http.expect("it is there")
}

fn request(name: &str) -> DnsCommandRequest {
    DnsCommandRequest {
        id: 1,
        is_added: true,
        issuer: "one".to_owned(),
        name: name.to_owned(),
        record_name: name.to_owned(),
        value: VALUE.to_owned(),
    }
}

#[test]
fn a_worker_that_was_taken_over_gets_no_other_record_changed() {
    let http = http(Path::new("/bin/true"), "zone=acme.test");
    let good = request("_acme-challenge.a.test");
    let allowed = |request: &DnsCommandRequest| permitted(Some(&http), request).is_ok();
    assert!(allowed(&good));
    assert!(allowed(&request("_acme-challenge.b.test")), "of a wildcard");
    for name in [
        "",
        "a.test",
        "_acme-challenge",
        "_acme-challenge.",
        "_acme-challenge.test",
        "_acme-challenge.x.a.test",
        "_acme-challenge.other.test",
        "_acme-challenge.*.b.test",
        "_acme-challenge.A.test",
        "_acme-challenge.a.test.",
        "_acme-challengea.test",
        "x._acme-challenge.a.test",
        "_acme-challenge.a.test\n",
        "_acme-challenge.a.test; rm -rf /",
        "--help",
    ] {
        assert!(!allowed(&request(name)), "{name:?}");
    }
    let with = |change: &dyn Fn(&mut DnsCommandRequest)| {
        let mut changed = good.clone();
        change(&mut changed);
        allowed(&changed)
    };
    for issuer in ["", "two", "other", "update"] {
        assert!(!with(&|it| it.issuer = issuer.to_owned()), "{issuer:?}");
    }
    let update = DnsCommandRequest {
        issuer: "update".to_owned(),
        ..request("_acme-challenge.u.test")
    };
    assert!(!allowed(&update), "that issuer has no program");
    for value in [
        "",
        &VALUE[1..],
        &format!("{VALUE}A"),
        &VALUE.replace('L', " "),
        &VALUE.replace('L', "\""),
        &VALUE.replace('L', "="),
        &VALUE.replace('L', "\n"),
    ] {
        assert!(!with(&|it| it.value = value.to_owned()), "{value:?}");
    }
    for (target, is_allowed) in [
        ("acme.test", true),
        ("a.acme.test", true),
        ("_x.a.acme.test", true),
        ("xacme.test", false),
        ("a.acme.test.", false),
        (".acme.test", false),
        ("A.acme.test", false),
        ("a b.acme.test", false),
        ("$(id).acme.test", false),
        ("a\n.acme.test", false),
        ("_acme-challenge.b.test", false),
        ("www.other.test", false),
        ("", false),
    ] {
        let result = with(&|it| it.record_name = target.to_owned());
        assert_eq!(result, is_allowed, "{target:?}");
    }
    // Without a zone there is no alias at all.
    let other = DnsCommandRequest {
        issuer: "other".to_owned(),
        ..request("_acme-challenge.other.test")
    };
    assert!(allowed(&other));
    let elsewhere = DnsCommandRequest {
        record_name: "a.acme.test".to_owned(),
        ..other
    };
    assert!(!allowed(&elsewhere));
    assert!(permitted(None, &good).is_err());
}

/// A directory with a program; gone at the end.
struct ScriptDirectory(PathBuf);

impl ScriptDirectory {
    fn new(name: &str, script: &str) -> ScriptDirectory {
        let name = format!("sealane-command-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).expect("it is new");
        let place = ScriptDirectory(directory);
        let program = place.program();
        fs::write(
            &program,
            // Other shells clear the signal mask.
            format!("#!/bin/bash\ncd {}\n{script}", place.0.display()),
        )
        .expect("it is ours");
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("it is ours");
        place
    }

    fn program(&self) -> PathBuf {
        self.0.join("program")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    fn start(&self, more: &str) -> Result<Running, String> {
        let http = http(&self.program(), more);
        let request = request("_acme-challenge.a.test");
        let command = permitted(Some(&http), &request).expect("it is configured");
        Running::start(command, &request, None, &Guard::default())
    }
}

impl Drop for ScriptDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What the master does with a program until it has ended.
fn run(mut running: Running) -> Result<(), String> {
    let journal = Journal::running(Logger::discard());
    while let Some(fd) = running.fd() {
        let wait = running
            .due()
            .map(|at| at.saturating_duration_since(Instant::now()));
        let readable = poll::wait_readable(&[fd], wait).expect("it can be waited for");
        if readable == [true] {
            running.read(&journal);
        }
        if running.due().is_some_and(|at| Instant::now() >= at) {
            running.kill();
        }
    }
    let status = process::wait_for(running.pid()).expect("it is our child");
    running.finish(status, &journal)
}

#[test]
fn programs_get_their_arguments_and_nothing_else() {
    let script = "for word in \"$@\"; do echo \"$word\" >> words; done\n\
                  /usr/bin/env | grep -v -e ^PWD= -e ^OLDPWD= -e ^SHLVL= -e ^_= | sort > env\n\
                  ls /proc/self/fd > fds\n\
                  grep SigBlk /proc/self/status > signals\n\
                  cut -d' ' -f1,5 /proc/$$/stat > group\n\
                  read line < /dev/stdin && echo input > input\n\
                  echo out; exit 0";
    let place = ScriptDirectory::new("arguments", script);
    signal::block(&[Signal::Usr1]).expect("it can be blocked");
    // A descriptor that was inherited by mistake.
    let stray = fs::File::open("/dev/null").expect("there");
    let stray = sealane_sys::socket::inheritable(stray.as_fd()).expect("a descriptor is free");
    run(place.start("").expect("it starts")).expect("it succeeds");
    drop(stray);
    let words = format!("add\n_acme-challenge.a.test\n{VALUE}\n");
    assert_eq!(place.read("words"), words);
    let environment =
        format!("ACME_ISSUER=one\nACME_RECORD_NAME=_acme-challenge.a.test\nPATH={SEARCH_PATH}\n");
    assert_eq!(place.read("env"), environment);
    // The standard streams, and the one with which ls reads the directory.
    assert_eq!(place.read("fds"), "0\n1\n2\n3\n");
    assert_eq!(place.read("signals"), "SigBlk:\t0000000000000000\n");
    let group = place.read("group");
    let (pid, group) = group.trim().split_once(' ').expect("two numbers");
    assert_eq!(pid, group, "it leads a group of its own");
    assert_eq!(place.read("input"), "", "there is no input");
}

#[test]
fn failures_say_why() {
    let place = ScriptDirectory::new(
        "fails",
        "echo first >&2; printf 'no\\033[31m key' >&2; exit 3",
    );
    let why = run(place.start("").expect("it starts")).expect_err("it fails");
    assert_eq!(why, "the program exited with code 3: no [31m key");
    let place = ScriptDirectory::new("signal", "kill -9 $$");
    let why = run(place.start("").expect("it starts")).expect_err("it dies");
    assert_eq!(why, "the program exited on signal 9");
    fs::remove_file(place.program()).expect("it was there");
    let Err(why) = place.start("") else {
        panic!("there is no program")
    };
    assert!(why.contains("2: No such file or directory"), "{why}");
    fs::write(place.program(), "#!/no/such/interpreter\n").expect("ours");
    assert!(place.start("").is_err(), "it is not executable");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.program(), mode).expect("ours");
    assert!(place.start("").is_err(), "its interpreter is missing");
}

#[test]
fn a_program_that_hangs_is_killed_with_its_children() {
    let place = ScriptDirectory::new("hangs", "sleep 1000 & echo waiting >&2; sleep 1000");
    // The pipe only ends when the last of them is gone.
    let why = run(place.start("timeout=1s").expect("it starts")).expect_err("it hangs");
    assert_eq!(why, "the program was killed after 1 s: waiting");
}

#[test]
fn much_output_is_cut_and_keeps_nobody_waiting() {
    let script = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); \
                  echo \"line $i xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" >&2; \
                  done; exit 0";
    let place = ScriptDirectory::new("much", script);
    run(place.start("").expect("it starts")).expect("it succeeds");
}

#[test]
fn lines_are_bounded_in_length_and_number() {
    let mut lines = Lines::default();
    let mut logged = Vec::new();
    let long = [b'x'; 3 * MAX_LINE_BYTES];
    let mut log = |line: &str| logged.push(line.to_owned());
    lines.take(b"a", &mut log);
    lines.take(b"b\n\n \r\nc\xff\x1bd\n", &mut log);
    lines.take(&long, &mut log);
    lines.take(b"\n", &mut log);
    for _ in 0..2 * MAX_LINES {
        lines.take(b"more\n", &mut log);
    }
    lines.take(b"begun", &mut log);
    lines.end(&mut log);
    assert_eq!(logged[..2], ["ab", "c\u{fffd} d"]);
    assert_eq!(logged[2].len(), MAX_LINE_BYTES);
    assert_eq!(logged.len(), MAX_LINES);
    let more = 2 * MAX_LINES - (MAX_LINES - 3);
    let left_out = (2 * MAX_LINE_BYTES + 5 * more + 5) as u64;
    assert_eq!(lines.left_out_bytes, left_out);
}
