//! Compares the table with nginx's own: no directive may be missing, and each must have nginx's
//! contexts and numbers of arguments.

use super::{
    ACME_ISSUER, ANYWHERE, Arity, CONTEXT_NAMES, Contexts, EVENTS, HTTP, LIMIT_EXCEPT, LOCATION,
    LOCATION_IF, MAIL, MAIL_SERVER, MAIN, SERVER, SERVER_IF, STREAM, STREAM_SERVER,
    STREAM_UPSTREAM, Support, UPSTREAM, named, owner, works,
};
use std::collections::BTreeSet;

const NGINX: &str = include_str!("reference/nginx.txt");
const ELSEWHERE: &str = include_str!("reference/elsewhere.txt");

/// More arguments than any list of numbers in the reference has.
const MANY: usize = 12;

/// One line of the reference.
struct Reference {
    name: &'static str,
    contexts: Contexts,
    arguments: BTreeSet<usize>,
    block: bool,
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn reference() -> Vec<Reference> {
    lines(NGINX)
        .map(|line| {
            let mut words = line.split(' ');
            let mut word = || words.next().expect("a name, contexts and arguments");
            Reference {
                name: word(),
                contexts: contexts(word()),
                arguments: arguments(word()),
                block: words.next() == Some("block"),
            }
        })
        .collect()
}

fn contexts(letters: &str) -> Contexts {
    if letters == "any" {
        return ANYWHERE;
    }
    letters.chars().fold(0, |all, letter| {
        all | match letter {
            'M' => MAIN,
            'E' => EVENTS,
            'H' => HTTP,
            'S' => SERVER,
            'L' => LOCATION,
            'U' => UPSTREAM,
            's' => SERVER_IF,
            'l' => LOCATION_IF,
            'e' => LIMIT_EXCEPT,
            'T' => STREAM,
            't' => STREAM_SERVER,
            'u' => STREAM_UPSTREAM,
            'A' => MAIL,
            'a' => MAIL_SERVER,
            other => panic!("no such context: {other}"),
        }
    })
}

fn arguments(written: &str) -> BTreeSet<usize> {
    let number = |text: &str| text.parse::<usize>().expect("a number");
    if let Some(low) = written.strip_suffix('+') {
        return (number(low)..=MANY).collect();
    }
    if let Some((low, high)) = written.split_once('-') {
        return (number(low)..=number(high)).collect();
    }
    written.split(',').map(number).collect()
}

fn allowed(arity: Arity) -> BTreeSet<usize> {
    (0..=MANY).filter(|count| arity.allows(*count)).collect()
}

/// Where a newer nginx than the one that was read, or Tengine, takes other arguments: the name, and
/// how many.
const NEWER: &[(&str, usize)] = &[
    ("keepalive", 2),      // `local`, since 1.29.7
    ("limit_req", 4),      // `forbid_action=`, in Tengine
    ("limit_req_zone", 4), // a key of several variables, in Tengine
    ("limit_req_zone", 5),
    ("limit_req_zone", 6),
    ("limit_req_zone", 7),
    ("limit_req_zone", 8),
];

/// The numbers of arguments that a name takes in each context, and whether a block follows.
fn shapes<'a>(
    rows: impl Iterator<Item = (Contexts, BTreeSet<usize>, bool)> + 'a,
) -> Vec<(&'static str, BTreeSet<usize>, bool)> {
    let rows: Vec<_> = rows.collect();
    let of = |context: Contexts| rows.iter().find(|row| row.0 & context != 0);
    let shape = |(context, name): &(Contexts, &'static str)| {
        of(*context).map(|(_, arguments, block)| (*name, arguments.clone(), *block))
    };
    CONTEXT_NAMES.iter().filter_map(shape).collect()
}

#[test]
fn every_directive_of_nginx_has_a_row_and_stands_where_nginx_lets_it() {
    let reference = reference();
    let names: BTreeSet<&str> = reference.iter().map(|line| line.name).collect();
    let mut faults = Vec::new();
    for name in names {
        let rows = named(name.as_bytes()).iter().filter(|row| !row.own);
        // A block of a module that the reference does not have.
        let rows = rows.filter(|row| row.contexts != ACME_ISSUER);
        let here = shapes(rows.map(|row| {
            let mut arguments = allowed(row.arity);
            for (_, newer) in NEWER.iter().filter(|(newer, _)| *newer == name) {
                arguments.remove(newer);
            }
            (row.contexts, arguments, row.support.is_block())
        }));
        let lines = reference.iter().filter(|line| line.name == name);
        let nginx = shapes(lines.map(|line| (line.contexts, line.arguments.clone(), line.block)));
        if here != nginx {
            faults.push(format!("{name}:\n  nginx {nginx:?}\n  here  {here:?}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_directive_of_other_modules_has_an_answer() {
    let names = lines(ELSEWHERE).flat_map(|line| line.split(' '));
    let unknown: Vec<&str> = names
        .filter(|name| named(name.as_bytes()).is_empty() && owner(name.as_bytes()).is_none())
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let count = lines(ELSEWHERE).flat_map(|line| line.split(' ')).count();
    assert!(count > 1000, "the list was read: {count}");
}

#[test]
fn no_pattern_takes_a_directive_that_has_a_row() {
    // It would not be asked for it, so this is about names that the manual lists twice.
    for module in super::ELSEWHERE {
        for name in module.names.iter().filter(|name| !name.contains('*')) {
            assert!(named(name.as_bytes()).is_empty(), "{name} has a row");
        }
    }
    for name in ["listen", "root", "made_up", "lua", "by_lua"] {
        assert!(owner(name.as_bytes()).is_none(), "{name}");
    }
    for name in [
        "lua_code_cache",
        "access_by_lua_block",
        "auth_pam",
        "js_set",
    ] {
        assert!(owner(name.as_bytes()).is_some(), "{name}");
    }
}

#[test]
fn every_module_has_a_name_and_an_answer() {
    for module in super::ELSEWHERE {
        assert!(
            !module.names.is_empty() && module.instead.len() > 10,
            "{}",
            module.module
        );
        for name in module.names {
            assert!(name.matches('*').count() <= 1, "{name}: one star at most");
        }
    }
}

#[test]
fn what_is_named_instead_works() {
    let mut missing = Vec::new();
    for row in super::rows() {
        if let Support::Unsupported(why) = row.support {
            missing.extend(not_working(why));
        }
    }
    for module in super::ELSEWHERE {
        missing.extend(not_working(module.instead));
    }
    assert!(missing.is_empty(), "{missing:?}");
}

/// Directives that a text names in backticks and that do not work.
fn not_working(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let names = quoted.filter_map(|code| code.split(' ').next());
    names
        .filter(|name| !named(name.as_bytes()).is_empty() && !works(name))
        .collect()
}
