//! Tengine's ngx_http_user_agent_module.

use super::{HTTP, Module, ONE, Row};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault, shown};
use crate::lexer::Word;
use crate::lists::ListBlock;
use crate::model::{AgentVersion, Getter, Keyword, Origin, UserAgents};
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    title: "HTTP: user agents",
    doc: "A variable whose value depends on what `User-Agent` names, as in Tengine.",
    rows: &[Row::block(
        "user_agent",
        HTTP,
        ONE,
        "Defines a variable by names in `User-Agent` and their versions. Lines have the form \
         `NAME VERSION value`, where a version is `5.0` (exactly), `5.0+` (or newer), `5.0-` (or \
         older) or `5.0~6.9999` (from, to), or `NAME value` for any. The name that begins last in \
         the header counts; after `greedy NAME` one before it counts, if there is one. `default \
         value`, which must be given, is for all else; `include file` reads further lines. Names \
         are case-sensitive.",
        user_agent,
    )
    .own()],
};

/// A `user_agent` block that is open.
#[derive(Default)]
struct OpenUserAgent {
    name: String,
    default: Option<Box<[u8]>>,
    keywords: Vec<Keyword>,
}

fn user_agent(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let name = c.variable_name(1)?;
    let defined = b.names.define_as(name, Getter::Absent);
    defined.map_err(|fault| fault.at_word(1))?;
    b.opening = Some(Opening::List(Box::new(OpenUserAgent {
        name: name.to_owned(),
        ..OpenUserAgent::default()
    })));
    Ok(())
}

impl ListBlock for OpenUserAgent {
    fn line(&mut self, _: &mut Build<'_>, words: &[Word], _: &Origin) -> Result<(), Fault> {
        let words: Vec<&[u8]> = words.iter().map(|word| &word.bytes[..]).collect();
        match words[..] {
            [b"default", value] => match self.default.replace(value.into()) {
                None => Ok(()),
                Some(_) => Err(Fault::new("\"default\" is duplicate")),
            },
            [b"greedy", name] => {
                self.keyword(name)?.is_greedy = true;
                Ok(())
            }
            [name, value] => self.add(name, (AgentVersion::default(), AgentVersion::MAX), value),
            [name, written, value] => {
                let versions = versions(written).ok_or_else(|| {
                    let help = "it is \"5.0\", \"5.0+\", \"5.0-\" or \"5.0~6.9999\"";
                    Fault::new(format!("invalid version \"{}\"", shown(written))).help(help)
                })?;
                self.add(name, versions, value)
            }
            _ => Err(Fault::new("invalid number of the user_agent parameters")),
        }
    }

    fn includes(&self) -> bool {
        true
    }

    fn end(self: Box<Self>, b: &mut Build<'_>) -> Result<(), Fault> {
        let default = self.default.ok_or_else(|| Fault::new("no default value"))?;
        let mut agents = UserAgents {
            default,
            ..UserAgents::default()
        };
        for keyword in self.keywords {
            let first = keyword.text[0]; // none is empty
            agents.keywords.entry(first).or_default().push(keyword);
        }
        for keywords in agents.keywords.values_mut() {
            keywords.sort_by_key(|keyword| std::cmp::Reverse(keyword.text.len()));
        }
        let getter = Getter::UserAgent(Arc::new(agents));
        b.names.define_as(&self.name, getter).map(drop)
    }
}

impl OpenUserAgent {
    fn keyword(&mut self, name: &[u8]) -> Result<&mut Keyword, Fault> {
        if name.is_empty() {
            return Err(Fault::new("a name in \"user_agent\" is empty"));
        }
        let known = self.keywords.iter().position(|known| *known.text == *name);
        let at = known.unwrap_or_else(|| {
            self.keywords.push(Keyword {
                text: name.into(),
                ..Keyword::default()
            });
            self.keywords.len() - 1
        });
        Ok(&mut self.keywords[at])
    }

    fn add(
        &mut self,
        name: &[u8],
        (from, to): (AgentVersion, AgentVersion),
        value: &[u8],
    ) -> Result<(), Fault> {
        let keyword = self.keyword(name)?;
        let mut others = keyword.versions.iter();
        if others.any(|other| from <= other.1 && other.0 <= to) {
            let name = shown(name);
            return Err(Fault::new(format!(
                "versions of \"{name}\" are covered by an earlier line"
            )));
        }
        keyword.versions.push((from, to, value.into()));
        Ok(())
    }
}

