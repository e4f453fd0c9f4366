//! Commands of POP3 and SMTP: a verb and arguments on a line. A line may end with LF alone.

use super::Parsed;
use super::command::{Command, Verb, verb_named};
use crate::secret::Secret;

/// What the commands of a protocol look like.
pub(super) struct LineRules {
    pub(super) verbs: &'static [(&'static str, Verb)],
    pub(super) max_arguments: usize,
}

/// Looks for a command at the beginning of the input.
pub(super) fn parse(input: &[u8], in_exchange: bool, rules: &LineRules) -> Parsed {
    let Some(end) = memchr::memchr(b'\n', input) else {
        return Parsed::More;
    };
    let bytes = end + 1;
    match command(&input[..end], in_exchange, rules) {
        Some(command) => Parsed::Command(command, bytes),
        None => Parsed::Invalid { bytes, end: false },
    }
}

/// `line` is without its LF.
fn command(line: &[u8], in_exchange: bool, rules: &LineRules) -> Option<Command> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if memchr::memchr(b'\r', line).is_some() {
        return None;
    }
    let mut at = 0;
    let mut ends = Vec::new();
    let verb = if in_exchange {
        // The response begins with the line, even if there is nothing.
        at = word_end(line, 0);
        ends.push((0, at));
        Verb::Response
    } else {
        let end = word_end(line, at);
        at = end;
        verb_named(&line[..end], rules.verbs)?
    };
    loop {
        let spaces = line[at..].iter().take_while(|&&byte| byte == b' ');
        at += spaces.count();
        if at == line.len() {
            break;
        }
        if ends.len() == rules.max_arguments {
            return None;
        }
        // Names and passwords may contain spaces.
        let end = match verb {
            Verb::User | Verb::Pass => line.len(),
            _ => word_end(line, at),
        };
        ends.push((at, end));
        at = end;
    }
    let last = ends.last().map_or(at, |(_, end)| *end);
    let secret = |&(start, end): &(usize, usize)| Secret::new(line[start..end].to_vec());
    Some(Command {
        verb,
        text: Secret::new(line[..last].to_vec()),
        arguments: ends.iter().map(secret).collect(),
    })
}

/// Where the word ends that begins at `start`.
fn word_end(line: &[u8], start: usize) -> usize {
    memchr::memchr(b' ', &line[start..]).map_or(line.len(), |length| start + length)
}
