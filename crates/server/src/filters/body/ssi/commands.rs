//! The commands of server-side includes.

use super::super::head;
use super::parser::{MAX_PARAMS, SsiCommand};
use super::values::{self, Full, SharedIncludes, evaluate};
use super::{Conditional, Encoding, Included, PageState, Purpose, Queued, Setting, complain};
use crate::exchange::{ContentType, Exchange};
use crate::handlers::special::Stub;
use crate::proxying::safe_uri;
use crate::request_log::{Text, log_request};
use crate::subrequest::IncludedAnswer;
use bytes::Bytes;
use sealane_conf::regex::Regex;
use sealane_http::escape;
use sealane_http::uri::{EscapeKind, escape_into};
use sealane_io::chain::OutputChain;

/// Why a command was not carried out, which has been logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// The error message for readers takes its place.
    Command,
}

/// What a command adds to the body, and whether parsing waits until that is complete.
type Put = Option<(Queued, bool)>;

type Param<'c> = Option<&'c [u8]>;

/// A command: its name, its parameters (`!`: required), and where it is allowed.
struct KnownCommand {
    name: &'static str,
    params: &'static [&'static str],
    required: usize,
    within: Conditional,
    is_block: bool,
}

const fn known(
    name: &'static str,
    params: &'static [&'static str],
    required: usize,
) -> KnownCommand {
    KnownCommand {
        name,
        params,
        required,
        within: Conditional::No,
        is_block: false,
    }
}

/// The first `required` parameters are mandatory.
const KNOWN: &[KnownCommand] = &[
    known("include", &["virtual", "file", "wait", "set", "stub"], 0),
    known("echo", &["var", "default", "encoding"], 1),
    known("config", &["errmsg", "timefmt"], 0),
    known("set", &["var", "value"], 2),
    known("if", &["expr"], 1),
    KnownCommand {
        within: Conditional::If,
        ..known("elif", &["expr"], 1)
    },
    KnownCommand {
        within: Conditional::If,
        ..known("else", &[], 0)
    },
    KnownCommand {
        within: Conditional::Else,
        ..known("endif", &[], 0)
    },
    known("block", &["name"], 1),
    KnownCommand {
        is_block: true,
        ..known("endblock", &[], 0)
    },
];

impl PageState {
    /// Carries out a command.
    ///
    /// # Errors
    /// See [`Failed`].
    pub(super) fn run(
        &mut self,
        exchange: &mut Exchange,
        command: &SsiCommand,
    ) -> Result<Put, Failed> {
        let name = Text(&command.name);
        let find = |known: &&KnownCommand| known.name.as_bytes() == command.name;
        let Some(known) = KNOWN.iter().find(find) else {
            if !self.is_shown {
                return Ok(None);
            }
            complain(exchange, format_args!("invalid SSI command: \"{name}\""));
            return Err(Failed::Command);
        };
        if !self.is_shown && !known.is_block {
            if self.in_block {
                let written = written(command);
                keep(exchange, |shared| shared.add_to_block(&written))?;
                return Ok(None);
            }
            if known.within == Conditional::No {
                return Ok(None);
            }
        }
        let is_outside = self.conditional == Conditional::No || self.conditional > known.within;
        if known.within != Conditional::No && is_outside {
            complain(
                exchange,
                format_args!("invalid context of SSI command: \"{name}\""),
            );
            return Err(Failed::Command);
        }
        let params = params(exchange, known, command)?;
        match known.name {
            "include" => self.include(exchange, &params),
            "echo" => self.echo(exchange, &params),
            "config" => {
                if let Some(message) = params[0] {
                    self.error_message = message.to_vec();
                }
                if let Some(format) = params[1] {
                    exchange.features.ssi.time_format = Some(format.into());
                }
                Ok(None)
            }
            "set" => {
                let value = evaluate(exchange, params[1].unwrap_or_default(), false)?;
                let name = params[0].unwrap_or_default().to_ascii_lowercase();
                keep(exchange, |shared| shared.set(&name, value))?;
                Ok(None)
            }
            "if" if self.conditional != Conditional::No => {
                complain(
                    exchange,
                    format_args!("the \"if\" command inside the \"if\" command"),
                );
                Err(Failed::Command)
            }
            "if" | "elif" => {
                if self.is_chosen {
                    self.is_shown = false;
                    return Ok(None);
                }
                let holds = self.holds(exchange, params[0].unwrap_or_default())?;
                (self.is_shown, self.is_chosen) = (holds, holds);
                self.conditional = Conditional::If;
                Ok(None)
            }
            "else" => {
                self.is_shown = !self.is_chosen;
                self.conditional = Conditional::Else;
                Ok(None)
            }
            "endif" => {
                (self.is_shown, self.is_chosen) = (true, false);
                self.conditional = Conditional::No;
                Ok(None)
            }
            "block" => {
                let name = params[0].unwrap_or_default();
                // What follows is not shown, whether or not there is room for it.
                (self.is_shown, self.in_block) = (false, true);
                keep(exchange, |shared| shared.begin_block(name))?;
                Ok(None)
            }
            _ => {
                (self.is_shown, self.in_block) = (true, false);
                Ok(None)
            }
        }
    }

