//! The summary that `sealane -t` prints below nginx's two lines: how its directives are treated.

use crate::arguments::Arguments;
use crate::defaults::{self, Differs};
use crate::migrate::Reader;
use crate::paths::Places;
use crate::startup;
use crate::terminal::say;
use sealane_conf::diagnostic::printable;
use sealane_conf::met::{Idle, IdleReason, Met};
use std::fmt::Write;

/// The lines for a configuration that works.
pub(crate) fn lines(met: &Met) -> String {
    let differing = defaults::differing(met);
    let mut text = String::new();
    let head = head(met, differing.len());
    writeln!(text, "sealane: {head}").expect("writing to a string does not fail");
    // A warning has told the others.
    let silent = met.idle.iter();
    let silent = silent.filter(|idle| idle.reason == IdleReason::Meaningless);
    let silent: Vec<&Idle> = silent.collect();
    let mut idle = silent.as_slice();
    while let Some(first) = idle.first() {
        // One reason for several directives is printed once.
        let same = idle.iter().take_while(|one| one.why == first.why).count();
        let (group, rest) = idle.split_at(same);
        idle = rest;
        writeln!(text, "sealane: {}", idle_line(first, group))
            .expect("writing to a string does not fail");
    }
    for Differs {
        name, here, nginx, ..
    } in differing
    {
        writeln!(
            text,
            "sealane: {name}: {here} unless written (nginx: {nginx})"
        )
        .expect("writing to a string does not fail");
    }
    printable_lines(&text)
}

/// How many directives there are and what becomes of them, in a sentence without its stop.
fn head(met: &Met, differing: usize) -> String {
    let working = met.working;
    let mut head = match (working, met.idle_count()) {
        (1, 0) => "the only directive works".to_owned(),
        (_, 0) => format!("all {working} directives work"),
        (_, idle) => format!(
            "{} {} without effect",
            plural(working, "directive works,", "directives work,"),
            plural(idle, "is", "are")
        ),
    };
    if differing > 0 {
        let defaults = plural(differing, "default differs", "defaults differ");
        head.push_str(&format!("; {defaults} from nginx's"));
    }
    head
}

fn idle_line(first: &Idle, group: &[&Idle]) -> String {
    let names: Vec<String> = group
        .iter()
        .map(|idle| format!("\"{}\"", idle.name))
        .collect();
    let count: usize = group.iter().map(|idle| idle.count()).sum();
    let place = first.places.first().map_or(String::new(), |place| {
        format!(" in {}:{}", place.file.display(), place.line)
    });
    let more = match count {
        0 | 1 => String::new(),
        count => format!(" and {}", plural(count - 1, "other place", "other places")),
    };
    let why = first.why.trim_end_matches('.');
    format!("{}{place}{more}: {why}", names.join(", "))
}

/// `1 thing`, `2 things`.
pub(crate) fn plural(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    }
}

fn printable_lines(text: &str) -> String {
    let lines = text.lines().map(|line| printable(line) + "\n");
    lines.collect()
}

/// After the first fault: how many there are, so that nobody has to find them one by one.
pub(crate) fn all_faults(arguments: &Arguments, places: &Places) {
    // What is not a file, such as a pipe, is read once.
    if !places.conf_file.is_file() {
        return;
    }
    let options = startup::options(arguments, places);
    // Names are not looked up again, each of which may take its time.
    let survey = sealane_conf::survey(&options, &mut Reader::default());
    let faults = survey.refusals.len() + survey.unread.len();
    if faults < 2 {
        return;
    }
    let file = printable(&places.conf_file.display().to_string());
    say(&format!(
        "sealane: {faults} faults in all; \"sealane migrate {file}\" tells each of them\n"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_conf::{MemoryLoader, Options};

    fn of(text: &str) -> Vec<String> {
        let mut files = MemoryLoader::new().with("/c\u{1b}", text);
        let survey = sealane_conf::survey(&Options::new("/c\u{1b}", "/p"), &mut files);
        assert!(survey.refusals.is_empty(), "{:?}", survey.refusals);
        lines(&survey.met).lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_sum_is_in_the_first_line_and_details_follow() {
        assert_eq!(of("pid x; events {}"), ["sealane: all 2 directives work"]);
        assert_eq!(
            of(
                "lock_file x;\nevents {}\nhttp { read_ahead 1m; directio 4k; server { listen 80; read_ahead 0; } }"
            ),
            [
                "sealane: 4 directives work, 4 are without effect; 1 default differs from nginx's",
                "sealane: \"lock_file\" in /c\\x1B:1: Connections are accepted without a lock",
                "sealane: pid: logs/sealane.pid unless written (nginx: logs/nginx.pid)",
            ]
        );
    }
}
