//! The manual page and the completions of a program, in `packaging/`, derived from its command line
//! by a test: what the program takes and they lack is a failure.

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use std::io;
use std::path::{Path, PathBuf};

/// The text of a manual page that its command line does not have.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Of the manual: 1 for programs, 8 for those of the administrator.
    pub section: &'static str,
    /// The paragraphs behind the synopsis, in roff.
    pub description: &'static str,
    /// The sections behind the options, in roff.
    pub rest: &'static str,
}

/// Where the shells look for completions, below `packaging/completions`.
const SHELLS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "", ".bash"),
    (Shell::Zsh, "_", ""),
    (Shell::Fish, "", ".fish"),
];

/// The files of a program, relative to `packaging/`, with their content.
///
/// # Errors
/// Never for what is written to memory.
pub fn files(command: &Command, page: &Page) -> io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let name = command.get_name().to_owned();
    let manual = format!("man/{name}.{}", page.section);
    let mut files = vec![(manual.into(), roff(command, page)?)];
    for (shell, before, after) in SHELLS {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), &name, &mut text);
        files.push((format!("completions/{before}{name}{after}").into(), text));
    }
    Ok(files)
}

/// Compares the files in `packaging/` with those of this command line, or writes them with
/// `UPDATE_DOCS` in the environment.
///
/// # Panics
/// When a file differs.
pub fn check(command: &Command, page: &Page) {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    for (name, text) in files(command, page).expect("memory can be written to") {
        let path = packaging.join(&name);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &text).expect("packaging/ can be written");
        }
        let written = std::fs::read(&path).unwrap_or_default();
        assert!(
            written == text,
            "packaging/{} is stale: the command line has changed; run scripts/generate-docs.sh",
            name.display()
        );
    }
}

/// One page for the program and all of its commands.
fn roff(command: &Command, page: &Page) -> io::Result<Vec<u8>> {
    let man = |command: &Command| {
        let man = Man::new(command.clone()).section(page.section);
        // No date and no version: the page is the same until the command line changes.
        man.date("").source("Sealane").manual("Sealane")
    };
    let whole = man(command);
    let mut text = Vec::new();
    whole.render_title(&mut text)?;
    whole.render_name_section(&mut text)?;
    let mut synopsis = Vec::new();
    whole.render_synopsis_section(&mut synopsis)?;
    text.extend_from_slice(with_values(command, synopsis)?.as_bytes());
    text.extend_from_slice(b".SH DESCRIPTION\n");
    text.extend_from_slice(page.description.as_bytes());
    whole.render_options_section(&mut text)?;
    if command.has_subcommands() {
        text.extend_from_slice(b".SH COMMANDS\n");
    }
    for subcommand in command.get_subcommands() {
        let one = man(subcommand);
        let mut about = Vec::new();
        one.render_synopsis_section(&mut about)?;
        let mut about = with_values(subcommand, about)?.into_bytes();
        one.render_options_section(&mut about)?;
        let about = String::from_utf8(about).map_err(io::Error::other)?;
        // Parts of this section instead of sections.
        let about = about
            .replace(".SH SYNOPSIS\n", "")
            .replace(".SH OPTIONS\n", "");
        let name = subcommand.get_name();
        let what = subcommand.get_about().map(ToString::to_string);
        let what = what.unwrap_or_default();
        text.extend_from_slice(format!(".SS {name}\n{what}.\n.PP\n{about}").as_bytes());
    }
    text.extend_from_slice(page.rest.as_bytes());
    Ok(text)
}

/// A synopsis in which options with a letter only have their values; what makes it leaves them out.
fn with_values(command: &Command, synopsis: Vec<u8>) -> io::Result<String> {
    let mut synopsis = String::from_utf8(synopsis).map_err(io::Error::other)?;
    for arg in command.get_arguments() {
        let Some(letter) = arg.get_short().filter(|_| arg.get_long().is_none()) else {
            continue;
        };
        let values = match arg.get_action().takes_values() {
            false => None,
            true => Some(arg.get_value_names().unwrap_or_default()),
        };
        let values = values.map(|names| {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            format!(" \\fI{}\\fR", names.join(" "))
        });
        let written = format!("\\fB\\-{letter} \\fR");
        let better = format!("\\fB\\-{letter}\\fR{}", values.unwrap_or_default());
        synopsis = synopsis.replace(&written, &better);
    }
    Ok(synopsis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn every_option_and_command_is_in_every_file() {
        let sub = Command::new("polish")
            .about("Makes it shine")
            .arg(Arg::new("wax").long("wax"));
        let command = Command::new("buffer")
            .arg(Arg::new("x").short('x').value_name("file"))
            .arg(Arg::new("y").short('y').action(clap::ArgAction::SetTrue))
            .subcommand(sub);
        let page = Page {
            section: "1",
            description: "Words.\n",
            rest: ".SH FILES\nNone.\n",
        };
        let files = files(&command, &page).expect("memory");
        assert_eq!(files.len(), 4);
        for (name, text) in files {
            let text = String::from_utf8(text).expect("text").replace('\\', "");
            for word in ["buffer", "polish", "wax", "x", "y"] {
                assert!(text.contains(word), "{word} in {}:\n{text}", name.display());
            }
            if name.starts_with("man") {
                assert!(text.contains("[fB-xfR fIfilefR] [fB-yfR]"), "{text}");
            }
        }
    }
}
