//! Successive sets with the same writer.

use super::*;
use sealane_conf::{Config, MemoryLoader, Options};
use sealane_sys::guard::Guard;

/// A configuration whose server has these directives; `error_log` is `DIR/error`.
fn config(directory: &Directory, server: &str) -> Config {
    let dir = directory.0.display().to_string();
    let text = format!(
        "error_log DIR/error info; events {{}} http {{ log_format x $uri; access_log off;
         server {{ listen 127.0.0.1:80; {server} }} }}"
    );
    let mut loader = MemoryLoader::new().with("/c/nginx.conf", text.replace("DIR", &dir));
    let options = Options::new("/c/nginx.conf", "/c");
    sealane_conf::parse(&options, &mut loader).expect("the configuration is valid")
}

/// The loggers of the server's access logs.
fn loggers(config: &Config, set: &LogSet) -> Vec<AccessLogger> {
    let server = &config.http.as_ref().unwrap().servers[0];
    let logs = server.conf.access_logs.iter();
    logs.map(|log| set.access(log)).collect()
}

fn notices(config: &Config, set: &LogSet) -> Logger {
    set.logger(&config.main.error_logs)
}

/// What the worker makes of what the master has opened.
fn adopt(worker: &LogSet, config: &Config, master: &LogSet) -> LogSet {
    let descriptors = master.descriptors().unwrap();
    worker.adopt_next(config, descriptors).unwrap()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn open_files_below(directory: &Directory) -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets
        .filter(|target| target.starts_with(&directory.0))
        .count()
}

#[test]
fn shared_logs_go_on_in_order_and_a_log_that_is_no_longer_named_is_written_out_and_closed() {
    let directory = Directory::new("reload");
    let (kept, gone) = (directory.file("kept"), directory.file("gone"));
    let first = config(
        &directory,
        "access_log DIR/kept x; access_log DIR/gone x buffer=1m;",
    );
    let second = config(&directory, "access_log DIR/new x; access_log DIR/kept x;");
    // Two sets of their own stand for the two processes.
    let master = LogSet::open(&first, &Guard::default()).unwrap();
    let worker = LogSet::open(&first, &Guard::default()).unwrap();
    worker.start_writer(notices(&first, &worker)).unwrap();
    let old = loggers(&first, &worker);
    old[0].write_line(b"1\n");
    old[1].write_line(b"held back\n");
    flush_thread_buffers();

    // The log has been rotated away by the time of the reload, as nginx would notice.
    wait_for(&kept, |text| text == "1\n");
    fs::rename(&kept, directory.file("rotated")).unwrap();
    let next_of_master = master.open_next(&second, &Guard::default()).unwrap();
    let next = adopt(&worker, &second, &next_of_master);
    let new = loggers(&second, &next);
    old[0].write_line(b"2\n"); // the new configuration is not in effect yet
    flush_thread_buffers();
    wait_for(&directory.file("rotated"), |text| text == "1\n2\n");
    next_of_master.take_effect(notices(&second, &next_of_master));
    next.take_effect(notices(&second, &next));
    drop(worker);
    drop(master);
    old[0].write_line(b"3\n"); // of a request that began before
    new[1].write_line(b"4\n");
    new[0].write_line(b"new\n");
    flush_thread_buffers();
    wait_for(&kept, |text| text == "3\n4\n");
    wait_for(&directory.file("new"), |text| text == "new\n");
    assert_eq!(read(&gone), "", "still held back: a request may use it");
    drop(old);
    wait_for(&gone, |text| text == "held back\n");
    // error, kept and new, each in both sets.
    wait_until("the closed log's descriptor is given back", || {
        open_files_below(&directory) == 6
    });
    assert!(next.finish(PATIENCE));
}

