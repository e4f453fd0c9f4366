//! The parser's messages about a configuration.

use crate::model::{LogLevel, Origin, Source};
use crate::store_url::masked;
use std::fmt;
use std::path::PathBuf;

/// One message about the configuration, printed as nginx prints it and then
/// with the line, a caret and, where there is one, a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// `emerg` for what refuses the configuration, else `warn` or `notice`.
    pub level: LogLevel,
    /// nginx's words, without the place.
    pub message: String,
    /// Where in the configuration; `None` when the whole is meant.
    pub place: Option<SourceLocation>,
    /// What to do about it, in a sentence or as `did you mean "root"?`.
    pub help: Option<String>,
}

/// The place in the configuration that a [`Diagnostic`] points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file as opened; `None` for the `-g` argument.
    pub file: Option<PathBuf>,
    /// Line, from 1.
    pub line: u32,
    /// Byte of `source_line` to point at, from 1.
    pub column: u32,
    /// The text of the line that the message points at, without its end; for a very
    /// long line, the part around the error. Empty when not known. In a directive of
    /// several lines it may be above `line`, which is the directive's end.
    pub source_line: String,
}

/// The configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Warnings met before the error.
    pub warnings: Vec<Diagnostic>,
    /// The error; like nginx, the parser stops at the first.
    pub error: Box<Diagnostic>,
}

/// Longest part of a source line that is shown.
const SHOWN_LINE_CHARS: usize = 160;

impl Diagnostic {
    /// The message with its place, without the program's name and the level:
    /// `unknown directive "foo" in /etc/nginx/nginx.conf:3`. This is what the
    /// error log gets. Users and passwords in URLs of stores are masked, control characters
    /// escaped.
    pub fn headline(&self) -> String {
        let message = masked(&self.message);
        let headline = match &self.place {
            None => message,
            Some(SourceLocation {
                file: Some(file),
                line,
                ..
            }) => {
                format!("{message} in {}:{line}", file.display())
            }
            Some(SourceLocation { file: None, .. }) => format!("{message} in command line"),
        };
        printable(&headline)
    }
}

impl Diagnostic {
    /// The message alone, masked and printable like the headline.
    pub fn text(&self) -> String {
        printable(&masked(&self.message))
    }
}

/// The text with control characters escaped as in the error log, for a terminal: it would obey
/// them, and the configuration may come from someone else.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => out.push_str(&format!("\\x{:02X}", c as u32)),
            false => out.push(c),
        }
    }
    out
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sealane: [{}] {}", self.level.name(), self.headline())?;
        if let Some(place) = self
            .place
            .as_ref()
            .filter(|place| !place.source_line.is_empty())
        {
            let (line, caret) = place.excerpt();
            write!(f, "\n    {line}\n    {caret}^")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n{help}")?;
        }
        Ok(())
    }
}

impl SourceLocation {
    /// The line, masked, printable, without the blanks around it; for a long one, `most`
    /// characters around the error.
    pub fn shown_line(&self, most: usize) -> String {
        let line = printable(masked(&self.source_line).trim());
        let count = line.chars().count();
        if count <= most {
            return line;
        }
        let indent = self.source_line.len() - self.source_line.trim_start().len();
        let column = (self.column as usize).saturating_sub(indent + 1);
        let dots = "...".chars();
        let room = most.saturating_sub(6);
        // Bytes are near enough to characters: it is only about what is cut.
        let skipped = column.saturating_sub(room / 4).min(count - room);
        match skipped {
            0 => line
                .chars()
                .take(most.saturating_sub(3))
                .chain(dots)
                .collect(),
            _ if skipped + room >= count => dots.chain(line.chars().skip(skipped)).collect(),
            _ => {
                let middle = line.chars().skip(skipped).take(room);
                dots.clone().chain(middle).chain(dots).collect()
            }
        }
    }