    fn include(&mut self, exchange: &mut Exchange, params: &[Param<'_>]) -> Result<Put, Failed> {
        let [uri, file, wait, set, stub] = params else {
            return Err(Failed::Command);
        };
        let refuse = |message: std::fmt::Arguments<'_>| {
            complain(exchange, format_args!("{message}"));
            Err(Failed::Command)
        };
        let path = match (uri, file) {
            (Some(uri), Some(file)) => {
                let (uri, file) = (Text(uri), Text(file));
                return refuse(format_args!(
                    "inclusion may be either virtual=\"{uri}\" or file=\"{file}\""
                ));
            }
            (None, None) => return refuse(format_args!("no parameter in \"include\" SSI command")),
            (Some(path), None) | (None, Some(path)) => *path,
        };
        if set.is_some() && stub.is_some() {
            return refuse(format_args!(
                "\"set\" and \"stub\" cannot be used together in \"include\" SSI command"
            ));
        }
        let waits = match wait {
            None => file.is_some() || set.is_some(),
            Some(_) if uri.is_none() => {
                let file = Text(path);
                return refuse(format_args!("\"wait\" cannot be used with file=\"{file}\""));
            }
            Some(word) if word.eq_ignore_ascii_case(b"no") => set.is_some(),
            Some(word) if word.eq_ignore_ascii_case(b"yes") => true,
            Some(word) => {
                let word = Text(word);
                return refuse(format_args!(
                    "invalid value \"{word}\" in the \"wait\" parameter"
                ));
            }
        };
        let target = evaluate(exchange, path, true)?;
        let Some((uri, args)) = safe_uri(&target) else {
            let target = Text(&target);
            complain(
                exchange,
                format_args!("unsafe URI \"{target}\" was detected"),
            );
            return Err(Failed::Command);
        };
        let purpose = match (stub, set) {
            (Some(stub), _) => match values::with(exchange, |shared| shared.block(stub)) {
                Some(block) => Purpose::Stub(block),
                None => {
                    let stub = Text(stub);
                    complain(
                        exchange,
                        format_args!("\"stub\"=\"{stub}\" for \"include\" not found"),
                    );
                    return Err(Failed::Command);
                }
            },
            (None, Some(set)) => Purpose::Set(Box::new(Setting {
                name: set.to_ascii_lowercase(),
                chain: OutputChain::new(),
                reading: None,
                text: Vec::new(),
            })),
            (None, None) => Purpose::Show,
        };
        let stub = match &purpose {
            Purpose::Stub(text) => Some(Stub {
                text: text.clone(),
                content_type: head::media_type(&exchange.response).and_then(ContentType::new),
            }),
            Purpose::Show | Purpose::Set(_) => None,
        };
        let answer = IncludedAnswer::ask_from(exchange, &uri, args.as_deref(), self.depth, stub);
        let answer = answer.ok_or(Failed::Command)?;
        let included = Included {
            answer,
            purpose,
            any: false,
        };
        Ok(Some((Queued::Answer(Box::new(included)), waits)))
    }

