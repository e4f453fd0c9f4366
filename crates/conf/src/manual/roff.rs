//! The manual page sealane.conf(5): the same rows in roff.

use super::{arity, contexts, lack};
use crate::directives::{ELSEWHERE, MODULES, Module, Row};
use crate::variables;
use std::fmt::Write;

const BEGIN: &str = r#".ie \n(.g .ds Aq \(aq
.el .ds Aq '
.TH sealane.conf 5 "" "Sealane" "Sealane"
.SH NAME
sealane.conf \- the configuration of sealane(8): nginx.conf and more
.SH DESCRIPTION
The file is
.I /etc/sealane/nginx.conf
where it was installed by a package;
.B sealane \-V
shows which one is read, and
.B sealane \-t
tests it. Its language is nginx's: a directive is a name with arguments and ends with a semicolon,
or is followed by a block in braces, in which other directives are. What is not written on an inner
level is inherited from the outer one. Text from # to the end of the line is a comment. Arguments
with spaces, semicolons or braces are put in quotes, and $name in an argument stands for the value
of a variable where the directive says so.
.PP
.nf
    events { }
    http {
        server {
            listen 443 ssl;
            server_name example.com;
            ssl_certificate /etc/ssl/certs/example.com.pem;
            ssl_certificate_key /etc/ssl/private/example.com.key;
            location / {
                proxy_pass http://127.0.0.1:3000;
            }
        }
    }
.fi
.PP
A size is a number with k or m (and g for file sizes). A time is a number with ms, s, m, h, d, w, M
or y, or several of them from large to small (1h30m). "Sealane" marks directives that are not
nginx's.
"#;

const END: &str = ".SH SEE ALSO\n.BR sealane (8)\n";

/// The text of the page.
pub fn render() -> String {
    let mut page = String::from(BEGIN);
    write_page(&mut page).expect("writing to a string does not fail");
    page.push_str(END);
    page
}

fn write_page(page: &mut String) -> std::fmt::Result {
    for module in MODULES {
        write_module(page, module)?;
    }
    writeln!(
        page,
        ".SH OTHER MODULES\nRefused by name; what to use instead:"
    )?;
    for module in ELSEWHERE {
        let names = module.names.join(", ");
        writeln!(page, ".TP\n.B {}", word(module.module))?;
        writeln!(page, "{}\n.br\n{}", text(&names), sentence(module.instead))?;
    }
    writeln!(page, ".SH VARIABLES")?;
    for (name, _, doc) in variables::BUILTINS {
        writeln!(page, ".TP\n.B ${}\n{}", word(name), sentence(doc))?;
    }
    for (prefix, doc) in variables::PREFIXES {
        writeln!(page, ".TP\n.BI ${} name\n{}", word(prefix), sentence(doc))?;
    }
    writeln!(
        page,
        ".SH VARIABLES OF STREAM\nA stream block has those about the two ends of a \
         connection, TLS, time, process and upstream servers, and these:"
    )?;
    for (name, _, doc) in variables::STREAM_VARIABLES {
        writeln!(page, ".TP\n.B ${}\n{}", word(name), sentence(doc))?;
    }
    Ok(())
}

fn write_module(page: &mut String, module: &Module) -> std::fmt::Result {
    let title = module.title.to_uppercase();
    writeln!(page, ".SH {}\n{}", text(&title), text(module.doc))?;
    module.rows.iter().try_for_each(|row| write_row(page, row))
}

fn write_row(page: &mut String, row: &Row) -> std::fmt::Result {
    writeln!(page, ".TP\n.B {}", word(row.name))?;
    let own = if row.own { "Sealane. " } else { "" };
    if let Some((state, why)) = lack(row) {
        return writeln!(page, "{own}({state}) {}", text(&why));
    }
    writeln!(page, "{own}{}", text(row.doc))?;
    if !row.default.is_empty() {
        let default = format!("{} {};", row.name, row.default);
        writeln!(page, ".br\nDefault: {}", word(&default))?;
    }
    let block = match row.support.is_block() {
        true => ", then a block",
        false => "",
    };
    let (arguments, contexts) = (arity(row.arity), contexts(row.contexts));
    writeln!(
        page,
        ".br\nArguments: {arguments}{block}. In: {}",
        text(&contexts)
    )
}

/// Text in which nothing is marked up, such as a name.
pub(super) fn word(text: &str) -> String {
    text.replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\*(Aq")
}

/// Text with the marks of Markdown: what is in backticks becomes bold, of a link its text is left.
fn text(marked: &str) -> String {
    let mut out = String::new();
    for (number, part) in unlinked(marked).split('`').enumerate() {
        match number % 2 {
            0 => out.push_str(&part.replace('\\', "\\e").replace("**", "")),
            _ => write!(out, "\\fB{}\\fR", word(part)).expect("a string"),
        }
    }
    let lines = out.lines().filter(|line| !line.trim().is_empty());
    // A line that begins with one of these would be a request.
    let lines = lines.map(|line| match line.trim_start() {
        line if line.starts_with(['.', '\'']) => format!("\\&{line}"),
        line => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The same with an upper-case letter in front and a full stop behind.
fn sentence(marked: &str) -> String {
    let upper = super::upper_case_first(marked);
    format!("{}.", text(upper.trim_end_matches('.')))
}

/// `[text](address)` becomes the text.
fn unlinked(marked: &str) -> String {
    let mut out = String::new();
    let mut rest = marked;
    while let Some((before, behind)) = rest.split_once("](") {
        let Some((address, after)) = behind.split_once(')') else {
            break;
        };
        match before.rsplit_once('[') {
            Some((before, text)) => {
                out.push_str(before);
                out.push_str(text);
            }
            None => {
                out.push_str(before);
                out.push_str("](");
                out.push_str(address);
                out.push(')');
            }
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_fonts_and_nothing_becomes_a_request() {
        for (marked, roff) in [
            ("a `b-c` d", "a \\fBb\\-c\\fR d"),
            ("see [the page](x.md) and [b](c)", "see the page and b"),
            (".x\n'y", "\\&.x\n\\&'y"),
            ("a \\ b", "a \\e b"),
            ("one\n\ntwo", "one\ntwo"),
        ] {
            assert_eq!(text(marked), roff, "{marked}");
        }
        assert_eq!(word("a-'b"), "a\\-\\*(Aqb");
    }

    #[test]
    fn the_page_in_packaging_is_current() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../packaging/man/sealane.conf.5"
        );
        let rendered = render();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &rendered).expect("packaging/ can be written");
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == rendered,
            "packaging/man/sealane.conf.5 is stale: run scripts/generate-docs.sh"
        );
    }
}
