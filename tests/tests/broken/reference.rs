//! The same configurations given to nginx: which it refuses that are taken here, and the reverse.

use crate::judge::{Case, first_error};
use crate::texts::{BASE, LARGE};
use sealane_tests::{Outcome, Site, command, repository, sealane_binary};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Taken here, refused by nginx: by the beginning or the end of a name, with the reason.
const TAKEN_HERE: &[(&str, &str)] = &[
    ("*_password_file", "read where a key needs it"),
    ("aio", "without effect here, whatever it says"),
    ("debug_connection", "the same"),
    ("ssl_certificate_cache", "the same"),
    ("ssl_trusted_certificate", "the same"),
    ("thread_pool", "the same"),
    (
        "zone",
        "nothing is shared between processes, so that it needs no size",
    ),
    (
        "load_module",
        "a warning; the directives of the module are errors",
    ),
    ("access_log", "a log beside \"off\" is not opened"),
    ("keepalive", "nginx takes 0 since 1.29.7"),
];

/// Refused here, taken by nginx.
const REFUSED_HERE: &[(&str, &str)] = &[
    (
        "*_cache_path",
        "a file is no directory, and the root directory no cache",
    ),
    (
        "*_temp_path",
        "a file is no directory, and an empty path no path",
    ),
    (
        "working_directory",
        "nginx sees it when a worker cannot start",
    ),
    ("access_log", "an empty path is the prefix, a directory"),
    ("error_log", "the same"),
    ("pid", "the same"),
    ("ssl_dhparam", "the same"),
    ("ssl_ecdh_curve", "an empty list has no group"),
    ("include", "a device without end"),
    ("location", "blocks may be 64 deep"),
    (
        "ssl_certificate_key",
        "a key of another kind than the certificate's is of no use",
    ),
];

/// What nothing is to be learned from.
const NOT_COMPARED: &[&str] = &["unknown directive", "not supported", "is not built in"];

/// What came of giving configurations to both.
pub(crate) struct Compared {
    /// Configurations that both refuse.
    pub(crate) refused_by_both: usize,
    /// One line for each configuration that only one of the two refuses, and that is not listed.
    pub(crate) differences: Vec<String>,
}

/// Gives each configuration to both.
pub(crate) fn compare<'a>(site: &Site, cases: impl Iterator<Item = &'a Case>) -> Compared {
    let cache = std::env::var_os("SEALANE_CACHE");
    let cache = cache.map_or_else(|| repository().join(".cache"), PathBuf::from);
    let nginx = cache.join("peers/nginx-reference/sbin/nginx");
    let good = [BASE, LARGE].map(|good| site.fill_in(good)).concat();
    let good: BTreeSet<&str> = good.lines().collect();
    let mut compared = Compared {
        refused_by_both: 0,
        differences: Vec::new(),
    };
    for case in cases {
        let text = String::from_utf8_lossy(&case.text);
        // Words of nginx's end with NUL, and it does not look at encodings.
        if text.contains(['\0', char::REPLACEMENT_CHARACTER]) {
            continue;
        }
        // nginx waits for somebody who writes into a pipe.
        if text.contains("fifo") || text.contains("include parts/*.conf") {
            continue;
        }
        // It includes what leads back until its stack ends.
        let leads_back = ["include parts/ping.conf", "include parts/itself.conf"];
        if leads_back.iter().any(|include| text.contains(include)) {
            continue;
        }
        std::fs::write(site.path("sealane.conf"), &case.text).expect("the site is writable");
        let (ours, theirs) = (test(site, &sealane_binary()), test(site, &nginx));
        let known = match (ours.status, theirs.status) {
            (0, 1) => TAKEN_HERE,
            (1, 0) => REFUSED_HERE,
            (1, 1) => {
                compared.refused_by_both += 1;
                continue;
            }
            (0, 0) => continue,
            (ours, theirs) => panic!("Sealane ended with {ours}, nginx with {theirs}: {text}"),
        };
        let said = first_error(&ours.stderr).or_else(|| first_error(&theirs.stderr));
        let said = said.unwrap_or_default();
        if NOT_COMPARED
            .iter()
            .any(|word| said.contains(word) || text.contains(word))
        {
            continue;
        }
        let lines: Vec<&str> = text.lines().filter(|line| !good.contains(line)).collect();
        let is_listed = |line: &&str| known.iter().any(|(name, _)| is_about(line, name));
        if !lines
            .iter()
            .any(|line| line.split([';', '{']).any(|part| is_listed(&part)))
        {
            let who = if ours.status == 0 { "nginx" } else { "Sealane" };
            compared
                .differences
                .push(format!("only {who} refuses {}: {said}", lines.join(" ")));
        }
    }
    compared
}

fn test(site: &Site, binary: &std::path::Path) -> Outcome {
    let binary = binary.display().to_string();
    let (prefix, file) = (site.path(""), site.path("sealane.conf"));
    let (prefix, file) = (prefix.display().to_string(), file.display().to_string());
    let arguments = ["-p", &prefix, "-c", &file, "-e", "logs/error.log", "-t"];
    command(&binary, &arguments, b"")
}

fn is_about(statement: &str, name: &str) -> bool {
    let word = statement.split_whitespace().next().unwrap_or_default();
    match name.strip_prefix('*') {
        Some(end) => word.ends_with(end),
        None => word == name,
    }
}
