//! `sub_filter`: replaces texts, also those that span pieces of the body.

use super::head;
use super::pieces::Pieces;
use super::transformed::{Transform, TransformStatus, transform};
use crate::body_source::SourceError;
use crate::exchange::Exchange;
use crate::template;
use bytes::{Buf, Bytes};
use sealane_conf::model::SubFilter;
use sealane_conf::patterns::{Found, Patterns};
use sealane_io::chain::OutputChain;
use std::sync::Arc;

/// Applies to bodies of one of the types. As in nginx, compressed bodies are searched like others,
/// although the texts will not be found there.
pub(super) fn apply(exchange: &mut Exchange, settings: &Arc<SubFilter>) {
    let response = &exchange.response;
    let is_empty = response.content_length == Some(0);
    if is_empty || !head::is_of(response, &settings.types) {
        return;
    }
    let Some(search) = Substitution::new(exchange, settings) else {
        return;
    };
    exchange.response.content_length = None;
    // Part of another response: it has no head of its own.
    if !exchange.request.is_subrequest {
        if settings.last_modified {
            head::weaken_etag(exchange);
        } else {
            head::clear_validators(&mut exchange.response);
        }
    }
    transform(exchange, search);
}

struct Substitution {
    settings: Arc<SubFilter>,
    /// The patterns that are still searched for; with `None` the rest passes unchanged.
    patterns: Option<Arc<Patterns>>,
    /// The line of the configuration that each pattern comes from.
    lines: Vec<usize>,
    /// The replacement of each line, once it was needed.
    values: Vec<Option<Bytes>>,
    /// The end of the input so far, which may be the beginning of a match.
    held: Vec<u8>,
}

impl Substitution {
    fn new(exchange: &Exchange, settings: &Arc<SubFilter>) -> Option<Substitution> {
        let all = &settings.replacements;
        let (patterns, lines) = match all.patterns() {
            Some(patterns) => (Arc::clone(patterns), (0..all.lines.len()).collect()),
            None => {
                let texts = all
                    .lines
                    .iter()
                    .map(|line| template::evaluate(&line.text, exchange).into_owned());
                let (lines, texts): (Vec<usize>, Vec<Box<[u8]>>) = texts
                    .enumerate()
                    .filter(|(_, text)| !text.is_empty())
                    .map(|(number, text)| (number, text.into_boxed_slice()))
                    .unzip();
                (Arc::new(Patterns::new(texts)?), lines)
            }
        };
        Some(Substitution {
            settings: Arc::clone(settings),
            patterns: Some(patterns),
            values: vec![None; all.lines.len()],
            lines,
            held: Vec::new(),
        })
    }

    /// Searches `text` from its beginning and moves what is decided to `output`. Returns how far
    /// that is, and whether there is room for more.
    fn search(
        &mut self,
        exchange: &Exchange,
        text: &Bytes,
        ended: bool,
        output: &mut Pieces<'_>,
    ) -> (usize, bool) {
        let mut at = 0;
        while output.has_room() {
            let Some(patterns) = self.patterns.clone() else {
                output.push_part(text, at, text.len());
                return (text.len(), true);
            };
            let (start, found) = next(&patterns, text, at);
            output.push_part(text, at, start);
            at = start;
            match found {
                Found::Pattern(number) => {
                    let value = self.value(exchange, self.lines[number]);
                    output.push(&value);
                    at += patterns.texts()[number].len();
                    if self.settings.once {
                        self.forget(&patterns, number);
                    }
                }
                // At the end of the body, an incomplete match is none.
                Found::Undecided if ended => {
                    output.push_part(text, at, text.len());
                    return (text.len(), true);
                }
                Found::Undecided | Found::Nothing => return (at, true),
            }
        }
        (at, false)
    }

    /// `sub_filter_once`: this one was found.
    fn forget(&mut self, patterns: &Patterns, number: usize) {
        self.lines.remove(number);
        let mut texts = patterns.texts().to_vec();
        texts.remove(number);
        self.patterns = Patterns::new(texts).map(Arc::new);
    }

    fn value(&mut self, exchange: &Exchange, line: usize) -> Bytes {
        let lines = &self.settings.replacements.lines;
        let evaluate = || Bytes::from(template::evaluate(&lines[line].by, exchange).into_owned());
        self.values[line].get_or_insert_with(evaluate).clone()
    }
}

/// The first position from `from` on where a pattern matches or may begin, and the pattern.
fn next(patterns: &Patterns, text: &[u8], from: usize) -> (usize, Found) {
    if let Some((start, number)) = patterns.find(&text[from..]) {
        return (from + start, Found::Pattern(number));
    }
    // Only the end is left, where not every pattern can match completely.
    let end = (text.len() + 1).saturating_sub(patterns.longest());
    let mut at = from.max(end);
    while at < text.len() {
        match patterns.at(&text[at..]) {
            Found::Nothing => at += 1,
            found => return (at, found),
        }
    }
    (at, Found::Nothing)
}

impl Transform for Substitution {
    fn step(
        &mut self,
        exchange: &mut Exchange,
        input: &mut Bytes,
        ended: bool,
        output: &mut OutputChain,
        max_bytes: usize,
    ) -> Result<TransformStatus, SourceError> {
        let mut output = Pieces::new(output, max_bytes);
        loop {
            if self.held.is_empty() {
                let (done, room) = self.search(exchange, input, ended, &mut output);
                input.advance(done);
                if !room {
                    return Ok(TransformStatus::Full);
                }
                self.held.extend_from_slice(input);
                input.clear();
                return Ok(TransformStatus::Hungry);
            }
            // As much of the new input as is needed to decide about what is held, then the rest in
            // place.
            let longest = self.patterns.as_ref().map_or(0, |it| it.longest());
            let more = input.len().min(longest.max(MORE_BYTES));
            let mut text = std::mem::take(&mut self.held);
            text.extend_from_slice(&input[..more]);
            input.advance(more);
            let text = Bytes::from(text);
            let last = ended && input.is_empty();
            let (done, room) = self.search(exchange, &text, last, &mut output);
            self.held = text[done..].to_vec();
            if !room {
                return Ok(TransformStatus::Full);
            }
            if input.is_empty() {
                return Ok(TransformStatus::Hungry);
            }
        }
    }

    fn flush(&mut self, _exchange: &mut Exchange, output: &mut OutputChain) {
        // What cannot be the beginning of a match need not wait.
        let Some(patterns) = &self.patterns else {
            return;
        };
        let held = std::mem::take(&mut self.held);
        let is_beginning = |at: &usize| patterns.at_short(&held[*at..]) != Found::Nothing;
        let end = (0..held.len()).find(is_beginning).unwrap_or(held.len());
        self.held = held[end..].to_vec();
        output.push_bytes(held[..end].to_vec());
    }
}

/// Minimum of bytes that are copied to what is held.
const MORE_BYTES: usize = 256;

#[cfg(test)]
mod tests;
