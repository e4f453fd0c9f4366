//! ngx_http_rewrite_module.

use super::{Arity, HTTP, LOCATION, LOCATION_IF, Module, ONE, Row, SERVER, SERVER_IF};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault, shown};
use crate::model::{
    Condition, FileTest, Getter, Op, Part, Return, Rewrite, RewriteThen, SetVariable, Template,
    Variable,
};
use crate::template::{self, Settable};
use crate::values;

pub(super) const MODULE: Module = Module {
    title: "HTTP: rewrite",
    doc: "Changes URIs, evaluates conditions, sets variables and returns fixed responses. \
          Directives of the server level run before a location is selected, those of a location \
          after that.",
    rows: ROWS,
};

/// Where nginx allows most directives of the module.
const REWRITE: super::Contexts = SERVER | SERVER_IF | LOCATION | LOCATION_IF;

const ROWS: &[Row] = &[
    Row::new(
        "return",
        REWRITE,
        Arity::Between(1, 2),
        "",
        "Returns a response at once: `code`, `code text`, `code URL` for 301, 302, 303, 307 and \
         308, or a URL alone for 302. 444 closes the connection without a response. May contain \
         variables.",
        returns,
    ),
    Row::new(
        "rewrite",
        REWRITE,
        Arity::Between(2, 3),
        "",
        "Replaces a URI that matches the regular expression; the replacement may refer to its \
         captures as `$1` and so on. `last` searches for a location again, `break` stays in the \
         current one, `redirect` and `permanent` return 302 and 301. A replacement that begins \
         with `http://`, `https://` or `$scheme` is a redirect too. The request arguments are \
         appended unless the replacement ends with `?`.",
        rewrite,
    ),
    Row::new(
        "break",
        REWRITE,
        Arity::Between(0, 0),
        "",
        "Stops processing the current set of rewrite directives. The request stays in its \
         location.",
        |b, _| {
            b.script().push(Op::Break);
            Ok(())
        },
    ),
    Row::new(
        "set",
        REWRITE,
        Arity::Between(2, 2),
        "",
        "Sets a variable to a value, which may contain variables.",
        set,
    ),
    Row::block(
        "if",
        SERVER | LOCATION,
        Arity::AtLeast(1),
        "Executes the directives inside if a condition is true, and in a location applies the \
         settings inside. Conditions: `$variable` (neither empty nor `0`), `=`, `!=`, `~`, `~*`, \
         `!~`, `!~*`, `-f` (a file), `-d` (a directory), `-e` (either), `-x` (executable) and \
         `!-f`, `!-d`, `!-e`, `!-x`.",
        condition,
    ),
    Row::new(
        "rewrite_log",
        HTTP | REWRITE,
        ONE,
        "off",
        "Whether the results of rewrite directives are logged, at level `notice`.",
        |b, c| c.flag(&mut b.location().rewrite_log),
    ),
    Row::new(
        "uninitialized_variable_warn",
        HTTP | REWRITE,
        ONE,
        "on",
        "Whether a warning is logged when a variable is used before `set` has assigned it.",
        |b, c| c.flag(&mut b.location().uninitialized_variable_warn),
    ),
];

fn rewrite(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let written = c.arg(2);
    if written.is_empty() {
        return Err(Fault::at(2, "empty replacement"));
    }
    let regex = b.regex(c.text(1)?, false, 1)?;
    let (replacement, keeps_args) = match written {
        [replacement @ .., b'?'] => (replacement, false),
        _ => (written, true),
    };
    let schemes = [&b"http://"[..], b"https://", b"$scheme"];
    let absolute = schemes.iter().any(|begin| replacement.starts_with(begin));
    let then = match c.arg(3) {
        _ if c.count() == 2 && absolute => RewriteThen::Redirect(302),
        _ if c.count() == 2 => RewriteThen::Next,
        b"last" | b"break" if absolute => RewriteThen::Redirect(302),
        b"last" => RewriteThen::Last,
        b"break" => RewriteThen::Break,
        b"redirect" => RewriteThen::Redirect(302),
        b"permanent" => RewriteThen::Redirect(301),
        _ => return Err(c.invalid_parameter(3)),
    };
    let whole = template::compile(&mut b.names, replacement, 2, &c.origin)?;
    let (path, args) = split_args(&whole);
    let redirects = matches!(then, RewriteThen::Redirect(_));
    b.script().push(Op::Rewrite(Box::new(Rewrite {
        regex,
        has_args: args.is_some(),
        path: if redirects { whole } else { path },
        args: if redirects { None } else { args },
        keeps_args,
        then,
    })));
    Ok(())
}

/// A replacement taken apart at its first question mark.
fn split_args(whole: &Template) -> (Template, Option<Template>) {
    let parts = whole.parts();
    for (at, part) in parts.iter().enumerate() {
        let Part::Literal(text) = part else { continue };
        let Some(mark) = memchr::memchr(b'?', text) else {
            continue;
        };
        let literal = |text: &[u8]| (!text.is_empty()).then(|| Part::Literal(text.into()));
        let path = parts[..at].iter().cloned().chain(literal(&text[..mark]));
        let args = literal(&text[mark + 1..]).into_iter();
        let args = args.chain(parts[at + 1..].iter().cloned());
        return (
            Template::new(path.collect()),
            Some(Template::new(args.collect())),
        );
    }
    (whole.clone(), None)
}

