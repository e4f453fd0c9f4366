//! Whole chains: handles, queue, writer thread, files.

use super::*;
use sealane_conf::model::{AccessLog, ErrorLog, LogEscape, LogFormat, LogTarget, Template};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod reload;

/// Patience for what happens on another thread; a test fails after it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A directory that is removed at the end of its test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("sealane-log-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn error_log(path: &Path, level: LogLevel) -> ErrorLog {
    ErrorLog {
        target: LogTarget::File(path.to_owned()),
        level,
    }
}

fn access_log(path: &Path, buffer_bytes: Option<u64>, flush: Option<Duration>) -> AccessLog {
    let format = LogFormat {
        name: "x".into(),
        escape: LogEscape::None,
        line: Template::literal("x"),
    };
    AccessLog {
        target: LogTarget::File(path.to_owned()),
        path: None,
        format: Arc::new(format),
        buffer_bytes,
        flush,
        gzip: None,
        condition: None,
        ratio: None,
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Waits until a file's text is as wanted, and returns it.
fn wait_for(path: &Path, wanted: impl Fn(&str) -> bool) -> String {
    let start = Instant::now();
    loop {
        let text = read(path);
        if wanted(&text) {
            return text;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "{} holds only:\n{text}",
            path.display()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn lines_have_nginx_s_format_and_respect_levels() {
    let directory = Directory::new("format");
    let (all, errors) = (directory.file("all"), directory.file("errors"));
    let logs = [
        error_log(&all, LogLevel::Info),
        error_log(&errors, LogLevel::Error),
    ];
    let set = LogSet::of_logs(&logs, &[]).unwrap();
    let logger = set.logger(&logs);
    assert!(logger.enabled(LogLevel::Info) && !logger.enabled(LogLevel::Debug));
    log_error!(logger, Error, 17, "open() \"{}\" failed", "/x");
    log_error!(logger, Info, None, "client closed");
    log_error!(logger, Debug, None, "{}", panic_if_evaluated());

    let text = read(&errors);
    let (stamp, rest) = text.split_at(19);
    assert!(
        stamp
            .chars()
            .zip("0000/00/00 00:00:00".chars())
            .all(|(is, pattern)| {
                if pattern == '0' {
                    is.is_ascii_digit()
                } else {
                    is == pattern
                }
            })
    );
    let pid = std::process::id();
    let tid = sealane_sys::process::thread_id();
    assert_eq!(
        rest,
        format!(" [error] {pid}#{tid}: *17 open() \"/x\" failed\n")
    );
    let text = read(&all);
    assert_eq!(text.lines().count(), 2);
    assert!(text.ends_with(&format!(" [info] {pid}#{tid}: client closed\n")));
}

fn panic_if_evaluated() -> String {
    panic!("arguments of an unwanted line were evaluated")
}

#[test]
fn nobody_can_forge_a_line_or_send_colours() {
    let line = error::format_line(
        LogLevel::Error,
        None,
        format_args!(
            "uri \"{}\"",
            "/a\n2026/01/01 00:00:00 [error] fake\x1b[31m\u{85}é"
        ),
    );
    let line = String::from_utf8(line.text).unwrap();
    assert_eq!(line.matches('\n').count(), 1);
    assert!(
        line.ends_with("\"/a\\x0A2026/01/01 00:00:00 [error] fake\\x1B[31m\\x85é\"\n"),
        "{line}"
    );
}

#[test]
fn long_lines_are_cut_between_characters() {
    for shift in 0..4 {
        let text = format!("{}{}", "x".repeat(shift), "€".repeat(4000));
        let line = error::format_line(LogLevel::Warn, Some(1), format_args!("{text}")).text;
        assert!(line.len() <= MAX_ERROR_LINE_BYTES && line.len() > MAX_ERROR_LINE_BYTES - 4);
        assert!(String::from_utf8(line).unwrap().ends_with("€\n"));
    }
}

#[test]
fn the_same_path_is_opened_once_and_a_missing_directory_named() {
    let directory = Directory::new("once");
    let path = directory.file("log");
    let logs = [
        error_log(&path, LogLevel::Warn),
        error_log(&path, LogLevel::Error),
    ];
    let set = LogSet::of_logs(&logs, &[]).unwrap();
    assert_eq!(set.files().count(), 1);
    let missing = directory.file("none/log");
    let error = LogSet::of_logs(&[error_log(&missing, LogLevel::Warn)], &[]).unwrap_err();
    let expected = format!(
        "open() \"{}\" failed (2: No such file or directory)",
        missing.display()
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_discarded_log_costs_nothing_and_is_no_file() {
    let log = ErrorLog {
        target: LogTarget::Discard,
        level: LogLevel::Debug,
    };
    let set = LogSet::of_logs(std::slice::from_ref(&log), &[]).unwrap();
    assert!(!set.logger(&[log]).enabled(LogLevel::Emerg));
    let mut access = access_log(Path::new("/x"), None, None);
    access.target = LogTarget::Discard;
    assert!(set.access(&access).is_discard());
}

#[test]
fn lines_of_all_threads_arrive_whole_through_the_writer() {
    let directory = Directory::new("threads");
    let (error_path, access_path) = (directory.file("error"), directory.file("access"));
    let errors = [error_log(&error_path, LogLevel::Info)];
    let access = access_log(&access_path, None, None);
    let set = LogSet::of_logs(&errors, std::slice::from_ref(&access)).unwrap();
    let logger = set.logger(&errors);
    set.start_writer(logger.clone()).unwrap();
    const LINES: usize = 2_000;
    let threads = (0..4).map(|thread| {
        let (logger, access) = (logger.clone(), set.access(&access));
        std::thread::spawn(move || {
            for line in 0..LINES {
                access.write_line(format!("{thread} {line} of a request\n").as_bytes());
                if line % 100 == 0 {
                    log_error!(logger, Info, line as u64, "thread {thread}");
                    flush_thread_buffers();
                }
            }
            // What is gathered still goes out when the thread ends.
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
    assert!(set.finish(PATIENCE));
    assert_eq!(read(&error_path).lines().count(), 4 * LINES / 100);
    let text = read(&access_path);
    for thread in 0..4 {
        let prefix = format!("{thread} ");
        let of_thread: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with(&prefix))
            .collect();
        let expected: Vec<String> = (0..LINES)
            .map(|line| format!("{thread} {line} of a request"))
            .collect();
        assert_eq!(of_thread, expected, "complete and in order");
    }
    log_error!(logger, Info, None, "after the end");
    assert!(
        read(&error_path).ends_with("after the end\n"),
        "written directly"
    );
}

#[test]
fn a_flushed_line_arrives_without_further_lines() {
    let directory = Directory::new("prompt");
    let path = directory.file("access");
    let access = access_log(&path, None, None);
    let set = LogSet::of_logs(&[], std::slice::from_ref(&access)).unwrap();
    set.start_writer(Logger::discard()).unwrap();
    set.access(&access).write_line(b"one\n");
    flush_thread_buffers();
    wait_for(&path, |text| text == "one\n");
    assert!(set.finish(PATIENCE));
}

#[test]
fn a_buffered_log_waits_for_its_bytes_or_its_time() {
    let directory = Directory::new("buffered");
    let (by_size, by_time) = (directory.file("size"), directory.file("time"));
    let logs = [
        access_log(&by_size, Some(1_000), None),
        access_log(&by_time, Some(1 << 20), Some(Duration::from_millis(300))),
    ];
    let set = LogSet::of_logs(&[], &logs).unwrap();
    set.start_writer(Logger::discard()).unwrap();
    let start = Instant::now();
    for log in &logs {
        set.access(log).write_line(b"short\n");
    }
    flush_thread_buffers();
    wait_for(&by_time, |text| text == "short\n");
    assert!(
        start.elapsed() >= Duration::from_millis(300),
        "not before its time"
    );
    assert_eq!(read(&by_size), "", "no time was given, so only bytes count");
    set.access(&logs[0]).write_line(&[b'x'; 1_000]);
    flush_thread_buffers();
    wait_for(&by_size, |text| text.len() == 1_006);
    set.access(&logs[0]).write_line(b"last\n");
    flush_thread_buffers();
    assert!(set.finish(PATIENCE));
    assert!(
        read(&by_size).ends_with("last\n"),
        "the end writes everything"
    );
}

#[test]
fn a_log_named_with_and_without_buffer_is_not_held_back() {
    let directory = Directory::new("mixed");
    let path = directory.file("log");
    let logs = [
        access_log(&path, Some(1 << 20), None),
        access_log(&path, None, None),
    ];
    let set = LogSet::of_logs(&[], &logs).unwrap();
    set.start_writer(Logger::discard()).unwrap();
    set.access(&logs[0]).write_line(b"now\n");
    flush_thread_buffers();
    wait_for(&path, |text| text == "now\n");
    assert!(set.finish(PATIENCE));
}

#[test]
fn reopening_finishes_the_old_file_and_goes_on_with_the_new_one() {
    let directory = Directory::new("reopen");
    let (path, rotated) = (directory.file("access"), directory.file("access.1"));
    // Held back for ever, so that only the reopening itself can bring the lines out.
    let access = access_log(&path, Some(1 << 20), None);
    let set = LogSet::of_logs(&[], std::slice::from_ref(&access)).unwrap();
    set.start_writer(Logger::discard()).unwrap();
    set.access(&access).write_line(b"before\n");
    flush_thread_buffers();
    fs::rename(&path, &rotated).unwrap();
    assert!(set.reopen().is_empty());
    wait_for(&rotated, |text| text == "before\n");
    set.access(&access).write_line(b"after\n");
    flush_thread_buffers();
    assert!(set.finish(PATIENCE));
    assert_eq!(read(&path), "after\n");
    assert_eq!(read(&rotated), "before\n");

    // Without a writer, as in the master.
    fs::rename(&path, &rotated).unwrap();
    assert!(set.reopen().is_empty());
    set.access(&access).write_line(b"direct\n");
    assert_eq!(read(&path), "direct\n");

    fs::remove_dir_all(&directory.0).unwrap();
    assert_eq!(set.reopen().len(), 1, "it cannot be opened, and says so");
}

#[test]
fn a_full_disk_is_reported_once_and_its_end_with_the_losses() {
    let directory = Directory::new("full");
    let error_path = directory.file("error");
    let errors = [error_log(&error_path, LogLevel::Error)];
    let access = access_log(Path::new("/dev/full"), None, None);
    let set = LogSet::of_logs(&errors, std::slice::from_ref(&access)).unwrap();
    set.start_writer(set.logger(&errors)).unwrap();
    let logger = set.access(&access);
    logger.write_line(b"kept\n");
    flush_thread_buffers();
    let text = wait_for(&error_path, |text| !text.is_empty());
    let expected = "log file \"/dev/full\" cannot be written (28: No space left on device); \
         the service goes on, 4096 KiB of lines are kept, later ones dropped";
    assert!(
        text.contains("[alert]") && text.contains(expected),
        "{text}"
    );

    // More than fits.
    let line = [b'x'; 1023]
        .iter()
        .chain(b"\n")
        .copied()
        .collect::<Vec<u8>>();
    for _ in 0..6 * 1024 {
        logger.write_line(&line);
    }
    flush_thread_buffers();
    // Space again: the master hands over a file that can be written.
    let recovered = directory.file("recovered");
    let file = fs::File::options()
        .append(true)
        .create(true)
        .open(&recovered)
        .unwrap();
    let index = set
        .files()
        .find(|file| file.path == Path::new("/dev/full"))
        .unwrap()
        .index;
    set.replace(index, file.into());
    let text = wait_for(&error_path, |text| text.contains("can be written again"));
    assert!(set.finish(PATIENCE));
    assert_eq!(
        text.lines().count(),
        2,
        "one line at the start, one at the end:\n{text}"
    );
    let kept = read(&recovered);
    assert!(kept.starts_with("kept\n"), "what was waiting is not lost");
    let kept_lines = kept.lines().count() - 1;
    let lost: usize = text
        .split_once(" s; ")
        .and_then(|(_, rest)| rest.split_once(" lines were lost"))
        .and_then(|(count, _)| count.parse().ok())
        .expect("the number of lost lines");
    assert_eq!(
        kept_lines + lost,
        6 * 1024,
        "every line is written or counted"
    );
    assert!(lost > 0 && kept.len() <= QUEUE_BYTES_PER_FILE);
}

#[test]
fn lines_that_come_too_fast_are_dropped_counted_and_reported() {
    use std::io::Read;
    use std::os::fd::OwnedFd;
    let directory = Directory::new("slow");
    let (error_path, path) = (directory.file("error"), directory.file("access"));
    let errors = [error_log(&error_path, LogLevel::Error)];
    let access = access_log(&path, None, None);
    let set = LogSet::of_logs(&errors, std::slice::from_ref(&access)).unwrap();
    // A pipe that nobody reads for now stands for a disk that hangs.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let index = set.files().find(|file| file.path == path).unwrap().index;
    set.replace(index, OwnedFd::from(writer));
    set.start_writer(set.logger(&errors)).unwrap();
    let line = [[b'x'; 1023].as_slice(), b"\n"].concat();
    const LINES: usize = 10 * 1024;
    let logger = set.access(&access);
    let worker = std::thread::spawn(move || {
        for _ in 0..LINES {
            logger.write_line(&line); // returns though the "disk" hangs
        }
    });
    worker.join().unwrap();
    assert!(
        !set.finish(Duration::from_millis(50)),
        "the end does not wait for ever"
    );

    let arrived = std::thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        all.iter().filter(|&&byte| byte == b'\n').count()
    });
    assert!(set.finish(PATIENCE));
    drop(set); // closes the pipe
    let count_in = |line: &str| {
        let (_, message) = line.split_once(": ")?;
        message
            .split_once(" lines for log file")?
            .0
            .parse::<usize>()
            .ok()
    };
    let lost: usize = read(&error_path).lines().filter_map(count_in).sum();
    assert!(lost > 0);
    assert_eq!(
        arrived.join().unwrap() + lost,
        LINES,
        "every line is written or counted"
    );
}

#[test]
fn a_panic_becomes_two_alerts() {
    // The hook belongs to the whole process, so this runs in a process of its own.
    const MARK: &str = "SEALANE_LOG_PANIC_TEST";
    let directory = Directory::new("panic");
    let path = directory.file("error");
    if let Some(path) = std::env::var_os(MARK) {
        let logs = [error_log(Path::new(&path), LogLevel::Error)];
        sealane_sys::crash::install(sealane_sys::crash::Role::Worker).unwrap();
        report_panics_to(LogSet::of_logs(&logs, &[]).unwrap().logger(&logs));
        let thread = std::thread::Builder::new().name("worker-7".into());
        let ended = thread
            .spawn(|| panic!("first line\nsecond {}", 42))
            .unwrap()
            .join();
        assert!(ended.is_err());
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "tests::a_panic_becomes_two_alerts",
            "--nocapture",
        ])
        .env(MARK, &path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = read(&path);
    assert_eq!(text.lines().count(), 2, "{text}");
    let (text, stack) = text.split_once('\n').unwrap();
    assert!(
        stack.contains("[alert]") && stack.contains("addr2line -Cfipe /"),
        "{stack}"
    );
    assert!(stack.matches(" 0x").count() > 3, "{stack}");
    assert!(text.contains("[alert]") && text.contains("thread \"worker-7\" panicked at "));
    assert!(text.contains(": first line\\x0Asecond 42; "), "{text}");
}

#[test]
fn a_pipe_gets_whole_lines() {
    let directory = Directory::new("fifo");
    let path = directory.file("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let logs = [error_log(&path, LogLevel::Error)];
    let set = LogSet::of_logs(&logs, &[]).unwrap();
    let logger = set.logger(&logs);
    set.start_writer(Logger::discard()).unwrap();
    // A pipe holds 64 KiB, which are no whole number of these lines.
    for number in 0..3000 {
        log_error!(logger, Error, None, "{number:>90}");
    }
    set.finish(Duration::from_secs(10));
    let mut reader = std::fs::OpenOptions::new();
    let mut reader =
        std::os::unix::fs::OpenOptionsExt::custom_flags(reader.read(true), libc::O_NONBLOCK)
            .open(&path)
            .unwrap();
    let mut text = Vec::new();
    // It ends with the error that there is no more, as there are writers.
    let _ = std::io::Read::read_to_end(&mut reader, &mut text);
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.len() > 32 << 10 && text.ends_with('\n'),
        "{}",
        text.len()
    );
    let whole = |(number, line): (usize, &str)| line.ends_with(&format!("{number:>90}"));
    assert!(text.lines().enumerate().all(whole));
}
