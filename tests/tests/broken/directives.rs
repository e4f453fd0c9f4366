//! Mistakes in every directive of the table: in number and kind of the arguments, in the place, in
//! the form, and twice what may be there once.

use crate::judge::{Case, Expected};
use crate::texts::{Place, with};
use sealane_conf::directives::{
    self, ANYWHERE, Arity, CONTEXT_NAMES, Check, Contexts, EVENTS, HTTP, LOCATION, MAIN, Row,
    SERVER, Support,
};
use sealane_tests::random::Random;
use std::collections::BTreeSet;

/// Directives that look names up, for which anything may be a name.
const ADDRESSES: &[&str] = &[
    "debug_connection",
    "fastcgi_pass",
    "grpc_pass",
    "listen",
    "memcached_pass",
    "proxy_pass",
    "resolver",
    "scgi_pass",
    "server",
    "set_real_ip_from",
    "ssl_session_store",
    "ssl_stapling_responder",
    "uwsgi_pass",
];

/// No address, and no name either.
const NO_ADDRESS: [&str; 4] = ["127.0.0.1:99999", "127.0.0.1/99", "[::1", "\"\""];

/// What is seldom right.
const STRANGE: [&str; 6] = [
    "no-such-value",
    "-1",
    "99999999999999999999",
    "\"\"",
    "$no_such_variable",
    "on on",
];

/// The blocks that mistakes are made in. `if` and `limit_except` are not among them: they
/// need a location around them.
const BLOCKS: Contexts = MAIN | EVENTS | HTTP | SERVER | LOCATION | directives::UPSTREAM;

/// How many mistakes in each directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    /// One in every second directive, which the seed chooses.
    Sample,
    /// All in the first and the last block that it may stand in.
    All,
}

/// The mistakes in every directive, written into `base`.
pub(crate) fn cases(base: &str, amount: Amount, random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    for row in directives::rows() {
        let mut of_row = Vec::new();
        let contexts = contexts(row);
        let ends: BTreeSet<Contexts> = contexts
            .first()
            .into_iter()
            .chain(contexts.last())
            .copied()
            .collect();
        for context in ends {
            arity(row, context, &mut of_row);
            values(row, context, &mut of_row);
            form(row, context, &mut of_row);
            twice(row, context, &mut of_row);
        }
        elsewhere(row, &mut of_row);
        if amount == Amount::Sample {
            of_row = sample(of_row, random);
        }
        cases.extend(of_row.into_iter().map(|line| line.write(base, row.name)));
    }
    cases
}

/// A line with a mistake, and where it is written.
struct Line {
    class: &'static str,
    expected: Expected,
    place: Place,
    text: String,
}

impl Line {
    fn write(&self, base: &str, name: &str) -> Case {
        // What the base says itself would be there twice.
        let own = format!("{name} ");
        let base = match base.lines().take(2).any(|line| line.starts_with(&own)) {
            true => {
                let others = base
                    .split_inclusive('\n')
                    .filter(|line| !line.starts_with(&own));
                others.collect()
            }
            false => base.to_owned(),
        };
        Case {
            class: self.class,
            text: with(&base, self.place, &self.text).into_bytes(),
            expected: self.expected,
        }
    }
}

fn sample(lines: Vec<Line>, random: &mut Random) -> Vec<Line> {
    let mut classes: Vec<(&str, Vec<Line>)> = Vec::new();
    for line in lines {
        match classes.iter_mut().find(|(class, _)| *class == line.class) {
            Some((_, of_class)) => of_class.push(line),
            None => classes.push((line.class, vec![line])),
        }
    }
    let chosen = classes.into_iter().map(|(_, mut of_class)| {
        let index = random.below(of_class.len());
        of_class.swap_remove(index)
    });
    // One class of them, which is another one for other directives.
    let mut chosen: Vec<Line> = chosen.collect();
    if chosen.is_empty() || random.below(2) == 0 {
        return Vec::new();
    }
    let index = random.below(chosen.len());
    vec![chosen.swap_remove(index)]
}

