//! The manual page and the completions of shells, compared with the command line.

use crate::SUBCOMMANDS;
use crate::arguments::{self, ArgumentError, Arguments};
use crate::paths::{ONE_DIRECTORY, PACKAGE};
use sealane_manuals::Page;
use std::ffi::OsString;

const DESCRIPTION: &str = include_str!("manual/description.roff");
const REST: &str = include_str!("manual/rest.roff");

/// All that the program takes.
fn command_line() -> clap::Command {
    let commands = SUBCOMMANDS.iter().map(|it| {
        let name = it.name;
        (it.describe)()
            .name(name)
            .bin_name(format!("sealane {name}"))
    });
    arguments::describe().subcommands(commands)
}

#[test]
fn the_manual_page_and_completions_are_current() {
    let page = Page {
        section: "8",
        description: DESCRIPTION,
        rest: REST,
    };
    sealane_manuals::check(&command_line(), &page);
}

#[test]
fn every_letter_that_the_program_takes_is_described() {
    let described = arguments::describe();
    let letters: String = described
        .get_arguments()
        .filter_map(clap::Arg::get_short)
        .collect();
    for letter in (b'!'..=b'~').map(char::from) {
        let parsed = Arguments::parse(&[OsString::from(format!("-{letter}"))]);
        let takes = !matches!(parsed, Err(ArgumentError::UnknownLetter(_)));
        let is_described = letters.contains(letter) || letter == '?';
        assert_eq!(takes, is_described, "-{letter}");
    }
    let signals = described
        .get_arguments()
        .find(|arg| arg.get_short() == Some('s'));
    for value in signals.expect("-s").get_possible_values() {
        let words = ["-s".into(), OsString::from(value.get_name())];
        assert!(Arguments::parse(&words).is_ok_and(|it| it.signal.is_some()));
    }
}

#[test]
fn the_manual_has_the_paths_of_both_layouts() {
    for layout in [PACKAGE, ONE_DIRECTORY] {
        let paths = [layout.prefix, layout.conf, layout.error_log, layout.pid];
        for path in paths {
            assert!(REST.contains(path), "{path}");
        }
    }
}