#[test]
fn a_refused_configuration_leaves_everything_as_it_was() {
    let directory = Directory::new("refused");
    let first = config(&directory, "access_log DIR/kept x;");
    let set = LogSet::open(&first, &Guard::default()).unwrap();
    set.start_writer(notices(&first, &set)).unwrap();
    let before = open_files_below(&directory);
    let broken = config(&directory, "access_log DIR/kept x; access_log DIR/no/x x;");
    let error = set
        .open_next(&broken, &Guard::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("failed (2: No such file or directory)"),
        "{error}"
    );
    // Opened, but refused for another reason.
    let other = config(
        &directory,
        "access_log DIR/kept x buffer=1m; access_log DIR/b x;",
    );
    fs::rename(directory.file("kept"), directory.file("moved")).unwrap();
    drop(set.open_next(&other, &Guard::default()).unwrap());
    loggers(&first, &set)[0].write_line(b"as before\n");
    flush_thread_buffers();
    wait_for(&directory.file("moved"), |text| text == "as before\n");
    wait_until("nothing stays open", || {
        open_files_below(&directory) == before
    });
    assert!(set.finish(PATIENCE));
}

#[test]
fn buffers_are_those_of_the_new_configuration() {
    let directory = Directory::new("rebuffered");
    let held = config(&directory, "access_log DIR/log x buffer=1m;");
    let prompt = config(&directory, "access_log DIR/log x;");
    let set = LogSet::open(&held, &Guard::default()).unwrap();
    set.start_writer(notices(&held, &set)).unwrap();
    let logger = &loggers(&held, &set)[0];
    logger.write_line(b"held\n");
    flush_thread_buffers();
    let next = set.open_next(&prompt, &Guard::default()).unwrap();
    next.take_effect(notices(&prompt, &next));
    wait_for(&directory.file("log"), |text| text == "held\n");
    assert!(next.finish(PATIENCE));
}

#[test]
fn descriptors_that_do_not_fit_the_configuration_are_refused() {
    let directory = Directory::new("misfit");
    let first = config(&directory, "access_log DIR/a x;");
    let set = LogSet::open(&first, &Guard::default()).unwrap();
    let mut descriptors = set.descriptors().unwrap();
    let numbers: Vec<u16> = descriptors.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 1]);
    descriptors.pop();
    let error = set.adopt_next(&first, descriptors).unwrap_err();
    assert!(matches!(error, LogAdoptError::Missing { path } if path == directory.file("a")));
    let mut descriptors = set.descriptors().unwrap();
    descriptors[0].0 = 2;
    let error = set.adopt_next(&first, descriptors).unwrap_err();
    assert!(matches!(error, LogAdoptError::Unknown { index: 2 }));
}

#[test]
fn many_reloads_under_load_lose_no_line_and_keep_descriptors_and_lanes_flat() {
    let directory = Directory::new("many");
    let configs = [
        config(
            &directory,
            "access_log DIR/all x; access_log DIR/odd x buffer=64k;",
        ),
        config(
            &directory,
            "access_log DIR/even x; access_log DIR/all x buffer=4k flush=1s;",
        ),
    ];
    const RELOADS: usize = 200;
    const LINES: usize = 50;
    let mut set = LogSet::open(&configs[0], &Guard::default()).unwrap();
    set.start_writer(notices(&configs[0], &set)).unwrap();
    let mut threads = Vec::new();
    for reload in 0..RELOADS {
        let config = &configs[reload % 2];
        let next = set.open_next(config, &Guard::default()).unwrap();
        next.take_effect(notices(config, &next));
        set = next;
        let loggers = loggers(config, &set);
        threads.push(std::thread::spawn(move || {
            for line in 0..LINES {
                for logger in &loggers {
                    logger.write_line(format!("{reload} {line}\n").as_bytes());
                }
                if line % 10 == 0 {
                    flush_thread_buffers();
                }
            }
        }));
        if threads.len() == 8 {
            threads.drain(..).for_each(|thread| thread.join().unwrap());
        }
    }
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    wait_until("logs that are not named any more are closed", || {
        open_files_below(&directory) == 3
    });
    assert!(set.finish(PATIENCE));
    let count = |name: &str| read(&directory.file(name)).lines().count();
    assert_eq!(count("all"), RELOADS * LINES);
    assert_eq!(count("even"), RELOADS / 2 * LINES);
    assert_eq!(count("odd"), RELOADS / 2 * LINES);
    assert_eq!(
        read(&directory.file("error")),
        "",
        "nothing was lost or failed"
    );
}