/// The contexts of a row, one by one.
fn contexts(row: &Row) -> Vec<Contexts> {
    match row.contexts {
        ANYWHERE => vec![MAIN],
        some => {
            let all = CONTEXT_NAMES.iter().map(|(context, _)| *context);
            let here = all.filter(|context| BLOCKS & context != 0 && some & context != 0);
            here.collect()
        }
    }
}

fn statement(row: &Row, arguments: &str) -> String {
    match row.support.is_block() {
        true => format!("{} {arguments} {{ }}", row.name),
        false => format!("{} {arguments};", row.name),
    }
}

fn arity(row: &Row, context: Contexts, lines: &mut Vec<Line>) {
    let (low, high) = match row.arity {
        Arity::Between(low, high) => (low, Some(high)),
        Arity::AtLeast(low) => (low, None),
    };
    let fewer = low.checked_sub(1);
    let more = high
        .and_then(|high| high.checked_add(1))
        .filter(|more| *more < 10);
    for count in fewer.into_iter().chain(more) {
        lines.push(Line {
            class: "number of arguments",
            // Another row of the name may take so many.
            expected: Expected::Alike,
            place: Place::In(context),
            text: statement(row, &"1 ".repeat(usize::from(count))),
        });
    }
}

fn values(row: &Row, context: Contexts, lines: &mut Vec<Line>) {
    let takes_address = ADDRESSES.contains(&row.name) || row.name.ends_with("_bind");
    let strange = match takes_address {
        true => &NO_ADDRESS[..],
        false => &STRANGE[..],
    };
    let count = match row.arity {
        Arity::Between(low, high) => low.max(1).min(high),
        Arity::AtLeast(low) => low.max(1),
    };
    for value in strange.iter().filter(|_| count > 0) {
        lines.push(Line {
            class: "values",
            expected: Expected::Alike,
            place: Place::In(context),
            text: statement(row, &format!("{value} ").repeat(usize::from(count))),
        });
    }
}

/// A block where none belongs, and the reverse.
fn form(row: &Row, context: Contexts, lines: &mut Vec<Line>) {
    let valid = valid_arguments(row).unwrap_or_else(|| "1".to_owned());
    let text = match row.support.is_block() {
        true => format!("{} {valid};", row.name),
        false => format!("{} {valid} {{ }}", row.name),
    };
    lines.push(Line {
        class: "form of directives",
        expected: Expected::Alike,
        place: Place::In(context),
        text,
    });
}

fn twice(row: &Row, context: Contexts, lines: &mut Vec<Line>) {
    if let Some(valid) = valid_arguments(row) {
        let line = statement(row, &valid);
        lines.push(Line {
            class: "directives twice",
            expected: Expected::Alike,
            place: Place::In(context),
            text: format!("{line}\n{line}"),
        });
    }
}

/// Where no directive of the name may stand.
fn elsewhere(row: &Row, lines: &mut Vec<Line>) {
    let rows = directives::rows().filter(|other| other.name == row.name);
    let allowed = rows.fold(0, |all, other| all | other.contexts);
    for (context, _) in CONTEXT_NAMES
        .iter()
        .filter(|(context, _)| BLOCKS & !allowed & context != 0)
    {
        lines.push(Line {
            class: "misplaced directives",
            expected: Expected::Refused,
            place: Place::In(*context),
            text: statement(row, "1"),
        });
    }
}

/// Arguments in which nothing is wrong, where the table tells.
fn valid_arguments(row: &Row) -> Option<String> {
    let (Support::Meaningless(check, _) | Support::Later(check, _)) = row.support else {
        return Some(row.default.to_owned()).filter(|default| !default.is_empty());
    };
    Some(match check {
        Check::Flag => "on".to_owned(),
        Check::Number => "1".to_owned(),
        Check::Between(low, _) => low.to_string(),
        Check::Size | Check::Offset => "1k".to_owned(),
        Check::Buffers => "4 1k".to_owned(),
        Check::Time | Check::Seconds => "1s".to_owned(),
        Check::OneOf(words) => words.first()?.to_string(),
        Check::Any | Check::Text | Check::By(_) => return None,
    })
}
