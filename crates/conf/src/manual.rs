//! `docs/directives.md` and the manual page sealane.conf(5), derived from the directive table.

mod roff;

use crate::directives::{
    ANYWHERE, Arity, CONTEXT_NAMES, Contexts, ELSEWHERE, MODULES, Module, Row, Support,
};
use crate::variables;
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Directives

This page is generated from the directive table (`crates/conf/src/directives`); do not edit it.
`UPDATE_DOCS=1 cargo test -p sealane-conf` regenerates it.

Sealane reads `nginx.conf` as nginx does. Every directive of nginx (`http`, `stream`, `mail`) is in one of five states:

- **works**: it does what nginx's documentation says, except where a note says otherwise;
- **later**: accepted with one warning; it only affects performance, and has no effect yet;
- **no effect**: accepted silently, because it configures something that Sealane does not have;
- **obsolete**: accepted with a warning, as in nginx;
- **refused**: an error, because ignoring it would change responses or allow access that it denies.
  A value that disables the directive is accepted where the table lists it.

Any other name is unknown, which is an error too. The last table lists directives of other modules.
Directives marked *Sealane* are not nginx's.

A size is a number with `k` or `m` (and `g` for file sizes). A time is a number with `ms`, `s`, `m`,
`h`, `d`, `w`, `M`, `y`, or several of them from large to small (`1h30m`).
";

pub use roff::render as render_roff;

/// The text of `docs/directives.md`.
pub fn render() -> String {
    let mut page = String::from(INTRODUCTION);
    for module in MODULES {
        render_module(&mut page, module).expect("writing to a string does not fail");
    }
    render_elsewhere(&mut page).expect("writing to a string does not fail");
    render_variables(&mut page).expect("writing to a string does not fail");
    page
}

fn render_module(page: &mut String, module: &Module) -> std::fmt::Result {
    writeln!(page, "\n## {}\n\n{}", module.title, module.doc)?;
    let works = |row: &&Row| matches!(row.support, Support::Implemented(_) | Support::Block(_));
    for row in module.rows.iter().filter(works) {
        render_working(page, row)?;
    }
    let others: Vec<&Row> = module.rows.iter().filter(|row| !works(row)).collect();
    if others.is_empty() {
        return Ok(());
    }
    writeln!(
        page,
        "\n| directive | contexts | state | why |\n|---|---|---|---|"
    )?;
    for row in others {
        let Some((state, why)) = lack(row) else {
            continue;
        };
        let own = if row.own { " (*Sealane*)" } else { "" };
        let (name, contexts) = (row.name, contexts(row.contexts));
        writeln!(page, "| `{name}`{own} | {contexts} | {state} | {why} |")?;
    }
    Ok(())
}

/// In which state a directive is that does not work, and why.
fn lack(row: &Row) -> Option<(&'static str, String)> {
    let (state, why) = match row.support {
        Support::Implemented(_) | Support::Block(_) => return None,
        Support::Meaningless(_, why) => ("no effect", why.to_owned()),
        Support::Obsolete(Some(instead)) => ("obsolete", format!("Use `{instead}`")),
        Support::Obsolete(None) => ("obsolete", "Removed by nginx without replacement".into()),
        Support::Later(_, why) => ("later", why.to_owned()),
        Support::Unsupported(why) => ("refused", why.to_owned()),
    };
    let inert = if row.inert.is_empty() {
        String::new()
    } else {
        let values: Vec<String> = row.inert.iter().map(|value| format!("`{value}`")).collect();
        format!(" Accepted: {}.", values.join(", "))
    };
    Some((state, format!("{}.{inert}", why.trim_end_matches('.'))))
}

fn render_working(page: &mut String, row: &Row) -> std::fmt::Result {
    let own = if row.own { " (*Sealane*)" } else { "" };
    writeln!(page, "\n### {}{own}\n\n{}\n", row.name, row.doc)?;
    if !row.default.is_empty() {
        writeln!(page, "- Default: `{} {};`", row.name, row.default)?;
    }
    let block = if row.support.is_block() {
        ", then a block"
    } else {
        ""
    };
    writeln!(page, "- Arguments: {}{block}", arity(row.arity))?;
    writeln!(page, "- Contexts: {}", contexts(row.contexts))
}

