//! The command line, parsed letter by letter like nginx's.

use clap::error::ErrorKind;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::ExitCode;

/// What the command line asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// `-v`, `-V`, `-?` or `-h`.
    pub(crate) show_version: bool,
    /// `-?` or `-h`.
    pub(crate) show_help: bool,
    /// `-V`.
    pub(crate) show_build: bool,
    /// `-t` or `-T`.
    pub(crate) test: bool,
    /// `-T`.
    pub(crate) dump: bool,
    /// `-q`.
    pub(crate) quiet: bool,
    /// `-s`.
    pub(crate) signal: Option<Order>,
    /// `-p`.
    pub(crate) prefix: Option<PathBuf>,
    /// `-e`.
    pub(crate) error_log: Option<PathBuf>,
    /// `-c`.
    pub(crate) conf_file: Option<PathBuf>,
    /// `-g`.
    pub(crate) globals: Option<OsString>,
}

/// What `-s` tells the running master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Stop now.
    Stop,
    /// Stop when everything under way is finished.
    Quit,
    /// Open the logs again.
    Reopen,
    /// Read the configuration again.
    Reload,
}

/// A command line that nginx would not take, in nginx's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArgumentError {
    /// Something that is not an option.
    NotAnOption(OsString),
    /// A letter that means nothing.
    UnknownLetter(u8),
    /// `-s` with an unknown word.
    UnknownOrder(OsString),
    /// An option without its value: the letter, and what is missing.
    MissingValue(char, &'static str),
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgumentError::NotAnOption(text) => {
                write!(f, "invalid option: \"{}\"", text.display())
            }
            ArgumentError::UnknownLetter(letter) => {
                write!(f, "invalid option: \"{}\"", letter.escape_ascii())
            }
            ArgumentError::UnknownOrder(word) => {
                write!(f, "invalid option: \"-s {}\"", word.display())
            }
            ArgumentError::MissingValue(letter, what) => {
                write!(f, "option \"-{letter}\" requires {what}")
            }
        }
    }
}

/// What the command line takes besides commands, for the manual page and the completions of
/// shells. `manual.rs` checks that no letter is missing.
#[cfg(test)]
pub(crate) fn describe() -> clap::Command {
    use clap::{Arg, ArgAction, ValueHint};
    let flag = |letter: char, help: &'static str| {
        let arg = Arg::new(help).short(letter);
        arg.help(help).action(ArgAction::SetTrue)
    };
    let value = |letter: char, name: &'static str, help: &'static str| {
        let arg = Arg::new(help).short(letter);
        arg.help(help).value_name(name)
    };
    let signals = ["stop", "quit", "reopen", "reload"];
    clap::Command::new("sealane")
        .about("HTTPS server that takes nginx.conf as it is")
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .args([
            flag('h', "Show help and exit")
                .visible_short_alias('?')
                .long("help"),
            flag('v', "Show the version and exit").long("version"),
            flag(
                'V',
                "Show the version and how it was built, with its paths, and exit",
            ),
            flag('t', "Test the configuration and exit"),
            flag(
                'T',
                "Test the configuration, print all of its files and exit",
            ),
            flag('q', "With -t: say nothing but errors"),
            value('s', "signal", "Send a signal to the running master process")
                .value_parser(signals),
            value('p', "prefix", "Read everything below this directory")
                .value_hint(ValueHint::DirPath),
            value(
                'e',
                "filename",
                "Error log until the configuration names one, or stderr",
            )
            .value_hint(ValueHint::FilePath),
            value('c', "filename", "Configuration file").value_hint(ValueHint::FilePath),
            value(
                'g',
                "directives",
                "Directives of the main context, each with its semicolon",
            ),
        ])
}

