//! ngx_http_rewrite_module: `return`; the rest is refused.

use super::{Arity, Check, HTTP, LOCATION, LOCATION_IF, Module, ONE, Row, SERVER, SERVER_IF};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::Return;
use crate::template;
use crate::values;

pub(super) const MODULE: Module = Module {
    title: "HTTP: rewrite",
    doc: "Fixed answers. Rewriting and conditions are not supported yet.",
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
        "Answers at once: `code`, `code text`, `code URL` for 301, 302, 303, 307 and 308, or a URL \
         alone for 302. 444 closes the connection without an answer. May contain variables.",
        returns,
    ),
    Row::unsupported(
        "rewrite",
        REWRITE,
        Arity::Between(2, 3),
        "URIs cannot be rewritten yet; `return 301 URL` and `try_files` cover many uses",
    ),
    Row::unsupported(
        "break",
        REWRITE,
        Arity::Between(0, 0),
        "there is no rewriting to break off",
    ),
    Row::unsupported(
        "set",
        REWRITE,
        Arity::Between(2, 2),
        "variables of one's own are not supported yet",
    ),
    Row::unsupported_block(
        "if",
        SERVER | LOCATION,
        Arity::AtLeast(1),
        "conditions are not supported yet; a `location`, a second `server` or `try_files` covers \
         many uses",
    ),
    Row::meaningless(
        "rewrite_log",
        HTTP | REWRITE,
        ONE,
        Check::Flag,
        "There is no rewriting to log.",
    ),
    Row::meaningless(
        "uninitialized_variable_warn",
        HTTP | REWRITE,
        ONE,
        Check::Flag,
        "There are no variables that `set` could have left out.",
    ),
];

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
    // The first of several lines answers.
    let slot = if b.in_server() {
        &mut b.server().returns
    } else {
        &mut b.location().returns
    };
    slot.get_or_insert(Return { code, text });
    Ok(())
}
