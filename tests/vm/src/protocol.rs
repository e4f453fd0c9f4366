//! What the guest's driver and the host say to each other.
//!
//! The host speaks through the kernel's command line (`guest.NAME=VALUE`), the
//! guest through a serial port of its own, a line at a time: fields separated
//! by tabs, the last one escaped so that it may be any text.

use std::fmt;

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything held.
    Passed,
    /// Something did not.
    Failed,
    /// The guest lacks what the case needs.
    Skipped,
}

impl Verdict {
    const ALL: [(Verdict, &'static str); 3] = [
        (Verdict::Passed, "pass"),
        (Verdict::Failed, "fail"),
        (Verdict::Skipped, "skip"),
    ];

    fn word(self) -> &'static str {
        let found = Verdict::ALL.iter().find(|(verdict, _)| *verdict == self);
        found.expect("every verdict has a word").1
    }

    fn parse(word: &str) -> Option<Verdict> {
        let found = Verdict::ALL.iter().find(|(_, known)| *known == word);
        found.map(|(verdict, _)| *verdict)
    }
}

/// One line of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A case begins. One that never ends was running when the guest died.
    Started {
        /// The case.
        case: String,
    },
    /// A case ended.
    Ended {
        /// The case.
        case: String,
        /// How.
        verdict: Verdict,
        /// How long it took.
        duration_ms: u64,
        /// Why it failed or was skipped, and what the server logged; what it measured.
        detail: String,
    },
    /// The driver ran every case that it was asked for.
    Finished,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Started { case } => write!(f, "start\t{case}"),
            Message::Ended {
                case,
                verdict,
                duration_ms,
                detail,
            } => write!(
                f,
                "end\t{case}\t{}\t{duration_ms}\t{}",
                verdict.word(),
                detail.escape_default()
            ),
            Message::Finished => write!(f, "finished"),
        }
    }
}

impl Message {
    /// Reads what `Display` wrote; `None` for anything else.
    pub fn parse(line: &str) -> Option<Message> {
        let fields: Vec<&str> = line.trim_end_matches(['\r', '\n']).split('\t').collect();
        match fields[..] {
            ["start", case] => Some(Message::Started {
                case: case.to_owned(),
            }),
            ["end", case, verdict, duration_ms, detail] => Some(Message::Ended {
                case: case.to_owned(),
                verdict: Verdict::parse(verdict)?,
                duration_ms: duration_ms.parse().ok()?,
                detail: unescape(detail)?,
            }),
            ["finished"] => Some(Message::Finished),
            _ => None,
        }
    }
}

/// Undoes `str::escape_default`.
fn unescape(text: &str) -> Option<String> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            result.push(c);
            continue;
        }
        result.push(match rest.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'u' => {
                let digits: String = rest.by_ref().take_while(|&c| c != '}').skip(1).collect();
                char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
            }
            literal => literal,
        });
    }
    Some(result)
}

/// What the host asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Everything, not only the core part.
    pub everything: bool,
    /// The counts of a soak.
    pub long: bool,
    /// Only cases whose names contain this.
    pub filter: Option<String>,
}

impl Request {
    /// The words for the kernel's command line.
    pub fn command_line(&self) -> String {
        let mut words = format!(
            "guest.everything={} guest.long={}",
            u8::from(self.everything),
            u8::from(self.long)
        );
        if let Some(filter) = &self.filter {
            words.push_str(" guest.filter=");
            words.push_str(filter);
        }
        words
    }

    /// Reads `/proc/cmdline`.
    pub fn parse(command_line: &str) -> Request {
        let value = |name: &str| {
            command_line
                .split_whitespace()
                .filter_map(|word| word.strip_prefix("guest.")?.split_once('='))
                .find(|(found, _)| *found == name)
                .map(|(_, value)| value.to_owned())
        };
        Request {
            everything: value("everything").is_some_and(|value| value == "1"),
            long: value("long").is_some_and(|value| value == "1"),
            filter: value("filter"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_serial_line() {
        let all = [
            Message::Started {
                case: "a::b".into(),
            },
            Message::Ended {
                case: "a::b".into(),
                verdict: Verdict::Failed,
                duration_ms: 1234,
                detail: "left: \"x\\y\"\n\tright: 'ü' \u{1f512}\r\n\0".into(),
            },
            Message::Finished,
        ];
        for message in all {
            let line = message.to_string();
            assert!(line.is_ascii() && !line.contains('\n'), "{line}");
            assert_eq!(Message::parse(&format!("{line}\r\n")), Some(message));
        }
    }

    #[test]
    fn noise_of_a_console_is_no_message() {
        for noise in [
            "",
            "[    0.1] tls: ok",
            "end\ta\tmaybe\t1\t",
            "end\ta\tpass",
        ] {
            assert_eq!(Message::parse(noise), None, "{noise}");
        }
    }

    #[test]
    fn requests_survive_the_command_line() {
        let request = Request {
            everything: true,
            long: false,
            filter: Some("keyupdate".into()),
        };
        let line = format!("console=ttyS0 {} panic=-1\n", request.command_line());
        assert_eq!(Request::parse(&line), request);
        assert_eq!(Request::parse("quiet"), Request::default());
    }
}
