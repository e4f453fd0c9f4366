//! The rewrite module: `rewrite`, `if`, `set`, `break` and `return`, step by step
//! (nginx's `ngx_http_script.c`).

mod functions;

pub(crate) use functions::Rotation;

use crate::exchange::Exchange;
use crate::handlers::path::FilePath;
use crate::handlers::{Outcome, returns, symlinks, try_files};
use crate::open_file_cache::Errno;
use crate::request_log::{Text, log_request};
use crate::snapshot::LocationId;
use crate::{template, variables};
use sealane_conf::model::Variable;
use sealane_conf::model::{
    Compute, Condition, FileTest, Op, Part, Rewrite, RewriteThen, Script, Template,
};
use sealane_conf::regex::Regex;
use sealane_http::StatusCode;
use sealane_http::uri::{EscapeKind, escape_into};
use sealane_io::disk;
use sealane_sys::file::{self, Kind};
use std::ffi::CString;

/// What a request keeps for the rewrite module.
#[derive(Clone, Copy, Default)]
pub(crate) struct RewriteState {
    /// `rewrite ... break` has changed the URI: it is no longer that of the location.
    pub(crate) uri_left_location: bool,
    /// An `if` has matched that passes the request on. As in nginx it is to be passed on even if
    /// another `if` matches after it, which does not say where.
    pub(crate) passes: bool,
}

/// How a script has ended.
pub(crate) struct Ran {
    /// [`Outcome::Declined`] when nothing was answered.
    pub(crate) outcome: Outcome,
    /// The URI has changed, and needs a location.
    pub(crate) uri_changed: bool,
}

/// Runs the script of a server or a location. `blocks` are the locations that have the settings of
/// its `if`s.
pub(crate) async fn run(exchange: &mut Exchange, script: &Script, blocks: &[LocationId]) -> Ran {
    let mut engine = Engine {
        // nginx escapes captures until the first rewrite, and in redirects.
        escapes: true,
        // The setting of an `if` comes too late for its own steps.
        logs: exchange.conf().rewrite_log,
        uri_changed: false,
    };
    let outcome = match engine.steps(exchange, script, blocks).await {
        Ok(()) => Outcome::Declined,
        Err(outcome) => outcome,
    };
    Ran {
        outcome,
        uri_changed: engine.uri_changed,
    }
}

struct Engine {
    escapes: bool,
    logs: bool,
    uri_changed: bool,
}

/// `Err` leaves the script, with a response or a status.
type ScriptResult<T> = Result<T, Outcome>;

const FAILED: Outcome = Outcome::Status(StatusCode::INTERNAL_SERVER_ERROR);

impl Engine {
    async fn steps(
        &mut self,
        exchange: &mut Exchange,
        script: &Script,
        blocks: &[LocationId],
    ) -> ScriptResult<()> {
        let mut at = 0;
        while let Some(op) = script.ops.get(at) {
            at += 1;
            match op {
                Op::Set(set) => {
                    let value = self.evaluate(exchange, &set.value, self.escapes);
                    variables::assign(exchange, &set.variable, value);
                }
                Op::Compute(compute) => self.compute(exchange, compute)?,
                Op::If(condition) => {
                    if !self.holds(exchange, &condition.condition).await? {
                        at += condition.inside;
                    } else if let Some(block) = condition.block {
                        remember_pass(exchange);
                        exchange.location = blocks[block];
                    }
                }
                Op::Rewrite(rewrite) => {
                    if self.matches(exchange, &rewrite.regex, None)?
                        && self.rewrite(exchange, rewrite)?
                    {
                        return Ok(());
                    }
                }
                Op::Break => {
                    if std::mem::take(&mut self.uri_changed) {
                        exchange.features.rewrite.uri_left_location = true;
                    }
                    return Ok(());
                }
                Op::Return(answer) => return Err(returns::answer(exchange, answer)),
            }
        }
        Ok(())
    }

    /// Sets a variable to the value of a function.
    fn compute(&mut self, exchange: &mut Exchange, compute: &Compute) -> ScriptResult<()> {
        let arguments = compute.arguments.iter();
        let arguments: Vec<Vec<u8>> = arguments
            .map(|argument| self.evaluate(exchange, argument, self.escapes))
            .collect();
        let rotation = &exchange.snapshot.location(exchange.location).rotation;
        match functions::value(compute.function, &arguments, rotation) {
            Ok(value) => {
                variables::assign(exchange, &compute.variable, value);
                Ok(())
            }
            Err(why) => {
                let name = compute.name;
                log_request!(exchange, Error, "{name}: {why}");
                Err(FAILED)
            }
        }
    }