/// From which version to which.
fn versions(written: &[u8]) -> Option<(AgentVersion, AgentVersion)> {
    let (version, rest) = AgentVersion::parse(written);
    if rest.len() == written.len() {
        return None;
    }
    match rest {
        b"" | b"=" => Some((version, version)),
        b"+" => Some((version, AgentVersion::MAX)),
        b"-" => Some((AgentVersion::default(), version)),
        [b'~', last @ ..] if last.first().is_some_and(u8::is_ascii_digit) => {
            let (last, rest) = AgentVersion::parse(last);
            (rest.is_empty() && version <= last).then_some((version, last))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::model::Getter;
    use crate::{MemoryLoader, Options};

    /// The value for a header with these lines, or what is wrong with them.
    fn value(lines: &str, user_agent: &str) -> Result<String, String> {
        let text = format!("events {{}} http {{ user_agent $browser {{ {lines} }} }}");
        let mut files = MemoryLoader::new().with("/conf", text);
        let parsed = crate::parse(&Options::new("/conf", "/prefix"), &mut files);
        let config = parsed.map_err(|refused| refused.error.message)?;
        let http = config.http.expect("there is one");
        let Getter::UserAgent(agents) = &http.variables[0].getter else {
            panic!("it is defined")
        };
        let value = agents.value(Some(user_agent.as_bytes()));
        Ok(String::from_utf8_lossy(value).into_owned())
    }

    #[test]
    fn browsers_are_told_apart() {
        let lines = "default unknown; greedy Safari; greedy Mozilla; Chrome 18.0+ chrome18;
            Chrome 17.0~17.9999 chrome17; Chrome 5.0- old; Firefox 5.0+ firefox; Safari any;
            Edg edge; MSIE 9.0 nine; Opera 12.00- opera; Op short;";
        let chrome = |version: &str| {
            format!("Mozilla/5.0 (X11) AppleWebKit/535.1 Chrome/{version} Safari/535.1")
        };
        for (user_agent, expected) in [
            (chrome("18.0"), "chrome18"),
            (chrome("140.0.0.0"), "chrome18"),
            (chrome("17.3.1"), "chrome17"),
            (chrome("4.1"), "old"),
            (chrome("16"), "unknown"),
            (chrome("140 Edg/3"), "edge"),
            // Greedy ones only if there is nothing else.
            ("Mozilla/5.0 Safari/535.1".into(), "unknown"),
            ("AppleWebKit Safari/535.1".into(), "any"),
            ("Firefox/6.0 Mozilla".into(), "firefox"),
            ("Mozilla/4.0 (compatible; MSIE 9.0; Windows)".into(), "nine"),
            ("MSIE 9.1".into(), "unknown"),
            ("Opera/9.80 (Windows NT 6.1)".into(), "opera"),
            ("Opus 1".into(), "short"),
            ("firefox/6.0".into(), "unknown"),
            (String::new(), "unknown"),
        ] {
            assert_eq!(
                value(lines, &user_agent).as_deref(),
                Ok(expected),
                "{user_agent}"
            );
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (lines, expected) in [
            ("", "no default value"),
            ("default 1; default 2;", "\"default\" is duplicate"),
            ("default 1; A 5x 1;", "invalid version \"5x\""),
            ("default 1; A + 1;", "invalid version \"+\""),
            ("default 1; A 5~ 1;", "invalid version \"5~\""),
            ("default 1; A 6~5 1;", "invalid version \"6~5\""),
            ("default 1; A 5~6~7 1;", "invalid version \"5~6~7\""),
            (
                "default 1; A 5~6 1; A 6+ 2;",
                "versions of \"A\" are covered by an earlier line",
            ),
            (
                "default 1; A 5 6 7;",
                "invalid number of the user_agent parameters",
            ),
        ] {
            let message = value(lines, "").expect_err(lines);
            assert!(message.starts_with(expected), "{lines}: {message}");
        }
    }
}