    fn echo(&mut self, exchange: &mut Exchange, params: &[Param<'_>]) -> Result<Put, Failed> {
        let name = params[0].unwrap_or_default().to_ascii_lowercase();
        let value = match values::lookup(exchange, &name)? {
            Some(value) => value,
            None => params[1].unwrap_or(b"(none)").to_vec(),
        };
        if value.is_empty() {
            return Ok(None);
        }
        match params[2] {
            None => {}
            Some(b"none") => self.encoding = Encoding::None,
            Some(b"url") => self.encoding = Encoding::Url,
            Some(b"entity") => self.encoding = Encoding::Entity,
            Some(other) => {
                let other = Text(other);
                complain(
                    exchange,
                    format_args!("unknown encoding \"{other}\" in the \"echo\" command"),
                );
            }
        }
        let mut text = Vec::with_capacity(value.len());
        match self.encoding {
            Encoding::None => text = value,
            Encoding::Url => escape_into(&mut text, &value, EscapeKind::Html),
            Encoding::Entity => escape::html_into(&mut text, &value),
        }
        Ok(Some((Queued::Text(Bytes::from(text)), false)))
    }

    /// Evaluates an expression: `$variable`, or two operands and `=` or `!=`.
    fn holds(&self, exchange: &mut Exchange, expression: &[u8]) -> Result<bool, Failed> {
        let is_left = |byte: &u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'$' | b'{' | b'}' | b'_' | b'"' | b'\'')
        };
        let left_bytes = expression.iter().take_while(|byte| is_left(byte)).count();
        let (left, rest) = expression.split_at(left_bytes);
        let left = evaluate(exchange, &left.to_ascii_lowercase(), false)?;
        let rest = without_spaces(rest);
        if rest.is_empty() {
            return Ok(!left.is_empty());
        }
        let (negative, right) = match rest {
            [b'=', right @ ..] => (false, right),
            [b'!', b'=', right @ ..] => (true, right),
            _ => return invalid(exchange, expression),
        };
        let is_same = match without_spaces(right) {
            [b'/', pattern @ .., b'/'] => self.matches(exchange, pattern, &left)?,
            [b'/', _, ..] => return invalid(exchange, expression),
            [b'\\', right @ ..] if right.starts_with(b"/") && right.len() > 1 => {
                evaluate(exchange, right, false)? == left
            }
            right => evaluate(exchange, right, false)? == left,
        };
        Ok(is_same != negative)
    }

    fn matches(
        &self,
        exchange: &mut Exchange,
        pattern: &[u8],
        subject: &[u8],
    ) -> Result<bool, Failed> {
        let pattern = evaluate(exchange, pattern, false)?;
        let mut names = Vec::new();
        let regex = std::str::from_utf8(&pattern).ok().map(|pattern| {
            Regex::new(pattern, false, |name| {
                names.push(name.to_ascii_lowercase().into_bytes());
                (names.len() - 1) as u16 // as many as groups
            })
        });
        let pattern = Text(&pattern);
        let regex = match regex {
            Some(Ok(regex)) => regex,
            Some(Err(error)) => {
                let reason = error.message;
                complain(
                    exchange,
                    format_args!("pcre2_compile() failed: {reason} in \"{pattern}\""),
                );
                return Err(Failed::Command);
            }
            None => {
                complain(exchange, format_args!("\"{pattern}\" is not UTF-8"));
                return Err(Failed::Command);
            }
        };
        match regex.captures(subject) {
            Ok(None) => Ok(false),
            Ok(Some(found)) => {
                keep(exchange, |shared| {
                    shared.capture(&regex, &names, &found, subject)
                })?;
                Ok(true)
            }
            Err(error) => {
                let reason = error.message;
                log_request!(
                    exchange,
                    Alert,
                    "\"{pattern}\" could not be matched: {reason}"
                );
                Err(Failed::Command)
            }
        }
    }
}

/// Stores something in the variables and blocks of the page.
///
/// # Errors
/// When there is no room for it.
pub(super) fn keep(
    exchange: &Exchange,
    put: impl FnOnce(&mut SharedIncludes) -> Result<(), Full>,
) -> Result<(), Failed> {
    values::with(exchange, put).map_err(|Full| {
        complain(
            exchange,
            format_args!("variables and blocks of SSI commands have more than 1 MiB"),
        );
        Failed::Command
    })
}

fn invalid(exchange: &Exchange, expression: &[u8]) -> Result<bool, Failed> {
    let expression = Text(expression);
    complain(
        exchange,
        format_args!("invalid expression in \"{expression}\""),
    );
    Err(Failed::Command)
}

fn without_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|byte| **byte == b' ').count();
    &text[spaces..]
}

/// The values of the known parameters.
fn params<'c>(
    exchange: &Exchange,
    known: &KnownCommand,
    command: &'c SsiCommand,
) -> Result<Vec<Param<'c>>, Failed> {
    let name = known.name;
    let refuse = |message: std::fmt::Arguments<'_>| {
        complain(exchange, format_args!("{message}"));
        Err(Failed::Command)
    };
    if command.params.len() > MAX_PARAMS {
        return refuse(format_args!("too many SSI command parameters: \"{name}\""));
    }
    let mut found = vec![None; known.params.len()];
    for (param, value) in &command.params {
        let shown = Text(param);
        let position = known.params.iter().position(|one| one.as_bytes() == param);
        let Some(position) = position else {
            return refuse(format_args!(
                "invalid parameter name: \"{shown}\" in \"{name}\" SSI command"
            ));
        };
        if found[position].replace(&value[..]).is_some() {
            return refuse(format_args!(
                "duplicate \"{shown}\" parameter in \"{name}\" SSI command"
            ));
        }
    }
    for (param, value) in known.params.iter().zip(&found).take(known.required) {
        if value.is_none() {
            return refuse(format_args!(
                "mandatory \"{param}\" parameter is absent in \"{name}\" SSI command"
            ));
        }
    }
    Ok(found)
}

/// A command as text, for a block.
fn written(command: &SsiCommand) -> Vec<u8> {
    let mut text = [b"<!--#", &command.name[..]].concat();
    for (param, value) in &command.params {
        text.extend_from_slice(&[b" ", &param[..], b"=\"", value, b"\""].concat());
    }
    text.extend_from_slice(b" -->");
    text
}