    /// Changes the URI after its expression has matched. Returns whether that was the last step.
    fn rewrite(&mut self, exchange: &mut Exchange, rewrite: &Rewrite) -> ScriptResult<bool> {
        let request = &mut exchange.request;
        request.internal = true;
        request.uri_replaced = true;
        self.uri_changed = rewrite.then != RewriteThen::Break;
        if rewrite.then == RewriteThen::Break {
            exchange.features.rewrite.uri_left_location = true;
        }
        if let RewriteThen::Redirect(status) = rewrite.then {
            return Err(self.redirect(exchange, rewrite, StatusCode(status)));
        }
        let path = self.evaluate(exchange, &rewrite.path, false);
        let own_args = rewrite.args.as_ref();
        let own_args = own_args.map(|args| self.evaluate(exchange, args, true));
        self.escapes = false;
        let request = &mut exchange.request;
        match own_args {
            Some(mut args) => {
                if rewrite.keeps_args && !request.args().is_empty() {
                    args.push(b'&');
                    args.extend_from_slice(request.args());
                }
                request.args = Some(args);
            }
            None if rewrite.keeps_args => {}
            // There are still arguments, which are empty.
            None => request.args.iter_mut().for_each(Vec::clear),
        }
        request.uri = path;
        if self.logs {
            let (uri, args) = (Text(&exchange.request.uri), Text(exchange.request.args()));
            log_request!(
                exchange,
                Notice,
                "rewritten data: \"{uri}\", args: \"{args}\""
            );
        }
        if exchange.request.uri.is_empty() {
            log_request!(exchange, Error, "the rewritten URI has a zero length");
            return Err(FAILED);
        }
        Ok(rewrite.then != RewriteThen::Next)
    }

    fn redirect(
        &mut self,
        exchange: &mut Exchange,
        rewrite: &Rewrite,
        status: StatusCode,
    ) -> Outcome {
        let target = self.evaluate(exchange, &rewrite.path, true);
        let mut location = unescape_redirect(&target);
        if rewrite.keeps_args && !exchange.request.args().is_empty() {
            location.push(if rewrite.has_args { b'&' } else { b'?' });
            location.extend_from_slice(exchange.request.args());
        }
        if self.logs {
            let target = Text(&location);
            log_request!(exchange, Notice, "rewritten redirect: \"{target}\"");
        }
        exchange.response.location = Some(location);
        Outcome::Status(status)
    }

    /// Whether an expression matches the URI, or a text. Its groups are `$1` and so on from then
    /// on; there are none if it does not match.
    fn matches(
        &mut self,
        exchange: &mut Exchange,
        regex: &Regex,
        text: Option<&[u8]>,
    ) -> ScriptResult<bool> {
        let subject = text.unwrap_or(&exchange.request.uri);
        let pattern = regex.pattern();
        let matched = match regex.captures(subject) {
            Ok(Some(found)) => {
                exchange.request.values.store(regex, found, subject);
                true
            }
            Ok(None) => false,
            Err(reason) => {
                let subject = Text(subject);
                log_request!(
                    exchange,
                    Alert,
                    "\"{pattern}\" could not be matched against \"{subject}\": {reason}; \
                     use an expression that backtracks less"
                );
                return Err(FAILED);
            }
        };
        if self.logs {
            let how = if matched { "matches" } else { "does not match" };
            let subject = Text(subject);
            log_request!(exchange, Notice, "\"{pattern}\" {how} \"{subject}\"");
        }
        if !matched {
            exchange.request.values.forget_groups();
        }
        Ok(matched)
    }

