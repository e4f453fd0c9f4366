//! The report as text for a terminal, 80 columns wide: the verdict first, then what does not
//! work, then what is good to know.

use super::report::{Advice, Default, Kind, Message, Refused, Report, SourceLine, WithoutEffect};
use sealane_conf::diagnostic::printable;

/// Columns of a line.
const COLUMNS: usize = 79;

/// Places of directives without effect for the same reason that are shown.
const PLACES: usize = 6;

/// The report as text; with colours for a terminal.
pub(super) fn text(report: &Report, colours: bool) -> String {
    let mut page = Page {
        out: String::new(),
        colours,
    };
    let good = report.refused.is_empty() && report.unread.is_empty() && report.unfinished.is_none();
    let colour = if good { Colour::Green } else { Colour::Red };
    page.wrapped("", "", &format!("{}  ({})", report.file, report.version));
    page.coloured(colour, &report.verdict);
    if let Some(block) = report.read_as {
        let text =
            format!("This is part of a configuration; it was read as if included in {block}.");
        page.wrapped("", "", &text);
    }
    if let Some(end) = &report.unfinished {
        page.heading("Reading ended here");
        page.message(end);
    }
    page.refused("Does not work", &report.refused, Kind::Unsupported);
    page.refused("Not built yet", &report.refused, Kind::NotYet);
    page.refused("Unknown", &report.refused, Kind::Unknown);
    page.refused("Wrong, for nginx too", &report.refused, Kind::Wrong);
    page.messages("Could not be read", &report.unread);
    page.without_effect("No effect yet", &report.without_effect, "later");
    page.without_effect("Not needed here", &report.without_effect, "meaningless");
    page.without_effect("Removed by nginx", &report.without_effect, "obsolete");
    page.messages("Warnings", &report.warnings);
    page.defaults(&report.defaults);
    page.unchecked(&report.unchecked);
    page.advice(&report.advice);
    page.out
}

#[derive(Clone, Copy)]
enum Colour {
    Bold = 1,
    Red = 31,
    Green = 32,
    Yellow = 33,
}

struct Page {
    out: String,
    colours: bool,
}

impl Page {
    fn refused(&mut self, heading: &str, refused: &[Refused], kind: Kind) {
        let refused: Vec<&Refused> = refused.iter().filter(|it| it.kind == kind).collect();
        if refused.is_empty() {
            return;
        }
        self.heading(heading);
        for one in refused {
            let mark = self.paint(Colour::Red, "!");
            self.wrapped(&format!("  {mark} "), "    ", &one.message);
            for place in &one.places {
                self.place(place);
            }
            if let Some(remedy) = one.remedy.as_ref().filter(|remedy| !remedy.is_empty()) {
                self.wrapped("    => ", "       ", remedy);
            }
            if one.blocks_skipped && kind != Kind::Unsupported {
                self.wrapped(
                    "       ",
                    "       ",
                    "The contents of its block were not checked.",
                );
            }
        }
    }

    fn messages(&mut self, heading: &str, messages: &[Message]) {
        if messages.is_empty() {
            return;
        }
        self.heading(heading);
        for message in messages {
            self.message(message);
        }
    }

    fn message(&mut self, message: &Message) {
        let mark = self.paint(Colour::Yellow, "-");
        self.wrapped(&format!("  {mark} "), "    ", &message.message);
        if let Some(place) = &message.place {
            self.place(place);
        }
        if let Some(remedy) = message.remedy.as_ref().filter(|remedy| !remedy.is_empty()) {
            self.wrapped("    => ", "       ", remedy);
        }
    }

    fn without_effect(&mut self, heading: &str, list: &[WithoutEffect], reason: &str) {
        let list: Vec<&WithoutEffect> = list.iter().filter(|one| one.reason == reason).collect();
        if list.is_empty() {
            return;
        }
        self.heading(heading);
        let mut list = list.as_slice();
        while let Some(first) = list.first() {
            // One reason for several directives is printed once.
            let same = list.iter().take_while(|one| one.why == first.why).count();
            let (group, rest) = list.split_at(same);
            list = rest;
            let names: Vec<&str> = group.iter().map(|one| one.directive).collect();
            let mark = self.paint(Colour::Yellow, "-");
            let text = format!("{}: {}", names.join(", "), first.why);
            self.wrapped(&format!("  {mark} "), "    ", &text);
            let mut all: Vec<&SourceLine> = group.iter().flat_map(|one| &one.places).collect();
            let unlisted: usize = group.iter().map(|one| one.more).sum();
            let more = all.len().saturating_sub(PLACES) + unlisted;
            all.truncate(PLACES);
            all.dedup();
            let mut places: Vec<String> = all.into_iter().map(where_it_is).collect();
            if more > 0 {
                places.push(format!("and {more} more"));
            }
            self.wrapped("      ", "      ", &places.join(", "));
        }
    }