fn render_elsewhere(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Modules that are not nginx's HTTP server\n\nRefused by name, with an alternative; \
         `*` matches any characters.\n\n| module | directives | alternative |\n|---|---|---|"
    )?;
    for module in ELSEWHERE {
        let names: Vec<String> = module
            .names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let (names, instead) = (names.join(", "), upper_case_first(module.instead));
        writeln!(page, "| {} | {names} | {instead}. |", module.module)?;
    }
    Ok(())
}

fn upper_case_first(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

fn render_variables(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Variables\n\nA variable that has no value is empty in a header line and `-` in a log \
         line.\n\n| variable | value |\n|---|---|"
    )?;
    for (name, _, doc) in variables::BUILTINS {
        writeln!(page, "| `${name}` | {doc} |")?;
    }
    for (prefix, doc) in variables::PREFIXES {
        writeln!(page, "| `${prefix}`*name* | {doc} |")?;
    }
    writeln!(
        page,
        "| `$1` to `$9` | groups of the last regular expression that matched |"
    )?;
    writeln!(
        page,
        "| `$`*name* | a named group of a regular expression |"
    )?;
    variables_of_stream(page)
}

/// The variables that a `stream` block has.
fn variables_of_stream(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n### Variables of `stream`\n\nA `stream` block has variables of its own. Some mean the same \
         as those above, as do groups of regular expressions and `$proxy_protocol_tlv_`*name*: \
         {}.\n\nThe others are:\n\n| variable | value |\n|---|---|",
        shared_variables().join(", ")
    )?;
    for (name, _, doc) in variables::STREAM_VARIABLES {
        writeln!(page, "| `${name}` | {doc} |")?;
    }
    Ok(())
}

/// Variables that mean the same in `http` and `stream`.
fn shared_variables() -> Vec<String> {
    let all = variables::BUILTINS.iter();
    let shared = all.filter(|(_, builtin, _)| variables::is_shared_with_stream(*builtin));
    shared.map(|(name, ..)| format!("`${name}`")).collect()
}

fn arity(arity: Arity) -> String {
    match arity {
        Arity::Between(0, 0) => "none".into(),
        Arity::Between(low, high) if low == high => low.to_string(),
        Arity::Between(low, high) if high == low + 1 => format!("{low} or {high}"),
        Arity::Between(low, high) => format!("{low} to {high}"),
        Arity::AtLeast(low) => format!("{low} or more"),
    }
}

fn contexts(set: Contexts) -> String {
    if set == ANYWHERE {
        return "everywhere".into();
    }
    let names = CONTEXT_NAMES
        .iter()
        .filter(|(context, _)| set & context != 0);
    names.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_page_in_docs_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/directives.md");
        let rendered = render();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &rendered).expect("docs/ can be written");
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == rendered,
            "docs/directives.md is stale: run `UPDATE_DOCS=1 cargo test -p sealane-conf`"
        );
    }

    #[test]
    fn the_manual_page_has_every_directive_and_variable() {
        let page = render_roff();
        for row in crate::directives::rows() {
            let head = format!("\n.B {}\n", roff::word(row.name));
            assert!(page.contains(&head), "{}", row.name);
        }
        for (name, _, _) in variables::BUILTINS {
            let head = format!("\n.B ${}\n", roff::word(name));
            assert!(page.contains(&head), "{name}");
        }
    }

    #[test]
    fn every_directive_is_on_the_page() {
        let page = render();
        for row in crate::directives::rows() {
            let works = page.contains(&format!("\n### {}", row.name));
            assert!(
                works || page.contains(&format!("\n| `{}`", row.name)),
                "{}",
                row.name
            );
        }
    }
}