    async fn holds(
        &mut self,
        exchange: &mut Exchange,
        condition: &Condition,
    ) -> ScriptResult<bool> {
        let value = |exchange: &Exchange, variable: &Variable| {
            let mut value = Vec::new();
            variables::append(exchange, variable, &mut value);
            value
        };
        Ok(match condition {
            Condition::IsTrue(variable) => !matches!(&value(exchange, variable)[..], b"" | b"0"),
            Condition::Equals(variable, other) => {
                value(exchange, variable) == self.evaluate(exchange, other, self.escapes)
            }
            Condition::Differs(variable, other) => {
                value(exchange, variable) != self.evaluate(exchange, other, self.escapes)
            }
            Condition::Matches {
                variable,
                regex,
                negated,
            } => {
                let text = value(exchange, variable);
                self.matches(exchange, regex, Some(&text))? != *negated
            }
            Condition::File {
                path,
                test,
                negated,
            } => {
                let path = self.evaluate(exchange, path, self.escapes);
                Box::pin(is_file(exchange, &path, *test)).await != *negated
            }
        })
    }

    /// The value of a template. As in nginx, captures are escaped in some contexts if the client
    /// has escaped something in its URI.
    fn evaluate(&self, exchange: &Exchange, template: &Template, escapes: bool) -> Vec<u8> {
        if !escapes || !has_escapes(exchange) {
            return template::evaluate(template, exchange).into_owned();
        }
        let mut out = Vec::new();
        let mut group = Vec::new();
        for part in template.parts() {
            match part {
                Part::Literal(text) => out.extend_from_slice(text),
                Part::Variable(Variable::Capture(number)) => {
                    group.clear();
                    exchange.request.values.append_group(*number, &mut group);
                    escape_into(&mut out, &group, EscapeKind::Args);
                }
                Part::Variable(variable) => {
                    variables::append(exchange, variable, &mut out);
                }
            }
        }
        out
    }
}

/// Remembers whether a location that is left for an `if` passes the request on.
fn remember_pass(exchange: &mut Exchange) {
    let location = exchange.snapshot.location(exchange.location);
    exchange.features.rewrite.passes |= location.pass.is_some();
}

/// Whether the client's path contains escapes.
fn has_escapes(exchange: &Exchange) -> bool {
    let head = &exchange.request.head;
    let target = head.path.of(&exchange.request.buffer);
    let path = target.split(|byte| *byte == b'?').next();
    memchr::memchr2(b'%', b'+', path.unwrap_or_default()).is_some()
}

/// The target of a redirect as nginx sends it: without unnecessary escapes up to the first question
/// mark.
fn unescape_redirect(target: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut out = Vec::with_capacity(target.len());
    let mut at = 0;
    while let Some(&byte) = target.get(at) {
        at += 1;
        if byte == b'?' {
            out.push(byte);
            break;
        }
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let Some(high) = digit(target.get(at)) else {
            // The percent sign is lost if no digit follows.
            out.extend(target.get(at));
            at += 1;
            continue;
        };
        let low = digit(target.get(at + 1));
        let Some(low) = low else {
            at += 2;
            continue;
        };
        let decoded = (high * 16 + low) as u8; // two digits make a byte
        at += 2;
        match decoded {
            b'?' => {
                out.push(decoded);
                break;
            }
            b'&'..=b'~' => out.push(decoded),
            _ => out.extend_from_slice(&target[at - 3..at]),
        }
    }
    out.extend_from_slice(target.get(at..).unwrap_or_default());
    out
}

/// `-f`, `-d`, `-e` and `-x`.
async fn is_file(exchange: &Exchange, path: &[u8], test: FileTest) -> bool {
    const OWNER_EXECUTES: u32 = 0o100;
    // A name with a NUL inside is not the name of a file.
    let Ok(name) = CString::new(path) else {
        return false;
    };
    let kind = match test {
        FileTest::Executable if exchange.conf().disable_symlinks.is_none() => Ok(Kind::File),
        _ => try_files::kind_of(exchange, &FilePath::absolute(path)).await,
    };
    let answer = match (kind, test) {
        (Err(errno), _) => Err(errno),
        (_, FileTest::Executable) => disk::run(move || file::stat_path(&name))
            .await
            .map(|stat| stat.mode & OWNER_EXECUTES != 0)
            .map_err(|error| Errno::of(&error)),
        (Ok(kind), FileTest::File) => Ok(kind == Kind::File),
        (Ok(kind), FileTest::Directory) => Ok(kind == Kind::Dir),
        (Ok(kind), FileTest::Any) => Ok(kind != Kind::Other),
    };
    answer.unwrap_or_else(|errno| {
        if !errno.is_not_found() {
            let (call, path) = (symlinks::call(exchange, "stat()"), Text(path));
            log_request!(exchange, Crit, "{call} \"{path}\" failed ({errno})");
        }
        false
    })
}