    fn defaults(&mut self, defaults: &[Default]) {
        if defaults.is_empty() {
            return;
        }
        self.heading("Defaults that differ from nginx");
        for one in defaults {
            let mark = self.paint(Colour::Yellow, "-");
            let text = format!(
                "{}: {} (nginx: {}); {}",
                one.directive, one.here, one.nginx, one.note
            );
            self.wrapped(&format!("  {mark} "), "    ", &text);
        }
    }

    fn unchecked(&mut self, unchecked: &[String]) {
        if unchecked.is_empty() {
            return;
        }
        self.heading("Not checked");
        for one in unchecked {
            let mark = self.paint(Colour::Yellow, "-");
            self.wrapped(&format!("  {mark} "), "    ", one);
        }
    }

    fn advice(&mut self, advice: &[Advice]) {
        if advice.is_empty() {
            return;
        }
        self.heading("Worth enabling");
        for one in advice {
            self.wrapped("  # ", "  # ", &one.why);
            let into = match one.into.as_str() {
                "main" => "outside of any block".to_owned(),
                "http" => "in http { }".to_owned(),
                "stream" => "in stream { }".to_owned(),
                "mail" => "in mail { }".to_owned(),
                other => other.to_owned(),
            };
            for line in &one.remove {
                let mark = self.paint(Colour::Red, &format!("-   {}", harmless(line)));
                self.line(&format!("  {mark}"));
            }
            for (at, line) in one.add.iter().enumerate() {
                let mark = self.paint(Colour::Green, &format!("+   {}", harmless(line)));
                let into = match at {
                    0 => format!("   # {into}"),
                    _ => String::new(),
                };
                self.line(&format!("  {mark}{into}"));
            }
        }
    }

    fn place(&mut self, place: &SourceLine) {
        let at = where_it_is(place);
        let room = COLUMNS.saturating_sub(8);
        let text = harmless(&place.text);
        if text.is_empty() || at.chars().count() + 2 + text.chars().count() <= room {
            let gap = if text.is_empty() { "" } else { "  " };
            self.line(&format!("      {at}{gap}{text}"));
            return;
        }
        self.line(&format!("      {at}"));
        let text: String = text.chars().take(room - 2).collect();
        self.line(&format!("        {text}"));
    }

    /// A blank line and a heading.
    fn heading(&mut self, text: &str) {
        let text = self.paint(Colour::Bold, text);
        self.line("");
        self.line(&text);
    }

    fn coloured(&mut self, colour: Colour, text: &str) {
        for line in wrap(text, COLUMNS) {
            let line = self.paint(colour, &line);
            self.line(&line);
        }
    }

    /// Running text behind a mark, further lines behind blanks as wide as it.
    fn wrapped(&mut self, first: &str, further: &str, text: &str) {
        let room = COLUMNS - further.chars().count();
        for (at, line) in wrap(text, room).iter().enumerate() {
            let lead = if at == 0 { first } else { further };
            self.line(&format!("{lead}{line}"));
        }
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn paint(&self, colour: Colour, text: &str) -> String {
        match self.colours {
            true => format!("\x1b[{}m{text}\x1b[0m", colour as u8),
            false => text.to_owned(),
        }
    }
}

fn where_it_is(place: &SourceLine) -> String {
    match place.file.as_str() {
        "" => "command line".to_owned(),
        file => format!("{}:{}", harmless(file), place.line),
    }
}

/// Text of the configuration, which must not control the terminal or change the direction of
/// text.
fn harmless(text: &str) -> String {
    let turns = |c: &char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let text = printable(text);
    text.chars()
        .map(|c| if turns(&c) { '\u{fffd}' } else { c })
        .collect()
}

/// Lines of at most `room` characters, broken at blanks, and where there are none in the word.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in harmless(text).split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        while rest.len() > room {
            let tail = rest.split_off(room);
            lines.push(rest.into_iter().collect());
            rest = tail;
        }
        let word: String = rest.into_iter().collect();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_blanks_and_in_words_that_are_too_long() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh i", 4), ["abcd", "efgh", "i"]);
        assert_eq!(wrap("", 4), [""; 0]);
        assert_eq!(wrap("ééé é", 3), ["ééé", "é"]);
    }

    #[test]
    fn nothing_of_the_configuration_steers_the_terminal() {
        assert_eq!(
            harmless("a\u{1b}[31m\u{202e}b\u{9b}c"),
            "a\\x1B[31m\u{fffd}b\\x9Bc"
        );
    }
}
