//! What is said about configurations, word for word: the table of expected
//! messages, and the same table held against a real nginx.

mod advice;
mod caching;
mod differences;
mod http;
mod language;
mod locations;
mod passing;
mod passing_protocols;
mod restricting;
mod rewriting;
mod servers;
mod tls;
mod upstreams;

use sealane_conf::{Diagnostic, MemoryLoader, Options, parse};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A text and what is said about it, line by line; `FILE` stands for the
/// configuration file and `DIR` for its directory.
struct Case(Where, &'static str, &'static str);

/// A case in which nginx says something else, and why that is right.
struct Difference {
    case: Case,
    nginx: &'static str,
    why: &'static str,
}

/// What surrounds the text of a case.
#[derive(Clone, Copy)]
enum Where {
    /// Nothing.
    Whole,
    /// It stands in front of `events`, on the first line.
    Main,
    /// It stands in `http`, on the third line.
    Http,
    /// It stands in `server`, on the fourth line.
    Server,
    /// It stands in `location /`, on the fifth line.
    Location,
}

impl Case {
    fn configuration(&self) -> String {
        let text = self.1;
        match self.0 {
            Where::Whole => text.to_owned(),
            Where::Main => format!("{text}\nevents {{}}\n"),
            Where::Http => format!("events {{}}\nhttp {{\n{text}\n}}\n"),
            Where::Server => format!("events {{}}\nhttp {{\nserver {{\n{text}\n}}\n}}\n"),
            Where::Location => {
                format!("events {{}}\nhttp {{\nserver {{\nlocation / {{\n{text}\n}}\n}}\n}}\n")
            }
        }
    }
}

/// The rows that are held against nginx 1.22.
fn all_cases() -> impl Iterator<Item = &'static Case> {
    [
        language::CASES,
        http::CASES,
        servers::CASES,
        locations::CASES,
        passing::CASES,
        passing_protocols::CASES,
        caching::CASES,
        restricting::CASES,
        rewriting::CASES,
        tls::CASES,
    ]
    .into_iter()
    .flatten()
}

const FILE: &str = "/dir/nginx.conf";

/// What Sealane says, one line for each message, `OK` at the end if the
/// configuration can be used.
fn sealane_says(configuration: &str) -> String {
    let mut loader = MemoryLoader::new().with(FILE, configuration);
    let options = Options::new(FILE, "/dir");
    let line = |diagnostic: &Diagnostic| {
        format!("[{}] {}", diagnostic.level.name(), diagnostic.headline())
    };
    let mut lines: Vec<String>;
    match parse(&options, &mut loader) {
        Ok(config) => {
            lines = config.warnings.iter().map(line).collect();
            lines.push("OK".into());
        }
        Err(failure) => {
            lines = failure.warnings.iter().map(line).collect();
            lines.push(line(&failure.error));
        }
    }
    lines
        .join("\n")
        .replace(FILE, "FILE")
        .replace("\"/dir/", "\"DIR/")
}

#[test]
fn sealane_says_what_the_table_says() {
    let differing = differences::DIFFERENCES
        .iter()
        .map(|difference| &difference.case);
    let mut wrong = Vec::new();
    let newer = upstreams::DIFFERENCES
        .iter()
        .map(|difference| &difference.case)
        .chain(upstreams::CASES);
    for case in all_cases().chain(differing).chain(newer) {
        let says = sealane_says(&case.configuration());
        if says != case.2 {
            wrong.push(format!(
                "{:?}\n  expected {:?}\n  got      {says:?}",
                case.1, case.2
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A directory of its own that goes away with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sealane-conf-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(path.join("logs")).expect("a directory can be made");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory left behind does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What `nginx -t` says, in the form of [`sealane_says`].
fn nginx_says(nginx: &Path, configuration: &str) -> String {
    let scratch = Scratch::new();
    let directory = scratch
        .0
        .to_str()
        .expect("the temporary directory has a plain name");
    let file = scratch.0.join("nginx.conf");
    std::fs::write(&file, configuration).expect("the file can be written");
    let output = Command::new(nginx)
        .args(["-t", "-p", directory, "-c"])
        .arg(&file)
        .arg("-e")
        .arg(scratch.0.join("logs/error.log"))
        .output()
        .expect("nginx runs");
    let text = String::from_utf8_lossy(&output.stderr);
    let mut lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("nginx: "))
        .collect();
    lines.retain(|line| line.starts_with('['));
    if output.status.success() {
        lines.push("OK");
    }
    let file = file
        .to_str()
        .expect("the temporary directory has a plain name");
    lines
        .join("\n")
        .replace(file, "FILE")
        .replace(directory, "DIR")
}

/// Debian's nginx, which is what most of the table was held against.
fn nginx_1_22() -> Option<PathBuf> {
    let candidates = ["/usr/sbin/nginx", "/usr/bin/nginx"].map(PathBuf::from);
    usable(&candidates, "1.22.")
}

/// The nginx that `scripts/peers/build-nginx.sh` builds, for what is younger.
fn nginx_1_28() -> Option<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cache = std::env::var_os("SEALANE_CACHE");
    let cache = cache.map_or_else(|| repository.join(".cache"), PathBuf::from);
    usable(&[cache.join("peers/nginx-reference/sbin/nginx")], "1.28.")
}

/// The first of these programs that exists, if it has the version. Without root nginx checks ports
/// and users differently.
fn usable(candidates: &[PathBuf], wanted: &str) -> Option<PathBuf> {
    let Some(path) = candidates.iter().find(|path| path.exists()) else {
        sealane_needs::leave_out(format_args!("there is no nginx {wanted}x to compare with"));
        return None;
    };
    let output = Command::new(path).arg("-v").output().expect("nginx runs");
    let version = String::from_utf8_lossy(&output.stderr).into_owned();
    if !version.contains(&format!("nginx/{wanted}")) {
        let version = version.trim();
        sealane_needs::leave_out(format_args!(
            "the table is nginx {wanted}x's, not {version}'s"
        ));
        return None;
    }
    sealane_needs::root();
    Some(path.clone())
}

#[test]
fn nginx_says_the_same() {
    if let Some(nginx) = nginx_1_22() {
        compare(&nginx, all_cases(), differences::DIFFERENCES);
    }
}

#[test]
fn a_newer_nginx_says_the_same_about_what_is_younger() {
    if let Some(nginx) = nginx_1_28() {
        compare(&nginx, upstreams::CASES.iter(), upstreams::DIFFERENCES);
    }
}

fn compare<'c>(nginx: &Path, cases: impl Iterator<Item = &'c Case>, differences: &'c [Difference]) {
    let same = cases.map(|case| (case, case.2, ""));
    let different = differences
        .iter()
        .map(|difference| (&difference.case, difference.nginx, difference.why));
    let mut wrong = Vec::new();
    for (case, expected, why) in same.chain(different) {
        let says = nginx_says(nginx, &case.configuration());
        if says != expected {
            wrong.push(format!(
                "{:?} {why}\n  expected {expected:?}\n  nginx    {says:?}",
                case.1
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