    /// The beginning of a line that was read earlier.
    pub(crate) fn of_line(origin: Origin, sources: &[Source]) -> SourceLocation {
        let source = sources.iter().find(|source| source.path == origin.file);
        let index = (origin.line as usize).saturating_sub(1);
        let line = source.and_then(|source| source.text.split(|byte| *byte == b'\n').nth(index));
        let source_line = String::from_utf8_lossy(line.unwrap_or_default())
            .trim_end()
            .to_owned();
        let indent = source_line.len() - source_line.trim_start().len();
        let column = u32::try_from(indent + 1).unwrap_or(1);
        SourceLocation {
            file: Some(origin.file),
            line: origin.line,
            column,
            source_line,
        }
    }

    /// The line made printable and cut to a readable length, and the blanks
    /// that put a caret under the column.
    fn excerpt(&self) -> (String, String) {
        let before_bytes = (self.column as usize).saturating_sub(1);
        // Before anything is cut, so that no end of a password is left.
        let source_line = masked(&self.source_line);
        let mut column_chars = self
            .source_line
            .char_indices()
            .take_while(|(at, _)| *at < before_bytes)
            .count();
        let mut chars: Vec<char> = source_line
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        if column_chars > SHOWN_LINE_CHARS / 2 {
            let cut = column_chars - SHOWN_LINE_CHARS / 2;
            chars.drain(..cut);
            column_chars -= cut;
        }
        chars.truncate(SHOWN_LINE_CHARS);
        (
            chars.into_iter().collect::<String>().trim_end().to_owned(),
            " ".repeat(column_chars),
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown_foo() -> Diagnostic {
        Diagnostic {
            level: LogLevel::Emerg,
            message: "unknown directive \"rot\"".into(),
            place: Some(SourceLocation {
                file: Some("/etc/nginx/nginx.conf".into()),
                line: 3,
                column: 5,
                source_line: "    rot /data;".into(),
            }),
            help: Some("did you mean \"root\"?".into()),
        }
    }

    #[test]
    fn prints_place_line_caret_and_help() {
        assert_eq!(
            unknown_foo().to_string(),
            "sealane: [emerg] unknown directive \"rot\" in /etc/nginx/nginx.conf:3\n\
             \x20       rot /data;\n\
             \x20       ^\n\
             did you mean \"root\"?"
        );
    }

    #[test]
    fn the_command_line_is_named() {
        let mut diagnostic = unknown_foo();
        if let Some(place) = &mut diagnostic.place {
            place.file = None;
        }
        assert_eq!(
            diagnostic.headline(),
            "unknown directive \"rot\" in command line"
        );
    }

    #[test]
    fn a_long_line_is_shown_around_the_place() {
        let shown = |line: &str, column: u32| {
            let place = SourceLocation {
                file: None,
                line: 1,
                column,
                source_line: line.to_owned(),
            };
            place.shown_line(20)
        };
        assert_eq!(shown("  root /data;", 3), "root /data;");
        assert_eq!(
            shown("abcdefghijklmnopqrstuvwxyz", 1),
            "abcdefghijklmnopq..."
        );
        assert_eq!(
            shown("abcdefghijklmnopqrstuvwxyz", 10),
            "...ghijklmnopqrst..."
        );
        assert_eq!(shown("abcdefghijklmnopqrstuvwxyz", 26), "...mnopqrstuvwxyz");
        assert_eq!(shown(&"é".repeat(50), 99).chars().count(), 17);
        assert_eq!(shown("\u{1b}[2J x;", 1), "\\x1B[2J x;");
    }

    #[test]
    fn long_and_strange_lines_are_cut_and_made_printable() {
        let mut diagnostic = unknown_foo();
        if let Some(place) = &mut diagnostic.place {
            place.source_line = format!("{}\t\u{1b}[31mfoo{}", "é".repeat(1000), "x".repeat(1000));
            place.column = 2007;
        }
        diagnostic.message = "unknown directive \"\u{1b}[2J\0\"".into();
        let text = diagnostic.to_string();
        assert!(!text.contains('\u{1b}'));
        assert!(text.contains("unknown directive \"\\x1B[2J\\x00\" in"));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].chars().count() <= SHOWN_LINE_CHARS + 4);
        let caret = lines[2].chars().count() - 1;
        assert_eq!(
            lines[1].chars().skip(caret).take(3).collect::<String>(),
            "foo"
        );
    }
}
