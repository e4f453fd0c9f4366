//! echo-nginx-module.

use super::{Arity, LOCATION, LOCATION_IF, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{ContentHandler, EchoStep, Part, Template};
use crate::{template, values};

const CONTEXTS: super::Contexts = LOCATION | LOCATION_IF;
const ANY: Arity = Arity::AtLeast(0);
const NONE: Arity = Arity::Between(0, 0);

pub(super) const MODULE: Module = Module {
    title: "HTTP: texts from the configuration (echo)",
    doc: "As echo-nginx-module: a location answers with texts, one after the other, or puts them \
          around what another handler answers. Arguments may contain variables.",
    rows: &[
        Row::new(
            "echo",
            CONTEXTS,
            ANY,
            "",
            "Answers with the arguments, separated by spaces, and a line end; `-n` leaves the line \
             end out, `--` ends options.",
            |b, c| {
                let text = text(b, c)?;
                step(b, EchoStep::Text(text))
            },
        )
        .own(),
        Row::new(
            "echo_duplicate",
            CONTEXTS,
            Arity::Between(2, 2),
            "",
            "Answers with the second argument as many times as the first says, such as `1_000`.",
            |b, c| {
                let count: Vec<u8> = c
                    .arg(1)
                    .iter()
                    .copied()
                    .filter(|byte| *byte != b'_')
                    .collect();
                let count = values::number(&count).ok_or_else(|| c.invalid(1))?;
                let text = template::compile(&mut b.names, c.arg(2), 2, &c.origin)?;
                step(b, EchoStep::Repeat(count, text))
            },
        )
        .own(),
        Row::new(
            "echo_sleep",
            CONTEXTS,
            ONE,
            "",
            "Waits that many seconds, such as `1.5`, before it goes on; what precedes it is sent.",
            |b, c| {
                let seconds = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
                step(b, EchoStep::Sleep(seconds))
            },
        )
        .own(),
        Row::new(
            "echo_flush",
            CONTEXTS,
            NONE,
            "",
            "Sends what precedes it before it goes on.",
            |b, _| step(b, EchoStep::Flush),
        )
        .own(),
        Row::new(
            "echo_reset_timer",
            CONTEXTS,
            NONE,
            "",
            "`$echo_timer_elapsed` counts from here on.",
            |b, _| step(b, EchoStep::ResetTimer),
        )
        .own(),
        Row::new(
            "echo_read_request_body",
            CONTEXTS,
            NONE,
            "",
            "Reads the request body, for `$echo_request_body` and `echo_request_body`. It is read \
             before anything is answered.",
            |b, _| step(b, EchoStep::ReadRequestBody),
        )
        .own(),
        Row::new(
            "echo_request_body",
            CONTEXTS,
            NONE,
            "",
            "Answers with the request body, if it was read.",
            |b, _| step(b, EchoStep::RequestBody),
        )
        .own(),
        Row::new(
            "echo_location",
            CONTEXTS,
            Arity::Between(1, 2),
            "",
            LOCATIONS,
            |b, c| {
                let (uri, args) = target(b, c)?;
                step(b, EchoStep::Location(uri, args))
            },
        )
        .own(),
        Row::new(
            "echo_location_async",
            CONTEXTS,
            Arity::Between(1, 2),
            "",
            "The same as `echo_location`: whatever comes first, what is answered is in order.",
            |b, c| {
                let (uri, args) = target(b, c)?;
                step(b, EchoStep::Location(uri, args))
            },
        )
        .own(),
        Row::new(
            "echo_exec",
            CONTEXTS,
            Arity::Between(1, 2),
            "",
            "Leaves the answer to another location, by its URI, or its name (`@name`), and \
             arguments. Only what answers nothing, such as `echo_sleep`, may stand before it; what \
             stands behind it is not done.",
            |b, c| {
                let (uri, args) = target(b, c)?;
                let steps = b.location_ref().echo.steps.as_deref().unwrap_or_default();
                let is_silent = |step: &EchoStep| {
                    matches!(
                        step,
                        EchoStep::Sleep(_) | EchoStep::ResetTimer | EchoStep::ReadRequestBody
                    )
                };
                if !steps.iter().all(is_silent) {
                    let help = "what stands before it has begun to answer";
                    return Err(c.refuse("comes too late").help(help));
                }
                step(b, EchoStep::Exec(uri, args))
            },
        )
        .own(),
        Row::new(
            "echo_status",
            CONTEXTS,
            ONE,
            "",
            "The status of what the other directives answer with; 200 without it.",
            |b, c| {
                c.once(&b.location_ref().echo.status)?;
                let status = values::number(c.arg(1));
                let status = status.and_then(|status| u16::try_from(status).ok());
                let status = status.filter(|status| (200..600).contains(status));
                b.location().echo.status = Some(status.ok_or_else(|| c.invalid(1))?);
                Ok(())
            },
        )
        .own(),
        Row::new(
            "echo_before_body",
            CONTEXTS,
            ANY,
            "",
            "Puts a text before the body of any response of the location. Several add up. Options \
             as with `echo`.",
            |b, c| {
                let text = text(b, c)?;
                let texts = &mut b.location().body_filters.texts;
                texts.echo_before.get_or_insert_default().push(text);
                Ok(())
            },
        )
        .own(),
        Row::new(
            "echo_after_body",
            CONTEXTS,
            ANY,
            "",
            "The same behind the body.",
            |b, c| {
                let text = text(b, c)?;
                let texts = &mut b.location().body_filters.texts;
                texts.echo_after.get_or_insert_default().push(text);
                Ok(())
            },
        )
        .own(),
    ],
};

const LOCATIONS: &str = "Answers with what another location does, as a subrequest with GET: its \
                         URI, and arguments unless they are behind a `?` in it.";

/// A URI and arguments.
fn target(b: &mut Build<'_>, c: &Call<'_>) -> Result<(Template, Template), Fault> {
    let uri = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    let args = template::compile(&mut b.names, c.arg(2), 2, &c.origin)?;
    Ok((uri, args))
}

fn step(b: &mut Build<'_>, step: EchoStep) -> Result<(), Fault> {
    let location = b.location();
    location.content_handler = Some(ContentHandler::Echo);
    location.echo.steps.get_or_insert_default().push(step);
    Ok(())
}

/// The arguments as `echo` writes them.
fn text(b: &mut Build<'_>, c: &Call<'_>) -> Result<Template, Fault> {
    let mut line_end = true;
    let mut first = 1;
    while first <= c.count() {
        match c.arg(first) {
            b"-n" => line_end = false,
            b"--" => {
                first += 1;
                break;
            }
            option @ [b'-', _, ..] if !option.contains(&b'$') => {
                let what = format!("has an invalid option: \"{}\"", c.shown(first));
                return Err(c.refuse_arg(first, &what));
            }
            _ => break,
        }
        first += 1;
    }
    let mut parts = Vec::new();
    for (word, argument) in c.args().skip(first - 1) {
        let lead: &[u8] = if word == first { b"" } else { b" " };
        let argument = [lead, argument].concat();
        let argument = template::compile(&mut b.names, &argument, word, &c.origin)?;
        append(&mut parts, &argument);
    }
    if line_end {
        append(&mut parts, &Template::literal("\n"));
    }
    Ok(Template::new(parts))
}

/// Appends to a template; literals become one.
fn append(parts: &mut Vec<Part>, more: &Template) {
    for part in more.parts() {
        match (parts.last_mut(), part) {
            (Some(Part::Literal(last)), Part::Literal(more)) => {
                *last = [&**last, &**more].concat().into();
            }
            _ => parts.push(part.clone()),
        }
    }
}