fn set(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let set = assignment(b, c, Getter::Uninitialized)?;
    b.script().push(Op::Set(set));
    Ok(())
}

/// `$variable value` of `set` and its relatives; `getter` is what the variable has before.
pub(super) fn assignment(
    b: &mut Build<'_>,
    c: &Call<'_>,
    getter: Getter,
) -> Result<SetVariable, Fault> {
    let name = c.variable_name(1)?;
    let variable = match b.names.settable(name, getter) {
        Ok(Settable::User(index)) => Variable::User(index),
        Ok(Settable::Builtin(builtin)) => Variable::Builtin(builtin),
        Err(fault) => return Err(fault.at_word(1)),
    };
    let value = template::compile(&mut b.names, c.arg(2), 2, &c.origin)?;
    Ok(SetVariable { variable, value })
}

fn condition(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let invalid = |word: usize, text: &[u8]| {
        Fault::at(word, format!("invalid condition \"{}\"", shown(text)))
    };
    let (mut first, mut last) = (1, c.count());
    let Some(begin) = c.arg(1).strip_prefix(b"(") else {
        return Err(invalid(1, c.arg(1)));
    };
    if begin.is_empty() {
        first = 2;
    }
    // In `(x)` the parenthesis that opens is gone by now.
    let ends = if last == 1 { begin } else { c.arg(last) };
    let Some(end) = ends.strip_suffix(b")") else {
        return Err(invalid(last, ends));
    };
    if end.is_empty() {
        last -= 1;
    }
    let word = |index: usize| match index {
        1 if last == 1 => begin.strip_suffix(b")").unwrap_or(begin),
        1 => begin,
        _ if index == last && !end.is_empty() => end,
        _ => c.arg(index),
    };
    let head = word(first);
    let condition = match head {
        [b'$', name @ ..] if !name.is_empty() => {
            if first != last && first + 2 != last {
                return Err(invalid(first, head));
            }
            let name = c.utf8(first, name)?;
            let variable = b.names.variable(name, &c.origin)?;
            if first == last {
                Condition::IsTrue(variable)
            } else {
                comparison(b, c, variable, word(first + 1), (last, word(last)))?
            }
        }
        [b'-', test] | [b'!', b'-', test] => {
            let test = match test {
                b'f' => FileTest::File,
                b'd' => FileTest::Directory,
                b'e' => FileTest::Any,
                b'x' => FileTest::Executable,
                _ => return Err(invalid(first, head)),
            };
            if first + 1 != last {
                return Err(invalid(first, head));
            }
            Condition::File {
                path: template::compile(&mut b.names, word(last), last, &c.origin)?,
                test,
                negated: head[0] == b'!',
            }
        }
        _ => return Err(invalid(first, head)),
    };
    b.opening = Some(Opening::If(condition));
    Ok(())
}

/// `$variable operator value`.
fn comparison(
    b: &mut Build<'_>,
    c: &Call<'_>,
    variable: Variable,
    operator: &[u8],
    (at, value): (usize, &[u8]),
) -> Result<Condition, Fault> {
    let negated = operator.first() == Some(&b'!');
    Ok(match operator {
        b"=" => Condition::Equals(
            variable,
            template::compile(&mut b.names, value, at, &c.origin)?,
        ),
        b"!=" => Condition::Differs(
            variable,
            template::compile(&mut b.names, value, at, &c.origin)?,
        ),
        b"~" | b"!~" | b"~*" | b"!~*" => {
            let pattern = std::str::from_utf8(value)
                .map_err(|_| Fault::at(at, format!("invalid value \"{}\"", shown(value))))?;
            Condition::Matches {
                variable,
                regex: b.regex(pattern, operator.ends_with(b"*"), at)?,
                negated,
            }
        }
        _ => {
            let message = format!("unexpected \"{}\" in condition", shown(operator));
            return Err(Fault::new(message));
        }
    })
}

fn returns(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let first = c.arg(1);
    let invalid = || Fault::at(1, format!("invalid return code \"{}\"", c.shown(1)));
    let (code, text_word) = match values::number(first) {
        Some(code) => {
            let code = u16::try_from(code)
                .ok()
                .filter(|code| *code <= 999)
                .ok_or_else(invalid)?;
            (code, (c.count() == 2).then_some(2))
        }
        None => {
            let url = [&b"http://"[..], b"https://", b"$scheme"];
            if c.count() != 1 || !url.iter().any(|begin| first.starts_with(begin)) {
                return Err(invalid());
            }
            (302, Some(1))
        }
    };
    let text = match text_word {
        Some(word) => Some(template::compile(
            &mut b.names,
            c.arg(word),
            word,
            &c.origin,
        )?),
        None => None,
    };
    b.script().push(Op::Return(Return { code, text }));
    Ok(())
}