impl Arguments {
    /// Parses arguments, without the program's name. Letters may be
    /// combined (`-tqc file`); a value may follow its letter directly (`-cfile`).
    pub(crate) fn parse(arguments: &[OsString]) -> Result<Arguments, ArgumentError> {
        let mut parsed = Arguments::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let Some(mut letters) = argument.as_bytes().strip_prefix(b"-") else {
                return Err(ArgumentError::NotAnOption(argument.clone()));
            };
            while let [letter, after @ ..] = letters {
                letters = after;
                if parsed.set_flag(*letter) {
                    continue;
                }
                let missing = missing_value(*letter)?;
                let value = match letters {
                    [] => rest.next().cloned().ok_or(missing)?,
                    attached => OsString::from_vec(attached.to_vec()),
                };
                parsed.set_value(*letter, value)?;
                break;
            }
        }
        Ok(parsed)
    }

    /// Sets an option that takes no value; false when the letter is none.
    fn set_flag(&mut self, letter: u8) -> bool {
        match letter {
            b'?' | b'h' => (self.show_version, self.show_help) = (true, true),
            b'v' => self.show_version = true,
            b'V' => (self.show_version, self.show_build) = (true, true),
            b't' => self.test = true,
            b'T' => (self.test, self.dump) = (true, true),
            b'q' => self.quiet = true,
            _ => return false,
        }
        true
    }

    fn set_value(&mut self, letter: u8, value: OsString) -> Result<(), ArgumentError> {
        match letter {
            b'p' => self.prefix = Some(value.into()),
            b'e' => self.error_log = Some(value.into()),
            b'c' => self.conf_file = Some(value.into()),
            b'g' => self.globals = Some(value),
            _ => self.signal = Some(Order::parse(&value)?),
        }
        Ok(())
    }
}

/// The arguments of a subcommand that has some of its own, the first being its name. What clap has
/// to say is printed, help to stdout and mistakes to stderr.
///
/// # Errors
/// The exit status to end with: 0 after help, `mistaken` after a mistake.
pub(crate) fn arguments_of_subcommand<T: clap::Parser>(
    arguments: &[OsString],
    mistaken: u8,
) -> Result<T, ExitCode> {
    T::try_parse_from(arguments).map_err(|error| {
        let _ = error.print();
        match error.kind() {
            ErrorKind::DisplayHelp => ExitCode::SUCCESS,
            _ => ExitCode::from(mistaken),
        }
    })
}

/// The error for an option whose value is missing; for an unknown letter, an
/// error at once.
fn missing_value(letter: u8) -> Result<ArgumentError, ArgumentError> {
    let what = match letter {
        b'p' => "directory name",
        b'e' | b'c' => "file name",
        b'g' | b's' => "parameter",
        unknown => return Err(ArgumentError::UnknownLetter(unknown)),
    };
    Ok(ArgumentError::MissingValue(letter.into(), what))
}

impl Order {
    fn parse(word: &OsStr) -> Result<Order, ArgumentError> {
        match word.as_bytes() {
            b"stop" => Ok(Order::Stop),
            b"quit" => Ok(Order::Quit),
            b"reopen" => Ok(Order::Reopen),
            b"reload" => Ok(Order::Reload),
            _ => Err(ArgumentError::UnknownOrder(word.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Arguments::parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn letters_stand_together_and_values_may_be_attached() {
        let parsed = parse("-tqc /a.conf -p/srv -g daemon -s quit").expect("valid");
        assert!(parsed.test && parsed.quiet && !parsed.dump);
        assert_eq!(parsed.conf_file, Some("/a.conf".into()));
        assert_eq!(parsed.prefix, Some("/srv".into()));
        assert_eq!(parsed.globals, Some("daemon".into()));
        assert_eq!(parsed.signal, Some(Order::Quit));
    }

    #[test]
    fn dump_tests_and_help_shows_the_version() {
        let parsed = parse("-T").expect("valid");
        assert!(parsed.test && parsed.dump);
        let parsed = parse("-?").expect("valid");
        assert!(parsed.show_version && parsed.show_help && !parsed.show_build);
        let parsed = parse("-Vt").expect("valid");
        assert!(parsed.show_version && parsed.show_build && parsed.test);
    }

    #[test]
    fn mistakes_are_named_in_nginx_s_words() {
        for (line, message) in [
            ("start", "invalid option: \"start\""),
            ("-x", "invalid option: \"x\""),
            ("-tx", "invalid option: \"x\""),
            ("-t --help", "invalid option: \"-\""),
            ("-s", "option \"-s\" requires parameter"),
            ("-g", "option \"-g\" requires parameter"),
            ("-c", "option \"-c\" requires file name"),
            ("-e", "option \"-e\" requires file name"),
            ("-p", "option \"-p\" requires directory name"),
            ("-s restart", "invalid option: \"-s restart\""),
        ] {
            assert_eq!(parse(line), Err(message.to_owned()), "{line}");
        }
    }

    #[test]
    fn nothing_asks_for_nothing() {
        assert_eq!(parse(""), Ok(Arguments::default()));
        assert_eq!(parse("-"), Ok(Arguments::default()), "as nginx has it");
    }
}
